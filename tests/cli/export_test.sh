#!/bin/sh
# export_test.sh: `export` to WAV files, to files as stored, to WebDataset tars.
. "$SPEECHSHARD_SOURCE_DIR/tests/cli/cli_kit.sh"
d=$work/d.spsh
"$make_dataset" "$d" "$work/expected" || exit 1
e=$work/expected

# --to wav: ids as paths that stay inside, samples as cat writes them, a manifest with exact texts.
run export "$d" --to wav -o "$work/wav"
want_status 0
want_empty
want_err "exported 11 utterances"
(cd "$work/wav" && find . -type f | LC_ALL=C sort) >"$work/files"
cat >"$work/want" <<'END'
./%2E%2E/%2E%2E/escape.wav
./a%2Ewav/b.wav
./a.wav
./copy-of-hello.wav
./en/float.wav
./en/hello-world.wav
./en/stereo.wav
./manifest.csv
./session-1.wav
./session-2.wav
./session/3.wav
./über%20uns.wav
END
want_same "$work/want" "$work/files"
[ ! -e "$work/escape.wav" ] || fail "a file outside of the directory"
want_same "$e/0.wav" "$work/wav/en/hello-world.wav"
want_same "$e/1.wav" "$work/wav/en/stereo.wav"
want_same "$e/2.wav" "$work/wav/en/float.wav"
want_same "$e/4.wav" "$work/wav/session-2.wav"
want_same "$e/7.wav" "$work/wav/%2E%2E/%2E%2E/escape.wav"
want_same "$e/9.wav" "$work/wav/a%2Ewav/b.wav"
want_same "$e/10.wav" "$work/wav/über%20uns.wav"
cat >"$work/want" <<END
path,id,text,domain,split,speaker,language,document
en/hello-world.wav,en/hello-world,"Hello, world",en,train,Allison,en,prompts
en/stereo.wav,en/stereo,"He said ""yes"",
then${tab}left.",en,test,Allison,en,
en/float.wav,en/float,,en,,,,
session-1.wav,session-1,one,talks,train,B,en,session
session-2.wav,session-2,two,talks,train,C,en,session
session/3.wav,session/3,,talks,train,B,en,session
copy-of-hello.wav,copy-of-hello,Bonjour,fr,train,,fr,
%2E%2E/%2E%2E/escape.wav,../../escape,$(printf '\033')[31mred,talks,test,,,
a.wav,a,a,fr,train,,fr,
a%2Ewav/b.wav,a.wav/b,b,fr,train,,fr,
über%20uns.wav,über uns,Straße,de,test,,de,
END
want_same "$work/want" "$work/wav/manifest.csv"

# --to files: the stored bytes, once per recording; segments by their times.
run export "$d" --to files -o "$work/files.d"
want_status 0
want_same "$e/0.bin" "$work/files.d/en/hello-world.wav"
want_same "$e/3.bin" "$work/files.d/long/session.flac"
want_same "$e/4.bin" "$work/files.d/%2E%2E/%2E%2E/escape.spcm"
want_same "$e/7.bin" "$work/files.d/über%20uns.flac"
[ "$(find "$work/files.d" -type f | wc -l)" -eq 9 ] || fail "want 8 recordings and a manifest"
cp "$work/files.d/manifest.csv" "$work/out"
want_out "path,id,text,domain,split,speaker,language,start,end,document"
want_out "long/session.flac,session-2,two,talks,train,C,en,1.000000000,2.500062500,session"
want_out "en/hello-world.wav,copy-of-hello,Bonjour,fr,train,,fr,,,"

# Filters, and errors about existing files.
run export "$d" --to wav --domain talks --split test -o "$work/some"
want_status 0
want_err "exported 1 utterances"
run export "$d" --to wav -o "$work/some"
want_status 1
want_err "$work/some is not empty"
run export "$d" --to wav -o "$work/no/such/folder"
want_status 1
want_err "no/such"
run export "$d" --to wav --domain talks --split test -o "$work/counted" --json
want_status 0
want_quiet
want_out "\"output\":\"$work/counted\",\"to\":\"wav\",\"exported\":1,\"bytes\":"
want_out '"skipped":0,"failed":0}'
want_usage "there is no split 'dev'" export "$d" --to wav --split dev -o "$work/none"
[ ! -e "$work/none" ] || fail "a directory after a wrong argument"
mkdir "$work/empty"
run export "$d" --to wav --quiet -o "$work/empty"
want_status 0
want_quiet

# --to webdataset: deterministic tars of samples in order.
run export "$d" --to webdataset -o "$work/tars"
want_status 0
tar -tf "$work/tars/shard-000000.tar" >"$work/out"
cat >"$work/want" <<'END'
en/hello-world.wav
en/hello-world.txt
en/hello-world.json
en/stereo.wav
en/stereo.txt
en/stereo.json
en/float.wav
en/float.json
session-1.wav
session-1.txt
session-1.json
session-2.wav
session-2.txt
session-2.json
session/3.wav
session/3.txt
session/3.json
copy-of-hello.wav
copy-of-hello.txt
copy-of-hello.json
%2E%2E/%2E%2E/escape.wav
%2E%2E/%2E%2E/escape.txt
%2E%2E/%2E%2E/escape.json
a.wav
a.txt
a.json
a%2Ewav/b.wav
a%2Ewav/b.txt
a%2Ewav/b.json
END
sed 's/^/|/' "$work/want" >"$work/want.2"
head -n 29 "$work/out" | sed 's/^/|/' >"$work/out.2"
want_same "$work/want.2" "$work/out.2"
want_lines 32
mkdir "$work/untar"
tar -xf "$work/tars/shard-000000.tar" -C "$work/untar"
want_same "$e/0.bin" "$work/untar/en/hello-world.wav"
want_same "$e/4.wav" "$work/untar/session-2.wav"
want_same "$e/7.wav" "$work/untar/%2E%2E/%2E%2E/escape.wav"
want_same "$e/7.bin" "$work/untar/über%20uns.flac"
printf 'He said "yes",\nthen\tleft.' >"$work/want"
want_same "$work/want" "$work/untar/en/stereo.txt"
: >"$work/want"
want_same "$work/want" "$work/untar/session/3.txt"
cp "$work/untar/session-2.json" "$work/out"
for member in '"id":"session-2"' '"text":"two"' '"domain":"talks"' '"speaker":"C"' '"samples":24001' \
    '"sample_rate_hz":16000' '"document":"session"'; do
    want_out "$member"
done
run export "$d" --to webdataset -o "$work/tars.2"
want_same "$work/tars/shard-000000.tar" "$work/tars.2/shard-000000.tar"
run export "$d" --to webdataset --shard-size 64K -o "$work/tars.3"
want_status 0
[ "$(find "$work/tars.3" -name 'shard-00000?.tar' | wc -l)" -eq 3 ] || fail "want 3 tars: $(ls -l "$work/tars.3")"
for tar in "$work"/tars.3/*.tar; do
    tar -tf "$tar"
done >"$work/out"
want_lines 32

# Packing the export produces the same utterances.
run ls "$d"
LC_ALL=C sort "$work/out" >"$work/want"
for tars in tars tars.3; do
    run pack "$work/$tars" -o "$work/again-$tars.spsh"
    want_status 0
    want_err "recognized as webdataset"
    run ls "$work/again-$tars.spsh"
    LC_ALL=C sort "$work/out" >"$work/again"
    want_same "$work/want" "$work/again"
done
[ -z "$(find "$work" -name '*.tmp-*')" ] || fail "a temporary file is left"
cli_result
