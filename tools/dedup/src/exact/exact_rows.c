/* exact_rows.c: rows of a set, and matches of two rows.
 *
 * Coverage counts samples, without the zeros at the ends of the recording. So a padded copy covers
 * all of its original. Digital silence has nothing to cover. Two equal silent files are a match of
 * class NONE with coverage 0 and active duration 0, which is emitted but never drops an utterance.
 * The same holds for equal bytes that cannot be decoded.
 */
#include <math.h>
#include <string.h>

#include "exact_internal.h"

enum {
    FRAMES_AT_ONCE = 4096,
    FRAME_MIDDLE = SPSH__PRINT_SPAN / 2 / SPSH__PRINT_HOP, /* in hops */
    PRINT_RATE_HZ = 8000,
};

spsh_status spsh__exact_row_get(const spsh__print_set *set, uint64_t ordinal,
                                spsh__exact_row *ret_row, spsh_error *err)
{
    spsh__exact_row row = {.ordinal = ordinal, .source = ordinal};
    uint64_t alias_of = SPSH_NONE_U64;
    spsh_row place;
    spsh_status rc = spsh__print_set_row(set, ordinal, &row.row, &alias_of, err);
    if (rc == SPSH_OK && alias_of != SPSH_NONE_U64) {
        spsh__segment_row source;
        row.source = alias_of;
        rc = spsh__print_set_row(set, alias_of, &source, NULL, err);
        if (rc == SPSH_OK)
            row.row.flags = source.flags | SPSH__ROW_ALIAS;
    }
    if (rc == SPSH_OK)
        rc = spsh__print_set_index_row(set, ordinal, &place, err);
    if (rc != SPSH_OK)
        return rc;
    row.side = spsh__print_set_side(set, ordinal);
    row.dataset = spsh__print_set_place(set, ordinal).number;
    row.payload_shard = place.payload_shard;
    row.payload_record = place.payload_record;
    row.start_sample = place.start_sample;
    *ret_row = row;
    return SPSH_OK;
}

spsh_status spsh__exact_rows_get(const spsh__print_set *set, uint64_t one, uint64_t other,
                                 spsh__exact_row *ret_a, spsh__exact_row *ret_b, spsh_error *err)
{
    const spsh_status rc = spsh__exact_row_get(set, one < other ? one : other, ret_a, err);
    return rc == SPSH_OK ? spsh__exact_row_get(set, one < other ? other : one, ret_b, err) : rc;
}

static bool is_set(const spsh__segment_row *row, uint32_t flag)
{
    return (row->flags & flag) != 0;
}

static bool is_same_hash(const uint8_t a[16], const uint8_t b[16])
{
    return memcmp(a, b, 16) == 0;
}

bool spsh__exact_is_trim_good(const spsh__segment_row *row)
{
    return row->trim_count >= row->sample_rate_hz / SPSH__EXACT_TRIM_DIVISOR && row->trim_count > 0;
}

static bool has_mono(const spsh__segment_row *row)
{
    static const uint8_t none[16];
    return spsh__exact_is_trim_good(row) && !is_same_hash(row->pcm_mono, none);
}

static bool is_equal_bytes(const spsh__segment_row *a, const spsh__segment_row *b)
{
    return is_set(a, SPSH__ROW_WHOLE) && is_set(b, SPSH__ROW_WHOLE) && a->samples == b->samples &&
           a->sample_rate_hz == b->sample_rate_hz && is_same_hash(a->payload_hash, b->payload_hash);
}

static bool is_equal_full(const spsh__segment_row *a, const spsh__segment_row *b)
{
    return is_set(a, SPSH__ROW_DECODED) && is_set(b, SPSH__ROW_DECODED) &&
           is_same_hash(a->pcm_full, b->pcm_full);
}

static bool is_equal_trimmed(const spsh__segment_row *a, const spsh__segment_row *b)
{
    if (!is_set(a, SPSH__ROW_DECODED) || !is_set(b, SPSH__ROW_DECODED) ||
        !spsh__exact_is_trim_good(a) || !spsh__exact_is_trim_good(b))
        return false;
    return is_same_hash(a->pcm_trim, b->pcm_trim) ||
           (has_mono(a) && has_mono(b) && is_same_hash(a->pcm_mono, b->pcm_mono));
}

bool spsh__exact_is_one_place(const spsh__exact_row *a, const spsh__exact_row *b)
{
    return a->dataset == b->dataset && a->payload_shard == b->payload_shard &&
           a->payload_record == b->payload_record;
}

static bool is_same_place(const spsh__exact_row *a, const spsh__exact_row *b)
{
    return spsh__exact_is_one_place(a, b) && a->start_sample == b->start_sample &&
           a->row.samples == b->row.samples;
}

bool spsh__exact_is_equal(const spsh__exact_row *a, const spsh__exact_row *b)
{
    return is_same_place(a, b) || is_equal_bytes(&a->row, &b->row) ||
           is_equal_full(&a->row, &b->row) || is_equal_trimmed(&a->row, &b->row);
}

