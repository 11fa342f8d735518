/* container.c: encode, decode, and open the parts that every .spsh file shares (FORMAT.md 2).
 *
 * Opening reads header and footers with pread, compares the file's size with the footer's, and only
 * then maps section area and page table. Then it checks the table's checksum and copies the
 * directory into memory in host form. All other pages are checked when they are first touched: bit
 * p of a bitmap means that page p is good. Two threads may check the same page at once. Both get
 * the same result and set the same bit.
 *
 * A sealed file never shrinks. If another process truncates it while it is mapped, or the disk
 * cannot read a mapped page, the process ends with SIGBUS, as with any mapped file.
 */
#include "container.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/checksum.h"
#include "block.h"
#include "io/io_internal.h"
#include "speechshard/limits.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    DIRECTORY_ENTRY_BYTES = 40,
    SECTION_ALIGNMENT = 64,
    FOOTER_CHECKSUM_AT = 4080,
    SLOTS = 128,      /* section ids below this are found without searching */
    HASH_BATCH = 512, /* block checksums hashed at once */
    FORMAT_MAJOR = 1,
    FETCH_PAGES = 16, /* 1 MiB of read-ahead */
};

static const uint8_t header_magic[8] = {0x89, 'S', 'P', 'S', 'H', 0x0D, 0x0A, 0x1A};
static const uint8_t footer_magic[8] = {'S', 'P', 'S', 'H', 'E', 'N', 'D', 0x0A};

typedef struct section_place {
    uint32_t id;
    uint32_t element_bytes;
    uint64_t offset_bytes;
    uint64_t count;
} section_place;

typedef struct page_word {
    _Atomic uint64_t bits;
} page_word;

struct spsh__container {
    const spsh_io *io;
    spsh_allocator allocator;
    char *path;
    int fd;
    spsh__header header;
    spsh__footer footer;
    uint64_t header_checksum;
    uint8_t *mapping; /* NULL when there are no sections */
    size_t mapping_bytes;
    const uint8_t *area; /* section area, inside mapping */
    const uint8_t *page_table;
    page_word *checked_pages; /* bit p % 64 of word p / 64: page p is good */
    section_place *sections;
    uint16_t slots[SLOTS]; /* section number + 1 by id, 0: absent */
};

/* ---- header ---- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"file of unknown kind", "shard",     "manifest",
                                        "dataset index",        "overlay",   "fingerprint segment",
                                        "statistics",           "checkpoint"};
    return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

void spsh__header_encode(const spsh__header *header, uint8_t *page)
{
    memset(page, 0, SPSH__PAGE_BYTES);
    memcpy(page, header_magic, 8);
    memcpy(page + 16, header->file_id, 16);
    spsh__store_u32le(page + 32, header->kind);
    spsh__store_u16le(page + 36, FORMAT_MAJOR);
    memcpy(page + 64, header->dataset_id, 16);
    spsh__store_u64le(page + 80, header->ordinal);
    spsh__store_u32le(page + 88, header->sub_ordinal);
    spsh__store_u32le(page + 92, SPSH__SECTION_PAGE);
    spsh__store_u64le(page + 96, header->first_record);
    spsh__store_u64le(page + 104, header->first_utterance);
    spsh__store_u64le(page + 8,
                      spsh__checksum(header->file_id, 0, page + 16, SPSH__PAGE_BYTES - 16));
}

/* Check the fields of a header whose checksum is good. */
static spsh_status check_header_fields(const uint8_t *page, const char *path, spsh_error *err)
{
    uint32_t kind = spsh__load_u32le(page + 32);
    uint32_t version_major = spsh__load_u16le(page + 36);
    uint64_t refuse = spsh__load_u64le(page + 56);
    if (version_major != FORMAT_MAJOR)
        return SPSH_FAIL_AT(
            err, SPSH_E_VERSION, 36,
            "%s: format version %u, but this reader knows version %d; use a newer version", path,
            version_major, FORMAT_MAJOR);
    if (refuse != 0)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 56,
                            "%s: the file needs features 0x%llx, which this version does not know; "
                            "use a newer version",
                            path, ULL(refuse));
    if (kind < SPSH__KIND_SHARD || kind > SPSH__KIND_CHECKPOINT)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 32, "%s: header: kind %u, expected 1 to 7", path,
                            kind);
    if (spsh__load_u32le(page + 92) != SPSH__SECTION_PAGE)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 92, "%s: header: page_bytes %u, expected %u", path,
                            spsh__load_u32le(page + 92), SPSH__SECTION_PAGE);
    if (kind != SPSH__KIND_SHARD && kind != SPSH__KIND_FINGERPRINT &&
        kind != SPSH__KIND_CHECKPOINT && !spsh__all_zero(page + 88, 4))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 88, "%s: header: sub_ordinal of a %s is not 0",
                            path, kind_name(kind));
    if (kind != SPSH__KIND_SHARD && !spsh__all_zero(page + 96, 16))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 96,
                            "%s: header: first_record or first_utterance of a %s is not 0", path,
                            kind_name(kind));
    if (!spsh__all_zero(page + 112, SPSH__PAGE_BYTES - 112))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 112, "%s: header: reserved bytes are not 0", path);
    return SPSH_OK;
}

