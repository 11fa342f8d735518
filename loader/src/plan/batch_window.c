/* batch_window.c: sort a window's items by length, cut them into batches, shuffle the batches.
 *
 *     sort      by class, length, tie. Items of different classes (rate, channels) never share a
 *               batch
 *     mix       only if the epoch has few windows: permute items of similar length, in runs
 *     cut       from the longest item down: a batch takes the next item while all limits hold
 *     shuffle   permute the batches, by draws from (seed, epoch, window)
 *
 * If a batch is within its limits, so is every part of it. So filling each batch as far as possible
 * gives the fewest batches of adjacent lengths. Cutting starts at the longest item, so that the
 * last batch, which may be half full, has short items.
 *
 * If an epoch has many windows, an item shares batches with other items in each epoch, because
 * windows are drawn anew. In a single window, sorting would give the same batches in every epoch.
 * So with few windows, items are permuted before cutting, in runs of a few batches. The shortest
 * item of a run has at least 9/10 of the length of the longest, which limits the added padding.
 *
 * An utterance may appear more than once in a window, if its domain restarts in it, but only once
 * in a batch. Its copies are adjacent after sorting. All but the first wait, and each batch begun
 * afterward takes one of them. Parts of a split utterance are different audio and may share a
 * batch.
 *
 * Ties: the sort is stable, so items of the same length keep their order, which is a permutation
 * already. A drawn tie is used only if adjacent utterances stay together (runs) or copies must be
 * found.
 *
 * With SPSH_PLAN_IN_ORDER nothing is sorted. A batch ends when it is full, or when the next item
 * has another class or is already in the batch.
 */
#include "batch_window.h"

#include <inttypes.h>

#define GROUP_NONE UINT32_MAX

/* Over all windows of an epoch, an item is mixed with the items of this many batches: with one
 * window, a run has the items of 8 batches. */
#define MIX_BATCHES UINT32_C(8)

/* A future item: a part of an entry. */
typedef struct record {
    uint64_t ticks;
    uint64_t tie;
    uint32_t class_number;
    uint32_t run;
    uint32_t entry;
    uint32_t part, part_count;
} record;

/* Waiting copies of an item. */
typedef struct group {
    uint32_t record;
    uint32_t left;
    uint32_t next;
} group;

struct spsh__window_scratch {
    spsh__stream_entry *entries;
    record *records, *sorted;
    group *groups;
    uint64_t *firsts;    /* in order: per domain, its first index in a batch */
    uint32_t *firsts_of; /* per domain, the batch of firsts, from 1 */
};

typedef struct maker {
    const spsh_plan *plan;
    spsh__window_scratch *scratch;
    spsh__window *window;
    uint64_t tie_key;
    record *records;
    uint32_t record_count;
    uint64_t count, ticks, longest; /* items, sum, and maximum of the batch being filled */
    uint32_t group_first, group_last, group_count;
} maker;

/* ---- capacity ---- */

static bool wraps(const spsh_plan *plan)
{
    return plan->epoch_rule != SPSH__EPOCH_ALL;
}

/* Number of batches per run; 1: no mixing. */
static uint32_t run_batches(const spsh_plan *plan)
{
    return (MIX_BATCHES - 1) / plan->info.window_count + 1;
}

uint64_t spsh__window_items_max(const spsh_plan *plan)
{
    uint64_t windows = plan->info.window_count;
    uint64_t utterances = plan->info.utterance_count / windows + 1;
    spsh__u128 extra = 0;
    double extra_most = 0; /* maximum over domains: mean extra parts per utterance */
    if (utterances > plan->info.utterance_count)
        utterances = plan->info.utterance_count;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        const spsh__plan_domain *of = &plan->domains[d];
        double mean = (double)of->extra_items / (double)of->count;
        extra += of->extra_items;
        extra_most = mean > extra_most ? mean : extra_most;
    }
    /* A domain that restarts in a window serves some whole passes and parts of two others. */
    if (wraps(plan))
        extra = 2 * extra + (spsh__u128)(extra_most * (double)utterances * 1.001 + 1);
    spsh__u128 all_parts = (spsh__u128)utterances * plan->part_count_max;
    spsh__u128 items = extra + utterances < all_parts ? extra + utterances : all_parts;
    return items > UINT64_MAX ? UINT64_MAX : (uint64_t)items;
}

/* Allocate without zeroing, so that unused pages are never touched. */
static void *take_memory(const spsh_allocator *allocator, size_t count, size_t element_bytes)
{
    size_t size_bytes = 0;
    if (__builtin_mul_overflow(count, element_bytes, &size_bytes))
        return NULL;
    return allocator->alloc_fn(allocator->user, size_bytes == 0 ? 1 : size_bytes);
}

