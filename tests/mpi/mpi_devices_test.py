"""Runs of several processes with one device each: host emulations of GPUs, and a shim of NCCL on their streams.

With sums by NCCL, losses equal the losses of one process except for rounding; with sums by the host, weights have the
same bits for any number of processes. Under strategies with a model per learner, losses equal those of as many
processes on the CPU, or, if nothing fixes the order of messages, each utterance is served once. Runs resume on other
numbers of devices. All ranks skip an overflowing step. A rank that is missing, hangs, fails, or is killed ends the
others. The emulation ends a process whose work on a device is not ordered.

    mpi_devices_test.py TRAIN_RANK_DEVICE NCCL_SHIM sums|faults [TEST...]
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from mpi_kit import Torchrun, check, equal, run_tests

RANK, SHIM, WHICH, *ONLY = sys.argv[1:]
UTTERANCES = 96
base = pathlib.Path(tempfile.mkdtemp(prefix="devices-"))
WORDS = ["train.backend=cuda", "train.precision=fp32", "train.deterministic=true", "data.max_padded_seconds=0.4",
         "data.virtual_world=6", "train.epochs=1",
         f"train.deadline_ms={30000 if WHICH == 'faults' else 300000}"] # the faults tests wait until the deadline
SHORT = ["data.dev=[]", "train.samples_max=40"] # without evaluations, and about half an epoch


def start(count, run, *words, **more):
    return Torchrun(count, RANK, base, "run", run, *WORDS, *words, **{"TWIN_NCCL": SHIM, "TMPDIR": base, **more})


def train(count, run, *words, want=0, **more):
    done = start(count, run, *words, **more).end()
    equal(set(done.codes.values()), {want}, f"{run} on {count}: {done.output}")
    return done


def weights(run):
    return subprocess.run([RANK, base, "hash", run], capture_output=True, encoding="utf-8", check=True).stdout.strip()


def steps(run):
    lines = [json.loads(line) for line in (base / run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "gradient_norm" in line]


def remove(*runs):
    for run in runs:
        shutil.rmtree(base / run, ignore_errors=True)


def near(got, want, what, within=2e-3):
    """Compare losses and norms of steps. Sums in another order also change the weights slightly."""
    equal(len(got), len(want), f"{what}: steps")
    for one, other in zip(got, want):
        for name in ["loss", "gradient_norm"]:
            a, b = one[name], other[name]
            check((a is None) == (b is None) and (a is None or abs(a - b) <= within * max(abs(a), abs(b))),
                  f"{what}: step {one['step']}: {name} {a}, want {b}")


# ---- sums

def test_nccl():
    """Buckets with parts, and buckets that are only a remainder. A rank has several leaves, one, or an empty one."""
    train(1, "one")
    for count in [2, 4]:
        for strategy in ["allreduce", "partitioned"]:
            done = train(count, strategy, f"train.strategy={strategy}", "train.exchange=nccl",
                         NCCL_SHIM=f"slow:{count - 1}:20")
            check("gradients are summed on the devices by NCCL" in done.output, f"said {done.output}")
            near(steps(strategy), steps("one"), f"{strategy} on {count}")
        equal(weights("partitioned"), weights("allreduce"), f"strategies on {count}")
        remove("allreduce", "partitioned")
    remove("one")


def test_host():
    """The bits are the same for any number of processes, and with steps of several batches per process."""
    words = ["train.exchange=host", "train.accumulate=1", *SHORT]
    for more in [("model.hidden=64",), ("train.accumulate=3", "data.virtual_world=3")]:
        train(1, "one", *words, *more)
        for count, strategy in [(2, "allreduce"), (3, "partitioned")]:
            train(count, "some", f"train.strategy={strategy}", *words, *more)
            equal(weights("some"), weights("one"), f"{strategy} on {count}, {more}")
            remove("some")
        remove("one")


def test_halves():
    """Gradients are sent with 16 bits: half of the bytes, and the same bits in each run."""
    words = ["train.exchange=host", "train.accumulate=1", *SHORT]
    train(3, "floats", *words)
    for run in ["bf16", "again"]:
        train(3, run, *words, "train.gradient_exchange=bf16")
    equal(weights("again"), weights("bf16"), "bf16, twice")
    check(weights("bf16") != weights("floats"), "bf16 rounds")
    # The first step's bytes include the start.
    sent = [sum(step["sent_bytes"] for step in steps(run)[1:]) for run in ("bf16", "floats")]
    check(sent[0] < 0.6 * sent[1], f"sent {sent[0]} bytes, as floats {sent[1]}")
    remove("again", "bf16", "floats")


def test_halves_over_nccl():
    """The same on the devices. A late rank and the order of streams change no bit."""
    words = ["train.exchange=nccl", "train.accumulate=1", *SHORT]
    for count, strategy in [(2, "allreduce"), (3, "allreduce"), (2, "partitioned"), (3, "partitioned")]:
        what, sent = f"{strategy} on {count}", {}
        for run, kind, fault in [("floats", "fp32", "bytes:1"), ("bf16", "bf16", "bytes:1"),
                                 ("again", "bf16", f"slow:{count - 1}:20")]:
            done = train(count, run, "weights", *words, f"train.strategy={strategy}", f"train.gradient_exchange={kind}",
                         NCCL_SHIM=fault)
            of_ranks = re.findall("has weights ([0-9a-f]+)", done.output)
            equal((len(of_ranks), len(set(of_ranks))), (count, 1), f"{what}: weights of the ranks, {run}")
            check("gradients are summed on the devices by NCCL" in done.output, f"said {done.output}")
            sent[run] = int((re.search("rank 1 sent ([0-9]+) bytes", done.output) or [0, 0])[1])
        equal(weights("again"), weights("bf16"), f"{what}: bf16, twice")
        check(weights("bf16") != weights("floats"), f"{what}: bf16 rounds")
        print(f"{what}: {sent['bf16']} bytes, as floats {sent['floats']}")
        # The rest are remainders, running statistics, and, in partitioned, the weights.
        most = {"allreduce": 0.6, "partitioned": 0.85}[strategy]
        check(0 < sent["bf16"] < most * sent["floats"], f"{what}: sent {sent}")
        near(steps("bf16"), steps("floats"), what, within=1e-2)
        remove("floats", "bf16", "again")


def test_halves_of_other_strategies():
    """Strategies that add up gradients inside a node, or on servers. A repeated run has the same bits. With more than one
    node, a model is also exchanged."""
    node = ["train.strategy=hierarchical", "train.node_size=2", "train.outer=d1-model"]
    settings = [(2, [*node, f"train.inner={inner}"], ["nccl", "host"]) for inner in ("allreduce", "partitioned")]
    settings += [(4, node, ["nccl", "host"]), (2, [*node, "train.inner=ps-sync"], ["host"]),
                 (3, ["train.strategy=ps-sync", "train.servers=2"], ["host"]), (3, ["train.strategy=partitioned"], ["host"])]
    for count, words, exchanges in settings:
        more = ["model.hidden=64", "data.virtual_world=4", "train.accumulate=1", *SHORT, *words]
        for run, kind in [("cpu", "fp32"), ("cpu-bf16", "bf16")]:
            train(count, run, *more, "train.backend=cpu", f"train.gradient_exchange={kind}")
        for exchange in exchanges:
            what = f"{words} on {count}, {exchange}"
            for run, kind in [("floats", "fp32"), ("bf16", "bf16"), ("again", "bf16")]:
                done = train(count, run, *more, f"train.exchange={exchange}", f"train.gradient_exchange={kind}",
                             NCCL_SHIM=f"slow:{count - 1}:20")
                equal("gradients are summed on the devices by NCCL" in done.output, exchange == "nccl", f"{what}: {done.output}")
            equal(weights("again"), weights("bf16"), f"{what}: bf16, twice")
            check(weights("bf16") != weights("floats"), f"{what}: bf16 rounds")
            near(steps("floats"), steps("cpu"), what)
            near(steps("bf16"), steps("cpu-bf16"), f"{what}: bf16", within=1e-2)
            remove("floats", "bf16", "again")
        remove("cpu", "cpu-bf16")


def test_losses_of_halves():
    """Two epochs. GPU.md has the figures that this test prints."""
    for exchange in ["host", "nccl"]:
        words = [f"train.exchange={exchange}", "train.accumulate=1", "data.dev=[]", "train.epochs=2"]
        train(3, "floats", *words)
        train(3, "bf16", *words, "train.gradient_exchange=bf16")
        pairs = [(a["loss"], b["loss"]) for a, b in zip(steps("bf16"), steps("floats")) if b["loss"] is not None]
        most = max(abs(a / b - 1) for a, b in pairs)
        print(f"{exchange}, bf16: losses of {len(pairs)} steps differ by at most {most:.1e}")
        check(0 < most < 1e-2, f"{exchange}: losses: {pairs}")
        remove("floats", "bf16")


def test_other_numbers_of_devices():
    """Stopped twice in the middle of an epoch: each utterance is served once."""
    train(1, "one", "data.dev=[]")
    for strategy in ["allreduce", "partitioned"]:
        words = [f"train.strategy={strategy}", "served:some", "resume", "data.dev=[]"]
        train(4, "some", "stop:3:1", *words, want=75)
        train(2, "some", "stop:1:2", *words, want=75, restarts=1)
        train(3, "some", *words, restarts=2)
        served = collections.Counter()
        for path in base.glob("some.[0-9]"):
            served.update(path.read_text().splitlines())
            path.unlink()
        equal((len(served), set(served.values())), (UTTERANCES, {1}), f"{strategy}: served")
        near(steps("some"), steps("one"), f"{strategy} on 4, 2, 3")
        remove("some")
    remove("one")


def test_overflow():
    """If the gradients of one rank overflow fp16, all ranks skip the step and lower the scale."""
    words = ["train.precision=fp16", "train.rnn=stepwise", "data.virtual_world=4", "data.dev=[]", "train.epochs=2",
             "train.samples_max=120"]
    train(1, "one", *words)
    skipped = [step["step"] for step in steps("one") if step["gradient_norm"] is None]
    check(0 < len(skipped) < len(steps("one")), f"skipped {skipped} of {len(steps('one'))}")
    for strategy in ["allreduce", "partitioned"]:
        train(2, "two", f"train.strategy={strategy}", *words)
        near(steps("two"), steps("one"), f"fp16, {strategy}", within=2e-2)
        remove("two")
        done = train(2, "two", "weights", f"train.strategy={strategy}", *words, "train.gradient_exchange=fp16")
        check("gradients are summed on the devices by NCCL" in done.output, f"said {done.output}")
        equal(len(set(re.findall("has weights ([0-9a-f]+)", done.output))), 1, f"fp16 halves, {strategy}: weights")
        also = [step["step"] for step in steps("two") if step["gradient_norm"] is None]
        check(set(skipped) <= set(also) and len(also) < len(steps("two")), f"fp16 halves, {strategy}: skipped {also}")
        print(f"{strategy}: skipped {skipped}, with halves {also}")
        remove("two")
    remove("one")


def test_which_exchange():
    """Without NCCL, or with one device for two ranks, the host computes the sums or reports why it cannot."""
    for more, text in [({"TWIN_NCCL": "/none/of/it"}, "cannot load NCCL"), ({"TWIN_DEVICE_KEY": 7}, "share a GPU")]:
        done = train(2, "some", *SHORT, **more)
        check("gradients are exchanged through the host: " in done.output and text in done.output, f"said {done.output}")
        remove("some")
        done = train(2, "some", "train.exchange=nccl", *SHORT, want=1, **more)
        check(text in done.output, f"said {done.output}")
        remove("some")
    for version, is_early in [(21600, True), (21701, False)]:
        done = train(2, "some", *SHORT, NCCL_SHIM_VERSION=version)
        check("gradients are summed on the devices by NCCL" in done.output, f"said {done.output}")
        equal("NCCL 2.16 may take multiprocessors" in done.output, is_early, f"{version}: {done.output}")
        remove("some")


OWN_MODELS = ["train.accumulate=1", "data.virtual_world=4", "data.dev=[]", "train.rate=1e-3"]
NODES = ["train.strategy=hierarchical", "train.node_size=2"]


def test_strategies_in_step():
    """The losses of as many processes on the CPU, except for rounding."""
    for count in [2, 4]:
        for words in [["train.strategy=ps-sync"], ["train.strategy=dpsgd-ring"], ["train.strategy=d1-model"],
                      ["train.strategy=d1-grad"], [*NODES, "train.outer=d1-model"]]:
            for run, more in [("cpu", ["train.backend=cpu"]), ("cuda", [])]:
                train(count, run, *words, *OWN_MODELS, *more)
            near(steps("cuda"), steps("cpu"), f"{words} on {count}")
            remove("cpu", "cuda")


def test_model_of_a_node():
    """With NCCL, no message contains the leader's model."""
    sent = {}
    runs = {"cpu": "train.backend=cpu", "host": "train.exchange=host", "nccl": "train.exchange=nccl"}
    for run, more in runs.items():
        done = train(2, run, *NODES, "train.outer=d1-model", *OWN_MODELS, more)
        equal("gradients are summed on the devices by NCCL" in done.output, run == "nccl", f"said {done.output}")
        model = 4 * int(re.search("([0-9]+) weights on", done.output)[1])
        near(steps(run), steps("cpu"), more)
        sent[run] = [step["sent_bytes"] for step in steps(run)[1:]]
    check(min(sent["cpu"] + sent["host"]) > model, f"sent {sent}, and the model has {model} bytes")
    check(max(sent["nccl"]) < model / 4, f"sent {sent}, and the model has {model} bytes")
    remove(*runs)


