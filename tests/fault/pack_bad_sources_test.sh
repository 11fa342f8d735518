#!/bin/bash
# Files that users' folders contain: each bad file is named with its reason, and all others are
# packed.
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"

"$make_corpus" "$work/corpus" 6
c=$work/corpus
good=$c/speaker-00/utterance-00000.wav

: >"$c/empty.wav"
printf 'RIFF' >"$c/tiny.wav"
printf '<html><body>404 Not Found</body></html>%400s' ' ' >"$c/page.mp3"
head -c 500 /dev/zero >"$c/zeros.flac"
head -c 700 "$good" >"$c/cut.wav"
{ head -c 40 "$good"; printf '\x00\x00\x10\x00'; tail -c +45 "$good"; } >"$c/lying.wav"
{ printf 'FORM\0\0\1\0AIFFCOMM'; head -c 600 /dev/zero; } >"$c/other.wav"
head -c 44 "$good" | { head -c 40; printf '\0\0\0\0'; } >"$c/no-samples.wav"
mkfifo "$c/pipe.wav"
ln -s nowhere.wav "$c/broken-link.wav"
ln -s . "$c/loop"
mkdir "$c/odd"
cp "$good" "$c/odd/"$'new\nline.wav'
cp "$good" "$c/odd/"$'not-utf8-\xff\xfe.wav'
cp "$good" "$c/odd/  blanks .wav"
printf 'text with \xff bytes' >"$c/odd/bad-text.txt"
cp "$good" "$c/odd/bad-text.wav"
printf '\xef\xbb\xbfwith a mark\r\n' >"$c/odd/  blanks .txt"
: >"$c/odd/"$'new\nline.txt'
# A recorder that writes as it goes sets no end-of-stream flag: whole pages are a whole recording.
no_end=$(dirname "$0")/../golden/audio/chirp-no-end.opus
cp "$no_end" "$c/no-end.opus"
head -c -1 "$no_end" >"$c/no-end-cut.opus"

timeout 600 "$command" pack "$c" -o "$work/out" --quiet >"$work/report" 2>"$work/message" ||
    fail "exit status: $(cat "$work/message")"
"$command" verify "$work/out" --quiet >/dev/null || fail "verify"

# reason FILE REASON: the reject that names FILE gives REASON
reason() {
    grep -F "\"source\":\"$1\"" "$work/out/reports/rejects.jsonl" | grep -qF "\"reason\":\"$2\"" ||
        fail "$1 is not rejected as $2: $(grep -F "$1" "$work/out/reports/rejects.jsonl")"
}
reason empty.wav empty_file
reason tiny.wav tiny_file
reason page.mp3 not_audio
reason zeros.flac not_audio
reason cut.wav truncated
reason lying.wav truncated
reason other.wav unsupported_codec
reason no-samples.wav zero_duration
reason pipe.wav not_regular
reason broken-link.wav unreadable
reason odd/bad-text.wav text_invalid_utf8
reason no-end-cut.opus truncated
grep -F no-end-cut.opus "$work/out/reports/rejects.jsonl" | grep -qF 'at byte 121"' ||
    fail "the offset of the cut page"
[ "$(jq .rejects.no_end_flag.events "$work/out/reports/pack.json")" = 1 ] || fail "no_end_flag"
jq -r '.warnings[]' "$work/out/reports/pack.json" | grep -q 'no_end_flag.*: 1$' ||
    fail "no_end_flag is not worth a look: $(jq .warnings "$work/out/reports/pack.json")"

count() { "$command" ls "$work/out" --json | wc -l; }
[ "$(count)" -eq 10 ] || fail "$(count) utterances, 10 expected"
ids=$("$command" ls "$work/out" --json | jq -r .id)
for id in 'odd/new%0Aline' 'odd/not-utf8-%FF%FE' 'odd/  blanks '; do
    grep -qxF "$id" <<<"$ids" || fail "id $id is missing"
done
[ "$("$command" ls "$work/out" --json | jq -r 'select(.id == "odd/  blanks ") | .text')" = "with a mark" ] ||
    fail "sidecar text"
rows=$(jq '.rows_in == .packed + .rejected' "$work/out/reports/pack.json")
[ "$rows" = true ] || fail "rows_in = packed + rejected: $(cat "$work/out/reports/pack.json")"

# --strict publishes nothing; the same command without it publishes the packed utterances.
"$command" pack "$c" -o "$work/strict" --strict --quiet >/dev/null 2>&1
[ $? -eq 1 ] || fail "--strict with rejects: exit status"
[ ! -e "$work/strict/manifest.spsh" ] || fail "--strict published"
"$command" pack "$c" -o "$work/strict" --quiet >/dev/null || fail "after --strict"
check_same "$work/out" "$work/strict" "after --strict"

# An id given twice: the first row keeps it.
{
    printf 'path\tid\ttext\n'
    printf '%s\tone\tfirst\n' "$good"
    printf '%s\tone\tsecond\n' "$c/speaker-01/utterance-00001.wav"
    printf '%s\ttwo\tthird\n' "$c/gone.wav"
} >"$work/twice.tsv"
"$command" pack "$work/twice.tsv" -o "$work/twice" --quiet >/dev/null || fail "duplicate ids"
[ "$("$command" ls "$work/twice" --json | jq -r .text)" = first ] || fail "the first row keeps its id"
jq -r .reason "$work/twice/reports/rejects.jsonl" | sort | tr '\n' ' ' | grep -qx 'dup_id missing_audio ' ||
    fail "reasons: $(cat "$work/twice/reports/rejects.jsonl")"

# Nothing to pack: it reports this, leaves no state, and packs once there is a file.
printf 'path\ttext\n%s\tlater\n' "$work/later.wav" >"$work/later.tsv"
"$command" pack "$work/later.tsv" -o "$work/later" --quiet >/dev/null 2>"$work/message"
[ $? -eq 1 ] || fail "nothing to pack: exit status"
grep -q 'nothing to pack' "$work/message" || fail "nothing to pack: $(cat "$work/message")"
[ ! -e "$work/later/.pack" ] || fail "nothing to pack: state is left behind"
cp "$good" "$work/later.wav"
"$command" pack "$work/later.tsv" -o "$work/later" --quiet >/dev/null || fail "pack after nothing to pack"
mkdir "$work/empty"
"$command" pack "$work/empty" -o "$work/none" --quiet >/dev/null 2>&1
[ $? -eq 1 ] || fail "an empty corpus: exit status"
[ ! -e "$work/none" ] || fail "an empty corpus leaves something behind"

# A file without permission to read (root may read everything).
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if [ "$(id -u)" -eq 0 ] && ! "${as_nobody[@]}" "$command" --version >/dev/null 2>&1; then
    echo "another user cannot run the command here"
elif [ "$(id -u)" -eq 0 ]; then
    "$make_corpus" "$work/closed" 4
    chmod 0 "$work/closed/speaker-00/utterance-00000.wav"
    chmod 755 "$work"
    mkdir -m 777 "$work/nobody"
    "${as_nobody[@]}" "$command" pack "$work/closed" -o "$work/nobody/out" --quiet >/dev/null 2>"$work/message" ||
        fail "unreadable file: $(cat "$work/message")"
    grep -q '"reason":"unreadable"' "$work/nobody/out/reports/rejects.jsonl" || fail "unreadable"
fi
pack_result