spsh_status spsh__windows_open(spsh__windows *windows, const spsh_plan *plan, uint32_t kept,
                               spsh_error *err)
{
    const spsh_allocator *allocator = &plan->allocator;
    size_t items = (size_t)spsh__window_items_max(plan);
    size_t utterances = (size_t)(plan->info.utterance_count / plan->info.window_count + 1);
    bool is_in_order = (plan->options.flags & SPSH_PLAN_IN_ORDER) != 0;
    size_t domains = is_in_order ? plan->domain_count : 0;
    bool complete = true;
    *windows = (spsh__windows){.plan = plan, .kept = kept};
    spsh_status rc = spsh__walk_open(&windows->walk, plan, err);
    spsh__window_scratch *s =
        (spsh__window_scratch *)spsh__new(allocator, 1, sizeof(spsh__window_scratch));
    windows->scratch = s;
    if (rc != SPSH_OK)
        return rc;
    if (s == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "window");
    s->entries = (spsh__stream_entry *)take_memory(allocator, utterances, sizeof(*s->entries));
    s->records = (record *)take_memory(allocator, items, sizeof(record));
    s->sorted = (record *)take_memory(allocator, is_in_order ? 0 : items, sizeof(record));
    s->groups = (group *)take_memory(allocator, wraps(plan) && !is_in_order ? items / 2 + 1 : 0,
                                     sizeof(group));
    s->firsts = (uint64_t *)take_memory(allocator, domains, sizeof(uint64_t));
    s->firsts_of = (uint32_t *)take_memory(allocator, domains, sizeof(uint32_t));
    complete = s->entries != NULL && s->records != NULL && s->sorted != NULL && s->groups != NULL &&
               s->firsts != NULL && s->firsts_of != NULL;
    for (uint32_t i = 0; i < kept && complete; i++) {
        spsh__window *w = &windows->windows[i];
        w->items = (spsh_item *)take_memory(allocator, items, sizeof(spsh_item));
        w->batches = (spsh__batch_range *)take_memory(allocator, items, sizeof(*w->batches));
        complete = w->items != NULL && w->batches != NULL;
    }
    if (!complete)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "windows of %zu items", items);
    return SPSH_OK;
}

void spsh__windows_close(spsh__windows *windows)
{
    if (windows->plan == NULL)
        return;
    const spsh_allocator *allocator = &windows->plan->allocator;
    spsh__window_scratch *s = windows->scratch;
    if (s != NULL) {
        spsh__free(allocator, s->entries);
        spsh__free(allocator, s->records);
        spsh__free(allocator, s->sorted);
        spsh__free(allocator, s->groups);
        spsh__free(allocator, s->firsts);
        spsh__free(allocator, s->firsts_of);
        spsh__free(allocator, s);
    }
    for (uint32_t i = 0; i < windows->kept; i++) {
        spsh__free(allocator, windows->windows[i].items);
        spsh__free(allocator, windows->windows[i].batches);
    }
    spsh__walk_close(&windows->walk);
}

/* ---- records ---- */

/* First sample of a part. The lengths of the parts differ by at most one. */
static uint64_t part_first(uint64_t samples, uint32_t part, uint32_t part_count)
{
    return (uint64_t)((spsh__u128)samples * part / part_count);
}

static uint32_t class_of(const spsh_plan *plan, const spsh__stream_entry *entry)
{
    uint32_t rate = plan->options.sample_rate_hz != 0 ? 0 : entry->rate_hz;
    uint32_t channels = (plan->options.flags & SPSH_PLAN_BY_CHANNELS) == 0 ? 0 : entry->channels;
    return rate << 7 | channels; /* rates need 20 bits, channels 7 */
}

static uint64_t tie_of(const maker *m, const spsh__stream_entry *entry, uint32_t part)
{
    const spsh_plan *plan = m->plan;
    uint32_t dataset = plan->domains[entry->domain].dataset;
    if (!wraps(plan) && plan->options.shuffle_block_utterances <= 1 && run_batches(plan) <= 1)
        return 0;
    uint64_t tie = spsh__draw(m->tie_key, dataset, entry->position, part);
    return wraps(plan) ? tie : tie >> 32;
}

