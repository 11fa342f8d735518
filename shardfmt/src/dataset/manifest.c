/* manifest.c: open a manifest, and publish the next one (FORMAT.md 4.1).
 *
 * A manifest is small (60 bytes per shard) and is opened like every container. Counts of sections
 * are compared with each other, and the totals with the ends of the cumulative columns. Opening
 * does not visit single shards, except to sum the file sizes.
 *
 * Publishing generation g + 1 first gives the file of generation g its own name, durably, and then
 * renames the new file over manifest.spsh. So a complete newest manifest exists at every moment,
 * and a replaced generation is always kept.
 */
#include "manifest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "io/io_internal.h"
#include "no_dataset.h"
#include "speechshard/limits.h"

#define MANIFEST_NAME "manifest.spsh"

enum {
    COPY_BYTES = 1 << 16,
    OVERLAY_NAME_BYTES_MAX = 128,
    UNIT_MAX = 999999,
    NUMBER_MAX = 999,
};

typedef struct section_rule {
    uint32_t id;
    uint32_t element_bytes;
} section_rule;

/* All sections, ascending. A manifest must have every one of them. */
static const section_rule manifest_sections[] = {
    {SPSH__MANIFEST_SHARD_FILE_ID,        16},
    {SPSH__MANIFEST_SHARD_ROOT_HASH,      16},
    {SPSH__MANIFEST_SHARD_BYTES,          8 },
    {SPSH__MANIFEST_SHARD_UNIT,           4 },
    {SPSH__MANIFEST_SHARD_NUMBER,         4 },
    {SPSH__MANIFEST_UTTERANCE_BEGIN,      8 },
    {SPSH__MANIFEST_RECORD_BEGIN,         8 },
    {SPSH__MANIFEST_GROUP_DOMAIN,         4 },
    {SPSH__MANIFEST_GROUP_SPLIT,          4 },
    {SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, 4 },
    {SPSH__MANIFEST_GROUP_UTTERANCES,     8 },
    {SPSH__MANIFEST_GROUP_SAMPLES,        8 },
    {SPSH__MANIFEST_TOTALS,               8 },
    {SPSH__MANIFEST_INDEX_FILE_ID,        16},
    {SPSH__MANIFEST_INDEX_ROOT_HASH,      16},
    {SPSH__MANIFEST_INDEX_BYTES,          8 },
    {SPSH__MANIFEST_INDEX_GENERATION,     8 },
    {SPSH__MANIFEST_OVERLAY_FILE_ID,      16},
    {SPSH__MANIFEST_OVERLAY_ROOT_HASH,    16},
    {SPSH__MANIFEST_OVERLAY_BYTES,        8 },
    {SPSH__MANIFEST_OVERLAY_NAME_ENDS,    8 },
    {SPSH__MANIFEST_OVERLAY_NAMES,        1 },
    {SPSH__MANIFEST_OPTIONS,              1 },
    {SPSH__MANIFEST_DOMAIN_ENDS,          8 },
    {SPSH__MANIFEST_DOMAINS,              1 },
    {SPSH__MANIFEST_SPLIT_ENDS,           8 },
    {SPSH__MANIFEST_SPLITS,               1 },
};

enum { MANIFEST_SECTIONS = sizeof(manifest_sections) / sizeof(manifest_sections[0]) };
_Static_assert((int)MANIFEST_SECTIONS <= (int)SPSH__COLUMNS_MAX, "a manifest's columns");

uint32_t spsh__index_element_bytes(uint32_t column)
{
    static const uint8_t widths[] = {
        8, 8, 4, 4, 8, 4, 8, 8, 4, 2, 2, 4, 8, 4, 4, 4, 4, 4, 4,
    };
    if (column < SPSH__INDEX_COLUMN_FIRST || column > SPSH__INDEX_COLUMN_LAST)
        return 0;
    return widths[column - SPSH__INDEX_COLUMN_FIRST];
}

void spsh__generation_name(const char *word, uint64_t generation, char dst[40])
{
    (void)snprintf(dst, 40, "%s-%08" PRIu64 ".spsh", word, generation);
}

