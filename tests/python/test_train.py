"""speechshard.train, make_vocab, and featgen: the same bytes as the command's, progress, and a stop that resumes."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import support  # first: it skips where the package is missing
import speechshard

TEXTS = ["one two", "two", "three one", "two three four", "four", "one"]
CONFIG = """vocabulary: words.vocabulary
features: kaldi-fbank,sample_rate_hz=8000,mel_count=16
data:
  train: ["speech.spsh:train"]
  dev: ["speech.spsh:test"]
  max_padded_seconds: 8
model:
  preset: ds2-tiny
train:
  rate: 1e-3
  epochs: 3
"""
TINY = {
    "model.hidden": 8,
    "model.layers": 1,
    "model.conv_channels": 2,
    "train.threads": 1,
    "train.backend": "cpu",
}
WORDS = [f"{key}={value}" for key, value in TINY.items()]


def setUpModule():
    """Paths of a configuration are relative to the working directory."""
    global work
    work = support.work_dir() / "train"
    work.mkdir()
    os.chdir(work)
    rows = ["path\tid\ttext\tsplit\n"]
    for number, text in enumerate(TEXTS * 3):
        clip, pieces = f"clips/{number}.wav", f"{number + 1}:0:{1 + number % 3 / 2}"
        (work / "clips").mkdir(exist_ok=True)
        subprocess.run(
            [support.BUILD_DIR / "tests/make_speech", clip, "16000", pieces], check=True
        )
        rows.append(f"{clip}\tu{number}\t{text}\t{'test' if number % 6 == 5 else 'train'}\n")
    (work / "corpus.tsv").write_text("".join(rows), encoding="utf-8")
    speechshard.pack("corpus.tsv", "speech.spsh")
    (work / "tiny.yaml").write_text(CONFIG, encoding="utf-8")


def tearDownModule():
    os.chdir("/")


def weights(run):
    """A hash of the newest checkpoint's weights, moments, and statistics."""
    return subprocess.check_output([support.BUILD_DIR / "tests/train_rank", work, "hash", run])


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.vocabulary = speechshard.make_vocab("tiny.yaml")
        support.command("train", "tiny.yaml", "-o", "by-command", "--quiet", *WORDS)

    def test_vocabulary_is_that_of_the_command(self):
        ours = (work / "words.vocabulary").read_bytes()
        self.assertTrue(self.vocabulary.path.endswith("words.vocabulary"))
        text = support.command("train", "tiny.yaml", "--make-vocab").decode()
        self.assertIn(f" {self.vocabulary.symbols} symbols", text)
        self.assertEqual((work / "words.vocabulary").read_bytes(), ours)
        with self.assertRaisesRegex(speechshard.Error, "words.vocabulary"):
            speechshard.make_vocab("tiny.yaml", profile="upper")
        pieces = speechshard.make_vocab(
            "tiny.yaml", kind="pieces", symbols=20, overrides={"vocabulary": "pieces.vocabulary"}
        )
        self.assertLessEqual(pieces.symbols, 20)

    def test_checkpoints_are_those_of_the_command(self):
        lines = []
        report = speechshard.train(
            "tiny.yaml", "by-us", overrides=TINY, progress=lambda *seen: lines.append(seen)
        )
        self.assertEqual(weights("by-us"), weights("by-command"))
        self.assertEqual((report.epochs, report.utterances), (3, 45))
        self.assertTrue(math.isfinite(report.loss) and math.isfinite(report.wer))
        self.assertTrue(math.isnan(report.frame_error))
        self.assertEqual(lines[-1][1:], (report.steps, 0))
        self.assertIn("epoch", lines[-1][0])
        self.assertTrue(repr(report).startswith("TrainReport(run='by-us', steps="), repr(report))

    def test_overrides(self):
        report = speechshard.train(
            "tiny.yaml", "overridden",
            overrides={**TINY, "train.overlap": False, "data.dev": ["speech.spsh:test"]},
            **{"train.epochs": 1, "train.rate": 2e-3},
        )  # fmt: skip
        self.assertEqual(report.epochs, 1)
        text = (work / "overridden/config.yaml").read_text(encoding="utf-8")
        self.assertRegex(text, r"rate: 0?\.?0?0?2")
        with self.assertRaisesRegex(speechshard.Error, "train.epoch.*did you mean"):
            speechshard.train("tiny.yaml", "x", **{"train.epoch": 1})
        with self.assertRaisesRegex(TypeError, "overrides must be a dict"):
            speechshard.train("tiny.yaml", "x", overrides="train.epochs=1")

    def test_an_exception_stops_it_and_resume_continues(self):
        def progress(line, step, total):
            raise support.Stop(line)

        with self.assertRaisesRegex(support.Stop, "epoch"):  # slow: a step takes longer than a poll
            speechshard.train("tiny.yaml", "stopped", overrides=TINY, slow="0:100x",
                              progress=progress)  # fmt: skip
        steps = json.loads((work / "stopped/metrics.jsonl").read_text().splitlines()[-1])["step"]
        self.assertLess(steps, json.loads(
            (work / "by-command/metrics.jsonl").read_text().splitlines()[-1])["step"])  # fmt: skip
        with self.assertRaisesRegex(speechshard.Error, "stopped"):
            speechshard.train("tiny.yaml", "stopped", overrides=TINY)
        speechshard.train(output="stopped", resume="auto")
        self.assertEqual(weights("stopped"), weights("by-command"))

    def test_an_interrupt_stops_it_and_the_command_resumes(self):
        program = (
            "import time, speechshard\n"
            "def progress(line, step, total):\n"
            "    print(step, flush=True)\n"
            "    while True:\n"
            "        time.sleep(1)\n"
            f"speechshard.train('tiny.yaml', 'signaled', overrides={ {**TINY, 'train.epochs': 1000}!r},"
            " progress=progress)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", program],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.assertTrue(child.stdout.readline())
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate()
        self.assertEqual(child.returncode, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertTrue(os.path.lexists(work / "signaled/latest"))
        last = json.loads((work / "signaled/metrics.jsonl").read_text().splitlines()[-1])
        support.command("train", "-o", "signaled", "--resume", "auto", "--quiet",
                        f"train.epochs={last['samples'] // 15 + 2}")  # fmt: skip
        resumed = json.loads((work / "signaled/metrics.jsonl").read_text().splitlines()[-1])
        self.assertGreater(resumed["step"], last["step"])

    def test_one_run_at_a_time(self):
        refused = []

        def progress(line, step, total):
            try:
                speechshard.train("tiny.yaml", "second", overrides=TINY)
            except RuntimeError as error:
                refused.append(str(error))
            raise support.Stop

        with self.assertRaises(support.Stop):
            speechshard.train("tiny.yaml", "first", overrides=TINY, progress=progress)
        self.assertEqual(len(refused), 1)
        self.assertIn("another run", refused[0])
        self.assertFalse((work / "second").exists())
        self.assertGreater(speechshard.train("tiny.yaml", "third", overrides=TINY).steps, 0)

    def test_simulate(self):
        keywords = {"overrides": {**TINY, "train.epochs": 1}, "simulate": "learners=2,step=250ms"}
        speechshard.train("tiny.yaml", "simulated", strategy="adpsgd-random", **keywords)
        support.command("train", "tiny.yaml", "-o", "simulated-2", "-q", "--simulate",
                        "learners=2,step=250ms", "--strategy", "adpsgd-random",
                        *WORDS, "train.epochs=1")  # fmt: skip
        self.assertEqual(weights("simulated"), weights("simulated-2"))

    def test_errors(self):
        def refused(error, text, *args, **keywords):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                speechshard.train(*args, **keywords)

        refused(speechshard.NotFoundError, "nowhere.yaml", "nowhere.yaml", "x")
        refused(TypeError, "did you mean 'resume'", "tiny.yaml", "x", resum="auto")
        refused(TypeError, "needs the argument 'output'", "tiny.yaml")
        refused(TypeError, "needs the argument 'config'", output="x")
        refused(ValueError, 'resume must be "no" or "auto"', "tiny.yaml", "x", resume=True)
        refused(speechshard.InvalidArgumentError, "replay", "tiny.yaml", "x", replay="by-command")
        (work / "bad.yaml").write_text(CONFIG.replace("rate: 1e-3", "rate: fast"))
        refused(speechshard.Error, r"bad.yaml: line \d+", "bad.yaml", "x")


class FeatgenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["SPEECHSHARD_COMMAND"] = support.COMMAND

    def test_bytes_are_those_of_the_command(self):
        report = speechshard.featgen("speech.spsh", "ours.spsh", features="kaldi-fbank,mel_count=20",
                                     dtype="float32", jobs=2)  # fmt: skip
        text = support.command("featgen", "speech.spsh", "-o", "theirs.spsh", "--dtype", "float32",
                               "--features", "kaldi-fbank,mel_count=20", "--json", "-q")  # fmt: skip
        self.assertEqual(support.tree("ours.spsh"), support.tree("theirs.spsh"))
        want = json.loads(text)
        self.assertEqual(set(vars(report)), set(want))
        self.assertEqual(report.frames, want["frames"])
        self.assertTrue(report.published)
        self.assertTrue(repr(report).startswith("FeaturesReport(dataset='speech.spsh'"))
        loader = speechshard.Loader("ours.spsh", output="features")
        self.assertEqual(sum(len(batch) for batch in loader), 18)

    def test_statistics_and_estimates(self):
        shutil.copytree("speech.spsh", "counted.spsh")
        with speechshard.Dataset("counted.spsh") as dataset:
            report = speechshard.featgen(dataset, stats=True, by="dataset")
        self.assertEqual(report.statistics, "counted.spsh")
        self.assertTrue((work / "counted.spsh/statistics").is_dir())
        estimate = speechshard.featgen("speech.spsh", estimate=True)
        self.assertEqual(estimate.utterances, 18)

    def test_messages_and_errors(self):
        said = []
        shutil.rmtree("ours2.spsh", ignore_errors=True)
        speechshard.featgen("speech.spsh", "ours2.spsh", features="kaldi-fbank,log=none",
                            dtype="float16", log=lambda level, text: said.append(text))  # fmt: skip
        self.assertTrue(any("float32 keeps them" in text for text in said), said)
        with self.assertRaisesRegex(speechshard.InvalidArgumentError, "mel_coun.*did you mean"):
            speechshard.featgen("speech.spsh", "x.spsh", features="kaldi-fbank,mel_coun=3")
        with self.assertRaisesRegex(speechshard.Error, "nowhere.spsh"):
            speechshard.featgen("nowhere.spsh", "x.spsh")
        with self.assertRaisesRegex(TypeError, "did you mean 'dtype'"):
            speechshard.featgen("speech.spsh", "x.spsh", dtyp="float32")

    def test_the_command_of_the_package_comes_before_path(self):
        package, other = work / "package", work / "bin" / "speechshard"
        shutil.copytree(Path(speechshard.__file__).parent, package / "speechshard")
        (package / "speechshard" / "speechshard").unlink(missing_ok=True)
        (package / "speechshard" / "speechshard").symlink_to(shutil.which(support.COMMAND))
        other.parent.mkdir()
        other.write_text("#!/bin/sh\necho 'speechshard: other' >&2\nexit 3\n")
        other.chmod(0o755)
        environment = {**os.environ, "PATH": str(other.parent), "PYTHONPATH": str(package)}
        del environment["SPEECHSHARD_COMMAND"]
        estimate = "import speechshard; speechshard.featgen('speech.spsh', estimate=True)"
        pack = (
            "from speechshard._pack_stream import pack_stream\n"
            "pack_stream(lambda fd: None, 'none.spsh')"
        )
        for program, message in ((estimate, ""), (pack, "standard input is not a tar")):
            for named, want in (({}, message), ({"SPEECHSHARD_COMMAND": str(other)}, "other")):
                done = subprocess.run([sys.executable, "-c", program], env={**environment, **named},
                                      text=True, stderr=subprocess.PIPE)  # fmt: skip
                self.assertIn(want, done.stderr)
                self.assertEqual("other" in done.stderr, bool(named))

    def test_without_the_command(self):
        program = "import speechshard; speechshard.featgen('a', 'b')"
        environment = {**os.environ, "PATH": "/nowhere", "SPEECHSHARD_COMMAND": "/nowhere/x"}
        done = subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                              stderr=subprocess.PIPE)  # fmt: skip
        self.assertIn("SPEECHSHARD_COMMAND", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    support.main()
