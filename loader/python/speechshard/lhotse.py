"""Lhotse's CutSet from a packed dataset, and a packed dataset from a CutSet.

    import speechshard.lhotse

    cuts = speechshard.lhotse.to_lhotse("corpus.spsh")
    speechshard.lhotse.from_lhotse(cuts.subset(first=1000), "first.spsh")

To pack Lhotse's manifests (recordings.jsonl.gz, supervisions.jsonl.gz, cuts.jsonl.gz, shar
folders), use `speechshard pack FOLDER`: it is faster, and stores the original files.
"""

import io
import subprocess
import wave

import numpy
from lhotse import CutSet, MonoCut, Recording, SupervisionSegment

from . import Dataset, Error
from ._pack_stream import pack_stream
from ._tar_stream import TarStream

__all__ = ["from_lhotse", "to_lhotse"]


def _wav(samples, sample_rate_hz):
    """WAV file of int16 samples with the shape (samples, channels)."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(samples.shape[1])
        out.setsampwidth(2)
        out.setframerate(sample_rate_hz)
        out.writeframes(numpy.ascontiguousarray(samples, "<i2").tobytes())
    return file.getvalue()


class _Cuts:
    """The utterances of a dataset as cuts, which are made during iteration."""

    def __init__(self, path):
        self._path = path

    def __iter__(self):
        with Dataset(self._path) as dataset:
            for utterance in dataset:
                if not utterance.skipped:
                    yield _cut(utterance)

    def __len__(self):
        with Dataset(self._path) as dataset:
            return dataset.served


def _cut(utterance):
    samples = utterance.audio().numpy().reshape(-1, utterance.channels)
    recording = Recording.from_bytes(
        _wav(samples, utterance.sample_rate_hz), recording_id=utterance.id
    )
    supervision = SupervisionSegment(
        id=utterance.id,
        recording_id=utterance.id,
        start=0.0,
        duration=recording.duration,
        channel=recording.channel_ids if recording.num_channels > 1 else 0,
        text=utterance.text,
        language=utterance.language or None,
        speaker=utterance.speaker or None,
    )
    cut = recording.to_cut()
    cut.id = utterance.id
    cut.supervisions = [supervision]
    cut.custom = {"domain": utterance.domain, "split": utterance.split}
    return cut


def to_lhotse(dataset):
    """Return a lazy CutSet with one cut per utterance that no overlay skips.

    dataset is a path or a Dataset. The audio of a cut is in memory, as int16 WAV. Each cut has one
    supervision. `cut.custom` has the fields `domain` and `split`.
    """
    return CutSet(_Cuts(dataset.path if isinstance(dataset, Dataset) else dataset))


def _pcm(cut):
    """Samples of a cut as int16 with the shape (samples, channels)."""
    audio = numpy.atleast_2d(cut.load_audio()).T
    return numpy.clip(numpy.rint(audio * 32768.0), -32768, 32767)


def _text(values):
    """Return the value that all supervisions share, or None."""
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else None


def _info(cut):
    supervisions = sorted(cut.supervisions, key=lambda s: s.start)
    texts = [s.text for s in supervisions if s.text is not None]
    custom = dict(cut.custom or {}) if isinstance(cut, MonoCut) else {}
    return {
        "id": cut.id,
        "text": " ".join(texts) if texts else None,
        "speaker": _text(s.speaker for s in supervisions),
        "language": _text(s.language for s in supervisions),
        "domain": custom.pop("domain", None) or None,
        "split": custom.pop("split", None) or None,
        "extras": {k: v for k, v in custom.items() if isinstance(v, (str, int, float, bool))},
    }


def from_lhotse(cuts, output, *options):
    """Pack a CutSet into the dataset `output`.

    Each cut becomes an utterance, with all audio that Lhotse loads for it (mixtures and changes of
    speed included), rounded to int16. Transcripts of several supervisions are joined by a blank. A
    speaker or language is stored if all supervisions agree. Custom fields that are strings,
    numbers, or booleans become extras. A cut whose audio cannot be loaded is listed in
    `output/reports/rejects.jsonl`.

    options are options of `speechshard pack`, such as "--codec", "pcm". Raises speechshard.Error if
    pack fails: pack prints the reason on standard error.
    """

    def produce(fd):
        stream = TarStream(fd)
        for cut in cuts:
            try:
                audio = _wav(_pcm(cut), int(cut.sampling_rate))
            except Exception as error:  # any exception of a Lhotse backend
                stream.reject(cut.id, "unreadable", str(error)[:200], utterance=cut.id)
                continue
            stream.add(_info(cut), "wav", audio)
        stream.finish()

    status = pack_stream(produce, output, options, stdout=subprocess.DEVNULL)
    if status != 0:
        raise Error(f"{output}: pack failed with exit status {status}")
