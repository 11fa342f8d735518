# shellcheck shell=sh disable=SC2034 # used by scripts that source this file
# Helpers of the golden tests: `. golden_kit.sh` sets $here, and $work, which is removed at the end.
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find_python() { # find_python 'MODULE, MODULE': set $python to an interpreter with these modules, or skip the test
    for python in python3 /usr/bin/python3; do
        "$python" -c "import $1" 2>/dev/null && return
    done
    echo "python3 with $1 is missing"
    exit 77
}

same() { # same EXPECTED FOUND: fail and print the first lines that differ
    diff "$1" "$2" | cut -c 1-300 | head -n 20
    cmp "$1" "$2"
}
