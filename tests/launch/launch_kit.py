"""launch_kit.py: a run under a launch file, whose processes record the utterances that they were
served.

    kit = Kit(base, TRAIN_RANK)
    started = kit.popen("tools/launch/mpirun.sh", base / "run.yaml", base / "run", *words, SPEECHSHARD=kit.rank("some"))
    kit.until(lambda: kit.served("some"), "the first utterance")

A launch file starts `$SPEECHSHARD train CONFIG -o RUN --resume auto KEY=VALUE...`. rank() makes a
script that takes these arguments and executes tests/mpi/train_rank.c's program in the same process.
"""
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "mpi"))
from mpi_kit import check, equal, own_session, run_tests # noqa: F401

LAUNCH = pathlib.Path(__file__).parents[2] / "tools" / "launch"
UTTERANCES = 96 # per epoch
LIMIT_S = 600 # time after which a hanging test is ended
WORDS = ["data.virtual_world=6", "data.max_padded_seconds=0.4", "train.accumulate=1", "train.deadline_ms=120000",
         "train.threads=1", "data.dev=[]"]


class Kit:
    def __init__(self, base, program):
        self.base, self.program, self.started = pathlib.Path(base), program, []
        self.base.chmod(0o755)
        equal(subprocess.run([program, base, "make"], check=False).returncode, 0, "the dataset")
        self.config = self.base / "run.yaml"

    def rank(self, name, *faults):
        path = self.base / f"rank-{name}"
        path.write_text(f'#!/bin/sh\nshift 6\nexec "{self.program}" "{self.base}" run "{name}" resume signals '
                        f'"served:{name}" {" ".join(faults)} "$@"\n')
        path.chmod(0o755)
        return path

    def whole(self, *words):
        """The hash of the weights of an uninterrupted run."""
        done = subprocess.run([self.program, self.base, "run", "whole", *WORDS, *words], check=False,
                              capture_output=True, encoding="utf-8")
        equal(done.returncode, 0, f"one process: {done.stderr}")
        return self.hash("whole")

    def hash(self, run):
        return subprocess.run([self.program, self.base, "hash", run], check=False, capture_output=True,
                              encoding="utf-8").stdout.strip()

    def popen(self, *words, **environment):
        log = open(self.base / f"log{len(self.started)}", "w+b")
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **own_session(),
                                        **{name: str(value) for name, value in environment.items()}})
        process.log_path = pathlib.Path(log.name)
        log.close()
        self.started.append(process)
        return process

    def said(self, process):
        return process.log_path.read_text(errors="replace")

    def end(self, process, limit_s=LIMIT_S):
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            check(False, f"{process.args} did not end within {limit_s} s: {self.said(process)}")
            self.kill_all()
            return process.wait()

    def kill_all(self):
        """Kill all processes that still work in this folder."""
        for pid in self.ranks() + [process.pid for process in self.started if process.poll() is None]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def ranks(self):
        """Processes of runs in this folder."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == os.fsencode(self.program) and os.fsencode(str(self.base)) in words:
                found.append(int(path.parent.name))
        return found

    def until(self, true, what, process=None, limit_s=LIMIT_S):
        end = time.monotonic() + limit_s
        while not true():
            said = "" if process is None else self.said(process)
            if process is not None and process.poll() is not None:
                seconds = limit_s - (end - time.monotonic())
                raise RuntimeError(f"waited {seconds:.0f} s for {what}; the process ended with {process.returncode}: {said}")
            if time.monotonic() > end:
                raise RuntimeError(f"waited {limit_s} s for {what}, and gave up: {said}")
            time.sleep(0.01)

    def served(self, name):
        """Utterances ("EPOCH POSITION") and how often each was served, so far."""
        counts = collections.Counter()
        for path in self.base.glob(f"{name}.[0-9]*"):
            counts.update(line for line in path.read_text().split("\n")[:-1])
        return counts

    def samples(self, run):
        """Samples of the newest checkpoint; 0 without a checkpoint."""
        try:
            return int(re.search(r"-(\d+)\.", (self.base / run / "latest").read_text()).group(1))
        except (OSError, AttributeError):
            return 0

    def check_served_once(self, name, epochs):
        served = self.served(name)
        equal((len(served), set(served.values())), (epochs * UTTERANCES, {1}), f"{name}: utterances, times served")
