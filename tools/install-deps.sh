#!/bin/sh
# Install the packages that a plain Debian 12 lacks to build, test, or check speechshard.
#
#     tools/install-deps.sh [build] [python] [test] [lint] [launch] [ffmpeg] [packages] [nightly] \
#         [wheel]
#                                                                       (default: build)
# ffmpeg: with it, the build has the plug-in for pack --decoder ffmpeg, and its test runs.
#
# Does nothing, and needs neither root nor a network, if all packages are installed.
set -eu

build="build-essential cmake ninja-build pkg-config
    libarchive-dev libfftw3-dev libflac-dev libjansson-dev liblz4-dev libmpg123-dev libogg-dev
    libopenmpi-dev openmpi-bin libpng-dev libsndfile1-dev libsoxr-dev liburing-dev libutf8proc-dev
    libvorbis-dev libxxhash-dev libyaml-dev nettle-dev zlib1g-dev"
python="python3 python3-dev python3-pip python3-venv"
test="$python fish fuse3 jq libfuse3-dev locales mandoc python3-jsonschema python3-lz4
    python3-numpy python3-tqdm python3-xxhash python3-yaml strace time zsh"
launch="iproute2 munge slurm-wlm"
ffmpeg="ffmpeg libavcodec-dev libavformat-dev libavutil-dev"
lint="ccache clang clang-format clang-tidy git libclang-rt-14-dev libkissfft-dev llvm shellcheck"
packages="debhelper dh-python libkissfft-dev lintian"
nightly="abigail-tools debootstrap $packages"
wheel="libbz2-dev libkissfft-dev liblzma-dev libzstd-dev"

wanted=
for group in "${@:-build}"; do
    case $group in
    build) wanted="$wanted $build" ;;
    python) wanted="$wanted $python" ;;
    test) wanted="$wanted $test" ;;
    lint) wanted="$wanted $lint" ;;
    launch) wanted="$wanted $launch" ;;
    ffmpeg) wanted="$wanted $ffmpeg" ;;
    packages) wanted="$wanted $packages" ;;
    nightly) wanted="$wanted $nightly" ;;
    wheel) wanted="$wanted $wheel" ;;
    *)
        echo "install-deps.sh: '$group' is not a group; there are build, python, test, lint, launch, ffmpeg, packages, nightly, and wheel" >&2
        exit 2
        ;;
    esac
done

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install-deps.sh: these packages are missing, and installing them needs root or sudo:" >&2
        echo "   $missing" >&2
        echo "As root: apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
fi

echo "Installing:$missing"
# A failed update is not fatal: the existing package lists may suffice.
$as_root apt-get update -q || true
# shellcheck disable=SC2086 # a list of packages
$as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends $missing </dev/null
