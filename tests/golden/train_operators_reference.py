#!/usr/bin/env python3
"""PyTorch's results for operations that the trainer implements itself, in double precision on a
CPU.

    train_operators_reference.py            compare with train_operators.txt next to this file
    train_operators_reference.py --write    write it again

Element i of input number s is value(i, s) below; the loss is the sum of the outputs times value(i,
90). A line is NAME CHECKSUM: the sum of the elements times value(i, 91). golden_train_torch.c
computes the same checksums.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F

FILE = Path(__file__).resolve().parent / "train_operators.txt"
torch.set_default_dtype(torch.float64)
lines = []


def value(i, salt):
    return ((i * 7919 + salt * 104729) % 1009) / 504.5 - 1


def tensor(salt, *shape):
    count = torch.Size(shape).numel()
    return torch.tensor([value(i, salt) for i in range(count)]).reshape(shape).requires_grad_()


def put(name, x):
    x = x.detach().flatten().tolist()
    lines.append((name, sum(v * value(i, 91) for i, v in enumerate(x))))


def loss(y):
    return (y.flatten() * torch.tensor([value(i, 90) for i in range(y.numel())])).sum()


def put_all(name, y, **inputs):
    loss(y).backward()
    put(f"{name}.y", y)
    for key, x in inputs.items():
        put(f"{name}.{key}", x.grad)


def conv():
    x, weight, bias = tensor(1, 2, 2, 7, 9), tensor(2, 3, 2, 3, 5), tensor(3, 3)
    y = F.conv2d(x, weight, bias, stride=(2, 1), padding=(1, 2))
    put_all("conv", y, dx=x, dweight=weight, dbias=bias)


def norm():
    for name, x in ("norm_conv", tensor(1, 2, 3, 4, 5)), ("norm_rows", tensor(1, 8, 3)):
        mean, variance = torch.zeros(3), torch.ones(3)
        weight, bias = tensor(2, 3), tensor(3, 3)
        y = F.batch_norm(x, mean, variance, weight, bias, training=True, momentum=0.1, eps=1e-5)
        put_all(name, y, dx=x, dweight=weight, dbias=bias)
        put(f"{name}.mean", mean)
        put(f"{name}.variance", variance)
        put(f"{name}.used", F.batch_norm(x, mean, variance, weight, bias, training=False, eps=1e-5))


def norm_masked():
    """Rows [T][N][W] of three utterances: statistics of the rows that are not padding."""
    lengths = [4, 0, 2]
    x, weight, bias = tensor(1, 4, 3, 2), tensor(2, 2), tensor(3, 2)
    real = torch.tensor([[t < lengths[n] for n in range(3)] for t in range(4)])
    y = torch.zeros(4, 3, 2)
    y[real] = F.batch_norm(x[real], None, None, weight, bias, training=True, eps=1e-5)
    put_all("norm_masked", y, dx=x, dweight=weight, dbias=bias)


def layer_with(module, salt):
    """The module's weights from numbers salt, salt + 1 ... in PyTorch's order: input, recurrent,
    biases."""
    for number, weight in enumerate(module.parameters()):
        weight.data = tensor(salt + number, *weight.shape).detach()
    return module


def recurrent():
    for name, kind in ("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU):
        x, layer = tensor(1, 5, 3, 4), layer_with(kind(4, 3), 2)
        y, _ = layer(x)
        put_all(name, y, dx=x, dinput=layer.weight_ih_l0, drecurrent=layer.weight_hh_l0,
                dinput_bias=layer.bias_ih_l0, drecurrent_bias=layer.bias_hh_l0)


def bidirectional():
    """A packed batch, directions summed, as deepspeech.pytorch has it."""
    for name, kind in ("lstm_both", torch.nn.LSTM), ("gru_both", torch.nn.GRU):
        x, layer = tensor(1, 5, 3, 4), layer_with(kind(4, 3, bidirectional=True), 2)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 1, 3]), enforce_sorted=False)
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0], total_length=5)
        y = y.view(5, 3, 2, 3).sum(2)
        put_all(name, y, dx=x, dinput=layer.weight_ih_l0_reverse, drecurrent=layer.weight_hh_l0)


def lookahead():
    x, weight = tensor(1, 6, 2, 3), tensor(2, 3, 1, 4)
    padded = F.pad(x.permute(1, 2, 0), (0, 3))
    y = F.conv1d(padded, weight, groups=3).permute(2, 0, 1)
    put_all("lookahead", y, dx=x, dweight=weight)


def losses():
    x = tensor(1, 6, 5)
    put("log_softmax", F.log_softmax(x, -1))
    loss_of_rows = F.cross_entropy(x, torch.tensor([0, 3, -100, 1, 4, 2]), reduction="sum")
    (2 * loss_of_rows).backward()
    put("cross_entropy", loss_of_rows.reshape(1))
    put("cross_entropy.dx", x.grad)
    x = tensor(1, 9, 3, 5)
    found = F.ctc_loss(F.log_softmax(x, -1), torch.tensor([1, 2, 2, 4, 3]), torch.tensor([9, 5, 7]),
                       torch.tensor([4, 0, 1]), blank=0, reduction="none")
    (found * torch.tensor([1.0, 3.0, 0.5])).sum().backward()
    put("ctc", found)
    put("ctc.dx", x.grad)


def optimisers():
    for name, kind, options in (
            ("sgd", torch.optim.SGD, dict(lr=0.125)),
            ("momentum", torch.optim.SGD, dict(lr=0.125, momentum=0.875, weight_decay=0.25)),
            ("nesterov", torch.optim.SGD, dict(lr=0.125, momentum=0.875, nesterov=True)),
            ("adamw", torch.optim.AdamW, dict(lr=0.0625, betas=(0.875, 0.75), eps=1e-6, weight_decay=0.25))):
        weights = tensor(1, 7)
        optimiser = kind([weights], **options)
        for step in range(3):
            weights.grad = tensor(2 + step, 7).detach()
            optimiser.step()
        put(name, weights)


for function in conv, norm, norm_masked, recurrent, bidirectional, lookahead, losses, optimisers:
    function()
if "--write" in sys.argv:
    FILE.write_text("".join(f"{name} {x:.17g}\n" for name, x in lines))
else:
    kept = [line.split() for line in FILE.read_text().splitlines()]
    assert [name for name, _ in kept] == [name for name, _ in lines]
    for (name, x), (_, want) in zip(lines, kept):
        assert abs(x - float(want)) <= 1e-12 * (1 + abs(x)), (name, x, want)
