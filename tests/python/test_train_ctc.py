"""The training programs of recipes/pytorch and recipes/hugging-face learn to spell words of made
tones."""

import array
import math
import os
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
    import transformers  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; tools/install-python.sh frameworks installs it", file=sys.stderr)
    sys.exit(77)

RECIPES = Path(__file__).parents[2] / "recipes"
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
    @classmethod
    def setUpClass(cls):
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
        cls.dataset = support.work_dir() / "tones.spsh"
        speechshard.pack(corpus / "words.tsv", cls.dataset)

    def losses(self, pattern, program, *words):
        command = [sys.executable, RECIPES / program, self.dataset, *words]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # several wait for each other on a busy machine
        run = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=support.work_dir(), env=one_thread
        )
        return [float(loss) for loss in re.findall(pattern, run.stdout)]

    def test_pytorch_loop(self):
        losses = self.losses(r"loss (\S+)", "pytorch/train_ctc.py", "20")
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0] / 4)

    def test_trainer_with_a_resume_in_the_middle(self):
        def train(run, epochs):
            return self.losses(r"{'loss': '?([^',]+)", "hugging-face/train_parakeet.py", run, epochs)

        losses = train("whole", "20")
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0] / 4)
        self.assertEqual(train("parts", "2") + train("parts", "4"), losses[:4])


if __name__ == "__main__":
    unittest.main()
