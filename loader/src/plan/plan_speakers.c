/* plan_speakers.c: keep the N rows of each speaker with the smallest draws.
 *
 * The N-th smallest of n draws is near N / n of their range. So only draws up to slightly more than
 * that are collected and sorted. Memory is proportional to the rows that are kept, not to all rows.
 * If a speaker has fewer than N such draws, which happens to one in millions, a second round
 * collects all of its draws. Different rows have different draws (spsh__draw is a bijection of each
 * argument), so exactly N rows stay.
 */
#include "plan_speakers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "permutation.h"

enum { STEP = 8192 };

typedef struct speaker {
    uint64_t bound; /* draws up to this value are collected, and finally kept */
    uint64_t first; /* index of its first draw in draws */
    uint64_t count; /* number of rows, then of collected draws, then of cleared rows */
    bool is_open;   /* bound is not final */
} speaker;

typedef struct cap {
    const spsh_plan *plan;
    const spsh_dataset *dataset;
    uint32_t number;
    uint32_t speaker_count;
    uint64_t row_count;
    uint64_t *passes;
    speaker *speakers;
    uint64_t *draws;
} cap;

/* Called for each row that passes and has a speaker. */
typedef void (*row_fn)(cap *c, speaker *of, uint64_t position, uint64_t draw);

static spsh_status for_each_row(cap *c, row_fn work_fn, spsh_error *err)
{
    for (uint64_t first = 0; first < c->row_count; first += STEP) {
        uint64_t count = c->row_count - first < STEP ? c->row_count - first : STEP;
        spsh_bytes column = {NULL, 0};
        spsh_status rc =
            spsh_dataset_column(c->dataset, SPSH_COLUMN_SPEAKER, first, count, &column, err);
        if (rc != SPSH_OK)
            return rc;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t position = first + i;
            uint32_t number = spsh__load_u32le(column.data + 4 * i);
            if ((c->passes[position / 64] >> (position % 64) & 1) == 0 ||
                number >= c->speaker_count)
                continue;
            work_fn(c, &c->speakers[number], position,
                    spsh__draw(c->plan->options.seed, c->number, position, SPSH__DRAW_SPEAKER));
        }
    }
    return SPSH_OK;
}

static void count_row(cap *c, speaker *of, uint64_t position, uint64_t draw)
{
    (void)c, (void)position;
    of->count += of->is_open && draw <= of->bound;
}

static void collect_row(cap *c, speaker *of, uint64_t position, uint64_t draw)
{
    (void)position;
    if (of->is_open && draw <= of->bound)
        c->draws[of->first + of->count++] = draw;
}

static void clear_row(cap *c, speaker *of, uint64_t position, uint64_t draw)
{
    if (draw <= of->bound)
        return;
    c->passes[position / 64] &= ~(UINT64_C(1) << (position % 64));
    of->count++;
}

static int compare_draws(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Estimate the bounds from the number of rows. */
static void guess_bounds(cap *c)
{
    double most = c->plan->options.speaker_utterances_max;
    for (uint32_t i = 0; i < c->speaker_count; i++) {
        speaker *s = &c->speakers[i];
        double share = (most + 8 * sqrt(most) + 16) / (double)s->count;
        s->is_open = s->count > c->plan->options.speaker_utterances_max;
        s->bound = share >= 1 || !s->is_open ? UINT64_MAX : (uint64_t)(share * 0x1p64);
    }
}

/* Collect the draws of open speakers, and close the speakers with enough of them. */
static spsh_status settle_round(cap *c, bool *ret_again, spsh_error *err)
{
    uint64_t most = c->plan->options.speaker_utterances_max;
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->speaker_count; i++)
        c->speakers[i].count = 0;
    spsh_status rc = for_each_row(c, count_row, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t i = 0; i < c->speaker_count; i++) {
        c->speakers[i].first = total;
        total += c->speakers[i].count;
        c->speakers[i].count = 0;
    }
    spsh__free(&c->plan->allocator, c->draws);
    c->draws = (uint64_t *)spsh__new(&c->plan->allocator, (size_t)total, sizeof(uint64_t));
    if (c->draws == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " draws", total);
    rc = for_each_row(c, collect_row, err);
    *ret_again = false;
    for (uint32_t i = 0; rc == SPSH_OK && i < c->speaker_count; i++) {
        speaker *s = &c->speakers[i];
        if (!s->is_open)
            continue;
        s->is_open = s->count < most;
        *ret_again = *ret_again || s->is_open;
        if (!s->is_open)
            qsort(c->draws + s->first, (size_t)s->count, sizeof(*c->draws), compare_draws);
        s->bound = s->is_open ? UINT64_MAX : c->draws[s->first + most - 1];
    }
    return rc;
}

spsh_status spsh__plan_cap_speakers(const spsh_plan *plan, uint32_t dataset, uint32_t speaker_names,
                                    uint64_t *passes, uint64_t *ret_count, spsh_error *err)
{
    cap c = {.plan = plan,
             .dataset = plan->datasets[dataset].dataset,
             .number = dataset,
             .speaker_count = speaker_names,
             .row_count = plan->datasets[dataset].count};
    bool again = true;
    spsh_status rc = SPSH_OK;
    c.passes = passes;
    c.speakers = (speaker *)spsh__new(&plan->allocator, speaker_names, sizeof(*c.speakers));
    if (c.speakers == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%u speakers", speaker_names);
        goto out;
    }
    for (uint32_t i = 0; i < speaker_names; i++)
        c.speakers[i] = (speaker){.bound = UINT64_MAX, .is_open = true};
    rc = for_each_row(&c, count_row, err);
    guess_bounds(&c);
    while (rc == SPSH_OK && again)
        rc = settle_round(&c, &again, err);
    for (uint32_t i = 0; i < speaker_names; i++)
        c.speakers[i].count = 0;
    if (rc == SPSH_OK)
        rc = for_each_row(&c, clear_row, err);
    *ret_count = 0;
    for (uint32_t i = 0; i < speaker_names; i++)
        *ret_count += c.speakers[i].count;
out:
    spsh__free(&plan->allocator, c.draws);
    spsh__free(&plan->allocator, c.speakers);
    return rc;
}
