#!/usr/bin/env python3
"""packed.py FOLDER: prints LD_LIBRARY_PATH for the programs in a folder of gpu_pack.sh: the folder
itself (so that programs find the plug-in without its name), the libraries in it, and NVIDIA's
libraries in this Python's packages (nvidia-cublas, nvidia-cudnn, nvidia-nccl, as PyTorch needs
them), which the system's loader does not find. Only these programs need the path: Python itself
must keep the system's libraries.

As a module: the same, and a way to run a program with a time limit. Python's standard library only.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# Libraries that the plug-in loads, and their dependencies.
WANTED = ("libcublasLt.so.*", "libcudnn.so.*", "libnccl.so.*", "libnvrtc.so.*")


def nvidia_folders():
    package = importlib.util.find_spec("nvidia")
    roots = package.submodule_search_locations if package else []
    found = (path.parent for root in roots for name in WANTED for path in sorted(Path(root).glob(f"**/lib/{name}")))
    return list(dict.fromkeys(str(path) for path in found))


def library_path(folder):
    folder = Path(folder).resolve()
    before = os.environ.get("LD_LIBRARY_PATH", "")
    return ":".join([str(folder), str(folder / "lib"), *nvidia_folders()] + ([before] if before else []))


def tests(folder):
    """Name and command line of each test, relative to the folder."""
    lines = (Path(folder) / "tests.txt").read_text().splitlines()
    return [(line.split()[0], line.split()[1:]) for line in lines if line.strip()]


class Ended:
    """Result of a program: its status (None: it was stopped), seconds, and its output."""

    def __init__(self, status, seconds, out, err):
        self.status, self.seconds, self.out, self.err = status, seconds, out, err

    def reason(self):
        how = f"stopped after {self.seconds:.0f} s" if self.status is None else f"exit {self.status}"
        last = (self.err.strip() or self.out.strip())[-400:]
        return f"{how}: {last}"


def run(words, seconds, given="", **options):
    """Run a program and its children for at most `seconds` seconds, with the given input."""
    begin = time.monotonic()
    words = [str(word) for word in words]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options
        )
    except OSError as error:
        return Ended(127, 0, "", str(error))
    try:
        out, err = process.communicate(given.encode(), timeout=max(1, seconds))
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    return Ended(status, time.monotonic() - begin, out.decode(errors="replace"), err.decode(errors="replace"))


if __name__ == "__main__":
    print(library_path(sys.argv[1]))
