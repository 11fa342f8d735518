/* cmd_bench_out.c: print the measurements as a table with a verdict, or as JSON.
 *
 * The verdict compares the loader with its limits. If batches are nearly always ready before they
 * are requested, the consumer is the limit. Otherwise it is the nearer of two limits: only
 * decoding, or only reading. If neither is near, the loader itself or waiting for both takes the
 * rest of the time. With a device, only copying is a third limit. It is checked first, because it
 * cannot be tuned.
 */
#include <string.h>

#include "cmd_bench_parts.h"

static const double consumer_wait_max = 0.05; /* share of the time */
static const double bound_min = 0.75;         /* share of a limit */
static const double doubtful_min = 1.15;      /* factor over the bare decode loop */

/* ---- rates ---- */

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

static double disk_bytes_rate(const spsh__bench_disk *disk)
{
    return rate((double)disk->bytes, disk->seconds);
}

static double loader_bytes_rate(const spsh__bench_loaded *loaded)
{
    return rate((double)loaded->stats.read_bytes, loaded->seconds);
}

/* Return seconds of audio per second. */
static double decode_speed(const spsh__bench_decoded *decoded)
{
    return rate((double)decoded->microseconds / 1e6, decoded->seconds);
}

static double loader_speed(const spsh__bench_loaded *loaded)
{
    return rate((double)loaded->stats.microseconds / 1e6, loaded->seconds);
}

/* Bytes per second that the loader copies to the device; link_rate has the rate of plain copies. */
static double copy_rate(const spsh__bench_loaded *loaded)
{
    return rate((double)loaded->stats.copied_bytes, loaded->seconds);
}

static double link_rate(const spsh__bench_device *device)
{
    return rate((double)device->bytes, device->seconds);
}

static double cpu_per_hour(double cpu_seconds, uint64_t microseconds)
{
    return rate(cpu_seconds, (double)microseconds / 3.6e9);
}

static double padding(const spsh_loader_stats *stats)
{
    return 1 - rate((double)stats->microseconds, (double)stats->padded_microseconds);
}

static double wait_share(const spsh__bench_loaded *loaded)
{
    return rate((double)loaded->stats.wait_ns / 1e9, loaded->seconds);
}

/* ---- the verdict ---- */

typedef enum bound {
    BOUND_NOTHING,
    BOUND_CONSUMER,
    BOUND_DECODING,
    BOUND_DISK,
    BOUND_LINK,
} bound;

static const char *const bound_names[] = {"nothing", "consumer", "decoding", "disk", "link"};

typedef struct verdict {
    bound by;
    double decode_share, disk_share, link_share; /* share of each separately measured limit; 0: not
                                                    measured */
} verdict;

static verdict judge(const spsh__bench_result *r)
{
    verdict v = {BOUND_NOTHING, rate(loader_speed(&r->loaded), decode_speed(&r->decoded)),
                 rate(loader_bytes_rate(&r->loaded), disk_bytes_rate(&r->random)),
                 rate(copy_rate(&r->loaded), link_rate(&r->device))};
    if (v.link_share >= bound_min)
        v.by = BOUND_LINK;
    else if (wait_share(&r->loaded) < consumer_wait_max)
        v.by = BOUND_CONSUMER;
    else if (v.decode_share >= v.disk_share && v.decode_share >= bound_min)
        v.by = BOUND_DECODING;
    else if (v.disk_share >= bound_min)
        v.by = BOUND_DISK;
    return v;
}

static void print_verdict(const spsh__bench_result *r)
{
    const verdict v = judge(r);
    const char *from = r->random.direct ? "disk" : "page cache";
    const char *decode = SPSH_SHOW_PERCENT(v.decode_share, 1);
    const char *disk = SPSH_SHOW_PERCENT(v.disk_share, 1);
    switch (v.by) {
    case BOUND_CONSUMER:
        printf("bound by the consumer (a batch was ready %s of the time)\n",
               SPSH_SHOW_PERCENT(1 - wait_share(&r->loaded), 1));
        break;
    case BOUND_DECODING:
        printf("bound by decoding (%s of the speed of decoding only; %s of the %s)\n", decode, disk,
               from);
        break;
    case BOUND_DISK:
        printf("bound by the %s (%s of the speed of reading only; %s of decoding only)\n", from,
               disk, decode);
        break;
    case BOUND_LINK:
        printf("bound by the link to the device (%s of the speed of copying only; %s of decoding "
               "only)\n",
               SPSH_SHOW_PERCENT(v.link_share, 1), decode);
        break;
    case BOUND_NOTHING:
        printf("no single limit (%s of the speed of decoding only, %s of the %s)\n", decode, disk,
               from);
        break;
    }
    if (v.decode_share > doubtful_min)
        printf(
            "faster than its limit, because other programs used the CPU; stop them and repeat\n");
}

