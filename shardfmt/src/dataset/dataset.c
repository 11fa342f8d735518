/* dataset.c: open a dataset, and answer questions that need only the manifest and the index.
 *
 * Opening maps two files and checks headers, footers, page tables, and counts. It does nothing per
 * utterance, and per shard it only adds up file sizes. All other answers are lookups in a column,
 * whose pages are checked when they are first touched. Properties that a checksum cannot guarantee
 * are checked at each use: a row's numbers are within the dataset, and cumulative counts ascend
 * around the position that was found.
 */
#include "dataset_internal.h"

#include <inttypes.h>

#include "base/checksum.h"
#include "io/io_internal.h"
#include "speechshard/limits.h"
#include "speechshard/options.h"

enum {
    SHARDS_OPEN_DEFAULT = 512,
    PATH_BYTES_MAX = 4000,
};

/* ---- opening ---- */

spsh_status spsh__dataset_check_index(const spsh__manifest *manifest, const spsh__container *index,
                                      spsh_error *err)
{
    const spsh__container *c = index;
    const spsh_dataset_info *info = &manifest->info;
    const spsh__header *header = spsh__container_header(c);
    uint8_t file_id[16];
    spsh__generation_file_id(info->dataset_id, manifest->index_generation, "index", file_id);
    if (header->ordinal != manifest->index_generation || memcmp(header->file_id, file_id, 16) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 80,
                            "%s: header: generation %" PRIu64
                            " and file_id, expected those of %" PRIu64,
                            spsh__container_path(c), header->ordinal, manifest->index_generation);
    if (spsh__container_footer(c)->utterance_count != info->utterance_count)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: the index has %" PRIu64
                         " utterances, but the manifest states %" PRIu64,
                         spsh__container_path(c), spsh__container_footer(c)->utterance_count,
                         info->utterance_count);
    spsh_status rc = SPSH_OK;
    for (uint32_t id = SPSH__INDEX_COLUMN_FIRST; rc == SPSH_OK && id <= SPSH__INDEX_COLUMN_LAST;
         id++)
        rc = spsh__container_require(c, id, spsh__index_element_bytes(id), info->utterance_count,
                                     err);
    const spsh__container *m = manifest->container;
    const uint64_t name_counts[SPSH_NAME_KINDS] = {
        spsh__container_count(m, SPSH__MANIFEST_DOMAIN_ENDS),
        spsh__container_count(m, SPSH__MANIFEST_SPLIT_ENDS), info->speaker_count, UINT64_MAX,
        UINT64_MAX};
    for (uint32_t kind = 0; rc == SPSH_OK && kind < SPSH_NAME_KINDS; kind++)
        rc = spsh__container_require_strings(c, SPSH__INDEX_NAME_ENDS + 2 * kind, name_counts[kind],
                                             err);
    return rc;
}

