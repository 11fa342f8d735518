#!/usr/bin/env python3
"""A step of training by ours and by PyTorch, in turns, on one machine.

    train_steps.py BENCH_TRAIN_STEP [--rounds N] [--threads 1,2] [--models tiny,small] > bench/results/train-steps.json

Both begin with the same weights and take the same batch; their first ten losses must agree (1e-4
relative). BENCH_TRAIN_STEP (bench/train/bench_train_step.c) describes the batch. PyTorch runs the
model of tests/golden/train_reference.py, as a user would tune it. With equal lengths nothing is
packed or masked, so oneDNN computes convolutions and recurrence. With varied lengths, `torch` packs
and masks, as the model requires. `plain` does neither: it computes another result, and only its
time is of interest.

Each runs in a separate process. A round is some steps of each; the first two are not counted.
Median and range of a step's milliseconds are printed, by the clock and of processors, and the peak
memory; `torch_imported_mib` is PyTorch's memory before it has a model.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from results import machine, parser_of, print_rows

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
import train_reference  # noqa: E402

GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
LABEL_FRAMES = 8
OUTPUTS = 29
LOSSES = 10
UNCOUNTED = 2

# preset: channels, layers, cell, hidden, bidirectional, lookahead
PRESETS = {
    "tiny": (16, 2, "lstm", 128, 1, 0),
    "small": (32, 3, "lstm", 256, 1, 0),
}
# inputs, batch, frames; steps of a round
BATCHES = {"tiny": (81, 16, 100), "small": (161, 8, 400)}
STEPS = {"tiny": 5, "small": 1}


def draw(sequence, count):
    z = np.uint64(sequence << 32) + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN_RATIO
    return train_reference.mix_all(z)


class Tuned(train_reference.DS2):
    """No packing, no masks."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2).unsqueeze(1)
        for conv, norm in zip((self.conv1, self.conv2), self.conv_norms):
            x = F.hardtanh(norm(conv(x), None), 0, 20)
        x = x.flatten(1, 2).permute(2, 0, 1)
        for i, rnn in enumerate(self.rnns):
            if i:
                x = self.norm_rows(self.rnn_norms[i - 1], x, x[..., :1])
            x = rnn(x)[0]
            x = x[..., : rnn.hidden_size] + x[..., rnn.hidden_size :]
        return self.output(self.norm_rows(self.output_norm, x, x[..., :1])), (lengths + 1) // 2


class Torch:
    def __init__(self, preset, inputs, batch, frames, lengths, threads):
        torch.set_num_threads(threads)
        model = train_reference.DS2 if lengths == "varied" else Tuned
        self.model = model(inputs, *PRESETS[preset], OUTPUTS, True)
        self.model.begin(1)
        bits = (draw(1, batch * frames * inputs) >> np.uint64(40)).astype(np.float32)
        self.features = torch.from_numpy(bits / np.float32(1 << 23) - np.float32(1)).view(batch, frames, inputs)
        less = draw(2, batch) % np.uint64(frames // 2) * np.uint64(lengths != "equal")
        self.lengths = torch.from_numpy(frames - less.astype(np.int64))
        for n, length in enumerate(self.lengths):
            self.features[n, length:] = 0
        self.counts = self.lengths // LABEL_FRAMES
        labels = 1 + draw(3, int(self.counts.sum())) % np.uint64(OUTPUTS - 1)
        self.labels = torch.from_numpy(labels.astype(np.int64))
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=2e-5, momentum=0.9, nesterov=True)

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        logits, out = self.model(self.features, self.lengths)
        each = F.ctc_loss(logits.log_softmax(-1), self.labels, out, self.counts, reduction="none", zero_infinity=True)
        loss = each.sum() / len(self.lengths)
        loss.backward()
        self.optimiser.step()
        return loss.item()


