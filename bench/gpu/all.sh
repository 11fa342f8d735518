#!/bin/bash
# all.sh [--built FOLDER] [--minutes M]: builds (preset `bench`), checks and times everything that needs a GPU, one JSON object
# on standard output; what is going on, on standard error. FOLDER: of pack.sh, where nothing can be built. M: after so many
# minutes nothing new is begun (8). Without a device it says so ("measured": false) and ends with 0.
#
#     bench/gpu/all.sh > bench/results/gpu-$(nvidia-smi --query-gpu=name --format=csv,noheader | tr ' ' '-').json
set -euo pipefail
cd "$(dirname "$0")/../.."

folder='' minutes=8
while [[ $# -gt 0 ]]; do
    case $1 in
    --built) folder=$2 && shift 2 ;;
    --minutes) minutes=$2 && shift 2 ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
done
if [[ -z $folder ]]; then
    cmake --preset bench >&2
    cmake --build build/bench --parallel "$(nproc)" >&2
    folder=build/bench/gpu
    bench/gpu/pack.sh build/bench "$folder"
fi
folder=$(realpath "$folder")
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
plugin=$folder/libspeechshard-cuda.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
end=$((SECONDS + minutes * 60))
failed=0

if [[ $("$folder/speechshard" info --devices --json | jq '.devices | length') == 0 ]]; then
    jq -n --arg reason "$("$folder/speechshard" info --devices 2>&1 | tail -n 1)" '{measured: false, reason: $reason}'
    exit 0
fi

# part NAME COMMAND...: its JSON, or why there is none, becomes $work/NAME.json.
part() {
    local name=$1 status=0 start=$SECONDS
    shift
    if ((SECONDS >= end)); then
        echo '{"measured": false, "reason": "no time was left"}' >"$work/$name.json"
        return
    fi
    "$@" >"$work/$name.out" 2>"$work/$name.err" || status=$?
    if ((status == 0)) && jq -e . "$work/$name.out" >/dev/null 2>&1; then
        cp "$work/$name.out" "$work/$name.json"
    else
        failed=$((failed + 1))
        tail -n 20 "$work/$name.err" >&2
        jq -n --arg status "$status" --rawfile text "$work/$name.err" \
            '{measured: false, reason: ("exit \($status): " + ($text | .[-400:]))}' >"$work/$name.json"
    fi
    echo "$name: exit $status after $((SECONDS - start)) s" >&2
}

# Right before fast: the tests, each as a line "NAME passed|skipped|failed".
check() {
    local name words result
    while read -r name words; do
        result=passed
        # shellcheck disable=SC2086 # words of a command line
        (cd "$folder" && timeout 120 ./$words) >"$work/test.out" 2>&1 || result=$?
        [[ $result != 77 ]] || result=skipped
        [[ $result == passed || $result == skipped ]] || tail -n 30 "$work/test.out" >&2
        echo "$name: $result" >&2
        jq -n --arg name "$name" --arg result "$result" '{($name): $result}'
    done <"$folder/tests.txt" | jq -s 'add // {}'
}

# Bytes a second that the link can carry in one direction, by generation and width.
link_gb_per_s() {
    nvidia-smi --query-gpu=pcie.link.gen.max,pcie.link.width.max --format=csv,noheader,nounits |
        awk -F', ' 'NR == 1 { lane[1] = 0.25; lane[2] = 0.5; lane[3] = 0.985; lane[4] = 1.969; lane[5] = 3.938; lane[6] = 7.563
                              print lane[$1] * $2 }'
}

# Speech-like noise as WAV files, packed as pcm: enough for the loader to run for a while.
corpus() {
    python3 bench/gpu/corpus.py "$work/corpus" 2000 >&2
    "$folder/speechshard" pack "$work/corpus" -o "$work/corpus.spsh" --codec pcm --quiet >&2
}

# Training from shards: how long the device waited for data.
training() {
    local words=("data.train=[$work/corpus.spsh]" "vocabulary=$work/vocabulary.txt")
    "$folder/speechshard" train bench/gpu/train.yaml --make-vocab "${words[@]}" >&2 &&
        "$folder/speechshard" train bench/gpu/train.yaml -o "$work/run" "${words[@]}" >&2 &&
        jq -s '[.[] | select(.step_s)] | .[5:] | {measured: true, steps: length, step_s: (map(.step_s) | add),
            wait_s: (map(.wait_s) | add), idle_for_data: ((map(.wait_s) | add) / (map(.step_s) | add))}' \
            "$work/run/metrics.jsonl"
}

part tests check
part copy "$folder/bench/bench_gpu_copy" "$plugin" "$(link_gb_per_s)"
part features "$folder/bench/bench_gpu_features" "$plugin"
part pcm "$folder/bench/bench_gpu_pcm" "$plugin"
part recurrence "$folder/bench/bench_gpu_recurrence" "$plugin"
corpus
part loader "$folder/speechshard" bench "$work/corpus.spsh" --device 0 --json
part loader_device_decode "$folder/speechshard" bench "$work/corpus.spsh" --device 0 --decode device --json
part training training
part steps python3 bench/gpu/steps.py "$folder/bench/bench_train_step" "$plugin" --rounds 8 --batches 64 --precisions bf16,fp16,fp32
part steps_batches python3 bench/gpu/steps.py "$folder/bench/bench_train_step" "$plugin" --rounds 6 --batches 16,32,128 --precisions bf16

jq -n --arg device "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)" \
    --arg driver "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" \
    --arg clocks "$(nvidia-smi --query-gpu=clocks.sm,clocks.mem --format=csv,noheader | head -n 1)" \
    '{measured: true, device: $device, driver: $driver, clocks: $clocks}' >"$work/head.json"
(
    cd "$work"
    for name in tests copy features pcm recurrence loader loader_device_decode training steps steps_batches; do
        jq --arg name "$name" '{($name): .}' "$name.json"
    done
) | jq -s --slurpfile head "$work/head.json" '$head[0] + add'
((failed == 0))
