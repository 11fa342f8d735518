#!/bin/sh
# Installs pyarrow, which Debian 12 does not have, for what reads parquet files: speechshard.parquet and
# its tests. It goes into a virtual environment.
#
#     tools/install-pyarrow.sh [DIRECTORY]          (nothing given: build/pyarrow, where the tests look)
#
# Does nothing when it is there already. Without a network it says so and exits with 0: the tests that
# need it are skipped.
set -eu
[ $# -gt 0 ] || cd "$(dirname "$0")/.."
folder=${1:-build/pyarrow}

has_pyarrow() {
    "$folder/bin/python" -c 'import pyarrow.parquet' 2>/dev/null
}

has_pyarrow && exit 0
mkdir -p "$folder"
if python3 -m venv "$folder"; then
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        --timeout 20 --retries 1 'pyarrow>=14' || true
fi
if has_pyarrow; then
    echo "Installed pyarrow in $folder"
else
    echo "install-pyarrow.sh: pyarrow could not be installed; what reads parquet files is not tested" >&2
fi
