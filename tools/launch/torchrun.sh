#!/bin/sh
# torchrun.sh CONFIG RUN [KEY=VALUE...]: train under PyTorch's torchrun. Start it on each node with
# the same arguments. The number of nodes may change between the minimum and the maximum:
#
#     NODES=1:4 PROCESSES=8 MEETING=node1:29400 tools/launch/torchrun.sh corpus.yaml /shared/run
#
# If a process or a node fails, or a node joins, torchrun ends all processes and starts the run on
# the nodes that then exist. After TERM, INT, or USR1, the run saves, and the script ends with
# status 75 on every node that got the signal; the same command resumes the run. The script needs
# neither Python code of ours nor MPI.
#
# If the nodes share no RUN, set SPEECHSHARD_SECRET to the same random string on each.
set -u

# ---- settings for users, here or in the environment
NODES=${NODES:-1}                  # number of nodes, or minimum and maximum: 1:4
PROCESSES=${PROCESSES:-auto}       # processes per node; auto: one per GPU, else one per core
MEETING=${MEETING:-localhost:0}    # HOST:PORT of one node, the same on all nodes; port 0: one node
JOB=${JOB:-speechshard}            # name of the run; must differ between simultaneous runs
RESTARTS=${RESTARTS:-20}           # restarts after failures; changes of the nodes do not count
TORCHRUN_OPTIONS=${TORCHRUN_OPTIONS:-} # more options of torchrun
SPEECHSHARD=${SPEECHSHARD:-speechshard}
# ----

if [ $# -lt 2 ]; then
    echo "usage: torchrun.sh CONFIG RUN [KEY=VALUE...]" >&2
    exit 2
fi
config=$1
run=$2
shift 2
is_asked=false
pid=

# torchrun forwards the signal to its processes, and gives them half a minute to save.
forward_usr1() {
    if [ -n "$pid" ] && $is_asked; then
        kill -TERM "$pid" 2>/dev/null
    fi
}
trap 'is_asked=true; forward_usr1' TERM INT USR1

# Underscores: PyTorch before 2.0 accepts only these. setsid: only this script gets Ctrl-C.
# shellcheck disable=SC2086 # options are words
setsid torchrun --no_python --nnodes "$NODES" --nproc_per_node "$PROCESSES" --rdzv_backend c10d \
    --rdzv_endpoint "$MEETING" --rdzv_id "$JOB" --max_restarts "$RESTARTS" $TORCHRUN_OPTIONS \
    "$SPEECHSHARD" train "$config" -o "$run" --resume auto "$@" </dev/null &
pid=$!
forward_usr1
wait "$pid"
status=$?
while kill -0 "$pid" 2>/dev/null; do # a trap ends a wait
    wait "$pid"
    status=$?
done
if $is_asked && [ "$status" -ne 0 ]; then
    status=75
fi
exit "$status"
