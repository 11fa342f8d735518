/* text_index.c: look a text up in three tiers, and store the hits by the numbers of test texts. */
#include "text_index.h"

#include <stdlib.h>

#include "records/hash_map.h"
#include "speechshard/inside.h"
#include "text_cover.h"
#include "text_near.h"

struct spsh__text_index {
    spsh_text_profile profile;
    spsh__hit_rule rule;
    uint64_t memory_bytes;
    spsh__hash_map exact; /* hash of a normalized text -> its number */
    spsh__text_near *near;
    spsh__text_cover *cover;
    spsh__hit_table *hits[SPSH__TEXT_TIERS];
    spsh__builder text; /* scratch of spsh__text_index_add */
};

struct spsh__text_probe {
    spsh__text_index *index;
    spsh__near_probe *near;
    spsh__cover_probe *cover;
    spsh__builder text;
    uint64_t crowded;
};

spsh_status spsh__text_index_open(spsh_text_profile profile, spsh__hit_rule rule,
                                  uint64_t memory_bytes, spsh__text_index **ret_index,
                                  spsh_error *err)
{
    spsh__text_index *index = calloc(1, sizeof(*index));
    if (index == NULL)
        return SPSH_NO_MEMORY(err);
    index->profile = profile;
    index->rule = rule;
    index->memory_bytes = memory_bytes;
    index->near = spsh__text_near_new(profile);
    index->cover = spsh__text_cover_new();
    if (index->near == NULL || index->cover == NULL) {
        spsh__text_index_free(index);
        return SPSH_NO_MEMORY(err);
    }
    *ret_index = index;
    return SPSH_OK;
}

void spsh__text_index_free(spsh__text_index *index)
{
    if (index == NULL)
        return;
    for (unsigned tier = 0; tier < SPSH__TEXT_TIERS; tier++)
        spsh__hit_table_free(index->hits[tier]);
    spsh__hash_map_free(&index->exact);
    spsh__text_near_free(index->near);
    spsh__text_cover_free(index->cover);
    spsh__builder_free(&index->text);
    free(index);
}

uint64_t spsh__text_index_count(const spsh__text_index *index)
{
    return index->exact.count;
}

uint64_t spsh__text_index_bytes(const spsh__text_index *index)
{
    return spsh__hash_map_bytes(&index->exact) + spsh__text_near_bytes(index->near) +
           spsh__text_cover_bytes(index->cover) +
           SPSH__TEXT_TIERS * spsh__hit_table_bytes(index->exact.count, index->rule);
}

static spsh_status check_memory(const spsh__text_index *index, spsh_error *err)
{
    const uint64_t bytes = spsh__text_index_bytes(index);
    if (bytes <= index->memory_bytes)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_LIMIT,
                     "%llu different test texts take %llu MB, which exceeds memory_bytes; raise "
                     "memory_bytes, or audit the test side in parts",
                     (unsigned long long)index->exact.count, (unsigned long long)(bytes / 1000000));
}

spsh_status spsh__text_index_add(spsh__text_index *index, spsh_bytes text, uint32_t *ret_number,
                                 spsh_error *err)
{
    uint32_t number = 0;
    *ret_number = SPSH__TEXT_EMPTY;
    spsh_status rc = spsh__text_normalise(index->profile, text, &index->text, err);
    if (rc != SPSH_OK || index->text.size_bytes == 0)
        return rc;
    const spsh_bytes normal = spsh__builder_bytes(&index->text);
    const size_t count = index->exact.count;
    if (!spsh__hash_map_add(&index->exact, spsh__hash_of(normal), (uint32_t)count, &number))
        return SPSH_NO_MEMORY(err);
    if (index->exact.count > count) {
        rc = spsh__text_near_add(index->near, number, normal, err);
        if (rc == SPSH_OK)
            rc = spsh__text_cover_add(index->cover, number, normal, err);
        if (rc == SPSH_OK)
            rc = check_memory(index, err);
    }
    if (rc == SPSH_OK)
        *ret_number = number;
    return rc;
}

