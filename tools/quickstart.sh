#!/bin/sh
# From nothing to packed speech in five languages, on a plain Debian 12.
#
#     tools/quickstart.sh
#
# Installs what is missing, builds, fetches about 2,800 recorded prompts from Debian's archive into
# build/quickstart (nothing of them is installed), packs them with one domain a language, and shows
# what can be done with the result. Running it again repeats the showing and costs seconds.
set -eu
cd "$(dirname "$0")/.."

languages="en es fr it ru"
work=build/quickstart
corpus=$work/corpus
dataset=$work/prompts.spsh
id=en/hello-world
speechshard=build/release/tools/speechshard

say() {
    printf '\n== %s\n' "$*"
}

show() { # show COMMAND...: prints it, as one would type it, and runs it
    printf '\n$ %s\n' "$*" | sed "s|$speechshard|speechshard|"
    "$@"
}

# fetch LANGUAGE: unpacks its two packages below $corpus; a mark says that all of it is there.
fetch() {
    [ ! -e "$work/fetched-$1" ] || return 0
    mkdir -p "$work/packages"
    (cd "$work/packages" &&
        apt-get download -qq -o APT::Sandbox::User="$(id -un)" \
            "asterisk-core-sounds-$1" "asterisk-core-sounds-$1-wav" </dev/null)
    for package in "$work"/packages/asterisk-core-sounds-"$1"_*.deb \
        "$work"/packages/asterisk-core-sounds-"$1"-wav_*.deb; do
        dpkg-deb -x "$package" "$corpus"
        rm "$package"
    done
    : >"$work/fetched-$1"
}

say "1. Install what is needed, and build"
tools/install-deps.sh build
cmake --preset release >/dev/null
cmake --build build/release --parallel "$(nproc)" --target speechshard

say "2. Fetch recorded prompts in five languages (97 MB, once)"
mkdir -p "$corpus"
for language in $languages; do
    if ! fetch "$language"; then
        # The lists of packages may be missing or older than the archive.
        if [ "$(id -u)" -eq 0 ]; then apt-get update -q; else sudo apt-get update -q; fi
        fetch "$language"
    fi
done
sh tools/quickstart-manifest.sh "$corpus" >"$corpus/prompts.tsv"
echo "$(($(wc -l <"$corpus/prompts.tsv") - 1)) prompts are listed in $corpus/prompts.tsv; the first:"
head -n 4 "$corpus/prompts.tsv"

say "3. Pack them: one domain a language"
if "$speechshard" info "$dataset" >/dev/null 2>&1; then
    echo "$dataset is there already; remove it to pack again."
else
    # Quotes in these transcripts are text; the table is not of the kind where they enclose fields.
    show "$speechshard" pack "$corpus/prompts.tsv" --layout table-raw -o "$dataset"
fi

say "4. What is in it"
show "$speechshard" info "$dataset"

say "5. Is every byte of it intact?"
show "$speechshard" verify "$dataset"

say "6. The first utterances"
show "$speechshard" ls "$dataset" >"$work/ls.txt"
head -n 8 "$work/ls.txt"

say "7. One of them, back as a WAV file, and as a picture"
show "$speechshard" cat "$dataset" "$id" -o "$work/hello.wav"
show "$speechshard" cat "$dataset" "$id" --plot "$work/hello.svg"
ls -l "$work/hello.wav" "$work/hello.svg"

say "8. What training with batches of 300 seconds would get, with equal shares of the languages"
show "$speechshard" plan "$dataset" --max-seconds 300 --alpha 0

say "9. How fast it loads here"
show "$speechshard" bench "$dataset" --max-seconds 300 --seconds 3

say "10. Which of them are copies: other languages' voices, or the same prompt under two names"
show "$speechshard" dedupe "$dataset" -o "$work/plan.jsonl" --html "$work/plan.html"
