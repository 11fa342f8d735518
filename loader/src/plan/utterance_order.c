/* utterance_order.c: each domain is a stream; the quota chooses the stream of the next utterance.
 *
 *     stream index i of a domain of n: utterance order(i mod n) of pass i / n
 *     epoch e begins at index          e * n          each utterance once
 *                                      e * k          shares count utterances: k per epoch
 *                                      floor(e * c)   shares count seconds or tokens: c expected
 *
 * So the beginning of an epoch follows from its number. With one domain, so does the beginning of a
 * window. With several domains, the walk starts at the last known window and reads lengths only.
 *
 * Lengths are scattered over the index. So up to 16 members are drawn ahead, in several steps. Each
 * step prefetches what the next one reads, so that the latencies overlap.
 */
#include "utterance_order.h"

#include <inttypes.h>
#include <stdio.h>

#include "plan_lengths.h"

enum { CACHED_READS_MAX = 24 };

spsh_status spsh__walk_open(spsh__walk *walk, const spsh_plan *plan, spsh_error *err)
{
    const spsh_allocator *allocator = &plan->allocator;
    uint32_t count = plan->domain_count;
    *walk = (spsh__walk){.plan = plan};
    walk->streams = (spsh__stream *)spsh__new(allocator, count, sizeof(*walk->streams));
    walk->states = (spsh__domain_state *)spsh__new(allocator, count, sizeof(*walk->states));
    if (walk->streams == NULL || walk->states == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "streams of %u domains", count);
    return spsh__quota_open(&walk->quota, count, allocator, err);
}

void spsh__walk_close(spsh__walk *walk)
{
    if (walk->plan == NULL)
        return;
    const spsh_allocator *allocator = &walk->plan->allocator;
    spsh__free(allocator, walk->streams);
    spsh__free(allocator, walk->states);
    spsh__quota_close(&walk->quota, allocator);
}

uint64_t spsh__walk_window_first(const spsh_plan *plan, uint32_t window)
{
    return (uint64_t)((spsh__u128)window * plan->info.utterance_count / plan->info.window_count);
}

/* ---- streams ---- */

static void begin_pass(const spsh_plan *plan, uint32_t domain, spsh__stream *stream)
{
    uint64_t count = plan->domains[domain].count;
    uint64_t run = plan->options.shuffle_block_utterances;
    uint64_t pass = stream->index / count;
    uint64_t full_runs = run > 1 ? count / run : count;
    stream->pass_first = pass * count;
    stream->pass_end = stream->pass_first + count;
    if ((plan->options.flags & SPSH_PLAN_IN_ORDER) != 0 || full_runs <= 1)
        return;
    stream->order = spsh__permutation_make(
        full_runs, spsh__draw(plan->options.seed, domain, pass, SPSH__DRAW_ORDER));
    if (run > 1)
        stream->short_run =
            spsh__draw(plan->options.seed, domain, pass, SPSH__DRAW_RUN) % (full_runs + 1);
}

/* Return the member index of the at-th utterance of the pass. */
static uint64_t member_at(const spsh_plan *plan, uint32_t domain, const spsh__stream *stream,
                          uint64_t at)
{
    uint64_t count = plan->domains[domain].count;
    uint64_t run = plan->options.shuffle_block_utterances;
    uint64_t full_runs = run > 1 ? count / run : count;
    if ((plan->options.flags & SPSH_PLAN_IN_ORDER) != 0)
        return at;
    if (run <= 1)
        return full_runs <= 1 ? at : spsh__permutation_at(&stream->order, at);
    if (full_runs == 0)
        return at;
    /* The members after the last full run form a short run, which is placed between other runs. */
    uint64_t short_first = (full_runs == 1 ? 1 : stream->short_run) * run;
    uint64_t short_count = count - full_runs * run;
    if (at >= short_first && at - short_first < short_count)
        return full_runs * run + (at - short_first);
    at -= at >= short_first ? short_count : 0;
    return (full_runs == 1 ? 0 : spsh__permutation_at(&stream->order, at / run) * run) + at % run;
}

/* Read a length from the lengths file, but only a few times per granule. So the first windows after
 * open do not check nearly the whole index. False: read the index. */
static bool read_cached(const spsh_plan *plan, uint32_t dataset, spsh__stream_entry *entry)
{
    const spsh__plan_dataset *d = &plan->datasets[dataset];
    spsh__granule *granule = &d->granules[entry->position >> SPSH__GRANULE_SHIFT];
    uint8_t state = atomic_load_explicit(&granule->state, memory_order_relaxed);
    if (d->lengths == NULL || d->rate_hz == 0 || d->channel_count == 0 || d->text_bytes != NULL ||
        state >= CACHED_READS_MAX ||
        !spsh__lengths_get(plan, dataset, entry->position, &entry->samples))
        return false;
    /* Fails if another thread has changed the state. It may have checked the granule. */
    (void)atomic_compare_exchange_strong(&granule->state, &state, (uint8_t)(state + 1));
    return true;
}

