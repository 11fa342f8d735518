#!/usr/bin/env python3
"""Chromaprint on the clips of clips.py: peer_fpcalc.py OUT [JOBS]

Compares each clip with every source at every offset, which is the best that its words allow (fpcalc
has no index). The score of a pair is its smallest bit error rate over all offsets at which the
whole clip is inside the source (whole files: at least half of the shorter one). There are two
thresholds: the library's own (10 of 32 bits), and the largest one without a false pair on half of
the speakers, reported for the other half. Writes lines of: family, kind, n, coverage, own recall,
own wrong sources per query, tuned recall, tuned wrong.
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
    rows = [line.rstrip("\n").split("\t") for line in open(f"{out}/truth.tsv", encoding="utf-8")]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        words = list(pool.map(lambda row: fingerprint(row[4]), rows))
    sources = [(row, word) for row, word in zip(rows, words) if row[0] == "source" and word is not None]
    groups = sorted({row[2] for row in rows})
    fit_groups = set(groups[::2])

    true, wrong = collections.defaultdict(list), collections.defaultdict(list)
    for row, word in zip(rows, words):
        if row[0] == "source":
            continue
        key, is_fit = (row[0], int(row[1])), row[2] in fit_groups
        if word is None:
            true[key].append((is_fit, None))
            continue
        for source, other in sources:
            least = len(word) if int(row[1]) > 0 else max(1, min(len(word), len(other)) // 2)
            if least > len(other):
                continue
            rate = best_rate(word, other, least)
            if source[3] == row[3]:
                true[key].append((is_fit, rate))
            else:
                wrong[key].append((is_fit, rate))
    print("family\tseconds\tn\tcoverage\town_recall\town_wrong_a_query\ttuned_recall\ttuned_wrong_a_query")
    tuned = {}
    for kind in sorted({key[1] for key in true}):
        rates = [rate for key in wrong if key[1] == kind for is_fit, rate in wrong[key] if is_fit]
        tuned[kind] = min(rates, default=1.0)
    for key in sorted(true):
        held = [rate for is_fit, rate in true[key] if not is_fit]
        others = [rate for is_fit, rate in wrong[key] if not is_fit]
        count = max(len(held), 1)
        rates = [rate for rate in held if rate is not None]
        print("\t".join([key[0], str(key[1]), str(len(held)), f"{len(rates) / count:.3f}",
                         f"{sum(rate <= OWN for rate in rates) / count:.3f}", f"{sum(rate <= OWN for rate in others) / count:.2f}",
                         f"{sum(rate < tuned[key[1]] for rate in rates) / count:.3f}",
                         f"{sum(rate < tuned[key[1]] for rate in others) / count:.2f}"]))


if __name__ == "__main__":
    main()
