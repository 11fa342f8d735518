"""hosts_kit.py: network namespaces as hosts of one machine: a switch, where the launcher runs, and
two hosts.

    with Hosts(folder) as hosts:
        hosts.run("switch", ["ping", "-c1", hosts.addresses[0]])    # arguments of Popen
        hosts.fail(1)       # kills all its processes and disconnects it
    hosts.mend(1)       # connects it again

Each host has a separate name (a UTS namespace), an address, and a remote shell: a script that
replaces ssh.
"""
import os
import shutil
import signal
import subprocess
import sys
import time


def need_namespaces():
    if shutil.which("ip") is None or os.geteuid() != 0 or \
            subprocess.run(["ip", "netns", "add", f"spsh{os.getpid()}p"], check=False, capture_output=True).returncode != 0:
        print("skipped: network namespaces need `ip` and root")
        sys.exit(77)
    subprocess.run(["ip", "netns", "delete", f"spsh{os.getpid()}p"], check=True)


class Hosts:
    def __init__(self, folder):
        self.folder = folder
        self.switch = f"spsh{os.getpid()}s"
        self.names = [f"spsh{os.getpid()}h{i}" for i in range(2)]
        self.addresses = [f"10.201.7.{2 + i}" for i in range(2)]
        self.remote_shell = folder / "remote-shell"

    def __enter__(self):
        try:
            self.start()
        except subprocess.CalledProcessError as error: # a kernel without bridges, say
            self.__exit__()
            print(f"skipped: no hosts of namespaces here: {error}")
            sys.exit(77)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.switch]:
            self.kill(name)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def start(self):
        for path in self.folder.glob("failed.*"): # files of another test
            path.unlink()
        for name in [self.switch, *self.names]:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("-n", self.switch, "link", "add", "switch", "type", "bridge")
        self.ip("-n", self.switch, "link", "set", "switch", "up")
        self.ip("-n", self.switch, "address", "add", "10.201.7.1/24", "dev", "switch")
        for i, name in enumerate(self.names):
            self.ip("-n", self.switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth", "netns", name)
            self.ip("-n", self.switch, "link", "set", f"port{i}", "master", "switch", "up")
            self.ip("-n", name, "address", "add", f"{self.addresses[i]}/24", "dev", "eth")
            self.ip("-n", name, "link", "set", "eth", "up")
        self.remote_shell.write_text("#!/bin/sh\nhost=$1\nshift\ncase $host in\n" + "".join(
            f"{address}) name={name} ;;\n" for address, name in zip(self.addresses, self.names)) +
            f'*) exit 255 ;;\nesac\n[ ! -e "{self.folder}/failed.$name" ] || exit 255\n'
            'exec ip netns exec "$name" unshare --uts sh -c "hostname $name; $*"\n')
        self.remote_shell.chmod(0o755)

    def at_switch(self, *words):
        """Arguments of a command that runs there, under the host's name."""
        return ["ip", "netns", "exec", self.switch, "unshare", "--uts", "sh", "-c",
                f'hostname {self.switch}; exec "$@"', "sh", *words]

    def fail(self, i):
        (self.folder / f"failed.{self.names[i]}").touch()
        self.kill(self.names[i])

    def silence(self, i):
        """Cut its cable: no process is notified."""
        (self.folder / f"failed.{self.names[i]}").touch()
        self.ip("-n", self.switch, "link", "set", f"port{i}", "down")

    def mend(self, i):
        self.ip("-n", self.switch, "link", "set", f"port{i}", "up")
        (self.folder / f"failed.{self.names[i]}").unlink()

    def pids(self, name):
        return subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True,
                              encoding="utf-8").stdout.split()

    def kill(self, name):
        pids = self.pids(name)
        while pids:
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
            pids = self.pids(name)
