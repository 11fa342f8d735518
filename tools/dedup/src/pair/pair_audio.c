/* pair_audio.c: see pair_audio.h.
 *
 * The window covers both utterances if they are short. Otherwise it covers the match and half of
 * its length on each side. Both sides are read from the first sample of the window, with silence
 * outside of the recordings. So frame i and sample i of one print are aligned with frame i and
 * sample i of the other.
 */
#include "pair_audio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fingerprint/coherence.h"
#include "segment/print_mix.h"
#include "speechshard/inside.h"

enum {
    PIECE = 4096, /* samples per channel decoded at once */
    SIGNAL_HZ = 8000,
    BLOCK = 1600,    /* SPSH__PAIR_BLOCK_S in samples */
    TRACK = 24,      /* maximum change of the lag from block to block, in samples */
    RATE_MIN = 8000, /* lowest and highest rate that a print can be made from */
    RATE_MAX = 192000,
};
static const double all_shown_s = 20;   /* all audio is shown if both aligned utterances together
                                           span at most this */
static const double context_min_s = 2;  /* minimum context on each side of the match */
static const double quiet_share = 0.01; /* a block is quiet below this share of the loudest block's
                                           energy: -20 dB */

spsh__pair_place spsh__pair_place_of(const spsh__match *match)
{
    const double rate = match->rate_hz == 0 ? SIGNAL_HZ : (double)match->rate_hz;
    const double scale = match->scale > 0 ? match->scale : 1;
    double b_first = (double)match->b_first;
    /* The lag gives a finer position of b. The exact tiers do not need it. */
    if (scale == 1 && fabs((double)match->a_first + match->lag - b_first) < 0.1 * rate)
        b_first = (double)match->a_first + match->lag;
    return (spsh__pair_place){
        .a_first_s = (double)match->a_first / rate,
        .a_s = (double)match->count / rate,
        .b_first_s = b_first / rate,
    };
}

spsh_copy_match spsh__pair_match_show(const spsh__match *match)
{
    const spsh__pair_place place = spsh__pair_place_of(match);
    return (spsh_copy_match){
        .kind = match->kind,
        .tier = match->tier,
        .a_start_s = place.a_first_s,
        .a_seconds = place.a_s,
        .b_start_s = place.b_first_s,
        .rate_hz = match->rate_hz,
        .a_first = match->a_first,
        .b_first = match->b_first,
        .count = match->count,
        .a_channel = match->a_channel,
        .b_channel = match->b_channel,
        .is_inverted = match->is_inverted,
        .active_seconds = match->active_s,
        .coverage_a = match->coverage_a,
        .coverage_b = match->coverage_b,
        .ber = match->ber,
        .words_hz = match->words_hz,
        .tonality = match->tonality,
        .ncc = match->ncc,
        .ncc_white = match->ncc_white,
        .envelope = match->envelope,
        .block_share = match->block_share,
        .slope_ppm = match->slope_ppm,
        .spread_ms = match->spread_ms,
        .scale = match->scale,
        .similarity = match->similarity,
    };
}

/* ---- reading ---- */

static spsh_status send_silence(const spsh__pair_source *source, int16_t *mono, uint64_t count,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    memset(mono, 0, PIECE * sizeof(*mono));
    while (rc == SPSH_OK && count > 0) {
        const size_t piece = count < PIECE ? (size_t)count : PIECE;
        rc = source->mono_fn(source->user, mono, piece, err);
        count -= piece;
    }
    return rc;
}

static spsh_status send_samples(const spsh__pair_source *source, spsh_reader *reader,
                                int16_t *pieces, uint64_t first, uint64_t count, spsh_error *err)
{
    int16_t *const mono = pieces + (size_t)PIECE * source->row.channels;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && count > 0) {
        uint64_t got = 0;
        rc = spsh_reader_read_i16(reader, source->position, first, pieces,
                                  count < PIECE ? count : PIECE, &got, err);
        if (rc == SPSH_OK && got == 0)
            rc = SPSH_FAIL(err, SPSH_E_AUDIO, "the audio ends early");
        if (rc == SPSH_OK) {
            spsh__mix_channel(pieces, (size_t)got, source->row.channels, source->channel, mono);
            rc = source->mono_fn(source->user, mono, (size_t)got, err);
        }
        first += got;
        count -= got;
    }
    return rc;
}

spsh_status spsh__pair_read(const spsh__pair_source *source, spsh_error *err)
{
    const uint64_t before = source->first < 0 ? (uint64_t)-source->first : 0;
    const uint64_t silent = before < source->count ? before : source->count;
    const uint64_t first = source->first < 0 ? 0 : (uint64_t)source->first;
    const uint64_t there = first < source->row.samples ? source->row.samples - first : 0;
    const uint64_t count = there < source->count - silent ? there : source->count - silent;
    spsh_reader *reader = NULL;
    int16_t *pieces =
        (int16_t *)calloc((size_t)PIECE * (source->row.channels + 1), sizeof(*pieces));
    if (pieces == NULL)
        return SPSH_NO_MEMORY(err);
    int16_t *const mono = pieces + (size_t)PIECE * source->row.channels;
    spsh_status rc = spsh_reader_open(source->dataset, &reader, err);
    if (rc == SPSH_OK)
        rc = send_silence(source, mono, silent, err);
    if (rc == SPSH_OK)
        rc = send_samples(source, reader, pieces, first, count, err);
    if (rc == SPSH_OK)
        rc = send_silence(source, mono, source->count - silent - count, err);
    spsh_reader_close(reader);
    free(pieces);
    return rc;
}

