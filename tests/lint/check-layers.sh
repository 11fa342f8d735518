#!/bin/sh
# check-layers.sh ROOT: dependencies point one way (shardfmt <- loader <- train; featgen on base.h
# only and below loader; pack and dedup on shardfmt only; the command and the Python package on
# top), and libraries call no banned function. check_rooms.py checks private headers. Prints each
# offending line and exits with 1.
set -eu
cd "${1:-.}"
bad=0

deny() { # deny DIR REGEX
    [ -d "$1" ] || return 0
    if grep -rnE "$2" "$1" --include='*.[ch]' --include='*.cc' --include='*.cu' --include='*.cuh'; then bad=1; fi
}
deny shardfmt '#include "(loader|featgen|train|tools|speechshard/(loader|sampler|featgen|train))'
deny loader   '#include "(featgen|train|tools)/'
for dir in src include; do # the Python package is on top of all libraries
    deny loader/$dir '#include "speechshard/(train|pack|dedup)'
done
deny featgen  '#include "(shardfmt|loader|train|tools|speechshard/(shard_|loader|sampler|manifest|dataset|train|settings))'
for dir in common ingest pack dedup; do
    deny tools/$dir '#include "speechshard/(loader|sampler|hear|featgen|augment|train)'
done
deny tools/pack  '#include "speechshard/dedup'
deny tools/dedup '#include "speechshard/pack'
deny train    '#include "(shardfmt|loader|featgen|tools)/'
# Functions that are unbounded, unchecked, not thread-safe, or not appropriate in a library.
unsafe='sprintf|strcpy|strcat|strncpy|strtok|gets|atoi|atol|rand|srand'
unsafe="$unsafe|asctime|ctime|gmtime|localtime|getenv|setenv|setlocale"
unsafe="\\b($unsafe|exit|abort|printf|system)[[:space:]]*\\("
for dir in shardfmt loader featgen tools/common tools/ingest tools/pack/src tools/dedup/src; do
    deny $dir "$unsafe"
done
# Only one file of train reads the launcher's environment variables.
if [ -d train ] && grep -rnE "$unsafe" train --include='*.[ch]' --include='*.cc' | grep -v '^train/src/comm/launch\.c:[0-9]*: *return getenv(name);$'; then
    bad=1
fi

# One function reads decimal numbers. The functions of the C library use the decimal point of the
# locale.
for part in shardfmt loader featgen train tools; do
    [ -d "$part" ] || continue
    if grep -rnE '\b(strto(d|f|ld)(_l)?|atof)[[:space:]]*\(' "$part" --include='*.[ch]' --include='*.cc' |
        grep -v '^shardfmt/src/base/decimal\.c:'; then
        bad=1
    fi
done

# Only the plug-in uses CUDA. All .cu files are in folders named cuda, and no file outside of them
# includes their headers. (Headers there that C also includes do so for nvcc only: the host
# emulation would not compile otherwise.)
for part in shardfmt loader featgen train tools; do
    [ -d "$part" ] || continue
    if find "$part" \( -name '*.cu' -o -name '*.cuh' \) ! -path '*/src/cuda/*' | grep .; then bad=1; fi
    if grep -rnE '#include <(cuda|cublas|cudnn|nccl)' "$part" --include='*.[ch]' | grep -v '^[a-z]*/src/cuda/[^:]*\.h:'; then bad=1; fi
done

# No C++.
for part in shardfmt loader featgen train tools; do
    [ -d "$part" ] || continue
    if find "$part" -name '*.cc' | grep .; then bad=1; fi
done

# One place allocates memory, so that failures can be injected everywhere. (In tests of train the
# linker replaces malloc and its kin.)
for dir in shardfmt featgen loader; do
    if [ -d "$dir/src" ] &&
        grep -rnE '\b(malloc|calloc|realloc|strdup|strndup|asprintf)[[:space:]]*\(' "$dir/src" --include='*.[ch]' |
        grep -v '^shardfmt/src/base/base\.c:'; then
        bad=1
    fi
done
exit $bad
