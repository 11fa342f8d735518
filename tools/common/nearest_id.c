/* nearest_id.c: the index finds an id only by its hash, so any other search must read ids one by
 * one. The search therefore reads a bounded number of ids. Users most often omit the first folders
 * of an id, and a dataset has few such folders. Ids at evenly spaced positions show the folders,
 * and looking up a folder with the typed id is cheap in a dataset of any size.
 */
#include "nearest_id.h"

#include <string.h>

#include "edit_distance.h"
#include "file_names.h"

enum {
    IDS_READ_MAX = 200000,
    PLACES = 64,
    IDS_A_PLACE = 16, /* adjacent ids share a block, so reading them costs little */
    POINTS_MAX = 256, /* maximum bytes of an id that are compared */
};

static spsh__points points_of(spsh_bytes text, uint32_t *points)
{
    const size_t count = text.size_bytes < POINTS_MAX ? text.size_bytes : POINTS_MAX;
    for (size_t i = 0; i < count; i++)
        points[i] = text.data[i];
    return (spsh__points){points, count};
}

/* True if the id is nearer to the typed one than the best so far: it is a path that ends in the
 * typed id, or it differs from it in fewer than *best characters. */
static bool is_nearer(spsh_bytes id, spsh_bytes typed, size_t *best)
{
    uint32_t points[2][POINTS_MAX];
    uint32_t row[2 * POINTS_MAX + 3];
    size_t distance = 0;
    if (id.size_bytes > typed.size_bytes && typed.size_bytes > 0) {
        const size_t at = id.size_bytes - typed.size_bytes;
        if (id.data[at - 1] == '/' && memcmp(id.data + at, typed.data, typed.size_bytes) == 0)
            distance = 1;
    }
    if (distance == 0)
        distance = spsh__edit_distance(points_of(id, points[0]), points_of(typed, points[1]),
                                       *best > 0 ? *best - 1 : 0, row);
    if (distance >= *best)
        return false;
    *best = distance;
    return true;
}

/* Look up the typed id below each folder of another id. */
static bool find_in_folders(spsh_reader *reader, spsh_bytes other, const char *typed,
                            spsh__builder *id)
{
    uint64_t position = 0;
    for (size_t i = 0; i < other.size_bytes; i++) {
        if (other.data[i] != '/')
            continue;
        spsh__builder_clear(id);
        spsh__builder_append(id, other.data, i + 1);
        spsh__builder_append_text(id, typed);
        if (!id->failed &&
            spsh_reader_find(reader, spsh__builder_bytes(id), &position, NULL) == SPSH_OK)
            return true;
    }
    spsh__builder_clear(id);
    return false;
}

/* Look up the typed id below the folders of some ids. A reader's strings last until its next call,
 * so the lookups need a second reader. */
static bool find_by_folders(const spsh_dataset *dataset, spsh_reader *reader, const char *typed,
                            spsh__builder *id)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    spsh_reader *finder = NULL;
    spsh_utterance utterance;
    bool is_found = false;
    if (spsh_reader_open(dataset, &finder, NULL) != SPSH_OK)
        return false;
    for (uint64_t i = 0; i < (uint64_t)PLACES * IDS_A_PLACE && !is_found; i++) {
        const uint64_t position = count / PLACES * (i / IDS_A_PLACE) + i % IDS_A_PLACE;
        if (spsh_reader_metadata(reader, position, &utterance, NULL) == SPSH_OK)
            is_found = find_in_folders(finder, utterance.id, typed, id);
    }
    spsh_reader_close(finder);
    return is_found;
}

const char *spsh__nearest_id(const spsh_dataset *dataset, spsh_reader *reader, const char *typed,
                             spsh__builder *id)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    const spsh_bytes want = spsh__bytes_of(typed);
    size_t best = want.size_bytes / 3 + 2;
    spsh_utterance utterance;
    best = best < POINTS_MAX ? best : POINTS_MAX;
    spsh__builder_clear(id);
    if (count > IDS_READ_MAX && find_by_folders(dataset, reader, typed, id))
        return spsh__builder_text(id);
    for (uint64_t i = 0; i < count && i < IDS_READ_MAX; i++) {
        if (spsh_reader_metadata(reader, i, &utterance, NULL) != SPSH_OK)
            break;
        if (!is_nearer(utterance.id, want, &best))
            continue;
        spsh__builder_clear(id);
        spsh__builder_append_bytes(id, utterance.id);
    }
    return id->size_bytes > 0 ? spsh__builder_text(id) : NULL;
}
