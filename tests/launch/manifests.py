"""manifests.py: the keys that Kubernetes and Kubeflow allow in a manifest.

    for document in load(path):
        errors = validate(document)       # None: no schema of this kind is available

Uses the available ones of two sources: the models in the Python clients (tools/install-python.sh
kubernetes), and the operators' own definitions, as files `kubeflow.org_mpijobs.yaml`
(manifests/base of kubeflow/mpi-operator) and `kubeflow.org_pytorchjobs.yaml` (manifests/base/crds
of kubeflow/training-operator, release 1.9) in the folder `kubernetes` of $SPEECHSHARD_TEST_DATA,
else of ../shared/data. Both reject an unknown key, which an API server would silently drop.
"""
import functools
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("SPEECHSHARD_TEST_DATA", SOURCE.parent / "shared" / "data")) / "kubernetes"
DEFINITIONS = {"MPIJob": "kubeflow.org_mpijobs.yaml", "PyTorchJob": "kubeflow.org_pytorchjobs.yaml"}

try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)
try:
    import jsonschema
except ImportError:
    jsonschema = None
sys.path[:0] = map(str, (SOURCE / "build" / "kubernetes").glob("lib/python*/site-packages"))
try:
    import kubernetes.client
    import kubeflow.training.models
except ImportError:
    kubernetes = None

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": (str, int)}


def load(path):
    return list(yaml.safe_load_all(path.read_text()))


def model(name):
    return getattr(kubernetes.client, name, None) or getattr(kubeflow.training.models, name, None)


def check_model(value, kind, path):
    """Return errors about keys, types, and missing fields."""
    inner = re.fullmatch(r"(list|dict)[\[(](?:str, ?)?(.*)[\])]", kind, re.IGNORECASE)
    if inner is not None:
        is_list = inner[1].lower() == "list"
        if not isinstance(value, list if is_list else dict):
            return [f"{path}: {value!r} is no {inner[1]}"]
        items = enumerate(value) if is_list else value.items()
        return [error for key, item in items for error in check_model(item, inner[2], f"{path}.{key}")]
    if kind in PLAIN:
        good = isinstance(value, PLAIN[kind]) and (kind in ("bool", "object") or not isinstance(value, bool))
        return [] if good else [f"{path}: {value!r} is no {kind}"]
    which = model(kind)
    if which is None or not isinstance(value, dict):
        return [f"{path}: {value!r} is no {kind}"]
    names = {key: name for name, key in which.attribute_map.items()}
    errors = [f"{path}.{key} is none of {kind}'s" for key in value if key not in names]
    for key in value.keys() & names.keys():
        errors += check_model(value[key], which.openapi_types[names[key]], f"{path}.{key}")
    try:
        which(**{names[key]: item for key, item in value.items() if key in names})
    except ValueError as error:
        errors.append(f"{path}: {error}")
    return errors


def closed(schema):
    """Return the schema in a form that rejects unknown keys."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(item) for key, item in schema.items()}
    if isinstance(schema.get("properties"), dict) and "x-kubernetes-preserve-unknown-fields" not in schema:
        result.setdefault("additionalProperties", False)
    return result


@functools.lru_cache(None)
def validator(kind, version):
    """The definition of the kind, read once."""
    path = DATA / DEFINITIONS.get(kind, "")
    if jsonschema is None or not path.is_file():
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for found in yaml.load(path.read_text(), loader)["spec"]["versions"]:
        if version == f"kubeflow.org/{found['name']}":
            schema = closed(found["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            return jsonschema.Draft7Validator(schema)
    return jsonschema.Draft7Validator({"not": {}}) # no such version


def validate(document):
    """Errors of all sources that know the kind."""
    kinds = {("v1", "Service"): "V1Service", ("batch/v1", "Job"): "V1Job",
             ("kubeflow.org/v1", "PyTorchJob"): "KubeflowOrgV1PyTorchJob"}
    errors = None
    kind = kinds.get((document["apiVersion"], document["kind"]))
    if kubernetes is not None and kind is not None:
        errors = check_model(document, kind, document["kind"])
    by_definition = validator(document["kind"], document["apiVersion"])
    if by_definition is not None:
        errors = (errors or []) + ["/".join(map(str, error.absolute_path)) + ": " + error.message
                                   for error in by_definition.iter_errors(document)]
    return errors
