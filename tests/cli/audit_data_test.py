"""audit_data_test.py COMMAND: audits of real speech, where it is at hand (SPEECHSHARD_TEST_DATA or
../shared/data).

A German voice's uncut Opus originals against their cleaned FLAC twins: every one is found, and with
its own original. LibriSpeech's readers of train against those of test: nothing is shared. Spoken
digits of other speakers: the same words a thousand times, and no shared audio.
"""
import json
import pathlib
import sys
import tempfile

from cli_kit import DATA, check, need_data, run, run_tests

AUDIO = ("recording", "segment", "performance")


def audit(work, name, train, test, *options):
    done = run("audit", "--train", train, "--test", test, "-o", name, *options, cwd=work)
    check(done.returncode in (0, 1), f"{name}: {done.stderr}")
    return done.returncode, json.loads((work / name / "summary.json").read_text())


def pack(work, source, name):
    done = run("pack", source, "-o", work / name, "--max-rejects", "100%")
    check(done.returncode == 0, f"pack {name}: {done.stderr}")


def test_twins(work):
    for side in ("original", "cleaned"):
        pack(work, DATA / "kerstin-pairs" / side, f"{side}.spsh")
    status, summary = audit(work, "twins", "original.spsh", "cleaned.spsh")
    part = summary["test"][0]
    check(status == 1 and part["utterances"] == 120 and part["leaks"]["recording"]["utterances"] == 120,
          f"twins: {part['leaks']['recording']}")
    for line in (work / "twins" / "leaks.jsonl").read_text(encoding="utf-8").splitlines():
        leak = json.loads(line)
        train = leak["evidence"][0]["train"]["id"]
        check(pathlib.PurePath(train).stem == pathlib.PurePath(leak["id"]).stem, f"{leak['id']}: {train}")


def test_other_readers(work):
    pack(work, DATA / "librispeech-351" / "MANIFEST.tsv", "libri.spsh")
    status, summary = audit(work, "readers", "libri.spsh:train-clean-100", "libri.spsh:test-other")
    check(status == 0, "other readers leak nothing")
    for kind, leak in summary["test"][0]["leaks"].items():
        check(leak["utterances"] == 0, f"{kind}: {leak}")


def test_the_same_words(work):
    pack(work, DATA / "fsdd" / "MANIFEST.tsv", "digits.spsh")
    status, summary = audit(work, "digits", "digits.spsh:train", "digits.spsh:dev,test")
    check(status == 0, "the same words leak no audio")
    for part in summary["test"]:
        for kind in AUDIO:
            check(part["leaks"][kind]["utterances"] == 0, f"{part['split']}, {kind}: {part['leaks'][kind]}")
        check(part["leaks"]["sentence"]["utterances"] == 500, f"{part['split']}: {part['leaks']['sentence']}")


need_data("kerstin-pairs", "librispeech-351", "fsdd")
with tempfile.TemporaryDirectory() as folder:
    tests = (test_twins, test_other_readers, test_the_same_words)
    run_tests([test for test in tests if test.__name__ in (sys.argv[2:] or [test.__name__])], pathlib.Path(folder))