static spsh_status read_entry(const spsh_plan *plan, uint32_t domain, spsh__stream_entry *entry,
                              spsh_error *err)
{
    uint32_t dataset = plan->domains[domain].dataset;
    const spsh__plan_dataset *d = &plan->datasets[dataset];
    uint64_t position = entry->position;
    if (spsh__is_checked(d, position) || !read_cached(plan, dataset, entry)) {
        spsh_status rc = spsh__plan_touch(plan, dataset, position, err);
        if (rc != SPSH_OK)
            return rc;
        entry->samples = spsh__load_u64le(d->samples + 8 * position);
    }
    entry->rate_hz = d->rate_hz != 0 ? d->rate_hz : spsh__load_u32le(d->rates + 4 * position);
    entry->channels =
        d->channel_count != 0 ? d->channel_count : spsh__get_u16le(d->channels + 2 * position);
    entry->domain = domain;
    if (entry->samples > SPSH__SAMPLES_MAX || entry->rate_hz == 0)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: index: utterance %" PRIu64 " has a value out of range",
                         spsh_dataset_path(d->dataset), position);
    entry->ticks = spsh__ticks(entry->samples, entry->rate_hz);
    entry->units =
        spsh__units(plan->options.unit, entry->ticks,
                    d->text_bytes == NULL ? 0 : spsh__load_u32le(d->text_bytes + 4 * position));
    return SPSH_OK;
}

