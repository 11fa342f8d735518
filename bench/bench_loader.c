/* bench_loader.c: batches compared with a bare decode loop, and the loader compared with the disk;
 * bench/loader.sh runs it.
 *
 *     bench_loader ratio DATASET... [options]    decode loop and loader in turns, on the same cores
 *     bench_loader cold DATASET... [options]     loader and read engine in turns, O_DIRECT, dropped
 *     bench_loader sizes DATASET... [options]    record sizes of an epoch, as fio's --bssplit
 *
 * Prints one JSON object, or the argument for fio. Options are the plan's options, and --rounds,
 * --seconds (per part of a round), --threads. The order changes from round to round.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/cmd_bench_parts.h"
#include "speechshard/read_engine.h"

enum { ROUNDS_MAX = 99, SIZE_CLASSES = 20, KIB = 1024, ALIGN = 4096 };

typedef struct request {
    spsh__plan_words words;
    spsh__plan_request plan;
    spsh__datasets datasets;
    spsh__bench_sample sample;
    uint64_t rounds, threads;
    double seconds;
} request;

typedef struct round_result {
    spsh__bench_decoded decoded;
    spsh__bench_disk disk;
    spsh__bench_loaded loaded;
    double resident;
} round_result;

static spsh_loader_options loader_options(const request *r, uint32_t flags)
{
    spsh_loader_options opt = SPSH_LOADER_OPTIONS_INIT;
    opt.plan = &r->plan.plan;
    opt.output = (spsh_output)r->words.output;
    opt.decode_threads = (uint32_t)r->threads;
    opt.flags = flags;
    return opt;
}

/* ---- rounds ---- */

static int run_ratio(const request *r, bool loader_first, round_result *result)
{
    const spsh_loader_options options = loader_options(r, SPSH_LOADER_CACHED);
    int rc = SPSH_EXIT_DONE;
    for (int part = 0; part < 2 && rc == SPSH_EXIT_DONE; part++) {
        if ((part == 0) == loader_first)
            rc = spsh__bench_load(&r->datasets, &options, r->seconds, &result->loaded);
        else
            rc = spsh__bench_decode(&r->sample, &r->words, (uint32_t)r->threads, r->seconds,
                                    &result->decoded);
    }
    return rc;
}

static int run_cold(const request *r, bool loader_first, round_result *result)
{
    const spsh_loader_options options = loader_options(r, SPSH_LOADER_DIRECT);
    int rc = SPSH_EXIT_DONE;
    for (int part = 0; part < 2 && rc == SPSH_EXIT_DONE; part++) {
        double resident = 0;
        rc = spsh__bench_cache_drop(&r->datasets, &resident);
        result->resident = resident > result->resident ? resident : result->resident;
        if (rc != SPSH_EXIT_DONE)
            break;
        if ((part == 0) == loader_first)
            rc = spsh__bench_load(&r->datasets, &options, r->seconds, &result->loaded);
        else
            rc = spsh__bench_disk_read(&r->sample, 0, false, r->seconds, &result->disk);
    }
    return rc;
}

/* ---- figures of a round ---- */

static double decode_speed(const round_result *r)
{
    return (double)r->decoded.microseconds / 1e6 / r->decoded.seconds;
}

static double loader_speed(const round_result *r)
{
    return (double)r->loaded.stats.microseconds / 1e6 / r->loaded.seconds;
}

static double speed_ratio(const round_result *r)
{
    return loader_speed(r) / decode_speed(r);
}

static double decode_cpu_per_hour(const round_result *r)
{
    return r->decoded.cpu_seconds / ((double)r->decoded.microseconds / 3.6e9);
}

static double loader_cpu_per_hour(const round_result *r)
{
    return r->loaded.cpu_seconds / ((double)r->loaded.stats.microseconds / 3.6e9);
}

/* Estimate the ratio of speeds on otherwise idle cores. */
static double cpu_ratio(const round_result *r)
{
    return decode_cpu_per_hour(r) / loader_cpu_per_hour(r);
}

