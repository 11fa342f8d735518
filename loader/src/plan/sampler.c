/* sampler.c: deal the batches of an epoch to the ranks in turn. utterance_order.c decides the order
 * of the utterances, batch_window.c cuts it into batches.
 *
 * The batches of the epoch's windows, one window after the other, are the global sequence, which
 * does not depend on ranks. A call takes the next world_size batches of it, or fewer if the virtual
 * step or the epoch ends. Rank r gets the r-th of them. So the position in the sequence is the
 * whole state, and any number of ranks can continue from it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "batch_window.h"
#include "sampler_internal.h"
#include "speechshard/options.h"

struct spsh_sampler {
    const spsh_plan *plan;
    uint32_t rank, world_size;
    spsh_position position;
    spsh__windows windows;
};

static spsh_status check_epoch(const spsh_plan *plan, uint64_t epoch, spsh_error *err)
{
    if (epoch < plan->epoch_max)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "epoch %" PRIu64 " is out of range: the plan has %" PRIu64 " epochs", epoch,
                     plan->epoch_max);
}

spsh_status spsh_sampler_open(const spsh_plan *plan, uint32_t rank, uint32_t world_size,
                              spsh_sampler **ret_sampler, spsh_error *err)
{
    if (plan == NULL || ret_sampler == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "plan or result is NULL");
    if (world_size == 0 || rank >= world_size)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "rank is %u, but world_size is %u", rank,
                         world_size);
    spsh_sampler *sampler = (spsh_sampler *)spsh__new(&plan->allocator, 1, sizeof(*sampler));
    if (sampler == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sampler");
    sampler->plan = plan;
    sampler->rank = rank;
    sampler->world_size = world_size;
    spsh_status rc = spsh__windows_open(&sampler->windows, plan, SPSH__WINDOWS_MAX, err);
    if (rc != SPSH_OK) {
        spsh_sampler_close(sampler);
        return rc;
    }
    sampler->windows.saves = rank == 0;
    *ret_sampler = sampler;
    return SPSH_OK;
}

void spsh_sampler_close(spsh_sampler *sampler)
{
    if (sampler == NULL)
        return;
    if (sampler->windows.saves)
        spsh__states_save(sampler->plan, false);
    spsh__windows_close(&sampler->windows);
    spsh__free(&sampler->plan->allocator, sampler);
}

static spsh_status fail_window(const spsh_plan *plan, const spsh_position *place, uint32_t batches,
                               spsh_error *err)
{
    char what[120];
    (void)snprintf(what, sizeof(what),
                   "epoch %" PRIu64 ", window %u: batch %u was requested, but the window has %u "
                   "batches",
                   place->epoch, place->window, place->window_batch, batches);
    return spsh__plan_contradicted(plan, what, err);
}

/* Pass up to `want` batches. *ret_passed is smaller if the epoch ends. */
static spsh_status advance(spsh__windows *windows, spsh_position *place, uint64_t want,
                           uint64_t *ret_passed, spsh_error *err)
{
    uint64_t passed = 0;
    while (passed < want && place->window < windows->plan->info.window_count) {
        uint32_t batches = 0;
        spsh_status rc = spsh__windows_batches(windows, place->epoch, place->window, &batches, err);
        if (rc != SPSH_OK)
            return rc;
        if (place->window_batch > batches)
            return fail_window(windows->plan, place, batches, err);
        uint64_t here = batches - place->window_batch;
        here = here < want - passed ? here : want - passed;
        passed += here;
        place->batches += here;
        place->window_batch += (uint32_t)here;
        if (place->window_batch == batches) {
            place->window++;
            place->window_batch = 0;
        }
    }
    *ret_passed = passed;
    return SPSH_OK;
}

static spsh_status fill_batch(spsh_sampler *sampler, const spsh_position *at,
                              spsh_planned_batch *batch, spsh_error *err)
{
    const spsh__window *window = NULL;
    uint64_t longest = 0;
    spsh_status rc = spsh__windows_get(&sampler->windows, at->epoch, at->window, &window, err);
    if (rc != SPSH_OK)
        return rc;
    if (at->window_batch >= window->batch_count)
        return fail_window(sampler->plan, at, window->batch_count, err);
    const spsh__batch_range *range = &window->batches[at->window_batch];
    batch->items = window->items + range->first;
    batch->item_count = range->count;
    for (uint32_t i = 0; i < range->count; i++) {
        batch->microseconds += batch->items[i].microseconds;
        if (batch->items[i].microseconds > longest)
            longest = batch->items[i].microseconds;
    }
    batch->padded_microseconds = longest * range->count;
    return SPSH_OK;
}

