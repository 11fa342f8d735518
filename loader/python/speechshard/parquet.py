"""Pack Hugging Face parquet files, or write them as a stream that `speechshard pack -` reads.

    python -m speechshard.parquet multilingual_librispeech/ -o mls.spsh
    python -m speechshard.parquet peoples_speech/ -o ps.spsh --trust-headers
    python -m speechshard.parquet common_voice/ --split train,dev | speechshard pack - -o cv.spsh

The corpus is detected from the columns (layouts.md). STREAM.md describes the stream. Rows
are read in small batches from one row group after another, so that memory does not depend on the
size of files, row groups, or columns.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import stat
import sys
import threading
from pathlib import Path

from . import _parquet_corpora as corpora
from ._command import NoCommand
from ._parquet_corpora import AUDIO_PATH, Invalid, Reject
from ._pack_stream import pack_stream
from ._tar_stream import StreamError, TarStream

BATCH_BYTES = 16 << 20
BATCH_ROWS_MAX = 1024
READ_BUFFER_BYTES = 1 << 20
NOT_A_CONFIG = ("data", "parquet", "default", "audio")
SPLIT_WORD = (
    "(partial-)?"
    "(train|dev|devel|val|valid|validation|validated|invalidated|test|eval|other|[0-9]+_hours)"
)
SPLIT_NAME = re.compile(SPLIT_WORD + "([._-].*)?")
CLIP_FOLDERS = ("", "clips", "wavs", "wav", "audio", "audios")
PACK_OPTIONS_WITH_VALUE = (
    "--layout --codec --dedupe --rate --order --domain --shard-size --max-rejects --jobs -j --memory "
    "--wds-key"
).split()


class Failure(Exception):
    """An error for the user, printed without a traceback."""


def pyarrow_or_fail():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Failure(f"reading parquet files needs pyarrow: pip install pyarrow ({error})") from None
    return pyarrow


quiet = False  # --quiet: errors only


def say(text, is_error=False):
    if is_error or not quiet:
        print(f"speechshard.parquet: {text}", file=sys.stderr, flush=True)


# ---- files ----


class Place:
    """A parquet file: its path, and the facts in its path.

    names: the last two folders of the source's path and all folders below the source, except
    NOT_A_CONFIG. below: only the folders below the source, joined by "/". config: the last of names,
    or "". split: from "train-00000-of-00002.parquet", "train.parquet", or "train/0000.parquet".
    """

    def __init__(self, source, path, root):
        self.path = str(path)
        self.root = root  # audio files are searched in the folders up to this one
        self.relative = path.relative_to(root).as_posix()
        folders = list(path.relative_to(root).parts[:-1])
        name = path.name[: -len(".parquet")]
        sharded = re.fullmatch(r"(.+?)-([0-9]{4,6})-of-([0-9]{4,6})(-[0-9a-f]+)?", name)
        self.number, self.total = (int(sharded[2]), int(sharded[3])) if sharded else (0, 0)
        above = list(root.parts[-2:])
        if sharded or SPLIT_NAME.fullmatch(name):
            self.split = sharded[1] if sharded else name
        else:
            self.split = next((f for f in reversed(folders) if SPLIT_NAME.fullmatch(f)), "")
            if self.split:
                del folders[len(folders) - 1 - folders[::-1].index(self.split)]
            elif re.fullmatch(SPLIT_WORD, root.name):
                self.split = above.pop()
        self.below = "/".join(f for f in folders if f not in NOT_A_CONFIG)
        self.names = [f for f in [*above, *folders] if f not in NOT_A_CONFIG]
        self.config = self.names[-1] if self.names else ""
        self.folder = "/".join([*above[-1:], *folders])
        self.source = str(source)

    def open(self):
        """Open the file with a buffer, so that no whole column chunk is in memory."""
        pq = pyarrow_or_fail().parquet
        return pq.ParquetFile(self.path, pre_buffer=False, buffer_size=READ_BUFFER_BYTES)

    def look(self):
        """Read the footer: columns, types, rows."""
        pa = pyarrow_or_fail()
        try:
            with self.open() as file:
                self.schema = file.schema_arrow
                self.rows = file.metadata.num_rows
        except (OSError, pa.ArrowException) as error:
            raise Failure(f"{self.path}: {error}") from None
        self.features = features_of(self.schema)
        self.classes = {
            name: feature["names"]
            for name, feature in self.features.items()
            if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
        }
        self.audio = audio_column(self.schema, self.features)
        self.columns = [
            field.name for field in self.schema if field.name != self.audio and is_plain(field.type)
        ]
        self.texts = [
            name
            for name in self.columns
            if name not in self.classes and is_text(value_type(self.schema.field(name).type))
        ]

    def read_column(self, name):
        """Yield all values of one column, reading small batches."""
        with self.open() as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS_MAX, columns=[name]):
                yield from batch.column(0).to_pylist()


class Table:
    """The facts from which a corpus is detected."""

    def __init__(self, place):
        self.place = place
        self.audio = place.audio
        self.columns = set(place.columns)

    @property
    def first_id(self):
        if "id" not in self.columns or self.place.rows == 0:
            return ""
        return corpora.text_of(next(self.place.read_column("id"), None))


def features_of(schema):
    """Column types as the `datasets` library has stored them: {column: {"_type": ...}}."""
    try:
        info = json.loads((schema.metadata or {})[b"huggingface"])
        found = info["info"]["features"]
    except (KeyError, TypeError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: feature for name, feature in found.items() if isinstance(feature, dict)}


def value_type(type_):
    types = pyarrow_or_fail().types
    return type_.value_type if types.is_dictionary(type_) else type_


def is_text(type_):
    types = pyarrow_or_fail().types
    return types.is_string(type_) or types.is_large_string(type_)


def is_binary(type_):
    types = pyarrow_or_fail().types
    return types.is_binary(type_) or types.is_large_binary(type_)


def is_plain(type_):
    types = pyarrow_or_fail().types
    return not types.is_nested(type_) and not is_binary(value_type(type_))


def is_audio_struct(type_):
    if not pyarrow_or_fail().types.is_struct(type_):
        return False
    inner = {type_.field(i).name: type_.field(i).type for i in range(type_.num_fields)}
    return "bytes" in inner and is_binary(inner["bytes"]) or "path" in inner and is_text(inner["path"])


def audio_column(schema, features):
    """Return the name of the audio column, or None.

    In order of preference: a column of type Audio, a struct of bytes and path, bytes, a path. Of
    several candidates, the one whose name is first in AUDIO_NAMES.
    """
    names = corpora.AUDIO_NAMES
    rank = {name: number for number, name in enumerate(names)}

    def pick(accepts):
        found = [field.name for field in schema if accepts(field)]
        return min(found, key=lambda n: rank.get(corpora.plain(n), len(rank)), default=None)

    audio = {name for name, feature in features.items() if feature.get("_type") == "Audio"}
    images = {name for name, feature in features.items() if feature.get("_type") == "Image"}
    usable = [
        lambda f: f.name in audio,
        lambda f: is_audio_struct(f.type) and f.name not in images,
        lambda f: is_binary(f.type) and f.name not in images,
        lambda f: is_text(value_type(f.type)) and corpora.plain(f.name) in rank,
    ]
    return next((found for accepts in usable if (found := pick(accepts))), None)


def find_files(sources):
    """Return all parquet files, sorted within each source."""
    places = []
    for source in sources:
        if "://" in source:
            raise Failure(f"{source}: a URL, not a local path; download the files first")
        path = Path(source)
        if not path.exists():
            raise Failure(f"{source}: no such file or folder")
        root = path.resolve() if path.is_dir() else path.resolve().parent
        files = (
            [path.resolve()]
            if not path.is_dir()
            else sorted(
                file
                for file in root.rglob("*.parquet")
                if not any(part.startswith(".") for part in file.relative_to(root).parts)
                and file.is_file()
            )
        )
        if not files:
            raise Failure(f"{source}: the folder contains no *.parquet file")
        if not files[0].name.endswith(".parquet"):
            raise Failure(f"{source}: not a *.parquet file")
        places += [Place(source, file, root) for file in files]
    return places


# ---- rows ----


def values_of(column, labels):
    """Return a column's values. Class numbers are replaced by their names."""
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        binary = column.cast(pyarrow_or_fail().large_binary())
        values = [decode(value) for value in binary.to_pylist()]
    if labels is not None:
        values = [class_name(value, labels) for value in values]
    return values


