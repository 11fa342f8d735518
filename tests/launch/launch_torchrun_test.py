"""tools/launch/torchrun.sh under PyTorch's torchrun. A killed process, a stopped run, and a run
that resumes with other numbers of processes must serve each utterance once and end with the bits of
an undisturbed run.

    launch_torchrun_test.py TRAIN_RANK SPEECHSHARD

Skipped without torchrun.
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from launch_kit import LAUNCH, WORDS, Kit, check, equal, run_tests

PROGRAM, COMMAND = sys.argv[1:3]
TEE = "--redirects 1 --tee 1" # the default of PyTorch 1.13 fails on Python 3.11: Debian 12 has these
SLOW = "slow:0:1" # rank 0 sleeps a while at each batch


def start(run, *words, command=None, **more):
    variables = {"SPEECHSHARD": command or kit.rank(run, SLOW), "JOB": run,
                 "TORCHRUN_OPTIONS": f"--monitor_interval 0.2 {TEE} --log_dir {base}/logs", **more}
    return kit.popen(LAUNCH / "torchrun.sh", kit.config, base / run, *WORDS, *words, **variables)


def told(name, process, count):
    """Wait until so many more utterances have been served."""
    before = sum(kit.served(name).values())
    kit.until(lambda: sum(kit.served(name).values()) > before + count, "utterances", process)


def test_killed():
    process = start("killed", "train.checkpoint_every_s=1e-9", PROCESSES=2)
    for _ in range(2):
        told("killed", process, 30)
        os.kill(max(kit.ranks()), signal.SIGKILL)
    equal(kit.end(process), 0, f"{kit.said(process)}")
    equal(kit.said(process).count("(exitcode: -9)"), 2, f"processes that were killed: {kit.said(process)}")
    equal(len(kit.served("killed")), 2 * 96, "utterances")
    equal(kit.hash("killed"), whole, "weights")


def test_stopped_and_other_numbers():
    for count, stops in [(2, True), (3, False)]:
        process = start("some", PROCESSES=count)
        if stops:
            told("some", process, 20)
            process.send_signal(signal.SIGTERM)
        equal(kit.end(process), 75 if stops else 0, f"{count} processes: {kit.said(process)}")
    kit.check_served_once("some", 2)
    equal(kit.hash("some"), whole, "weights")


if shutil.which("torchrun") is None:
    print("skipped: no torchrun")
    sys.exit(77)
base = pathlib.Path(tempfile.mkdtemp(prefix="torchrun-"))
kit = None
try:
    kit = Kit(base, PROGRAM)
    whole = kit.whole()
    run_tests(test_killed, test_stopped_and_other_numbers)
finally:
    if kit is not None:
        kit.kill_all()
    shutil.rmtree(base, ignore_errors=True)
