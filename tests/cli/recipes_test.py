"""recipes_test.py COMMAND MAKE_SPEECH RECIPE: run a recipe's page, line by line.

The commands of recipes/RECIPE/README.md run in their order, except downloads and unpacking: a small
corpus with the names of the real one and a few made voices replaces their results. `train` gets a
model of a few units and a few steps; all other commands are unchanged. Each training set contains a
copy of one of its utterances and of one test recording, which dedupe must remove. A second run
without dedupe must stop at the audit.
"""
import json
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tarfile
import tempfile
import wave

from cli_kit import COMMAND, check, equal, finish, speech

RECIPES = pathlib.Path(__file__).parents[2] / "recipes"
RECIPE = sys.argv[3]
TINY = ["model.preset=ds2-tiny", "model.layers=1", "model.hidden=8", "model.conv_channels=1", "train.threads=1",
        "data.virtual_world=2", "data.max_padded_seconds=8", "train.samples_max=6", "train.epochs=1", "eval.every_s=0"]
NOT_RUN = ("curl", "tar", "huggingface-cli", "for", "done", "git")
WORDS = "one two three four five six seven eight nine ten eleven twelve".split()
FIRST_SEED = 10
seeds = iter(range(FIRST_SEED, 1000))


def text(number):
    return " ".join(WORDS[(number * (i + 3) + i) % len(WORDS)] for i in range(4))


def clip(path, kind, number):
    """All voices differ except the copies: the first test utterance is also the first of training,
    and the second and third of training are equal."""
    seed = {("test", 0): 1, ("train", 0): 1, ("train", 1): 2, ("train", 2): 2}.get((kind, number)) or next(seeds)
    speech(path, f"{seed}:0:{2.4 if seed < FIRST_SEED else 1.5 + 0.2 * (number % 4)}")


def make_an4(work):
    """SPHERE files of both byte orders, lists and transcripts."""
    for split, folder, count in (("train", "an4_clstk", 22), ("test", "an4test_clstk", 3)):
        files, transcripts = [], []
        for i in range(count):
            speaker = f"{split[1]}{i // 2:02d}"
            name = f"an{i}-{speaker}-b"
            made = work / "made.wav"
            clip(made, split, i)
            with wave.open(str(made), "rb") as file:
                samples = file.readframes(file.getnframes())
            order, form = (("01", "<"), ("10", ">"))[i % 2]
            values = struct.unpack(f"<{len(samples) // 2}h", samples)
            head = (f"NIST_1A\n   1024\ndatabase_id -s3 AN4\nsample_count -i {len(values)}\nchannel_count -i 1\n"
                    f"sample_rate -i 16000\nsample_n_bytes -i 2\nsample_byte_format -s2 {order}\nend_head\n")
            path = work / "an4" / "wav" / folder / speaker / f"{name}.sph"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(head.encode().ljust(1024, b"\0") + struct.pack(f"{form}{len(values)}h", *values))
            files.append(f"{folder}/{speaker}/{name}")
            words = text(i).upper()
            transcripts.append(f"<s> {words} </s> ({name})" if split == "train" else f"{words} ({name})")
        lists = work / "an4" / "etc"
        lists.mkdir(exist_ok=True)
        (lists / f"an4_{split}.fileids").write_text("\n".join(files) + "\n")
        (lists / f"an4_{split}.transcription").write_text("\n".join(transcripts) + "\n")


def make_librispeech(work, parts):
    number = 0
    for reader, (part, count) in enumerate(parts + [("dev-clean", 2), ("dev-other", 2), ("test-clean", 2),
                                                    ("test-other", 2)]):
        kind = {"train": "train", "test": "test"}.get(part.partition("-")[0], "dev")
        folder = work / "LibriSpeech" / part / str(100 + reader) / "7"
        lines = []
        for i in range(count):
            name = f"{100 + reader}-7-{i:04d}"
            # Numbers continue from one training part to the next, and only one part contains the
            # first test utterance.
            clip(folder / f"{name}.flac", "dev" if part == "test-other" else kind,
                        number if kind == "train" else i)
            number += kind == "train"
            lines.append(f"{name} {text(len(part) + i).upper()}")
        (folder / f"{100 + reader}-7.trans.txt").write_text("\n".join(lines) + "\n")


