/* cmd_bench.c: `speechshard bench`: compare the loading speed of this dataset on this machine with
 * its limits.
 *
 * Nothing is written. The loader is first opened to find its engine, whether it bypasses the page
 * cache, and its number of threads. The limits are then measured in the same way.
 */
#include <string.h>

#include "bench/cmd_bench_parts.h"
#include "cli/cli.h"
#include "commands.h"
#include "speechshard/read_engine.h"

enum { THREADS_MAX = 256, SECONDS_MAX = 86400 };

/* Shares of --seconds. Without a device the loader also gets the share of the copies. */
static const double sequential_part = 0.1, random_part = 0.2, decode_part = 0.3, loader_part = 0.35,
                    copy_part = 0.05;

typedef struct request {
    spsh__plan_words words;
    double seconds;
    uint64_t threads, device;
    int engine, decode, undecodable;
    const char *features;
    bool cached, direct, cold, json;
} request;

static void on_log(void *user, spsh_log_level level, const char *text)
{
    (void)user;
    if (level != SPSH_LOG_INFO)
        spsh__cli_message("%s", text);
}

enum { NO_DEVICE = UINT16_MAX + 1 };

static spsh_loader_options loader_options(const request *r, const spsh_plan_options *plan,
                                          const spsh__bench_device *device,
                                          const spsh_feature_options *features)
{
    spsh_loader_options opt = SPSH_LOADER_OPTIONS_INIT;
    opt.plan = plan;
    opt.log_fn = on_log;
    opt.world_size = (uint32_t)r->words.world_size;
    opt.output = (spsh_output)r->words.output;
    opt.engine = (spsh_engine)r->engine;
    opt.decode_threads = (uint32_t)r->threads;
    opt.cuda = device->cuda;
    opt.device = device->number;
    opt.decode = (spsh_decode)r->decode;
    opt.undecodable = (spsh_undecodable)r->undecodable;
    if (r->features != NULL) {
        opt.output = SPSH_OUTPUT_FEATURES;
        opt.features = features;
    }
    opt.flags = r->cached ? SPSH_LOADER_CACHED : r->direct ? SPSH_LOADER_DIRECT : 0;
    return opt;
}

/* Open the loader with these options and report its choices. Only the first batch shows whether it
 * bypasses the page cache. */
static int probe(const spsh__datasets *datasets, const spsh_loader_options *options,
                 spsh_loader_stats *ret_stats)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_loader *loader = NULL;
    const spsh_batch *batch = NULL;
    spsh_loader_options quiet = *options; /* the loader that is measured logs the same lines */
    quiet.log_fn = NULL;
    if (spsh_loader_open((const spsh_dataset *const *)datasets->items, datasets->count, &quiet,
                         &loader, &err) != SPSH_OK)
        return spsh__plan_fail("bench", &err);
    spsh_status rc = spsh_loader_next(loader, &batch, &err);
    spsh_loader_stats_get(loader, ret_stats);
    spsh_loader_close(loader);
    return rc == SPSH_OK || rc == SPSH_E_END ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

/* Drop the page cache before a part that reads, if the user requested a cold cache. */
static int drop(const request *r, spsh__bench_result *result)
{
    double resident = 0;
    if (!r->cold && !r->direct)
        return SPSH_EXIT_DONE;
    int rc = spsh__bench_cache_drop(result->datasets, &resident);
    result->dropped = true;
    result->resident = resident > result->resident ? resident : result->resident;
    return rc;
}

/* Bytes copied to the device per batch, from the counters of the probe. */
static uint64_t batch_bytes(const spsh_loader_stats *stats)
{
    return stats->slots == 0 ? 0 : stats->copied_bytes / stats->slots;
}

static int measure_limits(const request *r, const spsh_loader_stats *stats,
                          spsh__bench_result *result)
{
    const uint32_t read_flags =
        (stats->direct ? 0 : SPSH_READ_CACHED) |
        (strcmp(stats->engine, "pread") == 0 ? SPSH_READ_NO_URING : SPSH_READ_NO_PREAD);
    int rc = spsh__bench_sample_take(result->plan, result->datasets, (uint32_t)r->words.world_size,
                                     &result->sample);
    if (rc != SPSH_EXIT_DONE || result->sample.count == 0)
        return rc;
    rc = spsh__bench_sample_load(&result->sample, read_flags);
    if (rc == SPSH_EXIT_DONE)
        rc = drop(r, result);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__bench_disk_read(&result->sample, read_flags, true, sequential_part * r->seconds,
                                   &result->sequential);
    if (rc == SPSH_EXIT_DONE)
        rc = drop(r, result);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__bench_disk_read(&result->sample, read_flags, false, random_part * r->seconds,
                                   &result->random);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__bench_decode(&result->sample, &r->words, stats->decode_threads,
                                decode_part * r->seconds, &result->decoded);
    if (rc == SPSH_EXIT_DONE && result->device.cuda != NULL)
        rc = spsh__bench_device_copy(batch_bytes(stats), copy_part * r->seconds, &result->device);
    return rc;
}

static int print_json(const spsh__bench_result *result)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_json *json = spsh__json_new();
    spsh__bench_put(json, result);
    return spsh__cli_json_indented(json, SPSH_OK, NULL, &err);
}

