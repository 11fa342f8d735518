"""audit_data_test.py COMMAND: audits of real speech, where it is at hand (SPEECHSHARD_TEST_DATA or ../shared/data).

A German voice's uncut Opus originals against their cleaned FLAC twins: every one is found, and with its own original.
LibriSpeech's readers of train against those of test: nothing is shared. Spoken digits of other speakers: the same
words a thousand times, and no shared audio.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

COMMAND = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(os.environ.get("SPEECHSHARD_TEST_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))
AUDIO = ("recording", "segment", "performance")
failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def run(*words, cwd=None):
    return subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", cwd=cwd)


def audit(work, name, train, test, *options):
    done = run("audit", "--train", train, "--test", test, "-o", name, *options, cwd=work)
    check(done.returncode in (0, 1), f"{name}: {done.stderr}")
    return done.returncode, json.loads((work / name / "summary.json").read_text())


def pack(work, source, name):
    done = run("pack", source, "-o", work / name, "--max-rejects", "100%")
    check(done.returncode == 0, f"pack {name}: {done.stderr}")


def test_twins(work):
    for side in ("original", "cleaned"):
        pack(work, ROOT / "kerstin-pairs" / side, f"{side}.spsh")
    status, summary = audit(work, "twins", "original.spsh", "cleaned.spsh")
    part = summary["test"][0]
    check(status == 1 and part["utterances"] == 120 and part["leaks"]["recording"]["utterances"] == 120,
          f"twins: {part['leaks']['recording']}")
    for line in (work / "twins" / "leaks.jsonl").read_text(encoding="utf-8").splitlines():
        leak = json.loads(line)
        train = leak["evidence"][0]["train"]["id"]
        check(pathlib.PurePath(train).stem == pathlib.PurePath(leak["id"]).stem, f"{leak['id']}: {train}")


def test_other_readers(work):
    pack(work, ROOT / "librispeech-351" / "MANIFEST.tsv", "libri.spsh")
    status, summary = audit(work, "readers", "libri.spsh:train-clean-100", "libri.spsh:test-other")
    check(status == 0, "other readers leak nothing")
    for kind, leak in summary["test"][0]["leaks"].items():
        check(leak["utterances"] == 0, f"{kind}: {leak}")


def test_the_same_words(work):
    pack(work, ROOT / "fsdd" / "MANIFEST.tsv", "digits.spsh")
    status, summary = audit(work, "digits", "digits.spsh:train", "digits.spsh:dev,test")
    check(status == 0, "the same words leak no audio")
    for part in summary["test"]:
        for kind in AUDIO:
            check(part["leaks"][kind]["utterances"] == 0, f"{part['split']}, {kind}: {part['leaks'][kind]}")
        check(part["leaks"]["sentence"]["utterances"] == 500, f"{part['split']}: {part['leaks']['sentence']}")


missing = [name for name in ("kerstin-pairs", "librispeech-351", "fsdd") if not (ROOT / name).is_dir()]
if missing:
    print("skipped:", ROOT, "lacks", *missing)
    sys.exit(1 if os.environ.get("SPEECHSHARD_REQUIRE_DATA") == "1" else 77)
with tempfile.TemporaryDirectory() as folder:
    for test in (test_twins, test_other_readers, test_the_same_words):
        before = failures
        test(pathlib.Path(folder))
        print("ok" if failures == before else "FAILED", test.__name__)
sys.exit(1 if failures else 0)
