/* index_writer.c: the dataset index, written in one pass over the shards' indexes (FORMAT.md 4.2).
 *
 * Rows are made in order and appended to their columns in batches. A row names a record of its
 * unit; the shard that holds it follows from the cumulative record counts, and an alias from
 * duplicates.c may send it on to an equal record of a lower unit. Two columns need all rows first:
 *
 *     by_id         a sorter of (id_hash, position), filled on the way
 *     duplicate_of  a sorter of (shard, record, start, samples, position), filled on the way; its
 *                   groups give (position, first position), which a second sorter brings back into
 *                   the order of positions
 *
 * Flags depend on duplicate_of. Until then, one bit per row keeps the row's other flag in memory.
 *
 * Utterances with equal id hashes are adjacent in by_id. Their ids are compared there, since an id
 * must be unique in the dataset.
 */
#include <inttypes.h>

#include "publish_internal.h"

enum {
    BATCH_ROWS = 1024,
    VIEW_KEY_BYTES = 32,   /* shard, record, start, samples, position; all big-endian */
    VIEW_BYTES = 24,       /* without the position */
    EQUAL_HASHES_MAX = 64, /* ids compared pair by pair; only made-up ids could share a hash */
};

/* Columns of a batch, by column number. */
typedef struct batch {
    uint8_t columns[SPSH__INDEX_COLUMN_LAST + 1][BATCH_ROWS * 8];
    uint64_t count;
} batch;

/* Entries of p->aliases for the records of one unit, ascending. */
typedef struct unit_aliases {
    spsh__buffer entries; /* key and value */
    bool pending;         /* the sorter's next entry is in key and value: it is of a later unit */
    bool end;
    uint8_t key[SPSH__ALIAS_KEY_BYTES];
    uint8_t value[SPSH__ALIAS_VALUE_BYTES];
} unit_aliases;

enum { ALIAS_ENTRY_BYTES = SPSH__ALIAS_KEY_BYTES + SPSH__ALIAS_VALUE_BYTES };

typedef struct index_writer {
    spsh__publish *p;
    spsh__section_writer *sections;
    spsh_sorter *by_id;
    spsh_sorter *views;
    uint8_t *has_text; /* bit p % 8 of byte p / 8 */
    batch *rows;
    unit_aliases aliases;
    uint32_t *translation[SPSH_NAME_KINDS]; /* the current shard's name numbers */
    spsh__audio_place place;                /* audio place of the previous row */
    uint64_t place_record;                  /* its record, inside the unit; UINT64_MAX: none */
    uint32_t last_group;
    uint8_t last_group_key[12];
    bool have_group;
} index_writer;

static void store_u32be(uint8_t *bytes, uint32_t value)
{
    spsh__store_u32le(bytes, __builtin_bswap32(value));
}

static void store_u64be(uint8_t *bytes, uint64_t value)
{
    spsh__store_u64le(bytes, __builtin_bswap64(value));
}

static uint64_t load_u64be(const uint8_t *bytes)
{
    return __builtin_bswap64(spsh__load_u64le(bytes));
}

/* ---- aliases of the current unit ---- */

static spsh_status next_alias(index_writer *w, spsh_error *err)
{
    spsh_bytes key = {NULL, 0};
    spsh_bytes value = {NULL, 0};
    spsh_status rc = spsh_sorter_next(w->p->aliases, &key, &value, err);
    if (rc == SPSH_E_END) {
        w->aliases.end = true;
        return SPSH_OK;
    }
    if (rc != SPSH_OK)
        return rc;
    memcpy(w->aliases.key, key.data, sizeof(w->aliases.key));
    memcpy(w->aliases.value, value.data, sizeof(w->aliases.value));
    w->aliases.pending = true;
    return SPSH_OK;
}

