/* verify_file.c: header, footers, page table, and section pages of any .spsh file.
 *
 * The order is the order of trust. The header identifies the file (every checksum is seeded with
 * the file id), a footer locates the parts and has the checksum of the page table, and the page
 * table has the checksums of the pages. A damaged part is reported and replaced by the next source:
 * the other footer, the footer's file id, the manifest's.
 *
 * An intact file that is not the one in the manifest is reported once and not searched: its bytes
 * prove nothing about the dataset.
 */
#include "base/checksum.h"
#include "io/io_internal.h"
#include "verify_internal.h"

#include <stdio.h>

#define ULL(value_) ((unsigned long long)(value_))

#define EXTENT_BYTES ((size_t)1 << 20) /* a multiple of SPSH__SECTION_PAGE */

/* ---- reports ---- */

spsh_status spsh__verify_damage(spsh__verify *v, const spsh_damage *damage, spsh_error *err)
{
    /* Checks put the file name in their messages. Remove it: the report has the name already. */
    spsh_damage named = *damage;
    size_t name_bytes = strlen(damage->file);
    if (strncmp(named.message, damage->file, name_bytes) == 0 &&
        strncmp(named.message + name_bytes, ": ", 2) == 0)
        named.message += name_bytes + 2;
    v->result.damage_count++;
    if (v->opt.damage_fn != NULL && !v->is_muted && v->opt.damage_fn(v->opt.user, &named) != 0)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "verify was stopped");
    return SPSH_OK;
}

spsh_status spsh__verify_refused(spsh__verify *v, const spsh__verify_file *file, const char *part,
                                 uint64_t size_bytes, const spsh_error *why, spsh_error *err)
{
    const spsh_damage damage = {
        .file = file->name,
        .part = part,
        .offset_bytes = why->offset_bytes,
        .size_bytes = size_bytes,
        .message = why->message,
    };
    return spsh__verify_damage(v, &damage, err);
}

spsh_status spsh__verify_progress(spsh__verify *v, uint64_t bytes, spsh_error *err)
{
    v->result.bytes += bytes;
    if (v->total_bytes < v->result.bytes) /* the total does not include the manifests, which state
                                             it */
        v->total_bytes = v->result.bytes;
    if (v->opt.progress_fn != NULL &&
        v->opt.progress_fn(v->opt.user, "verify", v->result.bytes, v->total_bytes) != 0)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "verify was stopped");
    return SPSH_OK;
}

/* ---- reading ---- */