def decode(value):
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return Invalid(value)


def class_name(value, labels):
    if isinstance(value, int):
        return labels[value] if 0 <= value < len(labels) else None
    return value


class Audio:
    """The audio column of a batch: bytes, without a copy, and paths."""

    def __init__(self, column):
        self._bytes = None
        self._paths = [None] * len(column)
        pa = pyarrow_or_fail()
        if pa.types.is_struct(column.type):
            parts = dict(zip((field.name for field in column.type), column.flatten()))
            self._take(parts.get("bytes"), is_binary)
            self._take(parts.get("path"), is_text)
        else:
            self._take(column, lambda type_: True)

    def _take(self, part, accepts):
        if part is None or not accepts(value_type(part.type)):
            return
        if is_text(value_type(part.type)):
            self._paths = values_of(part, None)
        else:
            self._bytes = part

    def bytes(self, row):
        """Return a buffer, or None."""
        return None if self._bytes is None else self._bytes[row].as_buffer()

    def path(self, row):
        return corpora.text_of(self._paths[row])


def extension_of(head, path):
    """Return the extension of the member in the stream: from the first bytes, else from the name."""
    if head[:4] == b"OggS":
        return "opus" if b"OpusHead" in head[:64] else "ogg"
    for magic, extension in ((b"fLaC", "flac"), (b"RIFF", "wav"), (b"RF64", "wav"), (b"ID3", "mp3")):
        if head.startswith(magic):
            return extension
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return "mp3"
    extension = path.rpartition(".")[2].lower()
    return extension if extension in corpora.AUDIO_EXTENSIONS else "wav"


