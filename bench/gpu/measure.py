#!/usr/bin/env python3
"""Checks and times everything that needs a GPU, from a folder of gpu_pack.sh: one JSON object.

    measure.py FOLDER [-o FILE] [--minutes M] [--only PART,PART,...]

Correctness comes first: the tests, then each part separately, PyTorch's steps last. A part that
fails, or exceeds its time limit, is {"measured": false, "reason": ...}, and the other parts still
run. After M minutes (8) no part begins, and a running part is stopped. All parts take longer than 8
minutes: --minutes 90 runs all of them. No part takes 8 minutes, so --only NAME is a way to run them
one by one. FILE is rewritten after each part, so an interrupted run keeps its results. Without -o
the object is printed at the end. Progress is printed on standard error. Status 0: all parts that
began passed. The status is also 0 without a device. Then each part has {"measured": false,
"reason": "no device: ..."}. Python's standard library only. The parts `ctc` and `steps_*`
compare with PyTorch if it is installed, else they time only ours. Steps of a batch of 64 come
first: for all of them give more minutes, or --only and the names.

The bar of `copy`, 90 % of the link, is relative to the rate that packets of 256 bytes leave: 256 /
(256 + 24) of the raw rate, 57.6 of 63.0 GB/s (`of_link_payload`; docs/BENCHMARKS.md explains the
24).
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import corpus
import packed

HERE = Path(__file__).resolve().parent
UTTERANCES = 2000
STEPS_A_ROUND, ROUNDS, UNCOUNTED = 5, 10, 4
CTC_TIMES = 20
# frames, batch, symbols, labels per utterance: 15 s of characters, 15 s of word pieces, 30 s of
# characters
CTC_SHAPES = ["750x64x29x187", "750x64x1024x80", "1500x32x29x220"]
TESTS_S, TEST_S = 240, 150  # limits for all tests and for each, so that a test that hangs leaves time for the rest
# GB/s of a lane in one direction, by generation of PCIe: all bytes, with packet headers
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


class Failure(Exception):
    pass


class Machine:
    def __init__(self, folder, work, minutes):
        self.folder, self.work = folder, work
        self.end = time.monotonic() + 60 * minutes
        self.plugin = folder / "libspeechshard-cuda.so"
        self.corpus = None
        self.library_path = packed.library_path(folder)
        self.environment = dict(os.environ, LD_LIBRARY_PATH=self.library_path, SPEECHSHARD_CUDA_PLUGIN=str(self.plugin))

    def left(self):
        return self.end - time.monotonic()

    def run(self, seconds, words, **options):
        options = {"env": self.environment, "cwd": self.folder} | options
        return packed.run(words, min(seconds, self.left()), **options)

    def text(self, seconds, words, **options):
        ended = self.run(seconds, words, **options)
        if ended.status != 0:
            raise Failure(ended.reason())
        return ended.out

    def json(self, seconds, words, **options):
        """Run a program, and parse its JSON output. Keep the output even if the program failed
        later."""
        ended = self.run(seconds, words, **options)
        try:
            result = json.loads(ended.out)
        except ValueError:
            raise Failure(ended.reason()) from None
        return result if ended.status == 0 else result | {"why": "failed: " + ended.reason()}

    def speechshard(self, seconds, *words, **options):
        return self.text(seconds, [self.folder / "speechshard", *words], **options)


def ask_smi(field):
    """Ask nvidia-smi for a field of the first device. "" if that fails."""
    words = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    ended = packed.run(words, 30)
    return ended.out.splitlines()[0].strip() if ended.status == 0 and ended.out.strip() else ""


def link_gb_per_s():
    """Rate of the link in one direction, headers counted; 0: unknown."""
    words = ask_smi("pcie.link.gen.max,pcie.link.width.max").split(",")
    try:
        return LANE[int(words[0])] * int(words[1])
    except (ValueError, KeyError, IndexError):
        return 0


# ---------------------------------------------------------------------------------------------------- parts


def test_all(machine):
    results = {}
    end = time.monotonic() + min(TESTS_S, machine.left())
    for name, words in packed.tests(machine.folder):
        left = end - time.monotonic()
        if left <= 0:
            results[name] = "failed: not run, no time was left"
            continue
        ended = machine.run(min(TEST_S, left), [machine.folder / words[0], *words[1:]])
        ends = {0: "passed", 77: ended.err.strip()[-200:] or "skipped"}
        results[name] = ends.get(ended.status, "failed: " + ended.reason())
        print(f"  {name}: {results[name]} ({ended.seconds:.1f} s)", file=sys.stderr, flush=True)
    return results


def copies(machine):
    return machine.json(60, [machine.folder / "bench/bench_gpu_copy", machine.plugin, link_gb_per_s()])


def bench(name, seconds):
    return lambda machine: machine.json(seconds, [machine.folder / "bench" / name, machine.plugin])


def pack(machine):
    """Speech-like sound as codec pcm: enough for the loader to run for a while."""
    if machine.corpus is None:
        made = machine.work / "corpus.spsh"
        corpus.write(machine.work / "corpus", UTTERANCES)
        machine.speechshard(60, "pack", machine.work / "corpus", "-o", made, "--codec", "pcm", "--quiet")
        machine.corpus = made
    return machine.corpus


def loader(*words):
    """`of_slower`: its rate, relative to the slower of disk and link, measured at the same time.
    The bytes read and the bytes copied have separate limits. The slower one is the limit that the
    rate is closer to."""

    def part(machine):
        words_of = [machine.folder / "speechshard", "bench", pack(machine), "--device", "0", "--json", *words]
        result = machine.json(40, words_of)
        shares = [result.get(key, 0) for key in ("of_random", "of_copies_alone")]
        return result | {"of_slower": max(shares) if all(shares) else None}

    return part


def training(machine):
    """How long the device waits for data while it trains from shards. Measured in the last epoch,
    because earlier epochs meet new shapes."""
    given = [f"data.train=[{pack(machine)}]", f"vocabulary={machine.work / 'vocabulary.txt'}"]
    machine.speechshard(30, "train", HERE / "train.yaml", "--make-vocab", *given)
    machine.speechshard(120, "train", HERE / "train.yaml", "-o", machine.work / "run", *given)
    lines = [json.loads(line) for line in (machine.work / "run/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line.get("kind") == "step"]
    if not steps:
        raise Failure("it made no steps to count")
    steps = [step for step in steps if step["epoch"] == steps[-1]["epoch"]]
    step_s, wait_s = (sum(step[key] for step in steps) for key in ("step_s", "wait_s"))
    times = {"measured": True, "steps": len(steps), "step_s": step_s, "wait_s": wait_s}
    return times | {"idle_for_data": wait_s / step_s, "audio_s_per_s": sum(s["audio_s"] for s in steps) / step_s}


def steps(precision, batch, lengths="equal"):
    """Ours and PyTorch's, in turns. Python's own libraries are the system's."""

    def part(machine):
        program = machine.folder / "bench/bench_train_step"
        if importlib.util.find_spec("torch") is None:
            return steps_alone(machine, [program, "ds2", 161, 29, batch, 1500, lengths, 1, "cuda", precision])
        words = [sys.executable, HERE / "gpu_steps.py", program, machine.plugin, "--library-path", machine.library_path]
        words += ["--rounds", 3 if precision == "fp32" else 6, "--lengths", lengths]
        words += ["--batches", batch, "--precisions", precision]
        return machine.json(300, words, env=None, cwd=None)

    return part