def peak_mib():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def serve(words):
    """Like bench_train_step.c: counts from stdin, one line of numbers for each. The first line is
    the memory of PyTorch itself."""
    print(peak_mib(), flush=True)
    preset, lengths = words[0], words[4]
    peer = Torch(preset, *(int(word) for word in words[1:4]), lengths, int(words[5]))
    for line in sys.stdin:
        begin, begin_cpu = time.monotonic(), cpu_s()
        losses = [peer.step() for _ in range(int(line))]
        numbers = [(time.monotonic() - begin) * 1e3, (cpu_s() - begin_cpu) * 1e3, peak_mib(), *losses]
        print(*numbers, flush=True)


class Peer:
    """A process that makes steps on request. library_path: its library path, or None for ours."""

    def __init__(self, words, library_path=None):
        words = [str(word) for word in words]
        env = dict(os.environ, LD_LIBRARY_PATH=library_path) if library_path else None
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, env=env, text=True, bufsize=1, **pipes)
        self.ms, self.cpu_ms, self.losses, self.peak_mib = [], [], [], 0

    def numbers(self):
        return [float(word) for word in self.process.stdout.readline().split()]

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        numbers = self.numbers()
        if len(numbers) != count + 3:
            raise SystemExit(f"train_steps.py: {self.process.args[0]} gave up")
        self.ms.append(numbers[0] / count)
        self.cpu_ms.append(numbers[1] / count)
        self.peak_mib = numbers[2]
        self.losses += numbers[3:]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def figure(values, digits=1):
    values = values[UNCOUNTED:]
    return {"median": round(statistics.median(values), digits), "range": [round(f(values), digits) for f in (min, max)]}


def ratio(theirs, ours):
    return figure([a / b for a, b in zip(theirs, ours)], 3)


def compare(program, preset, lengths, threads, rounds):
    inputs, batch, frames = BATCHES[preset]
    words = [preset, inputs, batch, frames]
    peers = {"ours": Peer([program, f"ds2-{preset}", inputs, OUTPUTS, batch, frames, lengths, threads])}
    imported = 0
    for name, its in (("torch", lengths), ("plain", "plain"))[: 1 if lengths == "equal" else 2]:
        peers[name] = Peer([sys.executable, __file__, "--serve", *words, its, threads])
        imported = peers[name].numbers()[0]
    for _ in range(rounds):
        for peer in peers.values():
            peer.steps(STEPS[preset])
    for peer in peers.values():
        peer.close()
    ours, theirs = peers["ours"], peers["torch"]
    pairs = list(zip(ours.losses, theirs.losses))[:LOSSES]
    difference = max(abs(a - b) / abs(b) for a, b in pairs)
    if not (len(pairs) == LOSSES and difference <= 1e-4):
        raise SystemExit(f"train_steps.py: {preset}: losses differ by {difference:g}: {pairs}")
    row = {"model": f"ds2-{preset}", "inputs": inputs, "batch": batch, "frames": frames, "lengths": lengths}
    row |= {"threads": threads, "losses_differ": float(f"{difference:.2g}")}
    for name, peer in peers.items():
        row |= {f"{name}_ms": figure(peer.ms), f"{name}_cpu_ms": figure(peer.cpu_ms)}
        row[f"{name}_peak_mib"] = round(peer.peak_mib)
        if name != "ours":
            row[f"{name}_to_ours"] = ratio(peer.ms, ours.ms)
            row[f"{name}_to_ours_cpu"] = ratio(peer.cpu_ms, ours.cpu_ms)
    row["torch_imported_mib"] = round(imported)
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def main():
    parser = parser_of(serve, 12)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--models", default="tiny,small")
    parser.add_argument("--lengths", default="equal,varied")
    options = parser.parse_args()
    if options.rounds < LOSSES:
        parser.error(f"--rounds: no fewer than {LOSSES}")
    load = os.getloadavg()[0]
    rows = [
        compare(options.program, preset, lengths, int(threads), options.rounds)
        for preset in options.models.split(",")
        for lengths in options.lengths.split(",")
        for threads in options.threads.split(",")
    ]
    command = f"bench/train/train_steps.py bench_train_step --rounds {options.rounds}"
    head = {"machine": machine(), "command": command, "torch": torch.__version__, "load": round(load, 1)}
    head |= {"rounds": options.rounds - UNCOUNTED}
    print_rows(head, rows)


if __name__ == "__main__":
    main()