def make_common_voice(work):
    tree = work / "cv-corpus-25.0-2026-03-09" / "cy"
    columns = ("client_id path sentence_id sentence sentence_domain up_votes down_votes age gender accents variant "
               "locale segment").split()
    tables = {"train": 6, "dev": 2, "test": 2, "validated": 0}
    all_rows = []
    for split, count in tables.items():
        rows = []
        for i in range(count):
            name = f"common_voice_cy_{split}{i}.mp3"
            clip(tree / "clips" / name, split, i)
            row = {"client_id": f"{split}-{i}", "path": name, "sentence": f"{text(i).title()} {split} {WORDS[i]}!",
                   "locale": "cy", "up_votes": "2", "down_votes": "0"}
            rows.append("\t".join(row.get(column, "") for column in columns))
        all_rows += rows
        lines = ["\t".join(columns)] + (rows if split != "validated" else all_rows)
        (tree / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with tarfile.open(work / "cv-corpus-25.0-2026-03-09-cy.tar.gz", "w:gz") as tar:
        tar.add(work / "cv-corpus-25.0-2026-03-09", arcname="cv-corpus-25.0-2026-03-09")


def make_mls(work):
    tree = work / "mls_english"
    for split, count in (("train", 6), ("dev", 2), ("test", 2)):
        lines, segments = [], []
        for i in range(count):
            name = f"{len(split)}_{10 + len(split)}_{i:06d}"
            speaker, book, _ = name.split("_")
            clip(tree / split / "audio" / speaker / book / f"{name}.flac", split, i)
            lines.append(f"{name}\t{text(i)}")
            segments.append(f"{name}\thttp://www.archive.org/download/{book}/1.mp3\t{20 * i}.00\t{20 * i + 2}.00")
        (tree / split / "transcripts.txt").write_text("\n".join(lines) + "\n")
        (tree / split / "segments.txt").write_text("\n".join(segments) + "\n")
    (tree / "metainfo.txt").write_text(
        " SPEAKER | GENDER | PARTITION | MINUTES | BOOK ID | TITLE | CHAPTER \n" +
        "".join(f" {len(split)} | F | {split} | 1.0 | {10 + len(split)} | A book | 1 \n"
                for split in ("train", "dev", "test")))


def make_peoples_speech(work):
    for folder, subset, count in (("train", "clean", 4), ("train", "clean_sa", 2), ("validation", "validation", 2),
                                  ("test", "test", 2)):
        top = work / "peoples_speech" / folder
        archive = top / subset if folder == "train" else top
        names = [f"{subset}_talk_{i:05d}.flac" for i in range(count)]
        for i, name in enumerate(names):
            clip(archive / name, "dev", i)
        with tarfile.open(archive / f"{subset}_000000.tar", "w") as tar:
            for name in names:
                tar.add(archive / name, arcname=name)
                (archive / name).unlink()
        rows = {"identifier": subset,
                "training_data": {"duration_ms": [int(1000 * (1.5 + 0.2 * (i % 4))) for i in range(count)],
                                  "label": [text(i + 5) for i in range(count)], "name": names}}
        (top / f"{subset}.json").write_text(json.dumps(rows) + "\n")


# Function that makes the corpus, number of utterances left to train on, domains.
KINDS = {
    "an4": (make_an4, 18, {"an4"}),
    "librispeech-100": (lambda work: make_librispeech(work, [("train-clean-100", 6)]), 4, {"librispeech/clean"}),
    "librispeech-960": (lambda work: make_librispeech(work, [("train-clean-100", 4), ("train-clean-360", 2),
                                                             ("train-other-500", 2)]),
                        6, {"librispeech/clean", "librispeech/other"}),
    "common-voice": (make_common_voice, 4, {"cv/cy"}),
    "peoples-speech-mls": (lambda work: (make_mls(work), make_peoples_speech(work)), 10,
                           {"mls/english", "ps/clean", "ps/clean_sa"}),
}


def commands():
    """The commands of the page's first shell block that the test runs."""
    page = (RECIPES / RECIPE / "README.md").read_text(encoding="utf-8")
    block = page.split("```sh\n")[1].split("```")[0]
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words and not line.startswith(" ") and words[0] not in NOT_RUN:
            yield [word.replace("$RECIPES", str(RECIPES)) for word in words]


def run(work, words):
    if words[0] == "speechshard":
        words = [COMMAND] + words[1:]
        if words[1] == "train" and "--make-vocab" not in words:
            words += TINY
    return subprocess.run(words, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "OMPI_MCA_btl": "self"})