static spsh_status make_records(maker *m, uint64_t entry_count, spsh_error *err)
{
    const spsh_plan *plan = m->plan;
    uint64_t capacity = spsh__window_items_max(plan);
    for (uint32_t e = 0; e < entry_count; e++) {
        const spsh__stream_entry *entry = &m->scratch->entries[e];
        uint64_t parts = 1;
        if (entry->ticks > plan->caps.item_ticks)
            parts = spsh__part_count(entry->samples, entry->rate_hz, plan->caps.item_ticks);
        if (parts == 0 || parts > capacity - m->record_count)
            return SPSH_FAIL(err, SPSH_E_CORRUPT,
                             "window %u has more parts of utterances than were counted; remove the "
                             "cache directory, or report a bug",
                             m->window->number);
        record r = {entry->ticks,   tie_of(m, entry, 0), class_of(plan, entry), 0, e, 0,
                    (uint32_t)parts};
        for (uint32_t p = 0; parts > 1 && p < parts; p++) {
            uint64_t samples = part_first(entry->samples, p + 1, r.part_count) -
                               part_first(entry->samples, p, r.part_count);
            r.ticks = spsh__ticks(samples, entry->rate_hz);
            r.tie = tie_of(m, entry, p);
            r.part = p;
            m->records[m->record_count++] = r;
        }
        if (parts == 1)
            m->records[m->record_count++] = r;
    }
    return SPSH_OK;
}

/* ---- sorting ---- */

enum {
    DIGITS = 24,
    DIGITS_TIE = 0xff,
    DIGITS_TICKS = 0xff00,
    DIGITS_CLASS = 0xf0000,
    DIGITS_RUN = 0xf00000,
};

static unsigned digit_of(const record *r, unsigned digit)
{
    /* From the least significant: tie, ticks, class, run. */
    if (digit < 8)
        return (unsigned)(r->tie >> (8 * digit)) & 0xff;
    if (digit < 16)
        return (unsigned)(r->ticks >> (8 * (digit - 8))) & 0xff;
    if (digit < 20)
        return (r->class_number >> (8 * (digit - 16))) & 0xff;
    return (r->run >> (8 * (digit - 20))) & 0xff;
}

static void sort_by_digit(const record *from, record *to, uint32_t count, unsigned digit)
{
    uint32_t places[256] = {0};
    uint32_t place = 0;
    for (uint32_t i = 0; i < count; i++)
        places[digit_of(&from[i], digit)]++;
    for (size_t v = 0; v < 256; v++) {
        uint32_t of_value = places[v];
        places[v] = place;
        place += of_value;
    }
    for (uint32_t i = 0; i < count; i++)
        to[places[digit_of(&from[i], digit)]++] = from[i];
}

/* Radix sort by the digits in a bit set, least significant first. Skips digits in which all records
 * agree. Ascending and stable. */
static void sort_records(maker *m, uint32_t digits)
{
    record differ = {0};
    record *from = m->records;
    record *to = from == m->scratch->records ? m->scratch->sorted : m->scratch->records;
    for (uint32_t i = 1; i < m->record_count; i++) {
        differ.tie |= from[i].tie ^ from[0].tie;
        differ.ticks |= from[i].ticks ^ from[0].ticks;
        differ.class_number |= from[i].class_number ^ from[0].class_number;
        differ.run |= from[i].run ^ from[0].run;
    }
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        if ((digits >> digit & 1) == 0 || digit_of(&differ, digit) == 0)
            continue;
        sort_by_digit(from, to, m->record_count, digit);
        record *swapped = from;
        from = to;
        to = swapped;
    }
    m->records = from;
}

/* ---- batches ---- */

static bool fits(const maker *m, uint64_t ticks)
{
    const spsh__caps *caps = &m->plan->caps;
    uint64_t longest = ticks > m->longest ? ticks : m->longest;
    /* Cannot overflow: items are shorter than 2^46, and there are fewer than 2^32. */
    return m->count == 0 ||
           (m->count < caps->utterances && (spsh__u128)m->ticks + ticks <= caps->ticks &&
            (spsh__u128)longest * (m->count + 1) <= caps->padded_ticks);
}

static void take(maker *m, uint64_t ticks)
{
    m->count++;
    m->ticks += ticks;
    m->longest = ticks > m->longest ? ticks : m->longest;
}

static void begin_batch(maker *m)
{
    m->window->batches[m->window->batch_count] = (spsh__batch_range){m->window->item_count, 0};
    m->count = 0;
    m->ticks = 0;
    m->longest = 0;
}

static void end_batch(maker *m)
{
    m->window->batches[m->window->batch_count++].count = (uint32_t)m->count;
}

