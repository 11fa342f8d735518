"""recipes/pytorch/train_ctc.py learns to spell words of made tones."""

import array
import math
import random
import re
import subprocess
import sys
import unittest
import wave
from pathlib import Path

import support  # first: it skips if the package is missing
import speechshard

try:
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; tools/install-python.sh frameworks installs it", file=sys.stderr)
    sys.exit(77)

PROGRAM = Path(__file__).parents[2] / "recipes/pytorch/train_ctc.py"
RATE = 8000
TONES = {"a": 400, "b": 800, "c": 1600, "d": 3200}


def word_samples(word):
    samples = array.array("h")
    for letter in word:
        step = 2 * math.pi * TONES[letter] / RATE
        samples.extend(int(8000 * math.sin(step * i)) for i in range(RATE // 6))
        samples.extend([0] * (RATE // 20))
    return samples


class TrainTest(unittest.TestCase):
    def test_loss_falls(self):
        draw = random.Random(1)
        corpus = support.work_dir() / "tones"
        corpus.mkdir()
        rows = ["path\ttext\tsplit"]
        for number in range(120):
            word = "".join(draw.choices("abcd", k=draw.randint(2, 5)))
            with wave.open(str(corpus / f"{number}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(word_samples(word).tobytes())
            rows.append(f"{number}.wav\t{word}\ttrain")
        (corpus / "words.tsv").write_text("\n".join(rows) + "\n")
        dataset = support.work_dir() / "tones.spsh"
        speechshard.pack(corpus / "words.tsv", dataset)
        run = subprocess.run([sys.executable, PROGRAM, dataset, "20"], check=True, stdout=subprocess.PIPE, text=True)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", run.stdout)]
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0] / 4)


if __name__ == "__main__":
    unittest.main()
