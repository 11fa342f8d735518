#!/usr/bin/env python3
"""A step of training by ours and by PyTorch, in turns, on one machine.

    steps.py BENCH_TRAIN_STEP [--rounds N] [--threads 1,2] [--models tiny,small] > bench/results/train-steps.json

Both begin with the same weights and take the same batch; before anything is timed the first ten losses are
compared (1e-4 relative). PyTorch runs the model of tests/golden/train_reference.py, as a user would tune it: with
equal lengths nothing is packed or masked. BENCH_TRAIN_STEP (bench/train/bench_step.c) says what is in a batch.
A round is so many steps that it takes about a second; median and range of the rounds are printed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
import train_reference  # noqa: E402

GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
LABEL_FRAMES = 8
OUTPUTS = 29
ROUND_S = 1.0

# preset: channels, layers, cell, hidden, bidirectional, lookahead
PRESETS = {
    "tiny": (16, 2, "lstm", 128, 1, 0),
    "small": (32, 3, "lstm", 256, 1, 0),
}
# inputs, batch, frames
BATCHES = {"tiny": (81, 16, 100), "small": (161, 16, 400)}


def draw(sequence, count):
    z = np.uint64(sequence << 32) + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN_RATIO
    return train_reference.mix_all(z)


class Tuned(train_reference.DS2):
    """Of equal lengths: no packing, no masks."""

    def forward(self, features, lengths):
        if lengths.min() < features.shape[1]:
            return super().forward(features, lengths)
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
    def __init__(self, preset, inputs, batch, frames, varied, threads):
        torch.set_num_threads(threads)
        self.model = Tuned(inputs, *PRESETS[preset], OUTPUTS, True)
        self.model.begin(1)
        bits = (draw(1, batch * frames * inputs) >> np.uint64(40)).astype(np.float32)
        self.features = torch.from_numpy(bits / np.float32(1 << 23) - np.float32(1)).view(batch, frames, inputs)
        less = draw(2, batch) % np.uint64(frames // 2) if varied else np.zeros(batch, dtype=np.uint64)
        self.lengths = torch.from_numpy(frames - less.astype(np.int64))
        for n, length in enumerate(self.lengths):
            self.features[n, length:] = 0
        self.counts = self.lengths // LABEL_FRAMES
        labels = 1 + draw(3, int(self.counts.sum())) % np.uint64(OUTPUTS - 1)
        self.labels = torch.from_numpy(labels.astype(np.int64))
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9, nesterov=True)

    def steps(self, count):
        losses = []
        begin = time.monotonic()
        for _ in range(count):
            self.optimiser.zero_grad(set_to_none=True)
            logits, out = self.model(self.features, self.lengths)
            each = F.ctc_loss(logits.log_softmax(-1), self.labels, out, self.counts, reduction="none", zero_infinity=True)
            loss = each.sum() / len(self.lengths)
            loss.backward()
            self.optimiser.step()
            losses.append(loss.item())
        return (time.monotonic() - begin) * 1e3, losses


class Ours:
    def __init__(self, program, preset, inputs, batch, frames, varied, threads):
        words = [program, f"ds2-{preset}", inputs, OUTPUTS, batch, frames, "varied" if varied else "equal", threads]
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        numbers = [float(word) for word in self.process.stdout.readline().split()]
        if len(numbers) != count + 1:
            raise SystemExit("steps.py: the program of ours gave up")
        return numbers[0], numbers[1:]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def times(values):
    return {"median": round(statistics.median(values), 3), "range": [round(min(values), 3), round(max(values), 3)]}


def compare(program, preset, varied, threads, rounds):
    inputs, batch, frames = BATCHES[preset]
    ours = Ours(program, preset, inputs, batch, frames, varied, threads)
    theirs = Torch(preset, inputs, batch, frames, varied, threads)
    losses = [peer.steps(10)[1] for peer in (ours, theirs)]
    difference = max(abs(a - b) / abs(b) for a, b in zip(*losses))
    if not difference <= 1e-4:
        raise SystemExit(f"steps.py: {preset}: losses differ by {difference:g}: {losses}")
    counts = [max(1, int(ROUND_S * 1e3 / (peer.steps(3)[0] / 3))) for peer in (ours, theirs)]
    rows = [[], []]
    for _ in range(rounds):
        for row, peer, count in zip(rows, (ours, theirs), counts):
            row.append(peer.steps(count)[0] / count)
    ours.close()
    return {
        "model": f"ds2-{preset}",
        "batch": batch,
        "frames": frames,
        "inputs": inputs,
        "lengths": "varied" if varied else "equal",
        "threads": threads,
        "losses_differ": float(f"{difference:.2g}"),
        "ours_ms": times(rows[0]),
        "torch_ms": times(rows[1]),
        "torch_to_ours": times([b / a for a, b in zip(*rows)]),
    }


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return f"{platform.machine()}, {os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--models", default="tiny,small")
    options = parser.parse_args()
    rows = [
        compare(options.program, preset, varied, int(threads), options.rounds)
        for preset in options.models.split(",")
        for varied in (False, True)
        for threads in options.threads.split(",")
    ]
    command = f"bench/train/steps.py bench_train_step --rounds {options.rounds}"
    head = {"machine": machine(), "command": command, "torch": torch.__version__, "rounds": options.rounds}
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    print(json.dumps(head, indent=2)[:-2] + ',\n  "rows": [\n' + lines + "\n  ]\n}")


if __name__ == "__main__":
    main()
