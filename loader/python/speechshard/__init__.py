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
"""

from ._dataset import Dataset, Selection
from ._speechshard import (
    Array,
    Batch,
    CorruptError,
    Error,
    Featgen,
    InvalidArgumentError,
    Loader,
    NotFoundError,
    ReadError,
    Utterance,
    __version__,
)

__all__ = [
    "Array",
    "Batch",
    "CorruptError",
    "Dataset",
    "Error",
    "Featgen",
    "InvalidArgumentError",
    "Loader",
    "NotFoundError",
    "ReadError",
    "Selection",
    "Utterance",
    "__version__",
]
