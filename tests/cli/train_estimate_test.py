"""train_estimate_test.py COMMAND: `train --estimate` predicts the run, and fails if the run could
not start."""
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import wave

import cli_kit
from cli_kit import COMMAND, check, equal, run_tests

SEED = 20261121
RATE = 8000
WORDS = "one two three four five six seven eight nine".split()
TINY = ["model.preset=ds2-tiny", "model.layers=1", "model.hidden=8", "model.conv_channels=2", "train.threads=1",
        "train.backend=cpu"]
CONFIG = """\
vocabulary: letters.yaml
features: kaldi-fbank,sample_rate_hz=8000,mel_count=20
data:
  train: ["talk.spsh:train"]
  dev: ["talk.spsh:dev"]
  max_padded_seconds: 6
  utterance_seconds_max: 5
  virtual_world: 2
train:
  epochs: 2
  keep: 2
"""
LETTERS = "kind: characters\nprofile: lower-1\nsymbols: [" + ", ".join(f'"{c}"' for c in " efghinorstuvwx") + "]\n"


def write_wav(path, seconds, chance):
    path.parent.mkdir(exist_ok=True)
    samples = [chance.randrange(-3000, 3001) for _ in range(round(seconds * RATE))]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))


def rows():
    """name, split, domain, seconds, text"""
    for i in range(24):
        yield f"good{i:02d}", "train", ("read", "talk")[i % 3 == 0], 1 + 0.05 * i, f"{WORDS[i % 9]} {WORDS[i * 5 % 9]}"
    yield "accents", "train", "talk", 1.0, "café élève zq"  # no symbol for c a é é l è z q
    yield "foreign", "train", "talk", 1.0, "щщ"
    yield "many", "train", "talk", 0.3, "three three three three three"  # 29 labels, 14 output frames
    yield "twins", "train", "talk", 0.215, "ee ee ee"  # 8 labels and 3 repeats, and 10 frames
    yield "fits", "train", "talk", 0.235, "ee ee ee"  # 11 frames
    yield "nothing", "train", "talk", 1.0, ""
    yield "click", "train", "talk", 0.01, "one"
    yield "long", "train", "talk", 5.5, "one two"
    yield "heard", "dev", "read", 1.2, "six"
    yield "again", "dev", "read", 1.5, "seven"