bool spsh__header_is_ours(const uint8_t *bytes, size_t size_bytes)
{
    return size_bytes >= sizeof(header_magic) &&
           memcmp(bytes, header_magic, sizeof(header_magic)) == 0;
}

spsh_status spsh__header_decode(const uint8_t *page, const char *path, spsh__header *ret_header,
                                spsh_error *err)
{
    if (!spsh__header_is_ours(page, SPSH__PAGE_BYTES))
        return SPSH_FAIL_AT(err, SPSH_E_NOT_SPEECHSHARD, 0, "%s: not a speechshard file", path);
    uint64_t expected = spsh__load_u64le(page + 8);
    uint64_t found = spsh__checksum(page + 16, 0, page + 16, SPSH__PAGE_BYTES - 16);
    if (expected != found)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 0,
                            "%s: header at 0: checksum 0x%016llx, expected 0x%016llx", path,
                            ULL(found), ULL(expected));
    spsh_status rc = check_header_fields(page, path, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(ret_header->file_id, page + 16, 16);
    ret_header->kind = spsh__load_u32le(page + 32);
    memcpy(ret_header->dataset_id, page + 64, 16);
    ret_header->ordinal = spsh__load_u64le(page + 80);
    ret_header->sub_ordinal = spsh__load_u32le(page + 88);
    ret_header->first_record = spsh__load_u64le(page + 96);
    ret_header->first_utterance = spsh__load_u64le(page + 104);
    ret_header->features_readonly = spsh__load_u64le(page + 48);
    return SPSH_OK;
}

/* ---- footer ---- */

static uint64_t footer_offset(uint64_t file_bytes, uint32_t copy)
{
    return file_bytes - SPSH__FOOTERS_BYTES + (uint64_t)copy * SPSH__PAGE_BYTES;
}

void spsh__footer_encode(const spsh__footer *footer, uint32_t copy, uint8_t *page)
{
    memset(page, 0, SPSH__PAGE_BYTES);
    memcpy(page, footer->file_id, 16);
    spsh__store_u32le(page + 16, footer->kind);
    spsh__store_u32le(page + 20, footer->section_count);
    spsh__store_u64le(page + 24, footer->file_bytes);
    spsh__store_u64le(page + 32, footer->section_area_offset);
    spsh__store_u64le(page + 40, footer->section_area_bytes);
    spsh__store_u64le(page + 48, footer->page_table_offset);
    spsh__store_u64le(page + 56, footer->page_table_bytes);
    spsh__store_u64le(page + 64, footer->page_count);
    spsh__store_u64le(page + 72, footer->page_table_checksum);
    spsh__store_u64le(page + 80, footer->block_count);
    memcpy(page + 88, footer->root_hash, 16);
    spsh__store_u64le(page + 104, footer->record_count);
    spsh__store_u64le(page + 112, footer->utterance_count);
    spsh__store_u32le(page + 120, copy);
    spsh__store_u64le(page + FOOTER_CHECKSUM_AT,
                      spsh__checksum(footer->file_id, footer_offset(footer->file_bytes, copy), page,
                                     FOOTER_CHECKSUM_AT));
    memcpy(page + FOOTER_CHECKSUM_AT + 8, footer_magic, 8);
}

static void footer_load(const uint8_t *page, spsh__footer *ret_footer)
{
    memcpy(ret_footer->file_id, page, 16);
    ret_footer->kind = spsh__load_u32le(page + 16);
    ret_footer->section_count = spsh__load_u32le(page + 20);
    ret_footer->file_bytes = spsh__load_u64le(page + 24);
    ret_footer->section_area_offset = spsh__load_u64le(page + 32);
    ret_footer->section_area_bytes = spsh__load_u64le(page + 40);
    ret_footer->page_table_offset = spsh__load_u64le(page + 48);
    ret_footer->page_table_bytes = spsh__load_u64le(page + 56);
    ret_footer->page_count = spsh__load_u64le(page + 64);
    ret_footer->page_table_checksum = spsh__load_u64le(page + 72);
    ret_footer->block_count = spsh__load_u64le(page + 80);
    memcpy(ret_footer->root_hash, page + 88, 16);
    ret_footer->record_count = spsh__load_u64le(page + 104);
    ret_footer->utterance_count = spsh__load_u64le(page + 112);
}

