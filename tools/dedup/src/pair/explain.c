/* explain.c: see explain.h. Matches of the judge are shown unchanged. If there are none, the two
 * utterances are aligned here once more, to show the closest alignment and the limit that it
 * misses.
 */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#include "common/byte_builder.h"
#include "common/edit_distance.h"
#include "common/file_names.h"
#include "copies/judge.h"
#include "copies/tiny_pairs.h"
#include "pair_audio.h"
#include "set/set_readers.h"
#include "speechshard/inside.h"
#include "text/text_profile.h"

static const double search_max_s = 600; /* maximum duration of each utterance for a search at every
                                           offset */
static const uint64_t memory_bytes = UINT64_C(512) << 20;
enum { TEXT_POINTS_MAX = 20000 };

/* ---- from stored digests ---- */

static bool is_zero(const uint8_t digest[16])
{
    static const uint8_t zero[16];
    return memcmp(digest, zero, 16) == 0;
}

static bool are_equal(const uint8_t a[16], const uint8_t b[16])
{
    return !is_zero(a) && memcmp(a, b, 16) == 0;
}

static int compare_chunks(const void *left, const void *right)
{
    const uint64_t a = ((const spsh__chunk *)left)->hash;
    const uint64_t b = ((const spsh__chunk *)right)->hash;
    return (a > b) - (a < b);
}

