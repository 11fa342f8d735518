#!/bin/bash
# all.sh [--built FOLDER|ARCHIVE] [-o FILE] [--minutes M] [--only PART,...]: checks and times
# everything that needs a GPU. It writes one JSON object (measure.py describes it and lists the
# parts) to FILE or to standard output. Without --built it builds first (preset `bench`). FOLDER or
# ARCHIVE comes from gpu_pack.sh, on a machine that can build. Without a device the object and each
# part have "measured": false, and the status is 0.
#
#     bench/gpu/all.sh --minutes 90 -o bench/results/gpu-h100.json
#
# Without --minutes it stops after 8 minutes. Each part takes less.
#
# The machine must have: x86-64 Linux with glibc 2.36 or later, bash, tar, xz, python3 (3.9), an
# NVIDIA driver for CUDA 13. Carry to it, if it has no network and no compiler: ARCHIVE, the folder
# bench/ of this repository, and the wheels of nvidia-cublas, nvidia-cudnn-cu13, and
# nvidia-nccl-cu13, unless it has these libraries or PyTorch, whose packages contain them (packed.py
# finds them there). Without cuBLASLt and cuDNN, the parts that train fail. Without PyTorch (2.3,
# with numpy), the parts `ctc` and `steps_*` time only ours. Nothing is fetched. Nothing is written
# outside FILE and /tmp (6 GB).
set -euo pipefail
root=$(dirname "$(realpath "$0")")/../..

built='' words=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --built) built=$(realpath "$2") && shift 2 ;;
    -o) words+=(-o "$(realpath -m "$2")") && shift 2 ;;
    --minutes | --only) words+=("$1" "$2") && shift 2 ;;
    *) sed -n '2,19s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
done
cd "$root"
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
if [[ -z $built ]]; then
    cmake --preset bench >&2
    cmake --build build/bench --parallel "$(nproc)" >&2
    built=build/bench/gpu
    bench/gpu/gpu_pack.sh build/bench "$built" >&2
fi
if [[ -f $built ]]; then
    tar -C "$unpacked" -xJf "$built"
    built=$unpacked/gpu
fi
python3 bench/gpu/measure.py "$built" "${words[@]}"
