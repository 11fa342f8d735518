#!/bin/sh
# prepare.sh RECORDINGS CORPUS: makes a corpus of spoken digits, single and connected, out of the
# recordings of the Free Spoken Digit Dataset ({digit}_{speaker}_{take}.wav, 8 kHz, 16 bits).
#
#     CORPUS/metadata.tsv       path, id, text, speaker, split, domain, language
#     CORPUS/single/            the recordings: takes 0 to 4 are the split `test`, the rest `train`
#     CORPUS/connected/         3 to 7 recordings of one speaker and split, one after the other:
#                               splits `train` and `test-connected`
#
# Which recordings are joined is drawn from a fixed seed: each is in four utterances of training, or
# in two of the test.
set -eu
export LC_ALL=C
# shellcheck source=recipes/wav.sh
. "$(dirname "$0")/../wav.sh"

if [ $# -ne 2 ] || [ ! -e "$1/0_george_0.wav" ]; then
    echo "usage: prepare.sh RECORDINGS CORPUS (a folder with 0_george_0.wav and the others; a new one)" >&2
    exit 2
fi
recordings=$1
corpus=$2
mkdir -p "$corpus/single" "$corpus/connected"
cp "$recordings"/[0-9]_*_*.wav "$corpus/single/"

# Print one line per utterance: split, speaker, words, bytes of samples, file names. WAV headers
# have 44 bytes.
plan() {
    (cd "$corpus/single" && wc -c -- *.wav) | awk '
        function draw(n) { # 0 ... n - 1; a generator of 31 bits, its upper ones
            seed = (seed * 1103515245 + 12345) % 2147483648
            return int(seed / 65536) % n
        }
        function join(key, rounds,    split_name, n, i, j, k, t, files, count, left, sum) {
            split_name = key
            sub(/ .*/, "", split_name)
            for (n = split(list[key], files, " "); rounds > 0; rounds--) {
                for (i = n; i > 1; i--) {
                    j = 1 + draw(i)
                    t = files[i]; files[i] = files[j]; files[j] = t
                }
                for (i = 1; n - i + 1 >= 3; i += count) {
                    left = n - i + 1
                    count = 3 + draw(5)
                    if (count > left || left - count < 3)
                        count = left <= 7 ? left : count > left - 3 ? left - 3 : count
                    line = split_name == "test" ? "test-connected" : split_name
                    t = key
                    sub(/.* /, "", t)
                    line = line "\t" t "\t"
                    for (k = 0; k < count; k++)
                        line = line (k ? " " : "") word[substr(files[i + k], 1, 1)]
                    sum = 0
                    for (k = 0; k < count; k++)
                        sum += bytes[files[i + k]] - 44
                    line = line "\t" sum "\t"
                    for (k = 0; k < count; k++)
                        line = line (k ? " " : "") files[i + k]
                    print line
                }
            }
        }
        BEGIN {
            seed = 1
            split("zero one two three four five six seven eight nine", names, " ")
            for (i = 0; i < 10; i++)
                word[i] = names[i + 1]
        }
        $2 != "total" {
            bytes[$2] = $1
            split($2, part, "_")
            key = (part[3] + 0 < 5 ? "test" : "train") " " part[2]
            if (!(key in list))
                order[++keys] = key
            list[key] = list[key] (key in list && list[key] != "" ? " " : "") $2
        }
        END {
            for (i = 1; i <= keys; i++)
                join(order[i], order[i] ~ /^test/ ? 2 : 4)
        }'
}

# joined BYTES FILE...: write a WAV file with the samples of all files, BYTES in total.
joined() {
    wav_head "$1" 8000
    shift
    tail -q -c +45 -- "$@"
}

{
    printf 'path\tid\ttext\tspeaker\tsplit\tdomain\tlanguage\n'
    (cd "$corpus/single" && printf '%s\n' *.wav) | awk -v OFS='\t' '
        BEGIN { split("zero one two three four five six seven eight nine", word, " ") }
        {
            id = $0
            sub(/\.wav$/, "", id)
            split(id, part, "_")
            print "single/" $0, id, word[part[1] + 1], part[2], (part[3] + 0 < 5 ? "test" : "train"), "single", "en"
        }'
    plan | {
        number=0
        tab=$(printf '\t')
        while IFS="$tab" read -r split speaker text bytes files; do
            number=$((number + 1))
            name=$(printf 'connected_%s_%04d' "$speaker" "$number")
            (
                cd "$corpus/single"
                # shellcheck disable=SC2086
                joined "$bytes" $files
            ) >"$corpus/connected/$name.wav"
            printf 'connected/%s.wav\t%s\t%s\t%s\t%s\tconnected\ten\n' "$name" "$name" "$text" "$speaker" "$split"
        done
    }
} >"$corpus/metadata.tsv"
