"""Runs of several processes end with the bits of one process, and resume on other numbers of
processes. If one of them is killed, stopped, or hangs, all end with an exit status that tells
whether to start again.

    mpi_train_test.py TRAIN_RANK SPEECHSHARD sums|faults [TEST...]
"""
import pathlib
import signal
import sys

from mpi_kit import Processes, Runs, check, equal

RANK, COMMAND, WHICH, *ONLY = sys.argv[1:]
SMALL_STEPS = "data.max_padded_seconds=0.4"
runs = Runs(RANK)
base, start, train, weights, remove = runs.base, runs.start, runs.train, runs.weights, runs.remove


def newest(run):
    return max(path.name for path in (base / run / "checkpoints").glob("*.spsh"))


def orphans():
    return [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
            if str(base) in read(path) and RANK in read(path)]


def read(path):
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


# ---- sums

def test_the_same_bits():
    """Runs with augmentation and evaluation, with steps of several batches per process or of less
    than one."""
    augment = "augment=speeds=0.9:1:1.1,time_masks=1,time_mask_frames_max=10,time_mask_share_max=0.2"
    for words in [(augment, "data.virtual_world=12", SMALL_STEPS, "train.accumulate=1"),
                  (augment, "data.virtual_world=4", SMALL_STEPS, "train.accumulate=3", "train.optimiser=sgd")]:
        train(1, "one", *words)
        for strategy in ["allreduce", "partitioned"]:
            for count in [2, 4]:
                train(count, "some", f"train.strategy={strategy}", *words)
                equal(weights("some"), weights("one"), f"{strategy}, {count} processes, {words[1:]}")
                remove("some")
        remove("one")


def go_on(run, counts, *words):
    """Run each number of processes until its last rank has had some batches, and the last number to
    the end."""
    for i, count in enumerate(counts):
        is_last = i + 1 == len(counts)
        stop = [] if is_last else [f"stop:{count - 1}:{1 + i}"]
        train(count, run, "resume", f"served:{run}", *stop, *words, want=0 if is_last else 75)


def test_other_numbers_of_processes():
    """The run is stopped twice in the middle of the first epoch: the third start ends both epochs.
    The model is large enough for each process to have a part of it."""
    for strategy in ["allreduce", "partitioned"]:
        words = ["data.virtual_world=6", SMALL_STEPS, "model.hidden=96", f"train.strategy={strategy}"]
        train(1, "one", *words)
        go_on("some", [4, 2, 3], *words)
        equal(weights("some"), weights("one"), f"{strategy}, 4, 2, 3 processes")
        runs.check_served_once("some", 2)
        remove("some")
        remove("one")


def test_steps_stay_as_large():
    """A run that started without virtual_world keeps its number of batches per step on fewer
    processes; on more it fails with the reason."""
    words = ["data.virtual_world=0", SMALL_STEPS]
    train(3, "three", *words)
    go_on("some", [3, 2, 1], *words)
    equal(weights("some"), weights("three"), "3, 2, 1 processes")
    runs.check_served_once("some", 2)
    done = train(4, "some", "resume", *words, want=1)
    check("data.virtual_world is 3, but there are 4 processes" in done.output, f"said {done.output}")
    remove("some")
    remove("three")


# ---- faults

FAULT_WORDS = ["data.virtual_world=6", SMALL_STEPS]
SOON = "train.deadline_ms=30000" # deadline for a rank that does not answer; slow ranks must answer within it


def test_killed():
    """kill -9 of either rank at some batches, until the run is finished."""
    train(1, "one", *FAULT_WORDS)
    for rank, batch in [(0, 2), (1, 5), (0, 13), (1, 17), (0, 20)]:
        done = train(2, "some", "resume", f"kill:{rank}:{batch}", "train.checkpoint_every_s=1e-9", *FAULT_WORDS,
                     want=None)
        check(done.returncode in (0, 128 + signal.SIGKILL), f"exit {done.returncode}: {done.output}")
        check(done.returncode == 0 or f"process rank {rank} " in done.output, f"named no rank {rank}: {done.output}")
    train(2, "some", "resume", *FAULT_WORDS)
    equal(weights("some"), weights("one"), "killed five times")
    remove("some")
    remove("one")


