#!/usr/bin/env python3
"""How much of the communication between processes is hidden by their computation?

    overlap.py BUILD RECORDINGS SCRATCH [--rounds N] [--samples N] > bench/results/train-overlap.json

BUILD, RECORDINGS and SCRATCH are as for train_runs.py, which has the same corpus and models. Two
processes with one thread each take turns: over this machine's memory, and over a link (--link)
whose transfer time per step is half of a step's computation. Numbers are for the median step, after
the first five:

    compute_ms    forward, backward and update
    alone_ms      the link's own time: bytes that a process sends per step, over its bandwidth. The limit
    exposed_ms    waiting for the other process, over the link
    waiting_ms    the same without a link: waiting for the process with the longer utterances
    exposed       exposed_ms over alone_ms. The bar: 0.25
"""

import json
import statistics
import sys

from train_runs import MODELS, RECIPE, UNCOUNTED, figure, model_arguments, print_models, run, steps_of

PROCESSES = 2
COSTS = 0.5  # transfer time of a step, relative to its computation


def train(program, scratch, preset, samples, link):
    features, seconds = MODELS[preset]
    run(["rm", "-rf", "run"], scratch)
    words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", PROCESSES, program, "train", RECIPE / "digits.yaml"]
    words += ["-o", "run", f"model.preset={preset}", f"features={features}", "data.dev=[]", "augment=speeds=1"]
    words += [f"data.max_padded_seconds={seconds}", f"data.virtual_world={PROCESSES}", "train.epochs=0", "train.threads=1"]
    words += [f"train.samples_max={samples}", "train.checkpoint_every_s=0", *(["--link", link] if link else [])]
    run(words, scratch)
    return steps_of(scratch / "run")[UNCOUNTED:]


def middle(steps, key):
    return statistics.median(step[key] for step in steps)


def measure(program, scratch, preset, rounds, samples):
    free = train(program, scratch, preset, samples, None)
    bytes_a_step = middle(free, "sent_bytes") / PROCESSES
    bytes_per_s = bytes_a_step / (COSTS * middle(free, "compute_s"))
    link = f"1us+{bytes_per_s / 1e6:.2f}MB"
    turns = []
    for _ in range(rounds):
        free, slow = (train(program, scratch, preset, samples, one) for one in (None, link))
        turns.append((middle(free, "compute_s"), middle(free, "exchange_s"), middle(slow, "exchange_s"),
                      middle(slow, "step_s") / middle(free, "step_s")))
    alone_s = bytes_a_step / bytes_per_s
    row = {"model": preset, "steps": len(free), "sent_bytes": round(bytes_a_step), "link": link,
           "compute_ms": figure([1e3 * one[0] for one in turns], 2), "alone_ms": round(1e3 * alone_s, 2),
           "waiting_ms": figure([1e3 * one[1] for one in turns], 2), "exposed_ms": figure([1e3 * one[2] for one in turns], 2),
           "exposed": figure([one[2] / alone_s for one in turns], 3), "step_to_free": figure([one[3] for one in turns], 3)}
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    print_models(model_arguments(5).parse_args(), measure)
