#!/bin/sh
# From an empty machine to packed speech, on a plain Debian 12: less than two minutes on two idle
# cores, apart from downloads.
#
#     tools/quickstart.sh            build, fetch recordings, pack them, find copies, load batches
#     tools/quickstart.sh --train    the same, then train a small speech recognizer, and try it
#
# The first step installs missing packages of Debian, and builds the command. The second step
# fetches some 1,100 recorded phrases in English and Spanish from Debian's archive into
# build/quickstart. They are not installed. A second call skips completed steps, and resumes a
# training that was stopped. SPEECHSHARD_QUICKSTART_EPOCHS sets the number of training epochs. Too
# few train nothing.
set -eu
cd "$(dirname "$0")/.."

languages="en es"
work=build/quickstart
corpus=$work/corpus
dataset=$work/prompts.spsh
english=$work/english.spsh
recipe=recipes/quickstart/english.yaml
epochs=${SPEECHSHARD_QUICKSTART_EPOCHS:-}
run=$work/run${epochs:+-$epochs}
speechshard=build/release/tools/speechshard
train=

case ${1:-} in
--train) train=yes ;;
"") ;;
*)
    echo "usage: tools/quickstart.sh [--train]" >&2
    exit 2
    ;;
esac

mkdir -p "$work"
times_file=$work/times.txt
: >"$times_file"
step=
begin=0

end_step() {
    [ -z "$step" ] || printf '%6d s  %s\n' $(($(date +%s) - begin)) "$step" >>"$times_file"
    step=
}

say() { # say STEP: print its title, and record the duration of the previous step
    end_step
    step=$*
    begin=$(date +%s)
    printf '\n== %s\n' "$*"
}

show() { # show COMMAND...: print the command as a user would type it, and run it
    printf '\n$ %s\n' "$*" | sed "s|$speechshard|speechshard|"
    "$@"
}

# fetch LANGUAGE: unpack its two packages below $corpus. A marker file records that this is
# complete.
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

# tell_some: filter the output of training: print the loss of every eighth epoch, and omit steps and
# error rates.
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

say "1. Install what is needed, and build the command"
tools/install-deps.sh build
# An existing build folder keeps its settings. A new build folder gets no tests and no code for
# GPUs.
if [ -e build/release/CMakeCache.txt ]; then
    cmake --preset release >/dev/null
else
    cmake --preset release -DSPEECHSHARD_CUDA=OFF -DBUILD_TESTING=OFF >/dev/null
fi
cmake --build build/release --parallel "$(nproc)" --target speechshard first_batches

say "2. Fetch recorded phrases in English and Spanish (42 MB, once)"
mkdir -p "$corpus"
for language in $languages; do
    if ! fetch "$language"; then
        # The package lists may be missing or older than the archive.
        if [ "$(id -u)" -eq 0 ]; then apt-get update -q; else sudo apt-get update -q; fi
        fetch "$language"
    fi
done
sh tools/quickstart-manifest.sh "$corpus" >"$corpus/prompts.tsv"
echo "A table lists the $(($(wc -l <"$corpus/prompts.tsv") - 1)) files, with what is said in each:"
echo "$corpus/prompts.tsv. Its first lines:"
head -n 4 "$corpus/prompts.tsv"

say "3. Pack: all recordings of the table into a few large files, with checksums"
if "$speechshard" info "$dataset" >/dev/null 2>&1; then
    echo "$dataset is there already; remove it to pack again."
else
    # Quotes in this table are part of the text and do not enclose fields, so use the layout
    # table-raw.
    show "$speechshard" pack "$corpus/prompts.tsv" --layout table-raw -o "$dataset"
fi

say "4. What was packed"
show "$speechshard" info "$dataset"

say "5. Which recordings are copies of others"
show "$speechshard" dedupe "$dataset" -o "$work/plan.jsonl" --html "$work/plan.html"
echo "$work/plan.html shows the copies, with sound waves to compare."

say "6. The first two batches, as a training program gets them"
show build/release/recipes/quickstart/first_batches "$dataset" 2

if [ -z "$train" ]; then
    end_step
    cat <<END

Done. How long each step took:
$(cat "$times_file")

Next, for example:
    export PATH=\$PWD/build/release/tools:\$PATH
    speechshard ls $dataset | head
    speechshard cat $dataset en/hello-world -o hello.wav
    speechshard apply $work/plan.jsonl

To train a speech recognizer on the English recordings, and to try it:
    tools/quickstart.sh --train
That takes about two more minutes on two idle cores: 200 seconds of processor time.
END
    exit 0
fi

say "7. Train a recognizer on the English ones: two minutes on two idle cores"
# Use phrases of up to 90 characters (about 6 seconds) without digits and symbols, which are not
# spoken as written. Every tenth phrase is in the test set. A phrase of four or more words is a
# sentence.
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
echo "An epoch is one pass through the recordings. The loss says how far off the recognizer is."
rm -f "$work/trained"
{
    show "$speechshard" train "$recipe" ${epochs:+"train.epochs=$epochs"} -o "$run" --resume auto && : >"$work/trained"
} 2>&1 | tell_some
[ -e "$work/trained" ]

say "8. How many words (WER) and letters (CER) are wrong: of recordings that it learnt from, and of others"
show "$speechshard" eval -q "$run" "$english:train"
show "$speechshard" eval -q "$run" "$english:test"

say "9. What it hears: a file, three sentences that it knows, three that it does not"
"$speechshard" cat "$dataset" en/hello-world -o "$work/hello.wav"
show "$speechshard" transcribe "$run" "$work/hello.wav"
show "$speechshard" transcribe "$run" "$english" --domain sentences --split train --limit 3
show "$speechshard" transcribe "$run" "$english" --domain sentences --split test --limit 3
end_step
cat <<END

How long each step took:
$(cat "$times_file")

Two minutes are enough to learn a few hundred phrases of one voice nearly by heart, not to learn English: of what it has
not heard it gets sounds and pieces of words. recipes/digits learns something whole in four minutes.
The curves are in $run/report.html.
END
