/* align.c: offset -> common part -> waveform -> class.
 *
 * The common part is the run of frames with the maximum sum of (bit_worth * 32 - wrong bits) over
 * frames that are active in both recordings. Agreement adds, disagreement subtracts, and inactive
 * frames are neutral. So a jingle before different speech ends where the speech begins, without a
 * window.
 *
 * A long gap ends a run. A shorter gap ends it if the waveforms disagree there as well: two prompts
 * that differ in one word share their beginning, which the result reports.
 *
 * The decision (judge) tests in this order: enough speech, not a tone, equal bits, equal waveforms,
 * equal waveforms after removal of a drift, and at least equal pulses and envelopes. Each test
 * requires the tests before it.
 */
#include "align.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "drift_fit.h"
#include "speechshard/inside.h"

enum {
    NEAR = 4,                                   /* maximum error of a proposed offset, in frames */
    STRETCH_MAX = 60 * 8000,                    /* samples */
    STRETCH_ACTIVE = 10 * 125 / 2,              /* active frames; with fewer, use another minute */
    AROUND = SPSH__LAG_MAX + SPSH__FILTER_HALF, /* samples on each side that affect a stretch */
    WORDS_MAX = 300 * 125 / 2,                  /* frames whose words are counted */
    DRIFT_ROUNDS = 3,
    GAPS_MAX = 4,
    PIECES_MAX = 2 * SPSH__ALIGN_RUNS_MAX,
};

const spsh__align_limits spsh__align_limits_default = {
    .version = 1,
    .bit_worth = 0.36,
    .gap_cost = 400,
    .ber_max = {0.28, 0.34, 0.36},
    .active_min_s = 0.5,
    .tiny_s = 0.65,
    .short_s = 0.95,
    .probable_s = 1.5,
    .long_s = 3,
    .words_min_hz = 8,
    .tonality_max = 0.95,
    .ncc_sure = 0.80,
    .ncc_with_bits = 0.65,
    .ber_sure = 0.20,
    .ncc_tiny = 0.90,
    .ncc_short = 0.85,
    .white_min = 0.35,
    .white_tiny = 0.60,
    .white_short = 0.50,
    .white_with_bits = 0.65,
    .ncc_block = 0.6,
    .ncc_gap = 0.45,
    .coverage_min = 0.8,
    .slope_min_ppm = 200,
    .speed_max_ppm = 15000,
    .ber_probable = 0.25,
    .envelope_probable = 0.35,
    .ber_long = 0.30,
    .envelope_long = 0.18,
    .spread_max_ms = 0.5,
    .share_performance = 0.6,
    .slope_max_ppm = 1000,
    .blocks_performance = 5,
    .envelope_performance = 0.25,
};

const char *spsh_copy_class_text(spsh_copy_class value)
{
    static const char *const texts[] = {
#define SPSH_X(name_, text_) text_,
        SPSH_COPY_CLASS_MAP(SPSH_X)
#undef SPSH_X
    };
    return value < SPSH_COPY_CLASS_COUNT ? texts[value] : "unknown";
}

/* Two recordings aligned at one offset. */
typedef struct pair {
    const spsh__align_side *a, *b;
    const spsh__align_limits *limits;
    int64_t offset;
} pair;

/* The range of frames of a that have a partner in b. */
typedef struct overlap {
    size_t first;
    size_t end;
} overlap;

static overlap overlap_of(const pair *p)
{
    const int64_t first = p->offset < 0 ? -p->offset : 0;
    const int64_t b_end = (int64_t)p->b->frame_count - p->offset;
    const int64_t end = b_end < (int64_t)p->a->frame_count ? b_end : (int64_t)p->a->frame_count;
    if (end <= first)
        return (overlap){0, 0};
    return (overlap){(size_t)first, (size_t)end};
}

static uint32_t wrong_bits(const pair *p, size_t i)
{
    const spsh__print_frame *other = &p->b->frames[(int64_t)i + p->offset];
    return (uint32_t)__builtin_popcount(p->a->frames[i].word ^ other->word);
}

static bool is_active(const pair *p, size_t i)
{
    return p->a->frames[i].is_active && p->b->frames[(int64_t)i + p->offset].is_active;
}

