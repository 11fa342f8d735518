"""audit_test.py COMMAND MAKE_SPEECH: audit a corpus with planted leaks of each kind; the report
must be exact.

Corpus `speech` (layout mls) has splits train, dev, and test. Corpus `web` (layout folder) is only
train. dev is clean.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from cli_kit import COMMAND, check, check_head, check_tables, equal, run, run_tests, speech

KINDS = ["recording", "segment", "performance", "sentence", "sentence_near", "document", "source", "speaker"]
URL = "http://www.archive.org/download/book_{}_librivox/chapter_01_64kb.mp3"
WORDS = ("amber basin cedar delta ember fjord grove haven inlet jetty kelp lagoon meadow north ocean prairie quarry "
         "river summit tundra upland valley willow xylem yonder zephyr").split()


def sentence(number):
    """A different sentence for each number."""
    return " ".join(WORDS[(number * 7 + k * k * (number % 5 + 1) + k) % len(WORDS)] + str(number) for k in range(6))


# id -> (pieces, text, (start, end) of its source, rate); text None: a sentence that no other
# utterance has.
TRAIN = {
    "100_200_000000": (["11:0:4"], "the quick brown fox jumps over the lazy dog", (0, 4), 16000),
    "100_200_000001": (["12:0:8"], None, (10, 18), 16000),
    "100_200_000002": (["13:0:3", "14:0:2.5"], None, (20, 25), 16000),
    "101_201_000000": (["15:0:4"], None, (0, 4), 16000),
    "102_202_000000": (["16:0:3"], None, (100, 103), 16000),
}
TEST = {
    "300_400_000000": (["21:0:3"], None, (0, 3), 16000),                       # web has it as MP3
    "301_401_000000": (["21:0:3"], None, (0, 3), 16000),                       # the same bytes again
    "302_402_000000": (["12:3:1.5"], None, (0, 1), 16000),                     # out of 100_200_000001
    "303_403_000000": (["22:0:3", "14:0:2.5"], None, (0, 5), 16000),           # shares a jingle
    "304_404_000000": (["15:0:4"], None, (0, 4), 16160),                       # 1 % faster
    "305_405_000000": (["23:0:3"], "The quick brown fox jumps over the lazy dog.", (0, 3), 16000),
    "306_406_000000": (["24:0:3"], "the quick brown fox jumped over the lazy dog", (0, 3), 16000),
    "102_407_000000": (["25:0:3"], None, (0, 3), 16000),                       # speaker 102
    "308_202_000000": (["26:0:3"], None, (200, 203), 16000),                   # book 202, elsewhere in it
    "309_202_000000": (["27:0:3"], None, (102, 105), 16000),                   # book 202, at a time in train
    "310_410_000000": (["28:0:3"], None, (0, 3), 16000),                       # clean
    "311_411_000000": (["29:0:3"], None, (0, 3), 16000),                       # clean
}
DEV = {f"{n}_{n}_000000": ([f"{n}:0:2"], None, (0, 2), 16000) for n in range(500, 504)}
WANT = {
    "recording": ["300_400_000000", "301_401_000000", "302_402_000000"],
    "segment": ["303_403_000000"],
    "performance": ["304_404_000000"],
    "sentence": ["305_405_000000"],
    "sentence_near": ["306_406_000000"],
    "document": ["308_202_000000", "309_202_000000"],
    "source": ["309_202_000000"],
    "speaker": ["102_407_000000"],
}
DIRTY = sorted(set(sum((WANT[kind] for kind in ("recording", "segment", "performance", "sentence")), [])))


def make_corpora(work):
    root = work / "speech" / "mls_polish"
    number = 0
    for split, utterances in (("train", TRAIN), ("test", TEST), ("dev", DEV)):
        texts, times = [], []
        for name, (pieces, text, (begin, end), rate) in utterances.items():
            speaker, book, _ = name.split("_")
            speech(root / split / "audio" / speaker / book / f"{name}.flac", *pieces, rate=rate)
            texts.append(f"{name}\t{text or sentence(number)}\n")
            times.append(f"{name}\t{URL.format(book)}\t{begin}\t{end}\n")
            number += 1
        (root / split / "transcripts.txt").write_text("".join(texts), encoding="utf-8")
        (root / split / "segments.txt").write_text("".join(times), encoding="utf-8")
    speech(work / "web" / "copied.mp3", "21:0:3")
    speech(work / "web" / "other.mp3", "31:0:3")
    for name in ("speech", "web"):
        done = run("pack", work / name, "-o", work / f"{name}.spsh", "--max-rejects", "100%")
        check(done.returncode == 0, f"pack {name}: {done.stderr}")


def audit(work, name, *options, train=("speech.spsh:train", "web.spsh"), test=("speech.spsh:test",)):
    sides = []
    for side, operands in (("--train", train), ("--test", test)):
        for operand in operands:
            sides += [side, operand]
    return run("audit", *sides, "-o", name, *options, cwd=work)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines(folder, name):
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def kinds_of(folder):
    found = {kind: [] for kind in KINDS}
    for leak in lines(folder, "leaks.jsonl"):
        for kind in leak["kinds"]:
            found[kind].append(leak["id"].split("/")[-1])
    return {kind: sorted(ids) for kind, ids in found.items()}


def test_kinds(work):
    done = audit(work, "audit")
    equal(done.returncode, 1, f"status: {done.stderr}")
    folder = work / "audit"
    equal(sorted(files_of(folder)),
          ["clean-speech-test.txt", "dirty-speech-test.txt", "leaks.jsonl", "pairs.jsonl", "report.html",
           "statement.json", "summary.json"], "files")
    found = kinds_of(folder)
    for kind in KINDS:
        equal(found[kind], WANT[kind], kind)
    summary = json.loads((folder / "summary.json").read_text())
    equal([(part["corpus"], part["split"], part["utterances"]) for part in summary["train"]],
          [("speech.spsh", "train", len(TRAIN)), ("web.spsh", None, 2)], "train")
    equal([(part["corpus"], part["split"], part["utterances"]) for part in summary["test"]],
          [("speech.spsh", "test", len(TEST))], "test")
    leaks = summary["test"][0]["leaks"]
    for kind in KINDS:
        equal(leaks[kind]["utterances"], len(WANT[kind]), f"summary: {kind}")
    equal(leaks["recording"]["percent"], 25.0, "percent")
    check(abs(leaks["recording"]["percent_low"] - 8.893865) < 1e-3, f"low end: {leaks['recording']}")
    check(abs(leaks["recording"]["percent_high"] - 53.231) < 1e-2, f"high end: {leaks['recording']}")
    check(abs(leaks["recording"]["minutes"] - 7.5 / 60) < 1e-5, f"minutes: {leaks['recording']}")
    # The train split of each match: the MP3 is in web, all others in speech.
    cells = {cell["train"]: cell["leaks"] for cell in summary["cells"]}
    equal(cells[0]["recording"]["utterances"], 1, "cell speech")
    equal(cells[1]["recording"]["utterances"], 2, "cell web")
    equal(cells[1]["segment"]["utterances"], 0, "cell web, segment")
    equal([(f["kind"], f["utterances"], f["limit_percent"]) for f in summary["failures"]],
          [("recording", 3, 0.0), ("segment", 1, 0.0)], "failures")
    equal(sorted(name.split("/")[-1] for name in (folder / "dirty-speech-test.txt").read_text().split()), DIRTY, "dirty")
    equal(len((folder / "clean-speech-test.txt").read_text().split()), len(TEST) - len(DIRTY), "clean")
    check("3 of 12 utterances (25.00 %)" in done.stderr and "by 25.00 %" in done.stderr,
          f"messages: {done.stderr}")
    for kind in KINDS:
        check(kind in done.stdout, f"{kind} in the table")
    check("305_405_000000  with speech.spsh: 100_200_000000  (text_exact)" in done.stdout, f"an example: {done.stdout}")
    check("arXiv 2505.22251" in done.stderr and "Common Voice" in done.stderr, "notes")
    check(not (work / "audit.work").exists(), "work folder is gone")


def test_evidence(work):
    folder = work / "audit"
    leaks = {leak["id"].split("/")[-1]: leak for leak in lines(folder, "leaks.jsonl")}
    part = leaks["302_402_000000"]["evidence"][0]
    equal((part["kind"], part["class"], part["train"]["id"].split("/")[-1], part["train"]["split"]),
          ("recording", "contained", "100_200_000001", "train"), "a part")
    check(abs(part["train_start_s"] - part["start_s"] - 3.0) < 0.02, f"where it lies: {part}")
    first, second = (leaks[name]["evidence"][0] for name in ("300_400_000000", "301_401_000000"))
    equal(first["train"]["corpus"], "web.spsh", "the MP3")
    copies = [evidence["copy_of"] for evidence in (first, second)]
    equal(sum(copy is not None for copy in copies), 1, f"one speaks for the other: {copies}")
    pairs = lines(folder, "pairs.jsonl")
    for pair in pairs:
        check(pair["schema"] == "speechshard-audit-pair-1" and pair["b"]["split"] == "test" and
              pair["a"]["split"] in ("train", None), f"sides: {pair}")
    segment = [pair for pair in pairs if pair["kinds"] == ["segment"]]
    equal(len(segment), 1, "segments")
    got = segment[0]["segments"][0]
    check(abs(got["a_start"] - 3.0) < 0.1 and abs(got["b_start"] - 3.0) < 0.1 and
          abs(got["a_end"] - 5.5) < 0.1, f"the stretch: {got}")
    near = [pair for pair in pairs if "sentence_near" in pair["kinds"]]
    check(len(near) == 1 and 0.9 < near[0]["text"]["similarity"] < 1 and not near[0]["text"]["exact"], f"near: {near}")
    page = (folder / "report.html").read_text(encoding="utf-8")
    root = ElementTree.fromstring(page.encode())
    rows = check_head(root, "the page")
    check_tables(root, "the page")
    check("speechshard audit --train " in "".join(rows["command"].itertext()), "the command")


def test_the_same_bytes(work):
    want = files_of(work / "audit")
    runs = {
        "one": (["--jobs", "1"], {}),
        "two": (["--jobs", "2", "--memory", "64M"], {}),
        "eight": (["--jobs", "8", "--work", work / "elsewhere"], {}),
        "order": ([], {"train": ("web.spsh", "speech.spsh:train")}),
    }
    for name, (options, sides) in runs.items():
        audit(work, name, *options, **sides)
        got = files_of(work / name)
        equal(sorted(got), sorted(want), f"{name}: files")
        for file in want:
            check(got.get(file) == want[file], f"{name}: {file} differs")


def test_limits(work):
    cases = [
        (["--fail-on", "none"], 0),
        (["--fail-on", "recording=25", "--fail-on", "segment=10"], 0),
        (["--fail-on", "recording=24.9", "--fail-on", "segment=10"], 1),
        (["--fail-on", "none", "--fail-on", "speaker"], 1),
        (["--fail-on", "none", "--fail-on", "sentence=8.4"], 0),
        (["--fail-on", "none", "--fail-on", "sentence=8.3"], 1),
    ]
    for options, status in cases:
        done = audit(work, "limits", *options)
        equal(done.returncode, status, f"{options}: {done.stderr}")
        summary = json.loads((work / "limits" / "summary.json").read_text())
        equal(summary["failed"], status == 1, f"{options}: failed")
    for options in (["--fail-on", "sentnce"], ["--fail-on", "sentence=101"], ["--fail-on", "sentence=x"],
                    ["--fail-on", "none=3"], ["--profile", "none"]):
        equal(audit(work, "limits", *options).returncode, 2, f"{options}")
    check("did you mean 'sentence'?" in audit(work, "limits", "--fail-on", "sentnce").stderr, "nearest kind")


def test_clean(work):
    done = audit(work, "clean", test=("speech.spsh:dev",))
    equal(done.returncode, 0, f"clean: {done.stderr}")
    equal((work / "clean" / "leaks.jsonl").read_text(), "", "no leak")
    equal((work / "clean" / "dirty-speech-dev.txt").read_text(), "", "nothing dirty")
    equal(len((work / "clean" / "clean-speech-dev.txt").read_text().split()), len(DEV), "all clean")
    done = audit(work, "two-splits", "--json", test=("speech.spsh:dev,test",))
    equal(done.returncode, 1, "one of two splits leaks")
    equal(done.stdout, (work / "two-splits" / "summary.json").read_text(), "--json is summary.json")
    equal([part["split"] for part in json.loads(done.stdout)["test"]], ["dev", "test"], "splits")


def test_folders(work):
    before = files_of(work / "audit")
    (work / "audit" / "notes.md").write_text("mine")
    done = audit(work, "audit", test=("speech.spsh:dev",))
    equal(done.returncode, 0, f"replaced: {done.stderr}")
    after = files_of(work / "audit")
    equal(after.pop("notes.md"), b"mine", "files of others stay")
    check("clean-speech-test.txt" not in after and "clean-speech-dev.txt" in after, f"lists: {sorted(after)}")
    (work / "audit" / "notes.md").unlink()
    audit(work, "audit")
    equal(files_of(work / "audit"), before, "and back")
    (work / "taken").mkdir()
    (work / "taken" / "summary.json").write_text("{}")
    for name in ("taken", "speech.spsh", "speech/mls_polish/test/transcripts.txt"):
        done = audit(work, name)
        equal(done.returncode, 1, f"{name} is refused: {done.stderr}")
        check("not a report of an audit" in done.stderr or "cannot read the folder" in done.stderr, f"{name}: {done.stderr}")
    equal(files_of(work / "taken"), {"summary.json": b"{}"}, "untouched")


def test_statement(work):
    statement = work / "audit" / "statement.json"
    stated = json.loads(statement.read_text())
    equal([entry["side"] for entry in stated["inputs"]], ["train", "train", "test"], "inputs")
    equal(stated["files"]["pairs.jsonl"] != stated["files"]["leaks.jsonl"], True, "files")
    sides = ["--train", "web.spsh", "--train", "speech.spsh:train", "--test", "speech.spsh:test"]
    equal(run("audit", "--check", statement, cwd=work).returncode, 0, "unchanged")
    done = run("audit", "--check", statement, *sides, cwd=work)
    equal(done.returncode, 0, f"same data: {done.stderr}")
    check("6 files" in done.stdout, f"files: {done.stdout}")
    for other in (["--train", "web.spsh", "--test", "speech.spsh:test"],
                  ["--train", "web.spsh", "--train", "speech.spsh", "--test", "speech.spsh:test"],
                  ["--train", "web.spsh", "--train", "speech.spsh:train", "--test", "speech.spsh:dev"]):
        done = run("audit", "--check", statement, *other, cwd=work)
        equal(done.returncode, 1, f"other data: {other} {done.stderr}")
    check("differs in splits" in done.stderr, f"what differs: {done.stderr}")
    shutil.copytree(work / "audit", work / "changed")
    changed = work / "changed" / "statement.json"
    text = statement.read_text()
    changed.write_text(text.replace('"utterances": 12', '"utterances": 13', 1))
    done = run("audit", "--check", changed)
    check(done.returncode == 1 and "was changed" in done.stderr, f"changed: {done.stderr}")
    changed.write_text(text)
    (work / "changed" / "clean-speech-test.txt").write_text("all\n")
    done = run("audit", "--check", changed)
    check(done.returncode == 1 and "clean-speech-test.txt was changed" in done.stderr, f"a file: {done.stderr}")
    (work / "changed" / "clean-speech-test.txt").unlink()
    equal(run("audit", "--check", changed).returncode, 0, "a file that is not there")
    equal(run("audit", "--check", work / "audit" / "summary.json").returncode, 1, "no statement")
    shutil.rmtree(work / "changed")


def test_usage(work):
    for words in ([], ["--train", "speech.spsh:train"], ["--train", "a", "--test", "b"], ["x"],
                  ["--train", ":train", "--test", "b", "-o", "x"]):
        done = run("audit", *words, cwd=work)
        equal(done.returncode, 2, f"{words}: {done.stderr}")
        equal(done.stdout, "", f"{words}: output")
    for train, test, what in ((("speech.spsh:trian",), ("speech.spsh:test",), "trian"),
                              (("speech.spsh",), ("speech.spsh:test",), "test"),
                              (("nowhere.spsh",), ("speech.spsh:test",), "nowhere.spsh")):
        done = audit(work, "usage", train=train, test=test)
        check(done.returncode in (1, 2) and what in done.stderr, f"{train}: {done.returncode} {done.stderr}")
        check(not (work / "usage").exists(), f"{train}: nothing was written")


def test_damage(work):
    """The error for damage names the command that repairs it. A typo in a split's name fails before
    anything is written."""
    pack_table(work, "broken", [("train", "one", "a first one", ["90:0:150"]), ("test", "two", "a second one", ["91:0:150"])])
    equal(run("fingerprint", "broken.spsh", cwd=work).returncode, 0, "before")
    sides = {"train": ("broken.spsh:train",), "test": ("broken.spsh:test",)}
    for folder, hint in (("fingerprints", "'speechshard fingerprint broken.spsh' makes damaged fingerprints again"),
                         ("shards", "'speechshard verify broken.spsh' lists the damage")):
        path = next((work / "broken.spsh" / folder).iterdir())
        content = bytearray(path.read_bytes())
        content[-5 * 4096] ^= 0x55  # the end of the data: in a page of 64 KiB that opening does not read
        path.write_bytes(content)
        done = audit(work, "damaged", **sides)
        equal(done.returncode, 1, f"damaged {folder}: {done.stderr}")
        check(hint in done.stderr, f"damaged {folder}: {done.stderr}")
        equal(run("fingerprint", "broken.spsh", cwd=work).returncode, int(folder == "shards"), f"fingerprint: {folder}")
        shutil.rmtree(work / "broken.spsh" / "fingerprints", ignore_errors=True)
    for train, told in (("web.spsh:train", "web.spsh: no split 'train'; this dataset has no splits"),
                        ("broken.spsh:trian", "broken.spsh: no split 'trian'; this dataset has the splits ")):
        done = audit(work, "damaged", train=(train,), test=("broken.spsh:test",))
        equal(done.returncode, 2, f"{train}: {done.stderr}")
        check(told in done.stderr, f"{train}: {done.stderr}")
        check(not (work / "broken.spsh" / "fingerprints").exists(), f"{train}: nothing was made")
    done = audit(work, "damaged", test=("speech.spsh:caf\udce9",))
    equal(done.returncode, 2, f"not UTF-8: {done.stderr}")
    check("the name of a split must be valid UTF-8" in done.stderr, f"not UTF-8: {done.stderr}")
    check(not (work / "damaged").exists(), "nothing was written")


def test_stopped_runs_go_on(work):
    """Kill the audit at any point and repeat it: the report is the same, and no other files
    remain."""
    want = files_of(work / "audit")
    words = [COMMAND, "audit", "--train", "speech.spsh:train", "--train", "web.spsh", "--test", "speech.spsh:test",
             "-o", "killed", "--quiet"]
    delays = [0.01, 0.03, 0.06, 0.09, 0.12, 0.16, 0.2]
    for number, delay in enumerate(delays):
        for name in ("speech.spsh", "web.spsh"):
            if number % 3 == 0:
                shutil.rmtree(work / name / "fingerprints", ignore_errors=True)
        process = subprocess.Popen(words, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(delay)
        process.send_signal(signal.SIGTERM if number % 2 else signal.SIGKILL)
        messages = process.communicate()[1].decode()
        check(process.returncode in (1, -signal.SIGKILL, -signal.SIGTERM), f"{delay}: {process.returncode} {messages}")
        if messages and "leak:" not in messages:
            check("the same command continues" in messages, f"stopped: {messages}")
    done = subprocess.run(words, cwd=work, capture_output=True, encoding="utf-8")
    equal(done.returncode, 1, f"after all: {done.stderr}")
    equal(files_of(work / "killed") == want, True, "the same report")
    check(not (work / "killed.work").exists(), "work folder is gone")


def test_parts(work):
    """Three machines share the fingerprints and the comparison, in any order, and one writes the
    report."""
    want = files_of(work / "audit")
    words = ["audit", "--train", "speech.spsh:train", "--train", "web.spsh", "--test", "speech.spsh:test", "-o", "parts"]
    for name in ("speech.spsh", "web.spsh"):
        shutil.rmtree(work / name / "fingerprints")
    for part in (2, 1):
        done = run(*words, "--part", f"{part}/3", cwd=work)
        equal(done.returncode, 0, f"part {part}: {done.stderr}")
        check("run the same command again when the other parts are complete" in done.stderr, f"part {part}: {done.stderr}")
    for part in (0, 2, 1, 1):
        done = run(*words, "--part", "auto/3", cwd=work, JOB_COMPLETION_INDEX=str(part))
        equal(done.returncode, 0, f"part {part} again: {done.stderr}")
        check("the same command without a part writes the report" in done.stderr, f"part {part}: {done.stderr}")
    equal((work / "parts").exists(), False, "a report of a part")
    check(any((work / "parts.work").glob("judged-*")), "the parts compared candidates")
    done = run(*words, cwd=work)
    equal(done.returncode, 1, f"the report: {done.stderr}")
    equal(files_of(work / "parts") == want, True, "the same report")
    equal((work / "parts.work").exists(), False, "the work folder remains")


def pack_table(work, name, rows):
    """rows: (split, speaker, text, pieces); ids are the places in the table."""
    folder = work / name
    folder.mkdir()
    table = ["path\tsplit\tspeaker\ttext\n"]
    for number, (split, speaker, text, pieces) in enumerate(rows):
        speech(folder / f"{number}.wav", *pieces)
        table.append(f"{number}.wav\t{split}\t{speaker}\t{text}\n")
    (folder / "table.tsv").write_text("".join(table), encoding="utf-8")
    done = run("pack", folder / "table.tsv", "-o", work / f"{name}.spsh", "--max-rejects", "100%")
    check(done.returncode == 0, f"pack {name}: {done.stderr}")


def test_each_train_split_is_told(work):
    """More train utterances than pairs are listed: none of the cells may miss its leak."""
    rows = [("first", "one", "it is the same again", [f"{600 + n}:0:1.5"]) for n in range(12)]
    rows += [("second", "two", "it is the same again", ["620:0:1.5"])]
    rows += [("third", "three", "quite another one here", ["621:0:1.5"])]
    rows += [("test", "four", "It is the SAME again!", ["622:0:1.5"])]
    pack_table(work, "many", rows)
    done = audit(work, "many-audit", "--fail-on", "sentence=50", train=("many.spsh:first,second,third",),
                 test=("many.spsh:test",))
    equal(done.returncode, 1, f"sentence: {done.stderr}")
    summary = json.loads((work / "many-audit" / "summary.json").read_text())
    equal([cell["leaks"]["sentence"]["utterances"] for cell in summary["cells"]], [1, 1, 0], "cells")
    leak, = lines(work / "many-audit", "leaks.jsonl")
    equal(leak["train_utterances"]["sentence"], 13, "all are counted")
    per_split = {}
    for pair in lines(work / "many-audit", "pairs.jsonl"):
        per_split[pair["a"]["split"]] = per_split.get(pair["a"]["split"], 0) + 1
    equal(per_split, {"first": 3, "second": 1}, "pairs that are listed")


def test_skipped_utterances_are_on_no_side(work):
    rows = [("train", "one", "a first one", ["700:0:2"]), ("train", "two", "a second one", ["701:0:2"]),
            ("test", "three", "a third one", ["700:0:2"]), ("test", "four", "a fourth one", ["702:0:2"])]
    pack_table(work, "skip", rows)
    sides = {"train": ("skip.spsh:train",), "test": ("skip.spsh:test",)}
    equal(audit(work, "skip-audit", **sides).returncode, 1, "before")
    ids = [json.loads(line) for line in run("ls", "--json", work / "skip.spsh").stdout.splitlines()]
    guilty = [entry["id"] for entry in ids if entry["text"] == "a first one"]
    (work / "skipped.txt").write_text("".join(f"{name}\n" for name in guilty))
    done = run("overlay", work / "skip.spsh", "add", "clean", "--skip", work / "skipped.txt")
    equal(done.returncode, 0, f"overlay: {done.stderr}")
    equal(audit(work, "skip-audit", **sides).returncode, 0, "after")
    summary = json.loads((work / "skip-audit" / "summary.json").read_text())
    equal([part["utterances"] for part in summary["train"]], [1], "what is left")
    dirty = (work / "skip-audit" / "dirty-skip-test.txt").read_text()
    equal(dirty, "", "nothing is dirty")
    stated = json.loads((work / "skip-audit" / "statement.json").read_text())
    equal([entry["overlays"] for entry in stated["inputs"]],
          [[{"name": "clean", "type": "skip", "entries": 1}]] * 2, "the overlay is stated")


def test_hostile_names(work):
    rows = [("a/../b", "<b>", "]]> &amp; <script>", ["800:0:2"]), ("a_.._b", "x", "שלום עולם", ["801:0:2"]),
            ("train", "<b>", "]]> &amp; <script>", ["800:0:2"])]
    pack_table(work, "hostile <i>", rows)
    done = audit(work, "hostile-audit", train=("hostile <i>.spsh:train",), test=("hostile <i>.spsh:a/../b,a_.._b",))
    equal(done.returncode, 1, f"hostile: {done.stderr}")
    names = [name for name in files_of(work / "hostile-audit") if name.endswith(".txt")]
    equal(sorted(names), sorted(f"{word}-hostile__i_-a_.._b{more}.txt" for word in ("clean", "dirty")
                                for more in ("", "+2")), "names of lists")
    page = (work / "hostile-audit" / "report.html").read_text(encoding="utf-8")
    ElementTree.fromstring(page.encode())
    check(page.count("<script") == 1 and "<i>" not in page.replace("<i></i>", ""), "markup out of the corpus")
    equal(run("audit", "--check", work / "hostile-audit" / "statement.json").returncode, 0, "statement")
    (work / "hostile <i>.spsh").rename(work / "bad\udcff.spsh")  # a byte that is not UTF-8
    done = audit(work, "hostile-audit", train=("bad\udcff.spsh:train",), test=("bad\udcff.spsh:a_.._b",))
    equal(done.returncode, 0, f"a folder that is not UTF-8: {done.stderr}")
    summary = json.loads((work / "hostile-audit" / "summary.json").read_text(encoding="utf-8"))
    equal(summary["test"][0]["corpus"], "bad?.spsh", "its name")
    ElementTree.parse(work / "hostile-audit" / "report.html")


def test_estimate(work):
    shutil.rmtree(work / "web.spsh" / "fingerprints")
    done = audit(work, "estimated", "--estimate", "--json")
    equal(done.returncode, 0, f"estimate: {done.stderr}")
    estimate = json.loads(done.stdout)
    train, test = (3600 * estimate[f"{side}_hours"] for side in ("train", "test"))
    check(abs(train - 30.5) < 0.5 and abs(test - 37.96) < 0.01, f"seconds of audio: {train} {test}")
    check(estimate["fingerprint_hours"] > 0, f"to be made: {estimate}")
    done = audit(work, "estimated", "--estimate")
    check("temporary space" in done.stdout and "missing for" in done.stdout, done.stdout)
    check(not (work / "estimated").exists() and not (work / "web.spsh" / "fingerprints").exists(), "nothing is made")


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    make_corpora(place)
    run_tests((test_kinds, test_evidence, test_the_same_bytes, test_stopped_runs_go_on, test_parts, test_limits, test_clean,
               test_folders, test_statement, test_usage, test_damage, test_each_train_split_is_told,
               test_skipped_utterances_are_on_no_side, test_hostile_names, test_estimate), place)
