#!/bin/sh
# parquet_test.sh PYTHON: test_parquet.py, by an interpreter that has pyarrow: the one that
# tools/install-pyarrow.sh has made, else PYTHON. The package is for any version from 3.9.
set -eu
source=${SPEECHSHARD_SOURCE_DIR:?}
python=$source/build/pyarrow/bin/python
[ -x "$python" ] || python=$1
exec "$python" "$source/tests/python/test_parquet.py"