/* ---- tables ---- */

static const char *path_text(bool is_direct)
{
    return is_direct ? "direct" : "through the page cache";
}

static void add_rate(spsh_table *table, const char *name, double bytes_per_s, const char *note)
{
    spsh__table_row(table, name, SPSH_SHOW("%s/s", SPSH_SHOW_BYTES((uint64_t)bytes_per_s)), note);
}

static void add_disk(spsh_table *table, const char *name, const char *what,
                     const spsh__bench_disk *disk)
{
    add_rate(table, name, disk_bytes_rate(disk),
             SPSH_SHOW("%s; %s, %s; %.3f CPU s/GB", what, disk->engine, path_text(disk->direct),
                       rate(disk->cpu_seconds, (double)disk->bytes / 1e9)));
}

static void add_speed(spsh_table *table, const char *name, double speed, const char *note)
{
    spsh__table_row(table, name, SPSH_SHOW("%s x", SPSH_SHOW_COUNT((uint64_t)(speed + 0.5))), note);
}

static void add_limits(spsh_table *table, const spsh__bench_result *r)
{
    if (r->sample.count > 0) {
        const uint64_t mean = r->sample.record_bytes / r->sample.count;
        add_disk(table, "raw, sequential", "1 MiB", &r->sequential);
        add_disk(
            table, "raw, random",
            SPSH_SHOW("records of %s on average, in the order of the epoch", SPSH_SHOW_BYTES(mean)),
            &r->random);
    }
    if (r->sample.loaded > 0)
        add_speed(table, "bare decode", decode_speed(&r->decoded),
                  SPSH_SHOW("real time, from memory, on %u threads; %.2f CPU s/h of audio",
                            r->decoded.threads,
                            cpu_per_hour(r->decoded.cpu_seconds, r->decoded.microseconds)));
}

static void add_time(spsh_table *table, const char *name, double seconds, const char *note)
{
    spsh__table_row(table, name, SPSH_SHOW("%.2f ms", seconds * 1e3), note);
}

static void add_loader(spsh_table *table, const spsh__bench_result *r)
{
    const spsh_loader_stats *s = &r->loaded.stats;
    const double cpu = r->loaded.cpu_seconds;
    add_speed(table, "loader", loader_speed(&r->loaded),
              SPSH_SHOW("real time; %s, %s, %u threads, %u slots of %s", s->engine,
                        path_text(s->direct), s->decode_threads, s->slots,
                        SPSH_SHOW_BYTES(s->slots == 0 ? 0 : s->memory_bytes / s->slots)));
    spsh__table_row(
        table, "  batches", SPSH_SHOW("%.1f/s", rate((double)s->batches, r->loaded.seconds)),
        SPSH_SHOW("%.1f utterances each", rate((double)s->utterances, (double)s->batches)));
    add_rate(table, "  read", loader_bytes_rate(&r->loaded),
             SPSH_SHOW("%.2f bytes read for each byte needed",
                       rate((double)s->read_bytes, (double)s->needed_bytes)));
    spsh__table_row(table, "  CPU", SPSH_SHOW("%.2f s/h", cpu_per_hour(cpu, s->microseconds)),
                    SPSH_SHOW("per hour of audio: %.0f %% decoding, %.0f %% reading",
                              100 * rate((double)s->decode_cpu_ns / 1e9, cpu),
                              100 * rate((double)s->io_cpu_ns / 1e9, cpu)));
    add_time(table, "  gap, median", (double)s->gap_p50_ns / 1e9, "between batches");
    add_time(table, "  gap, P99", (double)s->gap_p99_ns / 1e9, "");
    spsh__table_row(table, "  wait", SPSH_SHOW_PERCENT(wait_share(&r->loaded), 1),
                    SPSH_SHOW("share of the time; %s stalls of more than a millisecond",
                              SPSH_SHOW_COUNT(s->stalls)));
    spsh__table_row(table, "  padding", SPSH_SHOW_PERCENT(padding(s), 1),
                    "share of a padded batch");
    add_time(table, "  first batch", r->loaded.first_batch_seconds, "after open");
}

