"""dedupe_test.py COMMAND MAKE_SPEECH: copies of each kind are planted, found, planned, skipped, and
restored.

Corpus `one` is a table with splits and transcripts, `two` a folder. The result must not depend on
threads, memory, the order of the arguments, the size of shards, parts, or a kill.
"""
import array
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import wave
import xml.etree.ElementTree as ElementTree

from cli_kit import COMMAND, FEWER, check, check_head, check_tables, environment, equal, finish, run, speech


def good(*words, **variables):
    done = run(*words, **variables)
    check(done.returncode == 0, f"{words}: exit {done.returncode}: {done.stderr}")
    return done


def bad(text, *words, status=1):
    done = run(*words)
    equal(done.returncode, status, f"exit status of {words}; {done.stderr}")
    check(text in done.stderr, f"{words}: no '{text}' in: {done.stderr}")
    check(all(line.startswith("speechshard: ") for line in done.stderr.splitlines()), f"prefix of {done.stderr}")


# name -> (pieces, split, text); the extension is the codec
ONE = {
    "plain.flac": (["1:0:4"], "train", "One, two."),
    "plain-wav.wav": (["1:0:4"], "train", "one two"),
    "plain-mp3.mp3": (["1:0:4"], "test", "won too"),
    "whole.flac": (["2:0:6"], "train", ""),
    "cut.wav": (["2:0.313:5.4"], "train", ""),
    "long.flac": (["3:0:10"], "train", ""),
    "part.mp3": (["3:4:3"], "train", ""),
    "jingle-a.wav": (["50:0:2", "60:0:5"], "train", ""),
    "jingle-b.wav": (["50:0:2", "61:0:5"], "train", ""),
    "alone.wav": (["70:0:5"], "dev", "nobody else"),
    "short.wav": (["71:0:0.3"], "train", ""),
    "short-twin.flac": (["71:0:0.3"], "train", ""),
}
TWO = {
    "again.opus": ["1:0:4"],
    "unlike.mp3": ["72:0:4"],
    "short-mp3.mp3": ["71:0:0.3"],  # too short for any match except equal samples
    "half-1.wav": ["80:0:4"],
    "half-2.wav": ["80:4:4"],
    "both.flac": ["80:0:8"],
}


def make_corpora():
    lines = ["path\tsplit\ttext"]
    for name, (pieces, split, text) in ONE.items():
        speech(work / "one" / name, *pieces)
        lines.append(f"{name}\t{split}\t{text}")
    shutil.copy(work / "one" / "alone.wav", work / "one" / "alone-twin.wav")
    lines.append("alone-twin.wav\ttrain\tsomebody else")
    (work / "one" / "corpus.tsv").write_text("\n".join(lines) + "\n")
    for name, pieces in TWO.items():
        speech(work / "two" / name, *pieces)
    good("pack", work / "one" / "corpus.tsv", "-o", work / "one.spsh", "--domain", "one")
    good("pack", work / "two", "-o", work / "two.spsh", "--layout", "folder")


class Plan:
    def __init__(self, path):
        self.lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
        self.head = self.lines[0]
        self.pairs, self.members, self.clusters = {}, {}, []
        for line in self.lines[1:-1]:
            if line["type"] == "pair":
                self.pairs[frozenset((line["a"]["id"], line["b"]["id"]))] = line
            elif line["type"] == "member":
                self.members[line["id"]] = line
            elif line["type"] == "cluster":
                self.clusters.append(line)
        check(list(self.lines[-1]) == ["end"], "the last line is the end")

    def kind(self, a, b):
        pair = self.pairs.get(frozenset((a, b)))
        return None if pair is None else (pair["class"], pair["tier"])

    def decisions(self, *ids):
        return [self.members[i]["decision"] if i in self.members else "none" for i in ids]

    def essence(self):
        """Results that do not depend on the order of the datasets."""
        return (sorted((sorted(key), pair["class"], pair["tier"]) for key, pair in self.pairs.items()),
                sorted((i, m["decision"], m["reason"], m["kept"]["id"]) for i, m in self.members.items()))


