/* publish.c: from sealed shards to a published dataset (FORMAT.md 4).
 *
 *     seals -> cumulative counts, units        the shards of a unit are there without gaps
 *     shards' name tables -> dataset's names   in order of first appearance
 *     records -> aliases                       duplicates.c
 *     rows -> index-00000001.spsh              index_writer.c
 *     sums -> manifest.spsh                    last: readers look for it, so all else must exist
 *
 * Nothing here depends on the time, the machine, or an earlier attempt. So a repeated run writes
 * the same bytes, finds them published, and succeeds. After overlays were added, generation 1 has a
 * separate file name. The run then compares its bytes with that file.
 */
#include <inttypes.h>
#include <stdio.h>

#include "dataset_lock.h"
#include "io/io_internal.h"
#include "publish_internal.h"
#include "speechshard/limits.h"
#include "speechshard/options.h"

#define MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)
#define SORTER_BYTES_MIN     (UINT64_C(1) << 20)

enum {
    UNIT_MAX = 999999,
    NUMBER_MAX = 999,
    PATH_BYTES_MAX = 4000,
};

spsh_status spsh__publish_sorter(const spsh__publish *p, uint32_t eighths, spsh_sorter **ret_sorter,
                                 spsh_error *err)
{
    spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
    opt.allocator = &p->allocator;
    opt.io = p->io;
    opt.directory = p->opt.path;
    opt.memory_bytes = p->opt.memory_bytes / 8 * eighths;
    if (opt.memory_bytes < SORTER_BYTES_MIN)
        opt.memory_bytes = SORTER_BYTES_MIN;
    return spsh_sorter_open(&opt, ret_sorter, err);
}

/* ---- seals ---- */

static spsh_status fail_seal(const spsh__publish *p, uint64_t i, const char *what, spsh_error *err)
{
    const spsh_shard_seal *seal = &p->opt.seals[i];
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "%s: seal %" PRIu64 " (unit %" PRIu64 ", number %u): %s", p->opt.path, i,
                     seal->unit, seal->number, what);
}

static spsh_status check_seal(const spsh__publish *p, uint64_t i, spsh_error *err)
{
    const spsh_shard_seal *seal = &p->opt.seals[i];
    const spsh_shard_seal *before = i == 0 ? NULL : &p->opt.seals[i - 1];
    if (seal->unit > UNIT_MAX || seal->number > NUMBER_MAX)
        return fail_seal(p, i, "the unit or the number is out of range", err);
    if (seal->record_count > SPSH_SHARD_RECORDS_MAX ||
        seal->utterance_count > SPSH_SHARD_UTTERANCES_MAX)
        return fail_seal(p, i, "it states more records or utterances than a shard can hold", err);
    if (before != NULL && before->unit > seal->unit)
        return fail_seal(p, i, "the units do not ascend", err);
    uint32_t expected = before != NULL && before->unit == seal->unit ? before->number + 1 : 0;
    if (seal->number != expected)
        return fail_seal(p, i, "the shards of a unit are not numbered 0, 1, 2, ...", err);
    return SPSH_OK;
}

