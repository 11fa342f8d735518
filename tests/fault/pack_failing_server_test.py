"""pack_failing_server_test.py COMMAND MAKE_CORPUS WEAK_FS: the file server of the corpus fails (EIO,
ESTALE, ETIMEDOUT) while parts scan or read it. No file may become a reject: the part exits with 75,
and after a repeat, the dataset has the bytes of an undisturbed pack. Skips if FUSE cannot mount here.
"""
import errno
import os
import pathlib
import subprocess
import sys
import tempfile

from pack_parts_test import fail, failures, tree
from pack_shared_test import SharedRig

TEMPFAIL = 75
OPTIONS = ["--shard-size", "64K", "--codec", "pcm", "--jobs", "2"]


class ServerRig(SharedRig):
    """A corpus in a folder that is mounted with or without a fault, and its dataset."""

    def __init__(self, command, make_corpus, weak_fs, work):  # pylint: disable=super-init-not-called
        self.command, self.weak_fs, self.work, self.clients = command, weak_fs, work, {}
        self.backing, self.corpus = work / "backing", work / "corpus"
        self.backing.mkdir()
        subprocess.run([make_corpus, self.backing / "clips", "24", "3000"], check=True)
        clips = sorted(path.relative_to(self.backing) for path in self.backing.rglob("*.wav"))
        with open(self.backing / "corpus.tsv", "w", encoding="ascii") as table:
            table.write("path\ttext\n")
            for number, clip in enumerate(clips):
                table.write(f"{clip}\ttext {number}\n")
        self.clip, self.folder = clips[3].name, clips[3].parent.name

    def words(self, name, *options):
        source = self.corpus / ("corpus.tsv" if name.startswith("table") else "clips")
        return [self.command, "pack", str(source), "-o", str(self.work / name), *OPTIONS, *options]

    def pack_with(self, fault, name, *options, status=0):
        """Run a pack while the corpus is mounted with a fault."""
        self.mount("corpus", 0, 1, *fault)
        try:
            self.pack(name, *options, status=status)
        finally:
            self.unmount("corpus")


def check_fault(rig, name, fault, has_plan):
    """A part during the fault, and two after it."""
    if has_plan:
        rig.pack_with([], name, "--plan-only")
    rig.pack_with([fault], name, "--part", "0/2", status=TEMPFAIL)
    if "repeat the same command" not in rig.message:
        fail(f"{name}: {rig.message}")
    if (rig.work / name / "manifest.spsh").exists():
        fail(f"{name}: published during {fault}")
    rig.pack_with([], name, "--part", "0/2")
    rig.pack_with([], name, "--part", "1/2", "--merge")
    rig.check(name, f"after {fault}")


def main():
    if sys.argv[3] == "none" or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: " + ("built without libfuse3" if sys.argv[3] == "none" else "/dev/fuse cannot be opened"))
        return 77
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        rig = ServerRig(sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(work))
        if not rig.mount("corpus", 0, 1):
            print("skipped: FUSE cannot mount here")
            return 77
        rig.unmount("corpus")
        for kind in ("folder", "table"):
            rig.pack_with([], f"{kind}-want")
            rig.want = tree(rig.work / f"{kind}-want")
            for number in (errno.EIO, errno.ESTALE, errno.ETIMEDOUT):
                for what, fault in (("clip", f"fail={rig.clip}:{number}"), ("read", f"fail-read={rig.clip}:{number}"),
                                    ("folder", f"fail={rig.folder}:{number}"),
                                    ("listing", f"fail-read={rig.folder}:{number}")):
                    if (kind, what) != ("table", "listing"):  # no folder is listed for a table
                        check_fault(rig, f"{kind}-{what}-{number}", fault, False)
                check_fault(rig, f"{kind}-planned-{number}", f"fail={rig.clip}:{number}", True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