static void put(maker *m, const record *r)
{
    const spsh__stream_entry *e = &m->scratch->entries[r->entry];
    uint64_t start = part_first(e->samples, r->part, r->part_count);
    m->window->items[m->window->item_count++] = (spsh_item){
        .position = e->position,
        .start_sample = start,
        .samples = part_first(e->samples, r->part + 1, r->part_count) - start,
        .pass = e->index / m->plan->domains[e->domain].count,
        .dataset = m->plan->domains[e->domain].dataset,
        .domain = e->domain,
        .sample_rate_hz = e->rate_hz,
        .part = r->part,
        .part_count = r->part_count,
        .microseconds = r->ticks,
    };
    take(m, r->ticks);
}

static bool is_copy(const maker *m, const record *a, const record *b)
{
    const spsh__stream_entry *x = &m->scratch->entries[a->entry];
    const spsh__stream_entry *y = &m->scratch->entries[b->entry];
    return a->tie == b->tie && a->part == b->part && x->position == y->position &&
           x->domain == y->domain;
}

/* The first record of the class of record high - 1. */
static uint32_t class_first(const maker *m, uint32_t high)
{
    uint32_t low = high - 1;
    while (low > 0 && m->records[low - 1].class_number == m->records[high - 1].class_number)
        low--;
    return low;
}

/* ---- mixing ---- */

/* Number of batches from cutting records [low, high) in their present order, without waiting
 * copies. */
static uint64_t count_batches(maker *m, uint32_t low, uint32_t high)
{
    uint64_t batches = 0;
    while (high > low) {
        m->count = m->ticks = m->longest = 0;
        for (; high > low && fits(m, m->records[high - 1].ticks); high--)
            take(m, m->records[high - 1].ticks);
        batches++;
    }
    return batches;
}

/* Assign records [low, high), of one class, to runs. Copies stay in one run. */
static void number_runs(maker *m, uint32_t low, uint32_t high)
{
    uint64_t batches = count_batches(m, low, high);
    uint64_t most = ((uint64_t)run_batches(m->plan) * (high - low) + batches - 1) / batches;
    while (high > low) {
        const record *longest = &m->records[high - 1];
        uint32_t first = high - 1;
        while (first > low) {
            const record *next = &m->records[first - 1];
            bool belongs = high - first < most && next->ticks * 10 >= longest->ticks * 9;
            if (!belongs && !is_copy(m, next, &m->records[first]))
                break;
            first--;
        }
        for (uint32_t i = first; i < high; i++)
            m->records[i].run = first;
        high = first;
    }
}

static void mix(maker *m)
{
    uint32_t high = m->record_count;
    while (high > 0) {
        uint32_t low = class_first(m, high);
        number_runs(m, low, high);
        high = low;
    }
    sort_records(m, DIGITS_RUN | DIGITS_TIE);
}

/* ---- cutting ---- */

/* Put one waiting copy of each group into the batch, while they fit. */
static void put_waiting(maker *m)
{
    uint32_t *link = &m->group_first;
    uint32_t last = GROUP_NONE;
    while (*link != GROUP_NONE) {
        group *g = &m->scratch->groups[*link];
        const record *r = &m->records[g->record];
        if (!fits(m, r->ticks))
            return;
        put(m, r);
        if (--g->left == 0) {
            if (m->group_last == *link)
                m->group_last = last;
            *link = g->next;
        } else {
            last = *link;
            link = &g->next;
        }
    }
}

static void add_group(maker *m, uint32_t record_number, uint32_t left)
{
    uint32_t number = m->group_count++;
    m->scratch->groups[number] = (group){record_number, left, GROUP_NONE};
    if (m->group_last == GROUP_NONE)
        m->group_first = number;
    else
        m->scratch->groups[m->group_last].next = number;
    m->group_last = number;
}

/* Cut records [low, high), of one class. */
static void cut_class(maker *m, uint32_t low, uint32_t high)
{
    m->group_first = m->group_last = GROUP_NONE;
    while (high > low || m->group_first != GROUP_NONE) {
        begin_batch(m);
        put_waiting(m);
        while (high > low && fits(m, m->records[high - 1].ticks)) {
            uint32_t first = high - 1;
            put(m, &m->records[first]);
            if (wraps(m->plan))
                while (first > low && is_copy(m, &m->records[first - 1], &m->records[high - 1]))
                    first--;
            if (high - first > 1)
                add_group(m, high - 1, high - first - 1);
            high = first;
        }
        end_batch(m);
    }
}

static void cut_sorted(maker *m)
{
    uint32_t high = m->record_count;
    m->group_count = 0;
    while (high > 0) {
        uint32_t low = class_first(m, high);
        cut_class(m, low, high);
        high = low;
    }
}

/* Is a copy already in the batch? A domain's stream repeats its members: a copy is one pass
 * later. */
