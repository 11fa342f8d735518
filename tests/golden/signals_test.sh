#!/bin/sh
# The results for generated signals must equal NAME.txt, and the results of a second implementation
# (spsh_NAME.py, from docs/reference/FINGERPRINT.md) for the same samples.
# Usage: signals_test.sh NAME DUMP_NAME MODULES   (a program of the test build; modules that
#                                                 spsh_NAME.py imports)
# shellcheck source=tests/golden/golden_kit.sh
. "$(dirname "$0")/golden_kit.sh"

"$2" >"$work/c.txt"
same "$here/$1.txt" "$work/c.txt"

find_python "$3"
"$2" --samples | "$python" -W ignore "$here/spsh_$1.py" >"$work/python.txt"
same "$work/c.txt" "$work/python.txt"
echo "$(wc -l <"$work/c.txt") lines, the same"
