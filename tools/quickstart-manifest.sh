#!/bin/sh
# quickstart-manifest.sh ROOT >prompts.tsv: lists the recorded prompts below ROOT, where Debian's
# packages asterisk-core-sounds-LANGUAGE and -LANGUAGE-wav are unpacked, as a table for `pack`:
# path (relative to ROOT), text, id, speaker, language, domain.
#
# A transcript is a line `name: text` in the package's documentation; `;` starts a comment, the
# Italian file starts with a byte order mark. A few names differ from their file names only in case.
# One name occurs twice, and its first line is right. A recording without a line gets an empty text.
set -eu
export LC_ALL=C
tab=$(printf '\t')

printf 'path\ttext\tid\tspeaker\tlanguage\tdomain\n'
for transcript in "$1"/usr/share/doc/asterisk-core-sounds-*/core-sounds-*.txt.gz; do
    language=${transcript##*/core-sounds-}
    language=${language%.txt.gz}
    for voice in "$1"/usr/share/asterisk/sounds/"$language"_??_*; do
        if [ ! -d "$voice" ] || [ -L "$voice" ]; then continue; fi
        {
            gzip -dc "$transcript"
            echo "$tab"
            (cd "$voice" && find . -type f -name '*.wav' | sed 's|^\./||; s|\.wav$||' | sort)
        } | awk -v language="$language" -v voice="${voice##*/}" -v folder="${voice#"$1"/}" '
            BEGIN { OFS = "\t"; speaker = voice; sub(/.*_/, "", speaker) }
            $0 == "\t" { listing = 1; next }
            !listing {
                sub(/^\357\273\277/, "")
                colon = index($0, ":")
                if ($0 ~ /^;/ || colon == 0)
                    next
                name = substr($0, 1, colon - 1)
                text = substr($0, colon + 1)
                gsub(/\t/, " ", text)
                sub(/^ +/, "", text)
                sub(/[ \r]+$/, "", text)
                if (!(name in exact)) {
                    exact[name] = text
                    if (!(tolower(name) in folded))
                        folded[tolower(name)] = text
                }
                next
            }
            {
                text = $0 in exact ? exact[$0] : folded[tolower($0)]
                print folder "/" $0 ".wav", text, language "/" $0, speaker, language, language
            }'
    done
done
