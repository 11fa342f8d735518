"""Features of real speech, by our library and by others.

    feature_peers.py LIBRARY CORPUS [--knf LIBKNF] [--runs N] [--utterances N] [--head JSON] [--transform JSON]

LIBRARY is libspeechshard-featgen.so; CORPUS is a folder of FLAC files of 16 kHz, of which every
n-th is taken. LIBKNF is the library that run.sh compiles from kaldi-native-fbank; without it only
its Python package is timed. All files are decoded, and converted to the form that each peer needs
(int16, float32, a tensor, a list), before the clock starts. Each peer uses one thread. A
measurement makes enough passes over the utterances, one call per utterance, to take a third of a
second. The peers take turns. Before that, each peer's features are compared with ours. No time
counts if the difference exceeds the task's bound.

Prints JSON: for each peer the processor time per frame, median and range of the runs, its ratio to
ours in the same turn, and the differences. The content of the two JSON files is added.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import soundfile

RATE_HZ = 16000
MEASUREMENT_S = 1 / 3


class Input(ctypes.Structure):  # spsh_feature_input
    _fields_ = [
        ("i16", ctypes.c_void_p),
        ("f32", ctypes.c_void_p),
        ("sample_count", ctypes.c_uint64),
        ("mean", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
    ]


class Ours:
    """spsh_featgen_compute from int16, one utterance per call."""

    def __init__(self, library, text):
        self.library = library
        options, error = ctypes.create_string_buffer(1024), ctypes.create_string_buffer(1024)
        self.featgen, self.worker = ctypes.c_void_p(), ctypes.c_void_p()
        library.spsh_featgen_frame_count.restype = ctypes.c_uint64
        library.spsh_featgen_isa.restype = ctypes.c_char_p
        self.ok(library.spsh_feature_options_parse(text.encode(), options, error), error)
        self.ok(library.spsh_featgen_open(options, None, ctypes.byref(self.featgen), error), error)
        self.ok(library.spsh_featgen_worker_open(self.featgen, ctypes.byref(self.worker), error), error)
        self.isa = library.spsh_featgen_isa(self.featgen).decode()
        self.dim = library.spsh_featgen_dim(self.featgen)

    @staticmethod
    def ok(status, error):
        if status != 0:
            sys.exit(f"status {status}: {error.raw!r}")

    def prepare(self, pcm):
        frames = self.library.spsh_featgen_frame_count(self.featgen, ctypes.c_uint64(len(pcm)))
        return (
            Input(pcm.ctypes.data, None, len(pcm), None, None),
            np.empty((frames, self.dim), np.float32),
            pcm,
        )

    def compute(self, prepared):
        given, rows, _ = prepared
        self.ok(
            self.library.spsh_featgen_compute(
                self.worker, ctypes.byref(given), rows.ctypes.data_as(ctypes.c_void_p), None
            ),
            None,
        )
        return rows


class KnfNative:
    """kaldi-native-fbank from C++, all rows copied out."""

    def __init__(self, path):
        self.function = ctypes.CDLL(path).knf_fbank80
        self.function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]

    def prepare(self, pcm):
        return pcm.astype(np.float32), np.empty((len(pcm) // 160 + 1, 80), np.float32)

    def compute(self, prepared):
        samples, rows = prepared
        return rows[: self.function(samples.ctypes.data, len(samples), rows.ctypes.data)]


class KnfPython:
    """Its Python package: takes a list of floats, and returns one frame per call."""

    def __init__(self):
        import kaldi_native_fbank

        self.module = kaldi_native_fbank
        self.options = kaldi_native_fbank.FbankOptions()
        self.options.frame_opts.dither = 0
        self.options.mel_opts.num_bins = 80

    def prepare(self, pcm):
        return pcm.astype(np.float32).tolist()

    def compute(self, samples):
        online = self.module.OnlineFbank(self.options)
        online.accept_waveform(RATE_HZ, samples)
        online.input_finished()
        return [online.get_frame(k) for k in range(online.num_frames_ready)]


class Torchaudio:
    def __init__(self):
        import torch
        from torchaudio.compliance import kaldi

        torch.set_num_threads(1)
        self.torch, self.fbank = torch, kaldi.fbank

    def prepare(self, pcm):
        return self.torch.from_numpy(pcm.astype(np.float32))[None]

    def compute(self, samples):
        return self.fbank(samples, num_mel_bins=80).numpy()


class Whisper:
    def __init__(self):
        import torch
        from whisper.audio import log_mel_spectrogram

        torch.set_num_threads(1)
        self.torch, self.function = torch, log_mel_spectrogram

    def prepare(self, pcm):
        return self.torch.from_numpy(pcm.astype(np.float32) / 32768)

    def compute(self, samples):
        return self.function(samples, n_mels=80).numpy().T


class LibrosaWhisper:
    """The same values from librosa's functions."""

    def __init__(self):
        import librosa

        self.librosa = librosa

    def prepare(self, pcm):
        return pcm.astype(np.float32) / np.float32(32768)

    def compute(self, samples):
        mel = self.librosa.feature.melspectrogram(
            y=samples, sr=RATE_HZ, n_fft=400, hop_length=160, n_mels=80, pad_mode="reflect"
        )
        rows = np.log10(np.maximum(mel[:, :-1], 1e-10))
        return ((np.maximum(rows, rows.max() - 8) + 4) / 4).T


