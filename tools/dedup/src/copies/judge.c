/* judge.c: workers take candidates in small pieces. Their matches are put into the order of the
 * candidates afterwards.
 *
 * A worker keeps the frames and signals of the last short prints, because the copies of a recording
 * are compared with each other (candidate_groups.h). It keeps at most two long prints. The reported
 * failure is the first in order, for any number of threads (spsh_cores_run).
 *
 * All frames of a print are in memory (8 bytes per frame, 180 MB per 100 hours), but only samples
 * of the minute that is compared. A worker waits while the frames of all workers would exceed the
 * memory limit.
 */
#include "judge.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "join/pair_offsets.h"
#include "set/scaled_keys.h"
#include "set/set_readers.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"

enum {
    PIECE = 16,
    SLOTS = 16, /* prints per worker: 9 MB of short ones */
    SAME_LAG = 5 * SPSH__PRINT_HOP,
    PAIR_PRINTS_MAX = 16,
    KEPT_SAMPLES_MAX = 1 << 17, /* 16 s: the signal of a shorter print is kept with its frames */
    SEARCHED_MAX = 10 * 60 * 125 / 2, /* maximum number of frames for a search at every offset: 10
                                         minutes */
};

/* A print that a worker has loaded. */
typedef struct heard {
    uint64_t number; /* print number as in candidates; SPSH_NONE_U64: empty slot */
    spsh__print_frame *frames;
    size_t frame_count;
    uint64_t sample_count;
    spsh__print_signal signal;
    int32_t *samples; /* the whole signal; NULL: not read yet, or too long */
    double speed;
    uint64_t used; /* clock of the last use */
} heard;

typedef struct worker {
    spsh__judge *judge;
    spsh__set_readers readers;
    heard slots[SLOTS];
    uint64_t clock;
    uint64_t held_bytes; /* this worker's share of judge->held_bytes */
    bool is_decoded;     /* audio was read since the flag was cleared */
    spsh__judge_facts facts;
    spsh__match_list found;
} worker;

/* The range of a worker's matches that belongs to one candidate. */
typedef struct verdict {
    const worker *by;
    size_t first;
    size_t count;
} verdict;

struct spsh__judge {
    const spsh__print_set *set;
    spsh__align_limits limits;
    uint64_t memory_bytes;
    uint64_t print_count;
    bool speed_grid;
    worker *workers;
    uint32_t worker_count;

    pthread_mutex_t lock; /* guards held_bytes */
    pthread_cond_t freed;
    uint64_t held_bytes;

    /* the batch */
    const spsh__candidate *candidates;
    size_t candidate_count;
    verdict *verdicts;
};

static void forget(heard *slot)
{
    free(slot->frames);
    free(slot->samples);
    *slot = (heard){.number = SPSH_NONE_U64};
}

static void worker_free(worker *self)
{
    for (size_t i = 0; i < SLOTS; i++)
        forget(&self->slots[i]);
    spsh__set_readers_close(&self->readers);
    free(self->found.items);
}

void spsh__judge_close(spsh__judge *judge)
{
    if (judge == NULL)
        return;
    for (uint32_t i = 0; judge->workers != NULL && i < judge->worker_count; i++)
        worker_free(&judge->workers[i]);
    free(judge->workers);
    (void)pthread_mutex_destroy(&judge->lock);
    (void)pthread_cond_destroy(&judge->freed);
    free(judge);
}

spsh_status spsh__judge_open(const spsh__print_set *set, const spsh__judge_options *options,
                             spsh__judge **ret_judge, spsh_error *err)
{
    const uint32_t threads = options->threads > 0 ? options->threads : 1;
    spsh__judge *judge = calloc(1, sizeof(*judge));
    if (judge == NULL)
        return SPSH_NO_MEMORY(err);
    judge->set = set;
    judge->limits = options->limits != NULL ? *options->limits : spsh__align_limits_default;
    judge->memory_bytes = options->memory_bytes;
    judge->print_count = spsh__print_set_print_count(set);
    judge->speed_grid = options->speed_grid;
    (void)pthread_mutex_init(&judge->lock, NULL);
    (void)pthread_cond_init(&judge->freed, NULL);
    judge->workers = calloc(threads, sizeof(*judge->workers));
    spsh_status rc = judge->workers == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    while (rc == SPSH_OK && judge->worker_count < threads) {
        worker *self = &judge->workers[judge->worker_count++];
        self->judge = judge;
        for (size_t i = 0; i < SLOTS; i++)
            self->slots[i].number = SPSH_NONE_U64;
        rc = spsh__set_readers_open(set, &self->readers, err);
    }
    if (rc != SPSH_OK) {
        spsh__judge_close(judge);
        return rc;
    }
    *ret_judge = judge;
    return SPSH_OK;
}

