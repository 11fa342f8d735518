"""train_faults_test.py COMMAND MAKE_SPEECH: effects of `train --slow, --link, --freeze, --kill` on
runs of two processes.

The test does not depend on the speed of the machine: it checks only lower bounds of times.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from cli_kit import COMMAND, check, environment, equal, run_tests, training_corpus

TEXTS = ["one two", "two", "three one", "two three four", "four", "one"] * 9
TINY = ["model.preset=ds2-tiny", "model.hidden=8", "model.layers=1", "model.conv_channels=2", "train.threads=1",
        "train.backend=cpu", "train.deadline_ms=900000"]
CONFIG = """vocabulary: words.vocabulary
features: kaldi-fbank,sample_rate_hz=8000,mel_count=16
data:
  train: ["speech.spsh"]
  max_padded_seconds: 4
train:
  epochs: 2
"""


def train(work, name, *more, world=2, comm=None):
    """Start `world` processes. Return their exit statuses and output."""
    meeting = tempfile.mkdtemp(dir=work)
    processes = []
    for rank in range(world):
        env = {**environment, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": str(world)}
        if comm:
            env["SPEECHSHARD_COMM"] = comm
        processes.append(subprocess.Popen(
            [COMMAND, "train", "tiny.yaml", "-o", name, "--rendezvous", f"file://{meeting}", *TINY, *more], cwd=work,
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"))
    said = [process.communicate(timeout=1200)[0] for process in processes]
    return [process.returncode for process in processes], said


def lines_of(work, name, kind):
    lines = (work / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


def steps_of(work, name):
    return lines_of(work, name, "step")


def test_a_slow_process(work):
    codes, said = train(work, "plain")
    equal(codes, [0, 0], f"plain: {said}")
    codes, said = train(work, "slow", "--slow", "0:30x")
    equal(codes, [0, 0], f"slow: {said}")
    plain, slow = steps_of(work, "plain"), steps_of(work, "slow")
    equal([step["loss"] for step in slow], [step["loss"] for step in plain], "what is learnt")
    ratio = min(s["compute_s"] for s in slow) / min(s["compute_s"] for s in plain) # undisturbed steps
    check(ratio > 3, f"computing takes longer: {ratio}")


def test_a_slow_link(work):
    codes, said = train(work, "far", "--link", "10ms+1Gbit")
    equal(codes, [0, 0], f"far: {said}")
    far = steps_of(work, "far")
    equal([step["loss"] for step in far], [step["loss"] for step in steps_of(work, "plain")], "what is learnt")
    check(min(step["step_s"] for step in far) >= 0.01, "a step is an exchange, and that takes a latency at least")


def test_a_frozen_process(work):
    codes, said = train(work, "frozen", "--freeze", "1:2+1s")
    equal(codes, [0, 0], f"frozen: {said}")
    took_s = steps_of(work, "frozen")[1]["time"] - lines_of(work, "frozen", "start")[0]["time"]
    check(took_s > 0.99, f"the other one waits for it: {took_s} s")


def test_a_killed_process(work):
    codes, said = train(work, "killed", "--kill", "1:3")
    equal(codes, [70, -9], f"killed: {said}")
    check("rank 1" in said[0], f"who is missing: {said[0]}")
    codes, said = train(work, "killed", "--resume", "auto")
    equal(codes, [0, 0], f"it goes on: {said}")


def test_what_is_wrong_is_named(work):
    for more, told in ((("--slow", "5:10x"), "rank 5 does not exist"), (("--link", "fast"), "'fast'"),
                       (("--kill", "1"), "'1'"), (("--freeze", "0:3"), "'0:3'")):
        codes, said = train(work, "wrong" + more[0], *more)
        check(codes[0] == 1 and told in said[0], f"{more}: {codes} {said}")


SHRINK = ["train.on_lost=shrink", "data.max_padded_seconds=2", "train.epochs=4"]


def train_without_one(work, name, victim, *more, **options):
    """A process that a busy machine delays at the start of a round may miss a message of the failed
    process, and fail, too (docs/how-to/training.md). Or the other processes have finished before
    the failing one reaches the step. Then try again."""
    for _ in range(10):
        codes, said = train(work, name, "--kill", f"{victim}:6", *SHRINK, *more, world=3, **options)
        late = [text for code, text in zip(codes, said) if code == 70 and re.search("disconnected|is missing", text)]
        if codes != [0, 0, 0] and (codes[victim] != -9 or len(late) != codes.count(70) or not late):
            break
        print("again:", codes, late)
        shutil.rmtree(work / name)
    return codes, said


def test_others_go_on_without_one(work):
    """Each utterance counts once per epoch; the run ends successfully and can be resumed."""
    for number, more in enumerate([["train.strategy=adpsgd-random"], ["train.strategy=adpsgd-fixed"],
                                   ["train.strategy=ps-async", "train.servers=1", "train.staleness_max=3"]]):
        name = f"shrunk{number}"
        codes, said = train_without_one(work, name, 1 + number % 2, *more)
        equal(codes, [0, -9, 0] if number % 2 == 0 else [0, 0, -9], f"{more}: {said}")
        check("1 of 3 processes disconnected" in said[0], said[0])
        steps = steps_of(work, name)
        check(steps[0]["learners"] in (2, 3) and steps[-1]["learners"] == 2, f"learners: {steps[0]} {steps[-1]}")
        equal([sum(step["utterances"] for step in steps if step["epoch"] == epoch) for epoch in range(4)],
              [len(TEXTS)] * 4, f"{more}: utterances of each epoch")
        equal(steps[-1]["samples"], len(TEXTS) * 4, "samples")
        codes, said = train(work, name, "--resume", "auto", *SHRINK, "train.epochs=5", *more)
        equal(codes, [0, 0], f"going on: {said}")


def test_who_cannot_be_lost(work):
    random = ["train.strategy=adpsgd-random"]
    codes, said = train(work, "first", "--kill", "0:4", *SHRINK, *random, world=3, comm="tcp")
    equal(codes, [-9, 70, 70], f"rank 0: {said}")
    codes, said = train(work, "end", "--kill", "1:4", *SHRINK[1:], *random, world=3, comm="tcp")
    equal(codes, [70, -9, 70], f"without shrink: {said}")
    for more, comm, told in (([], "tcp", "with allreduce a lost process ends the run"),
                             (["train.strategy=ps-async"], "tcp", "set train.servers to 1"),
                             ([*random, "--link", "1ms+1Gbit"], "tcp", "no link option")):
        codes, said = train(work, "refused", *SHRINK, *more, comm=comm)
        check(0 not in codes and told in said[0] + said[1], f"{more}: {codes} {said}")


os.environ.pop("RANK", None)
with tempfile.TemporaryDirectory() as folder_:
    training_corpus(pathlib.Path(folder_), TEXTS, CONFIG)
    run_tests([test_a_slow_process, test_a_slow_link, test_a_frozen_process, test_a_killed_process,
               test_others_go_on_without_one, test_who_cannot_be_lost, test_what_is_wrong_is_named], pathlib.Path(folder_))
