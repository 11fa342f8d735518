#!/bin/bash
# How fast is `speechshard pack --trust-headers` of an archive beside `tar xf` of the same archive?
#
#     bench/archive.sh BUILD CORPUS SCRATCH [COPIES [ROUNDS]] > bench/results/archive.json
#
# BUILD is a release build; CORPUS a folder of audio; SCRATCH a folder in memory, such as /dev/shm, to which both write. The corpus
# is copied COPIES times (6) into a plain tar and a tar.gz, which are read from memory as well. The commands run in turn, ROUNDS
# times (5). What `tar` unpacks has still to be packed; pack leaves a dataset with every hash of the format in it.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
copies=${4:-6}
rounds=${5:-5}
speechshard=$build/tools/speechshard
work=$(mktemp -d "$scratch/bench-archive-XXXXXX")
trap 'rm -rf "$work"' EXIT

for copy in $(seq "$copies"); do
    mkdir -p "$work/tree/copy-$copy"
    cp -r "$corpus/." "$work/tree/copy-$copy"
done
files=$(find "$work/tree" -type f | wc -l)
bytes=$(du -sb "$work/tree" | cut -f1)
tar -C "$work/tree" -cf "$work/corpus.tar" .
gzip -1 -k "$work/corpus.tar"
rm -rf "$work/tree"

# timed NAME COMMAND...: wall seconds, CPU seconds and peak KiB, appended to the table NAME.
timed() {
    local name=$1
    shift
    rm -rf "$work/out"
    mkdir "$work/out"
    /usr/bin/time -f '%e %U %S %M' -o "$work/time" "$@" >/dev/null 2>"$work/log" || {
        cat "$work/log" >&2
        exit 1
    }
    cat "$work/time" >>"$work/$name"
}

pack() { # pack NAME ARCHIVE
    timed "$1" "$speechshard" pack "$2" --layout folder -o "$work/out/spsh" --quiet --trust-headers --dedupe none
}

for _ in $(seq "$rounds"); do
    timed tar tar -C "$work/out" -xf "$work/corpus.tar"
    pack pack "$work/corpus.tar"
    timed tar_gz tar -C "$work/out" -xzf "$work/corpus.tar.gz"
    pack pack_gz "$work/corpus.tar.gz"
done

median() { # median COLUMN FILE
    awk -v c="$1" '{print $c}' "$2" | sort -n | awk '{v[NR]=$1} END {print (NR % 2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'
}
range() { awk -v c="$1" '{print $c}' "$2" | sort -n | sed -n '1p;$p' | paste -sd, -; }

echo "{"
echo "  \"machine\": \"$(uname -m), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)\","
echo "  \"command\": \"bench/archive.sh BUILD CORPUS SCRATCH $copies $rounds\","
echo "  \"files\": $files, \"bytes\": $bytes,"
for name in tar pack tar_gz pack_gz; do
    printf '  "%s": {"wall_s": %s, "wall_s_range": [%s], "user_s": %s, "sys_s": %s, "peak_kib": %s, "mb_per_s": %s}' \
        "$name" "$(median 1 "$work/$name")" "$(range 1 "$work/$name")" "$(median 2 "$work/$name")" \
        "$(median 3 "$work/$name")" "$(median 4 "$work/$name")" \
        "$(awk -v b="$bytes" -v t="$(median 1 "$work/$name")" 'BEGIN {printf "%.1f", b / 1e6 / t}')"
    [ "$name" = pack_gz ] && echo || echo ,
done
echo "}"
