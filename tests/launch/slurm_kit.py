"""slurm_kit.py: a Slurm for this machine only, while a test runs.

    with Cluster(folder) as cluster:
        job = cluster.run("sbatch", "--parsable", script).strip()
        cluster.wait(job, "COMPLETED")

Starts munged, slurmctld, and slurmd in a folder, at free ports, with a private configuration. They
always end with the test: the kernel signals each of them when this process exits. Needs root:
slurmd starts jobs as the submitting user.
"""
import ctypes
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel"]
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
LIMIT_S = 120 # until a daemon answers


def need_slurm():
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)}")
        sys.exit(77)
    if os.geteuid() != 0:
        print("skipped: slurmd needs root")
        sys.exit(77)


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def die_with_parent():
    """PR_SET_PDEATHSIG, between fork and exec."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    def __init__(self, folder, tasks=4, nodes=1):
        """tasks: per node. The nodes are daemons on this machine."""
        self.folder, self.tasks, self.daemons = pathlib.Path(folder), tasks, []
        self.lost = [] # daemons that kill_node killed
        self.nodes = [f"node{number}" for number in range(nodes)]
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        for name in list(self.environment):
            if name.startswith(("SLURM_", "SBATCH_", "OMPI_", "PMI")) and name != "SLURM_CONF":
                del self.environment[name]

    def __enter__(self):
        try:
            self.start()
        except RuntimeError as error: # containers without a tree of cgroups, say
            self.__exit__()
            print(f"skipped: Slurm does not start here: {error}")
            sys.exit(77)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if len(self.daemons) == 2 + len(self.nodes): # steps' own daemons, which outlive slurmd
            subprocess.run(["scancel", "--full", "--user=root"], env=self.environment, check=False, timeout=150,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.until(lambda: not self.queue(), "jobs that end", must=False)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(100)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)

    def left(self):
        """Processes of this cluster: they have its configuration in their environment."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                pass
        return found

    def start(self):
        self.write_configuration()
        socket_path = self.folder / "munge.socket"
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        self.daemon("munged", "--foreground", "--force", f"--socket={socket_path}", f"--key-file={key}",
                    f"--log-file={self.folder}/munged.log", f"--pid-file={self.folder}/munged.pid",
                    f"--seed-file={self.folder}/munged.seed")
        self.until(socket_path.exists, "munged")
        self.daemon("slurmctld", "-D", "-i")
        for node in self.nodes:
            self.daemon("slurmd", "-D", "-N", node)
        self.until(lambda: self.try_run("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(self.nodes), "idle nodes")

    def write_configuration(self):
        control_port, *node_ports = free_ports(1 + len(self.nodes))
        for name in ["state", *(f"spool-{node}" for node in self.nodes)]:
            (self.folder / name).mkdir()
        nodes = "\n".join(f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} "
                          f"CPUs={self.tasks} State=UNKNOWN" for node, port in zip(self.nodes, node_ports))
        (self.folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmctldPort={control_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,requeue_delay=1
KillWait=20
OverTimeLimit=0
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=all Nodes={','.join(self.nodes)} Default=YES State=UP
""")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def daemon(self, *words):
        log = open(self.folder / f"{words[0]}-{len(self.daemons)}.out", "wb")
        self.daemons.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=subprocess.STDOUT, preexec_fn=die_with_parent))
        log.close()

    def kill_node(self, node):
        """Kill slurmd, and tell Slurm at once. The node's jobs are requeued, and their processes run
        on."""
        daemon = self.daemons[2 + self.nodes.index(node)]
        daemon.kill()
        daemon.wait()
        self.lost.append(daemon)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def until(self, true, what, limit_s=LIMIT_S, must=True):
        end = time.monotonic() + limit_s
        while not true():
            if must:
                for daemon in self.daemons:
                    if daemon.poll() is not None and daemon not in self.lost:
                        raise RuntimeError(f"{daemon.args[0]} has ended: {self.logs()}")
            if time.monotonic() > end:
                if must:
                    raise RuntimeError(f"no {what} within {limit_s} s: {self.logs()}")
                return
            time.sleep(0.05)

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted([*self.folder.glob("*.out"), *self.folder.glob("*.log")]))

    def try_run(self, *words):
        return subprocess.run(words, env=self.environment, check=False, encoding="utf-8", stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=300).stdout

    def run(self, *words):
        done = subprocess.run([str(word) for word in words], env=self.environment, check=False, encoding="utf-8",
                              capture_output=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def queue(self):
        return self.try_run("squeue", "-h", "-o", "%i %T").strip()

    def job(self, job):
        """Fields of a job, as scontrol shows them."""
        return dict(word.split("=", 1) for word in self.try_run("scontrol", "-o", "show", "job", job).split()
                    if "=" in word)
