#!/usr/bin/env python3
"""Recall and false merges of `dedupe` and `audit`, by transform, duration, and language.

    copies_kit.py fetch DEBIAN                 download and unpack the Debian packages with speech
    copies_kit.py make WORK --seed N --data DATA [--debian DEBIAN] [--final] [--per-cell 2]
    copies_kit.py measure WORK --command speechshard [--judge show_pairs] [--final] > table.tsv
    copies_kit.py judge WORK --command speechshard --data DATA [--debian DEBIAN] [--judge judge_others]
                        [--share 4] > judge.tsv    millions of pairs that are no copies

`make` draws PER_CELL clips of each language and duration, and makes transforms of each (lists:
copy_transforms.py). Each clip has all transforms except `more codecs`, of which it has a third.
Everything follows from the seed. Seeds from 900 on are held back: `make` and `measure` reject them
without --final. They draw from speakers and files that no other seed hears (copy_sources.py). Tune
with the other seeds, and publish tables of held-back seeds only.

WORK/audio/TRANSFORM/CLIP@TRANSFORM.EXT are the copies. Their names differ, so names propose no
pairs. audio/train has the whole recordings from which the clips were cut. audio/others-0 and
audio/others-1 have recordings that are copies of nothing, plain and through a telephone codec:
retakes of one word by one voice, the same word by other voices, minimal pairs, tones, noise,
silence, and music. WORK/truth.tsv lists all of them, and WORK/list.tsv is a list for match_pairs.

`measure` runs `dedupe` over the clips and groups of transforms (all pairs of the main codecs count;
of the other transforms, the pair with the clip), `audit` with the whole recordings and the others
as training data and the copies as planted leaks, and both over the others. A copy is found by
`dedupe` if the plan has a match of a class that may drop, and by `audit` if it has a leak of kind
`recording` or `segment`. `weaker` are other matches and leaks of audio. A pair is proven if the
judge (show_pairs.c), which compares every offset, finds a class that may drop. A false merge is a
match of such a class between two utterances without a common recording. A false weaker match is any
other match of two such utterances, except `reread`. Intervals are 95 % Wilson intervals.

`judge` makes recordings of copy_others.py in the new folder WORK, and lets the judge decide about
pairs of them, without a search (judge_others.c).
"""

import argparse
import array
import collections
import concurrent.futures
import itertools
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import threading

import copy_others
import copy_sources
import copy_transforms
from copy_sources import BINS, LANGUAGES
from copy_transforms import copy_id, FAMILY, MAIN, RATE, WITH_MUSIC, WITH_OTHER
from report import COPIES, wilson

HELD_BACK = range(900, 1000)
GROUPS = {"main codecs": MAIN, "other codecs": [*(name for name in FAMILY if FAMILY[name] == "more codecs"), "amrwb_16"],
          "levels and rooms": [name for name in FAMILY if FAMILY[name] in ("gain", "room", "noise")],
          "speed": [name for name in FAMILY if FAMILY[name] == "speed"],
          "mixtures": [name for name in FAMILY if FAMILY[name] in ("music", "two channels", "cut and joined")],
          "natural": ["natural_gsm", "natural_g722", "natural_webm", "natural_mp3", "natural_flac"]}
OTHERS = ("others-0", "others-1")
AUDIO_LEAKS = {"recording", "segment", "performance"}


def fail(message):
    sys.exit(f"copies_kit.py: {message}")


def check_seed(seed, is_final):
    if seed in HELD_BACK and not is_final:
        fail(f"seed {seed} is held back for final tables; tune with seeds below {HELD_BACK.start}, or state --final")
    if is_final and seed not in HELD_BACK:
        fail(f"final tables have seeds {HELD_BACK.start} to {HELD_BACK.stop - 1}, not {seed}")


def place(work, transform, clip, path, *options):
    """A file as it is, or decoded if it has options or `pack` does not read it."""
    folder, extension = os.path.join(work, "audio", transform), os.path.splitext(path)[1]
    os.makedirs(folder, exist_ok=True)
    if extension in (".webm", ".g722") or options:
        copy_transforms.write_wav(os.path.join(folder, f"{copy_id(clip, transform)}.wav"), copy_sources.decode(path, *options))
    else:
        shutil.copyfile(path, os.path.join(folder, copy_id(clip, transform) + extension))


