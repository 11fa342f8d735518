#!/bin/bash
# Realistic copies of speech: each source with each codec, rate, filter, room, and speed.
#
#     transform.sh DATA WORK [PER_SPEAKER]     (DATA: the folder of real speech; WORK: is made)
#     FAMILIES='gsm|opus_10' PART=4 transform.sh DATA WORK 0
#
# FAMILIES: only those whose names match; PART (0 to 7): which eighth of train-clean-100's speakers.
# Writes WORK/list.tsv (family, group, id, path; the originals have the family `source`) and the WAV
# files that it names. Group is the corpus and the speaker. Sources: PER_SPEAKER (3) utterances of
# each of the 10 speakers of LibriSpeech test-other, and one each of 30 speakers of train-clean-100;
# the natural pairs of kerstin-pairs and ljspeech-3codecs as they are. Needs ffmpeg (with gsm,
# speex, codec2, opus, mp3lame), sox, lame.
set -euo pipefail
data=$1
work=$2
per_speaker=${3:-3}
mkdir -p "$work"

# Name, then the command that makes $out from $in; "via X ..." encodes with ffmpeg into a file .X
# and back.
all_families() {
    cat <<'END'
flac        via flac -c:a flac
wav24       via wav -c:a pcm_s24le
mp3_128     via mp3 -c:a libmp3lame -b:a 128k
mp3_64      via mp3 -ar 24000 -c:a libmp3lame -b:a 64k
mp3_48      via mp3 -ar 24000 -c:a libmp3lame -b:a 48k
mp3_32      via mp3 -c:a libmp3lame -b:a 32k
mp3_24      via mp3 -c:a libmp3lame -b:a 24k
mp3_shine   via mp3 -ar 44100 -ac 2 -c:a libshine -b:a 96k
opus_32     via ogg -c:a libopus -b:a 32k
opus_24     via ogg -c:a libopus -b:a 24k
opus_10     via ogg -c:a libopus -b:a 10k
opus_6      via ogg -c:a libopus -b:a 6k
vorbis_q0   via ogg -c:a libvorbis -q:a 0
aac_48      via m4a -c:a aac -b:a 48k
aac_24      via m4a -c:a aac -b:a 24k
gsm         via gsm -ar 8000 -c:a libgsm
g711        via wav -ar 8000 -c:a pcm_mulaw
adpcm_ima   via wav -c:a adpcm_ima_wav
g722        via wav -ar 16000 -c:a g722
g726_32     via wav -ar 8000 -c:a g726 -b:a 32k
g726_16     via wav -ar 8000 -c:a g726 -b:a 16k
speex_8     via ogg -ar 8000 -c:a libspeex -b:a 8k
codec2_3200 via c2 -ar 8000 -c:a libcodec2 -mode 3200
codec2_1300 via c2 -ar 8000 -c:a libcodec2 -mode 1300
rate_8000   ffmpeg -ar 8000
rate_11025  ffmpeg -ar 11025
rate_22050  ffmpeg -ar 22050
rate_44100  sox rate 44100
rate_48000  ffmpeg -ar 48000
gain_-20    sox gain -20
gain_-12    sox gain -12
gain_clip   sox gain -n 9
compressor  sox compand 0.01,0.2 -60,-40,-30,-20,-10,-12 0
polarity    sox vol -1
cut_137     sox trim 0.137
pad_500     sox pad 0.5 0.5
highpass    sox highpass 200 treble +6
telephone   ffmpeg -af highpass=f=300,lowpass=f=3400
tilt_-6     sox bass -6 treble +6
denoise     ffmpeg -af afftdn=nr=20
allpass     ffmpeg -af allpass=f=500,allpass=f=1000,allpass=f=2000,allpass=f=3000
white_20    noise white 20
white_10    noise white 10
white_5     noise white 5
babble_10   babble 10
reverb_20   sox gain -3 reverb 20
reverb_40   sox gain -3 reverb 40
reverb_60   sox gain -3 reverb 60
speed_0.97  sox speed 0.97
speed_0.99  sox speed 0.99
speed_1.01  sox speed 1.01
speed_1.03  sox speed 1.03
speed_1.1   sox speed 1.1
tempo_0.9   sox tempo -s 0.9
tempo_1.1   sox tempo -s 1.1
combined    combined
END
}

families() {
    all_families | grep -E "^(${FAMILIES:-.*}) "
}

rms() {
    sox "$1" -n stat 2>&1 | awk '/RMS.*amplitude/ { print $3 }'
}

