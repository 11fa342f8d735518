#!/usr/bin/env python3
"""Time that real runs of `speechshard train` lose: to the loader, to checkpoints, and to the second
process.

    train_runs.py BUILD RECORDINGS SCRATCH [--rounds N] [--samples N] > bench/results/train-runs.json

BUILD has tools/speechshard; RECORDINGS is the folder of the Free Spoken Digit Dataset, SCRATCH a
folder to work in, which is emptied. The corpus is the corpus of recipes/digits, augmented as there;
ds2-tiny and ds2-small train on it.

A run of one process with two threads and a run of two processes with one thread each (mpirun, not
bound) take turns. Both have the same batches in a step (data.virtual_world=2), so their losses must
be identical to the bit. Numbers come from RUN/metrics.jsonl after the first five steps. `wait` and
`exchange` are shares of the time of all steps; `save_to_step` is the delay by a checkpoint, in
steps; checkpoints are written each second.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from results import machine, print_rows

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes" / "digits"
UNCOUNTED = 5
BATCHES = 2

# preset: features, padded seconds of a batch
MODELS = {
    "ds2-tiny": ("whisper-logmel,sample_rate_hz=8000,mel_count=40", 15),
    "ds2-small": ("deepspeech,sample_rate_hz=8000", 15),
}


def run(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"train_runs.py: {' '.join(map(str, words))}: {done.stderr}")


def prepare(program, recordings, scratch):
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    run([RECIPE / "prepare.sh", recordings, scratch / "corpus"], scratch)
    run([program, "pack", "corpus/metadata.tsv", "-o", "digits.spsh"], scratch)
    run([program, "train", RECIPE / "digits.yaml", "--make-vocab"], scratch)


def steps_of(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "step"]


def train(program, scratch, preset, processes, samples):
    """Train, and return the steps of the run, and the losses of all steps."""
    features, seconds = MODELS[preset]
    shutil.rmtree(scratch / "run", ignore_errors=True)
    words = [program, "train", RECIPE / "digits.yaml", "-o", "run", f"model.preset={preset}", f"features={features}"]
    words += ["data.dev=[]", f"data.max_padded_seconds={seconds}", f"data.virtual_world={BATCHES}", "train.epochs=0"]
    words += [f"train.threads={2 // processes}", f"train.samples_max={samples}", "train.checkpoint_every_s=1"]
    if processes > 1:
        words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", processes, *words]
    run(words, scratch)
    return steps_of(scratch / "run")


def figure(values, digits=4):
    return {"median": round(statistics.median(values), digits), "range": [round(f(values), digits) for f in (min, max)]}


def share(steps, key):
    return sum(step[key] for step in steps) / sum(step["step_s"] for step in steps)


def facts(runs):
    steps = [run[UNCOUNTED:] for run in runs]
    saves = [step["save_s"] / statistics.median(s["step_s"] for s in run) for run in steps for step in run if step["save_s"] > 0]
    return {
        "audio_s_per_s": figure([sum(s["audio_s"] for s in run) / sum(s["step_s"] for s in run) for run in steps], 1),
        "step_ms": figure([1e3 * s["step_s"] for run in steps for s in run], 2),
        "wait": figure([share(run, "wait_s") for run in steps]),
        "exchange": figure([share(run, "exchange_s") for run in steps]),
        "saves": len(saves),
        "save_to_step": figure(saves) if saves else None,
    }


def measure(program, scratch, preset, rounds, samples):
    runs = {1: [], 2: []}
    for _ in range(rounds):
        for processes, of in runs.items():
            of.append(train(program, scratch, preset, processes, samples))
    losses = {tuple(step["loss"] for step in steps) for of in runs.values() for steps in of}
    if len(losses) != 1:
        raise SystemExit(f"train_runs.py: {preset}: runs of the same steps have other losses")
    seconds = {n: [sum(s["step_s"] for s in run[UNCOUNTED:]) for run in of] for n, of in runs.items()}
    row = {"model": preset, "features": MODELS[preset][0], "steps": len(runs[1][0]), "one_process": facts(runs[1])}
    row["two_processes"] = facts(runs[2])
    row["two_to_one"] = figure([one / two for one, two in zip(seconds[1], seconds[2])], 3)
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def arguments(rounds):
    """Parser for a program that trains on the digits, to which the caller adds arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def model_arguments(rounds):
    parser = arguments(rounds)
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--models", default=",".join(MODELS))
    return parser


def print_measured(options, rows_fn):
    """rows_fn(program, scratch): measures the rows in a folder that has the corpus. The folder is
    removed afterwards."""
    program, scratch = options.build.resolve() / "tools" / "speechshard", options.scratch.resolve()
    begin, load = time.monotonic(), os.getloadavg()[0]
    prepare(program, options.recordings.resolve(), scratch)
    rows = rows_fn(program, scratch)
    shutil.rmtree(scratch)
    command = " ".join([f"bench/train/{Path(sys.argv[0]).name} BUILD FSDD SCRATCH", *sys.argv[4:]])
    head = {"machine": machine(), "command": command, "load": round(load, 1), "seconds": round(time.monotonic() - begin)}
    print_rows(head, rows)


def print_models(options, measure_fn):
    print_measured(options, lambda program, scratch: [measure_fn(program, scratch, preset, options.rounds, options.samples)
                                                      for preset in options.models.split(",")])


if __name__ == "__main__":
    print_models(model_arguments(3).parse_args(), measure)