/* Draw the next utterances of the stream's pass. */
static spsh_status draw_ahead(const spsh_plan *plan, uint32_t domain, spsh__stream *stream,
                              spsh_error *err)
{
    const spsh__plan_domain *of = &plan->domains[domain];
    const spsh__plan_dataset *d = &plan->datasets[of->dataset];
    const spsh__member_run *runs[SPSH__AHEAD];
    uint64_t members[SPSH__AHEAD];
    if (stream->index >= stream->pass_end || stream->index < stream->pass_first)
        begin_pass(plan, domain, stream);
    uint64_t end = stream->pass_end < stream->end ? stream->pass_end : stream->end;
    uint64_t left = end - stream->index;
    uint32_t count = left < SPSH__AHEAD ? (uint32_t)left : SPSH__AHEAD;
    for (uint32_t i = 0; i < count; i++)
        members[i] = member_at(plan, domain, stream, stream->index - stream->pass_first + i);
    for (uint32_t i = 0; i < count; i++) {
        runs[i] = spsh__members_find(of->runs, of->run_count, members[i]);
        if (runs[i]->offsets != NULL)
            __builtin_prefetch(&runs[i]->offsets[members[i] - runs[i]->first]);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t position = spsh__member_position(runs[i], members[i]);
        stream->entries[i].position = position;
        stream->entries[i].index = stream->index + i;
        if (d->lengths != NULL && !spsh__is_checked(d, position))
            spsh__lengths_prefetch(d, position);
        __builtin_prefetch(d->samples + 8 * position);
        if (d->rate_hz == 0)
            __builtin_prefetch(d->rates + 4 * position);
    }
    stream->ahead = 0;
    stream->ahead_count = count;
    for (uint32_t i = 0; i < count; i++) {
        spsh_status rc = read_entry(plan, domain, &stream->entries[i], err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* ---- epochs ---- */

/* Index at which an epoch begins in the stream of a domain. */
static uint64_t start_of(const spsh_plan *plan, uint32_t domain, uint64_t epoch)
{
    uint64_t items = plan->domains[domain].item_weight;
    if (plan->epoch_rule != SPSH__EPOCH_OPEN)
        return epoch * items;
    return (uint64_t)((spsh__u128)(epoch * plan->info.utterance_count) * items /
                      plan->item_weight_sum);
}

static uint64_t head_units(const spsh_plan *plan, const spsh__stream *stream)
{
    return plan->options.unit == SPSH_UNIT_UTTERANCES ? 1 : stream->entries[stream->ahead].units;
}

/* Return the units of the stream's next utterance; 0: no utterance is left in the epoch. */
static spsh_status peek(const spsh_plan *plan, uint32_t domain, spsh__stream *stream,
                        uint64_t *ret_units, spsh_error *err)
{
    *ret_units = 0;
    if (stream->index >= stream->end)
        return SPSH_OK;
    if (stream->ahead == stream->ahead_count && plan->options.unit != SPSH_UNIT_UTTERANCES) {
        spsh_status rc = draw_ahead(plan, domain, stream, err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_units = head_units(plan, stream);
    return SPSH_OK;
}

/* Set streams and quota to the given states; NULL: the beginning of the epoch. */
static spsh_status resume(spsh__walk *walk, uint64_t epoch, uint32_t window,
                          const spsh__domain_state *states, spsh_error *err)
{
    const spsh_plan *plan = walk->plan;
    walk->is_valid = false;
    spsh__quota_clear(&walk->quota, plan->weight_sum);
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        spsh__stream *stream = &walk->streams[d];
        uint64_t served = states == NULL ? 0 : states[d].served;
        uint64_t units = 0;
        stream->index = states == NULL ? start_of(plan, d, epoch) : states[d].index;
        stream->end =
            plan->epoch_rule == SPSH__EPOCH_OPEN ? UINT64_MAX : start_of(plan, d, epoch + 1);
        stream->ahead = 0;
        stream->ahead_count = 0;
        stream->pass_first = 1;
        stream->pass_end = 0;
        if (plan->domain_count == 1)
            break;
        spsh_status rc = peek(plan, d, stream, &units, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__quota_add(&walk->quota, d, plan->domains[d].weight, served, units);
    }
    walk->is_valid = true;
    walk->epoch = epoch;
    walk->window = window;
    return SPSH_OK;
}

/* ---- the sequence ---- */

/* Draw without the quota, for a plan with one domain. */
static spsh_status draw_one_domain(spsh__walk *walk, uint64_t count,
                                   spsh__stream_entry *ret_entries, spsh_error *err)
{
    spsh__stream *stream = &walk->streams[0];
    if (ret_entries == NULL) {
        stream->index += count;
        stream->ahead = stream->ahead_count = 0;
        return SPSH_OK;
    }
    for (uint64_t done = 0; done < count;) {
        if (stream->ahead == stream->ahead_count) {
            spsh_status rc = draw_ahead(walk->plan, 0, stream, err);
            if (rc != SPSH_OK)
                return rc;
        }
        uint64_t left = count - done;
        uint32_t here = stream->ahead_count - stream->ahead;
        here = here < left ? here : (uint32_t)left;
        memcpy(ret_entries + done, stream->entries + stream->ahead,
               here * sizeof(spsh__stream_entry));
        stream->ahead += here;
        stream->index += here;
        done += here;
    }
    return SPSH_OK;
}

static spsh_status fail_short(const spsh__walk *walk, spsh_error *err)
{
    char what[120];
    (void)snprintf(what, sizeof(what),
                   "epoch %" PRIu64 ": the domains have fewer utterances than the epoch, %" PRIu64,
                   walk->epoch, walk->plan->info.utterance_count);
    return spsh__plan_contradicted(walk->plan, what, err);
}

static spsh_status draw(spsh__walk *walk, uint64_t count, spsh__stream_entry *ret_entries,
                        spsh_error *err)
{
    const spsh_plan *plan = walk->plan;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t units = 0;
        spsh_status rc = SPSH_OK;
        uint32_t domain = spsh__quota_pick(&walk->quota);
        if (domain == SPSH_NONE_U32)
            return fail_short(walk, err);
        spsh__stream *stream = &walk->streams[domain];
        if (ret_entries != NULL) {
            if (stream->ahead == stream->ahead_count)
                rc = draw_ahead(plan, domain, stream, err);
            if (rc != SPSH_OK)
                return rc;
            ret_entries[i] = stream->entries[stream->ahead];
        }
        stream->index++;
        if (stream->ahead < stream->ahead_count)
            stream->ahead++;
        rc = peek(plan, domain, stream, &units, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__quota_serve(&walk->quota, domain, units);
    }
    return SPSH_OK;
}

static void keep_states(spsh__walk *walk)
{
    const spsh_plan *plan = walk->plan;
    if (plan->domain_count == 1 || walk->window == plan->info.window_count)
        return;
    for (uint32_t d = 0; d < plan->domain_count; d++)
        walk->states[d] =
            (spsh__domain_state){walk->streams[d].index, walk->quota.shares[d].served};
    spsh__states_keep(plan, walk->epoch, walk->window, walk->states);
}

spsh_status spsh__walk_window(spsh__walk *walk, spsh__stream_entry *ret_entries, spsh_error *err)
{
    uint64_t count = spsh__walk_window_first(walk->plan, walk->window + 1) -
                     spsh__walk_window_first(walk->plan, walk->window);
    walk->is_valid = false; /* until the draw succeeds */
    spsh_status rc = walk->plan->domain_count == 1 ? draw_one_domain(walk, count, ret_entries, err)
                                                   : draw(walk, count, ret_entries, err);
    if (rc != SPSH_OK)
        return rc;
    walk->is_valid = true;
    walk->window++;
    keep_states(walk);
    return SPSH_OK;
}

spsh_status spsh__walk_seek(spsh__walk *walk, uint64_t epoch, uint32_t window, spsh_error *err)
{
    const spsh_plan *plan = walk->plan;
    uint32_t known = 0;
    bool ahead = !walk->is_valid || walk->epoch != epoch || walk->window > window;
    spsh_status rc = SPSH_OK;
    if (!ahead && walk->window == window)
        return SPSH_OK;
    if (plan->domain_count == 1) {
        spsh__domain_state state = {
            epoch * plan->domains[0].count + spsh__walk_window_first(plan, window), 0};
        return resume(walk, epoch, window, &state, err);
    }
    if (spsh__states_find(plan, epoch, ahead ? 0 : walk->window + 1, window, &known, walk->states))
        rc = resume(walk, epoch, known, walk->states, err);
    else if (ahead)
        rc = resume(walk, epoch, 0, NULL, err);
    if (rc == SPSH_OK && walk->window == 0)
        keep_states(walk);
    while (rc == SPSH_OK && walk->window < window)
        rc = spsh__walk_window(walk, NULL, err);
    return rc;
}
