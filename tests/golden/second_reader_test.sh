#!/bin/sh
# Two readers of the format, one in C and one in Python, must print the same contents of a dataset.
# Usage: second_reader_test.sh DUMP_DATASET MAKE_DATASET   (programs of the test build)
# shellcheck source=tests/golden/golden_kit.sh
. "$(dirname "$0")/golden_kit.sh"
find_python 'lz4.block, xxhash'

"$1" make "$work/tiny.spsh"
"$2" "$work/made.spsh" "$work/expected"
for dataset in tiny made; do
    "$1" "$work/$dataset.spsh" >"$work/c.txt"
    "$python" "$here/spsh_reader.py" "$work/$dataset.spsh" >"$work/python.txt"
    same "$work/c.txt" "$work/python.txt"
    echo "$dataset: $(wc -l <"$work/c.txt") utterances, the same"
done
"$python" "$here/spsh_reader.py" "$here/000007-002.spsh"

# The Python reader must also find damage: one bit in the padding of a shard's last block.
cp "$here/000007-002.spsh" "$work/000007-002.spsh"
printf '\001' | dd of="$work/000007-002.spsh" bs=1 seek=12287 conv=notrunc 2>/dev/null
if "$python" "$here/spsh_reader.py" "$work/000007-002.spsh" 2>"$work/message"; then
    echo "damage was not found"
    exit 1
fi
cat "$work/message"