/* Compute the number of batches that this call deals to all ranks; 0: the epoch has ended. */
static spsh_status deal(spsh_sampler *sampler, spsh_planned_batch *batch, uint64_t *ret_dealt,
                        spsh_error *err)
{
    const spsh_plan_options *opt = &sampler->plan->options;
    uint64_t c = sampler->position.batches;
    uint64_t world_size = sampler->world_size;
    uint64_t step_batches = opt->virtual_world_size == 0 ? world_size : opt->virtual_world_size;
    uint64_t step_left =
        opt->virtual_world_size == 0 ? world_size : step_batches - c % step_batches;
    uint64_t want = world_size < step_left ? world_size : step_left;
    spsh_position end_of_step = sampler->position;
    uint64_t there = 0;
    spsh_status rc = SPSH_OK;
    batch->step = c / step_batches;
    *ret_dealt = 0;
    if ((opt->flags & SPSH_PLAN_DROP_LAST) != 0) {
        rc = advance(&sampler->windows, &end_of_step, step_left, &there, err);
        if (rc != SPSH_OK || there < step_left)
            return rc;
    }
    batch->next = sampler->position;
    rc = advance(&sampler->windows, &batch->next, want, ret_dealt, err);
    if (*ret_dealt == step_left || batch->next.window == sampler->plan->info.window_count)
        batch->flags |= SPSH_BATCH_STEP_END;
    return rc;
}

spsh_status spsh_sampler_next(spsh_sampler *sampler, spsh_planned_batch *ret_batch, spsh_error *err)
{
    spsh_planned_batch batch = {.epoch = sampler->position.epoch};
    uint64_t dealt = 0;
    uint64_t passed = 0;
    spsh_status rc = spsh_result_check(ret_batch, sizeof(batch), err);
    if (rc == SPSH_OK)
        rc = check_epoch(sampler->plan, sampler->position.epoch, err);
    if (rc == SPSH_OK)
        rc = deal(sampler, &batch, &dealt, err);
    if (rc != SPSH_OK)
        return rc;
    if (dealt == 0) {
        sampler->position = (spsh_position){.epoch = sampler->position.epoch + 1};
        if (sampler->windows.saves)
            spsh__states_save(sampler->plan, false);
        return SPSH_FAIL(err, SPSH_E_END, "epoch %" PRIu64 " has ended", batch.epoch);
    }
    batch.at = sampler->position;
    if (sampler->rank < dealt) {
        rc = advance(&sampler->windows, &batch.at, sampler->rank, &passed, err);
        if (rc == SPSH_OK)
            rc = fill_batch(sampler, &batch.at, &batch, err);
    } else {
        batch.at = batch.next;
        batch.flags |= SPSH_BATCH_EMPTY;
    }
    if (rc != SPSH_OK)
        return rc;
    batch.number = batch.at.batches;
    sampler->position = batch.next;
    spsh_result_give(ret_batch, &batch, sizeof(batch));
    return SPSH_OK;
}

spsh_position spsh_sampler_tell(const spsh_sampler *sampler)
{
    return sampler->position;
}

spsh_status spsh_sampler_seek(spsh_sampler *sampler, const spsh_position *position, spsh_error *err)
{
    const spsh_plan *plan = sampler->plan;
    uint32_t batches = 0;
    spsh_position place = *position;
    spsh_status rc = check_epoch(plan, place.epoch, err);
    if (rc != SPSH_OK)
        return rc;
    if (place.window < plan->info.window_count) {
        const spsh__window *window = NULL;
        rc = spsh__windows_get(&sampler->windows, place.epoch, place.window, &window, err);
        if (rc != SPSH_OK)
            return rc;
        batches = window->batch_count;
    }
    if (place.window > plan->info.window_count || place.window_batch > batches)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "window %u, batch %u does not exist: there are %u windows, and this one has %u batches",
            place.window, place.window_batch, plan->info.window_count, batches);
    if (place.window < plan->info.window_count && place.window_batch == batches) {
        place.window++;
        place.window_batch = 0;
    }
    sampler->position = place;
    return SPSH_OK;
}

spsh_status spsh__sampler_seek_batch(spsh_sampler *sampler, uint64_t epoch, uint64_t batch,
                                     spsh_error *err)
{
    spsh_position place = sampler->position;
    uint64_t passed = 0;
    spsh_status rc = check_epoch(sampler->plan, epoch, err);
    if (rc != SPSH_OK)
        return rc;
    if (place.epoch != epoch || place.batches > batch)
        place = (spsh_position){.epoch = epoch};
    rc = advance(&sampler->windows, &place, batch - place.batches, &passed, err);
    if (rc != SPSH_OK)
        return rc;
    if (place.batches < batch || place.window >= sampler->plan->info.window_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "step %" PRIu64 " was requested, but epoch %" PRIu64 " has %" PRIu64
                         " steps",
                         batch, epoch, place.batches);
    sampler->position = place;
    return SPSH_OK;
}

/* ---- positions in a whole epoch ---- */