/* Return the seconds of sound that consecutive frames span: n + 15 hops for n frames. */
static double seconds_of(size_t active_frames)
{
    const double span = SPSH__PRINT_SPAN / 8000.0;
    return active_frames == 0 ? 0 : (double)(active_frames - 1) / SPSH__PRINT_HZ + span;
}

/* Return how far the prints agree beyond chance, in standard deviations for independent bits.
 * Negative if too few frames are active. */
static double score_of(const pair *p)
{
    const overlap part = overlap_of(p);
    uint64_t wrong = 0;
    size_t active = 0;
    for (size_t i = part.first; i < part.end; i++) {
        if (!is_active(p, i))
            continue;
        active++;
        wrong += wrong_bits(p, i);
    }
    if (seconds_of(active) < p->limits->active_min_s)
        return -1;
    const double bits = 32.0 * (double)active;
    return (bits / 2 - (double)wrong) / sqrt(bits);
}

bool spsh__align_search(const spsh__print *a, const spsh__print *b,
                        const spsh__align_limits *limits, int64_t *ret_offset)
{
    const spsh__align_side left = spsh__align_side_of(a);
    const spsh__align_side right = spsh__align_side_of(b);
    double best = 0;
    bool is_found = false;
    for (int64_t offset = -(int64_t)a->frame_count; offset <= (int64_t)b->frame_count; offset++) {
        const pair p = {&left, &right, limits, offset};
        const double score = score_of(&p);
        if (score <= best)
            continue;
        best = score;
        *ret_offset = offset;
        is_found = true;
    }
    return is_found;
}

/* Find the run with the maximum sum (see above) in a part of the frames. */
static overlap find_common(const pair *p, overlap part, double *ret_worth)
{
    const spsh__align_limits *limits = p->limits;
    overlap best = {part.first, part.first};
    size_t first = part.first;
    double best_worth = 0;
    double worth = 0;
    double peak = 0; /* best sum of the current run */
    for (size_t i = part.first; i < part.end; i++) {
        if (is_active(p, i))
            worth += limits->bit_worth * 32 - wrong_bits(p, i);
        if (worth > peak)
            peak = worth;
        if (worth <= 0 || worth < peak - limits->gap_cost) {
            worth = 0;
            peak = 0;
            first = i + 1;
        } else if (worth >= best_worth) {
            best_worth = worth;
            best = (overlap){first, i + 1};
        }
    }
    *ret_worth = best_worth;
    return best;
}

static size_t count_active(const spsh__align_side *side, size_t first, size_t end)
{
    size_t count = 0;
    for (size_t i = first; i < end && i < side->frame_count; i++)
        count += side->frames[i].is_active;
    return count;
}

/* Measure the bits of the common part. */
static spsh_status measure_bits(const pair *p, overlap common, spsh__alignment *found,
                                spsh_error *err)
{
    const size_t count = common.end - common.first;
    uint32_t *words = calloc(count < WORDS_MAX ? count + 1 : WORDS_MAX, sizeof(*words));
    size_t active = 0;
    uint64_t wrong = 0;
    if (words == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = common.first; i < common.end; i++) {
        if (!is_active(p, i))
            continue;
        if (active < WORDS_MAX)
            words[active] = p->a->frames[i].word;
        active++;
        wrong += wrong_bits(p, i);
    }
    const size_t counted = active < WORDS_MAX ? active : WORDS_MAX;
    qsort(words, counted, sizeof(*words), spsh__compare_u32);
    size_t distinct = counted > 0;
    for (size_t i = 1; i < counted; i++)
        distinct += words[i] != words[i - 1];
    free(words);

    const size_t a_active = count_active(p->a, 0, p->a->frame_count);
    const size_t b_active = count_active(p->b, 0, p->b->frame_count);
    const size_t b_first = (size_t)((int64_t)common.first + p->offset);
    const size_t b_end = (size_t)((int64_t)common.end + p->offset);
    found->active_s = seconds_of(active);
    if (active > 0) {
        found->ber = (double)wrong / (32.0 * (double)active);
        found->words_hz = (double)distinct * SPSH__PRINT_HZ / (double)counted;
    }
    if (a_active > 0)
        found->coverage_a = (double)count_active(p->a, common.first, common.end) / (double)a_active;
    if (b_active > 0)
        found->coverage_b = (double)count_active(p->b, b_first, b_end) / (double)b_active;
    return SPSH_OK;
}

