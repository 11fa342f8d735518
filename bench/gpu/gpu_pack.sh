#!/bin/bash
# gpu_pack.sh BUILD FOLDER: copy what a bare machine with a GPU needs to run the GPU tests and
# benchmarks, from a finished build (preset `bench`; -DSPEECHSHARD_CUDA_ARCHITECTURES=90 where the
# device is known makes it smaller): programs, plug-in, and the libraries that they load, stripped.
# The same as one file, FOLDER.tar.xz, a third as large. There:
#
#     bench/gpu/all.sh --built FOLDER.tar.xz -o gpu.json
#
# NVIDIA's own libraries (cuBLASLt, cuDNN, NCCL: gigabytes) are not in it: that machine, or its
# Python packages, must have them.
set -euo pipefail
[[ $# -eq 2 ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(dirname "$(realpath "$0")")/../..
build=$(realpath "$1") folder=$(realpath -m "$2")
cd "$root"

[[ -f $build/libspeechshard-cuda.so ]] || { echo "gpu_pack.sh: $build has no plug-in: nvcc 12.8 or later makes it" >&2; exit 1; }
rm -rf "$folder" "$folder.tar.xz"
mkdir -p "$folder/lib" "$folder/tests" "$folder/bench"
cp "$build/tools/speechshard" "$build/libspeechshard-cuda.so" "$folder/"
# Tests with the label gpu, one per line: NAME PROGRAM ARGUMENT..., relative to the folder.
ctest --test-dir "$build" --label-regex '^gpu$' --show-only=json-v1 |
    jq -r '.tests[] | select(.command) | [.name] + .command | join(" ")' |
    sed "s#$build/##g" >"$folder/tests.txt"
[[ -s $folder/tests.txt ]] || { echo "gpu_pack.sh: $build has no tests for a GPU" >&2; exit 1; }
while read -r _ program _; do
    install -D "$build/$program" "$folder/$program"
done <"$folder/tests.txt"
cp "$build"/bench/bench_gpu_* "$build"/bench/bench_train_{ctc,step} "$folder/bench/"

# Commit of the results, for machines without the repository.
git describe --always --dirty --abbrev=40 --exclude '*' >"$folder/commit" 2>/dev/null || true

# Copy all libraries except the C library, which the machine has.
find "$folder" -type f -executable -exec ldd '{}' ';' 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libcuda|ld-linux[^/]*)\.so' |
    xargs -r -I '{}' cp -L '{}' "$folder/lib/"
find "$folder" -type f \( -executable -o -name '*.so*' \) -exec strip --strip-unneeded '{}' ';' 2>/dev/null || true
tar -C "$(dirname "$folder")" --transform "s#^$(basename "$folder")#gpu#" --owner 0 --group 0 -cJf "$folder.tar.xz" \
    "$(basename "$folder")"
du -sh "$folder" "$folder.tar.xz" >&2
