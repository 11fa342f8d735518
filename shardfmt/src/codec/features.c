/* features.c: payloads of the codec `features` (format-features.md).
 *
 *     head, 40 bytes | stored_bytes of each block, u32 | blocks
 *
 * The values of adjacent frames have similar signs and exponents and differ in the other bits. So a
 * block is stored as byte planes (all lowest bytes, then all next ones, ...), which LZ4 makes about
 * a quarter smaller for log-mel. LZ4 finds nothing in the original order (docs/BENCHMARKS.md). If
 * even the planes save little, the rows are stored unchanged, and reading is copying.
 */
#include "speechshard/features.h"

#include <lz4.h>

#include "base/base_internal.h"
#include "base/checksum.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    VERSION = 1,
    HEAD_BYTES = 40,
    SOURCE_AT = 24,
    WRITTEN_BYTES = 65536, /* row bytes per written block: LZ4's window */
    SAVED_PART = 32,       /* LZ4 must save this part of a block at least */
};

/* A payload whose head was checked. */
typedef struct layout {
    spsh_features_info info;
    uint64_t block_count;
    size_t row_bytes;
    size_t block_bytes; /* row bytes of every block except the last */
} layout;

static uint64_t block_count_of(const spsh_features_info *info)
{
    return info->frame_count / info->block_frames + (info->frame_count % info->block_frames != 0);
}

static uint64_t frames_of_block(const layout *l, uint64_t block)
{
    const uint64_t first = block * l->info.block_frames;
    const uint64_t left = l->info.frame_count - first;
    return left < l->info.block_frames ? left : l->info.block_frames;
}

static bool is_shape(uint32_t dim, uint32_t value_bytes)
{
    return dim > 0 && dim <= SPSH_FEATURES_DIM_MAX && (value_bytes == 2 || value_bytes == 4);
}

static uint32_t written_block_frames(uint32_t dim, uint32_t value_bytes)
{
    const uint32_t frames = WRITTEN_BYTES / (dim * value_bytes);
    return frames > 0 ? frames : 1;
}

/* ---- writing ---- */

size_t spsh_features_bound(uint64_t frame_count, uint32_t dim, uint32_t value_bytes)
{
    if (!is_shape(dim, value_bytes) ||
        frame_count > SPSH_PCM_BYTES_MAX / ((uint64_t)dim * value_bytes))
        return SIZE_MAX;
    const spsh_features_info info = {.frame_count = frame_count,
                                     .block_frames = written_block_frames(dim, value_bytes)};
    /* The planes of the current block are at the end. */
    return (size_t)(HEAD_BYTES + 4 * block_count_of(&info) + frame_count * dim * value_bytes) +
           SPSH_FEATURES_BLOCK_BYTES;
}

static void put_head(const spsh_features_info *info, uint8_t *payload)
{
    memset(payload, 0, HEAD_BYTES);
    payload[0] = VERSION;
    payload[1] = (uint8_t)info->value_bytes;
    spsh__store_u32le(payload + 4, info->dim);
    spsh__store_u32le(payload + 8, info->block_frames);
    spsh__store_u64le(payload + 16, info->frame_count);
    memcpy(payload + SOURCE_AT, info->source, sizeof(info->source));
}

static void to_planes(const uint8_t *rows, size_t value_count, size_t value_bytes, uint8_t *planes)
{
    for (size_t b = 0; b < value_bytes; b++)
        for (size_t i = 0; i < value_count; i++)
            planes[b * value_count + i] = rows[i * value_bytes + b];
}

/* Returns the stored bytes. */
static size_t put_block(const uint8_t *rows, size_t rows_bytes, size_t value_bytes, uint8_t *planes,
                        uint8_t *to)
{
    const size_t most = rows_bytes - rows_bytes / SAVED_PART - 1;
    to_planes(rows, rows_bytes / value_bytes, value_bytes, planes);
    const int stored =
        LZ4_compress_default((const char *)planes, (char *)to, (int)rows_bytes, (int)most);
    if (stored > 0)
        return (size_t)stored;
    memcpy(to, rows, rows_bytes);
    return rows_bytes;
}

