#!/usr/bin/env python3
"""A step of training DeepSpeech2 on a GPU by ours and by PyTorch, in turns, on one device.

    gpu_steps.py BENCH_TRAIN_STEP PLUGIN [--rounds N] [--batches 16,32,64,128] [--precisions fp32,tf32,bf16,fp16]
             [--lengths equal,varied] [--model full] [--library-path PATHS] > bench/results/gpu-steps.json

The same weights, the same batch (bench/train/bench_train_step.c describes it), features in the
device's memory. Two peers, both the model of tests/golden/train_reference.py:

    published   as deepspeech.pytorch has it: masks, packed sequences, autocast and GradScaler in 16 bits, SGD
    tuned       equal lengths: nothing packed or masked; varied: packed; torch.compile around convolutions, norms and
                the last product, where it works (`tuned_is_compiled`: it needs a C compiler); fused SGD;
                cudnn.benchmark; gradients set to None; CTC on the device

The first LOSSES losses of each must agree with ours, within the relative tolerance that LOSS_BANDS
states for the precision. Each program runs in a separate process. A round is STEPS steps of each,
and the first UNCOUNTED rounds are not counted. Times are elapsed times of whole steps, including
reading the loss at the end. `padding` is the share of padding in all frames. `peak_mib` is the peak
of its allocator for PyTorch, and the decrease of the device's free memory for ours (including
handles and modules). PATHS: the library path for ours (LD_LIBRARY_PATH; PyTorch has its own).
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

# train_steps.py and results.py are in bench/train, train_reference.py in tests/golden.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "train"), str(ROOT / "tests" / "golden")]
import train_reference  # noqa: E402
from results import machine, parser_of, print_rows  # noqa: E402
from train_steps import LABEL_FRAMES, OUTPUTS, Peer, draw  # noqa: E402

INPUTS, FRAMES = 161, 1500
LOSSES = 10
LOSS_BANDS = {"fp32": 1e-4, "tf32": 5e-3, "bf16": 5e-2, "fp16": 2e-2}
STEPS, UNCOUNTED = 5, 4
LOSS_SCALE = 1024  # as in bench_train_step.c: PyTorch's 65,536 might skip the first steps, and so change all losses

# our preset: channels, layers, cell, hidden, bidirectional, lookahead
MODELS = {"full": ("ds2", (32, 5, "lstm", 1024, 1, 0)), "small": ("ds2-small", (32, 3, "lstm", 256, 1, 0))}


class Plain(train_reference.DS2):
    """Equal lengths: no packing, no masks. Varied lengths: packed sequences, masks only after the
    norms."""

    def stem(self, features):
        x = features.transpose(1, 2).unsqueeze(1)
        for conv, norm in zip((self.conv1, self.conv2), self.conv_norms):
            x = F.hardtanh(norm(conv(x), None), 0, 20)
        return x.flatten(1, 2).permute(2, 0, 1)

    def head(self, x):
        return self.output(self.norm_rows(self.output_norm, x, x[..., :1]))

    def forward(self, features, lengths):
        out = (lengths + 1) // 2
        x = self.stem(features)
        for i, rnn in enumerate(self.rnns):
            if i:
                x = self.norm_rows(self.rnn_norms[i - 1], x, x[..., :1])
            if self.is_packed:
                packed = torch.nn.utils.rnn.pack_padded_sequence(x, out, enforce_sorted=False)
                x = torch.nn.utils.rnn.pad_packed_sequence(rnn(packed)[0], total_length=x.shape[0])[0]
            else:
                x = rnn(x)[0]
            x = x[..., : rnn.hidden_size] + x[..., rnn.hidden_size :]
        return self.head(x), out


class Torch:
    def __init__(self, kind, model, batch, lengths, precision):
        self.precision = precision
        self.is_tuned = kind == "tuned"
        is_tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = is_tf32
        torch.backends.cudnn.allow_tf32 = is_tf32
        torch.backends.cudnn.benchmark = self.is_tuned
        shape = MODELS[model][1]
        self.model = (Plain if self.is_tuned else train_reference.DS2)(INPUTS, *shape, OUTPUTS, True)
        self.model.begin(1)
        self.model.is_packed = lengths == "varied"
        self.model = self.model.cuda()
        bits = (draw(1, batch * FRAMES * INPUTS) >> np.uint64(40)).astype(np.float32)
        features = torch.from_numpy(bits / np.float32(1 << 23) - np.float32(1)).view(batch, FRAMES, INPUTS)
        less = draw(2, batch) % np.uint64(FRAMES // 2) * np.uint64(lengths == "varied")
        self.lengths = torch.from_numpy(FRAMES - less.astype(np.int64))
        for n, length in enumerate(self.lengths):
            features[n, length:] = 0
        self.features = features.cuda()
        self.counts = self.lengths // LABEL_FRAMES
        labels = 1 + draw(3, int(self.counts.sum())) % np.uint64(OUTPUTS - 1)
        self.labels = torch.from_numpy(labels.astype(np.int64)).cuda()
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=2e-5, momentum=0.9, nesterov=True, fused=self.is_tuned
        )
        self.scaler = torch.amp.GradScaler("cuda", init_scale=LOSS_SCALE, enabled=precision == "fp16")
        self.dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
        self.is_compiled = self.is_tuned and self.compile()

    def compile(self):
        """Compile, and try one backward pass, whose gradients are not used. Return whether it
        works."""
        plain = self.model.stem, self.model.head
        self.model.stem, self.model.head = (torch.compile(part) for part in plain)
        try:
            self.loss().backward()
        except Exception as error:  # each of several compilers may raise any exception
            print(f"gpu_steps.py: torch.compile does not work here: {error}", file=sys.stderr)
            self.model.stem, self.model.head = plain
        self.optimiser.zero_grad(set_to_none=True)
        return self.model.stem is not plain[0]

    def loss(self):
        with torch.autocast("cuda", self.dtype, enabled=self.dtype is not None):
            logits, out = self.model(self.features, self.lengths)
        log_softmax = logits.float().log_softmax(-1)
        each = F.ctc_loss(log_softmax, self.labels, out, self.counts, reduction="none", zero_infinity=True)
        return each.sum() / len(self.lengths)

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return loss.item()


def serve(words):
    """Like bench_train_step.c: counts from stdin, one line of numbers for each. The first line
    states whether the model is compiled."""
    kind, model, batch, lengths, precision = words
    peer = Torch(kind, model, int(batch), lengths, precision)
    print(int(peer.is_compiled), flush=True)
    for line in sys.stdin:
        begin = time.monotonic()
        losses = [peer.step() for _ in range(int(line))]
        ms = (time.monotonic() - begin) * 1e3
        print(ms, 0, torch.cuda.max_memory_reserved() / (1 << 20), *losses, flush=True)


def figure(values, digits=2):
    return {"median": round(statistics.median(values), digits), "range": [round(f(values), digits) for f in (min, max)]}


def compare(options, precision, batch, lengths):
    preset = MODELS[options.model][0]
    ours = [options.program, preset, INPUTS, OUTPUTS, batch, FRAMES, lengths, 1, "cuda", precision, options.plugin]
    peers = {"ours": Peer(ours, options.library_path)}
    peers["ours"].steps(STEPS)  # no other process uses the device, so its memory use is exact
    ours_peak_mib = peers["ours"].peak_mib
    for kind in ("published", "tuned"):
        words = [kind, options.model, batch, lengths, precision]
        peers[kind] = Peer([sys.executable, __file__, "--serve", *words])
        is_compiled = peers[kind].numbers() == [1]
        peers[kind].steps(STEPS)
    for _ in range(options.rounds + UNCOUNTED - 1):
        for peer in peers.values():
            peer.steps(STEPS)
    for peer in peers.values():
        peer.close()
    row = {"precision": precision, "batch": batch, "frames": FRAMES, "lengths": lengths}
    row["tuned_is_compiled"] = is_compiled
    less = draw(2, batch) % np.uint64(FRAMES // 2) * np.uint64(lengths == "varied")
    row["padding"] = round(float(less.sum()) / (batch * FRAMES), 3)
    times = {name: peer.ms[UNCOUNTED:] for name, peer in peers.items()}
    for name, peer in peers.items():
        row[f"{name}_ms"] = figure(times[name])
        row[f"{name}_peak_mib"] = round(ours_peak_mib if name == "ours" else peer.peak_mib)
    seconds = (batch * FRAMES - float(less.sum())) / 100
    row["audio_s_per_s"] = round(seconds / (statistics.median(times["ours"]) * 1e-3))
    for kind in ("published", "tuned"):
        pairs = list(zip(peers["ours"].losses, peers[kind].losses))[:LOSSES]
        row[f"{kind}_losses_differ"] = float(f"{max(abs(a - b) / abs(b) for a, b in pairs):.2g}")
        row[f"{kind}_to_ours"] = figure([a / b for a, b in zip(times[kind], times["ours"])], 3)
    row["losses_agree"] = all(row[f"{kind}_losses_differ"] <= LOSS_BANDS[precision] for kind in ("published", "tuned"))
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def main():
    parser = parser_of(serve, 20)
    parser.add_argument("plugin")
    parser.add_argument("--batches", default="16,32,64,128")
    parser.add_argument("--precisions", default="fp32,bf16,fp16")
    parser.add_argument("--lengths", default="equal")
    parser.add_argument("--model", choices=MODELS, default="full")
    parser.add_argument("--library-path")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print('{"measured": false, "reason": "PyTorch finds no CUDA device"}')
        return
    rows = [
        compare(options, precision, int(batch), lengths)
        for lengths in options.lengths.split(",")
        for batch in options.batches.split(",")
        for precision in options.precisions.split(",")
    ]
    head = {"measured": True, "machine": machine(), "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    head |= {"cudnn": torch.backends.cudnn.version(), "rounds": options.rounds, "steps_a_round": STEPS}
    print_rows(head, rows)
    if not all(row["losses_agree"] for row in rows):
        raise SystemExit("gpu_steps.py: losses differ by more than their band")


if __name__ == "__main__":
    main()