/* Find the samples of the common part. At the end of a recording, include all samples that the
 * frames depend on. At a border with other sound, start or stop at the middle of a frame. */
static void find_samples(const pair *p, overlap common, spsh__alignment *found)
{
    const overlap part = overlap_of(p);
    const size_t half = SPSH__PRINT_SPAN / 2;
    size_t first = common.first * SPSH__PRINT_HOP;
    size_t end = (common.end - 1) * SPSH__PRINT_HOP + SPSH__PRINT_SPAN;
    if (common.first > part.first)
        first += half;
    if (common.end < part.end)
        end -= half;
    found->a_first = first;
    found->b_first = (uint64_t)((int64_t)first + p->offset * SPSH__PRINT_HOP);
    found->count = end > first ? end - first : 0;
}

static double ber_limit(const spsh__align_limits *limits, double active_s)
{
    return limits->ber_max[active_s < 1.5 ? 0 : active_s < 2.5 ? 1 : 2];
}

/* ncc: the better of the plain and the whitened correlation; white: the whitened correlation. */
static bool is_waveform_same(const spsh__align_limits *limits, const spsh__alignment *found,
                             double ncc, double white)
{
    const double flat = fabs(white);
    const double size = fmax(fabs(ncc), flat);
    const bool is_clean = found->ber <= limits->ber_sure;
    if (found->active_s < limits->tiny_s)
        return size >= limits->ncc_tiny && flat >= limits->white_tiny;
    if (found->active_s < limits->short_s)
        return (size >= limits->ncc_short && flat >= limits->white_short) ||
               (flat >= limits->white_with_bits && is_clean);
    return flat >= limits->white_min &&
           (size >= limits->ncc_sure || (size >= limits->ncc_with_bits && is_clean));
}

static bool is_probable_copy(const spsh__align_limits *limits, const spsh__alignment *found)
{
    if (found->active_s < limits->probable_s)
        return false;
    if (found->active_s >= limits->long_s && found->ber <= limits->ber_long &&
        found->envelope >= limits->envelope_long)
        return true;
    return found->ber <= limits->ber_probable && found->envelope >= limits->envelope_probable;
}

/* Whether the blocks agree at one lag, apart from a drift. */
static bool has_good_blocks(const spsh__align_limits *limits, const spsh__drift *drift)
{
    return drift->block_share >= limits->share_performance &&
           drift->good_count >= limits->blocks_performance &&
           drift->spread_ms <= limits->spread_max_ms;
}

static spsh_copy_class judge(const spsh__align_limits *limits, const spsh__alignment *found)
{
    const bool is_in_step = has_good_blocks(limits, &found->drift) &&
                            fabs(found->drift.slope_ppm) <= limits->slope_max_ppm;

    if (found->active_s < limits->active_min_s || found->words_hz < limits->words_min_hz ||
        found->tonality > limits->tonality_max || found->ber > ber_limit(limits, found->active_s))
        return SPSH_COPY_NONE;
    if (is_waveform_same(limits, found, found->ncc, found->ncc_white)) {
        const bool is_all_a = found->coverage_a >= limits->coverage_min;
        const bool is_all_b = found->coverage_b >= limits->coverage_min;
        if (is_all_a && is_all_b)
            return SPSH_COPY_SAME_RECORDING;
        return is_all_a || is_all_b ? SPSH_COPY_CONTAINED : SPSH_COPY_SHARED_SEGMENT;
    }
    if (is_waveform_same(limits, found, found->unscaled.ncc, found->unscaled.ncc_white) &&
        fabs(found->drift.slope_ppm) >= limits->slope_min_ppm)
        return SPSH_COPY_TIME_SCALED;
    if (is_in_step && found->envelope >= limits->envelope_performance)
        return SPSH_COPY_SAME_PERFORMANCE;
    return is_probable_copy(limits, found) ? SPSH_COPY_PROBABLE_COPY : SPSH_COPY_REREAD;
}