static spsh_status load_seals(spsh__publish *p, spsh_error *err)
{
    size_t count = (size_t)p->opt.seal_count;
    p->utterance_begin =
        (uint64_t *)spsh__alloc_array(&p->allocator, count + 1, sizeof(*p->utterance_begin));
    p->record_begin =
        (uint64_t *)spsh__alloc_array(&p->allocator, count + 1, sizeof(*p->record_begin));
    p->unit_begin = (uint32_t *)spsh__alloc_array(&p->allocator, count + 1, sizeof(*p->unit_begin));
    if (p->utterance_begin == NULL || p->record_begin == NULL || p->unit_begin == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %zu shards", p->opt.path, count);
    p->utterance_begin[0] = 0;
    p->record_begin[0] = 0;
    for (size_t i = 0; i < count; i++) {
        spsh_status rc = check_seal(p, i, err);
        if (rc != SPSH_OK)
            return rc;
        p->utterance_begin[i + 1] = p->utterance_begin[i] + p->opt.seals[i].utterance_count;
        p->record_begin[i + 1] = p->record_begin[i] + p->opt.seals[i].record_count;
        p->unit_begin[i] = p->opt.seals[i].number == 0 ? (uint32_t)i : p->unit_begin[i - 1];
    }
    return SPSH_OK;
}

/* ---- names ---- */

/* Load one shard: check that it continues its unit without a gap, and add its names to the
 * dataset's. */
static spsh_status load_shard(spsh__publish *p, uint64_t number, spsh_error *err)
{
    const spsh_shard *shard = NULL;
    uint64_t unit = p->unit_begin[number];
    spsh_status rc = spsh__shard_cache_acquire(p->cache, number, &shard, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t records_before = p->record_begin[number] - p->record_begin[unit];
    uint64_t utterances_before = p->utterance_begin[number] - p->utterance_begin[unit];
    if (spsh_shard_first_record(shard) != records_before ||
        spsh_shard_first_utterance(shard) != utterances_before) {
        rc = SPSH_FAIL_AT(err, SPSH_E_MISMATCH, 96,
                          "%s: shard %u of unit %" PRIu64 " begins at record %" PRIu64
                          " and utterance %" PRIu64 " of the unit, expected record %" PRIu64
                          " and utterance %" PRIu64,
                          p->opt.path, p->opt.seals[number].number, p->opt.seals[number].unit,
                          spsh_shard_first_record(shard), spsh_shard_first_utterance(shard),
                          records_before, utterances_before);
    }
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint64_t count = spsh_shard_name_count(shard, (spsh_name_kind)kind);
        for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
            spsh_bytes name = {NULL, 0};
            uint32_t unused = 0;
            rc = spsh_shard_name(shard, (spsh_name_kind)kind, (uint32_t)i, &name, err);
            if (rc == SPSH_OK)
                rc = spsh__names_add(p->names[kind], name, &unused, err);
        }
    }
    spsh__shard_cache_release(p->cache, number);
    return rc;
}

/* ---- manifest ---- */

typedef struct manifest_parts {
    uint8_t *memory;
    uint8_t *file_ids, *root_hashes, *sizes, *units, *numbers, *utterance_begin, *record_begin;
    uint8_t *group_domains, *group_splits, *group_rates, *group_utterances, *group_samples;
    uint8_t totals[8 * SPSH__TOTALS];
    uint8_t index_bytes[8], index_generation[8];
} manifest_parts;

static void encode_seals(const spsh__publish *p, const manifest_parts *m)
{
    size_t count = (size_t)p->opt.seal_count;
    for (size_t i = 0; i < count; i++) {
        const spsh_shard_seal *seal = &p->opt.seals[i];
        memcpy(m->file_ids + 16 * i, seal->file_id, 16);
        memcpy(m->root_hashes + 16 * i, seal->root_hash, 16);
        spsh__store_u64le(m->sizes + 8 * i, seal->file_bytes);
        spsh__store_u32le(m->units + 4 * i, (uint32_t)seal->unit);
        spsh__store_u32le(m->numbers + 4 * i, seal->number);
    }
    for (size_t i = 0; i <= count; i++) {
        spsh__store_u64le(m->utterance_begin + 8 * i, p->utterance_begin[i]);
        spsh__store_u64le(m->record_begin + 8 * i, p->record_begin[i]);
    }
}