static double disk_mb(const round_result *r)
{
    return (double)r->disk.bytes / 1e6 / r->disk.seconds;
}

static double loader_mb(const round_result *r)
{
    return (double)r->loaded.stats.read_bytes / 1e6 / r->loaded.seconds;
}

static double mb_ratio(const round_result *r)
{
    return loader_mb(r) / disk_mb(r);
}

static double gap_p99_ms(const round_result *r)
{
    return (double)r->loaded.stats.gap_p99_ns / 1e6;
}

static double resident(const round_result *r)
{
    return r->resident;
}

typedef struct figure {
    const char *name;
    double (*of)(const round_result *result);
} figure;

static const figure ratio_figures[] = {
    {"decode_real_time_factor",           decode_speed       },
    {"loader_real_time_factor",           loader_speed       },
    {"loader_of_decode",                  speed_ratio        },
    {"decode_cpu_seconds_per_audio_hour", decode_cpu_per_hour},
    {"loader_cpu_seconds_per_audio_hour", loader_cpu_per_hour},
    {"decode_of_loader_cpu",              cpu_ratio          },
    {"loader_mb_per_s",                   loader_mb          },
    {"gap_p99_ms",                        gap_p99_ms         },
    {NULL,                                NULL               },
};

static const figure cold_figures[] = {
    {"engine_mb_per_s",                   disk_mb            },
    {"loader_mb_per_s",                   loader_mb          },
    {"loader_of_engine",                  mb_ratio           },
    {"loader_real_time_factor",           loader_speed       },
    {"loader_cpu_seconds_per_audio_hour", loader_cpu_per_hour},
    {"gap_p99_ms",                        gap_p99_ms         },
    {"resident_part",                     resident           },
    {NULL,                                NULL               },
};

static int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* Four digits exceed the precision of the figures. */
static void put_rounded(spsh_json *json, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.4g", value);
    spsh__json_put_real(json, NULL, strtod(text, NULL));
}

/* [median, minimum, maximum] */
static void put_figure(spsh_json *json, const figure *f, const round_result *results, size_t count)
{
    double values[ROUNDS_MAX];
    for (size_t i = 0; i < count; i++)
        values[i] = f->of(&results[i]);
    qsort(values, count, sizeof(*values), compare_reals);
    spsh__json_begin_array(json, f->name);
    put_rounded(json, (values[(count - 1) / 2] + values[count / 2]) / 2);
    put_rounded(json, values[0]);
    put_rounded(json, values[count - 1]);
    spsh__json_end(json);
}

