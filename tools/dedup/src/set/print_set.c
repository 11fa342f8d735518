/* print_set.c: datasets sorted by their ids, then their shards in order.
 *
 *     members  | dataset with the lowest id | next ... |      first ordinal, first shard
 *     shards   | segment, first ordinal, first print | ...    over all members
 *     sides    one byte per utterance
 *
 * A binary search in the shards finds an ordinal or a print number. Sides are claimed source by
 * source, then skipped utterances lose their side. No step depends on the order of the sources.
 */
#include "print_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/hash.h"
#include "speechshard/inside.h"
#include "speechshard/publish.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    BATCH_ROWS = 1 << 16,
    SHARDS_OPEN_MAX = 128, /* file descriptors per dataset; segments use none */
    NAMES_BYTES = 300,     /* maximum bytes of the split names in a message */
};

typedef struct member {
    spsh_dataset *dataset;
    char *path; /* resolved path */
    uint8_t id[16];
    uint64_t first;
    uint64_t count;
} member;

typedef struct shard_entry {
    spsh__segment *segment;
    uint64_t first;       /* ordinal */
    uint64_t first_print; /* number */
} shard_entry;

struct spsh__print_set {
    const spsh_io *io;
    member *members;
    size_t member_count;
    shard_entry *shards; /* one additional entry marks the end */
    size_t shard_count;
    uint8_t *sides;
    uint64_t side_counts[SPSH_SIDE_TEST + 1];
    uint64_t count, print_count;
    uint8_t hash[16];
};

/* ---- datasets ---- */

static spsh_status open_member(const spsh_io *io, const char *path, member *ret_member,
                               spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    member m = {0};
    opt.io = io;
    opt.shards_open_max = SHARDS_OPEN_MAX;
    spsh_status rc = spsh_dataset_open(path, &opt, &m.dataset, err);
    if (rc != SPSH_OK)
        return rc;
    m.path = realpath(path, NULL);
    if (m.path == NULL) {
        spsh_dataset_close(m.dataset);
        return SPSH_FAIL(err, SPSH_E_IO, "%s: cannot resolve the path", path);
    }
    memcpy(m.id, spsh_dataset_info_get(m.dataset)->dataset_id, 16);
    m.count = spsh_dataset_info_get(m.dataset)->utterance_count;
    *ret_member = m;
    return SPSH_OK;
}

static void close_member(member *m)
{
    spsh_dataset_close(m->dataset);
    free(m->path);
    *m = (member){0};
}

/* Add the dataset of a source. Several sources may name one dataset. A copy of a dataset at another
 * path is rejected, because results name datasets by id. */