/* ---- a lane ---- */

typedef struct filling {
    spsh__pair_lane *lane;
    spsh__fingerprint *maker;
    uint64_t done, count; /* samples */
    uint64_t begin, end;  /* range of samples inside the utterance */
} filling;

static spsh_status fill(void *user, const int16_t *samples, size_t count, spsh_error *err)
{
    filling *f = (filling *)user;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = f->done + i;
        const size_t column = (size_t)(at * SPSH__PAIR_COLUMNS / f->count);
        const float value = (float)samples[i] / 32768.0F;
        if (at < f->begin || at >= f->end)
            continue;
        f->lane->low[column] = value < f->lane->low[column] ? value : f->lane->low[column];
        f->lane->high[column] = value > f->lane->high[column] ? value : f->lane->high[column];
        f->lane->peak = fabsf(value) > f->lane->peak ? fabsf(value) : f->lane->peak;
    }
    f->done += count;
    return spsh__fingerprint_push(f->maker, samples, count, err);
}

static spsh_status fill_lane(spsh__pair_lane *lane, double seconds, uint32_t channel,
                             spsh_error *err)
{
    const double rate = (double)lane->row.sample_rate_hz * lane->speed;
    const double made = rate < RATE_MIN ? RATE_MIN : rate > RATE_MAX ? RATE_MAX : rate;
    const int64_t first = (int64_t)llround(lane->first_s * lane->row.sample_rate_hz);
    filling f = {.lane = lane, .count = (uint64_t)llround(seconds * rate)};
    f.count = f.count == 0 ? 1 : f.count;
    f.begin = first < 0 ? (uint64_t)-first : 0;
    f.end = (int64_t)lane->row.samples > first ? (uint64_t)((int64_t)lane->row.samples - first) : 0;
    const spsh__pair_source source = {lane->dataset, lane->position, lane->row, channel,
                                      first,         f.count,        fill,      &f};
    for (size_t i = 0; i < SPSH__PAIR_COLUMNS; i++) {
        lane->low[i] = 1;
        lane->high[i] = -1;
    }
    spsh_status rc = spsh__fingerprint_new((uint32_t)llround(made),
                                           spsh__print_collect_all(&lane->print), &f.maker, err);
    if (rc == SPSH_OK)
        rc = spsh__pair_read(&source, err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_finish(f.maker, err);
    spsh__fingerprint_free(f.maker);
    return rc;
}

spsh_status spsh__pair_lane_open(const spsh__print_set *set, uint64_t ordinal, double speed,
                                 spsh__pair_lane *lane, spsh_error *err)
{
    const spsh__set_place place = spsh__print_set_place(set, ordinal);
    memset(lane, 0, sizeof(*lane));
    lane->speed = speed;
    lane->dataset = place.dataset;
    lane->position = place.position;
    spsh_status rc = spsh__print_set_index_row(set, ordinal, &lane->row, err);
    if (rc != SPSH_OK)
        return rc;
    if (lane->row.sample_rate_hz == 0 || lane->row.channels == 0)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "its audio has no sample rate");
    lane->total_s = (double)lane->row.samples / lane->row.sample_rate_hz;
    return SPSH_OK;
}

/* ---- the window ---- */

static void place_window(spsh__pair_window *w, const spsh__match *match)
{
    const spsh__pair_place place = spsh__pair_place_of(match);
    const double b_total = w->b.total_s / w->b.speed; /* on a's time line, as all times below */
    const double b_begin = place.a_first_s - place.b_first_s / w->b.speed;
    const double begin = b_begin < 0 ? b_begin : 0;
    const double end = w->a.total_s > b_begin + b_total ? w->a.total_s : b_begin + b_total;
    const double middle = place.a_first_s + place.a_s / 2;
    double first = begin;
    double last = end;
    if (end - begin > all_shown_s && match->count > 0) {
        const double around = place.a_s / 2 > context_min_s ? place.a_s / 2 : context_min_s;
        first = fmax(begin, place.a_first_s - around);
        last = fmin(end, place.a_first_s + place.a_s + around);
    }
    if (last - first > SPSH__PAIR_SECONDS) {
        if (match->count > 0)
            first = fmin(fmax(first, middle - SPSH__PAIR_SECONDS / 2), last - SPSH__PAIR_SECONDS);
        last = first + SPSH__PAIR_SECONDS;
    }
    w->seconds = last - first;
    w->match_first_s = fmax(place.a_first_s - first, 0);
    w->match_s = fmin(place.a_first_s + place.a_s, last) - first - w->match_first_s;
    w->match_s = match->count == 0 || w->match_s < 0 ? 0 : w->match_s;
    w->a.first_s = first;
    w->b.first_s = (first - b_begin) * w->b.speed;
}

