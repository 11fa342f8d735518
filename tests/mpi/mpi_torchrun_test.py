"""Processes that no MPI connects, with the variables of torchrun: they meet by a file or at a port,
end with the bits of one process, and end each other when one is killed or hangs; processes that do
not know their secret are kept out.

    mpi_torchrun_test.py TEST_TRAIN_WORLD TRAIN_RANK SPEECHSHARD
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from meeting_kit import Peer, connect, listening_ports, take
from mpi_kit import Torchrun, check, environment, equal, run_tests

WORLD, RANK, COMMAND, *ONLY = sys.argv[1:]
base = pathlib.Path(tempfile.mkdtemp(prefix="torchrun-"))
folder = base / "meet"
SECRET = "0123456789abcdef-of-this-test"
FLOOD = 600
MEETING = ".meeting-" + "[0-9a-f]" * 16 # not the draft, which has a longer name
GIVEN = {"SPEECHSHARD_SECRET": SECRET} # for processes without a shared folder


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
    done = world(3, "allreduce", 8, 1, where=f"tcp://localhost:{free_port()}", **GIVEN).end()
    equal(hashes(done), want, f"by a port: {done.output}")
    port = free_port()
    done = world(2, "allreduce", 8, 1, where="auto", MASTER_PORT=port - 3, restarts=2, **GIVEN).end()
    equal(hashes(done), want, f"at MASTER_PORT + 1 + restarts: {done.output}")
    equal(list(folder.iterdir()), [], "files that are left")


def test_two_runs_at_once():
    """Two runs in one folder are distinguished by their names."""
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
        check(re.search(f"rank ([0-9]+, )*{rank}(, [0-9]+)* is missing", done.output), # a later exit may be noticed first
              f"{fault}: named no rank {rank}: {done.output}")
    done = world(3, "allreduce", 8, 1, "other-model", 1).end()
    check("same configuration" in done.output and 0 not in done.codes.values(), f"another model: {done.output}")


def test_one_does_not_come():
    """A rank is missing, or belongs to another run or attempt. Each case has a port, where rank 0
    waits to the end."""
    short = {"TEST_DEADLINE_MS": 8000}
    without_1 = world(3, "allreduce", 8, 1, job="without 1", ranks=[2, 0], **short)
    without_0 = world(2, "allreduce", 8, 1, job="without 0", ranks=[1], **short)
    refused = []
    for others, text in [({"job": "other"}, "refused: another run uses this address;"), ({"restarts": 4}, "expected attempt 0 of the run, found 4"),
                         ({"SPEECHSHARD_SECRET": SECRET + "x"}, "refused: the secret is not the same on both ranks;")]:
        port = free_port()
        first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[0], TEST_DEADLINE_MS=600000, **GIVEN)
        first.wait_until(lambda: is_open(port))
        stranger = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1], **short, **{**GIVEN, **others})
        refused.append((first, stranger, text))
    done = without_1.end()
    check(re.search("rank 1 of 3 did not connect within 8[.,]0 s", done.said[0]), f"rank 0 said {done.said[0]}")
    check(all(code == 1 for code in done.codes.values()), f"ended with {done.codes}")
    done = without_0.end()
    check(re.search("rank 0 was not found within 8[.,]0 s", done.said[1]), f"rank 1 said {done.said[1]}")
    for first, stranger, text in refused:
        stranger.end()
        check(text in stranger.said[1] and stranger.codes[1] == 1, f"{text}: said {stranger.output}")
        first.processes[0].kill()
        equal(first.end().codes[0], -9, f"rank 0, which waited: {first.output}")


def test_one_who_left():
    """A rank disconnects before rank 0 reads its claim, and connects again. Rank 0 waits for that
    connection."""
    port = free_port()
    first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[0], **GIVEN)
    first.wait_until(lambda: is_open(port))
    peer = Peer(SECRET.encode(), port)
    with connect(port) as gone:
        gone.sendall(peer.hello())
        peer.ask = take(gone, 40)
        first.processes[0].send_signal(signal.SIGSTOP)
        gone.sendall(peer.claim(1, 2))
        gone.shutdown(socket.SHUT_WR)
        first.processes[0].send_signal(signal.SIGCONT)
        equal(take(gone, 1000), peer.answer(), "all that it is told")
    second = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1], **GIVEN)
    equal((first.end().codes, second.end().codes), ({0: 0}, {1: 0}), f"{first.output}{second.output}")


def file_name():
    """A file of a waiting rank 0: its contents do not matter."""
    first = world(2, "allreduce", 8, 1, ranks=[0])
    name = first.wait_until(lambda: list(folder.glob(MEETING)))[0].name
    first.processes[0].kill()
    first.end()
    for path in folder.iterdir():
        path.unlink()
    return name


def test_old_file():
    """A file of a finished meeting, where no process or an unrelated one listens, and an invalid
    file."""
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


def offer(lines, port):
    """Open one more connection, if the listener accepts it now."""
    line = socket.socket()
    line.setblocking(False)
    line.connect_ex(("127.0.0.1", port))
    lines.append(line)
    return line


def send(line, content):
    try:
        line.send(content)
    except OSError:
        pass


def test_flood():
    """Hundreds of connections to the ports of waiting ranks, also of one that waits for the answer
    of rank 0, stay silent, send garbage, frames of 2^63 bytes, or half a hello, or disconnect. The
    run has the weights of one process."""
    frame = struct.pack("<IIQQ", 0x53505300 | 1, 7, 1 << 63, 1)  # EAGER
    content = [frame * 100, frame[:20], b"SPSHMEET" + bytes(range(100)), b"\xff" * 5000, b"SPSHMEET\2\0\0\0"]
    want = hashes(world(1, "allreduce", 8, 1).end())
    lines = []
    limit = {"TEST_DEADLINE_MS": 120000}
    start = [world(3, "allreduce", 8, 1, ranks=[0], **limit)]
    first = start[0].wait_until(lambda: list(folder.glob(MEETING)) and listening_ports(start[0].processes[0]))
    start.append(world(3, "allreduce", 8, 1, ranks=[1], **limit))
    second = start[1].wait_until(lambda: listening_ports(start[1].processes[1]), 1)
    for port in first + second:
        for i in range(FLOOD):
            line = offer(lines, port)
            if i % 10 == 0:
                send(line, content[i // 10 % len(content)])
            if i % 70 == 0:
                line.close()
    start.append(world(3, "allreduce", 8, 1, ranks=[2], **limit))
    done = [one.end() for one in start]
    equal([set(one.codes.values()) for one in done], [{0}] * 3, "".join(one.output for one in done))
    equal(hashes(done[0]), want, "weights")
    for line in lines:
        line.close()


def drip(port, said):
    """Send a hello one byte at a time. said: the bytes that were sent before the connection was
    closed."""
    content = Peer(b"none", port).hello()
    with connect(port) as line:
        line.settimeout(0.1)
        for byte in content:
            said.append(byte)
            send(line, bytes([byte]))
            try:
                if line.recv(1) == b"":
                    return
            except socket.timeout:
                pass
            except OSError:
                return


def check_false_rank_0():
    """A listener without the secret fails with any answer, and so does a listener that relays to
    the true rank 0."""
    def hold(peer, line):
        """peer: state of the listener."""
        peer.said = take(line, 168)
        peer.ask = b"SPSHASKS" + peer.nonce
        line.sendall(peer.ask)
        peer.claimed = take(line, 96)
        return b"SPSHHOLD" + os.urandom(32)

    def reflect(peer, line):
        """Send back the rank's own nonce and its own proof."""
        peer.nonce = take(line, 168)[16:48]
        line.sendall(b"SPSHASKS" + peer.nonce)
        return b"SPSHHOLD" + take(line, 96)[64:]

    short = {"TEST_DEADLINE_MS": 5000}
    for answer in [hold, reflect]:
        with socket.create_server(("127.0.0.1", 0)) as false:
            port = false.getsockname()[1]
            rank = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1], **GIVEN, **short)
            with false.accept()[0] as line:
                line.settimeout(60)
                line.sendall(answer(Peer(b"", port), line))
                equal(take(line, 1), b"", "said after a false proof")
            rank.end()
            check("the process that listens there does not know the secret" in rank.output and rank.codes[1] == 1, rank.output)
    with socket.create_server(("127.0.0.1", 0)) as false:
        true_port, port = free_port(), false.getsockname()[1]
        first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{true_port}", ranks=[0], **GIVEN)
        first.wait_until(lambda: is_open(true_port))
        rank = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1], **GIVEN, **short)
        with false.accept()[0] as line, connect(true_port) as true:
            true.sendall(take(line, 168))
            line.sendall(take(true, 40))
            true.sendall(take(line, 96))
            refusal = take(true, 128)
            equal(refusal[:8], b"SPSHNOPE", "a relayed claim")
            line.sendall(refusal)
        rank.end()
        check("refused: the secret is not the same on both ranks" in rank.output and rank.codes[1] == 1, rank.output)
        first.processes[0].kill()
        first.end()


