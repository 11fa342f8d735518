#!/bin/bash
# How fast is `speechshard pack --trust-headers` of an archive compared with `tar xf` of the same
# archive?
#
#     bench/archive.sh BUILD CORPUS SCRATCH [COPIES [ROUNDS]] > bench/results/archive.json
#
# BUILD is a release build; CORPUS a folder of audio; SCRATCH a folder in memory, such as /dev/shm,
# to which both write. The corpus is copied COPIES times (6) into a plain tar and a tar.gz, which
# are also read from memory. The commands run in turn, ROUNDS times (5). The files that `tar`
# unpacks must still be packed; pack leaves a dataset with every hash of the format in it.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
copies=${4:-6}
rounds=${5:-5}
speechshard=$build/tools/speechshard
work=$(mktemp -d "$scratch/bench-archive-XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck source=bench/kit.sh
. "$(dirname "$0")/kit.sh"

copy_corpus "$corpus" "$copies"
files=$(find "$work/tree" -type f | wc -l)
bytes=$(du -sb "$work/tree" | cut -f1)
tar -C "$work/tree" -cf "$work/corpus.tar" .
gzip -1 -k "$work/corpus.tar"
rm -rf "$work/tree"

pack() { # pack NAME ARCHIVE
    timed "$1" "$speechshard" pack "$2" --layout folder -o "$work/out/spsh" --quiet --trust-headers --dedupe none
}

for _ in $(seq "$rounds"); do
    timed tar tar -C "$work/out" -xf "$work/corpus.tar"
    pack pack "$work/corpus.tar"
    timed tar_gz tar -C "$work/out" -xzf "$work/corpus.tar.gz"
    pack pack_gz "$work/corpus.tar.gz"
done

report "bench/archive.sh BUILD CORPUS SCRATCH $copies $rounds" "\"files\": $files" "$bytes" \
    tar pack tar_gz pack_gz
