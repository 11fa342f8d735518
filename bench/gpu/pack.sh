#!/bin/bash
# pack.sh BUILD FOLDER: what a bare machine with a GPU needs to run the tests and benchmarks of it, from a build that is done
# (preset `bench`): programs, plug-in, and the libraries that they load, stripped. There:
#
#     bench/gpu/all.sh --built FOLDER > gpu.json
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $# -eq 2 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$1 folder=$2

rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/tests" "$folder/bench"
cp "$build/tools/speechshard" "$folder/"
cp "$build/libspeechshard-cuda.so" "$folder/"
# Tests with the label gpu: a line each, NAME PROGRAM ARGUMENT..., relative to the folder.
ctest --test-dir "$build" --label-regex '^gpu$' --show-only=json-v1 |
    jq -r '.tests[] | select(.command) | [.name] + .command | join(" ")' |
    sed "s#$(realpath "$build")/##g" >"$folder/tests.txt"
while read -r _ program _; do
    [[ ! -f $build/$program ]] || install -D "$build/$program" "$folder/$program"
done <"$folder/tests.txt"
find "$build/bench" -maxdepth 1 -name 'bench_*' -type f -executable \
    \( -name 'bench_gpu_*' -o -name 'bench_train_*' \) -exec cp '{}' "$folder/bench/" ';'

# The system's own libraries are there; ours and Debian's others travel.
find "$folder" -type f -executable -exec ldd '{}' ';' 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libcuda|ld-linux[^/]*)\.so' |
    xargs -r -I '{}' cp -L '{}' "$folder/lib/"
find "$folder" -type f \( -executable -o -name '*.so*' \) -exec strip --strip-unneeded '{}' ';' 2>/dev/null || true
du -sh "$folder" >&2
