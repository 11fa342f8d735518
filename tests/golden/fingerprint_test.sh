#!/bin/sh
# The fingerprints of generated signals are those of fingerprint.txt, and those that a second
# implementation (spsh_fingerprint.py, from docs/FINGERPRINT.md) finds for the same samples.
# Usage: fingerprint_test.sh DUMP_FINGERPRINT   (a program of the test build)
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" >"$work/c.txt"
diff "$here/fingerprint.txt" "$work/c.txt" | head -n 20
cmp "$here/fingerprint.txt" "$work/c.txt"

python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "python3 with numpy is missing"
    exit 77
fi
"$1" --samples | "$python" "$here/spsh_fingerprint.py" >"$work/python.txt"
diff "$work/c.txt" "$work/python.txt" | head -n 20
cmp "$work/c.txt" "$work/python.txt"
echo "$(grep -c '^w' "$work/c.txt") frames, $(grep -c '^k' "$work/c.txt") keys, the same"
