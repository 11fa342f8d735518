# shellcheck shell=bash disable=SC2034 # the variables are for those who source it
# pack_kit.sh: functions of the pack tests. Sourced; needs SPEECHSHARD_COMMAND and
# SPEECHSHARD_BUILD_DIR.
#
# A failed check is reported and counted; pack_result exits.

set -u
command=${SPEECHSHARD_COMMAND:?}
make_corpus=${SPEECHSHARD_BUILD_DIR:?}/tests/make_corpus
# Use memory if there is enough: thousands of packs would each wait for the disk.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -n 1)" -gt 1000000 ]; then
    export TMPDIR=/dev/shm
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# Names and contents of every file of a dataset, as one hash. Unfinished state counts as a
# difference.
digest() {
    (cd "$1" && find . -type f -print | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum | cut -d' ' -f1)
}

# check_same A B WHAT
check_same() {
    [ "$(digest "$1")" = "$(digest "$2")" ] || {
        fail "$3: $1 and $2 differ"
        diff -rq "$1" "$2" >&2
    }
}

pack_result() {
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