/* ---- prints ---- */

/* Find the print and the speed of a candidate's print number. */
static spsh_status find_print(const spsh__judge *judge, uint64_t number, spsh__set_print *ret_print,
                              double *ret_speed, spsh_error *err)
{
    const uint64_t scale = judge->print_count == 0 ? 0 : number / judge->print_count;
    if (judge->print_count == 0 || scale >= SPSH__SCALE_COUNT)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "a candidate names fingerprint %" PRIu64 ", but there are %" PRIu64,
                         number, judge->print_count);
    *ret_speed = spsh__scales[scale];
    return spsh__print_set_print(judge->set, number % judge->print_count, ret_print, err);
}

static bool is_scaled(const spsh__judge *judge, uint64_t number)
{
    return number >= judge->print_count;
}

/* Load a print into a slot: the stored frames, or frames computed from the signal at another speed.
 */
static spsh_status hear(worker *self, uint64_t number, heard *slot, spsh_error *err)
{
    spsh__set_print print;
    uint64_t position = 0;
    forget(slot);
    spsh_status rc = find_print(self->judge, number, &print, &slot->speed, err);
    if (rc != SPSH_OK)
        return rc;
    slot->signal = (spsh__print_signal){self->judge->set, NULL, print.utterance, print.channel};
    rc = spsh__set_readers_find(&self->readers, print.utterance, &slot->signal.reader, &position,
                                err);
    if (rc == SPSH_OK)
        rc = spsh__print_signal_length(&slot->signal, &slot->sample_count, err);
    if (rc == SPSH_OK && is_scaled(self->judge, number)) {
        spsh__print made = {0};
        spsh__print_sink sink = spsh__print_collect(&made);
        sink.key_fn = NULL;
        rc = spsh__scaled_print_make(&slot->signal, slot->speed, sink, err);
        slot->frames = made.frames;
        slot->frame_count = made.frame_count;
        slot->sample_count = (uint64_t)((double)slot->sample_count / slot->speed);
    } else if (rc == SPSH_OK) {
        slot->frames = calloc((size_t)print.frame_count + 1, sizeof(*slot->frames));
        slot->frame_count = (size_t)print.frame_count;
        rc = slot->frames == NULL ? SPSH_NO_MEMORY(err)
                                  : spsh__segment_frames(print.segment, print.first_frame,
                                                         print.frame_count, slot->frames, err);
    }
    if (rc == SPSH_OK)
        slot->number = number;
    else
        forget(slot);
    return rc;
}

static heard *slot_of(worker *self, uint64_t number)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (self->slots[i].number == number)
            return &self->slots[i];
    return NULL;
}

/* Wait until `bytes` bytes of frames fit into the limit together with the frames of the other
 * workers. If no other worker holds frames, any size is allowed. */
static void hold(worker *self, uint64_t bytes)
{
    spsh__judge *judge = self->judge;
    (void)pthread_mutex_lock(&judge->lock);
    judge->held_bytes -= self->held_bytes;
    self->held_bytes = 0;
    (void)pthread_cond_broadcast(&judge->freed);
    while (judge->memory_bytes != 0 && judge->held_bytes != 0 &&
           judge->held_bytes + bytes > judge->memory_bytes) {
        for (size_t i = 0; i < SLOTS; i++)
            forget(&self->slots[i]);
        (void)pthread_cond_wait(&judge->freed, &judge->lock);
    }
    judge->held_bytes += bytes;
    self->held_bytes = bytes;
    (void)pthread_mutex_unlock(&judge->lock);
}

/* Choose a slot to replace, except `kept`: a long print, so that a worker holds at most two of
 * them, else the one that was not used for the longest time. */
static heard *choose_slot(worker *self, const heard *kept)
{
    heard *best = NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        heard *slot = &self->slots[i];
        if (slot == kept)
            continue;
        if (slot->sample_count > KEPT_SAMPLES_MAX)
            return slot;
        if (best == NULL || slot->used < best->used)
            best = slot;
    }
    return best;
}

