"""Processes that no MPI connects, with the variables of torchrun: they meet by a file or at a port, end with the bits of
one process, and end each other when one is killed or hangs; who does not belong to them is refused.

    torchrun_test.py TEST_TRAIN_WORLD TRAIN_RANK SPEECHSHARD tcp|gloo
"""
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

from mpi_kit import Torchrun, check, environment, equal, run_tests

WORLD, RANK, COMMAND, CARRIER = sys.argv[1:5]
environment["SPEECHSHARD_COMM"] = CARRIER
base = pathlib.Path(tempfile.mkdtemp(prefix="torchrun-"))
folder = base / "meet"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def world(count, *words, where=f"file://{folder}", **more):
    return Torchrun(count, WORLD, *words, TEST_RENDEZVOUS=where, **more)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def hashes(done):
    return re.findall("^hash (.*)$", done.output, re.MULTILINE)


def test_sums():
    want = hashes(world(1, "allreduce", 8, 1).end())
    equal(len(want), 1, "a hash of one process")
    for strategy, count in [("allreduce", 2), ("partitioned", 3), ("allreduce", 4)]:
        done = world(count, strategy, 8, 1).end()
        equal((hashes(done), set(done.codes.values())), (want, {0}), f"{strategy}, {count} processes: {done.output}")
    done = world(3, "allreduce", 8, 1, where=f"tcp://localhost:{free_port()}").end()
    equal(hashes(done), want, f"by a port: {done.output}")
    port = free_port()
    done = world(2, "allreduce", 8, 1, where="auto", MASTER_PORT=port - 3, restarts=2).end()
    equal(hashes(done), want, f"at MASTER_PORT + 1 + restarts: {done.output}")
    equal(list(folder.iterdir()), [], "files that are left")


def test_two_runs_at_once():
    """In one folder, told apart by their names."""
    runs = [world(2, "allreduce", 8, 1, job=job) for job in ["one", "two"]]
    done = [run.end() for run in runs]
    equal([set(one.codes.values()) for one in done], [{0}, {0}], f"{done[0].output}{done[1].output}")


def test_killed_or_hanging():
    faults = [("kill", 1), ("hang", 2), ("hang", 0)]
    starts = [world(3, "allreduce", 8, 1, fault, rank, job=f"{fault} {rank}") for fault, rank in faults]
    for (fault, rank), start in zip(faults, starts):
        done = start.end(without=[rank] if fault == "hang" else [])
        for other in {0, 1, 2} - {rank}:
            check(done.codes[other] == 1 and "is missing: step 3" in done.said[other],
                  f"{fault} of {rank}: rank {other} ends with {done.codes[other]}: {done.said[other]}")
        check(re.search(f"rank ([0-9]+, )*{rank}(, [0-9]+)* is missing", done.output), # one may see another end first
              f"{fault}: named no rank {rank}: {done.output}")
    done = world(3, "allreduce", 8, 1, "other-model", 1).end()
    check("same configuration" in done.output and 0 not in done.codes.values(), f"another model: {done.output}")


def test_one_does_not_come():
    """... or is of another run, or of another attempt: at one port each, where rank 0 is until the others have ended."""
    short = {"TEST_DEADLINE_MS": 8000}
    without_1 = world(3, "allreduce", 8, 1, job="without 1", ranks=[2, 0], **short)
    without_0 = world(2, "allreduce", 8, 1, job="without 0", ranks=[1], **short)
    refused = []
    for others, text in [({"job": "other"}, "another run is meeting here: job"), ({"restarts": 4}, "attempt 0, not 4")]:
        port = free_port()
        first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[0], TEST_DEADLINE_MS=600000)
        first.wait_until(lambda: is_open(port))
        stranger = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1], **short, **others)
        refused.append((first, stranger, text))
    done = without_1.end()
    check("rank 1 of 3 has not come within 8.0 s" in done.said[0], f"rank 0 said {done.said[0]}")
    check(all(code == 1 for code in done.codes.values()), f"ended with {done.codes}")
    done = without_0.end()
    check("rank 0 was not found within 8.0 s" in done.said[1], f"rank 1 said {done.said[1]}")
    for first, stranger, text in refused:
        stranger.end()
        check(text in stranger.said[1] and stranger.codes[1] == 1, f"{text}: said {stranger.output}")
        first.processes[0].kill()
        equal(first.end().codes[0], -9, f"rank 0, which waited: {first.output}")


def test_one_who_left():
    """... before rank 0 got to its hello: it comes again, and that is who is waited for."""
    port = free_port()
    first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[0])
    first.wait_until(lambda: is_open(port))
    first.processes[0].send_signal(signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", port)) as gone:
        gone.sendall(struct.pack("<8s6IQ128s", b"SPSHMEET", 1, 1, 1, 2, 0, port, 0, b"job"))
        gone.shutdown(socket.SHUT_WR)
        first.processes[0].send_signal(signal.SIGCONT)
        equal(b"".join(iter(lambda: gone.recv(1000), b"")), b"SPSHHOLD", "all that it is told")
    second = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1])
    equal((first.end().codes, second.end().codes), ({0: 0}, {1: 0}), f"{first.output}{second.output}")


