#!/bin/bash
# features.sh [BUILD]: builds (preset `bench`), checks and times features on a GPU; JSON on standard output. Without a device, or
# without nvcc, it says so ("not measured") and ends with 0.
#
#     bench/gpu/features.sh > bench/results/gpu-features.json
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build/bench}
[[ $# -gt 0 ]] || cmake --preset bench >&2
cmake --build "$build" --parallel "$(nproc)" --target bench_gpu_features unit_features_device >&2
plugin=$build/libspeechshard-cuda.so
if ! cmake --build "$build" --target speechshard_cuda >&2; then
    echo '{"measured": false, "reason": "the plug-in was not built"}'
    echo "not measured: the plug-in was not built" >&2
    exit 0
fi

# Right before fast. 77: no device, which the program below says too.
status=0
"$build/tests/unit_features_device" "$plugin" >&2 || status=$?
((status == 0 || status == 77)) || exit "$status"
"$build/bench/bench_gpu_features" "$plugin"
