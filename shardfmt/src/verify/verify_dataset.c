/* verify_dataset.c: check that manifest, dataset index, and shards agree.
 *
 * Each file is known to be intact by now. Every row of the dataset index is compared with its row
 * in the shard and with the record that it refers to. by_id must be sorted, which makes it a
 * permutation. The groups of the manifest are summed again. Of the rows that disagree, the first
 * one of each shard is reported, with the number of such rows. Otherwise one mistake of a writer
 * would produce a line per row.
 *
 * Copies across unit borders refer to a record of a lower unit: then that record must have the same
 * payload or the same PCM, by their hashes. The check that duplicate_of is the lowest position only
 * looks at that one position.
 */
#include "dataset/publish_internal.h"
#include "io/io_internal.h"
#include "verify_internal.h"

#include <stdio.h>

#define ULL(value_) ((unsigned long long)(value_))

enum {
    BATCH_ROWS = 4096,
    SHARDS_OPEN_MAX = 64,
    COLUMNS = SPSH__INDEX_COLUMN_LAST + 1,
    GROUP_KEY_BYTES = 12,
};

typedef struct dataset_check {
    spsh__verify *v;
    const spsh__container *index;
    spsh__shard_cache *cache;
    spsh__names *names[SPSH_NAME_KINDS];    /* name tables of the dataset */
    uint32_t *translation[SPSH_NAME_KINDS]; /* the current shard's name numbers */
    uint64_t translated[SPSH_NAME_KINDS];
    uint64_t *record_begin;          /* by shard, one more */
    uint32_t *unit_begin;            /* first shard of its unit, by shard */
    const uint8_t *columns[COLUMNS]; /* columns of the current batch */
    spsh__audio_place place;         /* audio place of the previous row */
    bool place_known;
    spsh__names *groups;
    spsh__buffer group_sums;
    uint64_t duplicates;
    bool complete; /* all shards could be compared: sums mean something */
} dataset_check;

static uint64_t cell(const dataset_check *c, uint32_t column, uint64_t at)
{
    const uint8_t *elements = c->columns[column];
    switch (spsh__index_element_bytes(column)) {
    case 2: return spsh__load_u16le(elements + 2 * at);
    case 4: return spsh__load_u32le(elements + 4 * at);
    default: return spsh__load_u64le(elements + 8 * at);
    }
}

/* ---- one row ---- */

/* Compare a row with the shard's row. Returns NULL if they agree. */
static const char *compare_row(const dataset_check *c, uint64_t at, const spsh_shard_row *row)
{
    const uint32_t names[SPSH_NAME_KINDS] = {row->domain, row->split, row->speaker, row->language,
                                             row->document};
    if (cell(c, SPSH__INDEX_ID_HASH, at) != row->id_hash)
        return "id_hash";
    if (cell(c, SPSH__INDEX_START_SAMPLE, at) != row->start_sample)
        return "start_sample";
    if (cell(c, SPSH__INDEX_SAMPLES, at) != row->samples)
        return "samples";
    if (cell(c, SPSH__INDEX_TEXT_BYTES, at) != row->text_bytes)
        return "text_bytes";
    if ((cell(c, SPSH__INDEX_FLAGS, at) & ~(uint64_t)SPSH_UTTERANCE_DUPLICATE) != row->flags)
        return "flags";
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint32_t want = SPSH_NONE_U32;
        if (names[kind] != SPSH_NONE_U32) {
            if (names[kind] >= c->translated[kind])
                return "a name";
            want = c->translation[kind][names[kind]];
        }
        if (cell(c, SPSH__INDEX_DOMAIN + kind, at) != want)
            return "a name";
    }
    return NULL;
}

