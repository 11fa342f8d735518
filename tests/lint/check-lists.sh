#!/bin/sh
# check-lists.sh ROOT: nothing is forgotten where things are listed: every source and public header is
# in the CMakeLists.txt of its part, every test and seed folder is used, links in the documents lead
# somewhere.
set -eu
cd "${1:-.}"
bad=0

listed() { # listed CMAKELISTS FILE: by its path relative to the list
    grep -qF "${2#"$(dirname "$1")"/}" "$1" && return
    echo "$1 does not name $2"
    bad=1
}
for file in shardfmt/src/*.c shardfmt/include/speechshard/*.h; do
    listed shardfmt/CMakeLists.txt "$file"
done
for file in loader/src/*.c loader/include/speechshard/*.h; do
    listed loader/CMakeLists.txt "$file"
done
for file in train/src/*.c train/include/speechshard/*.h; do
    listed train/CMakeLists.txt "$file"
done
for file in shardfmt/src/cuda/*.cu featgen/src/cuda/*.cu; do
    listed "${file%%/*}/CMakeLists.txt" "$file"
done
for file in tools/*/*.c; do
    listed tools/CMakeLists.txt "$file"
done
for file in bench/*.c bench/gpu/*.c; do
    [ -e "$file" ] && listed bench/CMakeLists.txt "$file"
done
for file in tests/unit/*.c tests/prop/*.c tests/fault/*.c tests/fuzz/fuzz_*.c tests/golden/*.c tests/gpu/*.c; do
    [ -e "$file" ] && listed tests/CMakeLists.txt "$file"
done
for file in tests/cli/*_test.sh; do # most are registered by name, in one loop
    grep -qw "$(basename "$file" _test.sh)" tests/CMakeLists.txt && continue
    echo "tests/CMakeLists.txt does not name $file"
    bad=1
done
for file in tests/layouts/*_fixture.py; do
    grep -qx " *$(basename "$file" _fixture.py)" tests/CMakeLists.txt && continue
    echo "tests/CMakeLists.txt does not name $file"
    bad=1
done
for folder in tests/fuzz/corpus/*/; do
    [ -d "$folder" ] || continue
    target=$(basename "$folder")
    grep -qE "speechshard_add_fuzzer\\($target( |\$)" tests/CMakeLists.txt && continue
    echo "tests/CMakeLists.txt has no fuzz target for $folder"
    bad=1
done

for document in *.md docs/*.md; do
    # shellcheck disable=SC2013 # links hold no blanks
    for link in $(grep -oE '\]\([^)#]+' "$document" | sed 's/^](//' | grep -v '^https:'); do
        [ -e "$(dirname "$document")/$link" ] && continue
        echo "$document links to $link, which is not there"
        bad=1
    done
done
exit $bad
