"""pack_split_test.py COMMAND: pack --split packs all splits of its list, or rejects the list."""
import json
import pathlib
import tempfile
import wave

from cli_kit import check, equal, run, run_tests

SPLITS = {"a": "train", "b": "dev", "c": "", "d": "train"}


def make(work):
    for number, name in enumerate(SPLITS):
        with wave.open(str(work / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", None))
            file.writeframes(bytes([number, 0]) * 800)
    rows = [f"{name}.wav\t{name}\t{split}\n" for name, split in SPLITS.items()]
    (work / "all.tsv").write_text("path\tid\tsplit\n" + "".join(rows))
    for number, row in enumerate(rows[:2]):
        (work / f"part{number}.tsv").write_text("path\tid\tsplit\n" + row)
    kaldi = work / "kaldi" / "train_a"
    kaldi.mkdir(parents=True)
    (kaldi / "wav.scp").write_text(f"a {work}/a.wav\n")
    (kaldi / "text").write_text("a one\n")


def pack(work, output, splits, *corpora):
    return run("pack", *corpora, "-o", work / output, "--split", splits, "--json", "--quiet", cwd=work)


def test_unknown(work):
    for splits, unknown in (("train,typo", "typo"), ("typo,train", "typo"), ("dev,train,tra", "tra"), ("Train", "Train")):
        for corpora in (("all.tsv",), ("part0.tsv", "part1.tsv")):
            done = pack(work, "wrong", splits, *corpora)
            equal((done.returncode, done.stdout), (2, ""), f"{splits}: {done.stderr}")
            check(f"--split {unknown}: no row of the corpus is of this split; its splits are train, dev\n" in done.stderr,
                  f"{splits}: {done.stderr}")
            check(not (work / "wrong").exists(), f"{splits}: nothing is written")
    done = pack(work, "wrong", ",", "all.tsv")
    equal(done.returncode, 2, done.stderr)
    check("--split ',' names no split" in done.stderr, done.stderr)
    (work / "none.tsv").write_text("path\tid\tsplit\nc.wav\tc\t\n")
    done = pack(work, "wrong", "train", "none.tsv")
    equal(done.returncode, 2, done.stderr)
    check("the corpus names no splits" in done.stderr, done.stderr)


def test_known(work):
    for number, (splits, corpora, packed) in enumerate(((("train,dev"), ("all.tsv",), 3), ("dev", ("all.tsv",), 1),
                                                        (",dev,,train", ("part0.tsv", "part1.tsv"), 2),
                                                        ("train,train_a", ("kaldi",), 1), ("train_a", ("kaldi",), 1))):
        done = pack(work, f"right{number}", splits, *corpora)
        equal(done.returncode, 0, f"{splits}: {done.stderr}")
        equal(json.loads(done.stdout)["packed"], packed, splits)


with tempfile.TemporaryDirectory() as folder:
    make(pathlib.Path(folder))
    run_tests((test_unknown, test_known), pathlib.Path(folder))
