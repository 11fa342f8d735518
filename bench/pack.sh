#!/bin/bash
# How fast is `speechshard pack` beside `tar` of the same tree, and beside a bare decode of the same files? How much
# memory does it take?
#
#     bench/pack.sh BUILD CORPUS SCRATCH [COPIES [ROUNDS]] > bench/results/pack.json
#
# BUILD is a release build with the benchmarks; CORPUS a folder of audio; SCRATCH a folder on the disk to be measured. The
# corpus is copied COPIES times (8) below SCRATCH, so that the run is long enough; the page cache is warm. The commands run in turn,
# ROUNDS times (5). `tar` alone leaves its file in the page cache; `tar+sync` and pack leave it on the disk.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
copies=${4:-8}
rounds=${5:-5}
speechshard=$build/tools/speechshard
work=$(mktemp -d "$scratch/bench-pack-XXXXXX")
trap 'rm -rf "$work"' EXIT

for copy in $(seq "$copies"); do
    mkdir -p "$work/tree/copy-$copy"
    cp -r "$corpus/." "$work/tree/copy-$copy"
done
sync
bytes=$(du -sb "$work/tree" | cut -f1)
files=$(find "$work/tree" -type f | wc -l)

# timed NAME COMMAND...: wall seconds, CPU seconds and peak KiB, appended to the table NAME.
timed() {
    local name=$1
    shift
    rm -rf "$work/out" "$work/out.tar"
    sync
    /usr/bin/time -f '%e %U %S %M' -o "$work/time" "$@" >/dev/null 2>"$work/log" || {
        cat "$work/log" >&2
        exit 1
    }
    cat "$work/time" >>"$work/$name"
}

pack() { # pack NAME OPTIONS...
    local name=$1
    shift
    timed "$name" "$speechshard" pack "$work/tree" --layout folder -o "$work/out" --quiet "$@"
}

find "$work/tree" -type f -print0 | xargs -0 cat >/dev/null
for _ in $(seq "$rounds"); do
    timed tar tar cf "$work/out.tar" -C "$work/tree" .
    timed tar_sync sh -c "tar cf '$work/out.tar' -C '$work/tree' . && sync '$work/out.tar'"
    pack trust_headers --trust-headers --dedupe none
    pack decode --dedupe none
    pack decode_dedupe --dedupe pcm
    pack codec_pcm --codec pcm --dedupe none
    pack codec_flac --codec flac --dedupe none
done

median() { # median COLUMN FILE
    awk -v c="$1" '{print $c}' "$2" | sort -n | awk '{v[NR]=$1} END {print (NR % 2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'
}
range() { awk -v c="$1" '{print $c}' "$2" | sort -n | sed -n '1p;$p' | paste -sd, -; }

echo "{"
echo "  \"machine\": \"$(uname -m), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)\","
echo "  \"command\": \"bench/pack.sh BUILD CORPUS SCRATCH $copies $rounds\","
echo "  \"files\": $files, \"bytes\": $bytes,"
for name in tar tar_sync trust_headers decode decode_dedupe codec_pcm codec_flac; do
    printf '  "%s": {"wall_s": %s, "wall_s_range": [%s], "user_s": %s, "sys_s": %s, "peak_kib": %s, "mb_per_s": %s}' \
        "$name" "$(median 1 "$work/$name")" "$(range 1 "$work/$name")" "$(median 2 "$work/$name")" \
        "$(median 3 "$work/$name")" "$(median 4 "$work/$name")" \
        "$(awk -v b="$bytes" -v t="$(median 1 "$work/$name")" 'BEGIN {printf "%.1f", b / 1e6 / t}')"
    [ "$name" = codec_flac ] && echo || echo ,
done
echo "}"
