#!/usr/bin/env python3
"""Other programs that find copies of audio, on a work folder of copies_kit.py.

    peers.py WORK [--final] --command speechshard PROGRAM=PATH... > table.tsv

PROGRAM is speechshard, speechshard-grid (`audit --speed-grid`), fpcalc (chromaprint), audfprint or
audfprint-dense (PATH: its folder), olaf (olaf_core of `make compile_core`), panako (a script that
passes its arguments to Panako's command), or ffmpeg, which only decodes all files: what a process
for each file costs. docs/BENCHMARKS.md says how the programs were built. Needs numpy 2 and ffmpeg.
audfprint also needs scipy, docopt, joblib, and psutil.

The base has the whole recordings of the clips, and the recordings of others-0. The queries are the
clips, their copies, and the recordings of others-1, which are copies of nothing. An answer is right
if the base recording contains the one that the clip was cut from, and wrong if both have no
recording in common. All leaks of audio in the report of `audit` are answers. Queries that `pack`
rejects are left out.

Each program has two thresholds. `own` is its default. `tuned` is, for each range of durations, the
smallest one without a wrong answer on every second language. It decides the queries of the other
languages, and the other way round, so all queries count. `own` of fpcalc is the library's limit of
10 of 32 bits. fpcalc has no index: this program compares the prints at all offsets.
"""

import argparse
import collections
import functools
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import numpy

from copies_kit import AUDIO_LEAKS, OTHERS, Work, read_lines, related
from copy_transforms import FAMILY
from report import wilson

RANGES = ("0.5-1.2", "1.2-2", "2-6")
Answer = collections.namedtuple("Answer", "base score is_own")  # base: an id; a higher score is better


def processor_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Run:
    """Input of a program, and its costs. base, queries: id by path."""

    def __init__(self, base, queries, place):
        self.base, self.queries, self.place = base, queries, place
        self.start, self.index_seconds, self.store_bytes = processor_seconds(), 0, 0

    def indexed(self, store_bytes):
        """Call after the base is stored."""
        self.index_seconds, self.store_bytes, self.start = processor_seconds() - self.start, store_bytes, processor_seconds()


def output(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, **options).stdout


def disk_bytes(folder):
    """Allocated bytes: files of LMDB have holes."""
    return sum(512 * os.stat(os.path.join(root, name)).st_blocks for root, _, names in os.walk(folder) for name in names)


