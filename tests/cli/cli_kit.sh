# cli_kit.sh: helpers that the tests of the command share. Sourced; needs SPEECHSHARD_COMMAND and
# SPEECHSHARD_BUILD_DIR.
#
#     run ls "$work/d.spsh"         output in $work/out and $work/err, exit status in $status
#     want_status 0                 and so on; a failed check is reported and counted
#     cli_result

# shellcheck shell=sh disable=SC2034 # used where this is sourced
set -u
locale=${LC_ALL:-C.UTF-8} # of the command; CTest sets one with a decimal comma
export LC_ALL=C
command=${SPEECHSHARD_COMMAND:?}
make_dataset=${SPEECHSHARD_BUILD_DIR:?}/tests/make_dataset
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
status=0
last=
tab=$(printf '\t')

fail() {
    echo "FAILED: $last: $*" >&2
    failures=$((failures + 1))
}

run() {
    last="speechshard $*"
    status=0
    LC_ALL=$locale "$command" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# Run on a terminal of 60 columns: both streams go to $work/out, with CR LF at line ends.
run_on_terminal() {
    last="(terminal) speechshard $*"
    quoted=
    for word in "$@"; do
        quoted="$quoted '$word'"
    done
    TERM=xterm script -qec "stty cols 60; '$command' $quoted; echo status \$?" /dev/null >"$work/out" </dev/null
}

want_status() {
    [ "$status" -eq "$1" ] || fail "exit status $status, want $1; $(cat "$work/err")"
}

want_out() { # want_out TEXT: a line of standard output contains TEXT
    grep -qF -e "$1" "$work/out" || fail "no '$1' in the output: $(head -c 2000 "$work/out")"
}

want_no_out() {
    if grep -qF -e "$1" "$work/out"; then fail "'$1' is in the output"; fi
}

want_lines() { # want_lines N: N lines on standard output
    lines=$(wc -l <"$work/out")
    [ "$lines" -eq "$1" ] || fail "$lines lines, want $1"
}

want_err() { # a line on standard error holds it, and each line has the prefix
    grep -qF -e "$1" "$work/err" || fail "no '$1' in the messages: $(cat "$work/err")"
    if grep -qv '^speechshard: ' "$work/err"; then fail "a message without prefix: $(cat "$work/err")"; fi
}

want_quiet() { # nothing on standard error
    [ ! -s "$work/err" ] || fail "unexpected message: $(cat "$work/err")"
}

want_empty() { # nothing on standard output
    [ ! -s "$work/out" ] || fail "unexpected output: $(head -c 500 "$work/out")"
}

want_same() { # want_same FILE FILE
    cmp "$1" "$2" >&2 || fail "$1 and $2 differ"
}

# A wrong command line: exit 2, nothing on standard output, a message that helps.
want_usage() { # want_usage TEXT ARGUMENT...
    text=$1
    shift
    run "$@"
    want_status 2
    want_empty
    want_err "$text"
}

cli_result() {
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
