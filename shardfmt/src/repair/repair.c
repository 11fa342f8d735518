/* repair.c: identify a shard, find its intact parts, and decide whether they suffice to write it
 * again.
 *
 * Identity comes from the header. Without a header it is derived: unit and number from the manifest
 * or the file's name, the dataset's id from the caller or an adjacent shard, the file id from those
 * three. The shards before it give the shard's first record in its unit. A wrong guess cannot pass:
 * checksums of blocks are seeded with the file id, and the root hash of a footer or the manifest
 * covers the header.
 */
#include "repair_internal.h"

#include "io/io_internal.h"
#include "speechshard/options.h"

#include <stdio.h>

#define ULL(value_) ((unsigned long long)(value_))

enum {
    UNIT_DIGITS = 6,
    NUMBER_DIGITS = 3,
    SCAN_BYTES = 1 << 20,
};

/* ---- the unit ---- */

spsh_status spsh_repair_unit_open(const spsh_allocator *allocator, spsh_repair_unit **ret_unit,
                                  spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    spsh_repair_unit *unit = spsh__new(allocator, 1, sizeof(*unit));
    if (unit == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "repair of a unit");
    unit->allocator = *allocator;
    *ret_unit = unit;
    return SPSH_OK;
}

void spsh_repair_unit_close(spsh_repair_unit *unit)
{
    if (unit == NULL)
        return;
    const spsh_allocator allocator = unit->allocator;
    spsh__buffer_free(&unit->map, &allocator);
    spsh__free(&allocator, unit);
}

bool spsh__repair_unit_changed(const spsh_repair_unit *unit)
{
    return unit->new_records != unit->map.size_bytes / 8 ||
           unit->new_utterances != unit->utterances;
}

/* ---- small things ---- */

spsh__repair_block spsh__repair_block_at(const spsh__repair *r, uint64_t n)
{
    spsh__repair_block block;
    memcpy(&block, r->blocks.data + (size_t)n * sizeof(block), sizeof(block));
    return block;
}

spsh_status spsh__repair_block_load(const spsh__repair *r, const spsh__repair_block *block,
                                    uint8_t **ret_data, spsh_error *err)
{
    uint8_t *data = NULL;
    spsh_status rc = spsh__salvage_bytes(&r->file, block->offset_bytes,
                                         (size_t)block->block.block_bytes, &data, err);
    if (rc == SPSH_OK) /* second read: the content may have changed since the first */
        rc = spsh__block_check(r->header.file_id, block->offset_bytes, data, &block->block, r->name,
                               err);
    if (rc != SPSH_OK) {
        spsh__free(r->allocator, data);
        return rc;
    }
    *ret_data = data;
    return SPSH_OK;
}

spsh_status spsh__repair_lost(spsh__repair *r, const char *part, uint64_t offset_bytes,
                              spsh_bytes id, uint64_t utterances, const char *message,
                              spsh_error *err)
{
    const spsh_damage damage = {.file = r->name,
                                .part = part,
                                .offset_bytes = offset_bytes,
                                .id = id,
                                .utterances = utterances,
                                .message = message};
    if (r->opt.damage_fn != NULL && r->opt.damage_fn(r->opt.user, &damage) != 0)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "repair was stopped");
    return SPSH_OK;
}

static bool read_page(const spsh__repair *r, uint64_t offset_bytes, uint8_t *page)
{
    return spsh_io_read_exact(r->io, r->file.fd, page, SPSH__PAGE_BYTES, offset_bytes, r->path,
                              NULL) == SPSH_OK;
}

/* ---- identity ---- */

static bool take_number(const char **text, uint32_t digits, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (uint32_t n = 0; n < digits; n++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        number = number * 10 + (uint64_t)(**text - '0');
    }
    *ret_number = number;
    return true;
}

/* "000012-003.spsh" */
static bool parse_name(const char *path, uint64_t *ret_unit, uint64_t *ret_number)
{
    const char *slash = strrchr(path, '/');
    const char *at = slash != NULL ? slash + 1 : path;
    if (!take_number(&at, UNIT_DIGITS, ret_unit) || *at++ != '-')
        return false;
    return take_number(&at, NUMBER_DIGITS, ret_number) && strncmp(at, ".spsh", 5) == 0;
}

