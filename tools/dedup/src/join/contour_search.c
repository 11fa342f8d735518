/* contour_search.c: threads make the keys of all prints; one join finds equal keys; each proposal
 * is compared frame by frame before it becomes a candidate.
 *
 * Proposals arrive sorted by a, whose frames are read once. A comparison reads only the two prints,
 * which are short.
 */
#include "contour_search.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "records/deal.h"
#include "speechshard/inside.h"

enum {
    DEAL_AT_ONCE = 64,
    REPORT_EVERY = 4096, /* proposals between two reports, which may cancel the search */
    NEAR = 2,            /* maximum error of an anchor's offset, in frames */
    COMMON_MIN = 8,      /* minimum number of active frames to compare */
    WRONG_PERCENT = 33,
    LEVEL_TENTHS = 30,     /* mean spread of the differences of levels, in tenths of 0.75 dB */
    HOPELESS_PERCENT = 43, /* not below WRONG_PERCENT at NEAR frames from here */
};

typedef struct pool {
    const spsh__contour_search *search;
    spsh__key_join *proposals;
    pthread_mutex_t mutex; /* guards proposals */
} pool;

typedef struct worker {
    pool *pool;
    spsh__print_frame *frames; /* SPSH__CONTOUR_FRAMES_MAX */
} worker;

unsigned spsh__contour_weak_for(uint64_t print_count)
{
    static const uint64_t prints_max[] = {50000, 150000, 500000, 1500000};
    for (unsigned i = 0; i < sizeof(prints_max) / sizeof(prints_max[0]); i++)
        if (print_count <= prints_max[i])
            return SPSH__CONTOUR_WEAK - i;
    return 0;
}

/* Measured (docs/BENCHMARKS.md): 7 keys per print. With 6 weak bits, one in 2^11 pairs of keys is
 * equal by chance; each bit less divides that by 4. */
uint64_t spsh__contour_search_space(uint64_t print_count, unsigned weak, uint64_t memory_bytes)
{
    const double keys = 7 * (double)print_count;
    const double hits = ldexp(keys * keys / 2, 2 * (int)weak - 2 * SPSH__CONTOUR_WEAK - 11);
    const double hits_in_memory = (double)memory_bytes / 8 / sizeof(spsh__u128);
    return weak > 0 && hits > hits_in_memory ? (uint64_t)hits * sizeof(spsh__u128) : 0;
}

/* ---- keys ---- */

static spsh_status add_keys(worker *w, uint64_t number, const spsh__set_print *print,
                            spsh_error *err)
{
    pool *p = w->pool;
    spsh__contour_key keys[SPSH__CONTOUR_KEYS_MAX];
    spsh_status rc = spsh__segment_frames(print->segment, print->first_frame, print->frame_count,
                                          w->frames, err);
    if (rc != SPSH_OK)
        return rc;
    const size_t count = spsh__contour_keys_make(w->frames, (size_t)print->frame_count, keys);
    (void)pthread_mutex_lock(&p->mutex);
    rc = spsh__key_join_add_contour(p->proposals, number, keys, count, p->search->weak, err);
    (void)pthread_mutex_unlock(&p->mutex);
    return rc;
}

static spsh_status take_utterance(void *argument, uint64_t ordinal, spsh_error *err)
{
    worker *w = argument;
    const spsh__contour_search *search = w->pool->search;
    uint64_t first = 0;
    uint64_t count = 0;
    bool part = false;
    spsh_status rc = search->takes_part_fn(search->user, ordinal, &part, err);
    if (rc != SPSH_OK || !part)
        return rc;
    rc = spsh__print_set_prints_of(search->set, ordinal, &first, &count, err);
    for (uint64_t number = first; rc == SPSH_OK && number < first + count; number++) {
        spsh__set_print print;
        rc = spsh__print_set_print(search->set, number, &print, err);
        if (rc == SPSH_OK && print.frame_count > 0 && print.frame_count <= SPSH__CONTOUR_FRAMES_MAX)
            rc = add_keys(w, number, &print, err);
    }
    return rc;
}

