#!/usr/bin/env python3
"""Compare our CTC loss and gradient with PyTorch's, in alternating rounds on one machine.

    ctc.py BENCH_TRAIN_CTC [--rounds N] [--shapes FRAMESxBATCHxSYMBOLSxLABELS,...] > bench/results/train-ctc.json
    ctc.py BENCH_TRAIN_CTC --cuda PLUGIN [--library-path PATHS] ...                     on the first GPU

Both compute the gradient of the logits from the same logits, for all utterances of a batch. In
PyTorch, this is log_softmax, ctc_loss, and both backward passes. Sums of losses must agree
(LOSS_BANDS, relative). Each runs in a separate process with one thread; a round repeats the
computation until it takes about a fifth of a second. Median and range of a batch's milliseconds. On
a GPU logits, gradients and PyTorch's labels are in its memory, and each time ends when the host has
the loss. PATHS: the library path for ours (LD_LIBRARY_PATH; PyTorch has its own).
"""

import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

from results import machine, parser_of, print_rows
from train_steps import Peer, cpu_s, draw, figure, ratio

ROUND_MS = 200
SHAPES = "50x16x29x12,400x16x29x64,400x16x1024x40,1500x8x29x220"
NAMES = ("frames", "batch", "symbols", "labels")  # labels: per utterance
LOSS_BANDS = {"cpu": 1e-5, "cuda": 1e-4}  # on a GPU PyTorch adds up logarithms in float, in its own order


def serve(words):
    """Serve PyTorch's loss, like bench_train_ctc.c."""
    frames, batch, symbols, labels = (int(word) for word in words[:4])
    device = words[4]
    torch.set_num_threads(1)
    bits = (draw(1, frames * batch * symbols) >> np.uint64(40)).astype(np.float32)
    logits = torch.from_numpy(bits / np.float32(1 << 23) - np.float32(1)).view(frames, batch, symbols)
    logits = logits.to(device).requires_grad_()
    targets = torch.from_numpy((1 + draw(3, batch * labels) % np.uint64(symbols - 1)).astype(np.int64)).to(device)
    lengths, counts = torch.full((batch,), frames), torch.full((batch,), labels)
    for line in sys.stdin:
        begin, begin_cpu = time.monotonic(), cpu_s()
        for _ in range(int(line)):
            logits.grad = None
            each = F.ctc_loss(logits.log_softmax(-1), targets, lengths, counts, reduction="sum", zero_infinity=True)
            each.backward()
            loss = each.item()
        if device == "cuda":
            torch.cuda.synchronize()
        print((time.monotonic() - begin) * 1e3, (cpu_s() - begin_cpu) * 1e3, loss, flush=True)


class CtcPeer(Peer):
    def losses_of(self, count):
        self.process.stdin.write(f"{count}\n")
        numbers = self.numbers()
        if len(numbers) != 3:
            raise SystemExit(f"ctc.py: {self.process.args[0]} gave up")
        ms, cpu_ms, loss = numbers
        self.ms.append(ms / count)
        self.cpu_ms.append(cpu_ms / count)
        return loss


def compare(options, shape):
    words = shape.split("x")
    ours = [options.program, *words, 1] + (["cuda", options.cuda] if options.cuda else [])
    theirs = [sys.executable, __file__, "--serve", *words, options.device]
    peers = [CtcPeer(ours, options.library_path), CtcPeer(theirs)]
    losses = [peer.losses_of(2) for peer in peers]
    for peer in peers:
        peer.losses_of(2)
    counts = [max(1, int(ROUND_MS / peer.ms[-1])) for peer in peers]
    for _ in range(options.rounds):
        for peer, count in zip(peers, counts):
            peer.losses_of(count)
    for peer in peers:
        peer.close()
    ours, theirs = peers
    row = dict(zip(NAMES, map(int, words)))
    row["losses_differ"] = float(f"{abs(losses[0] - losses[1]) / abs(losses[1]):.2g}")
    row["losses_agree"] = row["losses_differ"] <= LOSS_BANDS[options.device]
    row |= {"ours_ms": figure(ours.ms, 3), "torch_ms": figure(theirs.ms, 3)}
    row |= {"ours_cpu_ms": figure(ours.cpu_ms, 3), "torch_cpu_ms": figure(theirs.cpu_ms, 3)}
    row |= {"torch_to_ours": ratio(theirs.ms, ours.ms), "torch_to_ours_cpu": ratio(theirs.cpu_ms, ours.cpu_ms)}
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def main():
    parser = parser_of(serve, 7)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--cuda", metavar="PLUGIN")
    parser.add_argument("--library-path")
    options = parser.parse_args()
    options.device = "cuda" if options.cuda else "cpu"
    if options.cuda and not torch.cuda.is_available():
        print('{"measured": false, "reason": "PyTorch finds no CUDA device"}')
        return
    rows = [compare(options, shape) for shape in options.shapes.split(",")]
    command = f"bench/train/ctc.py bench_train_ctc --rounds {options.rounds}"
    head = {"machine": machine(), "command": command, "torch": torch.__version__, "rounds": options.rounds}
    if options.cuda:
        head = {"measured": True, "device": torch.cuda.get_device_name()} | head
    print_rows(head, rows)
    if not all(row["losses_agree"] for row in rows):
        raise SystemExit("ctc.py: sums of losses differ by more than their band")


if __name__ == "__main__":
    main()
