#!/bin/sh
# check-lists.sh ROOT: the CMakeLists.txt of each part names every source file and public header,
# and every test and seed folder is used.
set -eu
cd "${1:-.}"
bad=0

listed() { # listed CMAKELISTS FILE: by its path relative to the list
    grep -qF "${2#"$(dirname "$1")"/}" "$1" && return
    echo "$1 does not name $2"
    bad=1
}
# every file that find prints for a part must be in its list; a part without files has moved
part_listed() { # part_listed PART FIND-TEST...
    part=$1
    shift
    find "$part" "$@" >"$work"
    [ -s "$work" ] || { echo "$part has no file to look for"; bad=1; }
    while read -r file; do
        listed "$part/CMakeLists.txt" "$file"
    done <"$work"
}
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for part in shardfmt featgen loader train; do
    part_listed "$part" -path "$part/src/*" \( -name '*.c' -o -name '*.cc' -o -name '*.cu' \)
    part_listed "$part" -path "$part/include/*" -name '*.h'
done
part_listed loader/python -path '*/src/*' -name '*.c'
for part in common ingest pack dedup; do
    part_listed "tools/$part" -name '*.c' -o -path '*/include/*' -name '*.h'
done
part_listed tools -path 'tools/src/*' -name '*.c'
for file in bench/*.c bench/gpu/*.c; do
    [ -e "$file" ] && listed bench/CMakeLists.txt "$file"
done
for folder in unit prop fault fuzz golden gpu mpi; do
    part_listed "tests/$folder" -name '*.c'
done
for file in tests/cli/*_test.sh; do # one loop registers most tests by name
    grep -qw "$(basename "$file" _test.sh)" tests/cli/CMakeLists.txt && continue
    echo "tests/cli/CMakeLists.txt does not name $file"
    bad=1
done
for file in tests/layouts/*_fixture.py; do
    grep -qx " *$(basename "$file" _fixture.py)" tests/layouts/CMakeLists.txt && continue
    echo "tests/layouts/CMakeLists.txt does not name $file"
    bad=1
done
for folder in tests/fuzz/corpus/*/; do
    [ -d "$folder" ] || continue
    target=$(basename "$folder")
    grep -qE "speechshard_add_fuzzer\\($target( |\$)" tests/fuzz/CMakeLists.txt && continue
    echo "tests/fuzz/CMakeLists.txt has no fuzz target for $folder"
    bad=1
done
exit $bad
