"""kill_commands_test.py: kill each command that writes, at random times, and repeat it.

    kill_commands_test.py COMMAND MAKE_SPEECH ROUNDS [NAME...]

Without rounds nothing is killed: files that killed commands leave are made, and have to go.

After a kill, each dataset opens, is free of damage, and is in the state before the command or in
the state after it. Each other file is absent, as it was, or complete. The repeated command
succeeds, and leaves the files of a run that nothing interrupted: the same names with the same
bytes, and no temporary files.
"""
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import cli_kit  # noqa: E402
from cli_kit import COMMAND, FEWER, LITTLE_MEMORY, TINY_TRAINING, check, environment, equal, finish, run, speech, training_corpus  # noqa: E402

SEED = int(os.environ.get("SPEECHSHARD_TEST_SEED") or 20191)
TEMPORARY = re.compile(r"\.tmp|(^|/)\.lock$|(^|/)\.pack(/|$)|\.work(/|$)|\.damaged$|statistics/\w+-\d{8}\.spsh$")
CONFIG = TINY_TRAINING + """\
  rate: 1e-3
  epochs: 3
  checkpoint_every_s: 0.01
"""


@dataclasses.dataclass
class Case:
    words: str            # arguments of the command
    inputs: str           # names of files and folders that the command works on
    datasets: str = ""    # datasets whose state is compared; the command makes the absent ones
    done: str = ""        # message of a repeated command that fails because it has nothing to do
    new: str = ""         # output that has to be new: it is removed before the command is repeated
    partial: str = "$^"   # files that may be half written until manifest.csv is there
    stale: str = ""       # patterns of files whose temporary files may stay after a kill
    edited: str = ""      # datasets that a command which has nothing to do frees of a lock file
    varying: str = "$^"   # files whose names and bytes differ from run to run


CASES = {
    "pack": Case("pack one -o made.spsh --codec pcm --shard-size 64K --jobs 2", "one", "made.spsh"),
    "pack-archive": Case("pack one.tar.gz -o made.spsh --shard-size 64K --jobs 2", "one.tar.gz", "made.spsh"),
    "fingerprint": Case("fingerprint one.spsh --jobs 2", "one.spsh", "one.spsh"),
    "dedupe": Case("dedupe one.spsh two.spsh -o plan.jsonl --html plan.html --jobs 2", "one.spsh two.spsh",
                   "one.spsh two.spsh", stale="plan.*"),
    "apply": Case("apply plan.jsonl", "one.spsh two.spsh plan.jsonl", "one.spsh two.spsh",
                  edited="one.spsh two.spsh"),
    "revert": Case("revert plan.jsonl", "applied/one.spsh applied/two.spsh plan.jsonl", "one.spsh two.spsh",
                   edited="one.spsh two.spsh"),
    "overlay-skip": Case("overlay one.spsh add bad --skip skip.tsv", "one.spsh skip.tsv", "one.spsh",
                         done="is already in force"),
    "overlay-transcript": Case("overlay edited.spsh add words --transcript words.tsv", "edited.spsh words.tsv",
                               "edited.spsh", done="is already in force"),
    "overlay-remove": Case("overlay edited.spsh remove noise", "edited.spsh", "edited.spsh", done="is in force"),
    "repair-output": Case("repair damaged.spsh -o made.spsh", "damaged.spsh", "damaged.spsh made.spsh", new="made.spsh"),
    "repair-shard": Case("repair damaged.spsh/shards/000000-000.spsh -o made.spsh", "damaged.spsh", "damaged.spsh",
                         stale="made.spsh/*"),
    "repair-in-place": Case("repair damaged.spsh --in-place", "damaged.spsh", "damaged.spsh",
                            edited="damaged.spsh"),
    "repair-index": Case("repair no-index.spsh --in-place", "no-index.spsh", "no-index.spsh",
                         edited="no-index.spsh"),
    "featgen": Case("featgen one.spsh -o made.spsh --jobs 2", "one.spsh", "one.spsh made.spsh"),
    "featgen-stats": Case("featgen one.spsh --stats --jobs 2", "one.spsh", "one.spsh"),
    "export-wav": Case("export one.spsh --to wav -o out", "one.spsh", "one.spsh", new="out",
                       partial="^out/.*wav$"),
    "export-files": Case("export one.spsh --to files -o out", "one.spsh", "one.spsh", new="out",
                         partial="^out/.*spcm$"),
    "export-webdataset": Case("export one.spsh --to webdataset -o out --shard-size 64K", "one.spsh", "one.spsh",
                              new="out"),
    "audit": Case("audit --train one.spsh --test two.spsh -o report --fail-on none --jobs 2", "one.spsh two.spsh",
                  "one.spsh two.spsh"),
    "plan-cache": Case("plan one.spsh --cache cache", "one.spsh", "one.spsh", stale="cache/*"),
    "cat": Case("cat one.spsh 0 -o 0.wav --plot 0.svg", "one.spsh", "one.spsh", stale="0.*"),
    "explain": Case("explain one.spsh 0 again --plot plot.svg --listen listen.wav", "one.spsh", "one.spsh",
                    stale="plot.svg listen.wav"),
    "vocabulary": Case("train tiny.yaml --make-vocab", "speech.spsh tiny.yaml", "speech.spsh", stale="words.vocabulary"),
    "train": Case("train tiny.yaml -o run --resume auto", "speech.spsh tiny.yaml words.vocabulary", "speech.spsh",
                  stale="run/config.yaml run/report.html", varying="^run/"),
    "report": Case("report run -o page.html", "run", "", stale="page.html"),
}