def dedupe(name, *words, datasets=None):
    plan = work / name
    done = good("dedupe", *(datasets or [work / "one.spsh", work / "two.spsh"]), "-o", plan, *words)
    check(not (work / (name + ".work")).exists(), f"{name}: the work directory is gone")
    return Plan(plan), done


def test_found():
    plan, done = dedupe("plan.jsonl", "--html", work / "plan.html")
    equal(plan.kind("plain", "plain-wav"), ("same_recording", "pcm"), "FLAC and WAV")
    equal(plan.kind("alone", "alone-twin"), ("same_recording", "bytes"), "equal files")
    equal(plan.kind("plain", "plain-mp3"), ("same_recording", "acoustic"), "FLAC and MP3")
    equal((plan.kind("plain", "again") or plan.kind("plain-wav", "again")), ("same_recording", "acoustic"), "over datasets")
    equal(plan.kind("whole", "cut")[0], "same_recording", "a trim")
    equal(plan.kind("long", "part"), ("contained", "acoustic"), "a part")
    equal(plan.kind("jingle-a", "jingle-b")[0], "shared_segment", "a jingle")
    equal(plan.kind("short", "short-twin"), ("same_recording", "pcm"), "equal samples, however short")
    check(not any(i in key for key in plan.pairs for i in ("unlike", "short-mp3")), "no false copies")
    part = plan.pairs[frozenset(("long", "part"))]
    segment = part["segments"][0]
    start = segment["a_start_s"] if part["a"]["id"] == "long" else segment["b_start_s"]
    check(abs(start - 4) < 0.2, f"the part begins at {start}")
    jingle = plan.pairs[frozenset(("jingle-a", "jingle-b"))]["segments"]
    check(all(s["a_start_s"] < 0.3 and s["a_end_s"] < 2.4 for s in jingle), f"the jingle: {jingle}")
    equal(plan.decisions("plain", "plain-wav", "plain-mp3", "again"), ["keep", "drop", "drop", "drop"], "the plain ones")
    equal(plan.decisions("cut", "whole", "part", "long"), ["drop", "keep", "tag", "keep"], "trim and part")
    equal(plan.decisions("jingle-a", "jingle-b", "unlike"), ["none"] * 3, "a jingle is no copy")
    equal(plan.decisions("both", "half-1", "half-2"), ["keep", "tag", "tag"], "halves")
    equal(plan.members["plain-mp3"]["reason"], "lossy", "why")
    cluster = plan.clusters[plan.members["plain"]["cluster"]]
    equal((cluster["members"], cluster["texts_differ"]), (4, True), "the cluster")
    equal(plan.members["plain-mp3"]["text"], "won too", "texts that disagree are told")
    check("transcripts of copies that disagree" in done.stdout, "so does the table")
    check("speechshard apply" in done.stdout, "what to do next")
    root = ElementTree.fromstring((work / "plan.html").read_text())
    rows = check_head(root, "the page")
    check_tables(root, "the page")
    check("speechshard dedupe " in "".join(rows["command"].itertext()), "the command")
    return plan


