/* reseal.c: from the inside out: payload pages, record heads, blocks, index pages, page
 * table, header, root hash, footers. Offsets come from the last footer, which is not checked. */
#include "reseal.h"

#include "base/base_internal.h"
#include "base/checksum.h"

enum {
    BLOCKS_MAX = 1024,
};

#define PAGE         UINT64_C(4096)
#define SECTION_PAGE UINT64_C(65536)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the record's size, or 0 if it does not end within size. */
static uint64_t reseal_record(const uint8_t *file_id, uint8_t *data, uint64_t offset, uint64_t size,
                              bool pages)
{
    uint8_t *r = data + offset;
    if (size < 128)
        return 0;
    uint64_t head_bytes = spsh__load_u32le(r + 12);
    uint64_t payload = spsh__load_u64le(r + 16);
    uint64_t id_bytes = spsh__load_u32le(r + 60);
    uint64_t at = 128 + spsh__align_up(id_bytes, 8) + (uint64_t)spsh__load_u32le(r + 96) * 16;
    if (head_bytes < 128 || head_bytes > size || payload > size - head_bytes)
        return 0;
    uint64_t padded = least(spsh__align_up(payload, 64), size - head_bytes);
    for (uint64_t page = 0; pages && page * SECTION_PAGE < padded; page++) {
        uint64_t begin = head_bytes + page * SECTION_PAGE;
        uint64_t page_bytes = least(SECTION_PAGE, padded - page * SECTION_PAGE);
        if (at + page * 8 + 8 > head_bytes)
            break;
        spsh__store_u64le(r + at + page * 8,
                          spsh__checksum(file_id, offset + begin, r + begin, (size_t)page_bytes));
    }
    spsh__store_u64le(r, spsh__checksum(file_id, offset, r + 8, (size_t)head_bytes - 8));
    return head_bytes + padded;
}

static void reseal_records(const uint8_t *file_id, uint8_t *data, uint64_t offset, uint64_t size,
                           bool pages)
{
    uint32_t count = spsh__load_u32le(data + offset + 40);
    uint64_t at = 64;
    for (uint32_t i = 0; i < count && at < size; i++) {
        uint64_t record_bytes = reseal_record(file_id, data, offset + at, size - at, pages);
        if (record_bytes == 0)
            return;
        at += record_bytes;
    }
}

static size_t reseal_blocks(const uint8_t *file_id, uint8_t *data, uint64_t end, bool pages,
                            uint64_t *checksums)
{
    size_t count = 0;
    uint64_t at = PAGE;
    while (at + PAGE <= end && count < BLOCKS_MAX) {
        uint64_t size = spsh__load_u64le(data + at + 16);
        if (size < 64 || size > end - at)
            break;
        if (spsh__load_u32le(data + at + 12) == 1)
            reseal_records(file_id, data, at, size, pages);
        checksums[count] = spsh__checksum(file_id, at, data + at + 8, (size_t)size - 8);
        spsh__store_u64le(data + at, checksums[count++]);
        at += size;
    }
    return count;
}

static void root_hash(const uint8_t *data, const uint64_t *checksums, size_t count,
                      uint64_t table_checksum, uint8_t *ret_hash)
{
    uint8_t all[8 * (BLOCKS_MAX + 2)];
    memcpy(all, data + 8, 8);
    for (size_t i = 0; i < count; i++)
        spsh__store_u64le(all + 8 + 8 * i, checksums[i]);
    spsh__store_u64le(all + 8 + 8 * count, table_checksum);
    spsh__hash128(all, 16 + 8 * count, ret_hash);
}

static void reseal_all(uint8_t *data, size_t size_bytes, bool pages)
{
    static const uint8_t magic[8] = {'S', 'P', 'S', 'H', 'E', 'N', 'D', 0x0A};
    uint64_t checksums[BLOCKS_MAX];
    if (size_bytes < 3 * PAGE)
        return;
    const uint8_t *file_id = data + 16;
    uint8_t *last = data + size_bytes - PAGE;
    uint64_t area = spsh__load_u64le(last + 32);
    uint64_t area_bytes = spsh__load_u64le(last + 40);
    uint64_t table = spsh__load_u64le(last + 48);
    uint64_t table_bytes = spsh__load_u64le(last + 56);
    uint64_t end = size_bytes - 2 * PAGE;
    size_t blocks = reseal_blocks(file_id, data, least(area, end), pages, checksums);
    uint64_t table_checksum = spsh__load_u64le(last + 72);
    if (table <= end && table_bytes <= end - table && area <= end && area_bytes <= end - area) {
        for (uint64_t page = 0; page * SECTION_PAGE < area_bytes; page++) {
            uint64_t begin = area + page * SECTION_PAGE;
            uint64_t page_bytes = least(SECTION_PAGE, area_bytes - page * SECTION_PAGE);
            if (page * 8 + 8 <= table_bytes)
                spsh__store_u64le(data + table + page * 8,
                                  spsh__checksum(file_id, begin, data + begin, (size_t)page_bytes));
        }
        table_checksum = spsh__checksum(file_id, table, data + table, (size_t)table_bytes);
    }
    spsh__store_u64le(data + 8, spsh__checksum(file_id, 0, data + 16, PAGE - 16));
    for (uint64_t copy = 0; copy < 2; copy++) {
        uint8_t *footer = last - PAGE + copy * PAGE;
        memcpy(footer, file_id, 16);
        spsh__store_u64le(footer + 72, table_checksum);
        root_hash(data, checksums, blocks, table_checksum, footer + 88);
        spsh__store_u64le(footer + 4080,
                          spsh__checksum(file_id, (uint64_t)(footer - data), footer, 4080));
        memcpy(footer + 4088, magic, 8);
    }
}

void reseal(uint8_t *data, size_t size_bytes)
{
    reseal_all(data, size_bytes, true);
}

void reseal_but_pages(uint8_t *data, size_t size_bytes)
{
    reseal_all(data, size_bytes, false);
}
