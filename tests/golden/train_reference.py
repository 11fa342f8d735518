#!/usr/bin/env python3
"""Ten steps of small DeepSpeech2 models in PyTorch, which the trainer's steps must equal.

    train_reference.py            the losses, on stdout
    train_reference.py --write    make train/ beside this file anew

The layers are PyTorch's (Conv2d, BatchNorm, LSTM and GRU over packed sequences, ctc_loss, SGD,
AdamW), all in float64, put together and masked as deepspeech.pytorch does. BN `masked` is written
out here: statistics of real frames only. Initial weights are drawn like in spsh__model_init, from a
seed and names.

train/steps.txt, one item a line; a line with # is a comment:

    case NAME                    a new model
    shape INPUTS CHANNELS LAYERS CELL HIDDEN BIDIRECTIONAL LOOKAHEAD OUTPUTS COMPAT SEED
                                 CELL: lstm or gru; flags: 0 or 1; SEED of the weights
    optimiser sgd RATE MOMENTUM NESTEROV DECAY
    optimiser adamw RATE BETA1 BETA2 EPSILON DECAY
    batch BATCH FRAMES           BATCH x FRAMES x INPUTS features are next in values.f32
    fill NAME VALUE              initial value of all weights of a slice
    utterance LENGTH LABEL...    one line each
    gradient NAME COUNT          of the first step: COUNT values, next in values.f32
    loss VALUE                   before a step, ten of them: sum over feasible utterances / BATCH
    evaluation VALUE             the same after the ten, with running statistics

values.f32: float32, little-endian.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FOLDER = Path(__file__).resolve().parent / "train"
MASK = (1 << 64) - 1
STEPS = 10
BLANK = 0

# ------------------------------------------------------------------------------------------- beginnings


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def mix_all(z):
    """mix() for an array of uint64, whose products wrap."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def draw(seed, name, count, bound):
    """Uniform floats of spsh__model_init."""
    key = mix((seed + mix(fnv(name))) & MASK)
    z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = mix_all(z) >> np.uint64(40)
    return (bound * ((2 * bits.astype(np.float64) + 1) / (1 << 24) - 1)).astype(np.float32)


# ------------------------------------------------------------------------------------------------ model


class Norm(nn.Module):
    """BN over the channels of dimension 1; `counts` marks the real frames."""

    def __init__(self, channels, compat):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self.compat = compat

    def forward(self, x, counts):
        if self.compat:
            return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, self.training, 0.1, 1e-5)
        shape = [1, -1] + [1] * (x.dim() - 2)
        others = [d for d in range(x.dim()) if d != 1]
        mean, variance = self.mean, self.variance
        if self.training:
            counts = counts.expand_as(x)
            n = counts[:, 0].sum()
            mean = (x * counts).sum(others) / n
            variance = (((x - mean.view(shape)) * counts) ** 2).sum(others) / n
            with torch.no_grad():
                self.mean += 0.1 * (mean - self.mean)
                self.variance += 0.1 * (variance * n / (n - 1) - self.variance)
        scale = 1 / torch.sqrt(variance + 1e-5)
        return (x - mean.view(shape)) * (scale * self.weight).view(shape) + self.bias.view(shape)


