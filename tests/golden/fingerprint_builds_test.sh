#!/bin/sh
# Any compiler, optimization, and instruction set must produce the fingerprints of fingerprint.txt.
# Usage: fingerprint_builds_test.sh SOURCE_ROOT
set -eu
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made=0

try() { # try COMPILER FLAG...
    command -v "$1" >/dev/null || return 0
    "$@" -std=c11 -D_GNU_SOURCE -ffp-contract=off -I "$root/shardfmt/include" \
        -I "$root/shardfmt/src" -I "$root/tools" -I "$root/tools/dedup/src" -I "$root/tests/support" \
        "$root"/tools/dedup/src/fingerprint/cosine.c "$root"/tools/dedup/src/fingerprint/fft.c "$root"/tools/dedup/src/fingerprint/fingerprint.c \
        "$root"/tools/common/grow.c "$root"/tools/dedup/src/fingerprint/resample8k.c \
        "$root"/tests/support/print_signals.c \
        "$root"/tests/golden/dump_fingerprint.c "$root"/shardfmt/src/base/base.c \
        -o "$work/dump" -lm 2>"$work/log" || { cat "$work/log"; exit 1; }
    status=0
    "$work/dump" >"$work/out.txt" || status=$?
    if [ "$status" -eq 132 ]; then # this processor lacks the instructions
        echo "not run here: $*"
        return 0
    fi
    cmp "$root/tests/golden/fingerprint.txt" "$work/out.txt" || { echo "with $*"; exit 1; }
    made=$((made + 1))
}
for compiler in gcc clang; do
    try "$compiler" -O0
    try "$compiler" -O2
    try "$compiler" -O3 -funroll-loops
    if [ "$(uname -m)" = x86_64 ]; then
        try "$compiler" -O3 -mavx2 -mfma
        try "$compiler" -O2 -U__SSE2__
    fi
done
[ "$made" -gt 0 ] || exit 77
echo "$made builds, the same"
