"""tools/launch/slurm.sbatch under a private Slurm. A run that is notified of its job's end,
requeued by an administrator, and started with another number of tasks must serve each utterance
once and end with the bits of an undisturbed run. A killed task restarts all tasks in the same job.
A canceled job stays canceled.

    launch_slurm_test.py TRAIN_RANK SPEECHSHARD [quick|all]
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from launch_kit import LAUNCH, WORDS, Kit, check, equal, run_tests
from slurm_kit import Cluster, need_slurm

PROGRAM, COMMAND, WHICH = sys.argv[1:4]
SLOW = "slow:0:1" # rank 0 sleeps a while at each batch
ENVIRONMENT = "ALL,SPEECHSHARD_SRUN_OPTIONS=--overcommit,SPEECHSHARD="


class Job:
    """A job of slurm.sbatch."""

    def __init__(self, tasks, run, *words, command=None, mpi="pmix", faults=(SLOW,)):
        self.out = base / f"{run}.out"
        command = command or kit.rank(run, *faults)
        self.number = cluster.run(
            "sbatch", "--parsable", "--nodes=1", f"--ntasks-per-node={tasks}", "--cpus-per-task=1", "--time=10",
            f"--output={self.out}", f"--export={ENVIRONMENT}{command},SPEECHSHARD_SRUN_MPI={mpi}",
            LAUNCH / "slurm.sbatch", kit.config, base / run, *WORDS, *words).strip()

    def field(self, name):
        return cluster.job(self.number).get(name)

    def state(self):
        return self.field("JobState")

    def said(self):
        return self.out.read_text(errors="replace") if self.out.exists() else ""

    def until(self, state, limit_s=600):
        """States such as COMPLETED. PENDING jobs that wait for two minutes after a requeue are not
        waited for."""
        seen = []

        def there():
            seen[:] = [self.state()]
            return seen[0] == state
        try:
            cluster.until(there, f"job that is {state}", limit_s)
        except RuntimeError as error:
            raise RuntimeError(f"job is {seen}: {self.said()}: {error}") from error

    def hurry(self):
        """Slurm holds requeued jobs for two minutes. slurmd rejects a start in the second in which
        the previous one ended."""
        self.until("PENDING")
        cluster.run("scontrol", "update", f"JobId={self.number}", "StartTime=now+3")


def served_beyond(name, count):
    return lambda: sum(kit.served(name).values()) > count


def test_told_queued_again_and_other_tasks():
    job = Job(2, "some")
    cluster.until(served_beyond("some", 10), "utterances")
    cluster.run("scancel", "--batch", "--signal=USR1", job.number) # as --signal=B:USR1@120 does
    job.hurry()
    check(kit.samples("some") > 0, f"nothing was saved: {job.said()}")
    first = sum(kit.served("some").values())
    cluster.until(served_beyond("some", first + 10), "utterances of the second start")
    equal(job.field("Restarts"), "1", "restarts")
    cluster.run("scontrol", "requeue", job.number)
    job.hurry()
    second = sum(kit.served("some").values())
    cluster.until(served_beyond("some", second + 10), "utterances of the third start")
    equal(job.field("Restarts"), "2", "restarts")
    cluster.run("scancel", job.number)
    job.until("CANCELLED")
    cluster.until(lambda: not kit.ranks(), "end of the cancelled job's processes")
    Job(3, "some").until("COMPLETED")
    kit.check_served_once("some", 2)
    equal(kit.hash("some"), whole, "weights")


def test_a_task_is_killed():
    """All tasks restart in the same job."""
    job = Job(2, "killed", "train.checkpoint_every_s=1e-9")
    cluster.until(served_beyond("killed", 20), "utterances")
    os.kill(max(kit.ranks()), signal.SIGKILL)
    job.until("COMPLETED")
    equal((job.field("Restarts"), "starting again" in job.said()), ("0", True), f"restarts: {job.said()}")
    equal(kit.hash("killed"), whole, "weights")


def test_time_to_save():
    """A slow save: no process is killed after the first one has exited."""
    for how in ["requeue", "cancel"]:
        name = f"late-{how}"
        job = Job(2, name, faults=[SLOW, "end:0:4"])
        cluster.until(served_beyond(name, 10), "utterances")
        cluster.run(*["scontrol", "requeue"] if how == "requeue" else ["scancel"], job.number)
        job.until("PENDING" if how == "requeue" else "CANCELLED")
        cluster.until(lambda: not kit.ranks(), "end of processes")
        check("rank 0 at the end: stopped" in job.said(), f"{how}: {job.said()}")
        cluster.run("scancel", job.number)


def test_without_mpi():
    """The command itself; tasks meet over TCP."""
    job = Job(3, "tcp", command=COMMAND, mpi="none")
    job.until("COMPLETED")
    check("3 processes (srun)" in job.said(), f"said {job.said()}")
    equal(kit.hash("tcp"), whole, "weights")


def test_errors_end_the_job():
    job = Job(2, "wrong", "model.hidden=0", command=COMMAND)
    job.until("FAILED")
    equal((job.field("ExitCode"), job.field("Restarts")), ("1:0", "0"), f"{job.said()}")


need_slurm()
base = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
(base / "slurm").mkdir()
try:
    kit = Kit(base, PROGRAM)
    whole = kit.whole()
    with Cluster(base / "slurm") as cluster:
        more = [test_a_task_is_killed, test_time_to_save, test_without_mpi, test_errors_end_the_job]
        run_tests(test_told_queued_again_and_other_tasks, *(more if WHICH == "all" else []))
finally:
    shutil.rmtree(base, ignore_errors=True)