def ctc(machine):
    """Measure only the loss, alternating between ours and PyTorch's."""
    program = machine.folder / "bench/bench_train_ctc"
    if importlib.util.find_spec("torch") is None:
        return ctc_alone(machine, program)
    words = [sys.executable, HERE.parent / "train/ctc.py", program, "--cuda", machine.plugin, "--rounds", 5]
    words += ["--library-path", machine.library_path, "--shapes", ",".join(CTC_SHAPES)]
    return machine.json(90, words, env=None, cwd=None)


def ctc_alone(machine, program):
    result = {"measured": True, "peers": "none: this Python has no PyTorch", "rows": []}
    for shape in CTC_SHAPES:
        words = [program, *shape.split("x"), 1, "cuda", machine.plugin]
        text = machine.text(30, words, given=f"{CTC_TIMES}\n" * ROUNDS)
        rounds = [[float(number) for number in line.split()] for line in text.splitlines()]
        ms = [numbers[0] / CTC_TIMES for numbers in rounds[UNCOUNTED:]]
        row = {"frames_batch_symbols_labels": shape, "loss": rounds[0][2], "ours_ms": round(statistics.median(ms), 3)}
        result["rows"].append(row | {"ours_ms_range": [round(min(ms), 3), round(max(ms), 3)]})
    return result


