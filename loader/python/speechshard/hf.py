"""Packed datasets for the library `datasets` of Hugging Face.

    import speechshard.hf

    train = speechshard.hf.to_iterable("corpus.spsh", splits="train", sample_rate_hz=16000)
    for example in train.shuffle(buffer_size=1000, seed=1):
        print(example["id"], example["text"], example["audio"]["sampling_rate"])
"""

import datasets as hf

from . import Loader

__all__ = ["to_iterable"]

NAMES = ("id", "text", "speaker", "language", "domain")


def _examples(parts, datasets, part_count, options):
    """Yield the utterances of some parts. `parts` is the list that the library divides."""
    for part in parts:
        with Loader(datasets, rank=part, world_size=part_count, **options) as loader:
            for batch in loader:
                lists = [getattr(batch, name + "s") for name in NAMES]
                for i, values in enumerate(zip(*lists)):
                    audio = batch.utterance(i).numpy()
                    yield {
                        **dict(zip(NAMES, values)),
                        "audio": {"array": audio.copy(), "sampling_rate": batch.sample_rate_hz},
                    }


def to_iterable(datasets, /, *, parts=8, **options):
    """Return a datasets.IterableDataset with one example per utterance.

    datasets and options are those of speechshard.Loader, such as `splits`, `domains`,
    `max_duration`, and `sample_rate_hz`. By default, the order is the dataset's: use
    `.shuffle(...)` of the result, or shuffle=True and a seed here.

    An example has the strings `id`, `text`, `speaker`, `language`, and `domain`, and `audio` with
    `array` (float32, one dimension, full scale 1) and `sampling_rate` (Hz). Channels are mixed to
    one unless `channel` selects one of them.

    The result has `parts` shards: a DataLoader may have up to that many workers, and
    `datasets.distributed.split_dataset_by_node` up to that many nodes.
    """
    if options.get("channel") == "all" or "features" in options:
        raise ValueError("to_iterable serves audio of one channel: omit channel='all' and features")
    if options.get("columns"):
        raise ValueError("to_iterable has no columns: use Loader(..., columns=...)")
    options = {"shuffle": False, "max_seconds": 120, "output": "float32", **options}
    features = hf.Features({name: hf.Value("string") for name in NAMES})
    features["audio"] = {"array": hf.List(hf.Value("float32")), "sampling_rate": hf.Value("int32")}
    arguments = {
        "parts": list(range(parts)),
        "datasets": datasets,
        "part_count": parts,
        "options": options,
    }
    return hf.IterableDataset.from_generator(_examples, features=features, gen_kwargs=arguments)
