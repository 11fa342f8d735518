/* salvage.c: scan the grids on which blocks (4096) and record heads (64) begin.
 *
 * A candidate has the magic number. It counts if its checksum is right. A checksum covers the whole
 * block, so a block that is found is intact, and the scan continues at its end.
 */
#include "salvage.h"

#include "container.h"
#include "io/io_internal.h"

#include <errno.h>

#define CHUNK_BYTES ((size_t)1 << 20)

static const uint8_t block_magic[4] = {'S', 'P', 'B', 'K'};
static const uint8_t record_magic[4] = {'S', 'R', 'E', 'C'};

/* Call pread once, and retry after interruptions. Returns a byte count or a negative errno. */
static int64_t read_once(const spsh__salvage *file, void *dst, size_t size_bytes, uint64_t offset)
{
    int64_t got = -EINTR;
    while (got == -EINTR)
        got = file->io->pread_fn(file->io->user, file->fd, dst, size_bytes, offset);
    return got;
}

/* Fill dst as far as the file and its medium allow; the rest is zero. */
static void read_what_comes(const spsh__salvage *file, uint8_t *dst, size_t size_bytes,
                            uint64_t offset)
{
    size_t at = 0;
    memset(dst, 0, size_bytes);
    while (at < size_bytes) {
        int64_t got = read_once(file, dst + at, size_bytes - at, offset + at);
        if (got == 0)
            return;
        if (got > 0) {
            at += (size_t)got;
            continue;
        }
        /* The medium fails somewhere in this range: read page by page. */
        size_t page_end = (size_t)(spsh__align_up(offset + at + 1, SPSH__PAGE_BYTES) - offset);
        size_t size = page_end < size_bytes ? page_end - at : size_bytes - at;
        if (read_once(file, dst + at, size, offset + at) < (int64_t)size)
            memset(dst + at, 0, size);
        at += size;
    }
}

spsh_status spsh__salvage_bytes(const spsh__salvage *file, uint64_t offset_bytes, size_t size_bytes,
                                uint8_t **ret_data, spsh_error *err)
{
    uint8_t *data = spsh__alloc(file->allocator, size_bytes);
    if (data == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, offset_bytes, "%s: %zu bytes of a block",
                            file->path, size_bytes);
    read_what_comes(file, data, size_bytes, offset_bytes);
    *ret_data = data;
    return SPSH_OK;
}

/* Check whether an intact block begins with the page at offset_bytes. SPSH_E_END if not. */
static spsh_status try_block(const spsh__salvage *file, const uint8_t *page, uint64_t offset_bytes,
                             spsh__salvaged_block *ret_block, spsh_error *err)
{
    spsh__block block;
    uint8_t *data = NULL;
    if (memcmp(page + 8, block_magic, 4) != 0 ||
        spsh__block_header_decode(page, offset_bytes, file->path, &block, NULL) != SPSH_OK ||
        block.block_bytes > file->end_bytes - offset_bytes)
        return SPSH_E_END;
    spsh_status rc = spsh__salvage_bytes(file, offset_bytes, (size_t)block.block_bytes, &data, err);
    if (rc != SPSH_OK)
        return rc;
    if (memcmp(data, page, SPSH__BLOCK_HEADER_BYTES) != 0 ||
        spsh__block_check(file->file_id, offset_bytes, data, &block, file->path, NULL) != SPSH_OK) {
        spsh__free(file->allocator, data);
        return SPSH_E_END;
    }
    *ret_block = (spsh__salvaged_block){offset_bytes, block, data};
    return SPSH_OK;
}

spsh_status spsh__salvage_block(const spsh__salvage *file, uint64_t offset_bytes,
                                spsh__salvaged_block *ret_block, spsh_error *err)
{
    /* Usually the next block follows directly, and one page is enough to recognize it. */
    size_t chunk_bytes = SPSH__PAGE_BYTES;
    uint8_t *chunk = spsh__alloc(file->allocator, CHUNK_BYTES);
    spsh_status rc = SPSH_E_END;
    if (chunk == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, offset_bytes, "%s: scan for blocks", file->path);
    while (rc == SPSH_E_END && offset_bytes < file->end_bytes) {
        uint64_t left = file->end_bytes - offset_bytes;
        size_t size = left < chunk_bytes ? (size_t)left : chunk_bytes;
        read_what_comes(file, chunk, size, offset_bytes);
        for (size_t at = 0; rc == SPSH_E_END && at + SPSH__PAGE_BYTES <= size;
             at += SPSH__PAGE_BYTES)
            rc = try_block(file, chunk + at, offset_bytes + at, ret_block, err);
        offset_bytes += size;
        chunk_bytes = CHUNK_BYTES;
    }
    spsh__free(file->allocator, chunk);
    return rc;
}

bool spsh__salvage_head(const uint8_t file_id[16], uint64_t offset_bytes, spsh_bytes data,
                        size_t at, size_t *ret_at, spsh__record_head *ret_head)
{
    for (; at + SPSH__RECORD_FIXED_BYTES <= data.size_bytes; at += SPSH__RECORD_ALIGNMENT) {
        const spsh_bytes rest = {data.data + at, data.size_bytes - at};
        if (memcmp(rest.data + 8, record_magic, 4) == 0 &&
            spsh__record_head_decode(file_id, offset_bytes + at, rest, "", ret_head, NULL) ==
                SPSH_OK) {
            *ret_at = at;
            return true;
        }
    }
    return false;
}