# make FAMILY HOW... : transform $in to $out. $other is speech of others, for babble noise.
make() {
    local how=$1 temp
    shift
    case $how in
    via)
        temp=$out.$1
        shift
        ffmpeg -nostdin -v error -y -i "$in" "$@" "$temp"
        if [[ $* == *libcodec2* ]]; then
            ffmpeg -nostdin -v error -y -f codec2 -i "$temp" -c:a pcm_s16le "$out"
        else
            ffmpeg -nostdin -v error -y -i "$temp" -c:a pcm_s16le "$out"
        fi
        rm "$temp"
        ;;
    ffmpeg) ffmpeg -nostdin -v error -y -i "$in" "$@" -c:a pcm_s16le "$out" ;;
    sox) sox -R "$in" -b 16 "$out" "$@" 2>/dev/null ;;
    noise) # KIND DB below the speech
        sox -R "$in" -b 16 "$out.noise.wav" synth "${1}noise" gain -n 0
        mix "$out.noise.wav" "$2"
        ;;
    babble)
        sox -R "$other" -b 16 "$out.noise.wav" repeat 9 trim 0 "$(soxi -D "$in")"
        mix "$out.noise.wav" "$1"
        ;;
    combined)
        sox -R "$in" -b 16 "$out.cut.wav" trim 0.231 gain -6 rate 8000
        ffmpeg -nostdin -v error -y -i "$out.cut.wav" -c:a libopus -b:a 24k "$out.ogg"
        ffmpeg -nostdin -v error -y -i "$out.ogg" -c:a pcm_s16le "$out"
        rm "$out.cut.wav" "$out.ogg"
        ;;
    esac
}

mix() { # mix NOISE DB
    local scale
    scale=$(awk -v s="$(rms "$in")" -v n="$(rms "$1")" -v db="$2" 'BEGIN { print s / n / 10 ^ (db / 20) }')
    sox -R -m -v 0.5 "$in" -v "$(awk -v x="$scale" 'BEGIN { print x / 2 }')" "$1" -b 16 "$out"
    rm "$1"
}

# A worker makes the copies of one source in all families.
if [ "${4:-}" = one ]; then
    in=$5
    other=$6
    families | while read -r name how; do
        out=$work/$(basename "$in" .wav).$name.wav
        # shellcheck disable=SC2086 # the words of the recipe
        [ -s "$out" ] || make $how || echo "$in: no $name" >&2
    done
    exit
fi

: >"$work/list.tsv"
take() { # take GROUP FILE: a source
    local id path
    id=$(basename "$2" .flac)
    path=$work/$id.wav
    [ -s "$path" ] || sox "$2" -b 16 "$path"
    printf '%s\t%s\n' "$1" "$path" >>"$work/sources.tsv"
}
: >"$work/sources.tsv"
for speaker in "$data"/librispeech-351/librispeech_test-other/*/; do
    find "$speaker" -name '*.flac' | sort | awk -v most="$per_speaker" 'NR <= most' | while read -r file; do
        take "test-other/$(basename "$speaker")" "$file"
    done
done
find "$data/librispeech-351/librispeech_train-clean-100" -name '*.flac' | sort |
    awk -v part="${PART:-0}" 'NR % 8 == part && count++ < 30' |
    while read -r file; do
        name=$(basename "$file")
        take "train-clean/${name%%-*}" "$file"
    done
awk -F '\t' '{ print $2 }' "$work/sources.tsv" >"$work/paths"
paste "$work/paths" <(tail -n +2 "$work/paths"; head -n 1 "$work/paths") | tr '\t' '\n' |
    xargs -P "$(nproc)" -n 2 "$0" "$data" "$work" "$per_speaker" one

# shellcheck disable=SC2129 # three loops, three kinds
while IFS=$'\t' read -r group path; do
    id=$(basename "$path" .wav)
    printf 'source\t%s\t%s\t%s\n' "$group" "$id" "$path"
    families | while read -r name how; do
        out=$work/$id.$name.wav
        [ ! -s "$out" ] || printf '%s\t%s\t%s\t%s\n' "$name" "$group" "$id" "$out"
    done
done <"$work/sources.tsv" >>"$work/list.tsv"

# Pairs that exist in real corpora.
for file in "$data"/kerstin-pairs/cleaned/*.flac; do
    id=$(basename "$file" .flac)
    printf 'source\tkerstin\t%s\t%s\n' "$id" "$file"
    for twin in "$data"/kerstin-pairs/original/"$id".*; do
        out=$work/$id.webm.wav
        [ -s "$out" ] || ffmpeg -nostdin -v error -y -i "$twin" -c:a pcm_s16le "$out"
        printf 'natural\tkerstin\t%s\t%s\n' "$id" "$out"
    done
done >>"$work/list.tsv"
find "$data/ljspeech-3codecs" -name '*.wav' | sort | while read -r file; do
    id=$(basename "$file" .wav)
    printf 'source\tlj\t%s\t%s\n' "$id" "$file"
    for kind in flac mp3; do
        find "$data/ljspeech-3codecs" -name "$id.$kind" | while read -r copy; do
            printf 'lj_%s\tlj\t%s\t%s\n' "$kind" "$id" "$copy"
        done
    done
done >>"$work/list.tsv"
wc -l <"$work/list.tsv"