class LibrosaDeepspeech:
    """As deepspeech.pytorch does it: librosa.stft, log1p, one mean and deviation."""

    def __init__(self):
        import librosa

        self.librosa = librosa

    def prepare(self, pcm):
        return pcm.astype(np.float32) / np.float32(32768)

    def compute(self, samples):
        spectrum = np.log1p(
            np.abs(
                self.librosa.stft(samples, n_fft=320, hop_length=160, window="hamming", pad_mode="constant")
            )
        ).T
        return (spectrum - spectrum.mean()) / spectrum.std(ddof=1)


def tasks(arguments):
    """List of tasks: name, maximum difference of a value and share of values that differ by more
    than 1e-3, then ours and the peers. Kaldi's features have bins with almost no energy next to a
    loud voice. There, any two peers differ by up to 0.04."""
    library = ctypes.CDLL(arguments.library)
    native = [("kaldi-native-fbank, C++", KnfNative(arguments.knf))] if arguments.knf else []
    return [
        (
            "kaldi-fbank, 80 mels",
            (0.1, 5e-4),
            [("speechshard", Ours(library, "kaldi-fbank"))]
            + native
            + [("kaldi-native-fbank, Python", KnfPython()), ("torchaudio", Torchaudio())],
        ),
        (
            "whisper-logmel, 80 mels",
            (1e-3, 0),
            [
                ("speechshard", Ours(library, "whisper-logmel")),
                ("openai-whisper", Whisper()),
                ("librosa", LibrosaWhisper()),
            ],
        ),
        (
            "deepspeech, 161 bins",
            (1e-3, 0),
            [
                ("speechshard", Ours(library, "deepspeech,edges=center-zeros")),
                ("librosa", LibrosaDeepspeech()),
            ],
        ),
    ]


