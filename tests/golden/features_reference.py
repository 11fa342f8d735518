#!/usr/bin/env python3
"""Reference vectors of the features, from programs that share no code with featgen.

    features_reference.py            print how far each program is from the formulas
    features_reference.py --write    write features/ next to this file; needs all programs below

Each case is a signal and the text of feature options. Each program that supports the case computes
it:

    formula     docs/reference/FEATURES.md in numpy, all float64: it shows which side is wrong
    torchaudio  torchaudio.compliance.kaldi
    knf         kaldi-native-fbank: OnlineFbank, OnlineMfcc, Stft, compute_cmvn_stats, and
                OnlineWhisperFbank, whose frames are those of Kaldi without snip-edges, not Whisper's
    whisper     log_mel_spectrogram of openai-whisper
    librosa     librosa.stft, filters.mel; windows of scipy

The signals are made here, from integers and a sine, and stored, so that they depend on no library.

features/vectors.txt, one item per line; a line with # is a comment:

    signal NAME RATE COUNT             COUNT int16, little-endian, next in signals.i16
    case NAME SIGNAL FRAMES DIM TEXT   TEXT for spsh_feature_options_parse; FRAMES x DIM values are expected
    values WHO UNIT TOLERANCE FIRST COUNT STEP COLUMN
                                       rows FIRST, FIRST + STEP, ... (COUNT of them), columns COLUMN to the
                                       last, by WHO: float32, little-endian, next in values.f32. UNIT abs:
                                       |difference| <= TOLERANCE; UNIT rel: <= TOLERANCE * the largest
                                       |value| of these

A tolerance is four times the distance of WHO from the formulas in that case. In mels it is at most
1e-3, if that is at least twice the distance. For the formulas and librosa, which compute in
float64, it is four times the distance of the nearest other program, which computes in float32 like
featgen; without one, ALONE has it. In all programs, values that float32 cannot distinguish from
zero next to a loud one (a sweep without noise, a single bin) differ by as much.
"""

import importlib
import math
import struct
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent / "features"
EPSILON = float(np.finfo(np.float32).eps)

# ---------------------------------------------------------------------------------------------- signals


def splitmix(count, seed):
    """SplitMix64: count numbers of 64 bits."""
    mask = (1 << 64) - 1
    out = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


def noise(count, amplitude, seed):
    """Uniform, -amplitude to amplitude."""
    return [z % (2 * amplitude + 1) - amplitude for z in splitmix(count, seed)]


def sine(cycles, amplitude):
    return int(round(amplitude * math.sin(2 * math.pi * cycles)))


def chirp(rate, count, low, high, amplitude, floor=600):
    """A linear sweep from low to high Hz, with added noise like that of a microphone."""
    slope = (high - low) * rate / (2 * count)
    return [
        sine(low * i / rate + slope * (i / rate) ** 2, amplitude) + z
        for i, z in enumerate(noise(count, floor, rate))
    ]


def resonator(samples, rate, hz, width):
    """Two poles with coefficients of 14 bits: integers in, integers out."""
    radius = math.exp(-math.pi * width / rate)
    a = int(round(2 * radius * math.cos(2 * math.pi * hz / rate) * 16384))
    b = int(round(radius * radius * 16384))
    one, two, out = 0, 0, []
    for x in samples:
        one, two = x + (a * one - b * two) // 16384, one
        out.append(one)
    return out