/* Fit a drift and undo it. Repeat this a few times, because the line through the blocks improves.
 * Keep the best result. */
static spsh_status try_unscaled(const spsh__align_limits *limits, spsh__stretch *stretch,
                                spsh__alignment *found, spsh_error *err)
{
    double slope_ppm = 0;
    double total_ppm = 0;
    double lag = found->ncc != 0 ? found->lag : 0;
    spsh_status rc =
        spsh__drift_fit(stretch, limits->speed_max_ppm, limits->ncc_block, &slope_ppm, err);

    for (int round = 0; rc == SPSH_OK && round < DRIFT_ROUNDS; round++) {
        spsh__correlation after = {0};
        spsh__drift drift = {0};
        rc = spsh__undo_drift(stretch, slope_ppm, round == 0 ? 0 : lag, err);
        if (rc == SPSH_OK)
            rc = spsh__correlate(stretch, &after, err);
        if (rc == SPSH_OK)
            rc = spsh__follow_drift(stretch, after.lag, limits->ncc_block, 0, &drift, err);
        if (rc != SPSH_OK)
            return rc;
        total_ppm += slope_ppm;
        if (fabs(after.ncc) > fabs(found->unscaled.ncc)) {
            found->unscaled = after;
            found->drift.slope_ppm = total_ppm;
        }
        if (drift.good_count < 3 || fabs(drift.slope_ppm) < 2)
            break;
        slope_ppm = drift.slope_ppm;
        lag = after.lag;
    }
    return rc;
}

/* Choose the stretch of the common part in which the waveforms are compared: the middle, or, if the
 * middle is mostly a pause, the minute with the most active frames. */
static size_t pick_stretch(const spsh__align_side *a, const spsh__alignment *found, size_t count)
{
    const size_t middle = ((size_t)found->count - count) / 2;
    const size_t frames = count / SPSH__PRINT_HOP;
    const size_t first = (size_t)found->a_first / SPSH__PRINT_HOP;
    const size_t from = first + middle / SPSH__PRINT_HOP;
    size_t best = middle;
    size_t most = 0;
    if (found->count <= STRETCH_MAX || count_active(a, from, from + frames) >= STRETCH_ACTIVE)
        return middle;
    for (size_t skip = 0; skip + count <= found->count; skip += count) {
        const size_t at = first + skip / SPSH__PRINT_HOP;
        const size_t active = count_active(a, at, at + frames);
        if (active <= most)
            continue;
        most = active;
        best = skip;
    }
    return best;
}

/* Read the existing samples of [first, first + count) and AROUND more on each side. The cut starts
 * at `first`. */
static spsh_status fetch(const spsh__align_side *side, uint64_t first, size_t count,
                         int32_t **ret_samples, spsh__cut *ret_cut, spsh_error *err)
{
    const uint64_t from = first < AROUND ? 0 : first - AROUND;
    const uint64_t wanted = first + count + AROUND;
    const uint64_t end = wanted < side->sample_count ? wanted : side->sample_count;
    const size_t size = end > from ? (size_t)(end - from) : 0;
    int32_t *samples = calloc(size + 1, sizeof(*samples));
    spsh_status rc = samples == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK && size > 0)
        rc = side->samples_fn(side->user, from, size, samples, err);
    *ret_samples = samples;
    *ret_cut = (spsh__cut){samples, size, (int64_t)first - (int64_t)from};
    return rc;
}

static spsh_status make_stretch(const pair *p, const spsh__alignment *found,
                                spsh__stretch *ret_stretch, size_t *ret_skip, spsh_error *err)
{
    const size_t count = found->count < STRETCH_MAX ? (size_t)found->count : STRETCH_MAX;
    const size_t skip = pick_stretch(p->a, found, count);
    *ret_skip = skip;
    int32_t *a_samples = NULL;
    int32_t *b_samples = NULL;
    spsh__cut a_cut = {0};
    spsh__cut b_cut = {0};
    spsh_status rc = fetch(p->a, found->a_first + skip, count, &a_samples, &a_cut, err);
    if (rc == SPSH_OK)
        rc = fetch(p->b, found->b_first + skip, count, &b_samples, &b_cut, err);
    if (rc == SPSH_OK)
        rc = spsh__stretch_make(a_cut, b_cut, count, ret_stretch, err);
    free(a_samples);
    free(b_samples);
    return rc;
}