def test_stages():
    """A pipeline has the losses of one process on the CPU, except for rounding, also with other stages after a stop."""
    words = ["train.accumulate=2", "data.virtual_world=4", "train.epochs=2"]
    pipeline = [*words, "train.strategy=pipeline"]
    train(1, "cpu", *words, "train.backend=cpu")
    train(2, "cuda", "stop:1:3", *pipeline, want=75)
    done = train(3, "cuda", "resume", *pipeline)
    check("computes on cuda" in done.output, done.output)
    near(steps("cuda"), steps("cpu"), "stages")
    remove("cpu", "cuda")


def check_free(count, *words):
    done = train(count, "free", *words, *OWN_MODELS, "served:free")
    check("computes on cuda" in done.output, f"{words} on {count}: {done.output}")
    served = collections.Counter()
    for path in base.glob("free.[0-9]"):
        served.update(path.read_text().splitlines())
        path.unlink()
    equal((len(served), set(served.values())), (UTTERANCES, {1}), f"{words} on {count}: served")
    equal(steps("free")[-1]["skipped_steps"], 0, f"{words} on {count}: steps whose gradients were not finite")
    remove("free")


def test_free_strategies():
    for count in [1, 2, 4]:
        for strategy in ["adpsgd-fixed", "adpsgd-random", "ps-async", "hogwild"]:
            check_free(count, f"train.strategy={strategy}")
    for count in [2, 4]:
        check_free(count, *NODES)
    check_free(4, *NODES, "train.gradient_exchange=bf16")


