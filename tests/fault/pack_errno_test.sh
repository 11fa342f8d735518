#!/bin/bash
# Every file-changing system call of a small pack fails once, with each error that a disk can
# return: the pack must report it and exit 75 after EIO, which a rerun may mend, else 1 (or recover).
# It publishes nothing damaged, and leaves only temporary files that a rerun removes. The rerun must
# produce the bytes of an undisturbed run.
# usage: pack_errno_test.sh [STEP]      STEP 1 (default) is every call, as at night
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"
step=${1:-1}
command -v strace >/dev/null || { echo "strace is not installed"; exit 77; }
strace -o /dev/null true 2>/dev/null || { echo "ptrace is not allowed here"; exit 77; }

"$make_corpus" "$work/corpus" 24
options=(--jobs 1 --shard-size 64K)
"$command" pack "$work/corpus" -o "$work/want" "${options[@]}" --quiet >/dev/null || fail "plain pack"

points=0
# sweep CALL INJECTION: until the call number is beyond the run
sweep() {
    local n=1 want=1
    [ "$2" != error=EIO ] || want=75
    while :; do
        rm -rf "$work/got"
        strace -f --seccomp-bpf -qq -o "$work/trace" -e trace="$1" -e inject="$1:$2:when=$n" \
            "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" --quiet >/dev/null 2>"$work/message"
        local status=$?
        grep -q INJECTED "$work/trace" || break
        points=$((points + 1))
        if [ $status -ne 0 ]; then
            [ $status -eq $want ] || fail "$1 $2 at $n: exit status $status: $(cat "$work/message")"
            if [ $status -eq 75 ] && ! grep -q 'repeat the same command' "$work/message"; then
                fail "$1 $2 at $n: no advice: $(cat "$work/message")"
            fi
            grep -q 'speechshard: ' "$work/message" || fail "$1 $2 at $n: no message"
            if [ "$2" = error=ENOSPC ] && ! grep -qi 'space' "$work/message"; then
                fail "$1 at $n: ENOSPC is not named: $(cat "$work/message")"
            fi
            [ ! -e "$work/got/manifest.spsh" ] || [ -e "$work/got/.pack" ] ||
                "$command" verify "$work/got" --quiet >/dev/null || fail "$1 $2 at $n: published damaged"
        fi
        "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" --quiet >/dev/null 2>"$work/message" ||
            fail "rerun after $1 $2 at $n: $(cat "$work/message")"
        check_same "$work/want" "$work/got" "$1 $2 at $n"
        [ "$failures" -gt 3 ] && return
        n=$((n + step))
    done
}

for call in pwrite64 fsync fallocate; do
    sweep $call error=ENOSPC
    sweep $call error=EIO
done
sweep pwrite64 error=EINTR
sweep fallocate error=EOPNOTSUPP
sweep renameat2 error=EIO
sweep rename error=EIO
sweep mkdir error=ENOSPC
sweep ftruncate error=EIO
echo "$points faults"
[ "$points" -ge $((50 / step)) ] || fail "only $points faults were reached"
pack_result