/* Load the aliases of shards before end_shard. Aliases of earlier units are dropped. */
static spsh_status load_unit_aliases(index_writer *w, uint32_t end_shard, spsh_error *err)
{
    unit_aliases *a = &w->aliases;
    spsh_status rc = SPSH_OK;
    uint8_t end_key[4];
    a->entries.size_bytes = 0;
    if (w->p->aliases == NULL)
        return SPSH_OK;
    store_u32be(end_key, end_shard);
    while (rc == SPSH_OK && !a->end) {
        if (!a->pending)
            rc = next_alias(w, err);
        if (rc != SPSH_OK || !a->pending || memcmp(a->key, end_key, sizeof(end_key)) >= 0)
            break;
        rc = spsh__buffer_append(&a->entries, &w->p->allocator, a->key, sizeof(a->key), err);
        if (rc == SPSH_OK)
            rc =
                spsh__buffer_append(&a->entries, &w->p->allocator, a->value, sizeof(a->value), err);
        a->pending = false;
    }
    return rc;
}

static const uint8_t *find_alias(const index_writer *w, uint32_t shard, uint32_t record)
{
    uint8_t key[SPSH__ALIAS_KEY_BYTES];
    size_t low = 0;
    size_t high = w->aliases.entries.size_bytes / ALIAS_ENTRY_BYTES;
    spsh__alias_key(shard, record, key);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const uint8_t *entry = w->aliases.entries.data + middle * ALIAS_ENTRY_BYTES;
        int order = memcmp(entry, key, sizeof(key));
        if (order == 0)
            return entry + SPSH__ALIAS_KEY_BYTES;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- rows ---- */

/* Find the audio of a record. `record` counts within the unit of shard `number`. */
static spsh_status find_place(index_writer *w, const spsh_shard *shard, uint64_t number,
                              uint64_t record, spsh_error *err)
{
    const spsh__publish *p = w->p;
    uint32_t low = p->unit_begin[number];
    uint32_t high = (uint32_t)number + 1; /* the record is in [low, high) */
    uint64_t wanted = 0;
    if (!spsh__add_u64(p->record_begin[low], record, &wanted) ||
        wanted >= p->record_begin[number + 1])
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "an utterance refers to record %" PRIu64 " of the unit, but only %" PRIu64
                         " records precede it",
                         record, p->record_begin[number + 1] - p->record_begin[low]);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p->record_begin[middle] <= wanted)
            low = middle;
        else
            high = middle;
    }
    const spsh_shard *holder = shard;
    spsh_status rc = SPSH_OK;
    if (low != number)
        rc = spsh__shard_cache_acquire(p->cache, low, &holder, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__audio_place_get(holder, low, wanted - p->record_begin[low], &w->place, NULL, err);
    if (low != number)
        spsh__shard_cache_release(p->cache, low);
    if (rc != SPSH_OK)
        return rc;
    const uint8_t *alias = find_alias(w, low, w->place.record);
    if (alias != NULL)
        spsh__alias_load(alias, &w->place);
    w->place_record = record;
    return SPSH_OK;
}

static spsh_status add_to_group(index_writer *w, uint32_t domain, uint32_t split, uint64_t samples,
                                spsh_error *err)
{
    uint8_t key[12];
    store_u32be(key, domain);
    store_u32be(key + 4, split);
    store_u32be(key + 8, w->place.sample_rate_hz);
    if (!w->have_group || memcmp(key, w->last_group_key, sizeof(key)) != 0) {
        const spsh__group_sum none = {0, 0};
        spsh_status rc =
            spsh__names_add(w->p->groups, (spsh_bytes){key, sizeof(key)}, &w->last_group, err);
        size_t have = w->p->group_sums.size_bytes / sizeof(none);
        if (rc == SPSH_OK && w->last_group == have)
            rc = spsh__buffer_append(&w->p->group_sums, &w->p->allocator, &none, sizeof(none), err);
        if (rc != SPSH_OK)
            return rc;
        memcpy(w->last_group_key, key, sizeof(key));
        w->have_group = true;
    }
    spsh__group_sum *sums = (spsh__group_sum *)(void *)w->p->group_sums.data;
    sums[w->last_group].utterances++;
    sums[w->last_group].samples += samples;
    return SPSH_OK;
}

static spsh_status translate(const index_writer *w, const spsh_shard *shard, spsh_name_kind kind,
                             uint32_t number, uint32_t *ret_number, spsh_error *err)
{
    *ret_number = SPSH_NONE_U32;
    if (number == SPSH_NONE_U32)
        return SPSH_OK;
    if (number >= spsh_shard_name_count(shard, kind))
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "name %u of kind %d does not exist: the shard has %" PRIu64, number,
                         (int)kind, spsh_shard_name_count(shard, kind));
    *ret_number = w->translation[kind][number];
    return SPSH_OK;
}

