#!/bin/bash
# How fast do parquet files go through `python -m speechshard.parquet`: into nothing, and into
# `pack`?
#
#     bench/parquet.sh BUILD PYTHON CLIP SCRATCH [MEGABYTES [ROUNDS]] > bench/results/parquet.json
#
# BUILD is a release build; PYTHON an interpreter with pyarrow, such as build/pyarrow/bin/python;
# CLIP a FLAC file, of which one parquet file of MEGABYTES (1000) is made below SCRATCH; the page
# cache is warm. The commands run in turn, ROUNDS times (5). `tar` is `tar xf` of the same clips to
# the same disk.
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
# shellcheck source=bench/kit.sh
. "$(dirname "$0")/kit.sh"
export PYTHONPATH=$build/python SPEECHSHARD_COMMAND=$build/tools/speechshard

"$python" "$here/python/make_parquet.py" "$clip" "$work/in" "$megabytes"
sync
rows=$("$python" -c 'import sys, pyarrow.parquet as p; print(p.ParquetFile(sys.argv[1]).metadata.num_rows)' \
    "$work/in/clean/train-00000-of-00001.parquet")
bytes=$((rows * $(stat -c %s "$clip")))
cat "$work"/in/*/*.parquet "$work"/in/*.tar >/dev/null

for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2016 # for the shell within
    timed stream sh -c '"$0" -m speechshard.parquet "$1" | cat' "$python" "$work/in/clean"
    timed pack_trust_headers "$python" -m speechshard.parquet "$work/in/clean" -o "$work/out/a" --trust-headers
    timed pack_decode "$python" -m speechshard.parquet "$work/in/clean" -o "$work/out/a"
    timed tar_x tar xf "$work/in/clips.tar" -C "$work/out"
done

report "bench/parquet.sh BUILD PYTHON CLIP SCRATCH $megabytes $rounds" "\"rows\": $rows" "$bytes" \
    stream pack_trust_headers pack_decode tar_x
