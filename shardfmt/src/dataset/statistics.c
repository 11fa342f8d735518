/* statistics.c: sums of features, one row per group, in a container of kind 6 (FORMAT.md 9).
 *
 * The file of the whole dataset has every group at its own number, so a lookup is one access. The
 * sums of a shard have only the groups that occur in it, ascending. Doubles are stored as IEEE 754
 * bits.
 */
#include "speechshard/statistics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/checksum.h"
#include "format/container.h"
#include "io/io_internal.h"
#include "manifest.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    VERSION = 1,
    TEXT = 1,
    NUMBERS = 2, /* version, dim */
    INDEX_HASH = 3,
    GROUPS = 32,
    FRAME_COUNTS = 33,
    SUMS = 34,
    SQUARE_SUMS = 35,
    DIM_MAX = 32768,
    TEXT_MAX = 1024,
};

struct spsh_statistics {
    spsh_allocator allocator;
    spsh__container *container;
    uint32_t dim;
    uint64_t group_count;
};

void spsh_statistics_file_name(const char *text, uint64_t shard,
                               char dst[SPSH_STATISTICS_NAME_BYTES])
{
    uint8_t key[16];
    char hex[33];
    spsh__hash128(text, strlen(text), key);
    for (size_t i = 0; i < sizeof(key); i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", key[i]);
    if (shard == SPSH_STATISTICS_WHOLE)
        (void)snprintf(dst, SPSH_STATISTICS_NAME_BYTES, "%s.spsh", hex);
    else
        (void)snprintf(dst, SPSH_STATISTICS_NAME_BYTES, "%s-%08" PRIu64 ".spsh", hex, shard);
}

/* 0: the whole. */
static uint64_t ordinal_of(uint64_t shard)
{
    return shard == SPSH_STATISTICS_WHOLE ? 0 : shard + 1;
}

static spsh_status make_file_id(const spsh_dataset *dataset, const char *text, uint64_t ordinal,
                                uint8_t ret_id[16], spsh_error *err)
{
    static const char what[] = "statistics";
    const spsh_dataset_info *info = spsh_dataset_info_get(dataset);
    uint8_t bytes[16 + 16 + 8 + TEXT_MAX + sizeof(what)];
    const size_t text_bytes = strlen(text);
    if (text_bytes == 0 || text_bytes > TEXT_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "statistics: a text of %zu bytes", text_bytes);
    memcpy(bytes, info->dataset_id, 16);
    memcpy(bytes + 16, info->index_hash, 16);
    spsh__store_u64le(bytes + 32, ordinal);
    memcpy(bytes + 40, text, text_bytes);
    memcpy(bytes + 40 + text_bytes, what, sizeof(what) - 1);
    spsh__hash128(bytes, 40 + text_bytes + sizeof(what) - 1, ret_id);
    return SPSH_OK;
}

static char *directory_of(const spsh_allocator *allocator, const spsh_dataset *dataset)
{
    return spsh__path_join(allocator, spsh_dataset_path(dataset), SPSH_STATISTICS_DIRECTORY);
}

/* ---- reading ---- */

/* Check that the file belongs to this dataset, this index, and this options string. */
static spsh_status check_identity(const spsh_statistics *s, const spsh_dataset *dataset,
                                  const char *text, uint64_t ordinal, spsh_error *err)
{
    const spsh__header *header = spsh__container_header(s->container);
    const char *path = spsh__container_path(s->container);
    spsh_bytes found = {NULL, 0};
    uint8_t file_id[16];
    spsh_status rc = make_file_id(dataset, text, ordinal, file_id, err);
    if (rc != SPSH_OK)
        return rc;
    if (memcmp(header->file_id, file_id, 16) != 0 || header->ordinal != ordinal)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "%s: the statistics are of another dataset, or of different features",
                         path);
    rc = spsh__container_require(s->container, TEXT, 1, strlen(text), err);
    if (rc == SPSH_OK)
        rc = spsh__container_elements(s->container, TEXT, 0, strlen(text), &found, err);
    if (rc == SPSH_OK && memcmp(found.data, text, found.size_bytes) != 0)
        rc = SPSH_FAIL(err, SPSH_E_MISMATCH, "%s: the statistics are of different features", path);
    return rc;
}

