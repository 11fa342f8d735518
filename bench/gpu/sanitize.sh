#!/bin/bash
# sanitize.sh [--built FOLDER|ARCHIVE] [--minutes M] [--tests NAME,...] [--tools
# memcheck,racecheck,synccheck,initcheck]: the tests with the label gpu under compute-sanitizer:
# reads and writes out of bounds and leaks (memcheck), shared memory (racecheck), barriers
# (synccheck), uninitialized memory (initcheck); by default the first two. A line for each test and
# tool with its findings; status 1 if there are any. Each run takes many times as long as the test
# itself: it gets BOUND_S seconds (240), and after M minutes (9) no run begins. FOLDER or ARCHIVE
# comes from gpu_pack.sh; without --built, build/bench/gpu from all.sh.
set -euo pipefail
root=$(dirname "$(realpath "$0")")/../..

built=$root/build/bench/gpu minutes=9 only='' tools=memcheck,racecheck
while [[ $# -gt 0 ]]; do
    case $1 in
    --built) built=$(realpath "$2") && shift 2 ;;
    --minutes) minutes=$2 && shift 2 ;;
    --tests) only=,$2, && shift 2 ;;
    --tools) tools=$2 && shift 2 ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
done
command -v compute-sanitizer >/dev/null || { echo "sanitize.sh: no compute-sanitizer in PATH" >&2; exit 1; }
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -f $built ]]; then
    tar -C "$work" -xJf "$built"
    built=$work/gpu
fi
built=$(realpath "$built")
libraries=$(python3 bench/gpu/packed.py "$built")
end=$((SECONDS + minutes * 60))
found=0

for tool in ${tools//,/ }; do
    options=(--tool "$tool" --error-exitcode 99)
    [[ $tool != memcheck ]] || options+=(--leak-check full)
    while read -r name words; do
        [[ -z $only || $only == *,$name,* ]] || continue
        left=$((end - SECONDS < ${BOUND_S:-240} ? end - SECONDS : ${BOUND_S:-240}))
        if ((left <= 0)); then
            echo "$name: $tool: not run: no time was left"
            continue
        fi
        result=clean
        # shellcheck disable=SC2086 # words of a command line
        (cd "$built" && LD_LIBRARY_PATH=$libraries timeout -k 5 "$left" compute-sanitizer "${options[@]}" ./$words) \
            >"$work/log" 2>&1 </dev/null || result=$?
        case $result in
        clean) ;;
        77) result=skipped ;;
        124 | 137) result="stopped after $left s" ;;
        *)
            found=1
            tail -n 40 "$work/log"
            result="failed ($result)"
            ;;
        esac
        echo "$name: $tool: $result"
    done <"$built/tests.txt"
done
exit "$found"
