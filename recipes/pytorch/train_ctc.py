"""train_ctc.py DATASET [EPOCHS]: train a small recognizer with PyTorch on the split "train" of a
packed dataset.

Prints the mean CTC loss of each epoch. The network learns to spell: its symbols are a to z, ' and
the blank between words.
"""

import sys

import torch
from speechshard.torch import IterableDataset
from torch import nn
from torch.utils.data import DataLoader

FEATURES = "whisper-logmel,mel_count=40,sample_rate_hz=8000"
LETTERS = {letter: i + 1 for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz' ")}  # 0: CTC's blank


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.subsample = nn.Conv1d(40, 128, 3, stride=2, padding=1)
        self.context = nn.GRU(128, 128, batch_first=True, bidirectional=True)
        self.output = nn.Linear(256, len(LETTERS) + 1)

    def forward(self, features, frames):
        hidden = torch.relu(self.subsample(features.transpose(1, 2))).transpose(1, 2)
        return self.output(self.context(hidden)[0]).log_softmax(-1), (frames + 1) // 2


def spell(text):
    return torch.tensor([LETTERS[c] for c in text.lower() if c in LETTERS])


def main(dataset, epochs=8):
    torch.manual_seed(1)
    speech = IterableDataset(dataset, splits="train", seed=1, features=FEATURES, max_padded_seconds=15)
    model = Recognizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        losses = []
        for batch in DataLoader(speech, batch_size=None):
            labels = [spell(text) for text in batch["texts"]]
            scores, lengths = model(batch["features"], batch["frames"])
            label_lengths = torch.tensor([len(label) for label in labels])
            loss = nn.functional.ctc_loss(scores.transpose(0, 1), torch.cat(labels), lengths, label_lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
