#!/bin/sh
# check-man.sh ROOT: the man pages are clean roff; every option that --help of the command in
# $SPEECHSHARD_COMMAND names is in speechshard(1) and in the completion.
set -eu
cd "${1:-.}"
command -v mandoc >/dev/null || exit 77
mandoc -Tlint -W warning,stop docs/man/speechshard.1 docs/man/speechshard-format.5

bad=0
for subcommand in pack info ls cat verify repair export; do
    help=$("${SPEECHSHARD_COMMAND:-speechshard}" $subcommand --help)
    for option in $(printf '%s\n' "$help" | grep -oE -e '--[a-z][a-z-]+' | sort -u); do
        if ! grep -qE "Fl -${option#--}( |,|\$)" docs/man/speechshard.1; then
            echo "docs/man/speechshard.1 lacks $option of $subcommand"
            bad=1
        fi
        if ! grep -qE -e "$option\b" tools/completion/speechshard.bash; then
            echo "tools/completion/speechshard.bash lacks $option of $subcommand"
            bad=1
        fi
    done
done
exit $bad
