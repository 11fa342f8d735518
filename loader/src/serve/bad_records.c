/* bad_records.c: two short lists with linear search. More than a few dozen entries mean a broken
 * disk, and cause an error. */
#include "bad_records.h"

#include <xxhash.h>

#define ULL(value_) ((unsigned long long)(value_))

enum { HASH_BYTES = 8 };

void spsh__bad_free(spsh__bad *bad)
{
    if (bad->allocator == NULL)
        return;
    spsh__free(bad->allocator, bad->known.records);
    spsh__free(bad->allocator, bad->served.records);
}

static const spsh_bad_record *find(const spsh__bad_list *list, uint32_t dataset, uint64_t position)
{
    for (size_t n = 0; n < list->count; n++)
        if (list->records[n].position == position && list->records[n].dataset == dataset)
            return &list->records[n];
    return NULL;
}

static spsh_status append(const spsh__bad *bad, spsh__bad_list *list, const spsh_bad_record *record,
                          spsh_error *err)
{
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 16;
        spsh_bad_record *more =
            (spsh_bad_record *)spsh__new(bad->allocator, capacity, sizeof(*more));
        if (more == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: %zu bad records", capacity);
        if (list->count > 0)
            memcpy(more, list->records, list->count * sizeof(*more));
        spsh__free(bad->allocator, list->records);
        list->records = more;
        list->capacity = capacity;
    }
    list->records[list->count++] = *record;
    return SPSH_OK;
}

const spsh_bad_record *spsh__bad_find(const spsh__bad *bad, uint32_t dataset, uint64_t position)
{
    return find(&bad->known, dataset, position);
}

spsh_status spsh__bad_learn(spsh__bad *bad, const spsh_bad_record *record, spsh_error *err)
{
    if (find(&bad->known, record->dataset, record->position) != NULL)
        return SPSH_OK;
    return append(bad, &bad->known, record, err);
}

spsh_status spsh__bad_serve(spsh__bad *bad, const spsh_bad_record *records, size_t count,
                            spsh_error *err)
{
    for (size_t n = 0; n < count; n++) {
        if (find(&bad->served, records[n].dataset, records[n].position) != NULL)
            continue;
        if (bad->served.count >= bad->limit)
            return SPSH_FAIL_AT(err, SPSH_E_LIMIT, records[n].error.offset_bytes,
                                "more than %llu bad records (quarantine_max); the latest: %.380s",
                                ULL(bad->limit), records[n].error.message);
        spsh_status rc = append(bad, &bad->served, &records[n], err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

size_t spsh__bad_extra_bytes(const spsh__bad *bad)
{
    return bad->served.count == 0 ? 0 : bad->served.count * SPSH__BAD_ENTRY_BYTES + HASH_BYTES;
}

void spsh__bad_encode(const spsh__bad *bad, uint8_t *extra)
{
    if (bad->served.count == 0)
        return;
    uint8_t *at = extra;
    for (size_t n = 0; n < bad->served.count; n++, at += SPSH__BAD_ENTRY_BYTES) {
        spsh__store_u32le(at, bad->served.records[n].dataset);
        spsh__store_u64le(at + 4, bad->served.records[n].position);
    }
    spsh__store_u64le(at, XXH3_64bits(extra, (size_t)(at - extra)));
}

static spsh_status decode_entry(spsh__bad *bad, const uint8_t *entry, uint32_t dataset_count,
                                spsh_error *err)
{
    spsh_bad_record record = {.dataset = spsh__load_u32le(entry),
                              .position = spsh__load_u64le(entry + 4)};
    if (record.dataset >= dataset_count)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, SPSH_CURSOR_BYTES,
                            "cursor: the quarantine names dataset %u, but there are %u datasets",
                            record.dataset, dataset_count);
    if (find(&bad->served, record.dataset, record.position) != NULL)
        return SPSH_OK;
    spsh_error_set(
        &record.error, SPSH_E_CANCELED, 0, SPSH_OFFSET_NONE,
        "utterance number %llu of dataset %u is in the quarantine of the restored cursor",
        ULL(record.position), record.dataset);
    spsh_status rc = append(bad, &bad->known, &record, err);
    return rc == SPSH_OK ? append(bad, &bad->served, &record, err) : rc;
}

spsh_status spsh__bad_decode(spsh__bad *bad, const uint8_t *extra, size_t size_bytes,
                             uint32_t dataset_count, spsh_error *err)
{
    if (size_bytes == 0)
        return SPSH_OK;
    if (size_bytes < HASH_BYTES || (size_bytes - HASH_BYTES) % SPSH__BAD_ENTRY_BYTES != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, SPSH_CURSOR_BYTES,
                            "cursor: the quarantine has an invalid size, %zu bytes", size_bytes);
    const size_t entry_bytes = size_bytes - HASH_BYTES;
    const uint64_t expected = spsh__load_u64le(extra + entry_bytes);
    const uint64_t found = XXH3_64bits(extra, entry_bytes);
    if (expected != found)
        return SPSH_FAIL_AT(
            err, SPSH_E_CORRUPT, SPSH_CURSOR_BYTES,
            "cursor: the checksum of the quarantine is 0x%016llx, expected 0x%016llx", ULL(found),
            ULL(expected));
    spsh_status rc = SPSH_OK;
    for (size_t at = 0; at < entry_bytes && rc == SPSH_OK; at += SPSH__BAD_ENTRY_BYTES)
        rc = decode_entry(bad, extra + at, dataset_count, err);
    return rc;
}