def draw_music(tracks, draw, count):
    """(path, samples), or (None, noise) if there is no music."""
    path = draw.choice(sorted(tracks)) if tracks else None
    if path is None:
        return None, array.array("h", (draw.randrange(-3000, 3000) for _ in range(count)))
    first = draw.randrange(len(tracks[path]) - count)
    return path, tracks[path][first : first + count]


def make_clips(arguments, recordings):
    """Clips of all languages and durations, with their transforms. Returns rows of truth.tsv, and missing encoders."""
    maker = copy_transforms.Maker(arguments.work, arguments.debian, os.path.join(arguments.data, copy_sources.ROOM))
    tracks = {r.path: copy_sources.decode(r.path) for r in recordings if r.corpus == "music" and copy_sources.is_held_back(r) == arguments.final}
    only = set(arguments.only.split(",")) if arguments.only else set(FAMILY)

    def make_one(clip_name, recording, whole, clip, other):
        """Make the transforms of one clip. Returns their names, with the recordings that they contain."""
        draw = random.Random(f"{arguments.seed} {clip_name}")
        names = {name for name in FAMILY if FAMILY[name] != "more codecs" or draw.randrange(3) == 0} & only
        music, music_samples = draw_music(tracks, draw, len(clip))
        names -= WITH_MUSIC if music is None else set()
        made = maker.make(clip_name, names, draw, (clip, other[2][: len(clip)], music_samples))
        place(arguments.work, "train", clip_name, recording.path)
        if len(clip) == len(whole):
            for name, path, options in copy_sources.siblings(recording):
                place(arguments.work, name, clip_name, path, *options)
                made.append(name)
        return [(name, [recording.take] + [other[0].take] * (name in WITH_OTHER) + [music] * (name in WITH_MUSIC))
                for name in ("wav_16", "train", *made)]

    def make_language(language):
        """The longest clips first. Another talker is of the same language."""
        pool = copy_sources.Pool(recordings, arguments.seed, arguments.final, language)
        rows = []
        for number in reversed(range(len(BINS))):
            for turn in range(arguments.per_cell):
                taken = pool.take(*BINS[number])
                other = taken and pool.take(len(taken[2]) / RATE, 60)
                if not other:
                    break
                clip_name = f"b{number}-{language}-{turn:03d}"
                rows += [(name, clip_name, number, language, contains) for name, contains in make_one(clip_name, *taken, other)]
        return rows

    with concurrent.futures.ThreadPoolExecutor(len(LANGUAGES)) as workers:
        return list(itertools.chain.from_iterable(workers.map(make_language, LANGUAGES))), maker.missing


def sounds():
    """Yield name, samples of tones, noise, and silence, 2 s each."""
    count = 2 * RATE
    yield "silence", array.array("h", bytes(2 * count))
    for number in range(4):
        noise = random.Random(number)
        yield f"noise-{number}", array.array("h", (noise.randrange(-8000, 8000) for _ in range(count)))
        yield f"hiss-{number}", array.array("h", (noise.randrange(-20, 20) for _ in range(count)))
        for kind, pitches in (("tone", (400 * (number + 1),)), ("dial", (697 + 75 * number, 1209 + 130 * number)), ("beep", (1000 + number,))):
            yield f"{kind}-{number}", array.array("h", (round(sum(9000 * math.sin(2 * math.pi * p * i / RATE + number) for p in pitches))
                                                        for i in range(count)))


