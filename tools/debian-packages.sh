#!/bin/sh
# Builds the Debian packages speechshard, libspeechshard0.1, libspeechshard-dev, and
# python3-speechshard, and checks them with lintian.
#
#     tools/debian-packages.sh [OUTDIR]         (default: build/debian/packages)
#
# The packages are for the release of Debian that builds them. They contain neither the CUDA plug-in
# nor the FFmpeg plug-in. To install all: `apt-get install OUTDIR/*.deb`. Objects stay in
# build/debian/speechshard for the next time.
set -eu
[ $# -eq 0 ] || { mkdir -p "$1" && set -- "$(cd "$1" && pwd)"; }
cd "$(dirname "$0")/.."
out=${1:-build/debian/packages}
mkdir -p "$out"

tools/install-deps.sh build python packages
work=build/debian/speechshard
mkdir -p "$work"
rm -rf "$work/debian" build/debian/speechshard_* build/debian/*.deb
cp -R tools/packaging/debian "$work/debian"
version=$(sed -n 's/^project(speechshard VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
date=$(git log -1 --format=%cD 2>/dev/null || date -R) # the same commit must give the same packages
cat >"$work/debian/changelog" <<END
speechshard ($version) unstable; urgency=medium

  * CHANGELOG.md describes this version.

 -- $(sed -n 's/^Maintainer: //p' tools/packaging/debian/control)  $date
END

(cd "$work" && DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage --build=binary --no-sign \
    --no-pre-clean)
lintian --allow-root --fail-on error,warning --info build/debian/speechshard_*.changes
rm -f "$out"/*speechshard*.deb
mv build/debian/*.deb "$out"
ls -sh "$out"/*.deb