/* Another shard in the same directory, if it can be read. */
static bool read_sibling(const spsh__repair *r, uint64_t unit, uint64_t number,
                         spsh__header *ret_header, spsh__footer *ret_footer)
{
    char name[32];
    const char *slash = strrchr(r->path, '/');
    size_t directory_bytes = slash != NULL ? (size_t)(slash - r->path) + 1 : 0;
    char *path = spsh__alloc(r->allocator, directory_bytes + sizeof(name));
    spsh__container *sibling = NULL;
    if (path == NULL)
        return false;
    spsh_shard_file_name(unit, (uint32_t)number, name);
    memcpy(path, r->path, directory_bytes);
    memcpy(path + directory_bytes, name, sizeof(name));
    const bool good = spsh__container_open(r->io, path, SPSH__KIND_SHARD, r->allocator, &sibling,
                                           NULL) == SPSH_OK;
    if (good) {
        *ret_header = *spsh__container_header(sibling);
        *ret_footer = *spsh__container_footer(sibling);
    }
    spsh__container_close(sibling);
    spsh__free(r->allocator, path);
    return good;
}

/* Find the dataset's id in a shard that is likely to be in the same folder. */
static bool find_dataset_id(const spsh__repair *r, uint8_t ret_id[16])
{
    const uint64_t unit = r->header.ordinal, number = r->header.sub_ordinal;
    const uint64_t places[][2] = {
        {unit,              number + 1},
        {unit + 1,          0         },
        {unit - (unit > 0), 0         },
        {0,                 0         }
    };
    spsh__header header;
    spsh__footer footer;
    for (uint64_t n = number; n-- > 0;) {
        if (!read_sibling(r, unit, n, &header, &footer))
            continue;
        memcpy(ret_id, header.dataset_id, 16);
        return true;
    }
    for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
        if (places[n][0] > 999999 || places[n][1] > 999 ||
            !read_sibling(r, places[n][0], places[n][1], &header, &footer))
            continue;
        memcpy(ret_id, header.dataset_id, 16);
        return true;
    }
    return false;
}

static spsh_status derive_begin(spsh__repair *r, spsh_error *err)
{
    spsh__header *h = &r->header;
    if (r->opt.unit != NULL) {
        h->first_record = r->opt.unit->map.size_bytes / 8;
        h->first_utterance = r->opt.unit->utterances;
        return SPSH_OK;
    }
    for (uint64_t n = 0; n < h->sub_ordinal; n++) {
        spsh__header header;
        spsh__footer footer;
        if (!read_sibling(r, h->ordinal, n, &header, &footer))
            return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 0,
                                "%s: the header is lost, and shard %llu of the unit, which states "
                                "where this one begins, cannot be read in the same folder",
                                r->path, ULL(n));
        h->first_record += footer.record_count;
        h->first_utterance += footer.utterance_count;
    }
    return SPSH_OK;
}

static spsh_status derive_header(spsh__repair *r, const uint8_t *dataset_id, spsh_error *err)
{
    spsh__header *h = &r->header;
    uint64_t unit = 0, number = 0;
    *h = (spsh__header){.kind = SPSH__KIND_SHARD};
    if (r->opt.expected != NULL) {
        unit = r->opt.expected->unit;
        number = r->opt.expected->number;
    } else if (!parse_name(r->path, &unit, &number)) {
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 0,
                            "%s: the header is lost, and the file name is not one of a shard, such "
                            "as 000012-003.spsh",
                            r->path);
    }
    h->ordinal = unit;
    h->sub_ordinal = (uint32_t)number;
    if (dataset_id != NULL)
        memcpy(h->dataset_id, dataset_id, 16);
    else if (!find_dataset_id(r, h->dataset_id))
        return SPSH_FAIL_AT(
            err, SPSH_E_CORRUPT, 0,
            "%s: the header is lost, and no other shard of the dataset is next to it "
            "that would give the dataset's id",
            r->path);
    spsh__shard_file_id(h->dataset_id, unit, number, h->file_id);
    return derive_begin(r, err);
}

static void find_footer(spsh__repair *r)
{
    const uint64_t ends[2] = {r->file_bytes,
                              r->opt.expected != NULL ? r->opt.expected->file_bytes : 0};
    uint8_t page[SPSH__PAGE_BYTES];
    for (size_t n = 0; n < 2 && !r->footer_found; n++) {
        for (uint32_t copy = 2; copy-- > 0 && !r->footer_found;) {
            uint64_t end = ends[n];
            if (end > r->file_bytes || end < SPSH__PAGE_BYTES + SPSH__FOOTERS_BYTES)
                continue;
            r->footer_found =
                read_page(r, end - SPSH__FOOTERS_BYTES + (uint64_t)copy * SPSH__PAGE_BYTES, page) &&
                spsh__footer_decode(page, copy, end, r->name, &r->footer, NULL) == SPSH_OK &&
                r->footer.kind == SPSH__KIND_SHARD;
        }
    }
}