static spsh_status compare_pieces(const spsh__print_set *set, spsh__explain_facts *f,
                                  spsh_error *err)
{
    const size_t counts[2] = {(size_t)f->rows[0].chunk_count, (size_t)f->rows[1].chunk_count};
    spsh__chunk *chunks = (spsh__chunk *)calloc(counts[0] + counts[1] + 1, sizeof(*chunks));
    if (chunks == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__chunk *const other = chunks + counts[0];
    spsh_status rc = spsh__print_set_chunks(set, f->a, chunks, err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_chunks(set, f->b, other, err);
    if (rc == SPSH_OK) {
        qsort(chunks, counts[0], sizeof(*chunks), compare_chunks);
        qsort(other, counts[1], sizeof(*chunks), compare_chunks);
        for (size_t i = 0, k = 0; i < counts[0] && k < counts[1];) {
            const int order = compare_chunks(&chunks[i], &other[k]);
            if (order == 0) {
                f->shown.equal_chunk_count++;
                f->shown.equal_chunk_seconds +=
                    (double)chunks[i].samples / f->rows[0].sample_rate_hz;
            }
            i += order <= 0 ? 1 : 0;
            k += order >= 0 ? 1 : 0;
        }
    }
    free(chunks);
    return rc;
}

static spsh_status compare_digests(const spsh__print_set *set, spsh__explain_facts *f,
                                   spsh_error *err)
{
    const spsh__segment_row *a = &f->rows[0];
    const spsh__segment_row *b = &f->rows[1];
    spsh_status rc = spsh__print_set_row(set, f->a, &f->rows[0], &f->alias_of[0], err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_row(set, f->b, &f->rows[1], &f->alias_of[1], err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t source_a = f->alias_of[0] == SPSH_NONE_U64 ? f->a : f->alias_of[0];
    const uint64_t source_b = f->alias_of[1] == SPSH_NONE_U64 ? f->b : f->alias_of[1];
    f->shown.is_one_record =
        source_a == source_b || ((a->flags & b->flags & SPSH__ROW_WHOLE) != 0 &&
                                 are_equal(a->payload_hash, b->payload_hash));
    if ((a->flags & b->flags & SPSH__ROW_DECODED) == 0)
        return SPSH_OK;
    f->shown.has_equal_pcm = are_equal(a->pcm_full, b->pcm_full);
    f->shown.has_equal_trimmed = are_equal(a->pcm_trim, b->pcm_trim);
    f->shown.has_equal_mono = are_equal(a->pcm_mono, b->pcm_mono);
    return a->sample_rate_hz == b->sample_rate_hz ? compare_pieces(set, f, err) : SPSH_OK;
}

/* ---- transcripts ---- */

static size_t decode(spsh_bytes text, uint32_t *points)
{
    size_t count = 0;
    for (size_t at = 0; at < text.size_bytes && count < TEXT_POINTS_MAX;) {
        const spsh_bytes rest = {text.data + at, text.size_bytes - at};
        const size_t length = rest.data[0] < 0x80 ? 1 : spsh__utf8_sequence(rest);
        uint32_t point = rest.data[0];
        for (size_t i = 1; i < length; i++)
            point = point << 8 | rest.data[i]; /* not the code point, but the raw bytes are just as
                                                  distinct */
        points[count++] = point;
        at += length == 0 ? 1 : length;
    }
    return count;
}

static spsh_status normalise(const spsh__set_readers *readers, uint64_t ordinal, spsh__builder *out,
                             spsh_error *err)
{
    spsh_utterance utterance;
    const spsh_status rc = spsh__set_readers_metadata(readers, ordinal, &utterance, err);
    return rc == SPSH_OK ? spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, utterance.text, out, err)
                         : rc;
}

static spsh_status measure_texts(const spsh__builder *a, const spsh__builder *b,
                                 spsh__explain_facts *f, spsh_error *err)
{
    const size_t point_count = 2 * (size_t)TEXT_POINTS_MAX + 2 * (size_t)TEXT_POINTS_MAX + 3;
    uint32_t *points = (uint32_t *)calloc(point_count, sizeof(*points));
    if (points == NULL)
        return SPSH_NO_MEMORY(err);
    uint32_t *const others = points + TEXT_POINTS_MAX;
    const spsh__points left = {points, decode(spsh__builder_bytes(a), points)};
    const spsh__points right = {others, decode(spsh__builder_bytes(b), others)};
    const size_t longer = left.count > right.count ? left.count : right.count;
    const size_t distance =
        spsh__edit_distance(left, right, longer, points + 2 * (size_t)TEXT_POINTS_MAX);
    f->shown.similarity = longer == 0 ? 0 : 1 - (double)distance / (double)longer;
    f->shown.has_equal_texts = spsh__bytes_equal(spsh__builder_bytes(a), spsh__builder_bytes(b));
    free(points);
    return SPSH_OK;
}

static spsh_status compare_texts(const spsh__print_set *set, spsh__explain_facts *f,
                                 spsh_error *err)
{
    spsh__builder a = {0};
    spsh__builder b = {0};
    spsh__set_readers readers = {0};
    spsh_status rc = spsh__set_readers_open(set, &readers, err);
    if (rc == SPSH_OK)
        rc = normalise(&readers, f->a, &a, err);
    if (rc == SPSH_OK)
        rc = normalise(&readers, f->b, &b, err);
    spsh__set_readers_close(&readers);
    f->shown.has_texts = rc == SPSH_OK && a.size_bytes > 0 && b.size_bytes > 0;
    if (f->shown.has_texts)
        rc = measure_texts(&a, &b, f, err);
    spsh__builder_free(&a);
    spsh__builder_free(&b);
    return rc;
}

/* ---- from audio ---- */

static spsh_status take_match(void *user, const spsh__match *match, spsh_error *err)
{
    spsh__explain_facts *f = (spsh__explain_facts *)user;
    (void)err;
    if (f->shown.match_count < SPSH__EXPLAIN_MATCHES)
        f->matches[f->shown.match_count++] = match->a == f->a ? *match : spsh__match_turned(match);
    return SPSH_OK;
}

/* Choose the best class (same, contained, shared, ...), then the longest active speech. Move this
 * match to the front. */
static void choose_best(spsh__explain_facts *f)
{
    size_t best = 0;
    for (size_t i = 1; i < f->shown.match_count; i++) {
        const spsh__match *m = &f->matches[i];
        const spsh__match *held = &f->matches[best];
        if (m->kind < held->kind || (m->kind == held->kind && m->active_s > held->active_s))
            best = i;
    }
    f->best = f->matches[best];
    f->matches[best] = f->matches[0];
    f->matches[0] = f->best;
}

static spsh_status push(void *user, const int16_t *samples, size_t count, spsh_error *err)
{
    return spsh__fingerprint_push((spsh__fingerprint *)user, samples, count, err);
}

static spsh_status make_print(const spsh__pair_lane *lane, spsh__print *print, spsh_error *err)
{
    spsh__fingerprint *maker = NULL;
    spsh_status rc = spsh__fingerprint_new(lane->row.sample_rate_hz, spsh__print_collect_all(print),
                                           &maker, err);
    if (rc == SPSH_OK) {
        const spsh__pair_source source = {lane->dataset,     lane->position, lane->row, 0, 0,
                                          lane->row.samples, push,           maker};
        rc = spsh__pair_read(&source, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_finish(maker, err);
    spsh__fingerprint_free(maker);
    return rc;
}

/* Find the closest alignment of two utterances without a match. */
static spsh_status find_closest(const spsh__print_set *set, spsh__explain_facts *f, spsh_error *err)
{
    spsh__pair_lane lanes[2];
    spsh__print a = {0};
    spsh__print b = {0};
    spsh__alignment found = {0};
    int64_t offset = 0;
    spsh_status rc = spsh__pair_lane_open(set, f->a, 1, &lanes[0], err);
    if (rc == SPSH_OK)
        rc = spsh__pair_lane_open(set, f->b, 1, &lanes[1], err);
    if (rc != SPSH_OK)
        return rc;
    f->is_searched = lanes[0].total_s <= search_max_s && lanes[1].total_s <= search_max_s;
    f->best = (spsh__match){
        .a = f->a, .b = f->b, .tier = SPSH_TIER_ACOUSTIC, .rate_hz = 8000, .scale = 1};
    if (!f->is_searched)
        return SPSH_OK;
    rc = make_print(&lanes[0], &a, err);
    if (rc == SPSH_OK)
        rc = make_print(&lanes[1], &b, err);
    if (rc == SPSH_OK && spsh__align_search(&a, &b, &spsh__align_limits_default, &offset))
        rc = spsh__align(&a, &b, offset, &spsh__align_limits_default, &found, err);
    if (rc == SPSH_OK) {
        f->best.kind = found.kind;
        f->best.a_first = found.a_first;
        f->best.b_first = found.b_first;
        f->best.count = found.count;
        f->best.lag = found.lag;
        f->best.coverage_a = found.coverage_a;
        f->best.coverage_b = found.coverage_b;
        f->best.active_s = found.active_s;
        f->best.ber = found.ber;
        f->best.words_hz = found.words_hz;
        f->best.tonality = found.tonality;
        f->best.ncc = found.ncc;
        f->best.ncc_white = found.ncc_white;
        f->best.envelope = found.envelope;
        f->best.block_share = found.drift.block_share;
    }
    spsh__print_free(&a);
    spsh__print_free(&b);
    return rc;
}

/* Compare two clips that are too short for the ordinary thresholds, as a deduplication does. */
static spsh_status match_tiny(const spsh__print_set *set, spsh__explain_facts *f, spsh_error *err)
{
    const uint64_t ordinals[2] = {f->a, f->b};
    const spsh__match_list none = {0};
    const spsh__tiny_options options = {
        .ordinals = ordinals, .ordinal_count = 2, .known = &none, .memory_bytes = memory_bytes};
    spsh__match_list proven = {0};
    spsh__match_list too_short = {0};
    spsh_status rc = spsh__tiny_pairs_find(set, &options, &proven, &too_short, err);
    if (rc == SPSH_OK && proven.count > 0) {
        f->limits = spsh__tiny_limits();
        rc = take_match(f, &proven.items[0], err);
    }
    free(proven.items);
    free(too_short.items);
    return rc;
}

static spsh_status listen(const spsh__print_set *set, spsh__explain_facts *f, spsh_error *err)
{
    const spsh__judge_options options = {
        .threads = 1, .memory_bytes = memory_bytes, .speed_grid = true};
    const spsh__match_sink sink = {take_match, f};
    spsh__judge *judge = NULL;
    spsh__pair_window *window = NULL;
    spsh_status rc = spsh__judge_open(set, &options, &judge, err);
    if (rc == SPSH_OK)
        rc = spsh__judge_pair(judge, f->a, f->b, sink, err);
    spsh__judge_close(judge);
    if (rc == SPSH_OK && f->shown.match_count == 0 && f->a != f->b)
        rc = match_tiny(set, f, err);
    f->is_searched = true;
    if (rc == SPSH_OK && f->shown.match_count > 0)
        choose_best(f);
    else if (rc == SPSH_OK)
        rc = find_closest(set, f, err);
    if (rc == SPSH_OK && f->best.count > 0)
        rc = spsh__pair_window_make(set, &f->best, &window, err);
    if (rc == SPSH_OK && window != NULL) {
        f->shown.has_gain = window->has_gain && f->best.kind != SPSH_COPY_NONE;
        f->shown.gain_db = window->gain_db;
    }
    spsh__pair_window_free(window);
    return rc;
}

spsh_status spsh__explain_find(const spsh__print_set *set, uint64_t a, uint64_t b,
                               spsh__explain_facts *ret_facts, spsh_error *err)
{
    spsh__explain_facts *f = ret_facts;
    memset(f, 0, sizeof(*f));
    f->a = a;
    f->b = b;
    f->limits = spsh__align_limits_default;
    f->shown.verdict = f->verdict;
    f->shown.text_profile = spsh__text_profile_name(SPSH_TEXT_PROFILE_DEFAULT);
    f->best =
        (spsh__match){.a = a, .b = b, .tier = SPSH_TIER_ACOUSTIC, .rate_hz = 8000, .scale = 1};
    spsh_status rc = compare_digests(set, f, err);
    if (rc == SPSH_OK)
        rc = compare_texts(set, f, err);
    if (rc == SPSH_OK && (f->rows[0].flags & f->rows[1].flags & SPSH__ROW_DECODED) != 0)
        rc = listen(set, f, err);
    if (rc == SPSH_OK)
        spsh__explain_judge(f);
    return rc;
}