def test_impostors():
    """No message without the secret is accepted as a rank, and no rejection reveals the program."""
    port, dripped = free_port(), []
    first = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[0], **GIVEN)
    first.wait_until(lambda: is_open(port))
    dripping = threading.Thread(target=drip, args=(port, dripped))
    dripping.start()

    def answer_to(peer, claim=None, hello=None, ask=None):
        """claim: returns the bytes to send after the ask. None: send only a hello."""
        with connect(port) as line:
            line.sendall(hello or peer.hello())
            if claim is not None:
                peer.ask = take(line, 40)
                equal(peer.ask[:8], b"SPSHASKS", "an ask")
                line.sendall(claim(peer))
            return take(line, 1000)

    old = struct.pack("<8s6IQ128s", b"SPSHMEET", 1, 1, 1, 2, 0, port, 0, b"job")
    heard = Peer(SECRET.encode(), port)
    with connect(port) as line:  # a claim that is recorded now and replayed later
        line.sendall(heard.hello())
        heard.ask = take(line, 40)
        replayed = heard.claim(1, 2)
    refused = [
        ("version 1", answer_to(None, hello=old)),
        ("no proof", answer_to(Peer(b"", port), lambda peer: peer.claim(1, 2)[:64] + bytes(32))),
        ("another secret", answer_to(Peer(SECRET.encode() + b"x", port), lambda peer: peer.claim(1, 2))),
        ("a proof of another connection", answer_to(Peer(SECRET.encode(), port, heard.nonce), lambda peer: replayed)),
        ("the listener's role", answer_to(Peer(SECRET.encode(), port),
                                          lambda peer: (peer.claim(1, 2)[:64] + peer.answer()[8:]))),
        ("another port", answer_to(Peer(SECRET.encode(), port + 1), lambda peer: peer.claim(1, 2))),
        ("changed behind the proof", answer_to(Peer(SECRET.encode(), port),
                                               lambda peer: bytes([2]) + peer.claim(1, 2)[1:])),
        ("another run", answer_to(Peer(SECRET.encode(), port), lambda peer: peer.claim(1, 2, run=b"job2"))),
        ("no such rank", answer_to(Peer(SECRET.encode(), port), lambda peer: peer.claim(2, 2))),
    ]
    for what, answer in refused:
        check(len(answer) == 128 and answer[:8] == b"SPSHNOPE" and b"job" not in answer, f"{what}: {answer}")
    equal(answer_to(None, hello=b"\0" * 168), b"", "said to garbage")
    check_false_rank_0() # while the slow hello is in progress
    dripping.join()
    check(len(dripped) < 168, f"a connection that sends a byte now and then sent {len(dripped)}")
    second = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{port}", ranks=[1], **GIVEN)
    equal((first.end().codes, second.end().codes), ({0: 0}, {1: 0}), f"{first.output}{second.output}")


