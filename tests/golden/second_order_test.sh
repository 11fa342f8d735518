#!/bin/sh
# Two implementations of the order, one in C and one in Python from LOADER.md, must agree.
# Usage: second_order_test.sh DUMP_ORDER   (a program of the test build)
# shellcheck source=tests/golden/golden_kit.sh
. "$(dirname "$0")/golden_kit.sh"
find_python 'xxhash'

"$1" >"$work/c.txt"
"$python" "$here/spsh_order.py" <"$work/c.txt" >"$work/python.txt"
same "$work/c.txt" "$work/python.txt"
echo "$(grep -c '^epoch' "$work/c.txt") batches, the same"
