"""strategies_test.py COMMAND MAKE_SPEECH CLOCK [TEST...]: bench/strategies/compare.py on a corpus
of made voices, with small numbers. CLOCK is `real`, for processes of mpirun, or `virtual`. TEST...:
run only these tests."""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, check, equal, read_page, run_tests, speech

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench" / "strategies"), str(ROOT / "tests" / "mpi")]
import compare as compare_py  # noqa: E402
from mpi_kit import own_session  # noqa: E402
COMPARE = ROOT / "bench" / "strategies" / "compare.py"
CLOCK = ["--real"] if sys.argv[3] == "real" else []
TAKES = 8  # per digit of each of two voices; 0 to 4 are the test
ELEMENTS = set("html head meta title style body main section h1 h2 p code div span bdi table thead tbody tr th td "
               "details summary svg line text path circle rect".split())


def make(folder):
    for digit in range(10):
        for speaker in range(2):
            for take in range(TAKES):
                piece = f"{1 + 100 * speaker + 10 * digit + take}:0:0.25"
                speech(folder / f"{digit}_{('george', 'lucas')[speaker]}_{take}.wav", piece, rate=8000)


def compare(work, recordings, *words):
    command = [sys.executable, COMPARE, COMMAND, recordings, work / "work", "-o", work / "found.json", "--page",
               work / "page.html", "--quick", "--learners", "1,2", "--link", "50us+1Gbit", "--simulated", "4", "--epochs", "3", *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n")
    return done, json.loads((work / "found.json").read_text()) if (work / "found.json").exists() else {}


def check_rows(found, strategies):
    rows = {row["strategy"]: row for row in found["curves"]}
    equal(list(rows), ["one device", *strategies], "rows")
    for row in rows.values():
        equal(row["failed"], None, row["strategy"])
        check(row["wer"] is not None and 0 <= row["wer"] <= 2, f"WER {row['wer']}")
        points = row["curves"]["0"]
        check(len(points) > 1 and all(math.isfinite(loss) for _, _, loss in points), f"losses {points}")
        check(all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(points, points[1:])), f"samples, times: {points}")
        equal(points[-1][0], 3 * 2 * 10 * (TAKES - 5), "utterances of three epochs")
    equal(rows["one device"]["sent_bytes"], 0, "one device sends nothing")
    for name in strategies:
        check(rows[name]["sent_bytes"] > 4 * rows[name]["weights"], f"{name} sent {rows[name]['sent_bytes']} bytes")
    return rows


def check_all(found, rows, slow):
    equal(rows["allreduce"]["staleness"]["0"], None, "steps together: nothing is counted")
    check(rows["adpsgd-random"]["staleness"]["0"] is not None, "staleness of free learners")
    for name in ("allreduce", "adpsgd-random"):
        equal(set(rows[name]["curves"]), set(slow), f"{name}: stragglers")
    equal(found["shares"]["allreduce"].keys(), {"0", "1", "2"}, "shares")
    check(found["shares"]["allreduce"]["1"] < 0.3 < found["shares"]["adpsgd-random"]["1"], f"{found['shares']}")
    for cluster in found["simulated"]:
        equal(cluster["failed"], None, cluster["cluster"])
        equal(len(cluster["runs"]), 6, "1, 2 and 4 learners of two strategies")


def test_it_goes_through(work, recordings):
    """The table, with stragglers, and the planner's part; the page is one; started again, it has
    all."""
    words = ["--strategies", "allreduce,adpsgd-random", "--parts", "curves,ends,simulated"]
    done, found = compare(work, recordings, *words, *CLOCK)
    equal(done.returncode, 0, f"compare.py: {done.stderr}")
    rows = check_rows(found, ["allreduce", "adpsgd-random"])
    check(0 < found["target_loss"] < 1000, f"target {found['target_loss']}")
    check(rows["one device"]["to_target"]["0"]["samples"] <= 90, "one device has it behind half of its utterances")
    check_all(found, rows, "012")
    for row in found["ends"]: # with --quick, the same runs, so the same number of epochs
        equal((row["wer"], row["wer_more"], row["failed"]), (*(rows[row["strategy"]][key] for key in ("wer", "wer_more")), None),
              f"the end of {row['strategy']}")
    equal(len(found["ends"]), 3, "one device and two strategies")
    check("adpsgd-random" in done.stdout and "to one device" in done.stdout, "the table")
    root = read_page(work / "page.html", ELEMENTS, "the page", has_head=False)
    check(len([one for one in root.iter() if one.tag.endswith("}path")]) > 10, "lines of the page")
    kept = {path: path.stat().st_mtime_ns for path in (work / "work" / "results").iterdir()}
    again, same = compare(work, recordings, *words, *CLOCK)
    equal(again.returncode, 0, f"again: {again.stderr}")
    equal(kept, {path: path.stat().st_mtime_ns for path in (work / "work" / "results").iterdir()}, "results are kept")
    equal(same["curves"], found["curves"], "and the same")