def file_name():
    """That of a rank 0 that waits: what is in it does not decide it."""
    first = world(2, "allreduce", 8, 1, ranks=[0])
    name = first.wait_until(lambda: list(folder.glob(".meeting-*[0-9a-f]")))[0].name
    first.processes[0].kill()
    first.end()
    for path in folder.iterdir():
        path.unlink()
    return name


def test_old_file():
    """One of a meeting that is over, where nobody or somebody else listens, and one that is none."""
    path = folder / file_name()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        for text in [f"speechshard meeting 1\nnumber 00000000000000aa\nport {free_port()}\naddress 127.0.0.1\n",
                     "speechshard meeting 1\nnumber 00000000000000aa\nport 99999\naddress 127.0.0.1\n",
                     f"speechshard meeting 1\nnumber 1\nport {port}\naddress not-an-address\n", "x" * 100000, "\0"]:
            path.write_text(text)
            late = world(2, "allreduce", 8, 1, ranks=[1])
            first = world(2, "allreduce", 8, 1, ranks=[0])
            equal((first.end().codes, late.end().codes), ({0: 0}, {1: 0}), f"{text[:60]!r}: {first.output}{late.output}")


def test_hostile_bytes():
    """Strangers at rank 0's door: silent ones, loud ones, ones that leave."""
    port = free_port()
    first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[0])
    strangers = []
    for i in range(100):
        stranger = socket.socket()
        first.wait_until(lambda: stranger.connect_ex(("127.0.0.1", port)) == 0)
        if i % 10 != 0:
            stranger.setblocking(False)
            try:
                stranger.send(bytes([i]) * 5000 if i % 3 == 0 else b"SPSHMEET" + bytes([i]) * 160)
            except OSError:
                pass
        if i % 2 == 0 and i % 10 != 0:
            stranger.close()
        else:
            strangers.append(stranger)
    second = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1])
    equal((first.end().codes, second.end().codes), ({0: 0}, {1: 0}), f"{first.output}{second.output}")
    for stranger in strangers:
        stranger.close()


# ---- whole runs, of the command's code

def test_stopped_while_they_meet():
    """As a signal ends a run, wherever a process waits: for the others, for rank 0, for rank 0's word."""
    words = [COMMAND, "train", base / "run.yaml", "-o", base / "stopped"]
    for rank, knows in [(0, True), (2, False), (2, True)]:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            first.listen()
            where = [] if rank == 0 else ["--rendezvous", f"tcp://127.0.0.1:{first.getsockname()[1]}"]
            done = Torchrun(3, *words, *where, ranks=[rank])
            process = done.processes[rank]
            if rank == 0:
                done.wait_until(lambda: list((base / "stopped").glob(".meeting-*[0-9a-f]")))
            else:
                line = first.accept()[0]
                line.recv(1000)
                line.send(b"SPSHHOLD" if knows else b"")
            process.terminate()
            done.end()
        check(done.codes[rank] == 75 and f"stopped while rank {rank} of 3 waited for the others" in done.said[rank],
              f"rank {rank} ends with {done.codes[rank]}: {done.said[rank]}")
    check(not (base / "stopped").exists(), "a folder that is left")


def weights(run):
    return subprocess.run([RANK, base, "hash", run], capture_output=True, encoding="utf-8", check=True).stdout.strip()


def test_runs():
    """The bits of one process; a rank is killed, the others end with 70, and the run goes on on another number."""
    words = ["data.virtual_world=6", "data.max_padded_seconds=0.4"]
    Torchrun(1, RANK, base, "run", "one", *words).end()
    done = Torchrun(3, RANK, base, "run", "some", "kill:1:4", "train.checkpoint_every_s=1e-9", *words).end()
    equal((done.codes[0], done.codes[2]), (70, 70), f"the others of a killed one: {done.output}")
    check("rank 1" in done.said[0], f"named no rank 1: {done.said[0]}")
    done = Torchrun(2, RANK, base, "run", "some", "resume", "hang:0:5", "train.deadline_ms=10000", *words, restarts=1).end(without=[0])
    equal(done.codes[1], 70, f"the other of a hanging one: {done.output}")
    done = Torchrun(3, RANK, base, "run", "some", "resume", "stop:2:2", *words, restarts=2).end()
    equal(set(done.codes.values()), {75}, f"stopped by one: {done.output}")
    done = Torchrun(2, RANK, base, "run", "some", "resume", *words, restarts=3).end()
    equal(set(done.codes.values()), {0}, f"to the end: {done.output}")
    equal(weights("some"), weights("one"), "killed, hanging, stopped")
    equal(list((base / "some").glob(".meeting*")), [], "files that are left")


try:
    folder.mkdir()
    if set(world(2, "allreduce", 8, 1).end().codes.values()) == {77}:
        print(f"skipped: built without {CARRIER}")
        sys.exit(77)
    equal(subprocess.run([RANK, base, "make"], check=False).returncode, 0, "the dataset")
    run_tests(test_sums, test_two_runs_at_once, test_killed_or_hanging, test_one_does_not_come, test_one_who_left, test_old_file, test_hostile_bytes,
              test_stopped_while_they_meet, test_runs)
finally:
    shutil.rmtree(base, ignore_errors=True)
