#!/usr/bin/env python3
"""Every strategy of training on one task, in comparison: a table, a page of plots, and one JSON
object.

    compare.py SPEECHSHARD RECORDINGS WORK [-o FILE] [--page FILE] [--quick] [--real] [--minutes M]
               [--parts PART,...] [--strategies NAME,...] [--learners N,...] [--epochs N] [--longer N] [--seeds N] [--link LINK]

SPEECHSHARD is the program, RECORDINGS the folder of the Free Spoken Digit Dataset (recipes/digits),
WORK a folder for results, which is kept: if started again, the program makes only the missing runs.
README.md describes the measurement. Python's standard library only. Status 0: everything requested
was measured; 1: the table has holes, and the JSON gives the reasons. `pipeline` does not support
the virtual clock: that does not count as a failure.
"""

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import link
import page
import table
from strategy_runs import NODE, SLOW, Bench, Run, curve, node_words, reached, staleness_facts, stragglers, write

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECIPE = ROOT / "recipes" / "digits"
sys.path.append(str(ROOT / "bench" / "train"))
from results import machine  # noqa: E402

STRATEGIES = ["allreduce", "partitioned", "ps-sync", "ps-async", "hogwild", "dpsgd-ring", "adpsgd-fixed",
              "adpsgd-random", "d1-model", "d1-grad", "hierarchical", "pipeline"]
GRADIENT_A_STEP = ("ps-async", "hogwild")  # each learner's gradient is a step of the one model
BATCHED = ["allreduce", "d1-model", "adpsgd-fixed", "adpsgd-random"]  # strategies that are tried with larger batches
REAL = ["allreduce", "adpsgd-random"]  # strategies whose throughput is measured with real processes
SCALED = ["allreduce", "d1-model", "adpsgd-random", "hierarchical"]  # strategies that are scaled to 128 learners
BATCH_S = 16  # padded seconds of a step, of all learners together
UTTERANCE_S = 2  # padded seconds of a batch of one of 8 learners; longer utterances are skipped
WARM_UP = 2000  # utterances
TARGET_AT = 0.5  # share of all samples; the target is the loss of one device at this point
WINDOW = 500  # utterances whose mean loss is compared with the target
STEPS_MEASURED = 40