static spsh_status add_source(spsh__print_set *set, const spsh_dedup_source *source,
                              uint8_t ret_id[16], spsh_error *err)
{
    member m = {0};
    spsh_status rc = open_member(set->io, source->path, &m, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(ret_id, m.id, 16);
    for (size_t i = 0; i < set->member_count; i++) {
        if (memcmp(set->members[i].id, m.id, 16) != 0)
            continue;
        if (strcmp(set->members[i].path, m.path) != 0)
            rc = SPSH_FAIL(
                err, SPSH_E_INVALID_ARG,
                "%.200s and %.200s are copies of the same dataset (equal ids); give only one",
                set->members[i].path, m.path);
        close_member(&m);
        return rc;
    }
    set->members[set->member_count++] = m;
    return SPSH_OK;
}

static int compare_members(const void *left, const void *right)
{
    return memcmp(((const member *)left)->id, ((const member *)right)->id, 16);
}

static const member *find_member(const spsh__print_set *set, const uint8_t id[16])
{
    for (size_t i = 0; i < set->member_count; i++)
        if (memcmp(set->members[i].id, id, 16) == 0)
            return &set->members[i];
    return NULL;
}

/* ---- segments ---- */

static spsh_status open_segment(spsh__print_set *set, const member *m, uint64_t number,
                                spsh_error *err)
{
    shard_entry *entry = &set->shards[set->shard_count];
    spsh_shard_seal seal;
    char name[32];
    const char *path = spsh_dataset_path(m->dataset);
    spsh_status rc = spsh_dataset_shard(m->dataset, number, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__segment_open(m->dataset, &seal, set->io, &entry->segment, err);
    if (rc == SPSH_E_NOT_FOUND) {
        spsh_shard_file_name(seal.unit, seal.number, name);
        return SPSH_FAIL(
            err, rc,
            "%.150s: shard %s has no fingerprints; make them with 'speechshard fingerprint %.150s'",
            path, name, path);
    }
    if (rc != SPSH_OK)
        return rc;
    entry->first = set->count;
    entry->first_print = set->print_count;
    set->count += spsh__segment_counts_get(entry->segment)->rows;
    set->print_count += spsh__segment_counts_get(entry->segment)->prints;
    set->shard_count++;
    return SPSH_OK;
}

static spsh_status open_segments(spsh__print_set *set, spsh_error *err)
{
    uint64_t total = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < set->member_count; i++)
        total += spsh_dataset_info_get(set->members[i].dataset)->shard_count;
    set->shards = calloc((size_t)total + 1, sizeof(*set->shards));
    if (set->shards == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < set->member_count && rc == SPSH_OK; i++) {
        member *m = &set->members[i];
        const uint64_t shard_count = spsh_dataset_info_get(m->dataset)->shard_count;
        m->first = set->count;
        for (uint64_t n = 0; n < shard_count && rc == SPSH_OK; n++)
            rc = open_segment(set, m, n, err);
        if (rc == SPSH_OK && set->count - m->first != m->count)
            rc = SPSH_FAIL(err, SPSH_E_CORRUPT,
                           "%s: the dataset states %llu utterances, but its shards have %llu",
                           m->path, ULL(m->count), ULL(set->count - m->first));
    }
    set->shards[set->shard_count].first = set->count;
    set->shards[set->shard_count].first_print = set->print_count;
    return rc;
}

/* ---- sides ---- */

static spsh_status fail_split(const member *m, spsh_bytes wanted, spsh_error *err)
{
    char names[NAMES_BYTES] = "";
    size_t used = 0;
    const uint64_t count = spsh_dataset_name_count(m->dataset, SPSH_NAME_SPLIT);
    for (uint64_t n = 0; n < count; n++) {
        spsh_bytes name = {NULL, 0};
        const spsh_status rc =
            spsh_dataset_name(m->dataset, SPSH_NAME_SPLIT, (uint32_t)n, &name, err);
        if (rc != SPSH_OK)
            return rc;
        if (name.size_bytes > sizeof(names) - used - 8) {
            (void)snprintf(names + used, sizeof(names) - used, " ...");
            break;
        }
        (void)snprintf(names + used, sizeof(names) - used, "%s %.*s", n > 0 ? "," : "",
                       (int)name.size_bytes, (const char *)name.data);
        used = strlen(names);
    }
    return SPSH_FAIL(
        err, SPSH_E_UNKNOWN_NAME, "%.100s: no split '%.*s'; this dataset has %s%s",
        spsh_dataset_path(m->dataset), wanted.size_bytes < 60 ? (int)wanted.size_bytes : 60,
        (const char *)wanted.data, count == 0 ? "no splits; omit ':SPLITS'" : "the splits", names);
}

/* Set the flag of the split with this name. */
static spsh_status choose_split(const member *m, spsh_bytes wanted, bool *chosen, spsh_error *err)
{
    const uint64_t count = spsh_dataset_name_count(m->dataset, SPSH_NAME_SPLIT);
    for (uint64_t n = 0; n < count; n++) {
        spsh_bytes name = {NULL, 0};
        const spsh_status rc =
            spsh_dataset_name(m->dataset, SPSH_NAME_SPLIT, (uint32_t)n, &name, err);
        if (rc != SPSH_OK)
            return rc;
        if (spsh__bytes_equal(name, wanted)) {
            chosen[n] = true;
            return SPSH_OK;
        }
    }
    return fail_split(m, wanted, err);
}

/* Make one flag per split. *ret_chosen stays NULL if all splits are selected. */
static spsh_status choose_splits(const member *m, const char *splits, bool **ret_chosen,
                                 spsh_error *err)
{
    if (splits == NULL)
        return SPSH_OK;
    bool *chosen =
        calloc((size_t)spsh_dataset_name_count(m->dataset, SPSH_NAME_SPLIT) + 1, sizeof(*chosen));
    if (chosen == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = SPSH_OK;
    for (const char *at = splits; rc == SPSH_OK && at != NULL;) {
        const char *comma = strchr(at, ',');
        const size_t size = comma != NULL ? (size_t)(comma - at) : strlen(at);
        rc = choose_split(m, (spsh_bytes){(const uint8_t *)at, size}, chosen, err);
        at = comma != NULL ? comma + 1 : NULL;
    }
    if (rc != SPSH_OK) {
        free(chosen);
        return rc;
    }
    *ret_chosen = chosen;
    return SPSH_OK;
}

spsh_status spsh__print_source_check(const spsh_dedup_source *source, const spsh_io *io,
                                     spsh_error *err)
{
    member m = {0};
    bool *chosen = NULL;
    spsh_status rc = open_member(io, source->path, &m, err);
    if (rc == SPSH_OK)
        rc = choose_splits(&m, source->splits, &chosen, err);
    free(chosen);
    close_member(&m);
    return rc;
}

static spsh_status fail_both(const member *m, uint64_t position, spsh_error *err)
{
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    spsh_status rc = spsh_reader_open(m->dataset, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(reader, position, &utterance, err);
    if (rc == SPSH_OK)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                       "%.150s: \"%.*s\" and other utterances are on both sides, train and test; "
                       "give each side its own splits",
                       spsh_dataset_path(m->dataset),
                       utterance.id.size_bytes < 150 ? (int)utterance.id.size_bytes : 150,
                       (const char *)utterance.id.data);
    spsh_reader_close(reader);
    return rc;
}

static spsh_status claim_rows(spsh__print_set *set, const member *m, const bool *chosen,
                              spsh_side side, spsh_error *err)
{
    const uint64_t name_count = spsh_dataset_name_count(m->dataset, SPSH_NAME_SPLIT);
    spsh_status rc = SPSH_OK;
    for (uint64_t first = 0; first < m->count && rc == SPSH_OK; first += BATCH_ROWS) {
        const uint64_t count = m->count - first < BATCH_ROWS ? m->count - first : BATCH_ROWS;
        spsh_bytes splits = {NULL, 0};
        rc = spsh_dataset_column(m->dataset, SPSH_COLUMN_SPLIT, first, count, &splits, err);
        for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
            const uint64_t split = spsh__load_le(splits.data + 4 * i, 4);
            uint8_t *place = &set->sides[m->first + first + i];
            if (chosen != NULL && (split >= name_count || !chosen[split]))
                continue;
            if (*place != SPSH_SIDE_NONE && *place != (uint8_t)side)
                rc = fail_both(m, first + i, err);
            *place = (uint8_t)side;
        }
    }
    return rc;
}

static spsh_status drop_skipped(spsh__print_set *set, const member *m, spsh_error *err)
{
    uint64_t count = 0;
    spsh_status rc = spsh_dataset_skipped_positions(m->dataset, NULL, 0, &count, err);
    if (rc != SPSH_OK || count == 0)
        return rc;
    const uint64_t capacity = count;
    uint64_t *positions = malloc((size_t)count * sizeof(*positions));
    if (positions == NULL)
        return SPSH_NO_MEMORY(err);
    rc = spsh_dataset_skipped_positions(m->dataset, positions, capacity, &count, err);
    for (uint64_t i = 0; i < count && i < capacity && rc == SPSH_OK; i++)
        set->sides[m->first + positions[i]] = SPSH_SIDE_NONE;
    free(positions);
    return rc;
}

static spsh_status claim_sides(spsh__print_set *set, const spsh_dedup_source *sources,
                               const uint8_t (*ids)[16], size_t source_count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    set->sides = calloc((size_t)set->count + 1, 1);
    if (set->sides == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++) {
        const member *m = find_member(set, ids[i]);
        bool *chosen = NULL;
        rc = choose_splits(m, sources[i].splits, &chosen, err);
        if (rc == SPSH_OK)
            rc = claim_rows(set, m, chosen, sources[i].side, err);
        free(chosen);
    }
    for (size_t i = 0; i < set->member_count && rc == SPSH_OK; i++)
        rc = drop_skipped(set, &set->members[i], err);
    for (uint64_t i = 0; i < set->count; i++)
        set->side_counts[set->sides[i]]++;
    return rc;
}

/* ---- identity ---- */

static spsh_status add_overlays(spsh__pack_hasher *hasher, const spsh_dataset *dataset,
                                spsh_error *err)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->overlay_count;
    for (uint64_t i = 0; i < count; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        const spsh_status rc = spsh_dataset_overlay(dataset, i, &overlay, err);
        if (rc != SPSH_OK)
            return rc;
        if (overlay.type != SPSH_OVERLAY_TRANSCRIPT) /* the sides reflect skipped utterances */
            continue;
        spsh__pack_hasher_add(hasher, (spsh_bytes){(const uint8_t *)"text", 5});
        spsh__pack_hasher_add(hasher, overlay.name);
    }
    return SPSH_OK;
}

