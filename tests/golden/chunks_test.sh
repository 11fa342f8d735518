#!/bin/sh
# Canonical digests and chunks of generated signals are those of chunks.txt, and those that a second
# implementation (spsh_chunks.py, from docs/FINGERPRINT.md 5 and 6) finds for the same samples.
# Usage: chunks_test.sh DUMP_CHUNKS   (a program of the test build)
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" >"$work/c.txt"
diff "$here/chunks.txt" "$work/c.txt" | head -n 20
cmp "$here/chunks.txt" "$work/c.txt"

python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import numpy, xxhash' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "python3 with numpy and xxhash is missing"
    exit 77
fi
"$1" --samples | "$python" -W ignore "$here/spsh_chunks.py" >"$work/python.txt"
diff "$work/c.txt" "$work/python.txt" | head -n 20
cmp "$work/c.txt" "$work/python.txt"
echo "$(grep -c '^d' "$work/c.txt") signals, $(grep -c '^c' "$work/c.txt") chunks, the same"