static bool is_in_batch(const maker *m, const record *r)
{
    const spsh__stream_entry *e = &m->scratch->entries[r->entry];
    return m->scratch->firsts_of[e->domain] == m->window->batch_count + 1 &&
           e->index - m->scratch->firsts[e->domain] >= m->plan->domains[e->domain].count;
}

static void cut_in_order(maker *m)
{
    uint32_t next = 0;
    memset(m->scratch->firsts_of, 0, m->plan->domain_count * sizeof(uint32_t));
    while (next < m->record_count) {
        uint32_t first = next;
        begin_batch(m);
        for (; next < m->record_count; next++) {
            const record *r = &m->records[next];
            const spsh__stream_entry *e = &m->scratch->entries[r->entry];
            if (!fits(m, r->ticks) || r->class_number != m->records[first].class_number ||
                is_in_batch(m, r))
                break;
            if (m->scratch->firsts_of[e->domain] != m->window->batch_count + 1) {
                m->scratch->firsts_of[e->domain] = m->window->batch_count + 1;
                m->scratch->firsts[e->domain] = e->index;
            }
            put(m, r);
        }
        end_batch(m);
    }
}

static void shuffle(const maker *m)
{
    spsh__window *w = m->window;
    for (uint32_t i = w->batch_count; i > 1; i--) {
        uint64_t draw = spsh__draw(m->plan->options.seed, w->epoch,
                                   (uint64_t)w->number << 8 | SPSH__DRAW_BATCHES, i);
        uint32_t other = (uint32_t)((spsh__u128)draw * i >> 64);
        spsh__batch_range swapped = w->batches[i - 1];
        w->batches[i - 1] = w->batches[other];
        w->batches[other] = swapped;
    }
}

static spsh_status make(spsh__windows *windows, spsh__window *window, spsh_error *err)
{
    const spsh_plan *plan = windows->plan;
    uint64_t count = spsh__walk_window_first(plan, window->number + 1) -
                     spsh__walk_window_first(plan, window->number);
    maker m = {.plan = plan,
               .scratch = windows->scratch,
               .window = window,
               .tie_key = spsh__draw(plan->options.seed, window->epoch, 0, SPSH__DRAW_TIE),
               .records = windows->scratch->records};
    spsh_status rc = spsh__walk_seek(&windows->walk, window->epoch, window->number, err);
    if (rc == SPSH_OK)
        rc = spsh__walk_window(&windows->walk, windows->scratch->entries, err);
    if (rc == SPSH_OK)
        rc = make_records(&m, count, err);
    if (rc != SPSH_OK)
        return rc;
    if ((plan->options.flags & SPSH_PLAN_IN_ORDER) != 0) {
        cut_in_order(&m);
    } else {
        sort_records(&m, DIGITS_CLASS | DIGITS_TICKS | DIGITS_TIE);
        if (run_batches(plan) > 1)
            mix(&m);
        cut_sorted(&m);
        shuffle(&m);
    }
    return SPSH_OK;
}

spsh_status spsh__windows_get(spsh__windows *windows, uint64_t epoch, uint32_t number,
                              const spsh__window **ret_window, spsh_error *err)
{
    spsh__window *oldest = &windows->windows[0];
    for (uint32_t i = 0; i < windows->kept; i++) {
        spsh__window *w = &windows->windows[i];
        if (w->is_valid && w->epoch == epoch && w->number == number) {
            w->used = ++windows->clock;
            *ret_window = w;
            return SPSH_OK;
        }
        if (w->used < oldest->used)
            oldest = w;
    }
    oldest->is_valid = false;
    oldest->epoch = epoch;
    oldest->number = number;
    oldest->item_count = 0;
    oldest->batch_count = 0;
    spsh_status rc = make(windows, oldest, err);
    if (rc != SPSH_OK)
        return rc;
    oldest->is_valid = true;
    oldest->used = ++windows->clock;
    spsh__states_keep_batches(windows->plan, epoch, number, oldest->batch_count);
    if (windows->saves)
        spsh__states_save(windows->plan, true);
    *ret_window = oldest;
    return SPSH_OK;
}

spsh_status spsh__windows_batches(spsh__windows *windows, uint64_t epoch, uint32_t number,
                                  uint32_t *ret_batches, spsh_error *err)
{
    const spsh__window *window = NULL;
    *ret_batches = spsh__states_batches(windows->plan, epoch, number);
    if (*ret_batches != SPSH_NONE_U32)
        return SPSH_OK;
    spsh_status rc = spsh__windows_get(windows, epoch, number, &window, err);
    if (rc == SPSH_OK)
        *ret_batches = window->batch_count;
    return rc;
}
