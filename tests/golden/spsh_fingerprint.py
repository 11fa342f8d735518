#!/usr/bin/env python3
"""The fingerprint a second time, from FINGERPRINT.md: spsh_fingerprint.py < signals > prints

Input: what `dump_fingerprint --samples` prints; only its samples are read. Output: the same without
them.
"""

import sys
from math import gcd

import numpy as np

F = np.float32
HOP, LAG = 128, 8
DENSE_EDGES = [32, 35, 37, 41, 44, 48, 51, 56, 60, 65, 71, 76, 83, 89, 97, 105, 113, 123, 133, 144, 156,
               168, 182, 197, 214, 231, 250, 271, 293, 317, 343, 372, 402, 435]
WIDE_EDGES = [64, 75, 87, 101, 118, 138, 161, 187, 219, 255, 297, 346, 404, 471, 549, 640, 747, 870]


def cosine_table():
    """round(2^30 cos(2 pi k / 2048)): a series in integers of 100 bits."""
    bits = 100
    pi = 3141592653589793238462643383279502884197 * 2**bits // 10**39
    table = []
    for k in range(2048):
        angle = 2 * pi * min(k, 2048 - k) // 2048
        term = total = 1 << bits
        n = 0
        while term:
            n += 2
            term = -(term * angle * angle >> 2 * bits) // (n * (n - 1))
            if abs(term) <= 1:
                break
            total += term
        table.append((total + (1 << bits - 31)) >> bits - 30)
    return table


COSINE = cosine_table()


def cosine_fine(angle):
    step, part = angle >> 13, angle & 8191
    return (COSINE[step % 2048] * (8192 - part) + COSINE[(step + 1) % 2048] * part) >> 13


