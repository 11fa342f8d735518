"""knowledge_test.py COMMAND MAKE_SPEECH: bench/knowledge measures a small corpus with known copies,
leaks, labels, levels, and damage. docs/KNOWLEDGE.md has the table of the results in bench/results.
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, LITTLE_MEMORY, check, environment, equal, run_tests, speech

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "bench/knowledge/knowledge.py"
# Path, transcript, speaker, language, split. The voice and position in the file name is the audio.
ROWS = (
    ("one.wav", "one", "anna", "en", "train"),
    ("two.wav", "two", "anna", "en", "train"),
    ("copies/two.wav", "deux", "bert", "fr", "train"),
    ("flat/two.flac", "two", "anna", "en", "test"),
    ("three.wav", "one", "cora", "en", "test"),
    ("silent.wav", "", "anna", "en", "train"),
    ("clipped.wav", "four", "dora", "en", "test"),
    ("broken.wav", "five", "dora", "en", "test"),
    ("missing.wav", "six", "dora", "en", "test"))


def write_wav(path, samples):
    data = struct.pack(f"<{len(samples)}h", *samples)
    path.write_bytes(struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data",
                                 len(data)) + data)


def make_corpus(folder):
    for number, name in enumerate(("one.wav", "two.wav", "three.wav", "clipped.wav")):
        speech(folder / name, f"{number + 1}:0:2")
    speech(folder / "flat/two.flac", "2:0:2")
    (folder / "copies").mkdir()
    shutil.copy(folder / "two.wav", folder / "copies/two.wav")
    write_wav(folder / "silent.wav", [0, 1] * 8000)
    samples = list(struct.unpack("<32000h", (folder / "clipped.wav").read_bytes()[44:44 + 64000]))
    write_wav(folder / "clipped.wav", samples + [32767, -32768] * 8)
    (folder / "broken.wav").write_bytes((folder / "one.wav").read_bytes()[:2000])
    rows = ["path\ttext\tspeaker\tlanguage\tsplit", *("\t".join(row) for row in ROWS)]
    (folder / "corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def know(*words):
    return subprocess.run([sys.executable, PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", env=environment, check=False)


def measure(corpus, out, *words):
    memory = ("--memory", LITTLE_MEMORY["dedupe"]) if LITTLE_MEMORY else ()
    done = know(corpus, "-o", out, "--speechshard", COMMAND, *memory, *words)
    equal(done.returncode, 0, f"{corpus}: {done.stderr}")
    return json.loads((out / "knowledge.json").read_text(encoding="utf-8")), done


def test_counts(work):
    make_corpus(work / "corpus")
    facts, done = measure(work / "corpus", work / "out", "--name", "small 1.0")
    equal(done.stdout, (work / "out/knowledge.txt").read_text(encoding="utf-8"), "the table in its file")
    equal([facts[key] for key in ("name", "rows_in", "utterances", "with_text", "speakers")], ["small 1.0", 9, 7, 6, 4], "counts")
    equal({name: item["utterances"] for name, item in facts["languages"].items()}, {"en": 6, "fr": 1}, "languages")
    equal(facts["rejects"], {"missing_audio": 1, "truncated": 1}, "rejected rows")
    equal(facts["undecodable"], 1, "undecodable recordings")
    equal((facts["levels"]["silent"], facts["levels"]["clipped"]), (1, 1), "levels")
    copies = facts["copies"]
    equal((copies["clusters"], copies["dropped"]), (1, 2), "copies")
    equal(copies["pairs"], {"bytes": {"same_recording": 1}, "pcm": {"same_recording": 1}}, "pairs by tier and class")
    for kind, pairs in (("text", 1), ("name", 0), ("language", 1), ("speaker", 1), ("split", 1)):
        conflict = facts["conflicts"][kind]
        check(conflict["clusters"] == (pairs > 0), f"clusters with another {kind}: {conflict}")
        check(conflict["pairs"] >= pairs, f"pairs with another {kind}: {conflict}")
    equal([sorted(example["texts"]) for example in facts["conflicts"]["text"]["examples"]][0], ["deux", "two"], "an example")
    equal(len(facts["leaks"]), 1, "pairs of splits")
    leak = facts["leaks"][0]
    equal((leak["train"], leak["test"], leak["utterances"]), ("train", "test", 3), "the splits")
    equal(leak["groups"], {"audio": 1, "text": 2, "speaker": 1, "source": 0}, "leaks")
    for line in ("another text", "train -> test         audio 1 (33.3 %), text 2 (66.7 %)", "silent                  1 (14.3 %)"):
        check(line in done.stdout, f"no '{line}' in the table:\n{done.stdout}")


def test_a_dataset_and_a_second_call(work):
    first = (work / "out/knowledge.json").read_text(encoding="utf-8")
    facts, done = measure(work / "corpus", work / "out", "--name", "small 1.0")
    check("using" in done.stderr, f"the second call packs again: {done.stderr}")
    equal((work / "out/knowledge.json").read_text(encoding="utf-8"), first, "the second result")
    again, _ = measure(work / "out/dataset.spsh", work / "again", "--name", "small 1.0")
    equal(again, facts, "the result of the packed dataset")


def test_no_splits_and_no_levels(work):
    (work / "plain").mkdir()
    shutil.copy(work / "corpus/one.wav", work / "plain")
    shutil.copy(work / "corpus/one.wav", work / "plain/eins.wav")
    speech(work / "plain/whole.wav", "7:0:6")
    samples = list(struct.unpack("<96000h", (work / "plain/whole.wav").read_bytes()[44:44 + 192000]))
    write_wav(work / "plain/parted.wav", samples[:48000] + [0] * 8000 + samples[48000:])
    facts, done = measure(work / "plain", work / "plain-out", "--", "--trust-headers")
    equal((facts["levels"], facts["leaks"], facts["speakers"]), (None, [], 0), "levels, leaks, speakers")
    equal(facts["conflicts"]["name"]["pairs"], 1, "equal recordings under two names")
    equal([sum(kinds.values()) for kinds in facts["copies"]["pairs"].values()], [1, 1],
          f"a pair with two common stretches counts once: {facts['copies']['pairs']}")
    equal(done.stdout.count("not measured"), 3, "silence, clipping, and leaks that are not measured")


def test_links_between_codecs(work):
    for extension in ("wav", "flac"):
        (work / "codecs").mkdir(exist_ok=True)
        speech(work / f"codecs/two.{extension}", "2:0:2.5")
        speech(work / f"codecs/other.{extension}", f"{len(extension)}:0:2.5")
    measure(work / "codecs", work / "codecs-out")
    done = subprocess.run([sys.executable, PROGRAM.with_name("codec_links.py"), work / "codecs-out/dataset.spsh",
                           work / "codecs-out/plan.jsonl", "--speechshard", COMMAND], capture_output=True, encoding="utf-8",
                          env=environment, check=False)
    equal(done.stdout, "| 2 s | 2 | 1 | 0 | 1 |\npairs of different prompts: 0\n", f"links between codecs: {done.stderr}")


def test_errors(work):
    for words, status, message in (
            ((), 2, "give CORPUS"),
            ((work / "plain",), 2, "give CORPUS"),
            ((work / "nowhere", "-o", work / "o", "--speechshard", COMMAND), 1, "failed with exit status 1"),
            ((work / "plain", "-o", work / "o", "--speechshard", work / "none"), 1, "No such file"),
            ((work / "out/dataset.spsh", work / "plain", "-o", work / "o", "--speechshard", COMMAND), 1, "packed already"),
            (("--summary", work / "corpus.tsv"), 1, "cannot read")):
        done = know(*words)
        equal(done.returncode, status, f"exit status of {words}: {done.stderr}")
        check(message in done.stderr, f"no '{message}' in {done.stderr}")


def test_the_page_has_the_results(work):
    results = sorted((ROOT / "bench/results/knowledge").glob("*.json"))
    page = (ROOT / "docs/KNOWLEDGE.md").read_text(encoding="utf-8")
    done = know("--summary", *results)
    equal(done.returncode, 0, done.stderr)
    equal(len(done.stdout.splitlines()), len(results) + 2, "rows of the summary")
    for line in done.stdout.splitlines():
        check(line in page, f"docs/KNOWLEDGE.md lacks the row {line}")


with tempfile.TemporaryDirectory() as folder:
    run_tests((test_counts, test_a_dataset_and_a_second_call, test_no_splits_and_no_levels, test_links_between_codecs, test_errors,
               test_the_page_has_the_results), pathlib.Path(folder).resolve())
