"""mpi_kit.py: helpers for tests that start processes with mpirun.

    from mpi_kit import check, mpirun, need_mpirun, run_tests

    need_mpirun()
    done = mpirun(3, program, "argument")
    check(done.returncode == 0, f"said {done.output}")

Starts more processes than cores, unbound, only on this machine, and also as root, since containers
often run as root. A test is skipped without mpirun. A failed check is reported and counted, and the
test continues.
"""
import atexit
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

environment = {
    **os.environ,
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_plm": "isolated",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # The libraries' own memory is not freed.
    "LSAN_OPTIONS": "detect_leaks=0",
    "ASAN_OPTIONS": "detect_leaks=0",
}
LIMIT_S = 600  # per start: a test never hangs
UTTERANCES = 96  # of train_rank's dataset
failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def equal(got, want, what):
    check(got == want, f"{what}: {got!r}, want {want!r}")


def run_tests(*tests, only=()):
    """Run each test and print a line with its result and its seconds, then exit. only: names;
    empty: all."""
    check(set(only) <= {test.__name__ for test in tests}, f"no such test among {only}")
    for test in tests:
        if only and test.__name__ not in only:
            continue
        before, begin = failures, time.monotonic()
        test()
        print("ok    " if failures == before else "FAILED", test.__name__, f"{time.monotonic() - begin:.1f} s", flush=True)
    sys.exit(1 if failures else 0)


def need_mpirun():
    if shutil.which("mpirun") is None:
        print("skipped: no mpirun")
        sys.exit(77)


def own_session():
    """Environment of one mpirun, with a separate session folder that is removed at exit.

    By default all mpiruns of a user share /tmp/ompi.HOST.UID. An mpirun that ends removes that
    folder, even while another one is about to create its part of it, which then fails with
    "orte_session_dir failed". The folder is below /tmp for any TMPDIR, because it contains sockets,
    and a socket's path has at most 107 bytes.
    """
    folder = tempfile.mkdtemp(prefix="mpi-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"OMPI_MCA_orte_tmpdir_base": folder}


class Processes:
    """Some ranks under mpirun, or one process without it. output: of all, stdout and stderr
    together."""

    def __init__(self, count, *words, options=()):
        words = [str(word) for word in words]
        variables = environment
        if count > 1:
            words = ["mpirun", *options, "-np", str(count), *words]
            variables = {**environment, **own_session()}
        self.popen = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", env=variables,
                                      start_new_session=True)
        self.output, self.returncode = "", None

    def signal(self, number):
        self.popen.send_signal(number)

    def read_until(self, text):
        """Lines of output up to one with the text; false: they ended before, or did not come within
        LIMIT_S."""
        watch = threading.Timer(LIMIT_S, self.give_up, [f"to say {text!r}"])
        watch.start()
        while text not in self.output:
            line = self.popen.stdout.readline()
            if not line:
                break
            self.output += line
        watch.cancel()
        return text in self.output

    def give_up(self, what):
        check(False, f"waited {LIMIT_S} s for {self.popen.args} {what}; killed it")
        os.killpg(self.popen.pid, signal.SIGKILL)

    def end(self):
        try:
            self.output += self.popen.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            self.give_up("to end")
            self.output += self.popen.communicate()[0]
        self.returncode = self.popen.returncode
        return self


class Torchrun:
    """Some ranks with the variables that torchrun sets. Unlike torchrun, this class does not end
    the others when one ends. said, codes: of each rank."""

    def __init__(self, count, *words, job="job", restarts=0, ranks=None, **more):
        self.processes = {}
        for rank in range(count) if ranks is None else ranks:
            variables = {**environment, "RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count,
                         "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "TORCHELASTIC_RUN_ID": job,
                         "TORCHELASTIC_RESTART_COUNT": restarts, "MASTER_ADDR": "127.0.0.1", **more}
            self.processes[rank] = subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                encoding="utf-8", errors="replace", env={name: str(value) for name, value in variables.items()})

    def wait_until(self, found, rank=0):
        """Wait, at most LIMIT_S, until found() returns a true value while the rank runs, and return
        it."""
        begin = time.monotonic()
        while not (there := found()):
            seconds = time.monotonic() - begin
            if seconds > LIMIT_S:
                self.processes[rank].kill()
            if self.processes[rank].poll() is not None:
                said = self.processes[rank].communicate()[0]
                raise RuntimeError(f"gave up after {seconds:.0f} s of waiting for rank {rank}, which has ended: {said}")
            time.sleep(0.001)
        return there

    def end(self, without=()):
        """without: ranks that hang, and are killed after the others."""
        self.said, self.codes = {}, {}
        for rank, process in sorted(self.processes.items(), key=lambda item: item[0] in without):
            if rank in without:
                process.kill()
            try:
                self.said[rank] = process.communicate(timeout=LIMIT_S)[0]
            except subprocess.TimeoutExpired:
                check(False, f"waited {LIMIT_S} s for rank {rank} to end, {process.args}; killed it")
                process.kill()
                self.said[rank] = process.communicate()[0]
            self.codes[rank] = process.returncode
        self.output = "".join(self.said.values())
        return self


def mpirun(count, *words, options=()):
    return Processes(count, *words, options=options).end()


class Runs:
    """Runs of train_rank (train_rank.c) in a separate folder."""

    def __init__(self, program):
        self.program = program
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="train-runs-"))

    def start(self, count, run, *words, options=()):
        return Processes(count, self.program, self.base, "run", run, *words, options=options)

    def train(self, count, run, *words, want=0):
        """want: its exit status; None: any."""
        done = self.start(count, run, *words).end()
        if want is not None:
            equal(done.returncode, want, f"{run} on {count}: {done.output}")
        return done

    def weights(self, run):
        """Hash of the weights of a run."""
        return subprocess.run([self.program, self.base, "hash", run], capture_output=True, encoding="utf-8",
                              check=True).stdout.strip()

    def lines(self, run, *kinds):
        lines = map(json.loads, (self.base / run / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if line["kind"] in kinds]

    def remove(self, run):
        shutil.rmtree(self.base / run, ignore_errors=True)
        for path in self.base.glob(f"{run}.[0-9]"):
            path.unlink()

    def check_served_once(self, run, epochs):
        """Check that processes with `served:RUN` served each utterance once per epoch."""
        served = collections.Counter()
        for path in self.base.glob(f"{run}.[0-9]"):
            served.update(path.read_text().splitlines())
            path.unlink()
        equal(len(served), epochs * UTTERANCES, f"{run}: utterances of {epochs} epochs")
        equal(set(served.values()), {1}, f"{run}: times that each was served")

    def run_tests(self, *tests, only=()):
        """Run a build with MPI, if there is mpirun."""
        try:
            need_mpirun()
            equal(subprocess.run([self.program, self.base, "make"]).returncode, 0, "the dataset")
            if "this build lacks MPI" in self.start(2, "probe", "train.epochs=1").end().output:
                print("skipped: built without MPI")
                sys.exit(77)
            run_tests(*tests, only=only)
        finally:
            shutil.rmtree(self.base, ignore_errors=True)