/* The parts fill the file without gaps. Sums cannot overflow: each term is bounded by file_bytes
 * first. */
static const char *find_bad_layout(const spsh__footer *f)
{
    if (f->section_area_offset > f->file_bytes || f->section_area_bytes > f->file_bytes ||
        f->page_table_bytes > f->file_bytes)
        return "a part is larger than the file";
    if (f->section_area_offset < SPSH__PAGE_BYTES || f->section_area_offset % SPSH__PAGE_BYTES != 0)
        return "section_area_offset";
    if (f->section_area_bytes % SPSH__PAGE_BYTES != 0)
        return "section_area_bytes is not a multiple of 4096";
    if (f->page_table_offset != f->section_area_offset + f->section_area_bytes)
        return "page_table_offset";
    if (f->page_count != (f->section_area_bytes + SPSH__SECTION_PAGE - 1) / SPSH__SECTION_PAGE)
        return "page_count";
    if (f->page_table_bytes != spsh__align_up(f->page_count * 8, SPSH__PAGE_BYTES))
        return "page_table_bytes";
    if (f->page_table_offset + f->page_table_bytes + SPSH__FOOTERS_BYTES != f->file_bytes)
        return "the parts do not fill the file";
    if ((uint64_t)f->section_count * DIRECTORY_ENTRY_BYTES > f->section_area_bytes)
        return "the section directory extends past the section area";
    return NULL;
}

static const char *find_bad_count(const spsh__footer *f)
{
    if (f->section_count > SPSH__SECTIONS_MAX)
        return "section_count is above 256";
    if (f->block_count > (f->section_area_offset - SPSH__PAGE_BYTES) / SPSH__PAGE_BYTES)
        return "block_count";
    if (f->kind == SPSH__KIND_SHARD)
        return NULL;
    if (f->block_count != 0 || f->section_area_offset != SPSH__PAGE_BYTES)
        return "only shards have blocks";
    if (f->record_count != 0)
        return "record_count";
    if (f->utterance_count != 0 && f->kind != SPSH__KIND_MANIFEST && f->kind != SPSH__KIND_INDEX &&
        f->kind != SPSH__KIND_FINGERPRINT)
        return "utterance_count";
    return NULL;
}

spsh_status spsh__footer_decode(const uint8_t *page, uint32_t copy, uint64_t file_bytes,
                                const char *path, spsh__footer *ret_footer, spsh_error *err)
{
    uint64_t offset = footer_offset(file_bytes, copy);
    if (memcmp(page + FOOTER_CHECKSUM_AT + 8, footer_magic, 8) != 0)
        return SPSH_FAIL_AT(
            err, SPSH_E_TRUNCATED, offset,
            "%s: no footer copy %u at %llu: the file was not sealed, was cut off, or is damaged",
            path, copy, ULL(offset));
    uint64_t expected = spsh__load_u64le(page + FOOTER_CHECKSUM_AT);
    uint64_t found = spsh__checksum(page, offset, page, FOOTER_CHECKSUM_AT);
    if (expected != found)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset,
                            "%s: footer copy %u at %llu: checksum 0x%016llx, expected 0x%016llx",
                            path, copy, ULL(offset), ULL(found), ULL(expected));
    spsh__footer footer;
    footer_load(page, &footer);
    if (footer.file_bytes > file_bytes)
        return SPSH_FAIL_AT(
            err, SPSH_E_TRUNCATED, file_bytes,
            "%s: the file was cut off: it has %llu bytes, but the footer states %llu", path,
            ULL(file_bytes), ULL(footer.file_bytes));
    if (footer.file_bytes < file_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, footer.file_bytes,
                            "%s: the file has %llu bytes, but the footer states %llu", path,
                            ULL(file_bytes), ULL(footer.file_bytes));
    const char *bad = find_bad_layout(&footer);
    if (bad == NULL)
        bad = find_bad_count(&footer);
    if (bad == NULL && spsh__load_u32le(page + 120) != copy)
        bad = "the copy number is wrong";
    if (bad == NULL && !spsh__all_zero(page + 124, FOOTER_CHECKSUM_AT - 124))
        bad = "reserved bytes are not 0";
    if (bad != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset, "%s: invalid footer copy %u at %llu: %s",
                            path, copy, ULL(offset), bad);
    *ret_footer = footer;
    return SPSH_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the parts in the order in which they are hashed */