class Files:
    """Opens audio files that rows name.

    The candidates are the folder of the parquet file, all folders above it up to the source, and
    their CLIP_FOLDERS. The folder of the previous row is tried first.
    """

    def __init__(self):
        self._last = None

    def open(self, place, written):
        if "://" in written:
            raise Reject("remote_source", written)
        if "\0" in written:
            raise Reject("missing_audio", "the path contains a NUL character")
        bases = [self._last] if self._last is not None else []
        folder = Path(place.path).parent
        while not os.path.isabs(written):
            bases += [str(folder / name) for name in CLIP_FOLDERS]
            if folder == place.root or folder == folder.parent:
                break
            folder = folder.parent
        for base in bases or [""]:
            try:
                # Opening a FIFO must not block.
                fd = os.open(os.path.join(base, written), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            if stat.S_ISREG(os.fstat(fd).st_mode):
                self._last = base or None
                return os.fdopen(fd, "rb")
            os.close(fd)
        raise Reject("missing_audio", f"no such file: {written}")


def batch_rows(group):
    """Return a number of rows whose data takes about BATCH_BYTES."""
    if group.num_rows == 0:
        return 1
    return max(1, min(BATCH_ROWS_MAX, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))


def batches(place):
    """Yield all batches of a file: (first row, batch).

    If the rest of a row group cannot be read, yield (first row, row count, error) for it.
    """
    pa = pyarrow_or_fail()
    with place.open() as file:
        first = 0
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            done = 0
            try:
                for batch in file.iter_batches(
                    batch_size=batch_rows(group),
                    row_groups=[number],
                    columns=[place.audio, *place.columns],
                ):
                    yield first + done, batch
                    done += len(batch)
            except (OSError, pa.ArrowException) as error:
                yield first + done, group.num_rows - done, error
            first += group.num_rows


def ahead(iterator):
    """Yield the same items. Another thread produces them, one item ahead."""
    items = queue.Queue(maxsize=1)
    stopped = threading.Event()
    end = object()

    def put(item):
        while not stopped.is_set():
            try:
                return items.put(item, timeout=0.2)
            except queue.Full:
                continue

    def work():
        try:
            for item in iterator:
                put((item, None))
                if stopped.is_set():
                    return
            put((end, None))
        except BaseException as error:  # the consuming thread raises it
            put((end, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item, error = items.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        stopped.set()
        thread.join()


class Producer:
    """Writes the rows of parquet files as samples of a stream."""

    def __init__(self, stream):
        self._stream = stream
        self._files = Files()
        self.passed_over = 0

    def corpus(self, corpus, places):
        for place, why in corpus.excluded:
            self._stream.reject(place.relative, "excluded_by_rule", f"{why}; {place.rows} rows", rows=0)
        for first, missing in incomplete(places):
            self._stream.reject(first.relative, "count_mismatch", missing, rows=0)
        for place in places:
            with contextlib.closing(ahead(batches(place))) as items:
                for item in items:
                    if len(item) == 3:
                        self._unreadable(place, *item)
                    else:
                        self._batch(corpus, place, *item)

    def _unreadable(self, place, first, rows, error):
        detail = str(error).split("\n")[0]
        self._stream.reject(f"{place.relative}#{first}", "unreadable", detail, rows)

    def _batch(self, corpus, place, first, batch):
        audio = Audio(batch.column(batch.schema.get_field_index(place.audio)))
        names = [name for name in batch.schema.names if name != place.audio]
        columns = [
            values_of(batch.column(batch.schema.get_field_index(name)), place.classes.get(name))
            for name in names
        ]
        for row in range(len(batch)):
            values = {name: column[row] for name, column in zip(names, columns)}
            source = f"{place.relative}#{first + row}"
            try:
                values[AUDIO_PATH] = audio.path(row)
                self._row(corpus, place, values, audio.bytes(row), source)
            except Reject as reject:
                self._stream.reject(source, reject.reason, reject.detail, reject.rows, reject.utterance)

    def _row(self, corpus, place, values, data, source):
        number = int(source.rpartition("#")[2])
        made = corpus.utterance(values, place, number)
        if made is None:
            self.passed_over += 1
            return
        name, info = made
        path = values[AUDIO_PATH]
        info = {
            key: value
            for key, value in info.items()
            if value is not None and (value != "" or key == "text")
        }
        info["extras"] = {
            key: value for key, value in info.get("extras", {}).items() if value not in (None, "")
        }
        try:
            file = None if data is not None else self._open(place, path)
        except Reject as reject:
            reject.utterance = name
            raise
        with file or contextlib.nullcontext():
            head = file.peek(64) if file else memoryview(data)[:64].tobytes()
            extension = extension_of(head, path)
            rate = corpus.nominal_rate(extension)
            if rate:
                info["nominal_rate_hz"] = rate
            info = {"id": name, **info, "source": source}
            self._stream.add(info, extension, file or data)

    def _open(self, place, path):
        if not path:
            raise Reject("missing_audio", "the row has neither bytes nor a path")
        return self._files.open(place, path)


# ---- corpora ----


def with_audio(places):
    """Read all footers, and return the files that have an audio column. Reports the others."""
    for place in places:
        place.look()
    found = [place for place in places if place.audio is not None]
    for place in (p for p in places if p.audio is None):
        names = ", ".join(place.schema.names)
        text = f"{place.path}: no column has audio (bytes or paths); columns: {names}"
        if not found:
            raise Failure(text)
        say(text)
    return found


def incomplete(places):
    """Yield (file, message) for each numbered set of files with gaps: most likely an incomplete
    download."""
    sets = {}
    for place in places:
        if place.total > 0 and os.path.isdir(place.source):
            sets.setdefault((place.source, place.folder, place.split, place.total), []).append(place)
    for (_, _, split, total), found in sets.items():
        missing = sorted(set(range(total)) - {place.number for place in found})
        if missing:
            some = ", ".join(f"{number:05d}" for number in missing[:5])
            more = " ..." if len(missing) > 5 else ""
            yield found[0], f"{len(missing)} of {total} files of '{split}' are missing: {some}{more}"


def recognise(place, forced):
    """Return the class of a file's corpus, and the reason."""
    if forced is not None:
        return forced, "--preset names it"
    table = Table(place)
    return next((c, why) for c in corpora.CORPORA if (why := c.match(table)) is not None)


def drop_partial(places, allowed):
    """Separate files of splits such as "partial-train", which hold only the first part of a split."""
    partial = [place for place in places if place.split.startswith("partial-")]
    if allowed or not partial:
        for place in partial:
            place.split = place.split[len("partial-") :]
        return places, []
    if len(partial) == len(places):
        raise Failure(
            f"{partial[0].path}: '{partial[0].split}' is only a part of its split, made for previews; "
            "download the full files, or allow it with --partial"
        )
    return [place for place in places if place not in partial], partial


def plan(places, arguments):
    """Return [(corpus, its files in order)], and report each."""
    forced = next((c for c in corpora.CORPORA if c.name == arguments.preset), None)
    places, partial = drop_partial(places, arguments.partial)
    groups = {}
    for place in with_audio(places):
        kind, why = recognise(place, forced)
        groups.setdefault(kind, []).append((place, why))
    planned = []
    for kind, found in groups.items():
        corpus = kind([place for place, _ in found], arguments.split)
        chosen = corpus.arrange()
        first, why = found[0]
        rows = sum(place.rows for place in chosen)
        say(f"{first.source}: recognized as {kind.name} because {why}; {len(chosen)} files, {rows} rows")
        planned.append((corpus, chosen))
        for place, missing in incomplete(chosen):
            say(f"{place.relative}: {missing}")
    for place in partial:
        place.look()
        planned[0][0].leave_out(place, f"'{place.split}' is only a part of its split")
    for corpus, _ in planned:
        for place, why in corpus.excluded:
            say(f"{place.relative}: excluded: {why}")
    if not any(chosen for _, chosen in planned):
        raise Failure("all files are excluded: nothing to pack")
    return planned


# ---- the command ----


def parser():
    names = [corpus.name for corpus in corpora.CORPORA]
    p = argparse.ArgumentParser(
        prog="python -m speechshard.parquet",
        usage="python -m speechshard.parquet SOURCE... [-o DATASET] [options] [options of pack]",
        description="Pack Hugging Face parquet files; without -o, write the stream for `speechshard pack -`.",
        epilog="With -o, any option of `speechshard pack` may follow, such as --codec pcm --trust-headers.",
        allow_abbrev=False,
    )
    p.add_argument("sources", nargs="+", metavar="SOURCE", help="a *.parquet file, or a folder of them")
    p.add_argument("-o", "--output", metavar="DATASET", help="run `speechshard pack - -o DATASET`")
    p.add_argument(
        "--preset", choices=names, help="corpus (default: detected from the columns)"
    )
    p.add_argument(
        "--split",
        metavar="S,...",
        type=lambda text: set(text.split(",")),
        help="pack only these splits, configs, or subsets (default: all, except those that the "
        "corpus packs only on request)",
    )
    p.add_argument(
        "--partial", action="store_true", help="also pack incomplete splits such as partial-train"
    )
    p.add_argument(
        "--command",
        metavar="PATH",
        help="path of the command speechshard (default: $SPEECHSHARD_COMMAND, else in the package, "
        "next to the interpreter, or in $PATH)",
    )
    return p


def split_arguments(words):
    """Split the arguments into ours and those of pack: all options that we do not have."""
    ours = {option for action in parser()._actions for option in action.option_strings}
    own, others = [], []
    words = iter(words)
    for word in words:
        if not word.startswith("-") or word.split("=")[0] in ours or word[:2] == "-o":
            own.append(word)
            continue
        others.append(word)
        if word in PACK_OPTIONS_WITH_VALUE:
            others += [value for value in [next(words, None)] if value is not None]
    return own, others


def produce(fd, planned):
    """Write the whole stream. After a failure, end it so that it is not a complete tar."""
    stream = TarStream(fd)
    producer = Producer(stream)
    try:
        for corpus, places in planned:
            producer.corpus(corpus, places)
        stream.finish()
    except BrokenPipeError:
        raise
    except BaseException:
        with contextlib.suppress(OSError):
            stream.abandon()
        raise
    left = f", {stream.reject_rows} rejected" if stream.reject_rows else ""
    repeats = f", {producer.passed_over} repeats skipped" if producer.passed_over else ""
    say(f"{stream.samples} utterances, {stream.audio_bytes} bytes of audio{left}{repeats}")


def run(words):
    global quiet
    own, options = split_arguments(words)
    quiet = "--quiet" in options or "-q" in options
    arguments = parser().parse_args(own)
    if arguments.output is None and options:
        parser().error(f"{options[0]} is not an option here; options of pack need -o DATASET")
    if arguments.output is None and os.isatty(1):
        parser().error("stdout is a terminal: use -o DATASET, or | speechshard pack -")
    pyarrow_or_fail()
    planned = plan(find_files(arguments.sources), arguments)
    if arguments.output is not None:
        try:
            return pack_stream(
                lambda fd: produce(fd, planned), arguments.output, options, arguments.command
            )
        except NoCommand as error:
            raise Failure(f"{error}; name it with --command PATH") from None
    produce(1, planned)
    return 0


def main():
    try:
        return run(sys.argv[1:])
    except BrokenPipeError:
        say("the reader of the stream exited", is_error=True)
    except (Failure, StreamError, OSError) as error:
        say(str(error), is_error=True)
    except KeyboardInterrupt:
        say("interrupted", is_error=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