def speechshard(program, run, options=()):
    def command(*words):
        subprocess.run([program, *words, "--quiet", "-j", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    def prepare(side, paths):
        os.makedirs(os.path.join(run.place, side))
        for path in paths:
            shutil.copyfile(path, os.path.join(run.place, side, os.path.basename(path)))
        dataset = os.path.join(run.place, side + ".spsh")
        command("pack", os.path.join(run.place, side), "-o", dataset, "--layout", "folder", "--dedupe", "none")
        command("fingerprint", dataset)
        return dataset

    train = prepare("base", run.base)
    run.indexed(disk_bytes(os.path.join(train, "fingerprints")))
    report = os.path.join(run.place, "report")
    command("audit", "--train", train, "--test", prepare("queries", run.queries), "-o", report, "--fail-on", "none", *options)
    answers = collections.defaultdict(list)
    for row in read_lines(os.path.join(report, "pairs.jsonl")):
        if AUDIO_LEAKS & set(row["kinds"]):
            answers[row["b"]["id"]].append(Answer(row["a"]["id"], 1, True))
    return answers


def best_rate(clip, source):
    """Smallest bit error rate of two prints over all offsets with at least half of the shorter one in common."""
    least = max(1, min(len(clip), len(source)) // 2)
    begin = len(clip) - least
    padded = numpy.zeros(len(source) + 2 * begin, dtype=numpy.uint32)
    is_inside = numpy.zeros(len(padded), dtype=numpy.uint32)
    padded[begin : begin + len(source)] = source
    is_inside[begin : begin + len(source)] = 1
    inside = numpy.lib.stride_tricks.sliding_window_view(is_inside, len(clip))
    words = numpy.lib.stride_tricks.sliding_window_view(padded, len(clip)) ^ clip
    wrong = (numpy.bitwise_count(words) * inside).sum(axis=1)
    counts = inside.sum(axis=1)
    return float((wrong / (32 * numpy.maximum(counts, 1)))[counts >= least].min())


def fpcalc(program, run):
    def fingerprint(path):
        match = re.search(r"^FINGERPRINT=([-\d,]+)$", output(program, "-raw", "-length", "0", path), re.MULTILINE)
        return numpy.array([int(word) & 0xFFFFFFFF for word in match[1].split(",")], dtype=numpy.uint32) if match else None

    def prints(paths):
        made = ((name, fingerprint(path)) for path, name in paths.items())
        return {name: words for name, words in made if words is not None}

    base = prints(run.base)
    run.indexed(sum(words.nbytes for words in base.values()))
    return {query: [Answer(name, -rate, rate <= 10 / 32) for name, source in base.items() for rate in [best_rate(clip, source)]]
            for query, clip in prints(run.queries).items()}


def audfprint(program, run, options=()):
    """The table has 4 bytes for each hash. Its file is compressed and does not show them."""
    def command(action, paths, *words):
        listing = os.path.join(run.place, action)
        with open(listing, "w", encoding="utf-8") as file:
            file.write("\n".join(paths) + "\n")
        return output(sys.executable, os.path.join(program, "audfprint.py"), action, "--dbase", os.path.join(run.place, "base.pklz"),
                      "--continue-on-error", *options, *words, "--list", listing)

    saved = re.search(r"^Saved fprints for .*\( *(\d+) hashes", command("new", run.base), re.MULTILINE)
    run.indexed(4 * int(saved[1]))
    answers = collections.defaultdict(list)
    for match in re.finditer(r"^Matched (.*?) +[0-9.]+ sec [0-9]+ raw hashes as (.*?) at +-?[0-9.]+ s with +([0-9]+) of",
                             command("match", run.queries, "--max-matches", "10", "--min-count", "2"), re.MULTILINE):
        answers[run.queries[match[1]]].append(Answer(run.base[match[2]], int(match[3]), int(match[3]) >= 5))
    return answers


def olaf(program, run):
    """olaf_core reads samples, and does not say to which of several queries a result belongs."""
    environment = {**os.environ, "HOME": run.place}
    store, raw = os.path.join(run.place, ".olaf", "db"), os.path.join(run.place, "raw")
    os.makedirs(store)

    def command(action, path):
        output("ffmpeg", "-nostdin", "-v", "error", "-y", "-i", path, "-ac", "1", "-ar", "16000", "-f", "f32le", raw)
        return output(program, action, raw, path, env=environment)

    for path in run.base:
        command("store", path)
    run.indexed(disk_bytes(store))
    answers = collections.defaultdict(list)
    for path, query in run.queries.items():
        for line in command("query", path).splitlines():
            fields = line.split(", ")
            if fields[3] in run.base:
                answers[query].append(Answer(run.base[fields[3]], int(fields[0]), int(fields[0]) >= 6))
    return answers


def panako(program, run, seconds):
    """Its own settings want 3 s between the first and the last match, which only longer queries have. The tuned
    threshold uses its score alone."""
    store = os.path.join(run.place, "db")
    settings = ("STRATEGY=PANAKO", f"PANAKO_LMDB_FOLDER={store}", "PANAKO_CACHE_TO_FILE=FALSE", "PANAKO_USE_CACHED_PRINTS=FALSE")

    def matches(paths, *more):
        for line in output(program, "query", *settings, *more, *paths).splitlines():
            fields = line.split(" ; ")
            if len(fields) > 9 and fields[5] in run.base:
                yield run.queries[fields[2]], run.base[fields[5]], float(fields[9])

    output(program, "store", *settings, *run.base)
    run.indexed(disk_bytes(store))
    longer = [path for path, query in run.queries.items() if seconds[query] >= 3]
    own = {(query, base) for query, base, _ in matches(longer, "PANAKO_MIN_MATCH_DURATION=3")} if longer else set()
    answers = collections.defaultdict(list)
    for query, base, score in matches(run.queries, "PANAKO_MIN_MATCH_DURATION=0", "PANAKO_MIN_HITS_UNFILTERED=2", "PANAKO_MIN_HITS_FILTERED=1"):
        answers[query].append(Answer(base, score, False))
    for query, base in own:
        answers[query].append(Answer(base, 0, True))
    return answers


def ffmpeg(program, run):
    def decode(paths):
        for path in paths:
            output(program, "-nostdin", "-v", "error", "-i", path, "-ac", "1", "-ar", "16000", "-f", "null", "-")

    decode(run.base)
    run.indexed(0)
    decode(run.queries)
    return {}


def family_of(copy):
    if copy.transform in OTHERS:
        return "copies of nothing"
    return FAMILY.get(copy.transform, "natural" if copy.transform.startswith("natural") else "uncoded")


def range_of(copy, seconds):
    """A copy has the range of its clip, whatever its speed."""
    return (0, 0, 1, 2, 2)[copy.bin] if copy.bin >= 0 else (seconds >= 1.2) + (seconds >= 2)


def judge(work, queries, answers):
    """Yield each query with its best scores: all answers and answers of the own threshold, each right and wrong."""
    for copy in queries:
        best = [[-math.inf, -math.inf], [-math.inf, -math.inf]]  # all and own: right, wrong
        for answer in answers.get(copy.id, ()):
            base = work.copy(answer.base)
            is_wrong = not related(copy, base)
            if is_wrong or (copy.own in base.contains and copy.transform not in OTHERS):
                for at in (0, 1) if answer.is_own else (0,):
                    best[at][is_wrong] = max(best[at][is_wrong], answer.score)
        yield copy, best


def count(work, seconds, queries, answers):
    """Counts by family and range of: queries; own right, own wrong; tuned right, tuned wrong."""
    languages = sorted({copy.language for copy in queries})
    judged = [(copy, languages.index(copy.language) % 2, range_of(copy, seconds[copy.id]), best) for copy, best in judge(work, queries, answers)]
    worst = collections.defaultdict(lambda: -math.inf)
    for _, half, at, best in judged:
        worst[half, at] = max(worst[half, at], best[0][1])
    cells = collections.defaultdict(lambda: numpy.zeros(5, dtype=int))
    for copy, half, at, (every, own) in judged:
        cells[family_of(copy), at] += [1, *(score > -math.inf for score in own), *(score > worst[1 - half, at] for score in every)]
    return cells


def measure(work, seconds, name, program):
    """Print the rows of one program."""
    audio = os.path.abspath(os.path.join(work.work, "audio"))
    paths = {os.path.splitext(file)[0]: os.path.join(root, file) for root, _, files in os.walk(audio) for file in files}
    stored = [copy for transform in ("train", OTHERS[0]) for copy in work.of[transform]]
    asked = [copy for transform, copies in work.of.items() if transform not in ("train", OTHERS[0]) for copy in copies]
    peers = {"speechshard": speechshard, "fpcalc": fpcalc, "audfprint": audfprint, "olaf": olaf, "ffmpeg": ffmpeg,
             "speechshard-grid": functools.partial(speechshard, options=("--speed-grid",)),
             "audfprint-dense": functools.partial(audfprint, options=("--density", "100", "--fanout", "10", "--shifts", "4")),
             "panako": functools.partial(panako, seconds=seconds)}
    with tempfile.TemporaryDirectory() as place:
        run = Run({paths[copy.id]: copy.id for copy in stored}, {paths[copy.id]: copy.id for copy in asked}, place)
        answers = peers[name](program, run)
        query_seconds = processor_seconds() - run.start
    stored_seconds, asked_seconds = (sum(seconds[copy.id] for copy in copies) for copies in (stored, asked))
    print(f"# {name}\tbase {len(stored)} files, {stored_seconds:.0f} s\tqueries {len(asked)}, {asked_seconds:.0f} s\t"
          f"bytes per second {run.store_bytes / stored_seconds:.0f}\tprocessor seconds per hour: index {3600 * run.index_seconds / stored_seconds:.1f}, "
          f"queries {3600 * query_seconds / asked_seconds:.1f}")
    cells = count(work, seconds, asked, answers)
    for (family, at), values in sorted(cells.items()) if answers else ():
        queries, *counts = (int(value) for value in values)
        shares = ["\t".join([str(good), *(f"{limit:.3f}" for limit in wilson(good, queries))]) for good in counts]
        print("\t".join([name, family, RANGES[at], str(queries), *shares]))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM=PATH")
    parser.add_argument("--command", default="speechshard")
    parser.add_argument("--final", action="store_true")
    arguments = parser.parse_args()
    arguments.judge = None
    work = Work(arguments)
    rows = (json.loads(line) for path in work.datasets(list(work.of)) for line in output(arguments.command, "ls", "--json", path).splitlines())
    seconds = {row["id"]: row["seconds"] for row in rows}
    print("program\tfamily\tseconds\tn\t" + "\t".join(f"{name}\tlow\thigh" for name in ("own", "own_wrong", "tuned", "tuned_wrong")))
    for program in arguments.programs:
        measure(work, seconds, *program.split("=", 1))


if __name__ == "__main__":
    main()