/* Groups in ascending order: their keys are big-endian. */
static spsh_status encode_groups(const spsh__publish *p, const manifest_parts *m, spsh_error *err)
{
    spsh_sorter *sorter = NULL;
    const spsh__group_sum *sums = (const spsh__group_sum *)(const void *)p->group_sums.data;
    spsh_status rc = spsh__publish_sorter(p, 1, &sorter, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < spsh__names_count(p->groups); i++) {
        uint8_t value[16];
        spsh__store_u64le(value, sums[i].utterances);
        spsh__store_u64le(value + 8, sums[i].samples);
        rc = spsh_sorter_add(sorter, spsh__names_get(p->groups, i),
                             (spsh_bytes){value, sizeof(value)}, err);
    }
    for (size_t i = 0; rc == SPSH_OK; i++) {
        spsh_bytes key = {NULL, 0};
        spsh_bytes value = {NULL, 0};
        rc = spsh_sorter_next(sorter, &key, &value, err);
        if (rc != SPSH_OK)
            break;
        spsh__store_u32le(m->group_domains + 4 * i, __builtin_bswap32(spsh__load_u32le(key.data)));
        spsh__store_u32le(m->group_splits + 4 * i,
                          __builtin_bswap32(spsh__load_u32le(key.data + 4)));
        spsh__store_u32le(m->group_rates + 4 * i,
                          __builtin_bswap32(spsh__load_u32le(key.data + 8)));
        memcpy(m->group_utterances + 8 * i, value.data, 8);
        memcpy(m->group_samples + 8 * i, value.data + 8, 8);
    }
    spsh_sorter_free(sorter);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static void encode_totals(const spsh__publish *p, manifest_parts *m)
{
    const uint64_t totals[SPSH__TOTALS] = {
        p->utterance_begin[p->opt.seal_count],
        p->record_begin[p->opt.seal_count],
        p->duplicate_count,
        p->payload_bytes,
        p->unused_payload_bytes,
        spsh__names_count(p->names[SPSH_NAME_SPEAKER]),
        p->opt.reject_count,
        p->opt.source_row_count,
    };
    for (size_t i = 0; i < SPSH__TOTALS; i++)
        spsh__store_u64le(m->totals + 8 * i, totals[i]);
    spsh__store_u64le(m->index_bytes, p->index_footer.file_bytes);
    spsh__store_u64le(m->index_generation, 1);
}

static spsh_status encode_parts(const spsh__publish *p, manifest_parts *m, spsh_error *err)
{
    size_t shards = (size_t)p->opt.seal_count;
    size_t groups = spsh__names_count(p->groups);
    struct {
        uint8_t **part;
        size_t size_bytes;
    } places[] = {
        {&m->file_ids,         16 * shards     },
        {&m->root_hashes,      16 * shards     },
        {&m->sizes,            8 * shards      },
        {&m->units,            4 * shards      },
        {&m->numbers,          4 * shards      },
        {&m->utterance_begin,  8 * (shards + 1)},
        {&m->record_begin,     8 * shards + 8  },
        {&m->group_domains,    4 * groups      },
        {&m->group_splits,     4 * groups      },
        {&m->group_rates,      4 * groups      },
        {&m->group_utterances, 8 * groups      },
        {&m->group_samples,    8 * groups      },
    };
    size_t total_bytes = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        total_bytes += places[i].size_bytes;
    m->memory = (uint8_t *)spsh__alloc(&p->allocator, total_bytes);
    if (m->memory == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: manifest of %zu bytes", p->opt.path,
                         total_bytes);
    size_t at = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        *places[i].part = m->memory + at;
        at += places[i].size_bytes;
    }
    encode_seals(p, m);
    encode_totals(p, m);
    return encode_groups(p, m, err);
}

static spsh_status write_manifest(const spsh__publish *p, const char *name, manifest_parts *m,
                                  spsh_error *err)
{
    uint64_t s = p->opt.seal_count;
    uint64_t g = spsh__names_count(p->groups);
    const spsh__names *domains = p->names[SPSH_NAME_DOMAIN];
    const spsh__names *splits = p->names[SPSH_NAME_SPLIT];
    /* clang-format off */
    const spsh__column columns[] = {
        {SPSH__MANIFEST_SHARD_FILE_ID, 16, s, m->file_ids},
        {SPSH__MANIFEST_SHARD_ROOT_HASH, 16, s, m->root_hashes},
        {SPSH__MANIFEST_SHARD_BYTES, 8, s, m->sizes},
        {SPSH__MANIFEST_SHARD_UNIT, 4, s, m->units},
        {SPSH__MANIFEST_SHARD_NUMBER, 4, s, m->numbers},
        {SPSH__MANIFEST_UTTERANCE_BEGIN, 8, s + 1, m->utterance_begin},
        {SPSH__MANIFEST_RECORD_BEGIN, 8, s + 1, m->record_begin},
        {SPSH__MANIFEST_GROUP_DOMAIN, 4, g, m->group_domains},
        {SPSH__MANIFEST_GROUP_SPLIT, 4, g, m->group_splits},
        {SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, 4, g, m->group_rates},
        {SPSH__MANIFEST_GROUP_UTTERANCES, 8, g, m->group_utterances},
        {SPSH__MANIFEST_GROUP_SAMPLES, 8, g, m->group_samples},
        {SPSH__MANIFEST_TOTALS, 8, SPSH__TOTALS, m->totals},
        {SPSH__MANIFEST_INDEX_FILE_ID, 16, 1, p->index_footer.file_id},
        {SPSH__MANIFEST_INDEX_ROOT_HASH, 16, 1, p->index_footer.root_hash},
        {SPSH__MANIFEST_INDEX_BYTES, 8, 1, m->index_bytes},
        {SPSH__MANIFEST_INDEX_GENERATION, 8, 1, m->index_generation},
        {SPSH__MANIFEST_OVERLAY_FILE_ID, 16, 0, NULL},
        {SPSH__MANIFEST_OVERLAY_ROOT_HASH, 16, 0, NULL},
        {SPSH__MANIFEST_OVERLAY_BYTES, 8, 0, NULL},
        {SPSH__MANIFEST_OVERLAY_NAME_ENDS, 8, 0, NULL},
        {SPSH__MANIFEST_OVERLAY_NAMES, 1, 0, NULL},
        {SPSH__MANIFEST_OPTIONS, 1, p->opt.options_json.size_bytes, p->opt.options_json.data},
        {SPSH__MANIFEST_DOMAIN_ENDS, 8, spsh__names_count(domains), spsh__names_ends(domains)},
        {SPSH__MANIFEST_DOMAINS, 1, spsh__names_bytes(domains).size_bytes,
         spsh__names_bytes(domains).data},
        {SPSH__MANIFEST_SPLIT_ENDS, 8, spsh__names_count(splits), spsh__names_ends(splits)},
        {SPSH__MANIFEST_SPLITS, 1, spsh__names_bytes(splits).size_bytes,
         spsh__names_bytes(splits).data},
};
    /* clang-format on */
    spsh__columns_file file = {
        .directory = p->opt.path,
        .name = name,
        .header = {.kind = SPSH__KIND_MANIFEST, .ordinal = 1},
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .utterance_count = p->utterance_begin[s],
        .mode = SPSH_PUBLISH_NEW
    };
    memcpy(file.header.dataset_id, p->opt.dataset_id, 16);
    spsh__generation_file_id(p->opt.dataset_id, 1, "manifest", file.header.file_id);
    return spsh__columns_publish(p->io, &p->allocator, &file, NULL, err);
}

