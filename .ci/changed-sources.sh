#!/bin/bash
# changed-sources.sh: the .c files that a change touches, one per line, for clang-tidy. First the
# changed files, the largest change first; then the files that include a changed header, directly or
# through other headers.
#
# A change is the difference between the working tree and CI_BASE, if that is set. Otherwise the
# base is the merge base with origin/main, or the commit 50 commits ago if that is HEAD or does not
# exist: a change may have many commits. Lines that are empty or `#include` do not count, so a file
# that only moved is not changed. Without a usable base (a shallow clone), and if .clang-tidy
# changed, all files are listed, the largest first. A CI_BASE that does not name a commit is an
# error.
set -euo pipefail
cd "$(dirname "$0")/.."

base() {
    local found
    if [[ -n ${CI_BASE:-} ]]; then
        git merge-base HEAD "$CI_BASE" 2>/dev/null || echo "$CI_BASE"
        return
    fi
    found=$(git merge-base HEAD origin/main 2>/dev/null) || found=
    if [[ -z $found || $found == "$(git rev-parse HEAD)" ]]; then
        git rev-parse --verify --quiet 'HEAD^{commit}~50'
    else
        echo "$found"
    fi
}

sources() {
    git ls-files --cached --others --exclude-standard -- "$@"
}

all_by_size() {
    sources '*.c' | xargs wc -c | sort -k1,1nr | awk '$2 != "total" { print $2 }'
}

if [[ -n ${CI_BASE:-} ]] && ! git rev-parse --verify --quiet "$CI_BASE^{commit}" >/dev/null; then
    echo "changed-sources.sh: CI_BASE: $CI_BASE is no commit here" >&2
    exit 1
fi
if ! since=$(base); then
    echo "changed-sources.sh: no base to compare with: all files" >&2
    all_by_size
    exit
fi
if ! git diff --quiet "$since" -- '*.clang-tidy'; then
    echo "changed-sources.sh: .clang-tidy changed: all files" >&2
    all_by_size
    exit
fi
echo "changed-sources.sh: changes since $since" >&2

# Lines COUNT FILE.
changes() {
    git diff --no-color --no-ext-diff -M -U0 "$since" -- '*.c' '*.h' | awk '
        /^\+\+\+ / { file = substr($0, 7); next }
        /^--- / { next }
        /^[-+]/ && !/^[-+][ \t]*(#[ \t]*include.*)?$/ && file != "" { count[file]++ }
        END { for (file in count) if (file != "ev/null") print count[file], file }'
    git ls-files --others --exclude-standard -- '*.c' '*.h' | while read -r file; do
        echo "$(wc -l <"$file") $file"
    done
}

# Lines FILE HEADER, without its folder: names of headers are unique in the tree.
includes() {
    sources '*.c' '*.h' | xargs grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]+' |
        sed -E 's/^([^:]*):.*["<](.*\/)?/\1 /'
}

includes | awk '
    is_change { changed[++count] = $2; next }
    { users[$2] = users[$2] " " $1 }
    END {
        for (i = 1; i <= count; i++) { # the list grows: changed files first, then the files that include them
            file = changed[i]
            if (file in seen)
                continue
            seen[file] = 1
            if (file !~ /\.h$/) {
                print file
                continue
            }
            name = file
            sub(/.*\//, "", name)
            n = split(users[name], list, " ")
            for (j = 1; j <= n; j++)
                changed[++count] = list[j]
        }
    }' is_change=1 <(changes | sort -k1,1nr -k2) is_change=0 -