/* Read a small part; *ret_ok: all bytes were read. Only a broken engine ends the run. */
static spsh_status read_part(spsh__verify *v, spsh__verify_file *file, uint64_t offset_bytes,
                             void *dst, size_t size_bytes, bool *ret_ok, spsh_error *err)
{
    uint8_t *bytes = (uint8_t *)dst;
    size_t at = 0;
    *ret_ok = true;
    while (at < size_bytes) {
        size_t part = size_bytes - at < EXTENT_BYTES ? size_bytes - at : EXTENT_BYTES;
        spsh_read_completion done;
        spsh_status rc = spsh_read_submit(v->engine, file->file, offset_bytes + at, part, 0, err);
        if (rc == SPSH_OK)
            rc = spsh_read_wait(v->engine, &done, err);
        if (rc != SPSH_OK)
            return rc;
        memcpy(bytes + at, done.data, done.got_bytes);
        memset(bytes + at + done.got_bytes, 0, part - done.got_bytes);
        spsh_read_recycle(v->engine, &done);
        if (done.status == SPSH_E_IO) {
            spsh_error why = SPSH_ERROR_INIT;
            spsh_error_set(&why, SPSH_E_IO, done.os_errno, offset_bytes + at, "cannot read: %s",
                           spsh__os_text(done.os_errno));
            rc = spsh__verify_refused(v, file, "unreadable", part, &why, err);
        }
        if (rc == SPSH_OK)
            rc = spsh__verify_progress(v, done.got_bytes, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_ok = *ret_ok && done.status == SPSH_OK;
        at += part;
    }
    return SPSH_OK;
}

/* ---- header and footers ---- */

static spsh_status check_header(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_error why = SPSH_ERROR_INIT;
    bool came = false;
    spsh_status rc = read_part(v, file, 0, page, sizeof(page), &came, err);
    if (rc != SPSH_OK || !came)
        return rc;
    if (spsh__header_decode(page, file->name, &file->header, &why) != SPSH_OK)
        return spsh__verify_refused(v, file, "header", sizeof(page), &why, err);
    file->header_ok = true;
    file->header_checksum = spsh__load_u64le(page + 8);
    return SPSH_OK;
}

/* The two copies may differ only in their number and checksum. */
static bool copies_agree(const spsh__footer *a, const spsh__footer *b)
{
    uint8_t pages[2][SPSH__PAGE_BYTES];
    spsh__footer_encode(a, 0, pages[0]);
    spsh__footer_encode(b, 0, pages[1]);
    return memcmp(pages[0], pages[1], SPSH__PAGE_BYTES) == 0;
}

static spsh_status check_footers(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    uint8_t pages[SPSH__FOOTERS_BYTES];
    spsh__footer footers[2];
    bool good[2] = {false, false};
    bool came = false;
    uint64_t offset = file->sealed_bytes - SPSH__FOOTERS_BYTES;
    spsh_status rc = read_part(v, file, offset, pages, sizeof(pages), &came, err);
    for (uint32_t copy = 0; copy < 2 && rc == SPSH_OK; copy++) {
        spsh_error why = SPSH_ERROR_INIT;
        good[copy] =
            spsh__footer_decode(pages + (size_t)copy * SPSH__PAGE_BYTES, copy, file->sealed_bytes,
                                file->name, &footers[copy], &why) == SPSH_OK;
        if (!good[copy] && came) {
            why.offset_bytes = offset + (uint64_t)copy * SPSH__PAGE_BYTES;
            rc = spsh__verify_refused(v, file, "footer", SPSH__PAGE_BYTES, &why, err);
        }
    }
    if (rc == SPSH_OK && good[0] && good[1] && !copies_agree(&footers[0], &footers[1])) {
        spsh_error why = SPSH_ERROR_INIT;
        spsh_error_set(&why, SPSH_E_CORRUPT, 0, offset, "%s: the two footers differ", file->name);
        rc = spsh__verify_refused(v, file, "footer", SPSH__FOOTERS_BYTES, &why, err);
    }
    file->footer_ok = good[0] || good[1];
    if (file->footer_ok)
        file->footer = footers[good[1] ? 1 : 0];
    return rc;
}

/* ---- identity ---- */

/* Return why this is not the expected file, or NULL. */
static const char *find_foreign(const spsh__verify_file *file)
{
    if (file->header_ok && file->kind != 0 && file->header.kind != file->kind)
        return "it has another kind";
    if (file->expected == NULL)
        return NULL;
    if (file->header_ok && memcmp(file->header.file_id, file->expected->file_id, 16) != 0)
        return "its file_id differs from the manifest";
    /* The header is lost: identify the file by its footer. */
    if (file->footer_ok && memcmp(file->footer.file_id, file->expected->file_id, 16) != 0)
        return "the file_id in its footer differs from the manifest";
    if (file->footer_ok && memcmp(file->footer.root_hash, file->expected->root_hash, 16) != 0)
        return "its root hash differs from the manifest";
    return NULL;
}

static spsh_status check_identity(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    const char *foreign = find_foreign(file);
    if (foreign != NULL) {
        file->foreign = true;
        spsh_error_set(&why, SPSH_E_MISMATCH, 0, 0, "%s: not the file that was sealed: %s",
                       file->name, foreign);
        return spsh__verify_refused(v, file, "identity", 0, &why, err);
    }
    if (file->header_ok && file->footer_ok &&
        (memcmp(file->header.file_id, file->footer.file_id, 16) != 0 ||
         file->header.kind != file->footer.kind)) {
        spsh_error_set(&why, SPSH_E_CORRUPT, 0, file->sealed_bytes - SPSH__FOOTERS_BYTES,
                       "%s: the header and the footer belong to different files", file->name);
        spsh_status rc = spsh__verify_refused(v, file, "footer", SPSH__FOOTERS_BYTES, &why, err);
        if (rc != SPSH_OK)
            return rc;
        file->footer_ok = false;
    }
    const uint8_t *file_id = file->header_ok          ? file->header.file_id
                             : file->footer_ok        ? file->footer.file_id
                             : file->expected != NULL ? file->expected->file_id
                                                      : NULL;
    file->id_known = file_id != NULL;
    if (file->id_known)
        memcpy(file->file_id, file_id, 16);
    return SPSH_OK;
}

/* ---- page table and pages ---- */

static spsh_status check_table(spsh__verify *v, spsh__verify_file *file, uint8_t *table,
                               bool *ret_good, spsh_error *err)
{
    const spsh__footer *footer = &file->footer;
    size_t size_bytes = (size_t)footer->page_table_bytes;
    bool came = false;
    *ret_good = false;
    spsh_status rc = read_part(v, file, footer->page_table_offset, table, size_bytes, &came, err);
    if (rc != SPSH_OK || !came)
        return rc;
    uint64_t found = spsh__checksum(footer->file_id, footer->page_table_offset, table, size_bytes);
    *ret_good = found == footer->page_table_checksum;
    if (*ret_good)
        return SPSH_OK;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_error_set(&why, SPSH_E_CORRUPT, 0, footer->page_table_offset,
                   "%s: checksum 0x%016llx, expected 0x%016llx", file->name, ULL(found),
                   ULL(footer->page_table_checksum));
    return spsh__verify_refused(v, file, "page table", size_bytes, &why, err);
}

static spsh_status check_page(spsh__verify *v, spsh__verify_file *file, uint64_t offset_bytes,
                              spsh_bytes page, uint64_t expected, spsh_error *err)
{
    uint64_t found = spsh__checksum(file->footer.file_id, offset_bytes, page.data, page.size_bytes);
    if (found == expected)
        return SPSH_OK;
    spsh_error why = SPSH_ERROR_INIT;
    file->sections_ok = false;
    spsh_error_set(&why, SPSH_E_CORRUPT, 0, offset_bytes,
                   "%s: checksum 0x%016llx, expected 0x%016llx", file->name, ULL(found),
                   ULL(expected));
    return spsh__verify_refused(v, file, "index page", page.size_bytes, &why, err);
}

static spsh_status check_extent(spsh__verify *v, spsh__verify_file *file,
                                const spsh_read_completion *done, const uint8_t *table,
                                spsh_error *err)
{
    spsh_status rc = spsh__verify_progress(v, done->got_bytes, err);
    if (rc == SPSH_OK && done->status != SPSH_OK) {
        spsh_error why = SPSH_ERROR_INIT;
        file->sections_ok = false;
        spsh_error_set(&why, done->status, done->os_errno, done->offset_bytes,
                       "%s: index pages at %llu cannot be read: %s", file->name,
                       ULL(done->offset_bytes),
                       done->status == SPSH_E_IO ? spsh__os_text(done->os_errno) : "end of file");
        return spsh__verify_refused(v, file, "unreadable", done->size_bytes, &why, err);
    }
    if (rc == SPSH_OK && file->area != NULL)
        memcpy(file->area + (size_t)(done->offset_bytes - file->footer.section_area_offset),
               done->data, done->got_bytes);
    if (table == NULL) /* damaged itself: nothing to compare with */
        return rc;
    uint64_t first = (done->offset_bytes - file->footer.section_area_offset) / SPSH__SECTION_PAGE;
    for (size_t at = 0; at < done->got_bytes && rc == SPSH_OK; at += SPSH__SECTION_PAGE) {
        size_t left = done->got_bytes - at;
        const spsh_bytes page = {done->data + at,
                                 left < SPSH__SECTION_PAGE ? left : SPSH__SECTION_PAGE};
        uint64_t number = first + at / SPSH__SECTION_PAGE;
        rc = check_page(v, file, done->offset_bytes + at, page,
                        spsh__load_u64le(table + 8 * number), err);
    }
    return rc;
}

static spsh_status check_pages(spsh__verify *v, spsh__verify_file *file, const uint8_t *table,
                               spsh_error *err)
{
    uint64_t next = file->footer.section_area_offset;
    uint64_t end = next + file->footer.section_area_bytes;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && (next < end || spsh_read_pending(v->engine) > 0)) {
        while (next < end && spsh_read_has_space(v->engine, EXTENT_BYTES)) {
            size_t size = end - next < EXTENT_BYTES ? (size_t)(end - next) : EXTENT_BYTES;
            rc = spsh_read_submit(v->engine, file->file, next, size, 0, err);
            if (rc != SPSH_OK)
                return rc;
            next += size;
        }
        spsh_read_completion done;
        rc = spsh_read_wait(v->engine, &done, err);
        if (rc == SPSH_OK) {
            rc = check_extent(v, file, &done, table, err);
            spsh_read_recycle(v->engine, &done);
        }
    }
    return rc;
}

