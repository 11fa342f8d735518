#!/bin/sh
# Installs the Python clients of Kubernetes and of Kubeflow's training operator, whose models of Job,
# Service and PyTorchJob tools/launch's files are checked against.
#
#     tools/install-kubernetes.sh [DIRECTORY]       (nothing given: build/kubernetes, where the test looks)
#
# Does nothing when they are there already. Without a network it says so and exits with 0: the checks
# that need them are left out.
set -eu
[ $# -gt 0 ] || cd "$(dirname "$0")/.."
folder=${1:-build/kubernetes}

has_models() {
    PYTHONPATH=$folder python3 -c 'import kubernetes.client, kubeflow.training.models' 2>/dev/null
}

has_models && exit 0
mkdir -p "$folder"
python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: --timeout 20 --retries 1 \
    --upgrade --target "$folder" 'kubernetes>=31' || true
python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: --timeout 20 --retries 1 \
    --no-deps --upgrade --target "$folder" 'kubeflow-training>=1.9' || true
if has_models; then
    echo "Installed models of Kubernetes in $folder"
else
    echo "install-kubernetes.sh: no models of Kubernetes; tools/launch's files are not checked against them" >&2
fi
