#!/bin/bash
# The cost of a frame of features, by our library, kaldi-native-fbank, torchaudio, Whisper, and
# librosa.
#
#     bench/features/run.sh BUILD CORPUS SCRATCH [RUNS [PYTHON [KNF KISSFFT]]] \
#         > bench/results/features.json
#
# BUILD is a release build with -DBUILD_SHARED_LIBS=ON -DSPEECHSHARD_BUILD_BENCH=ON; CORPUS a folder
# of FLAC files of 16 kHz; SCRATCH a folder for the programs compiled here. PYTHON (python3) has
# numpy, soundfile, kaldi_native_fbank, torch, torchaudio, librosa, and openai-whisper. KNF and
# KISSFFT are the sources of kaldi-native-fbank and of its FFT. Both are compiled for this
# processor, with all its instructions, so that neither Python nor an old instruction set slows
# them. Without them, only the Python package is timed. feature_peers.py describes the measurement.
# bench_featgen measures our time in the Fourier transform on the same files, which is the limit of
# any implementation.
set -euo pipefail
build=$1
corpus=$2
scratch=$3
runs=${4:-9}
python=${5:-python3}
knf=${6:-}
kissfft=${7:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$scratch/bench-features-XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
options=(--runs "$runs")

if [ -n "$knf" ]; then
    for name in kiss_fft kiss_fftr; do
        cc -O3 -DNDEBUG -march=native -fPIC -I "$kissfft" -c "$kissfft/$name.c" -o "$work/$name.o"
    done
    sources=()
    for name in feature-fbank feature-functions feature-mfcc feature-raw-audio-samples feature-window kaldi-math \
        mel-computations online-feature rfft whisper-feature; do
        sources+=("$knf/kaldi-native-fbank/csrc/$name.cc")
    done
    c++ -std=c++17 -O3 -DNDEBUG -march=native -fPIC -shared -I "$knf" -I "$kissfft" "$here/knf.cc" "${sources[@]}" \
        "$work"/kiss_fft*.o -o "$work/libknf.so"
    options+=(--knf "$work/libknf.so")
fi

find "$corpus" -name '*.flac' | sort | awk 'NR % 7 == 1' >"$work/files" # as feature_peers.py takes them of 351
xargs -d '\n' "$build/bench/bench_featgen" <"$work/files" >"$work/transform"
machine="$(uname -m), $(getconf _NPROCESSORS_ONLN) cores,$(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1), $(uname -sr)"
jq -n --arg machine "$machine" --arg command "bench/features/run.sh BUILD CORPUS SCRATCH $runs PYTHON KNF KISSFFT" \
    --arg compiler "$(c++ --version | head -n 1)" '{machine: $machine, command: $command, compiler: $compiler}' >"$work/head"
"$python" "$here/feature_peers.py" "$build/featgen/libspeechshard-featgen.so" "$corpus" "${options[@]}" \
    --head "$work/head" --transform "$work/transform"
