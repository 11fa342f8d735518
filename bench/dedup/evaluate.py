#!/usr/bin/env python3
"""Copies from clips.py that the command finds: evaluate.py SPEECHSHARD OUT > table.tsv

OUT is made by clips.py. Sources and clips are packed. `dedupe` (mild and deep) then runs over
sources and whole copies. `audit` runs with the sources as training data, and with whole copies and
clips of 1, 2, and 3 s as test data. A copy is found if `audit` pairs it directly with its source in
a class that may drop something, or if `dedupe` puts it into the cluster of its source. `near` also
counts the weaker classes. A wrong answer is a pair of such a class between different sources. For
families that keep time, offsets are compared with the truth. Rates have 95 % Wilson intervals.
Speakers are halved as in report.py: the third argument is fit, report, or all.
"""

import collections
import json
import os
import subprocess
import sys

from report import COPIES, EXACT, NEAR, SHIFT_S, percentile, wilson


def command(program, *arguments, allowed=(0,)):
    result = subprocess.run([program, *arguments, "--quiet"], stdout=subprocess.DEVNULL, check=False)
    if result.returncode not in allowed:
        sys.exit(f"{' '.join(arguments)}: exit {result.returncode}")


def pairs_of(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "a" in row and "b" in row and row.get("class"):
                yield row


def pack(program, out, name, folder):
    dataset = os.path.join(out, name)
    if not os.path.exists(os.path.join(dataset, "manifest.spsh")):
        command(program, "pack", folder, "-o", dataset, "--layout", "folder", "--dedupe", "none")
    return dataset


def classes_of(row):
    return {part["class"] for part in row["segments"]}


def source_of(name):
    return name.rsplit("/", 1)[-1]


class Tally:
    def __init__(self, truth, keep):
        self.truth = truth  # (family, kind, id) -> first second of the clip
        self.keep = keep
        self.found, self.near = set(), set()
        self.errors, self.wrong = [], []

    def take(self, row, copy, kind, is_found_now):
        """copy: family/id of the clip, whose source is in the row."""
        family, name = copy.split("/", 1)
        key = (family, kind, name)
        if classes_of(row) & NEAR:
            self.near.add(key)
        if not is_found_now:
            return
        self.found.add(key)
        if family in EXACT and key in self.truth:
            part = row["segments"][0]
            lag_ms = part["lag_ms"] if row["b"]["id"] == copy else -part["lag_ms"]
            self.errors.append(abs(lag_ms + 1000 * (self.truth[key] + SHIFT_S.get(family, 0))))

    def print(self, label):
        cells = collections.defaultdict(list)
        for key in self.truth:
            if key in self.keep:
                cells[key[0], key[1]].append(key)
        for (family, kind), keys in sorted(cells.items()):
            found = sum(key in self.found for key in keys)
            low, high = wilson(found, len(keys))
            print(f"{label}\t{family}\t{kind}\t{len(keys)}\t{found / len(keys):.3f}\t{low:.3f}\t{high:.3f}\t"
                  f"{sum(key in self.near for key in keys) / len(keys):.3f}")
        errors = sorted(self.errors)
        print(f"{label}\toffset error ms\tmedian {percentile(errors, 0.5):.4f}\tp99 {percentile(errors, 0.99):.4f}\t"
              f"n {len(errors)}\twrong pairs {len(self.wrong)}")
        for row in self.wrong[:20]:
            print(f"{label}\twrong\t{row['class']}\t{row['a']['id']}\t{row['b']['id']}", file=sys.stderr)


def read_truth(out, half):
    rows = [line.rstrip("\n").split("\t") for line in open(f"{out}/truth.tsv", encoding="utf-8")]
    groups = sorted({row[2] for row in rows})
    truth, keep = {}, set()
    for family, kind, group, name, _, first, rate in rows:
        if family == "source":
            continue
        key = (family, int(kind), name)
        truth[key] = int(first) / int(rate)
        if half == "all" or (groups.index(group) % 2 == 0) == (half == "fit"):
            keep.add(key)
    return truth, keep


def dedupe(program, out, truth, keep, search):
    plan = os.path.join(out, f"plan-{search}.jsonl")
    sources = pack(program, out, "sources.spsh", os.path.join(out, "sources"))
    whole = pack(program, out, "clips-0.spsh", os.path.join(out, "clips", "0"))
    command(program, "dedupe", sources, whole, "-o", plan, "--search", search)
    tally = Tally({key: start for key, start in truth.items() if key[1] == 0}, keep)
    parent = {}

    def root(name):
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    copies = []
    for row in pairs_of(plan):
        a, b = row["a"]["id"], row["b"]["id"]
        if row["class"] not in COPIES:
            continue
        if source_of(a) != source_of(b):
            tally.wrong.append(row)
            continue
        parent[root(a)] = root(b)
        copies.append(row)
    for row in copies:
        a, b = row["a"]["id"], row["b"]["id"]
        for copy, other in ((a, b), (b, a)):
            if "/" in copy and "/" not in other:
                tally.take(row, copy, 0, True)
    for key in tally.truth:
        if root(f"{key[0]}/{key[2]}") == root(key[2]):
            tally.found.add(key)
            tally.near.add(key)
    tally.print(f"dedupe {search}")


def audit(program, out, truth, keep, kind):
    report = os.path.join(out, f"audit-{kind}")
    sources = pack(program, out, "sources.spsh", os.path.join(out, "sources"))
    clips = pack(program, out, f"clips-{kind}.spsh", os.path.join(out, "clips", str(kind)))
    command(program, "audit", "--train", sources, "--test", clips, "-o", report, allowed=(0, 1))
    tally = Tally({key: start for key, start in truth.items() if key[1] == kind}, keep)
    for row in pairs_of(os.path.join(report, "pairs.jsonl")):
        a, b = row["a"]["id"], row["b"]["id"]
        copy, other = (a, b) if "/" in a else (b, a)
        is_copy = bool(classes_of(row) & COPIES)
        if source_of(copy) == other:
            tally.take(row, copy, kind, is_copy)
        elif is_copy:
            tally.wrong.append(row)
    tally.print("audit")


def main():
    program, out = sys.argv[1:3]
    truth, keep = read_truth(out, sys.argv[3] if len(sys.argv) > 3 else "all")
    print("search\tfamily\tseconds\tn\tfound\tlow\thigh\tnear")
    for search in ("mild", "deep"):
        dedupe(program, out, truth, keep, search)
    for kind in (0, 1, 2, 3):
        audit(program, out, truth, keep, kind)


if __name__ == "__main__":
    main()
