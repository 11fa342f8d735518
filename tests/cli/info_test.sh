#!/bin/sh
# info_test.sh: `info` of the dataset of make_dataset.c, as a table and as JSON.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
d=$work/d.spsh
"$make_dataset" "$d" "$work/expected" || exit 1

run info "$d"
want_status 0
want_quiet
sed 's/  */ /g' "$work/out" >"$work/squeezed"
cp "$work/squeezed" "$work/out"
want_out "format 1.0 generation 1"
want_out "shards 2"
want_out "utterances 11 10 with text"
want_out "recordings 9 8 stored"
want_out "duplicates 1"
want_out "speakers 3"
want_out "rejects 2 of 13 rows"
want_out "talks 4 3.31 s"
want_out "de 1 0.01 s"
want_out "train 7"
want_out "(none) 1"
want_out "44100 Hz 1 0.01 s"
want_out "codec wav 6, flac 4, pcm 1"
want_out "languages en 5, fr 3, de 1"

run info --json "$d"
want_status 0
want_quiet
tr -d '\n' <"$work/out" | sed 's/  *//g' >"$work/flat"
cp "$work/flat" "$work/out"
for member in '"format_version":"1.0"' '"shards":2' '"utterances":11' '"served":11' '"skipped":0' '"leftovers":[]' '"recordings":9' '"payloads":8' \
    '"duplicates":1' '"speakers":3' '"with_text":10' '"rejects":2' '"source_rows":13' '"samples":56798' \
    '"generation":1' '"unused_payload_bytes":0' '"dataset_id":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"' \
    '"splits":{' '"train":7' '"test":3' '"":1' '"codec":{"wav":6,"flac":4,"pcm":1}' \
    '"languages":{"en":5,"fr":3,"de":1}' '"8000":4' '"overlays":[]' '"options":{"codec":"keep"}' \
    '{"name":"talks","utterances":4,"seconds":3.3125}'; do
    want_out "$member"
done
bytes=$(cat "$d"/shards/*.spsh | wc -c)
want_out "\"bytes\":$bytes,"

# Devices: the devices of the host emulation, then no device, with a reason.
twin=$SPEECHSHARD_BUILD_DIR/tests/libtwin_plugin.so
SPEECHSHARD_CUDA_PLUGIN=$twin run info --devices
want_status 0
want_quiet
want_lines 4
want_out "device 1   twin 1, sm_90, 2 multiprocessors, 8.59 GB free of 8.59 GB, driver for CUDA"
want_out "library    twinBLAS 1.2.3, for tests"
want_out "library    twinDNN is missing (for tests): libtwindnn.so.1: there is none"
SPEECHSHARD_CUDA_PLUGIN=$twin run info --devices --json
want_status 0
want_out '"name": "twin 0"'
want_out '"free_bytes": 8589934592'
want_out '"version": "1.2.3"'
want_out '"reason": "libtwindnn.so.1: there is none"'
want_out '"reason": null'
SPEECHSHARD_CUDA_PLUGIN=$work/nothing.so run info --devices
want_status 0
want_quiet
want_out "no device  $work/nothing.so: the CUDA plug-in was not found"
SPEECHSHARD_CUDA_PLUGIN=$work/nothing.so run info --devices --json
want_status 0
want_out '"devices": []'
want_out '"libraries": []'
want_out 'nothing.so: the CUDA plug-in was not found"'
# A path that is not a dataset is described.
printf 'RIFF    WAVEfmt ' >"$work/speech.wav"
printf 'path\ttext\n' >"$work/table.tsv"
mkdir "$work/folder" "$work/run"
touch "$work/run/metrics.jsonl"
for name in info ls plan verify; do
    run "$name" "$work/speech.wav"
    want_status 1
    want_empty
    want_err "$work/speech.wav: a WAV file, not a dataset; make a dataset of"
done
run info "$work/table.tsv"
want_err "table.tsv: a file, not a dataset; make a dataset of"
run info "$d/manifest.spsh"
want_err "manifest.spsh: a file inside a dataset; give the folder of the dataset instead"
run info "$work/run"
want_err "run: a training run, not a dataset; speechshard report describes it"
run info "$work/folder"
want_err "folder: no manifest.spsh and no shards: not a dataset; make a dataset of a corpus"
run info "$work/nothing"
want_status 1
want_err "nothing: no such directory"
want_usage "--devices takes no dataset" info --devices "$d"
want_usage "DATASET is missing" info
cli_result
