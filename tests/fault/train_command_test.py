"""The command's reaction to signals and to a disk that is really full: exit status, messages,
files.

train_command_test.py SPEECHSHARD TRAIN_RANK
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "mpi"))
from mpi_kit import Processes, check, equal, run_tests

COMMAND, RANK = sys.argv[1], sys.argv[2]
FOR_EVER = "train.epochs=1000000"
base = pathlib.Path(tempfile.mkdtemp(prefix="train-command-"))


def start(run, *words):
    return Processes(1, COMMAND, "train", base / "run.yaml", "-o", run, "--resume", "auto", *words)


def checkpoints(run):
    return sorted(path.name for path in (run / "checkpoints").glob("*.spsh"))


def test_a_signal_stops():
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]:
        run = base / f"signal{number}"
        process = start(run, FOR_EVER)
        check(process.read_until("epoch 1: "), f"began: {process.output}")
        process.signal(number)
        equal(process.end().returncode, 75, f"{number}: {process.output}")
        check("stopped after step " in process.output, f"said {process.output}")
        check("the same command with --resume auto continues" in process.output, f"said {process.output}")
        check((run / "report.html").is_file(), "no page")
        for says in ["resuming after step ", "the run is done: "]:
            again = start(run, "train.epochs=1").end()
            equal(again.returncode, 0, f"goes on: {again.output}")
            check(says in again.output, f"said {again.output}")


def is_pending(pid, number):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search("^ShdPnd:\\s*([0-9a-f]+)$", status, re.MULTILINE)[1], 16) >> (number - 1) & 1


def signalled(run, numbers):
    """In the middle of a step, which takes seconds."""
    process = start(run, "model.hidden=600", "model.layers=5", "data.max_padded_seconds=60", "train.accumulate=8",
                    "data.dev=[]", FOR_EVER)
    check(process.read_until("utterances per epoch"), f"began: {process.output}")
    for number in numbers:
        process.signal(number)
        while process.popen.poll() is None and is_pending(process.popen.pid, number):
            time.sleep(0.01)  # so that they are two
    equal(process.end().returncode, 75, f"said {process.output}")
    return process


def test_a_second_signal_ends():
    """A second signal of the same kind ends the run without saving. Another signal has no
    effect."""
    run = base / "second"
    process = signalled(run, [signal.SIGTERM, signal.SIGTERM])
    check("stopped after" not in process.output, f"said {process.output}")
    equal(checkpoints(run), [], "checkpoints")
    process = signalled(run, [signal.SIGUSR1, signal.SIGTERM])
    check("stopped after step 1" in process.output, f"said {process.output}")
    equal(len(checkpoints(run)), 1, "checkpoints")


def has_own_mounts():
    """Whether a namespace with a small disk can be made; any user can if the system allows it."""
    words = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=64k none {base}"]
    return shutil.which("unshare") is not None and subprocess.run(words, capture_output=True).returncode == 0


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass


def test_a_full_disk():
    """Inside a namespace: the full disk is reported, and the run continues. Stopped while the disk
    is full: exit 1, existing files stay."""
    disk = base / "disk"
    run = disk / "run"
    process = start(run, FOR_EVER, "train.checkpoint_every_s=0.05")
    check(process.read_until("epoch 1: "), f"began: {process.output}")
    fill(disk)
    check(process.read_until("cannot write a checkpoint"), f"full: {process.output}")
    (disk / "filler").unlink()
    before = set(checkpoints(run))
    for _ in range(3):  # epochs, each with a save
        process.output = ""
        check(process.read_until(": WER"), f"goes on: {process.output}")
    check(set(checkpoints(run)) - before, f"no newer one than {before}")
    fill(disk)
    before = checkpoints(run)
    process.signal(signal.SIGUSR1)
    equal(process.end().returncode, 1, f"stopped: {process.output}")
    check("No space left on device" in process.output, f"said {process.output}")
    check(set(checkpoints(run)) >= set(before[-1:]), f"{before[-1:]} is gone")
    (disk / "filler").unlink()
    again = start(run, FOR_EVER)
    check(again.read_until("resuming after step "), f"goes on: {again.output}")
    again.signal(signal.SIGTERM)
    equal(again.end().returncode, 75, f"said {again.output}")


def test_a_full_disk_in_a_namespace():
    (base / "disk").mkdir()
    words = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', base / "disk",
             sys.executable, "-B", *sys.argv[:3], base]
    done = subprocess.run(words, capture_output=True, encoding="utf-8")
    equal(done.returncode, 0, done.stdout + done.stderr)


if len(sys.argv) > 3:  # inside
    os.rmdir(base)
    base = pathlib.Path(sys.argv[3])
    run_tests(test_a_full_disk)
try:
    equal(subprocess.run([RANK, base, "make"]).returncode, 0, "the dataset")
    tests = [test_a_signal_stops, test_a_second_signal_ends]
    if has_own_mounts():
        tests.append(test_a_full_disk_in_a_namespace)
    else:
        print("left out: a full disk, as no disk may be mounted here")
    run_tests(*tests)
finally:
    shutil.rmtree(base, ignore_errors=True)
