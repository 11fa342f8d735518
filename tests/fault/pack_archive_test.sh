#!/bin/bash
# A pack from a compressed archive is killed at many system calls, and rerun: the dataset must equal
# the pack of the folder, and files that were unpacked for a plan must not be unpacked again. Also:
# archives from standard input, and full disks.
# usage: pack_archive_test.sh [STEP]
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"
step=${1:-29}
options=(--jobs 2 --shard-size 64K --quiet)

"$make_corpus" "$work/folder" 24
mkdir "$work/corpus" "$work/plain" "$work/other"
tar -C "$work/folder" -czf "$work/corpus/corpus.tar.gz" .
tar -C "$work/folder" -cf "$work/plain/corpus.tar" .
packs() { "$command" pack "$@" "${options[@]}" >/dev/null 2>"$work/message"; }
packs "$work/folder" -o "$work/want" || fail "plain pack: $(cat "$work/message")"
# Only the reports contain names of the root.
same() {
    for part in index-00000001.spsh manifest.spsh reports/rejects.jsonl shards; do
        diff -rq "$work/want/$part" "$1/$part" >/dev/null || fail "$2: $part is not that of the folder"
    done
    [ ! -e "$1/.pack" ] || fail "$2: .pack is left"
}

for form in corpus/corpus.tar.gz plain/corpus.tar corpus plain; do
    packs "$work/$form" -o "$work/got" || fail "$form: $(cat "$work/message")"
    same "$work/got" "$form"
    rm -rf "$work/got"
done
for form in corpus/corpus.tar.gz plain/corpus.tar; do
    # `cat` makes standard input a pipe instead of the file.
    # shellcheck disable=SC2002
    cat "$work/$form" | packs - -o "$work/got" || fail "standard input, $form: $(cat "$work/message")"
    same "$work/got" "standard input, $form"
    rm -rf "$work/got"
done

# A truncated archive publishes nothing and leaves nothing.
head -c -12000 "$work/plain/corpus.tar" | packs - -o "$work/got" && fail "half a tar was packed"
[ ! -e "$work/got" ] || fail "half a tar left something"
head -c 3000 "$work/corpus/corpus.tar.gz" | packs - -o "$work/got" && fail "half a tar.gz was packed"
echo "no archive" | packs - -o "$work/got" && fail "a line of text was packed"
grep -q "is not a tar" "$work/message" || fail "text on standard input: $(cat "$work/message")"
packs - - -o "$work/got" </dev/null && fail "standard input was taken twice"

# An archive that ends early is packed only if --max-rejects allows it, and never with --strict.
head -c -12000 "$work/plain/corpus.tar" >"$work/other/corpus.tar"
packs "$work/other" -o "$work/got" --strict && fail "--strict took half an archive"
rm -rf "$work/got"
packs "$work/other" -o "$work/got" && fail "half an archive was packed"
[ ! -e "$work/got" ] || fail "half an archive left something"
packs "$work/other" -o "$work/got" --max-rejects 100% || fail "half an archive: $(cat "$work/message")"
grep -q '"reason":"truncated","source":"corpus.tar"' "$work/got/reports/rejects.jsonl" || fail "half an archive is not reported"
rm -rf "$work/got"

if ! strace -o /dev/null true 2>/dev/null; then
    echo "without strace nothing is killed"
    pack_result
fi
strace -f -qq -o "$work/trace" -e trace=pwrite64 -e inject=pwrite64:error=ENOSPC:when=4 \
    "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" >/dev/null 2>"$work/message" && fail "a full disk was overlooked"
grep -q "the disk is full after" "$work/message" || fail "a full disk: $(cat "$work/message")"
[ ! -e "$work/got" ] || fail "a full disk left something"

# The leak checker does not work under strace; the runs here are killed anyway.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
points=0
n=1
while :; do
    rm -rf "$work/got"
    {
        strace -f -qq -o /dev/null -e trace=all -e inject=all:signal=KILL:when="$n" \
            "$command" pack "$work/corpus" -o "$work/got" "${options[@]}" >/dev/null 2>&1
        status=$?
    } 2>/dev/null
    [ $status -eq 0 ] && [ ! -e "$work/got/.pack" ] && break
    [ $status -eq 137 ] || {
        fail "kill at call $n: exit status $status"
        break
    }
    planned=$([ -e "$work/got/.pack/plan" ] && echo 1)
    # With a plan, the archive is not needed any more.
    [ -z "$planned" ] || mv "$work/corpus/corpus.tar.gz" "$work/away"
    packs "$work/corpus" -o "$work/got" || fail "rerun after a kill at call $n: $(cat "$work/message")"
    [ -z "$planned" ] || mv "$work/away" "$work/corpus/corpus.tar.gz"
    same "$work/got" "kill at call $n"
    [ "$failures" -gt 3 ] && break
    points=$((points + 1))
    n=$((n + step))
done
echo "$points kill points"
[ "$points" -ge 10 ] || fail "only $points kill points were reached"
pack_result