/* Load both prints of a pair, or reuse the slots that hold them. */
static spsh_status hear_both(worker *self, uint64_t a, uint64_t b, heard **ret_a, heard **ret_b,
                             spsh_error *err)
{
    const uint64_t numbers[2] = {a, b};
    heard *slots[2] = {slot_of(self, a), slot_of(self, b)};
    for (size_t i = 0; i < 2; i++) {
        if (slots[i] != NULL)
            continue;
        slots[i] = choose_slot(self, slots[1 - i]);
        spsh_status rc = hear(self, numbers[i], slots[i], err);
        if (rc != SPSH_OK)
            return rc;
    }
    slots[0]->used = slots[1]->used = ++self->clock;
    *ret_a = slots[0];
    *ret_b = slots[1];
    return SPSH_OK;
}

/* ---- one pair ---- */

typedef struct listener {
    worker *by;
    heard *to;
} listener;

static spsh_status read_signal(const listener *self, uint64_t first, size_t count, int32_t *dst,
                               spsh_error *err)
{
    if (is_scaled(self->by->judge, self->to->number))
        return spsh__scaled_signal_read(&self->to->signal, self->to->speed, first, count, dst, err);
    return spsh__print_signal_read(&self->to->signal, first, count, dst, err);
}

/* Read the whole signal of a short print, which is usually compared with several others. */
static spsh_status keep_signal(const listener *self, spsh_error *err)
{
    heard *to = self->to;
    int32_t *samples = calloc((size_t)to->sample_count + 1, sizeof(*samples));
    if (samples == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = read_signal(self, 0, (size_t)to->sample_count, samples, err);
    if (rc == SPSH_OK)
        to->samples = samples;
    else
        free(samples);
    return rc;
}

static spsh_status read_samples(const void *user, uint64_t first, size_t count, int32_t *dst,
                                spsh_error *err)
{
    const listener *self = user;
    spsh_status rc = SPSH_OK;
    self->by->is_decoded = true;
    if (self->to->sample_count > KEPT_SAMPLES_MAX)
        return read_signal(self, first, count, dst, err);
    if (self->to->samples == NULL)
        rc = keep_signal(self, err);
    if (rc == SPSH_OK)
        memcpy(dst, self->to->samples + first, count * sizeof(*dst));
    return rc;
}

static spsh__match describe(const spsh__judge *judge, const heard *a, const heard *b,
                            const spsh__alignment *found)
{
    const bool is_of_grid = is_scaled(judge, a->number) || is_scaled(judge, b->number);
    const double longer =
        found->kind == SPSH_COPY_TIME_SCALED || is_of_grid ? 1 + found->drift.slope_ppm / 1e6 : 1;
    const double speed = a->speed / b->speed;
    spsh__match match = {
        .a = a->signal.utterance,
        .b = b->signal.utterance,
        .tier = SPSH_TIER_ACOUSTIC,
        .kind = found->kind,
        .rate_hz = 8000,
        .a_first = (uint64_t)((double)found->a_first * a->speed),
        .b_first = (uint64_t)((double)found->b_first * b->speed),
        .count = (uint64_t)((double)found->count * a->speed),
        .lag = found->lag * b->speed,
        .coverage_a = found->coverage_a,
        .coverage_b = found->coverage_b,
        .a_channel = a->signal.channel,
        .b_channel = b->signal.channel,
        .is_inverted = found->is_inverted,
        .active_s = found->active_s,
        .ber = found->ber,
        .words_hz = found->words_hz,
        .tonality = found->tonality,
        .ncc = found->ncc,
        .ncc_white = found->ncc_white,
        .envelope = found->envelope,
        .block_share = found->drift.block_share,
        .slope_ppm = found->drift.slope_ppm,
        .spread_ms = found->drift.spread_ms,
        .scale = speed / longer,
    };
    if (found->kind == SPSH_COPY_TIME_SCALED) {
        match.ncc = found->unscaled.ncc;
        match.ncc_white = found->unscaled.ncc_white;
        match.tier = SPSH_TIER_SCALED;
    }
    if (is_of_grid) {
        match.tier = SPSH_TIER_SCALED;
        if (found->kind <= SPSH_COPY_TIME_SCALED)
            match.kind = SPSH_COPY_TIME_SCALED;
        if (found->kind < SPSH_COPY_TIME_SCALED) {
            match.ncc = found->ncc;
            match.ncc_white = found->ncc_white;
        }
    }
    return match;
}

/* Compare two prints at an offset. Append the matches to self->found. */
static spsh_status compare(worker *self, heard *a, heard *b, int64_t offset, uint32_t votes,
                           spsh_error *err)
{
    const listener left = {self, a};
    const listener right = {self, b};
    const spsh__align_side sides[2] = {
        {a->frames, a->frame_count, a->sample_count, read_samples, &left },
        {b->frames, b->frame_count, b->sample_count, read_samples, &right}
    };
    const bool is_of_grid = is_scaled(self->judge, a->number) || is_scaled(self->judge, b->number);
    spsh__align_list found = {.count_max = SPSH__ALIGN_RUNS_MAX};
    spsh_status rc =
        spsh__align_sides(&sides[0], &sides[1], offset, &self->judge->limits, &found, err);
    self->facts.frame_pairs += found.frame_pairs;
    for (size_t i = 0; rc == SPSH_OK && i < found.count; i++) {
        const spsh_copy_class kind = found.items[i].kind;
        if (kind == SPSH_COPY_NONE || (is_of_grid && kind == SPSH_COPY_REREAD))
            continue;
        spsh__match match = describe(self->judge, a, b, &found.items[i]);
        match.votes = votes;
        rc = spsh__match_list_add(&self->found, &match, err);
    }
    return rc;
}

static spsh_status judge_candidate(worker *self, const spsh__candidate *candidate, spsh_error *err)
{
    const spsh__judge *judge = self->judge;
    spsh__candidate pair = *candidate;
    spsh__set_print prints[2];
    double speeds[2];
    heard *a = NULL;
    heard *b = NULL;
    spsh_status rc = find_print(judge, pair.a, &prints[0], &speeds[0], err);
    if (rc == SPSH_OK)
        rc = find_print(judge, pair.b, &prints[1], &speeds[1], err);
    if (rc != SPSH_OK || prints[0].utterance == prints[1].utterance ||
        (is_scaled(judge, pair.a) && is_scaled(judge, pair.b)))
        return rc;
    if (prints[0].utterance > prints[1].utterance)
        pair = (spsh__candidate){pair.b, pair.a, -pair.offset, pair.votes};
    const double frames =
        (double)prints[0].frame_count / speeds[0] + (double)prints[1].frame_count / speeds[1];
    hold(self, (uint64_t)frames * sizeof(spsh__print_frame));
    self->is_decoded = is_scaled(judge, pair.a) || is_scaled(judge, pair.b);
    rc = hear_both(self, pair.a, pair.b, &a, &b, err);
    if (rc == SPSH_OK)
        rc = compare(self, a, b, pair.offset, pair.votes, err);
    self->facts.judged_count++;
    self->facts.decoded_count += self->is_decoded;
    return rc;
}

/* ---- batches of candidates ---- */

static spsh_status judge_piece(void *user, uint32_t number, uint64_t piece, spsh_error *err)
{
    spsh__judge *judge = user;
    worker *self = &judge->workers[number];
    const size_t first = (size_t)piece * PIECE;
    const size_t left = judge->candidate_count - first;
    const size_t end = left < PIECE ? judge->candidate_count : first + PIECE;
    spsh_status rc = SPSH_OK;
    for (size_t i = first; rc == SPSH_OK && i < end; i++) {
        verdict *mine = &judge->verdicts[i];
        mine->by = self;
        mine->first = self->found.count;
        rc = judge_candidate(self, &judge->candidates[i], err);
        mine->count = self->found.count - mine->first;
    }
    hold(self, 0); /* this may be the worker's last piece, and others may wait for its memory */
    return rc;
}

/* Whether two matches of one pair of prints cover the same place: they overlap by more than half of
 * the shorter, and their lags agree unless the speed was scaled. */
static bool is_same_place(const spsh__match *x, const spsh__match *y)
{
    const uint64_t first = x->a_first > y->a_first ? x->a_first : y->a_first;
    const uint64_t x_end = x->a_first + x->count;
    const uint64_t y_end = y->a_first + y->count;
    const uint64_t end = x_end < y_end ? x_end : y_end;
    const uint64_t shorter = x->count < y->count ? x->count : y->count;
    const uint64_t lags = (uint64_t)fabs(x->lag - y->lag);
    const bool may_drift = x->tier == SPSH_TIER_SCALED || y->tier == SPSH_TIER_SCALED;
    return end > first && end - first > shorter / 2 && (lags <= SAME_LAG || may_drift);
}

static bool is_better(const spsh__match *x, const spsh__match *y)
{
    if (x->kind != y->kind)
        return x->kind < y->kind;
    return x->active_s > y->active_s;
}

static bool is_same_pair(const spsh__match *x, const spsh__match *y)
{
    return x->a == y->a && x->b == y->b && x->a_channel == y->a_channel &&
           x->b_channel == y->b_channel;
}

/* Add a match to the kept matches of its pair, which start at `first`. If a kept match covers the
 * same place, keep only the better of the two. */
static spsh_status keep(spsh__match_list *kept, size_t first, const spsh__match *match,
                        spsh_error *err)
{
    for (size_t i = first; i < kept->count; i++) {
        if (!is_same_place(&kept->items[i], match))
            continue;
        if (is_better(match, &kept->items[i]))
            kept->items[i] = *match;
        return SPSH_OK;
    }
    return spsh__match_list_add(kept, match, err);
}

static spsh_status give(spsh__judge *judge, const spsh__match_list *kept, spsh__match_sink sink,
                        spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < kept->count; i++) {
        judge->workers[0].facts.by_class[kept->items[i].kind]++;
        rc = sink.match_fn(sink.user, &kept->items[i], err);
    }
    return rc;
}

