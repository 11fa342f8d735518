#!/bin/sh
# bare-wheel-test.sh BUILD_DIR [SUITE...]: the wheel of tools/wheel.sh works on systems that have only Python.
#
# Makes a system of each suite by debootstrap, with python3 and python3-venv. As a user does, makes
# an environment there, installs the wheel, packs a folder, and reads a batch; then uses the other
# commands and functions, and uninstalls. The default suites are the release of this system, the
# next Debian, whose Python and C library are newer, and Ubuntu 22.04 if its keyring is installed.
# Speech is read from SPEECHSHARD_TEST_DATA; without it, tones are packed.
#
# Skipped without root, debootstrap, mount namespaces, or a network, and skips a suite if no system can be made of it.
set -eu

build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
speech=${SPEECHSHARD_TEST_DATA:-$source/../shared/data}/ljspeech-3codecs

skip() {
    echo "$*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "making a system needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap"
[ -e /etc/debian_version ] || skip "this system is not a Debian"
# A mount in a separate namespace disappears with the process, even if the process is killed.
unshare --mount true || skip "there are no mount namespaces"
unset PYTHONPATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "-- make the wheel"
"$source/tools/wheel.sh" "$work/wheels" >"$work/log" 2>&1 || {
    cat "$work/log"
    ! grep -q 'No matching distribution found' "$work/log" || skip "auditwheel cannot be installed"
    exit 1
}
cat "$work/log"
wheel=$(ls "$work"/wheels/speechshard-*.whl)
case $wheel in *-cp39-abi3-manylinux_*) ;; *) echo "a strange name: $wheel" && exit 1 ;; esac
if grep -E '[[:space:]]A?GPL' "$work/log"; then
    echo "the wheel contains the parts above"
    exit 1
fi
page=$source/docs/how-to/install.md
size=$(stat -c %s "$wheel")
awk -v size="$size" '/wheels\/speechshard-\*.whl, [0-9.]+ MB$/ { ratio = $(NF - 1) * 1e6 / size } END { exit ratio < 0.95 || ratio > 1.05 }' "$page" ||
    { echo "$page gives another size than $size bytes"; exit 1; }

if [ -e "$build/libspeechshard-cuda.so" ]; then
    echo "-- make the wheel of the plug-in"
    CMAKE_ARGS=-DSPEECHSHARD_CUDA_ARCHITECTURES=80 "$source/tools/wheel.sh" --cuda "$work/wheels" >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
    tail -n 3 "$work/log"
fi

# shellcheck source=/dev/null
. /etc/os-release
if [ $# -eq 0 ]; then
    set -- "$VERSION_CODENAME" trixie
    [ ! -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || set -- "$@" jammy
fi
mkdir "$work/files"
cp "$work"/wheels/*.whl "$here/use-wheel.sh" "$here/use_wheel.py" "$page" "$work/files"
if [ -d "$speech" ]; then
    cp -R "$speech" "$work/files/corpus"
else
    "$build/tests/make_corpus" "$work/files/corpus" 20 3000
fi
(cd "$work/files" && "$build/tools/speechshard" pack corpus -o expected.spsh --rate 16000 --codec pcm --quiet >/dev/null)

systems=0
for suite in "$@"; do
    case $suite in jammy) components=main,universe ;; *) components=main ;; esac
    unshare --mount debootstrap --variant=minbase --components=$components --include=python3,python3-venv "$suite" "$work/system" \
        >"$work/log" 2>&1 || {
        tail -n 3 "$work/log"
        echo "skipped: debootstrap made no system of $suite"
        rm -rf "$work/system"
        continue
    }
    # shellcheck disable=SC2016 # fields of dpkg-query
    if chroot "$work/system" dpkg-query -W -f '${Package}\n' | grep -E -e '-dev$|^(gcc|g[+][+]|cmake|libsndfile1|libarchive13)$'; then
        echo "$suite: the packages above are installed"
        exit 1
    fi
    cp -R "$work/files" "$work/system/files"
    # Without /proc, the loader cannot resolve $ORIGIN, by which the command finds its libraries.
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" env -i PATH=/usr/bin:/bin sh /files/use-wheel.sh' \
        sh "$work/system"
    rm -rf "$work/system"
    systems=$((systems + 1))
done
[ "$systems" -gt 0 ] || skip "debootstrap made no system"