spsh_status spsh__text_index_finish(spsh__text_index *index, spsh_error *err)
{
    spsh_status rc = spsh__text_near_finish(index->near, err);
    if (rc == SPSH_OK)
        rc = spsh__text_cover_finish(index->cover, err);
    if (rc == SPSH_OK)
        rc = check_memory(index, err);
    for (unsigned tier = 0; tier < SPSH__TEXT_TIERS && rc == SPSH_OK; tier++)
        rc = spsh__hit_table_open(index->exact.count, index->rule, &index->hits[tier], err);
    return rc;
}

spsh_status spsh__text_probe_open(spsh__text_index *index, spsh__text_probe **ret_probe,
                                  spsh_error *err)
{
    spsh__text_probe *probe = calloc(1, sizeof(*probe));
    if (probe == NULL)
        return SPSH_NO_MEMORY(err);
    probe->index = index;
    probe->near = spsh__near_probe_new(index->near);
    probe->cover = spsh__cover_probe_new(index->cover);
    if (probe->near == NULL || probe->cover == NULL) {
        spsh__text_probe_free(probe);
        return SPSH_NO_MEMORY(err);
    }
    *ret_probe = probe;
    return SPSH_OK;
}

void spsh__text_probe_free(spsh__text_probe *probe)
{
    if (probe == NULL)
        return;
    spsh__near_probe_free(probe->near);
    spsh__cover_probe_free(probe->cover);
    spsh__builder_free(&probe->text);
    free(probe);
}

uint64_t spsh__text_probe_crowded(const spsh__text_probe *probe)
{
    return probe->crowded;
}

static bool is_among(uint32_t number, const spsh__near_text *near, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (near[i].number == number)
            return true;
    }
    return false;
}

spsh_status spsh__text_probe_text(spsh__text_probe *probe, uint64_t ordinal, spsh_bytes text,
                                  bool *ret_empty, spsh_error *err)
{
    spsh__text_index *index = probe->index;
    const spsh__near_text *near = NULL;
    const spsh__covered *covered = NULL;
    size_t covered_count = 0;
    bool is_crowded = false;
    spsh_status rc = spsh__text_normalise(index->profile, text, &probe->text, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_bytes normal = spsh__builder_bytes(&probe->text);
    *ret_empty = normal.size_bytes == 0;
    if (*ret_empty || index->exact.count == 0)
        return SPSH_OK;

    const uint32_t exact = spsh__hash_map_find(&index->exact, spsh__hash_of(normal));
    if (exact != SPSH__HASH_NONE)
        spsh__hit_table_add(index->hits[SPSH__TEXT_EXACT], exact, &(spsh__hit){ordinal, 1, 1});

    const size_t near_count = spsh__near_probe_text(probe->near, normal, &near, &is_crowded);
    probe->crowded += is_crowded;
    for (size_t i = 0; i < near_count; i++) {
        if (near[i].number != exact)
            spsh__hit_table_add(index->hits[SPSH__TEXT_NEAR], near[i].number,
                                &(spsh__hit){ordinal, near[i].similarity, near[i].similarity});
    }

    rc = spsh__cover_probe_text(probe->cover, normal, SPSH__TEXT_COVERED_LEAST, &covered,
                                &covered_count, err);
    for (size_t i = 0; i < covered_count && rc == SPSH_OK; i++) {
        const spsh__covered *c = &covered[i];
        if (c->number != exact && !is_among(c->number, near, near_count))
            spsh__hit_table_add(index->hits[SPSH__TEXT_COVERED], c->number,
                                &(spsh__hit){ordinal, c->test, c->train});
    }
    return rc;
}

uint64_t spsh__text_index_hits(const spsh__text_index *index, spsh__text_tier tier, uint32_t number,
                               const spsh__hit **ret_hits, uint32_t *ret_kept)
{
    return spsh__hit_table_get(index->hits[tier], number, ret_hits, ret_kept);
}

double spsh__text_index_share(const spsh__text_index *index, uint32_t number)
{
    return spsh__text_cover_share(index->cover, number);
}