static uint8_t *cell(index_writer *w, uint32_t column)
{
    return w->rows->columns[column] + w->rows->count * spsh__index_element_bytes(column);
}

static void store_place(index_writer *w)
{
    spsh__store_u32le(cell(w, SPSH__INDEX_PAYLOAD_SHARD), w->place.shard);
    spsh__store_u32le(cell(w, SPSH__INDEX_PAYLOAD_RECORD), w->place.record);
    spsh__store_u64le(cell(w, SPSH__INDEX_RECORD_OFFSET), w->place.record_offset);
    spsh__store_u32le(cell(w, SPSH__INDEX_RECORD_BYTES), w->place.record_bytes);
    spsh__store_u32le(cell(w, SPSH__INDEX_SAMPLE_RATE_HZ), w->place.sample_rate_hz);
    spsh__store_u16le(cell(w, SPSH__INDEX_CHANNELS), w->place.channels);
    spsh__store_u16le(cell(w, SPSH__INDEX_CODEC), w->place.codec);
}

static spsh_status add_to_sorters(index_writer *w, const spsh_shard_row *row, uint64_t position,
                                  spsh_error *err)
{
    uint8_t hash[8];
    uint8_t value[8];
    uint8_t view[VIEW_KEY_BYTES];
    store_u64be(hash, row->id_hash);
    spsh__store_u64le(value, position);
    store_u32be(view, w->place.shard);
    store_u32be(view + 4, w->place.record);
    store_u64be(view + 8, row->start_sample);
    store_u64be(view + 16, row->samples);
    store_u64be(view + 24, position);
    /* Rows come in order of position, and the sorter keeps the order of equal keys. */
    spsh_status rc = spsh_sorter_add(w->by_id, (spsh_bytes){hash, sizeof(hash)},
                                     (spsh_bytes){value, sizeof(value)}, err);
    if (rc == SPSH_OK)
        rc =
            spsh_sorter_add(w->views, (spsh_bytes){view, sizeof(view)}, (spsh_bytes){NULL, 0}, err);
    return rc;
}

static spsh_status append_batch(index_writer *w, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; rc == SPSH_OK && c <= SPSH__INDEX_COLUMN_LAST; c++)
        if (c != SPSH__INDEX_BY_ID && c != SPSH__INDEX_FLAGS && c != SPSH__INDEX_DUPLICATE_OF)
            rc = spsh__section_append(w->sections, c, w->rows->columns[c], w->rows->count, err);
    w->rows->count = 0;
    return rc;
}