spsh_status spsh_features_encode(const spsh_features_info *info, const void *rows, uint8_t *payload,
                                 size_t capacity_bytes, size_t *ret_payload_bytes, spsh_error *err)
{
    layout l = {.info = *info};
    const size_t bound = spsh_features_bound(info->frame_count, info->dim, info->value_bytes);
    if (!is_shape(info->dim, info->value_bytes) || (rows == NULL && info->frame_count > 0) ||
        payload == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "features: %u values of %u bytes a frame, or no memory given", info->dim,
                         info->value_bytes);
    if (bound == SIZE_MAX || capacity_bytes < bound)
        return SPSH_FAIL(
            err, SPSH_E_LIMIT,
            "features: %llu frames of %u values need %zu bytes, but the buffer has %zu",
            ULL(info->frame_count), info->dim, bound, capacity_bytes);
    l.info.block_frames = written_block_frames(info->dim, info->value_bytes);
    l.block_count = rows != NULL ? block_count_of(&l.info) : 0; /* no frames: no blocks */
    l.row_bytes = (size_t)info->dim * info->value_bytes;
    put_head(&l.info, payload);
    uint8_t *directory = payload + HEAD_BYTES;
    uint8_t *to = directory + 4 * l.block_count;
    const uint8_t *from = (const uint8_t *)rows;
    for (uint64_t block = 0; block < l.block_count; block++) {
        const size_t rows_bytes = (size_t)frames_of_block(&l, block) * l.row_bytes;
        const size_t stored = put_block(from, rows_bytes, info->value_bytes,
                                        payload + bound - SPSH_FEATURES_BLOCK_BYTES, to);
        spsh__store_u32le(directory + 4 * block, (uint32_t)stored);
        from += rows_bytes;
        to += stored;
    }
    *ret_payload_bytes = (size_t)(to - payload);
    return SPSH_OK;
}

void spsh_features_hash(const spsh_features_info *info, const void *rows, uint8_t ret_hash[16])
{
    uint8_t bytes[32];
    spsh__store_u32le(bytes, info->value_bytes);
    spsh__store_u32le(bytes + 4, info->dim);
    spsh__store_u64le(bytes + 8, info->frame_count);
    spsh__hash128(rows, (size_t)(info->frame_count * info->dim * info->value_bytes), bytes + 16);
    spsh__hash128(bytes, sizeof(bytes), ret_hash);
}

/* ---- reading ---- */

static spsh_status take_shape(const uint8_t *payload, size_t payload_bytes, layout *l,
                              spsh_error *err)
{
    spsh_features_info *info = &l->info;
    if (payload_bytes < HEAD_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, payload_bytes,
                            "features: the payload has %zu bytes, but its header needs %d",
                            payload_bytes, HEAD_BYTES);
    if (payload[0] != VERSION)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 0,
                            "features: version %u, but this reader knows version %d", payload[0],
                            VERSION);
    info->value_bytes = payload[1];
    info->dim = spsh__load_u32le(payload + 4);
    info->block_frames = spsh__load_u32le(payload + 8);
    info->frame_count = spsh__load_u64le(payload + 16);
    memcpy(info->source, payload + SOURCE_AT, sizeof(info->source));
    if (spsh__load_u16le(payload + 2) != 0 || spsh__load_u32le(payload + 12) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 2, "features: reserved bytes are not 0");
    if (info->value_bytes != 2 && info->value_bytes != 4)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 1, "features: values of %u bytes, expected 2 or 4",
                            info->value_bytes);
    if (info->dim == 0 || info->block_frames == 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 4,
                            "features: %u values a frame, %u frames a block", info->dim,
                            info->block_frames);
    if (info->dim > SPSH_FEATURES_DIM_MAX ||
        info->frame_count > SPSH_PCM_BYTES_MAX / ((uint64_t)info->dim * info->value_bytes) ||
        info->block_frames > SPSH_FEATURES_BLOCK_BYTES / (info->dim * info->value_bytes))
        return SPSH_FAIL_AT(
            err, SPSH_E_LIMIT, 4,
            "features: %llu frames of %u values, %u frames per block, exceed the limits",
            ULL(info->frame_count), info->dim, info->block_frames);
    return SPSH_OK;
}

/* The head, and each block's stored bytes. */
static spsh_status check(const uint8_t *payload, size_t payload_bytes, layout *l, spsh_error *err)
{
    spsh_status rc = take_shape(payload, payload_bytes, l, err);
    if (rc != SPSH_OK)
        return rc;
    l->row_bytes = (size_t)l->info.dim * l->info.value_bytes;
    l->block_bytes = l->info.block_frames * l->row_bytes;
    l->block_count = block_count_of(&l->info);
    if (l->block_count > (payload_bytes - HEAD_BYTES) / 4)
        return SPSH_FAIL_AT(
            err, SPSH_E_TRUNCATED, payload_bytes,
            "features: the payload has %zu bytes, which is too few for a directory of %llu blocks",
            payload_bytes, ULL(l->block_count));
    uint64_t end = HEAD_BYTES + 4 * l->block_count;
    for (uint64_t block = 0; block < l->block_count; block++) {
        const uint64_t at = HEAD_BYTES + 4 * block;
        const uint64_t stored = spsh__load_u32le(payload + at);
        const uint64_t rows_bytes = frames_of_block(l, block) * l->row_bytes;
        if (stored == 0 || stored > rows_bytes)
            return SPSH_FAIL_AT(
                err, SPSH_E_CORRUPT, at,
                "features: block %llu is stored in %llu bytes, but its rows have only %llu",
                ULL(block), ULL(stored), ULL(rows_bytes));
        end += stored;
        if (end > payload_bytes)
            return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, payload_bytes,
                                "features: the payload has %zu bytes, but block %llu ends at %llu",
                                payload_bytes, ULL(block), ULL(end));
    }
    if (end != payload_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, end,
                            "features: the last block ends at %llu of %zu bytes", ULL(end),
                            payload_bytes);
    return SPSH_OK;
}

