#!/usr/bin/env python3
"""Cut the copies that transform.sh made into clips: clips.py WORK OUT [SEED]

For each line of WORK/list.tsv: the whole file and, if it is long enough, one clip each of 1, 2, and
3 s. A clip starts at any sample, and three quarters of it are active (the best of 32 places).
Sources go to OUT/sources unchanged, the others to OUT/clips/KIND/FAMILY/ID.wav. OUT/truth.tsv has
one line for each: family, kind (0: whole, else seconds), group, id, path, first sample, sample
rate.
"""

import array
import os
import random
import shutil
import sys
import wave

KINDS = (0, 1, 2, 3)
TRIES = 32
BLOCK_S = 0.02
RANGE = 30 ** 2  # about 30 dB


def read(path):
    with wave.open(path, "rb") as file:
        if file.getsampwidth() != 2:
            raise ValueError(f"{path}: {8 * file.getsampwidth()} bits")
        samples = array.array("h", file.readframes(file.getnframes()))
        return file.getframerate(), samples[::file.getnchannels()]


def write(path, rate, samples):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())


def active_blocks(rate, samples):
    size = int(rate * BLOCK_S)
    energies = [sum(x * x for x in samples[i:i + size:4]) for i in range(0, len(samples) - size, size)]
    floor = max(energies, default=0) / RANGE
    return size, [energy > floor for energy in energies]


def place(draw, count, clip, size, active):
    best = (-1, 0)
    for _ in range(TRIES):
        first = draw.randrange(count - clip + 1)
        blocks = active[first // size:(first + clip) // size]
        share = sum(blocks) / max(len(blocks), 1)
        if share >= 0.75:
            return first
        best = max(best, (share, first))
    return best[1]


def main():
    work, out = sys.argv[1:3]
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(work, "list.tsv"), encoding="utf-8") as lines, \
            open(os.path.join(out, "truth.tsv"), "w", encoding="utf-8") as truth:
        for line in lines:
            family, group, name, path = line.rstrip("\n").split("\t")
            if family == "source":
                target = os.path.join(out, "sources", name + os.path.splitext(path)[1])
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(path, target)
                truth.write(f"source\t0\t{group}\t{name}\t{target}\t0\t0\n")
                continue
            try:
                rate, samples = read(path)
            except (wave.Error, ValueError, EOFError):
                continue  # the encoder of this family failed
            size, active = active_blocks(rate, samples)
            for kind in KINDS:
                draw = random.Random(f"{seed} {family} {name} {kind}")
                clip = kind * rate if kind > 0 else len(samples)
                if clip > len(samples) or (kind > 0 and clip == len(samples)):
                    continue
                first = place(draw, len(samples), clip, size, active)
                target = os.path.join(out, "clips", str(kind), family, f"{name}.wav")
                if kind == 0:
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copyfile(path, target)
                else:
                    write(target, rate, samples[first:first + clip])
                truth.write(f"{family}\t{kind}\t{group}\t{name}\t{target}\t{first}\t{rate}\n")


if __name__ == "__main__":
    main()