def test_two_free_learners():
    check_free(2, "train.strategy=adpsgd-random")


# ---- faults

# Several starts run in parallel, since they wait most of the time.

SETTINGS = ["train.strategy=allreduce", "train.strategy=partitioned"]


def begin_faults(*faults, settings=SETTINGS):
    return [(fault, start(3, f"{setting}.{fault}", "train.exchange=nccl", setting, *SHORT, NCCL_SHIM=fault))
            for fault in faults for setting in settings]


def test_a_collective_that_does_not_come():
    for fault, run in begin_faults("hang:1:9", "error:1:9", settings=[*SETTINGS, "train.gradient_exchange=bf16"]):
        done = run.end()
        text, code = {"hang:1:9": ("no rank is missing: step ", 70), "error:1:9": ("remote process exited", 1)}[fault]
        check(text in done.said[1] and done.codes[1] == code, f"{fault}: rank 1 ends with {done.codes[1]}: {done.said[1]}")
        for other in [0, 2]:
            check(done.codes[other] == 70, f"{fault}: rank {other} ends with {done.codes[other]}: {done.said[other]}")


def test_a_rank_that_does_not_join():
    for fault, run in begin_faults("absent:1", "stop:1"):
        done = run.end(without=[1] if fault == "stop:1" else [])
        # On a busy machine rank 1 may stop before its last message to rank 2, which then never joins.
        who = r"rank 1(, 2)? is missing: step 0, connecting the ranks|rank 1 has not sent" if fault == "stop:1" else \
            "no rank is missing: step 0, connecting the ranks"
        for other in [0, 2]:
            check(done.codes[other] == 70 and re.search(who, done.said[other]),
                  f"{fault}: rank {other} ends with {done.codes[other]}: {done.said[other]}")


