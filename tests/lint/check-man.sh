#!/bin/sh
# check-man.sh ROOT: the man pages are clean roff; every subcommand and option that --help of the
# command in $SPEECHSHARD_COMMAND names is in speechshard(1) and in the completion.
set -eu
cd "${1:-.}"
command -v mandoc >/dev/null || exit 77
mandoc -Tlint -W warning,stop docs/man/speechshard.1 docs/man/speechshard-loader.3 docs/man/speechshard-format.5

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
exit $bad