void spsh__generation_file_id(const uint8_t dataset_id[16], uint64_t generation, const char *word,
                              uint8_t ret_file_id[16])
{
    uint8_t bytes[16 + 8 + 16];
    size_t word_bytes = strlen(word);
    memcpy(bytes, dataset_id, 16);
    spsh__store_u64le(bytes + 16, generation);
    memcpy(bytes + 24, word, word_bytes);
    spsh__hash128(bytes, 24 + word_bytes, ret_file_id);
}

bool spsh__overlay_name_ok(spsh_bytes name)
{
    if (name.size_bytes == 0 || name.size_bytes > OVERLAY_NAME_BYTES_MAX || name.data[0] == '.')
        return false;
    for (size_t i = 0; i < name.size_bytes; i++) {
        uint8_t c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        if (!letter && !digit && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* ---- reading ---- */

static spsh_status fail_corrupt(const spsh__container *c, const char *what, uint64_t found,
                                uint64_t expected, spsh_error *err)
{
    return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, spsh__container_footer(c)->section_area_offset,
                        "%s: %s is %" PRIu64 ", expected %" PRIu64, spsh__container_path(c), what,
                        found, expected);
}

static bool is_per_shard(uint32_t id)
{
    return id >= SPSH__MANIFEST_SHARD_FILE_ID && id <= SPSH__MANIFEST_SHARD_NUMBER;
}

/* Widths, and counts that follow from other counts. */
static spsh_status check_sections(const spsh__container *c, spsh_error *err)
{
    uint64_t shards = spsh__container_count(c, SPSH__MANIFEST_SHARD_FILE_ID);
    uint64_t groups = spsh__container_count(c, SPSH__MANIFEST_GROUP_DOMAIN);
    uint64_t overlays = spsh__container_count(c, SPSH__MANIFEST_OVERLAY_FILE_ID);
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < MANIFEST_SECTIONS; i++) {
        uint32_t id = manifest_sections[i].id;
        uint64_t count = UINT64_MAX;
        if (is_per_shard(id))
            count = shards;
        else if (id == SPSH__MANIFEST_UTTERANCE_BEGIN || id == SPSH__MANIFEST_RECORD_BEGIN)
            count = shards + 1;
        else if (id >= SPSH__MANIFEST_GROUP_DOMAIN && id <= SPSH__MANIFEST_GROUP_SAMPLES)
            count = groups;
        else if (id == SPSH__MANIFEST_TOTALS)
            count = SPSH__TOTALS;
        else if (id >= SPSH__MANIFEST_INDEX_FILE_ID && id <= SPSH__MANIFEST_INDEX_GENERATION)
            count = 1;
        else if (id >= SPSH__MANIFEST_OVERLAY_FILE_ID && id <= SPSH__MANIFEST_OVERLAY_NAME_ENDS)
            count = overlays;
        rc = spsh__container_require(c, id, manifest_sections[i].element_bytes, count, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__container_require_strings(c, SPSH__MANIFEST_OVERLAY_NAME_ENDS, overlays, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require_strings(c, SPSH__MANIFEST_DOMAIN_ENDS, UINT64_MAX, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require_strings(c, SPSH__MANIFEST_SPLIT_ENDS, UINT64_MAX, err);
    if (rc == SPSH_OK && (shards > SPSH_SHARDS_MAX || overlays > SPSH_OVERLAYS_MAX))
        rc = SPSH_FAIL(
            err, SPSH_E_LIMIT,
            "%s: %" PRIu64 " shards and %" PRIu64 " overlays exceed the limits, %u and %u",
            spsh__container_path(c), shards, overlays, SPSH_SHARDS_MAX, SPSH_OVERLAYS_MAX);
    return rc;
}

/* A cumulative column begins with 0 and ends with the total. */
static spsh_status check_cumulative(const spsh__container *c, uint32_t id, uint64_t total,
                                    spsh_error *err)
{
    uint64_t first = 0;
    uint64_t last = 0;
    spsh_status rc = spsh__container_u64(c, id, 0, &first, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(c, id, spsh__container_count(c, id) - 1, &last, err);
    if (rc == SPSH_OK && first != 0)
        rc = fail_corrupt(c, "first element of a cumulative column", first, 0, err);
    if (rc == SPSH_OK && last != total)
        rc = fail_corrupt(c, "last element of a cumulative column", last, total, err);
    return rc;
}

static spsh_status load_info(spsh__manifest *manifest, spsh_error *err)
{
    const spsh__container *c = manifest->container;
    const spsh__header *header = spsh__container_header(c);
    spsh_dataset_info *info = &manifest->info;
    const uint8_t *totals = NULL;
    const uint8_t *sizes = NULL;
    uint64_t shards = spsh__container_count(c, SPSH__MANIFEST_SHARD_BYTES);
    spsh_status rc =
        spsh__container_column(c, SPSH__MANIFEST_TOTALS, 0, SPSH__TOTALS, &totals, err);
    if (rc == SPSH_OK)
        rc = spsh__container_column(c, SPSH__MANIFEST_SHARD_BYTES, 0, shards, &sizes, err);
    if (rc != SPSH_OK)
        return rc;
    info->struct_size = sizeof(*info);
    memcpy(info->dataset_id, header->dataset_id, 16);
    info->generation = header->ordinal;
    info->shard_count = shards;
    info->utterance_count = spsh__load_u64le(totals);
    info->record_count = spsh__load_u64le(totals + 8);
    info->duplicate_count = spsh__load_u64le(totals + 16);
    info->payload_bytes = spsh__load_u64le(totals + 24);
    info->unused_payload_bytes = spsh__load_u64le(totals + 32);
    info->speaker_count = spsh__load_u64le(totals + 40);
    info->reject_count = spsh__load_u64le(totals + 48);
    info->source_row_count = spsh__load_u64le(totals + 56);
    info->overlay_count = spsh__container_count(c, SPSH__MANIFEST_OVERLAY_FILE_ID);
    for (uint64_t i = 0; i < shards; i++) {
        uint64_t file_bytes = spsh__load_u64le(sizes + 8 * i);
        if (file_bytes > SPSH_FILE_BYTES_MAX)
            return fail_corrupt(c, "size of a shard", file_bytes, SPSH_FILE_BYTES_MAX, err);
        info->shard_bytes += file_bytes; /* at most 2^24 times 2^44 */
    }
    manifest->group_count = spsh__container_count(c, SPSH__MANIFEST_GROUP_DOMAIN);
    uint64_t utterance_count = spsh__container_footer(c)->utterance_count;
    if (info->utterance_count != utterance_count)
        return fail_corrupt(c, "utterance_count of the footer", utterance_count,
                            info->utterance_count, err);
    rc = check_cumulative(c, SPSH__MANIFEST_UTTERANCE_BEGIN, info->utterance_count, err);
    if (rc == SPSH_OK)
        rc = check_cumulative(c, SPSH__MANIFEST_RECORD_BEGIN, info->record_count, err);
    return rc;
}

static spsh_status load_ref(const spsh__container *c, uint32_t file_id_section, uint64_t at,
                            spsh__file_ref *ret_ref, spsh_error *err)
{
    const uint8_t *file_id = NULL;
    const uint8_t *root_hash = NULL;
    spsh_status rc = spsh__container_column(c, file_id_section, at, 1, &file_id, err);
    if (rc == SPSH_OK)
        rc = spsh__container_column(c, file_id_section + 1, at, 1, &root_hash, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(c, file_id_section + 2, at, &ret_ref->file_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(ret_ref->file_id, file_id, 16);
    memcpy(ret_ref->root_hash, root_hash, 16);
    return SPSH_OK;
}

static spsh_status check_identity(const spsh__container *c, spsh_error *err)
{
    const spsh__header *header = spsh__container_header(c);
    uint8_t file_id[16];
    spsh__generation_file_id(header->dataset_id, header->ordinal, "manifest", file_id);
    if (header->ordinal == 0 || memcmp(file_id, header->file_id, 16) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 16,
                            "%s: header: file_id is not that of generation %" PRIu64
                            " of its dataset",
                            spsh__container_path(c), header->ordinal);
    return SPSH_OK;
}

static spsh_status load_manifest(spsh__manifest *manifest, spsh_error *err)
{
    const spsh__container *c = manifest->container;
    spsh_status rc = check_identity(c, err);
    if (rc == SPSH_OK)
        rc = check_sections(c, err);
    if (rc == SPSH_OK)
        rc = load_info(manifest, err);
    if (rc == SPSH_OK)
        rc = load_ref(c, SPSH__MANIFEST_INDEX_FILE_ID, 0, &manifest->index, err);
    if (rc == SPSH_OK)
        memcpy(manifest->info.index_hash, manifest->index.root_hash, 16);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(c, SPSH__MANIFEST_INDEX_GENERATION, 0, &manifest->index_generation,
                                 err);
    return rc;
}

static spsh_status open_file(const spsh_io *io, const spsh_allocator *allocator,
                             const char *dataset_path, const char *name,
                             spsh__manifest *ret_manifest, spsh_error *err)
{
    char *path = spsh__path_join(allocator, dataset_path, name);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: path", dataset_path);
    memset(ret_manifest, 0, sizeof(*ret_manifest));
    spsh_status rc = spsh__container_open(io, path, SPSH__KIND_MANIFEST, allocator,
                                          &ret_manifest->container, err);
    if (rc == SPSH_OK)
        rc = load_manifest(ret_manifest, err);
    if (rc != SPSH_OK)
        spsh__manifest_close(ret_manifest);
    spsh__free(allocator, path);
    return rc;
}

static bool has_generation(const spsh_io *io, const spsh_allocator *allocator,
                           const char *dataset_path, uint64_t generation)
{
    char name[40];
    spsh__generation_name("manifest", generation, name);
    return spsh__dataset_has(io, allocator, dataset_path, name);
}

/* Explain why there is no readable manifest.spsh. Older generations are numbered without gaps. */
static spsh_status explain(const spsh_io *io, const spsh_allocator *allocator,
                           const char *dataset_path, spsh_status rc, spsh_error *err)
{
    if (err == NULL || rc == SPSH_E_NO_MEMORY)
        return rc;
    if (rc == SPSH_E_NOT_FOUND || err->os_errno == ENOTDIR)
        return spsh__no_dataset(io, allocator, dataset_path, rc, err);
    uint64_t newest = 0;
    while (newest < UINT32_MAX && has_generation(io, allocator, dataset_path, newest + 1))
        newest++;
    if (newest == 0)
        return rc;
    size_t used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof(err->message) - used,
                   " (older generations exist: manifest-00000001.spsh to manifest-%08" PRIu64
                   ".spsh)",
                   newest);
    return rc;
}

spsh_status spsh__manifest_open(const spsh_io *io, const spsh_allocator *allocator,
                                const char *dataset_path, uint64_t generation,
                                spsh__manifest *ret_manifest, spsh_error *err)
{
    spsh__manifest manifest;
    char name[40];
    if (generation != 0 && has_generation(io, allocator, dataset_path, generation)) {
        spsh__generation_name("manifest", generation, name);
        spsh_status rc = open_file(io, allocator, dataset_path, name, &manifest, err);
        if (rc != SPSH_OK)
            return rc;
    } else {
        (void)snprintf(name, sizeof(name), "%s", MANIFEST_NAME);
        spsh_status rc = open_file(io, allocator, dataset_path, name, &manifest, err);
        if (rc != SPSH_OK)
            return explain(io, allocator, dataset_path, rc, err);
    }
    uint64_t found = manifest.info.generation;
    if (generation != 0 && found != generation) {
        bool newest = strcmp(name, MANIFEST_NAME) == 0;
        spsh__manifest_close(&manifest);
        return SPSH_FAIL(err, newest ? SPSH_E_NOT_FOUND : SPSH_E_MISMATCH,
                         "%s/%s: generation %" PRIu64 ", expected %" PRIu64, dataset_path, name,
                         found, generation);
    }
    *ret_manifest = manifest;
    return SPSH_OK;
}

void spsh__manifest_close(spsh__manifest *manifest)
{
    spsh__container_close(manifest->container);
    manifest->container = NULL;
}

/* Element at and its successor of a cumulative column; their difference is at most count_max. */
static spsh_status load_count(const spsh__container *c, uint32_t id, uint64_t at,
                              uint64_t count_max, uint64_t *ret_count, spsh_error *err)
{
    const uint8_t *pair = NULL;
    spsh_status rc = spsh__container_column(c, id, at, 2, &pair, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t begin = spsh__load_u64le(pair);
    uint64_t end = spsh__load_u64le(pair + 8);
    if (end < begin || end - begin > count_max)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: section %u: shard %" PRIu64 " from %" PRIu64 " to %" PRIu64,
                         spsh__container_path(c), id, at, begin, end);
    *ret_count = end - begin;
    return SPSH_OK;
}

spsh_status spsh__manifest_seal(const spsh__manifest *manifest, uint64_t shard,
                                spsh_shard_seal *ret_seal, spsh_error *err)
{
    const spsh__container *c = manifest->container;
    spsh__file_ref ref;
    spsh_shard_seal seal;
    uint32_t unit = 0;
    memset(&seal, 0, sizeof(seal));
    if (shard >= manifest->info.shard_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: shard %" PRIu64 " does not exist: the dataset has %" PRIu64 " shards",
                         spsh__container_path(c), shard, manifest->info.shard_count);
    spsh_status rc = load_ref(c, SPSH__MANIFEST_SHARD_FILE_ID, shard, &ref, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u32(c, SPSH__MANIFEST_SHARD_UNIT, shard, &unit, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u32(c, SPSH__MANIFEST_SHARD_NUMBER, shard, &seal.number, err);
    if (rc == SPSH_OK)
        rc = load_count(c, SPSH__MANIFEST_UTTERANCE_BEGIN, shard, SPSH_SHARD_UTTERANCES_MAX,
                        &seal.utterance_count, err);
    if (rc == SPSH_OK)
        rc = load_count(c, SPSH__MANIFEST_RECORD_BEGIN, shard, SPSH_SHARD_RECORDS_MAX,
                        &seal.record_count, err);
    if (rc != SPSH_OK)
        return rc;
    if (unit > UNIT_MAX || seal.number > NUMBER_MAX)
        return SPSH_FAIL(
            err, SPSH_E_CORRUPT,
            "%s: shard %" PRIu64 " is number %u of unit %u, which exceeds the limits, %d and %d",
            spsh__container_path(c), shard, seal.number, unit, (int)NUMBER_MAX, (int)UNIT_MAX);
    memcpy(seal.file_id, ref.file_id, 16);
    memcpy(seal.root_hash, ref.root_hash, 16);
    seal.file_bytes = ref.file_bytes;
    seal.unit = unit;
    *ret_seal = seal;
    return SPSH_OK;
}

spsh_status spsh__manifest_overlay(const spsh__manifest *manifest, uint64_t overlay,
                                   spsh__file_ref *ret_file, spsh_bytes *ret_name, spsh_error *err)
{
    const spsh__container *c = manifest->container;
    spsh_bytes name = {NULL, 0};
    spsh__file_ref file;
    spsh_status rc = load_ref(c, SPSH__MANIFEST_OVERLAY_FILE_ID, overlay, &file, err);
    if (rc == SPSH_OK)
        rc = spsh__container_string(c, SPSH__MANIFEST_OVERLAY_NAME_ENDS, overlay, &name, err);
    if (rc != SPSH_OK)
        return rc;
    if (!spsh__overlay_name_ok(name))
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: overlay %" PRIu64 " has a name that is not allowed",
                         spsh__container_path(c), overlay);
    *ret_file = file;
    *ret_name = name;
    return SPSH_OK;
}

spsh_status spsh__manifest_check_file(const spsh__manifest *manifest,
                                      const spsh__container *container,
                                      const spsh__file_ref *expected, spsh_error *err)
{
    const spsh__header *header = spsh__container_header(container);
    const spsh__footer *footer = spsh__container_footer(container);
    const char *path = spsh__container_path(container);
    const char *what = NULL;
    if (memcmp(header->dataset_id, manifest->info.dataset_id, 16) != 0)
        what = "belongs to another dataset";
    else if (memcmp(header->file_id, expected->file_id, 16) != 0)
        what = "the file_id differs from the manifest";
    else if (footer->file_bytes != expected->file_bytes)
        what = "the size differs from the manifest";
    else if (memcmp(footer->root_hash, expected->root_hash, 16) != 0)
        what = "the root hash differs from the manifest";
    if (what == NULL)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_MISMATCH, "%s: %s (%" PRIu64 " bytes, expected %" PRIu64 ")", path,
                     what, footer->file_bytes, expected->file_bytes);
}

spsh_status spsh__manifest_check(const spsh__manifest *manifest, spsh_error *err)
{
    spsh_status rc = spsh__container_check_all(manifest->container, err);
    for (uint64_t n = 0; rc == SPSH_OK && n < manifest->info.shard_count; n++) {
        spsh_shard_seal seal;
        rc = spsh__manifest_seal(manifest, n, &seal, err);
    }
    for (uint64_t n = 0; rc == SPSH_OK && n < manifest->info.overlay_count; n++) {
        spsh__file_ref file;
        spsh_bytes name = {NULL, 0};
        rc = spsh__manifest_overlay(manifest, n, &file, &name, err);
    }
    return rc;
}

static int compare_numbers(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

spsh_status spsh__manifest_generations(const spsh_allocator *allocator, const char *dataset_path,
                                       spsh__buffer *ret_numbers, spsh_error *err)
{
    const char *prefix = "manifest-";
    const struct dirent *entry = NULL;
    DIR *open = opendir(dataset_path);
    spsh_status rc = SPSH_OK;
    if (open == NULL)
        return SPSH_OK;
    while (rc == SPSH_OK && (entry = readdir(open)) != NULL) {
        char name[40];
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        const uint64_t number = strtoull(entry->d_name + strlen(prefix), NULL, 10);
        spsh__generation_name("manifest", number, name);
        if (number != 0 && strcmp(name, entry->d_name) == 0)
            rc = spsh__buffer_append(ret_numbers, allocator, &number, sizeof(number), err);
    }
    (void)closedir(open);
    if (rc == SPSH_OK && ret_numbers->size_bytes > 0)
        qsort(ret_numbers->data, ret_numbers->size_bytes / sizeof(uint64_t), sizeof(uint64_t),
              compare_numbers);
    return rc;
}

/* ---- writing ---- */

static spsh_status write_columns(spsh_file_writer *writer, const spsh_allocator *allocator,
                                 const spsh__columns_file *file, spsh__footer *ret_footer,
                                 spsh_error *err)
{
    spsh__section sections[SPSH__COLUMNS_MAX];
    spsh__section_writer *section_writer = NULL;
    uint8_t header[SPSH__PAGE_BYTES];
    if (file->column_count > SPSH__COLUMNS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%u columns", file->column_count);
    for (uint32_t i = 0; i < file->column_count; i++)
        sections[i] = (spsh__section){file->columns[i].id, file->columns[i].element_bytes,
                                      file->columns[i].count};
    spsh__header_encode(&file->header, header);
    spsh_status rc = spsh_file_writer_write(writer, header, sizeof(header), err);
    if (rc == SPSH_OK)
        rc = spsh__section_writer_open(writer, &file->header, sections, file->column_count,
                                       allocator, &section_writer, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < file->column_count; i++)
        if (file->columns[i].count > 0)
            rc = spsh__section_append(section_writer, file->columns[i].id,
                                      file->columns[i].elements, file->columns[i].count, err);
    if (rc == SPSH_OK)
        rc = spsh__section_writer_finish(section_writer, NULL, 0, 0, file->utterance_count,
                                         ret_footer, err);
    spsh__section_writer_free(section_writer);
    return rc;
}

/* Return the size of the file, for its reservation. 0 if a column is too long: the section writer
 * reports that error. */
static uint64_t columns_file_bytes(const spsh__columns_file *file)
{
    uint64_t area = (uint64_t)file->column_count * 40; /* directory */
    for (uint32_t i = 0; i < file->column_count; i++) {
        const spsh__column *column = &file->columns[i];
        if (column->element_bytes == 0 ||
            column->count > SPSH_FILE_BYTES_MAX / column->element_bytes)
            return 0;
        area = spsh__align_up(area, 64) + column->count * column->element_bytes;
    }
    area = spsh__align_up(area, SPSH__PAGE_BYTES);
    const uint64_t pages = (area + SPSH__SECTION_PAGE - 1) / SPSH__SECTION_PAGE;
    return SPSH__PAGE_BYTES + area + spsh__align_up(8 * pages, SPSH__PAGE_BYTES) +
           SPSH__FOOTERS_BYTES;
}

spsh_status spsh__columns_publish(const spsh_io *io, const spsh_allocator *allocator,
                                  const spsh__columns_file *file, spsh__footer *ret_footer,
                                  spsh_error *err)
{
    spsh_file_writer *writer = NULL;
    spsh__footer footer;
    const uint64_t reserve_bytes = file->is_reserved ? columns_file_bytes(file) : 0;
    spsh_status rc = spsh_file_writer_open(io, file->directory, file->name, reserve_bytes,
                                           allocator, &writer, err);
    if (rc == SPSH_OK)
        rc = write_columns(writer, allocator, file, &footer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, file->mode, err);
    if (rc == SPSH_OK && ret_footer != NULL)
        *ret_footer = footer;
    spsh_file_writer_free(writer);
    return rc;
}

/* For file systems without hard links; also compares with a file that has the name already. */
static spsh_status copy_manifest(const spsh_io *io, const spsh_allocator *allocator,
                                 const char *dataset_path, const spsh__manifest *manifest,
                                 spsh_error *err)
{
    const spsh__container *c = manifest->container;
    uint64_t file_bytes = spsh__container_footer(c)->file_bytes;
    char name[40];
    uint8_t *buffer = NULL;
    spsh_file_writer *writer = NULL;
    spsh__generation_name("manifest", manifest->info.generation, name);
    spsh_status rc = spsh_file_writer_open(io, dataset_path, name, 0, allocator, &writer, err);
    if (rc != SPSH_OK)
        goto out;
    buffer = (uint8_t *)spsh__alloc(allocator, COPY_BYTES);
    if (buffer == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s/%s", dataset_path, name);
        goto out;
    }
    for (uint64_t at = 0; rc == SPSH_OK && at < file_bytes; at += COPY_BYTES) {
        size_t size_bytes = file_bytes - at < COPY_BYTES ? (size_t)(file_bytes - at) : COPY_BYTES;
        rc = spsh_io_read_exact(io, spsh__container_fd(c), buffer, size_bytes, at,
                                spsh__container_path(c), err);
        if (rc == SPSH_OK)
            rc = spsh_file_writer_write(writer, buffer, size_bytes, err);
    }
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, err);
out:
    spsh__free(allocator, buffer);
    spsh_file_writer_free(writer);
    return rc;
}

/* Give manifest.spsh its second name, durably. */
static spsh_status keep_manifest(const spsh_io *io, const spsh_allocator *allocator,
                                 const char *dataset_path, const spsh__manifest *manifest,
                                 spsh_error *err)
{
    char name[40];
    spsh__generation_name("manifest", manifest->info.generation, name);
    char *to = spsh__path_join(allocator, dataset_path, name);
    if (to == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: path", dataset_path);
    int linked = io->link_fn(io->user, spsh__container_path(manifest->container), to);
    spsh__free(allocator, to);
    if (linked < 0)
        return copy_manifest(io, allocator, dataset_path, manifest, err);
    return spsh_io_sync_directory(io, dataset_path, err);
}

/* The overlay sections, in one allocation. */
typedef struct overlay_columns {
    uint8_t *memory;
    const uint8_t *file_ids, *root_hashes, *sizes, *ends, *names;
    uint64_t name_bytes;
} overlay_columns;

static spsh_status encode_overlays(const spsh_allocator *allocator,
                                   const spsh__overlay_entry_ref *overlays, uint64_t count,
                                   overlay_columns *ret_columns, spsh_error *err)
{
    uint64_t name_bytes = 0;
    for (uint64_t i = 0; i < count; i++)
        name_bytes += overlays[i].name.size_bytes;
    uint8_t *memory = (uint8_t *)spsh__alloc(allocator, (size_t)(count * 48 + name_bytes));
    if (memory == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " overlays", count);
    uint8_t *root_hashes = memory + 16 * count;
    uint8_t *sizes = memory + 32 * count;
    uint8_t *ends = memory + 40 * count;
    uint8_t *names = memory + 48 * count;
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(memory + 16 * i, overlays[i].file.file_id, 16);
        memcpy(root_hashes + 16 * i, overlays[i].file.root_hash, 16);
        spsh__store_u64le(sizes + 8 * i, overlays[i].file.file_bytes);
        memcpy(names + end, overlays[i].name.data, overlays[i].name.size_bytes);
        end += overlays[i].name.size_bytes;
        spsh__store_u64le(ends + 8 * i, end);
    }
    *ret_columns = (overlay_columns){memory, memory, root_hashes, sizes, ends, names, name_bytes};
    return SPSH_OK;
}

static spsh__column overlay_column(const overlay_columns *from, section_rule rule, uint64_t count)
{
    spsh__column column = {rule.id, rule.element_bytes, count, NULL};
    switch (rule.id) {
    case SPSH__MANIFEST_OVERLAY_FILE_ID: column.elements = from->file_ids; break;
    case SPSH__MANIFEST_OVERLAY_ROOT_HASH: column.elements = from->root_hashes; break;
    case SPSH__MANIFEST_OVERLAY_BYTES: column.elements = from->sizes; break;
    case SPSH__MANIFEST_OVERLAY_NAME_ENDS: column.elements = from->ends; break;
    default:
        column.elements = from->names;
        column.count = from->name_bytes;
        break;
    }
    return column;
}

spsh_status spsh__manifest_publish_overlays(const spsh_io *io, const spsh_allocator *allocator,
                                            const char *dataset_path,
                                            const spsh__manifest *manifest,
                                            const spsh__overlay_entry_ref *overlays,
                                            uint64_t overlay_count, spsh_error *err)
{
    const spsh__container *c = manifest->container;
    spsh__column columns[MANIFEST_SECTIONS];
    overlay_columns changed;
    spsh__columns_file file = {.directory = dataset_path,
                               .name = MANIFEST_NAME,
                               .header = *spsh__container_header(c),
                               .columns = columns,
                               .column_count = MANIFEST_SECTIONS,
                               .utterance_count = manifest->info.utterance_count,
                               .mode = SPSH_PUBLISH_REPLACE};
    file.header.ordinal++;
    spsh__generation_file_id(file.header.dataset_id, file.header.ordinal, "manifest",
                             file.header.file_id);
    spsh_status rc = encode_overlays(allocator, overlays, overlay_count, &changed, err);
    if (rc != SPSH_OK)
        return rc;
    for (size_t i = 0; rc == SPSH_OK && i < MANIFEST_SECTIONS; i++) {
        const section_rule rule = manifest_sections[i];
        if (rule.id >= SPSH__MANIFEST_OVERLAY_FILE_ID && rule.id <= SPSH__MANIFEST_OVERLAY_NAMES) {
            columns[i] = overlay_column(&changed, rule, overlay_count);
            continue;
        }
        const uint8_t *elements = NULL;
        uint64_t count = spsh__container_count(c, rule.id);
        rc = spsh__container_column(c, rule.id, 0, count, &elements, err);
        columns[i] = (spsh__column){rule.id, rule.element_bytes, count, elements};
    }
    if (rc == SPSH_OK)
        rc = keep_manifest(io, allocator, dataset_path, manifest, err);
    if (rc == SPSH_OK)
        rc = spsh__columns_publish(io, allocator, &file, NULL, err);
    spsh__free(allocator, changed.memory);
    return rc;
}