/* Add the matches of a candidate or of a pair to the kept ones. *first is the index of the first
 * kept match of the current pair. */
static spsh_status keep_some(const spsh__match *matches, size_t count, spsh__match_list *kept,
                             size_t *first, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        if (kept->count > *first && !is_same_pair(&matches[i], &kept->items[*first]))
            *first = kept->count;
        rc = keep(kept, *first, &matches[i], err);
    }
    return rc;
}

spsh_status spsh__judge_run(spsh__judge *judge, const spsh__candidate *candidates, size_t count,
                            spsh__match_sink sink, spsh_error *err)
{
    spsh__match_list kept = {0};
    size_t first = 0;
    /* Only the loaded prints stay from the previous batch. */
    for (uint32_t i = 0; i < judge->worker_count; i++)
        judge->workers[i].found.count = 0;
    judge->candidates = candidates;
    judge->candidate_count = count;
    judge->verdicts = calloc(count + 1, sizeof(*judge->verdicts));
    if (judge->verdicts == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        spsh_cores_run(judge->worker_count, (count + PIECE - 1) / PIECE, judge_piece, judge, err);
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        const verdict *one = &judge->verdicts[i];
        if (one->count > 0)
            rc = keep_some(one->by->found.items + one->first, one->count, &kept, &first, err);
    }
    if (rc == SPSH_OK)
        rc = give(judge, &kept, sink, err);
    free(kept.items);
    free(judge->verdicts);
    judge->verdicts = NULL;
    return rc;
}