def speech(rate, count, seed):
    """Pulses through three formants, bursts of noise, pauses with a noise floor of a few units."""
    floor, hiss = noise(count, 6, seed), noise(count, 2400, seed + 1)
    voiced, next_pulse = [0] * count, 0
    for i in range(count):
        if i == next_pulse:
            voiced[i] = 900
            next_pulse += rate * 1000 // (110000 + 20 * ((i * 1000 // rate) % 900))
    formants = voiced
    for hz, width in ((620, 80), (1350, 110), (2600, 160)):
        formants = resonator(formants, rate, hz, width)
    peak = max(1, max(abs(x) for x in formants))
    out = []
    for i in range(count):
        part = (i * 12 // count) % 4  # voiced, voiced, noise, pause
        x = formants[i] * 14000 // peak if part < 2 else (hiss[i] if part == 2 else 0)
        out.append(x + floor[i])
    return out


def signals():
    """Name, rate, samples."""
    tones = noise(4000, 40, 5)
    tones = [
        n + 1000 + sine(i * 440 / 16000, 9000) + sine(i * 1234.5 / 16000, 3000) + sine(i * 6100 / 16000, 900)
        for i, n in enumerate(tones)
    ]
    return [
        ("chirp16", 16000, chirp(16000, 4800, 60, 7800, 4000)),
        ("pure16", 16000, chirp(16000, 1600, 300, 2300, 12000, 0)),
        ("noise16", 16000, noise(4000, 20000, 1)),
        ("speech16", 16000, speech(16000, 9600, 2)),
        ("tones16", 16000, tones),
        ("clip16", 16000, [max(-32768, min(32767, sine(i * 347 / 16000, 90000))) for i in range(3200)]),
        ("silence16", 16000, [0] * 1600),
        ("quiet16", 16000, noise(2400, 1, 4)),
        ("impulse16", 16000, [0] * 900 + [20000] + [0] * 1299),
        ("empty16", 16000, []),
        ("one16", 16000, [-12345]),
        ("below16", 16000, noise(399, 8000, 6)),
        ("exact16", 16000, noise(400, 8000, 7)),
        ("chirp8", 8000, chirp(8000, 2400, 40, 3950, 4000)),
        ("speech8", 8000, speech(8000, 4000, 8)),
        ("chirp48", 48000, chirp(48000, 9600, 100, 23000, 4000)),
        ("speech48", 48000, speech(48000, 12000, 9)),
        ("speech44", 44100, speech(44100, 9000, 10)),
    ]


# ---------------------------------------------------------------------------------------------- options

KALDI = dict(
    kind="mel",
    sample_rate_hz=16000,
    window_us=25000,
    hop_us=10000,
    power_of_two=True,
    window="povey",
    edges="snip",
    drop_last_frame=False,
    pad_us=0,
    full_scale_one=False,
    remove_dc=True,
    preemphasis=0.97,
    power="power",
    mel_scale="kaldi",
    mel_count=80,
    low_hz=20.0,
    high_hz=0.0,
    log="natural",
    log_floor=EPSILON,
    cepstrum_count=13,
    cepstrum_lifter=22.0,
    energy="none",
    energy_floor=0.0,
    norm="none",
)
PLAIN = dict(
    KALDI,
    power_of_two=False,
    window="hann-periodic",
    edges="center-reflect",
    full_scale_one=True,
    remove_dc=False,
    preemphasis=0.0,
    low_hz=0.0,
    cepstrum_lifter=0.0,
)
PRESETS = {
    "kaldi-fbank": KALDI,
    "kaldi-mfcc": dict(KALDI, kind="mfcc", mel_count=23, energy="raw"),
    "whisper-logmel": dict(
        PLAIN,
        drop_last_frame=True,
        mel_scale="slaney",
        low_hz=0.0,
        log="log10",
        log_floor=1e-10,
        norm="whisper",
    ),
    "deepspeech": dict(
        PLAIN,
        kind="spectrum",
        window_us=20000,
        window="hamming-periodic",
        power="magnitude",
        log="log1p",
        norm="utterance",
    ),
    "spectrogram": dict(KALDI, kind="spectrum", log="none", cepstrum_lifter=0.0),
}


def parse(text):
    preset, *changes = text.split(",")
    options = dict(PRESETS[preset])
    for change in changes:
        name, value = change.split("=")
        kind = type(options[name])
        options[name] = value == "on" if kind is bool else kind(value)
    rate = options["sample_rate_hz"]
    options["N"] = rate * options["window_us"] // 1000000
    options["h"] = rate * options["hop_us"] // 1000000
    options["fft"] = 1 << (options["N"] - 1).bit_length() if options["power_of_two"] else options["N"]
    options["preset"] = preset
    return options


# ---------------------------------------------------------------------------------------------- formulas


def window_values(kind, n):
    i = np.arange(n)
    last = n if kind.endswith("-periodic") else n - 1
    turn = 2 * np.pi * i / last
    return {
        "povey": lambda: (0.5 - 0.5 * np.cos(turn)) ** 0.85,
        "hann": lambda: 0.5 - 0.5 * np.cos(turn),
        "hamming": lambda: 0.54 - 0.46 * np.cos(turn),
        "blackman": lambda: 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn),
        "rectangular": lambda: np.ones(n),
    }[kind.removesuffix("-periodic")]()


