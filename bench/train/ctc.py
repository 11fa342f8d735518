#!/usr/bin/env python3
"""The CTC loss and its gradient by ours and by PyTorch, in turns, on one machine.

    ctc.py BENCH_TRAIN_CTC [--rounds N] > bench/results/train-ctc.json

Both go from the same logits to the gradient of the logits, of all utterances of a batch; of PyTorch that is
log_softmax, ctc_loss and both backward. Sums of losses must agree (1e-5 relative). One thread, each a process of its
own; a round is so many times that it takes about a fifth of a second. Median and range of a batch's milliseconds.
"""

import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

from results import machine, parser_of, print_rows
from steps import Peer, cpu_s, draw, figure, ratio

ROUND_MS = 200
# frames, batch, symbols, labels of an utterance
SHAPES = [(50, 16, 29, 12), (400, 16, 29, 64), (400, 16, 1024, 40), (1500, 8, 29, 220)]


def serve(words):
    """As bench_ctc.c."""
    frames, batch, symbols, labels = (int(word) for word in words)
    torch.set_num_threads(1)
    bits = (draw(1, frames * batch * symbols) >> np.uint64(40)).astype(np.float32)
    logits = torch.from_numpy(bits / np.float32(1 << 23) - np.float32(1)).view(frames, batch, symbols)
    logits.requires_grad_()
    targets = torch.from_numpy((1 + draw(3, batch * labels) % np.uint64(symbols - 1)).astype(np.int64))
    lengths, counts = torch.full((batch,), frames), torch.full((batch,), labels)
    for line in sys.stdin:
        begin, begin_cpu = time.monotonic(), cpu_s()
        for _ in range(int(line)):
            logits.grad = None
            loss = F.ctc_loss(logits.log_softmax(-1), targets, lengths, counts, reduction="sum", zero_infinity=True)
            loss.backward()
        print((time.monotonic() - begin) * 1e3, (cpu_s() - begin_cpu) * 1e3, loss.item(), flush=True)


class CtcPeer(Peer):
    def losses_of(self, count):
        self.process.stdin.write(f"{count}\n")
        ms, cpu_ms, loss = self.numbers()
        self.ms.append(ms / count)
        self.cpu_ms.append(cpu_ms / count)
        return loss


def compare(program, shape, rounds):
    words = [str(number) for number in shape]
    peers = [CtcPeer([program, *words, "1"]), CtcPeer([sys.executable, __file__, "--serve", *words])]
    losses = [peer.losses_of(2) for peer in peers]
    if abs(losses[0] - losses[1]) > 1e-5 * abs(losses[1]):
        raise SystemExit(f"ctc.py: {shape}: losses are {losses}")
    counts = [max(1, int(ROUND_MS / peer.ms[0])) for peer in peers]
    for _ in range(rounds + 1):
        for peer, count in zip(peers, counts):
            peer.losses_of(count)
    for peer in peers:
        peer.close()
    ours, theirs = peers
    row = dict(zip(("frames", "batch", "symbols", "labels"), shape))
    row |= {"ours_ms": figure(ours.ms, 3), "torch_ms": figure(theirs.ms, 3)}
    row |= {"ours_cpu_ms": figure(ours.cpu_ms, 3), "torch_cpu_ms": figure(theirs.cpu_ms, 3)}
    row |= {"torch_to_ours": ratio(theirs.ms, ours.ms), "torch_to_ours_cpu": ratio(theirs.cpu_ms, ours.cpu_ms)}
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def main():
    options = parser_of(serve, 7).parse_args()
    rows = [compare(options.program, shape, options.rounds) for shape in SHAPES]
    command = f"bench/train/ctc.py bench_train_ctc --rounds {options.rounds}"
    head = {"machine": machine(), "command": command, "torch": torch.__version__, "rounds": options.rounds}
    print_rows(head, rows)


if __name__ == "__main__":
    main()
