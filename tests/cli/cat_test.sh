#!/bin/sh
# cat_test.sh: `cat` writes what make_dataset.c expects, byte for byte.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
d=$work/d.spsh
"$make_dataset" "$d" "$work/expected" || exit 1

"$command" ls --json "$d" | sed 's/.*"id":"\([^"]*\)".*/\1/' >"$work/ids"
number=0
while read -r id; do
    run cat "$d" "$id"
    want_status 0
    want_quiet
    want_same "$work/expected/$number.wav" "$work/out"
    run cat "$d" "$id" -o "$work/file.wav"
    want_status 0
    want_empty
    want_same "$work/expected/$number.wav" "$work/file.wav"
    number=$((number + 1))
done <"$work/ids"
[ "$number" -eq 11 ] || fail "$number utterances, want 11"

run cat "$d" en/stereo --payload
want_status 0
want_quiet
want_same "$work/expected/1.bin" "$work/out"
run cat "$d" ../../escape --payload -o "$work/stored"
want_same "$work/expected/4.bin" "$work/stored"
run cat "$d" session-2 --payload
want_status 0
want_err "session-2 is samples 16000 to 40001 of the recording; its payload holds all 48000"
want_same "$work/expected/3.bin" "$work/out"
run cat "$d" session-2 --payload --quiet
want_quiet

run cat "$d" no-such-id
want_status 1
want_empty
want_err "has no utterance 'no-such-id'"
# An id without its first folders, or with a typo: the message names the nearest id.
run cat "$d" hello-world
want_status 1
want_err "d.spsh has no utterance 'hello-world'; did you mean 'en/hello-world'?"
run cat "$d" sesion-1
want_err "did you mean 'session-1'?"
run plan "$d" --show-augment hello-world --augment speed-perturb
want_status 1
want_err "did you mean 'en/hello-world'?"

# --json describes the utterance; audio is written only on request.
run cat "$d" en/hello-world --json
want_status 0
want_quiet
want_lines 1
"$command" ls --json "$d" | sed -n '1s/}$/,"output":null,"plot":null}/p' >"$work/want"
want_same "$work/want" "$work/out"
run cat "$d" en/hello-world --json -o "$work/described.wav" --plot "$work/described.svg"
want_status 0
want_out "\"output\":\"$work/described.wav\",\"plot\":\"$work/described.svg\""
want_same "$work/expected/0.wav" "$work/described.wav"
[ -s "$work/described.svg" ] || fail "no picture"
want_usage "--json and the audio" cat "$d" en/hello-world --json -o -

run cat "$d" no-such-id -o "$work/new.wav"
want_status 1
[ ! -e "$work/new.wav" ] || fail "a file for an utterance that is not there"
run cat "$d" a -o "$work/no/such/folder.wav"
want_status 1
want_err "no/such"
run cat "$d" a -o "$work"
want_status 1
want_err "Is a directory"

# An existing file is replaced at the end, completely. Pipes and devices are written directly.
echo old >"$work/old.wav"
run cat "$d" a -o "$work/old.wav"
want_same "$work/expected/8.wav" "$work/old.wav"
run cat "$d" a -o /dev/stdout
want_status 0
want_same "$work/expected/8.wav" "$work/out"
run cat "$d" a -o -
want_same "$work/expected/8.wav" "$work/out"
[ -z "$(find "$work" -name '*.tmp-*')" ] || fail "a temporary file is left"

"$command" cat "$d" session-2 2>"$work/err" | head -c 100 >"$work/out"
last="cat | head"
want_quiet

if command -v script >/dev/null; then
    run_on_terminal cat "$d" a
    want_out "standard output is a terminal; use -o FILE or a pipe"
    want_out "status 2"
fi
cli_result