def test_page(work):
    make, utterances, domains = KINDS[RECIPE]
    make(work)
    seen = set()
    for words in commands():
        estimate = "--estimate" in words
        done = run(work, words + ["--json"] if estimate else words)
        line = " ".join(words)
        equal(done.returncode, 0, f"{line}: {done.stderr}")
        if done.returncode != 0:
            return
        seen.add("estimate" if estimate else "vocabulary" if "--make-vocab" in words else words[min(1, len(words) - 1)])
        if estimate:
            found = json.loads(done.stdout)
            equal(found["utterances"], utterances, f"utterances of an epoch: {done.stdout}")
            equal({domain["domain"] for domain in found["domains"]}, domains, "domains")
            equal(found["transcripts"]["unknown"], 0, f"characters without a symbol: {found['transcripts']}")
            equal(found["not_learnt_from"]["skipped"], 2, "copies are skipped")
        elif words[1:2] == ["eval"]:
            check("WER" in done.stdout, f"{line}: {done.stdout}")
    equal(seen - {"an4", "corpus"}, {"pack", "dedupe", "apply", "audit", "vocabulary", "estimate", "train", "eval",
                                     "transcribe"}, "kinds of commands on the page")


def test_leak(work):
    KINDS[RECIPE][0](work)
    for words in commands():
        if words[1] in ("dedupe", "apply"):
            continue
        done = run(work, words)
        if words[1:2] == ["audit"]:
            equal(done.returncode, 1, f"an audit of a leak: {done.stdout}{done.stderr}")
            check("recording" in done.stdout + done.stderr, "the leak is called what it is")
            return
        equal(done.returncode, 0, f"{' '.join(words)}: {done.stderr}")


def settings(path):
    """The keys of a configuration, with their sections."""
    found, section = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        if key.strip() and not value.strip():
            section = f"{key.strip()}."
        elif key.strip():
            found[(section if key.startswith(" ") else "") + key.strip()] = value.strip()
    return found


def test_benchmark():
    """The benchmark of a GPU runs this recipe, with the batches that its page states for 40 GB."""
    own = {"vocabulary", "data.train", "data.dev", "train.backend", "train.epochs", "train.checkpoint_every_s", "eval.every_s"}
    page = (RECIPES / "README.md").read_text(encoding="utf-8")
    batches = re.search(r"\| 40 GB \| `(.*?)` \|", page).group(1)
    recipe = settings(RECIPES / RECIPE / f"{RECIPE}.yaml") | dict(word.split("=") for word in batches.split())
    measured = settings(RECIPES.parent / "bench/gpu/train.yaml")
    equal({key: value for key, value in measured.items() if key not in own},
          {key: value for key, value in recipe.items() if key not in own}, "settings of bench/gpu/train.yaml")


OTHERS = {"digits", "notebook", "pytorch", "hugging-face", "quickstart"}  # they have separate tests
equal({page.parent.name for page in RECIPES.glob("*/README.md")} | OTHERS, set(KINDS) | OTHERS, "recipes that are tested")
if RECIPE == "librispeech-960":
    test_benchmark()
for test in (test_page, test_leak):
    with tempfile.TemporaryDirectory() as folder:
        test(pathlib.Path(folder))
finish()
