#!/bin/sh
# Segments must equal those that a second implementation (spsh_segment.py, from FORMAT.md and
# docs/reference/FINGERPRINT.md) computes from the same records.
# Usage: segment_test.sh SPEECHSHARD MAKE_CLIP
# shellcheck source=tests/golden/golden_kit.sh
. "$(dirname "$0")/golden_kit.sh"
find_python 'numpy, lz4.block, xxhash'

mkdir "$work/corpus"
n=0
for shape in "2.0 8000 1" "1.5 16000 2" "1.0 44100 1" "0.9 22050 3" "3.0 16000 1" "0.01 8000 1" "1 4000 2" "0.7 48000 6"; do
    n=$((n + 1))
    # shellcheck disable=SC2086 # three words
    "$2" "$work/corpus/clip$n.wav" $shape $n
done
cp "$work/corpus/clip1.wav" "$work/corpus/copy.wav"
printf 'path\tstart\tend\tid\n' >"$work/corpus/corpus.tsv"
for n in 1 2 3 4 5 6 7 8; do
    printf 'clip%d.wav\t\t\twhole%d\n' $n $n
done >>"$work/corpus/corpus.tsv"
printf 'copy.wav\t\t\tcopy\nclip5.wav\t0.5\t2.5\tpart\nclip5.wav\t0.5\t2.5\tpart-again\n' >>"$work/corpus/corpus.tsv"
"$1" pack "$work/corpus" -o "$work/d.spsh" --shard-size 128K --quiet >/dev/null
"$1" fingerprint "$work/d.spsh" --quiet
"$python" -B "$here/spsh_segment.py" "$work/d.spsh"
