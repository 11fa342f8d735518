#!/bin/sh
# damage_test.sh: damaged datasets: exit 1 and a message that names the file. Intact records are
# still served.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
d=$work/d.spsh
"$make_dataset" "$d" "$work/expected" || exit 1
cp -r "$d" "$work/good"

reset() {
    rm -rf "$d"
    cp -r "$work/good" "$d"
}

# flip FILE OFFSET: turns one byte over
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf '%b' "\\0$(printf '%03o' $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

flip "$d/manifest.spsh" 20
run info "$d"
want_status 1
want_empty
want_err "manifest.spsh"

reset
: >"$d/manifest.spsh"
run ls "$d"
want_status 1
want_err "manifest.spsh"

reset
rm "$d"/index-*.spsh
run info "$d"
want_status 1
want_err "index-"

# A byte of one recording: its utterances fail, the others do not.
reset
shard=$d/shards/000000-000.spsh
at=$(grep -abo 'RIFF' "$shard" | head -n 1 | cut -d: -f1)
flip "$shard" $((at + 100))
run cat "$d" en/hello-world
want_status 1
want_err "000000-000.spsh"
run cat "$d" en/hello-world -o "$work/x.wav"
want_status 1
[ ! -e "$work/x.wav" ] || fail "damaged audio was written"
run cat "$d" session-1
want_status 0
want_same "$work/expected/3.wav" "$work/out"
run export "$d" --to wav -o "$work/wav"
want_status 1
want_err "omitted"
want_err "2 utterances could not be exported"
want_err "000000-000.spsh"
[ "$(find "$work/wav" -name '*.wav' | wc -l)" -eq 9 ] || fail "want the 9 others"
[ ! -e "$work/wav/en/hello-world.wav" ] || fail "damaged audio was exported"

# A whole shard: the other one is served.
reset
rm "$d/shards/000001-000.spsh"
run info "$d"
want_status 0
run cat "$d" a
want_status 1
want_err "000001-000.spsh"
run ls "$d"
want_status 1
want_err "000001-000.spsh"
run ls "$d" --limit 7
want_status 0
want_lines 7
cli_result
