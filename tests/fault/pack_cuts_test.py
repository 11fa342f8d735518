"""pack_cuts_test.py COMMAND MAKE_CLIP: the fixtures of all layouts in archives, which are cut.

Each archive is cut at each block, at each record of a zip, and at 200 random bytes. The cut archive
is packed by name and from standard input. `pack` must fail and publish nothing.

SPEECHSHARD_TEST_SEED gives the seed of an earlier run again.
"""
import concurrent.futures
import importlib.util
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
LAYOUTS = pathlib.Path(__file__).resolve().parent.parent / "layouts"
sys.path.insert(0, str(LAYOUTS))

import archive_form  # noqa: E402
from archive_form import PACKERS, write_tar, write_zip  # noqa: E402

RANDOM_CUTS = 200
FORMS = (("tar", ""), ("tar.gz", "gz"), ("zip", "zip"), ("tar.xz", "xz"), ("tar.bz2", "bz2"))
JOBS = 4


def fixtures():
    """(name, make) of the first case of each layout."""
    for path in sorted(LAYOUTS.glob("*_fixture.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cases = getattr(module, "CASES", None)
        yield path.stem, next(case[0] for name, case in cases.items() if name != "types") if cases else module.make


def clip_maker(program):
    def clip(path, seconds=0.4, rate=16000, channels=1, seed=0):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        suffix = path.suffix if path.suffix in archive_form.AUDIO else ".wav"
        made = path.parent / f"make-clip-{os.getpid()}{suffix}"
        # Short clips: only the number of blocks matters here.
        subprocess.run([program, str(made), str(min(seconds, 0.1)), str(rate), str(channels), str(seed)], check=True)
        made.replace(path)
        return path
    return clip


def pack_up(root, number):
    """The tree as one archive; of a corpus of tars, its first tar."""
    tars = [path for path in sorted(root.rglob("*")) if archive_form.is_tar(path)]
    plain = [path for path in tars if path.read_bytes()[257:262] == b"ustar"]
    if plain:
        return "tar", plain[0].read_bytes()
    paths = [path.relative_to(root) for path in sorted(root.rglob("*"))]
    name, packer = FORMS[number % len(FORMS)]
    if packer == "zip" and archive_form.has_odd_names(paths):
        name, packer = FORMS[0]
    data = write_zip(root, paths) if packer == "zip" else PACKERS[packer](write_tar(root, paths, number))
    return name, data


def cuts_of(form, data, chance):
    whole = len(data)
    if form == "tar":  # whatever follows the two blocks of zeros is padding
        whole = -(-len(data.rstrip(b"\0")) // 512) * 512 + 1024
    places = set(range(0, whole, 512)) | {chance.randrange(whole) for _ in range(RANDOM_CUTS)}
    if form == "zip":
        places |= {match.start() for match in re.finditer(b"PK[\1\3\5]", data)}
    return sorted(places)


def check(command, folder, name, data, size):
    """None, or a description of the failure."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        path = pathlib.Path(work) / name
        path.write_bytes(data[:size])
        for source in (path, "-"):
            output = pathlib.Path(work) / "cut.spsh"
            done = subprocess.run([command, "pack", source, "-o", output, "--quiet", "--jobs", "1"],
                                  input=data[:size], capture_output=True)
            if done.returncode != 1:
                return f"the first {size} bytes of {len(data)}, {source}: exit status {done.returncode}"
            if (output / "manifest.spsh").exists():
                return f"the first {size} bytes of {len(data)}, {source}: published"
    return None


def main():
    command, make_clip = sys.argv[1:]
    seed = int(os.environ.get("SPEECHSHARD_TEST_SEED", "19"), 0)
    print(f"seed {seed}")
    chance = random.Random(seed)
    tried, wrong = 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for number, (fixture, make) in enumerate(fixtures()):
            root = pathlib.Path(folder) / fixture / "corpus"
            root.mkdir(parents=True)
            make(root, clip_maker(make_clip))
            form, data = pack_up(root, number)
            if check(command, folder, f"cut.{form}", data, len(data)) is None:
                print(f"{fixture}: skipped, for the whole archive is not published either")
                continue
            places = cuts_of(form, data, chance)
            faults = [fault for fault in pool.map(
                lambda size: check(command, folder, f"cut.{form}", data, size), places) if fault]  # noqa: B023
            tried += len(places)
            wrong += len(faults)
            print(f"{fixture}, {form}, {len(data)} bytes: {len(places)} cuts, {len(faults)} wrong", flush=True)
            for fault in faults[:5]:
                print(f"FAILED: {fixture}, {form}: {fault}")
    print(f"{tried} cuts tried, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
