"""fingerprint_test.py COMMAND MAKE_CLIP: segments have the same bytes for every way to make them,
for all kinds of audio.

Threads, parts in any order, killed runs, and damaged segments must produce the files of one plain
run.
"""
import hashlib
import json
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from cli_kit import COMMAND, check, equal, finish, run

MAKE_CLIP = sys.argv[2]
RATE = 8000


def fingerprint(dataset, *words):
    """One line of JSON."""
    result = run("fingerprint", dataset, "--json", *words)
    equal((result.returncode, result.stderr), (0, ""), f"fingerprint {words}")
    return json.loads(result.stdout)


def wav(path, data, code=1, bits=16, channels=1, rate=RATE):
    width = channels * bits // 8
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, code, channels, rate, rate * width, width, bits,
                       b"data", len(data))
    path.write_bytes(head + data)


def segments(dataset):
    """Name -> hash of the bytes."""
    folder = dataset / "fingerprints"
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())} if folder.is_dir() else {}


def others(dataset):
    """All other files, which the command must not change."""
    return {str(p): (p.stat().st_ino, p.stat().st_mtime_ns) for p in sorted(dataset.rglob("*"))
            if p.is_file() and p.parent.name != "fingerprints"}


def remove(dataset):
    shutil.rmtree(dataset / "fingerprints", ignore_errors=True)


