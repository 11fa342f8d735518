#!/usr/bin/env python3
"""How long does a run stop when one of its processes is killed?

    restart.py BUILD RECORDINGS SCRATCH [--rounds N] > bench/results/train-restart.json

BUILD, RECORDINGS and SCRATCH are as for train_runs.py. tools/launch/mpirun.sh trains recipes/digits
with two processes that save each second. In each round, one of them gets SIGKILL, or the launcher
gets USR2 (save, and start again, as with other hosts). The result is the seconds from then until
metrics.jsonl has the first step of the next start. The bar: 5.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from train_runs import RECIPE, ROOT, arguments, figure, print_measured

LIMIT_S = 60


def starts_and_steps(metrics):
    """Number of lines that begin a start, and number of steps after the last of these lines."""
    starts = steps = 0
    for line in metrics.read_text().splitlines() if metrics.exists() else []:
        if '"kind":"start"' in line:
            starts, steps = starts + 1, 0
        steps += '"kind":"step"' in line
    return starts, steps


def until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"restart.py: no {what} within {LIMIT_S} s")
        time.sleep(0.01)


def learners(program, run):
    """Processes of the program itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == str(program).encode() and str(run).encode() in words:
            found.append(int(entry.parent.name))
    return sorted(found)


def measure(program, scratch, rounds):
    """Seconds of each event."""
    run, metrics = scratch / "run", scratch / "run" / "metrics.jsonl"
    settings = {"PROCESSES": "2", "SPEECHSHARD": str(program), "STARTS": "1000"}
    settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = [ROOT / "tools" / "launch" / "mpirun.sh", RECIPE / "digits.yaml", run, "train.epochs=100000"]
    words += ["data.dev=[]", "data.virtual_world=2", "train.checkpoint_every_s=1", "train.threads=1"]
    launcher = subprocess.Popen([str(word) for word in words], cwd=scratch, env=os.environ | settings,
                                stdout=subprocess.DEVNULL, stderr=(scratch / "said").open("w"))
    seconds = {"SIGKILL": [], "USR2": []}
    try:
        for _ in range(rounds):
            for event, of in seconds.items():
                until(lambda: starts_and_steps(metrics)[1] > 0 and len(learners(program, run)) == 2, "step")
                time.sleep(2)  # there is a checkpoint of this start
                before, begin = starts_and_steps(metrics)[0], time.monotonic()
                if event == "SIGKILL":
                    os.kill(learners(program, run)[-1], signal.SIGKILL)
                else:
                    launcher.send_signal(signal.SIGUSR2)
                until(lambda: starts_and_steps(metrics) > (before, 10**9), "step of the next start")
                until(lambda: starts_and_steps(metrics)[1] > 0, "step of the next start")
                of.append(time.monotonic() - begin)
    finally:
        launcher.terminate()
        launcher.wait()
    return seconds


def rows_of(seconds):
    return [{"event": event, "rounds": len(of), "seconds": figure(of, 2)} for event, of in seconds.items()]


if __name__ == "__main__":
    given = arguments(10).parse_args()
    print_measured(given, lambda program, scratch: rows_of(measure(program, scratch, given.rounds)))
