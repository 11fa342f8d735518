#!/bin/bash
# Checks that .ci/run omits because they are slow and rarely fail: tests with the label `nightly`,
# clang-tidy over all files, the ABI compared with the last release, all other tests under
# AddressSanitizer and UBSan, and new inputs for each fuzz target. They take some hours on two
# cores. As .ci/run, this ends with a table of the steps and `N passed, N failed, N skipped`.
#
#     tools/nightly.sh [STEP...]      nightly tidy abi asan fuzz; none given: all of them
#
#     TIDY_NODES     maximum steps of clang-tidy's analyzer per function (30000)
#     FUZZ_SECONDS   seconds per fuzz target (300)
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
source .ci/steps.sh

# Compare the libraries with the libraries of the commit in tests/lint/abi-baseline.txt. Both build
# folders have the same names below their trees, so that ccache finds the objects.
check_abi() {
    local old=build/abi/source commit
    commit=$(sed '/^#/d' tests/lint/abi-baseline.txt)
    rm -rf build/abi && mkdir -p "$old" && git archive "$commit" | tar -x -C "$old" &&
        cmake -S "$old" --preset release -DBUILD_TESTING=OFF -DSPEECHSHARD_CUDA=OFF -DSPEECHSHARD_BUILD_PYTHON=OFF &&
        cmake --build "$old/build/release" && cmake --install "$old/build/release" --prefix build/abi/old &&
        cmake --preset release && cmake --build build/release && cmake --install build/release --prefix build/abi/new &&
        sh tests/lint/check-abi.sh build/abi/old build/abi/new
}

# Build with the benchmarks, so that both compilers check all code.
check_asan() {
    cmake --preset asan-clang -DSPEECHSHARD_BUILD_BENCH=ON &&
        tools/test.sh asan-clang -LE '^(gpu|nightly|lint)$'
}

build_fuzzers() {
    cmake --preset asan-clang && cmake --build build/asan-clang --parallel "$(nproc)" --target fuzzers
}

[ $# -gt 0 ] || set -- nightly tidy abi asan fuzz
begin_steps
tools/install-deps.sh build test lint nightly
for name in "$@"; do
    case $name in
    nightly) step nightly env SPEECHSHARD_TEST_CUDA='80;90' tools/test.sh release -L nightly -LE '^gpu$' ;;
    tidy) step tidy check_tidy ;;
    abi) step abi check_abi ;;
    asan) step asan check_asan ;;
    fuzz) step fuzz-build build_fuzzers && step fuzz run_fuzzers "${FUZZ_SECONDS:-300}" -1 0 ;;
    *) echo "nightly.sh: no step $name" >&2 && exit 2 ;;
    esac
done
end_steps
