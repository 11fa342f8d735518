"""bad_records_test.py COMMAND MAKE_SPEECH: each cell of the table in BAD_RECORDS.md that the
command can show.

tests/python/test_faults.py tests the Loader's column. unit_flac_frames tests FLAC whose samples
wrap.
"""
import json
import pathlib
import shutil
import struct
import tempfile

from cli_kit import check, equal, run, run_tests, speech

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/audio"
CLIPS = 6
CONFIG = """vocabulary: letters
features: kaldi-fbank,mel_count=16
data: {train: plain.spsh, max_padded_seconds: 8}
model: {preset: ds2-tiny, hidden: 8, layers: 1, conv_channels: 2}
train: {epochs: 1, threads: 1, backend: cpu}
"""


def write_wav(path, samples):
    data = b"\1\0" * samples
    path.write_bytes(struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data",
                                 len(data)) + data)


def pack(work, name):
    done = run("pack", name, "-o", f"{name}.spsh", cwd=work)
    equal(done.returncode, 0, f"pack {name}: {done.stderr}")
    return done


def make(work):
    """A dataset of good clips and, for each kind of defect, a dataset with one more clip that has
    it."""
    plain = work / "plain"
    plain.mkdir()
    for n in range(CLIPS):
        speech(plain / f"{n}.wav", f"{n + 1}:0:{1 + n % 3 / 2}")
        (plain / f"{n}.txt").write_text("one two")
    for kind in ("undecodable", "long", "short", "no_text"):
        shutil.copytree(plain, work / kind)
        if kind != "no_text":
            (work / kind / "odd.txt").write_text("two")
    shutil.copy(GOLDEN / "undecodable.flac", work / "undecodable/odd.flac")
    shutil.copy(GOLDEN / "wrapped.flac", work / "undecodable/wrapped.flac")
    (work / "undecodable/wrapped.txt").write_text("two")
    speech(work / "long/odd.wav", "9:0:12")
    write_wav(work / "short/odd.wav", 10)
    speech(work / "no_text/odd.wav", "9:0:1")
    for kind in ("plain", "long", "short", "no_text"):
        pack(work, kind)
    shutil.copytree(work / "plain.spsh", work / "damaged.spsh")
    shard = next((work / "damaged.spsh/shards").iterdir())
    data = bytearray(shard.read_bytes())
    data[data.index(b"RIFF") + 200] ^= 1
    shard.write_bytes(data)
    (work / "config.yaml").write_text(CONFIG)
    equal(run("train", "config.yaml", "--make-vocab", cwd=work).returncode, 0, "--make-vocab")


def cell(work, status, words, *texts):
    """The status, and on standard error each text once."""
    done = run(*words, cwd=work)
    equal(done.returncode, status, f"{words}: {done.stderr}")
    for text in texts:
        equal(done.stderr.count(text), 1, f"{words}: {text!r} in {done.stderr!r}")
    return done


def bench(work, kind, status, *more):
    texts = [word for word in more if not word.startswith("--") and word not in ("fail", "8")]
    words = [word for word in more if word not in texts]
    return cell(work, status, ["bench", f"{kind}.spsh", "--seconds", "0.05", "--json", *words], *texts)


def featgen(work, kind, status, *texts, options=()):
    shutil.rmtree(work / "features", ignore_errors=True)
    done = cell(work, status, ["featgen", f"{kind}.spsh", "-o", "features", "--json", *options], *texts)
    return json.loads(done.stdout) if status == 0 else None


def train(work, kind, status, *texts, options=()):
    shutil.rmtree(work / "run", ignore_errors=True)
    done = cell(work, status, ["train", "config.yaml", "-o", "run", "--json", f"data.train={kind}.spsh", *options], *texts)
    return json.loads(done.stdout) if status == 0 else None