static int measure(const request *r, const spsh__datasets *datasets,
                   const spsh_loader_options *options, const spsh__bench_device *device)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan *plan = NULL;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    const double load_seconds = (loader_part + (device->cuda == NULL ? copy_part : 0)) * r->seconds;
    if (spsh_plan_open((const spsh_dataset *const *)datasets->items, datasets->count, options->plan,
                       &plan, &err) != SPSH_OK)
        return spsh__plan_fail("bench", &err);
    spsh__bench_result result = {.datasets = datasets, .plan = plan, .device = *device};
    int rc = probe(datasets, options, &stats);
    if (rc == SPSH_EXIT_DONE)
        rc = measure_limits(r, &stats, &result);
    if (rc == SPSH_EXIT_DONE)
        rc = drop(r, &result);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__bench_load(datasets, options, load_seconds, &result.loaded);
    if (rc == SPSH_EXIT_DONE)
        rc = r->json ? print_json(&result) : spsh__bench_print(&result);
    spsh__bench_sample_free(&result.sample);
    spsh_plan_close(plan);
    return rc;
}

/* Run all measurements with the options of the command line. */
static int bench(const request *r, const spsh_cli_args *args, const spsh_plan_options *plan)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh__datasets datasets;
    spsh__bench_device device = {.cuda = NULL};
    if (r->features != NULL && spsh_feature_options_parse(r->features, &features, &err) != SPSH_OK)
        return spsh__cli_usage("bench", "--features: %s", err.message);
    int rc = spsh__datasets_open("bench", args, &datasets);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    if (r->device != NO_DEVICE)
        rc = spsh__bench_device_open(r->device, &device);
    const spsh_loader_options options = loader_options(r, plan, &device, &features);
    if (rc == SPSH_EXIT_DONE)
        rc = measure(r, &datasets, &options, &device);
    spsh__bench_device_close(&device);
    spsh__datasets_close(&datasets);
    return rc;
}

int spsh__cmd_bench(int argc, char **argv)
{
    request r = {.words = SPSH__PLAN_WORDS_INIT, .seconds = 10, .device = NO_DEVICE};
    const spsh_cli_option own[] = {
        {"seconds", 0, SPSH_CLI_REAL, "S", "approximate total time in seconds (default: 10)",
         &r.seconds, 0, SECONDS_MAX},
        {"threads", 'j', SPSH_CLI_COUNT, "N", "number of decode threads (default: one per core)",
         &r.threads, 1, THREADS_MAX},
        {"engine", 0, SPSH_CLI_CHOICE, "auto|io_uring|pread", "read engine (default: auto)",
         &r.engine, 0, 0},
        {"cached", 0, SPSH_CLI_FLAG, NULL, "read through the page cache", &r.cached, 0, 0},
        {"direct", 0, SPSH_CLI_FLAG, NULL,
         "read with O_DIRECT, after dropping the shards from the page cache", &r.direct, 0, 0},
        {"cold", 0, SPSH_CLI_FLAG, NULL, "drop the shards from the page cache before each part",
         &r.cold, 0, 0},
        {"features", 0, SPSH_CLI_TEXT, "TEXT",
         "load batches of features, such as kaldi-fbank,mel_count=80", &r.features, 0, 0},
        {"device", 0, SPSH_CLI_COUNT, "N", "load batches to the memory of GPU N, from 0", &r.device,
         0, UINT16_MAX},
        {"decode", 0, SPSH_CLI_CHOICE, "host|device",
         "where codec pcm is decoded, with --device (default: host)", &r.decode, 0, 0},
        {"undecodable", 0, SPSH_CLI_CHOICE, "skip|fail",
         "skip records that pack marked undecodable, or fail (default: skip)", &r.undecodable, 0,
         0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object", &r.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    spsh_cli_option options[SPSH__PLAN_OPTION_COUNT + sizeof(own) / sizeof(own[0])];
    memcpy(options, own, sizeof(own));
    spsh__plan_options_list(&r.words, &options[sizeof(own) / sizeof(own[0]) - 1]);
    options[sizeof(options) / sizeof(options[0]) - 1] = (spsh_cli_option)SPSH_CLI_OPTIONS_END;
    const spsh_cli_command command = {
        "bench",
        "DATASET...",
        NULL,
        "measure how fast datasets load on this machine, compared with its limits",
        "Reads and decodes as training does, with a consumer that takes no time. Also measures "
        "reading only and decoding only. With --device, batches end in device memory, and copies "
        "to it are measured, too. Writes nothing.",
        "speechshard bench corpus.spsh --max-seconds 600\n"
        "speechshard bench corpus.spsh --direct --engine pread --seconds 30\n"
        "speechshard bench corpus.spsh --device 0 --decode device --features kaldi-fbank\n",
        options,
    };
    spsh_cli_args args;
    spsh__plan_request plan;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (r.cached && r.direct)
        return spsh__cli_usage("bench", "--cached and --direct exclude each other");
    if (!(r.seconds > 0))
        return spsh__cli_usage("bench", "--seconds is 0, must be more than 0");
    if (r.decode == SPSH_DECODE_DEVICE && r.device == NO_DEVICE)
        return spsh__cli_usage("bench", "--decode device needs --device");
    rc = spsh__plan_request_make("bench", &r.words, &plan);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    rc = bench(&r, &args, &plan.plan);
    spsh__plan_request_free(&plan);
    return spsh__cli_finish(rc);
}