void spsh__judge_facts_get(const spsh__judge *judge, spsh__judge_facts *ret_facts)
{
    spsh__judge_facts sum = {0};
    for (uint32_t i = 0; i < judge->worker_count; i++) {
        const spsh__judge_facts *part = &judge->workers[i].facts;
        sum.judged_count += part->judged_count;
        sum.decoded_count += part->decoded_count;
        sum.frame_pairs += part->frame_pairs;
        for (size_t kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++)
            sum.by_class[kind] += part->by_class[kind];
    }
    *ret_facts = sum;
}

/* ---- one pair that no key proposed ---- */

/* Read the stored keys of a print, or compute them at another speed. The caller frees *ret_keys
 * with free(). */
static spsh_status keys_of(worker *self, const heard *slot, spsh__print_key **ret_keys,
                           size_t *ret_count, spsh_error *err)
{
    spsh__set_print print;
    if (is_scaled(self->judge, slot->number))
        return spsh__scaled_keys_make(&slot->signal, slot->speed, ret_keys, ret_count, err);
    spsh_status rc = spsh__print_set_print(self->judge->set, slot->number, &print, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__print_key *keys = calloc((size_t)print.key_count + 1, sizeof(*keys));
    if (keys == NULL)
        return SPSH_NO_MEMORY(err);
    rc = spsh__segment_keys(print.segment, print.first_key, print.key_count, keys, err);
    if (rc != SPSH_OK) {
        free(keys);
        return rc;
    }
    *ret_keys = keys;
    *ret_count = (size_t)print.key_count;
    return SPSH_OK;
}

/* Find offsets to compare: the offsets that the keys propose, and the best of all offsets if both
 * prints have at most SEARCHED_MAX frames. offsets needs one element more than the keys can
 * propose. */
static spsh_status find_offsets(worker *self, const heard *a, const heard *b,
                                spsh__pair_offset *offsets, size_t *ret_count, spsh_error *err)
{
    spsh__print_key *a_keys = NULL;
    spsh__print_key *b_keys = NULL;
    size_t a_count = 0;
    size_t b_count = 0;
    int64_t best = 0;
    spsh_status rc = keys_of(self, a, &a_keys, &a_count, err);
    if (rc == SPSH_OK)
        rc = keys_of(self, b, &b_keys, &b_count, err);
    if (rc == SPSH_OK)
        rc = spsh__pair_offsets_find(a_keys, a_count, b_keys, b_count, offsets, ret_count, err);
    free(a_keys);
    free(b_keys);
    if (rc != SPSH_OK || a->frame_count > SEARCHED_MAX || b->frame_count > SEARCHED_MAX)
        return rc;
    const spsh__print left = {.frames = a->frames, .frame_count = a->frame_count};
    const spsh__print right = {.frames = b->frames, .frame_count = b->frame_count};
    if (spsh__align_search(&left, &right, &self->judge->limits, &best))
        offsets[(*ret_count)++] = (spsh__pair_offset){best, 0};
    return SPSH_OK;
}

static spsh_status search_prints(worker *self, uint64_t a, uint64_t b, spsh_error *err)
{
    spsh__pair_offset offsets[SPSH__PAIR_OFFSETS_MAX + 1];
    size_t count = 0;
    heard *left = NULL;
    heard *right = NULL;
    spsh_status rc = hear_both(self, a, b, &left, &right, err);
    if (rc == SPSH_OK)
        rc = find_offsets(self, left, right, offsets, &count, err);
    for (size_t i = 0; rc == SPSH_OK && i < count; i++)
        rc = compare(self, left, right, offsets[i].offset, offsets[i].votes, err);
    return rc;
}

/* Compare all prints of one utterance with all prints of the other. For recordings with many
 * channels, compare only mixes with mixes and equal channels. */
static spsh_status search_pair(worker *self, uint64_t a, uint64_t b, size_t scale, spsh_error *err)
{
    const spsh__judge *judge = self->judge;
    uint64_t first[2];
    uint64_t count[2];
    spsh_status rc = spsh__print_set_prints_of(judge->set, a, &first[0], &count[0], err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_prints_of(judge->set, b, &first[1], &count[1], err);
    if (rc != SPSH_OK)
        return rc;
    const bool is_few = count[0] <= PAIR_PRINTS_MAX / (count[1] > 0 ? count[1] : 1);
    for (uint64_t i = 0; i < count[0]; i++) {
        for (uint64_t k = 0; k < count[1]; k++) {
            if (!is_few && i != k)
                continue;
            const uint64_t right = spsh__scaled_number(judge->print_count, first[1] + k, scale);
            rc = search_prints(self, first[0] + i, right, err);
            if (rc != SPSH_OK)
                return rc;
        }
    }
    return SPSH_OK;
}

static bool has_copy(const spsh__match_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind <= SPSH_COPY_TIME_SCALED)
            return true;
    return false;
}

spsh_status spsh__judge_pair(spsh__judge *judge, uint64_t a, uint64_t b, spsh__match_sink sink,
                             spsh_error *err)
{
    worker *self = &judge->workers[0];
    const size_t scales = judge->speed_grid ? SPSH__SCALE_COUNT : 1;
    spsh__match_list kept = {0};
    size_t first = 0;
    spsh_status rc = SPSH_OK;
    if (a == b)
        return SPSH_OK;
    self->found.count = 0;
    for (size_t scale = 0; rc == SPSH_OK && scale < scales && !has_copy(&self->found); scale++)
        rc = search_pair(self, a < b ? a : b, a < b ? b : a, scale, err);
    if (rc == SPSH_OK)
        rc = keep_some(self->found.items, self->found.count, &kept, &first, err);
    if (rc == SPSH_OK)
        rc = give(judge, &kept, sink, err);
    free(kept.items);
    return rc;
}