def test_secret_file():
    """The meeting file has mode 0600, a file that others can read is rejected, and a rank without a
    secret asks for one."""
    first = world(2, "allreduce", 8, 1, ranks=[0])
    path = first.wait_until(lambda: list(folder.glob(MEETING)))[0]
    equal(path.stat().st_mode & 0o777, 0o600, "the file's mode")
    text = path.read_text()
    check(re.search("^secret [0-9a-f]{64}$", text, re.MULTILINE), text)
    first.processes[0].kill()
    first.end()
    path.chmod(0o644)
    short = {"TEST_DEADLINE_MS": 2000}
    rank = world(2, "allreduce", 8, 1, ranks=[1], **short).end()
    check("other users can read that file" in rank.output, rank.output)
    path.chmod(0o600)
    path.write_text(re.sub("secret .*", "secret -", text))
    rank = world(2, "allreduce", 8, 1, ranks=[1], **short).end()
    check("rank 0 has SPEECHSHARD_SECRET set, and this rank has not" in rank.output, rank.output)
    path.unlink()
    rank = world(2, "allreduce", 8, 1, ranks=[1], **short).end()
    check("share the folder, or set SPEECHSHARD_SECRET" in rank.output, rank.output)
    rank = world(2, "allreduce", 8, 1, where=f"tcp://127.0.0.1:{free_port()}", ranks=[0], **short).end()
    check("the ranks share no secret" in rank.output, rank.output)
    rank = world(2, "allreduce", 8, 1, ranks=[0], SPEECHSHARD_SECRET="short", **short).end()
    check("has 5 characters, expected at least 16" in rank.output and "short" not in rank.output, rank.output)


