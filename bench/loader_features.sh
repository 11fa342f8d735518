#!/bin/bash
# Does the loader deliver features as fast as decoding and computing them allow?
#
#     bench/loader_features.sh BUILD CORPUS SCRATCH [COPIES [ROUNDS [SECONDS]]] \
#         > bench/results/loader-features.json
#
# BUILD is a release build with the benchmarks; CORPUS a folder of audio. It is copied COPIES times
# (20), and packed with --codec keep and --codec pcm. Then, ROUNDS (5) of each in turn, SECONDS (3)
# per part, page cache warm: only decoding, only features, and the loader. Figures are [median,
# minimum, maximum]; bench_loader_features.c describes them.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
copies=${4:-20}
rounds=${5:-5}
seconds=${6:-3}
speechshard=$build/tools/speechshard
bench=$build/bench/bench_loader_features
threads=$(nproc)
work=$(mktemp -d "$scratch/bench-loader-features-XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck source=bench/kit.sh
. "$(dirname "$0")/kit.sh"

copy_corpus "$corpus" "$copies"
for codec in keep pcm; do
    "$speechshard" pack "$work/tree" --layout folder --dedupe none --codec "$codec" --shard-size 1G \
        -o "$work/$codec.spsh" --quiet >/dev/null
done
rm -rf "$work/tree"

run() { # run NAME CODEC OPTION...
    local name=$1 codec=$2
    shift 2
    printf '  "%s": ' "$name"
    "$bench" "$work/$codec.spsh" -n "$rounds" --seconds "$seconds" -j "$threads" "$@" | sed '2,$s/^/  /' | sed '$s/$/,/'
}

echo "{"
echo "  \"machine\": \"$(machine)\","
for codec in keep pcm; do
    run "${codec}_float32" "$codec"
    run "${codec}_float16" "$codec" --dtype float16
done
run keep_whisper keep --features whisper-logmel
run keep_augmented keep --augment "speeds=0.9:1:1.1,gain_probability=0.5,gain_db_min=-6,gain_db_max=6,time_masks=2,time_mask_frames_max=50"
echo "  \"command\": \"bench/loader_features.sh BUILD CORPUS SCRATCH $copies $rounds $seconds\""
echo "}"
