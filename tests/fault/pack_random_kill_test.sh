#!/bin/bash
# Kill a pack at random moments, again and again until it is through: same bytes as an uninterrupted
# run.
# usage: pack_random_kill_test.sh [KILLS]
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"
kills=${1:-200}
seed=${SPEECHSHARD_TEST_SEED:-4711}
RANDOM=$seed
echo "seed $seed"

"$make_corpus" "$work/corpus" 400 1500
options=(--jobs 4 --shard-size 1M)
begin=$(date +%s%N)
"$command" pack "$work/corpus" -o "$work/want" "${options[@]}" --quiet >/dev/null || fail "plain pack"
whole_us=$((($(date +%s%N) - begin) / 1000))

done_kills=0
runs=0
while [ $done_kills -lt "$kills" ] && [ $runs -lt $((4 * kills)) ]; do
    rm -rf "$work/got"
    finished=0
    while [ $finished -eq 0 ] && [ $runs -lt $((4 * kills)) ]; do
        runs=$((runs + 1))
        "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" --quiet >/dev/null 2>&1 &
        pid=$!
        pause_us=$((RANDOM * 32768 + RANDOM))
        pause_us=$((pause_us % (whole_us + whole_us / 4 + 1)))
        sleep "$(printf '%d.%06d' $((pause_us / 1000000)) $((pause_us % 1000000)))"
        kill -KILL "$pid" 2>/dev/null && done_kills=$((done_kills + 1))
        wait "$pid" 2>/dev/null && finished=1
    done
    [ $finished -eq 1 ] || "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" --quiet >/dev/null || fail "last run"
    check_same "$work/want" "$work/got" "after $done_kills kills"
    [ "$failures" -gt 3 ] && break
done
echo "$done_kills kills in $runs runs"
pack_result
