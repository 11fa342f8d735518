"""tools/launch's files for Kubernetes. The schema of each kind must contain every key. The commands
of the containers, with the variables that controllers set, must train. Processes that are killed or
signaled restart as the file states, and end with the bits of an undisturbed run.

    launch_kubernetes_test.py TRAIN_RANK SPEECHSHARD

No cluster: this program does what a controller does with a pod that has ended.
"""
import copy
import os
import pathlib
import shutil
import signal
import socket
import sys
import tempfile

from launch_kit import LAUNCH, WORDS, Kit, check, equal, run_tests
from manifests import load, validate
from mpi_kit import Torchrun, environment

PROGRAM, COMMAND = sys.argv[1:3]
SLOW = "slow:0:1" # rank 0 sleeps a while at each batch
FILES = ["indexed-job.yaml", "mpijob.yaml", "pack-kubernetes.yaml", "pytorchjob.yaml"]


def mutated(node, path=()):
    """The path of each key, to misspell it; without the keys of free maps."""
    free = ("env", "requests", "limits", "selector", "mpiReplicaSpecs", "pytorchReplicaSpecs", "metadata")
    if isinstance(node, dict):
        for key in node:
            if not path or path[-1] not in free:
                yield (*path, key)
            yield from mutated(node[key], (*path, key))
    elif isinstance(node, list):
        for i, item in enumerate(node):
            yield from mutated(item, (*path, i))


def misspelt(document, path):
    result = copy.deepcopy(document)
    node = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1] + "x"] = node.pop(path[-1])
    return result


def test_kinds_know_every_key():
    for name in FILES:
        for document in load(LAUNCH / name):
            errors = validate(document)
            if errors is None:
                print(f"left out: {document['kind']}: nothing is at hand that knows it (manifests.py says where from)")
                continue
            equal(errors, [], f"{name}, {document['kind']}")
            paths = [path for path in mutated(document) if path[0] not in ("apiVersion", "kind")]
            check(len(paths) > 3, f"{name}: {paths}")
            for path in paths:
                check(validate(misspelt(document, path)), f"{name}: {path} is misspelt, and nobody minds")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def container(template):
    pod = template["spec"]
    equal(len(pod["containers"]), 1, "containers")
    claims = {volume["name"] for volume in pod["volumes"]}
    check(all(mount["name"] in claims for mount in pod["containers"][0]["volumeMounts"]), f"volumes {claims}")
    return pod["containers"][0]


def command(words, run, program, more=()):
    """Arguments with the paths of this test and settings for a small run. The rank's script depends
    on their order."""
    words = [word.replace("/data/corpus.yaml", str(kit.config)).replace("/data/run", str(base / run)) for word in words]
    words = [word for word in words if not word.startswith("data.virtual_world")]
    if "speechshard" in words:
        at = words.index("speechshard")
        equal(words[at + 1:at + 5],
              ["train", str(kit.config), f"--output={base / run}", "--resume=auto"], "the command")
        words[at:at + 5] = [str(program), "train", str(kit.config), "-o", str(base / run), "--resume", "auto"]
    return [*words, *WORDS, *more]