spsh_status spsh__root_hash(uint64_t header_checksum, const uint64_t *block_checksums,
                            uint64_t block_count, uint64_t page_table_checksum,
                            const spsh_allocator *allocator, uint8_t ret_hash[16], spsh_error *err)
{
    uint8_t batch[8 * HASH_BATCH];
    spsh__hasher *hasher = spsh__hasher_new(allocator);
    if (hasher == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "root hash");
    spsh__store_u64le(batch, header_checksum);
    spsh__hasher_update(hasher, batch, 8);
    uint64_t done = 0;
    while (done < block_count) {
        size_t count = block_count - done < HASH_BATCH ? (size_t)(block_count - done) : HASH_BATCH;
        for (size_t i = 0; i < count; i++)
            spsh__store_u64le(batch + 8 * i, block_checksums[done + i]);
        spsh__hasher_update(hasher, batch, 8 * count);
        done += count;
    }
    spsh__store_u64le(batch, page_table_checksum);
    spsh__hasher_update(hasher, batch, 8);
    spsh__hasher_digest128(hasher, ret_hash);
    spsh__hasher_free(hasher);
    return SPSH_OK;
}

/* ---- opening ---- */

static spsh_status read_header(spsh__container *c, uint64_t file_bytes, uint32_t kind,
                               uint8_t *page, spsh_error *err)
{
    size_t size = file_bytes < SPSH__PAGE_BYTES ? (size_t)file_bytes : SPSH__PAGE_BYTES;
    spsh_status rc = spsh_io_read_exact(c->io, c->fd, page, size, 0, c->path, err);
    if (rc != SPSH_OK)
        return rc;
    size_t magic_bytes = size < sizeof(header_magic) ? size : sizeof(header_magic);
    if (memcmp(page, header_magic, magic_bytes) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_NOT_SPEECHSHARD, 0, "%s: not a speechshard file", c->path);
    if (file_bytes < SPSH__PAGE_BYTES + SPSH__FOOTERS_BYTES || file_bytes % SPSH__PAGE_BYTES != 0)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, file_bytes,
                            "%s: the file has %llu bytes, which is not a multiple of 4096: it was "
                            "not sealed, or was cut off",
                            c->path, ULL(file_bytes));
    if (file_bytes > SPSH_FILE_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the file has %llu bytes, but the limit is %llu",
                         c->path, ULL(file_bytes), ULL(SPSH_FILE_BYTES_MAX));
    rc = spsh__header_decode(page, c->path, &c->header, err);
    if (rc != SPSH_OK)
        return rc;
    c->header_checksum = spsh__load_u64le(page + 8);
    if (kind != 0 && c->header.kind != kind)
        return SPSH_FAIL_AT(err, SPSH_E_MISMATCH, 32, "%s: the file is a %s, expected a %s",
                            c->path, kind_name(c->header.kind), kind_name(kind));
    return SPSH_OK;
}

static spsh_status read_footer(spsh__container *c, uint64_t file_bytes, uint8_t *page,
                               spsh_error *err)
{
    spsh_error first = SPSH_ERROR_INIT;
    spsh_status rc = spsh_io_read_exact(c->io, c->fd, page, SPSH__PAGE_BYTES,
                                        footer_offset(file_bytes, 1), c->path, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_status first_rc = spsh__footer_decode(page, 1, file_bytes, c->path, &c->footer, &first);
    if (first_rc != SPSH_OK) {
        rc = spsh_io_read_exact(c->io, c->fd, page, SPSH__PAGE_BYTES, footer_offset(file_bytes, 0),
                                c->path, err);
        if (rc != SPSH_OK)
            return rc;
        /* If both copies are bad, report the error of the last one: a cut file shows there. */
        if (spsh__footer_decode(page, 0, file_bytes, c->path, &c->footer, NULL) != SPSH_OK) {
            if (err != NULL)
                *err = first;
            return first_rc;
        }
    }
    if (memcmp(c->footer.file_id, c->header.file_id, 16) != 0 || c->footer.kind != c->header.kind)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, file_bytes - SPSH__FOOTERS_BYTES,
                            "%s: footer: file_id and kind differ from the header", c->path);
    return SPSH_OK;
}

/* Advise the kernel to read the pages that are not in memory. at is a multiple of 4096. */
static void fetch(const spsh__container *c, size_t at, size_t size_bytes)
{
    (void)madvise(c->mapping + at, size_bytes, MADV_WILLNEED);
}