static spsh_status make_hash(spsh__print_set *set, spsh_error *err)
{
    const uint8_t versions[2] = {SPSH__SEGMENT_VERSION, SPSH__FINGERPRINT_VERSION};
    spsh_status rc = SPSH_OK;
    spsh__pack_hasher *hasher = spsh__pack_hasher_new();
    if (hasher == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__pack_hasher_add(hasher, (spsh_bytes){versions, sizeof(versions)});
    for (size_t i = 0; i < set->member_count && rc == SPSH_OK; i++) {
        const spsh_dataset_info *info = spsh_dataset_info_get(set->members[i].dataset);
        spsh__pack_hasher_add(hasher, (spsh_bytes){info->dataset_id, 16});
        spsh__pack_hasher_add(hasher, (spsh_bytes){info->index_hash, 16});
        rc = add_overlays(hasher, set->members[i].dataset, err);
    }
    for (size_t i = 0; i < set->shard_count && rc == SPSH_OK; i++) {
        uint8_t root[16];
        spsh__segment_root_hash(set->shards[i].segment, root);
        spsh__pack_hasher_add(hasher, (spsh_bytes){root, 16});
    }
    spsh__pack_hasher_add(hasher, (spsh_bytes){set->sides, (size_t)set->count});
    spsh__pack_hasher_digest(hasher, set->hash);
    spsh__pack_hasher_free(hasher);
    return rc;
}

/* ---- life cycle ---- */

spsh_status spsh__print_set_open(const spsh_dedup_source *sources, size_t source_count,
                                 const spsh_io *io, spsh__print_set **ret_set, spsh_error *err)
{
    spsh__print_set *set = calloc(1, sizeof(*set));
    if (set == NULL)
        return SPSH_NO_MEMORY(err);
    uint8_t(*ids)[16] = calloc(source_count + 1, sizeof(*ids));
    set->io = io;
    set->members = calloc(source_count + 1, sizeof(*set->members));
    spsh_status rc = ids == NULL || set->members == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++)
        rc = add_source(set, &sources[i], ids[i], err);
    if (rc == SPSH_OK && set->member_count > 1)
        qsort(set->members, set->member_count, sizeof(*set->members), compare_members);
    if (rc == SPSH_OK)
        rc = open_segments(set, err);
    if (rc == SPSH_OK)
        rc = claim_sides(set, sources, (const uint8_t(*)[16])ids, source_count, err);
    if (rc == SPSH_OK)
        rc = make_hash(set, err);
    free(ids);
    if (rc == SPSH_OK)
        *ret_set = set;
    else
        spsh__print_set_close(set);
    return rc;
}

