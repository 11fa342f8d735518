/* tiny_pairs.c: sort the clips by hash of the evidence and by length; neighbors are proposed.
 *
 * Thresholds: of the pairs of one word by one voice (FSDD, 73,500 pairs) that have 0.36 s of active
 * speech and cover each other, none has both a correlation above 0.85 and a correlation with
 * flattened spectra above 0.62 (docs/BENCHMARKS.md). Half of the copies through telephone codecs
 * reach 0.75.
 */
#include "tiny_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/hash.h"
#include "judge.h"
#include "set/set_readers.h"
#include "speechshard/inside.h"
#include "text/text_profile.h"

enum {
    NEIGHBORS = 8,    /* clips with equal evidence that are proposed for each clip */
    APART_MS = 100,   /* maximum difference of two lengths */
    CHECK_EVERY = 256 /* pairs between two checks of the watch */
};

/* Evidence of a clip. */
typedef struct clip {
    uint64_t hash;
    uint32_t length_ms;
    bool is_name; /* the hash is of a name, else of a transcript */
    uint64_t ordinal;
} clip;

typedef struct pair {
    uint64_t a, b;
    bool has_name; /* the names are equal */
} pair;

typedef struct finder {
    const spsh__print_set *set;
    const spsh__tiny_options *options;
    spsh__set_readers readers;
    spsh__builder text;
    clip *clips;
    size_t clip_count, clip_capacity;
    pair *pairs;
    size_t pair_count, pair_capacity;
} finder;

spsh__align_limits spsh__tiny_limits(void)
{
    spsh__align_limits limits = spsh__align_limits_default;
    limits.active_min_s = 0.36;
    limits.tiny_s = SPSH__TINY_ACTIVE_S;
    limits.ncc_tiny = 0.90;
    limits.white_tiny = 0.75;
    return limits;
}

/* ---- proposals ---- */

static bool add_clip(finder *f, spsh_bytes evidence, const clip *like, bool is_name)
{
    if (evidence.size_bytes == 0)
        return true;
    if (!SPSH_GROW(f->clips, f->clip_capacity, f->clip_count + 1))
        return false;
    f->clips[f->clip_count] = *like;
    f->clips[f->clip_count].hash = spsh__pack_hash64(evidence);
    f->clips[f->clip_count++].is_name = is_name;
    return true;
}

static spsh_bytes name_of(spsh_bytes id)
{
    size_t first = id.size_bytes;
    size_t end = id.size_bytes;
    while (first > 0 && id.data[first - 1] != '/')
        first--;
    for (size_t i = id.size_bytes; i > first + 1 && end == id.size_bytes; i--)
        if (id.data[i - 1] == '.')
            end = i - 1;
    return (spsh_bytes){id.data + first, end - first};
}

/* A print frame covers 240 ms more than the 16 ms that active_ms counts. */
bool spsh__is_tiny(const spsh__segment_row *row)
{
    return row->active_ms > 0 && row->active_ms + 240 < 1000 * SPSH__TINY_ACTIVE_S;
}

static spsh_status take_utterance(finder *f, uint64_t ordinal, spsh_error *err)
{
    spsh__segment_row row;
    spsh_utterance utterance;
    if (spsh__print_set_side(f->set, ordinal) == SPSH_SIDE_NONE)
        return SPSH_OK;
    spsh_status rc = spsh__print_set_row(f->set, ordinal, &row, NULL, err);
    if (rc != SPSH_OK || (row.flags & SPSH__ROW_DECODED) == 0 || !spsh__is_tiny(&row))
        return rc;
    rc = spsh__set_readers_metadata(&f->readers, ordinal, &utterance, err);
    if (rc == SPSH_OK)
        rc = spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, utterance.text, &f->text, err);
    if (rc != SPSH_OK)
        return rc;
    const clip like = {.length_ms = (uint32_t)(1000 * spsh__segment_row_seconds(&row)),
                       .ordinal = ordinal};
    if (!add_clip(f, spsh__builder_bytes(&f->text), &like, false) ||
        !add_clip(f, name_of(utterance.id), &like, true))
        return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

static int compare_clips(const void *left, const void *right)
{
    const clip *l = left;
    const clip *r = right;
    if (l->is_name != r->is_name)
        return l->is_name ? 1 : -1;
    if (l->hash != r->hash)
        return l->hash < r->hash ? -1 : 1;
    if (l->length_ms != r->length_ms)
        return l->length_ms < r->length_ms ? -1 : 1;
    return (l->ordinal > r->ordinal) - (l->ordinal < r->ordinal);
}

static int compare_pairs(const void *left, const void *right)
{
    const pair *l = left;
    const pair *r = right;
    if (l->a != r->a)
        return l->a < r->a ? -1 : 1;
    if (l->b != r->b)
        return l->b < r->b ? -1 : 1;
    return (int)r->has_name - (int)l->has_name;
}