spsh__match spsh__exact_whole_match(const spsh__exact_row *a, const spsh__exact_row *b)
{
    const bool is_bytes = is_same_place(a, b) || is_equal_bytes(&a->row, &b->row);
    spsh__match match = {
        .a = a->ordinal,
        .b = b->ordinal,
        .tier = is_bytes ? SPSH_TIER_BYTES : SPSH_TIER_PCM,
        .rate_hz = a->row.sample_rate_hz,
        .count = a->row.samples,
        .active_s = (double)a->row.active_ms / 1e3,
        .scale = 1,
    };
    if (!is_bytes && !is_equal_full(&a->row, &b->row)) {
        match.a_first = a->row.trim_first;
        match.b_first = b->row.trim_first;
        match.count = a->row.trim_count < b->row.trim_count ? a->row.trim_count : b->row.trim_count;
        match.lag = (double)match.b_first - (double)match.a_first;
    }
    if (a->row.trim_count > 0) {
        match.kind = SPSH_COPY_SAME_RECORDING;
        match.coverage_a = match.coverage_b = 1;
    }
    return match;
}

static double coverage_of(const spsh__segment_row *row, uint64_t first, uint64_t count)
{
    uint64_t trim_first = row->trim_first;
    uint64_t trim_end = row->trim_first + row->trim_count;
    if (!is_set(row, SPSH__ROW_DECODED)) { /* the zeros at the ends are not known */
        trim_first = 0;
        trim_end = row->samples;
    }
    const uint64_t begin = first > trim_first ? first : trim_first;
    const uint64_t end = first + count < trim_end ? first + count : trim_end;
    return end > begin ? (double)(end - begin) / (double)(trim_end - trim_first) : 0;
}

/* The print of the mix of all channels. */
static spsh_status find_mix(const spsh__print_set *set, uint64_t ordinal, spsh__set_print *ret_mix,
                            spsh_error *err)
{
    uint64_t first = 0;
    uint64_t count = 0;
    spsh__set_print print = {0};
    spsh_status rc = spsh__print_set_prints_of(set, ordinal, &first, &count, err);
    *ret_mix = (spsh__set_print){0};
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
        rc = spsh__print_set_print(set, first + i, &print, err);
        if (rc == SPSH_OK && print.channel == 0) {
            *ret_mix = print;
            break;
        }
    }
    return rc;
}

static uint64_t limit(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* Active duration of the samples [first, first + count). A hop counts if the frame centered on it
 * is active. Hops near the ends, which are not the center of a frame, count with the first or the
 * last frame. */
static spsh_status count_active(const spsh__print_set *set, const spsh__exact_row *row,
                                uint64_t first, uint64_t count, double *ret_seconds,
                                spsh_error *err)
{
    spsh__print_frame frames[FRAMES_AT_ONCE];
    spsh__set_print mix;
    spsh_status rc = find_mix(set, row->source, &mix, err);
    const double hops = (double)PRINT_RATE_HZ / row->row.sample_rate_hz / SPSH__PRINT_HOP;
    uint64_t hop = (uint64_t)llround((double)first * hops);
    const uint64_t end = (uint64_t)llround((double)(first + count) * hops);
    uint64_t active = 0;
    while (rc == SPSH_OK && mix.frame_count > 0 && hop < end) {
        const uint64_t last = mix.frame_count - 1;
        const uint64_t from = limit(hop < FRAME_MIDDLE ? 0 : hop - FRAME_MIDDLE, last);
        const uint64_t some = limit(end - hop, FRAMES_AT_ONCE);
        const uint64_t stop = hop + some - 1;
        const uint64_t to = limit(stop < FRAME_MIDDLE ? 0 : stop - FRAME_MIDDLE, last);
        rc = spsh__segment_frames(mix.segment, mix.first_frame + from, to - from + 1, frames, err);
        for (uint64_t i = 0; rc == SPSH_OK && i < some; i++, hop++) {
            const uint64_t at = limit(hop < FRAME_MIDDLE ? 0 : hop - FRAME_MIDDLE, last);
            active += frames[at - from].is_active;
        }
    }
    *ret_seconds = (double)active / SPSH__PRINT_HZ;
    return rc;
}

spsh_status spsh__exact_stretch_match(const spsh__exact_search *search, const spsh__exact_row *a,
                                      const spsh__exact_row *b, spsh__match *match,
                                      bool *ret_is_worth, spsh_error *err)
{
    const spsh__exact_options *options = search->options;
    match->a = a->ordinal;
    match->b = b->ordinal;
    match->rate_hz = a->row.sample_rate_hz;
    match->lag = (double)match->b_first - (double)match->a_first;
    match->coverage_a = coverage_of(&a->row, match->a_first, match->count);
    match->coverage_b = coverage_of(&b->row, match->b_first, match->count);
    match->scale = 1;
    match->active_s = (double)match->count / match->rate_hz;
    *ret_is_worth = false;
    if (is_set(&a->row, SPSH__ROW_DECODED)) {
        spsh_status rc =
            count_active(search->set, a, match->a_first, match->count, &match->active_s, err);
        if (rc != SPSH_OK)
            return rc;
    }
    const bool is_all_a = match->coverage_a >= options->coverage_min;
    const bool is_all_b = match->coverage_b >= options->coverage_min;
    match->kind = is_all_a && is_all_b   ? SPSH_COPY_SAME_RECORDING
                  : is_all_a || is_all_b ? SPSH_COPY_CONTAINED
                                         : SPSH_COPY_SHARED_SEGMENT;
    *ret_is_worth =
        match->active_s >= options->min_active_s || ((is_all_a || is_all_b) && match->active_s > 0);
    return SPSH_OK;
}
