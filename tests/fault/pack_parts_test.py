"""pack_parts_test.py COMMAND MAKE_CORPUS: a pack in parts gives the bytes of a plain pack, for any
number of parts, in any order, also if a part runs twice at once. Merges that cannot succeed name
the reason, and the state of a damaged unit is packed again.
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

OPTIONS = ["--shard-size", "64K", "--codec", "pcm", "--jobs", "2", "--max-rejects", "100%"]
failures = []


def fail(text):
    failures.append(text)
    print(f"FAILED: {text}", file=sys.stderr)


def tree(root):
    """Each file of a dataset with its content."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class Rig:
    """A corpus with rejects, segments, copies in other units, and an archive; and its dataset."""

    def __init__(self, command, make_corpus, work, recordings=60, samples=4000):
        self.command, self.work = command, work
        self.corpus = work / "corpus"
        subprocess.run([make_corpus, self.corpus, str(recordings), str(samples)], check=True)
        wavs = sorted(self.corpus.rglob("*.wav"))
        with tarfile.open(self.corpus / "more.tar.gz", "w:gz") as archive:
            for number, path in enumerate(wavs[::2]):
                archive.add(path, f"archived/{number}.wav")
        # Each recording has a segment past its end, which is rejected, and one inside.
        with open(self.corpus / "corpus.tsv", "w", encoding="ascii") as table:
            table.write("path\tstart\tend\n")
            for path in [p.relative_to(self.corpus) for p in wavs] + \
                    [f"archived/{number}.wav" for number in range(len(wavs[::2]))]:
                table.write(f"{path}\t1000\t1001\n{path}\t0.005\t\n")
        self.want = self.pack("want")
        self.units = int(re.search(r"in (\d+) units", self.message)[1])

    def words(self, name, *options):
        return [self.command, "pack", str(self.corpus), "-o", str(self.work / name), *OPTIONS, *options]

    def start(self, name, *options):
        return subprocess.Popen(self.words(name, *options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)

    def run(self, words, status=0):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.message = done.stderr
        if done.returncode != status:
            fail(f"{words[1:]}: status {done.returncode}, want {status}: {done.stderr}")
        return done.stdout

    def pack(self, name, *options, status=0):
        self.run(self.words(name, *options), status)
        return tree(self.work / name)

    def merge(self, name, status=0):
        self.run([self.command, "merge", str(self.work / name), "--lease", "1"], status)

    def check(self, name, what):
        got = tree(self.work / name)
        if (self.work / name / ".pack").exists():
            fail(f"{what}: .pack is left")
        if got == self.want:
            return
        names = [n for n in sorted(got.keys() | self.want.keys()) if got.get(n) != self.want.get(n)]
        fail(f"{what}: these files differ from those of a plain pack: {names[:8]}")


def test_counts(rig):
    """Any number of parts, in any order."""
    numbers = random.Random(4711)
    for count in (1, 2, 3, 7, 2 * rig.units):
        name = f"count-{count}"
        order = list(range(count))
        numbers.shuffle(order)
        for part in order:
            rig.pack(name, "--part", f"{part}/{count}")
        rig.merge(name)
        rig.check(name, f"{count} parts")
        before = tree(rig.work / name)
        rig.pack(name, "--part", "0/2")
        rig.merge(name)
        rig.check(name, "a part and a merge of a published dataset")
        if tree(rig.work / name) != before:
            fail("a part or a merge of a published dataset changed it")


def test_at_once(rig):
    """Parts at the same time, one of them twice; each may merge."""
    for merge in ([], ["--merge"]):
        name = f"at-once{len(merge)}"
        parts = [rig.start(name, "--part", part, *merge) for part in ("0/3", "1/3", "1/3", "2/3")]
        for part in parts:
            _, message = part.communicate()
            if part.returncode != 0:
                fail(f"a part among others: {message}")
        if merge and not (rig.work / name / "manifest.spsh").exists():
            # All parts may have left the last unit to another one.
            rig.pack(name, "--part", "0/3", "--merge")
        if not merge:
            rig.merge(name)
        rig.check(name, "parts at the same time")


def test_late_parts(rig):
    """Parts that start at once on a published dataset remove the empty work folder of each other."""
    rig.pack("late")
    for _ in range(60):
        parts = [rig.start("late", "--part", f"{part}/4") for part in range(4)]
        for part in parts:
            _, message = part.communicate()
            if part.returncode != 0:
                fail(f"a part of a published dataset: {message}")
    rig.check("late", "late parts")


def test_plan_and_plain(rig):
    """A plan, one part, and a plain pack of the rest."""
    rig.pack("plain", "--plan-only")
    report = json.loads(rig.run(rig.words("plain", "--part", "1/3", "--json", "--lease", "1")))
    if report["units"] != rig.units or report["units_packed"] != rig.units or report["units_left"] != 0:
        fail(f"report of a part: {report}")
    rig.pack("plain")
    rig.check("plain", "a plain pack after parts")
    rig.pack("planned", "--plan-only")
    rig.pack("planned")
    rig.check("planned", "a plain pack after a plan")


def test_missing_units(rig):
    rig.pack("missing", "--plan-only")
    rig.merge("missing", status=1)
    if f"{rig.units} of {rig.units} units are not packed: 0, 1, 2" not in rig.message:
        fail(f"no unit is packed: {rig.message}")
    rig.pack("missing", "--part", "0/2")
    for unit in (1, 3):
        (rig.work / "missing" / ".pack" / f"unit-{unit:06}.done").unlink()
    rig.merge("missing", status=1)
    if f"2 of {rig.units} units are not packed: 1, 3; run any part" not in rig.message:
        fail(f"two units are missing: {rig.message}")
    rig.pack("missing", "--part", "0/2", "--merge")
    rig.check("missing", "after missing units")


def test_shares(rig):
    """The record of a finished share saves looks at its units, if it is of the same plan."""
    rig.pack("shares", "--part", "0/2")
    state = rig.work / "shares" / ".pack"
    foreign = rig.work / "foreign" / ".pack" / "unit-share-1-of-2.done"
    (state / "unit-000001.done").unlink()
    report = json.loads(rig.run(rig.words("shares", "--part", "0/2", "--json")))
    if report["units_packed"] != 0 or report["units_left"] != 0:
        fail(f"a finished share is packed again: {report}")
    rig.merge("shares", status=1)
    rig.pack("shares", "--part", "0/2", "--merge")
    rig.check("shares", "after a commit record was removed")
    rig.run([*rig.words("foreign", "--plan-only"), "--codec", "flac"])
    rig.pack("shares-2", "--part", "0/2")
    foreign.write_bytes((rig.work / "shares-2" / ".pack" / foreign.name).read_bytes())
    rig.run([*rig.words("foreign", "--part", "0/2"), "--codec", "flac"])
    rig.merge("foreign")


def test_damage(rig):
    """A damaged journal, and a commit record of another plan."""
    rig.pack("damaged", "--part", "0/1")
    state = rig.work / "damaged" / ".pack"
    journal = state / "unit-000002.g1" / "unit-000002.001"
    journal.write_bytes(journal.read_bytes()[:-9] + b"00000000\n")
    rig.merge("damaged", status=1)
    if str(journal) not in rig.message:
        fail(f"a damaged journal: {rig.message}")
    (state / "unit-000002.done").unlink()
    rig.pack("damaged", "--part", "0/1")
    if "taking over unit 2 from process" not in rig.message or "1 of its shards is kept" not in rig.message:
        fail(f"a unit with a damaged journal is packed again: {rig.message}")
    other = rig.work / "other" / ".pack" / "unit-000001.done"
    record = (state / other.name).read_bytes()
    (state / other.name).write_bytes(record[:-9] + b"00000000\n")
    rig.merge("damaged", status=1)
    if f"{other.name}: the record is damaged or belongs to another plan" not in rig.message:
        fail(f"a damaged record: {rig.message}")
    rig.run([*rig.words("other", "--part", "0/1"), "--codec", "flac"])
    (state / other.name).write_bytes(other.read_bytes())
    for words in (rig.words("damaged", "--part", "0/1"), [rig.command, "merge", str(rig.work / "damaged")]):
        rig.run(words, status=1)
        if f"{other.name}: the record is damaged or belongs to another plan" not in rig.message:
            fail(f"a record of another plan: {rig.message}")
    (state / other.name).unlink()
    rig.pack("damaged", "--part", "0/1", "--merge")
    rig.check("damaged", "after damage")
    rig.run([*rig.words("damaged", "--part", "0/1"), "--codec", "flac"], status=1)
    if "other corpora or options" not in rig.message:
        fail(f"a part with other options: {rig.message}")


def test_missing_corpus(rig):
    """A machine without the corpus may not reject everything."""
    rig.pack("unmounted", "--plan-only")
    hidden = rig.corpus.with_name("hidden")
    rig.corpus.rename(hidden)
    rig.corpus.mkdir()
    rig.pack("unmounted", "--part", "0/2", status=1)
    if "mount the corpus under the same path" not in rig.message:
        fail(f"a part without its corpus: {rig.message}")
    rig.corpus.rmdir()
    hidden.rename(rig.corpus)
    rig.pack("unmounted", "--part", "0/2", "--merge")
    rig.check("unmounted", "after a part without its corpus")


def test_stopped(rig):
    """A part is stopped beyond its lease, others take its unit over, and it continues."""
    for round_ in range(3):
        name = f"stopped-{round_}"
        part = rig.start(name, "--part", "0/2", "--lease", "1")
        state = rig.work / name / ".pack"
        while not (state / "unit-000000.g1").exists() and part.poll() is None:
            time.sleep(0.001)
        part.send_signal(signal.SIGSTOP)
        rig.pack(name, "--part", "1/2", "--lease", "1", *(["--merge"] if round_ == 2 else []))
        if part.poll() is None and round_ == 0 and "which gave no sign of life" not in rig.message:
            print(f"the stopped part had no unit: {rig.message}")
        part.send_signal(signal.SIGCONT)
        _, message = part.communicate()
        if part.returncode != 0:
            fail(f"a part that was stopped: {message}")
        rig.merge(name)
        rig.check(name, "a part that was taken for dead")


TRACE = ["strace", "-f", "-qq", "-o", os.devnull]


def can_trace():
    is_able = subprocess.run([*TRACE, "true"], capture_output=True, check=False).returncode == 0
    if not is_able:
        print("strace cannot inject a fault here")
    return is_able


def test_full_disk(rig):
    """A write fails while a part packs; the part is repeated."""
    if not can_trace():
        return
    for when in range(2, 60, 7):
        inject = [*TRACE, "-e", "trace=pwrite64", "-e", f"inject=pwrite64:error=ENOSPC:when={when}+"]
        name = f"full-{when}"
        rig.run([*inject, *rig.words(name, "--part", "0/2", "--lease", "1")], status=1)
        rig.pack(name, "--part", "1/2", "--lease", "1", "--merge")
        rig.check(name, "after a full disk")


def test_killed_merge(rig):
    """A merge is killed while it moves shards, publishes, and removes the state."""
    if not can_trace():
        return
    merge_words = [rig.command, "merge", "--quiet"]
    for call, points in (("rename", (1, 2, 9)), ("renameat2", (1, 2)), ("unlink", (1, 2, 5, 12)),
                         ("rmdir", (1, 3)), ("fsync", (2, 4, 6))):
        for when in points:
            name = f"{call}-{when}"
            rig.pack(name, "--part", "0/1")
            words = [*merge_words, str(rig.work / name)]
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}"]
            if subprocess.run([*TRACE, *inject, *words], capture_output=True, check=False).returncode == 0:
                fail(f"{name}: the merge was not killed")
            if when % 2 == 1:
                rig.pack(name, "--part", "0/2", "--lease", "1", "--merge")
            rig.merge(name)
            rig.check(name, f"a merge that was killed at {call} {when}")


def test_usage(rig):
    for options, text in ((["--merge"], "--merge needs --part"), (["--part", "3/3"], "3/3: not a part"),
                          (["--plan-only", "--part", "0/2"], "excludes --part"), (["--lease", "0"], "--lease")):
        rig.pack("usage", *options, status=2)
        if text not in rig.message:
            fail(f"{options}: {rig.message}")
    rig.merge("nothing", status=1)
    if "has neither a plan nor a dataset" not in rig.message:
        fail(f"merge without parts: {rig.message}")


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        rig = Rig(sys.argv[1], sys.argv[2], pathlib.Path(work))
        print(f"{rig.units} units")
        for test in (test_counts, test_at_once, test_late_parts, test_plan_and_plain, test_missing_units, test_shares,
                     test_damage, test_missing_corpus, test_stopped, test_full_disk, test_killed_merge, test_usage):
            begin = time.monotonic()
            test(rig)
            print(f"{test.__name__}: {time.monotonic() - begin:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