def test_damaged(work):
    bench(work, "damaged", 1, "checksum")
    featgen(work, "damaged", 1, "checksum", "--skip-damaged")
    made = featgen(work, "damaged", 0, "checksum", options=["--skip-damaged"])
    equal((made["utterances"], made["left_out"], made["undecodable"]), (CLIPS - 1, 1, 0), "featgen --skip-damaged")
    train(work, "damaged", 1, "checksum")
    done = train(work, "damaged", 0, "checksum", options=["data.damaged=skip"])
    equal(done["utterances"], CLIPS - 1, "data.damaged=skip")


def test_undecodable(work):
    done = pack(work, "undecodable")
    check("decoder limit" in done.stdout, f"pack counts it: {done.stdout}")
    rejects = [json.loads(line) for line in (work / "undecodable.spsh/reports/rejects.jsonl").read_text().splitlines()]
    equal([(r["reason"], r["id"], r["rows"]) for r in rejects], [("decoder_limit", "odd", 0)], "pack names it")
    lines = [json.loads(line) for line in cell(work, 0, ["verify", "--decode", "--json", "undecodable.spsh"]).stdout.splitlines()]
    equal([line.get("id") for line in lines], ["odd", None], "verify --decode names it")
    equal((lines[-1]["undecodable"], lines[-1]["damaged"]), (1, 0), "verify --decode counts it")
    cell(work, 0, ["verify", "--decode", "undecodable.spsh"], 'recording "odd"', "1 undecodable recording")
    equal(json.loads(run("info", "--json", "undecodable.spsh", cwd=work).stdout)["undecodable"], 1, "info counts it")
    check("not served" in run("info", "undecodable.spsh", cwd=work).stdout, "info says what that means")
    equal(json.loads(run("info", "--json", "plain.spsh", cwd=work).stdout)["undecodable"], 0, "info of a dataset without")

    bench(work, "undecodable", 0, "undecodable records are skipped")
    bench(work, "undecodable", 1, "--undecodable", "fail", "cannot decode it")
    made = featgen(work, "undecodable", 0, options=["--quiet"])
    equal((made["utterances"], made["left_out"], made["undecodable"]), (CLIPS + 1, 0, 1), "featgen")
    made = featgen(work, "undecodable", 0, options=["--skip-damaged"])
    equal((made["left_out"], made["undecodable"]), (0, 1), "it is not damaged")
    featgen(work, "undecodable", 1, "cannot decode it", "without --undecodable fail", options=["--undecodable", "fail"])
    done = train(work, "undecodable", 0, "undecodable records are skipped")
    equal(done["utterances"], CLIPS + 1, "train")
    train(work, "undecodable", 1, "cannot decode it", options=["data.undecodable=fail"])
    train(work, "undecodable", 1, "cannot decode it", options=["data.undecodable=fail", "data.damaged=skip"])


def test_too_long(work):
    bench(work, "long", 1, "--max-seconds", "8", "lasts 12.000 s")
    equal(featgen(work, "long", 0)["utterances"], CLIPS + 1, "featgen")
    equal(train(work, "long", 0, "longer than a batch may be")["utterances"], CLIPS, "train")


def test_too_short(work):
    equal(json.loads(bench(work, "short", 0).stdout)["utterances"], CLIPS + 1, "bench")
    equal(featgen(work, "short", 0)["utterances"], CLIPS + 1, "featgen")
    equal(train(work, "short", 0, "1 have no frames")["utterances"], CLIPS + 1, "train")


def test_no_text(work):
    equal(json.loads(bench(work, "no_text", 0).stdout)["utterances"], CLIPS + 1, "bench")
    equal(featgen(work, "no_text", 0)["utterances"], CLIPS + 1, "featgen")
    equal(train(work, "no_text", 0, "1 have no symbol of the vocabulary")["utterances"], CLIPS + 1, "train")


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    make(root)
    run_tests([test_damaged, test_undecodable, test_too_long, test_too_short, test_no_text], root)
