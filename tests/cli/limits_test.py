"""limits_test.py COMMAND MAKE_SPEECH: signals, and the limits that a shell sets (ulimit).

An interrupted command ends by the signal, so that a shell ends its loop. A limit is a message and
exit status 1.
"""
import os
import pathlib
import resource
import select
import signal
import subprocess
import tempfile

from cli_kit import COMMAND, FEWER, check, environment, equal, run_tests, speech

CLIPS = 48  # one per shard
ROUNDS = 5  # a command may end before the signal: then again


def limited(which, soft_bytes, *words, hard_bytes=None):
    def limit():
        hard = resource.getrlimit(which)[1] if hard_bytes is None else hard_bytes
        resource.setrlimit(which, (soft_bytes, hard))

    return subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          env=environment, preexec_fn=limit)


def good(*words):
    done = subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          env=environment)
    equal(done.returncode, 0, f"{words}: {done.stderr}")
    return done


def make_corpus(work):
    for number in range(CLIPS):
        speech(work / "clips" / f"{number}.wav", f"{number}:0:3")
    good("pack", work / "clips", "-o", work / "d.spsh", "--shard-size", "64K", "--quiet")


# ---- signals


def interrupt(number, words, begun):
    """Send the signal once begun() is true. Returns exit status and messages."""
    process = subprocess.Popen([COMMAND, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, encoding="utf-8", env=environment)
    while not begun() and process.poll() is None:
        pass
    process.send_signal(number)
    return process.wait(), process.communicate()[1]


def test_interrupted(work):
    """Commands that clean up before they end, and continue when they are repeated."""
    commands = [
        (("fingerprint", work / "d.spsh", "-j", "1"), work / "d.spsh" / "fingerprints"),
        (("featgen", work / "d.spsh", "-o", work / "f.spsh", "-j", "1"), work / "f.spsh"),
        (("pack", work / "clips", "-o", work / "i.spsh", "--shard-size", "64K", "-j", "1"), work / "i.spsh" / "shards"),
        (("export", work / "d.spsh", "--to", "wav", "-o", work / "wav"), work / "wav"),
    ]
    for words, folder in commands:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            for _ in range(ROUNDS):
                subprocess.run(["rm", "-rf", folder if folder.name == "fingerprints" else words[-1], work / "f.spsh",
                                work / "i.spsh", work / "wav"], check=True)
                status, messages = interrupt(number, words, lambda: folder.is_dir() and any(folder.iterdir()))
                if status != 0:
                    break
            equal(status, 75 if number == signal.SIGUSR1 else -number, f"{words[0]}: {messages}")
            left = [str(p) for p in work.rglob("*.tmp-*")]
            equal(left, [], f"{words[0]}: left behind")
        if words[0] != "export":
            good(*words)


def test_first_process(work):
    """A container may start the command as process 1, which no signal ends by itself."""
    start = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*start, "true"], capture_output=True).returncode != 0:
        print("skipped: no process namespaces")
        return
    for number in (signal.SIGTERM, signal.SIGUSR1):
        output = work / f"first-{number.name}.spsh"
        process = subprocess.Popen([*start, COMMAND, "pack", "-", "-o", str(output), "--quiet"], stdin=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        while not (output / ".pack").exists() and process.poll() is None:
            pass
        while process.poll() is None:  # pack may not be ready for the signal yet
            for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), number)
            select.select([], [], [], 0.02)
        equal(process.returncode, 75 if number == signal.SIGUSR1 else 128 + number, f"process 1 after {number.name}")


def test_shell_loop(work):
    """The shell has 130, and ends its loop."""
    loop = 'for n in 1 2 3; do echo round; "$0" pack - -o "$1" --quiet; echo "status $?"; done'
    with subprocess.Popen(["bash", "-c", loop, COMMAND, str(work / "loop.spsh")], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
                          start_new_session=True) as shell:
        while not (work / "loop.spsh" / ".pack").exists() and shell.poll() is None:
            pass
        while shell.poll() is None:  # pack may not be ready for the signal yet
            os.killpg(shell.pid, signal.SIGINT)
            select.select([], [], [], 0.02)
        equal((shell.returncode, shell.stdout.read()), (-signal.SIGINT, "round\n"), "a loop")


