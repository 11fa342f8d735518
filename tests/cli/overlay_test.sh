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
want_err "1 of 3 ids are not in"
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

# ls lists served utterances; --all lists and marks the others. info, plan and ls agree.
run ls "$d"
want_lines 9
want_no_out "session-1"
run ls --json "$d"
want_lines 9
want_no_out '"skipped":true'
run ls "$d" --all
want_lines 11
want_out "session-1${tab}1.000${tab}16000${tab}talks${tab}train${tab}skipped${tab}one"
want_out "session-2${tab}1.500${tab}16000${tab}talks${tab}train${tab}${tab}two"
run_on_terminal ls "$d" --all
want_out "skipped  one"
run ls "$d" --offset 3 --limit 1
want_lines 1
want_out "session/3"
run ls "$d" --domain talks --offset 1 --limit 1
want_lines 1
want_out "session/3"
run info "$d"
want_out "served           9"
want_out "skipped          2  by overlays"
run info --json "$d"
want_out '"utterances": 11,'
want_out '"served": 9,'
want_out '"skipped": 2,'
run plan "$d"
want_out "in the datasets"
want_out "9 served, 2 skipped by overlays"
run plan --json "$d" --domain talks
want_out '"all": 11,'
want_out '"served": 9,'
want_out '"skipped": 2,'

run ls --all --json "$d"
want_lines 11
want_out '"text":"Hello \"new\" world"'
want_out '"skipped":true,"skip_reason":"too loud"'
want_out '"skipped":true,"skip_reason":""'
[ "$(grep -c '"skipped":true' "$work/out")" -eq 2 ] || fail "want 2 skipped"
run export "$d" --to wav -o "$work/wav"
want_err "2 are skipped by an overlay and were omitted"
[ ! -e "$work/wav/session-1.wav" ] || fail "a skipped utterance was exported"
cp "$work/wav/manifest.csv" "$work/out"
want_out '"Hello ""new"" world"'

# Names in use, and files that are not tables.
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

# Ids of another dataset: nothing is added.
cp "$d/manifest.spsh" "$work/manifest"
printf 'no-such\nnobody\tx\n' >"$work/strange.tsv"
run overlay "$d" add strange --skip "$work/strange.tsv"
want_status 1
want_err "has no utterance 'no-such'"
want_err "has no utterance 'nobody'"
want_err "none of the 2 ids is in the dataset; nothing was added"
run overlay "$d" add strange --transcript "$work/bad.tsv"
want_status 1
want_same "$work/manifest" "$d/manifest.spsh"
[ ! -e "$d/overlays/strange.spsh" ] || fail "an overlay of unknown ids was written"

# The name of a removed overlay can be given again.
for value in one two; do
    printf 'session/3\t%s\n' "$value" >"$work/again.tsv"
    run overlay "$d" add again --skip "$work/again.tsv"
    want_status 0
    run overlay "$d"
    want_out "again${tab}skip${tab}1"
    run info --json "$d"
    want_out '"name": "again",'
    run ls --all --json "$d"
    want_out "\"skip_reason\":\"$value\""
    run verify "$d"
    want_status 0
    run overlay "$d" remove again
    want_status 0
done
run overlay "$d" add again..2 --skip "$work/again.tsv"
want_status 1
want_err "must not end with"

# Files of a killed writer are named, and the next writer removes them. Files of a live writer stay.
: >"$d/overlays/x.spsh.tmp-1-0"
: >"$d/manifest.spsh.tmp-1-0"
mkdir "$d/repair.tmp"
left="overlays/x.spsh.tmp-1-0 manifest.spsh.tmp-1-0 repair.tmp"
check_named() { # check_named FUNCTION: want_out or want_no_out
    run info "$d"
    for name in $left; do "$1" "leftover   $name"; done
    run info --json "$d"
    for name in $left; do "$1" "\"$name\""; done
    run verify --json "$d"
    for name in $left; do "$1" "\"file\":\"$name\"}"; done
    run verify "$d"
    want_status 0
    cp "$work/err" "$work/out"
    for name in $left; do "$1" "$d/$name: left by a killed command"; done
}
check_named want_out
exec 9>"$d/.lock"
if flock -x 9 2>/dev/null; then
    check_named want_no_out
    run overlay "$d" remove review.1
    want_status 1
    want_err "another command is writing to it"
    run repair "$d" --in-place
    want_status 0
    for name in $left; do [ -e "$d/$name" ] || fail "$name of a live writer is gone"; done
fi
exec 9>&-

# Undone: the view before.
run overlay "$d" remove bad-audio
want_status 0
want_err "removed overlay bad-audio"
for name in $left .lock; do [ ! -e "$d/$name" ] || fail "$name is still there"; done
run overlay "$d" remove review.1
want_status 0
run overlay "$d"
want_empty
run ls --json "$d"
want_same "$work/before" "$work/out"
cli_result
