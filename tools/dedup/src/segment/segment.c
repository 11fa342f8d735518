/* segment.c: read a segment (FORMAT.md 8) without trusting its content.
 *
 * Opening checks the identity, the versions, and the widths and counts of all columns, so that
 * later reads stay in bounds. The container verifies pages when they are read, and this file
 * validates the values.
 */
#include "segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment_columns.h"
#include "speechshard/inside.h"

#define ULL(value_) ((unsigned long long)(value_))

#define FLAGS_KNOWN                                                                                \
    (SPSH__ROW_DECODED | SPSH__ROW_WHOLE | SPSH__ROW_ALIAS | SPSH__ROW_LOSSLESS |                  \
     SPSH__ROW_HAS_TEXT)

struct spsh__segment {
    spsh_table_file *file;
    spsh__segment_counts counts;
};

/* ---- elements ---- */

static uint32_t id_of(spsh__segment_column column)
{
    return spsh__segment_columns[column].id;
}

static spsh_status fail_value(const spsh__segment *segment, spsh__segment_column column,
                              uint64_t at, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: element %llu of section %u is out of range",
                     spsh_table_file_path(segment->file), ULL(at), id_of(column));
}

/* Read one element of a column into a member: a hash, or a number of 32 or 64 bits. */
static spsh_status get(const spsh__segment *segment, spsh__segment_column column, uint64_t at,
                       void *ret_member, size_t member_bytes, spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    const spsh_status rc = spsh_table_file_column(segment->file, id_of(column), at, 1, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (member_bytes == 16)
        memcpy(ret_member, bytes.data, 16);
    else if (member_bytes == sizeof(uint32_t))
        *(uint32_t *)ret_member = (uint32_t)spsh__load_le(bytes.data, bytes.size_bytes);
    else
        *(uint64_t *)ret_member = spsh__load_le(bytes.data, bytes.size_bytes);
    return SPSH_OK;
}

/* Read element `at` of a column of range starts. *ret_count is the distance to the next start. */
static spsh_status get_range(const spsh__segment *segment, spsh__segment_column column, uint64_t at,
                             uint64_t total, uint64_t *ret_first, uint64_t *ret_count,
                             spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    const spsh_status rc = spsh_table_file_column(segment->file, id_of(column), at, 2, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t first = spsh__load_le(bytes.data, 8);
    const uint64_t end = spsh__load_le(bytes.data + 8, 8);
    if (first > end || end > total)
        return fail_value(segment, column, at, err);
    *ret_first = first;
    *ret_count = end - first;
    return SPSH_OK;
}

/* ---- opening ---- */

static spsh_status check_identity(const spsh__segment *segment, const spsh_dataset *dataset,
                                  const spsh_shard_seal *seal, spsh_error *err)
{
    const spsh_table_file_info *info = spsh_table_file_info_get(segment->file);
    const char *path = spsh_table_file_path(segment->file);
    spsh_bytes column = {NULL, 0};
    uint8_t file_id[16];
    spsh_status rc = spsh_table_file_require(segment->file, id_of(SPSH__SEGMENT_VERSIONS), 4,
                                             SPSH__SEGMENT_VERSIONS_COUNT, err);
    if (rc == SPSH_OK)
        rc = spsh_table_file_column(segment->file, id_of(SPSH__SEGMENT_VERSIONS), 0,
                                    SPSH__SEGMENT_VERSIONS_COUNT, &column, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t version = spsh__load_u32le(column.data);
    const uint32_t print_version = spsh__load_u32le(column.data + 4);
    if (version != SPSH__SEGMENT_VERSION || print_version != SPSH__FINGERPRINT_VERSION)
        return SPSH_FAIL(
            err, SPSH_E_VERSION,
            "%s: segment version %u and fingerprint version %u, but this version reads %d and %d",
            path, version, print_version, SPSH__SEGMENT_VERSION, SPSH__FINGERPRINT_VERSION);
    rc = spsh_table_file_require(segment->file, id_of(SPSH__SEGMENT_SHARD), 16, 2, err);
    if (rc == SPSH_OK)
        rc = spsh_table_file_column(segment->file, id_of(SPSH__SEGMENT_SHARD), 0, 2, &column, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__segment_file_id(dataset, seal, file_id);
    if (memcmp(column.data, seal->file_id, 16) != 0 ||
        memcmp(column.data + 16, seal->root_hash, 16) != 0 ||
        memcmp(info->file_id, file_id, 16) != 0 ||
        memcmp(info->dataset_id, spsh_dataset_info_get(dataset)->dataset_id, 16) != 0 ||
        info->unit != seal->unit || info->number != seal->number)
        return SPSH_FAIL(err, SPSH_E_MISMATCH, "%s: the segment was made from another shard", path);
    if (info->row_count != seal->utterance_count)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: the segment has %llu utterances, but the shard has %llu", path,
                         ULL(info->row_count), ULL(seal->utterance_count));
    return SPSH_OK;
}

static uint64_t wanted_count(const spsh__segment *segment, spsh__segment_per per)
{
    switch (per) {
    case SPSH__PER_ROW: return segment->counts.rows;
    case SPSH__PER_ROW_END: return segment->counts.rows + 1;
    case SPSH__PER_PRINT: return segment->counts.prints;
    case SPSH__PER_PRINT_END: return segment->counts.prints + 1;
    case SPSH__PER_FRAME: return segment->counts.frames;
    case SPSH__PER_KEY: return segment->counts.keys;
    case SPSH__PER_CHUNK: return segment->counts.chunks;
    default: return UINT64_MAX; /* checked already */
    }
}

static spsh_status check_columns(spsh__segment *segment, spsh_error *err)
{
    const spsh_table_file *file = segment->file;
    spsh_status rc = SPSH_OK;
    segment->counts = (spsh__segment_counts){
        .rows = spsh_table_file_info_get(file)->row_count,
        .prints = spsh_table_file_count(file, id_of(SPSH__SEGMENT_PRINT_ROW)),
        .frames = spsh_table_file_count(file, id_of(SPSH__SEGMENT_WORDS)),
        .keys = spsh_table_file_count(file, id_of(SPSH__SEGMENT_KEYS)),
        .chunks = spsh_table_file_count(file, id_of(SPSH__SEGMENT_CHUNKS)),
    };
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT && rc == SPSH_OK; i++) {
        const spsh__segment_column_info *column = &spsh__segment_columns[i];
        rc = spsh_table_file_require(file, column->id, column->element_bytes,
                                     wanted_count(segment, column->per), err);
    }
    return rc;
}

char *spsh__segment_path(const spsh_dataset *dataset, const char *name)
{
    const char *directory = spsh_dataset_path(dataset);
    const size_t path_bytes =
        strlen(directory) + sizeof("/" SPSH__SEGMENT_DIRECTORY "/") + strlen(name);
    char *path = malloc(path_bytes);
    if (path != NULL)
        (void)snprintf(path, path_bytes, "%s/" SPSH__SEGMENT_DIRECTORY "%s%s", directory,
                       name[0] != '\0' ? "/" : "", name);
    return path;
}

spsh_status spsh__segment_open(const spsh_dataset *dataset, const spsh_shard_seal *seal,
                               const spsh_io *io, spsh__segment **ret_segment, spsh_error *err)
{
    char name[32];
    spsh_shard_file_name(seal->unit, seal->number, name);
    spsh__segment *segment = calloc(1, sizeof(*segment));
    char *path = spsh__segment_path(dataset, name);
    spsh_status rc = segment == NULL || path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh_table_file_open(path, io, NULL, &segment->file, err);
    if (rc == SPSH_OK)
        rc = check_identity(segment, dataset, seal, err);
    if (rc == SPSH_OK)
        rc = check_columns(segment, err);
    free(path);
    if (rc == SPSH_OK)
        *ret_segment = segment;
    else
        spsh__segment_close(segment);
    return rc;
}

void spsh__segment_close(spsh__segment *segment)
{
    if (segment == NULL)
        return;
    spsh_table_file_close(segment->file);
    free(segment);
}

const spsh__segment_counts *spsh__segment_counts_get(const spsh__segment *segment)
{
    return &segment->counts;
}

uint64_t spsh__segment_file_bytes(const spsh__segment *segment)
{
    return spsh_table_file_info_get(segment->file)->file_bytes;
}

void spsh__segment_root_hash(const spsh__segment *segment, uint8_t ret_hash[16])
{
    memcpy(ret_hash, spsh_table_file_info_get(segment->file)->root_hash, 16);
}

spsh_status spsh__segment_check(const spsh__segment *segment, spsh_error *err)
{
    return spsh_table_file_check(segment->file, err);
}

/* ---- rows and prints ---- */

spsh_status spsh__segment_row_get(const spsh__segment *segment, uint64_t row,
                                  spsh__segment_row *ret_row, spsh_error *err)
{
    spsh__segment_row value = {0};
    spsh_status rc = SPSH_OK;
#define SPSH_X(name_, member_)                                                                     \
    if (rc == SPSH_OK)                                                                             \
        rc = get(segment, SPSH__SEGMENT_##name_, row, &value.member_, sizeof(value.member_), err);
    SPSH__SEGMENT_MEMBER_MAP(SPSH_X)
#undef SPSH_X
    if (rc == SPSH_OK)
        rc = get_range(segment, SPSH__SEGMENT_PRINT_BEGIN, row, segment->counts.prints,
                       &value.first_print, &value.print_count, err);
    if (rc == SPSH_OK)
        rc = get_range(segment, SPSH__SEGMENT_CHUNK_BEGIN, row, segment->counts.chunks,
                       &value.first_chunk, &value.chunk_count, err);
    if (rc != SPSH_OK)
        return rc;
    if ((value.flags & ~FLAGS_KNOWN) != 0)
        return fail_value(segment, SPSH__SEGMENT_FLAGS, row, err);
    if (value.trim_first > value.samples || value.trim_count > value.samples - value.trim_first)
        return fail_value(segment, SPSH__SEGMENT_TRIM_COUNT, row, err);
    *ret_row = value;
    return SPSH_OK;
}

spsh_status spsh__segment_print_get(const spsh__segment *segment, uint64_t print,
                                    spsh__segment_print *ret_print, spsh_error *err)
{
    spsh__segment_print value = {0};
    spsh_status rc =
        get(segment, SPSH__SEGMENT_PRINT_ROW, print, &value.row, sizeof(value.row), err);
    if (rc == SPSH_OK)
        rc = get(segment, SPSH__SEGMENT_PRINT_CHANNEL, print, &value.channel, sizeof(value.channel),
                 err);
    if (rc == SPSH_OK)
        rc = get_range(segment, SPSH__SEGMENT_FRAME_BEGIN, print, segment->counts.frames,
                       &value.first_frame, &value.frame_count, err);
    if (rc == SPSH_OK)
        rc = get_range(segment, SPSH__SEGMENT_KEY_BEGIN, print, segment->counts.keys,
                       &value.first_key, &value.key_count, err);
    if (rc != SPSH_OK)
        return rc;
    if (value.row >= segment->counts.rows)
        return fail_value(segment, SPSH__SEGMENT_PRINT_ROW, print, err);
    *ret_print = value;
    return SPSH_OK;
}

spsh_status spsh__segment_flag_count(const spsh__segment *segment, uint32_t flag,
                                     uint64_t *ret_count, spsh_error *err)
{
    uint64_t count = 0;
    for (uint64_t row = 0; row < segment->counts.rows; row++) {
        uint32_t flags = 0;
        const spsh_status rc = get(segment, SPSH__SEGMENT_FLAGS, row, &flags, sizeof(flags), err);
        if (rc != SPSH_OK)
            return rc;
        count += (flags & flag) != 0;
    }
    *ret_count = count;
    return SPSH_OK;
}

/* ---- frames, keys, chunks ---- */

spsh_status spsh__segment_frames(const spsh__segment *segment, uint64_t first, uint64_t count,
                                 spsh__print_frame *dst, spsh_error *err)
{
    spsh_bytes words = {NULL, 0};
    spsh_bytes levels = {NULL, 0};
    spsh_status rc = spsh_table_file_column(segment->file, id_of(SPSH__SEGMENT_WORDS), first, count,
                                            &words, err);
    if (rc == SPSH_OK)
        rc = spsh_table_file_column(segment->file, id_of(SPSH__SEGMENT_LEVELS), first, count,
                                    &levels, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t i = 0; i < count; i++)
        dst[i] = (spsh__print_frame){
            .word = (uint32_t)spsh__load_le(words.data + 4 * i, 4),
            .level = levels.data[i] & (SPSH__SEGMENT_ACTIVE_BIT - 1),
            .is_active = (levels.data[i] & SPSH__SEGMENT_ACTIVE_BIT) != 0,
        };
    return SPSH_OK;
}

/* Find the owner whose range contains element `at`. The column holds the start of each owner's
 * range. */
static spsh_status find_owner(const spsh__segment *segment, spsh__segment_column column,
                              uint64_t owners, uint64_t at, uint64_t *ret_owner, spsh_error *err)
{
    uint64_t low = 0;
    uint64_t high = owners; /* the owner is in [low, high) */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        uint64_t begin = 0;
        const spsh_status rc = get(segment, column, middle, &begin, sizeof(begin), err);
        if (rc != SPSH_OK)
            return rc;
        if (begin <= at)
            low = middle;
        else
            high = middle;
    }
    *ret_owner = low;
    return SPSH_OK;
}

static bool load_key(const uint8_t *bytes, spsh__print_key *ret_key)
{
    const uint64_t mask = (UINT64_C(1) << SPSH__SEGMENT_WEAK_BITS) - 1;
    const uint64_t first = spsh__load_le(bytes, 8);
    const uint64_t second = spsh__load_le(bytes + 8, 8);
    *ret_key = (spsh__print_key){
        .bits = first & ((UINT64_C(1) << SPSH__KEY_BITS) - 1),
        .frame = second >> SPSH__SEGMENT_FRAME_SHIFT,
        .weak = {(uint8_t)(first >> SPSH__KEY_BITS & mask),
                 (uint8_t)(first >> (SPSH__KEY_BITS + SPSH__SEGMENT_WEAK_BITS) & mask),
                 (uint8_t)(second & mask)},
    };
    return first >> (SPSH__KEY_BITS + 2 * SPSH__SEGMENT_WEAK_BITS) == 0 &&
           ret_key->weak[0] < SPSH__KEY_BITS && ret_key->weak[1] < SPSH__KEY_BITS &&
           ret_key->weak[2] < SPSH__KEY_BITS;
}

spsh_status spsh__segment_keys(const spsh__segment *segment, uint64_t first, uint64_t count,
                               spsh__print_key *dst, spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    uint64_t print = 0;
    spsh__segment_print owner = {0};
    spsh_status rc =
        spsh_table_file_column(segment->file, id_of(SPSH__SEGMENT_KEYS), first, count, &bytes, err);
    if (rc != SPSH_OK || count == 0)
        return rc;
    rc = find_owner(segment, SPSH__SEGMENT_KEY_BEGIN, segment->counts.prints, first, &print, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_print_get(segment, print, &owner, err);
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        while (rc == SPSH_OK && first + i >= owner.first_key + owner.key_count)
            rc = spsh__segment_print_get(segment, ++print, &owner, err);
        if (rc == SPSH_OK &&
            (!load_key(bytes.data + 16 * i, &dst[i]) || dst[i].frame >= owner.frame_count))
            rc = fail_value(segment, SPSH__SEGMENT_KEYS, first + i, err);
    }
    return rc;
}

spsh_status spsh__segment_chunks(const spsh__segment *segment, uint64_t first, uint64_t count,
                                 spsh__chunk *dst, spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    uint64_t row = 0;
    spsh__segment_row owner = {0};
    spsh_status rc = spsh_table_file_column(segment->file, id_of(SPSH__SEGMENT_CHUNKS), first,
                                            count, &bytes, err);
    if (rc != SPSH_OK || count == 0)
        return rc;
    rc = find_owner(segment, SPSH__SEGMENT_CHUNK_BEGIN, segment->counts.rows, first, &row, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_row_get(segment, row, &owner, err);
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        const uint64_t place = spsh__load_le(bytes.data + 16 * i + 8, 8);
        dst[i] = (spsh__chunk){
            .hash = spsh__load_le(bytes.data + 16 * i, 8),
            .first_sample = place >> SPSH__SEGMENT_CHUNK_BITS,
            .samples = (uint32_t)(place & ((UINT64_C(1) << SPSH__SEGMENT_CHUNK_BITS) - 1)),
        };
        while (rc == SPSH_OK && first + i >= owner.first_chunk + owner.chunk_count)
            rc = spsh__segment_row_get(segment, ++row, &owner, err);
        if (rc == SPSH_OK &&
            (dst[i].samples == 0 || dst[i].first_sample + dst[i].samples > owner.samples))
            rc = fail_value(segment, SPSH__SEGMENT_CHUNKS, first + i, err);
    }
    return rc;
}