static spsh_status map_sections(spsh__container *c, spsh_error *err)
{
    const spsh__footer *f = &c->footer;
    /* Larger than any system's page, so that the offset is a multiple of it. */
    uint64_t from = f->section_area_offset & ~(uint64_t)(SPSH__SECTION_PAGE - 1);
    uint64_t size = f->page_table_offset + f->page_table_bytes - from;
    if (size > SIZE_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the index does not fit in memory", c->path);
    c->mapping = (uint8_t *)c->io->mmap_fn(c->io->user, c->fd, (size_t)size, from);
    if (c->mapping == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, from, "%s: cannot map %llu bytes at %llu",
                            c->path, ULL(size), ULL(from));
    c->mapping_bytes = (size_t)size;
    c->area = c->mapping + (f->section_area_offset - from);
    c->page_table = c->mapping + (f->page_table_offset - from);
    /* Lookups hit random pages, so kernel read-ahead (often megabytes) is wasted. Prefetch instead.
     */
    (void)madvise(c->mapping, c->mapping_bytes, MADV_RANDOM);
    fetch(c, (size_t)(c->page_table - c->mapping), (size_t)f->page_table_bytes);

    size_t words = (size_t)((f->page_count + 63) / 64);
    c->checked_pages =
        (page_word *)spsh__alloc_array(&c->allocator, words, sizeof(*c->checked_pages));
    if (c->checked_pages == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: page bitmap", c->path);
    for (size_t i = 0; i < words; i++)
        atomic_init(&c->checked_pages[i].bits, 0);
    return SPSH_OK;
}

static spsh_status check_page_table(const spsh__container *c, spsh_error *err)
{
    const spsh__footer *f = &c->footer;
    const uint8_t *table = c->page_table == NULL ? (const uint8_t *)"" : c->page_table;
    uint64_t found =
        spsh__checksum(f->file_id, f->page_table_offset, table, (size_t)f->page_table_bytes);
    if (found != f->page_table_checksum)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, f->page_table_offset,
                            "%s: page table at %llu: checksum 0x%016llx, expected 0x%016llx",
                            c->path, ULL(f->page_table_offset), ULL(found),
                            ULL(f->page_table_checksum));
    return SPSH_OK;
}

spsh_status spsh__container_check_page(const spsh__container *c, uint64_t page, spsh_error *err)
{
    uint64_t begin = page * SPSH__SECTION_PAGE;
    uint64_t left = c->footer.section_area_bytes - begin;
    size_t size = left < SPSH__SECTION_PAGE ? (size_t)left : SPSH__SECTION_PAGE;
    uint64_t offset = c->footer.section_area_offset + begin;
    uint64_t expected = spsh__load_u64le(c->page_table + 8 * page);
    uint64_t found = spsh__checksum(c->footer.file_id, offset, c->area + begin, size);
    if (found != expected)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset,
                            "%s: index page %llu at %llu: checksum 0x%016llx, expected 0x%016llx",
                            c->path, ULL(page), ULL(offset), ULL(found), ULL(expected));
    return SPSH_OK;
}

static bool is_checked(const spsh__container *c, uint64_t page)
{
    const uint64_t bits =
        atomic_load_explicit(&c->checked_pages[page / 64].bits, memory_order_relaxed);
    return (bits >> (page % 64) & 1) != 0;
}

/* Prefetch pages [page, last] before they are touched, at most FETCH_PAGES at a time. Prefetch more
 * if the page before was touched already: then a caller reads the columns in order. */
static void fetch_pages(const spsh__container *c, uint64_t page, uint64_t last)
{
    uint64_t end = last + 1;
    if (page > 0 && is_checked(c, page - 1) && end < page + FETCH_PAGES)
        end = page + FETCH_PAGES;
    if (end > page + FETCH_PAGES)
        end = page + FETCH_PAGES;
    if (end > c->footer.page_count)
        end = c->footer.page_count;
    const uint64_t begin_bytes = page * SPSH__SECTION_PAGE;
    uint64_t end_bytes = end * SPSH__SECTION_PAGE;
    if (end_bytes > c->footer.section_area_bytes)
        end_bytes = c->footer.section_area_bytes;
    fetch(c, (size_t)(c->area - c->mapping) + (size_t)begin_bytes,
          (size_t)(end_bytes - begin_bytes));
}

/* Bytes [begin, begin + size) of the section area; size > 0 and inside the area. */
static spsh_status check_range(const spsh__container *c, uint64_t begin, uint64_t size,
                               spsh_error *err)
{
    uint64_t last = (begin + size - 1) / SPSH__SECTION_PAGE;
    uint64_t fetched_end = 0;
    for (uint64_t page = begin / SPSH__SECTION_PAGE; page <= last; page++) {
        if (is_checked(c, page))
            continue;
        if (page >= fetched_end) {
            fetch_pages(c, page, last);
            fetched_end = page + FETCH_PAGES;
        }
        spsh_status rc = spsh__container_check_page(c, page, err);
        if (rc != SPSH_OK)
            return rc;
        (void)atomic_fetch_or_explicit(&c->checked_pages[page / 64].bits,
                                       UINT64_C(1) << (page % 64), memory_order_relaxed);
    }
    return SPSH_OK;
}

static spsh_status fail_section(const spsh__container *c, uint32_t n, const char *what,
                                spsh_error *err)
{
    uint64_t offset = c->footer.section_area_offset + (uint64_t)n * DIRECTORY_ENTRY_BYTES;
    return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset, "%s: section directory entry %u at %llu: %s",
                        c->path, n, ULL(offset), what);
}

