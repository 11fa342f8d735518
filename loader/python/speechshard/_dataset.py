"""speechshard.Dataset and speechshard.Selection: utterances as a sequence."""

import base64
import html
import io
import wave
from collections.abc import Sequence

from . import _speechshard
from ._filter import compile_filter

_COLUMNS = (
    "position", "id", "text", "speaker", "language", "domain", "split", "source", "document",
    "sample_rate_hz", "channels", "samples", "duration", "skipped", "extras",
)  # fmt: skip
_SHOWN = 10  # rows of a table in a notebook


class _Utterances:
    """Methods that a Dataset and a Selection share."""

    def filter(self, condition):
        """Return a Selection of the utterances for which the condition is true.

        condition is a function of an Utterance, or an expression such as
        "duration < 20 and language in ('de', 'fr') and not skipped" or "extras['accent'] == 'us'".
        `id`, `text`, `source`, `document`, and `extras` are read from the shards; all else is in
        memory.
        """
        test = condition if callable(condition) else compile_filter(condition)
        return Selection(self._dataset(), [u.position for u in self if test(u)])

    def to_arrow(self):
        """Return a pyarrow.Table with one row per utterance. `extras` is JSON text."""
        import json

        import pyarrow

        columns = {name: [] for name in _COLUMNS}
        for utterance in self:
            for name, values in columns.items():
                values.append(getattr(utterance, name))
        columns["extras"] = [json.dumps(e, ensure_ascii=False) for e in columns["extras"]]
        return pyarrow.table(columns)

    def to_pandas(self):
        """Return a pandas.DataFrame with one row per utterance. `extras` is a dict."""
        import pandas

        rows = ([getattr(u, name) for name in _COLUMNS] for u in self)
        return pandas.DataFrame(rows, columns=list(_COLUMNS))

    def _repr_html_(self):
        shown = list(self[:_SHOWN])
        rows = "".join(
            f"<tr><td>{u.position}</td><td>{_escape(u.id)}</td><td>{u.duration:.2f}</td>"
            f"<td>{_escape(u.speaker)}</td><td>{_escape(u.text)}</td><td>{_player(u)}</td></tr>"
            for u in shown
        )
        more = len(self) - len(shown)
        return (
            f"<p>{_escape(repr(self))}: {len(self):,} utterances</p><table><tr><th>position</th>"
            "<th>id</th><th>seconds</th><th>speaker</th><th>text</th><th>audio</th></tr>"
            f"{rows}</table>" + (f"<p>and {more:,} more</p>" if more else "")
        )


class Dataset(_Utterances, _speechshard.Dataset):
    __doc__ = _speechshard.Dataset.__doc__

    def _dataset(self):
        return self

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Selection(self, range(len(self))[key])
        return super().__getitem__(key)

    def __iter__(self):
        return map(super().__getitem__, range(len(self)))

    def select(self, ids):
        """Return a Selection of the utterances with these ids, in this order.

        Raises NotFoundError for an id that the dataset does not have.
        """
        return Selection(self, [self[id].position for id in ids])


class Selection(_Utterances, Sequence):
    """Some utterances of a Dataset, in any order. Dataset.filter, Dataset.select, and slices
    return it. It holds positions, not audio, and can be pickled.

    A Loader serves whole datasets. To serve a selection, use the Loader's own filters (splits,
    domains, languages, min_duration, ...), an overlay that skips the rest, or
    speechshard.torch.MapDataset(selection).
    """

    def __init__(self, dataset, positions):
        self._of = dataset
        self._positions = positions

    @property
    def dataset(self):
        """The Dataset of the utterances."""
        return self._of

    @property
    def positions(self):
        """Positions of the utterances in the dataset, as a list."""
        return list(self._positions)

    def _dataset(self):
        return self._of

    def __len__(self):
        return len(self._positions)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Selection(self._of, self._positions[key])
        return self._of[self._positions[key]]

    def __repr__(self):
        return f"speechshard.Selection({self._of.path!r}, {len(self)} utterances)"


# ---- notebooks ----


def _escape(text):
    return html.escape(str(text))


def _wav(utterance):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(utterance.channels)
        out.setsampwidth(2)
        out.setframerate(utterance.sample_rate_hz)
        out.writeframes(memoryview(utterance.audio()).tobytes())
    return file.getvalue()


def _player(utterance):
    data = base64.b64encode(_wav(utterance)).decode("ascii")
    return f'<audio controls preload="none" src="data:audio/wav;base64,{data}"></audio>'


def _waveform(utterance, width=600, height=80):
    """SVG of the largest and smallest sample of each column."""
    samples = memoryview(utterance.audio()).cast("B").cast("h")[:: utterance.channels]
    step = max(1, len(samples) // width)
    middle = height / 2
    lines = []
    for x in range(min(width, len(samples) // step)):
        piece = samples[x * step : (x + 1) * step].tolist()
        high, low = (middle - value / 32768 * middle for value in (max(piece), min(piece)))
        lines.append(f"M{x} {high:.1f}V{max(low, high + 1):.1f}")
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<path d="{"".join(lines)}" stroke="currentColor" fill="none"/></svg>'
    )


def utterance_html(utterance):
    """Return HTML for a notebook: metadata, a waveform, and a player."""
    facts = ", ".join(
        _escape(value)
        for value in (
            f"{utterance.duration:.2f} s",
            f"{utterance.sample_rate_hz} Hz",
            utterance.speaker,
            utterance.language,
            utterance.domain,
            utterance.split,
        )
        if value
    )
    return (
        f"<p><b>{_escape(utterance.id)}</b>: {facts}</p><p>{_escape(utterance.text)}</p>"
        f"{_waveform(utterance)}<br>{_player(utterance)}"
    )
