# shellcheck shell=bash
# steps.sh: functions that .ci/run and tools/nightly.sh share. Sourced at the root of the tree, with `set -euo pipefail`.
#
#     begin_steps               settles the environment
#     step NAME COMMAND...      runs a step, and counts it
#     end_steps                 prints the table, the failures, and the sum; its status is the status of all steps
#
# A set of tests ends with a line `N passed, N failed, N skipped`, which is added up. Another step
# counts as one, and its status 77 means skipped.

logs=build/ci
passed=0
failed=0
skipped=0
failures=()
table=()
ticks_per_s=$(getconf CLK_TCK)

begin_steps() {
    export SPEECHSHARD_REQUIRE_DATA=1 CTEST_OUTPUT_ON_FAILURE=1
    # ccache keeps object files between runs. Paths below the tree are hashed relative to it, so that a
    # fresh clone in another folder finds them, too.
    export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
    export CMAKE_C_COMPILER_LAUNCHER=ccache
    mkdir -p "$logs"
}

# Processor time of this shell's ended children, and of theirs, in ticks.
own_ticks() {
    local fields
    read -ra fields <"/proc/$$/stat" # the shell's name has no space
    echo $((fields[15] + fields[16]))
}

# machine_ticks: BUSY ALL since boot, over all cores. Time that the host took counts as busy.
machine_ticks() {
    local name user nice system idle wait irq soft steal rest
    read -r name user nice system idle wait irq soft steal rest </proc/stat
    echo $((user + nice + system + irq + soft + steal)) $((user + nice + system + irq + soft + steal + idle + wait))
}

# add_row NAME STATUS START OWN BUSY ALL COUNTS: add a row to the table. START, OWN, BUSY, and ALL
# are the counters from before the step.
add_row() {
    local name=$1 status=$2 own busy all others=0 result=passed
    own=$(($(own_ticks) - $4))
    read -r busy all <<<"$(machine_ticks)"
    busy=$((busy - $5)) all=$((all - $6))
    if ((all > 0 && busy > own)); then
        others=$(((busy - own) * 100 / all))
    fi
    case $status in
    0) ;;
    77) result=skipped ;;
    *) result="failed ($status)" ;;
    esac
    table+=("$(printf '%-12s %7d %11d %7d %%  %-12s %s' "$name" $((SECONDS - $3)) $((own / ticks_per_s)) "$others" \
        "$result" "$7")")
}

# A command that is a function runs without `set -e`: it joins its parts with &&.
step() {
    local name=$1 log=$logs/$1.log start=$SECONDS status=0 counts own machine
    shift
    own=$(own_ticks)
    machine=$(machine_ticks)
    echo "== $name: $*"
    "$@" >"$log" 2>&1 || status=$?
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1 || true)
    if [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + BASH_REMATCH[3]))
        # A run that broke without a failed test (a build error, say) must not look green.
        if ((status != 0 && BASH_REMATCH[2] == 0)); then
            failed=$((failed + 1))
        fi
    elif ((status == 0)); then
        passed=$((passed + 1))
    elif ((status == 77)); then
        skipped=$((skipped + 1))
    else
        failed=$((failed + 1))
    fi
    if ((status != 0 && status != 77)); then
        failures+=("$name")
        tail -n 200 "$log"
    fi
    # shellcheck disable=SC2086 # two numbers
    add_row "$name" "$status" "$start" "$own" $machine "$counts"
    echo "== $name: ${counts:+$counts, }exit $status after $((SECONDS - start)) s"
}

end_steps() {
    printf '\n%-12s %7s %11s %9s\n' step 'wall s' 'processor s' others
    printf '%s\n' "${table[@]}"
    echo "all of it took $SECONDS s, $(($(own_ticks) / ticks_per_s)) s of $(nproc) processors"
    local name
    for name in "${failures[@]}"; do # repeat the output of failed tests, which is far above
        echo "failed: $name ($logs/$name.log)"
        grep -E 'FAILED|\*\*\*|: error:| failed$|^    got |^ERROR|Sanitizer' "$logs/$name.log" | tail -n 15 |
            cut -c 1-300 || true
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
}

