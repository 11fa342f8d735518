"""train_replay_test.py COMMAND MAKE_SPEECH TRAIN_RANK: several learners in one process produce the
bits of separate processes: with `train --simulate CLUSTER -o RUN`, and from a record (`train
--record`) with `train --replay`."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, TINY_TRAINING, check, environment, equal, run, run_tests, training_corpus

TRAIN_RANK = sys.argv[3]
TEXTS = ["one two", "two", "three one", "two three four", "four", "one"]
CONFIG = TINY_TRAINING + """\
  deadline_ms: 300000
  epochs: 2
"""
# Fields that depend on the clock or on the launcher.
OF_TIME = {"time", "step_s", "wait_s", "compute_s", "exchange_s", "save_s", "seconds", "before_time", "launcher"}


def processes(work, count, name, *more):
    """Start `count` processes. Return their exit statuses and output."""
    meeting = tempfile.mkdtemp(dir=work)
    begun = []
    for rank in range(count):
        env = {**environment, "RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": str(count)}
        begun.append(subprocess.Popen(
            [COMMAND, "train", "tiny.yaml", "-o", name, "--rendezvous", f"file://{meeting}", *more], cwd=work, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"))
    said = [process.communicate(timeout=1200)[0] for process in begun]
    return [process.returncode for process in begun], said


def told(work, name):
    lines = (work / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: line[key] for key in line if key not in OF_TIME} for line in map(json.loads, lines)]


def weights(work, name):
    """A hash of the weights, moments, and statistics in the newest checkpoint."""
    return subprocess.run([TRAIN_RANK, work, "hash", name], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout


def check_same(work, first, second):
    equal(told(work, second), told(work, first), f"{second}: what it tells")
    equal(weights(work, second), weights(work, first), f"{second}: weights")


def test_simulated_as_four_processes(work):
    codes, said = processes(work, 4, "four")
    equal(codes, [0] * 4, f"four: {said}")
    done = run("train", "tiny.yaml", "--simulate", "learners=4,step=250ms,slow=2:10x,link=1ms+1Gbit", "-o", "simulated",
               cwd=work)
    equal(done.returncode, 0, done.stderr)
    check("4 learners in this process" in done.stderr, f"how much memory it takes: {done.stderr}")
    check_same(work, "four", "simulated")
    done = run("report", "simulated", cwd=work)
    equal(done.returncode, 0, done.stderr)


def settings(work, name):
    """The resolved configuration of a run, as key: value."""
    lines = (work / name / "config.yaml").read_text(encoding="utf-8").splitlines()
    return dict(line.strip().split(": ", maxsplit=1) for line in lines if ": " in line)


def test_what_a_clock_decides_is_not_the_runs(work):
    """Another start, of processes or on a device, uses separate threads and another backend."""
    done = run("train", "tiny.yaml", "--simulate", "learners=2,step=250ms", "-o", "decided", "train.threads=3",
               "train.backend=auto", "train.epochs=1", cwd=work)
    equal(done.returncode, 0, done.stderr)
    found = settings(work, "decided")
    equal((found["threads"], found["backend"]), ("3", "auto"), "as it was given")
    start = told(work, "decided")[0]
    equal((start["threads"], start["backend"]), (1, "cpu"), "as it was done")
    done = run("train", "-o", "decided", "--resume", "auto", "train.epochs=2", cwd=work)
    equal(done.returncode, 0, done.stderr)
    equal([line["threads"] for line in told(work, "decided") if line["kind"] == "start"], [1, 3], "of the next start")


def test_nodes_are_the_records(work):
    """The launcher of the processes has set the number of processes per node: a replay needs it,
    another start does not."""
    record(work, 2, "nodes", "train.strategy=hierarchical", "train.epochs=1")
    equal(settings(work, "nodes")["node_size"], "0", "of the run")
    equal(settings(work, "nodes/record")["node_size"], "2", "of the record")
    done = replay(work, "nodes", "again")
    equal(done.returncode, 0, done.stderr)
    check_same(work, "nodes", "again")
    shutil.rmtree(work / "again")


def record(work, count, name, *more):
    codes, said = processes(work, count, name, "--record", *more)
    equal(codes, [0] * count, f"{name}: {said}")


def replay(work, first, name):
    return run("train", "--replay", first, "-o", name, cwd=work)


def test_recorded_runs_again(work):
    for name, count, *more in (("adpsgd-random", 3), ("adpsgd-fixed", 2, "train.accumulate=2"), ("ps-async", 3),
                               ("ps-async", 2, "train.optimiser=adamw", "train.overlap=true", "train.staleness_max=2"),
                               ("dpsgd-ring", 3), ("hierarchical", 4, "train.node_size=2")):
        record(work, count, "free", f"train.strategy={name}", "train.warm_up_samples=60",
               "train.checkpoint_every_s=0.05", *more)
        done = replay(work, "free", "again")
        equal(done.returncode, 0, f"{name} {more}: {done.stderr}")
        check_same(work, "free", "again")
        shutil.rmtree(work / "free")
        shutil.rmtree(work / "again")


def test_what_does_not_begin_leaves_no_record(work):
    """The same command succeeds after the obstacle was removed: one at rank 0, and one at all
    ranks."""
    words = ["--record", "train.strategy=ps-async", "train.epochs=1"]
    (work / "blocked" / "metrics.jsonl").mkdir(parents=True)
    codes, said = processes(work, 3, "blocked", *words)
    check(0 not in codes and "metrics.jsonl" in "".join(said), f"a folder in its way: {codes}, {said}")
    check(not (work / "blocked" / "record").exists(), "a record of nothing: rank 0 could not start")
    codes, said = processes(work, 3, "blocked", *words, "train.strategy=hierarchical", "train.node_size=2")
    check(0 not in codes and "cannot form nodes of 2" in "".join(said), f"3 of nodes of 2: {codes}, {said}")
    check(not (work / "blocked" / "record").exists(), "a record of nothing: none could start")
    (work / "blocked" / "metrics.jsonl").rmdir()
    record(work, 3, "blocked", *words[1:])


def test_records_that_are_none(work):
    record(work, 3, "whole", "train.strategy=ps-async")
    marks = work / "bad/record/learner-00001.marks"

    def cut():
        marks.write_bytes(marks.read_bytes()[:-20])

    def change():
        bytes_ = bytearray(marks.read_bytes())
        bytes_[100] ^= 1
        marks.write_bytes(bytes_)

    def change_config():
        config = work / "bad/record/config.yaml"
        config.write_text(config.read_text(encoding="utf-8").replace("seed: 1", "seed: 2"), encoding="utf-8")

    for spoil, said in ((cut, "learner-00001.marks: the record ends before the run"),
                        (lambda: marks.write_bytes(marks.read_bytes()[:20]), "the file ends inside its header"),
                        (change, "the checksum of a block is wrong"),
                        (marks.unlink, "learner-00001.marks: cannot open"),
                        (lambda: shutil.copy(marks.with_name("learner-00000.marks"), marks), "is of learner 0 of 3"),
                        (change_config, "another configuration, vocabulary, or number of utterances"),
                        (lambda: shutil.rmtree(marks.parent), "no record found")):
        shutil.copytree(work / "whole/record", work / "bad/record")
        spoil()
        done = replay(work, "bad", "again")
        equal(done.returncode, 1, f"{said}: {done.stderr}")
        check(said in done.stderr, f"{said}: said {done.stderr}")
        for name in ("bad", "again"):
            shutil.rmtree(work / name, ignore_errors=True)


def test_what_cannot_be_is_said(work):
    for words, said in ((("tiny.yaml", "-o", "x", "--record"), "needs no record"),
                        (("tiny.yaml", "-o", "x", "--record", "train.strategy=hogwild"), "cannot be recorded"),
                        (("tiny.yaml", "-o", "x", "--record", "--resume", "auto", "train.strategy=ps-async"),
                         "must begin with its run"),
                        (("tiny.yaml", "-o", "x", "--record", "train.strategy=ps-async", "train.on_lost=shrink"), "a record needs all processes"),
                        (("tiny.yaml", "-o", "x", "--record", "--simulate", "learners=2,step=1s"), "needs no record"),
                        (("tiny.yaml", "-o", "x", "--simulate", "learners=2,step=1s", "train.strategy=ps-async",
                          "train.servers=1", "train.on_lost=shrink"), "a simulated run ends if a learner"),
                        (("tiny.yaml", "--estimate", "--record"), "this command starts none"),
                        (("--simulate", "learners=2,step=1s", "--replay", "whole"), "this command starts none"),
                        (("-o", "x", "--replay", "whole", "--slow", "0:2x"), "are in the record"),
                        (("tiny.yaml", "-o", "x", "--replay", "whole"), "recorded run's configuration"),
                        (("-o", "x", "--replay", "whole", "train.rate=1"), "recorded run's configuration"),
                        (("tiny.yaml", "-o", "x", "--simulate", "learners=2,step=1s", "--kill", "1:2"), "set them in simulate")):
        done = run("train", *words, cwd=work)
        check(done.returncode != 0 and said in done.stderr, f"{words}: said {done.stderr}")
        check(not (work / "x").exists(), f"{words}: leaves nothing")
    done = subprocess.run([COMMAND, "train", "-o", "x", "--replay", "whole"], capture_output=True, encoding="utf-8", cwd=work,
                          env={**environment, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"})
    check(done.returncode == 1 and "a replay takes one process" in done.stderr, f"two processes: {done.returncode} {done.stderr}")


os.environ.pop("RANK", None)
with tempfile.TemporaryDirectory() as folder_:
    training_corpus(pathlib.Path(folder_), TEXTS * 8, CONFIG)
    run_tests([test_simulated_as_four_processes, test_what_a_clock_decides_is_not_the_runs, test_recorded_runs_again,
               test_nodes_are_the_records, test_what_does_not_begin_leaves_no_record,
               test_records_that_are_none, test_what_cannot_be_is_said], pathlib.Path(folder_))
