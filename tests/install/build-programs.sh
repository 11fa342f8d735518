#!/bin/sh
# build-programs.sh PREFIX WORK: programs outside the tree can be built against an installed
# speechshard.
#
# Packs the folder WORK/corpus and trains a small model on it with the installed command. Builds
# each program of consumer/programs.txt by CMake and by pkg-config, as C11 and as C++17, and runs
# it.
set -eu

prefix=$1
work=$2
consumer=$(cd "$(dirname "$0")/consumer" && pwd)
libdir=$(dirname "$(find "$prefix" -name 'libspeechshard-shardfmt.*' | head -n 1)")
export PKG_CONFIG_PATH="$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
if [ -e "$libdir/libspeechshard-shardfmt.so" ]; then # shared libraries need no other package
    export PKG_CONFIG_LIBDIR="$libdir/pkgconfig" PKG_CONFIG_PATH=
fi

"$prefix/bin/speechshard" pack "$work/corpus" -o "$work/corpus.spsh" --quiet >/dev/null
printf '%s\n' "vocabulary: $work/letters" "features: kaldi-fbank,mel_count=16" "data:" "  train: $work/corpus.spsh" \
    "  max_padded_seconds: 8" "model:" "  preset: ds2-tiny" "  hidden: 8" "train:" "  epochs: 1" >"$work/train.yaml"
"$prefix/bin/speechshard" train "$work/train.yaml" --make-vocab >/dev/null
"$prefix/bin/speechshard" train "$work/train.yaml" -o "$work/run" --quiet >/dev/null

cmake -S "$consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" ||
    { cat "$work/cmake.log"; exit 1; }
cmake --build "$work/cmake" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }

mkdir "$work/pkg-config"
grep '^[a-z]' "$consumer/programs.txt" | while read -r program library count expected arguments; do
    flags=$(pkg-config --cflags --libs "speechshard-$library")
    # shellcheck disable=SC2086 # a list of flags
    cc -std=c11 -o "$work/pkg-config/$program-c11" "$consumer/$program.c" $flags
    # shellcheck disable=SC2086 # a list of flags
    c++ -std=c++17 -o "$work/pkg-config/$program-c++17" -x c++ "$consumer/$program.c" -x none $flags
    for built in "$work"/cmake/"$program"-c* "$work"/pkg-config/"$program"-c*; do
        mkdir "$work/here"
        # shellcheck disable=SC2086 # a list of arguments
        (cd "$work/here" && LD_LIBRARY_PATH=$libdir "$built" $arguments </dev/null) >"$work/output" ||
            { echo "$built fails"; exit 1; }
        [ "$(grep -c -e "$expected" "$work/output")" = "$count" ] ||
            { cat "$work/output"; echo "$built does not print $count lines like '$expected'"; exit 1; }
        rm -r "$work/here"
    done
    echo "   $program: C11 and C++17, by CMake and pkg-config"
done