static spsh_status publish_manifest(const spsh__publish *p, const char *name, spsh_error *err)
{
    manifest_parts m = {.memory = NULL};
    spsh_status rc = encode_parts(p, &m, err);
    if (rc == SPSH_OK)
        rc = write_manifest(p, name, &m, err);
    spsh__free(&p->allocator, m.memory);
    return rc;
}

/* ---- all of it ---- */

/* Another dataset may not be replaced. Of this one, generation 1 may have been replaced already. */
static spsh_status choose_name(const spsh__publish *p, char name[40], spsh_error *err)
{
    spsh__manifest manifest;
    (void)snprintf(name, 40, "manifest.spsh");
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh__manifest_open(p->io, &p->allocator, p->opt.path, 0, &manifest, &why);
    if (rc == SPSH_E_NOT_FOUND)
        return SPSH_OK;
    if (rc != SPSH_OK) {
        if (err != NULL)
            *err = why;
        return rc;
    }
    if (memcmp(manifest.info.dataset_id, p->opt.dataset_id, 16) != 0)
        rc = SPSH_FAIL(err, SPSH_E_EXISTS, "%s: the folder already has another dataset",
                       p->opt.path);
    if (manifest.info.generation > 1)
        spsh__generation_name("manifest", 1, name);
    spsh__manifest_close(&manifest);
    return rc;
}

static spsh_status seal_of(const void *user, uint64_t shard, spsh_shard_seal *ret_seal,
                           spsh_error *err)
{
    const spsh__publish *p = (const spsh__publish *)user;
    (void)err;
    *ret_seal = p->opt.seals[shard];
    return SPSH_OK;
}

static spsh_status open_parts(spsh__publish *p, spsh_error *err)
{
    const spsh__shard_cache_options cache = {.allocator = &p->allocator,
                                             .io = p->io,
                                             .dataset_path = p->opt.path,
                                             .shard_count = p->opt.seal_count,
                                             .open_max = SPSH__PUBLISH_SHARDS_OPEN,
                                             .seal_fn = seal_of,
                                             .user = p};
    p->groups = spsh__names_new(&p->allocator);
    bool complete = p->groups != NULL;
    for (size_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        p->names[kind] = spsh__names_new(&p->allocator);
        complete = complete && p->names[kind] != NULL;
    }
    if (!complete)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: names", p->opt.path);
    return spsh__shard_cache_open(&cache, &p->cache, err);
}

spsh_status spsh__publish_progress(const spsh__publish *p, const char *phase, uint64_t done,
                                   uint64_t total, spsh_error *err)
{
    if (p->opt.progress_fn == NULL ||
        p->opt.progress_fn(p->opt.progress_user, phase, done, total) == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_CANCELED, "%s: publishing was canceled", p->opt.path);
}

