"""copies_kit_test.py COMMAND: the evaluation kit of bench/dedup on real speech, where it is at hand
(SPEECHSHARD_TEST_DATA or ../shared/data) with ffmpeg.

A seed that is held back needs --final, and hears no recording that another seed hears. Copies
through two codecs are found, and no two clips are merged. If two clips of the truth are exchanged,
the kit counts their copies as missed and as false merges.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, DATA, check, equal, need_data, run_tests

KIT = pathlib.Path(__file__).parents[2] / "bench" / "dedup"
sys.path.insert(0, str(KIT))
import copy_sources  # noqa: E402
import copy_transforms  # noqa: E402


def kit(*words):
    return subprocess.run([sys.executable, KIT / "copies_kit.py", *map(str, words)], capture_output=True, encoding="utf-8")


def measure(work):
    done = kit("measure", work, "--command", COMMAND)
    equal(done.returncode, 0, f"measure: {done.stderr}")
    lines = [line.split("\t") for line in done.stdout.splitlines() if not line.startswith("#")]
    return {tuple(row[:4]): dict(zip(lines[0], row)) for row in lines[1:]}


def test_held_back():
    recordings = copy_sources.find(str(DATA))
    heard = [{r.path for r in copy_sources.Pool(recordings, 1, final, "en").files} for final in (False, True)]
    check(heard[0] and heard[1] and not heard[0] & heard[1], f"{len(heard[0])} and {len(heard[1])} recordings")
    with tempfile.TemporaryDirectory() as folder:
        for words in (("--seed", 900), ("--seed", 1, "--final")):
            done = kit("make", pathlib.Path(folder) / "work", "--data", DATA, *words)
            equal(done.returncode, 1, f"{words}: {done.stderr}")
            check("final" in done.stderr and not (pathlib.Path(folder) / "work").exists(), f"{words}: {done.stderr}")


def test_codecs():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder) / "work"
        done = kit("make", work, "--seed", 1, "--data", DATA, "--per-cell", 1, "--others", 8, "--only", "gsm_8,opus16_16")
        equal(done.returncode, 0, f"make: {done.stderr}")
        exchange(work / "truth.tsv", "b4-en-000", "b4-de-000")
        cells = measure(work)
        for command in ("dedupe", "audit"):
            for codec in ("gsm_8", "opus16_16"):
                cell = cells[command, codec, "2.0-3.0", "all"]
                equal((cell["pairs"], cell["found"], cell["false"]), ("2", "2", "0"), f"{command}: {codec}, 2 to 3 s")
                cell = cells[command, codec, "3.0-6.0", "all"]
                check(cell["found"] == "0" and int(cell["false"]) > 0, f"{command}: {codec}, exchanged clips: {cell}")


def exchange(path, one, other):
    """Let copies of two clips contain the recordings of each other. The clips and the training data stay."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    contains = {row[2]: row[5] for row in rows}
    for row in rows:
        if row[2] in (one, other) and row[1] not in ("wav_16", "train"):
            row[5] = contains[other if row[2] == one else one]
    path.write_text("\n".join("\t".join(row) for row in rows) + "\n", encoding="utf-8")


need_data("librispeech-351", "kerstin-pairs", "fsdd", "spatialaudio-rir")
if shutil.which("ffmpeg") is None or not {"libgsm", "libopus", "libmp3lame"} <= copy_transforms.encoders():
    print("skipped: no ffmpeg with GSM, Opus, and MP3")
    sys.exit(77)
run_tests([test_held_back, test_codecs])
