"""pack_parts_kill_test.py COMMAND MAKE_CORPUS [KILLS]: parts and merges of a pack are killed at random
times and started again until the dataset is published: same bytes as a plain pack.
"""
import pathlib
import random
import os
import shutil
import sys
import tempfile
import time

from pack_parts_test import Rig, fail, failures

PARTS = 3


def run_with_kills(rig, numbers, whole_s, name):
    """Run all parts, the last of which merges, until all end by themselves. Returns the kills."""
    kills = 0
    todo = list(range(PARTS))
    while todo:
        parts = [(part, rig.start(name, "--part", f"{part}/{PARTS}", "--lease", "1", "--merge")) for part in todo]
        deaths = sorted((numbers.uniform(0, 1.2 * whole_s), number) for number in range(len(parts))
                        if numbers.random() < 0.8)
        begin = time.monotonic()
        for after, number in deaths:
            time.sleep(max(0.0, begin + after - time.monotonic()))
            parts[number][1].kill()
        todo = []
        for part, process in parts:
            _, message = process.communicate()
            if process.returncode < 0:
                kills += 1
                todo.append(part)
            elif process.returncode != 0:
                fail(f"part {part}: {message}")
    return kills


def main():
    kills_wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    seed = int(os.environ.get("SPEECHSHARD_TEST_SEED", "4711"))
    numbers = random.Random(seed)
    kills = rounds = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        rig = Rig(sys.argv[1], sys.argv[2], pathlib.Path(work))
        begin = time.monotonic()
        rig.pack("time")
        whole_s = time.monotonic() - begin
        while kills < kills_wanted and len(failures) < 4:
            name = f"round-{rounds}"
            kills += run_with_kills(rig, numbers, whole_s, name)
            rig.merge(name)
            rig.check(name, f"seed {seed}, round {rounds}")
            shutil.rmtree(rig.work / name)
            rounds += 1
    print(f"seed {seed}: {kills} kills in {rounds} rounds")
    return 1 if failures else 0


sys.exit(main())