/* The same audio, stored in two units. */
static spsh_status compare_copies(dataset_check *c, const spsh__audio_place *a, uint64_t shard,
                                  uint64_t record, bool *ret_same, spsh_error *err)
{
    const spsh_shard *shards[2] = {NULL, NULL};
    spsh_record records[2];
    spsh_record_place places[2];
    *ret_same = false;
    spsh_status rc = spsh__shard_cache_acquire(c->cache, a->shard, &shards[0], err);
    if (rc == SPSH_OK)
        rc = spsh__shard_cache_acquire(c->cache, shard, &shards[1], err);
    if (rc == SPSH_OK)
        rc = spsh_shard_record(shards[0], a->record, &records[0], &places[0], err);
    if (rc == SPSH_OK)
        rc = spsh_shard_record(shards[1], record, &records[1], &places[1], err);
    if (rc == SPSH_OK)
        *ret_same = a->shard < c->unit_begin[shard] && records[0].samples == records[1].samples &&
                    (memcmp(records[0].payload_hash, records[1].payload_hash, 16) == 0 ||
                     ((records[0].flags & records[1].flags & SPSH_RECORD_PCM_HASH) != 0 &&
                      memcmp(records[0].pcm_hash, records[1].pcm_hash, 16) == 0));
    if (shards[1] != NULL)
        spsh__shard_cache_release(c->cache, shard);
    if (shards[0] != NULL)
        spsh__shard_cache_release(c->cache, a->shard);
    return rc;
}

/* Shard and record to which a shard's row refers, by its number inside the unit. */
static bool resolve(const dataset_check *c, uint64_t shard, uint64_t unit_record,
                    uint64_t *ret_shard, uint64_t *ret_record)
{
    uint64_t begin = c->record_begin[c->unit_begin[shard]];
    for (uint64_t at = shard + 1; at-- > c->unit_begin[shard];) {
        uint64_t first = c->record_begin[at] - begin;
        if (unit_record < first)
            continue;
        *ret_shard = at;
        *ret_record = unit_record - first;
        return *ret_record < c->record_begin[at + 1] - c->record_begin[at];
    }
    return false;
}

