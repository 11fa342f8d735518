#!/bin/sh
# read.sh BUILD DIRECTORY [GIBIBYTES [RUNS]]: read sealed shards with bench_read and with fio, in
# turns.
#
# BUILD: the build directory with bench/bench_read. DIRECTORY: on the disk to be measured; a dataset
# of GIBIBYTES (4) is made there and removed. Needs fio. Prints one line per run and medians at the
# end.
set -eu
bench=$1/bench/bench_read
gib=${3:-4}
runs=${4:-5}
work=$(mktemp -d "$2/speechshard-read-XXXXXX")
memory=$(mktemp -d /dev/shm/speechshard-read-XXXXXX)
trap 'rm -rf "$work" "$memory"' EXIT
dataset=$work/d.spsh
"$bench" make "$dataset" "$gib"
sync
files=$(printf '%s:' "$dataset"/shards/*.spsh | sed 's/:$//')

uname -sr
sed -n 's/^model name[^:]*: /cpu: /p' /proc/cpuinfo | head -n 1
echo "cores: $(nproc); dataset: $gib GiB; runs: $runs, in turns"

# fio_line NAME RW BLOCK EXTRA...: one line in bench_read's form
fio_line() {
    name=$1 rw=$2 block=$3
    shift 3
    fio --name=read --filename="$files" --rw="$rw" --bs="$block" --iodepth=32 --ioengine=io_uring \
        --direct=1 --readonly --file_service_type=sequential --output-format=terse --terse-version=3 "$@" |
        awk -F';' -v name="$name" '{
            seconds = $9 / 1000; bytes = $6 * 1024
            cpu = (($88 + $89) / 100) * seconds
            printf "%s %.0f bytes %.3f s %.0f MB/s %.3f cpu-s/GB\n", name, bytes, seconds, bytes / seconds / 1e6, cpu / (bytes / 1e9) }'
}

fio_pair() {
    fio_line "fio read 1M" read 1M
    fio_line "fio randread 160k" randread 160k --norandommap=1 --file_service_type=random --io_size=1G
}
our_pair() {
    "$bench" verify "$dataset" 1
    "$bench" shuffled "$dataset" 6700 32
}
# The second program may find the data in a cache below this machine. So the order alternates, too.
run=0
while [ $run -lt "$runs" ]; do
    if [ $((run % 2)) -eq 0 ]; then
        fio_pair
        our_pair
    else
        our_pair
        fio_pair
    fi
    run=$((run + 1))
done | tee "$work/lines"

# From memory: the rate of one core if the disk does not limit it.
small=1
"$bench" make "$memory/d.spsh" $small
run=0
while [ $run -lt "$runs" ]; do
    "$bench" verify "$memory/d.spsh" cached 1
    run=$((run + 1))
done | tee -a "$work/lines"

echo
echo "medians (MB/s, least, most; cpu-s/GB, that is GB/s a core):"
awk '{
    for (i = 1; i <= NF; i++) if ($i == "bytes") at = i
    key = $1; for (i = 2; i < at - 1; i++) key = key " " $i
    n[key]++; rate[key, n[key]] = $(at + 3); cpu[key, n[key]] = $(at + 5)
}
END {
    for (key in n) {
        m = n[key]
        for (i = 1; i <= m; i++) for (j = i + 1; j <= m; j++) if (rate[key, j] < rate[key, i]) {
            t = rate[key, i]; rate[key, i] = rate[key, j]; rate[key, j] = t
        }
        h = int((m + 1) / 2)
        for (i = 1; i <= m; i++) for (j = i + 1; j <= m; j++) if (cpu[key, j] < cpu[key, i]) {
            t = cpu[key, i]; cpu[key, i] = cpu[key, j]; cpu[key, j] = t
        }
        printf "  %-32s %6.0f  %6.0f  %6.0f   %.3f  %5.1f\n", key, rate[key, h], rate[key, 1], rate[key, m], cpu[key, h], 1 / cpu[key, h]
    }
}' "$work/lines" | sort
