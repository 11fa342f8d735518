#!/bin/sh
# ---- settings for users, here or as options of qsub
#$ -N speechshard-pack
#$ -t 1-16
# ---- required by the script below
#$ -S /bin/sh -cwd -j y -r y -notify
# pack-sge.sh: pack a corpus in the tasks of a job array of Grid Engine, and merge in one more job:
#
#     sh pack-sge.sh
#
# With -notify, Grid Engine sends USR2 before it kills a task, and USR1 before it suspends one. pack
# then stops and exits with 75, and the exit status 99 queues the task again. pack also exits with 75
# after an error of the file system, which may last: then the task is queued again once.
set -u

# ---- settings for users
DATASET=/data/corpus.spsh # on a file system that all hosts share
set -- /data/corpus       # corpora, and options of speechshard pack
SPEECHSHARD=${SPEECHSHARD:-speechshard}
# ----

if [ "${SGE_TASK_ID:-undefined}" = undefined ]; then # not in a task: submit both jobs
    job=$(qsub -terse -v SPEECHSHARD="$SPEECHSHARD" "$0") || exit
    echo "array ${job%%.*}"
    exec qsub -N speechshard-merge -hold_jid "${job%%.*}" -cwd -j y -r y -b y -shell n \
        "$SPEECHSHARD" merge "$DATASET"
fi

pid=
has_signal=false
trap 'has_signal=true; [ -z "$pid" ] || kill -USR1 "$pid" 2>/dev/null' USR1 USR2
# Grid Engine signals pack, too, which only knows USR1.
(trap '' USR2 && exec "$SPEECHSHARD" pack --part auto -o "$DATASET" -j "${NSLOTS:-1}" "$@") &
pid=$!
wait "$pid"
status=$?
while kill -0 "$pid" 2>/dev/null; do # a trap ends a wait
    wait "$pid"
    status=$?
done
if [ "$status" -eq 75 ] && { $has_signal || [ "${RESTARTED:-0}" -eq 0 ]; }; then
    status=99
fi
exit "$status"