# ---- inputs ----

def good(*words, cwd):
    done = run(*words, cwd=cwd)
    equal(done.returncode, 0, f"{words}: {done.stderr}")


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def make_corpora(source):
    rows = ["path\ttext\tspeaker\tsplit"]
    for number in range(16):
        speech(source / f"one/{number}.{'wav' if number % 3 else 'flac'}", f"{number}:0:{0.6 + number % 4 / 5}")
        rows.append(f"{number}.{'wav' if number % 3 else 'flac'}\ttext {number}\tspeaker {number % 3}\ttrain")
    speech(source / "one/again.flac", "0:0:0.6")
    rows.append("again.flac\ttext\tspeaker 0\ttrain")
    (source / "one/corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    subprocess.run(["tar", "-czf", source / "one.tar.gz", "-C", source, "one"], check=True)
    for number in range(4):
        speech(source / f"two/b{number}.mp3", f"{number}:0:{0.6 + number % 4 / 5}")
        speech(source / f"two/c{number}.wav", f"{number + 3}:0:{0.6 + (number + 3) % 4 / 5}")
        speech(source / f"two/d{number}.wav", f"{number + 90}:0:1")


def make_inputs(source):
    make_corpora(source)
    (source / "skip.tsv").write_text("0\ttoo loud\n1\n2\n", encoding="utf-8")
    (source / "words.tsv").write_text("3\tother words\n4\tmore words\n", encoding="utf-8")
    good("pack", "one", "-o", "one.spsh", "--codec", "pcm", "--shard-size", "64K", cwd=source)
    good("pack", "two", "-o", "two.spsh", cwd=source)
    for copy in ("edited.spsh", "damaged.spsh", "no-index.spsh"):
        shutil.copytree(source / "one.spsh", source / copy)
    good("overlay", "edited.spsh", "add", "noise", "--skip", "skip.tsv", cwd=source)
    good("overlay", "damaged.spsh", "add", "noise", "--skip", "skip.tsv", cwd=source)
    shards = sorted((source / "damaged.spsh/shards").iterdir())
    for shard in shards[0], shards[-1]:
        flip(shard, 40)
    flip(source / "no-index.spsh/index-00000001.spsh", 5000)
    training_corpus(source, ["one two", "two", "three one", "two three four", "four", "one"], CONFIG)
    good("train", "tiny.yaml", "-o", "run", cwd=source)


def make_edited_inputs(source, place):
    """Make the plan in the folder where it will be applied, because it contains the paths of its
    datasets."""
    for name in ("one.spsh", "two.spsh"):
        shutil.copytree(source / name, place / name)
    good("dedupe", "one.spsh", "two.spsh", "-o", source / "plan.jsonl", cwd=place)
    good("apply", source / "plan.jsonl", cwd=place)
    (source / "applied").mkdir()
    for name in ("one.spsh", "two.spsh"):
        (place / name).rename(source / "applied" / name)


# ---- states ----

def state(dataset):
    """Return damage, rows, and facts of a dataset. None: it does not open."""
    listed, facts = run("ls", "--json", "--all", dataset), run("info", "--json", dataset)
    verified = run("verify", "--json", dataset)
    statuses = {done.returncode for done in (listed, facts, verified)}
    check(statuses <= {0, 1}, f"exit statuses for {dataset}: {statuses}; {listed.stderr}{facts.stderr}{verified.stderr}")
    if listed.returncode or facts.returncode:
        return None
    damage = [line for line in verified.stdout.splitlines() if '"damage"' in line and '"summary"' not in line]
    if verified.returncode and not damage:
        damage = [verified.stderr + verified.stdout]
    known = json.loads(facts.stdout)
    known.pop("leftovers")
    return damage, listed.stdout, known


def tree(place):
    """Return the bytes of each file below a folder. None: a folder, or a link."""
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
            for path in place.rglob("*")}


