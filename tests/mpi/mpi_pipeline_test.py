"""Runs of a model in stages produce the bits of one process, also with stops and other strategies
in between. A lost stage ends the others.

    mpi_pipeline_test.py TRAIN_RANK
"""
import sys

from mpi_kit import Runs, check, equal

runs = Runs(sys.argv[1])
weights, remove = runs.weights, runs.remove
WORDS = ["data.max_padded_seconds=0.4", "data.virtual_world=4", "train.epochs=2"]
STAGES = "train.strategy=pipeline"


def train(count, run, *words, want=0):
    return runs.train(count, run, *WORDS, *words, want=want)


def told(run):
    """The lines of steps and evaluations, without times."""
    return [(line["kind"], line["step"], line["loss"], line.get("gradient_norm"), line.get("wer"),
             line.get("utterances")) for line in runs.lines(run, "step", "evaluation")]


def test_stages_have_the_bits_of_one():
    train(1, "one")
    for count, words in ((1, []), (2, []), (3, []), (2, ["train.stages=[1]"]), (2, ["train.accumulate=2"])):
        if "train.accumulate=2" in words:
            remove("one")
            train(1, "one", *words)
        train(count, "stages", STAGES, *words)
        equal(weights("stages"), weights("one"), f"weights of {count} stages, {words}")
        equal(told("stages"), told("one"), f"metrics of {count} stages, {words}")
        remove("stages")
    remove("one")


def test_others_go_on():
    """Run with stages, then with another number of stages, then with one process, then with stages
    again."""
    train(1, "one")
    train(2, "turns", "resume", "stop:1:6", STAGES, want=75)
    train(3, "turns", "resume", "stop:0:6", STAGES, want=75)
    train(2, "turns", "resume", "stop:0:3", want=75)
    train(2, "turns", "resume", STAGES)
    equal(weights("turns"), weights("one"), "weights")
    remove("turns")
    remove("one")


def test_one_is_lost():
    done = train(2, "lost", "hang:1:5", STAGES, "train.deadline_ms=30000", want=70)
    check("rank 1" in done.output, f"said {done.output}")
    remove("lost")


def test_wrong_stages():
    for words, text in ((["train.stages=[1,2]"], "2 cuts give 3 stages, but there are 2 processes"),
                        (["train.stages=[9]"], "cut 1 is at block 9"), (["train.stages=[x]"], "'x' is not a block number")):
        done = train(2, "wrong", STAGES, *words, want=1)
        check(text in done.output, f"said {done.output}")
        remove("wrong")


runs.run_tests(test_stages_have_the_bits_of_one, test_others_go_on, test_one_is_lost, test_wrong_stages,
               only=sys.argv[2:])