static void log_step(const spsh__publish *p, const char *what)
{
    if (p->opt.log_fn != NULL)
        p->opt.log_fn(p->opt.log_user, SPSH_LOG_INFO, what);
}

static spsh_status publish(spsh__publish *p, spsh_error *err)
{
    char name[40];
    spsh_status rc = choose_name(p, name, err);
    if (rc == SPSH_OK)
        rc = open_parts(p, err);
    if (rc == SPSH_OK)
        rc = load_seals(p, err);
    log_step(p, "publish: reading the names of the shards");
    for (uint64_t i = 0; rc == SPSH_OK && i < p->opt.seal_count; i++) {
        rc = spsh__publish_progress(p, "names", i, p->opt.seal_count, err);
        if (rc == SPSH_OK)
            rc = load_shard(p, i, err);
    }
    if (rc == SPSH_OK) {
        log_step(p, "publish: comparing records");
        rc = spsh__duplicates_find(p, err);
    }
    if (rc == SPSH_OK) {
        log_step(p, "publish: writing the index");
        rc = spsh__index_publish(p, err);
    }
    if (rc == SPSH_OK) {
        log_step(p, "publish: writing the manifest");
        rc = publish_manifest(p, name, err);
    }
    return rc;
}

static void give_info(const spsh__publish *p, spsh_dataset_info *ret_info)
{
    spsh_dataset_info info = {
        .generation = 1,
        .shard_count = p->opt.seal_count,
        .utterance_count = p->utterance_begin[p->opt.seal_count],
        .record_count = p->record_begin[p->opt.seal_count],
        .duplicate_count = p->duplicate_count,
        .payload_bytes = p->payload_bytes,
        .unused_payload_bytes = p->unused_payload_bytes,
        .speaker_count = spsh__names_count(p->names[SPSH_NAME_SPEAKER]),
        .reject_count = p->opt.reject_count,
        .source_row_count = p->opt.source_row_count,
    };
    memcpy(info.dataset_id, p->opt.dataset_id, 16);
    for (uint64_t i = 0; i < p->opt.seal_count; i++)
        info.shard_bytes += p->opt.seals[i].file_bytes;
    memcpy(info.index_hash, p->index_footer.root_hash, 16);
    spsh_result_give(ret_info, &info, sizeof(info));
}

static void close_parts(spsh__publish *p)
{
    spsh_sorter_free(p->aliases);
    spsh__shard_cache_close(p->cache);
    for (size_t kind = 0; kind < SPSH_NAME_KINDS; kind++)
        spsh__names_free(p->names[kind]);
    spsh__names_free(p->groups);
    spsh__buffer_free(&p->group_sums, &p->allocator);
    spsh__free(&p->allocator, p->utterance_begin);
    spsh__free(&p->allocator, p->record_begin);
    spsh__free(&p->allocator, p->unit_begin);
}

spsh_status spsh_dataset_publish(const spsh_publish_options *options, spsh_dataset_info *ret_info,
                                 spsh_error *err)
{
    spsh__publish p;
    spsh_dataset_lock *lock = NULL;
    memset(&p, 0, sizeof(p));
    spsh_status rc = spsh_options_take(options, &p.opt, sizeof(p.opt), err);
    if (rc == SPSH_OK && ret_info != NULL)
        rc = spsh_result_check(ret_info, sizeof(*ret_info), err);
    if (rc != SPSH_OK)
        return rc;
    if (p.opt.path == NULL || strlen(p.opt.path) > PATH_BYTES_MAX ||
        (p.opt.seals == NULL && p.opt.seal_count > 0) || p.opt.seal_count > SPSH_SHARDS_MAX ||
        p.opt.dedupe > SPSH_DEDUPE_PCM)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "publish: path, seals, or dedupe is NULL");
    p.allocator = p.opt.allocator == NULL ? *spsh_allocator_default() : *p.opt.allocator;
    p.io = p.opt.io == NULL ? spsh_io_default() : p.opt.io;
    if (p.opt.memory_bytes == 0)
        p.opt.memory_bytes = MEMORY_BYTES_DEFAULT;
    if (!p.opt.is_locked)
        rc = spsh__dataset_lock_open(p.opt.path, SPSH__LOCK_SHARED, p.io, &p.allocator, &lock, err);
    if (rc == SPSH_OK)
        rc = publish(&p, err);
    if (rc == SPSH_OK && ret_info != NULL)
        give_info(&p, ret_info);
    close_parts(&p);
    spsh_dataset_lock_close(lock);
    return rc;
}