static spsh_status open_worker(void *worker_of, void *user, spsh_error *err)
{
    worker *w = worker_of;
    w->pool = user;
    w->frames = calloc(SPSH__CONTOUR_FRAMES_MAX, sizeof(*w->frames));
    return w->frames == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static void close_worker(void *worker_of, void *user)
{
    worker *w = worker_of;
    (void)user;
    free(w->frames);
}

static spsh_status make_keys(pool *p, spsh_error *err)
{
    const spsh__deal deal = {
        .end = spsh__print_set_count(p->search->set),
        .at_once = DEAL_AT_ONCE,
        .threads = p->search->threads,
        .user = p,
        .worker_bytes = sizeof(worker),
        .open_fn = open_worker,
        .close_fn = close_worker,
        .take_fn = take_utterance,
        .watch = p->search->watch,
        .stage = "contours",
    };
    return spsh__deal_run(&deal, err);
}

/* ---- proposals ---- */

typedef struct sound {
    uint64_t number; /* print number; SPSH_NONE_U64: empty */
    spsh__print_frame *frames;
    size_t count;
} sound;

static spsh_status load(const spsh__print_set *set, uint64_t number, sound *to, spsh_error *err)
{
    spsh__set_print print;
    if (to->number == number)
        return SPSH_OK;
    spsh_status rc = spsh__print_set_print(set, number, &print, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_frames(print.segment, print.first_frame, print.frame_count, to->frames,
                                  err);
    to->number = rc == SPSH_OK ? number : SPSH_NONE_U64;
    to->count = rc == SPSH_OK ? (size_t)print.frame_count : 0;
    return rc;
}

/* Count the bits that are set, without the function call of __builtin_popcount. */
static inline uint32_t count_bits(uint32_t x)
{
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* Return the share of wrong bits in percent at an offset, 100 if too few frames are common. */
static uint64_t wrong_percent(const sound *a, const sound *b, int64_t offset)
{
    uint64_t wrong = 0;
    uint64_t count = 0;
    for (size_t i = offset < 0 ? (size_t)-offset : 0; i < a->count; i++) {
        const int64_t k = (int64_t)i + offset;
        if (k >= (int64_t)b->count)
            break;
        if (!a->frames[i].is_active || !b->frames[k].is_active)
            continue;
        count++;
        wrong += count_bits(a->frames[i].word ^ b->frames[k].word);
    }
    return count < COMMON_MIN ? 100 : 100 * wrong / (32 * count);
}

/* Find the offset near a proposal at which the bits agree. */
static bool find_offset(const sound *a, const sound *b, int64_t offset, int64_t *ret_offset)
{
    uint64_t best = wrong_percent(a, b, offset);
    *ret_offset = offset;
    if (best > HOPELESS_PERCENT)
        return false;
    for (int64_t at = offset - NEAR; at <= offset + NEAR; at++) {
        const uint64_t wrong = at == offset ? best : wrong_percent(a, b, at);
        if (wrong >= best)
            continue;
        best = wrong;
        *ret_offset = at;
    }
    return best <= WRONG_PERCENT;
}

/* Whether the levels differ by a constant, as those of copies do: the mean distance of the
 * differences from their mean is small. */
static bool has_same_levels(const sound *a, const sound *b, int64_t offset)
{
    int64_t sum = 0;
    int64_t count = 0;
    int64_t spread = 0;
    const size_t first = offset < 0 ? (size_t)-offset : 0;
    const int64_t room = (int64_t)b->count - offset;
    const size_t end = room < (int64_t)a->count ? (size_t)room : a->count;
    for (size_t i = first; i < end; i++) {
        const spsh__print_frame *other = &b->frames[(int64_t)i + offset];
        if (!a->frames[i].is_active || !other->is_active)
            continue;
        sum += a->frames[i].level - other->level;
        count++;
    }
    for (size_t i = first; i < end; i++) {
        const spsh__print_frame *other = &b->frames[(int64_t)i + offset];
        if (a->frames[i].is_active && other->is_active)
            spread += llabs((a->frames[i].level - other->level) * count - sum);
    }
    return count > 0 && 10 * spread <= LEVEL_TENTHS * count * count;
}

static bool agree(const sound *a, const sound *b, int64_t offset)
{
    int64_t at = 0;
    return find_offset(a, b, offset, &at) && has_same_levels(a, b, at);
}

/* Move the proposals whose bits agree to the join. */
static spsh_status screen(const pool *p, spsh__key_join *join, spsh_error *err)
{
    sound sides[2] = {{.number = SPSH_NONE_U64}, {.number = SPSH_NONE_U64}};
    uint64_t done = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < 2; i++) {
        sides[i].frames = calloc(SPSH__CONTOUR_FRAMES_MAX, sizeof(*sides[i].frames));
        if (sides[i].frames == NULL)
            rc = SPSH_NO_MEMORY(err);
    }
    for (; rc == SPSH_OK; done++) {
        spsh__candidate proposal;
        if (done % REPORT_EVERY == 0) {
            spsh__call_watch_report(p->search->watch, "contour pairs", done, 0);
            rc = spsh__call_watch_check(p->search->watch, err);
            if (rc != SPSH_OK)
                break;
        }
        rc = spsh__key_join_next(p->proposals, &proposal, err);
        if (rc == SPSH_OK)
            rc = load(p->search->set, proposal.a, &sides[0], err);
        if (rc == SPSH_OK)
            rc = load(p->search->set, proposal.b, &sides[1], err);
        if (rc == SPSH_OK && agree(&sides[0], &sides[1], proposal.offset))
            rc = spsh__key_join_add_candidate(join, &proposal, err);
    }
    free(sides[0].frames);
    free(sides[1].frames);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__contour_search_run(const spsh__contour_search *search, spsh__key_join *join,
                                     spsh_error *err)
{
    pool p = {.search = search};
    const spsh__key_join_options options = {
        .mode = SPSH__JOIN_CONTOUR,
        .io = search->io,
        .temporary_path = search->temporary_path,
        .memory_bytes = search->memory_bytes,
        .threads = search->threads,
        .watch = search->watch,
    };
    if (pthread_mutex_init(&p.mutex, NULL) != 0)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__key_join_open(&options, &p.proposals, err);
    if (rc == SPSH_OK)
        rc = make_keys(&p, err);
    if (rc == SPSH_OK)
        rc = screen(&p, join, err);
    spsh__key_join_free(p.proposals);
    (void)pthread_mutex_destroy(&p.mutex);
    return rc;
}
