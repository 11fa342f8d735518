#!/bin/sh
# Installs the required packages, builds, and runs the tests.
#
#     tools/test.sh [PRESET [CTEST-ARGUMENT...]]         (default: release, all but `gpu` and
#                                                        `nightly`)
#     tools/test.sh debug -L smoke                       fast tests over all libraries, with
#                                                        assertions
#
# `-L smoke`, `-L thread`, and `-L program` build only the programs that these tests run; further
# arguments may follow. SPEECHSHARD_TEST_CUDA="80;90" builds the plug-in only for these
# architectures.
#
# The last line is `N passed, N failed, N skipped`. Tests that read real speech look for it in
# $SPEECHSHARD_TEST_DATA, or else in ../shared/data next to the source tree. Without it they are
# skipped; with SPEECHSHARD_REQUIRE_DATA=1 they fail.
set -eu
cd "$(dirname "$0")/.."

preset=${1:-release}
[ $# -eq 0 ] || shift
[ $# -ne 0 ] || set -- --label-exclude '^(gpu|nightly)$'
target=all
case "$*" in "-L smoke"* | "-L thread"* | "-L program"*) target=$2_tests ;; esac
build=build/$preset
jobs=$(nproc)

groups="build test"
case $preset in *clang*) groups="$groups lint" ;; esac
# shellcheck disable=SC2086 # a list of groups
tools/install-deps.sh $groups
tools/install-python.sh pyarrow kubernetes

# The quick start may have left build/release without tests and code for GPUs.
options=
[ "$preset" != release ] || options="-DBUILD_TESTING=ON -DSPEECHSHARD_CUDA=AUTO"
# shellcheck disable=SC2086 # a list of options
configured=$(cmake --preset "$preset" $options \
    ${SPEECHSHARD_TEST_CUDA:+"-DSPEECHSHARD_CUDA_ARCHITECTURES=$SPEECHSHARD_TEST_CUDA"})
printf '%s\n' "$configured" | grep 'CUDA plug-in' # built, or why not
cmake --build "$build" --parallel "$jobs" --target "$target"
if [ "$target" = all ]; then # each public header must compile alone
    cmake --build "$build" --parallel "$jobs" --target all_verify_interface_header_sets
fi

# The report lists the tests that ran and passed. The list of failures also names tests that could
# not be started.
report=$PWD/$build/ctest.xml
failures=$build/Testing/Temporary/LastTestsFailed.log
rm -f "$report" "$failures"
status=0
# One more job than cores, because tests of several processes mostly wait.
ctest --test-dir "$build" --parallel "$((jobs + 1))" --output-on-failure --output-junit "$report" \
    "$@" || status=$?

if [ ! -s "$report" ]; then
    echo "test.sh: ctest left no report" >&2
    exit 1
fi
total=$(grep -c '<testcase ' "$report" || true)
passed=$(grep -c '<testcase .*status="run"' "$report" || true)
failed=0
[ ! -e "$failures" ] || failed=$(wc -l <"$failures")
echo "$passed passed, $failed failed, $((total - passed - failed)) skipped"
[ "$status" -eq 0 ] && [ "$failed" -eq 0 ] && [ "$total" -gt 0 ]
