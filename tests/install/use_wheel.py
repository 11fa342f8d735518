"""use_wheel.py: a user's first program with a wheel: pack, dedupe, load, compute features, and
train, without the command.

use-wheel.sh runs it in an environment that has only the wheel. The corpus is WAV files of noise:
one of them is a copy.
"""

import random
import wave
from pathlib import Path

import speechshard

RATE = 16000
WORDS = ("one", "two", "three", "four")

corpus = Path("small")
corpus.mkdir()
draw = random.Random(1)
for number, word in enumerate((*WORDS, WORDS[0])):
    samples = b"" if number < len(WORDS) else (corpus / "0.wav").read_bytes()[44:]
    with wave.open(str(corpus / f"{number}.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples or draw.randbytes(2 * RATE * (number + 2)))
    (corpus / f"{number}.txt").write_text(word + "\n")

report = speechshard.pack(corpus, "small.spsh", dedupe="none")
assert report.packed == 5 and report.ok, report
assert speechshard.verify("small.spsh").ok
found = speechshard.dedupe("small.spsh", "small.plan")
assert [sorted(member.id for member in cluster.members) for cluster in found.clusters] == [["0", "4"]], found
speechshard.apply("small.plan")
loaded = sorted(id for batch in speechshard.Loader("small.spsh", max_seconds=60) for id in batch.ids)
assert len(loaded) == 4 and loaded[1:3] == ["1", "2"], loaded

speechshard.featgen("small.spsh", "features.spsh", features="kaldi-fbank,mel_count=16")
batch = next(iter(speechshard.Loader("features.spsh", output="features", max_padded_seconds=60)))
assert len(batch) == 4 and batch.features.shape[2] == 16, batch.features.shape

Path("small.yaml").write_text(
    "vocabulary: small.vocabulary\nfeatures: kaldi-fbank,mel_count=16\n"
    "data:\n  train: small.spsh\n  max_padded_seconds: 60\nmodel:\n  preset: ds2-tiny\n  hidden: 8\ntrain:\n  epochs: 1\n"
)
speechshard.make_vocab("small.yaml")
speechshard.train("small.yaml", "small.run")
assert Path("small.run/latest").exists()
print("   from Python: 5 files packed, 1 copy skipped, features of 4, 1 epoch trained")
