"""Helpers of the tests of the Python package. Tests without the package, or without something that they need, are
skipped: exit 77."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import wave
from pathlib import Path

try:
    import speechshard  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

COMMAND = os.environ.get("SPEECHSHARD_COMMAND", "speechshard")
FEWER = os.environ.get("SPEECHSHARD_TEST_FEWER") == "1"  # under sanitizers, which are ten times slower
BUILD_DIR = Path(os.environ.get("SPEECHSHARD_BUILD_DIR", "."))

_work = None


def work_dir():
    """A folder of this test program; removed at its end."""
    global _work
    if _work is None:
        _work = tempfile.TemporaryDirectory(prefix="speechshard-python-")
    return Path(_work.name)


def make_dataset(name, count, milliseconds=200, options=()):
    """Pack a make_corpus corpus: utterances in two rates, mono and stereo, every seventh a copy."""
    path = work_dir() / f"{name}.spsh"
    if not path.exists():
        corpus = work_dir() / f"{name}-corpus"
        make = [BUILD_DIR / "tests" / "make_corpus", corpus, str(count), str(milliseconds)]
        subprocess.run(make, check=True)
        pack = [COMMAND, "pack", corpus, "-o", path, "--quiet", *options]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(corpus)
    return str(path)


def make_mixed(name, sizes):
    """One dataset with a domain for each item of sizes: {"domain": utterances}."""
    path = work_dir() / f"{name}.spsh"
    if not path.exists():
        rows = ["path\tdomain\ttext\tspeaker\tlanguage\tsplit\n"]
        corpus = work_dir() / f"{name}-corpus"
        corpus.mkdir()
        for domain, count in sizes.items():
            folder = corpus / domain
            make = [BUILD_DIR / "tests" / "make_corpus", folder, str(count), "200"]
            subprocess.run(make, check=True)
            for number, wav in enumerate(sorted(folder.rglob("*.wav"))):
                split = "dev" if number % 10 == 9 else "train"
                rows.append(
                    f"{wav.relative_to(corpus)}\t{domain}\t{domain} ü {number}\t"
                    f"{domain}-{number % 3}\ten\t{split}\n"
                )
        (corpus / "corpus.tsv").write_text("".join(rows), encoding="utf-8")
        pack = [COMMAND, "pack", corpus / "corpus.tsv", "-o", path, "--quiet"]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    return str(path)


def make_table(name, rows):
    """A dataset with one utterance of silence for each row, a dict: column to value of a table."""
    path = work_dir() / f"{name}.spsh"
    if not path.exists():
        corpus = work_dir() / f"{name}-corpus"
        corpus.mkdir()
        lines = []
        for number, row in enumerate(rows):
            with wave.open(str(corpus / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(bytes(1600 + 2 * number))
            lines.append(json.dumps({"audio_filepath": f"{number}.wav", **row}) + "\n")
        (corpus / "table.jsonl").write_text("".join(lines), encoding="utf-8")
        pack = [COMMAND, "pack", corpus / "table.jsonl", "-o", path, "--quiet"]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    return str(path)


def make_corpus(name, count, milliseconds=200):
    """Sound files and transcripts; see make_dataset."""
    corpus = work_dir() / name
    make = [BUILD_DIR / "tests" / "make_corpus", corpus, str(count), str(milliseconds)]
    subprocess.run(make, check=True)
    return corpus


def command(*words, **options):
    """Run the command and return its standard output."""
    words = [COMMAND, *words]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, **options).stdout


def tree(folder):
    """{path: bytes} of all files below a folder."""
    folder = Path(folder)
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


class Stop(Exception):
    """Exception that a callback raises to stop a call."""


def stop_in_the_middle(test, call, published):
    """Call until a callback that raises Stop stops it before `published` exists. On a busy machine, a short call may
    end before its callback is called. Then it raises all the same."""
    for _ in range(5):
        test.assertRaises(Stop, call)
        if not published.exists():
            return
        shutil.rmtree(published) if published.is_dir() else published.unlink()
    test.fail("nothing stops it")


DATA = Path(
    os.environ.get("SPEECHSHARD_TEST_DATA")
    or Path(os.environ.get("SPEECHSHARD_SOURCE_DIR", "."), "../shared/data")
)


def data_or_skip(test, name):
    """A folder of real speech."""
    if not (DATA / name).is_dir():
        if os.environ.get("SPEECHSHARD_REQUIRE_DATA") == "1":
            test.fail(f"{DATA / name} is missing")
        test.skipTest(f"there is no {DATA / name}")
    return DATA / name


def numpy_or_skip(test):
    try:
        import numpy
    except ImportError:
        test.skipTest("there is no numpy")
    return numpy


def main():
    result = unittest.main(exit=False, verbosity=2 if "-v" in sys.argv else 1).result
    if _work is not None:
        _work.cleanup()
    sys.exit(0 if result.wasSuccessful() else 1)