spsh_status spsh_features_inspect(const uint8_t *payload, size_t payload_bytes,
                                  spsh_features_info *ret_info, spsh_error *err)
{
    layout l;
    const spsh_status rc = check(payload, payload_bytes, &l, err);
    if (rc == SPSH_OK)
        *ret_info = l.info;
    return rc;
}

/* Part of a block of planes. */
static void from_planes(const uint8_t *planes, size_t plane_bytes, size_t value_bytes,
                        size_t value_count, uint8_t *rows)
{
    if (value_bytes == 2) {
        for (size_t i = 0; i < value_count; i++) {
            rows[2 * i] = planes[i];
            rows[2 * i + 1] = planes[plane_bytes + i];
        }
        return;
    }
    for (size_t i = 0; i < value_count; i++) {
        rows[4 * i] = planes[i];
        rows[4 * i + 1] = planes[plane_bytes + i];
        rows[4 * i + 2] = planes[2 * plane_bytes + i];
        rows[4 * i + 3] = planes[3 * plane_bytes + i];
    }
}

/* Frames [first, first + count) of a block at offset `at` of the payload. */
typedef struct block_part {
    spsh_bytes stored;
    uint64_t at;
    size_t rows_bytes; /* row bytes of the whole block */
    size_t first_bytes, size_bytes;
} block_part;

static spsh_status decode_part(const layout *l, const block_part *part, uint8_t *rows,
                               uint8_t *scratch, spsh_error *err)
{
    const size_t value_bytes = l->info.value_bytes;
    if (part->stored.size_bytes == part->rows_bytes) {
        memcpy(rows, part->stored.data + part->first_bytes, part->size_bytes);
        return SPSH_OK;
    }
    const int got = LZ4_decompress_safe((const char *)part->stored.data, (char *)scratch,
                                        (int)part->stored.size_bytes, (int)part->rows_bytes);
    if (got < 0 || (size_t)got != part->rows_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, part->at,
                            "features: the block at %llu does not decompress to %zu bytes",
                            ULL(part->at), part->rows_bytes);
    from_planes(scratch + part->first_bytes / value_bytes, part->rows_bytes / value_bytes,
                value_bytes, part->size_bytes / value_bytes, rows);
    return SPSH_OK;
}

spsh_status spsh_features_decode(spsh_bytes payload, uint64_t first_frame, uint64_t frame_count,
                                 void *rows, void *scratch, spsh_error *err)
{
    layout l;
    spsh_status rc = check(payload.data, payload.size_bytes, &l, err);
    if (rc != SPSH_OK)
        return rc;
    if (first_frame > l.info.frame_count || frame_count > l.info.frame_count - first_frame)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "features: frames %llu to %llu do not exist; there are %llu frames",
                         ULL(first_frame), ULL(first_frame + frame_count), ULL(l.info.frame_count));
    const uint64_t end_frame = first_frame + frame_count;
    uint64_t at = HEAD_BYTES + 4 * l.block_count;
    uint8_t *to = (uint8_t *)rows;
    for (uint64_t block = 0; block < l.block_count && rc == SPSH_OK; block++) {
        const uint64_t begin = block * l.info.block_frames;
        const uint64_t end = begin + frames_of_block(&l, block);
        const size_t stored = spsh__load_u32le(payload.data + HEAD_BYTES + 4 * block);
        const uint64_t from = first_frame > begin ? first_frame : begin;
        const uint64_t until = end_frame < end ? end_frame : end;
        if (from < until) {
            const block_part part = {
                .stored = {payload.data + at, stored},
                .at = at,
                .rows_bytes = (size_t)(end - begin) * l.row_bytes,
                .first_bytes = (size_t)(from - begin) * l.row_bytes,
                .size_bytes = (size_t)(until - from) * l.row_bytes
            };
            rc = decode_part(&l, &part, to, (uint8_t *)scratch, err);
            to += part.size_bytes;
        }
        at += stored;
    }
    return rc;
}
