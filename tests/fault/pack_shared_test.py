"""pack_shared_test.py COMMAND MAKE_CORPUS WEAK_FS [ROUNDS]: parts on several clients of a shared file
system without guarantees (weak_fs.c) give the bytes of a plain pack, also after crashes of clients.
Skips if FUSE cannot mount here.
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

from pack_parts_test import Rig, fail, failures, tree

CLIENTS = 3
TRIES = 12
# Run a command with the folder of a client at another path. All machines have the same path.
AT_PATH = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"']


class SharedRig(Rig):
    """A corpus, its dataset by a plain pack on an ordinary file system, and clients of a shared one."""

    def __init__(self, command, make_corpus, weak_fs, work):  # pylint: disable=super-init-not-called
        self.command, self.weak_fs, self.work = command, weak_fs, work
        self.corpus = work / "corpus"
        subprocess.run([make_corpus, self.corpus, "40", "3000"], check=True)
        for number, path in enumerate(sorted(self.corpus.rglob("*.wav"))[:6]):
            with tarfile.open(self.corpus / f"more{number}.tar.gz", "w:gz") as archive:
                archive.add(path, f"archived/{number}.wav")
        self.want = self.pack("want")
        self.backing = work / "backing"
        self.backing.mkdir()
        self.shared = work / "shared"
        self.shared.mkdir()
        self.clients = {}

    def mount(self, client, delay_ms, seed, *modes):
        """Start a client. False if FUSE cannot mount."""
        place = self.work / client
        place.mkdir(exist_ok=True)
        daemon = subprocess.Popen([self.weak_fs, self.backing, place, str(delay_ms), str(seed), *modes])
        while daemon.poll() is None and not os.path.ismount(place):
            time.sleep(0.01)
        self.clients[client] = daemon
        return daemon.poll() is None

    def unmount(self, client, crash=False):
        """End a client. crash: what it has not synced is lost."""
        daemon = self.clients.pop(client)
        daemon.send_signal(signal.SIGKILL if crash else signal.SIGTERM)
        daemon.wait()
        if os.path.ismount(self.work / client) or crash:
            subprocess.run(["umount", "-l", self.work / client], check=False)

    def on_client(self, client, words):
        return [*AT_PATH, str(self.work / client), str(self.shared), *words]

    def pack_on(self, client, name, *options):
        words = self.on_client(client, self.words(f"shared/{name}", *options))
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def part(self, client, name, number):
        return self.pack_on(client, name, "--part", f"{number}/{CLIENTS}", "--lease", "1")

    def finish_part(self, client, name, number, process=None):
        """Wait for a part, and repeat it after errors, as a scheduler does. Returns its messages."""
        messages = ""
        for _ in range(TRIES):
            process = process or self.part(client, name, number)
            messages += process.communicate()[1]
            if process.returncode == 0:
                return messages
            process = None
        fail(f"{name}: part {number} on {client} fails each time: {messages}")
        return messages

    def merge_on(self, client, name):
        words = self.on_client(client, [self.command, "merge", str(self.shared / name), "--lease", "1"])
        for _ in range(TRIES):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode == 0 or "Input/output error" not in done.stderr:
                break
        if done.returncode != 0:
            fail(f"{name}: merge on {client}: {done.stderr}")

    def check_backing(self, name, what):
        got = tree(self.backing / name)
        names = [n for n in sorted(got.keys() | self.want.keys()) if got.get(n) != self.want.get(n)]
        if names:
            fail(f"{what}: these files differ from those of a plain pack: {names[:8]}")


def pack_at_once(rig, name, modes):
    """A part on each client, all at the same time; then a merge on a client that has polled."""
    parts = [(f"client-{n}", n, rig.part(f"client-{n}", name, n)) for n in range(CLIENTS)]
    for client, number, process in parts:
        messages = rig.finish_part(client, name, number, process)
        if "taking over" in messages and not modes:
            fail(f"{name}: a living part lost a unit: {messages}")
    rig.merge_on("client-1", name)
    rig.check_backing(name, f"{name}: {CLIENTS} clients, {modes}")


def pack_after_crash(rig, name, numbers, how):
    """client-0 ends or stops while it packs. The others take its units over, and one merges."""
    state = rig.backing / name / ".pack"
    first = rig.part("client-0", name, 0)
    while not list(state.glob("unit-*.g1")) and first.poll() is None:
        time.sleep(0.001)
    time.sleep(numbers.uniform(0, 0.05))
    if how == "stop":
        first.send_signal(signal.SIGSTOP)
    else:
        if how == "crash":
            rig.unmount("client-0", crash=True)
        first.kill()
        first.communicate()
    others = [(f"client-{n}", n, rig.part(f"client-{n}", name, n)) for n in range(1, CLIENTS)]
    for client, number, process in others:
        rig.finish_part(client, name, number, process)
    if how == "stop":
        first.send_signal(signal.SIGCONT)
        rig.finish_part("client-0", name, 0, first)
    rig.merge_on("client-2", name)
    rig.check_backing(name, f"{name}: after a {how} of a client")


def pack_after_look(rig):
    """A client remembers that there is no plan, while another one makes it and packs all units."""
    for client in ("client-0", "client-1"):
        rig.mount(client, 30000, 1)
    (rig.backing / "look" / ".pack").mkdir(parents=True)
    if (rig.work / "client-1" / "look" / ".pack" / "plan").exists():
        fail("a plan is there before a pack")
    rig.finish_part("client-0", "look", 0)
    messages = rig.finish_part("client-1", "look", 1)
    if "recognized as" in messages:
        fail(f"a part makes the plan again: {messages}")
    rig.merge_on("client-1", "look")
    rig.check_backing("look", "after a look at a plan that was not there")
    for client in list(rig.clients):
        rig.unmount(client)


def pack_on_slow_disk(rig):
    """client-0 reads, writes, and syncs slowly, and two of its writes take three leases. It lives, so
    it keeps its unit, and the other clients wait for it."""
    rig.mount("client-0", 300, 1, "slow=5", "stall=3000:2")
    for client in ("client-1", "client-2"):
        rig.mount(client, 300, 1)
    rig.pack_on("client-1", "slow", "--plan-only").communicate()
    parts = [rig.part("client-0", "slow", 0)]
    while not list(rig.backing.glob("slow/.pack/unit-*.g1")) and parts[0].poll() is None:
        time.sleep(0.001)
    parts += [rig.part(f"client-{number}", "slow", number) for number in (1, 2)]
    for number, process in enumerate(parts):
        messages = rig.finish_part(f"client-{number}", "slow", number, process)
        if "taking over" in messages:
            fail(f"a slow part lost a unit: {messages}")
    rig.merge_on("client-0", "slow")
    rig.check_backing("slow", "a client with a slow disk")
    for client in list(rig.clients):
        rig.unmount(client)


def run_round(rig, numbers, number, modes):
    delay_ms = numbers.choice((300, 1500))
    for client in range(CLIENTS):
        rig.mount(f"client-{client}", delay_ms, numbers.randrange(1 << 30), *modes)
    pack_at_once(rig, f"once-{number}", modes)
    pack_after_crash(rig, f"crash-{number}", numbers, ("crash", "stop", "kill")[number % 3])
    for client in list(rig.clients):
        rig.unmount(client)
    for name in ("once", "crash"):
        shutil.rmtree(rig.backing / f"{name}-{number}", ignore_errors=True)


def main():
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 4
    seed = int(os.environ.get("SPEECHSHARD_TEST_SEED", "4711"))
    numbers = random.Random(seed)
    if sys.argv[3] == "none" or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: " + ("built without libfuse3" if sys.argv[3] == "none" else "/dev/fuse cannot be opened"))
        return 77
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        rig = SharedRig(sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(work))
        if not rig.mount("client-0", 0, 1):
            print("skipped: FUSE cannot mount here")
            return 77
        can_bind = subprocess.run(rig.on_client("client-0", ["true"]), check=False).returncode == 0
        rig.unmount("client-0")
        if not can_bind:
            print("skipped: no mount namespaces here")
            return 77
        try:
            pack_after_look(rig)
            pack_on_slow_disk(rig)
            for number in range(rounds):
                modes = [mode for bit, mode in enumerate(("no-links", "lost-replies")) if number >> bit & 1]
                begin = time.monotonic()
                run_round(rig, numbers, number, modes)
                print(f"seed {seed}, round {number} {modes}: {time.monotonic() - begin:.1f} s", flush=True)
        finally:
            for client in list(rig.clients):
                rig.unmount(client)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
