#!/bin/sh
# Installs Python packages that Debian 12 lacks, each set into a virtual environment below build/.
#
#     tools/install-python.sh SET...
#
#     pyarrow       and numpy: for speechshard.parquet, the notebook, and their tests
#     kubernetes    models of Kubernetes' objects, for the tests of tools/launch
#     frameworks    PyTorch, torchdata, Hugging Face datasets and transformers, and Lhotse, for
#                   nightly tests (6 GB)
#
# Does nothing if a set is there already. Without a network it prints a message and exits with 0: the
# tests that need the set are skipped.
set -eu
cd "$(dirname "$0")/.."

install() { # install SET IMPORT PACKAGE...
    folder=build/$1
    check="import $2"
    shift 2
    "$folder/bin/python" -c "$check" 2>/dev/null && return 0
    mkdir -p "$folder"
    if python3 -m venv "$folder"; then
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
            --timeout 20 --retries 1 "$@" || true
    fi
    if "$folder/bin/python" -c "$check" 2>/dev/null; then
        echo "Installed $* in $folder"
    else
        echo "install-python.sh: cannot install $*; the tests that need it are skipped" >&2
    fi
}

for name; do
    case $name in
    pyarrow) install pyarrow pyarrow.parquet,numpy 'pyarrow>=14' numpy ;;
    kubernetes)
        install kubernetes kubernetes.client,kubeflow.training.models 'kubernetes>=31' 'kubeflow-training>=1.9'
        ;;
    frameworks)
        install frameworks torch,torchdata.stateful_dataloader,datasets,transformers,accelerate,lhotse 'torch>=2.6' \
            'torchdata>=0.11' 'datasets>=4' 'transformers>=5' 'accelerate>=1' 'lhotse>=1.30' numpy
        ;;
    *) echo "install-python.sh: no set $name: pyarrow kubernetes frameworks" >&2 && exit 2 ;;
    esac
done