sources() { # the C and C++ files of the tree, as git knows them
    git ls-files --cached --others --exclude-standard -- '*.c' '*.cc' '*.h'
}

# check_tidy [LIMIT]: clang-tidy reads the changed files and what includes them, at most LIMIT of them; without one,
# all files.
#
# Configured with the benchmarks and with the plug-in, which is not built for this, so that every
# source has its line in compile_commands.json. One line: a source of several programs would be
# looked at once for each of them. Most of the time is the analyzer's, which takes fewer steps through
# a function than usual (TIDY_NODES), in benchmarks a third of them. Tests are not walked through: they
# run under sanitizers.
check_tidy() {
    local nodes=${TIDY_NODES:-30000} list=build/tidy/files status=0 # check all files, even if one fails
    local deep=(--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes="$nodes")
    local flat=("${deep[@]/max-nodes=*/max-nodes=$((nodes / 3))}")
    cmake --preset debug-clang -DSPEECHSHARD_BUILD_BENCH=ON -DSPEECHSHARD_CUDA=AUTO &&
        mkdir -p build/tidy &&
        jq 'unique_by(.file)' build/debug-clang/compile_commands.json >build/tidy/compile_commands.json ||
        return 1
    if (($# > 0)); then
        .ci/changed-sources.sh >build/tidy/changed || return 1
        head -n "$1" build/tidy/changed >"$list"
        echo "$(wc -l <"$list") files are read; $(($(wc -l <build/tidy/changed) - $(wc -l <"$list"))) are left to the night"
    else
        sources | grep -v '\.h$' >"$list"
    fi
    tidy '^(shardfmt|featgen|loader|train|tools)/.*\.c$' "${deep[@]}" || status=1
    tidy '^bench/.*\.c$' "${flat[@]}" || status=1
    tidy '^tests/.*\.c$' --checks='-clang-analyzer-*' || status=1
    return "$status"
}

# tidy REGEX OPTION...: run clang-tidy on the listed files that match, one process per core.
tidy() {
    local regex=$1
    shift
    { grep -E "$regex" build/tidy/files || true; } |
        xargs -r -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet "$@"
}

# fuzz_one TARGET: starts from the seeds in the tree; new inputs stay in the build folder.
fuzz_one() {
    local target=$1 found=build/fuzz/corpus/$1 seeds=tests/fuzz/corpus/$1
    mkdir -p "$found"
    "build/asan-clang/tests/$target" -max_total_time="$fuzz_seconds" -runs="$fuzz_runs" \
        -seed="$fuzz_seed" -timeout=25 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/$target-" "$found" "$seeds"
}

# run_fuzzers SECONDS RUNS SEED: run the fuzzers of the build `asan-clang`, one process per core, and count each. Each
# fuzzer gets at most SECONDS seconds and RUNS inputs (-1: any number). Seed 0: taken from the clock.
run_fuzzers() {
    local targets=0 bad=0 target list=build/asan-clang/fuzzers.txt
    export fuzz_seconds=$1 fuzz_runs=$2 fuzz_seed=$3
    export -f fuzz_one
    mkdir -p build/fuzz
    targets=$(wc -l <"$list")
    xargs -P "$(nproc)" -I '{}' bash -c \
        'fuzz_one {} >build/ci/{}.log 2>&1 || echo {} >build/fuzz/failed-{}' <"$list"
    while read -r target; do
        echo "$target: $(grep -E '^stat::number_of_executed_units' "build/ci/$target.log")"
        if [[ -e build/fuzz/failed-$target ]]; then
            bad=$((bad + 1))
            tail -n 60 "build/ci/$target.log"
            rm "build/fuzz/failed-$target"
        fi
    done <"$list"
    echo "$((targets - bad)) passed, $bad failed, 0 skipped"
    ((bad == 0 && targets > 0))
}
