"""The files of tools/launch for packing, as `pack --print-launch` writes them. Tasks are requeued,
killed, stopped, and started twice. The dataset must have the bytes of a pack on one machine.

    launch_pack_test.py SPEECHSHARD slurm|mpirun|kubernetes|sge

Slurm and Open MPI are real. For Kubernetes and Grid Engine, this program starts the processes with
the variables of a controller, and acts on their exit statuses as the file says.
"""
import filecmp
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import wave

from launch_kit import LAUNCH, LIMIT_S, check, equal, own_session, run_tests
from mpi_kit import environment as mpi_environment, need_mpirun

COMMAND, WHICH = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
RATE = 16000
CLIPS = 48
# Units of four clips; resampling makes a unit take long enough to be interrupted.
OPTIONS = ["--shard-size", "1M", "--codec", "flac", "--rate", "44100", "--lease", "3"]


def make_corpus(folder):
    folder.mkdir()
    noise = random.Random(7)
    for number in range(CLIPS):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", None))
            file.writeframes(noise.randbytes(32 * 2 * RATE))


def speechshard(*words, **variables):
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL,
                          env={**os.environ, **variables}, check=False)


def good(*words, **variables):
    done = speechshard(*words, **variables)
    equal(done.returncode, 0, f"{words}: {done.stderr}")
    return done


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())


def check_dataset(name):
    equal(files_of(base / name), files_of(base / "whole.spsh"), f"{name}: files")
    _, different, failed = filecmp.cmpfiles(base / "whole.spsh", base / name, files_of(base / "whole.spsh"), shallow=False)
    equal((different, failed), ([], []), f"{name}: files with other bytes")


def launch_file(name, launcher, *changes):
    """The printed file for a dataset, with changes that a user would make."""
    text = good("pack", base / "corpus", "-o", base / name, *OPTIONS, "--print-launch", launcher).stdout
    for old, new in changes:
        check(old in text, f"{launcher}: no '{old}' in the file")
        text = text.replace(old, new)
    path = base / f"{name}.{launcher}"
    path.write_text(text)
    return path


def until(true, what, pause_s=0.005):
    end = time.monotonic() + LIMIT_S
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {LIMIT_S} s for {what}")
        time.sleep(pause_s)


def packs(name):
    """Process ids of packs of a dataset, and the environment of each. name: "" for all of this test."""
    found = {}
    output = os.fsencode(str(base / name))
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            if words[:2] != [os.fsencode(COMMAND), b"pack"] or not any(word.startswith(output) for word in words):
                continue
            variables = dict(pair.split(b"=", 1) for pair in (path.parent / "environ").read_bytes().split(b"\0") if b"=" in pair)
        except OSError: # the process has ended
            continue
        found[int(path.parent.name)] = variables
    return found


def holders(name):
    """Process ids, as text, of packs that hold a unit of the dataset."""
    words = set()
    for path in (base / name / ".pack").glob("unit-*.g*/alive"):
        try:
            record = path.read_text(errors="replace")
        except FileNotFoundError: # the dataset has been published
            continue
        words.update([] if record.startswith("released") else re.findall(r"\w+", record))
    return words


def freeze(name, count, variable=None):
    """Suspend packs that hold a unit, until there are `count`. variable: only packs with this
    variable. Returns the environments by process id."""
    frozen = {}

    def enough():
        for pid, variables in packs(name).items():
            is_wanted = pid not in frozen and (variable is None or variable in variables)
            if is_wanted and len(frozen) < count and str(pid) in holders(name):
                os.kill(pid, signal.SIGSTOP)
                frozen[pid] = variables
        return len(frozen) == count
    until(enough, f"{count} packs that hold a unit of {name}")
    return frozen