void spsh__print_set_close(spsh__print_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->shard_count; i++)
        spsh__segment_close(set->shards[i].segment);
    for (size_t i = 0; i < set->member_count; i++)
        close_member(&set->members[i]);
    free(set->shards);
    free(set->members);
    free(set->sides);
    free(set);
}

/* ---- properties of the set ---- */

size_t spsh__print_set_dataset_count(const spsh__print_set *set)
{
    return set->member_count;
}

const spsh_dataset *spsh__print_set_dataset(const spsh__print_set *set, size_t dataset)
{
    return set->members[dataset].dataset;
}

uint64_t spsh__print_set_first(const spsh__print_set *set, size_t dataset)
{
    return set->members[dataset].first;
}

uint64_t spsh__print_set_count(const spsh__print_set *set)
{
    return set->count;
}

uint64_t spsh__print_set_side_count(const spsh__print_set *set, spsh_side side)
{
    return set->side_counts[side];
}

uint64_t spsh__print_set_print_count(const spsh__print_set *set)
{
    return set->print_count;
}

spsh_side spsh__print_set_side(const spsh__print_set *set, uint64_t ordinal)
{
    return (spsh_side)set->sides[ordinal];
}

void spsh__print_set_hash(const spsh__print_set *set, uint8_t ret_hash[16])
{
    memcpy(ret_hash, set->hash, 16);
}

