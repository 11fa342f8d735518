#!/bin/sh
# plan_test.sh: output of `plan` for the dataset of make_dataset.c and for a packed corpus:
# consistent numbers, settings compared, wrong options.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
command -v jq >/dev/null || exit 77
d=$work/d.spsh
c=$work/c.spsh
"$make_dataset" "$d" "$work/expected" || exit 1
"$SPEECHSHARD_BUILD_DIR/tests/make_corpus" "$work/corpus" 210 2000 || exit 1
"$command" pack "$work/corpus" -o "$c" --quiet >/dev/null || exit 1
utterances=$("$command" info --json "$c" | jq .utterances)
duplicates=$("$command" info --json "$c" | jq .duplicates)
[ "$duplicates" -gt 0 ] || exit 1

want_json() { # want_json EXPRESSION: is true of standard output
    jq -e "$1" "$work/out" >/dev/null || fail "not true: $1 of $(head -c 3000 "$work/out")"
}

# ---- wrong options ----

want_usage "DATASET is missing" plan
want_usage "did you mean '--max-seconds'" plan "$c" --max-second 3
want_usage "--max-seconds: 'x' is not a number" plan "$c" --max-seconds x
want_usage "--max-seconds: '-1' is not a number" plan "$c" --max-seconds=-1
want_usage "--window: 0 is out of range" plan "$c" --window 0
want_usage "--world-size: 0 is out of range" plan "$c" --world-size 0
want_usage "--shuffle: 'some' is not global, none, or a number" plan "$c" --shuffle some
want_usage "--shuffle: '0' is not global" plan "$c" --shuffle 0
want_usage "is not error, drop or split" plan "$c" --long cut
want_usage "is not seconds, utterances or tokens" plan "$c" --unit hours
for weight in en en= =1x en=0 en=-1 en=nan en=inf ''; do
    want_usage "is not DOMAIN=W" plan "$d" --weight "$weight"
done
want_usage "talks" plan "$d" --domain nowhere
want_usage "talks" plan "$d" --weight nowhere=1
want_usage "train" plan "$d" --split nosuch
want_usage "lacks a closing quote" plan "$d" --compare "--domain 'en"
want_usage "unknown option '--jsn'" plan "$d" --compare "--jsn"
want_usage "unexpected argument 'x'" plan "$d" --compare "x"
run plan "$work/nowhere"
want_status 1
want_err "nowhere"

# Messages of the library name the command's options, and the utterance by its id.
want_usage "plan: --virtual-world-size is 4294967295" plan "$c" --virtual-world-size 4294967295
run plan "$d" --max-seconds 0.01
want_status 1
want_err "utterance 'en/hello-world' lasts 0.125 s, but --max-seconds is 0.010 s; set --long to drop or split, raise --max-seconds, or exclude the utterance with --max-duration"
run plan "$d" --max-padded-seconds 0.01
want_err "but --max-padded-seconds is 0.010 s"
run plan "$d" --max-seconds 0.01 --output float32
want_err "but --max-seconds is 0.010 s"
run bench "$d" --max-seconds 0.01
want_status 1
want_err "but --max-seconds is 0.010 s"

# ---- one plan ----

run plan "$c" --rate 16000
want_status 0
want_quiet
for word in utterances batches steps padding 'largest batch' 'shuffle quality' 'read amplification' took domain; do
    want_out "$word"
done
want_no_out "estimated"

for options in "" "--max-seconds 7" "--max-padded-seconds 5 --seed 3" "--max-utterances 1" "--max-utterances 9 --window 32" \
    "--shuffle none" "--shuffle 16 --max-seconds 5" "--world-size 3 --max-seconds 4" "--virtual-world-size 8 --max-seconds 4" \
    "--world-size 4 --drop-last --max-seconds 4" "--rate 16000 --duplicates once" "--max-duration 1 --min-duration 0.5" \
    "--epoch 7 --max-seconds 3" "--unit tokens" "--max-per-speaker 1" "--long split --max-seconds 0.5"; do
    # shellcheck disable=SC2086 # a list of options
    run plan --json "$c" $options
    want_status 0
    want_quiet
    want_json ".utterances == ([.domains[].utterances] | add)"
    want_json ".utterances + ([.left_out[]] | add) == $utterances"
    want_json "(.seconds - ([.domains[].seconds] | add)) | fabs < 0.001"
    want_json "([.domains[].share] | add) - 1 | fabs < 1e-9"
    want_json "([.domains[].share_realised] | add) - 1 | fabs < 1e-9"
    want_json ".steps * .batches_per_step == .batches + .missing_batches - .dropped_batches"
    want_json ".missing_batches < .batches_per_step and .dropped_batches < .batches_per_step"
    want_json ".estimated == false and .windows == .windows_looked_at"
    want_json ".padding >= 0 and .padding < 1 and .shuffle_quality >= 0 and .shuffle_quality <= 1"
    want_json ".read_amplification >= 1 and .batches > 0"
    want_json ".utterances_per_batch <= .utterances_per_batch_max"
    want_json ".longest_seconds <= .batch_seconds_max and .batch_seconds_max <= .batch_padded_seconds_max + 0.001"
    want_json ".batch_bytes_max_int16 >= .batch_seconds_max * .sample_rate_hz_max * 2"
    want_json ".batch_bytes_max_float32 >= .batch_padded_seconds_max * .sample_rate_hz_max * 4"
done

