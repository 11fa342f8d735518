#!/usr/bin/env python3
"""Tables of what match_pairs found: report.py [--half fit|report|all] RESULTS...

Groups (speakers) are halved by the order of their names: thresholds are fitted on the first, third,
... and reported for the others. Rates have 95 % Wilson intervals. `found` is a true pair classified
as same_recording, contained, or shared_segment. If the truth is known (families that keep time),
its offset must be within 0.2 s of the truth. `near` adds time_scaled, probable_copy, and
same_performance.
"""

import collections
import sys

COPIES = {"same_recording", "contained", "shared_segment"}
NEAR = COPIES | {"time_scaled", "probable_copy", "same_performance"}
EXACT = {"wav_8", "pcm_alaw", "pcm_mulaw", "pcm_u8", "g722_16", "gain_-20", "gain_clip", "stereo"}


def wilson(good, count):
    if count == 0:
        return 0.0, 1.0
    z = 1.959964
    rate = good / count
    middle = rate + z * z / (2 * count)
    spread = z * (rate * (1 - rate) / count + z * z / (4 * count * count)) ** 0.5
    whole = 1 + z * z / count
    return max((middle - spread) / whole, 0.0), min((middle + spread) / whole, 1.0)


def percentile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0


def main():
    args = sys.argv[1:]
    half = "all"
    if args[:1] == ["--half"]:
        half, args = args[1], args[2:]
    rows, summaries = [], []
    for path in args:
        for line in open(path, encoding="utf-8"):
            fields = line.rstrip("\n").split("\t")
            (summaries if fields[0] == "summary" else rows).append(fields)
    groups = sorted({row[2] for row in rows})
    keep = {g for i, g in enumerate(groups) if half == "all" or (i % 2 == 0) == (half == "fit")}
    cells = collections.defaultdict(list)
    errors = []
    for row in rows:
        if row[0] != "true" or row[2] not in keep:
            continue
        family, clip = row[1], int(row[5])
        is_in_place = True
        if family in EXACT:
            error = abs(float(row[15]) - float(row[6]))
            is_in_place = error < 0.2
            if row[7] in COPIES:
                errors.append(error * 1000)
        cells[family, clip].append((row, row[7] in COPIES and is_in_place, row[7] in NEAR))
    print("family | " + " | ".join(f"{name}: n, found [95 %], near" for name in ("whole", "1 s", "2 s", "3 s"))
          + " | BER median, p95 | NCC p5, median | white p5")
    for family in dict.fromkeys(key[0] for key in sorted(cells)):
        parts = []
        for clip in range(4):
            cell = cells[family, clip]
            good, near = sum(c[1] for c in cell), sum(c[2] for c in cell)
            low, high = wilson(good, len(cell))
            parts.append(f"{len(cell)}, {good / max(len(cell), 1):.3f} [{low:.3f}-{high:.3f}], {near / max(len(cell), 1):.3f}")
        every = [c[0] for clip in range(4) for c in cells[family, clip] if float(c[0][12]) >= 0.5]
        ber = [float(r[8]) for r in every]
        ncc = [abs(float(r[9])) for r in every]
        white = [abs(float(r[10])) for r in every]
        print(f"{family} | " + " | ".join(parts) + f" | {percentile(ber, 0.5):.3f}, {percentile(ber, 0.95):.3f} | "
              f"{percentile(ncc, 0.05):.3f}, {percentile(ncc, 0.5):.3f} | {percentile(white, 0.05):.3f}")
    print("whole recordings: share with at least 1 / 2 common keys of 48 bits, of 32 bits")
    for family in dict.fromkeys(key[0] for key in sorted(cells)):
        cell = [c[0] for c in cells[family, 0]]
        shares = [sum(int(r[at]) >= least for r in cell) / max(len(cell), 1) for at in (23, 24) for least in (1, 2)]
        print(f"{family} | {len(cell)} | " + " | ".join(f"{share:.3f}" for share in shares))
    print(f"offset error of {len(errors)} found copies that keep time, ms: median {percentile(errors, 0.5):.4f}, "
          f"p99 {percentile(errors, 0.99):.4f}, most {max(errors, default=0):.4f}")
    false = [r for r in rows if r[0] == "false" and r[2] in keep and not r[1].startswith("babble")]
    print("false pairs called a copy:", [r[1:9] for r in false if r[7] in COPIES])
    print("false pairs of other classes:", dict(collections.Counter(r[7] for r in false if r[7] not in COPIES)))
    for fields in summaries:
        print("all pairs that are not copies (babble of another source counted, where it is one):", " ".join(fields[1:]))


if __name__ == "__main__":
    main()
