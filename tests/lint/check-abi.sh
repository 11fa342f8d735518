#!/bin/sh
# check-abi.sh OLD NEW: programs that are linked with the libraries in the prefix OLD must run with
# the libraries in NEW.
#
# Both prefixes contain shared libraries with debug information, and their headers. If the soname
# has changed, anything may differ. Otherwise only functions, enumerators, and members at the end of
# sized and lent structures (docs/reference/ABI.md) may be added. abidiff finds other differences of
# the types in the public headers.
set -eu
command -v abidiff >/dev/null || exit 77

old=$1
new=$2
bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*"
    bad=1
}

sonames() { # sonames PREFIX
    find "$1" -name 'libspeechshard-*.so' ! -name '*-cuda.so' -exec readelf -d {} + |
        sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' | sort
}

# sized_structs PREFIX: the beginning of each type that has a struct_size, without comments, one per
# line.
sized_structs() {
    (cd "$1/include" && printf '#include "%s"\n' speechshard/*.h) | cc -E -P -I "$1/include" -x c - | tr -s ' \n' ' ' |
        grep -oE 'typedef struct [a-z0-9_]+ [{] size_t struct_size;[^}]*[^} ]' || true
}

sonames "$old" >"$work/old-sonames"
sonames "$new" >"$work/new-sonames"
[ -s "$work/old-sonames" ] || { echo "$old has no shared library"; exit 1; }
if ! grep -qxFf "$work/old-sonames" "$work/new-sonames"; then
    echo "the sonames moved to $(paste -sd ' ' "$work/new-sonames")"
    exit 0
fi

# let_grow NAME: tell abidiff that a structure may get members at its end.
let_grow() {
    printf '[suppress_type]\n  name = %s\n  type_kind = struct\n  has_data_member_inserted_at = end\n' "$1" >>"$work/may-grow"
}

: >"$work/may-grow"
sed -n 's/^LENT(\([a-z0-9_]*\)).*/\1/p' "$(dirname "$0")/../unit/tools/unit_abi.c" | while read -r name; do
    let_grow "$name"
done

# abidiff ignores the members of a sized structure that may grow, so they are compared here.
sized_structs "$new" >"$work/new-structs"
sized_structs "$old" | while read -r line; do
    name=$(printf '%s\n' "$line" | cut -d ' ' -f 3)
    if ! grep -qF "$line" "$work/new-structs"; then
        echo "$name: members were removed or changed, or added in front of others"
    elif ! grep -qxF "$line" "$work/new-structs"; then
        let_grow "$name"
    fi
done >"$work/changed"
[ ! -s "$work/changed" ] || fail "$(cat "$work/changed")"

while read -r soname; do
    abidiff --leaf-changes-only --no-added-syms --suppressions "$work/may-grow" --headers-dir1 "$old/include" \
        --headers-dir2 "$new/include" "$(find "$old" -name "$soname")" "$(find "$new" -name "$soname")" >"$work/output" 2>&1 ||
        fail "$(cat "$work/output")"
done <"$work/old-sonames"
[ "$bad" = 0 ] || echo "incompatible: a new minor version, which moves the soname, must say so (CMakeLists.txt, base.h)"
exit $bad