static spsh_status load_place(dataset_check *c, uint64_t shard, uint64_t record, spsh_error *err)
{
    const spsh_shard *opened = NULL;
    uint64_t payload_bytes = 0;
    if (c->place_known && c->place.shard == shard && c->place.record == record)
        return SPSH_OK;
    c->place_known = false;
    spsh_status rc = spsh__shard_cache_acquire(c->cache, shard, &opened, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__audio_place_get(opened, shard, record, &c->place, &payload_bytes, err);
    c->place_known = rc == SPSH_OK;
    spsh__shard_cache_release(c->cache, shard);
    return rc;
}

/* *ret_what: the defect, or NULL. */
static spsh_status compare_place(dataset_check *c, uint64_t shard, uint64_t at,
                                 const spsh_shard_row *row, const char **ret_what, spsh_error *err)
{
    uint64_t payload_shard = cell(c, SPSH__INDEX_PAYLOAD_SHARD, at);
    uint64_t payload_record = cell(c, SPSH__INDEX_PAYLOAD_RECORD, at);
    uint64_t own_shard = 0, own_record = 0;
    *ret_what = NULL;
    if (payload_shard >= c->v->manifest->info.shard_count ||
        payload_record >= c->record_begin[payload_shard + 1] - c->record_begin[payload_shard])
        *ret_what = "payload_shard and payload_record name a record that does not exist";
    else if (!resolve(c, shard, row->record, &own_shard, &own_record))
        *ret_what = "record: the row of the shard refers to a record outside its unit";
    if (*ret_what != NULL)
        return SPSH_OK;
    spsh_status rc = load_place(c, payload_shard, payload_record, err);
    if (rc != SPSH_OK)
        return rc;
    if (payload_shard != own_shard || payload_record != own_record) {
        bool same = false;
        rc = compare_copies(c, &c->place, own_shard, own_record, &same, err);
        if (rc == SPSH_OK && !same)
            *ret_what = "payload_shard and payload_record: neither the record of the shard's row "
                        "nor its copy in a lower unit";
    }
    const spsh__audio_place *place = &c->place;
    if (rc != SPSH_OK || *ret_what != NULL)
        return rc;
    if (cell(c, SPSH__INDEX_RECORD_OFFSET, at) != place->record_offset ||
        cell(c, SPSH__INDEX_RECORD_BYTES, at) != place->record_bytes)
        *ret_what = "record_offset or record_bytes";
    else if (cell(c, SPSH__INDEX_SAMPLE_RATE_HZ, at) != place->sample_rate_hz ||
             cell(c, SPSH__INDEX_CHANNELS, at) != place->channels ||
             cell(c, SPSH__INDEX_CODEC, at) != place->codec)
        *ret_what = "sample_rate_hz, channels or codec";
    else if (row->start_sample > place->samples ||
             row->samples > place->samples - row->start_sample)
        *ret_what = "start_sample and samples extend past the end of the record";
    return SPSH_OK;
}

/* The row that a copy points at must view the same samples and must not be a copy itself. */
static spsh_status compare_duplicate(dataset_check *c, uint64_t position, uint64_t at,
                                     const char **ret_what, spsh_error *err)
{
    static const uint32_t same[] = {SPSH__INDEX_PAYLOAD_SHARD, SPSH__INDEX_PAYLOAD_RECORD,
                                    SPSH__INDEX_START_SAMPLE, SPSH__INDEX_SAMPLES};
    uint64_t first = cell(c, SPSH__INDEX_DUPLICATE_OF, at);
    const bool marked = (cell(c, SPSH__INDEX_FLAGS, at) & SPSH_UTTERANCE_DUPLICATE) != 0;
    spsh_status rc = SPSH_OK;
    c->duplicates += marked;
    if (!marked) {
        if (first != SPSH_NONE_U64)
            *ret_what = "duplicate_of is set without its flag";
        return SPSH_OK;
    }
    if (first >= position) {
        *ret_what = "duplicate_of is not an earlier position";
        return SPSH_OK;
    }
    uint32_t flags = 0;
    rc = spsh__container_u32(c->index, SPSH__INDEX_FLAGS, first, &flags, err);
    if (rc == SPSH_OK && (flags & SPSH_UTTERANCE_DUPLICATE) != 0)
        *ret_what = "duplicate_of is a copy itself";
    for (size_t n = 0; n < sizeof(same) / sizeof(same[0]) && rc == SPSH_OK; n++) {
        const uint8_t *there = NULL;
        uint32_t width = spsh__index_element_bytes(same[n]);
        rc = spsh__container_column(c->index, same[n], first, 1, &there, err);
        if (rc == SPSH_OK && memcmp(there, c->columns[same[n]] + at * width, width) != 0)
            *ret_what = "duplicate_of refers to different samples";
    }
    return rc;
}

static spsh_status add_to_group(dataset_check *c, uint64_t at, spsh_error *err)
{
    uint8_t key[GROUP_KEY_BYTES];
    uint32_t number = 0;
    const spsh__group_sum none = {0, 0};
    memcpy(key, c->columns[SPSH__INDEX_DOMAIN] + 4 * at, 4);
    memcpy(key + 4, c->columns[SPSH__INDEX_DOMAIN + SPSH_NAME_SPLIT] + 4 * at, 4);
    memcpy(key + 8, c->columns[SPSH__INDEX_SAMPLE_RATE_HZ] + 4 * at, 4);
    spsh_status rc = spsh__names_add(c->groups, (spsh_bytes){key, sizeof(key)}, &number, err);
    if (rc == SPSH_OK && number == c->group_sums.size_bytes / sizeof(none))
        rc = spsh__buffer_append(&c->group_sums, c->v->allocator, &none, sizeof(none), err);
    if (rc != SPSH_OK)
        return rc;
    spsh__group_sum *sums = (spsh__group_sum *)(void *)c->group_sums.data;
    sums[number].utterances++;
    sums[number].samples += cell(c, SPSH__INDEX_SAMPLES, at);
    return SPSH_OK;
}

/* ---- a shard's rows ---- */

static spsh_status load_batch(dataset_check *c, uint64_t first, uint64_t count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t column = SPSH__INDEX_COLUMN_FIRST; column < COLUMNS && rc == SPSH_OK; column++)
        if (column != SPSH__INDEX_BY_ID)
            rc = spsh__container_column(c->index, column, first, count, &c->columns[column], err);
    return rc;
}

