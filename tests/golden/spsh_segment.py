#!/usr/bin/env python3
"""A second implementation of fingerprint segments, from FORMAT.md 8 and FINGERPRINT.md:
spsh_segment.py DATASET

It computes every column of every segment again from the dataset's records, which must be 16-bit WAV
files, and compares. It does not check the bounds of chunks, but checks their digests.
"""
import io
import os
import struct
import sys
import wave

import numpy as np

from spsh_fingerprint import fingerprint
from spsh_reader import NONE64, SEGMENT, Container, Damage, Dataset, h64, h128, must

VERSION, PRINT_VERSION = 1, 1
DECODED, WHOLE, ALIAS, LOSSLESS, HAS_TEXT = 1, 2, 4, 8, 16


class Segment(Container):
    """Kind 5 has a number inside its unit; all else is as in other containers without blocks."""

    ROWS = {32: 16, 33: 4, 34: 4, 35: 2, 36: 8, 37: 16, 38: 16, 39: 16, 40: 16, 41: 8, 42: 8, 43: 4, 44: 4, 45: 4, 46: 4}

    def __init__(self, path, shard):
        super().__init__(path, SEGMENT)
        must((self.ordinal, self.sub_ordinal) == (shard.ordinal, shard.sub_ordinal), path, "unit and number")
        tail = struct.pack("<QQ", shard.ordinal, shard.sub_ordinal) + shard.root_hash + struct.pack("<Q", VERSION) + b"fingerprint"
        must(self.file_id == h128(shard.dataset_id + tail), path, "file_id")
        must(list(self.column(1, 16, 2)) == [shard.file_id, shard.root_hash], path, "shard")
        must(list(self.column(2, 4, 2)) == [VERSION, PRINT_VERSION], path, "versions")
        must(self.utterance_count == len(shard.rows), path, "utterance_count")
        count = self.utterance_count
        self.rows = {i: self.column(i, width, count) for i, width in self.ROWS.items()}
        self.print_begin, self.chunk_begin = self.column(47, 8, count + 1), self.column(48, 8, count + 1)
        prints = self.print_begin[-1]
        self.print_row, self.print_channel = self.column(64, 4, prints), self.column(65, 2, prints)
        self.frame_begin, self.key_begin = self.column(66, 8, prints + 1), self.column(67, 8, prints + 1)
        self.words, self.levels = self.column(80, 4, self.frame_begin[-1]), self.column(81, 1, self.frame_begin[-1])
        self.keys, self.chunks = self.column(82, 16, self.key_begin[-1]), self.column(83, 16, self.chunk_begin[-1])
        for begin in (self.print_begin, self.chunk_begin, self.frame_begin, self.key_begin):
            must(begin[0] == 0 and list(begin) == sorted(begin), path, "beginnings")


def digest(rate, channels, samples):
    return h128(struct.pack("<II", rate, channels) + np.ascontiguousarray(samples, "<i4").tobytes())


def digests(rate, pcm):
    """full, trim, mono, trim_first, trim_count: FINGERPRINT.md 5."""
    wide = pcm.astype(np.int64) * 65536
    loud = np.flatnonzero(wide.any(axis=1))
    full = digest(rate, wide.shape[1], wide)
    if len(loud) == 0:
        return full, bytes(16), bytes(16), 0, 0
    kept = wide[loud[0] : loud[-1] + 1]
    equal = bool((kept == kept[:, :1]).all())
    return full, digest(rate, wide.shape[1], kept), digest(rate, 1, kept[:, 0]) if equal else bytes(16), int(loud[0]), len(kept)


def clipped(pcm):
    """Samples at full scale of one sign in runs of 3 and more."""
    total = 0
    for channel in pcm.T:
        for sign in (channel == 32767, channel <= -32767):
            run = 0
            for value in list(sign) + [False]:
                if value:
                    run += 1
                else:
                    total += run if run >= 3 else 0
                    run = 0
    return total


def signals(rate, pcm):
    """Channel number -> samples: FINGERPRINT.md 7."""
    count, wide = pcm.shape[1], pcm.astype(np.int64)
    mix = wide.sum(axis=1) // count
    if rate < 8000 or rate > 192000:
        return mix, {}
    sums = wide.T @ wide
    power = [float(sums[c, c]) for c in range(count)]
    differ = any(power[a] * power[b] > 0 and float(sums[a, b]) < 0.98 * np.sqrt(power[a] * power[b])
                 for a in range(count) for b in range(a + 1, count))
    channels = {c + 1: wide[:, c] for c in range(count)} if 2 <= count <= 8 and differ else {}
    return mix, {0: mix, **channels}