def losses(place):
    """Return the numbers of each step and evaluation of a run: equal ones mean equal weights."""
    lines = [json.loads(line) for line in (place / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: line.get(key) for key in ("kind", "step", "samples", "loss", "gradient_norm", "wer")}
            for line in lines if line["kind"] in ("step", "evaluation")]


class Trial:
    """One command, its inputs, and the result of an uninterrupted run."""

    def __init__(self, name, source, place, runs):
        self.name, self.case, self.source, self.place = name, CASES[name], source, place
        self.words = self.case.words.split()
        if self.words[0] in LITTLE_MEMORY:
            self.words += ["--memory", LITTLE_MEMORY[self.words[0]]]
        self.datasets = self.case.datasets.split()
        self.varying = re.compile(self.case.varying)
        self.partial = re.compile(f"{self.case.varying}|{self.case.partial}")
        self.known = {}
        self.begin()
        self.losses = None
        self.files_before, self.before = tree(place), self.states()
        self.seconds = statistics.median(self.run_whole() for _ in range(runs))
        self.files_after, self.after = tree(place), self.states()
        self.losses = losses(place) if name == "train" else None
        self.stale = [path for pattern in self.case.stale.split() for path in place.glob(pattern)]

    def begin(self):
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        for name in self.case.inputs.split():
            path = self.source / name
            if path.is_dir():
                shutil.copytree(path, self.place / path.name, symlinks=True)
            else:
                shutil.copy(path, self.place)

    def run_whole(self):
        self.begin()
        start = time.monotonic()
        good(*self.words, cwd=self.place)
        return time.monotonic() - start

    def states(self):
        found = {}
        for name in self.datasets:
            files = tuple(sorted(tree(self.place / name).items()))
            if files not in self.known:
                self.known[files] = state(self.place / name)
            found[name] = self.known[files]
        return found

    def sealed(self):
        """Return the shards of inputs, except those that are repaired in place: each stays the same
        file."""
        names = [] if "--in-place" in self.words else [name for name in self.datasets if self.before[name]]
        return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for name in names
                for path in (self.place / name).glob("shards/*.spsh")}

    def compare(self, what):
        """Compare all files with the files of an uninterrupted run."""
        files, want = tree(self.place), self.files_after
        equal([name for name in files if TEMPORARY.search(name) and name not in want], [], f"{what}: temporary files")
        fixed = {name for name in files if not self.varying.search(name)}
        wanted = {name for name in want if not self.varying.search(name)}
        equal(sorted(fixed - wanted), [], f"{what}: files too many")
        equal(sorted(wanted - fixed), [], f"{what}: files that are missing")
        equal(sorted(name for name in fixed & wanted if files[name] != want[name]), [], f"{what}: files that differ")
        if self.losses:
            equal(losses(self.place), self.losses, f"{what}: losses")

    def check_killed(self, what):
        """Check that nothing is half done: neither a dataset nor a file."""
        for name, found in self.states().items():
            before, after = self.before[name], self.after[name]
            if found and before and before[0]:  # a shard is repaired at a time
                check(set(found[0]) <= set(before[0]), f"{what}: {name}: new damage {found[0]}")
                found, before, after = found[1:], before[1:], after[1:]
            check(found in (before, after), f"{what}: {name}: {found} is neither {before} nor {after}")
        files = tree(self.place)
        unchecked = self.varying if "out/manifest.csv" in files else self.partial
        for name, content in files.items():
            if TEMPORARY.search(name) or content is None or unchecked.search(name):
                continue
            check(content in (self.files_before.get(name), self.files_after.get(name)), f"{what}: {name} is half written")

    def check_leftovers(self):
        """Check that the command removes what a killed one left, before and after its last
        rename."""
        ended = subprocess.Popen([COMMAND, "--version"], stdout=subprocess.DEVNULL)
        ended.wait()
        self.begin()
        others = []
        for path in self.stale:
            path.parent.mkdir(exist_ok=True)
            path.with_name(f"{path.name}.tmp-{ended.pid}-0").touch()
            others += [path.with_name(f"{path.name}.tmp-{end}") for end in (f"{os.getpid()}-0", f"{ended.pid}-0.txt")]
        for other in others:
            other.touch()
        good(*self.words, cwd=self.place)
        for other in others:
            check(other.exists(), f"{self.name}: {other.name} is gone, which a running process or a user made")
            other.unlink(missing_ok=True)
        self.compare(f"{self.name}: stale temporary files")
        for name in self.case.edited.split():
            (self.place / name / ".lock").touch()
        if self.case.edited:
            good(*self.words, cwd=self.place)
            self.compare(f"{self.name}: a lock file that a killed command left")

    def round(self, dice, number):
        """Kill the command, and repeat it. Return whether it was still running."""
        self.begin()
        shards = self.sealed()
        pause = dice.uniform(0, 1.1 * self.seconds)
        what = f"{self.name}: seed {SEED}, round {number}, {pause * 1000:.1f} of {self.seconds * 1000:.1f} ms"
        hit = kill_after(self.words, pause, self.place, what)
        self.check_killed(what)
        if self.case.new and (self.place / self.case.new).exists():
            self.check_refused(what)
        done = run(*self.words, cwd=self.place)
        is_done = done.returncode == 0 or (self.case.done and self.case.done in done.stderr)
        check(is_done, f"{what}: repeated: exit status {done.returncode}; {done.stderr}")
        self.compare(f"{what}: repeated")
        equal(self.sealed(), shards, f"{what}: sealed shards")
        return hit

    def check_refused(self, what):
        """Check that an existing output is rejected and named. Remove it."""
        output = self.place / self.case.new
        is_empty = output.is_dir() and not any(output.iterdir())
        done = run(*self.words, cwd=self.place)
        if not is_empty:
            equal(done.returncode, 1, f"{what}: repeated with an output that is there")
            check(self.case.new in done.stderr, f"{what}: the output is not named: {done.stderr}")
        shutil.rmtree(output) if output.is_dir() else output.unlink()