def make_others(arguments, recordings):
    """Recordings that are copies of nothing, plain and coded, half of them in each folder. Returns rows of truth.tsv."""
    draw = random.Random(f"{arguments.seed} others")
    fitting = [r for r in recordings if copy_sources.is_held_back(r) == arguments.final and r.corpus not in ("librispeech", "ljspeech", "kerstin")]
    raw = os.path.join(arguments.work, "raw")
    chosen = [(r.path, r.take, copy_sources.language_of(r)) for r in copy_sources.in_turns(fitting, draw)[: arguments.others]]
    for name, samples in sounds():
        copy_transforms.write_wav(os.path.join(raw, f"{name}.wav"), samples)
        chosen.append((os.path.join(raw, f"{name}.wav"), name.split("-")[0], "none"))

    def encode(first):
        inputs, outputs = [], []
        for at, (number, (path, _, _)) in enumerate(list(enumerate(chosen))[first : first + 40]):
            folder, clip = OTHERS[number % 2], f"n-{number:05d}"
            place(arguments.work, folder, clip, path)
            codec = codecs[number]
            target = os.path.join(arguments.work, "audio", folder, f"{copy_id(clip + 'c', folder)}.{codec.muxer}")
            inputs += ["-i", path]
            outputs += ["-map", f"{at}:a", "-ac", "1", "-ar", str(RATE), *codec.options.split(), "-c:a", codec.encoder, "-t", "20", target]
        good, message = copy_transforms.ffmpeg(*inputs, *outputs)
        if not good:
            fail(message)

    codecs = draw.choices([codec for codec in copy_transforms.MAIN_CODECS if codec.decoder is copy_transforms.PACKED], k=len(chosen))
    for folder in OTHERS:
        os.makedirs(os.path.join(arguments.work, "audio", folder), exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(len(LANGUAGES)) as workers:
        list(workers.map(encode, range(0, len(chosen), 40)))
    return [(OTHERS[number % 2], clip, -1, language, [recording])
            for number, (_, recording, language) in enumerate(chosen) for clip in (f"n-{number:05d}", f"n-{number:05d}c")]


def write_truth(work, rows):
    """truth.tsv: id, transform, clip, bin, language, recordings that it contains. list.tsv: family, group, id, path
    of the copies, as recordings.h wants them; a group is a language."""
    paths = {os.path.splitext(name)[0]: os.path.join(root, name) for root, _, names in os.walk(os.path.join(work, "audio")) for name in names}
    with open(os.path.join(work, "truth.tsv"), "w", encoding="utf-8") as truth, open(os.path.join(work, "list.tsv"), "w", encoding="utf-8") as pairs:
        for transform, clip, number, language, contains in rows:
            name = copy_id(clip, transform)
            truth.write(f"{name}\t{transform}\t{clip}\t{number}\t{language}\t{'|'.join(contains)}\n")
            if transform != "train" and transform not in OTHERS:
                pairs.write(f"{'source' if transform == 'wav_16' else transform}\t{language}\t{clip}\t{paths[name]}\n")


def make(arguments):
    check_seed(arguments.seed, arguments.final)
    os.makedirs(os.path.join(arguments.work, "raw"))
    recordings = copy_sources.find(arguments.data, *([arguments.debian] if arguments.debian else []))
    rows, missing = make_clips(arguments, recordings)
    write_truth(arguments.work, rows + make_others(arguments, recordings))
    facts = {"seed": arguments.seed, "final": arguments.final, "per_cell": arguments.per_cell,
             "ffmpeg": subprocess.run(["ffmpeg", "-version"], capture_output=True, check=True, text=True).stdout.split()[2],
             "packages": copy_sources.versions(arguments.debian) if arguments.debian else [],
             "encoders without a recipe": copy_transforms.without_recipe(), "recipes without an encoder": missing}
    with open(os.path.join(arguments.work, "kit.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)


Copy = collections.namedtuple("Copy", "id transform clip bin language contains own")  # own: the recording of the clip


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Work:
    """A folder of `make`, and the commands over it."""

    def __init__(self, arguments):
        self.work, self.command, self.judge_program = arguments.work, arguments.command, arguments.judge
        with open(os.path.join(self.work, "kit.json"), encoding="utf-8") as file:
            self.facts = json.load(file)
        check_seed(self.facts["seed"], arguments.final)
        with open(os.path.join(self.work, "truth.tsv"), encoding="utf-8") as lines:
            rows = [line.rstrip("\n").split("\t") for line in lines]
        self.copies = {row[0]: Copy(*row[:3], int(row[3]), row[4], frozenset(row[5].split("|")), row[5].split("|")[0]) for row in rows}
        self.rejected = self.pack({copy.transform for copy in self.copies.values()})
        self.of = collections.defaultdict(list)
        for copy in self.copies.values():
            if copy.id not in self.rejected:
                self.of[copy.transform].append(copy)

    def run(self, *words, allowed=(0,)):
        result = subprocess.run([self.command, *words, "--quiet", "-j", "1"], stdout=subprocess.DEVNULL, check=False)
        if result.returncode not in allowed:
            fail(f"{' '.join(words)}: exit {result.returncode}")

    def pack(self, transforms):
        """Pack each folder. Returns the ids of rejected files: some files of the packages are truncated, and
        libsndfile rejects some Opus files below 0.2 s."""
        rejected = set()
        os.makedirs(os.path.join(self.work, "packed"), exist_ok=True)
        for transform in sorted(transforms):
            path = self.packed(transform)
            if not os.path.exists(os.path.join(path, "manifest.spsh")):
                self.run("pack", os.path.join(self.work, "audio", transform), "-o", path, "--layout", "folder", "--dedupe", "none",
                         "--max-rejects", "100%")
            rejects = os.path.join(path, "reports", "rejects.jsonl")
            rejected |= {row["id"] for row in read_lines(rejects) if row["rows"] > 0} if os.path.exists(rejects) else set()
        return rejected

    def packed(self, transform):
        return os.path.join(self.work, "packed", transform + ".spsh")

    def datasets(self, transforms):
        return [self.packed(transform) for transform in transforms if self.of[transform]]

    def copy(self, name):
        return self.copies[name]


def pair_key(a, b):
    return tuple(sorted((a, b)))


class Cells:
    """Counts by command, transform, bin, and language."""

    COLUMNS = ("pairs", "found", "weaker", "proven", "found_and_proven", "false", "false_weaker", "other_pairs")

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.lock = threading.Lock()

    def add(self, command, copy, transform=None, **counts):
        for number, language in itertools.product({copy.bin, None}, {copy.language, None}):
            with self.lock:
                self.counts[command, transform or copy.transform, number, language].update({name: int(count) for name, count in counts.items()})

    def print(self, has_judge):
        print("command\ttransform\tseconds\tlanguage\t" + "\t".join(self.COLUMNS) + "\trecall\tlow\thigh\tof_proven\tlow\thigh\tfalse_high")
        order = ["wav_16", *FAMILY]
        for key in sorted(self.counts, key=lambda k: (k[0], order.index(k[1]) if k[1] in order else 0, k[1], -1 if k[2] is None else k[2], k[3] or "")):
            cell = self.counts[key]
            command, transform, number, language = key
            seconds = "all" if number is None else "any" if number < 0 else f"{BINS[number][0]}-{BINS[number][1]}"
            rates = [self.rate(cell["found"], cell["pairs"])]
            rates.append(self.rate(cell["found_and_proven"], cell["proven"]) if has_judge and command == "dedupe" else "\t\t")
            print(f"{command}\t{transform}\t{seconds}\t{language or 'all'}\t" + "\t".join(str(cell[name]) for name in self.COLUMNS)
                  + "\t" + "\t".join(rates) + f"\t{wilson(cell['false'], cell['other_pairs'])[1]:.2g}")

    @staticmethod
    def rate(good, count):
        low, high = wilson(good, count)
        return f"{good / count:.3f}\t{low:.3f}\t{high:.3f}" if count else "\t\t"


def related(a, b):
    return bool(a.contains & b.contains)


def report_false(command, kind, a, b, row):
    part = row["segments"][0]
    print(f"{command}\tfalse {kind}\t{a.id}\t{b.id}\t{sorted(a.contains)[0]}\t{sorted(b.contains)[0]}\t{part.get('tier')}\t"
          f"{part.get('ncc')}\t{part.get('ncc_white')}\t{part.get('active_s')}", file=sys.stderr)


def judge(work, transforms):
    """Pairs of the same clip that the judge proves: of the first transform with all others, or of all main codecs."""
    if work.judge_program is None:
        return set()
    paths = work.datasets(transforms)
    proven = set()
    for first in range(len(paths) - 1 if transforms == MAIN else 1):
        text = subprocess.run([work.judge_program, *paths[first:]], capture_output=True, check=True, text=True).stdout
        rows = (line.split("\t") for line in text.splitlines())
        proven |= {pair_key(a, b) for a, b, kind in rows if kind in COPIES}
    return proven


def true_pairs(work, transforms):
    """Yield pairs of the same clip: the clip with each transform; all pairs of the main codecs."""
    by_clip = collections.defaultdict(dict)
    for transform in transforms:
        for copy in work.of[transform]:
            by_clip[copy.clip][transform] = copy
    for copies in by_clip.values():
        for a, b in itertools.combinations(copies.values(), 2):
            if "wav_16" in (a.transform, b.transform) or transforms == MAIN:
                yield a, b


def count_false(cells, command, row, a, b, kind):
    is_copy = kind in COPIES or kind in ("recording", "segment")
    report_false(command, kind, a, b, row)
    for copy in (a, b) if a.transform != b.transform else (a,):
        if command.startswith("dedupe") or copy is b:
            cells.add(command, copy, **{"false" if is_copy else "false_weaker": 1})


def run_dedupe(work, cells, command, transforms, options):
    """Returns the facts of the plan."""
    plan = os.path.join(work.work, f"{command}, {transforms[-1]}.jsonl")
    proven = judge(work, transforms)
    work.run("dedupe", *work.datasets(transforms), "-o", plan, *options)
    head, *rows = read_lines(plan)
    found, weaker = set(), set()
    for row in rows:
        if row.get("type") != "pair" or row["class"] in ("reread", "none"):
            continue
        a, b = work.copy(row["a"]["id"]), work.copy(row["b"]["id"])
        if related(a, b):
            (found if row["class"] in COPIES else weaker).add(pair_key(a.id, b.id))
        else:
            count_false(cells, command, row, a, b, row["class"])
    for a, b in true_pairs(work, transforms):
        key = pair_key(a.id, b.id)
        counts = {"pairs": 1, "found": key in found, "weaker": key in weaker, "proven": key in proven,
                  "found_and_proven": key in found and key in proven}
        if "wav_16" in (a.transform, b.transform):
            cells.add(command, b if a.transform == "wav_16" else a, **counts)
        if transforms == MAIN:
            cells.add(command, a, "main codecs, all pairs", **counts)
    count_others(work, cells, command, transforms, transforms, True)
    return head["facts"]


def count_others(work, cells, command, firsts, seconds, is_symmetric):
    """Add the number of pairs without a common recording to the cells of `seconds`."""
    holders, every = collections.Counter(), 0
    for copy in itertools.chain.from_iterable(work.of[transform] for transform in firsts):
        holders.update(copy.contains)
        every += 1
    for copy in itertools.chain.from_iterable(work.of[transform] for transform in seconds):
        cells.add(command, copy, other_pairs=every - min(every, sum(holders[recording] for recording in copy.contains)))


def run_audit(work, cells, command, train, test, options=()):
    """Count the leaks of each copy in `test`."""
    report = os.path.join(work.work, f"{command}, {test[-1]}")
    sides = [word for path in work.datasets(train) for word in ("--train", path)] + [word for path in work.datasets(test) for word in ("--test", path)]
    work.run("audit", *sides, "-o", report, "--fail-on", "none", *options)
    found, weaker = set(), set()
    for row in read_lines(os.path.join(report, "pairs.jsonl")):
        kinds = AUDIO_LEAKS & set(row["kinds"])
        if not kinds:
            continue
        a, b = work.copy(row["a"]["id"]), work.copy(row["b"]["id"])
        kind = next(name for name in ("recording", "segment", "performance") if name in kinds)
        if not related(a, b):
            count_false(cells, command, row, a, b, kind)
        elif b.own in a.contains:
            (weaker if kind == "performance" else found).add(b.id)
    for copy in itertools.chain.from_iterable(work.of[transform] for transform in test):
        if copy.transform not in OTHERS:
            cells.add(command, copy, pairs=1, found=copy.id in found, weaker=copy.id in weaker - found)
    count_others(work, cells, command, train, test, False)


def measure_group(work, cells, name):
    """dedupe and audit over one group of transforms. Returns the facts of the plan."""
    if name == "others":
        facts = run_dedupe(work, cells, "dedupe", OTHERS, ())
        run_audit(work, cells, "audit", OTHERS[:1], OTHERS[1:])
        return facts
    transforms = GROUPS[name]
    wanted = transforms if transforms == MAIN else ["wav_16", *transforms]
    facts = run_dedupe(work, cells, "dedupe", wanted, ())
    run_audit(work, cells, "audit", ("train", *OTHERS), transforms)
    if name == "speed":
        run_dedupe(work, cells, "dedupe --speed-grid", wanted, ("--speed-grid",))
        run_audit(work, cells, "audit --speed-grid", ("train", *OTHERS), transforms, ("--speed-grid",))
    return facts


def measure(arguments):
    work, cells = Work(arguments), Cells()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    looked = collections.Counter()
    names = [name for name, transforms in GROUPS.items() if any(work.of[transform] for transform in transforms)]
    work.run("fingerprint", *work.datasets(list(work.of)))
    with concurrent.futures.ThreadPoolExecutor(len(names) + 1) as workers:
        for facts in workers.map(lambda name: measure_group(work, cells, name), [*names, "others"]):
            looked.update({name: value for name, value in facts.items() if name in ("candidates", "decoded", "frame_pairs")})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    version = subprocess.run([arguments.command, "--version"], capture_output=True, check=True, text=True).stdout.strip()
    for name, value in {"program": version, **work.facts, "clips": len(work.of["wav_16"]), "utterances": len(work.copies),
                        "others": sum(len(work.of[name]) for name in OTHERS), "rejected by pack": len(work.rejected), "processor seconds": round(seconds), **looked}.items():
        print(f"# {name}\t{value if isinstance(value, (str, int, float)) else ', '.join(value)}")
    cells.print(arguments.judge is not None)


def judge_others(arguments):
    os.makedirs(arguments.work)
    copy_others.make(arguments.work, arguments.data, arguments.debian)
    datasets = []
    for name in ("plain", "coded"):
        datasets.append(os.path.join(arguments.work, f"{name}.spsh"))
        words = [arguments.command, "pack", os.path.join(arguments.work, "audio", name), "-o", datasets[-1], "--dedupe", "none"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([arguments.command, "fingerprint", datasets[-1]], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([arguments.judge, str(arguments.share), *datasets], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="action", required=True)
    one = commands.add_parser("fetch")
    one.add_argument("debian")
    one = commands.add_parser("make")
    one.add_argument("work")
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--final", action="store_true")
    one.add_argument("--data", required=True)
    one.add_argument("--debian", default="")
    one.add_argument("--per-cell", type=int, default=2)
    one.add_argument("--others", type=int, default=1000)
    one.add_argument("--only", default="", help="transforms, separated by commas (default: all)")
    one = commands.add_parser("measure")
    one.add_argument("work")
    one.add_argument("--command", default="speechshard")
    one.add_argument("--judge")
    one.add_argument("--final", action="store_true")
    one = commands.add_parser("judge")
    one.add_argument("work")
    one.add_argument("--command", default="speechshard")
    one.add_argument("--data", required=True)
    one.add_argument("--debian", default="")
    one.add_argument("--judge", default="judge_others")
    one.add_argument("--share", type=int, default=4, help="one pair in SHARE of other words and other voices (default: 4)")
    arguments = parser.parse_args()
    if arguments.action == "fetch":
        copy_sources.fetch(arguments.debian)
    else:
        {"make": make, "measure": measure, "judge": judge_others}[arguments.action](arguments)


if __name__ == "__main__":
    main()
