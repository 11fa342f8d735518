/* pack_options.c: see pack_options.h. */
#include "pack_options.h"

#include <string.h>

#include "ingest/layouts/layouts.h"
#include "ingest/metadata/table.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

#define THREADS_DEFAULT_MAX 64U
#define REJECTS_DEFAULT_PPM UINT64_C(10000)

spsh_status spsh__pack_canceled(spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_CANCELED, "canceled; repeat the same pack to resume it");
}

spsh_status spsh__pack_progress(const spsh_pack_options *options, const char *phase, uint64_t done,
                                uint64_t total, spsh_error *err)
{
    if (options->progress_fn == NULL ||
        options->progress_fn(options->user, phase, done, total) == 0)
        return SPSH_OK;
    return spsh__pack_canceled(err);
}

bool spsh_pack_column_is_valid(const char *column_rule)
{
    spsh__column_role role;
    const char *name;
    return spsh__column_rule_parse(column_rule, &role, &name);
}

/* Corpora, output, and the texts. */
static spsh_status check_texts(const spsh_pack_options *o, bool for_merge, spsh_error *err)
{
    if (o->output == NULL || o->output[0] == '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "output is required");
    if (!for_merge && (o->corpora == NULL || o->corpus_count == 0))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "corpora are required");
    for (size_t i = 0; o->corpus_count > 1 && i < o->corpus_count; i++)
        if (strcmp(o->corpora[i], "-") == 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "\"-\" must be the only corpus");
    if (o->layout_name != NULL && spsh__layout_find(o->layout_name) == NULL)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "layout_name %.60s: unknown layout; 'speechshard pack --layout list' prints the names",
            o->layout_name);
    for (size_t i = 0; i < o->column_rule_count; i++)
        if (!spsh_pack_column_is_valid(o->column_rules[i]))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "column_rules: '%.60s' is not FIELD=NAME, such as text=class",
                             o->column_rules[i]);
    return SPSH_OK;
}

static spsh_status check_range(const char *name, uint64_t value, uint64_t min, uint64_t max,
                               spsh_error *err)
{
    if (value >= min && value <= max)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is %llu, expected %llu to %llu", name,
                     (unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
}

static spsh_status check_numbers(const spsh_pack_options *o, spsh_error *err)
{
    spsh_status rc = check_range("shard_bytes", o->shard_bytes, SPSH_PACK_SHARD_BYTES_MIN,
                                 SPSH_PACK_SHARD_BYTES_MAX, err);
    if (rc == SPSH_OK)
        rc = check_range("memory_bytes", o->memory_bytes, SPSH_PACK_MEMORY_BYTES_MIN, UINT64_MAX,
                         err);
    if (rc == SPSH_OK)
        rc = check_range("threads", o->threads, 1, SPSH_PACK_THREADS_MAX, err);
    if (rc == SPSH_OK && o->rate_hz != 0)
        rc = check_range("rate_hz", o->rate_hz, SPSH_PACK_RATE_HZ_MIN, SPSH_PACK_RATE_HZ_MAX, err);
    if (rc == SPSH_OK)
        rc = check_range("rejects_max_ppm", o->rejects_max_ppm, 0, SPSH_PACK_REJECTS_ALL, err);
    if (rc == SPSH_OK)
        rc = check_range("codec", o->codec, SPSH_PACK_KEEP, SPSH_PACK_PCM, err);
    if (rc == SPSH_OK)
        rc = check_range("dedupe", o->dedupe, SPSH_PACK_DEDUPE_NONE, SPSH_PACK_DEDUPE_PCM, err);
    if (rc == SPSH_OK)
        rc = check_range("lease_s", o->lease_s, 1, SPSH_PACK_LEASE_S_MAX, err);
    if (rc != SPSH_OK)
        return rc;
    if (o->part_count != 0 && o->part >= o->part_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "part is %u, expected less than part_count, %u",
                         (unsigned)o->part, (unsigned)o->part_count);
    if (o->is_part && o->is_plan_only)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "is_part and is_plan_only exclude each other");
    if (o->rate_hz != 0 && o->codec == SPSH_PACK_KEEP)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "rate_hz changes the audio, SPSH_PACK_KEEP keeps the files");
    if (o->trusts_headers && o->codec != SPSH_PACK_KEEP)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "trusts_headers does not decode, so it needs SPSH_PACK_KEEP");
    return SPSH_OK;
}

spsh_status spsh__pack_options_take(const spsh_pack_options *options, bool for_merge,
                                    spsh_pack_options *ret_taken, spsh_error *err)
{
    spsh_pack_options o = SPSH_PACK_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &o, sizeof(o), err);
    if (rc != SPSH_OK)
        return rc;
    if (o.io == NULL)
        o.io = spsh_io_default();
    if (o.rejects_max_ppm == SPSH_PACK_REJECTS_DEFAULT)
        o.rejects_max_ppm = REJECTS_DEFAULT_PPM;
    else if (o.rejects_max_ppm == SPSH_PACK_REJECTS_NONE)
        o.rejects_max_ppm = 0;
    if (o.shard_bytes == 0)
        o.shard_bytes = SPSH_PACK_SHARD_BYTES_DEFAULT;
    if (o.memory_bytes == 0)
        o.memory_bytes = SPSH_PACK_MEMORY_BYTES_DEFAULT;
    if (o.lease_s == 0)
        o.lease_s = SPSH_PACK_LEASE_S_DEFAULT;
    if (o.threads == 0)
        o.threads = spsh_core_count(THREADS_DEFAULT_MAX);
    if (o.codec == SPSH_PACK_CODEC_DEFAULT)
        o.codec = o.rate_hz != 0 ? SPSH_PACK_PCM : SPSH_PACK_KEEP;
    if (o.dedupe == SPSH_PACK_DEDUPE_DEFAULT) /* KEEP promises the bytes of every source */
        o.dedupe = o.codec == SPSH_PACK_KEEP ? SPSH_PACK_DEDUPE_BYTES : SPSH_PACK_DEDUPE_PCM;
    rc = check_texts(&o, for_merge, err);
    if (rc == SPSH_OK)
        rc = check_numbers(&o, err);
    if (rc == SPSH_OK)
        *ret_taken = o;
    return rc;
}
