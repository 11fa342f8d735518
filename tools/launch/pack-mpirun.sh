#!/bin/sh
# pack-mpirun.sh: pack a corpus with one process per host, and merge:
#
#     HOSTS=node1,node2 sh pack-mpirun.sh
#
# After a failure, or after USR1 to mpirun, the same command continues, also with other hosts.
set -u

# ---- settings for users
HOSTS=${HOSTS:-localhost}    # node1,node2; node1:2 starts two processes there
MPI_OPTIONS=${MPI_OPTIONS:-} # such as '--mca oob_tcp_if_include eth0 -x LD_LIBRARY_PATH'
DATASET=/data/corpus.spsh    # on a file system that all hosts share
set -- /data/corpus          # corpora, and options of speechshard pack
SPEECHSHARD=${SPEECHSHARD:-speechshard}
# ----

# Without a binding, each process may use all cores of its host.
# shellcheck disable=SC2086 # options are words
mpirun --host "$HOSTS" --bind-to none $MPI_OPTIONS "$SPEECHSHARD" pack --part auto -o "$DATASET" "$@" &&
    exec "$SPEECHSHARD" merge "$DATASET"
