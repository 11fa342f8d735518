#!/bin/sh
# bench_test.sh: `bench` measures each part and reports what limits the loader. The test does not
# judge the figures.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
command -v jq >/dev/null || exit 77
d=$work/d.spsh
c=$work/c.spsh
"$make_dataset" "$d" "$work/expected" || exit 1
"$SPEECHSHARD_BUILD_DIR/tests/make_corpus" "$work/corpus" 70 2000 || exit 1
"$command" pack "$work/corpus" -o "$c" --quiet >/dev/null || exit 1
find "$c" -type f -exec cksum '{}' + | sort >"$work/before"

want_json() { # want_json EXPRESSION: is true of standard output
    jq -e "$1" "$work/out" >/dev/null || fail "not true: $1 of $(head -c 3000 "$work/out")"
}

want_usage "DATASET is missing" bench
want_usage "exclude each other" bench "$c" --cached --direct
want_usage "is not auto, io_uring or pread" bench "$c" --engine mmap
want_usage "--threads: 0 is out of range" bench "$c" --threads 0
want_usage "--seconds: 'long' is not a number" bench "$c" --seconds long
want_usage "--seconds is 0, must be more than 0" bench "$c" --seconds 0
want_usage "--alpha: 'x' is not a number" bench "$c" --alpha x
want_usage "is not DOMAIN=W" bench "$c" --weight x
want_usage "talks" bench "$d" --domain nowhere
run bench "$work/nowhere"
want_status 1
want_err "nowhere"
run bench "$c" --max-duration 0.001 --seconds 0.1
want_status 1
want_empty

run bench "$c" --seconds 0.2 --rate 16000
want_status 0
want_quiet
for part in 'raw, sequential' 'raw, random' 'bare decode' loader batches read CPU 'gap, median' 'gap, P99' wait padding \
    'first batch'; do
    want_out "$part"
done
grep -qE '^(bound by |no single limit)' "$work/out" || fail "no verdict: $(cat "$work/out")"

for options in "" "--cached --engine pread" "--threads 3 --max-seconds 3" "--output float32 --rate 8000" "--cold" \
    "--direct" "--world-size 2 --max-utterances 4"; do
    # shellcheck disable=SC2086 # a list of options
    run bench --json "$c" --seconds 0.2 $options
    want_status 0
    want_json '.utterances == 70 and .sample_utterances > 0'
    want_json '.sequential.bytes > 0 and .random.bytes > 0 and .random.reads > 0'
    want_json '.decode.audio_seconds > 0 and .loader.audio_seconds > 0 and .loader.batches > 0'
    want_json '.loader.padding >= 0 and .loader.wait >= 0 and .loader.read_bytes >= 0'
    want_json '.bound_by | IN("nothing", "consumer", "decoding", "disk")'
    want_json '.loader.engine | IN("io_uring", "pread")'
    want_json '.loader.engine == .random.engine and .loader.direct == .random.direct'
done
run bench --json "$c" --seconds 0.2 --engine pread --threads 3 --cached
want_json '.loader.engine == "pread" and .loader.threads == 3 and .decode.threads == 3'
want_json '.loader.direct == false and .random.direct == false and has("resident") == false'
run bench --json "$c" --seconds 0.2 --cold
want_json '.resident >= 0 and .resident <= 1'

# Every codec and format, segments, several rates and channel counts, two datasets.
run bench --json "$d" "$c" --seconds 0.2 --rate 16000
want_status 0
want_json '.utterances == 81'

# To a device: the host emulation, which needs no GPU.
export SPEECHSHARD_CUDA_PLUGIN="$SPEECHSHARD_BUILD_DIR/tests/libtwin_plugin.so"
"$command" pack "$work/corpus" -o "$work/pcm.spsh" --codec pcm --quiet >/dev/null 2>&1 || exit 1
run bench "$work/pcm.spsh" --seconds 0.2 --rate 16000 --device 0
want_status 0
want_out 'copies only'
want_out 'to the device'
want_out 'hours per second'
for options in "--device 0" "--device 1 --decode device" "--device 1 --output float32" \
    "--device 0 --decode device --features kaldi-fbank,mel_count=20"; do
    # shellcheck disable=SC2086 # a list of options
    run bench --json "$work/pcm.spsh" --seconds 0.2 --rate 16000 $options
    want_status 0
    # On a busy machine the slots may be full before the measurement begins.
    want_json '.device.copies_alone_mb_per_s > 0 and (.device.copied_bytes > 0 or .loader.batches <= .loader.slots) and .device.device_bytes > 0'
    want_json '.device.pinned and (.device.name | startswith("twin")) and .device.audio_hours_per_s > 0'
    want_json '.of_copies_alone >= 0 and .loader.batches > 0'
    want_json '.bound_by | IN("nothing", "consumer", "decoding", "disk", "link")'
done
run bench --json "$c" --seconds 0.1
want_json 'has("device") == false'
want_usage "--decode device needs --device" bench "$c" --decode device
want_usage "unknown preset of features" bench "$c" --features nope
run bench "$c" --device 7 --seconds 0.1
want_status 1
want_err "device 7 does not exist"
export SPEECHSHARD_CUDA_PLUGIN="$work/nothing.so"
run bench "$c" --device 0 --seconds 0.1
want_status 1
want_empty
want_err "the CUDA plug-in was not found"
unset SPEECHSHARD_CUDA_PLUGIN

# A damaged record is named, and not measured.
cp -r "$c" "$work/damaged.spsh"
for shard in "$work"/damaged.spsh/shards/*.spsh; do
    printf 'x' | dd of="$shard" bs=1 seek=4600 conv=notrunc status=none
done
run bench "$work/damaged.spsh" --seconds 0.2
want_status 1
want_empty
want_err "shards/"
export SPEECHSHARD_CUDA_PLUGIN="$SPEECHSHARD_BUILD_DIR/tests/libtwin_plugin.so"
run bench "$work/damaged.spsh" --seconds 0.2 --device 0
want_status 1
want_empty
want_err "shards/"
unset SPEECHSHARD_CUDA_PLUGIN

# Nothing was written.
find "$c" -type f -exec cksum '{}' + | sort >"$work/after"
want_same "$work/before" "$work/after"
cli_result
