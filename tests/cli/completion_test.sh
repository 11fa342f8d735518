#!/bin/sh
# completion_test.sh: bash, zsh, and fish complete the same words. The words of bash are a list in
# its file, which check-man.sh compares with --help; zsh and fish read --help.
#
# Cases: commands, the options of each command, and the values of each option that names them in
# --help.
set -eu
source=${SPEECHSHARD_SOURCE_DIR:?}
command=${SPEECHSHARD_COMMAND:?}
folder=$source/tools/completion
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
touch corpus.tsv
export HOME="$work" PATH="${command%/*}:$PATH"

{
    printf '%s\n' 'speechshard ' 'speechshard overlay x ' 'speechshard pack --layout ' 'speechshard info corp'
    speechshard --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' | while read -r name; do
        echo "speechshard $name --"
        speechshard "$name" --help | grep -oE -e '--[a-z-]+ [a-z0-9_-]+[|]' | sed "s/^\([^ ]*\).*/speechshard $name \1 /"
    done
    echo 'speechshard export -t '
} | uniq >lines
grep -qx 'speechshard pack --codec ' lines
grep -qx 'speechshard bench --engine ' lines

# Each shell prints, for each line, the line and its words.
cat >complete.bash <<'END'
source "$1"
while IFS= read -r line; do
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _speechshard
    echo "$line: $(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort -u | xargs)"
done <lines
END
bash complete.bash "$folder/speechshard.bash" >bash.words
grep -qx 'speechshard export -t : files wav webdataset' bash.words
grep -qx 'speechshard info corp: corpus.tsv' bash.words

compare() { # compare SHELL: its words with those of bash
    diff bash.words "$1.words" || { echo "$1 (>) completes other words than bash (<)"; exit 1; }
    echo "$1: $(wc -l <"$1.words") lines"
}

shells=0
if command -v fish >/dev/null; then
    cat >complete.fish <<'END'
source $argv[1]
for line in (cat lines)
    echo "$line: "(complete -C "$line" | cut -f 1 | LC_ALL=C sort -u | xargs)
end
END
    fish --no-config complete.fish "$folder/speechshard.fish" >fish.words
    compare fish
    shells=$((shells + 1))
else
    echo "skipped: there is no fish"
fi
if command -v zsh >/dev/null; then
    # An interactive zsh: each line appears on its command line, is completed with all matches, and
    # dropped.
    cat >.zshrc <<'END'
fpath=($FOLDER $fpath)
autoload -Uz compinit
compinit -D -u
stty cols 2000 rows 100
all_lines=("${(@f)$(<lines)}")
insert_all() { compstate[insert]=all }
precmd() {
    (($#all_lines)) || exit
    line=$all_lines[1]
    shift all_lines
    print -rz -- $line
}
complete_line() {
    comppostfuncs=(insert_all)
    zle complete-word
    print -r -- "$line: $(print -rl -- ${(z)BUFFER#${line% *} } | LC_ALL=C sort -u | xargs)" >>zsh.words
    BUFFER=
    zle accept-line
}
zle -N zle-line-init complete_line
END
    FOLDER=$folder ZDOTDIR=$work zsh -f -c 'zmodload zsh/zpty; zpty z zsh -d -i; while zpty -r z out; do :; done'
    compare zsh
    shells=$((shells + 1))
else
    echo "skipped: there is no zsh"
fi
[ "$shells" -gt 0 ] || exit 77