class DS2(nn.Module):
    def __init__(self, inputs, channels, layers, cell, hidden, bidirectional, lookahead, outputs, compat):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, (41, 11), (2, 2), (20, 5))
        self.conv2 = nn.Conv2d(channels, channels, (21, 11), (2, 1), (10, 5))
        self.conv_norms = nn.ModuleList(Norm(channels, compat) for _ in range(2))
        width = channels * ((((inputs - 1) // 2 + 1) - 1) // 2 + 1)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.rnns = nn.ModuleList(
            kind(hidden if i else width, hidden, bidirectional=bool(bidirectional)) for i in range(layers)
        )
        self.rnn_norms = nn.ModuleList(Norm(hidden, compat) for _ in range(layers - 1))
        self.lookahead = nn.Conv1d(hidden, hidden, lookahead, groups=hidden, bias=False) if lookahead else None
        self.output_norm = Norm(hidden, compat)
        self.output = nn.Linear(hidden, outputs, bias=False)

    def slices(self):
        """Name in the trainer, parameter, bound of its uniform initial values (0: unchanged),
        whether it decays."""
        for name, conv in (("conv1", self.conv1), ("conv2", self.conv2)):
            bound = 1 / math.sqrt(conv.weight[0].numel())
            yield f"{name}.weight", conv.weight, bound, True
            yield f"{name}.bias", conv.bias, bound, False
        norms = [("conv1", self.conv_norms[0]), ("conv2", self.conv_norms[1]), ("output", self.output_norm)]
        norms += [(f"rnn{i + 2}", norm) for i, norm in enumerate(self.rnn_norms)]
        for name, norm in norms:
            yield f"{name}.norm.weight", norm.weight, 0, False
            yield f"{name}.norm.bias", norm.bias, 0, False
        for i, rnn in enumerate(self.rnns):
            bound = 1 / math.sqrt(rnn.hidden_size)
            for direction, suffix in (("forward", ""), ("backward", "_reverse"))[: 2 if rnn.bidirectional else 1]:
                for part in ("w_ih", "w_hh", "b_ih", "b_hh"):
                    theirs = part.replace("w_", "weight_").replace("b_", "bias_") + "_l0" + suffix
                    yield f"rnn{i + 1}.{direction}.{part}", getattr(rnn, theirs), bound, part[0] == "w"
        if self.lookahead is not None:
            bound = 1 / math.sqrt(self.lookahead.kernel_size[0])
            yield "lookahead.weight", self.lookahead.weight, bound, True
        yield "output.weight", self.output.weight, 1 / math.sqrt(self.output.in_features), True

    def begin(self, seed):
        with torch.no_grad():
            for name, parameter, bound, _ in self.slices():
                if bound:
                    values = draw(seed, name, parameter.numel(), bound).astype(np.float64)
                    parameter.copy_(torch.from_numpy(values).view_as(parameter))

    def forward(self, features, lengths):
        """features [N][T][F], zero after lengths; returns logits [T'][N][V] and their lengths."""
        x = features.transpose(1, 2).unsqueeze(1)
        lengths = (lengths + 1) // 2
        frames = (features.shape[1] + 1) // 2
        real = (torch.arange(frames)[None, :] < lengths[:, None]).to(x)
        for conv, norm in zip((self.conv1, self.conv2), self.conv_norms):
            x = conv(x)
            counts = real[:, None, None, :].to(x)  # in 16 bits if autocast convolves in 16 bits
            x = norm(x * counts, counts) * counts
            x = F.hardtanh(x, 0, 20)
        x = x.flatten(1, 2).permute(2, 0, 1)
        rows = real.t()[..., None]
        for i, rnn in enumerate(self.rnns):
            if i:
                x = self.norm_rows(self.rnn_norms[i - 1], x, rows)
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            x, _ = nn.utils.rnn.pad_packed_sequence(rnn(packed)[0], total_length=frames)
            if rnn.bidirectional:
                x = x[..., : rnn.hidden_size] + x[..., rnn.hidden_size :]
        if self.lookahead is not None:
            context = self.lookahead.kernel_size[0]
            x = F.hardtanh(self.lookahead(F.pad(x.permute(1, 2, 0), (0, context - 1))), 0, 20).permute(2, 0, 1)
        return self.output(self.norm_rows(self.output_norm, x, rows)), lengths

    @staticmethod
    def norm_rows(norm, x, rows):
        flat = x.reshape(-1, x.shape[-1])
        return norm(flat, rows.reshape(-1, 1)).view_as(x)


# ------------------------------------------------------------------------------------------------ cases

CASES = [
    # shape: inputs, channels, layers, cell, hidden, bidirectional, lookahead, outputs, compat, seed
    {
        "name": "lstm-masked",
        "shape": (11, 2, 2, "lstm", 6, 1, 0, 5, 0, 1),
        "optimiser": ("sgd", 0.05, 0.9, 1, 1e-2),
        "lengths": [25, 18, 9, 14],
        "labels": [[1, 2, 2, 3], [4, 1, 3], [2], []],
    },
    {
        "name": "gru-lookahead-compat",
        "shape": (8, 2, 2, "gru", 7, 0, 4, 5, 1, 2),
        "optimiser": ("adamw", 0.01, 0.9, 0.999, 1e-8, 0.1),
        "lengths": [17, 24, 5],
        "labels": [[3, 1], [2, 2, 4, 1], [1, 1, 2]],  # the last is infeasible
    },
    {
        "name": "lstm-compat",
        "shape": (9, 1, 3, "lstm", 5, 1, 0, 4, 1, 3),
        "fill": {"conv1.norm.weight": 12.0},  # much is clipped
        "optimiser": ("sgd", 0.05, 0.0, 0, 0.0),
        "lengths": [12, 22],
        "labels": [[1, 3], [2, 1, 1, 3]],
    },
]


def number(value):
    return repr(value) if isinstance(value, float) else str(value)


def loss_of(model, features, lengths, labels):
    logits, out = model(features, lengths)
    flat = torch.tensor([label for one in labels for label in one], dtype=torch.long)
    counts = torch.tensor([len(one) for one in labels])
    losses = F.ctc_loss(
        logits.log_softmax(-1), flat, out, counts, blank=BLANK, reduction="none", zero_infinity=True
    )
    return losses.sum() / len(labels)


def make_optimiser(model, words):
    kind, rate, *rest = words
    decay = rest[-1]
    groups = [
        {"params": [p for _, p, _, decays in model.slices() if decays], "weight_decay": decay},
        {"params": [p for _, p, _, decays in model.slices() if not decays], "weight_decay": 0.0},
    ]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=rest[0], nesterov=bool(rest[1]))
    return torch.optim.AdamW(groups, lr=rate, betas=(rest[0], rest[1]), eps=rest[2])


def run(case, lines, values):
    *shape, seed = case["shape"]
    model = DS2(*shape)
    model.begin(seed)
    fills = case.get("fill", {})
    with torch.no_grad():
        for name, parameter, _, _ in model.slices():
            if name in fills:
                parameter.fill_(fills[name])
    batch, frames, inputs = len(case["lengths"]), max(case["lengths"]), shape[0]
    floats = draw(seed, "features", batch * frames * inputs, 2.0).reshape(batch, frames, inputs)
    lengths = torch.tensor(case["lengths"])
    for n, length in enumerate(case["lengths"]):
        floats[n, length:] = 0
    features = torch.from_numpy(floats.astype(np.float64))

    lines.append(f"case {case['name']}")
    lines.append("shape " + " ".join(number(value) for value in case["shape"]))
    lines.append("optimiser " + " ".join(number(value) for value in case["optimiser"]))
    lines.append(f"batch {batch} {frames}")
    lines += [f"fill {name} {number(value)}" for name, value in fills.items()]
    values.append(floats.ravel())
    for length, labels in zip(case["lengths"], case["labels"]):
        lines.append(" ".join(["utterance", str(length)] + [str(label) for label in labels]))
    optimiser = make_optimiser(model, case["optimiser"])
    for step in range(STEPS):
        optimiser.zero_grad()
        loss = loss_of(model, features, lengths, case["labels"])
        loss.backward()
        if step == 0:
            for name, parameter, _, _ in model.slices():
                lines.append(f"gradient {name} {parameter.numel()}")
                values.append(parameter.grad.numpy().ravel().astype(np.float32))
        lines.append(f"loss {loss.item()!r}")
        optimiser.step()
    model.eval()
    with torch.no_grad():
        lines.append(f"evaluation {loss_of(model, features, lengths, case['labels']).item()!r}")


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    lines = ["# Made by train_reference.py, which says what the lines mean."]
    values = []
    for case in CASES:
        run(case, lines, values)
    if "--write" in sys.argv[1:]:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "steps.txt").write_text("\n".join(lines) + "\n")
        np.concatenate(values).astype("<f4").tofile(FOLDER / "values.f32")
    else:
        print("\n".join(line for line in lines if line.split()[0] in ("case", "loss", "evaluation")))


if __name__ == "__main__":
    main()