def taps_of(rate, phases, half, phase):
    taps = []
    for j in range(-half, half + 1):
        distance = abs(j * phases - phase)
        angle = 4000 * distance * 2**24 // (phases * rate)
        if angle >= 8 * 2**24:
            taps.append(0)
            continue
        sinc = 2**30 if angle == 0 else cosine_fine(angle + 3 * 2**22) * 2670177 // angle
        turn = angle >> 4
        window = (42 * 2**30 + 50 * cosine_fine(turn) + 8 * cosine_fine(2 * turn)) // 100
        value = sinc * window // 2**30
        taps.append((value * 8000 + (rate << 15)) // (rate << 16))
    taps[taps.index(max(taps))] += 2**14 - sum(taps)
    return np.array(taps, np.int64)


def resample(samples, rate):
    x = np.array(samples, np.int64)
    if rate == 8000:
        return x * 16
    phases, step = 8000 // gcd(rate, 8000), rate // gcd(rate, 8000)
    half = -(-rate // 500)
    padded = np.concatenate([np.zeros(half, np.int64), x, np.zeros(half + 1, np.int64)])
    filters = {}
    out = []
    for n in range(-(-len(x) * phases // step)):
        base, phase = divmod(n * step, phases)
        if phase not in filters:
            filters[phase] = taps_of(rate, phases, half, phase)
        out.append((int(padded[base : base + 2 * half + 1] @ filters[phase]) + 512) >> 10)
    return np.array(out, np.int64)


CIRCLE_COS = np.array(COSINE, np.int64).astype(F) * F(2**-30)
CIRCLE_SIN = np.array([COSINE[(k + 512) % 2048] for k in range(2048)], np.int64).astype(F) * F(2**-30)


def turned(x, y, steps):
    c, s = CIRCLE_COS[steps], CIRCLE_SIN[steps]
    return x * c - y * s, x * s + y * c


def transform(re, im):
    """Decimation in frequency; bins in their natural order. The last axis is transformed."""
    size = re.shape[-1]
    if size == 1:
        return re, im
    out_re, out_im = np.empty_like(re), np.empty_like(im)
    if size == 2048:
        k = np.arange(1024)
        (r0, r1), (i0, i1) = np.split(re, 2, -1), np.split(im, 2, -1)
        parts = [(r0 + r1, i0 + i1), turned(r0 - r1, i0 - i1, k)]
    else:
        k = np.arange(size // 4) * (2048 // size)
        (r0, r1, r2, r3), (i0, i1, i2, i3) = np.split(re, 4, -1), np.split(im, 4, -1)
        ar, ai, br, bi = r0 + r2, i0 + i2, r0 - r2, i0 - i2
        cr, ci, dr, di = r1 + r3, i1 + i3, i1 - i3, r3 - r1
        parts = [
            (ar + cr, ai + ci),
            turned(br + dr, bi + di, k),
            turned(ar - cr, ai - ci, 2 * k),
            turned(br - dr, bi - di, 3 * k),
        ]
    for r, (x, y) in enumerate(parts):
        out_re[..., r :: len(parts)], out_im[..., r :: len(parts)] = transform(x, y)
    return out_re, out_im


LOG = []
for i in range(1024):
    x, value = (2 * (1024 + i) + 1) << 20, 0
    for _ in range(11):
        x = x * x >> 31
        value = 2 * value + (x >= 2**32)
        x >>= int(x >= 2**32)
    LOG.append((value + 1) // 2)
LOG = np.array(LOG, np.int64)


def logarithm(x):
    bits = x.astype(F).view(np.uint32).astype(np.int64)
    return ((bits >> 23) - 127) * 1024 + LOG[(bits >> 13) & 1023]


def analyse(x, size, edges, floor):
    """Logarithms of band energies and of their sum, one row per frame."""
    count = 0 if len(x) < size else (len(x) - size) // HOP + 1
    if count == 0:
        return np.zeros((0, len(edges) - 1), np.int64), np.zeros(0, np.int64)
    pairs = (count + 1) // 2
    padded = np.concatenate([x, np.zeros(size + 2 * HOP, np.int64)]).astype(F)
    window = np.array([2**30 - COSINE[k * (2048 // size)] for k in range(size)], np.int64)
    window = window.astype(F) * F(2**-31)
    frames = np.stack([padded[t * HOP : t * HOP + size] * window for t in range(2 * pairs)])
    re, im = transform(frames[0::2], frames[1::2])
    energies = np.zeros((2 * pairs, len(edges) - 1), F)
    total = np.zeros(2 * pairs, F)
    for band in range(len(edges) - 1):
        even, odd = np.zeros(pairs, F), np.zeros(pairs, F)
        for k in range(edges[band], edges[band + 1]):
            a, b = re[:, k] + re[:, size - k], im[:, k] - im[:, size - k]
            c, d = re[:, k] - re[:, size - k], im[:, k] + im[:, size - k]
            even = even + (a * a + b * b)
            odd = odd + (c * c + d * d)
        energies[0::2, band], energies[1::2, band] = even, odd
        total = total + energies[:, band]
    floors = np.array([F(floor) * F(edges[b + 1] - edges[b]) for b in range(len(edges) - 1)], F)
    return logarithm(energies + floors)[:count], logarithm(total + F(1))[:count]


def differences(logs):
    steps = logs[:, :-1] - logs[:, 1:]
    return steps[LAG:] - steps[:-LAG] if len(steps) > LAG else steps[:0]


def fingerprint(samples, rate):
    x = resample(samples, rate)
    logs, totals = analyse(x, 1024, DENSE_EDGES, 393216)
    words = [sum(int(v > 0) << b for b, v in enumerate(row)) for row in differences(logs)]
    levels = [min(max((int(totals[i + 4]) - 25600) >> 8, 0), 127) for i in range(len(words))]
    active = []
    for i, level in enumerate(levels):
        first = max(i // 64 - 8, 0) * 64
        active.append(level >= 24 and level >= max(levels[first : (i // 64 + 9) * 64]) - 40)

    wide = [[int(v) for v in row] for row in differences(analyse(x, 2048, WIDE_EDGES, 786432)[0])]
    strength = [sum(abs(v) for v in row) for row in wide]
    smooth = {u: sum(strength[u - 1 : u + 2]) for u in range(1, len(wide) - 1)}
    keys = []
    for u in range(4, len(wide) - 20):
        if any(smooth[u] <= smooth[u - k] or smooth[u] < smooth[u + k] for k in (1, 2, 3)):
            continue
        if not active[u + 4]:
            continue
        values = wide[u + 10] + wide[u + 20] + wide[u]
        bits = sum(int(v > 0) << place for place, v in enumerate(values))
        weak = sorted(range(48), key=lambda place: (abs(values[place]), place))[:3]
        keys.append((bits, u + 4, weak))
    return words, levels, active, keys


def main():
    lines = iter(sys.stdin)
    for line in lines:
        if not line.startswith("signal "):
            continue
        print(line, end="")
        rate = int(line.split()[2])
        words, levels, active, keys = fingerprint([int(v) for v in next(lines).split()], rate)
        for word, level, is_active in zip(words, levels, active):
            print(f"w {word:08x} {level} {int(is_active)}")
        for bits, frame, weak in keys:
            print(f"k {bits:012x} {frame} {weak[0]} {weak[1]} {weak[2]}")


if __name__ == "__main__":
    main()
