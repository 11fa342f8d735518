#!/usr/bin/env python3
"""Count the copies of one prompt in several codecs that a plan links, by length.

    codec_links.py DATASET PLAN [--speechshard PROGRAM]

Ids of one prompt differ only in the extension. Prints rows of Markdown: the length of the shortest
file, the number of prompts, and in how many all, some, or none of the files are linked; then the
number of linked pairs of different prompts.
"""
import argparse
import collections
import json
import os
import subprocess

LENGTHS_S = (0, 0.5, 0.8, 1.2, 2, 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("plan")
    parser.add_argument("--speechshard", default="speechshard", metavar="PROGRAM", help="default: speechshard")
    options = parser.parse_args()
    prompts, linked, others = collections.defaultdict(dict), collections.defaultdict(set), set()
    listing = subprocess.run([options.speechshard, "ls", options.dataset, "--json"], stdout=subprocess.PIPE, check=True).stdout
    for row in map(json.loads, listing.splitlines()):
        prompts[os.path.splitext(row["id"])[0]][row["id"]] = row["seconds"]
    with open(options.plan, encoding="utf-8") as plan:
        for row in map(json.loads, plan):
            if row.get("type") != "pair" or row["class"] != "same_recording":
                continue
            ids = {row["a"]["id"], row["b"]["id"]}
            names = {os.path.splitext(name)[0] for name in ids}
            if len(names) > 1:
                others.add(frozenset(names))
            else:
                linked[names.pop()] |= ids
    cells = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name, files in prompts.items():
        cell = cells[max(low for low in LENGTHS_S if low <= min(files.values()))]
        cell[0] += 1
        cell[1 if len(linked[name]) == len(files) else 2 if linked[name] else 3] += 1
    for low, counts in sorted(cells.items()):
        print(f"| {low} s | " + " | ".join(map(str, counts)) + " |")
    print(f"pairs of different prompts: {len(others)}")


if __name__ == "__main__":
    main()