def resume(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


# ---- mpirun

def mpirun(path):
    return subprocess.Popen(["sh", str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            encoding="utf-8", env={**mpi_environment, **own_session(), "HOSTS": "localhost:4", "SPEECHSHARD": COMMAND})


def test_mpirun():
    """A killed process, and USR1 to mpirun, end mpirun with an error. The same command continues."""
    path = launch_file("mpi.spsh", "mpirun")
    for number in (signal.SIGKILL, signal.SIGUSR1):
        process = mpirun(path)
        (pid,) = freeze("mpi.spsh", 1)
        (launcher,) = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(pid if number == signal.SIGKILL else int(launcher), number)
        resume(pid)
        output, _ = process.communicate(timeout=LIMIT_S)
        check(process.returncode != 0, f"after {number.name}: {output}")
        check(not (base / "mpi.spsh" / "manifest.spsh").exists(), f"after {number.name}: a dataset that lacks units")
    process = mpirun(path)
    output, _ = process.communicate(timeout=LIMIT_S)
    equal(process.returncode, 0, output)
    check("(mpirun)" in output, f"parts: {output}")
    check_dataset("mpi.spsh")


# ---- Kubernetes

def test_kubernetes():
    """One pod is killed, and one is evicted. The last pod merges."""
    from manifests import load, validate # skips the test without a reader of YAML
    path = launch_file("pods.spsh", "kubernetes", ("completions: 16", "completions: 3"), ("parallelism: 16", "parallelism: 3"),
                       ("auto/16", "auto/3"))
    for manifest in (path, LAUNCH / "pack-kubernetes.yaml"):
        (job,) = load(manifest)
        check(not validate(job), f"{manifest}: {validate(job)}")
    spec = load(path)[0]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    words = [COMMAND if word == "speechshard" else word for word in [*container["command"], *container["args"]]]
    equal((spec["completionMode"], words[0]), ("Indexed", COMMAND), "the Job")

    def action(status):
        for rule in spec["podFailurePolicy"]["rules"]:
            codes = rule.get("onExitCodes")
            if codes is not None and codes["containerName"] == container["name"] and status in codes["values"]:
                return rule["action"]
        return "Count"

    def start(index):
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                encoding="utf-8", env={**os.environ, "JOB_COMPLETION_INDEX": str(index)})

    pods = {index: start(index) for index in range(spec["completions"])}
    faults = [signal.SIGKILL, signal.SIGTERM]
    for pid, variables in freeze("pods.spsh", 2).items():
        index, number = int(variables[b"JOB_COMPLETION_INDEX"]), faults.pop(0)
        pods[index].send_signal(number)
        resume(pid)
        messages = pods[index].communicate()[1]
        status = pods[index].returncode
        equal(status, -number, f"pod {index}: {messages}")
        equal(action(128 - status), "Count" if number == signal.SIGKILL else "Ignore", f"action after {number.name}")
        pods[index] = start(index)
    for index, pod in pods.items():
        messages = pod.communicate(timeout=LIMIT_S)[1]
        equal(pod.returncode, 0, f"pod {index}: {messages}")
        check(f"part {index}/3 (Kubernetes Indexed Job)" in messages, f"pod {index}: {messages}")
    equal([action(status) for status in (1, 2, 75, 143, 137)], ["Count", "FailJob", "Count", "Ignore", "Count"], "actions")
    check_dataset("pods.spsh")


# ---- Grid Engine

def failing_command():
    """A command that always exits with 75, as pack does after an error of the file system."""
    path = base / "failing"
    path.write_text("#!/bin/sh\nexit 75\n")
    path.chmod(0o755)
    return str(path)


def sge_task(path, number, **more):
    variables = {"SPEECHSHARD": COMMAND, "NSLOTS": "1", "SGE_TASK_ID": str(number), "SGE_TASK_FIRST": "1", "SGE_TASK_LAST": "3",
                 "SGE_TASK_STEPSIZE": "1"}
    return subprocess.Popen(["sh", str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            encoding="utf-8", env={**os.environ, **variables, **more}, start_new_session=True)


def test_sge():
    """A task that is notified of its end exits with 99, and Grid Engine starts it again. Grid Engine
    signals all processes of a task. After errors of the file system, a task is started again once."""
    path = launch_file("sge.spsh", "sge", ("-t 1-16", "-t 1-3"))
    equal(subprocess.run(["sh", "-n", path], check=False).returncode, 0, "syntax")
    for number in (signal.SIGUSR2, signal.SIGUSR1):
        task = sge_task(path, 2)
        (pid,) = freeze("sge.spsh", 1)
        os.killpg(task.pid, number)
        resume(pid)
        output, _ = task.communicate(timeout=LIMIT_S)
        equal(task.returncode, 99, f"after {number.name}: {output}")
        check("repeat the same pack" in output, f"a clean stop after {number.name}: {output}")
    for restarted, want in (("0", 99), ("1", 75)):
        task = sge_task(path, 2, SPEECHSHARD=failing_command(), RESTARTED=restarted)
        output, _ = task.communicate(timeout=LIMIT_S)
        equal(task.returncode, want, f"after an error of the file system, RESTARTED={restarted}: {output}")
    for number in (3, 2, 1):
        task = sge_task(path, number)
        output, _ = task.communicate(timeout=LIMIT_S)
        equal(task.returncode, 0, output)
        check(f"part {number - 1}/3 (SGE array)" in output, f"task {number}: {output}")
    good("merge", base / "sge.spsh")
    check_dataset("sge.spsh")


# ---- Slurm

class Array:
    """The jobs of a printed file."""

    def __init__(self, name):
        path = launch_file(name, "slurm", ("--array=0-15", "--array=0-7"), ("--cpus-per-task=8", "--cpus-per-task=1"),
                           ("#!/bin/sh\n", f"#!/bin/sh\n#SBATCH --output={base}/%x-%A-%a.out\n"))
        done = subprocess.run(["sh", str(path)], cwd=base, env={**cluster.environment, "SPEECHSHARD": COMMAND}, check=False,
                              capture_output=True, encoding="utf-8", timeout=LIMIT_S)
        equal(done.returncode, 0, f"the start: {done.stderr}")
        self.number = done.stdout.split()[1]
        self.merge = done.stdout.split()[-1]

    def messages(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}" for path in sorted(base.glob("*.out")))

    def merge_state(self):
        """Slurm may hold requeued tasks for two minutes: release those that wait."""
        for line in cluster.queue().splitlines():
            if line.startswith(f"{self.number}_") and line.endswith("PENDING"):
                cluster.try_run("scontrol", "update", f"JobId={line.split()[0]}", "StartTime=now+1")
        return cluster.job(self.merge).get("JobState")


def test_slurm_restarts():
    """After errors of the file system, a task is queued again up to 10 times, and the merge, too. Slurm
    is simulated: sbatch runs the merge at once."""
    path = launch_file("restarts.spsh", "slurm")
    programs = base / "programs"
    programs.mkdir()
    sbatch = 'for word; do :; done\ncase $word in --wrap=*) sh -c "${word#--wrap=}" ;; *) echo 7 ;; esac'
    for name, text in (("srun", "exec " + failing_command()), ("scontrol", 'echo "scontrol $*"'), ("sbatch", sbatch)):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    for restarts, want in (("", 0), ("9", 0), ("10", 75)):
        for job, names in (("7_3", {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}), ("8", {"SLURM_JOB_ID": "8"})):
            variables = {"PATH": f"{programs}:{os.environ['PATH']}", "SPEECHSHARD": failing_command(),
                         "SLURM_RESTART_COUNT": restarts, **names}
            done = subprocess.run(["sh", str(path)], env={**os.environ, **variables}, check=False, capture_output=True,
                                  encoding="utf-8", timeout=LIMIT_S)
            equal(done.returncode, want, f"job {job} after {restarts or 'no'} restarts: {done.stderr}")
            equal(f"scontrol requeue {job}\n" in done.stdout, want == 0, f"job {job} after {restarts or 'no'} restarts: {done.stdout}")


def test_slurm():
    """One task is requeued, one is drained by USR1, one loses its node but runs on, and one part runs
    twice."""
    array = Array("slurm.spsh")
    frozen = freeze("slurm.spsh", 3, b"SLURM_ARRAY_TASK_ID")
    tasks = {pid: variables[b"SLURM_ARRAY_TASK_ID"].decode() for pid, variables in frozen.items()}
    lost, requeued, drained = frozen
    by_hand = subprocess.Popen([COMMAND, "pack", str(base / "corpus"), "-o", str(base / "slurm.spsh"), *OPTIONS, "--part",
                                f"{tasks[drained]}/8"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, encoding="utf-8")
    cluster.kill_node(frozen[lost][b"SLURMD_NODENAME"].decode())
    cluster.run("scontrol", "requeue", f"{array.number}_{tasks[requeued]}")
    cluster.run("scancel", "--batch", "--signal=USR1", f"{array.number}_{tasks[drained]}")
    resume(requeued)
    resume(drained)
    until(lambda: array.merge_state() in ("COMPLETED", "FAILED"), f"the merge: {cluster.queue()}", 0.5)
    equal(array.merge_state(), "COMPLETED", f"the merge: {array.messages()}")
    for task in tasks.values():
        equal(cluster.job(f"{array.number}_{task}").get("Restarts"), "1", f"starts of task {task}: {array.messages()}")
    _, messages = by_hand.communicate(timeout=LIMIT_S)
    equal(by_hand.returncode, 0, f"the part that runs twice: {messages}")
    check_dataset("slurm.spsh")
    resume(lost)
    until(lambda: lost not in packs("slurm.spsh"), "the end of the pack whose node was lost")
    check_dataset("slurm.spsh")


base = pathlib.Path(tempfile.mkdtemp(prefix="launch-pack-"))
cluster = None
try:
    if WHICH == "mpirun":
        need_mpirun()
    if WHICH == "slurm":
        import slurm_kit
        slurm_kit.need_slurm()
    make_corpus(base / "corpus")
    good("pack", base / "corpus", "-o", base / "whole.spsh", *OPTIONS[:-2])
    if WHICH == "slurm":
        (base / "slurm").mkdir()
        with slurm_kit.Cluster(base / "slurm", tasks=1, nodes=4) as cluster:
            run_tests(test_slurm_restarts, test_slurm)
    run_tests({"mpirun": test_mpirun, "kubernetes": test_kubernetes, "sge": test_sge}[WHICH])
finally:
    for pid in packs(""):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(base, ignore_errors=True)