def check_without_rank_1(fault, without):
    exchanges = ["nccl", "host"]
    starts = [start(3, exchange, f"train.exchange={exchange}", *SHORT, fault) for exchange in exchanges]
    for exchange, done in zip(exchanges, [one.end(without=without) for one in starts]):
        for other in [0, 2]: # one rank may detect the exit of the other first
            check(done.codes[other] == 70 and "rank " in done.said[other],
                  f"{exchange}, {fault}: rank {other} ends with {done.codes[other]}: {done.said[other]}")
        check(re.search("rank ([0-9]+, )*1(,| is missing| disconnected| has not sent)", done.said[0] + done.said[2]),
              f"named no rank 1: {done.output}")
    remove(*exchanges)


def test_a_rank_that_is_killed():
    check_without_rank_1("kill:1:3", [])


def test_a_rank_that_is_killed_during_a_call():
    """Launches wait for the device, and so for the lost rank. The deadline ends them, and the next call names the rank."""
    done = start(3, "call", "train.exchange=nccl", "train.deadline_ms=10000", *SHORT, "kill:1:7",
                 TWIN_LAUNCHES_WAIT=1).end()
    for other in [0, 2]:
        check(done.codes[other] == 70, f"rank {other} ends with {done.codes[other]}: {done.said[other]}")
    said = done.said[0] + done.said[2]
    check(re.search("rank ([0-9]+, )*1(, [0-9]+)* is missing: step .* s in a call to the device", said), f"said {said}")
    remove("call")


def test_a_rank_that_hangs():
    check_without_rank_1("hang:1:3", [1])


try:
    equal(subprocess.run([RANK, base, "make"], check=False).returncode, 0, "the dataset")
    if WHICH == "sums":
        run_tests(test_nccl, test_host, test_halves, test_halves_over_nccl, test_halves_of_other_strategies,
                  test_losses_of_halves, test_other_numbers_of_devices, test_overflow,
                  test_which_exchange, test_stages, test_strategies_in_step, test_model_of_a_node,
                  test_free_strategies, test_two_free_learners, only=ONLY)
    else:
        run_tests(test_a_collective_that_does_not_come, test_a_rank_that_does_not_join, test_a_rank_that_is_killed,
                  test_a_rank_that_is_killed_during_a_call, test_a_rank_that_hangs, only=ONLY)
finally:
    shutil.rmtree(base, ignore_errors=True)
