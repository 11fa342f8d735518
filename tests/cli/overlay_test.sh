#!/bin/sh
# overlay_test.sh: edits are made, listed, in force everywhere, and undone.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
d=$work/d.spsh
"$make_dataset" "$d" "$work/expected" || exit 1
"$command" ls --json "$d" >"$work/before"

run overlay "$d"
want_status 0
want_empty
printf 'session-1\ttoo loud\nen/float\n\nno-such\tx\n' >"$work/skip.tsv"
run overlay "$d" add bad-audio --skip "$work/skip.tsv"
want_status 0
want_empty
want_err "has no utterance 'no-such'"
want_err "1 of 3 ids are no utterance"
want_err "added overlay bad-audio: skips of 3 utterances"
printf '\357\273\277en/hello-world\tHello "new" world\r\nsession/3\t\n' >"$work/text.tsv"
run overlay "$d" add review.1 --transcript "$work/text.tsv" --quiet
want_status 0
want_quiet

run overlay "$d" list
printf 'bad-audio\tskip\t3\nreview.1\ttranscript\t2\n' >"$work/want"
want_same "$work/want" "$work/out"
run overlay "$d" --json
want_out '{"name":"bad-audio","type":"skip","entries":3}'
run info --json "$d"
tr -d ' \n' <"$work/out" >"$work/flat"
cp "$work/flat" "$work/out"
want_out '"generation":3'
want_out '{"name":"review.1","type":"transcript","entries":2}'
run info "$d"
want_out "overlay    bad-audio, skip, 3 utterances"

run ls --json "$d"
want_lines 11
want_out '"text":"Hello \"new\" world"'
want_out '"skipped":true,"skip_reason":"too loud"'
want_out '"skipped":true,"skip_reason":""'
[ "$(grep -c '"skipped":true' "$work/out")" -eq 2 ] || fail "want 2 skipped"
run export "$d" --to wav -o "$work/wav"
want_err "2 are skipped by an overlay and were left out"
[ ! -e "$work/wav/session-1.wav" ] || fail "a skipped utterance was exported"
cp "$work/wav/manifest.csv" "$work/out"
want_out '"Hello ""new"" world"'

# Names in use, tables that are none.
run overlay "$d" add bad-audio --skip "$work/skip.tsv"
want_status 1
want_err "bad-audio"
run overlay "$d" add ../evil --skip "$work/skip.tsv"
want_status 1
[ ! -e "$d/evil.spsh" ] || fail "a name that leaves the folder"
printf 'a\ttext\nb\n' >"$work/bad.tsv"
run overlay "$d" add x --transcript "$work/bad.tsv"
want_status 1
want_err "bad.tsv: line 2: the transcript is missing"
printf 'a\tb\tc\n' >"$work/bad.tsv"
run overlay "$d" add x --skip "$work/bad.tsv"
want_status 1
want_err "bad.tsv: line 1: more than two fields"
printf 'a\t\377\n' >"$work/bad.tsv"
run overlay "$d" add x --skip "$work/bad.tsv"
want_status 1
want_err "bad.tsv: line 1: not UTF-8"
printf 'a\na\n' >"$work/bad.tsv"
run overlay "$d" add x --skip "$work/bad.tsv"
want_status 1
: >"$work/bad.tsv"
run overlay "$d" add x --skip "$work/bad.tsv"
want_status 1
want_err "no line with an id"
run overlay "$d" add x --skip "$work/no-such.tsv"
want_status 1
want_err "no-such.tsv"
run overlay "$d" remove x
want_status 1
want_err "x"

# Undone: the view before.
run overlay "$d" remove bad-audio
want_status 0
want_err "removed overlay bad-audio"
run overlay "$d" remove review.1
want_status 0
run overlay "$d"
want_empty
run ls --json "$d"
want_same "$work/before" "$work/out"
cli_result
