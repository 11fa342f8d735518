#!/bin/sh
# ls_test.sh: `ls` as TAB-separated lines, as JSON lines, on a terminal, into a closed pipe.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
d=$work/d.spsh
"$make_dataset" "$d" "$work/expected" || exit 1

run ls "$d"
want_status 0
want_quiet
cat >"$work/want" <<END
en/hello-world${tab}0.125${tab}8000${tab}en${tab}train${tab}Hello, world
en/stereo${tab}0.010${tab}44100${tab}en${tab}test${tab}He said "yes", then left.
en/float${tab}0.049${tab}16000${tab}en${tab}${tab}
session-1${tab}1.000${tab}16000${tab}talks${tab}train${tab}one
session-2${tab}1.500${tab}16000${tab}talks${tab}train${tab}two
session/3${tab}0.500${tab}16000${tab}talks${tab}train${tab}
copy-of-hello${tab}0.125${tab}8000${tab}fr${tab}train${tab}Bonjour
../../escape${tab}0.312${tab}16000${tab}talks${tab}test${tab}$(printf '\033')[31mred
a${tab}0.015${tab}8000${tab}fr${tab}train${tab}a
a.wav/b${tab}0.015${tab}8000${tab}fr${tab}train${tab}b
über uns${tab}0.007${tab}48000${tab}de${tab}test${tab}Straße
END
want_same "$work/want" "$work/out"

run ls "$d" --domain talks
want_lines 4
run ls "$d" --domain talks --split train --offset 1 --limit 1
want_status 0
want_lines 1
want_out "session-2"
run ls "$d" --offset 9
want_lines 2
want_out "über uns"
run ls "$d" --offset 100
want_status 0
want_lines 0
run ls "$d" --limit 0
want_lines 0
want_usage "--domain: there is no domain 'klingon'" ls "$d" --domain klingon
want_err "there is en, talks, fr, de"
want_usage "--split: there is no split 'dev'" ls "$d" --split dev

run ls --json "$d"
want_status 0
want_quiet
want_lines 11
line=$(sed -n 1p "$work/out")
for member in '"id":"en/hello-world"' '"domain":"en"' '"split":"train"' '"speaker":"Allison"' \
    '"text":"Hello, world"' '"language":"en"' '"sample_rate_hz":8000' '"samples":1000' '"channels":1' \
    '"codec":"wav"' '"recording":"en/hello-world"' '"start_sample":0' '"duplicate_of":null' \
    '"source":"audio/en/hello-world"' '"document":"prompts"' '"extras":{"accent":"us","age":"30s"}' \
    '"nominal_sample_rate_hz":8000' '"shard":"000000-000.spsh"' '"skipped":false' '"seconds":0.125'; do
    case $line in *"$member"*) ;; *) fail "no $member in $line" ;; esac
done
hash=$(printf '%s\n' "$line" | sed -n 's/.*"pcm_hash":"\([0-9a-f]\{32\}\)".*/\1/p')
[ -n "$hash" ] || fail "no pcm_hash"
line=$(sed -n 7p "$work/out") # the copy: its own transcript, the audio of the original
for member in '"id":"copy-of-hello"' '"text":"Bonjour"' '"duplicate_of":"en/hello-world"' \
    "\"pcm_hash\":\"$hash\"" '"recording":"en/hello-world"' '"speaker":null' '"extras":{}'; do
    case $line in *"$member"*) ;; *) fail "no $member in $line" ;; esac
done
line=$(sed -n 3p "$work/out")
case $line in *'"text":null'*'"split":null'*) ;; *) fail "unlabelled: $line" ;; esac
line=$(sed -n 6p "$work/out")
case $line in *'"text":""'*'"start_sample":40001'*) ;; *) fail "segment: $line" ;; esac
want_out '"text":"He said \"yes\",\nthen\tleft."'
want_out '"text":"\u001B[31mred"'
want_out '"channels":2,"codec":"wav"'
want_out '"codec":"flac"'
want_out '"codec":"pcm"'

# A reader that closes the pipe ends the command without a message.
(
    "$command" ls "$d" 2>"$work/err"
    echo $? >"$work/status"
) | head -n 1 >"$work/out"
last="ls | head"
want_lines 1
want_quiet
(
    trap '' PIPE
    i=0
    while [ $i -lt 200 ]; do
        "$command" ls --json "$d" || break
        i=$((i + 1))
    done 2>"$work/err"
) | head -n 1 >"$work/out"
want_quiet

# With closed streams, files that are opened next must not take their descriptors.
last="ls >&-"
status=0
"$command" ls "$d" >&- 2>"$work/err" || status=$?
want_status 1
want_err "standard output: "
last="export 2>&-"
status=0
"$command" export "$d" --to wav -o "$work/closed" 2>&- 0>&- || status=$?
: >"$work/err"
want_status 0
"$command" export -q "$d" --to wav -o "$work/open"
diff -r "$work/closed" "$work/open" || fail "messages went into a file"

if command -v script >/dev/null; then
    run_on_terminal ls "$d" --domain talks
    esc=$(printf '\033')
    want_no_out "${esc}[31m"
    want_out "?[31mred"
    want_out "session-2     1.50 s  16000 Hz  talks  train  two"
    want_out "status 0"
    run_on_terminal ls "$d" --domain en
    want_out 'He said "ye'
    want_out '…'
    want_no_out 'left.'
fi
cli_result