def kill_after(words, pause, place, what):
    process = subprocess.Popen([COMMAND, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=environment, cwd=place)
    try:
        process.wait(pause)
    except subprocess.TimeoutExpired:
        process.kill()
    status = process.wait()
    check(status in (0, -signal.SIGKILL), f"{what}: exit status {status}")
    return status == -signal.SIGKILL


def try_command(name, source, place, rounds):
    dice = random.Random(f"{SEED} {name}")
    trial = Trial(name, source, place, 3 if rounds else 1)
    trial.check_leftovers()
    hits = wrong = 0
    for number in range(rounds):
        failures = cli_kit.failures
        hits += trial.round(dice, number)
        wrong += cli_kit.failures > failures
    print(f"{name:20} {trial.seconds * 1000:7.1f} ms {rounds:6} tried {hits:6} hit {wrong:4} wrong", flush=True)


def main():
    print("seed", SEED)
    memory = "/dev/shm"  # each command syncs the files that it writes
    in_memory = "TMPDIR" not in os.environ and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if in_memory else None) as folder:
        source, place = pathlib.Path(folder) / "source", pathlib.Path(folder) / "place"
        source.mkdir()
        place.mkdir()
        make_inputs(source)
        make_edited_inputs(source, place)
        rounds = int(sys.argv[3]) // (10 if FEWER else 1)
        for name in sys.argv[4:] or CASES:
            if rounds or CASES[name].stale or CASES[name].edited:
                try_command(name, source, place, rounds)
    finish()


main()