def test_hanging():
    starts = [(rank, start(3, f"hangs.{rank}", f"hang:{rank}:3", SOON, *FAULT_WORDS)) for rank in [0, 2]]
    for rank, run in starts:
        done = run.end()
        equal(done.returncode, 70, f"hang of {rank}: {done.output}")
        check(f"rank {rank} is missing: step " in done.output, f"named no rank {rank}: {done.output}")
        remove(f"hangs.{rank}")
    equal(orphans(), [], "processes that are left")


def test_alone():
    """Under a launcher that does not end the others when one process dies, their deadlines end
    them."""
    done = start(3, "alone", "kill:1:3", SOON, *FAULT_WORDS, options=["--enable-recovery"]).end()
    check("rank 1 is missing: step " in done.output, f"named no rank 1: {done.output}")
    equal(orphans(), [], "processes that are left")
    remove("alone")


def test_stopped_by_one():
    """One rank receives the signal; all stop after the same step. Also in the middle of an
    evaluation."""
    words = [*FAULT_WORDS, "train.epochs=1"]
    train(1, "one", *words)
    for fault in ["stop:1:1", "stop:1:4", "heard:1:2"]:
        done = train(2, "some", fault, "end:0:1", *words, want=75)
        said = [line for line in done.output.splitlines() if "stopped after step" in line]
        check("rank 0 at the end: stopped after step" in done.output, f"was not waited for: {done.output}")
        # mpirun may have ended the other rank before it printed the line.
        equal(len({line.partition("stopped")[2] for line in said}), 1, f"steps: {said}")
        train(3, "some", "resume", *words)
        equal(weights("some"), weights("one"), fault)
        remove("some")
    remove("one")


def test_signals():
    """Send signals to mpirun, like a scheduler: USR1 reaches the processes, TERM leaves them one
    second."""
    words = [COMMAND, "train", base / "run.yaml", "-o", base / "signals", "--resume", "auto", *FAULT_WORDS,
             "train.epochs=100000"]
    run = Processes(3, *words)
    check(run.read_until("epoch 2"), f"began: {run.output}")
    run.signal(signal.SIGUSR1)
    equal(run.end().returncode, 75, f"USR1: {run.output}")
    check("stopped after step " in run.output and "--resume auto continues" in run.output, f"said {run.output}")
    check((base / "signals" / "report.html").is_file(), "no page")
    samples = int(newest("signals").partition("-")[2].partition(".")[0])
    run = Processes(2, *words)
    check(run.read_until("resuming after step "), f"went on: {run.output}")
    check(f", {samples} utterances" in run.output, f"went on from {samples}: {run.output}")
    check(run.read_until("WER"), f"evaluates: {run.output}")
    run.signal(signal.SIGTERM)
    check(run.end().returncode != 0, f"TERM: {run.output}")
    equal([path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if str(base / "signals") in read(path)], [],
          "processes that are left")
    remove("signals")


def test_no_start():
    """An error that rank 0 finds ends all with its status; no process asks for a restart."""
    done = train(3, "wrong", "model.hidden=0", *FAULT_WORDS, want=1)
    check("model.hidden" in done.output and "rank 0 could not start" in done.output, f"said {done.output}")
    done = train(3, "none/wrong", *FAULT_WORDS, want=1)
    check("none/wrong" in done.output, f"said {done.output}")


if WHICH == "sums":
    runs.run_tests(test_the_same_bits, test_other_numbers_of_processes, test_steps_stay_as_large, only=ONLY)
else:
    runs.run_tests(test_killed, test_hanging, test_alone, test_stopped_by_one, test_signals, test_no_start, only=ONLY)
