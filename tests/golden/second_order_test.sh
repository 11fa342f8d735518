#!/bin/sh
# Two implementations of the order, one in C and one in Python from docs/LOADER.md, must agree.
# Usage: second_order_test.sh DUMP_ORDER   (a program of the test build)
set -eu
here=$(dirname "$0")
python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import xxhash' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "python3 with xxhash is missing"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" >"$work/c.txt"
"$python" "$here/spsh_order.py" <"$work/c.txt" >"$work/python.txt"
diff "$work/c.txt" "$work/python.txt" | cut -c 1-300 | head -n 20
cmp "$work/c.txt" "$work/python.txt"
echo "$(grep -c '^epoch' "$work/c.txt") batches, the same"
