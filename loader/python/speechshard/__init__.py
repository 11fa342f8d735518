"""Read packed speech corpora, and train from them.

    import speechshard

    dataset = speechshard.Dataset("corpus.spsh")
    pcm = dataset["en/hello-world"].audio().numpy()

    loader = speechshard.Loader(dataset, seed=1, max_seconds=600)
    for batch in loader:                # one epoch; the next `for` is the next epoch
        ...                             # batch.audio, batch.lengths, batch.texts; or, with
                                        # features="kaldi-fbank", batch.features, batch.frames
    state = loader.state_dict()         # a small dict; load_state_dict() accepts it on any
                                        # world size

    speechshard.pack("LibriSpeech", "libri.spsh")     # as the command `speechshard pack` does; also
                                                      # dedupe, apply, audit, verify, featgen, train
"""

from ._dataset import Dataset, Selection
from ._featgen import FeaturesReport, featgen
from ._speechshard import (
    Array,
    AuditReport,
    Batch,
    CorruptError,
    CostEstimate,
    DedupeReport,
    Error,
    Explanation,
    Featgen,
    InvalidArgumentError,
    Loader,
    NotFoundError,
    PackReport,
    PlanReport,
    ReadError,
    TrainReport,
    Utterance,
    VerifyReport,
    Vocabulary,
    __version__,
    apply,
    audit,
    dedupe,
    explain,
    make_vocab,
    merge,
    pack,
    revert,
    train,
    verify,
)

__all__ = [
    "Array",
    "AuditReport",
    "Batch",
    "CorruptError",
    "CostEstimate",
    "Dataset",
    "DedupeReport",
    "Error",
    "Explanation",
    "Featgen",
    "FeaturesReport",
    "InvalidArgumentError",
    "Loader",
    "NotFoundError",
    "PackReport",
    "PlanReport",
    "ReadError",
    "Selection",
    "TrainReport",
    "Utterance",
    "VerifyReport",
    "Vocabulary",
    "__version__",
    "apply",
    "audit",
    "dedupe",
    "explain",
    "featgen",
    "make_vocab",
    "merge",
    "pack",
    "revert",
    "train",
    "verify",
]
