#!/bin/sh
# From an empty machine to packed speech in five languages, and to a recognizer of one, on a plain Debian 12.
#
#     tools/quickstart.sh
#
# Installs missing packages, builds, and fetches about 2,800 recorded prompts from Debian's archive into build/quickstart
# (they are not installed). Then it packs them with one domain per language, shows some uses of the result, and trains a
# small model on the English prompts, for two minutes on two cores. If it runs again, it repeats the showing, which takes
# seconds, and resumes a training that was stopped. SPEECHSHARD_QUICKSTART_EPOCHS sets the number of epochs; a small number
# is too few to learn the task.
set -eu
cd "$(dirname "$0")/.."

languages="en es fr it ru"
work=build/quickstart
corpus=$work/corpus
dataset=$work/prompts.spsh
english=$work/english.spsh
recipe=recipes/quickstart/english.yaml
epochs=${SPEECHSHARD_QUICKSTART_EPOCHS:-}
run=$work/run${epochs:+-$epochs}
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

# tell_some: of what training says, every eighth epoch, and neither steps nor error rates in between.
tell_some() {
    seen=0
    while IFS= read -r line; do
        case $line in
        *": WER "* | *": step "*) continue ;;
        *"epoch "*": loss "*)
            seen=$((seen + 1))
            [ $((seen % 8)) -eq 1 ] || continue
            ;;
        esac
        printf '%s\n' "$line"
    done
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

say "11. Train a recogniser on the English ones, in two minutes on two cores"
# Those of up to 90 characters, about 6 seconds, without figures and signs, which are not spoken as
# they are written. Every tenth is a test, and four words are a sentence.
awk -F '\t' -v OFS='\t' '
    NR == 1 { print $1, $2, $3, $4, $6, "split" }
    $5 == "en" && $2 ~ /[a-z]/ && $2 !~ /[^a-zA-Z ,.?!'"'"'-]/ && length($2) <= 90 {
        print $1, $2, $3, $4, split($2, words, / +/) < 4 ? "words" : "sentences", ++n % 10 ? "train" : "test"
    }
' "$corpus/prompts.tsv" >"$corpus/english.tsv"
if ! "$speechshard" info "$english" >/dev/null 2>&1; then
    "$speechshard" pack "$corpus/english.tsv" --layout table-raw -o "$english" --codec pcm >/dev/null 2>&1
fi
[ -e "$work/english.vocabulary" ] || show "$speechshard" train "$recipe" --make-vocab
rm -f "$work/trained"
{
    show "$speechshard" train "$recipe" ${epochs:+"train.epochs=$epochs"} -o "$run" --resume auto && : >"$work/trained"
} 2>&1 | tell_some
[ -e "$work/trained" ]

say "12. How often it is wrong: about prompts that it learnt from, and about others"
show "$speechshard" eval -q "$run" "$english:train"
show "$speechshard" eval -q "$run" "$english:test"

say "13. What it hears: a file, three sentences that it knows, three that it does not"
show "$speechshard" transcribe "$run" "$work/hello.wav"
show "$speechshard" transcribe "$run" "$english" --domain sentences --split train --limit 3
show "$speechshard" transcribe "$run" "$english" --domain sentences --split test --limit 3
cat <<END

Two minutes are enough to learn a few hundred prompts of one voice nearly by heart, not to learn English: of what it has
not heard it gets sounds and pieces of words. recipes/digits learns something whole in four minutes.
The curves are in $run/report.html.
END