static spsh_status find_identity(spsh__repair *r, const uint8_t *dataset_id, spsh_error *err)
{
    uint8_t page[SPSH__PAGE_BYTES];
    const spsh_shard_seal *expected = r->opt.expected;
    spsh_status rc = SPSH_OK;
    if (r->file.fd >= 0) {
        r->header_found = read_page(r, 0, page) &&
                          spsh__header_decode(page, r->path, &r->header, NULL) == SPSH_OK &&
                          r->header.kind == SPSH__KIND_SHARD;
        find_footer(r);
    }
    if (!r->header_found)
        rc = derive_header(r, dataset_id, err);
    if (rc != SPSH_OK)
        return rc;
    if ((expected != NULL && memcmp(expected->file_id, r->header.file_id, 16) != 0) ||
        (dataset_id != NULL && memcmp(dataset_id, r->header.dataset_id, 16) != 0))
        return SPSH_FAIL_AT(err, SPSH_E_MISMATCH, 0,
                            "%s: the file is a shard of another dataset, or another shard",
                            r->path);
    if (r->footer_found && memcmp(r->footer.file_id, r->header.file_id, 16) != 0) {
        if (!r->header_found)
            return SPSH_FAIL_AT(
                err, SPSH_E_MISMATCH, 0,
                "%s: the footer does not match unit %llu, number %u of this dataset", r->path,
                ULL(r->header.ordinal), r->header.sub_ordinal);
        r->footer_found = false;
    }
    r->file.file_id = r->header.file_id;
    spsh_shard_file_name(r->header.ordinal, r->header.sub_ordinal, r->name);
    return SPSH_OK;
}

/* ---- what is intact ---- */

static spsh_status find_blocks(spsh__repair *r, spsh_error *err)
{
    uint64_t offset = SPSH__PAGE_BYTES;
    r->file.end_bytes = r->footer_found ? r->footer.section_area_offset : r->file_bytes;
    for (;;) {
        spsh__salvaged_block found = {.data = NULL};
        spsh_status rc = spsh__salvage_block(&r->file, offset, &found, err);
        if (rc != SPSH_OK)
            return rc == SPSH_E_END ? SPSH_OK : rc;
        const spsh__repair_block block = {found.offset_bytes, found.block};
        offset = found.offset_bytes + found.block.block_bytes;
        spsh__free(r->allocator, found.data);
        rc = spsh__buffer_append(&r->blocks, r->allocator, &block, sizeof(block), err);
        if (rc != SPSH_OK)
            return rc;
        r->block_count++;
    }
}

/* Return whether a damaged block seems to follow the last intact one. Used if no footer gives the
 * end of the blocks. */
static spsh_status has_remains(const spsh__repair *r, uint64_t begin, bool *ret_remains,
                               spsh_error *err)
{
    *ret_remains = false;
    while (begin < r->file_bytes && !*ret_remains) {
        uint64_t left = r->file_bytes - begin;
        size_t size = left < SCAN_BYTES ? (size_t)left : SCAN_BYTES;
        uint8_t *data = NULL;
        spsh_status rc = spsh__salvage_bytes(&r->file, begin, size, &data, err);
        if (rc != SPSH_OK)
            return rc;
        for (size_t at = 0; at + 64 <= size && !*ret_remains; at += 64)
            *ret_remains = memcmp(data + at + 8, "SREC", 4) == 0 ||
                           (at % SPSH__PAGE_BYTES == 0 && memcmp(data + at + 8, "SPBK", 4) == 0);
        spsh__free(r->allocator, data);
        begin += size;
    }
    return SPSH_OK;
}

