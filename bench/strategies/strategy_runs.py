"""strategy_runs.py: one run of `speechshard train`, real or under a virtual clock, and the facts
from its metrics.jsonl.

    bench = Bench(program, work, seconds_a_run)
    result = bench.result(Run("adpsgd-random", 8, slow=[3], settings={"train.epochs": 6}))

A result is kept in WORK/results, by a hash of the command, of the configuration, of the corpus, and
of the program: a run that was made before is read. A run that fails is also a result, with the
reason, and is tried again next time.

    {"command": "speechshard train ...", "failed": null, "seconds": its duration here,
     "steps": [[samples, seconds, loss summed, utterances that have one]...],
     "evaluations": [{"samples", "wer", "loss"}...], "sent_bytes": of all learners, "staleness": [counts] or null,
     "step_s": median of computing a step, "weights": parameters,
     "stolen": share of the machine's processor time that its host took meanwhile; null if unknown}

Seconds are since the run's start, by the virtual clock if it has one, without evaluations and
checkpoints.
"""

import hashlib
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

SLOW = 10  # factor by which a straggler takes longer
NODE = 2  # learners per node of `hierarchical`
STEPS_KEPT = 600  # per result: beyond that, adjacent steps are merged


@dataclass
class Run:
    strategy: str
    learners: int
    settings: dict  # key of the configuration: value
    slow: list = field(default_factory=list)  # learners
    cluster: str = ""  # words of --simulate, without learners and stragglers; "": real processes

    def cluster_words(self):
        words = [f"learners={self.learners}", self.cluster, *node_words(self.strategy, self.learners)]
        return ",".join(words + [f"slow={learner}:{SLOW}x" for learner in self.slow])

    def words(self, program, config, folder):
        """The command, without the launcher of several processes."""
        words = [program, "train", config]
        if self.cluster:
            words += ["--simulate", self.cluster_words()]
        words += ["-o", folder, f"train.strategy={self.strategy}"]
        words += [f"{key}={value}" for key, value in self.settings.items()]
        if not self.cluster:
            words += [word for learner in self.slow for word in ("--slow", f"{learner}:{SLOW}x")]
        return words

    def launcher(self):
        if self.cluster or self.learners == 1:
            return []
        return ["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(self.learners)]

    def name(self):
        return f"{self.strategy}, {self.learners} learners, {len(self.slow)} slow"


def node_words(strategy, learners):
    """Words of a cluster description: the number of learners per computer. Other strategies have
    one learner per computer."""
    size = {"hogwild": learners, "hierarchical": min(NODE, learners)}.get(strategy)
    return [f"node={size}"] if size else []


def stragglers(learners, count):
    """Slow learners among several: one in the middle, then the last but one. They are on different
    nodes."""
    places = [learners // 2 - 1 if learners > 2 else 1, learners - 2]
    return places[:count] if learners > 1 else []


class Bench:
    def __init__(self, program, config, work, limit_s):
        self.program, self.config, self.work, self.limit_s = program, config, work, limit_s
        self.environment = dict(os.environ, LC_ALL="C", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.environment |= {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_plm": "isolated"}
        self.lock = threading.Lock()
        self.processes = set()
        self.is_over = False  # start no more runs
        self.base = hashlib.sha256()
        for path in (program, config, work / "digits.spsh" / "shards"):
            self.base.update(content_of(path))
        (work / "results").mkdir(exist_ok=True)
        (work / "runs").mkdir(exist_ok=True)

    def result(self, run):
        words = run.launcher() + run.words("speechshard", self.config.name, "RUN")
        key = self.base.copy()
        key.update(json.dumps(words).encode())
        name = key.hexdigest()[:20]
        kept = self.work / "results" / f"{name}.json"
        if kept.exists():
            result = json.loads(kept.read_text())
            if result["failed"] is None:
                return result
        if self.is_over:
            return {"command": " ".join(words), "failed": "no time was left", "seconds": 0}
        result = {"command": " ".join(words)} | self.try_run(run, self.work / "runs" / name)
        write(kept, result)
        with self.lock:
            what = result["failed"] or f"{result['seconds']:.0f} s"
            print(f"{run.name()}: {what}", file=sys.stderr, flush=True)
        return result

    def stop(self):
        """Kill all running processes, and start no more."""
        self.is_over = True
        with self.lock:
            for process in self.processes:
                kill(process)

    def try_run(self, run, folder):
        shutil.rmtree(folder, ignore_errors=True)
        begin, before = time.monotonic(), processor_ticks()
        words = run.launcher() + run.words(self.program, self.config, folder)
        failed, said = None, ""
        process = subprocess.Popen([str(word) for word in words], cwd=self.work, env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   start_new_session=True)
        with self.lock:
            self.processes.add(process)
        try:
            said = process.communicate(timeout=self.limit_s)[1]
        except subprocess.TimeoutExpired:
            failed = f"took longer than {self.limit_s:.0f} s"
            kill(process)
            process.communicate()
        with self.lock:
            self.processes.discard(process)
        if failed is None and process.returncode != 0:
            failed = said.strip().splitlines()[-1][-300:] if said.strip() else f"exit status {process.returncode}"
        seconds = round(time.monotonic() - begin, 2)
        facts = {"failed": failed, "seconds": seconds, "stolen": stolen(before, processor_ticks())}
        if failed is None:
            try:
                facts |= read_metrics(folder / "metrics.jsonl")
            except (OSError, ValueError, KeyError) as error:
                facts["failed"] = f"its metrics: {type(error).__name__}: {error}"
        shutil.rmtree(folder, ignore_errors=True)
        return facts


def processor_ticks():
    """(ticks stolen by the host, all ticks) of all processors since the machine's start; None:
    unknown."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    return (ticks[7], sum(ticks[:8])) if len(ticks) > 7 else None  # guest ticks are part of the first two


def stolen(before, after):
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 3)


def kill(process):
    """Kill the process and all its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def content_of(path):
    """Hash of a file, or of the files of a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).digest()


def write(path, value):
    """Write the whole file or nothing."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(value) + "\n")
    beside.replace(path)


def add_counts(sums, counts):
    sums += [0] * (len(counts) - len(sums))
    for i, count in enumerate(counts):
        sums[i] += count


def read_metrics(path):
    """Read the metrics of a run that was not stopped. Times are since its start, without
    evaluations and checkpoints."""
    steps, evaluations, computed = [], [], []
    staleness, sent_bytes, weights, begin, away, seconds = None, 0, None, None, 0.0, 0.0
    for line in map(json.loads, path.read_text().splitlines()):
        if line["kind"] == "start":
            weights, begin = line["weights"], line["time"]
        elif line["kind"] == "step":
            away += line["save_s"]
            seconds = max(seconds, line["time"] - begin - away)
            counted = line["utterances"] - line["infeasible"] - line["without_text"] - line["without_frames"]
            loss = line["loss"] * counted if line["loss"] is not None else 0.0
            steps.append([line["samples"], seconds, loss, counted if line["loss"] is not None else 0])
            computed.append(line["compute_s"])
            sent_bytes += line["sent_bytes"]
            if "staleness" in line:
                staleness = staleness or []
                add_counts(staleness, line["staleness"])
        elif line["kind"] == "evaluation":
            away += line["seconds"]
            evaluations.append({key: line[key] for key in ("samples", "wer", "loss")})
    if not steps:
        raise ValueError("there was no step")
    warm = computed[len(computed) // 10:]
    return {"steps": thin(steps), "step_count": len(steps), "evaluations": evaluations, "sent_bytes": sent_bytes,
            "staleness": staleness, "step_s": statistics.median(warm), "weights": weights}


def thin(steps):
    """Merge adjacent steps: position of the last one, sum of all losses."""
    each = math.ceil(len(steps) / STEPS_KEPT)
    kept = []
    for at in range(0, len(steps), each):
        some = steps[at:at + each]
        loss, counted = (round(sum(step[i] for step in some), 6) for i in (2, 3))
        kept.append([some[-1][0], round(some[-1][1], 9), loss, counted])
    return kept


def curve(result, window):
    """(samples, seconds, mean loss of the last `window` utterances) for each step that follows at
    least `window` utterances."""
    points, first, loss, counted, steps = [], 0, 0.0, 0, result["steps"]
    for samples, seconds, step_loss, step_counted in steps:
        loss, counted = loss + step_loss, counted + step_counted
        while first < len(steps) and counted - steps[first][3] >= window:
            loss, counted = loss - steps[first][2], counted - steps[first][3]
            first += 1
        if samples >= window and counted > 0:
            points.append((samples, seconds, loss / counted))
    return points


def reached(result, target, window):
    """(samples, seconds) at which the windowed loss first reaches the target. None: never."""
    return next(((samples, seconds) for samples, seconds, loss in curve(result, window) if loss <= target), None)


# Number of updates by other learners: 0, 1, ... 15, then three ranges.
STALENESS = [*map(str, range(16)), "16-31", "32-63", "64+"]
LEAST_OF_STALENESS = [*range(16), 16, 32, 64]


def staleness_facts(counts):
    """{"mean", "is_least", "median", "most"} of counts; None without counts. is_least: some counts
    are known only by their minimum, so the mean is a minimum, too."""
    if not counts or not sum(counts):
        return None
    mean = sum(least * count for least, count in zip(LEAST_OF_STALENESS, counts)) / sum(counts)
    places = [i for i, count in enumerate(counts) if count]
    passed, median = 0, places[0]
    for median in places:
        passed += counts[median]
        if 2 * passed >= sum(counts):
            break
    return {"mean": mean, "is_least": any(counts[16:]), "median": STALENESS[median], "most": STALENESS[places[-1]]}