/* Measure the waveforms of the common part. */
static spsh_status measure_waveform(const pair *p, spsh__alignment *found, spsh_error *err)
{
    const spsh__align_limits *limits = p->limits;
    spsh__stretch stretch = {0};
    spsh__correlation best = {0};
    size_t skip = 0;
    spsh_status rc = make_stretch(p, found, &stretch, &skip, err);
    if (rc == SPSH_OK)
        rc = spsh__find_tonality(&stretch, &found->tonality, err);
    if (rc == SPSH_OK)
        rc = spsh__correlate(&stretch, &best, err);
    if (rc == SPSH_OK)
        rc = spsh__follow_drift(&stretch, best.lag, limits->ncc_block, limits->ncc_gap,
                                &found->drift, err);
    if (rc != SPSH_OK)
        goto out;
    found->drift.gap_first += found->a_first + skip;
    found->ncc = best.ncc;
    found->ncc_white = best.ncc_white;
    found->is_inverted = best.ncc < 0;
    found->lag = (double)found->b_first - (double)found->a_first + best.lag;
    if (is_waveform_same(limits, found, best.ncc, best.ncc_white))
        goto out;
    /* judge() needs the envelopes only for these. */
    if (found->active_s >= limits->probable_s || has_good_blocks(limits, &found->drift))
        rc = spsh__correlate_envelopes(&stretch, best.lag, &found->envelope, err);
    if (rc == SPSH_OK && found->active_s >= limits->short_s && found->ber <= limits->ber_long)
        rc = try_unscaled(limits, &stretch, found, err);
out:
    spsh__stretch_free(&stretch);
    return rc;
}

/* Test whether the bits in the longest gap between good blocks disagree, as the waveforms do. If
 * so, shorten the run to its better part before or after the gap. */
static bool cut_gap(const pair *p, const spsh__drift *drift, overlap *run)
{
    /* Range of the frames that are centered in the gap. */
    const size_t half = SPSH__PRINT_SPAN / SPSH__PRINT_HOP / 2;
    const size_t middle = drift->gap_first / SPSH__PRINT_HOP;
    const size_t length = drift->gap_count / SPSH__PRINT_HOP;
    overlap gap = {middle > half + run->first ? middle - half : run->first, 0};
    gap.end = gap.first + length < run->end ? gap.first + length : run->end;
    double worths[2] = {0, 0};
    double worth = 0;
    size_t active = 0;

    if (drift->gap_count == 0)
        return false;
    for (size_t i = gap.first; i < gap.end; i++) {
        if (!is_active(p, i))
            continue;
        active++;
        worth += p->limits->bit_worth * 32 - wrong_bits(p, i);
    }
    if (active < length / 2 || worth >= 0)
        return false;
    const overlap before = find_common(p, (overlap){run->first, gap.first}, &worths[0]);
    const overlap after = find_common(p, (overlap){gap.end, run->end}, &worths[1]);
    *run = worths[0] >= worths[1] ? before : after;
    return run->end > run->first;
}

/* Round what transforms measure. Their last bits depend on the processor and on the library, and no
 * plan may depend on them. */
static void round_measures(spsh__alignment *found)
{
    double *const measures[] = {&found->ncc,      &found->ncc_white,    &found->envelope,
                                &found->tonality, &found->unscaled.ncc, &found->unscaled.ncc_white};
    for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++)
        *measures[i] = round(*measures[i] * 1e6) / 1e6;
}

