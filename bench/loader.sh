#!/bin/bash
# Does the loader deliver as many batches as the processors decode and the disk delivers?
#
#     bench/loader.sh BUILD CORPUS SCRATCH [COPIES [ROUNDS [SECONDS]]] > bench/results/loader.json
#
# BUILD is a release build with the benchmarks; CORPUS a folder of audio; SCRATCH a folder on the
# disk to be measured. The corpus is copied COPIES times (20), each copy with different names, and
# packed with --codec keep and --codec pcm. Then, ROUNDS (5) of each in turn, SECONDS (4) per part:
#
#     decode_*  batches compared with a bare decode loop over records in memory, same cores, page
#               cache warm
#     cold_*    batches compared with only the read engine, O_DIRECT, pages dropped before and
#               checked (resident_part)
#     fio       randread of record sizes like the dataset's, O_DIRECT, before and after each cold
#               run
#
# Figures are [median, minimum, maximum]. Needs fio.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
copies=${4:-20}
rounds=${5:-5}
seconds=${6:-4}
speechshard=$build/tools/speechshard
bench=$build/bench/bench_loader
threads=$(nproc)
milliseconds=$(awk -v s="$seconds" 'BEGIN {print int(s * 1000)}')
work=$(mktemp -d "$scratch/bench-loader-XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck source=bench/kit.sh
. "$(dirname "$0")/kit.sh"

copy_corpus "$corpus" "$copies"
for codec in keep pcm; do
    "$speechshard" pack "$work/tree" --layout folder --dedupe none --codec "$codec" --shard-size 1G \
        -o "$work/$codec.spsh" --quiet >/dev/null
done
rm -rf "$work/tree"
sync

# fio_line DATASET: MB/s and CPU seconds per GB of one run
fio_line() {
    local files
    files=$(printf '%s:' "$1"/shards/*.spsh | sed 's/:$//')
    fio --name=read --filename="$files" --rw=randread --bssplit="$("$bench" sizes "$1")" \
        --blockalign=4k --iodepth=64 --ioengine=io_uring --direct=1 --readonly --norandommap=1 \
        --file_service_type=random --runtime="${milliseconds}ms" --time_based \
        --output-format=terse --terse-version=3 |
        awk -F';' '{seconds = $9 / 1000; bytes = $6 * 1024
            printf "%.1f %.4f\n", bytes / seconds / 1e6, ($88 + $89) / 100 * seconds / (bytes / 1e9)}'
}

# figures COLUMN FILE: [median, minimum, maximum]
figures() {
    awk -v c="$1" '{print $c}' "$2" | sort -g |
        awk '{v[NR] = $1} END {printf "[%s, %s, %s]", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR]}'
}

member() { # member NAME: print the object on standard input as a member
    printf '  "%s": ' "$1"
    sed '2,$s/^/  /' | sed '$s/$/,/'
}

echo "{"
echo "  \"machine\": \"$(machine)\","
echo "  \"command\": \"bench/loader.sh BUILD CORPUS SCRATCH $copies $rounds $seconds\","
for codec in keep pcm; do
    dataset=$work/$codec.spsh
    echo "  \"bytes_$codec\": $(cat "$dataset"/shards/*.spsh | wc -c),"
    for output in int16 float32; do
        "$bench" ratio "$dataset" -n "$rounds" --seconds "$seconds" -j "$threads" --output "$output" |
            member "decode_${codec}_$output"
    done
done
# Decoding pcm is so fast that the disk is the limit.
dataset=$work/pcm.spsh
: >"$work/fio"
for _ in $(seq $(((rounds + 1) / 2))); do fio_line "$dataset" >>"$work/fio"; done
"$bench" cold "$dataset" -n "$rounds" --seconds "$seconds" -j "$threads" | member cold_pcm
for _ in $(seq $(((rounds + 1) / 2))); do fio_line "$dataset" >>"$work/fio"; done
echo "  \"fio_mb_per_s\": $(figures 1 "$work/fio"),"
echo "  \"fio_cpu_seconds_per_gb\": $(figures 2 "$work/fio")"
echo "}"
