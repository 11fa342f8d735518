/* block.c: block headers. */
#include "block.h"

#include "base/checksum.h"
#include "speechshard/limits.h"

#define ULL(value_) ((unsigned long long)(value_))

enum { BLOCK_ALIGNMENT = 4096 };

static const uint8_t block_magic[4] = {'S', 'P', 'B', 'K'};

bool spsh__all_zero(const uint8_t *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

void spsh__block_header_encode(const spsh__block *block, uint8_t *header)
{
    memset(header, 0, SPSH__BLOCK_HEADER_BYTES);
    spsh__store_u64le(header, block->checksum);
    memcpy(header + 8, block_magic, 4);
    spsh__store_u32le(header + 12, block->kind);
    spsh__store_u64le(header + 16, block->block_bytes);
    spsh__store_u64le(header + 24, block->used_bytes);
    spsh__store_u64le(header + 32, block->first);
    spsh__store_u32le(header + 40, block->count);
    spsh__store_u32le(header + 44, block->flags);
    spsh__store_u64le(header + 48, block->ordinal);
}

static const char *find_bad_field(const spsh__block *b)
{
    bool oversize = (b->flags & SPSH__BLOCK_OVERSIZE) != 0;
    if (b->kind != SPSH__BLOCK_RECORDS && b->kind != SPSH__BLOCK_METADATA)
        return "kind";
    if (b->flags & ~SPSH__BLOCK_OVERSIZE)
        return "flags";
    if (b->block_bytes < BLOCK_ALIGNMENT || b->block_bytes % BLOCK_ALIGNMENT != 0)
        return "block_bytes is not a multiple of 4096";
    if (oversize &&
        (b->kind != SPSH__BLOCK_RECORDS || b->count != 1 || b->block_bytes <= SPSH_BLOCK_BYTES_MAX))
        return "oversize is for one record of more than 4 MiB";
    if (b->block_bytes > (oversize ? SPSH__BLOCK_OVERSIZE_BYTES_MAX : SPSH_BLOCK_BYTES_MAX))
        return "block_bytes is too large";
    if (b->used_bytes <= SPSH__BLOCK_HEADER_BYTES || b->used_bytes > b->block_bytes)
        return "used_bytes";
    if (b->count == 0)
        return "count";
    if (b->first > SPSH_SHARD_RECORDS_MAX || b->first + b->count > SPSH_SHARD_RECORDS_MAX)
        return "first and count are above 2^31";
    return NULL;
}

spsh_status spsh__block_header_decode(const uint8_t *header, uint64_t offset_bytes,
                                      const char *path, spsh__block *ret_block, spsh_error *err)
{
    const char *bad = NULL;
    spsh__block block = {
        .checksum = spsh__load_u64le(header),
        .kind = spsh__load_u32le(header + 12),
        .block_bytes = spsh__load_u64le(header + 16),
        .used_bytes = spsh__load_u64le(header + 24),
        .first = spsh__load_u64le(header + 32),
        .count = spsh__load_u32le(header + 40),
        .flags = spsh__load_u32le(header + 44),
        .ordinal = spsh__load_u64le(header + 48),
    };
    if (memcmp(header + 8, block_magic, 4) != 0)
        bad = "magic";
    if (bad == NULL)
        bad = find_bad_field(&block);
    if (bad == NULL && spsh__load_u64le(header + 56) != 0)
        bad = "reserved bytes are not 0";
    if (bad != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                            "%s: invalid block header at %llu: %s", path, ULL(offset_bytes), bad);
    *ret_block = block;
    return SPSH_OK;
}

uint64_t spsh__block_seal(const uint8_t file_id[16], uint64_t offset_bytes, uint8_t *data,
                          size_t block_bytes)
{
    uint64_t checksum = spsh__checksum(file_id, offset_bytes, data + 8, block_bytes - 8);
    spsh__store_u64le(data, checksum);
    return checksum;
}

spsh_status spsh__block_check(const uint8_t file_id[16], uint64_t offset_bytes, const uint8_t *data,
                              const spsh__block *block, const char *path, spsh_error *err)
{
    size_t size = (size_t)block->block_bytes;
    uint64_t found = spsh__checksum(file_id, offset_bytes, data + 8, size - 8);
    if (found != block->checksum)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                            "%s: block %llu at %llu: checksum 0x%016llx, expected 0x%016llx", path,
                            ULL(block->ordinal), ULL(offset_bytes), ULL(found),
                            ULL(block->checksum));
    for (size_t i = (size_t)block->used_bytes; i < size; i++)
        if (data[i] != 0)
            return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes + i,
                                "%s: block %llu at %llu: padding at byte %zu is not 0", path,
                                ULL(block->ordinal), ULL(offset_bytes), i);
    return SPSH_OK;
}