static spsh_status add_row(index_writer *w, const spsh_shard *shard, uint64_t number,
                           uint64_t row_number, spsh_error *err)
{
    spsh_shard_row row;
    uint64_t position = w->p->utterance_begin[number] + row_number;
    spsh_status rc = spsh_shard_row_get(shard, row_number, &row, err);
    if (rc == SPSH_OK && row.record != w->place_record)
        rc = find_place(w, shard, number, row.record, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t end = 0;
    if (!spsh__add_u64(row.start_sample, row.samples, &end) || end > w->place.samples)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "an utterance of %" PRIu64 " samples from sample %" PRIu64
                         " exceeds its record, which has %" PRIu64,
                         row.samples, row.start_sample, w->place.samples);
    const uint32_t numbers[SPSH_NAME_KINDS] = {row.domain, row.split, row.speaker, row.language,
                                               row.document};
    uint32_t names[SPSH_NAME_KINDS];
    for (uint32_t kind = 0; rc == SPSH_OK && kind < SPSH_NAME_KINDS; kind++) {
        rc = translate(w, shard, (spsh_name_kind)kind, numbers[kind], &names[kind], err);
        spsh__store_u32le(cell(w, SPSH__INDEX_DOMAIN + kind), names[kind]);
    }
    if (rc == SPSH_OK)
        rc = add_to_group(w, names[SPSH_NAME_DOMAIN], names[SPSH_NAME_SPLIT], row.samples, err);
    if (rc == SPSH_OK)
        rc = add_to_sorters(w, &row, position, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__store_u64le(cell(w, SPSH__INDEX_ID_HASH), row.id_hash);
    spsh__store_u64le(cell(w, SPSH__INDEX_START_SAMPLE), row.start_sample);
    spsh__store_u64le(cell(w, SPSH__INDEX_SAMPLES), row.samples);
    spsh__store_u32le(cell(w, SPSH__INDEX_TEXT_BYTES), row.text_bytes);
    store_place(w);
    if ((row.flags & SPSH_UTTERANCE_HAS_TEXT) != 0)
        w->has_text[position / 8] |= (uint8_t)(1 << (position % 8));
    if (++w->rows->count == BATCH_ROWS)
        rc = append_batch(w, err);
    return rc;
}

/* ---- shards ---- */

static void free_translation(index_writer *w)
{
    for (size_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        spsh__free(&w->p->allocator, w->translation[kind]);
        w->translation[kind] = NULL;
    }
}

static spsh_status load_translation(index_writer *w, const spsh_shard *shard, spsh_error *err)
{
    free_translation(w);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint64_t count = spsh_shard_name_count(shard, (spsh_name_kind)kind);
        w->translation[kind] = (uint32_t *)spsh__alloc_array(&w->p->allocator, (size_t)count,
                                                             sizeof(*w->translation[kind]));
        if (w->translation[kind] == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " names", count);
        for (uint64_t i = 0; i < count; i++) {
            spsh_bytes name = {NULL, 0};
            spsh_status rc = spsh_shard_name(shard, (spsh_name_kind)kind, (uint32_t)i, &name, err);
            if (rc != SPSH_OK)
                return rc;
            if (!spsh__names_find(w->p->names[kind], name, &w->translation[kind][i]))
                return SPSH_FAIL(err, SPSH_E_MISMATCH,
                                 "the names of the shard changed during reading");
        }
    }
    return SPSH_OK;
}

static spsh_status add_shard(index_writer *w, uint64_t number, spsh_error *err)
{
    const spsh__publish *p = w->p;
    const spsh_shard *shard = NULL;
    spsh_status rc = spsh__shard_cache_acquire(p->cache, number, &shard, err);
    if (rc != SPSH_OK)
        return rc;
    if (p->unit_begin[number] == number) {
        uint64_t end = number + 1;
        while (end < p->opt.seal_count && p->unit_begin[end] == number)
            end++;
        rc = load_unit_aliases(w, (uint32_t)end, err);
        w->place_record = UINT64_MAX;
    }
    if (rc == SPSH_OK)
        rc = load_translation(w, shard, err);
    uint64_t count = p->opt.seals[number].utterance_count;
    for (uint64_t row = 0; rc == SPSH_OK && row < count; row++) {
        rc = add_row(w, shard, number, row, err);
        if (rc == SPSH_E_CORRUPT && err != NULL) {
            spsh_error why = *err;
            char name[32];
            spsh_shard_file_name(p->opt.seals[number].unit, p->opt.seals[number].number, name);
            spsh_error_set(err, rc, why.os_errno, why.offset_bytes,
                           "%s/shards/%s: row %" PRIu64 ": %.300s", p->opt.path, name, row,
                           why.message);
        }
    }
    spsh__shard_cache_release(p->cache, number);
    return rc;
}

/* ---- by_id ---- */

