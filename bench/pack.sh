#!/bin/bash
# How fast is `speechshard pack`, compared with `tar` of the same tree and with a bare decode of the
# same files? How much memory does it take?
#
#     bench/pack.sh BUILD CORPUS SCRATCH [COPIES [ROUNDS]] > bench/results/pack.json
#
# BUILD is a release build with the benchmarks; CORPUS a folder of audio; SCRATCH a folder on the
# disk to be measured. The corpus is copied COPIES times (8) below SCRATCH, so that the run is long
# enough; the page cache is warm. The commands run in turn, ROUNDS times (5). Plain `tar` leaves its
# file in the page cache; `tar+sync` and pack leave it on the disk.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
copies=${4:-8}
rounds=${5:-5}
speechshard=$build/tools/speechshard
work=$(mktemp -d "$scratch/bench-pack-XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck source=bench/kit.sh
. "$(dirname "$0")/kit.sh"

copy_corpus "$corpus" "$copies"
sync
bytes=$(du -sb "$work/tree" | cut -f1)
files=$(find "$work/tree" -type f | wc -l)

pack() { # pack NAME OPTIONS...
    local name=$1
    shift
    timed "$name" "$speechshard" pack "$work/tree" --layout folder -o "$work/out/spsh" --quiet "$@"
}

find "$work/tree" -type f -print0 | xargs -0 cat >/dev/null
for _ in $(seq "$rounds"); do
    timed tar tar cf "$work/out/tar" -C "$work/tree" .
    timed tar_sync sh -c "tar cf '$work/out/tar' -C '$work/tree' . && sync '$work/out/tar'"
    pack trust_headers --trust-headers --dedupe none
    pack decode --dedupe none
    pack decode_dedupe --dedupe pcm
    pack codec_pcm --codec pcm --dedupe none
    pack codec_flac --codec flac --dedupe none
done

report "bench/pack.sh BUILD CORPUS SCRATCH $copies $rounds" "\"files\": $files" "$bytes" \
    tar tar_sync trust_headers decode decode_dedupe codec_pcm codec_flac
