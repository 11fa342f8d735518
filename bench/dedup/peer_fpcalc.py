#!/usr/bin/env python3
"""Chromaprint on the copies of copies_kit.py: peer_fpcalc.py WORK [JOBS]

Compares each copy with every clip at every offset, which is the best that its words allow (fpcalc
has no index). The score of a pair is its smallest bit error rate over all offsets with at least
half of the words of the shorter one in common. There are two thresholds: the library's own (10 of
32 bits), and the largest one without a false pair in half of the languages, reported for the other
half. Writes lines of: transform, bin of durations, n, coverage, own recall, own wrong clips per
query, tuned recall, tuned wrong.
"""

import collections
import concurrent.futures
import subprocess
import sys

import numpy

OWN = 10 / 32


def fingerprint(path):
    result = subprocess.run(["fpcalc", "-raw", "-length", "0", path], capture_output=True, text=True, check=False)
    for line in result.stdout.splitlines():
        if line.startswith("FINGERPRINT=") and len(line) > len("FINGERPRINT="):
            words = line.split("=", 1)[1].split(",")
            return numpy.array([int(word) & 0xffffffff for word in words], dtype=numpy.uint32)
    return None


def bit_counts(words):
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    return (((words + (words >> 4)) & 0x0f0f0f0f) * 0x01010101 & 0xffffffff) >> 24


def best_rate(clip, source, least):
    """Smallest bit error rate over all offsets at which at least `least` words of the clip are
    inside the source."""
    padded = numpy.zeros(len(source) + 2 * (len(clip) - least), dtype=numpy.uint32)
    is_inside = numpy.zeros(len(padded), dtype=numpy.uint32)
    begin = len(clip) - least
    padded[begin:begin + len(source)] = source
    is_inside[begin:begin + len(source)] = 1
    if len(padded) < len(clip):
        return 1.0
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, len(clip))
    inside = numpy.lib.stride_tricks.sliding_window_view(is_inside, len(clip))
    counts = inside.sum(axis=1)
    wrong = (bit_counts(windows ^ clip) * inside).sum(axis=1)
    rates = numpy.where(counts >= least, wrong / (32 * numpy.maximum(counts, 1)), 1.0)
    return float(rates.min())


def main():
    out = sys.argv[1]
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rows = [line.rstrip("\n").split("\t") for line in open(f"{out}/list.tsv", encoding="utf-8")]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        words = list(pool.map(lambda row: fingerprint(row[3]), rows))
    sources = [(row, word) for row, word in zip(rows, words) if row[0] == "source" and word is not None]
    fit_groups, known = set(sorted({row[1] for row in rows})[::2]), {row[2] for row, _ in sources}

    true, wrong = collections.defaultdict(list), collections.defaultdict(list)
    for (family, group, clip, _), word in zip(rows, words):
        if family == "source":
            continue
        key, is_fit = (family, clip[:2]), group in fit_groups
        if word is None or clip not in known:
            true[key].append((is_fit, None))
            continue
        for source, other in sources:
            least = max(1, min(len(word), len(other)) // 2)
            if least > len(other):
                continue
            rate = best_rate(word, other, least)
            (true if source[2] == clip else wrong)[key].append((is_fit, rate))
    print("transform\tbin\tn\tcoverage\town_recall\town_wrong_a_query\ttuned_recall\ttuned_wrong_a_query")
    tuned = {}
    for kind in sorted({key[1] for key in true}):
        rates = [rate for key in wrong if key[1] == kind for is_fit, rate in wrong[key] if is_fit]
        tuned[kind] = min(rates, default=1.0)
    for key in sorted(true):
        held = [rate for is_fit, rate in true[key] if not is_fit]
        others = [rate for is_fit, rate in wrong[key] if not is_fit]
        count = max(len(held), 1)
        rates = [rate for rate in held if rate is not None]
        print("\t".join([key[0], key[1], str(len(held)), f"{len(rates) / count:.3f}",
                         f"{sum(rate <= OWN for rate in rates) / count:.3f}", f"{sum(rate <= OWN for rate in others) / count:.2f}",
                         f"{sum(rate < tuned[key[1]] for rate in rates) / count:.3f}",
                         f"{sum(rate < tuned[key[1]] for rate in others) / count:.2f}"]))


if __name__ == "__main__":
    main()