spsh__set_place spsh__print_set_place(const spsh__print_set *set, uint64_t ordinal)
{
    size_t at = set->member_count - 1;
    while (at > 0 && set->members[at].first > ordinal)
        at--;
    return (spsh__set_place){at, set->members[at].dataset, ordinal - set->members[at].first};
}

spsh_status spsh__print_set_index_row(const spsh__print_set *set, uint64_t ordinal,
                                      spsh_row *ret_row, spsh_error *err)
{
    const spsh__set_place place = spsh__print_set_place(set, ordinal);
    return spsh_dataset_rows(place.dataset, place.position, 1, ret_row, err);
}

spsh_status spsh__print_set_shard_name(const spsh__print_set *set, uint64_t ordinal,
                                       char ret_name[32], spsh_error *err)
{
    spsh_row row;
    spsh_shard_seal seal;
    spsh_status rc = spsh__print_set_index_row(set, ordinal, &row, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_shard(spsh__print_set_place(set, ordinal).dataset, row.shard, &seal, err);
    if (rc == SPSH_OK)
        spsh_shard_file_name(seal.unit, seal.number, ret_name);
    return rc;
}

/* ---- rows and prints ---- */

/* Return the shard with an ordinal or, if by_print, with a print number. Never returns a shard
 * without elements. */
static const shard_entry *find_shard(const spsh__print_set *set, uint64_t number, bool by_print)
{
    size_t low = 0;
    size_t high = set->shard_count; /* the shard is in [low, high) */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        const shard_entry *entry = &set->shards[middle];
        if ((by_print ? entry->first_print : entry->first) <= number)
            low = middle;
        else
            high = middle;
    }
    return &set->shards[low];
}

/* Read the row as it is stored in its segment. */
static spsh_status stored_row(const spsh__print_set *set, uint64_t ordinal,
                              spsh__segment_row *ret_row, const shard_entry **ret_shard,
                              spsh_error *err)
{
    *ret_shard = find_shard(set, ordinal, false);
    return spsh__segment_row_get((*ret_shard)->segment, ordinal - (*ret_shard)->first, ret_row,
                                 err);
}

