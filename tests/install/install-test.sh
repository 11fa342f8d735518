#!/bin/sh
# install-test.sh BUILD_DIR: what is installed can be moved and used.
#
# Installs the build into a new folder and moves it, so that a path that was baked in shows; then
# builds a consumer and the example of the README through find_package and through pkg-config and
# runs them on a dataset that the installed command packed, compiles each
# public header alone as C99, C11 and C++11, runs the installed command, and looks at the exported
# symbols.
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

step find_package
cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" >"$work/consumer.log" ||
    { cat "$work/consumer.log"; exit 1; }
cmake --build "$work/consumer" >"$work/consumer.log" || { cat "$work/consumer.log"; exit 1; }
[ "$("$work/consumer/consumer")" = "corrupt data" ]

step pkg-config
export PKG_CONFIG_PATH="$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
# shellcheck disable=SC2046 # a list of flags
cc -o "$work/by-pkg-config" "$here/consumer/consumer.c" \
    $(pkg-config --cflags --libs speechshard-shardfmt)
[ "$(LD_LIBRARY_PATH=$libdir "$work/by-pkg-config")" = "corrupt data" ]

step utterances
"$build/tests/make_corpus" "$work/corpus" 3 3000
"$prefix/bin/speechshard" pack "$work/corpus" -o "$work/corpus.spsh" --quiet >/dev/null
# shellcheck disable=SC2046 # a list of flags
cc -o "$work/first_utterance" "$here/consumer/first_utterance.c" \
    $(pkg-config --cflags --libs speechshard-shardfmt)
for program in "$work/consumer/first_utterance" "$work/first_utterance"; do
    LD_LIBRARY_PATH=$libdir "$program" "$work/corpus.spsh" | grep -q '^speaker-0[0-2]/utterance-0000[0-2]: ' ||
        { echo "$program does not print an utterance"; exit 1; }
done

step batches
# shellcheck disable=SC2046 # a list of flags
cc -o "$work/first_batch" "$here/consumer/first_batch.c" \
    $(pkg-config --cflags --libs speechshard-loader)
for program in "$work/consumer/first_batch" "$work/first_batch"; do
    LD_LIBRARY_PATH=$libdir "$program" "$work/corpus.spsh" >"$work/batches" ||
        { echo "$program fails"; exit 1; }
    [ "$(grep -c '^speaker-0[0-2]/utterance-0000[0-2]: [0-9]* samples' "$work/batches")" = 3 ] ||
        { echo "$program does not print three utterances"; exit 1; }
done

step a recogniser
printf '%s\n' "vocabulary: $work/letters" "features: kaldi-fbank,mel_count=16" "data:" "  train: $work/corpus.spsh" \
    "  max_padded_seconds: 8" "model:" "  preset: ds2-tiny" "  hidden: 8" "train:" "  epochs: 1" >"$work/train.yaml"
"$prefix/bin/speechshard" train "$work/train.yaml" --make-vocab >/dev/null
"$prefix/bin/speechshard" train "$work/train.yaml" -o "$work/run" --quiet >/dev/null
# shellcheck disable=SC2046 # a list of flags
cc -o "$work/first_text" "$here/consumer/first_text.c" \
    $(pkg-config --cflags --libs speechshard-train)
for program in "$work/consumer/first_text" "$work/first_text"; do
    LD_LIBRARY_PATH=$libdir "$program" "$work/run" "$work/corpus.spsh" | grep -q '^[1-9][0-9]* samples: ' ||
        { echo "$program does not print a text"; exit 1; }
done

step the examples of the README
for program in first_utterance first_batch first_text; do
    sed 1d "$here/consumer/$program.c"
done >"$work/examples"
awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' "$here/../../README.md" | diff - "$work/examples" ||
    { echo "the examples in the README are not first_utterance.c, first_batch.c and first_text.c"; exit 1; }

step headers alone
flags="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$prefix/include"
for header in "$prefix"/include/speechshard/*.h; do
    printf '#include "speechshard/%s"\nextern int nothing;\n' "${header##*/}" >"$work/header.c"
    # shellcheck disable=SC2086 # a list of flags
    for language in "cc -std=c99 -x c" "cc -std=c11 -x c" "c++ -std=c++11 -x c++"; do
        $language $flags "$work/header.c" || { echo "${header##*/}: $language"; exit 1; }
    done
done

step symbols
for library in shardfmt featgen loader train; do
    if [ -e "$libdir/libspeechshard-$library.so" ]; then
        nm -D --defined-only "$libdir/libspeechshard-$library.so" >"$work/symbols"
        allowed='^spsh_[^_]'
    else # an archive shows internal names, and weak symbols of the C++ standard library
        nm -g --defined-only "$libdir/libspeechshard-$library.a" | awk '$2 !~ /^[WVu]$/' >"$work/symbols"
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
version=$(pkg-config --modversion speechshard-shardfmt)
case $version in
0.*) soversion=${version%.*} ;;
*) soversion=${version%%.*} ;;
esac
for library in "$libdir"/libspeechshard-*.so; do
    [ -e "$library" ] || continue # static
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
[ -s "$prefix/share/bash-completion/completions/speechshard" ]
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