/* Load entry n. *next is where its section must begin, and becomes its end. */
static spsh_status load_section(spsh__container *c, uint32_t n, uint64_t *next, spsh_error *err)
{
    const uint8_t *entry = c->area + (size_t)n * DIRECTORY_ENTRY_BYTES;
    section_place *s = &c->sections[n];
    s->id = spsh__load_u32le(entry);
    s->element_bytes = spsh__load_u32le(entry + 4);
    s->offset_bytes = spsh__load_u64le(entry + 8);
    s->count = spsh__load_u64le(entry + 16);
    uint32_t width = s->element_bytes;
    uint64_t area_end = c->footer.section_area_offset + c->footer.section_area_bytes;
    *next = spsh__align_up(*next, SECTION_ALIGNMENT);
    if (n > 0 && s->id <= c->sections[n - 1].id)
        return fail_section(c, n, "ids do not ascend", err);
    if (width == 0 || width > 16 || (width & (width - 1)) != 0)
        return fail_section(c, n, "element_bytes is not 1, 2, 4, 8 or 16", err);
    if (s->offset_bytes != *next || *next > area_end)
        return fail_section(c, n, "the section does not begin where the section before it ends",
                            err);
    if (s->count > (area_end - *next) / width)
        return fail_section(c, n, "the section extends past the section area", err);
    if (!spsh__all_zero(entry + 24, 16))
        return fail_section(c, n, "reserved bytes are not 0", err);
    *next += s->count * width;
    if (s->id < SLOTS)
        c->slots[s->id] = (uint16_t)(n + 1);
    return SPSH_OK;
}

