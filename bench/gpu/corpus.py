#!/usr/bin/env python3
"""corpus.py FOLDER COUNT: COUNT WAV files of something like speech (harmonics under a changing
envelope, over noise), 16 kHz, 2 to 16 s, each with a transcript in the same folder; the same for
the same COUNT.

Each is a piece of one minute of sound, at a different position: no two are alike. The minute takes
only seconds to make, with Python's standard library.
"""

import math
import random
import sys
import wave
from array import array
from pathlib import Path

RATE = 16000
POOL_SECONDS = 60
WORDS = "THE OF AND TO IN A IS THAT FOR IT WAS ON AS WITH HIS BE BY AT HE THIS HAD NOT ARE BUT FROM OR HAVE".split()
TABLE = 4096  # a period of the harmonics


def pool(draw):
    tone = [sum(math.sin(2 * math.pi * h * i / TABLE) / h for h in range(1, 12)) * 4000 for i in range(TABLE)]
    noise = [draw.gauss(0, 60) for _ in range(9973)]  # a prime, so that noise and pitch do not repeat together
    samples = array("h")
    phase = 0.0
    for i in range(POOL_SECONDS * RATE):
        if i % 160 == 0:  # pitch and loudness change a hundred times a second
            t = i / RATE
            step = (165 + 60 * math.sin(0.7 * t) + 15 * math.sin(5 * t)) * TABLE / RATE
            loud = max(0.0, math.sin(2 * math.pi * (3 + math.sin(0.3 * t)) * t))
        phase = (phase + step) % TABLE
        value = tone[int(phase)] * loud + noise[i % len(noise)]
        samples.append(int(max(-32768, min(32767, value))))
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()


def write(folder, count):
    folder = Path(folder)
    folder.mkdir(parents=True)
    draw = random.Random(1)
    sound = pool(draw)
    for i in range(count):
        samples = int(draw.uniform(2, 16) * RATE)
        first = draw.randrange(len(sound) // 2 - samples)
        with wave.open(str(folder / f"{i:06}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(sound[2 * first : 2 * (first + samples)])
        words = (draw.choice(WORDS) for _ in range(max(1, samples // (RATE // 2))))
        (folder / f"{i:06}.txt").write_text(" ".join(words) + "\n")


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
