#!/bin/sh
# components-test.sh BUILD_DIR: each installed file is in one component, no component is empty, and
# each component except the plug-ins is in one Debian package. The name of the package of the
# libraries has the soname's version.
set -eu

build=$1
packaging=${SPEECHSHARD_SOURCE_DIR:?}/tools/packaging/debian
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

files() { # files NAME [OPTION...]: install to a folder of this name, and list it
    mkdir "$work/$1"
    name=$1
    shift
    cmake --install "$build" --prefix "$work/$name" "$@" >"$work/log"
    (cd "$work/$name" && find . ! -type d) | LC_ALL=C sort >"$work/$name.files"
}

files all
components="command development"
if ls "$build"/shardfmt/*.so >/dev/null 2>&1; then
    components="$components runtime"
fi
for plugin in cuda ffmpeg; do
    [ ! -e "$build/libspeechshard-$plugin.so" ] || components="$components $plugin"
done
for component in $components; do
    files "$component" --component "$component"
done
if [ -d "$build/python/speechshard" ]; then
    files python --component python
    components="$components python"
fi

for component in $components; do
    echo "$component: $(wc -l <"$work/$component.files") files"
    [ -s "$work/$component.files" ] || { echo "the component is empty"; exit 1; }
    [ "$component" = cuda ] || [ "$component" = ffmpeg ] || [ "$(grep -c "^.\$(call install,.*,$component)\$" "$packaging/rules")" -eq 1 ] ||
        { echo "tools/packaging/debian/rules does not install the component $component once"; exit 1; }
    cat "$work/$component.files" >>"$work/sum"
done
[ ! -e "$work/python.files" ] || cat "$work/python.files" >>"$work/all.files" # excluded from a plain `cmake --install`
LC_ALL=C sort "$work/sum" >"$work/sum.files"
LC_ALL=C sort "$work/all.files" | diff - "$work/sum.files" ||
    { echo "of all files (<), the components (>) have some twice or not at all"; exit 1; }

if [ -e "$work/runtime" ]; then
    soname=$(readelf -d "$work"/runtime/lib*/libspeechshard-shardfmt.so.*.*.* "$work"/runtime/lib*/*/libspeechshard-shardfmt.so.*.*.* 2>/dev/null |
        sed -n 's/.*SONAME.*\[libspeechshard-shardfmt.so.\(.*\)\]/\1/p')
    grep -qx "Package: libspeechshard$soname" "$packaging/control" ||
        { echo "tools/packaging/debian/control has no package libspeechshard$soname"; exit 1; }
fi