static void add_device(spsh_table *table, const spsh__bench_result *r)
{
    const spsh__bench_device *device = &r->device;
    const spsh_loader_stats *s = &r->loaded.stats;
    add_rate(table, "copies only", link_rate(device),
             SPSH_SHOW("to device %u, %.100s, pinned, %s each", device->number, device->is.name,
                       SPSH_SHOW_BYTES(device->copy_bytes)));
    add_rate(table, "  to the device", copy_rate(&r->loaded),
             SPSH_SHOW("%s of copies only; %s; slots of %s there",
                       SPSH_SHOW_PERCENT(rate(copy_rate(&r->loaded), link_rate(device)), 1),
                       s->pinned ? "pinned" : "not pinned", SPSH_SHOW_BYTES(s->device_bytes)));
    spsh__table_row(table, "  audio", SPSH_SHOW("%.2f h/s", loader_speed(&r->loaded) / 3600),
                    "hours per second; training that needs less never waits for the loader");
}

int spsh__bench_print(const spsh__bench_result *r)
{
    const spsh_plan_info *info = spsh_plan_info_get(r->plan);
    spsh_table *table = spsh__table_new("lrl");
    printf("%s utterances, %s\n", SPSH_SHOW_COUNT(info->utterance_count),
           SPSH_SHOW_DURATION((double)info->microseconds / 1e6));
    if (r->sample.left_out != 0)
        printf("raw and bare rates omit %s utterances, which are in long recordings or in further "
               "shards\n",
               SPSH_SHOW_COUNT(r->sample.left_out));
    if (r->dropped)
        printf("dropped from the page cache; at most %s of the shards stayed there\n",
               SPSH_SHOW_PERCENT(r->resident, 1));
    putchar('\n');
    add_limits(table, r);
    add_loader(table, r);
    if (r->device.cuda != NULL)
        add_device(table, r);
    if (!spsh__table_finish(table))
        return spsh__cli_fail_memory();
    putchar('\n');
    print_verdict(r);
    return SPSH_EXIT_DONE;
}

/* ---- JSON ---- */

static void put_disk(spsh_json *json, const char *key, const spsh__bench_disk *disk)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_string(json, "engine", disk->engine);
    spsh__json_put_bool(json, "direct", disk->direct);
    spsh__json_put_u64(json, "reads", disk->reads);
    spsh__json_put_u64(json, "bytes", disk->bytes);
    spsh__json_put_real(json, "seconds", disk->seconds);
    spsh__json_put_real(json, "cpu_seconds", disk->cpu_seconds);
    spsh__json_put_real(json, "mb_per_s", disk_bytes_rate(disk) / 1e6);
    spsh__json_end(json);
}

static void put_decoded(spsh_json *json, const spsh__bench_decoded *decoded)
{
    spsh__json_begin_object(json, "decode");
    spsh__json_put_u64(json, "threads", decoded->threads);
    spsh__json_put_u64(json, "utterances", decoded->utterances);
    spsh__json_put_real(json, "audio_seconds", (double)decoded->microseconds / 1e6);
    spsh__json_put_real(json, "seconds", decoded->seconds);
    spsh__json_put_real(json, "cpu_seconds", decoded->cpu_seconds);
    spsh__json_put_real(json, "real_time_factor", decode_speed(decoded));
    spsh__json_put_real(json, "cpu_seconds_per_audio_hour",
                        cpu_per_hour(decoded->cpu_seconds, decoded->microseconds));
    spsh__json_end(json);
}