static int print_rounds(const request *r, const figure *figures, const round_result *results)
{
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_loader_stats *stats = &results[0].loaded.stats;
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return spsh__cli_fail_memory();
    spsh__json_put_u64(json, "rounds", r->rounds);
    spsh__json_put_real(json, "seconds_per_part", r->seconds);
    spsh__json_put_u64(json, "threads", stats->decode_threads);
    spsh__json_put_string(json, "engine", stats->engine);
    spsh__json_put_bool(json, "direct", stats->direct);
    spsh__json_put_string(json, "output",
                          r->words.output == SPSH_OUTPUT_INT16 ? "int16" : "float32");
    spsh__json_put_u64(json, "sample_utterances", r->sample.count);
    spsh__json_put_u64(json, "record_bytes_mean",
                       r->sample.count == 0 ? 0 : r->sample.record_bytes / r->sample.count);
    for (; figures->name != NULL; figures++)
        put_figure(json, figures, results, (size_t)r->rounds);
    spsh_status rc = spsh__json_write_pretty(json, stdout, &err);
    spsh__json_free(json);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static int run_rounds(const request *r, bool cold)
{
    static round_result results[ROUNDS_MAX];
    int rc = SPSH_EXIT_DONE;
    for (uint64_t round = 0; round < r->rounds && rc == SPSH_EXIT_DONE; round++)
        rc = cold ? run_cold(r, round % 2 != 0, &results[round])
                  : run_ratio(r, round % 2 != 0, &results[round]);
    if (rc == SPSH_EXIT_DONE)
        rc = print_rounds(r, cold ? cold_figures : ratio_figures, results);
    return rc;
}

/* ---- sizes ---- */

static int compare_sizes(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* Twenty classes of equal frequency, each by its middle, in whole units of 4 KiB. */
static int print_sizes(const spsh__bench_sample *sample)
{
    uint32_t *sizes = (uint32_t *)calloc(sample->count + 1, sizeof(*sizes));
    if (sizes == NULL)
        return spsh__cli_fail_memory();
    for (size_t i = 0; i < sample->count; i++)
        sizes[i] = (sample->records[i].record_bytes + ALIGN - 1) / ALIGN * ALIGN;
    qsort(sizes, sample->count, sizeof(*sizes), compare_sizes);
    for (size_t i = 0; i < SIZE_CLASSES && sample->count > 0; i++)
        printf("%s%uk/%d", i == 0 ? "" : ":",
               sizes[(2 * i + 1) * sample->count / ((size_t)2 * SIZE_CLASSES)] / KIB,
               100 / SIZE_CLASSES);
    putchar('\n');
    free(sizes);
    return SPSH_EXIT_DONE;
}

/* ---- the program ---- */

static int take_sample(request *r)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan *plan = NULL;
    if (spsh_plan_open((const spsh_dataset *const *)r->datasets.items, r->datasets.count,
                       &r->plan.plan, &plan, &err) != SPSH_OK)
        return spsh__plan_fail("bench_loader", &err);
    int rc = spsh__bench_sample_take(plan, &r->datasets, 1, &r->sample);
    spsh_plan_close(plan);
    return rc;
}

static int run(request *r, const char *what)
{
    int rc = take_sample(r);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    if (strcmp(what, "sizes") == 0)
        return print_sizes(&r->sample);
    if (strcmp(what, "cold") == 0)
        return run_rounds(r, true);
    rc = spsh__bench_sample_load(&r->sample, SPSH_READ_CACHED);
    return rc == SPSH_EXIT_DONE ? run_rounds(r, false) : rc;
}

int main(int argc, char **argv)
{
    request r = {.words = SPSH__PLAN_WORDS_INIT, .rounds = 5, .seconds = 3, .threads = 2};
    spsh_cli_option options[SPSH__PLAN_OPTION_COUNT + 4];
    const spsh_cli_option own[] = {
        {"rounds",  'n', SPSH_CLI_COUNT, "N", "of each in turn; 5",        &r.rounds,  1, ROUNDS_MAX},
        {"seconds", 0,   SPSH_CLI_REAL,  "S", "of one part of a round; 3", &r.seconds, 0, 0         },
        {"threads", 'j', SPSH_CLI_COUNT, "N", "that decode, in both; 2",   &r.threads, 1, 256       },
        SPSH_CLI_OPTIONS_END,
    };
    spsh__plan_options_list(&r.words, options);
    memcpy(&options[SPSH__PLAN_OPTION_COUNT], own, sizeof(own));
    const spsh_cli_command command = {"bench_loader",
                                      "WHAT DATASET...",
                                      "ratio|cold|sizes DATASET... [options]\n",
                                      "measure the loader",
                                      NULL,
                                      "bench_loader ratio corpus.spsh\n",
                                      options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    const char *what = args.operands[0];
    args.operands++;
    args.operand_count--;
    if (strcmp(what, "ratio") != 0 && strcmp(what, "cold") != 0 && strcmp(what, "sizes") != 0)
        return spsh__cli_usage("bench_loader", "'%s' is not ratio, cold or sizes", what);
    rc = spsh__plan_request_make("bench_loader", &r.words, &r.plan);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__datasets_open("bench_loader", &args, &r.datasets);
    if (rc == SPSH_EXIT_DONE)
        rc = run(&r, what);
    spsh__bench_sample_free(&r.sample);
    spsh__datasets_close(&r.datasets);
    spsh__plan_request_free(&r.plan);
    return spsh__cli_finish(rc);
}
