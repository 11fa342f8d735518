/* copy_quality.c: properties of the utterances of a set, for clusters.c.
 *
 * The segments and the index have all properties except the transcript. It is read and normalized
 * only for utterances that have a match. Requests come in the order of ordinals, so shards are read
 * from front to back.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clusters.h"
#include "common/hash.h"
#include "set/set_readers.h"
#include "set/split_names.h"
#include "speechshard/inside.h"
#include "text/text_profile.h"

enum { FRAMES_AT_ONCE = 4096 };

typedef struct quality_reader {
    const spsh__print_set *set;
    const spsh__policy *policy;
    spsh__set_readers readers;
    spsh__builder text;
} quality_reader;

static spsh_status get_text_hash(quality_reader *q, uint64_t ordinal, uint64_t *ret_hash,
                                 spsh_error *err)
{
    spsh_utterance utterance;
    spsh_status rc = spsh__set_readers_metadata(&q->readers, ordinal, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, utterance.text, &q->text, err);
    *ret_hash = 0;
    if (rc == SPSH_OK && q->text.size_bytes > 0)
        *ret_hash = spsh__pack_hash64(spsh__builder_bytes(&q->text)) | 1;
    return rc;
}

static spsh_status get_quality(void *user, uint64_t ordinal, spsh__copy_quality *ret_quality,
                               spsh_error *err)
{
    quality_reader *q = user;
    spsh__segment_row row;
    spsh_row place;
    spsh_bytes split = {NULL, 0};
    const spsh__set_place at = spsh__print_set_place(q->set, ordinal);
    spsh_status rc = spsh__print_set_row(q->set, ordinal, &row, NULL, err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_index_row(q->set, ordinal, &place, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_name(at.dataset, SPSH_NAME_SPLIT, place.split, &split, err);
    if (rc != SPSH_OK)
        return rc;
    const double rate = row.sample_rate_hz == 0 ? 1 : (double)row.sample_rate_hz;
    const double seconds = (double)row.samples / rate;
    const bool is_decoded = (row.flags & SPSH__ROW_DECODED) != 0;
    *ret_quality = (spsh__copy_quality){
        .ordinal = ordinal,
        .dataset = at.number,
        .seconds = seconds,
        .sound_seconds = is_decoded ? (double)row.trim_count / rate : seconds,
        .bytes = (uint64_t)(seconds * (double)row.payload_bps / 8),
        .is_lossless = (row.flags & SPSH__ROW_LOSSLESS) != 0,
        .has_text = (row.flags & SPSH__ROW_HAS_TEXT) != 0,
        .is_protected =
            q->policy->drop_from != NULL && !spsh__split_names_has(q->policy->drop_from, split),
        .bandwidth_hz = row.bandwidth_hz,
        .payload_bps = row.payload_bps,
        .clipped_count = row.clipped_count,
    };
    if (ret_quality->has_text)
        rc = get_text_hash(q, ordinal, &ret_quality->text_hash, err);
    return rc;
}

/* A sweep over the stretches in order of time. */
typedef struct sweep {
    const spsh__copy_stretch *stretches;
    size_t count, next;
    double end_s; /* latest end of the stretches that have begun */
} sweep;

/* Whether a stretch covers the middle of a frame's span. Call with ascending frames. */
static bool is_covered(sweep *s, uint64_t frame)
{
    const double at = ((double)frame * SPSH__PRINT_HOP + SPSH__PRINT_SPAN / 2.0) / 8000;
    for (; s->next < s->count && s->stretches[s->next].first_s <= at; s->next++)
        s->end_s = fmax(s->end_s, s->stretches[s->next].first_s + s->stretches[s->next].seconds);
    return at < s->end_s;
}

static spsh_status get_covered(void *user, uint64_t ordinal, const spsh__copy_stretch *stretches,
                               size_t count, double *ret_share, spsh_error *err)
{
    const quality_reader *q = user;
    spsh__set_print print;
    uint64_t first = 0;
    uint64_t prints = 0;
    uint64_t active = 0;
    uint64_t covered = 0;
    sweep s = {.stretches = stretches, .count = count};
    spsh_status rc = spsh__print_set_prints_of(q->set, ordinal, &first, &prints, err);
    *ret_share = 0;
    if (rc != SPSH_OK || prints == 0)
        return rc;
    rc = spsh__print_set_print(q->set, first, &print, err);
    spsh__print_frame *frames = calloc(FRAMES_AT_ONCE, sizeof(*frames));
    if (rc == SPSH_OK && frames == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (uint64_t at = 0; rc == SPSH_OK && at < print.frame_count; at += FRAMES_AT_ONCE) {
        const uint64_t left = print.frame_count - at;
        const uint64_t now = left < FRAMES_AT_ONCE ? left : FRAMES_AT_ONCE;
        rc = spsh__segment_frames(print.segment, print.first_frame + at, now, frames, err);
        for (uint64_t i = 0; i < now && rc == SPSH_OK; i++) {
            active += frames[i].is_active;
            covered += frames[i].is_active && is_covered(&s, at + i);
        }
    }
    free(frames);
    if (rc == SPSH_OK && active > 0)
        *ret_share = (double)covered / (double)active;
    return rc;
}

spsh_status spsh__clusters_make(const spsh__print_set *set, const spsh__match *matches,
                                uint64_t match_count, const spsh__policy *policy,
                                spsh__pair_check check, spsh__clusters *ret_clusters,
                                spsh_error *err)
{
    quality_reader q = {.set = set, .policy = policy};
    const spsh__quality_source source = {get_quality, get_covered, &q};
    spsh_status rc = spsh__set_readers_open(set, &q.readers, err);
    if (rc == SPSH_OK)
        rc = spsh__clusters_of(&source, matches, match_count, policy, check, ret_clusters, err);
    spsh__set_readers_close(&q.readers);
    spsh__builder_free(&q.text);
    return rc;
}
