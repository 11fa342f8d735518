#!/bin/bash
# How many utterances per second does each layout find, and in how much memory?
#
#     bench/scan.sh BUILD SCRATCH [ROWS [ROUNDS [KIND...]]] > bench/results/scan.json
#
# BUILD is a release build with the benchmarks. A corpus of ROWS (1,000,000) clips is made below
# SCRATCH, on a file system with hard links: the clips are links to some hundred files of 524 bytes,
# because only their names count. Each KIND (all) is scanned ROUNDS times (3), each time in a
# separate process, with a warm cache. The kind `pack`, which must be named explicitly, packs the
# whole Common Voice tree, from its files to a dataset, and reports the memory. ROWS clips take
# about 60 bytes each on the disk, their metadata 80 to 300.
set -euo pipefail
build=$1
scratch=$2
rows=${3:-1000000}
rounds=${4:-3}
kinds=("${@:5}")
[ ${#kinds[@]} -gt 0 ] || kinds=(common-voice mls table audiofolder nemo kaldi kaldi-shuffled folder)
scan=$build/bench/bench_scan
work=$(mktemp -d "$scratch/bench-scan-XXXXXX")
trap 'rm -rf "$work" "$work.spsh" "$work.time"' EXIT

# arguments of `bench_scan scan` for a kind
target() {
    case $1 in
    mls) echo "mls $work/mls" ;;
    table) echo "table $work/table.tsv" ;;
    kaldi*) echo "kaldi $work/$1" ;;
    folder) echo "folder $work/clips" ;;
    *) echo "$1 $work" ;;
    esac
}

# The whole way to a dataset: seconds, processor seconds, peak memory.
pack_all() {
    "$scan" make common-voice "$rows" "$work"
    for _ in $(seq "$rounds"); do
        rm -rf "$work.spsh"
        /usr/bin/time -o "$work.time" -f '"seconds": %e, "user_seconds": %U, "system_seconds": %S, "peak_kib": %M' \
            "$build/tools/speechshard" pack "$work" -o "$work.spsh" --layout common-voice --dedupe none --trust-headers --quiet >&2
        printf '%s  {"kind": "pack", "utterances": %s, %s}' "$comma" \
            "$("$build/tools/speechshard" info --json "$work.spsh" | jq .utterances)" "$(cat "$work.time")"
        comma=$',\n'
    done
    rm -rf "$work.spsh" "$work.time"
}

echo '['
comma=
for kind in "${kinds[@]}"; do
    if [ "$kind" = pack ]; then
        pack_all
        find "$work" -maxdepth 1 -type f -delete
        continue
    fi
    [ "$kind" = folder ] || "$scan" make "$kind" "$rows" "$work"
    [ "$kind" != folder ] || [ -d "$work/clips" ] || "$scan" make table "$rows" "$work"
    read -r layout root < <(target "$kind")
    for _ in $(seq "$rounds"); do
        line=$("$scan" scan "$layout" "$root")
        printf '%s  {"kind": "%s", %s' "$comma" "$kind" "${line#\{}"
        comma=$',\n'
    done
    # Metadata of one kind would be an orphan or an extra file of the next one.
    find "$work" -maxdepth 1 -type f -delete
done
printf '\n]\n'