static spsh_status check_sections(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    const bool shard = file->footer.kind == SPSH__KIND_SHARD;
    bool table_good = false;
    uint8_t *table = spsh__alloc(v->allocator, (size_t)file->footer.page_table_bytes + 1);
    if (shard)
        file->area = spsh__alloc(v->allocator, (size_t)file->footer.section_area_bytes + 1);
    if (table == NULL || (shard && file->area == NULL)) {
        spsh__free(v->allocator, table);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: index of %llu bytes", file->name,
                         ULL(file->footer.section_area_bytes));
    }
    spsh_status rc = check_table(v, file, table, &table_good, err);
    file->sections_ok = table_good;
    if (rc == SPSH_OK)
        rc = check_pages(v, file, table_good ? table : NULL, err);
    spsh__free(v->allocator, table);
    if (!file->sections_ok) {
        spsh__free(v->allocator, file->area);
        file->area = NULL;
    }
    return rc;
}

/* Check the root hash of a file without blocks. Shards are checked later, with their blocks. */
static spsh_status check_root(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    uint8_t root[16];
    if (!file->header_ok || file->footer.kind == SPSH__KIND_SHARD)
        return SPSH_OK;
    spsh_status rc = spsh__root_hash(file->header_checksum, NULL, 0,
                                     file->footer.page_table_checksum, v->allocator, root, err);
    if (rc != SPSH_OK || memcmp(root, file->footer.root_hash, 16) == 0)
        return rc;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_error_set(&why, SPSH_E_CORRUPT, 0, file->sealed_bytes - SPSH__FOOTERS_BYTES,
                   "%s: the root hash does not match the header and the page table", file->name);
    return spsh__verify_refused(v, file, "root hash", 16, &why, err);
}

