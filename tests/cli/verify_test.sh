#!/bin/sh
# verify_test.sh: exit status, lines, and JSON of verify; the effect of repair on each kind of
# damage.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
good=$work/good.spsh
d=$work/d.spsh
"$make_dataset" "$good" "$work/expected" || exit 1

reset() {
    rm -rf "$d" "$work/out.spsh"
    cp -r "$good" "$d"
}

# flip FILE OFFSET: turns one byte over
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf '%b' "\\0$(printf '%03o' $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# ---- verify ----

want_usage "verify" verify
want_usage "jobs" verify "$good" --jobs 0
run verify "$work/nowhere"
want_status 1
want_err "nowhere"

run verify "$good"
want_status 0
want_empty
want_err "no damage"
run verify --quiet --cached --decode -j 3 "$good" "$good"
want_status 0
want_empty
want_quiet
run verify --json "$good"
want_status 0
want_lines 1
want_out '"damaged":0'
run verify "$good/shards/000000-000.spsh"
want_status 0
want_empty

# verify_parts PART...: all lines except the summaries, sorted
verify_parts() {
    for part in "$@"; do
        "$command" verify --json --decode --quiet --part "$part" "$d" || true
    done | grep -v '"type":"summary"' | sort
}
want_usage '--part 2/2: not a part' verify "$good" --part 2/2

reset
shard=$d/shards/000000-000.spsh
at=$(grep -abo 'RIFF' "$shard" | head -n 1 | cut -d: -f1)
flip "$shard" $((at + 100))
flip "$d/index-00000001.spsh" 5000
flip "$d/shards/000001-000.spsh" 5000
: >"$d/manifest.spsh.tmp-1-1"
verify_parts 0/1 >"$work/whole"
[ "$(wc -l <"$work/whole")" -ge 4 ] || fail "few findings: $(cat "$work/whole")"
for parts in "0/2 1/2" "2/3 0/3 1/3" "1/3 2/3 0/3"; do
    # shellcheck disable=SC2086 # a list
    verify_parts $parts >"$work/parts"
    want_same "$work/whole" "$work/parts"
done
[ -n "$(verify_parts 1/3)" ] || fail "part 1 of 3 finds nothing in its shard"
flip "$d/shards/000001-000.spsh" 5000
rm "$d/manifest.spsh.tmp-1-1"
run verify "$d" "$good"
want_status 1
want_lines 2
want_out "index-00000001.spsh: index page at 4096: checksum 0x"
want_out "shards/000000-000.spsh: record at $at, en/hello-world, 2 utterances: "
run verify --json "$d"
want_status 1
want_lines 3
want_out '"part":"record"'
want_out '"id":"en/hello-world"'
want_out '"damaged":2'

# ---- repair ----

want_usage "DATASET is missing" repair
want_usage "-o DIRECTORY or --in-place" repair "$good"
want_usage "-o DIRECTORY or --in-place" repair "$good" --in-place -o "$work/x"
want_usage "--in-place needs a dataset" repair "$shard" --in-place
run repair "$good" --in-place
want_status 0
want_err "nothing to repair"

# Derived files are rebuilt in place; the damaged file is kept.
reset
for at in 20 5000; do flip "$d/index-00000001.spsh" $at; done
flip "$d/shards/000001-000.spsh" 50
size=$(wc -c <"$d/shards/000000-000.spsh")
truncate -s $((size - 5000)) "$d/shards/000000-000.spsh"
run repair "$d" --in-place
want_status 0
want_err "identical to the sealed shard"
for file in index-00000001.spsh shards/000000-000.spsh shards/000001-000.spsh; do
    want_same "$d/$file" "$good/$file"
    [ -e "$d/$file.damaged" ] || fail "$file.damaged is missing"
done
[ ! -e "$d/repair.tmp" ] || fail "repair.tmp was left behind"
run verify "$d"
want_status 0

# A kill between the two renames of a shard leaves only FILE.damaged; the next repair finishes.
reset
flip "$d/shards/000001-000.spsh" 50
mkdir "$d/repair.tmp"
cp "$good/shards/000001-000.spsh" "$d/repair.tmp/"
mv "$d/shards/000001-000.spsh" "$d/shards/000001-000.spsh.damaged"
run repair "$d" --in-place
want_status 0
want_same "$d/shards/000001-000.spsh" "$good/shards/000001-000.spsh"
[ -e "$d/shards/000001-000.spsh.damaged" ] || fail "the damaged shard is gone"
[ ! -e "$d/repair.tmp" ] || fail "repair.tmp of a killed repair is still there"