static spsh_status load_directory(spsh__container *c, spsh_error *err)
{
    uint32_t count = c->footer.section_count;
    uint64_t directory_bytes = (uint64_t)count * DIRECTORY_ENTRY_BYTES;
    uint64_t next = c->footer.section_area_offset + directory_bytes;
    if (count != 0) {
        spsh_status rc = check_range(c, 0, directory_bytes, err);
        if (rc != SPSH_OK)
            return rc;
        c->sections =
            (section_place *)spsh__alloc_array(&c->allocator, count, sizeof(*c->sections));
        if (c->sections == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: sections", c->path);
    }
    for (uint32_t n = 0; n < count; n++) {
        spsh_status rc = load_section(c, n, &next, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (spsh__align_up(next, SPSH__PAGE_BYTES) != c->footer.page_table_offset)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, next,
                            "%s: the sections end at %llu, but the page table begins at %llu",
                            c->path, ULL(next), ULL(c->footer.page_table_offset));
    return SPSH_OK;
}

/* Without blocks, everything that the root hash covers is available. */
static spsh_status check_root(const spsh__container *c, spsh_error *err)
{
    uint8_t hash[16];
    if (c->footer.kind == SPSH__KIND_SHARD)
        return SPSH_OK;
    spsh_status rc = spsh__root_hash(c->header_checksum, NULL, 0, c->footer.page_table_checksum,
                                     &c->allocator, hash, err);
    if (rc == SPSH_OK && memcmp(hash, c->footer.root_hash, 16) != 0)
        rc = SPSH_FAIL_AT(err, SPSH_E_CORRUPT, c->footer.file_bytes - SPSH__FOOTERS_BYTES,
                          "%s: footer: the root hash does not match the header and the page table",
                          c->path);
    return rc;
}

static spsh_status open_parts(spsh__container *c, uint32_t kind, spsh_error *err)
{
    uint8_t page[SPSH__PAGE_BYTES];
    uint64_t file_bytes = 0;
    spsh_status rc = spsh__io_open_read(c->io, c->path, &c->fd, err);
    if (rc == SPSH_OK)
        rc = spsh__io_file_bytes(c->io, c->fd, c->path, &file_bytes, err);
    if (rc == SPSH_OK)
        rc = read_header(c, file_bytes, kind, page, err);
    if (rc == SPSH_OK)
        rc = read_footer(c, file_bytes, page, err);
    if (rc == SPSH_OK && c->footer.section_area_bytes != 0)
        rc = map_sections(c, err);
    if (rc == SPSH_OK)
        rc = check_page_table(c, err);
    if (rc == SPSH_OK)
        rc = load_directory(c, err);
    if (rc == SPSH_OK)
        rc = check_root(c, err);
    return rc;
}

spsh_status spsh__container_open(const spsh_io *io, const char *path, uint32_t kind,
                                 const spsh_allocator *allocator, spsh__container **ret_container,
                                 spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    spsh__container *c = (spsh__container *)spsh__new(allocator, 1, sizeof(*c));
    if (c == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: container", path);
    c->io = io != NULL ? io : spsh_io_default();
    c->allocator = *allocator;
    c->fd = -1;
    spsh_status rc = SPSH_OK;
    c->path = spsh__string_copy(allocator, path);
    if (c->path == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: container", path);
        goto out;
    }
    rc = open_parts(c, kind, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_container = c;
    c = NULL;
out:
    spsh__container_close(c);
    return rc;
}

void spsh__container_close(spsh__container *c)
{
    if (c == NULL)
        return;
    const spsh_allocator allocator = c->allocator;
    if (c->mapping != NULL)
        (void)c->io->munmap_fn(c->io->user, c->mapping, c->mapping_bytes);
    if (c->fd >= 0)
        (void)c->io->close_fn(c->io->user, c->fd);
    spsh__free(&allocator, c->sections);
    spsh__free(&allocator, c->checked_pages);
    spsh__free(&allocator, c->path);
    spsh__free(&allocator, c);
}

const spsh__header *spsh__container_header(const spsh__container *container)
{
    return &container->header;
}

const spsh__footer *spsh__container_footer(const spsh__container *container)
{
    return &container->footer;
}

const char *spsh__container_path(const spsh__container *container)
{
    return container->path;
}

int spsh__container_fd(const spsh__container *container)
{
    return container->fd;
}

void spsh__container_release_fd(spsh__container *container)
{
    (void)container->io->close_fn(container->io->user, container->fd);
    container->fd = -1;
}

/* ---- columns ---- */

static const section_place *find_section(const spsh__container *c, uint32_t id)
{
    if (id < SLOTS)
        return c->slots[id] == 0 ? NULL : &c->sections[c->slots[id] - 1];
    for (uint32_t n = 0; n < c->footer.section_count; n++)
        if (c->sections[n].id == id)
            return &c->sections[n];
    return NULL;
}

uint64_t spsh__container_count(const spsh__container *container, uint32_t id)
{
    const section_place *section = find_section(container, id);
    return section == NULL ? 0 : section->count;
}

spsh_status spsh__container_require(const spsh__container *container, uint32_t id,
                                    uint32_t element_bytes, uint64_t count, spsh_error *err)
{
    const section_place *section = find_section(container, id);
    uint64_t offset = container->footer.section_area_offset;
    if (section == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset, "%s: section %u is missing",
                            container->path, id);
    if (section->element_bytes != element_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset,
                            "%s: section %u: element_bytes %u, expected %u", container->path, id,
                            section->element_bytes, element_bytes);
    if (count != UINT64_MAX && section->count != count)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset,
                            "%s: section %u: %llu elements, expected %llu", container->path, id,
                            ULL(section->count), ULL(count));
    return SPSH_OK;
}

spsh_status spsh__container_require_strings(const spsh__container *container, uint32_t ends_id,
                                            uint64_t count, spsh_error *err)
{
    spsh_status rc = spsh__container_require(container, ends_id, 8, count, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(container, ends_id + 1, 1, UINT64_MAX, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t strings = spsh__container_count(container, ends_id);
    uint64_t size_bytes = spsh__container_count(container, ends_id + 1);
    uint64_t last = 0;
    if (strings != 0)
        rc = spsh__container_u64(container, ends_id, strings - 1, &last, err);
    if (rc == SPSH_OK && last != size_bytes)
        rc = SPSH_FAIL_AT(err, SPSH_E_CORRUPT, container->footer.section_area_offset,
                          "%s: string table %u: last string ends at %llu of %llu bytes",
                          container->path, ends_id, ULL(last), ULL(size_bytes));
    return rc;
}

void spsh__container_prefetch(const spsh__container *container, uint32_t id, uint64_t first,
                              uint64_t count)
{
    const section_place *section = find_section(container, id);
    if (section == NULL || count == 0 || first > section->count || count > section->count - first)
        return;
    const uint64_t begin = section->offset_bytes - container->footer.section_area_offset +
                           first * section->element_bytes;
    const uint64_t page = begin / SPSH__SECTION_PAGE;
    if (!is_checked(container, page))
        fetch_pages(container, page,
                    (begin + count * section->element_bytes - 1) / SPSH__SECTION_PAGE);
}

spsh_status spsh__container_elements(const spsh__container *container, uint32_t id, uint64_t first,
                                     uint64_t count, spsh_bytes *ret_elements, spsh_error *err)
{
    const section_place *section = find_section(container, id);
    uint64_t have = section == NULL ? 0 : section->count;
    if (first > have || count > have - first)
        return SPSH_FAIL(
            err, SPSH_E_CORRUPT,
            "%s: section %u: elements from %llu, %llu of them, are out of range: it has %llu",
            container->path, id, ULL(first), ULL(count), ULL(have));
    if (count == 0) {
        *ret_elements = (spsh_bytes){container->area, 0};
        return SPSH_OK;
    }
    uint64_t begin = section->offset_bytes - container->footer.section_area_offset +
                     first * section->element_bytes;
    uint64_t size = count * section->element_bytes;
    spsh_status rc = check_range(container, begin, size, err);
    if (rc == SPSH_OK)
        *ret_elements = (spsh_bytes){container->area + begin, (size_t)size};
    return rc;
}

spsh_status spsh__container_column(const spsh__container *container, uint32_t id, uint64_t first,
                                   uint64_t count, const uint8_t **ret_elements, spsh_error *err)
{
    spsh_bytes elements = {NULL, 0};
    spsh_status rc = spsh__container_elements(container, id, first, count, &elements, err);
    if (rc == SPSH_OK)
        *ret_elements = elements.data;
    return rc;
}

static spsh_status element(const spsh__container *c, uint32_t id, uint32_t element_bytes,
                           uint64_t at, const uint8_t **ret_element, spsh_error *err)
{
    const section_place *section = find_section(c, id);
    if (section != NULL && section->element_bytes != element_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, c->footer.section_area_offset,
                            "%s: section %u: element_bytes %u, expected %u", c->path, id,
                            section->element_bytes, element_bytes);
    return spsh__container_column(c, id, at, 1, ret_element, err);
}

spsh_status spsh__container_u16(const spsh__container *container, uint32_t id, uint64_t at,
                                uint16_t *ret_value, spsh_error *err)
{
    const uint8_t *bytes = NULL;
    spsh_status rc = element(container, id, 2, at, &bytes, err);
    if (rc == SPSH_OK)
        *ret_value = spsh__load_u16le(bytes);
    return rc;
}

spsh_status spsh__container_u32(const spsh__container *container, uint32_t id, uint64_t at,
                                uint32_t *ret_value, spsh_error *err)
{
    const uint8_t *bytes = NULL;
    spsh_status rc = element(container, id, 4, at, &bytes, err);
    if (rc == SPSH_OK)
        *ret_value = spsh__load_u32le(bytes);
    return rc;
}

spsh_status spsh__container_u64(const spsh__container *container, uint32_t id, uint64_t at,
                                uint64_t *ret_value, spsh_error *err)
{
    const uint8_t *bytes = NULL;
    spsh_status rc = element(container, id, 8, at, &bytes, err);
    if (rc == SPSH_OK)
        *ret_value = spsh__load_u64le(bytes);
    return rc;
}

spsh_status spsh__container_string(const spsh__container *container, uint32_t ends_id, uint64_t k,
                                   spsh_bytes *ret_string, spsh_error *err)
{
    uint64_t begin = 0;
    uint64_t end = 0;
    spsh_status rc = spsh__container_u64(container, ends_id, k, &end, err);
    if (rc == SPSH_OK && k > 0)
        rc = spsh__container_u64(container, ends_id, k - 1, &begin, err);
    if (rc != SPSH_OK)
        return rc;
    if (begin > end)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: string table %u: string %llu ends before it begins", container->path,
                         ends_id, ULL(k));
    const uint8_t *bytes = NULL;
    rc = spsh__container_column(container, ends_id + 1, begin, end - begin, &bytes, err);
    if (rc == SPSH_OK)
        *ret_string = (spsh_bytes){bytes, (size_t)(end - begin)};
    return rc;
}

spsh_status spsh__container_check_padding(const spsh__container *c, spsh_error *err)
{
    const spsh__footer *f = &c->footer;
    uint64_t used = (uint64_t)f->section_count * DIRECTORY_ENTRY_BYTES; /* inside the area */
    for (uint32_t n = 0; n <= f->section_count && f->section_area_bytes != 0; n++) {
        uint64_t next = n < f->section_count ? c->sections[n].offset_bytes - f->section_area_offset
                                             : f->section_area_bytes;
        if (!spsh__all_zero(c->area + used, (size_t)(next - used)))
            return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, f->section_area_offset + used,
                                "%s: padding between sections at %llu is not 0", c->path,
                                ULL(f->section_area_offset + used));
        if (n < f->section_count)
            used = next + c->sections[n].count * c->sections[n].element_bytes;
    }
    uint64_t table_bytes = 8 * f->page_count;
    if (f->page_table_bytes != 0 &&
        !spsh__all_zero(c->page_table + table_bytes, (size_t)(f->page_table_bytes - table_bytes)))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, f->page_table_offset + table_bytes,
                            "%s: padding of the page table at %llu is not 0", c->path,
                            ULL(f->page_table_offset + table_bytes));
    return SPSH_OK;
}

spsh_status spsh__container_check_all(const spsh__container *c, spsh_error *err)
{
    for (uint64_t page = 0; page < c->footer.page_count; page++) {
        spsh_status rc = spsh__container_check_page(c, page, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return spsh__container_check_padding(c, err);
}
