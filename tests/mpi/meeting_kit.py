"""meeting_kit.py: the messages of a rendezvous (train/src/comm/rendezvous.c), written a second
time.

    from meeting_kit import Peer, connect, listening_ports

    peer = Peer(b"the secret", port)            # port: the listener's
    line = connect(port)
    line.sendall(peer.hello())
    peer.ask = take(line, 40)
    line.sendall(peer.claim(rank=1, world=2))
    answer = take(line, 40)                     # SPSHHOLD, proof
"""
import hashlib
import hmac
import os
import pathlib
import socket
import struct

RUN = b"job"  # default name in mpi_kit.Torchrun


def connect(port):
    line = socket.create_connection(("127.0.0.1", port))
    line.settimeout(60)
    return line


def take(line, size):
    """Bytes up to `size`, fewer at the end of the connection."""
    found = b""
    try:
        while len(found) < size and (more := line.recv(size - len(found))):
            found += more
    except ConnectionResetError:
        pass
    return found


class Peer:
    """One end of a connection, which knows `secret`."""

    def __init__(self, secret, port, nonce=None):
        self.secret, self.port = hashlib.sha256(secret).digest(), struct.pack("<I", port)
        self.nonce = nonce or os.urandom(32)
        self.said = self.ask = self.claimed = b""

    def prove(self, role, *parts):
        return hmac.new(self.secret, b"speechshard meeting " + role + b"\0" + b"".join(parts), hashlib.sha256).digest()

    def hello(self, version=2):
        self.said = (struct.pack("<8sI4x", b"SPSHMEET", version) + self.nonce).ljust(168, b"\0")
        return self.said

    def claim(self, rank, world, kind=1, restarts=0, number=0, run=RUN):
        words = struct.pack("<6IQ", kind, rank, world, restarts, 9, 0, number) + self.prove(b"run", run.ljust(128, b"\0"))
        self.claimed = words + self.prove(b"connecting", self.port, self.said, self.ask, words)
        return self.claimed

    def answer(self, magic=b"SPSHHOLD"):
        """Bytes that the listening end sends for a claim."""
        return magic + self.prove(b"listening", self.port, self.said, self.ask, self.claimed)


def listening_ports(process):
    """TCP ports at which a process listens."""
    inodes = set()
    for path in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = [line.split() for name in ["tcp", "tcp6"]
            for line in pathlib.Path(f"/proc/{process.pid}/net/{name}").read_text().splitlines()[1:]]
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes]