def test_indexed_job():
    """One process is killed and one is terminated by a signal, in the middle of an epoch."""
    service, job = load(LAUNCH / "indexed-job.yaml")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    train = container(job["spec"]["template"])
    variables = {item["name"]: item["value"] for item in train["env"]}
    name, count = job["metadata"]["name"], spec["completions"]
    equal((spec["completionMode"], spec["parallelism"], variables["WORLD_SIZE"]), ("Indexed", count, str(count)), "sizes")
    equal((service["spec"]["selector"], pod["subdomain"], variables["MASTER_ADDR"]),
          ({"batch.kubernetes.io/job-name": name}, service["metadata"]["name"], f"{name}-0.{service['metadata']['name']}"),
          "names")
    variables.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    words = command(train["command"], "job", kit.rank("job", SLOW), ["train.checkpoint_every_s=1e-9"])

    def action(code):
        for rule in spec["podFailurePolicy"]["rules"]:
            of_codes = rule.get("onExitCodes")
            if of_codes is not None and of_codes["containerName"] == train["name"] and code in of_codes["values"]:
                return rule["action"]
        return "Count"

    def start(index):
        return kit.popen(*words, **variables, JOB_COMPLETION_INDEX=index)

    pods = {index: start(index) for index in range(count)}
    seen = []
    for fault in [lambda: pods[1].kill(), lambda: pods[2].terminate(), None]:
        if fault is not None:
            before = sum(kit.served("job").values())
            kit.until(lambda: sum(kit.served("job").values()) > before + 20, "utterances", pods[0])
            fault()
        for index, pod in pods.items():
            code = kit.end(pod)
            seen.append(code)
            if code == 0 and fault is None:
                continue
            check(action(code % 256) in ("Ignore", "Count") and code != 0, f"{index}: exit {code}: {kit.said(pod)}")
            pods[index] = start(index)
    equal(sorted(seen[:4]), [-signal.SIGKILL, 70, 70, 70], "exits behind the kill")
    equal(seen[4:8], [75] * 4, "exits behind TERM")
    equal(seen[8:], [0] * 4, f"the last exits: {[kit.said(pod) for pod in pods.values()]}")
    equal([action(code) for code in (1, 2, 70, 75, 137)],
          ["FailJob", "FailJob", "Ignore", "Ignore", "Count"], "actions")
    equal(kit.hash("job"), whole, "weights")


def test_mpijob():
    (job,) = load(LAUNCH / "mpijob.yaml")
    replicas = job["spec"]["mpiReplicaSpecs"]
    launcher = container(replicas["Launcher"]["template"])
    container(replicas["Worker"]["template"])
    check(replicas["Launcher"]["restartPolicy"] == "OnFailure", "restarts")
    if shutil.which("mpirun") is None:
        print("left out: the launcher: no mpirun")
        return
    variables = {item["name"]: item["value"] for item in launcher["env"]}
    equal(variables["HOSTFILE"], "/etc/mpi/hostfile", "the operator's file")
    hostfile = base / "hostfile"
    hostfile.write_text(f"localhost slots={job['spec']['slotsPerWorker']}\n")
    variables.update(HOSTFILE=hostfile, SPEECHSHARD=kit.rank("mpijob", SLOW),
                     MPI_OPTIONS=variables["MPI_OPTIONS"].replace("/data", str(base)))
    common = {name: value for name, value in environment.items() if name.startswith("OMPI_") and name != "OMPI_MCA_plm"}
    equal(launcher["command"][0], "mpirun.sh", "the launcher")
    words = command([str(LAUNCH / "mpirun.sh"), *launcher["command"][1:]], "mpijob", None)
    process = kit.popen(*words, **{**common, **variables})
    kit.until(lambda: sum(kit.served("mpijob").values()) > 20, "utterances", process)
    process.terminate()
    equal(kit.end(process), 75, f"{kit.said(process)}")
    hostfile.write_text("localhost slots=3\n") # one worker fewer
    process = kit.popen(*words, **{**common, **variables})
    equal(kit.end(process), 0, f"{kit.said(process)}")
    kit.check_served_once("mpijob", 2)
    equal(kit.hash("mpijob"), whole, "weights")


def test_pytorchjob():
    """The process that torchrun would start on a worker, with its variables."""
    (job,) = load(LAUNCH / "pytorchjob.yaml")
    train = container(job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"])
    equal((train["name"], train["command"][:2]), ("pytorch", ["torchrun", "--no_python"]), "of torchrun")
    for count, word in [(int(job["spec"]["nprocPerNode"]), "stop:0:4"), (2, "")]:
        words = command(train["command"][2:], "torch", kit.rank("torch", SLOW, *word.split()))
        done = Torchrun(count, *words, restarts=0).end()
        equal(set(done.codes.values()), {75 if word else 0}, f"{count}: {done.output}")
    kit.check_served_once("torch", 2)
    equal(kit.hash("torch"), whole, "weights")


base = pathlib.Path(tempfile.mkdtemp(prefix="kubernetes-"))
kit = None
try:
    kit = Kit(base, PROGRAM)
    whole = kit.whole()
    run_tests(test_kinds_know_every_key, test_indexed_job, test_mpijob, test_pytorchjob)
finally:
    if kit is not None:
        kit.kill_all()
    shutil.rmtree(base, ignore_errors=True)
