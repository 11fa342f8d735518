"""print_launch_test.py COMMAND: `pack --print-launch` writes the files of tools/launch, with the paths
and options of the command line in place of the example."""
import json
import pathlib
import re
import subprocess

from cli_kit import check, equal, run, run_tests

LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "launch"
FILES = {"slurm": "pack-slurm.sbatch", "mpirun": "pack-mpirun.sh", "kubernetes": "pack-kubernetes.yaml", "sge": "pack-sge.sh"}
ODD = ["a b", "it's", '"$HOME"', "x;y", "#4", "ü"]
DATASET = "out $1 '\".spsh"


def printed(launcher, *words):
    done = run("pack", *words, "--print-launch", launcher)
    equal((done.returncode, done.stderr), (0, ""), f"{launcher}: {words}")
    return done.stdout


def test_installed_files():
    for launcher, name in FILES.items():
        text = printed(launcher, "/data/corpus", "-o", "/data/corpus.spsh")
        if launcher == "kubernetes":
            text = text.replace('"/data/corpus.spsh", "/data/corpus"', "/data/corpus.spsh, /data/corpus")
        equal(text == (LAUNCH / name).read_text(), True, f"{launcher}: the text of {name}")


def words_of(launcher, text):
    """The dataset and the words after it, as a shell or a reader of YAML takes them."""
    if launcher == "kubernetes":
        words = json.loads(re.search(r"args: \[--output, (.*)\] #", text)[1].join("[]"))
        return words
    lines = re.findall(r"^(DATASET=.*|set -- .*)$", text, re.MULTILINE)
    equal(len(lines), 2, f"{launcher}: lines to fill in")
    shell = subprocess.run(["sh", "-c", "\n".join([*lines, 'printf "%s\\0" "$DATASET" "$@"'])], capture_output=True,
                           encoding="utf-8", check=True)
    return shell.stdout.split("\0")[:-1]


def test_words():
    options = ["--codec", "pcm", "-j4", "--column", "text=a b", "--column=speaker=who", "--follow-links"]
    others = ["--json", "-q", "--print-launch=sge"]  # the last value of an option wins
    kept = ["--codec=pcm", "--jobs=4", "--column=text=a b", "--column=speaker=who", "--follow-links"]
    for launcher in FILES:
        text = printed(launcher, ODD[0], *options, *others, "-o", DATASET, *ODD[1:])
        equal(words_of(launcher, text), [DATASET, *ODD, *kept], launcher)


def test_usage():
    for words, status, message in (
            (["corpus", "--print-launch", "slurm"], 2, "the output is missing"),
            (["corpus", "-o", "d", "--print-launch", "slurmd"], 2, "did you mean 'slurm'"),
            (["-", "-o", "d", "--print-launch", "slurm"], 2, "name the archive"),
            (["corpus", "-o", "d", "--codec", "keep", "--rate", "8000", "--print-launch", "slurm"], 2, "--codec keep")):
        done = run("pack", *words)
        equal((done.returncode, done.stdout), (status, ""), f"{words}: {done.stderr}")
        check(message in done.stderr, f"{words}: {done.stderr}")


run_tests((test_installed_files, test_words, test_usage))
