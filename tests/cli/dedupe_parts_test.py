"""dedupe_parts_test.py COMMAND MAKE_SPEECH: parts that run at the same time make the plan of one run.

The candidates fill more than one block (DEDUPE.md, Long runs), so that parts judge different blocks.
"""
import array
import os
import pathlib
import random
import subprocess
import tempfile
import wave

from cli_kit import COMMAND, check, environment, equal, finish, run, speech

CLIPS = 250
BLOCK = 4096  # candidates


def make_clips():
    """Clips of one second that differ only by noise: each is paired with some of the others."""
    speech(work / "voice.wav", "1:0:1")
    with wave.open(str(work / "voice.wav")) as voice:
        header = voice.getparams()
        samples = array.array("h", voice.readframes(header.nframes))
    rng = random.Random(25)
    (work / "clips").mkdir()
    for number in range(CLIPS):
        noise = [rng.randrange(-40, 41) for _ in range(997)]
        noisy = array.array("h", (sample // 2 + noise[i % 997] for i, sample in enumerate(samples)))
        with wave.open(str(work / "clips" / f"{number:04}.wav"), "wb") as clip:
            clip.setparams(header)
            clip.writeframes(noisy.tobytes())
    done = run("pack", work / "clips", "-o", work / "clips.spsh", "--layout", "folder")
    equal(done.returncode, 0, f"pack: {done.stderr}")


def dedupe(out, *words):
    return [COMMAND, "dedupe", str(work / "clips.spsh"), "-o", str(out), "--search", "mild", "-j", "1", *words]


def run_together(commands):
    processes = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
                                  env=environment) for words in commands]
    for process in processes:
        message = process.communicate()[1]
        equal(process.returncode, 0, f"exit status; {message}")


def test_parts():
    run_together([dedupe(work / "whole.jsonl")])
    whole = (work / "whole.jsonl").read_bytes()
    candidates = int(whole.split(b'"candidates":', 1)[1].split(b",", 1)[0])
    check(candidates > BLOCK, f"more than one block: {candidates} candidates")
    for parts in (1, 2, 3, 7):
        out, shared = work / f"parts-{parts}.jsonl", work / f"shared-{parts}"
        commands = [dedupe(out, "--work", str(shared), "--part", f"{part}/{parts}") for part in range(parts)]
        run_together(commands)
        run_together(commands[:1])  # the last part to end may have seen another one that was not finished
        equal(out.read_bytes() == whole, True, f"the bytes of one run from {parts} parts")


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(os.path.realpath(folder))
    make_clips()
    test_parts()
finish()