/* Return the ordinal of the utterance that an alias copies. */
static spsh_status find_original(const spsh__print_set *set, uint64_t ordinal,
                                 uint64_t *ret_original, spsh_error *err)
{
    spsh_row row;
    const member *m = &set->members[spsh__print_set_place(set, ordinal).number];
    spsh_status rc = spsh__print_set_index_row(set, ordinal, &row, err);
    if (rc == SPSH_OK && row.duplicate_of >= m->count)
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT,
                       "%s: utterance number %llu is not a copy, but its segment lists it as one",
                       m->path, ULL(ordinal - m->first));
    if (rc == SPSH_OK)
        *ret_original = m->first + row.duplicate_of;
    return rc;
}

/* Find the row that describes the samples: the utterance's own row, or the row of the original for
 * an alias. */
static spsh_status find_row(const spsh__print_set *set, uint64_t ordinal,
                            spsh__segment_row *ret_row, const shard_entry **ret_shard,
                            uint64_t *ret_alias_of, spsh_error *err)
{
    spsh__segment_row own = {0};
    spsh__segment_row original = {0};
    uint64_t alias_of = SPSH_NONE_U64;
    if (ordinal >= set->count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "utterance %llu of %llu does not exist",
                         ULL(ordinal), ULL(set->count));
    spsh_status rc = stored_row(set, ordinal, &own, ret_shard, err);
    if (rc == SPSH_OK && (own.flags & SPSH__ROW_ALIAS) != 0) {
        rc = find_original(set, ordinal, &alias_of, err);
        if (rc == SPSH_OK)
            rc = stored_row(set, alias_of, &original, ret_shard, err);
        if (rc == SPSH_OK && (original.flags & SPSH__ROW_ALIAS) != 0)
            rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "utterance %llu is a copy of a copy", ULL(ordinal));
        memcpy(original.id_key, own.id_key, 16);
        original.flags = (original.flags & ~SPSH__ROW_HAS_TEXT) | own.flags;
        own = original;
    }
    if (rc != SPSH_OK)
        return rc;
    *ret_row = own;
    if (ret_alias_of != NULL)
        *ret_alias_of = alias_of;
    return SPSH_OK;
}

spsh_status spsh__print_set_row(const spsh__print_set *set, uint64_t ordinal,
                                spsh__segment_row *ret_row, uint64_t *ret_alias_of, spsh_error *err)
{
    const shard_entry *shard = NULL;
    return find_row(set, ordinal, ret_row, &shard, ret_alias_of, err);
}

spsh_status spsh__print_set_print(const spsh__print_set *set, uint64_t print,
                                  spsh__set_print *ret_print, spsh_error *err)
{
    spsh__segment_print stored = {0};
    if (print >= set->print_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "fingerprint %llu of %llu does not exist",
                         ULL(print), ULL(set->print_count));
    const shard_entry *shard = find_shard(set, print, true);
    const spsh_status rc =
        spsh__segment_print_get(shard->segment, print - shard->first_print, &stored, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_print = (spsh__set_print){
        .utterance = shard->first + stored.row,
        .channel = stored.channel,
        .frame_count = stored.frame_count,
        .key_count = stored.key_count,
        .segment = shard->segment,
        .first_frame = stored.first_frame,
        .first_key = stored.first_key,
    };
    return SPSH_OK;
}

spsh_status spsh__print_set_prints_of(const spsh__print_set *set, uint64_t ordinal,
                                      uint64_t *ret_first, uint64_t *ret_count, spsh_error *err)
{
    const shard_entry *shard = NULL;
    spsh__segment_row row;
    uint64_t alias_of = 0;
    const spsh_status rc = find_row(set, ordinal, &row, &shard, &alias_of, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_first = shard->first_print + row.first_print;
    *ret_count = row.print_count;
    return SPSH_OK;
}

spsh_status spsh__print_set_chunks(const spsh__print_set *set, uint64_t ordinal, spsh__chunk *dst,
                                   spsh_error *err)
{
    const shard_entry *shard = NULL;
    spsh__segment_row row;
    uint64_t alias_of = 0;
    const spsh_status rc = find_row(set, ordinal, &row, &shard, &alias_of, err);
    return rc != SPSH_OK
               ? rc
               : spsh__segment_chunks(shard->segment, row.first_chunk, row.chunk_count, dst, err);
}
