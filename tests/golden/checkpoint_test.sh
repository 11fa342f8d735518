#!/bin/sh
# Two readers of checkpoints, one in C and one in Python, must print the same contents of a
# checkpoint.
# Usage: checkpoint_test.sh TRAIN_TESTS   (a program of the test build)
# shellcheck source=tests/golden/golden_kit.sh
. "$(dirname "$0")/golden_kit.sh"
find_python 'lz4.block, xxhash'

"$1" golden_train_checkpoint dump "$here/checkpoint.spsh" >"$work/c.txt"
"$python" -B "$here/spsh_checkpoint.py" "$here/checkpoint.spsh" >"$work/python.txt"
same "$work/c.txt" "$work/python.txt"

# The Python reader must also find damage: one bit of the last weight.
cp "$here/checkpoint.spsh" "$work/damaged.spsh"
printf '\377' | dd of="$work/damaged.spsh" bs=1 seek=6000 conv=notrunc 2>/dev/null
if "$python" -B "$here/spsh_checkpoint.py" "$work/damaged.spsh" >"$work/python.txt" 2>"$work/message"; then
    echo "damage was not found"
    exit 1
fi
cat "$work/message"
