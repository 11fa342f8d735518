"""Runs of several processes with different models: each utterance is trained on once per epoch, the
loss falls, evaluations and checkpoints use the consensus model, and other numbers of processes can
resume.

    mpi_strategies_test.py TRAIN_RANK SPEECHSHARD [TEST...]
"""
import sys
from itertools import zip_longest

from mpi_kit import UTTERANCES, Runs, Torchrun, check, equal

runs = Runs(sys.argv[1])
lines, remove, check_served_once = runs.lines, runs.remove, runs.check_served_once
STRATEGIES = {"dpsgd-ring": [], "d1-model": [], "d1-grad": [], "adpsgd-fixed": [], "adpsgd-random": [], "ps-async": [],
              "hogwild": [], "hierarchical-in-step": ["train.node_size=2", "train.outer=d1-model"],
              "hierarchical": ["train.node_size=2"]}
FREE = ["adpsgd-fixed", "adpsgd-random", "ps-async", "hogwild", "hierarchical"]
# A rate at which late gradients do not move a model far.
SMALL = ["data.max_padded_seconds=0.4", "train.accumulate=1", "train.rate=1e-3"]
EPOCHS = 6 # for a loss that falls


def words_of(name):
    return [f"train.strategy={name.replace('-in-step', '')}", *STRATEGIES[name], *SMALL]


def train(count, run, *words, want=0):
    return runs.train(count, run, f"served:{run}", *words, want=want)


def check_learnt(run, epochs, falls=True):
    """Metrics count each utterance once, and the loss falls."""
    steps = lines(run, "step")
    equal(sum(line["utterances"] for line in steps), epochs * UTTERANCES, f"{run}: utterances in metrics")
    equal(steps[-1]["samples"], epochs * UTTERANCES, f"{run}: samples at the end")
    check(sum(line["sent_bytes"] for line in steps) > 0, f"{run}: nothing was sent")
    check_staleness(run, [sum(of) for of in zip_longest(*(line["staleness"] for line in steps), fillvalue=0)], falls)
    numbers = [line["step"] for line in steps]
    check(numbers == sorted(set(numbers)) if run in FREE else numbers == list(range(1, len(steps) + 1)),
          f"{run}: steps {numbers}")
    evaluations = lines(run, "evaluation")
    equal(len(evaluations), epochs, f"{run}: evaluations")
    print(f"{run:20} losses {[round(e['loss'], 2) for e in evaluations]}")
    check(evaluations[-1]["loss"] < 200, f"{run}: losses go up")
    check(not falls or has_fallen(run, evaluations), f"{run}: does not learn")


