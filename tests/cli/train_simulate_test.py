"""train_simulate_test.py COMMAND: `train --simulate` predicts the behavior of strategies on a
cluster."""
import json
import pathlib
import tempfile

from cli_kit import check, equal, run, run_tests

EIGHT = "learners=8,link=20us+25Gbit,step=250ms,weights=10M,steps=30,jitter=0.1"


def simulate(cluster, *words):
    done = run("train", "--simulate", cluster, "--json", *words)
    equal(done.returncode, 0, f"{cluster}: {done.stderr}")
    return json.loads(done.stdout)


def test_all_strategies_on_a_slow_cluster(_work):
    found = simulate(EIGHT + ",slow=3:10x")
    runs = {one["strategy"]: one for one in found["runs"]}
    equal(len(runs), 12, "strategies")
    equal(found["weights"], 10_000_000, "weights")
    for name, least, most in (("allreduce", 0, 0.15), ("dpsgd-ring", 0, 0.15), ("adpsgd-random", 0.8, 0.9)):
        check(least <= runs[name]["share"] <= most, f"{name}: {runs[name]['share']}")
        equal(len(runs[name]["learner_steps_per_s"]), 8, "learners")
        equal((runs[name]["batches"], runs[name]["stopped"]), (240, None), name)
    check("one node" in runs["hogwild"]["stopped"], "hogwild is of one node")


def test_people_and_programs_read_the_same(_work):
    words = EIGHT + ",strategy=allreduce,d1-model"
    first, again = run("train", "--simulate", words), run("train", "--simulate", words)
    equal(first.returncode, 0, first.stderr)
    equal(first.stdout, again.stdout, "the same line, the same output")
    lines = first.stdout.splitlines()
    equal([line.split()[0] for line in lines[2:]], ["allreduce", "d1-model"], "rows")
    for row, one in zip(lines[2:], simulate(words)["runs"]):
        equal(row.split()[2], f"{one['share']:.3f}", f"share of {one['strategy']}")


def test_scaling(_work):
    runs = simulate("learners=1..8,step=100ms,weights=1M,steps=5,strategy=allreduce")["runs"]
    equal([one["learners"] for one in runs], [1, 2, 4, 8], "learners")
    for one in runs:
        check(abs(one["share"] - 1) < 1e-3, f"without links nobody waits: {one['share']}")


def test_a_step_that_was_measured(work):
    folder = work / "run"
    folder.mkdir()
    steps = [{"kind": "step", "step": i, "compute_s": s} for i, s in enumerate((9.0, 0.25, 0.2, 0.3, 0.24))]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(s, separators=(",", ":")) + "\n" for s in steps))
    found = simulate(f"learners=2,weights=1M,steps=2,strategy=allreduce,step={folder}")
    check(abs(found["step_s"] - 0.25) < 1e-9, f"the median: {found['step_s']}")


def test_what_is_wrong_is_named(work):
    for words, told in (("learners=2,slow=3:10x,step=1ms,weights=1M", "learner 3 does not exist: with 2 learners"),
                        ("learners=2,step=1ms", "weights="), ("learners=2,weights=1M", "step="),
                        (f"learners=2,weights=1M,step={work}/none", "metrics.jsonl"),
                        ("learners=2,step=1ms,weights=1M,strategy=best", "'best'")):
        done = run("train", "--simulate", words)
        check(done.returncode == 1 and told in done.stderr, f"{words}: {done.returncode} {done.stderr}")
    (work / "given.yaml").write_text("model: {preset: ds2-tiny}\n", encoding="utf-8")
    done = run("train", work / "given.yaml", "--simulate", EIGHT)
    check(done.returncode == 1 and "weights=" in done.stderr, f"weights= and a configuration: {done.stderr}")
    done = run("train", "--simulate", EIGHT, "-o", "run")
    check(done.returncode == 2 and "a configuration is missing" in done.stderr, f"with -o: {done.stderr}")
    done = run("train", "--simulate", EIGHT, "--slow", "1:10x")
    check(done.returncode == 2 and "--slow" in done.stderr, f"with --slow: {done.stderr}")


with tempfile.TemporaryDirectory() as folder_:
    run_tests([test_all_strategies_on_a_slow_cluster, test_people_and_programs_read_the_same, test_scaling,
               test_a_step_that_was_measured, test_what_is_wrong_is_named], pathlib.Path(folder_))
