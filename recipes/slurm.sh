#!/bin/sh
#SBATCH --job-name=speechshard
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
# slurm.sh CONFIG RUN [KEY=VALUE...]: trains on as many processes as the job has, and goes on after
# a preemption or at the end of the job's time:
#
#     sbatch recipes/slurm.sh recipes/librispeech-960/librispeech-960.yaml /shared/run960
#
# Two minutes before the time is over Slurm sends SIGUSR1 to all processes (a preemption: SIGTERM).
# They finish the step, save, and exit 75: then the job queues again, and goes on from there. So it
# does where processes lost one of their own (70), but not for ever. CONFIG's paths are relative to the folder in which sbatch was run.
set -u

if [ $# -lt 2 ]; then
    echo "usage: sbatch slurm.sh CONFIG RUN [KEY=VALUE...]" >&2
    exit 2
fi
config=$1
run=$2
shift 2
status=0
# Nobody is killed because another process has ended with 75; one that has died ends the rest two
# minutes later.
srun --mpi="${SPEECHSHARD_SRUN_MPI:-pmix}" --kill-on-bad-exit=0 --wait=120 --cpu-bind=cores \
    speechshard train "$config" "$@" -o "$run" --resume auto "train.threads=${SLURM_CPUS_PER_TASK:-0}" || status=$?
if [ "$status" -eq 75 ] || { [ "$status" -eq 70 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; }; then
    scontrol requeue "$SLURM_JOB_ID" || exit 1
    exit 0
fi
exit "$status"
