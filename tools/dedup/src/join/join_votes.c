/* join_votes.c: cluster the hits of one pair by adjacent offsets, and select the best offsets.
 *
 * Hits arrive sorted by a, b, offset, place. A cluster ends with the pair, at a gap of more than 3
 * frames, or before it would be wider than 64 frames (held tones agree at every offset). The offset
 * with the most distinct places within 3 frames is selected, and hits within 6 frames of it are
 * dropped. This repeats as long as there are enough votes.
 */
#include "join_votes.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "speechshard/inside.h"

enum { NEAR = 3, APART = 6, WIDTH_MAX = 64 };

typedef struct vote {
    uint32_t place;
    uint32_t offset; /* relative to the first offset of the cluster */
} vote;

struct spsh__join_votes {
    spsh__sort128 *hits;
    uint32_t votes_min;
    spsh__sort128_cursor at;
    bool is_over;

    spsh__join_hit first; /* first hit of the cluster */
    vote *cluster;
    size_t cluster_count, cluster_capacity;
    uint32_t last_offset;

    spsh__candidate found[SPSH__JOIN_OFFSETS_MAX]; /* best candidates of the pair, emitted when the
                                                      pair ends */
    size_t found_count, given;
};

spsh_status spsh__join_votes_new(spsh__sort128 *hits, uint32_t votes_min,
                                 spsh__join_votes **ret_votes, spsh_error *err)
{
    spsh__join_votes *votes = calloc(1, sizeof(*votes));
    if (votes == NULL)
        return SPSH_NO_MEMORY(err);
    votes->hits = hits;
    votes->votes_min = votes_min;
    *ret_votes = votes;
    return SPSH_OK;
}

void spsh__join_votes_free(spsh__join_votes *votes)
{
    if (votes == NULL)
        return;
    free(votes->cluster);
    free(votes);
}

static int compare_votes(const void *left, const void *right)
{
    const vote *a = left;
    const vote *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static uint32_t distance(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* Count distinct places near an offset. Hits at adjacent offsets break ties. */
static uint64_t score_of(const vote *cluster, size_t count, uint32_t offset, uint32_t *ret_votes)
{
    uint32_t places = 0;
    uint32_t next_to = 0;
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t apart = distance(cluster[i].offset, offset);
        if (apart > NEAR)
            continue;
        next_to += apart <= 1;
        if (places == 0 || cluster[i].place != last)
            places++;
        last = cluster[i].place;
    }
    *ret_votes = places;
    return (uint64_t)places << 32 | next_to;
}

/* More votes first, then the lower offset. */
static bool is_better(const spsh__candidate *a, const spsh__candidate *b)
{
    return a->votes != b->votes ? a->votes > b->votes : a->offset < b->offset;
}

static void keep(spsh__join_votes *votes, const spsh__candidate *candidate)
{
    if (votes->found_count < SPSH__JOIN_OFFSETS_MAX) {
        votes->found[votes->found_count++] = *candidate;
        return;
    }
    size_t worst = 0;
    for (size_t i = 1; i < SPSH__JOIN_OFFSETS_MAX; i++)
        if (is_better(&votes->found[worst], &votes->found[i]))
            worst = i;
    if (is_better(candidate, &votes->found[worst]))
        votes->found[worst] = *candidate;
}

static void drop_near(spsh__join_votes *votes, uint32_t offset)
{
    size_t left = 0;
    for (size_t i = 0; i < votes->cluster_count; i++)
        if (distance(votes->cluster[i].offset, offset) > APART)
            votes->cluster[left++] = votes->cluster[i];
    votes->cluster_count = left;
}

static void end_cluster(spsh__join_votes *votes)
{
    const uint32_t least = votes->first.is_short ? 1 : votes->votes_min;
    if (votes->cluster_count >= least && votes->cluster_count > 1)
        qsort(votes->cluster, votes->cluster_count, sizeof(vote), compare_votes);
    while (votes->cluster_count >= least) {
        bool is_there[WIDTH_MAX] = {false};
        uint64_t best_score = 0;
        uint32_t best = 0;
        uint32_t best_votes = 0;
        for (size_t i = 0; i < votes->cluster_count; i++)
            is_there[votes->cluster[i].offset] = true;
        for (uint32_t offset = 0; offset < WIDTH_MAX; offset++) {
            uint32_t count = 0;
            if (!is_there[offset])
                continue;
            const uint64_t score = score_of(votes->cluster, votes->cluster_count, offset, &count);
            if (score > best_score) {
                best_score = score;
                best = offset;
                best_votes = count;
            }
        }
        if (best_votes < least)
            break;
        const spsh__candidate candidate = {votes->first.a, votes->first.b,
                                           votes->first.offset + best, best_votes};
        keep(votes, &candidate);
        drop_near(votes, best);
    }
    votes->cluster_count = 0;
}

static int compare_offsets(const void *left, const void *right)
{
    const spsh__candidate *a = left;
    const spsh__candidate *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static spsh_status add_vote(spsh__join_votes *votes, const spsh__join_hit *hit, spsh_error *err)
{
    if (!SPSH_GROW(votes->cluster, votes->cluster_capacity, votes->cluster_count + 1))
        return SPSH_NO_MEMORY(err);
    if (votes->cluster_count == 0)
        votes->first = *hit;
    const vote added = {hit->place, (uint32_t)(hit->offset - votes->first.offset)};
    votes->cluster[votes->cluster_count++] = added;
    votes->last_offset = added.offset;
    return SPSH_OK;
}

/* Read hits up to the end of the next pair with candidates. */
static spsh_status next_pair(spsh__join_votes *votes, spsh_error *err)
{
    spsh__join_hit pair = {0};
    bool has_pair = false;

    votes->found_count = 0;
    votes->given = 0;
    for (;;) {
        const spsh__u128 *record = NULL;
        spsh__join_hit hit = {0};
        spsh_status rc = spsh__sort128_peek(votes->hits, &votes->at, &record, err);
        votes->is_over = rc == SPSH_E_END;
        if (rc != SPSH_OK && rc != SPSH_E_END)
            return rc;
        if (rc == SPSH_OK)
            hit = spsh__join_unpack_hit(*record);
        if (has_pair && (rc == SPSH_E_END || hit.a != pair.a || hit.b != pair.b)) {
            end_cluster(votes);
            if (votes->found_count > 0)
                break;
        }
        if (rc == SPSH_E_END)
            return rc;
        const int64_t from_first = hit.offset - votes->first.offset;
        if (votes->cluster_count > 0 &&
            (from_first >= WIDTH_MAX || from_first - votes->last_offset > NEAR))
            end_cluster(votes);
        rc = add_vote(votes, &hit, err);
        if (rc != SPSH_OK)
            return rc;
        pair = hit;
        has_pair = true;
        votes->at.at++;
    }
    qsort(votes->found, votes->found_count, sizeof(votes->found[0]), compare_offsets);
    return SPSH_OK;
}

spsh_status spsh__join_votes_next(spsh__join_votes *votes, spsh__candidate *ret_candidate,
                                  spsh_error *err)
{
    if (votes->given == votes->found_count) {
        if (votes->is_over)
            return SPSH_E_END;
        const spsh_status rc = next_pair(votes, err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_candidate = votes->found[votes->given++];
    return SPSH_OK;
}
