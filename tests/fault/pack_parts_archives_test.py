"""pack_parts_archives_test.py COMMAND MAKE_CORPUS: parts that wait for the plan unpack archives. The
dataset has the bytes of a plain pack, also if parts are killed or stopped meanwhile, or if archives
are damaged or replaced.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

from pack_parts_test import Rig, fail, failures, tree

ARCHIVES = 8


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

    def part(self, name, part, *options):
        return self.start(name, "--part", f"{part}/3", "--lease", "2", *options)

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
    while not list((rig.work / name / ".pack").glob(pattern)):
        if process.poll() is not None:
            return False
        time.sleep(0.0005)
    return True


def test_helpers(rig):
    """The part that makes the plan is stopped for less than its lease: others unpack the rest."""
    planner = rig.start("helped", "--part", "0/3", "--lease", "60")
    if not wait_for(rig, "helped", "archives", planner):
        fail("the plan was made before it could be stopped")
    planner.send_signal(signal.SIGSTOP)
    parts = [rig.start("helped", "--part", f"{part}/3", "--lease", "60") for part in (1, 2)]
    limit = time.monotonic() + 60
    state = rig.work / "helped/.pack"
    while len(list(state.glob("tar-*.done"))) < ARCHIVES - 1 and time.monotonic() < limit:
        time.sleep(0.01)
    planner.send_signal(signal.SIGCONT)
    messages = rig.finish("helped", [planner, *parts], "archives unpacked by parts that wait")
    if not re.search(r"unpacked \d+ archives? for the plan", messages):
        fail(f"no part has helped: {messages}")


def test_killed(rig):
    """All parts are killed while they unpack. Complete tars are kept."""
    for round_, pattern in enumerate(("archives", "tar-*.g1/tar", "tar-*.done", "tar-*.done")):
        name = f"killed-{round_}"
        parts = [rig.part(name, part) for part in range(3)]
        found = wait_for(rig, name, pattern, parts[0])
        if round_ == 3:
            time.sleep(0.05)
        for part in parts:
            part.kill()
            part.communicate()
        state = rig.work / name / ".pack"
        if not found or (state / "plan").exists():
            print(f"{name}: the plan was made before the kill")
        before = {path: path.stat().st_ino for done in state.glob("tar-*.done")
                  for path in state.glob(f"{done.stem}.g*/tar")}
        parts = [rig.part(name, part) for part in range(3)]
        wait_for(rig, name, "plan", parts[0])
        for path, inode in before.items():
            if path.exists() and path.stat().st_ino != inode:
                fail(f"{name}: {path.parent.name} was unpacked again")
        rig.finish(name, parts, f"parts that were killed after {pattern}")


def test_stopped_helper(rig):
    """A part is stopped beyond its lease while it unpacks, and continues after others did its work."""
    parts = [rig.part("zombie", part) for part in range(3)]
    wait_for(rig, "zombie", "tar-*.g1/tar", parts[0])
    parts[1].send_signal(signal.SIGSTOP)
    for part in (parts[0], parts[2]):
        part.wait()
    parts[1].send_signal(signal.SIGCONT)
    rig.finish("zombie", parts, "a part that was taken for dead")


def test_damaged_state(rig):
    """A complete tar loses bytes. It must not pass as a truncated archive."""
    part = rig.part("damaged", 0)
    wait_for(rig, "damaged", "tar-*.done", part)
    part.kill()
    part.communicate()
    state = rig.work / "damaged/.pack"
    tars = [path for done in state.glob("tar-*.done") for path in state.glob(f"{done.stem}.g*/tar")]
    if not tars or (state / "plan").exists():
        print("the plan was made before the kill")
        return
    os.truncate(tars[0], 512)
    rig.pack("damaged", "--part", "0/3", "--lease", "2", status=1)
    if "bytes were unpacked, but the file has another size; remove" not in rig.message:
        fail(f"a tar that lost bytes: {rig.message}")


def test_replaced_archive(rig):
    """Between two runs, an archive is replaced by one of the same size."""
    part = rig.part("replaced", 0)
    wait_for(rig, "replaced", "tar-*.done", part)
    part.kill()
    part.communicate()
    for number in range(ARCHIVES):
        path = rig.corpus / f"a{number}.tar.gz"
        other = rig.corpus / "other"
        other.write_bytes(path.read_bytes()[:-8] + bytes(8))  # another checksum and length
        times = path.stat()
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        other.rename(path)
    subprocess.run(["rm", "-rf", rig.work / "want"], check=True)
    rig.want = rig.pack("want")
    rig.finish("replaced", [rig.part("replaced", part) for part in range(3)], "archives that were replaced")
    if '"a0.tar.gz"' not in (rig.work / "replaced/reports/rejects.jsonl").read_text(encoding="utf-8"):
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
