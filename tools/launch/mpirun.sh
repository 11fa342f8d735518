#!/bin/sh
# mpirun.sh CONFIG RUN [KEY=VALUE...]: train under Open MPI on one or several hosts. After a
# failure, start the run again with the hosts that are left.
#
#     HOSTS=node1:4,node2:4 tools/launch/mpirun.sh corpus.yaml /shared/run
#
# If this script gets TERM, INT, or USR1, the run saves, and the script ends with status 75; the
# same command resumes it. After USR2, the run saves, and the script starts it again at once with
# the hosts that then answer. The status is 0 when the run is done. It is mpirun's status if another
# start would not help.
set -u

# ---- settings for users, here or in the environment
HOSTS=${HOSTS:-}             # processes per host: node1:4,node2:4; empty: use HOSTFILE
HOSTFILE=${HOSTFILE:-}       # lines 'node1 slots=4', read at each start; empty: only this host
PROCESSES=${PROCESSES:-}     # maximum number of processes; empty: all slots of the hosts
BIND=${BIND:-none}           # bind each process to: none, core, l3cache, numa, socket
MPI_OPTIONS=${MPI_OPTIONS:-} # such as '--mca btl_tcp_if_include eth0 -x LD_LIBRARY_PATH'
REMOTE_SHELL=${REMOTE_SHELL:-ssh -o BatchMode=yes -o ConnectTimeout=5}
WATCH=${WATCH:-30}           # seconds between checks that all hosts answer
STARTS=${STARTS:-20}         # give up after this many starts without a new checkpoint
SPEECHSHARD=${SPEECHSHARD:-speechshard} # path of the command, if it is not on the hosts' PATH
# ----

if [ $# -lt 2 ]; then
    echo "usage: mpirun.sh CONFIG RUN [KEY=VALUE...]" >&2
    exit 2
fi
config=$1
run=$2
shift 2
pid=
requested= # stop, or again: start the run again
is_forwarded=false

say() {
    echo "mpirun.sh: $*" >&2
}

# After mpirun gets TERM, its processes have a second to save, which is too little. mpirun forwards
# USR1. Send USR1 only once: a second signal would end the processes before they have saved.
forward_usr1() {
    if [ -n "$requested" ] && [ -n "$pid" ] && ! $is_forwarded; then
        is_forwarded=true
        kill -USR1 "$pid" 2>/dev/null
    fi
}

request() {
    [ "$requested" = stop ] || requested=$1
    forward_usr1
}
trap 'request stop' TERM INT USR1
trap 'request again' USR2

# answers HOST
answers() {
    [ "$1" = localhost ] || [ "$1" = "$(uname -n)" ] ||
        $REMOTE_SHELL "$1" true </dev/null >/dev/null 2>&1
}

# Print a line HOST:SLOTS for each requested host.
wanted_hosts() {
    if [ -n "$HOSTS" ]; then
        printf '%s\n' "$HOSTS" | tr ',' '\n' | sed '/:/!s/$/:1/'
    elif [ -n "$HOSTFILE" ]; then
        sed -e 's/#.*//' -e '/^[[:space:]]*$/d' -e '/slots *=/!s/$/ slots=1/' \
            -e 's/^[[:space:]]*\([^[:space:]]*\).*slots *= *\([0-9]*\).*/\1:\2/' "$HOSTFILE"
    else
        echo "localhost:${PROCESSES:-1}"
    fi
}

# Print the hosts that answer, separated by commas.
hosts_there() {
    there=
    for host in $(wanted_hosts); do
        name=${host%:*}
        if answers "$name"; then
            there=$there${there:+,}$host
        else
            say "$name does not answer, and is left out"
        fi
    done
    echo "$there"
}

# watch PID: stop mpirun if a host no longer answers. mpirun does not detect a host that falls
# silent without closing its connections. It would wait for the host forever, even after all
# processes have ended.
watch() {
    while sleep "$WATCH" >/dev/null 2>&1; do
        for host in $(echo "$hosts" | tr ',' ' '); do
            name=${host%:*}
            if ! answers "$name" && ! answers "$name"; then
                say "$name answers no longer"
                kill -TERM "$1"
                sleep 10 >/dev/null 2>&1
                kill -KILL "$1"
                return
            fi
        done
    done
}

newest() {
    cat "$run/latest" 2>/dev/null
}

# Run the processes, and set status.
start() {
    [ -z "$requested" ] || return
    is_forwarded=false
    # shellcheck disable=SC2086 # options are words
    setsid mpirun --host "$hosts" -np "$count" --bind-to "$BIND" --mca plm_rsh_agent "$REMOTE_SHELL" \
        $MPI_OPTIONS "$SPEECHSHARD" train "$config" -o "$run" --resume auto "$@" </dev/null &
    pid=$!
    forward_usr1
    watch "$pid" &
    watcher=$!
    wait "$pid"
    status=$?
    while kill -0 "$pid" 2>/dev/null; do # a trap ends a wait
        wait "$pid"
        status=$?
    done
    pid=
    kill "$watcher" 2>/dev/null
    wait "$watcher"
}

starts=0
while :; do
    hosts=$(hosts_there)
    count=0
    for host in $(echo "$hosts" | tr ',' ' '); do
        count=$((count + ${host#*:}))
    done
    if [ -n "$PROCESSES" ] && [ "$count" -gt "$PROCESSES" ]; then
        count=$PROCESSES
    fi
    before=$(newest)
    status=75
    if [ "$count" -gt 0 ]; then
        start "$@"
    fi
    after=$(newest)
    [ "$status" -ne 0 ] || exit 0
    if [ "$requested" = stop ]; then
        [ "$status" -lt 128 ] || status=75 # killed before mpirun could forward the signal
        exit "$status"
    fi
    if [ "$requested" = again ] || [ "$after" != "$before" ]; then
        starts=0
    elif [ "$status" -le 2 ] && [ "$(hosts_there)" = "$hosts" ]; then
        exit "$status" # a permanent error (mpirun also returns 1 if a host is lost)
    fi
    requested=
    starts=$((starts + 1))
    if [ "$starts" -ge "$STARTS" ]; then
        say "given up: $STARTS starts without a new checkpoint"
        exit "$status"
    fi
    [ "$starts" -lt 2 ] || sleep 5
    say "ended with $status; starting again"
done
