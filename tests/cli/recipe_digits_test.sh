#!/bin/sh
# recipe_digits_test.sh: the recipe of spoken digits, reduced: two of its six speakers, half of
# their recordings, a few epochs on one thread; then one more epoch, error rates, and transcripts.
# The bounds are far from the results (see the ends of the lines), and from chance, which gets nine
# of ten digits wrong.
# usage: recipe_digits_test.sh [begin]      begin: stop after the first training
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
command -v jq >/dev/null || exit 77
recordings=${SPEECHSHARD_TEST_DATA:-$SPEECHSHARD_SOURCE_DIR/../shared/data}/fsdd/recordings
recipe=$(cd "$SPEECHSHARD_SOURCE_DIR" && pwd)/recipes/digits
if [ ! -e "$recordings/0_george_0.wav" ]; then
    [ "${SPEECHSHARD_REQUIRE_DATA:-0}" = 0 ] || { echo "the recordings are not there"; exit 1; }
    echo "the recordings are not there"
    exit 77
fi

# is WHAT JQ-CONDITION: of the JSON in $work/out.
is() {
    jq -e "$2" "$work/out" >"$work/condition" || fail "$1: not $2: $(cat "$work/out")"
}

mkdir "$work/part"
for speaker in george jackson; do
    for take in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do
        cp "$recordings"/[0-9]_"$speaker"_"$take".wav "$work/part/"
    done
done
last=prepare.sh
"$recipe/prepare.sh" "$work/part" "$work/corpus" || fail "exit status $?"
"$recipe/prepare.sh" "$work/part" "$work/again" || fail "exit status $?, the second time"
diff -r "$work/corpus" "$work/again" >&2 || fail "it is another corpus each time"
"$recipe/prepare.sh" "$work/corpus" "$work/none" 2>/dev/null && fail "a folder without recordings is one"

cd "$work" || exit 1 # the recipe's paths are relative
run pack corpus/metadata.tsv -o digits.spsh --codec pcm
want_status 0
run train "$recipe/digits.yaml" -o run
want_status 1
want_err "digits.vocabulary: file not found; 'speechshard train CONFIG --make-vocab' makes the"
run train "$recipe/digits.yaml" --make-vocab
want_status 0
want_out "17 symbols with the blank"

run train "$recipe/digits.yaml" -o short train.threads=1 data.max_padded_seconds=1 train.samples_max=1
want_status 0
want_err "utterances are not trained on, because they are longer than a batch may be"
[ "${1:-}" != begin ] || cli_result

set -- train.threads=1 data.max_padded_seconds=8 train.warm_up_samples=1000
run train "$recipe/digits.yaml" -o run "$@" train.epochs=6
want_status 0
losses=$(sed -n 's/.*epoch [0-9]*: loss \([^ ]*\) of.*/\1/p' "$work/err" | tr '\n' ' ')
echo "losses of epochs: $losses"
echo "$losses" | awk '{ exit !(NF == 6 && $NF < $1 / 4) }' || fail "the loss did not fall: $losses" # / 30

# The run was to end here, but resumes for more whole epochs.
run train "$recipe/digits.yaml" -o run --resume auto "$@" train.epochs=7 --json
want_status 0
want_err "resuming after step"
is "one epoch more" '.epochs == 7 and .loss >= 0'

run eval run digits.spsh:test --json
want_status 0
is "single digits" '.utterances == 100 and .words == 100 and .wer < 0.5' # 0.05
cat "$work/out"
run eval run digits.spsh:test-connected --json
want_status 0
is "connected digits" '.wer < 0.5 and .cer <= .wer' # 0 to 0.03
cat "$work/out"
run transcribe run digits.spsh --split test-connected --limit 3
want_status 0
want_lines 3
cat "$work/out"
grep -qvE "^connected_(george|jackson)_[0-9]+${tab}[a-z]+( [a-z]+)*$" "$work/out" && fail "not digits: $(cat "$work/out")"

cli_result