def make_corpus(folder):
    folder.mkdir()
    for n in range(40):
        ending = ["wav", "flac", "mp3", "opus", "ogg"][n % 5]
        rate = 48000 if ending == "opus" else [8000, 16000, 44100, 22050][n % 4]
        subprocess.run([MAKE_CLIP, str(folder / f"clip{n:02}.{ending}"), str(1 + n % 4 * 0.7), str(rate), str(1 + n // 5 % 2), str(n)],
                       check=True)
    for n in (3, 7):
        shutil.copy(folder / f"clip{n:02}.{['wav', 'flac', 'mp3', 'opus', 'ogg'][n % 5]}", folder / f"copy{n:02}.bin.{n}")
        (folder / f"copy{n:02}.bin.{n}").rename(folder / f"copy{n:02}.{['wav', 'flac', 'mp3', 'opus', 'ogg'][n % 5]}")
    noise = random.Random(5).randbytes(2 * RATE)
    wav(folder / "one-sample.wav", b"\x01\x00")
    wav(folder / "silence.wav", bytes(2 * RATE * 12))
    wav(folder / "short.wav", noise[:200])
    wav(folder / "four-channels.wav", noise * 4, channels=4)
    wav(folder / "low-rate.wav", noise, rate=4000)
    numbers = [float("nan"), float("inf"), float("-inf"), 1e30, -0.5, 0.25] * 4000
    wav(folder / "nan.wav", struct.pack(f"<{len(numbers)}f", *numbers), code=3, bits=32)


def test_same_bytes(dataset, want):
    for jobs in (2, 8):
        remove(dataset)
        fingerprint(dataset, "--jobs", jobs)
        equal(segments(dataset), want, f"{jobs} threads")
    remove(dataset)
    made = 0
    for part in (2, 0, 1):
        facts = fingerprint(dataset, "--part", f"{part}/3")
        equal(facts["made"], facts["segments"], f"part {part}: made")
        made += facts["made"]
        equal(len(segments(dataset)), made, f"part {part}: segments")
    equal(segments(dataset), want, "three parts")
    equal(fingerprint(dataset)["made"], 0, "what is there is left alone")
    remove(dataset)
    for task in (7, 1, 4):
        done = run("fingerprint", dataset, "--part", "auto", SGE_TASK_ID=str(task), SGE_TASK_FIRST="1",
                   SGE_TASK_LAST="7", SGE_TASK_STEPSIZE="3")
        check(f"part {task // 3}/3 (SGE array)" in done.stderr, f"task {task}: {done.stderr}")
    equal(segments(dataset), want, "an array of three tasks")


def test_damage(dataset, want):
    names = sorted(want)
    for n, spoil in enumerate([lambda b: b[:70] + b"\x55" + b[71:], lambda b: b[:4100] + b"\x55" + b[4101:], lambda b: b[:-4096],
                               lambda b: b"", lambda b: b"no segment at all" * 1000]):
        path = dataset / "fingerprints" / names[n % len(names)]
        path.write_bytes(spoil(path.read_bytes()))
        result = run("verify", dataset)
        equal(result.returncode, 1, f"damage {n}: verify")
        check(f"fingerprints/{path.name}" in result.stdout, f"damage {n}: verify names it: {result.stdout}")
        equal(fingerprint(dataset)["made"], 1, f"damage {n}: made again")
        equal(segments(dataset), want, f"damage {n}")
    path = dataset / "fingerprints" / names[0]  # an intact segment of another shard
    path.write_bytes((dataset / "fingerprints" / names[1]).read_bytes())
    equal(fingerprint(dataset)["made"], 1, "another shard's: made again")
    equal(segments(dataset), want, "another shard's")
    result = run("verify", dataset)
    equal((result.returncode, result.stdout), (0, ""), "verify")


def test_kills(dataset, want):
    chance = random.Random(9)
    remove(dataset)
    begin = time.monotonic()
    fingerprint(dataset, "--jobs", 1)
    took = time.monotonic() - begin
    killed = 0
    for n in range(12):
        if n % 4 == 0:
            remove(dataset)
        with subprocess.Popen([COMMAND, "fingerprint", str(dataset), "--jobs", "2", "--quiet"], stdout=subprocess.DEVNULL) as process:
            time.sleep(chance.random() * took / 2)
            process.send_signal(signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
        there = segments(dataset)
        for name in want:
            check(there.get(name, want[name]) == want[name], f"kill {n}: {name} has other bytes")
        if n % 4 == 3:
            fingerprint(dataset)
            equal(segments(dataset), want, f"kill {n}: after a rerun")
    check(killed > 0, "no run was killed")


def test_estimate(dataset):
    remove(dataset)
    estimate = fingerprint(dataset, "--estimate")
    check(not (dataset / "fingerprints").exists(), "an estimate writes nothing")
    facts = fingerprint(dataset)
    equal(estimate["segments"], facts["segments"], "estimate: segments")
    equal(estimate["to_make"], facts["segments"], "estimate: to make")
    equal(estimate["utterances"], facts["utterances"], "estimate: utterances")
    check(abs(estimate["audio_hours"] * 3600 - facts["audio_seconds"]) < 0.1, "estimate: hours")
    check(0.5 < estimate["bytes"] / facts["bytes"] < 2, f"estimate: {estimate['bytes']} bytes, {facts['bytes']} in the end")
    check(estimate["core_hours"] > 0 and estimate["measured_utterances"] > 0, f"estimate: {estimate}")
    equal(fingerprint(dataset, "--estimate")["to_make"], 0, "estimate: nothing is left")
    lines = run("fingerprint", dataset, "--estimate").stdout
    check(lines.startswith(f"{dataset}: 0 of "), f"estimate: {lines}")


def test_long(folder):
    """An hour in one piece."""
    (folder / "corpus").mkdir(parents=True)
    wav(folder / "corpus" / "hour.wav", random.Random(6).randbytes(2 * RATE) * 3600)
    equal(run("pack", folder / "corpus", "-o", folder / "d.spsh").returncode, 0, "pack an hour")
    facts = fingerprint(folder / "d.spsh", "--jobs", 1)
    equal((facts["utterances"], facts["audio_seconds"]), (1, 3600.0), "an hour")
    check(facts["bytes"] < 2000000, f"an hour: {facts}")


def test_arguments(dataset):
    for words, message in ((["--part", "3/3"], "--part 3/3"), (["--part", "1"], "--part 1:"), (["--part", "0/0"], "--part"),
                           (["--part", "-1/2"], "--part"), (["--part", "1/2x"], "--part"), (["--jobs", "0"], "--jobs")):
        result = run("fingerprint", dataset, *words)
        equal(result.returncode, 2, f"{words}")
        check(message in result.stderr, f"{words}: {result.stderr}")
    equal(run("fingerprint").returncode, 2, "no dataset")
    result = run("fingerprint", dataset / "shards")
    equal(result.returncode, 1, "not a dataset")
    result = run("fingerprint", dataset)
    equal(result.returncode, 0, "a line for people")
    equal(result.stdout.count("\n"), 1, "a line for people")


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        dataset = work / "d.spsh"
        make_corpus(work / "corpus")
        result = run("pack", work / "corpus", "-o", dataset, "--shard-size", "256K", "--max-rejects", "100%")
        equal(result.returncode, 0, f"pack: {result.stderr}")
        before = others(dataset)
        facts = fingerprint(dataset, "--jobs", 1)
        info = json.loads(run("info", "--json", dataset).stdout)
        equal(facts["utterances"], info["utterances"], "utterances")
        equal(facts["duplicates"], info["duplicates"], "duplicates")
        check(info["duplicates"] == 2, "two copies")
        equal(facts["made"], info["shards"], "a segment a shard")
        check(facts["segments"] > 3 and facts["keys"] > 300 and facts["chunks"] > 200, f"{facts}")
        check(facts["bytes"] < 600 * facts["audio_seconds"] + 60000 * facts["segments"], f"size: {facts}")
        want = segments(dataset)
        test_same_bytes(dataset, want)
        test_damage(dataset, want)
        test_kills(dataset, want)
        test_estimate(dataset)
        test_arguments(dataset)
        test_long(work / "long")
        equal(segments(dataset), want, "in the end")
        equal(others(dataset), before, "nothing else was touched")
    finally:
        shutil.rmtree(work)


main()
finish()
