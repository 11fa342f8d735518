"""Datasets for torch.utils.data.DataLoader.

    from torch.utils.data import DataLoader
    from speechshard.torch import IterableDataset

    speech = IterableDataset("corpus.spsh", max_seconds=600, output="float32")
    for batch in DataLoader(speech, batch_size=None, num_workers=2):
        loss = model(batch["audio"], batch["lengths"], batch["texts"])

The C library has its own threads, so num_workers=0 is usually the fastest: it copies nothing.
Workers help if `transform` is slow Python code.
"""

import os

import torch
from torch.utils import data

from . import Dataset, Loader, Selection

__all__ = ["IterableDataset", "MapDataset", "to_tensors"]

WORKERS_MAX = 1024


def to_tensors(batch):
    """Return a Batch as a dict of tensors and lists.

    `audio` (or `features` and `frames`) and `lengths` are tensors that share the batch's memory.
    `ids`, `texts`, `speakers`, `languages`, and `domains` are lists of str. `sample_rate_hz` is an
    int. The dict has an entry `offsets` if the audio is ragged (output="int16"), and an entry
    `columns`, a dict of lists, if the Loader has columns.
    """
    result = {
        name: getattr(batch, name)
        for name in ("ids", "texts", "speakers", "languages", "domains", "sample_rate_hz")
    }
    if batch.columns:
        result["columns"] = batch.columns
    names = ["lengths"]
    try:
        names += ["audio", "offsets"] if batch.audio.dtype == "int16" else ["audio"]
    except AttributeError:  # a batch of features
        names += ["features", "frames"]
    result.update((name, torch.from_dlpack(getattr(batch, name))) for name in names)
    return result


def _own(value):
    """Copy tensors: the memory of a batch cannot be sent to another process."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_own(item) for item in value)
    return value


def _worker():
    """Number of this worker and count of workers; (0, 1) outside a worker."""
    worker = data.get_worker_info()
    return (worker.id, worker.num_workers) if worker else (0, 1)


class IterableDataset(data.IterableDataset):
    """Batches of a Loader. Use it with DataLoader(..., batch_size=None).

    datasets and options are those of speechshard.Loader. `transform` makes an item of a Batch; the
    default is `to_tensors`. Options must be picklable if workers are started by spawn.

    Workers of a DataLoader divide the batches of their rank. The DataLoader returns the same batches
    in the same order for any number of workers. All ranks get the same number of items. With
    several ranks, an item of the last step may be empty, as a batch of a Loader may be.

    Each iteration is the next epoch. After load_state_dict(), it is the rest of an epoch, and after
    `break`, too, unless the workers that were in that epoch have exited. An epoch ends with its
    last batch: a caller that counts batches need not ask for one more.

    state_dict() and load_state_dict() follow torchdata's StatefulDataLoader, which calls them in
    its workers. With another DataLoader, use them with num_workers=0 only.
    """

    def __init__(self, datasets, /, *, transform=to_tensors, rank=0, world_size=1, **options):
        super().__init__()
        self._datasets = datasets
        self._options = options
        self._transform = transform
        self._rank = rank
        self._world_size = world_size
        # The next epoch of each worker. Shared, since new workers continue after those that exited.
        self._epochs = torch.zeros(WORKERS_MAX, dtype=torch.int64).share_memory_()
        self._state = None  # to be loaded before the next batch
        self._loader = None
        self._owner = None  # process and worker that opened the loader

    def __getstate__(self):
        return {**self.__dict__, "_loader": None, "_owner": None}

    def _open(self):
        """The loader of this process. A worker is a rank among the workers of all ranks."""
        number, count = _worker()
        owner = (os.getpid(), number, count)
        if self._owner != owner:
            virtual = self._options.get("virtual_world_size")
            if virtual and virtual % (self._world_size * count):
                raise ValueError(
                    f"virtual_world_size is {virtual}, which is not a multiple of "
                    f"{self._world_size} ranks with {count} workers each"
                )
            self._loader = Loader(
                self._datasets,
                rank=number * self._world_size + self._rank,
                world_size=count * self._world_size,
                **self._options,
            )
            self._owner = owner
            self._loader.set_epoch(int(self._epochs[number]))
        if self._state is not None:
            self._loader.load_state_dict(self._state)
            self._epochs[number] = self._loader.epoch
            self._state = None
        return self._loader

    def _batches(self, epoch):
        """Number of items that a rank gets in an epoch."""
        options = {**self._options, "columns": None}
        with Loader(
            self._datasets, rank=self._rank, world_size=self._world_size, **options
        ) as loader:
            loader.set_epoch(epoch)
            return len(loader)

    def __len__(self):
        return self._batches(int(self._epochs[0]))

    def __iter__(self):
        loader = self._open()
        ranks = self._world_size
        number, count = _worker()
        loader.set_epoch(int(self._epochs[number]))
        items = None
        for batch in loader:
            if items is None:  # of this rank in this epoch
                items = len(loader) if count == 1 else self._batches(batch.epoch)
            index = batch.number // (ranks * count) * count + number
            if index >= items:
                continue
            if index + count >= items:  # the last one of this worker
                self._epochs[number] = batch.epoch + 1
            item = self._transform(batch)
            yield item if data.get_worker_info() is None else _own(item)
        self._epochs[number] = loader.epoch

    def set_epoch(self, epoch):
        """Continue at the beginning of an epoch. Does nothing within that epoch."""
        self._epochs.fill_(epoch)
        if self._loader is not None and self._state is None:
            self._open().set_epoch(epoch)

    def state_dict(self):
        """Return the position after the last batch, as Loader.state_dict() does."""
        return self._state or self._open().state_dict()

    def load_state_dict(self, state):
        """Continue at a position. The number of workers must be the same; that of ranks may differ."""
        self._state = state


class MapDataset(data.Dataset):
    """Utterances by position, for a DataLoader with a sampler of your own.

    dataset is a path, a Dataset, or a Selection of one (dataset.filter("duration < 20")). If it is
    not a Selection, utterances that an overlay skips are not included.

    An item is a dict of `audio` (a float32 tensor, or int16 with dtype="int16"), `id`, `text`,
    `speaker`, `language`, `domain`, and `sample_rate_hz`. `transform` changes it. Each worker opens
    the dataset itself.

    A Loader is faster, and it can resume and mix corpora exactly. Use this class for code that needs
    a map-style dataset.
    """

    def __init__(self, dataset, *, dtype="float32", transform=None):
        if isinstance(dataset, Selection):
            self._path, self._positions = dataset.dataset.path, dataset.positions
        else:
            opened = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
            self._path, self._positions = opened.path, range(len(opened))
            if opened.skipped:
                self._positions = opened.filter("not skipped").positions
        self._dtype = dtype
        self._transform = transform
        self._dataset = None
        self._pid = None

    def _open(self):
        if self._pid != os.getpid():
            self._dataset = Dataset(self._path)
            self._pid = os.getpid()
        return self._dataset

    def __getstate__(self):
        return {**self.__dict__, "_dataset": None, "_pid": None}

    def __len__(self):
        return len(self._positions)

    def __getitem__(self, index):
        utterance = self._open()[self._positions[index]]
        item = {
            name: getattr(utterance, name)
            for name in ("id", "text", "speaker", "language", "domain", "sample_rate_hz")
        }
        item["audio"] = torch.from_dlpack(utterance.audio(self._dtype))
        return item if self._transform is None else self._transform(item)