def test_options(plan):
    exact, _ = dedupe("exact.jsonl", "--exact-only")
    equal(exact.kind("plain", "plain-wav"), ("same_recording", "pcm"), "exact")
    equal(exact.kind("plain", "plain-mp3"), None, "exact listens to nothing")
    equal(exact.decisions("plain-mp3", "plain-wav"), ["none", "drop"], "exact decisions")
    first, _ = dedupe("first.jsonl", "--keep", "first")
    equal(sorted(first.decisions("alone", "alone-twin")), ["drop", "keep"], "first")
    two, _ = dedupe("two.jsonl", "--prefer", work / "two.spsh")
    equal(two.decisions("again", "plain"), ["keep", "drop"], "a preferred dataset")
    equal(two.members["again"]["reason"], "of a preferred dataset", "and why")
    test, _ = dedupe("test.jsonl", "--drop-from", "train,dev")
    # Nothing is dropped from `two`, which has no splits, either. One of the two remaining copies is
    # marked `keep`.
    equal(sorted(test.decisions("plain-mp3", "again")), ["keep", "protected"], "test is never touched")
    equal(test.decisions("plain", "plain-wav"), ["drop", "drop"], "train is")
    long, _ = dedupe("long.jsonl", "--contained", "keep-long")
    equal(long.decisions("part", "half-1", "half-2", "both", "long"), ["drop", "drop", "drop", "keep", "keep"], "long")
    parts, _ = dedupe("parts.jsonl", "--contained", "keep-part")
    equal(parts.decisions("both", "long"), ["drop", "keep"], "parts")
    only, _ = dedupe("split.jsonl", datasets=[str(work / "one.spsh") + ":train"])
    equal(only.kind("plain", "plain-mp3"), None, "another split takes no part")
    equal(only.head["datasets"][0]["splits"], "train", "splits are told")
    deep, _ = dedupe("deep.jsonl", "--search", "deep")
    check(set(plan.pairs) <= set(deep.pairs), "deep finds what mild does")


