import os
from types import SimpleNamespace, TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
    final,
    overload,
)

__version__: str

_Path = Union[str, bytes, "os.PathLike[Any]"]

class Error(Exception):
    status: Optional[str]
    offset: Optional[int]

class CorruptError(Error): ...
class NotFoundError(Error, KeyError): ...
class InvalidArgumentError(Error, ValueError): ...
class ReadError(Error, OSError): ...

@final
class Array:
    @property
    def shape(self) -> Tuple[int, ...]: ...
    @property
    def dtype(self) -> Literal["int16", "float16", "float32", "int64"]: ...
    def numpy(self) -> Any: ...
    def tolist(self) -> List[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Union[int, slice], /) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

@final
class Utterance:
    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def document(self) -> str: ...
    @property
    def extras(self) -> Dict[str, Any]: ...
    @property
    def speaker(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def split(self) -> str: ...
    @property
    def sample_rate_hz(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def duration(self) -> float: ...
    @property
    def skipped(self) -> bool: ...
    def audio(self, dtype: Literal["int16", "float32"] = "int16") -> Array: ...

_Condition = Union[str, Callable[[Utterance], object]]

class Selection(Sequence[Utterance]):
    def __init__(self, dataset: "Dataset", positions: Sequence[int]) -> None: ...
    @property
    def dataset(self) -> "Dataset": ...
    @property
    def positions(self) -> List[int]: ...
    def filter(self, condition: _Condition) -> "Selection": ...
    def to_arrow(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int) -> Utterance: ...
    @overload
    def __getitem__(self, key: slice) -> "Selection": ...

class Dataset:
    def __new__(cls, path: _Path) -> "Dataset": ...
    def filter(self, condition: _Condition) -> Selection: ...
    def select(self, ids: Iterable[str]) -> Selection: ...
    def to_arrow(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    @property
    def info(self) -> Dict[str, Any]: ...
    @property
    def path(self) -> str: ...
    @property
    def served(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: Union[int, str], /) -> Utterance: ...
    @overload
    def __getitem__(self, key: slice, /) -> Selection: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __iter__(self) -> Iterator[Utterance]: ...
    def __enter__(self) -> "Dataset": ...
    def __exit__(
        self,
        type: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

@final
class Batch:
    @property
    def ids(self) -> List[str]: ...
    @property
    def texts(self) -> List[str]: ...
    @property
    def speakers(self) -> List[str]: ...
    @property
    def languages(self) -> List[str]: ...
    @property
    def domains(self) -> List[str]: ...
    @property
    def columns(self) -> Dict[str, List[Any]]: ...
    @property
    def lengths(self) -> Array: ...
    @property
    def frames(self) -> Array: ...
    @property
    def offsets(self) -> Array: ...
    @property
    def positions(self) -> Array: ...
    @property
    def starts(self) -> Array: ...
    @property
    def datasets(self) -> Array: ...
    @property
    def audio(self) -> Array: ...
    @property
    def features(self) -> Array: ...
    @property
    def sample_rate_hz(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def ready(self) -> Optional[int]: ...
    @property
    def empty(self) -> bool: ...
    @property
    def step_end(self) -> bool: ...
    def utterance(self, i: int, /) -> Array: ...
    def __len__(self) -> int: ...

@final
class Featgen:
    def __new__(cls, features: str = "kaldi-fbank") -> "Featgen": ...
    @property
    def features(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def sample_rate_hz(self) -> int: ...
    def compute(self, samples: Any, /) -> Array: ...

_Names = Union[None, str, Sequence[str]]
_Datasets = Union[_Path, Dataset, Sequence[Union[_Path, Dataset]]]

class Loader:
    def __init__(
        self,
        datasets: _Datasets,
        /,
        *,
        seed: Optional[int] = 0,
        rank: Optional[int] = 0,
        world_size: Optional[int] = 1,
        max_seconds: Optional[float] = None,
        max_padded_seconds: Optional[float] = None,
        max_utterances: Optional[int] = None,
        alpha: Optional[float] = 1.0,
        weights: Optional[Mapping[Union[str, Tuple[int, str]], float]] = None,
        unit: Optional[Literal["seconds", "utterances", "tokens"]] = "seconds",
        splits: _Names = None,
        domains: _Names = None,
        languages: _Names = None,
        min_duration: Optional[float] = None,
        max_duration: Optional[float] = None,
        max_per_speaker: Optional[int] = None,
        duplicates: Optional[Literal["all", "once"]] = "all",
        long: Optional[Literal["error", "drop", "split"]] = "error",
        output: Optional[Literal["int16", "float32", "features"]] = None,
        features: Optional[str] = None,
        feature_dtype: Optional[Literal["float32", "float16"]] = "float32",
        feature_padding: Optional[float] = 0.0,
        augment: Optional[str] = None,
        noise: Optional[_Datasets] = None,
        rooms: Optional[_Datasets] = None,
        sample_rate_hz: Optional[int] = None,
        channel: Union[None, int, Literal["mix", "all"]] = "mix",
        shuffle: Union[None, bool, int] = True,
        window: Optional[int] = 65536,
        virtual_world_size: Optional[int] = None,
        drop_last: Optional[bool] = False,
        threads: Optional[int] = None,
        slots: Optional[int] = None,
        memory_bytes: Optional[int] = None,
        engine: Optional[Literal["auto", "io_uring", "pread"]] = "auto",
        cached: Optional[bool] = None,
        on_error: Optional[Literal["fail", "skip", "substitute"]] = "fail",
        quarantine_max: Optional[int] = None,
        undecodable: Optional[Literal["skip", "fail"]] = "skip",
        cache_dir: Optional[_Path] = None,
        device: Optional[str] = "cpu",
        decode: Optional[Literal["host", "device"]] = "host",
        columns: _Names = None,
        log: Optional[Callable[[int, str], object]] = None,
    ) -> None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def plan(self) -> Dict[str, Any]: ...
    @property
    def stats(self) -> Dict[str, Any]: ...
    @property
    def bad_records(self) -> List[Dict[str, Any]]: ...
    def state_dict(self) -> Dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any], /) -> None: ...
    def seek(self, epoch: int, step: int = 0) -> None: ...
    def set_epoch(self, epoch: int, /) -> None: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __enter__(self) -> "Loader": ...
    def __exit__(
        self,
        type: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

# ---- the functions of the command ----

_Progress = Union[None, bool, Callable[[str, int, int], object]]
_Log = Optional[Callable[[int, str], object]]
_Paths = Union[_Path, Sequence[_Path]]
_Source = Union[_Path, Dataset]
_Sources = Union[_Source, Sequence[_Source]]
_Size = Union[None, int, str]
_Texts = Union[None, str, Sequence[str]]

class PackReport(SimpleNamespace):
    output: str
    dataset_id: str
    ok: bool
    already_packed: bool
    withheld: bool
    too_many_rejects: bool
    share: bool
    units: int
    units_packed: int
    units_taken_over: int
    units_left: int
    rows_in: int
    packed: int
    rejected: int
    merged: int
    excluded: int
    without_text: int
    duplicates: int
    shards: int
    source_bytes: int
    payload_bytes: int
    pcm_bytes: int
    audio_ms: int
    decoder_limit: int
    unverified: int
    kept_as_is: int
    resampled: int
    headers_trusted: int
    segments_clamped: int
    seconds: float
    min_seconds: float
    max_seconds: float
    percentiles: Dict[int, float]
    sources: List[Any]
    rejects: List[Any]
    domains: List[Any]
    splits: List[Any]
    audio: List[Any]
    warnings: List[str]

class DedupeReport(SimpleNamespace):
    plan: Optional[str]
    plan_hash: Optional[str]
    datasets: int
    utterances: int
    seconds: float
    undecodable: int
    keys: int
    key_bits: int
    contour_bits: int
    telephone_utterances: int
    is_limited: bool
    short_pairs: int
    candidates: int
    decoded: int
    dropped: int
    dropped_seconds: float
    dropped_bytes: int
    clusters_with_different_texts: int
    matches: List[Any]
    members: Dict[str, int]
    drop: Dict[str, Any]
    boilerplate: List[Any]
    clusters: Sequence[Any]

class CostEstimate(SimpleNamespace):
    train_seconds: float
    test_seconds: float
    fingerprint_seconds: float
    fingerprint_core_seconds: float
    fingerprint_bytes: int
    keys: int
    temporary_bytes: int

class PlanReport(SimpleNamespace):
    overlay: str
    datasets: int
    changed: int
    utterances: int

class AuditReport(SimpleNamespace):
    output: str
    ok: bool
    splits: List[Any]
    warnings: List[str]

class Explanation(SimpleNamespace):
    a: Any
    b: Any
    kind: str
    tier: str
    verdict: str
    may_drop: bool
    equal_bytes: bool
    equal_samples: bool
    equal_samples_trimmed: bool
    equal_samples_mono: bool
    pieces: int
    piece_seconds: float
    equal_texts: Optional[bool]
    similarity: Optional[float]
    text_profile: str
    gain_db: Optional[float]
    matches: List[Any]
    closest: Any
    checks: List[Any]

class VerifyReport(SimpleNamespace):
    dataset: str
    ok: bool
    files: int
    bytes: int
    blocks: int
    recordings: int
    utterances: int
    damaged: int
    direct: bool
    engine: str
    damage: List[Any]
    leftovers: List[str]

class TrainReport(SimpleNamespace):
    run: str
    steps: int
    epochs: int
    utterances: int
    loss: float
    wer: float
    cer: float
    frame_error: float

class Vocabulary(SimpleNamespace):
    path: str
    symbols: int

class FeaturesReport(SimpleNamespace):
    dataset: str

def pack(
    corpora: _Paths,
    output: _Path,
    *,
    layout: Optional[str] = None,
    codec: Optional[Literal["keep", "flac", "pcm"]] = None,
    dedupe: Optional[Literal["none", "bytes", "pcm"]] = None,
    rate: Optional[int] = None,
    order: Optional[Literal["hash", "source"]] = "hash",
    domain: Optional[str] = None,
    column: _Texts = None,
    split_from: Optional[Literal["name", "none"]] = "name",
    split: _Texts = None,
    shard_size: _Size = "1G",
    trust_headers: Optional[bool] = False,
    wds_key: Optional[Literal["first-dot", "last-dot"]] = "first-dot",
    decoder: Optional[Literal["builtin", "ffmpeg"]] = "builtin",
    follow_links: Optional[bool] = False,
    strict: Optional[bool] = False,
    max_rejects: Union[None, float, str] = None,
    part: Optional[str] = None,
    plan_only: Optional[bool] = False,
    merge: Optional[bool] = False,
    lease: Optional[int] = 60,
    jobs: Optional[int] = None,
    memory: _Size = "256M",
    progress: _Progress = None,
    log: _Log = None,
) -> PackReport: ...
def merge(
    output: _Path,
    *,
    memory: _Size = "256M",
    lease: Optional[int] = 60,
    progress: _Progress = None,
    log: _Log = None,
) -> PackReport: ...
@overload
def dedupe(
    datasets: _Sources,
    output: Optional[_Path] = None,
    *,
    html: Optional[_Path] = None,
    search: Optional[Literal["auto", "mild", "deep"]] = "auto",
    exact_only: Optional[bool] = False,
    keep: Optional[Literal["best", "first", "longest"]] = "best",
    prefer: Optional[_Sources] = None,
    drop_from: _Texts = None,
    contained: Optional[Literal["tag", "keep-long", "keep-part"]] = "tag",
    speed_grid: Optional[bool] = False,
    confirm: Optional[bool] = False,
    memory: _Size = "4G",
    work: Optional[_Path] = None,
    jobs: Optional[int] = None,
    part: Optional[str] = None,
    estimate: Optional[Literal[False]] = False,
    progress: _Progress = None,
    log: _Log = None,
) -> DedupeReport: ...  # None with part, until all parts are done
@overload
def dedupe(
    datasets: _Sources,
    output: Optional[_Path] = None,
    *,
    html: Optional[_Path] = None,
    search: Optional[Literal["auto", "mild", "deep"]] = "auto",
    exact_only: Optional[bool] = False,
    keep: Optional[Literal["best", "first", "longest"]] = "best",
    prefer: Optional[_Sources] = None,
    drop_from: _Texts = None,
    contained: Optional[Literal["tag", "keep-long", "keep-part"]] = "tag",
    speed_grid: Optional[bool] = False,
    confirm: Optional[bool] = False,
    memory: _Size = "4G",
    work: Optional[_Path] = None,
    jobs: Optional[int] = None,
    part: Optional[str] = None,
    estimate: Literal[True],
    progress: _Progress = None,
    log: _Log = None,
) -> CostEstimate: ...
def apply(plan: _Path, datasets: Optional[_Sources] = None) -> PlanReport: ...
def revert(plan: _Path, datasets: Optional[_Sources] = None) -> PlanReport: ...
@overload
def audit(
    train: _Sources,
    test: _Sources,
    output: _Path,
    *,
    fail_on: _Texts = None,
    profile: Optional[Literal["default", "cjk", "marks"]] = "default",
    aliases: Optional[_Path] = None,
    speed_grid: Optional[bool] = False,
    memory: _Size = "4G",
    work: Optional[_Path] = None,
    jobs: Optional[int] = None,
    part: Optional[str] = None,
    estimate: Optional[Literal[False]] = False,
    progress: _Progress = None,
    log: _Log = None,
) -> AuditReport: ...  # None with part
@overload
def audit(
    train: _Sources,
    test: _Sources,
    output: _Path,
    *,
    fail_on: _Texts = None,
    profile: Optional[Literal["default", "cjk", "marks"]] = "default",
    aliases: Optional[_Path] = None,
    speed_grid: Optional[bool] = False,
    memory: _Size = "4G",
    work: Optional[_Path] = None,
    jobs: Optional[int] = None,
    part: Optional[str] = None,
    estimate: Literal[True],
    progress: _Progress = None,
    log: _Log = None,
) -> CostEstimate: ...
def explain(
    dataset: _Source,
    id: str,
    other_id: str,
    other_dataset: Optional[_Source] = None,
    *,
    plot: Optional[_Path] = None,
    listen: Optional[_Path] = None,
    jobs: Optional[int] = None,
    progress: _Progress = None,
    log: _Log = None,
) -> Explanation: ...
def verify(
    dataset: _Source,
    *,
    decode: Optional[bool] = False,
    cached: Optional[bool] = False,
    jobs: Optional[int] = None,
    part: Optional[str] = None,
    progress: _Progress = None,
    log: _Log = None,
) -> VerifyReport: ...
def train(
    config: Optional[_Path] = None,
    output: Optional[_Path] = None,
    *,
    overrides: Optional[Mapping[str, Any]] = None,
    resume: Optional[Literal["no", "auto"]] = "no",
    strategy: Optional[str] = None,
    rendezvous: Optional[str] = None,
    simulate: Optional[str] = None,
    slow: _Texts = None,
    link: Optional[str] = None,
    freeze: _Texts = None,
    kill: _Texts = None,
    record: Optional[bool] = False,
    replay: Optional[_Path] = None,
    progress: _Progress = None,
    log: _Log = None,
    **keys: Any,
) -> TrainReport: ...
def make_vocab(
    config: _Path,
    *,
    overrides: Optional[Mapping[str, Any]] = None,
    kind: Optional[Literal["characters", "pieces"]] = "characters",
    profile: Optional[Literal["lower", "upper", "nfc"]] = "lower",
    symbols: Optional[int] = None,
    **keys: Any,
) -> Vocabulary: ...
def featgen(
    dataset: _Source,
    output: Optional[_Path] = None,
    *,
    features: Optional[str] = "kaldi-fbank",
    dtype: Optional[Literal["float16", "float32"]] = None,
    stats: Optional[bool] = False,
    by: Optional[Literal["speaker", "dataset"]] = None,
    skip_damaged: Optional[bool] = False,
    undecodable: Optional[Literal["skip", "fail"]] = None,
    jobs: Optional[int] = None,
    part: Optional[str] = None,
    estimate: Optional[bool] = False,
    log: _Log = None,
) -> FeaturesReport: ...