static spsh_status propose(finder *f, spsh_error *err)
{
    if (f->clip_count > 1)
        qsort(f->clips, f->clip_count, sizeof(*f->clips), compare_clips);
    for (size_t i = 0; i < f->clip_count; i++) {
        const clip *x = &f->clips[i];
        for (size_t k = i + 1; k < f->clip_count && k <= i + NEIGHBORS; k++) {
            const clip *y = &f->clips[k];
            if (y->hash != x->hash || y->is_name != x->is_name ||
                y->length_ms - x->length_ms > APART_MS)
                break;
            if (!SPSH_GROW(f->pairs, f->pair_capacity, f->pair_count + 1))
                return SPSH_NO_MEMORY(err);
            const bool is_first = x->ordinal < y->ordinal;
            f->pairs[f->pair_count++] = (pair){is_first ? x->ordinal : y->ordinal,
                                               is_first ? y->ordinal : x->ordinal, x->is_name};
        }
    }
    if (f->pair_count > 1)
        qsort(f->pairs, f->pair_count, sizeof(*f->pairs), compare_pairs);
    return SPSH_OK;
}

/* ---- verdicts ---- */

static bool is_known(const spsh__match_list *known, const pair *p)
{
    size_t low = 0;
    size_t high = known->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const spsh__match *m = &known->items[middle];
        if (m->a < p->a || (m->a == p->a && m->b < p->b))
            low = middle + 1;
        else
            high = middle;
    }
    return low < known->count && known->items[low].a == p->a && known->items[low].b == p->b;
}

/* Keep the match with the best correlation of flattened spectra. */
static spsh_status keep_best(void *user, const spsh__match *match, spsh_error *err)
{
    spsh__match *best = user;
    (void)err;
    if (best->kind == SPSH_COPY_NONE || fabs(match->ncc_white) > fabs(best->ncc_white))
        *best = *match;
    return SPSH_OK;
}

static spsh_status judge_pair(spsh__judge *judge, const pair *p, spsh__match_list *ret_proven,
                              spsh__match_list *ret_short, spsh_error *err)
{
    spsh__match best = {.a = p->a, .b = p->b, .tier = SPSH_TIER_ACOUSTIC, .scale = 1};
    spsh_status rc = spsh__judge_pair(judge, p->a, p->b, (spsh__match_sink){keep_best, &best}, err);
    if (rc != SPSH_OK)
        return rc;
    const bool is_open = best.kind == SPSH_COPY_NONE
                             ? p->has_name
                             : fabs(best.ncc_white) >= spsh__align_limits_default.white_min;
    if (best.kind == SPSH_COPY_SAME_RECORDING && best.active_s < SPSH__TINY_ACTIVE_S)
        return spsh__match_list_add(ret_proven, &best, err);
    return is_open ? spsh__match_list_add(ret_short, &best, err) : SPSH_OK;
}

static spsh_status judge_all(finder *f, spsh__match_list *ret_proven, spsh__match_list *ret_short,
                             spsh_error *err)
{
    const spsh__align_limits limits = spsh__tiny_limits();
    const spsh__judge_options options = {
        .limits = &limits, .threads = 1, .memory_bytes = f->options->memory_bytes};
    spsh__judge *judge = NULL;
    spsh_status rc = spsh__judge_open(f->set, &options, &judge, err);
    for (size_t i = 0; rc == SPSH_OK && i < f->pair_count; i++) {
        const pair *p = &f->pairs[i];
        if (i % CHECK_EVERY == 0) {
            spsh__call_watch_report(f->options->watch, "short clips", i, f->pair_count);
            rc = spsh__call_watch_check(f->options->watch, err);
        }
        const bool is_again = i > 0 && f->pairs[i - 1].a == p->a && f->pairs[i - 1].b == p->b;
        if (rc == SPSH_OK && !is_again && !is_known(f->options->known, p))
            rc = judge_pair(judge, p, ret_proven, ret_short, err);
    }
    spsh__judge_close(judge);
    return rc;
}

spsh_status spsh__tiny_pairs_find(const spsh__print_set *set, const spsh__tiny_options *options,
                                  spsh__match_list *ret_proven, spsh__match_list *ret_short,
                                  spsh_error *err)
{
    finder f = {.set = set, .options = options};
    const uint64_t count =
        options->ordinals != NULL ? options->ordinal_count : spsh__print_set_count(set);
    spsh_status rc = spsh__set_readers_open(set, &f.readers, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++)
        rc = take_utterance(&f, options->ordinals != NULL ? options->ordinals[i] : i, err);
    if (rc == SPSH_OK)
        rc = propose(&f, err);
    if (rc == SPSH_OK)
        rc = judge_all(&f, ret_proven, ret_short, err);
    spsh__set_readers_close(&f.readers);
    spsh__builder_free(&f.text);
    free(f.clips);
    free(f.pairs);
    return rc;
}