static uint64_t shard_of(const spsh__publish *p, uint64_t position)
{
    uint64_t low = 0;
    uint64_t high = p->opt.seal_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (p->utterance_begin[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The id of an utterance, from its shard's metadata, appended to ids with its length in front. */
static spsh_status append_id(spsh__publish *p, uint64_t position, spsh__buffer *ids,
                             spsh_error *err)
{
    uint64_t number = shard_of(p, position);
    const spsh_shard *shard = NULL;
    spsh_metadata_reader *reader = NULL;
    spsh_utterance utterance;
    uint8_t id_bytes[4];
    spsh_status rc = spsh__shard_cache_acquire(p->cache, number, &shard, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh_metadata_reader_open(shard, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh_metadata_reader_get(reader, position - p->utterance_begin[number], &utterance,
                                      err);
    if (rc == SPSH_OK) {
        spsh__store_u32le(id_bytes, (uint32_t)utterance.id.size_bytes);
        rc = spsh__buffer_append(ids, &p->allocator, id_bytes, sizeof(id_bytes), err);
    }
    if (rc == SPSH_OK)
        rc = spsh__buffer_append(ids, &p->allocator, utterance.id.data, utterance.id.size_bytes,
                                 err);
    spsh_metadata_reader_close(reader);
    spsh__shard_cache_release(p->cache, number);
    return rc;
}

/* Return whether the last id in the list occurs earlier in it. */
static spsh_status check_last_id(const spsh__publish *p, const spsh__buffer *ids, uint64_t position,
                                 spsh_error *err)
{
    size_t last = 0;
    for (size_t at = 0; at < ids->size_bytes; at += 4 + spsh__load_u32le(ids->data + at))
        last = at;
    size_t last_bytes = ids->size_bytes - last;
    for (size_t at = 0; at < last; at += 4 + spsh__load_u32le(ids->data + at)) {
        if (ids->size_bytes - at < last_bytes ||
            memcmp(ids->data + at, ids->data + last, last_bytes) != 0)
            continue;
        int shown = last_bytes - 4 < 200 ? (int)last_bytes - 4 : 200;
        return SPSH_FAIL(
            err, SPSH_E_SYNTAX,
            "%s: two utterances have the id \"%.*s\"; the second one is number %" PRIu64
            " of unit %" PRIu64,
            p->opt.path, shown, (const char *)(ids->data + last + 4),
            position - p->utterance_begin[p->unit_begin[shard_of(p, position)]],
            p->opt.seals[shard_of(p, position)].unit);
    }
    return SPSH_OK;
}

/* Adjacent entries with equal id hashes. */
typedef struct hash_group {
    uint64_t hash;
    uint64_t first; /* position of the first utterance */
    uint32_t count;
    spsh__buffer ids; /* read only if there are at least two utterances */
} hash_group;

static spsh_status check_hash(spsh__publish *p, hash_group *g, uint64_t hash, uint64_t position,
                              spsh_error *err)
{
    if (g->count == 0 || g->hash != hash) {
        g->hash = hash;
        g->first = position;
        g->count = 1;
        g->ids.size_bytes = 0;
        return SPSH_OK;
    }
    spsh_status rc = SPSH_OK;
    if (++g->count > EQUAL_HASHES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: more than %d utterances share an id hash",
                         p->opt.path, (int)EQUAL_HASHES_MAX);
    if (g->count == 2)
        rc = append_id(p, g->first, &g->ids, err);
    if (rc == SPSH_OK)
        rc = append_id(p, position, &g->ids, err);
    if (rc == SPSH_OK)
        rc = check_last_id(p, &g->ids, position, err);
    return rc;
}

static spsh_status write_by_id(index_writer *w, spsh_error *err)
{
    uint8_t *positions = w->rows->columns[SPSH__INDEX_BY_ID];
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    hash_group g = {.count = 0};
    for (uint64_t n = 0; rc == SPSH_OK; n++) {
        spsh_bytes key = {NULL, 0};
        spsh_bytes value = {NULL, 0};
        if (n % SPSH__PUBLISH_STEP == 0)
            rc = spsh__publish_progress(w->p, "ids", n, spsh_sorter_count(w->by_id), err);
        if (rc == SPSH_OK)
            rc = spsh_sorter_next(w->by_id, &key, &value, err);
        if (rc != SPSH_OK)
            break;
        memcpy(positions + 8 * count++, value.data, 8);
        if (count == BATCH_ROWS) {
            rc = spsh__section_append(w->sections, SPSH__INDEX_BY_ID, positions, count, err);
            count = 0;
        }
        if (rc == SPSH_OK)
            rc = check_hash(w->p, &g, load_u64be(key.data), spsh__load_u64le(value.data), err);
    }
    spsh__buffer_free(&g.ids, &w->p->allocator);
    if (rc == SPSH_E_END)
        rc = spsh__section_append(w->sections, SPSH__INDEX_BY_ID, positions, count, err);
    return rc;
}

/* ---- duplicate_of ---- */

/* From groups of equal views to (position, first position of its group), without the first ones. */
static spsh_status find_repeated_views(index_writer *w, spsh_sorter *repeated, spsh_error *err)
{
    uint8_t view[VIEW_BYTES];
    uint8_t first[8];
    bool have = false;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; rc == SPSH_OK; n++) {
        spsh_bytes key = {NULL, 0};
        spsh_bytes value = {NULL, 0};
        if (n % SPSH__PUBLISH_STEP == 0)
            rc = spsh__publish_progress(w->p, "views", n, spsh_sorter_count(w->views), err);
        if (rc == SPSH_OK)
            rc = spsh_sorter_next(w->views, &key, &value, err);
        if (rc != SPSH_OK)
            break;
        if (have && memcmp(view, key.data, VIEW_BYTES) == 0) {
            rc = spsh_sorter_add(repeated, (spsh_bytes){key.data + VIEW_BYTES, 8},
                                 (spsh_bytes){first, 8}, err);
            continue;
        }
        memcpy(view, key.data, VIEW_BYTES);
        memcpy(first, key.data + VIEW_BYTES, 8);
        have = true;
    }
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status append_flags(index_writer *w, size_t count, spsh_error *err)
{
    spsh_status rc = spsh__section_append(w->sections, SPSH__INDEX_FLAGS,
                                          w->rows->columns[SPSH__INDEX_FLAGS], count, err);
    if (rc == SPSH_OK)
        rc = spsh__section_append(w->sections, SPSH__INDEX_DUPLICATE_OF,
                                  w->rows->columns[SPSH__INDEX_DUPLICATE_OF], count, err);
    return rc;
}

static spsh_status write_flags(index_writer *w, spsh_sorter *repeated, spsh_error *err)
{
    uint64_t total = w->p->utterance_begin[w->p->opt.seal_count];
    uint64_t next = UINT64_MAX; /* position of the next duplicate */
    uint64_t first = 0;
    bool end = false;
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    for (uint64_t position = 0; position < total; position++) {
        if (!end && (next == UINT64_MAX || next < position)) {
            spsh_bytes key = {NULL, 0};
            spsh_bytes value = {NULL, 0};
            rc = spsh_sorter_next(repeated, &key, &value, err);
            end = rc == SPSH_E_END;
            if (rc != SPSH_OK && !end)
                return rc;
            next = end ? UINT64_MAX : load_u64be(key.data);
            first = end ? 0 : load_u64be(value.data);
        }
        uint32_t flags = (w->has_text[position / 8] >> (position % 8)) & 1;
        bool duplicate = next == position;
        if (duplicate)
            flags |= SPSH_UTTERANCE_DUPLICATE;
        spsh__store_u32le(w->rows->columns[SPSH__INDEX_FLAGS] + 4 * count, flags);
        spsh__store_u64le(w->rows->columns[SPSH__INDEX_DUPLICATE_OF] + 8 * count,
                          duplicate ? first : SPSH_NONE_U64);
        if (++count < BATCH_ROWS)
            continue;
        rc = append_flags(w, count, err);
        if (rc != SPSH_OK)
            return rc;
        count = 0;
    }
    return append_flags(w, count, err);
}

static spsh_status write_duplicates(index_writer *w, spsh_error *err)
{
    spsh_sorter *repeated = NULL;
    spsh_status rc = spsh__publish_sorter(w->p, 3, &repeated, err);
    if (rc == SPSH_OK)
        rc = find_repeated_views(w, repeated, err);
    if (rc == SPSH_OK) {
        w->p->duplicate_count = spsh_sorter_count(repeated);
        spsh_sorter_free(w->views);
        w->views = NULL;
        rc = write_flags(w, repeated, err);
    }
    spsh_sorter_free(repeated);
    return rc;
}

/* ---- the file ---- */

static spsh_status write_names(index_writer *w, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t kind = 0; rc == SPSH_OK && kind < SPSH_NAME_KINDS; kind++) {
        const spsh__names *names = w->p->names[kind];
        spsh_bytes bytes = spsh__names_bytes(names);
        uint32_t id = SPSH__INDEX_NAME_ENDS + 2 * kind;
        rc = spsh__section_append(w->sections, id, spsh__names_ends(names),
                                  spsh__names_count(names), err);
        if (rc == SPSH_OK)
            rc = spsh__section_append(w->sections, id + 1, bytes.data, bytes.size_bytes, err);
    }
    return rc;
}

static spsh_status open_sections(index_writer *w, spsh_file_writer *file, spsh_error *err)
{
    const spsh__publish *p = w->p;
    spsh__section
        sections[SPSH__INDEX_COLUMN_LAST - SPSH__INDEX_COLUMN_FIRST + 1 + 2 * SPSH_NAME_KINDS];
    uint32_t count = 0;
    for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++)
        sections[count++] =
            (spsh__section){c, spsh__index_element_bytes(c), p->utterance_begin[p->opt.seal_count]};
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint32_t id = SPSH__INDEX_NAME_ENDS + 2 * kind;
        sections[count++] = (spsh__section){id, 8, spsh__names_count(p->names[kind])};
        sections[count++] =
            (spsh__section){id + 1, 1, spsh__names_bytes(p->names[kind]).size_bytes};
    }
    spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 1};
    uint8_t page[SPSH__PAGE_BYTES];
    memcpy(header.dataset_id, p->opt.dataset_id, 16);
    spsh__generation_file_id(header.dataset_id, header.ordinal, "index", header.file_id);
    spsh__header_encode(&header, page);
    spsh_status rc = spsh_file_writer_write(file, page, sizeof(page), err);
    if (rc == SPSH_OK)
        rc = spsh__section_writer_open(file, &header, sections, count, &p->allocator, &w->sections,
                                       err);
    return rc;
}

static spsh_status open_parts(index_writer *w, spsh_error *err)
{
    const spsh__publish *p = w->p;
    size_t text_bytes = (size_t)(p->utterance_begin[p->opt.seal_count] / 8 + 1);
    w->place_record = UINT64_MAX;
    w->rows = (batch *)spsh__new(&p->allocator, 1, sizeof(*w->rows));
    w->has_text = (uint8_t *)spsh__new(&p->allocator, 1, text_bytes);
    if (w->rows == NULL || w->has_text == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: index", p->opt.path);
    spsh_status rc = spsh__publish_sorter(p, 3, &w->by_id, err);
    if (rc == SPSH_OK)
        rc = spsh__publish_sorter(p, 3, &w->views, err);
    return rc;
}

static spsh_status write_index(index_writer *w, spsh_file_writer *file, spsh_error *err)
{
    spsh_status rc = open_parts(w, err);
    if (rc == SPSH_OK)
        rc = open_sections(w, file, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < w->p->opt.seal_count; i++) {
        rc = spsh__publish_progress(w->p, "index", i, w->p->opt.seal_count, err);
        if (rc == SPSH_OK)
            rc = add_shard(w, i, err);
    }
    if (rc == SPSH_OK)
        rc = append_batch(w, err);
    if (rc == SPSH_OK)
        rc = write_by_id(w, err);
    spsh_sorter_free(w->by_id);
    w->by_id = NULL;
    if (rc == SPSH_OK)
        rc = write_duplicates(w, err);
    if (rc == SPSH_OK)
        rc = write_names(w, err);
    if (rc == SPSH_OK)
        rc = spsh__section_writer_finish(w->sections, NULL, 0, 0,
                                         w->p->utterance_begin[w->p->opt.seal_count],
                                         &w->p->index_footer, err);
    return rc;
}

spsh_status spsh__index_publish(spsh__publish *p, spsh_error *err)
{
    index_writer w = {.p = p};
    spsh_file_writer *file = NULL;
    char name[40];
    spsh__generation_name("index", 1, name);
    spsh_status rc = spsh_file_writer_open(p->io, p->opt.path, name, 0, &p->allocator, &file, err);
    if (rc == SPSH_OK)
        rc = write_index(&w, file, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_NEW, err);
    free_translation(&w);
    spsh__buffer_free(&w.aliases.entries, &p->allocator);
    spsh_sorter_free(w.by_id);
    spsh_sorter_free(w.views);
    spsh__section_writer_free(w.sections);
    spsh__free(&p->allocator, w.has_text);
    spsh__free(&p->allocator, w.rows);
    spsh_file_writer_free(file);
    return rc;
}
