#!/bin/bash
# The same input and options give the same bytes: for any number of jobs, from any directory, in any
# order of creation, and in a copy of the corpus elsewhere.
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"

"$make_corpus" "$work/corpus" 150 600
cp -r "$work/corpus" "$work/elsewhere"
for options in "--codec keep" "--codec pcm" "--codec flac" "--codec pcm --rate 11025" "--order source" \
    "--dedupe none --trust-headers"; do
    read -ra words <<<"$options"
    rm -rf "$work"/out-*
    for jobs in 1 2 8; do
        "$command" pack "$work/corpus" -o "$work/out-$jobs" --jobs $jobs --shard-size 256K "${words[@]}" --quiet \
            >/dev/null || fail "$options --jobs $jobs"
    done
    check_same "$work/out-1" "$work/out-2" "$options, 1 and 2 jobs"
    check_same "$work/out-1" "$work/out-8" "$options, 1 and 8 jobs"
    (cd "$work/elsewhere" && "$command" pack . -o "$work/out-moved" --shard-size 256K "${words[@]}" --quiet >/dev/null)
    check_same "$work/out-1" "$work/out-moved" "$options, the corpus in another place"
    # A second pack of the same: nothing to do, nothing changed.
    before=$(digest "$work/out-1")
    "$command" pack "$work/corpus" -o "$work/out-1" --shard-size 256K "${words[@]}" --quiet >/dev/null || fail "again"
    [ "$before" = "$(digest "$work/out-1")" ] || fail "$options: packing again changed something"
done

# Other options into the same directory are refused, and leave it as it was.
before=$(digest "$work/out-1")
"$command" pack "$work/corpus" -o "$work/out-1" --codec flac --quiet >/dev/null 2>&1
[ $? -eq 1 ] || fail "other options were not refused"
[ "$before" = "$(digest "$work/out-1")" ] || fail "a refused pack changed something"
mkdir "$work/foreign"
: >"$work/foreign/somebody's file"
"$command" pack "$work/corpus" -o "$work/foreign" --quiet >/dev/null 2>&1
[ $? -eq 1 ] || fail "a foreign directory was not refused"
pack_result