static void put_loaded(spsh_json *json, const spsh__bench_loaded *loaded)
{
    const spsh_loader_stats *s = &loaded->stats;
    spsh__json_begin_object(json, "loader");
    spsh__json_put_string(json, "engine", s->engine);
    spsh__json_put_bool(json, "direct", s->direct);
    spsh__json_put_u64(json, "threads", s->decode_threads);
    spsh__json_put_u64(json, "slots", s->slots);
    spsh__json_put_u64(json, "memory_bytes", s->memory_bytes);
    spsh__json_put_u64(json, "batches", s->batches);
    spsh__json_put_u64(json, "utterances", s->utterances);
    spsh__json_put_real(json, "audio_seconds", (double)s->microseconds / 1e6);
    spsh__json_put_real(json, "seconds", loaded->seconds);
    spsh__json_put_real(json, "cpu_seconds", loaded->cpu_seconds);
    spsh__json_put_real(json, "decode_cpu_seconds", (double)s->decode_cpu_ns / 1e9);
    spsh__json_put_real(json, "io_cpu_seconds", (double)s->io_cpu_ns / 1e9);
    spsh__json_put_real(json, "real_time_factor", loader_speed(loaded));
    spsh__json_put_real(json, "cpu_seconds_per_audio_hour",
                        cpu_per_hour(loaded->cpu_seconds, s->microseconds));
    spsh__json_put_real(json, "batches_per_s", rate((double)s->batches, loaded->seconds));
    spsh__json_put_u64(json, "reads", s->reads);
    spsh__json_put_u64(json, "read_bytes", s->read_bytes);
    spsh__json_put_u64(json, "needed_bytes", s->needed_bytes);
    spsh__json_put_real(json, "mb_per_s", loader_bytes_rate(loaded) / 1e6);
    spsh__json_put_real(json, "gap_p50_ms", (double)s->gap_p50_ns / 1e6);
    spsh__json_put_real(json, "gap_p99_ms", (double)s->gap_p99_ns / 1e6);
    spsh__json_put_real(json, "gap_max_ms", (double)s->gap_max_ns / 1e6);
    spsh__json_put_real(json, "wait", wait_share(loaded));
    spsh__json_put_u64(json, "stalls", s->stalls);
    spsh__json_put_real(json, "padding", padding(s));
    spsh__json_put_real(json, "first_batch_seconds", loaded->first_batch_seconds);
    spsh__json_end(json);
}

static void put_device(spsh_json *json, const spsh__bench_result *r)
{
    const spsh__bench_device *device = &r->device;
    const spsh_loader_stats *s = &r->loaded.stats;
    spsh__json_begin_object(json, "device");
    spsh__json_put_u64(json, "number", device->number);
    spsh__json_put_string(json, "name", device->is.name);
    spsh__json_put_u64(json, "copy_bytes", device->copy_bytes);
    spsh__json_put_real(json, "copies_alone_mb_per_s", link_rate(device) / 1e6);
    spsh__json_put_u64(json, "copied_bytes", s->copied_bytes);
    spsh__json_put_real(json, "mb_per_s", copy_rate(&r->loaded) / 1e6);
    spsh__json_put_real(json, "audio_hours_per_s", loader_speed(&r->loaded) / 3600);
    spsh__json_put_u64(json, "device_bytes", s->device_bytes);
    spsh__json_put_bool(json, "pinned", s->pinned);
    spsh__json_end(json);
}

void spsh__bench_put(spsh_json *json, const spsh__bench_result *r)
{
    const verdict v = judge(r);
    const spsh_plan_info *info = spsh_plan_info_get(r->plan);
    spsh__json_put_u64(json, "utterances", info->utterance_count);
    spsh__json_put_real(json, "audio_seconds", (double)info->microseconds / 1e6);
    spsh__json_put_u64(json, "sample_utterances", r->sample.count);
    spsh__json_put_u64(json, "sample_left_out", r->sample.left_out);
    if (r->dropped)
        spsh__json_put_real(json, "resident", r->resident);
    if (r->sample.count > 0) {
        put_disk(json, "sequential", &r->sequential);
        put_disk(json, "random", &r->random);
    }
    if (r->sample.loaded > 0)
        put_decoded(json, &r->decoded);
    put_loaded(json, &r->loaded);
    if (r->device.cuda != NULL)
        put_device(json, r);
    spsh__json_put_string(json, "bound_by", bound_names[v.by]);
    spsh__json_put_real(json, "of_decode", v.decode_share);
    spsh__json_put_real(json, "of_random", v.disk_share);
    if (r->device.cuda != NULL)
        spsh__json_put_real(json, "of_copies_alone", v.link_share);
}
