"""pack_parts.py BUILD SCRATCH cost [ROUNDS]: processor time of four parts and a merge, divided by
the time of one plain pack; and processor time of the phases of a claim.
pack_parts.py BUILD SCRATCH units N: time and memory of the plan, of one part, and of the merge for N
units. Each unit is one silent file of 256 KiB, stored sparsely in SCRATCH, with other samples at its
start. It needs about 12 KB of disk per unit.
pack_parts.py BUILD SCRATCH archives [ROUNDS]: time until there is a plan of eight equal compressed
archives, made by one process, and by one with a part that waits for it.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import time

PARTS = 4
UNIT_BYTES = 256 << 10


def usage(words):
    """Run commands at the same time: wall seconds, processor seconds, peak memory of one."""
    begin = time.monotonic()
    runs = [subprocess.Popen(w, stdout=subprocess.DEVNULL) for w in words]
    cpu = peak = 0
    for run in runs:
        _, status, used = os.wait4(run.pid, 0)
        if status != 0:
            sys.exit(f"failed: {run.args}")
        cpu += used.ru_utime + used.ru_stime
        peak = max(peak, used.ru_maxrss * 1024)
    return time.monotonic() - begin, cpu, peak


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def cost(build, scratch, rounds):
    corpus = scratch / "corpus"
    subprocess.run([build / "tests/make_corpus", corpus, "3000", "8000"], check=True)
    command = build / "tools/speechshard"
    ratios, walls = [], []
    for size in ("4M", "32M"):
        words = [command, "pack", corpus, "--quiet", "--codec", "pcm", "--shard-size", size]
        for round_ in range(rounds + 1):
            plain, merged = scratch / "plain", scratch / "merged"
            plain_wall, plain_cpu, _ = usage([[*words, "-o", plain]])
            wall, cpu, _ = usage([[*words, "-o", merged, "--part", f"{part}/{PARTS}"] for part in range(PARTS)])
            merge_wall, merge_cpu, _ = usage([[command, "merge", "--quiet", merged]])
            shutil.rmtree(plain)
            shutil.rmtree(merged)
            if round_ > 0:  # the first one warms up
                ratios.append((cpu + merge_cpu) / plain_cpu)
                walls.append((wall + merge_wall) / plain_wall)
        print(f"shards of {size}: {PARTS} parts and a merge / plain pack, {rounds} rounds: processor time "
              f"{spread(ratios)}, wall time {spread(walls)}; the last plain pack: {plain_cpu:.2f} s")
        ratios, walls = [], []


def archives(build, scratch, rounds):
    clips, corpus = scratch / "clips", scratch / "corpus"
    subprocess.run([build / "tests/make_corpus", clips, "300", "40000"], check=True)
    corpus.mkdir()
    for number in range(8):
        with tarfile.open(corpus / f"{number}.tar.gz", "w:gz", compresslevel=1) as archive:
            archive.add(clips, str(number))
    words = [build / "tools/speechshard", "pack", corpus, "--quiet", "-o"]
    ratios, cpu_ratios, alone = [], [], []
    for _ in range(rounds):
        wall, cpu, _ = usage([[*words, scratch / "one", "--plan-only"]])
        part = subprocess.Popen([*words, scratch / "two", "--part", "0/1"])
        two_wall, two_cpu, _ = usage([[*words, scratch / "two", "--plan-only"]])
        part.kill()
        part.wait()
        ratios.append(two_wall / wall)
        cpu_ratios.append(two_cpu / cpu)
        alone.append(wall)
        for name in ("one", "two"):
            shutil.rmtree(scratch / name)
    content = 8 * sum(path.stat().st_size for path in clips.rglob("*.wav"))
    print(f"{content / 1e6:.0f} MB of content in 8 archives")
    print(f"plan with a part that waits / plan alone, {rounds} rounds: wall time {spread(ratios)}, processor time "
          f"of the planner {spread(cpu_ratios)}; alone: {spread(alone)} s")


def wav(number):
    data = number.to_bytes(8, "little") + b"\1\0\2\0"
    size = UNIT_BYTES + 2 * (number % 1000)
    head = b"RIFF" + (36 + size).to_bytes(4, "little") + b"WAVEfmt \x10\0\0\0\1\0\1\0" + \
        (16000).to_bytes(4, "little") + (32000).to_bytes(4, "little") + b"\2\0\x10\0data" + size.to_bytes(4, "little")
    return head + data, 44 + size


def units(build, scratch, count):
    corpus, output = scratch / "corpus", scratch / "many.spsh"
    for number in range(count):
        folder = corpus / f"{number // 1000:04}"
        folder.mkdir(parents=True, exist_ok=True)
        head, size = wav(number)
        with open(folder / f"{number:06}.wav", "wb") as file:
            file.write(head)
            file.truncate(size)
    command = build / "tools/speechshard"
    words = [command, "pack", corpus, "-o", output, "--codec", "pcm", "--shard-size", "64K", "--quiet"]
    for name, what in (("plan", [*words, "--plan-only"]), ("one part", [*words, "--part", "0/1"]),
                       ("a part without work", [*words, "--part", "1/2"]),
                       ("merge", [command, "merge", output, "--quiet"])):
        wall, cpu, peak = usage([what])
        print(f"{count} units: {name}: {wall:.2f} s of wall time, {cpu:.2f} s of processor time, "
              f"peak memory {peak >> 20} MiB", flush=True)


def main():
    build, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    scratch.mkdir(parents=True)
    if sys.argv[3] == "cost":
        cost(build, scratch, int(sys.argv[4]) if len(sys.argv) > 4 else 5)
    elif sys.argv[3] == "archives":
        archives(build, scratch, int(sys.argv[4]) if len(sys.argv) > 4 else 5)
    else:
        units(build, scratch, int(sys.argv[4]))
    shutil.rmtree(scratch)


main()