/* Judge a run. Gaps with other sound are cut off, so *run may become shorter. */
static spsh_status judge_run(const pair *p, overlap *run, spsh__alignment *found, spsh_error *err)
{
    const spsh__align_limits *limits = p->limits;
    spsh_status rc = SPSH_OK;
    for (int gaps = 0; rc == SPSH_OK && gaps <= GAPS_MAX; gaps++) {
        *found = (spsh__alignment){0};
        find_samples(p, *run, found);
        rc = measure_bits(p, *run, found, err);
        if (rc == SPSH_OK && found->active_s >= limits->active_min_s &&
            found->ber <= ber_limit(limits, found->active_s))
            rc = measure_waveform(p, found, err);
        round_measures(found);
        if (rc == SPSH_OK)
            found->kind = judge(limits, found);
        if (rc != SPSH_OK || found->kind < SPSH_COPY_SAME_RECORDING ||
            found->kind > SPSH_COPY_SHARED_SEGMENT || !cut_gap(p, &found->drift, run))
            break;
    }
    return rc;
}

static bool is_shared(const spsh__alignment *found, double active_min_s)
{
    return found->active_s >= active_min_s && found->kind >= SPSH_COPY_SAME_RECORDING &&
           found->kind <= SPSH_COPY_TIME_SCALED;
}

/* Judge the runs before and after the first one: the best run of each piece, which leaves two
 * smaller pieces. */
static spsh_status judge_rest(const pair *p, overlap first, spsh__align_list *found,
                              spsh_error *err)
{
    const overlap all = overlap_of(p);
    const double short_s = p->limits->short_s;
    overlap pieces[PIECES_MAX] = {
        {all.first, first.first},
        {first.end, all.end    }
    };
    size_t piece_count = 2;
    for (size_t i = 0; i < piece_count && found->count < found->count_max; i++) {
        double worth = 0;
        overlap run = find_common(p, pieces[i], &worth);
        const size_t active = count_active(p->a, run.first, run.end);
        if (seconds_of(active) < short_s)
            continue;
        spsh__alignment *item = &found->items[found->count];
        spsh_status rc = judge_run(p, &run, item, err);
        if (rc != SPSH_OK)
            return rc;
        if (!is_shared(item, short_s))
            continue;
        found->count++;
        if (piece_count + 2 <= PIECES_MAX) {
            pieces[piece_count++] = (overlap){pieces[i].first, run.first};
            pieces[piece_count++] = (overlap){run.end, pieces[i].end};
        }
    }
    return SPSH_OK;
}

spsh_status spsh__align_sides(const spsh__align_side *a, const spsh__align_side *b, int64_t offset,
                              const spsh__align_limits *limits, spsh__align_list *found,
                              spsh_error *err)
{
    overlap run = {0, 0};
    pair best = {a, b, limits, offset};
    double most = 0;

    found->count = 0;
    found->frame_pairs = 0;
    for (int64_t at = offset - NEAR; at <= offset + NEAR; at++) {
        double worth = 0;
        const pair p = {a, b, limits, at};
        const overlap all = overlap_of(&p);
        const overlap common = find_common(&p, all, &worth);
        found->frame_pairs += all.end - all.first;
        if (worth > most) {
            most = worth;
            best = p;
            run = common;
        }
    }
    if (most <= 0)
        return SPSH_OK;
    spsh_status rc = judge_run(&best, &run, &found->items[0], err);
    found->count = rc == SPSH_OK ? 1 : 0;
    if (rc == SPSH_OK && found->count_max > 1)
        rc = judge_rest(&best, run, found, err);
    return rc;
}

static spsh_status copy_samples(const void *user, uint64_t first, size_t count, int32_t *dst,
                                spsh_error *err)
{
    const spsh__print *print = user;
    (void)err;
    memcpy(dst, print->samples + first, count * sizeof(*dst));
    return SPSH_OK;
}

spsh__align_side spsh__align_side_of(const spsh__print *print)
{
    return (spsh__align_side){print->frames, print->frame_count, print->sample_count, copy_samples,
                              print};
}

spsh_status spsh__align(const spsh__print *a, const spsh__print *b, int64_t offset,
                        const spsh__align_limits *limits, spsh__alignment *ret_alignment,
                        spsh_error *err)
{
    const spsh__align_side left = spsh__align_side_of(a);
    const spsh__align_side right = spsh__align_side_of(b);
    spsh__align_list found = {.count_max = 1};
    spsh_status rc = spsh__align_sides(&left, &right, offset, limits, &found, err);
    if (rc == SPSH_OK)
        *ret_alignment = found.count > 0 ? found.items[0] : (spsh__alignment){0};
    return rc;
}