static spsh_status check_shape(spsh_statistics *s, spsh_error *err)
{
    const spsh__container *c = s->container;
    uint32_t version = 0;
    spsh_status rc = spsh__container_require(c, NUMBERS, 4, 2, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u32(c, NUMBERS, 0, &version, err);
    if (rc == SPSH_OK && version != VERSION)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "%s: statistics version %u, but this version reads %d",
                         spsh__container_path(c), version, VERSION);
    if (rc == SPSH_OK)
        rc = spsh__container_u32(c, NUMBERS, 1, &s->dim, err);
    s->group_count = spsh__container_count(c, GROUPS);
    if (rc == SPSH_OK && (s->dim == 0 || s->dim > DIM_MAX || s->group_count > UINT64_MAX / DIM_MAX))
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: %u values, %llu groups", spsh__container_path(c),
                         s->dim, ULL(s->group_count));
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, GROUPS, 8, UINT64_MAX, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, FRAME_COUNTS, 8, s->group_count, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, SUMS, 8, s->group_count * s->dim, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, SQUARE_SUMS, 8, s->group_count * s->dim, err);
    return rc;
}

static spsh_status open_file(spsh_statistics *s, const spsh_dataset *dataset, const char *text,
                             uint64_t shard, const spsh_io *io, spsh_error *err)
{
    char name[SPSH_STATISTICS_NAME_BYTES];
    spsh_status rc = SPSH_E_NO_MEMORY;
    spsh_statistics_file_name(text, shard, name);
    char *directory = directory_of(&s->allocator, dataset);
    char *path = directory != NULL ? spsh__path_join(&s->allocator, directory, name) : NULL;
    if (path == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "statistics");
    else
        rc = spsh__container_open(io, path, SPSH__KIND_STATISTICS, &s->allocator, &s->container,
                                  err);
    if (rc == SPSH_E_NOT_FOUND)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%.200s has no statistics of these features; make them with `speechshard "
                       "featgen DATASET --stats --features TEXT`",
                       spsh_dataset_path(dataset));
    spsh__free(&s->allocator, path);
    spsh__free(&s->allocator, directory);
    return rc;
}

spsh_status spsh_statistics_open(const spsh_dataset *dataset, const char *text, uint64_t shard,
                                 const spsh_io *io, spsh_statistics **ret_statistics,
                                 spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    spsh_statistics *s = (spsh_statistics *)spsh__new(allocator, 1, sizeof(*s));
    if (s == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "statistics");
    s->allocator = *allocator;
    spsh_status rc = open_file(s, dataset, text, shard, io, err);
    if (rc == SPSH_OK) {
        spsh__container_release_fd(s->container);
        rc = check_identity(s, dataset, text, ordinal_of(shard), err);
    }
    if (rc == SPSH_OK)
        rc = check_shape(s, err);
    if (rc != SPSH_OK) {
        spsh_statistics_close(s);
        return rc;
    }
    *ret_statistics = s;
    return SPSH_OK;
}

void spsh_statistics_close(spsh_statistics *statistics)
{
    if (statistics == NULL)
        return;
    const spsh_allocator allocator = statistics->allocator;
    spsh__container_close(statistics->container);
    spsh__free(&allocator, statistics);
}

uint32_t spsh_statistics_dim(const spsh_statistics *statistics)
{
    return statistics->dim;
}

uint64_t spsh_statistics_group_count(const spsh_statistics *statistics)
{
    return statistics->group_count;
}

spsh_status spsh_statistics_group(const spsh_statistics *statistics, uint64_t n,
                                  uint64_t *ret_group, spsh_error *err)
{
    return spsh__container_u64(statistics->container, GROUPS, n, ret_group, err);
}

/* Find the position of a group: try the group's number first (right in a file with all groups),
 * then use binary search. */
static spsh_status find(const spsh_statistics *s, uint64_t group, uint64_t *ret_at, spsh_error *err)
{
    uint64_t low = 0, high = s->group_count, found = 0;
    uint64_t at = group < high ? group : high / 2;
    while (low < high) {
        const spsh_status rc = spsh__container_u64(s->container, GROUPS, at, &found, err);
        if (rc != SPSH_OK)
            return rc;
        if (found == group) {
            *ret_at = at;
            return SPSH_OK;
        }
        if (found < group)
            low = at + 1;
        else
            high = at;
        at = low + (high - low) / 2;
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "%s: it has no sums of %s; make them with `speechshard featgen DATASET "
                     "--stats --by speaker`",
                     spsh__container_path(s->container),
                     group == SPSH_STATISTICS_DATASET ? "the dataset" : "that speaker");
}

static spsh_status load(const spsh_statistics *s, uint32_t section, uint64_t at, double *values,
                        spsh_error *err)
{
    const uint8_t *bytes = NULL;
    const spsh_status rc =
        spsh__container_column(s->container, section, at * s->dim, s->dim, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t d = 0; d < s->dim; d++) {
        const uint64_t bits = spsh__load_u64le(bytes + (size_t)8 * d);
        memcpy(&values[d], &bits, sizeof(bits));
        if (!isfinite(values[d]) || (section == SQUARE_SUMS && values[d] < 0.0))
            return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: row %llu: value %u is not a sum",
                             spsh__container_path(s->container), ULL(at), d);
    }
    return SPSH_OK;
}

