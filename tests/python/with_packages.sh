#!/bin/sh
# with_packages.sh SET PYTHON TEST: run a test with the interpreter that tools/install-python.sh
# made for SET, or else with PYTHON. The package works with any CPython from 3.9.
set -eu
source=${SPEECHSHARD_SOURCE_DIR:?}
python=$source/build/$1/bin/python
[ -x "$python" ] || python=$2
exec "$python" "$3"
