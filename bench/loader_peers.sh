#!/bin/bash
# The cost of an hour of decoded speech, from Python: with our loader, and with other libraries.
#
#     bench/loader_peers.sh BUILD CORPUS SCRATCH [RUNS [PYTHON]] > bench/results/loader-peers.json
#
# BUILD is a release build with the Python package; CORPUS a folder of FLAC files of 16 kHz; SCRATCH
# a folder for the containers made from it. PYTHON (python3) has numpy and soundfile (Debian:
# python3-numpy, python3-soundfile), and webdataset and lhotse for a comparison with them; missing
# packages are skipped. The page cache is warm. Each number of workers is tried once; the best by
# CPU time and by wall time take part in RUNS (5) rounds, in turns. bench/python/python_peers.py
# describes the measurement.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
runs=${4:-5}
python=${5:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$scratch/bench-peers-XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
peers() { "$python" "$here/python/python_peers.py" "$@"; }

peers prepare "$corpus" "$work" >&2
for codec in keep pcm; do
    "$build/tools/speechshard" pack "$corpus" --layout folder --codec "$codec" --dedupe none \
        -o "$work/$codec.spsh" --quiet >&2
done
sync

# For each peer: the numbers of workers that are best by CPU time and by wall time, and a check that
# it serves the same data as the others.
settings=()
while IFS=$'\t' read -r name workers <&3; do
    for number in $workers; do
        peers run "$work" "$name" "$number"
    done >"$work/tried"
    best=$(jq -rs '[min_by(.cpu_s / .audio_s).workers, max_by(.audio_s / .wall_s).workers] | unique[]' "$work/tried")
    for number in $best; do
        settings+=("$name"$'\t'"$number")
    done
    peers run "$work" "$name" "$number" --check >>"$work/checks"
done 3< <(peers settings)

for _ in $(seq "$runs"); do
    for setting in "${settings[@]}"; do
        peers run "$work" "${setting%$'\t'*}" "${setting#*$'\t'}" >>"$work/runs"
    done
done

machine="$(uname -m), $(getconf _NPROCESSORS_ONLN) cores,$(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1), $(uname -sr)"
bytes() { du -sb "$1" 2>/dev/null | cut -f1; }
jq -n --arg machine "$machine" --arg command "bench/loader_peers.sh BUILD CORPUS SCRATCH $runs" \
    --argjson versions "$(peers versions)" --argjson flac "$(xargs -d '\n' cat <"$work/files.txt" | wc -c)" \
    --argjson keep "$(bytes "$work/keep.spsh")" --argjson pcm "$(bytes "$work/pcm.spsh")" \
    '{machine: $machine, command: $command, versions: $versions,
      bytes: {flac: $flac, "speechshard keep": $keep, "speechshard pcm": $pcm}}' >"$work/head"
"$python" "$here/python/peers_table.py" "$work/runs" "$work/checks" "$work/head"
