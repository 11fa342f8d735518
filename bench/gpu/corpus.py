#!/usr/bin/env python3
"""corpus.py FOLDER COUNT: COUNT WAV files of something like speech (harmonics under a changing envelope, over noise), 16 kHz,
2 to 16 s, each with a transcript beside it; the same for the same COUNT."""

import sys
import wave
from pathlib import Path

import numpy as np

RATE = 16000
WORDS = "THE OF AND TO IN A IS THAT FOR IT WAS ON AS WITH HIS BE BY AT HE THIS HAD NOT ARE BUT FROM OR HAVE".split()


def utterance(random):
    count = int(random.uniform(2, 16) * RATE)
    t = np.arange(count) / RATE
    pitch = random.uniform(90, 240) * (1 + 0.1 * np.sin(2 * np.pi * random.uniform(0.3, 1) * t))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    loud = np.clip(np.sin(2 * np.pi * random.uniform(2, 5) * t + random.uniform(0, 6)), 0, 1)
    sound = sum(np.sin(h * phase) / h for h in range(1, 12)) * loud * 4000
    return np.clip(sound + random.normal(0, 60, count), -32768, 32767).astype("<i2")


def main():
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    for i in range(count):
        samples = utterance(random)
        with wave.open(str(folder / f"{i:06}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples.tobytes())
        words = random.choice(WORDS, max(1, len(samples) // (RATE // 2)))
        (folder / f"{i:06}.txt").write_text(" ".join(words) + "\n")


if __name__ == "__main__":
    main()
