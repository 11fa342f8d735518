#!/bin/sh
# prepare.sh AN4 CORPUS: convert the unpacked an4_sphere.tar.gz (NIST SPHERE files and lists of
# transcripts) to a corpus that `speechshard pack` reads:
#
#     CORPUS/metadata.tsv    path, id, text, speaker, split, domain, language
#     CORPUS/wav/            the unchanged SPHERE files
#
# Splits: `test` as in the archive; `dev`: all utterances of every tenth speaker of the training
# list, sorted by name; `train`: all others.
set -eu
export LC_ALL=C

if [ $# -ne 2 ] || [ ! -e "$1/etc/an4_train.transcription" ]; then
    echo "usage: prepare.sh AN4 CORPUS (the folder an4 of the archive; a new one)" >&2
    exit 2
fi
an4=$1
corpus=$2
mkdir -p "$corpus/wav"

# Print one line per utterance: split, folder/speaker/id, text. Removes <s>, </s>, and similar tags.
utterances() {
    for list in train test; do
        awk -v list="$list" -v OFS='\t' '
            NR == FNR {
                n = split($1, part, "/")
                path[part[n]] = $1
                next
            }
            {
                id = $NF
                gsub(/[()]/, "", id)
                if (!(id in path)) {
                    print "prepare.sh: " FILENAME ": \"" id "\" is in no list of files" >"/dev/stderr"
                    exit 1
                }
                text = ""
                for (i = 1; i < NF; i++)
                    if ($i !~ /^<.*>$/ && $i !~ /^\+\+.*\+\+$/)
                        text = text (text == "" ? "" : " ") $i
                print list, path[id], text
            }' "$an4/etc/an4_$list.fileids" "$an4/etc/an4_$list.transcription"
    done
}

plan=$corpus/utterances.txt
utterances >"$plan" || exit 1
tab=$(printf '\t')
while IFS="$tab" read -r _ path _; do
    cp "$an4/wav/$path.sph" "$corpus/wav/"
done <"$plan"

# Twice: speakers of training in order of their names, then the utterances.
awk -F '\t' -v OFS='\t' '
    { n = split($2, part, "/") }
    NR == FNR {
        if ($1 == "train" && !(part[n - 1] in seen)) {
            seen[part[n - 1]] = 1
            for (i = ++count; i > 1 && names[i - 1] > part[n - 1]; i--)
                names[i] = names[i - 1]
            names[i] = part[n - 1]
        }
        next
    }
    FNR == 1 {
        for (i = 10; i <= count; i += 10)
            is_dev[names[i]] = 1
        print "path", "id", "text", "speaker", "split", "domain", "language"
    }
    {
        split_name = $1 == "train" && part[n - 1] in is_dev ? "dev" : $1
        print "wav/" part[n] ".sph", part[n], $3, "an4/" part[n - 1], split_name, "an4", "en"
    }' "$plan" "$plan" >"$corpus/metadata.tsv"
rm "$plan"
