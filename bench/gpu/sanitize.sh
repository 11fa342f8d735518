#!/bin/bash
# sanitize.sh [--built FOLDER]: the tests with the label gpu under compute-sanitizer: memcheck (reads and writes out of bounds,
# leaks), racecheck (shared memory), synccheck (barriers), initcheck (memory that was never written). FOLDER: of pack.sh.
# A line for each test and tool; status 1 when any of them finds something. Takes many times as long as the tests alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=build/bench/gpu
[[ ${1:-} != --built ]] || folder=$2
folder=$(realpath "$folder")
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
found=0

while read -r name words; do
    for tool in 'memcheck --leak-check full' racecheck synccheck initcheck; do
        result=clean
        # shellcheck disable=SC2086 # words of command lines
        (cd "$folder" && timeout 600 compute-sanitizer --tool $tool --error-exitcode 99 ./$words) >"$log" 2>&1 || result=$?
        case $result in
        clean) ;;
        77) result=skipped ;;
        *)
            found=1
            tail -n 40 "$log"
            ;;
        esac
        echo "$name: ${tool%% *}: $result"
    done
done <"$folder/tests.txt"
exit "$found"
