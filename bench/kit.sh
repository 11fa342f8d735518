# shellcheck shell=bash disable=SC2154 # work is the caller's
# kit.sh: sourced by the scripts that time commands in turn and print JSON. They set $work to a
# separate folder.

# A corpus is copied, so that a run is long enough: copy_corpus CORPUS COPIES, into $work/tree.
copy_corpus() {
    local copy
    for copy in $(seq "$2"); do
        mkdir -p "$work/tree/copy-$copy"
        cp -r "$1/." "$work/tree/copy-$copy"
    done
}

# timed NAME COMMAND...: wall seconds, CPU seconds and peak KiB, appended to the table NAME. Before
# it, $work/out is empty and everything is on the disk.
timed() {
    local name=$1
    shift
    rm -rf "$work/out"
    mkdir "$work/out"
    sync
    /usr/bin/time -f '%e %U %S %M' -o "$work/time" "$@" >/dev/null 2>"$work/log" || {
        cat "$work/log" >&2
        exit 1
    }
    cat "$work/time" >>"$work/$name"
}

median() { # median COLUMN FILE
    awk -v c="$1" '{print $c}' "$2" | sort -n | awk '{v[NR]=$1} END {print (NR % 2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'
}
range() { awk -v c="$1" '{print $c}' "$2" | sort -n | sed -n '1p;$p' | paste -sd, -; }

machine() {
    echo "$(uname -m), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)"
}

# report COMMAND COUNT BYTES NAME...: an object with COUNT, '"files": 3' or the like, and the
# medians of each table.
report() {
    local command=$1 count=$2 bytes=$3 name
    shift 3
    echo "{"
    echo "  \"machine\": \"$(machine)\","
    echo "  \"command\": \"$command\","
    printf '  %s, "bytes": %s' "$count" "$bytes"
    for name in "$@"; do
        printf ',\n  "%s": {"wall_s": %s, "wall_s_range": [%s], "user_s": %s, "sys_s": %s, "peak_kib": %s, "mb_per_s": %s}' \
            "$name" "$(median 1 "$work/$name")" "$(range 1 "$work/$name")" "$(median 2 "$work/$name")" \
            "$(median 3 "$work/$name")" "$(median 4 "$work/$name")" \
            "$(awk -v b="$bytes" -v t="$(median 1 "$work/$name")" 'BEGIN {printf "%.1f", b / 1e6 / t}')"
    done
    printf '\n}\n'
}
