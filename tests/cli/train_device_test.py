"""train_device_test.py COMMAND MAKE_SPEECH PLUGIN: training on a GPU, as users see it.

Uses two copies of the command: one without the CUDA plug-in, which reports why there is no GPU, and one next to
PLUGIN, the host emulation of the plug-in, at the path where the command looks for the real plug-in.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, check, environment, equal, run_tests, speech

TEXTS = ["one two", "two", "three one", "two three four", "four", "one"]
TINY = ["model.hidden=8", "model.layers=1", "model.conv_channels=2", "train.threads=1"]
CONFIG = """vocabulary: words.vocabulary
features: kaldi-fbank,sample_rate_hz=8000,mel_count=16
data:
  train: ["speech.spsh:train"]
  dev: ["speech.spsh:test"]
  max_padded_seconds: 8
model:
  preset: ds2-tiny
train:
  rate: 1e-3
  epochs: 2
"""


def run(work, folder, *words):
    """Run the copy of the command in a folder, and use the libraries of that folder."""
    return subprocess.run([work / folder / "speechshard", *words], stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", env=environment | {"LD_LIBRARY_PATH": str(work / folder)}, cwd=work)


def make(work):
    for folder in ("without", "with"):
        (work / folder).mkdir()
        shutil.copy(COMMAND, work / folder / "speechshard")
    shutil.copy(sys.argv[3], work / "with/libspeechshard-cuda.so")
    rows = ["path\tid\ttext\tsplit"]
    for number, text in enumerate(TEXTS * 2):
        speech(work / f"clips/{number}.wav", f"{number + 1}:0:{1 + number % 3 / 2}")
        rows.append(f"clips/{number}.wav\tu{number}\t{text}\t{'test' if number % 6 == 5 else 'train'}")
    (work / "corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    equal(run(work, "with", "pack", "corpus.tsv", "-o", "speech.spsh").returncode, 0, "pack")
    (work / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    equal(run(work, "with", "train", "tiny.yaml", "--make-vocab").returncode, 0, "--make-vocab")


def train(work, folder, name, *more):
    return run(work, folder, "train", "tiny.yaml", "-o", name, *TINY, *more)


def test_without_a_device(work):
    done = train(work, "without", "none", "train.backend=cuda")
    equal(done.returncode, 1, f"status: {done.stderr}")
    check("train.backend is cuda, but cannot be used: the CUDA plug-in was not built or not installed" in done.stderr,
          f"the reason: {done.stderr}")
    check(not (work / "none/checkpoints").exists(), "nothing was begun")
    done = train(work, "without", "none", "train.precision=bf16")
    equal(done.returncode, 1, f"status: {done.stderr}")
    check("train.precision is bf16, which backend cpu does not support, but cuda does; no GPU: " in done.stderr,
          f"the reason: {done.stderr}")
    done = train(work, "without", "cpu", "train.backend=auto", "train.epochs=1")
    equal(done.returncode, 0, f"status: {done.stderr}")
    check("computes on cpu, because there is no GPU" in done.stderr, f"what it computes on: {done.stderr}")
    # A machine without a GPU needs no plug-in, and no reader of its messages should look for one.
    has_gpu = any(pathlib.Path(name).exists() for name in
                  ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/nvhost-gpu"))
    equal("CUDA plug-in" in done.stderr, has_gpu, f"the reason without -v: {done.stderr}")
    done = run(work, "without", "train", "tiny.yaml", "--estimate", *TINY, "train.backend=auto")
    equal("CUDA plug-in" in done.stdout + done.stderr, has_gpu, f"the reason of --estimate: {done.stdout}")
    done = train(work, "without", "cpu-2", "train.backend=auto", "train.epochs=1", "-v")
    check("the CUDA plug-in was not built or not installed" in done.stderr, f"the reason with -v: {done.stderr}")
    done = train(work, "without", "none", "train.backend=cuad")
    check("did you mean 'cuda'?" in done.stderr, f"the nearest: {done.stderr}")


def test_wrong_settings(work):
    devices = "train.device is 99, but there are 2 devices, counted from 0"
    for settings, reason in (
            (["train.precision=fp8"], "train.precision: unknown value 'fp8'; expected one of auto, fp32, tf32, bf16, fp16"),
            (["train.device=-1"], "train.device: '-1' is not auto or a device number"),
            (["train.device=1x"], "train.device: '1x' is not auto or a device number"),
            (["train.backend=cuda", "train.device=99"], devices),
            (["train.backend=auto", "train.device=99"], devices),
            (["train.backend=cpu", "train.precision=fp16"], "train.precision is fp16, which backend cpu does not support"),
            (["train.rnn=fast"], "train.rnn: unknown value 'fast'; expected one of auto, persistent"),
            (["data.decode=gpu"], "data.decode: unknown value 'gpu'; expected one of host, device")):
        for words in (["-o", "wrong"], ["--estimate"]):
            done = run(work, "with", "train", "tiny.yaml", *words, *TINY, *settings)
            equal(done.returncode, 1, f"status of {settings}: {done.stderr}")
            check(reason in done.stderr, f"the reason of {settings}: {done.stderr}")
            check(not (work / "wrong/checkpoints").exists(), "nothing was begun")


def test_train_and_go_on(work):
    done = run(work, "with", "info", "--devices")
    equal(done.returncode, 0, f"info --devices: {done.stderr}")
    check("twin 0" in done.stdout, f"devices: {done.stdout}")
    done = train(work, "with", "run", "train.precision=bf16", "train.epochs=1")
    equal(done.returncode, 0, f"train: {done.stderr}")
    check("weights on cuda;" in done.stderr, f"the backend: {done.stderr}")
    check("computes on cuda, device 0 of 2 (twin 0), bf16; not deterministic" in done.stderr, f"what on: {done.stderr}")
    told = re.search(r"CUDA graphs: \d+ of \d+ batches ran as graphs; .*, \d+ captured, 0 could", done.stderr)
    check(told is not None, f"graphs: {done.stderr}")
    done = train(work, "with", "run", "train.precision=fp16", "--resume", "auto")
    equal(done.returncode, 0, f"train --resume auto: {done.stderr}")
    check(re.search(r"resuming with train.precision: fp16; before, it was bf16", done.stderr) is not None,
          f"what changed: {done.stderr}")
    lines = [json.loads(line) for line in (work / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    equal([line["backend"] for line in lines if line["kind"] == "start"], ["cuda", "cuda"], "backends")
    scales = [line["loss_scale"] for line in lines if line["kind"] == "step"]
    equal((scales[0], scales[-1] > 1), (1, True), "loss scales of bf16, fp16")
    done = run(work, "without", "eval", "run", "speech.spsh:test")
    equal(done.returncode, 0, f"eval on the CPU: {done.stderr}")
    there = run(work, "with", "eval", "run", "speech.spsh:test")
    equal(there.returncode, 0, f"eval on the device: {there.stderr}")


def test_estimate(work):
    done = run(work, "with", "train", "tiny.yaml", "--estimate", "--json", *TINY, "train.precision=bf16")
    equal(done.returncode, 0, f"--estimate: {done.stderr}")
    found = json.loads(done.stdout)
    check(found["compute"].startswith("cuda, device 0 of 2"), f"compute: {found['compute']}")
    check(0 < found["device_bytes"] < found["device_free_bytes"], "bytes of the device")
    there = {"weights", "weights_copy", "gradients", "moments", "activations", "gradient_sums", "loader_device", "work_device"}
    equal(sum(found["memory"][part] for part in there), found["device_bytes"], "its parts")
    check(found["memory"]["loader_device"] > 0, "batches on the device")
    equal(found["memory"]["weights_copy"] * 2, found["memory"]["weights"], "a copy in 16 bits")
    equal(sum(found["memory"].values()), found["memory_bytes"], "the sum")
    check(found["padded_seconds_fit"] > 0, "batches fit")
    single = json.loads(run(work, "with", "train", "tiny.yaml", "--estimate", "--json", *TINY, "train.precision=tf32").stdout)
    check(found["memory"]["activations"] < 0.7 * single["memory"]["activations"], "activations in 16 bits")
    equal(single["memory"]["weights_copy"], 0, "no copy in tf32")


with tempfile.TemporaryDirectory() as temporary:
    place = pathlib.Path(os.path.realpath(temporary))
    make(place)
    run_tests([test_without_a_device, test_wrong_settings, test_train_and_go_on, test_estimate], place)