class Comparison:
    def __init__(self, options):
        self.o = options
        self.bench = Bench(options.program, HERE / "digits.yaml", options.work, options.run_minutes * 60)
        self.pool = ThreadPoolExecutor(1 if options.real else 2)  # real processes have the cores to themselves
        self.end = time.monotonic() + 60 * options.minutes
        self.failures = []
        self.baseline = self.target = None

    def run(self, run, may_fail=False):
        """A future of the result."""
        def work():
            self.bench.is_over = self.bench.is_over or time.monotonic() > self.end
            result = self.bench.result(run)
            if result["failed"] is not None and not may_fail:
                self.failures.append(f"{run.name()}: {result['failed']}")
            return result
        return self.pool.submit(work)

    def settings(self, strategy, learners, seed=1):
        """Settings for a step of BATCH_S over all learners, with AdamW. If each gradient is a
        separate step, its batch is smaller, and its rate is smaller by the square root (Malladi and
        others 2022)."""
        each = math.sqrt(learners) if strategy in GRADIENT_A_STEP else 1
        settings = {"data.max_padded_seconds": f"{BATCH_S / learners:g}", "data.virtual_world": learners,
                    "data.utterance_seconds_max": UTTERANCE_S, "data.seed": seed, "train.epochs": self.o.epochs,
                    "train.warm_up_samples": WARM_UP, "train.rate": f"{self.o.rate / each:g}"}
        return settings | ({"train.node_size": min(NODE, learners)} if strategy == "hierarchical" else {})

    def larger(self, strategy, learners, seed, times):
        """Settings for a step of `times` BATCH_S at `times` the rate, as the published runs do it:
        SGD with momentum."""
        more = {"data.max_padded_seconds": f"{times * BATCH_S / learners:g}", "train.optimiser": "sgd",
                "train.rate": f"{self.o.sgd_rate * times:g}"}
        return self.settings(strategy, learners, seed) | more

    def cluster(self, learners):
        """Description of the cluster from measured steps and links; "" for real processes."""
        if self.o.real:
            return ""
        return f"link={self.o.link},step={1e6 * self.step_s(learners):.0f}us,jitter=0.1"

    def step_s(self, learners):
        """Seconds of a learner's batch, computed by one process on one thread. It is measured once
        and kept, like other results."""
        seconds = f"{BATCH_S / learners:g}"
        settings = self.settings("allreduce", learners) | {"data.virtual_world": 1, "data.dev": "[]"}
        settings |= {"train.epochs": 0, "train.samples_max": int(STEPS_MEASURED * float(seconds) * 2.2)}
        result = self.bench.result(Run("allreduce", 1, settings))
        if result["failed"] is not None:
            raise SystemExit(f"compare.py: a step of {seconds} s of audio: {result['failed']}")
        return result["step_s"]

    # ------------------------------------------------------------------------------------------------ parts

    def measure_steps(self):
        """Measure all numbers of learners, before runs take the cores."""
        for learners in [] if self.o.real else sorted({1, *self.o.learners}):
            self.step_s(learners)

    def measure_baseline(self):
        """Run one device with each seed. The loss of the first run is the target."""
        cluster = self.cluster(1)
        later = [self.run(Run("allreduce", 1, self.settings("allreduce", 1, seed), [], cluster)) for seed in self.seeds()]
        self.baseline = [one.result() for one in later]
        first = self.baseline[0]
        if first["failed"] is not None:
            raise SystemExit(f"compare.py: one device: {first['failed']}")
        at = TARGET_AT * first["steps"][-1][0]
        before = [point for point in curve(first, self.window()) if point[0] <= at]
        self.target = min(loss for _, _, loss in before) if before else None

    def window(self):
        return min(WINDOW, self.baseline[0]["steps"][-1][0] // 4)

    def seeds(self):
        return range(1, self.o.seeds + 1)

    def curves(self):
        """One row per strategy and number of learners. The largest number also runs with stragglers
        and other seeds."""
        most = max(self.o.learners)
        rows = []
        for strategy in self.o.strategies:
            for learners in [n for n in self.o.learners if n > 1]:
                rows.append(self.begin_row(strategy, learners, learners == most))
        return [self.baseline_row()] + [self.end_row(*row) for row in rows]

    def begin_row(self, strategy, learners, is_most):
        may_fail = not self.o.real and strategy == "pipeline"
        runs = [(count, 1) for count in (0, 1, 2)] if is_most else [(0, 1)]
        runs += [(0, seed) for seed in self.seeds() if seed > 1 and is_most]
        cluster = self.cluster(learners)
        later = {}
        for slow, seed in runs:
            settings = self.settings(strategy, learners, seed)
            run = Run(strategy, learners, settings, stragglers(learners, slow), cluster)
            later[slow, seed] = self.run(run, may_fail)
        return strategy, learners, later

    def baseline_row(self):
        row = self.row_of("one device", 1, {(0, seed): run for seed, run in zip(self.seeds(), self.baseline)})
        return row | {"wer_more": None}

    def end_row(self, strategy, learners, later):
        return self.row_of(strategy, learners, {key: one.result() for key, one in later.items()})

    def row_of(self, strategy, learners, results):
        first = results[0, 1]
        row = {"strategy": strategy, "learners": learners, "failed": first["failed"],
               "commands": [result["command"] for result in results.values()]}
        good = {key: result for key, result in results.items() if result["failed"] is None}
        row["to_target"] = {str(slow): self.reached(good.get((slow, 1))) for slow in (0, 1, 2)}
        row["failed_with"] = {str(slow): result["failed"] for (slow, seed), result in results.items() if seed == 1}
        if first["failed"] is not None:
            return row
        row |= self.wers_of({seed: result for (slow, seed), result in good.items() if slow == 0},
                            dict(zip(self.seeds(), self.baseline)))
        row["sent_bytes"] = first["sent_bytes"]
        row["sent_bytes_a_sample"] = first["sent_bytes"] / first["steps"][-1][0]
        row["weights"] = first["weights"]
        row["staleness_counts"] = {str(slow): result["staleness"] for (slow, seed), result in good.items() if seed == 1}
        row["staleness"] = {slow: staleness_facts(counts) for slow, counts in row["staleness_counts"].items()}
        row["curves"] = {str(slow): page.few(curve(result, self.window()))
                         for (slow, seed), result in good.items() if seed == 1}
        return row

    def wers_of(self, results, one_device):
        """Error rates of results by seed, and their mean excess over one device with the same
        seeds."""
        wers = {seed: self.wer(result) for seed, result in results.items() if self.wer(result) is not None}
        one = {seed: self.wer(result) for seed, result in one_device.items()}
        more = [wer - one[seed] for seed, wer in wers.items() if one[seed] is not None]
        return {"wers": list(wers.values()), "wer": table.mean(list(wers.values())), "wer_more": table.mean(more)}

    def reached(self, result):
        """Where a result reaches the target. None: not run, or not reached."""
        place = reached(result, self.target, self.window()) if result is not None and self.target is not None else None
        return {"samples": place[0], "seconds": place[1]} if place is not None else None

    @staticmethod
    def wer(result):
        return result["evaluations"][-1]["wer"] if result["failed"] is None and result["evaluations"] else None

    def ends(self):
        """One device, and every strategy with the most learners, until the WER hardly falls any
        more."""
        rows, most, epochs = [], max(self.o.learners), self.o.longer * self.o.epochs
        for strategy in ["one device", *self.o.strategies]:
            learners, name = (1, "allreduce") if strategy == "one device" else (most, strategy)
            may_fail = not self.o.real and strategy == "pipeline"
            cluster, later = self.cluster(learners), {}
            for seed in self.seeds():
                settings = self.settings(name, learners, seed) | {"train.epochs": epochs}
                later[seed] = self.run(Run(name, learners, settings, [], cluster), may_fail)
            rows.append((strategy, learners, later))
        return [self.ended(*row, rows[0][2]) | {"epochs": epochs} for row in rows]

    def ended(self, strategy, learners, later, one_device):
        results = {seed: one.result() for seed, one in later.items()}
        row = {"strategy": strategy, "learners": learners, "commands": [result["command"] for result in results.values()]}
        row["failed"] = next((result["failed"] for result in results.values() if result["failed"] is not None), None)
        row |= self.wers_of(results, {seed: one.result() for seed, one in one_device.items()})
        return row | ({"wer_more": None} if strategy == "one device" else {})

    def batches(self):
        """Runs of the largest number of learners, and of one device, with larger steps at
        proportionally larger rates."""
        most, later = max(self.o.learners), []
        for strategy in ["one device", *(name for name in BATCHED if name in self.o.strategies)]:
            learners, name = (1, "allreduce") if strategy == "one device" else (most, strategy)
            for times in self.o.batches:
                runs = []
                for seed in self.seeds():
                    cluster = "" if self.o.real or learners == 1 else f"link={self.o.link},step=10ms,jitter=0.1"
                    runs.append(self.run(Run(name, learners, self.larger(name, learners, seed, times), [], cluster)))
                later.append((strategy, learners, times, runs))
        return [self.batch_row(*one) for one in later]

    def batch_row(self, strategy, learners, times, later):
        results = [one.result() for one in later]
        row = {"strategy": strategy, "learners": learners, "batch_s": times * BATCH_S, "times": times}
        row |= {"rate": self.o.sgd_rate * times, "commands": [result["command"] for result in results]}
        good = [result for result in results if result["failed"] is None and result["evaluations"]]
        row["failed"] = None if good else results[0]["failed"] or "no evaluation"
        row["wers"] = [result["evaluations"][-1]["wer"] for result in good]
        row["losses"] = [result["evaluations"][-1]["loss"] for result in good]
        row["steps"] = good[0]["step_count"] if good else None
        return row

    def real(self):
        """Processes on this machine, each with as large a batch as one process has. Each seed is a
        round with one run of each kind, so that a temporary disturbance of the machine affects all
        kinds."""
        found = {(name, n): [] for name in REAL if name in self.o.strategies for n in self.o.learners}
        for seed in self.seeds():
            for (strategy, learners), runs in found.items():
                settings = self.settings(strategy, max(self.o.learners), seed)
                settings |= {"data.virtual_world": learners, "data.dev": "[]", "train.rate": "1e-4", "train.epochs": 1}
                runs.append(self.bench.result(Run(strategy, learners, settings)))
        return [self.real_row(*row, runs) for row, runs in found.items()]

    def real_row(self, strategy, processes, runs):
        failed = next((run["failed"] for run in runs if run["failed"] is not None), None)
        if failed is not None:
            self.failures.append(f"{strategy}, {processes} processes: {failed}")
        row = {"strategy": strategy, "processes": processes, "commands": [run["command"] for run in runs], "failed": failed}
        speeds = [throughput(run["steps"]) for run in runs if run["failed"] is None]
        return row | {"utterances_per_s": [speed for speed in speeds if speed is not None],
                      "stolen": [run["stolen"] for run in runs if run["failed"] is None]}

    def plan(self, words, strategies, node):
        """Call the planner, separately for strategies whose learners share computers. ([rows],
        [commands], reason of a failure)"""
        rows, commands = [], []
        for names in ([n for n in strategies if n not in node], *([n] for n in strategies if n in node)):
            if not names:
                continue
            cluster = ",".join([*words, "strategy=" + ",".join(names), *node.get(names[0], [])])
            call = ["train", "--simulate", cluster, "--json"]
            commands.append(" ".join(["speechshard", *call]))
            done = subprocess.run([self.o.program, *call], capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                return rows, commands, done.stderr.strip()[-300:]
            rows += json.loads(done.stdout)["runs"]
        return rows, commands, None

    def simulated(self):
        """1 ... 128 learners of this task, and of a model as large as the published ones: only
        throughput."""
        names = [name for name in SCALED if name in self.o.strategies] or ["allreduce"]
        step_us = 1e6 * self.step_s(max(self.o.learners))
        clusters = {
            f"this task, {self.o.link}": [f"step={step_us:.0f}us", f"link={self.o.link}",
                                          f"weights={self.baseline[0]['weights']}"],
            "lstm-hybrid, 43.1 million weights; 250 ms a step and 100 Gbit are assumed, not measured": [
                "step=250ms", "link=20us+100Gbit", "weights=43100000"],
        }
        rows = []
        for name, words in clusters.items():
            words = [f"learners=1..{self.o.simulated}", *words, "jitter=0.1", "steps=30"]
            found, commands, failed = self.plan(words, names, {"hierarchical": [f"node={NODE}"]})
            if failed is not None:
                self.failures.append(f"{name}: {failed}")
            keys = ("strategy", "learners", "share", "sent_bytes", "stopped")
            rows.append({"cluster": name, "commands": commands, "failed": failed,
                         "runs": [{key: one[key] for key in keys} for one in found]})
        return rows

    def slow_shares(self):
        """Throughput relative to independent equal learners, by number of stragglers, as the
        planner computes it."""
        most, shares = max(self.o.learners), {}
        node = {name: node_words(name, most) for name in self.o.strategies if node_words(name, most)}
        for count in (0, 1, 2):
            words = [f"learners={most}", f"step={1e6 * self.step_s(most):.0f}us", f"link={self.o.link}", "jitter=0.1"]
            words += ["steps=60", f"weights={self.baseline[0]['weights']}"]
            words += [f"slow={learner}:{SLOW}x" for learner in stragglers(most, count)]
            found, _, failed = self.plan(words, self.o.strategies, node)
            if failed is not None:
                self.failures.append(f"shares of ideal: {failed}")
            for one in found:
                shares.setdefault(one["strategy"], {})[str(count)] = one["share"] if one["batches"] else None
        return {name: shares[name] for name in self.o.strategies if name in shares}


PARTS = ["curves", "ends", "batches", "real", "simulated"]


def throughput(steps):
    """Utterances per second after the first fifth of a result's steps; None: too few steps."""
    first, last = steps[len(steps) // 5], steps[-1]
    return (last[0] - first[0]) / (last[1] - first[1]) if last[1] > first[1] else None


def call(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"compare.py: {words[0]}: {done.stderr.strip()[-500:]}")


def prepare(options):
    """Make the corpus unless it exists."""
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "digits.yaml", work / "digits.yaml")
    if (work / "digits.vocabulary").exists():
        return
    shutil.rmtree(work / "corpus", ignore_errors=True)
    (work / "digits.spsh").unlink(missing_ok=True)
    call([RECIPE / "prepare.sh", options.recordings, "corpus"], work)
    lines = (work / "corpus" / "metadata.tsv").read_text().splitlines()
    single = [lines[0], *(line for line in lines[1:] if line.startswith("single/"))]
    (work / "corpus" / "metadata.tsv").write_text("\n".join(single) + "\n")
    call([options.program, "pack", "corpus/metadata.tsv", "-o", "digits.spsh", "--codec", "pcm"], work)
    call([options.program, "train", "digits.yaml", "--make-vocab"], work)
    shutil.rmtree(work / "corpus")


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", type=lambda path: Path(path).resolve())
    parser.add_argument("recordings", type=lambda path: Path(path).resolve())
    parser.add_argument("work", type=lambda path: Path(path).resolve())
    parser.add_argument("-o", dest="output", type=Path)
    parser.add_argument("--page", type=Path, help="an HTML page of plots")
    parser.add_argument("--quick", action="store_true", help="fewer epochs, seeds and batches: minutes, and no result")
    parser.add_argument("--real", action="store_true", help="real processes in the place of a virtual clock")
    parser.add_argument("--minutes", type=float, default=60, help="no run is started after these minutes")
    parser.add_argument("--run-minutes", type=float, default=10, help="that one run may take")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--learners", type=numbers)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--batches", type=numbers, help="times the seconds of a step, of part `batches`")
    parser.add_argument("--longer", type=int, help="times the epochs, of part `ends`")
    parser.add_argument("--rate", type=float, default=0.005, help=f"of AdamW, a step of {BATCH_S} s")
    parser.add_argument("--sgd-rate", type=float, default=0.02, help="the same of SGD: part `batches`")
    parser.add_argument("--link", help="of the virtual clock, as of --simulate; else this machine's own is measured")
    parser.add_argument("--simulated", type=int, default=128, help="most learners of part `simulated`")
    options = parser.parse_args()
    full = {"learners": [1, 2, 4, 8], "epochs": 10, "seeds": 3, "batches": [1, 2, 4, 8, 16], "longer": 3}
    quick = {"learners": [1, 8], "epochs": 1, "seeds": 1, "batches": [1, 8], "longer": 1}
    for key, value in (quick if options.quick else full).items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    options.parts, options.strategies = options.parts.split(","), options.strategies.split(",")
    for given, known in ((options.parts, PARTS), (options.strategies, STRATEGIES)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{unknown[0]} is none of {', '.join(known)}")
    return options


def head_of(options, comparison):
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True)
    head = {"machine": machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    head |= {"program": version.stdout.strip().splitlines()[0] if version.stdout.strip() else ""}
    head |= {"command": " ".join(["bench/strategies/compare.py SPEECHSHARD RECORDINGS WORK", *sys.argv[4:]])}
    head |= {"is_quick": options.quick, "clock": "real" if options.real else "virtual", "link": options.link}
    head |= {"link_measured": options.link_facts, "epochs": options.epochs, "seeds": options.seeds}
    head |= {"batch_s": BATCH_S, "rate": options.rate, "sgd_rate": options.sgd_rate, "learners": options.learners, "slow_factor": SLOW}
    head |= {"target_loss": comparison.target, "target_at": TARGET_AT, "window": comparison.window()}
    return head


def find_link(options):
    """Measure the link once. It is part of the commands that results are found by."""
    kept = options.work / "link.json"
    options.link_facts = None
    if options.link is None:
        if not kept.exists():
            write(kept, link.measure())
        options.link_facts = json.loads(kept.read_text())
        options.link = options.link_facts["link"]


def main():
    options = arguments()
    begin, parts = time.monotonic(), {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    prepare(options)
    find_link(options)
    comparison = Comparison(options)
    try:
        comparison.measure_steps()
        comparison.measure_baseline()
        for name in [name for name in PARTS if name in options.parts]:
            print(f"part {name}", file=sys.stderr, flush=True)
            parts[name] = getattr(comparison, name)()
            if name == "curves":
                parts["shares"] = comparison.slow_shares()
    except BaseException:
        comparison.bench.stop()
        comparison.pool.shutdown(cancel_futures=True)
        raise
    result = head_of(options, comparison) | {"seconds": round(time.monotonic() - begin)} | parts
    result |= {"published": table.PUBLISHED, "failures": comparison.failures}
    if options.output is not None:
        write(options.output, result)
    if options.page is not None:
        options.page.write_text(page.page_of(result), encoding="utf-8")
    print(table.text_of(result), end="")
    for failure in comparison.failures:
        print(f"not measured: {failure}", file=sys.stderr)
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