spsh_status spsh_statistics_get(const spsh_statistics *statistics, uint64_t group,
                                spsh_statistics_sums *ret_sums, spsh_error *err)
{
    uint64_t at = 0;
    spsh_status rc = find(statistics, group, &at, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(statistics->container, FRAME_COUNTS, at, &ret_sums->frame_count,
                                 err);
    if (rc == SPSH_OK)
        rc = load(statistics, SUMS, at, ret_sums->sum, err);
    if (rc == SPSH_OK)
        rc = load(statistics, SQUARE_SUMS, at, ret_sums->square_sum, err);
    return rc;
}

/* ---- writing ---- */

/* Pack the columns in file order, one after another, in one allocation. */
static uint8_t *pack_columns(const spsh_statistics_content *c, const spsh_allocator *allocator)
{
    const size_t groups = (size_t)c->group_count;
    const size_t values = groups * c->dim;
    uint8_t *bytes = (uint8_t *)spsh__alloc(allocator, 16 * groups + 16 * values + 8);
    if (bytes == NULL)
        return NULL;
    for (size_t i = 0; i < groups; i++) {
        spsh__store_u64le(bytes + 8 * i, c->groups[i]);
        spsh__store_u64le(bytes + 8 * (groups + i), c->frame_counts[i]);
    }
    for (size_t i = 0; i < values; i++) {
        uint64_t bits[2];
        memcpy(&bits[0], &c->sums[i], 8);
        memcpy(&bits[1], &c->square_sums[i], 8);
        spsh__store_u64le(bytes + 16 * groups + 8 * i, bits[0]);
        spsh__store_u64le(bytes + 16 * groups + 8 * (values + i), bits[1]);
    }
    return bytes;
}

static spsh_status publish(const spsh_statistics_content *c, const spsh_allocator *allocator,
                           const char *directory, const uint8_t *bytes, const spsh_io *io,
                           spsh_error *err)
{
    const spsh_dataset_info *info = spsh_dataset_info_get(c->dataset);
    const uint64_t groups = c->group_count, values = groups * c->dim;
    uint8_t numbers[8];
    char name[SPSH_STATISTICS_NAME_BYTES];
    const spsh__column columns[] = {
        {TEXT,         1,  strlen(c->text), c->text                         },
        {NUMBERS,      4,  2,               numbers                         },
        {INDEX_HASH,   16, 1,               info->index_hash                },
        {GROUPS,       8,  groups,          bytes                           },
        {FRAME_COUNTS, 8,  groups,          bytes + 8 * groups              },
        {SUMS,         8,  values,          bytes + 16 * groups             },
        {SQUARE_SUMS,  8,  values,          bytes + 16 * groups + 8 * values},
    };
    spsh__columns_file file = {
        .directory = directory,
        .name = name,
        .header = {.kind = SPSH__KIND_STATISTICS, .ordinal = ordinal_of(c->shard)},
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .mode = SPSH_PUBLISH_REPLACE
    };
    spsh__store_u32le(numbers, VERSION);
    spsh__store_u32le(numbers + 4, c->dim);
    spsh_statistics_file_name(c->text, c->shard, name);
    memcpy(file.header.dataset_id, info->dataset_id, 16);
    spsh_status rc =
        make_file_id(c->dataset, c->text, file.header.ordinal, file.header.file_id, err);
    if (rc == SPSH_OK)
        rc = spsh_io_make_directory(io, directory, err);
    if (rc == SPSH_OK)
        rc = spsh__columns_publish(io, allocator, &file, NULL, err);
    return rc;
}

spsh_status spsh_statistics_publish(const spsh_statistics_content *content, const spsh_io *io,
                                    spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    spsh_status rc = SPSH_OK;
    if (content->dim == 0 || content->dim > DIM_MAX ||
        content->group_count > SPSH_FILE_BYTES_MAX / 16 / content->dim)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "statistics: %u values, %llu groups",
                         content->dim, ULL(content->group_count));
    char *directory = directory_of(allocator, content->dataset);
    uint8_t *bytes = pack_columns(content, allocator);
    if (directory == NULL || bytes == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "statistics: %llu groups", ULL(content->group_count));
    else
        rc =
            publish(content, allocator, directory, bytes, io != NULL ? io : spsh_io_default(), err);
    spsh__free(allocator, bytes);
    spsh__free(allocator, directory);
    return rc;
}
