#!/bin/sh
# frame_test.sh: the command without a dataset: help, version, wrong command lines of every
# subcommand.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"

run --version
want_status 0
grep -qE '^speechshard [0-9]+\.[0-9]+\.[0-9]+$' "$work/out" || fail "version"
want_quiet

run --help
want_status 0
want_quiet
for subcommand in pack info ls cat verify repair export overlay; do
    grep -q "^  $subcommand " "$work/out" || fail "--help does not list $subcommand"
done
# shellcheck disable=SC2013 # split into words on purpose
for subcommand in $(awk '/^$/ { on = 0 } on { print $1 } /^Commands:/ { on = 1 }' "$work/out"); do
    run "$subcommand" --help
    want_status 0
    want_quiet
    want_out "usage: speechshard $subcommand "
    want_out "Options:"
    want_out "--quiet"
    want_out "Examples:"
    want_out "  speechshard $subcommand "
    if awk 'length > 100' "$work/out" | grep -q .; then fail "a line of more than 100 columns"; fi
    run "$subcommand" --version
    want_status 0
    want_out "speechshard "
    want_usage "unknown option '--no-such-thing'" "$subcommand" --no-such-thing
    if [ "$subcommand" = env ]; then continue; fi # needs nothing
    want_usage "see 'speechshard $subcommand --help'" "$subcommand"
done

want_usage "a command is missing"
want_usage "unknown command 'pakc'; did you mean 'pack'?" pakc
want_usage "unknown command 'zzz'" zzz
want_usage "unknown option '--versoin'; did you mean '--version'?" --versoin

want_usage "info: DATASET is missing" info
want_usage "info: unexpected argument 'two'" info one two
want_usage "unknown option '--jsno'; did you mean '--json'?" info --jsno x
want_usage "--json takes no value" info --json=yes x
want_usage "unknown option '-x'" ls -x
want_usage "-n, --limit needs a value: N" ls x -n
want_usage "--limit: 'many' is not a whole number" ls x --limit many
want_usage "--limit: '-1' is not a whole number" ls x --limit=-1
want_usage "cat: ID is missing" cat x
want_usage "--output: FILE must not be empty" cat x y -o ""
want_usage "--to is missing; it is wav, files, or webdataset" export x -o y
want_usage "-o DIRECTORY is missing" export x --to wav
want_usage "--to: 'mp3' is not wav, files or webdataset" export x --to mp3 -o y
want_usage "did you mean 'webdataset'?" export x --to webdatset -o y
want_usage "--shard-size: '1Q' is not a size, such as 512M or 1G" export x --to wav -o y --shard-size 1Q
want_usage "--shard-size: 1 is out of range; it must be 64K to 1T" export x --to wav -o y --shard-size 1
want_usage "unknown action 'lsit'; did you mean 'list'?" overlay x lsit
want_usage "add needs the NAME of an overlay" overlay x add --skip y
want_usage "remove needs the NAME of an overlay" overlay x remove
want_usage "add needs either --skip FILE or --transcript FILE" overlay x add name
want_usage "add needs either --skip FILE or --transcript FILE" overlay x add name --skip a --transcript b
want_usage "--skip and --transcript belong to 'add NAME'" overlay x --skip a
want_usage "unexpected argument 'name' after list" overlay x list name

# Inputs that are not datasets: exit 1, and the message names them.
mkdir "$work/folder"
: >"$work/file"
for subcommand in info ls overlay; do
    for path in "$work/missing" "$work/folder" "$work/file"; do
        run "$subcommand" "$path"
        want_status 1
        want_empty
        want_err "$path"
    done
done
run cat "$work/missing" id
want_status 1
want_err "$work/missing"
run export "$work/missing" --to wav -o "$work/exported"
want_status 1
want_err "$work/missing"
[ ! -e "$work/exported" ] || fail "an output directory without a dataset"

# Standard output that cannot be written is a failure.
if [ -w /dev/full ]; then
    status=0
    "$command" --help >/dev/full 2>"$work/err" || status=$?
    last="--help >/dev/full"
    want_status 1
    want_err "standard output: No space left on device"
fi
cli_result