static spsh_status load_translation(dataset_check *c, const spsh_shard *shard, spsh_error *err)
{
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint64_t count = spsh_shard_name_count(shard, (spsh_name_kind)kind);
        spsh__free(c->v->allocator, c->translation[kind]);
        c->translated[kind] = count;
        c->translation[kind] =
            spsh__alloc_array(c->v->allocator, (size_t)count + 1, sizeof(uint32_t));
        if (c->translation[kind] == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%llu names", ULL(count));
        for (uint64_t number = 0; number < count; number++) {
            spsh_bytes name = {NULL, 0};
            spsh_status rc =
                spsh_shard_name(shard, (spsh_name_kind)kind, (uint32_t)number, &name, err);
            if (rc != SPSH_OK)
                return rc;
            /* A name that the dataset lacks has a number that no row can have. */
            if (!spsh__names_find(c->names[kind], name, &c->translation[kind][number]))
                c->translation[kind][number] = SPSH_NONE_U32 - 1;
        }
    }
    return SPSH_OK;
}

static spsh_status compare_rows(dataset_check *c, const spsh_shard *shard, uint64_t number,
                                uint64_t begin, uint64_t count, spsh_error *err)
{
    char message[400] = "";
    uint64_t wrong = 0;
    spsh_status rc = SPSH_OK;
    for (uint64_t row = 0; row < count && rc == SPSH_OK; row++) {
        uint64_t at = row % BATCH_ROWS;
        spsh_shard_row expected;
        const char *what = NULL;
        if (at == 0)
            rc = load_batch(c, begin + row, count - row < BATCH_ROWS ? count - row : BATCH_ROWS,
                            err);
        if (rc == SPSH_OK)
            rc = spsh_shard_row_get(shard, row, &expected, err);
        if (rc != SPSH_OK)
            return rc;
        what = compare_row(c, at, &expected);
        if (what == NULL)
            rc = compare_place(c, number, at, &expected, &what, err);
        if (rc == SPSH_OK && what == NULL)
            rc = compare_duplicate(c, begin + row, at, &what, err);
        if (rc == SPSH_OK)
            rc = add_to_group(c, at, err);
        if (rc == SPSH_OK && what != NULL && wrong++ == 0)
            (void)snprintf(message, sizeof(message), "position %llu: %s", ULL(begin + row), what);
    }
    if (rc != SPSH_OK || wrong == 0)
        return rc;
    char text[600], name[32];
    spsh_shard_seal seal;
    rc = spsh__manifest_seal(c->v->manifest, number, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_shard_file_name(seal.unit, seal.number, name);
    (void)snprintf(text, sizeof(text), "index and shards/%s disagree in %llu rows; the first: %s",
                   name, ULL(wrong), message);
    char index_name[40];
    spsh__generation_name("index", c->v->manifest->index_generation, index_name);
    const spsh_damage damage = {.file = index_name,
                                .part = "reference",
                                .offset_bytes = SPSH_OFFSET_NONE,
                                .utterances = wrong,
                                .message = text};
    return spsh__verify_damage(c->v, &damage, err);
}

/* Rows of a shard that cannot be opened, and rows that need it, are not compared. */
static bool is_reported(spsh_status status)
{
    return status != SPSH_OK && status != SPSH_E_NO_MEMORY && status != SPSH_E_CANCELED;
}

static spsh_status report_manifest(dataset_check *c, const char *message, spsh_error *err)
{
    const spsh_damage damage = {.file = "manifest.spsh",
                                .part = "reference",
                                .offset_bytes = SPSH_OFFSET_NONE,
                                .message = message};
    return spsh__verify_damage(c->v, &damage, err);
}

/* Report a shard that a reader rejects although no check found damage. */
static spsh_status refuse_shard(dataset_check *c, const spsh_shard_seal *seal,
                                const spsh_error *why, spsh_error *err)
{
    char name[48], file_name[32];
    spsh_shard_file_name(seal->unit, seal->number, file_name);
    (void)snprintf(name, sizeof(name), "shards/%s", file_name);
    const spsh__verify_file file = {.name = name};
    return spsh__verify_refused(c->v, &file, "content", 0, why, err);
}

static spsh_status check_shard(dataset_check *c, uint64_t number, spsh_error *err)
{
    const spsh_shard *shard = NULL;
    spsh_shard_seal seal;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh__manifest_seal(c->v->manifest, number, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__shard_cache_acquire(c->cache, number, &shard, &why);
    uint64_t begin = 0;
    if (rc == SPSH_OK)
        rc = spsh__container_u64(c->v->manifest->container, SPSH__MANIFEST_UTTERANCE_BEGIN, number,
                                 &begin, &why);
    if (rc == SPSH_OK) {
        uint64_t unit_first = c->record_begin[number] - c->record_begin[c->unit_begin[number]];
        if (spsh_shard_first_record(shard) != unit_first)
            rc = report_manifest(c, "record_begin differs from the headers of the shards", &why);
    }
    if (rc == SPSH_OK)
        rc = load_translation(c, shard, &why);
    if (rc == SPSH_OK)
        rc = compare_rows(c, shard, number, begin, seal.utterance_count, &why);
    if (shard != NULL)
        spsh__shard_cache_release(c->cache, number);
    if (is_reported(rc)) {
        bool is_damaged = false;
        c->complete = false;
        rc = spsh__verify_shards_damaged(c->v, &is_damaged, err);
        return rc != SPSH_OK || is_damaged ? rc : refuse_shard(c, &seal, &why, err);
    }
    if (rc != SPSH_OK && err != NULL)
        *err = why;
    return rc;
}

/* ---- by_id, groups ---- */

static spsh_status check_by_id(dataset_check *c, spsh_error *err)
{
    uint64_t count = spsh__container_count(c->index, SPSH__INDEX_BY_ID);
    const uint8_t *by_id = NULL, *hashes = NULL;
    spsh_status rc = spsh__container_column(c->index, SPSH__INDEX_BY_ID, 0, count, &by_id, err);
    if (rc == SPSH_OK)
        rc = spsh__container_column(c->index, SPSH__INDEX_ID_HASH, 0, count, &hashes, err);
    uint64_t hash_before = 0, position_before = 0;
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
        uint64_t position = spsh__load_u64le(by_id + 8 * n);
        uint64_t hash = position < count ? spsh__load_u64le(hashes + 8 * position) : 0;
        const bool ascends =
            n == 0 || hash > hash_before || (hash == hash_before && position > position_before);
        if (position >= count || !ascends) {
            char name[40];
            spsh__generation_name("index", c->v->manifest->index_generation, name);
            const spsh_damage damage = {.file = name,
                                        .part = "reference",
                                        .offset_bytes = SPSH_OFFSET_NONE,
                                        .message = "by_id is not sorted by id_hash and position"};
            return spsh__verify_damage(c->v, &damage, err);
        }
        hash_before = hash;
        position_before = position;
    }
    return rc;
}

static spsh_status check_groups(dataset_check *c, spsh_error *err)
{
    const spsh__container *m = c->v->manifest->container;
    uint64_t groups = spsh__container_count(m, SPSH__MANIFEST_GROUP_DOMAIN);
    const spsh__group_sum *sums = (const spsh__group_sum *)(const void *)c->group_sums.data;
    bool same = groups == spsh__names_count(c->groups);
    for (uint64_t n = 0; n < groups && same; n++) {
        uint8_t key[GROUP_KEY_BYTES];
        uint32_t number = 0;
        uint64_t utterances = 0, samples = 0;
        for (uint32_t part = 0; part < 3; part++) {
            const uint8_t *element = NULL;
            spsh_status rc =
                spsh__container_column(m, SPSH__MANIFEST_GROUP_DOMAIN + part, n, 1, &element, err);
            if (rc != SPSH_OK)
                return rc;
            memcpy(key + (size_t)4 * part, element, 4);
        }
        spsh_status rc =
            spsh__container_u64(m, SPSH__MANIFEST_GROUP_UTTERANCES, n, &utterances, err);
        if (rc == SPSH_OK)
            rc = spsh__container_u64(m, SPSH__MANIFEST_GROUP_SAMPLES, n, &samples, err);
        if (rc != SPSH_OK)
            return rc;
        same = spsh__names_find(c->groups, (spsh_bytes){key, sizeof(key)}, &number) &&
               sums[number].utterances == utterances && sums[number].samples == samples;
    }
    if (!same)
        return report_manifest(c, "the groups differ from the sums over the index", err);
    if (c->duplicates != c->v->manifest->info.duplicate_count)
        return report_manifest(c, "the number of duplicates differs from the index", err);
    return SPSH_OK;
}

/* ---- the whole ---- */

static spsh_status load_shards(dataset_check *c, spsh_error *err)
{
    const spsh__container *m = c->v->manifest->container;
    uint64_t shards = c->v->manifest->info.shard_count;
    uint64_t unit_before = UINT64_MAX;
    spsh_status rc = SPSH_OK;
    c->record_begin = spsh__alloc_array(c->v->allocator, (size_t)shards + 1, sizeof(uint64_t));
    c->unit_begin = spsh__alloc_array(c->v->allocator, (size_t)shards + 1, sizeof(uint32_t));
    if (c->record_begin == NULL || c->unit_begin == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%llu shards", ULL(shards));
    for (uint64_t n = 0; n <= shards && rc == SPSH_OK; n++) {
        rc = spsh__container_u64(m, SPSH__MANIFEST_RECORD_BEGIN, n, &c->record_begin[n], err);
        if (rc == SPSH_OK && n > 0 && c->record_begin[n] < c->record_begin[n - 1])
            return SPSH_FAIL(err, SPSH_E_CORRUPT, "record_begin descends");
        if (rc != SPSH_OK || n == shards)
            break;
        uint32_t unit = 0;
        rc = spsh__container_u32(m, SPSH__MANIFEST_SHARD_UNIT, n, &unit, err);
        c->unit_begin[n] = unit == unit_before ? c->unit_begin[n - 1] : (uint32_t)n;
        unit_before = unit;
    }
    return rc;
}

static spsh_status load_names(dataset_check *c, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS && rc == SPSH_OK; kind++) {
        uint32_t id = SPSH__INDEX_NAME_ENDS + 2 * kind;
        uint64_t count = spsh__container_count(c->index, id);
        c->names[kind] = spsh__names_new(c->v->allocator);
        if (c->names[kind] == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "names");
        for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
            spsh_bytes name = {NULL, 0};
            uint32_t unused = 0;
            rc = spsh__container_string(c->index, id, n, &name, err);
            if (rc == SPSH_OK)
                rc = spsh__names_add(c->names[kind], name, &unused, err);
        }
    }
    return rc;
}