def cut(x, o):
    """Windows of samples; an array of frames by N."""
    n, h, size = len(x), o["h"], o["N"]
    if o["edges"] == "snip":
        count, before = (1 + (n - size) // h if n >= size else 0), 0
        mode = "constant"
    elif o["edges"] == "mirror":
        count, before = (n + h // 2) // h, size // 2 - h // 2
        mode = "symmetric"
    else:
        count, before = 1 + n // h, size // 2
        mode = "reflect" if o["edges"] == "center-reflect" else "constant"
    count -= o["drop_last_frame"] and count > 0
    if count == 0 or n == 0:
        return np.zeros((0, size))
    after = max(0, (count - 1) * h - before + size - n)
    padded = np.pad(x, (max(0, before), after), mode=mode)
    first = 0 if before >= 0 else -before
    return np.stack([padded[first + k * h : first + k * h + size] for k in range(count)])


def mel_matrix(o):
    rate, bins = o["sample_rate_hz"], o["fft"] // 2 + 1
    high = o["high_hz"] if o["high_hz"] > 0 else rate / 2 + o["high_hz"]
    if o["mel_scale"] == "slaney":
        step = 200 / 3
        to_mel = lambda f: np.where(
            f < 1000, f / step, 15 + np.log(np.maximum(f, 1) / 1000) * 27 / np.log(6.4)
        )
        to_hz = lambda m: np.where(m < 15, m * step, 1000 * np.exp(np.log(6.4) / 27 * (m - 15)))
    else:
        to_mel = lambda f: 1127 * np.log1p(f / 700)
        to_hz = lambda m: 700 * np.expm1(m / 1127)
    edges = np.linspace(to_mel(np.float64(o["low_hz"])), to_mel(np.float64(high)), o["mel_count"] + 2)
    at = np.arange(bins) * rate / o["fft"]
    if o["mel_scale"] == "kaldi":
        at = to_mel(at)
    else:
        edges = to_hz(edges)
    left, center, right = (edges[k : k + o["mel_count"], None] for k in range(3))
    weights = np.maximum(0, np.minimum((at - left) / (center - left), (right - at) / (right - center)))
    if o["mel_scale"] == "kaldi":
        weights[:, -1] = 0  # Kaldi omits the last bin; with odd sizes it would have a weight
    return weights * 2 / (right - left) if o["mel_scale"] == "slaney" else weights


def logarithm(x, o):
    return {
        "natural": lambda: np.log(np.maximum(x, o["log_floor"])),
        "log10": lambda: np.log10(np.maximum(x, o["log_floor"])),
        "log1p": lambda: np.log1p(x),
        "none": lambda: x,
    }[o["log"]]()


def normalise(rows, o):
    if o["norm"] == "whisper":
        return (np.maximum(rows, rows.max() - 8) + 4) / 4
    if o["norm"] == "utterance":
        return (rows - rows.mean()) / rows.std(ddof=1)
    if o["norm"] in ("mean", "mean-variance"):
        rows = rows - rows.mean(axis=0)
        return rows / rows.std(axis=0) if o["norm"] == "mean-variance" else rows
    return rows


def formula(samples, o):
    x = samples.astype(np.float64) / (32768 if o["full_scale_one"] else 1)
    if o["pad_us"]:
        length = o["sample_rate_hz"] * o["pad_us"] // 1000000
        x = np.pad(x[:length], (0, max(0, length - len(x))))
    frames = cut(x, o)
    if o["remove_dc"]:
        frames = frames - frames.mean(axis=1, keepdims=True)
    energy = (frames**2).sum(axis=1)
    if o["preemphasis"]:
        frames = frames - o["preemphasis"] * np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    frames = frames * window_values(o["window"], o["N"])
    if o["energy"] == "windowed":
        energy = (frames**2).sum(axis=1)
    energy = np.log(np.maximum(energy, max(o["energy_floor"], o["log_floor"])))[:, None]
    spectrum = np.abs(np.fft.rfft(frames, o["fft"], axis=1)) ** (1 if o["power"] == "magnitude" else 2)
    if o["kind"] == "spectrum":
        rows = logarithm(spectrum, o)
    else:
        rows = logarithm(spectrum @ mel_matrix(o).T, o)
    if o["kind"] == "mfcc":
        c, m = np.arange(o["cepstrum_count"])[:, None], np.arange(o["mel_count"])
        dct = np.sqrt(2 / o["mel_count"]) * np.cos(np.pi * c * (m + 0.5) / o["mel_count"])
        dct[0] = np.sqrt(1 / o["mel_count"])
        if o["cepstrum_lifter"]:
            dct = dct * (1 + o["cepstrum_lifter"] / 2 * np.sin(np.pi * c / o["cepstrum_lifter"]))
        rows = rows @ dct.T
        if o["energy"] != "none":
            rows[:, :1] = energy
    elif o["energy"] != "none":
        rows = np.concatenate([energy, rows], axis=1)
    return normalise(rows, o) if len(rows) else rows


# ---------------------------------------------------------------------------------------------- others
# Each function returns rows and the first column that counts, or None for unsupported cases.

KALDI_WINDOWS = dict(
    povey="povey", hann="hanning", hamming="hamming", blackman="blackman", rectangular="rectangular"
)


def like_kaldi(samples, o):
    return (
        o["mel_scale"] == "kaldi"
        and o["window"] in KALDI_WINDOWS
        and o["edges"] in ("snip", "mirror")
        and not o["full_scale_one"]
        and not o["pad_us"]
        and o["log_floor"] == EPSILON
        and len(samples) > 0
    )


def torchaudio(samples, o):
    if not like_kaldi(samples, o) or o["norm"] not in ("none", "mean") or o["log"] not in ("natural", "none"):
        return None
    if len(samples) < o["N"] or o["fft"] % 2:
        return None  # refused
    import torch

    kaldi = importlib.import_module("torchaudio.compliance.kaldi")
    common = dict(
        sample_frequency=o["sample_rate_hz"],
        frame_length=o["window_us"] / 1000,
        frame_shift=o["hop_us"] / 1000,
        preemphasis_coefficient=o["preemphasis"],
        remove_dc_offset=o["remove_dc"],
        energy_floor=o["energy_floor"],
        window_type=KALDI_WINDOWS[o["window"]],
        raw_energy=o["energy"] != "windowed",
        dither=0.0,
        round_to_power_of_two=o["power_of_two"],
        snip_edges=o["edges"] == "snip",
        subtract_mean=o["norm"] == "mean",
    )
    mels = dict(num_mel_bins=o["mel_count"], low_freq=o["low_hz"], high_freq=o["high_hz"])
    x = torch.from_numpy(samples.astype(np.float32))[None]
    if o["kind"] == "spectrum":
        if o["power"] != "power" or o["energy"] != "none":
            return None
        rows = (
            kaldi.spectrogram(x, **common).numpy().astype(np.float64)
        )  # the energy replaces bin 0
        return rows if o["log"] == "natural" else np.exp(rows), 1
    if o["kind"] == "mfcc":
        if o["log"] != "natural" or o["power"] != "power":
            return None
        return kaldi.mfcc(
            x,
            num_ceps=o["cepstrum_count"],
            cepstral_lifter=o["cepstrum_lifter"],
            use_energy=o["energy"] != "none",
            **common,
            **mels,
        ).numpy()
    return kaldi.fbank(
        x,
        use_energy=o["energy"] != "none",
        use_log_fbank=o["log"] == "natural",
        use_power=o["power"] == "power",
        **common,
        **mels,
    ).numpy()


def knf_frames(online, samples, o):
    online.accept_waveform(o["sample_rate_hz"], samples.astype(np.float32))
    online.input_finished()
    rows = [np.array(online.get_frame(k)) for k in range(online.num_frames_ready)]
    return np.stack(rows) if rows else np.zeros((0, online.dim), np.float32)


def knf_stft(samples, o):
    """DeepSpeech's features: magnitudes of a centered transform."""
    import kaldi_native_fbank as knf

    if (
        o["kind"] != "spectrum"
        or not o["edges"].startswith("center-")
        or o["pad_us"]
        or len(samples) <= o["N"]
    ):
        return None
    window = window_values(o["window"], o["N"]).astype(np.float32)
    config = knf.StftConfig(
        n_fft=o["fft"],
        hop_length=o["h"],
        win_length=o["N"],
        center=True,
        window=window.tolist(),
        pad_mode="reflect" if o["edges"] == "center-reflect" else "constant",
    )
    result = knf.Stft(config).compute((samples / np.float32(32768)).astype(np.float32).tolist())
    shape = (result.num_frames, o["fft"] // 2 + 1)
    real, imaginary = (np.array(v, np.float32).reshape(shape) for v in (result.real, result.imag))
    return normalise(np.log1p(np.sqrt(real**2 + imaginary**2)), o)


def knf(samples, o):
    import kaldi_native_fbank as knf

    if o["preset"] == "deepspeech":
        return knf_stft(samples, o)
    if o["preset"] == "whisper-logmel" and o["edges"] == "mirror":
        options = knf.WhisperFeatureOptions()
        options.dim = o["mel_count"]
        rows = knf_frames(knf.OnlineWhisperFbank(options), samples / np.float32(32768), o)
        return np.log10(np.maximum(rows, o["log_floor"]))
    if (
        not like_kaldi(samples, o)
        or o["kind"] == "spectrum"
        or o["log"] not in ("natural", "none")
        or not o["power_of_two"]
    ):
        return None
    options = knf.MfccOptions() if o["kind"] == "mfcc" else knf.FbankOptions()
    frame = options.frame_opts
    frame.samp_freq, frame.dither, frame.preemph_coeff = o["sample_rate_hz"], 0, o["preemphasis"]
    frame.frame_length_ms, frame.frame_shift_ms = o["window_us"] / 1000, o["hop_us"] / 1000
    frame.remove_dc_offset, frame.snip_edges = o["remove_dc"], o["edges"] == "snip"
    frame.window_type = KALDI_WINDOWS[o["window"]]
    options.mel_opts.num_bins, options.mel_opts.low_freq, options.mel_opts.high_freq = (
        o["mel_count"],
        o["low_hz"],
        o["high_hz"],
    )
    options.use_energy, options.raw_energy, options.energy_floor = (
        o["energy"] != "none",
        o["energy"] != "windowed",
        o["energy_floor"],
    )
    if o["kind"] == "mfcc":
        if o["log"] != "natural" or o["power"] != "power":
            return None
        options.num_ceps, options.cepstral_lifter = o["cepstrum_count"], o["cepstrum_lifter"]
        rows = knf_frames(knf.OnlineMfcc(options), samples, o)
    else:
        options.use_log_fbank, options.use_power = o["log"] == "natural", o["power"] == "power"
        rows = knf_frames(knf.OnlineFbank(options), samples, o)
    if o["norm"] == "none":
        return rows
    cmvn = knf.CmvnOptions()
    cmvn.norm_vars = o["norm"] == "mean-variance"
    return np.array(knf.apply_cmvn(knf.compute_cmvn_stats(rows), cmvn, rows))


def whisper(samples, o):
    if (
        o["preset"] != "whisper-logmel"
        or o["norm"] != "whisper"
        or o["edges"] != "center-reflect"
        or len(samples) <= 200
    ):
        return None
    import torch

    audio = importlib.import_module("whisper.audio")
    x = torch.from_numpy(samples.astype(np.float32) / np.float32(32768))
    if o["pad_us"]:
        x = audio.pad_or_trim(x, o["sample_rate_hz"] * o["pad_us"] // 1000000)
    return audio.log_mel_spectrogram(x, n_mels=o["mel_count"]).numpy().T


def librosa(samples, o):
    if (
        o["remove_dc"]
        or o["preemphasis"]
        or o["energy"] != "none"
        or o["edges"] == "mirror"
        or o["kind"] == "mfcc"
    ):
        return None
    if o["mel_scale"] == "kaldi" and o["kind"] == "mel" or len(samples) <= o["N"]:
        return None
    n, half = len(samples), o["fft"] // 2
    if o["edges"] == "center-reflect" and n - ((n - half) // o["h"] + 1) * o["h"] + half <= half:
        return None  # librosa 0.11 reflects only the samples of its last block, here fewer than it needs
    import librosa as lib
    import scipy.signal

    x = samples.astype(np.float32) / np.float32(32768 if o["full_scale_one"] else 1)
    if o["pad_us"]:
        x = lib.util.fix_length(x, size=o["sample_rate_hz"] * o["pad_us"] // 1000000)
    name, periodic = o["window"].removesuffix("-periodic"), o["window"].endswith("-periodic")
    if name == "povey":
        return None
    window = scipy.signal.get_window("boxcar" if name == "rectangular" else name, o["N"], fftbins=periodic)
    if o["edges"] == "snip" and o["fft"] != o["N"]:
        window = np.pad(window, (0, o["fft"] - o["N"]))  # librosa would put it in the middle
        x = np.pad(x, (0, o["fft"] - o["N"]))
    spectrum = np.abs(
        lib.stft(
            x,
            n_fft=o["fft"],
            hop_length=o["h"],
            win_length=len(window),
            window=window,
            center=o["edges"] != "snip",
            pad_mode="reflect" if o["edges"] == "center-reflect" else "constant",
        )
    )
    spectrum = spectrum if o["power"] == "magnitude" else spectrum**2
    if o["kind"] == "mel":
        slaney = o["mel_scale"] == "slaney"
        high = o["high_hz"] if o["high_hz"] > 0 else o["sample_rate_hz"] / 2 + o["high_hz"]
        spectrum = (
            lib.filters.mel(
                sr=o["sample_rate_hz"],
                n_fft=o["fft"],
                n_mels=o["mel_count"],
                fmin=o["low_hz"],
                fmax=high,
                htk=not slaney,
                norm="slaney" if slaney else None,
            )
            @ spectrum
        )
    rows = spectrum.T[:-1] if o["drop_last_frame"] else spectrum.T
    return normalise(logarithm(rows, o), o)


WHO = {"formula": formula, "torchaudio": torchaudio, "knf": knf, "whisper": whisper, "librosa": librosa}
SINGLE = ("torchaudio", "knf", "whisper")  # these compute in float32
ALONE = {"logmel-plain": 1e-3, "mel-htk": 6e-4, "fbank-401": 1.4e-4}  # four times the distance of featgen
PACKAGES = {
    "torchaudio": "torchaudio",
    "knf": "kaldi_native_fbank",
    "whisper": "whisper.version",
    "librosa": "librosa",
}

# ---------------------------------------------------------------------------------------------- cases

# Name, options, signals. The rate of the signal is appended to the text if it is not 16 kHz.
EVERY16 = "chirp16 noise16 speech16 tones16 clip16 silence16 quiet16 impulse16"
CASES = [
    (
        "fbank80",
        "kaldi-fbank",
        EVERY16 + " pure16 exact16 below16 one16 empty16 chirp8 speech8 chirp48 speech48 speech44",
    ),
    (
        "fbank80-mirror",
        "kaldi-fbank,edges=mirror",
        "chirp16 speech16 impulse16 below16 exact16 one16 empty16 speech8 chirp48",
    ),
    ("fbank23", "kaldi-fbank,mel_count=23", "speech16 chirp8"),
    ("fbank40", "kaldi-fbank,mel_count=40,low_hz=60,high_hz=-400", "speech16 noise16"),
    ("fbank-energy", "kaldi-fbank,mel_count=40,energy=raw", "speech16 tones16 silence16"),
    (
        "fbank-energy-windowed",
        "kaldi-fbank,mel_count=40,energy=windowed,energy_floor=1",
        "speech16 tones16 silence16",
    ),
    ("fbank-hann", "kaldi-fbank,window=hann", "speech16"),
    ("fbank-hamming", "kaldi-fbank,window=hamming", "speech16 tones16"),
    ("fbank-blackman", "kaldi-fbank,window=blackman", "speech16"),
    ("fbank-rectangular", "kaldi-fbank,window=rectangular,preemphasis=0", "tones16"),
    ("fbank-dc", "kaldi-fbank,remove_dc=off", "tones16"),
    ("fbank-magnitude", "kaldi-fbank,power=magnitude", "chirp16"),
    ("fbank-linear", "kaldi-fbank,log=none", "speech16"),
    ("fbank-400", "kaldi-fbank,power_of_two=off", "speech16"),
    ("fbank-401", "kaldi-fbank,window_us=25063,power_of_two=off,mel_count=40", "speech16"),
    ("fbank-1102", "kaldi-fbank,power_of_two=off,mel_count=40", "speech44"),
    ("fbank-5ms", "kaldi-fbank,window_us=32000,hop_us=5000,mel_count=40", "chirp16"),
    ("fbank-mean", "kaldi-fbank,mel_count=40,norm=mean", "speech16"),
    ("fbank-mean-variance", "kaldi-fbank,mel_count=40,norm=mean-variance", "speech16"),
    ("mfcc13", "kaldi-mfcc", EVERY16 + " chirp8 speech48"),
    ("mfcc13-c0", "kaldi-mfcc,energy=none", "speech16 chirp16"),
    ("mfcc13-windowed", "kaldi-mfcc,energy=windowed", "speech16"),
    ("mfcc20", "kaldi-mfcc,cepstrum_count=20,cepstrum_lifter=0,mel_count=40,energy=none", "speech16"),
    ("mfcc40", "kaldi-mfcc,cepstrum_count=40,mel_count=40,low_hz=20,high_hz=-400,energy=none", "speech16"),
    ("whisper80", "whisper-logmel", EVERY16 + " below16 empty16"),
    ("whisper128", "whisper-logmel,mel_count=128", "chirp16 speech16"),
    ("whisper80-30s", "whisper-logmel,pad_us=30000000", "speech16 silence16 empty16"),
    ("whisper128-30s", "whisper-logmel,mel_count=128,pad_us=30000000", "tones16"),
    ("whisper80-cut", "whisper-logmel,pad_us=100000", "chirp16"),
    (
        "logmel-plain",
        "whisper-logmel,norm=none,drop_last_frame=off,edges=center-zeros,log=natural",
        "chirp16 speech48",
    ),
    ("whisper-mirror", "whisper-logmel,norm=none,edges=mirror,drop_last_frame=off", "speech16"),
    ("mel-htk", "whisper-logmel,norm=none,mel_scale=htk,mel_count=40,log=natural", "speech16"),
    (
        "deepspeech",
        "deepspeech,edges=center-reflect",
        "chirp16 noise16 speech16 tones16 clip16 impulse16 speech8",
    ),
    ("deepspeech-zeros", "deepspeech,edges=center-zeros", "speech16 noise16 speech48"),
    ("deepspeech-plain", "deepspeech,edges=center-zeros,norm=none", "speech16 silence16"),
    ("deepspeech-short", "deepspeech,edges=center-reflect,norm=none", "one16 below16 exact16 empty16"),
    ("spectrogram", "spectrogram", "chirp16 speech16 tones16"),
    ("spectrogram-log", "spectrogram,log=natural", "chirp16 speech16"),
    ("spectrum-hann", "spectrogram,window=hann,preemphasis=0,remove_dc=off,full_scale_one=on", "chirp16"),
    (
        "spectrum-hann-periodic",
        "spectrogram,window=hann-periodic,preemphasis=0,remove_dc=off,full_scale_one=on,power_of_two=off",
        "noise16",
    ),
    (
        "spectrum-hamming",
        "spectrogram,window=hamming,preemphasis=0,remove_dc=off,full_scale_one=on,power=magnitude",
        "speech16",
    ),
    (
        "spectrum-hamming-periodic",
        "spectrogram,window=hamming-periodic,preemphasis=0,remove_dc=off,full_scale_one=on",
        "tones16",
    ),
    (
        "spectrum-blackman",
        "spectrogram,window=blackman,preemphasis=0,remove_dc=off,full_scale_one=on",
        "chirp8",
    ),
    (
        "spectrum-rectangular",
        "spectrogram,window=rectangular,preemphasis=0,remove_dc=off,full_scale_one=on",
        "speech48",
    ),
]


def all_cases():
    """(name, signal, text, samples) of each."""
    table = {name: (rate, np.array(samples, np.int16)) for name, rate, samples in signals()}
    for name, text, chosen in CASES:
        for signal in chosen.split():
            rate, samples = table[signal]
            yield (
                f"{name}/{signal}",
                signal,
                text + (f",sample_rate_hz={rate}" if rate != 16000 else ""),
                samples,
            )


def compute(who, samples, options):
    """Rows in float64 and the first column to compare; None if program WHO does not support the
    case."""
    found = WHO[who](samples, options)
    if found is None:
        return None
    rows, column = found if isinstance(found, tuple) else (found, 0)
    return np.asarray(rows, np.float64), column


def spans(frames, dim, who):
    """First, count and step of the rows to keep: some spread over the signal, and the last two at
    the edge."""
    limit = max(4, (1600 if who == "formula" else 1000) // dim)
    spoken = min(frames, 70)  # the frames of 30 s that are not padding
    step = -(-spoken // limit)
    kept = [(0, -(-spoken // step), step)] if frames else []
    last = kept[0][2] * (kept[0][1] - 1) if frames else 0
    return kept + ([(max(frames - 2, last + 1), min(2, frames - 1 - last), 1)] if last < frames - 1 else [])


def unit_of(options):
    return "rel" if options["log"] == "none" else "abs"


def distance(rows, wanted, unit):
    if not rows.size:
        return 0.0
    largest = float(np.max(np.abs(wanted)))
    return float(np.max(np.abs(rows - wanted))) / (largest if unit == "rel" and largest else 1)


def write():
    lines = [__doc__.split("\n")[0], "Made by features_reference.py, which says what the lines mean."]
    lines.append("Versions: " + versions())
    values, pcm = [], []
    lines = ["# " + line for line in lines]
    for name, rate, samples in signals():
        lines.append(f"signal {name} {rate} {len(samples)}")
        pcm.append(struct.pack(f"<{len(samples)}h", *samples))
    for name, signal, text, samples in all_cases():
        options = parse(text)
        wanted, _ = compute("formula", samples, options)
        lines.append(f"case {name} {signal} {wanted.shape[0]} {wanted.shape[1]} {text}")
        unit = unit_of(options)
        every = {who: compute(who, samples, options) for who in WHO}
        every = {who: found for who, found in every.items() if found is not None}
        seen = {}
        for who, (rows, column) in every.items():
            assert rows.shape == wanted.shape, (name, who, rows.shape, wanted.shape)
            seen[who] = distance(rows[:, column:], wanted[:, column:], unit)
        for who, (rows, column) in every.items():
            for first, count, step in spans(*wanted.shape, who):
                part = rows[first : first + (count - 1) * step + 1 : step, column:]
                values.append(part.astype("<f4").tobytes())
                allowed = f"{tolerance(who, seen, name, unit):.1e}"
                lines.append(f"values {who} {unit} {allowed} {first} {count} {step} {column}")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "vectors.txt").write_text("\n".join(lines) + "\n")
    (FOLDER / "signals.i16").write_bytes(b"".join(pcm))
    (FOLDER / "values.f32").write_bytes(b"".join(values))


def tolerance(who, seen, name, unit):
    """seen: by program, how far it is from the formulas."""
    if who in SINGLE:
        apart = seen[who]
    else:
        apart = max(
            [seen[other] for other in SINGLE if other in seen], default=ALONE.get(name.split("/")[0], 0) / 4
        )
    mels = not name.startswith("spectr")  # a single bin may be almost zero, and its logarithm arbitrary
    return max(min(4 * apart, max(1e-3, 2 * apart)) if mels else 4 * apart, 2e-6 if unit == "rel" else 2e-5)


def versions():
    found = [f"numpy {np.__version__}"]
    for who, package in PACKAGES.items():
        module = importlib.import_module(package)
        found.append(f"{who} {module.__version__}")
    return ", ".join(found)


def table():
    """Distance of each program from the formulas: by case, then the maximum over the cases with the
    same first word."""
    worst = {}
    for name, _, text, samples in all_cases():
        options = parse(text)
        wanted, _ = compute("formula", samples, options)
        cells = []
        for who in list(WHO)[1:]:
            try:
                found = compute(who, samples, options)
            except ImportError:
                found = None
            if found is None:
                continue
            rows, column = found
            if rows.shape != wanted.shape:
                cells.append(f"{who} {rows.shape} is not {wanted.shape}")
                continue
            seen = distance(rows[:, column:], wanted[:, column:], unit_of(options))
            worst[name.split("/")[0], who] = max(seen, worst.get((name.split("/")[0], who), 0))
            cells.append(f"{who} {seen:.1e}")
        print(f"{name:32} {wanted.shape[0]:5} x {wanted.shape[1]:<4}", ", ".join(cells))
    print()
    for (name, who), seen in worst.items():
        print(f"{name:28} {who:12} {seen:.1e}")


def main():
    if sys.argv[1:] == ["--write"]:
        write()
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        table()


if __name__ == "__main__":
    main()
