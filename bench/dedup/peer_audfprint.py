#!/usr/bin/env python3
"""audfprint on the copies of copies_kit.py: peer_audfprint.py AUDFPRINT_FOLDER WORK DENSITY FANOUT SHIFTS

All clips go into one table. Each copy is looked up, with at most three answers. Results are
reported for the other half of the languages at two thresholds: the program's own (5 common
landmarks), and, for each bin of durations, the smallest count without a wrong answer on the first
half. Writes lines of: transform, bin, n, and for each threshold the recall and the share of
queries with a wrong answer. Needs numpy, scipy, docopt, joblib, psutil, ffmpeg.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile

MATCHED = re.compile(r"^Matched (.*?) +[0-9.]+ sec [0-9]+ raw hashes as (.*?) at +-?[0-9.]+ s with +([0-9]+) of +[0-9]+ common")


def run(program, arguments, paths):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        listing.write("\n".join(paths) + "\n")
        listing.flush()
        result = subprocess.run([sys.executable, program, *arguments, "--list", listing.name], capture_output=True, text=True,
                                check=True)
    return result.stdout.splitlines()


def main():
    folder, out, density, fanout, shifts = sys.argv[1:6]
    program = os.path.join(folder, "audfprint.py")
    rows = [line.rstrip("\n").split("\t") for line in open(f"{out}/list.tsv", encoding="utf-8")]
    sources = {row[3]: row[2] for row in rows if row[0] == "source"}
    queries = {row[3]: row for row in rows if row[0] != "source"}
    options = ["--density", density, "--fanout", fanout]
    answers = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as place:
        base = os.path.join(place, "base.pklz")
        run(program, ["new", "--dbase", base, "--shifts", shifts, *options], list(sources))
        for line in run(program, ["match", "--dbase", base, "--max-matches", "3", *options], list(queries)):
            found = MATCHED.match(line)
            if found:
                answers[found.group(1)].append((sources[found.group(2)], int(found.group(3))))
    groups = sorted({row[1] for row in rows})
    fit_groups = set(groups[::2])
    least = collections.defaultdict(int)
    for path, row in queries.items():
        for name, count in answers[path]:
            if row[1] in fit_groups and name != row[2]:
                least[row[2][:2]] = max(least[row[2][:2]], count + 1)
    cells = collections.defaultdict(list)
    for path, row in queries.items():
        if row[1] in fit_groups:
            continue
        right = max((count for name, count in answers[path] if name == row[2]), default=0)
        wrong = max((count for name, count in answers[path] if name != row[2]), default=0)
        limit = least[row[2][:2]]
        cells[row[0], row[2][:2]].append((right > 0, wrong > 0, right >= max(limit, 1), wrong >= max(limit, 1)))
    print("transform\tbin\tn\town_recall\town_wrong\ttuned_recall\ttuned_wrong")
    for key in sorted(cells):
        values = cells[key]
        print("\t".join([*key, str(len(values))] +
                        [f"{sum(value[i] for value in values) / len(values):.3f}" for i in range(4)]))


if __name__ == "__main__":
    main()