static spsh_status seal_of(const void *user, uint64_t shard, spsh_shard_seal *ret_seal,
                           spsh_error *err)
{
    return spsh__manifest_seal((const spsh__manifest *)user, shard, ret_seal, err);
}

static spsh_status check_all(dataset_check *c, spsh_error *err)
{
    const spsh__shard_cache_options cache = {.allocator = c->v->allocator,
                                             .io = c->v->io,
                                             .dataset_path = c->v->directory,
                                             .shard_count = c->v->manifest->info.shard_count,
                                             .open_max = SHARDS_OPEN_MAX,
                                             .seal_fn = seal_of,
                                             .user = c->v->manifest};
    c->groups = spsh__names_new(c->v->allocator);
    if (c->groups == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "groups");
    spsh_status rc = load_shards(c, err);
    if (rc == SPSH_OK)
        rc = load_names(c, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_cache_open(&cache, &c->cache, err);
    for (uint64_t n = 0; n < c->v->manifest->info.shard_count && rc == SPSH_OK; n++)
        rc = check_shard(c, n, err);
    if (rc == SPSH_OK)
        rc = check_by_id(c, err);
    if (rc == SPSH_OK && c->complete)
        rc = check_groups(c, err);
    return rc;
}

spsh_status spsh__verify_dataset(spsh__verify *v, spsh_error *err)
{
    dataset_check *c = spsh__new(v->allocator, 1, sizeof(*c));
    spsh_error why = SPSH_ERROR_INIT;
    if (c == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "dataset");
    c->v = v;
    c->index = v->index;
    c->complete = true;
    spsh_status rc = check_all(c, &why);
    if (is_reported(rc)) /* manifest or index contradict themselves */
        rc = report_manifest(c, why.message, err);
    else if (rc != SPSH_OK && err != NULL)
        *err = why;
    spsh__shard_cache_close(c->cache);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        spsh__free(v->allocator, c->translation[kind]);
        spsh__names_free(c->names[kind]);
    }
    spsh__names_free(c->groups);
    spsh__buffer_free(&c->group_sums, v->allocator);
    spsh__free(v->allocator, c->unit_begin);
    spsh__free(v->allocator, c->record_begin);
    spsh__free(v->allocator, c);
    return rc;
}
