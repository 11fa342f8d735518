"""memory_test.py COMMAND MAKE_SPEECH MAKE_PRINTS: --memory is a limit that the commands keep.

dedupe sorts chunks and joins keys that exceed --memory; audit makes its table in parts, because it
might. The system limits the private memory of the program (RLIMIT_DATA: heap, stacks of threads,
all except mapped files) to --memory and BESIDE_BYTES. The output must equal that with a large
--memory, which must fail under the same limit.
"""
import filecmp
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, check, finish, speech

MAKE_PRINTS = sys.argv[3]
MIB = 1 << 20
CEILING_BYTES = 64 * MIB  # the minimum that the commands accept
# Stacks of 8 MiB, decoders and comparisons, matches, and texts.
BESIDE_BYTES = 32 * MIB
UTTERANCES = 8192
KEYS = 320  # per utterance: 2.6 million, 75 MB when they are joined
CHUNKS = 400  # per utterance: 3.3 million, 105 MB when they are sorted
TALKS = 6
TALK_SECONDS = 500  # 62.5 frames a second, at most 0.8 KB each: up to 150 MB


def run(words, limit_bytes=None, statuses=(0,)):
    def limit():
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_STACK, (8 * MIB, 8 * MIB))
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))

    done = subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          preexec_fn=limit, cwd=work)
    check(done.returncode in statuses, f"{words}: exit {done.returncode}: {done.stderr}")
    return done


def make_corpora():
    """many: cut from one recording, with keys of 200 hours; few: copies; talks: a test side of 50
    minutes."""
    speech(work / "many" / "voice.wav", "90:0:410")
    with open(work / "many" / "corpus.tsv", "w", encoding="utf-8") as table:
        table.write("path\tstart\tduration\ttext\n")
        table.writelines(f"voice.wav\t{i / 20}\t0.05\tnumber {i}\n" for i in range(UTTERANCES))
    run(["pack", "many/corpus.tsv", "-o", "many.spsh"])
    subprocess.run([MAKE_PRINTS, work / "many.spsh", str(KEYS), str(CHUNKS), "1"], check=True)
    for number in range(TALKS):
        speech(work / "talks" / f"talk{number}.flac", f"{number}:0:{TALK_SECONDS}")
        speech(work / "few" / f"clip{number}.flac", f"{number}:{50 * number}.3:5")
        speech(work / "few" / f"again{number}.mp3", f"{number}:{50 * number}.3:5")
    for name in ("few", "talks"):
        run(["pack", name, "-o", f"{name}.spsh", "--layout", "folder"])
        run(["fingerprint", f"{name}.spsh"])


def test_dedupe():
    words = ["dedupe", "many.spsh", "few.spsh", "-j", 2, "-o"]
    small = ["--memory", CEILING_BYTES]
    run([*words, "small.jsonl", *small], CEILING_BYTES + BESIDE_BYTES)
    run([*words, "large.jsonl", "--memory", "2G"])
    plan = (work / "small.jsonl").read_text()
    check(plan == (work / "large.jsonl").read_text(), "dedupe: another plan with a large --memory")
    tiers = [json.loads(line)["tier"] for line in plan.splitlines() if line.startswith('{"type":"pair"')]
    counts = tiers.count("pcm"), tiers.count("acoustic"), len(tiers)
    check(counts == (UTTERANCES // 16, TALKS, UTTERANCES // 16 + TALKS), f"dedupe: pairs {counts}")
    done = run([*words, "refused.jsonl", "--memory", "2G"], CEILING_BYTES + BESIDE_BYTES, statuses=(1,))
    check("out of memory" in done.stderr, f"dedupe beyond the limit: {done.stderr}")


def test_audit():
    words = ["audit", "--train", "few.spsh", "--test", "talks.spsh", "-j", 2, "-o"]
    small = ["--memory", CEILING_BYTES]
    run([*words, "small", *small], CEILING_BYTES + BESIDE_BYTES, statuses=(1,))
    run([*words, "large", "--memory", "2G"], statuses=(1,))
    names = sorted(path.name for path in (work / "small").iterdir())
    check(names == sorted(path.name for path in (work / "large").iterdir()), f"audit: files {names}")
    _, differ, odd = filecmp.cmpfiles(work / "small", work / "large", names, shallow=False)
    check(not differ and not odd, f"audit: with a large --memory others: {differ} {odd}")
    summary = json.loads((work / "small" / "summary.json").read_text())
    check(summary["test"][0]["leaks"]["recording"]["utterances"] == TALKS, f"audit: {summary['test'][0]['leaks']}")
    done = run([*words, "refused", "--memory", "2G"], CEILING_BYTES + BESIDE_BYTES, statuses=(1,))
    check("out of memory" in done.stderr, f"audit beyond the limit: {done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(os.path.realpath(folder))
    make_corpora()
    test_dedupe()
    test_audit()
finish()