static double dot(const double *x, const double *y, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Return the maximum magnitude of the block's correlation within TRACK samples of *lag, or -1 if
 * the block is quiet. Moves *lag to the maximum if it is above 0.5. */
static float correlate_block(const spsh__stretch *s, size_t block, double quiet, int64_t *lag)
{
    const double *const a = s->a + block * BLOCK;
    const double energy_a = dot(a, a, BLOCK);
    double best = -1;
    int64_t best_lag = *lag;
    if (energy_a <= quiet)
        return -1;
    for (int64_t k = *lag - TRACK; k <= *lag + TRACK; k++) {
        if (k < -SPSH__LAG_MAX || k > SPSH__LAG_MAX)
            continue;
        const double *const b = s->b + (int64_t)(block * BLOCK) + SPSH__LAG_MAX + k;
        const double energy_b = dot(b, b, BLOCK);
        const double value = energy_b > 0 ? fabs(dot(a, b, BLOCK)) / sqrt(energy_a * energy_b) : 0;
        if (value > best) {
            best = value;
            best_lag = k;
        }
    }
    if (best > 0.5)
        *lag = best_lag;
    return (float)best;
}

/* Follow the lag block by block from the middle to both ends. The lag of the whole match is most
 * accurate in the middle. */
static void follow_blocks(spsh__pair_window *w, const spsh__stretch *stretch, double lag)
{
    const size_t middle = w->block_count / 2;
    int64_t up = (int64_t)llround(lag);
    int64_t down = up;
    double loudest = 0;
    for (size_t i = 0; i < w->block_count; i++)
        loudest = fmax(loudest, dot(stretch->a + i * BLOCK, stretch->a + i * BLOCK, BLOCK));
    for (size_t i = middle; i < w->block_count; i++)
        w->blocks[i] = correlate_block(stretch, i, loudest * quiet_share, &up);
    for (size_t i = middle; i-- > 0;)
        w->blocks[i] = correlate_block(stretch, i, loudest * quiet_share, &down);
}

static spsh_status measure_match(spsh__pair_window *w, spsh_error *err)
{
    const int64_t first = (int64_t)llround(w->match_first_s * SIGNAL_HZ);
    const size_t count = (size_t)(w->match_s * SIGNAL_HZ);
    spsh__stretch stretch = {0};
    spsh__correlation best = {0};
    if (count < BLOCK)
        return SPSH_OK;
    spsh_status rc = spsh__stretch_make(
        (spsh__cut){w->a.print.samples, w->a.print.sample_count, first},
        (spsh__cut){w->b.print.samples, w->b.print.sample_count, first}, count, &stretch, err);
    if (rc == SPSH_OK)
        rc = spsh__correlate(&stretch, &best, err);
    if (rc == SPSH_OK) {
        const double a = dot(stretch.a, stretch.a, count);
        const double b = dot(stretch.b + SPSH__LAG_MAX, stretch.b + SPSH__LAG_MAX, count);
        w->has_gain = a > 0 && b > 0;
        w->gain_db = w->has_gain ? 10 * log10(b / a) : 0;
        w->block_count =
            count / BLOCK < SPSH__PAIR_BLOCK_MAX ? count / BLOCK : SPSH__PAIR_BLOCK_MAX;
        follow_blocks(w, &stretch, best.lag);
    }
    spsh__stretch_free(&stretch);
    return rc;
}

spsh_status spsh__pair_window_make(const spsh__print_set *set, const spsh__match *match,
                                   spsh__pair_window **ret_window, spsh_error *err)
{
    spsh__pair_window *w = (spsh__pair_window *)calloc(1, sizeof(*w));
    if (w == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__pair_lane_open(set, match->a, 1, &w->a, err);
    if (rc == SPSH_OK)
        rc = spsh__pair_lane_open(set, match->b, match->scale > 0 ? 1 / match->scale : 1, &w->b,
                                  err);
    if (rc == SPSH_OK) {
        place_window(w, match);
        rc = fill_lane(&w->a, w->seconds, match->a_channel, err);
    }
    if (rc == SPSH_OK)
        rc = fill_lane(&w->b, w->seconds, match->b_channel, err);
    if (rc == SPSH_OK)
        rc = measure_match(w, err);
    if (rc == SPSH_OK) {
        *ret_window = w;
        w = NULL;
    }
    spsh__pair_window_free(w);
    return rc;
}

void spsh__pair_window_free(spsh__pair_window *window)
{
    if (window == NULL)
        return;
    spsh__print_free(&window->a.print);
    spsh__print_free(&window->b.print);
    free(window);
}
