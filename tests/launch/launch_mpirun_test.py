"""tools/launch/mpirun.sh on two hosts, which are network namespaces. A host that fails, a host that
comes back, and a stopped run, with other numbers of processes, must serve each utterance once and
end with the bits of an undisturbed run.

    launch_mpirun_test.py TRAIN_RANK SPEECHSHARD here|hosts|cable

here: only on this machine, without root.
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from hosts_kit import Hosts, need_namespaces
from launch_kit import LAUNCH, WORDS, Kit, check, equal, run_tests
from mpi_kit import environment, need_mpirun

PROGRAM, COMMAND, WHICH = sys.argv[1:4]
SLOW = "slow:0:1" # rank 0 sleeps a while at each batch


def here(run, *words, faults=(SLOW,), command=None, **more):
    """Not mpi_kit's `isolated` launcher, which knows no --host."""
    variables = {**{name: value for name, value in environment.items() if name != "OMPI_MCA_plm"},
                 "SPEECHSHARD": command or kit.rank(run, *faults), **more}
    return kit.popen(LAUNCH / "mpirun.sh", kit.config, base / run, *WORDS, *words, **variables)


def told(name, process, count):
    """Wait until so many more utterances have been served."""
    before = sum(kit.served(name).values())
    kit.until(lambda: sum(kit.served(name).values()) > before + count, "utterances", process)


def test_stopped_and_other_numbers():
    for count, number in [(2, signal.SIGTERM), (3, signal.SIGUSR1), (1, None)]:
        process = here("some", PROCESSES=count)
        if number is not None:
            told("some", process, 20)
            process.send_signal(number)
        equal(kit.end(process), 75 if number is not None else 0, f"{count} processes: {kit.said(process)}")
    kit.check_served_once("some", 2)
    equal(kit.hash("some"), whole, "weights")


def test_killed():
    process = here("killed", "train.checkpoint_every_s=1e-9", PROCESSES=2)
    for _ in range(2):
        told("killed", process, 30)
        os.kill(max(kit.ranks()), signal.SIGKILL)
    equal(kit.end(process), 0, f"{kit.said(process)}")
    equal(kit.said(process).count("starting again"), 2, f"starts: {kit.said(process)}")
    equal(kit.hash("killed"), whole, "weights")


def test_errors_end_it():
    process = here("wrong", "model.hidden=0", PROCESSES=2, command=COMMAND)
    equal(kit.end(process), 1, "exit")
    check("starting again" not in kit.said(process) and "model.hidden" in kit.said(process), f"{kit.said(process)}")
    process = here("lost", PROCESSES=2, command="/bin/false", STARTS=3)
    equal(kit.end(process), 1, f"exit: {kit.said(process)}")


# ---- hosts

def on_hosts(run, hosts, *words, **more):
    network = "--mca btl self,vader,tcp --mca btl_tcp_if_include 10.201.7.0/24 --mca oob_tcp_if_include 10.201.7.0/24"
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1, "REMOTE_SHELL": hosts.remote_shell,
                 "MPI_OPTIONS": network, "SPEECHSHARD": kit.rank(run, SLOW), **more}
    return kit.popen(*hosts.at_switch(LAUNCH / "mpirun.sh", kit.config, base / run, *WORDS, *words), **variables)


def test_a_host_is_lost_and_comes_back():
    with Hosts(base) as hosts:
        slots = ",".join(f"{address}:2" for address in hosts.addresses)
        process = on_hosts("two", hosts, "train.checkpoint_every_s=1e-9", HOSTS=slots)
        told("two", process, 30)
        check(len(kit.ranks()) == 4 and len(hosts.pids(hosts.names[1])) >= 2, f"ranks {kit.ranks()}")
        hosts.fail(1)
        told("two", process, 30)
        check("is left out" in kit.said(process) and len(kit.ranks()) == 2, f"went on: {kit.said(process)}")
        hosts.mend(1)
        process.send_signal(signal.SIGUSR2)
        told("two", process, 30)
        equal(len(kit.ranks()), 4, "ranks of both hosts")
        equal(kit.end(process), 0, f"{kit.said(process)}")
        equal(kit.hash("two"), whole, "weights")


def test_a_cable_is_cut():
    with Hosts(base) as hosts:
        slots = ",".join(f"{address}:1" for address in hosts.addresses)
        process = on_hosts("cut", hosts, "train.checkpoint_every_s=1e-9", "train.deadline_ms=30000", HOSTS=slots, WATCH=1)
        told("cut", process, 30)
        hosts.silence(1)
        equal(kit.end(process), 0, f"{kit.said(process)}")
        check("is left out" in kit.said(process), f"{kit.said(process)}")
        equal(kit.hash("cut"), whole, "weights")


def test_hosts_change():
    """Asked to, with a file of hosts that changes: each utterance is served once."""
    with Hosts(base) as hosts:
        hostfile = base / "hosts"
        hostfile.write_text(f"# one host\n{hosts.addresses[0]} slots=3\n")
        process = on_hosts("changes", hosts, HOSTFILE=hostfile)
        for lines, count in [(f"{hosts.addresses[0]} slots=2\n{hosts.addresses[1]}\tslots = 2 \n", 4),
                             (f"{hosts.addresses[1]}\n", 1)]:
            told("changes", process, 20)
            hostfile.write_text(lines)
            process.send_signal(signal.SIGUSR2)
            kit.until(lambda: len(kit.ranks()) == count, f"{count} ranks", process)
        equal(kit.end(process), 0, f"{kit.said(process)}")
        kit.check_served_once("changes", 2)
        equal(kit.hash("changes"), whole, "weights")


need_mpirun()
if WHICH != "here":
    need_namespaces()
base = pathlib.Path(tempfile.mkdtemp(prefix="mpirun-"))
kit = None
try:
    kit = Kit(base, PROGRAM)
    whole = kit.whole()
    run_tests(*{"here": [test_stopped_and_other_numbers, test_killed, test_errors_end_it],
                "hosts": [test_a_host_is_lost_and_comes_back, test_hosts_change],
                "cable": [test_a_cable_is_cut]}[WHICH])
finally:
    if kit is not None:
        kit.kill_all()
    shutil.rmtree(base, ignore_errors=True)
