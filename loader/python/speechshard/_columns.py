"""The keyword `columns` of a Loader: values of the utterances of a batch, by column."""

import difflib
import json

from ._filter import FIELDS
from ._speechshard import InvalidArgumentError

_SAMPLED = 64  # utterances per dataset whose extras are read first, to find their columns


def _sampled_columns(dataset):
    """Names of the extras of some utterances, spread over the dataset."""
    count = len(dataset)
    found = {}
    for position in range(0, count, max(1, count // _SAMPLED)):
        found.update(dataset[position].extras)
    return list(found)


def _has_column(dataset, name):
    """True if the extras of any utterance have the column. Searches the whole dataset."""
    for text in {json.dumps(name), json.dumps(name, ensure_ascii=False)}:
        position = dataset._find_in_extras(text, 0)
        while position is not None:
            if name in dataset[position].extras:  # else the text is a value
                return True
            position = dataset._find_in_extras(text, position + 1)
    return False


def _check(names, datasets):
    """Raise InvalidArgumentError for a name that no dataset has."""
    names = [name for name in names if name not in FIELDS]
    if not names:
        return
    known = list(FIELDS)
    for dataset in datasets:
        known += [name for name in _sampled_columns(dataset) if name not in known]
    for name in names:
        if name in known or any(_has_column(dataset, name) for dataset in datasets):
            continue
        near = difflib.get_close_matches(name, known, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidArgumentError(
            f"columns: the dataset has no column {name!r}{meant} (columns: {', '.join(known)})"
        )


class Columns:
    """A function of a Batch. It returns {name: [value of each utterance]}.

    None stands for a missing value. datasets: the Datasets of the Loader, in its order.
    """

    def __init__(self, names, datasets):
        _check(names, datasets)
        self._fields = [name for name in names if name in FIELDS]
        self._extras = [name for name in names if name not in FIELDS]
        self._names = names
        self._datasets = datasets

    def __call__(self, batch):
        places = list(zip(batch.datasets.tolist(), batch.positions.tolist()))
        lists = {name: [None] * len(places) for name in self._names}
        # In the order of the dataset, because adjacent utterances share a block of metadata.
        for row in sorted(range(len(places)), key=places.__getitem__):
            dataset, position = places[row]
            utterance = self._datasets[dataset][position]
            for name in self._fields:
                value = getattr(utterance, name)
                lists[name][row] = None if value == "" else value
            extras = utterance.extras if self._extras else {}
            for name in self._extras:
                lists[name][row] = extras.get(name)
        return lists