def test_ignored(work):
    """A script may start commands that ignore SIGINT."""
    done = subprocess.run(["sh", "-c", 'trap "" INT; "$0" ls "$1" | { kill -INT 0; cat; }', COMMAND,
                           str(work / "d.spsh")], capture_output=True, encoding="utf-8", start_new_session=True)
    equal(len(done.stdout.splitlines()), CLIPS, f"ls: exit {done.returncode}: {done.stderr}")


# ---- limits


def test_file_size(work):
    for words in (("pack", work / "clips", "-o", work / "small.spsh"),
                  ("cat", work / "d.spsh", "1", "-o", work / "small.wav")):
        done = limited(resource.RLIMIT_FSIZE, 20000, *words)
        equal(done.returncode, 1, f"{words[0]}: {done.stderr}")
        check("File too large" in done.stderr and "small" in done.stderr, f"the file: {done.stderr}")
        check("limited to 20000 bytes" in done.stderr and "repeat the command" in done.stderr, f"advice: {done.stderr}")
    good("pack", work / "clips", "-o", work / "small.spsh")  # without the limit
    with open(work / "listed", "wb") as out:
        done = subprocess.run([COMMAND, "ls", work / "d.spsh"], stdout=out, stderr=subprocess.PIPE, env=environment,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    equal(done.returncode, 1, "ls")
    check(b"repeat the command" in done.stderr, f"ls: {done.stderr}")


def test_full_disk(work):
    if not os.path.exists("/dev/full"):
        print("skipped: no /dev/full")
        return
    with open("/dev/full", "wb") as full:
        done = subprocess.run([COMMAND, "ls", work / "d.spsh"], stdout=full, stderr=subprocess.PIPE, env=environment)
    check(done.returncode == 1 and b"free space and repeat the command" in done.stderr, f"{done}")
    mount = work / "disk"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True).returncode != 0:
        print("skipped: a file system cannot be mounted")
        return
    try:
        words = ("pack", work / "clips", "-o", mount / "d.spsh")
        done = limited(resource.RLIMIT_CORE, 0, *words)
        equal(done.returncode, 1, f"full disk: {done.stderr}")
        check("No space left" in done.stderr and "free space and repeat the command" in done.stderr,
              f"full disk: {done.stderr}")
        subprocess.run(["mount", "-o", "remount,size=64m", mount], check=True)
        good(*words)
    finally:
        subprocess.run(["umount", mount], check=True)


def test_stack(work):
    """Test the main thread and workers with an equally small hard limit."""
    size = 64 << 10
    for words in (("pack", work / "clips", "-o", work / "s.spsh", "--codec", "flac", "-j", "2"),
                  ("verify", work / "s.spsh", "--decode", "-j", "2"),
                  ("fingerprint", work / "s.spsh", "-j", "2"),
                  ("dedupe", work / "s.spsh", "-o", work / "s.jsonl", "--memory", "64M", "-j", "2"),
                  ("featgen", work / "s.spsh", "-o", work / "sf.spsh", "-j", "2"),
                  ("info", work / "s.spsh"), ("plan", work / "s.spsh"), ("--help",)):
        done = limited(resource.RLIMIT_STACK, size, *words, hard_bytes=size)
        equal(done.returncode, 0, f"{words[0]} with a stack of {size} bytes: {done.stderr}")
    equal((work / "sf.spsh").is_dir(), True, "features")
    # Signals reach the command, which runs on a second thread.
    wait = [COMMAND, "pack", "-", "-o", str(work / "stack.spsh"), "--quiet"]
    process = subprocess.Popen(wait, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (size, size)))
    while not (work / "stack.spsh" / ".pack").exists() and process.poll() is None:
        pass
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        select.select([], [], [], 0.02)
    equal(process.returncode, -signal.SIGINT, "a signal")


def test_memory(work):
    if FEWER:
        return  # a sanitizer's malloc ends the process if it fails
    done = limited(resource.RLIMIT_DATA, 48 << 20, "dedupe", work / "d.spsh", "-o", work / "m.jsonl", "--memory", "2G")
    equal(done.returncode, 1, f"dedupe: {done.stderr}")
    check("out of memory" in done.stderr, f"the cause: {done.stderr}")
    check("--memory" in done.stderr.splitlines()[-1], f"what to do: {done.stderr}")


memory = "/dev/shm" if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK) else None
with tempfile.TemporaryDirectory(dir=memory) as name:
    folder = pathlib.Path(os.path.realpath(name))
    make_corpus(folder)
    run_tests([test_interrupted, test_first_process, test_shell_loop, test_ignored, test_file_size, test_full_disk, test_stack, test_memory], folder)
