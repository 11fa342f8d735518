/* repair_rebuild.c: write the same shard again: a header from its identity, its blocks unchanged,
 * and the parts derived from them. The file is a function of header and blocks, so its bytes equal
 * the sealed ones. The root hash of a surviving footer, or of the manifest, proves it. */
#include "repair_internal.h"

#include "io/io_internal.h"

static spsh_status add_records(const spsh__repair *r, const spsh__repair_block *at,
                               const uint8_t *data, spsh__shard_index *index, spsh_error *err)
{
    size_t offset = SPSH__BLOCK_HEADER_BYTES;
    size_t end = (size_t)at->block.used_bytes;
    for (uint32_t n = 0; n < at->block.count; n++) {
        const spsh_bytes rest = {data + offset, end - offset};
        spsh__record_head head;
        spsh_status rc = spsh__record_head_decode(r->header.file_id, at->offset_bytes + offset,
                                                  rest, r->name, &head, err);
        if (rc != SPSH_OK)
            return rc;
        if (head.record_bytes > rest.size_bytes || head.ordinal != spsh__shard_index_records(index))
            return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, at->offset_bytes + offset,
                                "%s: a record is not at its offset", r->name);
        rc = spsh__shard_index_add_record(index, at->offset_bytes + offset, head.head_bytes,
                                          &head.record, err);
        if (rc != SPSH_OK)
            return rc;
        offset += (size_t)head.record_bytes;
    }
    return SPSH_OK;
}

static spsh_status add_rows(const spsh__repair *r, const spsh__repair_block *at,
                            const uint8_t *data, spsh__metadata *metadata, spsh__shard_index *index,
                            spsh_error *err)
{
    spsh_status rc = spsh__metadata_load(metadata, data, at->block.used_bytes, at->block.count,
                                         at->offset_bytes, r->name, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_metadata_block(index, at->offset_bytes,
                                                  (uint32_t)at->block.first, err);
    for (uint32_t n = 0; n < at->block.count && rc == SPSH_OK; n++) {
        spsh_utterance row;
        spsh__metadata_row(metadata, n, &row);
        rc = spsh__shard_index_add_row(index, &row, err);
    }
    return rc;
}

static spsh_status copy_blocks(const spsh__repair *r, spsh_file_writer *writer,
                               spsh__shard_index *index, spsh_error *err)
{
    spsh__metadata *metadata = spsh__metadata_new(r->allocator);
    spsh_status rc = SPSH_OK;
    if (metadata == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: metadata", r->name);
    for (uint64_t n = 0; n < r->block_count && rc == SPSH_OK; n++) {
        const spsh__repair_block at = spsh__repair_block_at(r, n);
        uint8_t *data = NULL;
        rc = spsh__repair_block_load(r, &at, &data, err);
        if (rc == SPSH_OK)
            rc = spsh_file_writer_write(writer, data, (size_t)at.block.block_bytes, err);
        if (rc == SPSH_OK)
            rc = spsh__shard_index_add_block(index, at.offset_bytes, at.block.checksum, err);
        if (rc == SPSH_OK)
            rc = at.block.kind == SPSH__BLOCK_RECORDS
                     ? add_records(r, &at, data, index, err)
                     : add_rows(r, &at, data, metadata, index, err);
        spsh__free(r->allocator, data);
    }
    spsh__metadata_free(metadata);
    return rc;
}

static void take_seal(spsh__repair *r, const spsh__footer *footer)
{
    spsh_shard_seal *seal = &r->result.seal;
    *seal = (spsh_shard_seal){.file_bytes = footer->file_bytes,
                              .unit = r->header.ordinal,
                              .number = r->header.sub_ordinal,
                              .record_count = footer->record_count,
                              .utterance_count = footer->utterance_count};
    memcpy(seal->file_id, footer->file_id, 16);
    memcpy(seal->root_hash, footer->root_hash, 16);
    r->result.records_kept = footer->record_count;
    r->result.utterances_kept = footer->utterance_count;
}

spsh_status spsh__repair_rebuild(spsh__repair *r, bool *ret_same, spsh_error *err)
{
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_file_writer *writer = NULL;
    spsh__shard_index *index = spsh__shard_index_new(r->allocator);
    spsh__footer footer;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    *ret_same = false;
    if (index == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: index", r->name);
        goto out;
    }
    rc = spsh_file_writer_open(r->io, r->directory, r->name, 0, r->allocator, &writer, err);
    if (rc != SPSH_OK)
        goto out;
    spsh__header_encode(&r->header, page);
    rc = spsh_file_writer_write(writer, page, sizeof(page), err);
    if (rc != SPSH_OK)
        goto out;
    rc = copy_blocks(r, writer, index, &why);
    if (rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED) { /* intact, but against the rules */
        rc = SPSH_OK;
        goto out;
    }
    if (rc == SPSH_OK)
        rc = spsh__shard_index_write(index, writer, &r->header, &footer, &why);
    if (rc != SPSH_OK) {
        if (err != NULL)
            *err = why;
        goto out;
    }
    const spsh_shard_seal *expected = r->opt.expected;
    const bool by_footer =
        r->footer_found && memcmp(footer.root_hash, r->footer.root_hash, 16) == 0;
    const bool by_manifest =
        expected != NULL && memcmp(footer.root_hash, expected->root_hash, 16) == 0;
    if ((r->footer_found || expected != NULL) && !by_footer && !by_manifest)
        goto out; /* a known root hash does not match */
    rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, err);
    if (rc != SPSH_OK)
        goto out;
    r->result.identical = by_footer || by_manifest;
    take_seal(r, &footer);
    *ret_same = true;
out:
    spsh_file_writer_free(writer);
    spsh__shard_index_free(index);
    return rc;
}
