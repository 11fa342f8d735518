#!/bin/sh
# check-abi-test.sh: check-abi.sh accepts additions, and finds each incompatible change.
set -eu
command -v abidiff >/dev/null || exit 77
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build PREFIX SONAME SED-SCRIPT: a library of one header, changed by a script.
build() {
    mkdir -p "$work/$1/include/speechshard" "$work/$1/lib"
    sed "$3" >"$work/$1/include/speechshard/shape.h" <<'END'
typedef enum spsh_color {
    SPSH_RED = 0,
} spsh_color;
typedef struct spsh_point {
    int x, y;
} spsh_point;
typedef struct spsh_shape_options {
    size_t struct_size;
    spsh_color color;
    const char *name;
} spsh_shape_options;
typedef struct spsh_setting {
    int number;
    int kind;
} spsh_setting;
int spsh_shape_draw(const spsh_shape_options *options, spsh_point point, const spsh_setting *lent);
void spsh_shape_hide(void);
END
    {
        printf '#include <stddef.h>\n#include "speechshard/shape.h"\n'
        sed -n 's/^\(int .*\);$/\1 { return point.x + (int)options->color; }/p; s/^\(void .*\);$/\1 { }/p' \
            "$work/$1/include/speechshard/shape.h"
    } >"$work/shape.c"
    cc -g -shared -fPIC -I "$work/$1/include" -Wl,-soname,"$2" -o "$work/$1/lib/$2" "$work/shape.c"
    ln -s "$2" "$work/$1/lib/libspeechshard-shape.so"
}

# try STATUS WHAT SED-SCRIPT [SONAME]
try() {
    status=0
    rm -rf "$work/new"
    build new "${4:-libspeechshard-shape.so.0.1}" "$3"
    sh "$here/check-abi.sh" "$work/old" "$work/new" >"$work/output" 2>&1 || status=$?
    [ "$status" = "$1" ] || { cat "$work/output"; echo "$2: exit $status, not $1"; exit 1; }
}

build old libspeechshard-shape.so.0.1 ''
try 0 "nothing" ''
# shellcheck disable=SC2016 # sed's last line
try 0 "a new function" '$a void spsh_shape_show(void);'
try 0 "a new enumerator" 's/SPSH_RED = 0,/SPSH_RED = 0, SPSH_BLUE = 1,/'
try 0 "options that grow at the end" 's/const char \*name;/const char *name; int size;/'
try 1 "options that grow in the middle" 's/spsh_color color;/int size; spsh_color color;/'
try 1 "options that lose a member" '/const char \*name/d'
try 1 "a member of another type" 's/const char \*name;/long name[2]; int size;/'
try 0 "a lent structure that grows at the end" 's/int kind;/int kind, size;/'
try 1 "a lent structure that grows in the middle" 's/int kind;/int size, kind;/'
try 1 "a lent structure that loses a member" '/int kind;/d'
try 1 "a frozen structure that grows" 's/int x, y;/int x, y, z;/'
try 1 "an enumerator of another number" 's/SPSH_RED = 0/SPSH_RED = 1/'
try 1 "an enumerator of another number in options that grow" 's/SPSH_RED = 0/SPSH_RED = 1/; s/const char \*name;/const char *name; int size;/'
try 1 "a removed function" '/spsh_shape_hide/d'
try 1 "other parameters" 's/spsh_point point,/spsh_point point, int size,/'
try 0 "a removed function and a new soname" '/spsh_shape_hide/d' libspeechshard-shape.so.0.2