/* Check whether all blocks that the shard ever had are intact and at their offsets. */
static spsh_status is_whole(const spsh__repair *r, bool *ret_whole, spsh_error *err)
{
    uint64_t offset = SPSH__PAGE_BYTES, records = 0, rows = 0;
    bool whole = r->file.fd >= 0;
    for (uint64_t n = 0; n < r->block_count && whole; n++) {
        const spsh__repair_block at = spsh__repair_block_at(r, n);
        uint64_t *count = at.block.kind == SPSH__BLOCK_RECORDS ? &records : &rows;
        whole = at.offset_bytes == offset && at.block.ordinal == n && at.block.first == *count;
        *count += at.block.count;
        offset += at.block.block_bytes;
    }
    if (whole && r->footer_found)
        whole = offset == r->footer.section_area_offset && r->block_count == r->footer.block_count;
    else if (whole && r->opt.expected != NULL)
        whole =
            records == r->opt.expected->record_count && rows == r->opt.expected->utterance_count;
    *ret_whole = whole;
    if (!whole || r->footer_found || r->opt.expected != NULL)
        return SPSH_OK;
    bool remains = false;
    spsh_status rc = has_remains(r, offset, &remains, err);
    *ret_whole = !remains;
    return rc;
}

/* ---- the call ---- */

/* Keep the record numbers of an unchanged shard. */
static spsh_status keep_numbers(spsh__repair *r, spsh_error *err)
{
    spsh_repair_unit *unit = r->opt.unit;
    if (unit == NULL)
        return SPSH_OK;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; n < r->result.records_kept && rc == SPSH_OK; n++) {
        uint64_t number = unit->new_records + n;
        rc = spsh__buffer_append(&unit->map, &unit->allocator, &number, sizeof(number), err);
    }
    unit->new_records += r->result.records_kept;
    unit->new_utterances += r->result.utterances_kept;
    unit->utterances += r->result.utterances_kept;
    return rc;
}

static spsh_status repair(spsh__repair *r, const uint8_t *dataset_id, spsh_error *err)
{
    bool whole = false, same = false;
    spsh_status rc = find_identity(r, dataset_id, err);
    if (rc == SPSH_OK && r->file.fd >= 0)
        rc = find_blocks(r, err);
    if (rc == SPSH_OK && r->opt.unit != NULL &&
        r->opt.unit->map.size_bytes / 8 > r->header.first_record)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                       "%s: the shards of a unit must be repaired in the order of their numbers",
                       r->path);
    if (rc == SPSH_OK)
        rc = is_whole(r, &whole, err);
    if (rc == SPSH_OK && whole &&
        (r->opt.unit == NULL || (!spsh__repair_unit_changed(r->opt.unit) &&
                                 r->opt.unit->new_records == r->header.first_record)))
        rc = spsh__repair_rebuild(r, &same, err);
    if (rc == SPSH_OK && same)
        rc = keep_numbers(r, err);
    else if (rc == SPSH_OK)
        rc = spsh__repair_salvage(r, err);
    return rc;
}

static spsh_status open_input(spsh__repair *r, const uint8_t *dataset_id, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh__io_open_read(r->io, r->path, &r->file.fd, &why);
    if (rc == SPSH_E_NOT_FOUND && r->opt.expected != NULL && dataset_id != NULL) {
        r->file.fd = -1;
        return SPSH_OK; /* lost as a whole */
    }
    if (rc != SPSH_OK) {
        spsh_error_set(err, rc, why.os_errno, why.offset_bytes, "%s", why.message);
        return rc;
    }
    return spsh__io_file_bytes(r->io, r->file.fd, r->path, &r->file_bytes, err);
}

spsh_status spsh_repair_shard(const char *shard_path, const uint8_t *dataset_id,
                              const char *output_directory, const spsh_repair_options *options,
                              spsh_repair_result *ret_result, spsh_error *err)
{
    spsh__repair r;
    memset(&r, 0, sizeof(r));
    spsh_status rc = spsh_result_check(ret_result, sizeof(r.result), err);
    if (rc == SPSH_OK)
        rc = spsh_options_take(options, &r.opt, sizeof(r.opt), err);
    if (rc != SPSH_OK)
        return rc;
    r.allocator = r.opt.allocator != NULL ? r.opt.allocator : spsh_allocator_default();
    r.io = r.opt.io != NULL ? r.opt.io : spsh_io_default();
    r.path = shard_path;
    r.directory = output_directory;
    r.file = (spsh__salvage){.io = r.io, .allocator = r.allocator, .fd = -1, .path = shard_path};
    rc = open_input(&r, dataset_id, err);
    if (rc == SPSH_OK)
        rc = repair(&r, dataset_id, err);
    if (r.file.fd >= 0)
        (void)r.io->close_fn(r.io->user, r.file.fd);
    spsh__buffer_free(&r.blocks, r.allocator);
    if (rc == SPSH_OK)
        spsh_result_give(ret_result, &r.result, sizeof(r.result));
    return rc;
}