run plan --json "$c" --max-seconds 7
want_json ".batch_seconds_max <= 7"
run plan --json "$c" --max-padded-seconds 5
want_json ".batch_padded_seconds_max <= 5"
run plan --json "$c" --max-seconds 5 --output float32
want_json ".batch_padded_seconds_max <= 5"
run plan --json "$c" --output float32 --max-utterances 50
want_json ".utterances_per_batch_max == 50"
run plan --json "$c" --max-utterances 1
want_json ".batches == .utterances and .padding == 0 and .utterances_per_batch == 1"
run plan --json "$c" --world-size 4 --drop-last --max-seconds 4
want_json ".missing_batches == 0 and .steps == ((.batches / 4) | floor)"
run plan --json "$c" --duplicates once
want_json ".left_out.duplicates == $duplicates"
run plan --json "$c" --min-duration 1
want_json ".left_out.duration > 0 and .left_out.filtered == 0"
run plan --json "$c" --long drop --max-seconds 1
want_json ".left_out.too_long > 0 and .longest_seconds <= 1"
run plan "$c" --long drop --max-seconds 1
want_out "longer than a batch"
run plan "$c" --max-seconds 1
want_status 1
want_empty

# The same seed, the same plan; a table or JSON.
run plan --json "$c" --max-seconds 5 --seed 9
jq 'del(.took_seconds)' "$work/out" >"$work/first"
run plan --json "$c" --max-seconds 5 --seed 9
jq 'del(.took_seconds)' "$work/out" >"$work/second"
want_same "$work/first" "$work/second"

# ---- shares ----

run plan --json "$d" --alpha 1 --unit utterances
want_json '[.domains[] | select(.name == "talks") | .share - 4 / 11 | fabs < 1e-9] == [true]'
want_json '[.domains[].passes | . - 1 | fabs < 1e-6] | all'
run plan --json "$d" --alpha 0
want_json '[.domains[] | .share - 0.25 | fabs < 1e-9] | all and length == 4'
want_json '[.domains[] | select(.name == "de") | .passes > 1] == [true]'
run plan --json "$d" --weight talks=3 --weight en=1
want_json '[.domains[].name] | sort == ["en", "talks"]'
want_json '[.domains[] | select(.name == "talks") | .share - 0.75 | fabs < 1e-9] == [true]'
want_json '.left_out.filtered == 4'
run plan --json "$d" --weight talks=3 --weight en=1 --weight talks=1
want_json '[.domains[] | .share - 0.5 | fabs < 1e-9] == [true, true]'
# In utterances, shares are whole numbers of the 11 utterances of the epoch.
run plan --json "$d" --alpha 0 --unit utterances
want_json '[.domains[].items] | add == 11 and min >= 2 and max == 3'
want_json '[.domains[] | .share - .share_realised | fabs < 1e-9] | all'
run plan --json "$d" --domain talks,de
want_json '[.domains[].name] | sort == ["de", "talks"]'
want_json '.utterances == 5'
run plan --json "$d" --split train,test --language en
want_json '.utterances == 5 and .left_out.filtered == 6'
run plan "$d" --language en --domain de
want_status 1
want_empty
want_err "11"

# Several datasets: a domain that occurs in both counts as two domains.
run plan --json "$d" "$c"
want_status 0
want_json ".utterances == $utterances + 11 and ([.domains[].dataset] | unique | length) == 2"
run plan "$d" "$c"
want_out "d.spsh: talks"

# ---- --compare ----

run plan "$c" --seed 4 --compare '--max-seconds 3' --compare "--max-padded-seconds '3' --shuffle 16" --compare ''
want_status 0
want_lines 4
want_out "--max-seconds 3 "
want_out "(baseline)"
[ "$(sed -n 4p "$work/out" | cut -c 1-10)" = "(baseline)" ] || fail "an empty --compare places the baseline"
run plan "$c" --seed 4 --compare '--max-seconds 3'
want_status 0
want_lines 3
[ "$(sed -n 2p "$work/out" | cut -c 1-10)" = "(baseline)" ] || fail "the baseline is not the first row"
"$command" plan --json "$c" --max-seconds 6 | jq 'del(.took_seconds, .seconds_taken)' >"$work/alone"
run plan --json "$c" --max-seconds 6 --compare '--max-seconds 3'
want_status 0
want_json '.settings | length == 2 and .[0].options == "" and .[1].options == "--max-seconds 3"'
want_json ".settings[0].batches == $(jq .batches "$work/alone")"
# Options that are valid only together with the options of --compare: the baseline has no row.
run plan "$c" --max-seconds 0.5 --compare '--long drop --max-seconds 3'
want_status 0
want_lines 2
want_no_out "(baseline)"
want_err "the error above is from the options outside --compare"
run plan --json "$c" --max-seconds 6 --compare '--max-seconds 3' --compare '' --compare '--epoch 1'
want_status 2
run plan --json "$c" --max-seconds 6 --compare '--max-seconds 3' --compare '' --compare '--world-size 2'
want_status 0
want_json '.settings | length == 3'
want_json '.settings[0].options == "--max-seconds 3" and .settings[0].batch_seconds_max <= 3'
want_json '.settings[1].batch_seconds_max > 3 and .settings[0].batches > .settings[1].batches'
want_json '.settings[2].batches_per_step == 2'
run plan "$c" --compare '--max-seconds 3' --compare '--max-seconds 1'
want_status 1
want_empty
want_err "the error above is from --compare '--max-seconds 1'"

# ---- --cache ----

mkdir "$work/cache"
run plan --json "$c" --cache "$work/cache" --max-seconds 5
want_status 0
jq 'del(.took_seconds)' "$work/out" >"$work/first"
run plan --json "$c" --cache "$work/cache" --max-seconds 5
want_status 0
jq 'del(.took_seconds)' "$work/out" >"$work/second"
want_same "$work/first" "$work/second"
cli_result