def has_fallen(run, evaluations):
    """Compare the last loss with the first. With unbounded staleness, compare the mean of the
    second half."""
    losses = [line["loss"] for line in evaluations]
    last = losses[len(losses) // 2:] if run in FREE else losses[-1:]
    return sum(last) / len(last) < losses[0]


def check_staleness(run, counts, falls):
    """For synchronous strategies the staleness is known. For asynchronous strategies, some
    staleness is counted if learners exchange anything. Whether two learners of adpsgd meet in the
    middle of a step is random; servers always receive other requests meanwhile."""
    if run in ("hogwild", "dpsgd-ring"):
        return
    print(f"{run:20} staleness {counts}")
    check(sum(counts) > 0, f"{run}: no staleness")
    if run in ("d1-model", "d1-grad", "hierarchical-in-step"):
        equal(len(counts), 2, f"{run}: staleness {counts}, where it is one step")
    if run == "ps-async" and falls: # after a resume, one process may have run by itself
        check(sum(counts[1:]) > 0, f"{run}: staleness {counts}: nobody came between")


def counts_of(name):
    return [4] if name.startswith("hierarchical") else [2, 3]


def test_they_learn():
    for name in STRATEGIES:
        for count in counts_of(name):
            train(count, name, *words_of(name), f"data.virtual_world={count}", f"train.epochs={EPOCHS}")
            check_served_once(name, EPOCHS)
            check_learnt(name, EPOCHS)
            remove(name)


def stops(name, rank, batch, count):
    """Faults that stop the given rank at the given batch. Asynchronous learners may finish the
    epoch before that rank reaches the batch, so the other ranks stop at their sixth batch."""
    return [f"stop:{one}:{batch if one == rank else 6}" for one in range(count) if one == rank or name in FREE]


def test_others_go_on():
    """One rank stops the run in the middle of the first epoch; fewer ranks and one rank resume
    it."""
    for name in STRATEGIES:
        words = [*words_of(name), "data.virtual_world=4", "train.epochs=3"]
        many = counts_of(name)[-1]
        train(many, name, "resume", *stops(name, many - 1, 2, many), *words, want=75)
        evaluated = lines(name, "step")[-1]["samples"]
        check(0 < evaluated < UTTERANCES, f"{name}: stopped behind {evaluated}")
        train(2, name, "resume", *stops(name, 0, 3, 2), *words, want=75)
        check(lines(name, "step")[-1]["samples"] > evaluated, f"{name}: went on")
        train(1, name, "resume", *words, "train.node_size=1")
        check_served_once(name, 3)
        check_learnt(name, 3, falls=False) # a single learner at the rate of several
        remove(name)


def test_one_is_lost():
    """Only their deadlines end the other processes, which wait for them in parallel."""
    def start(name, many):
        return Torchrun(many, runs.program, runs.base, "run", name, f"kill:{many - 1}:3", *words_of(name),
                        f"data.virtual_world={many}", "train.deadline_ms=60000", "train.epochs=100", job=name)
    counts = {name: counts_of(name)[-1] for name in STRATEGIES}
    starts = {name: start(name, many) for name, many in counts.items()}
    for name, many in counts.items():
        done = starts[name].end()
        equal(done.codes[many - 1], -9, f"{name}: the lost one: {done.said[many - 1]}")
        for rank in range(many - 1):
            equal(done.codes[rank], 70, f"{name}: rank {rank}: {done.said[rank]}")
        remove(name)


def test_bounds():
    """Parameter servers do not wait for a learner without a batch in its round, and the end of a
    run does not wait for rank 0, which hands out the batches."""
    for options in [["train.staleness_max=0"], ["train.staleness_max=1", "train.servers=1", "train.overlap=true"],
                    ["train.scale_by_staleness=true", "train.samples_max=450", "slow:0:1"]]:
        train(3, "bound", *words_of("ps-async"), f"train.epochs={EPOCHS}", "train.deadline_ms=120000", *options)
        evaluations = lines("bound", "evaluation")
        check(has_fallen("ps-async" if "slow:0:1" in options else "bound", evaluations),
              f"{options}: {[e['loss'] for e in evaluations]}")
        samples = lines("bound", "step")[-1]["samples"]
        if "train.samples_max=450" in options:
            check(450 <= samples < 470, f"{options}: {samples} samples")
        else:
            equal(samples, EPOCHS * UTTERANCES, f"{options}: samples")
        remove("bound")


def test_several_batches_an_update():
    for name in ["adpsgd-random", "hierarchical"]:
        count = counts_of(name)[0]
        train(count, name, *words_of(name), "train.accumulate=3", f"train.epochs={EPOCHS}")
        check_served_once(name, EPOCHS)
        check_learnt(name, EPOCHS)
        remove(name)


def test_inner_strategies():
    """One node has the bits of its inner strategy, and all inner strategies have those of
    allreduce. The buckets have a part for each rank."""
    words = ["model.hidden=64", *SMALL, "data.virtual_world=4", "train.samples_max=40", "data.dev=[]"]
    runs.train(2, "sum", "train.strategy=allreduce", *words)
    for inner in [["allreduce"], ["partitioned"], ["ps-sync"], ["ps-sync", "train.servers=1"]]:
        runs.train(2, "node", *words_of("hierarchical-in-step"), f"train.inner={inner[0]}", *inner[1:],
                   *words)
        equal(runs.weights("node"), runs.weights("sum"), f"inner {inner}")
        remove("node")
    remove("sum")


def test_wrong_options():
    done = train(3, "wrong", *words_of("hierarchical"), "data.virtual_world=3", want=1)
    check("3 processes cannot form nodes of 2 each" in done.output, f"said {done.output}")
    remove("wrong")


runs.run_tests(test_they_learn, test_others_go_on, test_one_is_lost, test_bounds, test_several_batches_an_update,
               test_inner_strategies, test_wrong_options, only=sys.argv[3:])
