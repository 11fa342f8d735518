/* dataset_skips.c: find the utterances that skip overlays name.
 *
 * For each key, an overlay stores the id hash by which the dataset index is sorted. So a key costs
 * one lookup in by_id and no metadata. Two ids share that 64-bit hash in one of 4,000 datasets of
 * 10^8 utterances. Then the ids are read and compared by the 128 bits of the key. A key without an
 * utterance matches the hash of another utterance with probability 10^8 / 2^64 = 5 * 10^-12. That
 * risk is accepted.
 *
 * Positions are sorted by a radix sort: overlays are sorted by key, so the order is random.
 */
#include "dataset_internal.h"

#include <inttypes.h>

#include "base/checksum.h"

typedef struct positions {
    uint64_t *at;
    uint64_t count;
} positions;

/* Find the row that has the key among several rows with its hash. *ret_position is untouched if
 * none has it.
 */
static spsh_status confirm(const spsh_dataset *dataset, uint64_t at, uint64_t end,
                           const uint8_t key[16], positions *found, spsh_error *err)
{
    spsh_reader *reader = NULL;
    spsh_status rc = spsh_reader_open(dataset, &reader, err);
    for (; rc == SPSH_OK && at < end; at++) {
        uint64_t position = 0;
        uint64_t hash = 0;
        uint8_t found_key[16];
        spsh_utterance utterance;
        rc = spsh__dataset_by_id(dataset, at, &position, &hash, err);
        if (rc == SPSH_OK)
            rc = spsh_reader_metadata(reader, position, &utterance, err);
        if (rc != SPSH_OK)
            break;
        spsh__overlay_key(utterance.id, found_key);
        if (memcmp(found_key, key, 16) == 0) {
            found->at[found->count++] = position;
            break;
        }
    }
    spsh_reader_close(reader);
    return rc;
}

static spsh_status find_key(const spsh_dataset *dataset, const spsh__overlay *overlay,
                            uint64_t entry, positions *found, spsh_error *err)
{
    const uint64_t count = dataset->manifest.info.utterance_count;
    uint64_t wanted = 0, at = 0, position = 0, hash = 0, next_position = 0;
    const uint8_t *key = NULL;
    spsh_status rc =
        spsh__container_u64(overlay->container, SPSH__OVERLAY_ID_HASH, entry, &wanted, err);
    if (rc == SPSH_OK)
        rc = spsh__dataset_find_hash(dataset, wanted, &at, err);
    if (rc != SPSH_OK || at == count)
        return rc;
    rc = spsh__dataset_by_id(dataset, at, &position, &hash, err);
    if (rc != SPSH_OK || hash != wanted)
        return rc;
    uint64_t end = at + 1;
    while (rc == SPSH_OK && end < count && hash == wanted) {
        rc = spsh__dataset_by_id(dataset, end, &next_position, &hash, err);
        end += rc == SPSH_OK && hash == wanted;
    }
    if (rc != SPSH_OK)
        return rc;
    if (end - at == 1) {
        found->at[found->count++] = position;
        return SPSH_OK;
    }
    rc = spsh__container_column(overlay->container, SPSH__OVERLAY_KEY, entry, 1, &key, err);
    return rc == SPSH_OK ? confirm(dataset, at, end, key, found, err) : rc;
}

/* Radix sort, least significant byte first. other has the capacity of list. The result is in
 * list->at. */
static void sort(positions *list, uint64_t *other)
{
    uint64_t *const home = list->at;
    uint64_t *from = home;
    uint64_t *to = other;
    uint64_t bits = 0;
    for (uint64_t i = 0; i < list->count; i++)
        bits |= from[i];
    for (uint32_t shift = 0; shift < 64 && bits >> shift != 0; shift += 8) {
        uint64_t begin[257] = {0};
        for (uint64_t i = 0; i < list->count; i++)
            begin[(from[i] >> shift & 0xff) + 1]++;
        for (uint32_t value = 0; value < 256; value++)
            begin[value + 1] += begin[value];
        for (uint64_t i = 0; i < list->count; i++)
            to[begin[from[i] >> shift & 0xff]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != home)
        memcpy(home, from, (size_t)list->count * sizeof(*home));
}

static void drop_repeated(positions *list)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < list->count; i++)
        if (kept == 0 || list->at[kept - 1] != list->at[i])
            list->at[kept++] = list->at[i];
    list->count = kept;
}

static uint64_t count_entries(const spsh_dataset *dataset)
{
    uint64_t entries = 0;
    for (uint64_t i = 0; i < dataset->manifest.info.overlay_count; i++)
        if (dataset->overlays[i].type == SPSH_OVERLAY_SKIP)
            entries += dataset->overlays[i].entry_count;
    return entries;
}

spsh_status spsh_dataset_skipped_positions(const spsh_dataset *dataset, uint64_t *ret_positions,
                                           uint64_t capacity, uint64_t *ret_count, spsh_error *err)
{
    const uint64_t entries = count_entries(dataset);
    positions found = {NULL, 0};
    spsh_status rc = SPSH_OK;
    if (entries > 0)
        found.at = spsh__alloc_array(&dataset->allocator, (size_t)entries, 2 * sizeof(*found.at));
    if (entries > 0 && found.at == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %" PRIu64 " entries of skip overlays",
                         dataset->path, entries);
    for (uint64_t i = 0; rc == SPSH_OK && i < dataset->manifest.info.overlay_count; i++) {
        const spsh__overlay *overlay = &dataset->overlays[i];
        if (overlay->type != SPSH_OVERLAY_SKIP)
            continue;
        for (uint64_t entry = 0; rc == SPSH_OK && entry < overlay->entry_count; entry++)
            rc = find_key(dataset, overlay, entry, &found, err);
    }
    if (rc == SPSH_OK && found.count > 0) {
        sort(&found, found.at + entries);
        drop_repeated(&found);
    }
    if (rc == SPSH_OK) {
        const uint64_t copied = found.count < capacity ? found.count : capacity;
        if (copied > 0)
            memcpy(ret_positions, found.at, (size_t)copied * sizeof(*ret_positions));
        *ret_count = found.count;
    }
    spsh__free(&dataset->allocator, found.at);
    return rc;
}
