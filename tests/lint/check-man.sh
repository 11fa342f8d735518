#!/bin/sh
# check-man.sh ROOT: the man pages are clean roff; every subcommand and option that --help of the
# command in $SPEECHSHARD_COMMAND names is in speechshard(1) and in the completion. header-page.awk
# makes a clean page from each public header, with all of its functions.
set -eu
cd "${1:-.}"
command -v mandoc >/dev/null || exit 77
mandoc -Tlint -W warning,stop docs/man/*.[1-9]

command=${SPEECHSHARD_COMMAND:-speechshard}
bad=0

lacks() { # lacks FILE WHAT
    echo "$1 lacks $2"
    bad=1
}

subcommands=$("$command" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\)  .*/\1/p')
for subcommand in $subcommands; do
    grep -q "^\.Ss $subcommand\$" docs/man/speechshard.1 || lacks docs/man/speechshard.1 "$subcommand"
    grep -qE "commands=.*\b$subcommand\b" tools/completion/speechshard.bash ||
        lacks tools/completion/speechshard.bash "$subcommand"
    help=$("$command" "$subcommand" --help)
    for option in $(printf '%s\n' "$help" | grep -oE -e '--[a-z][a-z-]+' | sort -u); do
        grep -qE "(Fl|,) -${option#--}( |,|\$)" docs/man/speechshard.1 ||
            lacks docs/man/speechshard.1 "$option of $subcommand"
        grep -qE -e "$option\b" tools/completion/speechshard.bash ||
            lacks tools/completion/speechshard.bash "$option of $subcommand"
    done
done

page=$(mktemp)
trap 'rm -f "$page"' EXIT
for header in */include/speechshard/*.h */*/include/speechshard/*.h; do
    if [ ! -e "$header" ] || head -n 3 "$header" | grep -q '[Nn]ot for users'; then
        continue
    fi
    awk -v name="$(basename "$header" .h)" -v library="$(basename "${header%%/include/*}")" -v date="January 1, 2000" \
        -f docs/man/header-page.awk "$header" >"$page"
    mandoc -Tlint -W warning <"$page" || { echo "this is the page of $header"; bad=1; }
    for function in $(sed -n '/^SPSH_API/,/(/p' "$header" | tr '\n' ' ' | grep -oE 'SPSH_API [^;(]*\(' |
        sed 's/.*[ *]\(spsh_[a-z0-9_]*\)($/\1/'); do
        grep -q "^\.Fo $function\$" "$page" || lacks "the page of $header" "$function"
    done
done
exit $bad