def bandwidth(rate, mix):
    """FINGERPRINT.md 8."""
    n = len(mix)
    windows = min(8 * (n // (4 * rate) + 1), 64) if rate >= 8000 else 8
    room = max(n - 2048, 0)
    padded = np.concatenate([mix, np.zeros(2048)])
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(2048) / 2048)
    energy = np.zeros(1024)
    for k in range(windows):
        at = room // (windows - 1) * k + room % (windows - 1) * k // (windows - 1)
        energy += np.abs(np.fft.fft(padded[at : at + 2048] * hann)[:1024]) ** 2
    energy[0] = 0
    bands = energy.reshape(64, 16).sum(axis=1)
    above = [b for b in range(64) if bands[b] > 768 * 16 * windows and bands[b] > 1e-7 * bands.max()]
    return (above[-1] + 1) * rate // 128 if above else 0


def check_print(segment, number, samples, rate):
    words, levels, active, keys = fingerprint([int(v) for v in samples], rate)
    frames = slice(segment.frame_begin[number], segment.frame_begin[number + 1])
    must(list(segment.words[frames]) == words, "words of print", number)
    must(list(segment.levels[frames]) == [level | 128 * bool(a) for level, a in zip(levels, active)], "levels of print", number)
    packed = [struct.pack("<QQ", bits | weak[0] << 48 | weak[1] << 54, weak[2] | frame << 6) for bits, frame, weak in keys]
    must(list(segment.keys[segment.key_begin[number] : segment.key_begin[number + 1]]) == packed, "keys of print", number)
    return sum(map(bool, active)), len(words), len(keys)


def check_chunks(segment, at, pcm):
    end = 0
    chunks = segment.chunks[segment.chunk_begin[at] : segment.chunk_begin[at + 1]]
    for chunk in chunks:
        hashed, place = struct.unpack("<QQ", chunk)
        first, count = place >> 20, place & (1 << 20) - 1
        must(first >= end and count > 0 and first + count <= len(pcm), "chunk of row", at)
        wide = pcm[first : first + count].astype(np.int64) * 65536
        must(h64(wide.astype("<i4").tobytes()) == hashed, "hash of a chunk of row", at)
        end = first + count
    return len(chunks)


def check_row(segment, at, utterance, totals):
    row, c, record = utterance
    got = {i: column[at] for i, column in segment.rows.items()}
    want = {i: 0 for i in got}
    want.update({i: bytes(16) for i in (37, 38, 39, 40)})
    want.update({32: h128(row["id"].encode()), 33: HAS_TEXT * (row["flags"] & 1)})
    if c[44] != NONE64:
        want[33] |= ALIAS
        must(got == want and segment.print_begin[at] == segment.print_begin[at + 1], row["id"], "alias")
        return
    with wave.open(io.BytesIO(record["payload"])) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
    pcm, rate = pcm[c[38] : c[38] + c[39]], c[40]
    mix, parts = signals(rate, pcm)
    full, trim, mono, first, count = digests(rate, pcm)
    want[33] |= DECODED | LOSSLESS | (WHOLE if (c[38], c[39]) == (0, record["samples"]) else 0)
    want.update({34: rate, 35: c[41], 36: c[39], 37: h128(record["payload"]), 38: full, 39: trim, 40: mono, 41: first, 42: count,
                 43: bandwidth(rate, mix), 44: clipped(pcm), 45: len(record["payload"]) * 8 * rate // record["samples"]})
    numbers = range(segment.print_begin[at], segment.print_begin[at + 1])
    must([segment.print_channel[n] for n in numbers] == list(parts), row["id"], "channels of prints")
    must(all(segment.print_row[n] == at for n in numbers), row["id"], "rows of prints")
    for n, samples in zip(numbers, parts.values()):
        active, frames, keys = check_print(segment, n, samples, rate)
        want[46] = 16 * active if segment.print_channel[n] == 0 else want[46]
        totals += (0, 1, frames, keys, 0)
    totals += (1, 0, 0, 0, check_chunks(segment, at, pcm))
    for i, value in want.items():
        must(got[i] == value, row["id"], "section", i, "is", got[i], "want", value)


def main(path):
    dataset, at = Dataset(path), 0
    totals = np.zeros(5, int)
    for shard in dataset.shards:
        name = "%06d-%03d.spsh" % (shard.ordinal, shard.sub_ordinal)
        segment = Segment(os.path.join(path, "fingerprints", name), shard)
        for n in range(len(shard.rows)):
            check_row(segment, n, dataset.rows[at], totals)
            at += 1
    print("%d utterances, %d prints, %d frames, %d keys, %d chunks, the same" % tuple(totals))


try:
    main(sys.argv[1])
except Damage as damage:
    print("damage:", damage, file=sys.stderr)
    sys.exit(1)
