"""repair_random_test.py: random damage to one file of a dataset with edits, then repair, then
verify and open.

    repair_random_test.py COMMAND MAKE_DATASET ROUNDS

Exit status 0 of repair means that nothing is lost: the same utterances, texts, skips, and overlays.
After any exit status, a dataset that repair wrote is clean and opens, and each overlay that changed
is named.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from cli_kit import check, equal, finish, run  # noqa: E402

SEED = int(os.environ.get("SPEECHSHARD_TEST_SEED") or 20190)
PAGE = 4096


def edit(dataset, name, kind, rows):
    table = dataset.with_name("table.tsv")
    table.write_text(rows, encoding="utf-8")
    equal(run("overlay", dataset, "add", name, kind, table).returncode, 0, f"overlay add {name}")


def make_datasets(work):
    """Without edits, with edits in force, and with a removal as the last edit."""
    datasets = [work / f"{n}.spsh" for n in range(3)]
    subprocess.run([sys.argv[2], datasets[0], work / "expected"], check=True)
    for dataset in datasets[1:]:
        shutil.copytree(datasets[0], dataset)
        edit(dataset, "bad-audio", "--skip", "session-1\ttoo loud\na\t\n")
        edit(dataset, "leaks", "--skip", "session-2\tin the test set\n")
        equal(run("overlay", dataset, "remove", "bad-audio").returncode, 0, "overlay remove")
        edit(dataset, "words", "--transcript", "en/hello-world\tHello, new world\n")
    edit(datasets[1], "zeros", "--skip", "session/3\tsilence\n")
    equal(run("overlay", datasets[2], "remove", "leaks").returncode, 0, "overlay remove")
    return datasets


def view(dataset):
    """Return what a user sees: rows with texts and skips, and the overlays in order."""
    rows, overlays = run("ls", "--json", dataset), run("overlay", dataset, "list")
    if rows.returncode or overlays.returncode:
        return None
    return rows.stdout.splitlines(), overlays.stdout.splitlines()


def place(dice, size):
    """Return an offset: anywhere, or among the fields at the start of a page or of a section."""
    at = dice.randrange(size)
    return at if dice.random() < 0.5 else min(at // PAGE * PAGE + dice.randrange(256), size - 1)


def damage(dice, path):
    """Damage a file in one of six ways. Return the words for it."""
    data = bytearray(path.read_bytes())
    kind = dice.choice(["bit", "bit", "bit", "noise", "zeros", "cut", "gone", "longer"])
    at = place(dice, len(data))
    end = min(at + dice.choice([1, 100, PAGE, 70000]), len(data))
    if kind == "bit":
        data[at] ^= 1 << dice.randrange(8)
    elif kind == "noise":
        data[at:end] = dice.randbytes(end - at)
    elif kind == "zeros":
        data[at:end] = bytes(end - at)
    elif kind == "cut":
        del data[at:]
    elif kind == "longer":
        data += dice.randbytes(dice.choice([1, PAGE]))
    if kind == "gone":
        path.unlink()
    else:
        path.write_bytes(data)
    return f"{kind} at {at}"


def check_result(what, done, before, result):
    """Check a dataset that repair left. before: the view before the damage."""
    text = done.stdout + done.stderr
    after = view(result)
    clean = run("verify", "--decode", result)
    check(after is not None, f"{what}: the result does not open; {text}")
    equal(clean.returncode, 0, f"{what}: verify of the result; {clean.stdout}{text}")
    if after is None:
        return
    if done.returncode == 0:
        equal(after, before, f"{what}: exit status 0; {text}")
        return
    for overlay in set(before[1]) ^ set(after[1]):
        name = overlay.split("\t")[0]
        check(f"overlays/{name}.spsh" in done.stdout, f"{what}: overlay {name} is not named; {text}")
    check(done.stdout != "", f"{what}: exit status 1 and no loss on standard output; {text}")


def try_round(number, dice, work, datasets):
    original = dice.choice(datasets)
    damaged, result = work / "damaged.spsh", work / "result.spsh"
    shutil.copytree(original, damaged)
    path = dice.choice(sorted(damaged.rglob("*.spsh")))
    how = damage(dice, path)
    what = f"seed {SEED}, round {number}: {original.name}/{path.relative_to(damaged)}: {how}"
    before = view(original)
    in_place = dice.random() < 0.25
    done = run("repair", damaged, *(["--in-place"] if in_place else ["-o", result]))
    check(done.returncode in (0, 1), f"{what}: exit status {done.returncode}; {done.stderr}")
    if in_place and done.returncode == 0:
        check_result(what, done, before, damaged)
    elif not in_place and "nothing to repair" in done.stderr:
        check_result(what, done, before, damaged)
    elif not in_place:
        check_result(what, done, before, result)
    shutil.rmtree(damaged)
    shutil.rmtree(result, ignore_errors=True)


def main():
    dice = random.Random(SEED)
    print("seed", SEED)
    memory = "/dev/shm"  # repair syncs each file that it writes
    in_memory = "TMPDIR" not in os.environ and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if in_memory else None) as folder:
        work = pathlib.Path(folder)
        datasets = make_datasets(work)
        for number in range(int(sys.argv[3])):
            try_round(number, dice, work, datasets)
    print(sys.argv[3], "tried")
    finish()


main()