/* ---- the whole ---- */

static spsh_status check_size(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    const uint64_t smallest = SPSH__PAGE_BYTES + SPSH__FOOTERS_BYTES;
    file->file_bytes = spsh_read_file_bytes(v->engine, file->file);
    file->sealed_bytes = file->expected != NULL ? file->expected->file_bytes : file->file_bytes;
    if (file->expected != NULL && file->file_bytes != file->expected->file_bytes)
        spsh_error_set(&why, SPSH_E_TRUNCATED, 0, file->file_bytes,
                       "%s: the file has %llu bytes, expected %llu", file->name,
                       ULL(file->file_bytes), ULL(file->expected->file_bytes));
    else if (file->file_bytes < smallest || file->file_bytes % SPSH__PAGE_BYTES != 0)
        spsh_error_set(
            &why, SPSH_E_TRUNCATED, 0, file->file_bytes,
            "%s: the file has %llu bytes; a sealed file has a multiple of 4096, and at least %llu",
            file->name, ULL(file->file_bytes), ULL(smallest));
    if (why.status == SPSH_OK)
        return SPSH_OK;
    if (file->sealed_bytes > file->file_bytes)
        file->sealed_bytes = file->file_bytes; /* no footer can be past the end */
    return spsh__verify_refused(v, file, "size", 0, &why, err);
}

static spsh_status open_file(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    file->damage_before = v->result.damage_count;
    v->result.files++;
    spsh_status rc = spsh_read_engine_add_file(v->engine, file->path, &file->file, &why);
    file->opened = rc == SPSH_OK;
    if (rc == SPSH_OK) {
        v->result.direct = v->result.direct || spsh_read_file_direct(v->engine, file->file);
        return SPSH_OK;
    }
    if (rc == SPSH_E_NO_MEMORY || rc == SPSH_E_LIMIT)
        return SPSH_FAIL(err, rc, "%s", why.message);
    return spsh__verify_refused(v, file, rc == SPSH_E_NOT_FOUND ? "missing" : "unreadable", 0, &why,
                                err);
}

spsh_status spsh__verify_file_begin(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    spsh_status rc = open_file(v, file, err);
    if (rc != SPSH_OK || !file->opened)
        return rc;
    rc = check_size(v, file, err);
    if (rc == SPSH_OK)
        rc = check_header(v, file, err);
    if (rc == SPSH_OK && file->sealed_bytes >= SPSH__PAGE_BYTES + SPSH__FOOTERS_BYTES)
        rc = check_footers(v, file, err);
    if (rc == SPSH_OK)
        rc = check_identity(v, file, err);
    if (rc != SPSH_OK || file->foreign || !file->footer_ok)
        return rc;
    rc = check_sections(v, file, err);
    if (rc == SPSH_OK)
        rc = check_root(v, file, err);
    return rc;
}

void spsh__verify_file_end(spsh__verify *v, spsh__verify_file *file)
{
    if (file->opened)
        spsh_read_engine_remove_file(v->engine, file->file);
    file->opened = false;
    spsh__free(v->allocator, file->area);
    file->area = NULL;
}
