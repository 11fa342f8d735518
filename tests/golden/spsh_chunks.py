#!/usr/bin/env python3
"""Canonical digests and chunks a second time, from FINGERPRINT.md 5 and 6: spsh_chunks.py < signals
> found

Input: what `dump_chunks --samples` prints; only its samples are read. Output: the same without
them.
"""

import struct
import sys

import numpy as np
import xxhash


def digest(frames, rate, channels):
    head = struct.pack("<II", rate, channels)
    return xxhash.xxh3_128_hexdigest(head + frames.astype("<i4").tobytes())


def clipped(frames):
    total = 0
    for channel in frames.T:
        sign = np.where(channel >= 0x7FFF0000, 1, np.where(channel <= -0x7FFF0000, -1, 0))
        borders = np.flatnonzero(np.diff(sign, prepend=2, append=2))
        for begin, end in zip(borders[:-1], borders[1:]):
            if sign[begin] and end - begin >= 3:
                total += int(end - begin)
    return total


def digests(frames, rate):
    channels = frames.shape[1]
    none = "0" * 32
    sounding = np.flatnonzero(frames.any(axis=1))
    first, end = (int(sounding[0]), int(sounding[-1]) + 1) if len(sounding) else (0, 0)
    inner = frames[first:end]
    trim = digest(inner, rate, channels) if end else none
    mono = digest(inner[:, :1], rate, 1) if end and (frames == frames[:, :1]).all() else none
    return digest(frames, rate, channels), trim, mono, first, end - first, clipped(frames)


def hashes(frames):
    """h(i) for i >= 31; before that 0, which is not used."""
    value = np.zeros(len(frames), np.uint32)
    for channel in frames.T:
        value = value * np.uint32(0x9E3779B1) + channel.astype(np.int64).astype(np.uint32)
    value ^= value >> np.uint32(16)
    value *= np.uint32(0x9E3779B1)
    value ^= value >> np.uint32(15)
    value *= np.uint32(0x85EBCA77)
    value ^= value >> np.uint32(13)
    total = np.zeros(len(frames), np.uint32)
    for back in range(32):
        total[31:] += value[31 - back : len(value) - back] << np.uint32(back)
    return total


def chunks(frames, rate):
    count, near, value = len(frames), rate // 8, hashes(frames)
    cuts = [0]
    for p in range(near + 31, count - near):
        if value[p] > value[p - near : p].max() and value[p] >= value[p + 1 : p + near + 1].max():
            cuts.append(p)
    cuts.append(count)
    for begin, end in zip(cuts[:-1], cuts[1:]):
        piece = frames[begin:end]
        if end - begin <= rate and (piece != piece[0]).any():
            yield begin, end - begin, xxhash.xxh3_64_hexdigest(piece.astype("<i4").tobytes())


def main():
    lines = iter(sys.stdin)
    for line in lines:
        if not line.startswith("signal "):
            continue
        print(line, end="")
        rate, channels = int(line.split()[2]), int(line.split()[3])
        frames = np.array(next(lines).split(), np.int64).astype(np.int32).reshape(-1, channels)
        print("d", *digests(frames, rate))
        for chunk in chunks(frames, rate):
            print("c", *chunk)


main()