def test_the_other_parts(work, recordings):
    """Larger batches under the virtual clock, throughput of processes without it; `pipeline`, which
    has no such clock."""
    part = "real" if CLOCK else "batches"
    done, found = compare(work, recordings, "--strategies", "allreduce,pipeline", "--parts", f"curves,{part}", "--batches", "1,2",
                          *(["--seeds", "2"] if CLOCK else []), *CLOCK)
    equal(done.returncode, 0, f"compare.py: {done.stderr}")
    read_page(work / "page.html", ELEMENTS, "the page", has_head=False)
    rows = {row["strategy"]: row for row in found["curves"]}
    if CLOCK:
        check_rows(found, ["allreduce", "pipeline"])
        equal([(row["strategy"], row["processes"]) for row in found["real"]], [("allreduce", 1), ("allreduce", 2)], "rows")
        for row in found["real"]:
            check(row["failed"] is None and len(row["commands"]) == len(row["utterances_per_s"]) == 2, f"a run a seed: {row}")
            check(min(row["utterances_per_s"]) > 0 and all(0 <= share <= 1 for share in row["stolen"]), f"{row}")
            check(f"{compare_py.table.number(min(row['utterances_per_s']))} - " in done.stdout, "the slowest run is in the table")
        return
    check("cannot be simulated" in rows["pipeline"]["failed"], rows["pipeline"]["failed"])
    check("pipeline (2): " in done.stdout, "why there is no row of it")
    equal([(row["strategy"], row["times"]) for row in found["batches"]],
          [("one device", 1), ("one device", 2), ("allreduce", 1), ("allreduce", 2)], "rows")
    for row in found["batches"]:
        check(row["failed"] is None and len(row["wers"]) == 1 and math.isfinite(row["losses"][0]), f"{row}")
        check(f"train.rate={0.02 * row['times']:g}" in row["commands"][0], f"{row['times']} times the rate: {row['commands']}")
    one, two = found["batches"][:2]
    check(one["steps"] > 1.5 * two["steps"], f"steps of twice as much: {one['steps']}, {two['steps']}")


def test_throughput(work, recordings):
    """Real processes, with one seed and without curves."""
    done, found = compare(work, recordings, "--strategies", "allreduce", "--parts", "real", "--seeds", "1", *CLOCK)
    equal(done.returncode, 0, f"compare.py: {done.stderr}")
    equal([(row["strategy"], row["processes"], row["failed"]) for row in found["real"]],
          [("allreduce", 1, None), ("allreduce", 2, None)], "rows")


def result(wer):
    """Result of a run of one step."""
    return {"command": "", "failed": None, "steps": [[10, 1.0, 5.0, 10]], "weights": 1, "sent_bytes": 0, "staleness": None,
            "evaluations": [{"samples": 10, "wer": wer, "loss": 1.0}]}


def test_seeds_are_compared_with_their_own(_work, _recordings):
    """A WER is compared with the WER of one device with the same seed, for the seeds that exist."""
    one = compare_py.Comparison.__new__(compare_py.Comparison)
    one.o, one.target = argparse.Namespace(seeds=3), None
    one.baseline = [result(0.1), {"command": "", "failed": "no time was left"}, result(0.3)]
    row = one.row_of("allreduce", 8, {(0, 1): result(0.2), (0, 2): result(0.9), (0, 3): result(0.5), (1, 1): result(0.7)})
    check(abs(row["wer_more"] - 0.15) < 1e-12, f"{row['wer_more']}: of seeds 1 and 3")
    equal(row["wers"], [0.2, 0.9, 0.5], "of all seeds, without stragglers")


def test_batches_that_degrade(_work, _recordings):
    """The size from which all larger ones are worse or failed; sizes that were not run do not
    count."""
    def row(strategy, times, wers, failed=None):
        return {"strategy": strategy, "learners": 1, "batch_s": times, "rate": 1.0, "steps": 1, "losses": wers, "wers": wers, "failed": failed}
    rows = [row("one device", 1, [0.1]), row("one device", 2, [0.104]), row("one device", 4, [], "a loss is not a number"),
            row("allreduce", 1, [0.2]), row("allreduce", 2, [0.1]), row("allreduce", 4, [], "no time was left"),
            row("d1-model", 1, [0.12]), row("d1-model", 2, [0.11, 0.13])]
    bad = compare_py.table.degraded(rows)
    equal(bad, {"one device": 4, "allreduce": None, "d1-model": 1}, "from which size on")
    equal([compare_py.table.batch_cells(one, bad[one["strategy"]])[-1] for one in rows],
          ["no", "no", "yes", "no", "no", "-", "yes", "yes"], "degrades")


def test_published_figures_are_told_from_derived_ones(_work, _recordings):
    """A dot is a speed-up that a source states; a ring is derived from a share and labeled so."""
    marks = compare_py.page.marks_of({"published": compare_py.table.PUBLISHED}, 128)
    equal([(learners, times) for learners, times, is_said, _ in marks if is_said], [(64, 40)], "said")
    check(all("derived" in title for _, _, is_said, title in marks if not is_said) and len(marks) > 1, f"{marks}")
    runs = [{"strategy": "allreduce", "learners": n, "share": 0.9, "stopped": None} for n in (1, 2)]
    equal(compare_py.table.speed_ups({"runs": runs}), {"allreduce": {1: 1.0, 2: 2.0}}, "times one that jitters as well")


def test_what_fails_is_told(work, recordings):
    words = ["--strategies", "allreduce", "--parts", "simulated", "--link", "fast"]
    done, _ = compare(work, recordings, *words, *CLOCK)
    equal(done.returncode, 1, "status")
    check("'fast': expected a link" in done.stderr, done.stderr)


if CLOCK and shutil.which("mpirun") is None:
    print("skipped: no mpirun")
    sys.exit(77)
os.environ.update(own_session())
with tempfile.TemporaryDirectory(prefix="strategies-") as base:
    voices = pathlib.Path(base) / "recordings"
    make(voices)
    tests = [test_it_goes_through, test_the_other_parts, *([test_throughput] if CLOCK else []), test_what_fails_is_told,
             test_seeds_are_compared_with_their_own, test_batches_that_degrade,
             test_published_figures_are_told_from_derived_ones]
    names = sys.argv[4:] or [test.__name__ for test in tests]
    run_tests([{test.__name__: test for test in tests}[name] for name in names], pathlib.Path(base), voices)
