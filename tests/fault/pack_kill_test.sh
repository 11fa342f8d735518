#!/bin/bash
# Kill a small pack before every single system call, on every thread, and rerun: the dataset must be
# the one of an uninterrupted run, and shards that were sealed must still be the same files.
# usage: pack_kill_test.sh [STEP [LATER]]      every STEPth call until there is a plan, then every
#                                              LATERth; 1 (default) is every call
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"
step=${1:-1}
later=${2:-1}
command -v strace >/dev/null || { echo "strace is not installed"; exit 77; }
strace -o /dev/null true 2>/dev/null || { echo "ptrace is not allowed here"; exit 77; }

# Each recording has a segment that is past its end, first, and one that is inside: a row that is
# rejected just before a shard is sealed is counted once.
"$make_corpus" "$work/corpus" 24 800
(cd "$work/corpus" && printf 'path\tstart\tend\n' && find . -name '*.wav' -printf '%P\t1000\t1001\n%P\t0.005\t\n') >"$work/table" && mv "$work/table" "$work/corpus/corpus.tsv"
options=(--jobs 2 --shard-size 64K --codec pcm --max-rejects 100%)
"$command" pack "$work/corpus" -o "$work/want" "${options[@]}" --quiet >/dev/null || fail "plain pack"

# Inodes of sealed shards: a shard that was published may not be written again. It may be linked.
sealed() { find "$1" -name '*.spsh' -printf '%i %f\n' 2>/dev/null | LC_ALL=C sort; }

points=0
n=1
while :; do
    rm -rf "$work/got"
    { # the shell's own word about the kill is not wanted
        strace -f -qq -o /dev/null -e trace=all -e inject=all:signal=KILL:when="$n" \
            "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" --quiet >/dev/null 2>&1
        status=$?
    } 2>/dev/null
    [ $status -eq 0 ] && [ ! -e "$work/got/.pack" ] && break
    stride=$step
    [ -e "$work/got/.pack/plan" ] && stride=$later
    before=$(sealed "$work/got")
    "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" --quiet >/dev/null 2>"$work/message" || {
        fail "rerun after a kill at call $n: $(cat "$work/message")"
        break
    }
    # Killed between publishing a shard and its journal, that one shard is made again: at most one
    # may change.
    lost=$(comm -23 <(echo "$before") <(sealed "$work/got") | grep -c .)
    [ "$lost" -le 1 ] || fail "kill at call $n: $lost sealed shards were written again"
    check_same "$work/want" "$work/got" "kill at call $n"
    [ "$failures" -gt 3 ] && break
    points=$((points + 1))
    n=$((n + stride))
done
echo "$points kill points"
[ "$points" -ge $((100 / (step > later ? step : later))) ] || fail "only $points kill points were reached"
pack_result
