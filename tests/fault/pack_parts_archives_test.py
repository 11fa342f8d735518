"""pack_parts_archives_test.py COMMAND MAKE_CORPUS: parts that wait for the plan unpack archives. The
dataset has the bytes of a plain pack, also if parts are killed or stopped meanwhile, or if archives
are damaged or replaced.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

from pack_parts_test import Rig, fail, failures, tree

ARCHIVES = 8
TRIES = 5


class ArchivesRig(Rig):
    """A corpus of compressed archives, two of them damaged, and its dataset."""

    def __init__(self, command, make_corpus, work):  # pylint: disable=super-init-not-called
        self.command, self.work = command, work
        self.corpus = work / "corpus"
        self.corpus.mkdir()
        subprocess.run([make_corpus, work / "clips", "16", "4000"], check=True)
        wavs = sorted((work / "clips").rglob("*.wav"))
        for number in range(ARCHIVES):
            self.make_archive(number, wavs)
        data = (self.corpus / "a1.tar.gz").read_bytes()
        (self.corpus / "a1.tar.gz").write_bytes(data[:len(data) // 2])
        data = bytearray((self.corpus / "a2.tar.gz").read_bytes())
        data[len(data) // 2:len(data) // 2 + 200] = bytes(200)
        (self.corpus / "a2.tar.gz").write_bytes(data)
        self.want = self.pack("want")

    def make_archive(self, number, wavs, pad_bytes=6_000_000):
        """The pad, which is not audio, makes it take some time to unpack the archive."""
        pad = self.work / "pad.bin"
        pad.write_bytes(os.urandom(pad_bytes // 2) + bytes(pad_bytes // 2))
        with tarfile.open(self.corpus / f"a{number}.tar.gz", "w:gz", compresslevel=1) as archive:
            for at, path in enumerate(wavs):
                archive.add(path, f"n{number}/{at}.wav")
            archive.add(pad, f"n{number}/pad.bin")

    def part(self, name, part):
        return self.start(name, "--part", f"{part}/3", "--lease", "2")

    def state(self, name):
        return self.work / name / ".pack"

    def complete(self, name):
        """The folders of complete tars, by the name of their record."""
        state = self.state(name)
        return {done.stem: sorted(state.glob(f"{done.stem}.g*/tar")) for done in state.glob("tar-*.done")}

    def finish(self, name, parts, what):
        """Wait for parts, merge, and compare. Returns their messages."""
        messages = ""
        for part in parts:
            message = part.communicate()[1]
            messages += message
            if part.returncode != 0:
                fail(f"{what}: {message}")
        self.merge(name)
        self.check(name, what)
        return messages


def wait_for(rig, name, pattern, process):
    """Wait until a file of the state appears. False if the process ends first."""
    while not list(rig.state(name).glob(pattern)):
        if process.poll() is not None:
            return False
        time.sleep(0.0005)
    return True


def kill_parts(rig, name, pattern, numbers, count_min):
    """Kill parts after a file of the state appears. Returns the name of the dataset and its complete
    tars. Tries again if the parts were faster than this process."""
    for try_ in range(TRIES):
        dataset = f"{name}-{try_}"
        parts = [rig.part(dataset, number) for number in numbers]
        wait_for(rig, dataset, pattern, parts[0])
        for part in parts:
            part.kill()
            part.communicate()
        found = rig.complete(dataset)
        if not (rig.state(dataset) / "plan").exists() and count_min <= len(found) < ARCHIVES:
            return dataset, found
    fail(f"{name}: no part was killed while it unpacked, in {TRIES} tries")
    return dataset, found


def test_helpers(rig):
    """The part that makes the plan is stopped for less than its lease: others unpack the rest."""
    for try_ in range(TRIES):
        name = f"helped-{try_}"
        planner = rig.start(name, "--part", "0/3", "--lease", "60")
        wait_for(rig, name, "archives", planner)
        planner.send_signal(signal.SIGSTOP)
        parts = [rig.start(name, "--part", f"{part}/3", "--lease", "60") for part in (1, 2)]
        limit = time.monotonic() + 20
        while len(rig.complete(name)) < ARCHIVES - 1 and time.monotonic() < limit:
            time.sleep(0.01)
        planner.send_signal(signal.SIGCONT)
        messages = rig.finish(name, [planner, *parts], "archives unpacked by parts that wait")
        if re.search(r"unpacked \d+ archives? for the plan", messages):
            return
    fail(f"no part has helped: {messages}")


def test_killed(rig):
    """All parts are killed while they unpack. Complete tars are kept."""
    for round_, (pattern, count_min) in enumerate((("archives", 0), ("tar-*.g1/tar", 0), ("tar-*.done", 1))):
        name, before = kill_parts(rig, f"killed-{round_}", pattern, range(3), count_min)
        parts = [rig.part(name, part) for part in range(3)]
        for part in parts:
            part.wait()
        after = rig.complete(name)
        if len(after) != ARCHIVES or any(after[key] != tars for key, tars in before.items()):
            fail(f"{name}: complete archives were unpacked again: {before} {after}")
        rig.finish(name, parts, f"parts that were killed after {pattern}")


def holds_archive(rig, name, process):
    """Whether a process has claimed an archive."""
    owner = f" process {process.pid} ".encode()
    try:
        return any(owner in path.read_bytes() for path in rig.state(name).glob("tar-*/alive"))
    except FileNotFoundError:
        return False


def test_stopped_helper(rig):
    """A part is stopped beyond its lease while it unpacks, and continues after others did its work."""
    for try_ in range(TRIES):
        name = f"zombie-{try_}"
        parts = [rig.part(name, part) for part in range(3)]
        zombie = parts[1]
        while zombie.poll() is None and not holds_archive(rig, name, zombie):
            time.sleep(0.0005)
        zombie.send_signal(signal.SIGSTOP)
        for part in (parts[0], parts[2]):
            part.wait()
        taken_over = list(rig.state(name).glob("tar-*.g2"))
        zombie.send_signal(signal.SIGCONT)
        rig.finish(name, parts, "a part that was taken for dead")
        if taken_over:
            return
    fail(f"no archive was taken over in {TRIES} tries")


def test_damaged_state(rig):
    """A complete tar loses bytes. It must not pass as a truncated archive."""
    name, found = kill_parts(rig, "damaged", "tar-*.done", [0], 1)
    for tar in (tar for tars in found.values() for tar in tars):
        os.truncate(tar, 512)
    rig.pack(name, "--part", "0/3", "--lease", "2", status=1)
    if "bytes were unpacked, but the file has another size; remove" not in rig.message:
        fail(f"a tar that lost bytes: {rig.message}")


def test_replaced_archive(rig):
    """Between two runs, archives are replaced by others of the same size and time."""
    name, _ = kill_parts(rig, "replaced", "tar-*.done", [0], 1)
    for number in range(ARCHIVES):
        path = rig.corpus / f"a{number}.tar.gz"
        other = rig.corpus / "other"
        other.write_bytes(path.read_bytes()[:-8] + bytes(8))  # another checksum and length
        times = path.stat()
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        other.rename(path)
    shutil.rmtree(rig.work / "want")
    rig.want = rig.pack("want")
    rig.finish(name, [rig.part(name, part) for part in range(3)], "archives that were replaced")
    if '"a0.tar.gz"' not in (rig.work / name / "reports/rejects.jsonl").read_text(encoding="utf-8"):
        fail("a replaced archive was not unpacked again")


def test_moved(rig):
    """Items refer to the tars by absolute paths."""
    rig.pack("moved", "--plan-only")
    (rig.work / "moved").rename(rig.work / "elsewhere")
    rig.pack("elsewhere", "--part", "0/1", status=1)
    if "its archives were unpacked to" not in rig.message:
        fail(f"a dataset that was moved: {rig.message}")
    (rig.work / "elsewhere").rename(rig.work / "moved")
    rig.pack("moved", "--part", "0/1", "--merge")
    rig.check("moved", "a plan that is used later")


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        rig = ArchivesRig(sys.argv[1], sys.argv[2], pathlib.Path(work))
        if not any(name.endswith("rejects.jsonl") and b"a1.tar.gz" in data and b"a2.tar.gz" in data
                   for name, data in tree(rig.work / "want").items()):
            fail("the damaged archives were not reported")
        for test in (test_helpers, test_killed, test_stopped_helper, test_damaged_state, test_moved,
                     test_replaced_archive):
            before = len(failures)
            test(rig)
            print(f"{'ok' if len(failures) == before else 'FAILED'}  {test.__name__}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
