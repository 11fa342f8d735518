/* stats.c: percentiles from a histogram of fixed size. The JSON is written by hand, because it is
 * one flat object. */
#include "stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

uint64_t spsh__thread_cpu_ns(pthread_t thread)
{
    clockid_t clock = 0;
    struct timespec used = {0, 0};
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * UINT64_C(1000000000) + (uint64_t)used.tv_nsec;
}

/* ---- gaps ---- */

/* Each value below 8 has its own bucket. Above, there are 8 buckets per power of two. */
static uint32_t bucket_of(uint64_t value)
{
    if (value < 8)
        return (uint32_t)value;
    const uint32_t power = 63 - (uint32_t)__builtin_clzll(value);
    return 8 * (power - 2) + (uint32_t)((value >> (power - 3)) & 7);
}

static uint64_t bucket_end(uint32_t bucket)
{
    if (bucket < 8)
        return bucket;
    const uint32_t power = bucket / 8 + 2;
    return ((uint64_t)(8 + bucket % 8) << (power - 3)) + (((uint64_t)1 << (power - 3)) - 1);
}

void spsh__gaps_add(spsh__gaps *gaps, uint64_t gap_ns)
{
    gaps->counts[bucket_of(gap_ns)]++;
    gaps->total++;
    if (gap_ns > gaps->max_ns)
        gaps->max_ns = gap_ns;
}

uint64_t spsh__gaps_percentile(const spsh__gaps *gaps, double share)
{
    const double wanted = share * (double)gaps->total;
    uint64_t sum = 0;
    for (uint32_t n = 0; n < SPSH__GAP_BUCKETS && gaps->total > 0; n++) {
        sum += gaps->counts[n];
        if (sum > 0 && (double)sum >= wanted)
            return bucket_end(n) < gaps->max_ns ? bucket_end(n) : gaps->max_ns;
    }
    return gaps->max_ns;
}

/* ---- JSON ---- */

typedef struct writer {
    char *text;
    size_t capacity_bytes, length;
} writer;

static void put(writer *out, const char *format, ...) SPSH_PRINTF(2, 3);

static void put(writer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t space_bytes =
        out->length < out->capacity_bytes ? out->capacity_bytes - out->length : 0;
    int length =
        vsnprintf(space_bytes > 0 ? out->text + out->length : NULL, space_bytes, format, args);
    va_end(args);
    if (length > 0)
        out->length += (size_t)length;
}

static void put_number(writer *out, const char *name, uint64_t value)
{
    put(out, ", \"%s\": %" PRIu64, name, value);
}

/* Write a point in every locale, unlike "%.6f". value must not be negative. */
static void put_fraction(writer *out, const char *name, double value)
{
    const uint64_t millionths = (uint64_t)(value * 1e6 + 0.5);
    put(out, ", \"%s\": %" PRIu64 ".%06" PRIu64, name, millionths / 1000000, millionths % 1000000);
}

/* Names are valid UTF-8: pack checks them. */
static void put_string(writer *out, spsh_bytes string)
{
    put(out, "\"");
    for (size_t n = 0; n < string.size_bytes; n++) {
        const uint8_t c = string.data[n];
        if (c == '"' || c == '\\')
            put(out, "\\%c", c);
        else if (c < 0x20)
            put(out, "\\u%04x", c);
        else
            put(out, "%c", c);
    }
    put(out, "\"");
}

static void put_domains(writer *out, const spsh_plan *plan, const uint64_t *units)
{
    const uint32_t count = spsh_plan_info_get(plan)->domain_count;
    put(out, ", \"domains\": [");
    for (uint32_t n = 0; n < count; n++) {
        spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
        if (spsh_plan_domain_get(plan, n, &domain, NULL) != SPSH_OK)
            continue;
        put(out, "%s{\"dataset\": %" PRIu32 ", \"name\": ", n == 0 ? "" : ", ", domain.dataset);
        put_string(out, domain.name);
        put_number(out, "units", units[n]);
        put_fraction(out, "share", domain.share);
        put(out, "}");
    }
    put(out, "]");
}

/* NOLINTBEGIN(readability-non-const-parameter): text is written, through the writer */
size_t spsh__stats_json(const spsh_loader_stats *stats, const spsh_plan *plan,
                        const uint64_t *units, char *text, size_t capacity_bytes)
{
    const spsh_loader_stats *s = stats;
    writer out = {text, capacity_bytes, 0};
    const double padding = s->padded_microseconds == 0
                               ? 0.0
                               : 1.0 - (double)s->microseconds / (double)s->padded_microseconds;
    put(&out, "{\"engine\": \"%s\", \"direct\": %s", s->engine, s->direct ? "true" : "false");
    put_number(&out, "slots", s->slots);
    put_number(&out, "decode_threads", s->decode_threads);
    put_number(&out, "memory_bytes", s->memory_bytes);
    put_number(&out, "device_bytes", s->device_bytes);
    put_number(&out, "copied_bytes", s->copied_bytes);
    put(&out, ", \"pinned\": %s", s->pinned ? "true" : "false");
    put_number(&out, "batches", s->batches);
    put_number(&out, "empty_batches", s->empty_batches);
    put_number(&out, "utterances", s->utterances);
    put_fraction(&out, "seconds", (double)s->microseconds / 1e6);
    put_fraction(&out, "padding", padding);
    put_number(&out, "reads", s->reads);
    put_number(&out, "read_bytes", s->read_bytes);
    put_number(&out, "needed_bytes", s->needed_bytes);
    put_number(&out, "coalesced_reads", s->coalesced_reads);
    put_number(&out, "range_reads", s->range_reads);
    put_number(&out, "slow_reads", s->slow_reads);
    put_number(&out, "retries", s->retries);
    put_number(&out, "bad_records", s->bad_records);
    put_number(&out, "bad_sounds", s->bad_sounds);
    put_number(&out, "undecodable_records", s->undecodable_records);
    put_number(&out, "decode_cpu_ns", s->decode_cpu_ns);
    put_number(&out, "feature_cpu_ns", s->feature_cpu_ns);
    put_number(&out, "io_cpu_ns", s->io_cpu_ns);
    put_number(&out, "wait_ns", s->wait_ns);
    put_number(&out, "stalls", s->stalls);
    put_number(&out, "gap_p50_ns", s->gap_p50_ns);
    put_number(&out, "gap_p99_ns", s->gap_p99_ns);
    put_number(&out, "gap_max_ns", s->gap_max_ns);
    put_domains(&out, plan, units);
    put(&out, "}");
    return out.length;
}
/* NOLINTEND(readability-non-const-parameter) */