# Lost bytes cannot be rebuilt: repair then changes nothing, and -o saves the rest.
reset
shard=$d/shards/000000-000.spsh
at=$(grep -abo 'RIFF' "$shard" | head -n 1 | cut -d: -f1)
flip "$shard" $((at + 100))
cp "$shard" "$work/before"
run repair "$d" --in-place
want_status 1
want_err "with -o"
want_same "$shard" "$work/before"
[ ! -e "$shard.damaged" ] || fail "moved without need"
run repair "$d" -o "$work/out.spsh"
want_status 1
want_out "utterance at"
want_out "en/hello-world"
want_out "copy-of-hello"
want_err "lost 1 recordings and 2 utterances"
want_same "$shard" "$work/before"
run verify --decode "$work/out.spsh"
want_status 0
run cat "$work/out.spsh" session-1
want_status 0
want_same "$work/expected/3.wav" "$work/out"
run cat "$work/out.spsh" en/hello-world
want_status 1
run repair "$d" -o "$work/out.spsh"
want_status 1
want_err "exists"

# A missing shard becomes an empty one; the other shard is kept.
reset
rm "$d/shards/000000-000.spsh"
run repair --json "$d" -o "$work/out.spsh"
want_status 1
run verify "$work/out.spsh"
want_status 0
run ls "$work/out.spsh"
want_lines 4

# The manifest is missing: the shards suffice for a new one.
reset
flip "$d/manifest.spsh" 100
run repair "$d" --in-place
want_status 1
run repair "$d" -o "$work/out.spsh"
want_status 1
want_lines 1
want_out "manifest.spsh: pack options: lost"
run verify "$work/out.spsh"
want_status 0
run ls "$work/out.spsh"
want_lines 11

# Repair carries overlays over.
reset
printf 'a\tbad\n' >"$work/skip.tsv"
run overlay "$d" add noise --skip "$work/skip.tsv"
want_status 0
flip "$d/shards/000001-000.spsh" 50
run repair "$d" -o "$work/out.spsh"
want_status 0
run verify "$work/out.spsh"
want_status 0
run ls --all --json "$work/out.spsh"
want_lines 11
want_out '"skipped":true'

# A damaged overlay is named and omitted; the other one is in force, and the result opens.
reset
printf 'session-1\tnew words\n' >"$work/text.tsv"
"$command" overlay "$d" add noise --skip "$work/skip.tsv" --quiet
"$command" overlay "$d" add words --transcript "$work/text.tsv" --quiet
cp -r "$d" "$work/edited.spsh"
"$command" ls --json "$d" >"$work/edited.json"
flip "$d/overlays/noise.spsh" 4500
run repair "$d" -o "$work/out.spsh"
want_status 1
want_out "overlays/noise.spsh: overlay: "
want_err "1 overlays lost or in doubt"
run verify "$work/out.spsh"
want_status 0
run overlay "$work/out.spsh" list
want_lines 1
run ls --json "$work/out.spsh"
want_out '"text":"new words"'
want_no_out '"skipped":true'
run repair "$d" --in-place
want_status 1
want_err "an overlay"

# One bad byte in the manifest costs no edit.
for at in 20 100 4100 5500 6000; do
    rm -rf "$d" "$work/out.spsh"
    cp -r "$work/edited.spsh" "$d"
    flip "$d/manifest.spsh" $at
    run repair "$d" -o "$work/out.spsh"
    want_status 0
    run ls --json "$work/out.spsh"
    want_same "$work/edited.json" "$work/out"
done

# verify then uses the newest readable generation, and finds the other damage.
rm -rf "$d"
cp -r "$work/edited.spsh" "$d"
flip "$d/manifest.spsh" 5500
flip "$d/overlays/noise.spsh" 4500
flip "$d/shards/000001-000.spsh" 50
run verify "$d"
want_status 1
want_out "manifest.spsh: index page"
want_out "overlays/noise.spsh: "
want_out "shards/000001-000.spsh: header"

# Without a manifest the edits stay in force, and each is reported as in doubt.
rm -rf "$d" "$work/out.spsh"
cp -r "$work/edited.spsh" "$d"
rm "$d/manifest.spsh"
run repair "$d" -o "$work/out.spsh"
want_status 1
want_lines 2
want_out "overlays/noise.spsh: overlay in doubt: kept in force"
want_out "overlays/words.spsh: overlay in doubt: put in force"
run ls --json "$work/out.spsh"
want_same "$work/edited.json" "$work/out"

# Damaged index and overlay: in-place repair rebuilds the index but not the overlay.
rm -rf "$d"
cp -r "$work/edited.spsh" "$d"
flip "$d/index-00000001.spsh" 5000
flip "$d/overlays/noise.spsh" 4500
run repair "$d" --in-place
want_status 1

# A single shard, and its name if the header is lost.
reset
flip "$d/shards/000001-000.spsh" 50
run repair "$d/shards/000001-000.spsh" -o "$work/alone"
want_status 0
want_same "$work/alone/000001-000.spsh" "$good/shards/000001-000.spsh"

# Names from files cannot steer the terminal or break a line.
reset
shard=$d/shards/000001-000.spsh
at=$(grep -abo 'SREC' "$shard" | head -n 1 | cut -d: -f1)
flip "$shard" $((at + 400))
run verify "$d"
want_status 1
want_lines 1
cli_result
