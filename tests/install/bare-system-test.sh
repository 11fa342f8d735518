#!/bin/sh
# bare-system-test.sh BUILD_DIR: a Debian without the -dev packages of our dependencies builds
# programs.
#
# Makes a system of the same release by debootstrap, with compilers, CMake, and the packages that
# contain the shared libraries that ours need. Installs a shared build there and runs
# build-programs.sh. Skipped without root, debootstrap, or a mirror, and if the build is static.
set -eu

build=$1
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "$*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "making a system needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap"
[ -e /etc/debian_version ] || skip "this system is not a Debian"
ls "$build"/shardfmt/*.so >/dev/null 2>&1 || skip "the build is static"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/speechshard" --strip >"$work/log"
libraries=$(find "$work/speechshard" -name 'libspeechshard-*.so' ! -name '*-cuda.so')
# shellcheck disable=SC2086 # a list of files
files=$(objdump -p "$work/speechshard/bin/speechshard" $libraries | awk '$1 == "NEEDED" {print $2}' | sort -u)
packages=
for file in $files; do
    case $file in libspeechshard-*) continue ;; esac
    # The package names the file below /usr/lib or /lib.
    package=$(dpkg-query -S "*/$file" | sed -n 's/^\([^:,]*\).*: .*/\1/p' | head -n 1)
    packages=$packages,$package
done

# shellcheck source=/dev/null
. /etc/os-release
debootstrap --variant=minbase --include="cmake,g++,make,pkgconf$packages" "$VERSION_CODENAME" "$work/system" \
    >"$work/log" 2>&1 || {
    tail -n 3 "$work/log"
    skip "debootstrap made no system"
}
# g++ needs headers of the C and C++ libraries, and cmake brings none.
# shellcheck disable=SC2016 # fields of dpkg-query
chroot "$work/system" dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed \(.*-dev\)$/\1/p' >"$work/dev"
if grep -vE '^(libc6|libcrypt|libgcc-[0-9]*|libnsl|libstdc[+][+]-[0-9]*|libtirpc|linux-libc)-dev$' "$work/dev"; then
    echo "the packages above are installed"
    exit 1
fi

mv "$work/speechshard" "$work/system/opt/speechshard"
mkdir "$work/system/programs"
cp -R "$here/build-programs.sh" "$here/consumer" "$work/system/programs"
"$build/tests/make_corpus" "$work/system/programs/corpus" 3 3000
# Without /proc, the loader cannot resolve $ORIGIN, by which the command finds the libraries.
libdir=$(dirname "$(find "$work/system/opt/speechshard" -name libspeechshard-shardfmt.so)")
chroot "$work/system" env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="${libdir#"$work/system"}" sh /programs/build-programs.sh /opt/speechshard /programs
