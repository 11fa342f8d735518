#!/bin/sh
# install-test.sh BUILD_DIR: an installed tree can be moved and used.
#
# Installs the build to a new folder and moves it, which reveals absolute paths. Then builds
# programs against it (build-programs.sh), compiles each public header by itself as C99, C11, C++11,
# and C++17, checks the exported symbols, and runs the installed command.
set -eu

build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() {
    echo "-- $*"
}

step "install, then move"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mkdir "$work/elsewhere"
mv "$work/first" "$work/elsewhere/prefix"
prefix=$work/elsewhere/prefix
libdir=$(dirname "$(find "$prefix" -name 'libspeechshard-shardfmt.*' | head -n 1)")
if grep -rl "$build" "$libdir/cmake" "$libdir/pkgconfig"; then
    echo "the files above name the build folder"
    exit 1
fi

step programs
"$build/tests/make_corpus" "$work/corpus" 3 3000
sh "$here/build-programs.sh" "$prefix" "$work"

# find_speechshard CODE: configures a project that has CODE.
find_speechshard() {
    mkdir -p "$work/find"
    printf 'cmake_minimum_required(VERSION 3.24)\nproject(find LANGUAGES C)\n%s\n' "$1" >"$work/find/CMakeLists.txt"
    rm -rf "$work/find/build"
    cmake -S "$work/find" -B "$work/find/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/find.log" 2>&1
}

step components
find_speechshard 'find_package(speechshard REQUIRED COMPONENTS loader)
if(NOT TARGET speechshard::loader OR TARGET PkgConfig::JANSSON)
    message(FATAL_ERROR "the loader does not need Jansson")
endif()' || { cat "$work/find.log"; exit 1; }
if find_speechshard 'find_package(speechshard REQUIRED COMPONENTS loader laoder)' ||
    ! grep -q "no component 'laoder'; it has shardfmt, " "$work/find.log"; then
    cat "$work/find.log"
    echo "an unknown component is not reported"
    exit 1
fi

step the examples of docs/reference/C.md
sed -n 's/^\(first_[a-z]*\) .*/\1/p' "$here/consumer/programs.txt" | while read -r program; do
    sed 1d "$here/consumer/$program.c"
done >"$work/examples"
awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' "$here/../../docs/reference/C.md" | diff - "$work/examples" ||
    { echo "the examples in C.md are not the programs first_* of consumer/programs.txt"; exit 1; }

step headers alone
flags="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$prefix/include"
for header in "$prefix"/include/speechshard/*.h; do
    printf '#include "speechshard/%s"\nextern int nothing;\n' "${header##*/}" >"$work/header.c"
    # shellcheck disable=SC2086 # a list of flags
    for language in "cc -std=c99 -x c" "cc -std=c11 -x c" "c++ -std=c++11 -x c++" "c++ -std=c++17 -x c++"; do
        $language $flags "$work/header.c" || { echo "${header##*/}: $language"; exit 1; }
    done
done

step symbols
for file in "$libdir"/pkgconfig/speechshard-*.pc; do
    library=${file##*/speechshard-}
    library=${library%.pc}
    if [ -e "$libdir/libspeechshard-$library.so" ]; then
        nm -D --defined-only "$libdir/libspeechshard-$library.so" >"$work/symbols"
        allowed='^spsh_[^_]'
    else # an archive shows internal names
        nm -g --defined-only "$libdir/libspeechshard-$library.a" >"$work/symbols"
        allowed='^spsh_'
    fi
    awk 'NF == 3 { print $3 }' "$work/symbols" | sort -u >"$work/names"
    [ -s "$work/names" ]
    if grep -vE "$allowed" "$work/names"; then
        echo "libspeechshard-$library exports the names above"
        exit 1
    fi
done

step sonames
version=$(sed -n 's/^Version: //p' "$libdir/pkgconfig/speechshard-shardfmt.pc")
case $version in
0.*) soversion=${version%.*} ;;
*) soversion=${version%%.*} ;;
esac
for library in "$libdir"/libspeechshard-*.so; do
    [ -e "$library" ] || continue # static
    case ${library##*/} in libspeechshard-cuda.so | libspeechshard-ffmpeg.so) continue ;; esac # loaded by name, not linked
    readelf -d "$library" | grep -qF "[${library##*/}.$soversion]" ||
        { echo "${library##*/}: the soname does not end in .$soversion"; exit 1; }
done

step the command, its manual, its completion
version=$("$prefix/bin/speechshard" --version)
case $version in
"speechshard "[0-9]*) ;;
*)
    echo "--version says '$version'"
    exit 1
    ;;
esac
[ -s "$prefix/share/man/man1/speechshard.1" ]
[ -s "$prefix/share/man/man5/speechshard-format.5" ]
for header in "$prefix"/include/speechshard/*.h; do
    name=${header##*/}
    head -n 3 "$header" | grep -q '[Nn]ot for users' || [ -s "$prefix/share/man/man3/speechshard-${name%.h}.3" ] ||
        { echo "there is no page speechshard-${name%.h}(3)"; exit 1; }
done
for file in bash-completion/completions/speechshard zsh/site-functions/_speechshard fish/vendor_completions.d/speechshard.fish; do
    [ -s "$prefix/share/$file" ] || { echo "share/$file is missing"; exit 1; }
done
if [ -e "$build/libspeechshard-cuda.so" ]; then
    devices=$("$prefix/bin/speechshard" info --devices)
    case $devices in
    *plug-in*)
        echo "the installed command does not find its plug-in: $devices"
        exit 1
        ;;
    esac
fi
echo "installed: $(find "$prefix" -type f | wc -l) files"
