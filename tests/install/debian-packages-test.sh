#!/bin/sh
# debian-packages-test.sh BUILD_DIR: the Debian packages can be built, installed in a bare Debian,
# used, and removed.
#
# Builds the packages, with lintian. Makes a system of the same release by debootstrap, with
# compilers and CMake, and runs there the commands of tools/docker/Dockerfile. Then runs the
# command, build-programs.sh, and Python. Skipped without root, debootstrap, or a mirror.
set -eu

build=$1
here=$(cd "$(dirname "$0")" && pwd)
source=${SPEECHSHARD_SOURCE_DIR:?}

skip() {
    echo "$*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "making a system needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap"
[ -e /etc/debian_version ] || skip "this system is not a Debian"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
system=$work/system
log() { # log COMMAND...: print its output if it fails
    "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; return 1; }
}
inside() {
    chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        ${http_proxy:+http_proxy="$http_proxy"} "$@"
}

echo "-- make a system"
# shellcheck source=/dev/null
. /etc/os-release
log debootstrap --variant=minbase --include=cmake,g++,make,pkgconf "$VERSION_CODENAME" "$system" ||
    skip "debootstrap made no system"

echo "-- build the packages"
log "$source/tools/debian-packages.sh" "$work/packages"
(cd "$work/packages" && ls -- *.deb)

echo "-- install them, as the Dockerfile does"
dockerfile=$source/tools/docker/Dockerfile
grep -qx "FROM debian:${VERSION_ID:-}-slim" "$dockerfile" || skip "the Dockerfile is for another release"
context=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["build"]["context"])' \
    "$source/.devcontainer/devcontainer.json")
grep -qF "out=\${1:-${context#../}}" "$source/tools/debian-packages.sh" ||
    { echo "devcontainer.json takes packages from $context"; exit 1; }
# shellcheck disable=SC2086 # pattern and folder
sed -n 's/^COPY //p' "$dockerfile" | while read -r pattern folder; do
    mkdir -p "$system$folder"
    (cd "$work/packages" && cp $pattern "$system$folder")
done
sed -n 's/^RUN //p' "$dockerfile" >"$system/install.sh"
log inside sh -e /install.sh
packages=$(sed -n 's/^Package: //p' "$source/tools/packaging/debian/control")
# shellcheck disable=SC2016,SC2086 # fields of dpkg-query, a list of packages
inside dpkg-query -W -f '${Package} ${Version} ${db:Status-Status} ${Installed-Size} KiB\n' $packages
# shellcheck disable=SC2086 # a list of packages
log inside dpkg --verify $packages

echo "-- sonames and symbols"
for library in "$system"/usr/lib/*/libspeechshard-*.so; do
    name=${library##*/}
    soname=$(objdump -p "$library" | awk '$1 == "SONAME" {print $2}')
    [ -e "$system/usr/share/doc/libspeechshard${soname#"$name".}" ] || { echo "no package has the version of $soname"; exit 1; }
    [ -e "${library%/*}/$soname" ]
    nm -D --defined-only "$library" | awk 'NF == 3 {print $3}' >"$work/symbols"
    echo "$soname: $(wc -l <"$work/symbols") symbols"
    [ -s "$work/symbols" ]
    if grep -v '^spsh_[^_]' "$work/symbols"; then
        echo "$soname exports the names above"
        exit 1
    fi
done

echo "-- the command, and programs in C"
inside speechshard --version
mkdir "$system/programs"
cp -R "$here/build-programs.sh" "$here/consumer" "$system/programs"
"$build/tests/make_corpus" "$system/programs/corpus" 3 3000
inside sh /programs/build-programs.sh /usr /programs

echo "-- Python"
inside python3 -c '
import importlib.metadata, speechshard
assert speechshard.__file__.startswith("/usr/lib/python3/dist-packages/"), speechshard.__file__
assert importlib.metadata.version("speechshard") == speechshard.__version__
batch, *others = speechshard.Loader("/programs/corpus.spsh")
assert len(batch) + sum(len(other) for other in others) == 3
print(batch.ids, batch.audio.numpy())'

echo "-- remove"
rm -r "$system/programs"
# shellcheck disable=SC2086 # a list of packages
log inside apt-get remove -y $packages
# shellcheck disable=SC2086 # a list of packages
log inside dpkg --purge $packages # apt does not know them anymore
if (cd "$system" && find . -name '*speechshard*' ! -path './proc/*' ! -path './tmp/*' | grep .); then
    echo "the files above are left"
    exit 1
fi
# shellcheck disable=SC2086 # a list of packages
if inside dpkg-query -W $packages 2>/dev/null | grep .; then
    echo "dpkg knows the packages above"
    exit 1
fi