static spsh_status open_index(spsh_dataset *dataset, spsh_error *err)
{
    char name[40];
    spsh__generation_name("index", dataset->manifest.index_generation, name);
    char *path = spsh__path_join(&dataset->allocator, dataset->path, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: path", dataset->path);
    spsh_status rc = spsh__container_open(dataset->io, path, SPSH__KIND_INDEX, &dataset->allocator,
                                          &dataset->index, err);
    spsh__free(&dataset->allocator, path);
    if (rc == SPSH_OK)
        rc = spsh__manifest_check_file(&dataset->manifest, dataset->index, &dataset->manifest.index,
                                       err);
    if (rc == SPSH_OK)
        rc = spsh__dataset_check_index(&dataset->manifest, dataset->index, err);
    return rc;
}

static spsh_status open_overlays(spsh_dataset *dataset, uint32_t flags, spsh_error *err)
{
    uint64_t count = dataset->manifest.info.overlay_count;
    dataset->manifest.info.overlay_count = 0;
    if ((flags & SPSH_DATASET_IGNORE_OVERLAYS) != 0)
        return SPSH_OK;
    dataset->overlays = (spsh__overlay *)spsh__alloc_array(&dataset->allocator, (size_t)count,
                                                           sizeof(*dataset->overlays));
    if (dataset->overlays == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %" PRIu64 " overlays", dataset->path, count);
    for (uint64_t i = 0; i < count; i++) {
        spsh_status rc = spsh__overlay_open(dataset->io, &dataset->allocator, dataset->path,
                                            &dataset->manifest, i, &dataset->overlays[i], err);
        if (rc != SPSH_OK)
            return rc;
        dataset->manifest.info.overlay_count = i + 1;
    }
    return SPSH_OK;
}

static spsh_status seal_of(const void *user, uint64_t shard, spsh_shard_seal *ret_seal,
                           spsh_error *err)
{
    const spsh_dataset *dataset = (const spsh_dataset *)user;
    return spsh__manifest_seal(&dataset->manifest, shard, ret_seal, err);
}

static spsh_status open_parts(spsh_dataset *dataset, const spsh_dataset_options *opt,
                              spsh_error *err)
{
    const spsh__shard_cache_options cache = {
        .allocator = &dataset->allocator,
        .io = dataset->io,
        .dataset_path = dataset->path,
        .open_max = opt->shards_open_max == 0 ? SHARDS_OPEN_DEFAULT : opt->shards_open_max,
        .seal_fn = seal_of,
        .user = dataset};
    spsh__manifest manifest;
    spsh_status rc = spsh__manifest_open(dataset->io, &dataset->allocator, dataset->path,
                                         opt->generation, &manifest, err);
    if (rc != SPSH_OK)
        return rc;
    dataset->manifest = manifest;
    rc = open_index(dataset, err);
    if (rc == SPSH_OK)
        rc = open_overlays(dataset, opt->flags, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__shard_cache_options options = cache;
    options.shard_count = manifest.info.shard_count;
    return spsh__shard_cache_open(&options, &dataset->cache, err);
}

spsh_status spsh_dataset_open(const char *path, const spsh_dataset_options *options,
                              spsh_dataset **ret_dataset, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    spsh_status rc = spsh_options_take(options, &opt, sizeof(opt), err);
    if (rc != SPSH_OK)
        return rc;
    if (path == NULL || path[0] == '\0' || strlen(path) > PATH_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "dataset: no usable path");
    if ((opt.flags & ~SPSH_DATASET_IGNORE_OVERLAYS) != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: unknown flags 0x%x", path, opt.flags);
    const spsh_allocator allocator =
        opt.allocator == NULL ? *spsh_allocator_default() : *opt.allocator;
    dataset = (spsh_dataset *)spsh__new(&allocator, 1, sizeof(*dataset));
    if (dataset == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: dataset", path);
    dataset->allocator = allocator;
    dataset->io = opt.io == NULL ? spsh_io_default() : opt.io;
    dataset->path = spsh__string_copy(&allocator, path);
    if (dataset->path == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: dataset", path);
        goto out;
    }
    rc = open_parts(dataset, &opt, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_dataset = dataset;
    dataset = NULL;
out:
    spsh_dataset_close(dataset);
    return rc;
}

void spsh_dataset_close(spsh_dataset *dataset)
{
    if (dataset == NULL)
        return;
    const spsh_allocator allocator = dataset->allocator;
    spsh__shard_cache_close(dataset->cache);
    for (uint64_t i = 0; dataset->overlays != NULL && i < dataset->manifest.info.overlay_count; i++)
        spsh__overlay_close(&dataset->overlays[i]);
    spsh__free(&allocator, dataset->overlays);
    spsh__container_close(dataset->index);
    spsh__manifest_close(&dataset->manifest);
    spsh__free(&allocator, dataset->path);
    spsh__free(&allocator, dataset);
}

/* ---- values of the manifest ---- */

const spsh_dataset_info *spsh_dataset_info_get(const spsh_dataset *dataset)
{
    return &dataset->manifest.info;
}

const char *spsh_dataset_path(const spsh_dataset *dataset)
{
    return dataset->path;
}

spsh_status spsh_dataset_shard(const spsh_dataset *dataset, uint64_t shard,
                               spsh_shard_seal *ret_seal, spsh_error *err)
{
    return spsh__manifest_seal(&dataset->manifest, shard, ret_seal, err);
}

uint64_t spsh_dataset_group_count(const spsh_dataset *dataset)
{
    return dataset->manifest.group_count;
}

static spsh_status name_or_empty(const spsh__container *c, uint32_t ends_id, uint32_t number,
                                 spsh_bytes *ret_name, spsh_error *err)
{
    if (number == SPSH_NONE_U32) {
        *ret_name = (spsh_bytes){NULL, 0};
        return SPSH_OK;
    }
    return spsh__container_string(c, ends_id, number, ret_name, err);
}

spsh_status spsh_dataset_group_get(const spsh_dataset *dataset, uint64_t group,
                                   spsh_dataset_group *ret_group, spsh_error *err)
{
    const spsh__container *c = dataset->manifest.container;
    spsh_dataset_group found;
    uint32_t domain = 0;
    uint32_t split = 0;
    memset(&found, 0, sizeof(found));
    if (group >= dataset->manifest.group_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: group %" PRIu64 " does not exist: there are %" PRIu64 " groups",
                         dataset->path, group, dataset->manifest.group_count);
    spsh_status rc = spsh__container_u32(c, SPSH__MANIFEST_GROUP_DOMAIN, group, &domain, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u32(c, SPSH__MANIFEST_GROUP_SPLIT, group, &split, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u32(c, SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, group,
                                 &found.sample_rate_hz, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(c, SPSH__MANIFEST_GROUP_UTTERANCES, group, &found.utterance_count,
                                 err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(c, SPSH__MANIFEST_GROUP_SAMPLES, group, &found.samples, err);
    if (rc == SPSH_OK)
        rc = name_or_empty(c, SPSH__MANIFEST_DOMAIN_ENDS, domain, &found.domain, err);
    if (rc == SPSH_OK)
        rc = name_or_empty(c, SPSH__MANIFEST_SPLIT_ENDS, split, &found.split, err);
    if (rc == SPSH_OK)
        *ret_group = found;
    return rc;
}

uint64_t spsh_dataset_name_count(const spsh_dataset *dataset, spsh_name_kind kind)
{
    return spsh__container_count(dataset->index, SPSH__INDEX_NAME_ENDS + 2 * (uint32_t)kind);
}

spsh_status spsh_dataset_name(const spsh_dataset *dataset, spsh_name_kind kind, uint32_t number,
                              spsh_bytes *ret_name, spsh_error *err)
{
    if ((uint32_t)kind >= SPSH_NAME_KINDS ||
        (number != SPSH_NONE_U32 && number >= spsh_dataset_name_count(dataset, kind)))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: name %u of kind %d does not exist",
                         dataset->path, number, (int)kind);
    return name_or_empty(dataset->index, SPSH__INDEX_NAME_ENDS + 2 * (uint32_t)kind, number,
                         ret_name, err);
}

spsh_status spsh_dataset_pack_options(const spsh_dataset *dataset, spsh_bytes *ret_json,
                                      spsh_error *err)
{
    const spsh__container *c = dataset->manifest.container;
    const uint8_t *data = NULL;
    uint64_t count = spsh__container_count(c, SPSH__MANIFEST_OPTIONS);
    spsh_status rc = spsh__container_column(c, SPSH__MANIFEST_OPTIONS, 0, count, &data, err);
    if (rc == SPSH_OK)
        *ret_json = (spsh_bytes){data, (size_t)count};
    return rc;
}

/* ---- rows ---- */

/* Columns of the requested rows, by column number. */
typedef struct row_columns {
    const uint8_t *of[SPSH__INDEX_COLUMN_LAST + 1];
    const uint8_t *utterance_begin, *record_begin; /* cumulative counts of all shards */
    uint64_t name_counts[SPSH_NAME_KINDS];
} row_columns;

static spsh_status map_columns(const spsh_dataset *dataset, uint64_t first, uint64_t count,
                               row_columns *ret_columns, spsh_error *err)
{
    const spsh__container *m = dataset->manifest.container;
    uint64_t shards = dataset->manifest.info.shard_count;
    for (uint32_t id = SPSH__INDEX_COLUMN_FIRST; id <= SPSH__INDEX_COLUMN_LAST; id++)
        if (id != SPSH__INDEX_BY_ID)
            spsh__container_prefetch(dataset->index, id, first, count);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++)
        ret_columns->name_counts[kind] = spsh_dataset_name_count(dataset, (spsh_name_kind)kind);
    spsh_status rc = spsh__container_column(m, SPSH__MANIFEST_UTTERANCE_BEGIN, 0, shards + 1,
                                            &ret_columns->utterance_begin, err);
    if (rc == SPSH_OK)
        rc = spsh__container_column(m, SPSH__MANIFEST_RECORD_BEGIN, 0, shards + 1,
                                    &ret_columns->record_begin, err);
    for (uint32_t id = SPSH__INDEX_COLUMN_FIRST; rc == SPSH_OK && id <= SPSH__INDEX_COLUMN_LAST;
         id++)
        if (id != SPSH__INDEX_BY_ID)
            rc =
                spsh__container_column(dataset->index, id, first, count, &ret_columns->of[id], err);
    return rc;
}

static uint64_t begin_of(const uint8_t *begins, uint64_t shard)
{
    return spsh__load_u64le(begins + 8 * shard);
}

/* The last shard that begins at or before position. */
static uint64_t find_shard(const uint8_t *utterance_begin, uint64_t shard_count, uint64_t position)
{
    uint64_t low = 0;
    uint64_t high = shard_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (begin_of(utterance_begin, middle) <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void load_row(const row_columns *columns, uint64_t i, spsh_row *row)
{
    const uint8_t *const *of = columns->of;
    row->id_hash = spsh__load_u64le(of[SPSH__INDEX_ID_HASH] + 8 * i);
    row->payload_shard = spsh__load_u32le(of[SPSH__INDEX_PAYLOAD_SHARD] + 4 * i);
    row->payload_record = spsh__load_u32le(of[SPSH__INDEX_PAYLOAD_RECORD] + 4 * i);
    row->record_offset_bytes = spsh__load_u64le(of[SPSH__INDEX_RECORD_OFFSET] + 8 * i);
    row->record_bytes = spsh__load_u32le(of[SPSH__INDEX_RECORD_BYTES] + 4 * i);
    row->start_sample = spsh__load_u64le(of[SPSH__INDEX_START_SAMPLE] + 8 * i);
    row->samples = spsh__load_u64le(of[SPSH__INDEX_SAMPLES] + 8 * i);
    row->sample_rate_hz = spsh__load_u32le(of[SPSH__INDEX_SAMPLE_RATE_HZ] + 4 * i);
    row->channels = spsh__load_u16le(of[SPSH__INDEX_CHANNELS] + 2 * i);
    row->codec = (spsh_codec)spsh__load_u16le(of[SPSH__INDEX_CODEC] + 2 * i);
    row->flags = spsh__load_u32le(of[SPSH__INDEX_FLAGS] + 4 * i);
    row->duplicate_of = spsh__load_u64le(of[SPSH__INDEX_DUPLICATE_OF] + 8 * i);
    row->domain = spsh__load_u32le(of[SPSH__INDEX_DOMAIN] + 4 * i);
    row->split = spsh__load_u32le(of[SPSH__INDEX_DOMAIN + SPSH_NAME_SPLIT] + 4 * i);
    row->speaker = spsh__load_u32le(of[SPSH__INDEX_DOMAIN + SPSH_NAME_SPEAKER] + 4 * i);
    row->language = spsh__load_u32le(of[SPSH__INDEX_DOMAIN + SPSH_NAME_LANGUAGE] + 4 * i);
    row->document = spsh__load_u32le(of[SPSH__INDEX_DOMAIN + SPSH_NAME_DOCUMENT] + 4 * i);
    row->text_bytes = spsh__load_u32le(of[SPSH__INDEX_TEXT_BYTES] + 4 * i);
}

/* Return the defect of a row, or NULL. Checksums prove that the bytes are as written, not that the
 * writer was right. */
static const char *find_bad_value(const row_columns *columns, uint64_t shard_count,
                                  uint64_t position, const spsh_row *row)
{
    bool duplicate = row->duplicate_of != SPSH_NONE_U64;
    uint64_t end = 0;
    if (row->payload_shard >= shard_count)
        return "payload_shard";
    uint64_t record_begin = begin_of(columns->record_begin, row->payload_shard);
    uint64_t record_end = begin_of(columns->record_begin, (uint64_t)row->payload_shard + 1);
    if (record_end < record_begin || row->payload_record >= record_end - record_begin)
        return "payload_record";
    if (row->record_offset_bytes > SPSH_FILE_BYTES_MAX || row->record_offset_bytes % 64 != 0)
        return "record_offset";
    if (row->record_bytes == 0 || row->record_bytes > SPSH_RECORD_BYTES_MAX ||
        row->record_bytes % 64 != 0)
        return "record_bytes";
    if (!spsh__add_u64(row->start_sample, row->samples, &end))
        return "start_sample";
    if (row->sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN ||
        row->sample_rate_hz > SPSH_SAMPLE_RATE_HZ_MAX)
        return "sample_rate_hz";
    if (row->channels == 0 || row->channels > SPSH_CHANNELS_MAX)
        return "channels";
    if ((row->flags & ~(SPSH_UTTERANCE_HAS_TEXT | SPSH_UTTERANCE_DUPLICATE)) != 0 ||
        ((row->flags & SPSH_UTTERANCE_DUPLICATE) != 0) != duplicate)
        return "flags";
    if (duplicate && row->duplicate_of >= position)
        return "duplicate_of";
    const uint32_t names[SPSH_NAME_KINDS] = {row->domain, row->split, row->speaker, row->language,
                                             row->document};
    for (size_t kind = 0; kind < SPSH_NAME_KINDS; kind++)
        if (names[kind] != SPSH_NONE_U32 && names[kind] >= columns->name_counts[kind])
            return "the number of a name";
    return NULL;
}

spsh_status spsh_dataset_rows(const spsh_dataset *dataset, uint64_t first, uint64_t count,
                              spsh_row *ret_rows, spsh_error *err)
{
    const spsh_dataset_info *info = &dataset->manifest.info;
    row_columns columns;
    if (first > info->utterance_count || count > info->utterance_count - first)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: utterances from %" PRIu64 ", %" PRIu64
                         " of them, are out of range: there are %" PRIu64,
                         dataset->path, first, count, info->utterance_count);
    if (count == 0)
        return SPSH_OK;
    spsh_status rc = map_columns(dataset, first, count, &columns, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t shard = find_shard(columns.utterance_begin, info->shard_count, first);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t position = first + i;
        while (shard + 1 < info->shard_count &&
               begin_of(columns.utterance_begin, shard + 1) <= position)
            shard++;
        uint64_t begin = begin_of(columns.utterance_begin, shard);
        if (position < begin || position >= begin_of(columns.utterance_begin, shard + 1))
            return SPSH_FAIL(err, SPSH_E_CORRUPT,
                             "%s: utterance_begin does not ascend at shard %" PRIu64,
                             spsh__container_path(dataset->manifest.container), shard);
        spsh_row row;
        load_row(&columns, i, &row);
        row.shard = (uint32_t)shard;
        row.shard_row = position - begin;
        const char *bad = find_bad_value(&columns, info->shard_count, position, &row);
        if (bad != NULL)
            return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: utterance %" PRIu64 ": %s is out of range",
                             spsh__container_path(dataset->index), position, bad);
        ret_rows[i] = row;
    }
    return SPSH_OK;
}

spsh_status spsh__dataset_row(const spsh_dataset *dataset, uint64_t position, spsh_row *ret_row,
                              spsh_error *err)
{
    return spsh_dataset_rows(dataset, position, 1, ret_row, err);
}

/* One comparison an argument, then the page's bit: this is called once for each of 10^8 rows. */
spsh_status spsh_dataset_column(const spsh_dataset *dataset, spsh_column column, uint64_t first,
                                uint64_t count, spsh_bytes *ret_elements, spsh_error *err)
{
    const uint64_t have = dataset->manifest.info.utterance_count;
    const uint32_t id = (uint32_t)column;
    if (id - SPSH__INDEX_COLUMN_FIRST > SPSH__INDEX_COLUMN_LAST - SPSH__INDEX_COLUMN_FIRST)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: the index has no column %u", dataset->path,
                         id);
    if (first > have || count > have - first)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: column %u: utterances from %" PRIu64 ", %" PRIu64
                         " of them, are out of range: there are %" PRIu64,
                         dataset->path, id, first, count, have);
    return spsh__container_elements(dataset->index, id, first, count, ret_elements, err);
}

/* ---- overlays ---- */

spsh_status spsh_dataset_skipped(const spsh_dataset *dataset, spsh_bytes id, bool *ret_skipped,
                                 spsh_bytes *ret_reason, spsh_error *err)
{
    uint8_t key[16];
    bool found = false;
    spsh_bytes reason = {NULL, 0};
    spsh__overlay_key(id, key);
    for (uint64_t i = dataset->manifest.info.overlay_count; i > 0 && !found; i--) {
        const spsh__overlay *overlay = &dataset->overlays[i - 1];
        if (overlay->type != SPSH_OVERLAY_SKIP)
            continue;
        spsh_status rc = spsh__overlay_find(overlay, key, &found, &reason, err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_skipped = found;
    if (found && ret_reason != NULL)
        *ret_reason = reason;
    return SPSH_OK;
}

spsh_status spsh_dataset_overlay(const spsh_dataset *dataset, uint64_t overlay,
                                 spsh_overlay_info *ret_info, spsh_error *err)
{
    if (overlay >= dataset->manifest.info.overlay_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: overlay %" PRIu64 " does not exist: there are %" PRIu64 " overlays",
                         dataset->path, overlay, dataset->manifest.info.overlay_count);
    const spsh__overlay *found = &dataset->overlays[overlay];
    const spsh_overlay_info info = {.name = found->name,
                                    .type = found->type,
                                    .entry_count = found->entry_count,
                                    .given_name = spsh__overlay_given_name(found->name)};
    const spsh_status rc = spsh_result_check(ret_info, sizeof(info), err);
    spsh_result_give(ret_info, &info, sizeof(info));
    return rc;
}