/* Pass up to `want` batches from the epoch's beginning. */
static spsh_status walk_epoch(const spsh_plan *plan, uint64_t epoch, uint64_t want,
                              spsh_position *ret_place, spsh_error *err)
{
    spsh__windows windows = {.plan = NULL};
    spsh_position place = {.epoch = epoch};
    uint64_t passed = 0;
    spsh_status rc = check_epoch(plan, epoch, err);
    if (rc == SPSH_OK)
        rc = spsh__windows_open(&windows, plan, 1, err);
    if (rc == SPSH_OK)
        rc = advance(&windows, &place, want, &passed, err);
    spsh__windows_close(&windows);
    if (rc != SPSH_OK)
        return rc;
    spsh__states_save(plan, false);
    *ret_place = place;
    return rc;
}

spsh_status spsh_plan_batch_count(const spsh_plan *plan, uint64_t epoch, uint64_t *ret_batches,
                                  spsh_error *err)
{
    spsh_position end = {.epoch = epoch};
    spsh_status rc = walk_epoch(plan, epoch, UINT64_MAX, &end, err);
    if (rc == SPSH_OK)
        *ret_batches = end.batches;
    return rc;
}

spsh_status spsh_plan_find(const spsh_plan *plan, uint64_t epoch, uint64_t batch,
                           spsh_position *ret_position, spsh_error *err)
{
    spsh_position place = {.epoch = epoch};
    spsh_status rc = walk_epoch(plan, epoch, batch, &place, err);
    if (rc != SPSH_OK)
        return rc;
    if (place.batches < batch)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "batch %" PRIu64 " does not exist: epoch %" PRIu64 " has %" PRIu64
                         " batches",
                         batch, epoch, place.batches);
    *ret_position = place;
    return SPSH_OK;
}

/* ---- substitutes ---- */

static bool is_same_audio(const spsh_item *a, const spsh_item *b)
{
    return a->dataset == b->dataset && a->position == b->position && a->part == b->part;
}

typedef struct search {
    const spsh_plan *plan;
    const spsh__window *window;
    const spsh__batch_range *batch;
    const spsh_item *item;
} search;

static bool can_replace(const search *s, const spsh_item *other)
{
    if (other->domain != s->item->domain || other->microseconds > s->item->microseconds ||
        (s->plan->options.sample_rate_hz == 0 && other->sample_rate_hz != s->item->sample_rate_hz))
        return false;
    if ((s->plan->options.flags & SPSH_PLAN_BY_CHANNELS) != 0) {
        const spsh__plan_dataset *d = &s->plan->datasets[other->dataset];
        if (spsh__get_u16le(d->channels + 2 * other->position) !=
            spsh__get_u16le(d->channels + 2 * s->item->position))
            return false;
    }
    for (uint32_t i = 0; i < s->batch->count; i++)
        if (is_same_audio(&s->window->items[s->batch->first + i], other))
            return false;
    return !is_same_audio(s->item, other);
}

spsh_status spsh_sampler_substitute(spsh_sampler *sampler, const spsh_position *position,
                                    const spsh_item *item, uint32_t attempt, spsh_item *ret_item,
                                    spsh_error *err)
{
    const spsh__window *window = NULL;
    uint64_t candidates = 0;
    spsh_status rc = check_epoch(sampler->plan, position->epoch, err);
    if (rc != SPSH_OK)
        return rc;
    if (position->window >= sampler->plan->info.window_count ||
        item->domain >= sampler->plan->domain_count ||
        item->dataset != sampler->plan->domains[item->domain].dataset ||
        item->position >= sampler->plan->datasets[item->dataset].count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "the item is not from this plan");
    rc = spsh__windows_get(&sampler->windows, position->epoch, position->window, &window, err);
    if (rc != SPSH_OK)
        return rc;
    if (position->window_batch >= window->batch_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the batch does not exist: window %u has %u batches", position->window,
                         window->batch_count);
    const search s = {sampler->plan, window, &window->batches[position->window_batch], item};
    for (uint32_t i = 0; i < window->item_count; i++)
        candidates += can_replace(&s, &window->items[i]);
    if (attempt >= candidates)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "window %u has only %" PRIu64 " utterances that can replace a bad one",
                         position->window, candidates);
    /* Attempts follow a permutation of the candidates that depends on the item: no repeats. */
    uint64_t key = spsh__draw(sampler->plan->options.seed, position->epoch,
                              item->position << 16 | item->part, SPSH__DRAW_SUBSTITUTE);
    spsh__permutation order = spsh__permutation_make(candidates, key);
    uint64_t wanted = candidates == 1 ? 0 : spsh__permutation_at(&order, attempt);
    for (uint32_t i = 0; i < window->item_count; i++)
        if (can_replace(&s, &window->items[i]) && wanted-- == 0) {
            *ret_item = window->items[i];
            break;
        }
    return SPSH_OK;
}
