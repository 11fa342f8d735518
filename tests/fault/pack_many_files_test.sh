#!/bin/bash
# 200,000 files in one directory: all packed, in bounded memory.
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"
count=${1:-200000}

"$make_corpus" "$work/seed" 1 20
mkdir "$work/flat"
cp "$work/seed/speaker-00/utterance-00000.wav" "$work/flat/0.wav"
# Hard links: the file system limits their number, so every 1000 files share one copy.
(cd "$work/flat" && awk -v n="$count" 'BEGIN {for (i = 1; i < n; i++) printf "%d\n", i}' |
    perl -ne 'chomp; my $of = $_ - $_ % 1000;
              if ($_ % 1000 == 0) { system("cp", "0.wav", "$_.wav") == 0 or die }
              else { link("$of.wav", "$_.wav") or die "$_: $!" }')
/usr/bin/env time -f %M -o "$work/peak" true 2>/dev/null && timer="/usr/bin/env time -f %M -o $work/peak" || timer=
$timer "$command" pack "$work/flat" -o "$work/out" --dedupe none --quiet >/dev/null || fail "pack"
[ "$("$command" info "$work/out" --json | jq .utterances)" -eq "$count" ] || fail "count"
"$command" verify "$work/out" --quiet >/dev/null || fail "verify"
if [ -n "$timer" ]; then
    limit_kib=$((512 * 1024 + count * 64 / 1024))
    peak_kib=$(cat "$work/peak")
    echo "peak memory $peak_kib KiB, limit $limit_kib KiB"
    [ "$peak_kib" -le "$limit_kib" ] || fail "peak memory $peak_kib KiB"
fi
pack_result