class Corpus:
    def __init__(self, work):
        chance = random.Random(SEED)
        print("seed", SEED)
        self.work = work
        lines = ["path\tid\ttext\tsplit\tdomain"]
        for name, split, domain, seconds, words in rows():
            write_wav(work / "wav" / f"{name}.wav", seconds, chance)
            lines.append(f"wav/{name}.wav\t{name}\t{words}\t{split}\t{domain}")
        (work / "talk.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (work / "talk.yaml").write_text(CONFIG)
        (work / "letters.yaml").write_text(LETTERS)
        done = cli_kit.run("pack", "talk.tsv", "-o", "talk.spsh", "--quiet", cwd=work)
        equal(done.returncode, 0, f"pack: {done.stderr}")

    def train(self, *words, more=()):
        """more: variables of the environment."""
        return subprocess.run([COMMAND, "train", "talk.yaml", *TINY, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, encoding="utf-8", cwd=self.work,
                              env={**cli_kit.environment, **dict(more)})

    def estimate(self, *words, more=()):
        done = self.train("--estimate", "--json", *words, more=more)
        equal(done.returncode, 0, f"estimate {words}: {done.stderr}")
        return json.loads(done.stdout)


def test_what_it_says(corpus):
    found = corpus.estimate()
    equal({domain["domain"]: domain["utterances"] for domain in found["domains"]}, {"read": 16, "talk": 15}, "domains")
    check(abs(sum(domain["share"] for domain in found["domains"]) - 1) < 1e-9, "shares add up")
    equal([(one["dataset"], one["utterances"]) for one in found["dev"]], [("talk.spsh:dev", 2)], "dev")
    equal(found["utterances"], 31, "utterances of an epoch")
    equal((found["epochs"], found["run_utterances"]), (2, 62), "the run")
    equal(found["not_learnt_from"], {"filtered": 2, "skipped": 0, "out_of_range": 1, "too_long": 0, "without_text": 1,
                                     "without_frames": 1, "without_alignment": 0, "other_length": 0,
                                     "infeasible": 2, "infeasible_is_exact": True},
          "not trained on")
    texts = found["transcripts"]
    equal((texts["read"], texts["without_symbols"]), (29, 1), "transcripts that were read")
    equal((texts["unknown"], texts["unknown_kinds"]), (10, 8), f"characters without a symbol: {texts}")
    unknown = [(one["character"], one["count"]) for one in texts["most_frequent_unknown"]]
    equal(unknown[:2], [("é", 2), ("щ", 2)], "the most frequent ones, the first by code point before others")
    equal({count for _, count in unknown[2:]}, {1}, "the others")
    done = corpus.train("--simulate", "learners=2,step=10ms,steps=2,strategy=allreduce", "--json")
    equal(json.loads(done.stdout)["weights"], found["weights"], f"the model that is simulated: {done.stderr}")
    equal(found["symbols"], 16, "symbols with the blank")
    check(found["batch_padded_seconds_max"] <= 6, f"batches are within their bound: {found}")
    check(0 <= found["padding"] < 1, "padding")
    for text in ("not trained on", "'é' 2, 'щ' 2, 'a' 1", "with fewer frames than their transcript needs", "alpha: 1"):
        check(text in corpus.train("--estimate").stdout, f"'{text}' for people")


def test_the_run_agrees(corpus):
    odd = ["data.virtual_world=3", "train.accumulate=2"]  # neither divides the batches
    found = corpus.estimate(*odd)
    check(found["batches"] % 3 != 0, f"batches {found['batches']}")
    done = corpus.train("-o", "run", *odd)
    equal(done.returncode, 0, f"train: {done.stderr}")
    run = corpus.work / "run"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    start = next(line for line in lines if line["kind"] == "start")
    steps = [line for line in lines if line["kind"] == "step"]
    equal(found["weights"], start["weights"], "weights")
    equal((run / "config.yaml").read_text(), found["config"], "the configuration, resolved")
    first = [line for line in steps if line["epoch"] == 0]
    equal(len(first), found["steps"], "steps of an epoch")
    equal(sum(line["utterances"] for line in first), found["utterances"], "utterances of an epoch")
    for reason, count in (("infeasible", 2), ("without_text", 2), ("without_frames", 1)):
        # A transcript without any symbol does not count for the run.
        equal(sum(line[reason] for line in first), count, reason)
    files = sorted((run / "checkpoints").glob("*.spsh"))
    check(len(files) <= found["checkpoints"], f"{len(files)} checkpoints, at most {found['checkpoints']} were told")
    for file in files:
        size = os.stat(file).st_size
        check(found["checkpoint_bytes"] / 2 <= size <= found["checkpoint_bytes"],
              f"a checkpoint of {size} bytes, told were {found['checkpoint_bytes']}")


def test_a_model_of_frames(corpus):
    lines = []
    for name, split, _, seconds, _ in rows():
        frames = (round(seconds * RATE) - 200) // 80 + 1
        if name != "good03" and frames > 0:
            lines.append(" ".join([name] + ["5" if i % 2 else "1" for i in range(frames + 9 * (name == "good04"))]))
    (corpus.work / "ali.txt").write_text("\n".join(lines) + "\n")
    words = ["vocabulary=", "data.alignments=[ali.txt]", "model.preset=lstm-hybrid", "model.bottleneck=4",
             "model.conv_channels=0"]
    found = corpus.estimate(*words)
    equal((found["states"], found["symbols"]), (6, 0), "states, and no symbols")
    left = found["not_learnt_from"]
    equal((left["without_alignment"], left["other_length"], left["without_frames"]), (1, 1, 1), f"reasons: {left}")
    equal((left["infeasible"], left["without_text"], found["transcripts"]["read"]), (0, 0, 0), "transcripts count nothing")
    text = corpus.train("--estimate", *words).stdout
    check("6 states" in text and "1 without an alignment" in text and "transcripts" not in text, text)
    done = corpus.train("-o", "frames", "train.epochs=1", *words)
    equal(done.returncode, 0, f"train: {done.stderr}")
    lines = [json.loads(line) for line in (corpus.work / "frames" / "metrics.jsonl").read_text().splitlines()]
    equal(next(line for line in lines if line["kind"] == "start")["weights"], found["weights"], "weights")
    steps = [line for line in lines if line["kind"] == "step"]
    equal(len(steps), found["steps"], "steps")
    for reason in ("without_alignment", "other_length", "without_frames"):
        equal(sum(line[reason] for line in steps), left[reason], reason)
    (corpus.work / "ali.txt").write_text("somebody 1 2 3\n")
    done = corpus.train("--estimate", *words)
    equal((done.returncode, done.stdout), (1, ""), f"alignments of others: {done.stderr}")


def test_memory(corpus):
    small, large = corpus.estimate(), corpus.estimate("data.max_padded_seconds=60", "data.utterance_seconds_max=0")
    check(large["memory"]["activations"] > 2 * small["memory"]["activations"], "activations grow with the batch")
    equal(large["memory"]["weights"], small["memory"]["weights"], "weights do not")
    equal(small["memory"]["moments"], 2 * small["memory"]["weights"], "two moments of AdamW")
    plain = corpus.estimate("train.optimiser=sgd", "train.momentum=0", "train.nesterov=false")
    equal(plain["memory"]["moments"], 0, "none of SGD without momentum")
    equal(sum(small["memory"].values()), small["memory_bytes"], "the sum")
    double = corpus.estimate("train.backend=reference")
    equal(double["memory"]["weights"], 2 * small["memory"]["weights"], "of the backend's own elements")
    # More memory than any machine has: counting allocates none of it.
    huge = corpus.estimate("model.hidden=4096", "model.layers=16", "data.max_padded_seconds=100000")
    check(huge["memory_bytes"] > 10 ** 10, f"a model of {huge['memory_bytes']} bytes is told")


def test_of_a_world(corpus):
    world = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4"}.items()
    found = corpus.estimate("data.virtual_world=4", "train.accumulate=2", more=world)
    equal((found["world_size"], found["step_batches"]), (4, 8), "processes, batches of a step")
    equal(found["steps"], math.ceil(math.ceil(found["batches"] / 4) / 2), "steps")
    other = dict(world, RANK="1", LOCAL_RANK="1").items()
    done = corpus.train("--estimate", "data.virtual_world=4", more=other)
    equal((done.returncode, done.stdout), (0, ""), "only the first process speaks")
    done = corpus.train("--estimate", more=world)
    equal(done.returncode, 1, "fewer batches in a step than processes")
    check("data.virtual_world is 2, but there are 4 processes" in done.stderr, done.stderr)


def test_shares(corpus):
    found = corpus.estimate("data.alpha=0")
    for domain in found["domains"]:
        check(abs(domain["share"] - 0.5) < 1e-9, f"alpha 0: {domain}")
    weighed = corpus.estimate("data.train=[talk.spsh:train, talk.spsh:train]", "data.train_weights=[3, 1]")
    shares = {}
    for domain in weighed["domains"]:
        shares.setdefault(domain["dataset"], []).append(domain["share"])
    check(abs(sum(sum(share) for share in shares.values()) - 1) < 1e-9, f"weights: {weighed['domains']}")


def test_failures(corpus):
    (corpus.work / "foreign.yaml").write_text("kind: characters\nprofile: lower-1\nsymbols: [\"ж\"]\n", encoding="utf-8")
    for words, said in (
            (["data.train=[none.spsh]"], "none.spsh"),
            (["data.train=[talk.spsh:tran]"], "tran"),
            (["data.dev=[none.spsh]"], "none.spsh"),
            (["data.noises=[none.spsh]"], "none.spsh"),
            (["vocabulary=none.yaml"], "none.yaml"),
            (["vocabulary="], "--make-vocab"),
            (["vocabulary=foreign.yaml"], "none of 29 transcripts has a symbol of the vocabulary"),
            (["train.rat=1"], "did you mean 'train.rate'"),
            (["data.utterance_seconds_min=4.9"], "no utterance passes"),
            (["data.max_padded_seconds=0.1"], ""),
            (["model.hidden=0"], "model.hidden")):
        done = corpus.train("--estimate", *words)
        status = 2 if said == "tran" else 1
        equal((done.returncode, done.stdout), (status, ""), f"{words}: {done.stderr}")
        check(said in done.stderr, f"{words}: '{said}' in {done.stderr}")
        run = corpus.train("-o", "fails", *words)
        equal(run.returncode, status, f"the run with {words}: {run.stderr}")
    done = cli_kit.run("train", "--estimate")
    equal(done.returncode, 2, f"without a configuration: {done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    made = Corpus(pathlib.Path(folder))
    run_tests([test_what_it_says, test_the_run_agrees, test_a_model_of_frames, test_memory, test_of_a_world, test_shares, test_failures], made)