# ---- complete runs with the code of the command

def test_stopped_while_they_meet():
    """A signal ends a run wherever a process waits: for the other ranks, for rank 0, or for the
    answer of rank 0."""
    words = [COMMAND, "train", base / "run.yaml", "-o", base / "stopped"]
    for rank, knows in [(0, True), (2, False), (2, True)]:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            first.listen()
            port = first.getsockname()[1]
            where = [] if rank == 0 else ["--rendezvous", f"tcp://127.0.0.1:{port}"]
            done = Torchrun(3, *words, *where, ranks=[rank], **GIVEN)
            process = done.processes[rank]
            if rank == 0:
                done.wait_until(lambda: list((base / "stopped").glob(MEETING)))
            else:
                line, peer = first.accept()[0], Peer(SECRET.encode(), port)
                peer.said = take(line, 168)
                if knows:
                    peer.ask = b"SPSHASKS" + peer.nonce
                    line.sendall(peer.ask)
                    peer.claimed = take(line, 96)
                    line.sendall(peer.answer())
            process.terminate()
            done.end()
        check(done.codes[rank] == 75 and f"stopped while rank {rank} of 3 waited for the other ranks" in done.said[rank],
              f"rank {rank} ends with {done.codes[rank]}: {done.said[rank]}")
    check(not (base / "stopped").exists(), "a folder that is left")


def weights(run):
    return subprocess.run([RANK, base, "hash", run], capture_output=True, encoding="utf-8", check=True).stdout.strip()


def test_runs():
    """The bits equal the result of one process. A rank is killed, the others exit with 70, and the
    run resumes on another number."""
    words = ["data.virtual_world=6", "data.max_padded_seconds=0.4"]
    Torchrun(1, RANK, base, "run", "one", *words).end()
    done = Torchrun(3, RANK, base, "run", "some", "kill:1:4", "train.checkpoint_every_s=1e-9", *words).end()
    equal((done.codes[0], done.codes[2]), (70, 70), f"the others of a killed one: {done.output}")
    check("rank 1" in done.said[0], f"named no rank 1: {done.said[0]}")
    done = Torchrun(2, RANK, base, "run", "some", "resume", "hang:0:5", "train.deadline_ms=30000", *words, restarts=1).end(without=[0])
    equal(done.codes[1], 70, f"the other of a hanging one: {done.output}")
    done = Torchrun(3, RANK, base, "run", "some", "resume", "stop:2:2", *words, restarts=2).end()
    equal(set(done.codes.values()), {75}, f"stopped by one: {done.output}")
    done = Torchrun(2, RANK, base, "run", "some", "resume", *words, restarts=3).end()
    equal(set(done.codes.values()), {0}, f"to the end: {done.output}")
    equal(weights("some"), weights("one"), "killed, hanging, stopped")
    equal(list((base / "some").glob(".meeting*")), [], "files that are left")


try:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most if most != resource.RLIM_INFINITY and most < 4096 else 4096, most))
    folder.mkdir()
    equal(subprocess.run([RANK, base, "make"], check=False).returncode, 0, "the dataset")
    run_tests(test_sums, test_two_runs_at_once, test_killed_or_hanging, test_one_does_not_come, test_one_who_left, test_old_file, test_flood, test_impostors,
              test_secret_file, test_stopped_while_they_meet, test_runs, only=ONLY)
finally:
    shutil.rmtree(base, ignore_errors=True)
