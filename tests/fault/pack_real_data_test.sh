#!/bin/bash
# Real speech: packed under each codec, verified, exported again; the files are bit-identical under
# keep, the PCM under every codec.
# usage: pack_real_data_test.sh [CORPUS...]      names of folders of the test data; none: all that
#                                                are listed below
# shellcheck disable=SC1091,SC2154 # the kit sets work, command, make_corpus and failures
source "$(dirname "$0")/../support/pack_kit.sh"
data=${SPEECHSHARD_TEST_DATA:-$SPEECHSHARD_SOURCE_DIR/../shared/data}
if [ ! -d "$data" ]; then
    echo "no test data at $data"
    [ -n "${SPEECHSHARD_REQUIRE_DATA:-}" ] && exit 1
    exit 77
fi

hashes() { "$command" ls "$1" --json | jq -r '[.id, .pcm_hash, .samples, .text, .duplicate_of == null] | @tsv' | cut -f1-4 | LC_ALL=C sort; }

[ $# -gt 0 ] || set -- librispeech-351 librispeech-layout kerstin-pairs ljspeech-3codecs mfa-fixtures debian-small yesno \
    lhotse-fixtures esc10-noise precise-community spatialaudio-rir fsdd
for corpus in "$@"; do
    rm -rf "$work"/keep "$work"/pcm "$work"/flac "$work"/files "$work"/wav "$work"/again
    layout=(--layout folder)
    [ "$corpus" = librispeech-layout ] && layout=()
    for codec in keep pcm flac; do
        "$command" pack "$data/$corpus" "${layout[@]}" -o "$work/$codec" --codec $codec --quiet >/dev/null 2>"$work/message" ||
            fail "$corpus $codec: $(cat "$work/message")"
        "$command" verify "$work/$codec" --decode --quiet || fail "$corpus $codec: verify"
    done
    packed=$("$command" info "$work/keep" --json | jq .utterances)
    echo "$corpus: $packed utterances"
    diff <(hashes "$work/keep") <(hashes "$work/pcm") >/dev/null || fail "$corpus: PCM of codec pcm differs"
    diff <(hashes "$work/keep") <(hashes "$work/flac") >/dev/null || fail "$corpus: PCM of codec flac differs"

    # Every exported file is a source file, byte for byte, and every packed source file is there.
    # SPHERE is stored as WAV. The only such file has the samples of stereo.wav, and so has its WAV.
    "$command" export "$work/keep" --to files -o "$work/files" --quiet || fail "$corpus: export files"
    "$command" ls "$work/keep" --json | jq -r .source | grep -v '\.sph$' | LC_ALL=C sort -u >"$work/sources"
    (cd "$work/files" && find . -type f ! -name manifest.csv -print0 | xargs -0 sha256sum | cut -d' ' -f1 | LC_ALL=C sort) >"$work/exported"
    (cd "$data/$corpus" && tr '\n' '\0' <"$work/sources" | xargs -0 sha256sum | cut -d' ' -f1 | LC_ALL=C sort) >"$work/original"
    # Copies are exported once for each utterance or once for each file: compare as sets and by
    # count of distinct contents.
    diff <(uniq "$work/exported") <(uniq "$work/original") >/dev/null || fail "$corpus: exported files differ from the originals"

    # WAV out, packed again: the same PCM.
    "$command" export "$work/pcm" --to wav -o "$work/wav" --quiet || fail "$corpus: export wav"
    "$command" pack "$work/wav/manifest.csv" -o "$work/again" --quiet >/dev/null 2>"$work/message" || fail "$corpus: pack of the export: $(cat "$work/message")"
    diff <(hashes "$work/keep" | cut -f1-3) <(hashes "$work/again" | cut -f1-3) >/dev/null || fail "$corpus: WAV round trip"
done
pack_result