def read_corpus(corpus, count):
    files = sorted(Path(corpus).rglob("*.flac"))
    found = []
    for path in files[:: max(1, len(files) // count)][:count]:
        pcm, rate = soundfile.read(path, dtype="int16")
        assert rate == RATE_HZ and pcm.ndim == 1, path
        found.append(pcm)
    return found


def differences(ours, peer, utterances, bound):
    """The largest difference, and the share of differences above 1e-3."""
    largest, above, values = 0.0, 0, 0
    for pcm in utterances:
        rows = np.array(ours.compute(ours.prepare(pcm)))
        others = np.array(peer.compute(peer.prepare(pcm)))
        assert rows.shape == others.shape, (rows.shape, others.shape)
        apart = np.abs(rows.astype(np.float64) - others)
        largest = max(largest, float(apart.max()))
        above += int((apart > 1e-3).sum())
        values += apart.size
    if not (largest <= bound[0] and above <= bound[1] * values):
        sys.exit(f"{type(peer).__name__}: {largest} apart, {above} of {values} more than 1e-3")
    return {
        "largest": float(f"{largest:.2e}"),
        "above_1e-3": float(f"{above / values:.2e}"),
        "values": values,
    }


def one_pass(peer, prepared):
    for item in prepared:
        peer.compute(item)


def measure(task, bound, peers, utterances, runs):
    ours = peers[0][1]
    frames = sum(len(ours.compute(ours.prepare(pcm))) for pcm in utterances)
    apart = {name: differences(ours, peer, utterances, bound) for name, peer in peers[1:]}
    prepared, passes = {}, {}
    for name, peer in peers:
        prepared[name] = [peer.prepare(pcm) for pcm in utterances]
        one_pass(peer, prepared[name])
        begin = time.process_time()
        one_pass(peer, prepared[name])
        passes[name] = max(1, round(MEASUREMENT_S / (time.process_time() - begin)))
    taken = {name: [] for name, _ in peers}
    for _ in range(runs):
        for name, peer in peers:
            begin = time.process_time()
            for _ in range(passes[name]):
                one_pass(peer, prepared[name])
            taken[name].append((time.process_time() - begin) / passes[name] / frames * 1e6)
    rows = []
    for name, _ in peers:
        ratios = [theirs / mine for theirs, mine in zip(taken[name], taken["speechshard"], strict=True)]
        median = statistics.median(taken[name])
        rows.append(
            {
                "task": task,
                "name": name,
                "runs": runs,
                "passes": passes[name],
                "frames": frames,
                "us_per_frame": {
                    "median": round(median, 4),
                    "range": [round(min(taken[name]), 4), round(max(taken[name]), 4)],
                },
                "times_real_time": round(sum(map(len, utterances)) / RATE_HZ / (median * frames / 1e6)),
                "ratio_to_ours": {
                    "median": round(statistics.median(ratios), 2),
                    "range": [round(min(ratios), 2), round(max(ratios), 2)],
                },
                "difference": apart.get(name),
            }
        )
    return rows


def versions():
    from importlib import import_module

    return {
        name: import_module(name).__version__
        for name in ("numpy", "kaldi_native_fbank", "torch", "torchaudio", "librosa", "whisper.version")
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library")
    parser.add_argument("corpus")
    parser.add_argument("--knf")
    parser.add_argument("--head", type=Path)
    parser.add_argument("--transform", type=Path)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--utterances", type=int, default=50)
    arguments = parser.parse_args()
    utterances = read_corpus(arguments.corpus, arguments.utterances)
    chosen, rows = tasks(arguments), []
    for task, bound, peers in chosen:
        rows += measure(task, bound, peers, utterances, arguments.runs)
    head = json.loads(arguments.head.read_text()) if arguments.head else {}
    head |= {
        "python": platform.python_version(),
        "versions": versions(),
        "isa": chosen[0][2][0][1].isa,
        "utterances": len(utterances),
        "audio_s": round(sum(map(len, utterances)) / RATE_HZ, 1),
    }
    tables = {"rows": rows}
    if arguments.transform:
        measured = json.loads(arguments.transform.read_text())
        tables |= {name: table for name, table in measured.items() if isinstance(table, list)}
    parts = [f'  "{name}": {json.dumps(value)}' for name, value in head.items()]
    for name, table in tables.items():
        parts.append(f'  "{name}": [\n' + ",\n".join("    " + json.dumps(row) for row in table) + "\n  ]")
    print("{\n" + ",\n".join(parts) + "\n}")


if __name__ == "__main__":
    main()