def steps_alone(machine, words):
    """The rounds of gpu_steps.py: their first losses, and the times of the rounds after the
    warm-up."""
    text = machine.text(200, [*words, machine.plugin], given=f"{STEPS_A_ROUND}\n" * ROUNDS)
    rounds = [[float(number) for number in line.split()] for line in text.splitlines()]
    ms = [numbers[0] / STEPS_A_ROUND for numbers in rounds[UNCOUNTED:]]
    result = {"measured": True, "peers": "none: this Python has no PyTorch", "ours_ms": round(statistics.median(ms), 2)}
    result |= {"ours_ms_range": [round(min(ms), 2), round(max(ms), 2)], "ours_peak_mib": rounds[-1][2]}
    return result | {"first_losses": rounds[0][3:]}


# In order of importance.
STEPS_FIRST = [(precision, 64) for precision in ("bf16", "fp16", "fp32")]
STEPS = [(precision, batch) for precision in ("bf16", "fp16", "fp32") for batch in (32, 128, 16)]

PARTS = {
    "tests": test_all,
    "copy": copies,
    "features": bench("bench_gpu_features", 60),
    "pcm": bench("bench_gpu_pcm", 60),
    "recurrence": bench("bench_gpu_recurrence", 90),
    "loader": loader(),
    "loader_features": loader("--features", "deepspeech"),
    "loader_device_decode": loader("--decode", "device", "--features", "deepspeech"),
    "loader_decode": loader("--decode", "device"),
    "loader_direct": loader("--decode", "device", "--direct"),
    "training": training,
    **{f"steps_{precision}_{batch}": steps(precision, batch) for precision, batch in STEPS_FIRST},
    "ctc": ctc,
    **{f"steps_{precision}_{batch}": steps(precision, batch) for precision, batch in STEPS},
    "steps_bf16_64_varied": steps("bf16", 64, "varied"),
}


def is_good(result):
    return result.get("measured", True) and not any(str(value).startswith("failed") for value in result.values())


def measure(machine, name):
    begin = time.monotonic()
    if machine.left() <= 0:
        return {"measured": False, "reason": "no time was left"}, True
    try:
        result = PARTS[name](machine)
    except (Failure, OSError, ValueError, KeyError) as error:
        result = {"measured": False, "reason": f"{type(error).__name__}: {error}"}
    good = is_good(result)
    what = "done" if good else result.get("reason") or result.get("why", "failed")
    print(f"{name}: {what} ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)
    return result, good


def write(path, result):
    text = json.dumps(result, indent=1) + "\n"
    if path is None:
        return
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def head_of(devices, commit):
    device = devices["devices"][0]
    head = {"measured": True, "device": device["name"], "devices": len(devices["devices"])}
    head["driver"] = ask_smi("driver_version")
    head["clocks_mhz"] = ask_smi("clocks.sm,clocks.mem")
    head["libraries"] = devices.get("libraries")
    head["commit"] = commit.read_text().strip() if commit.exists() else ""
    return head


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", dest="output", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = [name for name in options.only if name not in PARTS]
    if unknown:
        parser.error(f"--only: {unknown[0]} is none of {', '.join(PARTS)}")
    return options


def main():
    options = arguments()
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        machine = Machine(options.folder.resolve(), Path(work), options.minutes)
        try:
            devices = machine.json(60, [machine.folder / "speechshard", "info", "--devices", "--json"])
            result = {"measured": False, "reason": devices.get("reason")}
            if devices["devices"]:
                result = head_of(devices, machine.folder / "commit")
        except (Failure, OSError, KeyError) as error:
            result, failed = {"measured": False, "reason": str(error)}, 1
        for name in options.only:
            if result["measured"]:
                result[name], good = measure(machine, name)
                failed += not good
            else:
                result[name] = {"measured": False, "reason": f"no device: {result['reason']}"}
                print(f"{name}: no device", file=sys.stderr)
            write(options.output, result)
    write(options.output, result)
    if options.output is None:
        print(json.dumps(result, indent=1))
    if not result["measured"]:
        print(f"not measured: {result['reason']}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
