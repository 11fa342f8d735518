#!/bin/bash
# How fast do parquet files go through `python -m speechshard.parquet`: into nothing, and into `pack`?
#
#     bench/parquet.sh BUILD PYTHON CLIP SCRATCH [MEGABYTES [ROUNDS]] > bench/results/parquet.json
#
# BUILD is a release build; PYTHON an interpreter with pyarrow, such as build/pyarrow/bin/python; CLIP a FLAC file, of which one
# parquet file of MEGABYTES (1000) is made below SCRATCH; the page cache is warm. The commands run in turn, ROUNDS times
# (5). `tar` is `tar xf` of the same clips to the same disk.
set -euo pipefail
build=$1
python=$2
clip=$3
scratch=$4
megabytes=${5:-1000}
rounds=${6:-5}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$scratch/bench-parquet-XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$build/python SPEECHSHARD_COMMAND=$build/tools/speechshard

"$python" "$here/python/parquet.py" "$clip" "$work/in" "$megabytes"
sync
rows=$("$python" -c 'import sys, pyarrow.parquet as p; print(p.ParquetFile(sys.argv[1]).metadata.num_rows)' \
    "$work/in/clean/train-00000-of-00001.parquet")
bytes=$((rows * $(stat -c %s "$clip")))
cat "$work"/in/*/*.parquet "$work"/in/*.tar >/dev/null

# timed NAME COMMAND...: wall seconds, CPU seconds and peak KiB, appended to the table NAME.
timed() {
    local name=$1
    shift
    rm -rf "$work/out"
    mkdir "$work/out"
    sync
    /usr/bin/time -f '%e %U %S %M' -o "$work/time" "$@" >/dev/null 2>"$work/log" || {
        cat "$work/log" >&2
        exit 1
    }
    cat "$work/time" >>"$work/$name"
}

for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2016 # for the shell within
    timed stream sh -c '"$0" -m speechshard.parquet "$1" | cat' "$python" "$work/in/clean"
    timed pack_trust_headers "$python" -m speechshard.parquet "$work/in/clean" -o "$work/out/a" --trust-headers
    timed pack_decode "$python" -m speechshard.parquet "$work/in/clean" -o "$work/out/a"
    timed tar_x tar xf "$work/in/clips.tar" -C "$work/out"
done

median() { # median COLUMN FILE
    awk -v c="$1" '{print $c}' "$2" | sort -n | awk '{v[NR]=$1} END {print (NR % 2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'
}
range() { awk -v c="$1" '{print $c}' "$2" | sort -n | sed -n '1p;$p' | paste -sd, -; }

echo "{"
echo "  \"machine\": \"$(uname -m), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)\","
echo "  \"command\": \"bench/parquet.sh BUILD PYTHON CLIP SCRATCH $megabytes $rounds\","
echo "  \"rows\": $rows, \"bytes\": $bytes,"
for name in stream pack_trust_headers pack_decode tar_x; do
    printf '  "%s": {"wall_s": %s, "wall_s_range": [%s], "user_s": %s, "sys_s": %s, "peak_kib": %s, "mb_per_s": %s}' \
        "$name" "$(median 1 "$work/$name")" "$(range 1 "$work/$name")" "$(median 2 "$work/$name")" \
        "$(median 3 "$work/$name")" "$(median 4 "$work/$name")" \
        "$(awk -v b="$bytes" -v t="$(median 1 "$work/$name")" 'BEGIN {printf "%.1f", b / 1e6 / t}')"
    [ "$name" = tar_x ] && echo || echo ,
done
echo "}"
