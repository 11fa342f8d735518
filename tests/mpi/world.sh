#!/bin/sh
# world.sh PROGRAM: test_train_world under mpirun. One, two, three and four processes end with the
# same bits, whatever the strategy; a rank that hangs, dies or has another model ends all others
# with a message that says so.
set -eu
program=$1
command -v mpirun >/dev/null || {
    echo "skipped: no mpirun" >&2
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# More processes than cores, none bound to one; this machine alone; in a container, as root.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_plm=isolated
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The libraries' own memory is not freed.
export LSAN_OPTIONS=detect_leaks=0 ASAN_OPTIONS=detect_leaks=0

run() { # run PROCESSES ARGUMENT...: output in $work/out; status in $status
    processes=$1
    shift
    status=0
    timeout -k 5 90 mpirun -np "$processes" "$program" "$@" >"$work/out" 2>&1 || status=$?
}

fail() {
    echo "FAILED $*" >&2
    cat "$work/out" >&2
    bad=1
}

same() { # same VIRTUAL_WORLD ACCUMULATE PROCESSES...: one hash for all
    virtual_world=$1 accumulate=$2
    shift 2
    want=
    for strategy in allreduce partitioned; do
        for processes in "$@"; do
            run "$processes" "$strategy" "$virtual_world" "$accumulate"
            hash=$(sed -n 's/^hash //p' "$work/out")
            if [ "$status" -ne 0 ] || [ -z "$hash" ]; then
                fail "$strategy, $processes processes: exit $status"
            elif [ "${want:=$hash}" != "$hash" ]; then
                fail "$strategy, $processes processes: $hash instead of $want"
            fi
        done
    done
    echo "ok     $virtual_world leaves, $accumulate steps accumulated: $want"
}

ends() { # ends FAULT RANK TEXT: not 0, and says TEXT
    run 3 allreduce 8 1 "$1" "$2"
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ] || ! grep -q "$3" "$work/out"; then
        fail "$1 of rank $2: exit $status"
    fi
    echo "ok     $1 of rank $2"
}

run 2 allreduce 2 1
[ "$status" -ne 77 ] || exit 77
same 8 1 1 2 3 4
same 4 2 1 3
same 5 1 2 3
ends hang 2 'rank 2 is missing: step 3'
ends hang 0 'rank 0 is missing: step 3'
ends kill 1 'rank 1 .*signal 9'
ends other-model 1 'same configuration'
exit $bad
