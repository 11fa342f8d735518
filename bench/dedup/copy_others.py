"""Recordings that are copies of nothing, for `copies_kit.py judge`: as alike as they can be found.

WORK/audio/plain has each recording, and WORK/audio/coded has it again through one telephone codec:
GSM, G.722, Opus at 8 kbit/s, or AMR-NB at 12.2.
The name of a file is VOICE~WORD~NUMBER@FOLDER. Recordings of one VOICE and WORD are retakes.
"""

import array
import collections
import concurrent.futures
import hashlib
import itertools
import math
import os
import random
import shutil

import copy_sources
import copy_transforms
from copy_transforms import AMR_CODECS, copy_id, MAIN_CODECS, RATE

CODECS = (*(codec for codec in MAIN_CODECS if codec.name in ("gsm_8", "g722_16", "opus8_8")), AMR_CODECS[0])
SPOKEN = {"digits", "gcin", "klettres", "ktuberling", "prompts", "fillets"}
FILLETS_MAX = 100  # maximum number of recordings per language, because they are sentences
BATCH = 40


def sounds(draw):
    """Yield name, samples of tones, signals, noise, and silence of 0.6 to 2 s, four takes of each."""
    tones = {f"tone {pitch}": ((pitch,), 0) for pitch in (350, 440, 1000, 2100)}
    tones |= {f"dtmf {low} {high}": ((low, high), 0) for low in (697, 770) for high in (1209, 1336)}
    tones |= {"dial": ((350, 440), 0), "busy": ((480, 620), 0.5), "ring": ((440, 480), 0.4), "reorder": ((480, 620), 0.25)}
    for _ in range(4):
        count = round(RATE * draw.uniform(0.6, 2))
        for name, (pitches, cadence) in tones.items():
            phase = draw.uniform(0, 6)
            yield name, array.array("h", (round(9000 * sum(math.sin(2 * math.pi * p * i / RATE + phase) for p in pitches))
                                          if not cadence or i / RATE % (2 * cadence) < cadence else 0 for i in range(count)))
        yield "silence", array.array("h", bytes(2 * count))
        for name, size in (("hiss", 20), ("noise", 8000)):
            yield name, array.array("h", (draw.randrange(-size, size) for _ in range(count)))
        pink = 0.0
        hum = array.array("h")
        for i in range(count):
            pink = 0.95 * pink + draw.uniform(-500, 500)
            hum.append(round(pink + 3000 * math.sin(2 * math.pi * 50 * i / RATE) + 1500 * math.sin(2 * math.pi * 150 * i / RATE)))
        yield "hum", hum


def pieces(samples, draw):
    """Yield one piece of 0.5 to 3 s after the other."""
    at = 0
    while at + RATE * 3 < len(samples):
        count = round(RATE * draw.uniform(0.5, 3))
        yield samples[at : at + count]
        at += count


def words(samples):
    """Stretches of 0.2 s or more that are louder than a tenth of the loudest block, between pauses of 0.2 s."""
    size = RATE // 50
    energies = [sum(x * x for x in samples[i : i + size : 4]) for i in range(0, len(samples) - size, size)]
    loud = [i for i, energy in enumerate(energies) if energy > max(energies) / 100]
    ends = [i for i, (a, b) in enumerate(itertools.pairwise(loud)) if b - a > 10]
    for first, last in zip([0, *(i + 1 for i in ends)], [*ends, len(loud) - 1]):
        if loud[last] - loud[first] >= 10:
            yield samples[max(loud[first] - 3, 0) * size : (loud[last] + 4) * size]


def find(recordings, draw):
    """Yield voice, word, and the path or the samples of a recording. Files with the bytes of an earlier one are skipped."""
    sentences, known = collections.Counter(), set()
    for r in recordings:
        with open(r.path, "rb") as file:
            digest = hashlib.sha256(file.read()).digest()
        if digest in known:
            continue
        known.add(digest)
        if r.corpus in SPOKEN:
            sentences[r.voice] += 1
            if r.corpus != "fillets" or sentences[r.voice] <= FILLETS_MAX:
                yield f"{r.corpus} {r.voice.removeprefix(r.corpus)}", r.word or os.path.basename(r.path), r.path
        elif r.corpus in ("music", "noise"):
            for number, piece in enumerate(pieces(copy_sources.decode(r.path), draw)):
                yield f"{r.corpus} {os.path.basename(r.path)}", r.word or str(number), piece
        elif r.corpus == "yesno":
            spoken = list(words(copy_sources.decode(r.path)))
            names = os.path.splitext(os.path.basename(r.path))[0].split("_")
            for name, samples in zip(names, spoken) if len(names) == len(spoken) else ():
                yield "yesno he", name, samples
    for name, samples in sounds(draw):
        yield "sounds none", name, samples


def place(work, name, source):
    """Returns the path of the recording in audio/plain."""
    path = os.path.join(work, "audio", "plain", copy_id(name, "plain"))
    if isinstance(source, str):
        path += os.path.splitext(source)[1]
        shutil.copyfile(source, path)
    else:
        path += ".wav"
        copy_transforms.write_wav(path, source)
    return path


def encode(work, debian, batch, codec):
    """Write the coded recordings of a batch of (name, path). Codecs that `pack` does not read are decoded."""
    is_amr = codec in AMR_CODECS
    muxer, options = ("wav", ["-ar", "8000"]) if is_amr else (codec.muxer, ["-ar", str(RATE), *codec.options.split(), "-c:a", codec.encoder])
    is_packed = not is_amr and codec.decoder is copy_transforms.PACKED
    target = os.path.join(work, "audio", "coded") if is_packed else os.path.join(work, "raw")
    paths = {name: os.path.join(target, f"{copy_id(name, 'coded')}.{muxer}") for name, _ in batch}
    good = set(copy_transforms.encode([word for _, path in batch for word in ("-i", path)],
                                      [(name, ["-map", f"{at}:a", "-ac", "1", *options, "-t", "20"], paths[name]) for at, (name, _) in enumerate(batch)]))
    if is_packed:
        return
    for name in good if is_amr else ():
        copy_transforms.encode_amr(codec, debian, paths[name], paths[name] + ".amr")
        paths[name] += ".amr"
    names = sorted(good)
    copy_transforms.encode([word for name in names for word in ("-i", paths[name])],
                           [(name, ["-map", f"{at}:a", "-c:a", "pcm_s16le"], os.path.join(work, "audio", "coded", copy_id(name, "coded") + ".wav"))
                            for at, name in enumerate(names)])


def make(work, data, debian):
    """Returns the number of recordings."""
    draw = random.Random(25)
    for folder in ("raw", "audio/plain", "audio/coded"):
        os.makedirs(os.path.join(work, folder))
    codecs = CODECS if debian else CODECS[:-1]  # the encoder of AMR is in one of the packages
    takes, batches = collections.Counter(), [[] for _ in codecs]
    for number, (voice, word, source) in enumerate(find(copy_sources.find(data, debian, corpora=(*copy_sources.CORPORA, copy_sources.NOISES)), draw)):
        voice, word = (text.replace("/", "_").replace("~", "_") for text in (voice, word))
        takes[voice, word] += 1
        name = f"{voice}~{word}~{takes[voice, word]}"
        batches[number % len(codecs)].append((name, place(work, name, source)))
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        list(workers.map(lambda job: encode(work, debian, *job),
                         [(batch[at : at + BATCH], codec) for codec, batch in zip(codecs, batches) for at in range(0, len(batch), BATCH)]))
    return sum(takes.values())
