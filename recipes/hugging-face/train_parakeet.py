"""train_parakeet.py DATASET RUN [EPOCHS]: train a small Parakeet with Hugging Face's Trainer on the
split "train" of a dataset.

The Trainer prints the mean CTC loss of each epoch, and saves checkpoints in the folder RUN. If it
has one, training resumes. The symbols are a to z, ' and the blank between words.
"""

import sys
from pathlib import Path

import torch
from speechshard.torch import IterableDataset
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import ParakeetCTCConfig, ParakeetForCTC, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

FEATURES = "whisper-logmel,mel_count=40,sample_rate_hz=8000"
LETTERS = {letter: i + 1 for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz' ")}  # 0: CTC's blank
ENCODER = {
    "num_mel_bins": 40, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192,
    "subsampling_factor": 4, "subsampling_conv_channels": 32, "layerdrop": 0.0,
}


def to_inputs(batch):
    """Make the arguments of the model from a batch of the loader."""
    labels = [torch.tensor([LETTERS[c] for c in text.lower() if c in LETTERS]) for text in batch.texts]
    features, frames = torch.from_dlpack(batch.features), torch.from_dlpack(batch.frames)
    mask = torch.arange(features.shape[1]) < frames[:, None]
    return {"input_features": features, "attention_mask": mask, "labels": pad_sequence(labels, batch_first=True)}


class SpeechTrainer(Trainer):
    """A Trainer whose dataset makes whole batches, for this rank only."""

    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=None)


class SetEpoch(TrainerCallback):
    """Tells the loader which epoch begins, for the order of its batches after a resume."""

    def on_epoch_begin(self, args, state, control, train_dataloader, **others):
        train_dataloader.dataset.set_epoch(int(state.epoch))


def main(dataset, run, epochs=8):
    set_seed(1)
    args = TrainingArguments(
        output_dir=run, num_train_epochs=epochs, learning_rate=2e-3, warmup_steps=20, save_strategy="epoch", save_total_limit=1,
        lr_scheduler_type="constant_with_warmup", logging_strategy="epoch", report_to="none", disable_tqdm=True,
    )
    speech = IterableDataset(
        dataset, transform=to_inputs, splits="train", seed=1, features=FEATURES, max_padded_seconds=15,
        rank=args.process_index, world_size=args.world_size,
    )
    model = ParakeetForCTC(ParakeetCTCConfig(vocab_size=len(LETTERS) + 1, pad_token_id=0, encoder_config=ENCODER))
    trainer = SpeechTrainer(model=model, args=args, train_dataset=speech, callbacks=[SetEpoch()])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(run) if Path(run).exists() else None)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