def narrow(source, target):
    """Write a WAV file of 16 kHz as one of 8 kHz: the means of every two samples."""
    with wave.open(str(source), "rb") as file:
        samples = array.array("h", file.readframes(file.getnframes()))
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(array.array("h", [(a + b) // 2 for a, b in zip(samples[::2], samples[1::2])]).tobytes())


def rough(source, target):
    """Write a WAV file with noise of a quarter of its peak."""
    with wave.open(str(source), "rb") as file:
        samples = array.array("h", file.readframes(file.getnframes()))
    noise = random.Random(1)
    peak = max(map(abs, samples)) // 4
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(array.array("h", [x // 2 + noise.randint(-peak, peak) for x in samples]).tobytes())


def test_search():
    for seed in range(90, 96):
        speech(work / "near" / f"clip-{seed}.wav", f"{seed}:0:0.7")
    narrow(work / "near" / "clip-90.wav", work / "near" / "phone-90.wav")
    good("pack", work / "near", "-o", work / "near.spsh", "--layout", "folder", "--dedupe", "none")
    near = [work / "near.spsh"]
    auto, done = dedupe("near-auto.jsonl", datasets=near)
    equal(auto.kind("clip-90", "phone-90"), ("same_recording", "acoustic"), "a clip of 0.7 s, by its contour")
    equal(len(auto.pairs), 1, "and no other pair")
    equal(auto.head["search"], "auto", "auto is the default")
    check("search auto: keys of 32 bits and loudness contours with 6 weak bits; narrowband or below 40 kbit/s: 1 of 7 utterances" in done.stdout, f"the choice: {done.stdout}")
    check("--search deep" not in done.stdout, "nothing more to find")
    deep, _ = dedupe("near-deep.jsonl", "--search", "deep", datasets=near)
    equal(deep.essence(), auto.essence(), "deep finds the same")
    mild, done = dedupe("near-mild.jsonl", "--search", "mild", datasets=near)
    equal(mild.pairs, {}, "too short for stored keys")
    check("`speechshard dedupe --search auto` finds more" in done.stdout, f"the hint: {done.stdout}")
    (work / "near" / "phone-90.wav").unlink()
    good("pack", work / "near", "-o", work / "wide.spsh", "--layout", "folder", "--dedupe", "none")
    _, done = dedupe("wide.jsonl", datasets=[work / "wide.spsh"])
    check("keys of 48 bits and loudness contours with 6 weak bits; narrowband or below 40 kbit/s: 0 of 6 utterances" in done.stdout, f"the other: {done.stdout}")


def test_short_clips():
    """Clips of 0.42 s with the text of their copy: proven, too short to prove, or neither."""
    folder = work / "tiny"
    lines = ["path\ttext"]
    for seed in range(100, 104):
        speech(folder / f"clip-{seed}.wav", f"{seed}:0.2:0.42")
        narrow(folder / f"clip-{seed}.wav", folder / f"phone-{seed}.wav")
        rough(folder / f"clip-{seed}.wav", folder / f"rough-{seed}.wav")
        lines += [f"{kind}-{seed}.wav\t{'yes' if seed < 103 else 'no'}" for kind in ("clip", "phone", "rough")]
    (folder / "corpus.tsv").write_text("\n".join(lines) + "\n")
    good("pack", folder / "corpus.tsv", "-o", work / "tiny.spsh", "--dedupe", "none")
    plan, done = dedupe("tiny.jsonl", datasets=[work / "tiny.spsh"])
    proven = {tuple(sorted(pair)) for pair in plan.pairs}
    wanted = {(f"clip-{seed}", f"phone-{seed}") for seed in range(100, 104)}
    check(wanted <= proven, f"equal texts propose, the waveform decides: {proven}")
    check(all(a[-3:] == b[-3:] for a, b in proven), f"equal texts alone prove nothing: {proven}")
    short = {tuple(sorted((line["a"]["id"], line["b"]["id"]))) for line in plan.lines[1:-1] if line["type"] == "short"}
    check(any(a[-3:] == b[-3:] for a, b in short), f"listed as too short: {short}")
    check(not short & proven, "a pair is in one list")
    check(f"too short to prove: {len(short)} pairs" in done.stdout, f"the terminal: {done.stdout}")
    for pairs, may_drop in ((proven, True), (short, False)):
        for pair in sorted(pairs)[:4]:
            found = json.loads(good("explain", work / "tiny.spsh", *pair, "--json").stdout)
            equal(found["may_drop"], may_drop, f"explain agrees with the plan: {pair}: {found['verdict']}")


def test_many_short_clips():
    """Each of many clips with one name is listed with the next 8, not with all others."""
    count = 40
    folder = work / "words"
    for seed in range(200, 200 + count):
        speech(folder / str(seed) / "word.wav", f"{seed}:0.2:0.3")
    good("pack", folder, "-o", work / "words.spsh")
    plan, done = dedupe("words.jsonl", datasets=[work / "words.spsh"])
    pairs = [line for line in plan.lines[1:-1] if line["type"] == "short"]
    equal((plan.pairs, len(pairs)), ({}, 8 * count - 8 * 9 // 2), "a list that grows with the number of clips")
    equal([line.split(":")[1] for line in done.stdout.splitlines() if "too short" in line],
          [f" {len(pairs)} pairs of clips below 0.5 s with equal texts or names, listed in the plan"], "the terminal")


def test_same_result(plan):
    want = (work / "plan.jsonl").read_bytes()
    others = ["exact-copies.txt", "judged-by-me", "run.tsv"]
    (work / "w").mkdir()
    for name in others:
        (work / "w" / name).write_text("not of a run\n")
    for number, words in enumerate([("-j", 1), ("-j", 3, "--memory", "64M"), ("--memory", "1G", "--work", work / "w")]):
        dedupe(f"same-{number}.jsonl", *words)
        equal((work / f"same-{number}.jsonl").read_bytes() == want, True, f"same bytes with {words}")
    equal(sorted(p.name for p in (work / "w").iterdir()), others, "files of others stay in a work directory")
    dedupe("order.jsonl", datasets=[work / "two.spsh", work / "one.spsh", str(work / "one.spsh") + ":train"])
    equal((work / "order.jsonl").read_bytes() == want, True, "same bytes in another order")
    good("pack", work / "one" / "corpus.tsv", "-o", work / "small.spsh", "--domain", "one", "--shard-size", "64K")
    small, _ = dedupe("small.jsonl", datasets=[work / "small.spsh", work / "two.spsh"])
    equal(small.essence(), plan.essence(), "shards of another size")
    for parts in (1, 2, 3, 7):
        out = work / f"parts-{parts}.jsonl"
        part = ("dedupe", work / "one.spsh", work / "two.spsh", "-o", out, "--work", work / f"shared-{parts}")
        for number in [*reversed(range(parts)), 0]:
            good(*part, "--part", f"{number}/{parts}")
        equal(out.read_bytes() == want, True, f"same bytes in {parts} parts")


def test_parts_from_nothing():
    """Each part makes its fingerprints, and waits for the others'."""
    want = (work / "small.jsonl").read_bytes()
    shutil.rmtree(work / "small.spsh" / "fingerprints")
    part = ("dedupe", work / "small.spsh", work / "two.spsh", "-o", work / "waits.jsonl", "--part")
    check("when the other parts are complete" in good(*part, "0/3").stderr, "part 0 waits")
    check("when the other parts are complete" in good(*part, "1/3").stderr, "part 1 waits")
    check(not (work / "waits.jsonl").exists(), "no plan before all parts are done")
    for number in (2, 0, 1):
        good(*part, f"{number}/3")
    equal((work / "waits.jsonl").read_bytes() == want, True, "same bytes in parts from nothing")
    (work / "waits.jsonl").unlink()
    shutil.rmtree(work / "waits.jsonl.work")
    for rank in ("1", "0", "1"):
        done = good(*part, "auto", OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE="2")
        check(f"part {rank}/2 (mpirun)" in done.stderr, f"rank {rank}: {done.stderr}")
    equal((work / "waits.jsonl").read_bytes() == want, True, "same bytes of mpirun's processes")


def test_stopped():
    words = [COMMAND, "dedupe", work / "one.spsh", "-o", work / "stopped.jsonl", "-j", "1"]
    for number in range(20):
        shutil.rmtree(work / "one.spsh" / "fingerprints", ignore_errors=True)
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   encoding="utf-8")
        time.sleep(0.03 * (number + 1))
        process.send_signal(signal.SIGTERM)
        message = process.communicate()[1]
        if process.returncode == -signal.SIGTERM and "and the same command continues" in message:
            break
        check(process.returncode in (0, -signal.SIGTERM), f"a stopped run: exit {process.returncode}: {message}")
        if process.returncode == 0:
            print("not stopped in time")
            break
    good(*words[1:])


def test_killed():
    want = (work / "plan.jsonl").read_bytes()
    words = [COMMAND, "dedupe", work / "one.spsh", work / "two.spsh", "-o", work / "killed.jsonl", "-j", "1"]
    for path in ("one.spsh", "two.spsh"):
        shutil.rmtree(work / path / "fingerprints")
    kills = 0
    for number in range(40):
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep((0.2 if FEWER else 0.02) * (number + 1))  # slower: as late as in other builds
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
        kills += 1
    check(kills > 0, "it was killed")
    good(*words[1:])
    equal((work / "killed.jsonl").read_bytes() == want, True, f"same bytes after {kills} kills")
    check(not (work / "killed.jsonl.work").exists(), "nothing is left")
    equal(sorted(p.name for p in (work / "tmp").iterdir()), [], "no temporary files")


def test_work_directory():
    foreign = work / "foreign"
    foreign.mkdir()
    (foreign / "run").write_text("work speechshard.copies/1\nversion 0\n")
    bad("holds the work of another run: 'version 0' there", "dedupe", work / "one.spsh", "-o", work / "f.jsonl",
        "--work", foreign)
    done = good("dedupe", work / "one.spsh", "--estimate")
    check("temporary space" in done.stdout and not list((work / "tmp").iterdir()), "an estimate makes nothing")
    summary = json.loads(good("dedupe", work / "one.spsh", work / "two.spsh", "--json").stdout)
    equal(summary["drop"]["together"]["utterances"], 6, "the summary")
    equal(summary["members"]["drop"], 6, "the summary's members")


def listing(name):
    return good("ls", "--json", work / name).stdout


def test_apply():
    before = [listing("one.spsh"), listing("two.spsh")]
    (work / "skip.tsv").write_text("jingle-a\ttoo merry\n")
    done = good("apply", work / "plan.jsonl")
    check("skips 6 utterances of 2 datasets" in done.stderr, done.stderr)
    rows = {row["id"]: row for name in ("one.spsh", "two.spsh")
            for row in map(json.loads, good("ls", "--all", "--json", work / name).stdout.splitlines())}
    served = {json.loads(line)["id"] for line in (listing("one.spsh") + listing("two.spsh")).splitlines()}
    equal(served, {i for i, row in rows.items() if not row["skipped"]}, "what ls lists")
    equal(sorted(i for i, row in rows.items() if row.get("skipped")),
          sorted(i for i, m in Plan(work / "plan.jsonl").members.items() if m["decision"] == "drop"), "what is skipped")
    equal(rows["again"]["skip_reason"], "copy of one.spsh plain (same_recording, acoustic)", "the reason")
    check("applied already" in good("apply", work / "plan.jsonl").stderr, "twice")
    again = json.loads(good("apply", work / "plan.jsonl", "--json").stdout)
    equal((again["datasets_changed"], again["overlay"][:7]), (0, "dedupe-"), f"twice, as JSON: {again}")
    check(again["datasets"] > 0 and again["utterances"] > 0, f"what is skipped: {again}")
    again, _ = dedupe("again.jsonl")
    equal([m for m in again.members.values() if m["decision"] == "drop"], [], "nothing is left to drop")
    good("overlay", work / "one.spsh", "add", "mine", "--skip", work / "skip.tsv")
    check("from 2 datasets" in good("revert", work / "plan.jsonl").stderr, "reverted")
    check("not applied" in good("revert", work / "plan.jsonl").stderr, "reverted twice")
    equal(good("overlay", work / "one.spsh").stdout, "mine\tskip\t1\n", "other overlays stay")
    good("overlay", work / "one.spsh", "remove", "mine")
    equal([listing("one.spsh"), listing("two.spsh")], before, "the view before")


def test_apply_refuses():
    plan = work / "plan.jsonl"
    before = [listing("one.spsh"), listing("two.spsh")]
    kept = Plan(plan).members["plain-mp3"]["kept"]["id"]
    (work / "kept.tsv").write_text(kept + "\tno good\n")
    good("overlay", work / "one.spsh", "add", "kept", "--skip", work / "kept.tsv")
    bad(f"'{kept}', which the plan keeps instead of its copies, is now skipped", "apply", plan)
    good("overlay", work / "one.spsh", "remove", "kept")
    os.rename(work / "two.spsh", work / "moved.spsh")
    bad("two.spsh", "apply", plan)
    good("apply", plan, work / "moved.spsh")
    good("revert", plan, work / "moved.spsh")
    bad("not one of the datasets of the plan", "apply", plan, work / "small.spsh")
    os.rename(work / "small.spsh", work / "two.spsh")
    bad("another dataset: the plan was made for", "apply", plan)
    os.rename(work / "two.spsh", work / "small.spsh")
    os.rename(work / "moved.spsh", work / "two.spsh")
    equal([listing("one.spsh"), listing("two.spsh")], before, "nothing is changed")
    text = plan.read_text()
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"decision":"drop"' in line)
    changes = {
        f"ends with line {len(lines) - 1}, without": "".join(lines[:-1]),
        f"line {len(lines)}: the hash does not match": text.replace("same_recording", "same_recordinG", 1),
        f"line {at + 1}: ": text.replace(lines[at], lines[at][:-9] + "\n"),
        f"line {at + 1}: an utterance is dropped for a reason that must not": text.replace(
            lines[at], lines[at].replace('"tier":"acoustic"', '"tier":"text_exact"').replace('"tier":"pcm"', '"tier":"text_exact"')
            .replace('"tier":"bytes"', '"tier":"text_exact"').replace('"tier":"pcm_chunks"', '"tier":"text_exact"')),
        "schema speechshard.copy-plan/2": text.replace("copy-plan/1", "copy-plan/2", 1),
        "continues after its end": text + lines[-2],
        "not the first line of a plan": "".join(lines[1:]),
    }
    for message, changed in changes.items():
        (work / "bad.jsonl").write_text(changed)
        bad(message, "apply", work / "bad.jsonl")
        bad(message, "revert", work / "bad.jsonl")
    equal([listing("one.spsh"), listing("two.spsh")], before, "still nothing is changed")


def spoil(path):
    """Damages the end of the data, which only shows when it is read."""
    content = bytearray(path.read_bytes())
    content[-5 * 4096] ^= 0x55
    path.write_bytes(content)


def test_damage():
    """The error for damage names the command that repairs it. The fingerprints have more than one
    page of 64 KiB."""
    broken = work / "broken.spsh"
    for number in (90, 91):
        speech(work / "broken" / f"{number}.flac", f"{number}:0:150")
    good("pack", work / "broken", "-o", broken)
    good("fingerprint", broken)
    spoil(next((broken / "fingerprints").iterdir()))
    bad(f"'speechshard fingerprint {broken}' makes damaged fingerprints again", "dedupe", broken)
    good("fingerprint", broken)
    good("dedupe", broken, "-o", work / "mended.jsonl")
    shutil.rmtree(broken / "fingerprints")
    spoil(next((broken / "shards").iterdir()))
    for command in ("dedupe", "fingerprint"):
        for words in ((), ("--estimate",)):
            bad(f"'speechshard verify {broken}' lists the damage", command, broken, *words)
    check("shards/" in run("verify", broken).stdout, "so it does")


def test_splits():
    one, fresh = work / "one.spsh", work / "fresh.spsh"
    shutil.copytree(one, fresh, ignore=shutil.ignore_patterns("fingerprints"))
    bad("no split 'tarin'; this dataset has the splits ", "dedupe", f"{fresh}:tarin", status=2)
    told = run("dedupe", f"{fresh}:tarin").stderr.split("the splits ")[-1].strip()
    equal(sorted(told.split(", ")), ["dev", "test", "train"], "its splits")
    bad("no split 'tarin'", "dedupe", f"{fresh}:tarin", "--estimate", status=2)
    check(not (fresh / "fingerprints").exists(), "a slip is told before anything is made")
    bad("two.spsh: no split 'train'; this dataset has no splits", "dedupe", f"{work / 'two.spsh'}:train",
        status=2)
    bad("the name of a split must be valid UTF-8", "dedupe", f"{one}:caf\udce9", status=2)
    for splits, seconds in ((":dev", 5), (":dev,test", 9), ("", 61)):
        hours = json.loads(good("dedupe", f"{one}{splits}", f"{one}:dev", "--estimate", "--json").stdout)["audio_hours"]
        check(abs(3600 * hours - seconds) < 0.1, f"{splits}: {3600 * hours} s")


def test_usage():
    one = work / "one.spsh"
    bad("DATASET is missing", "dedupe", status=2)
    bad("PLAN is missing", "apply", status=2)
    bad("--part needs", "dedupe", one, "--part", "0/2", status=2)
    bad("--part 2/2: not a part", "dedupe", one, "-o", "x", "--part", "2/2", status=2)
    bad("--exact-only compares no audio", "dedupe", one, "--exact-only", "--search", "deep", status=2)
    bad("not one of the given datasets", "dedupe", one, "--prefer", work / "two.spsh", status=2)
    bad("no dataset has the split 'tarin'", "dedupe", one, "--drop-from", "tarin", status=2)
    bad("No such file", "dedupe", work / "nothing.spsh")
    bad("cannot open", "apply", work / "nothing.jsonl")


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(os.path.realpath(folder))
    (work / "tmp").mkdir()
    environment["TMPDIR"] = str(work / "tmp")
    make_corpora()
    found = test_found()
    test_options(found)
    test_search()
    test_short_clips()
    test_many_short_clips()
    test_same_result(found)
    test_parts_from_nothing()
    test_stopped()
    test_killed()
    test_work_directory()
    test_apply()
    test_apply_refuses()
    test_damage()
    test_splits()
    test_usage()
finish()
