/* key_join.c: keys to partitions; each partition's probes sorted and paired; hits sorted and
 * counted.
 *
 *     add   key -> the partition of its upper 10 bits, and the partitions that result from flips of
 *           the weak bits among those 10
 *     next  threads take partitions: key -> probes (the key, and variants with flips of its other
 *           weak bits) -> sort -> pairs of equal probes -> hits -> one sort for all -> votes
 *
 * Memory: an eighth for the partial blocks of the partitions, a quarter for hits, the rest for the
 * sorts of the threads, which spill if a partition does not fit. All data are sorted before they
 * are compared, so the result depends on neither threads nor memory.
 */
#include "key_join.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "join_pairs.h"
#include "join_votes.h"
#include "records/deal.h"
#include "records/spill.h"
#include "speechshard/inside.h"

enum {
    PARTITIONS = SPSH__JOIN_PARTITIONS,
    RECORD_BYTES = sizeof(spsh__u128),
    BLOCK_BYTES_MIN = 4 << 10,
    BLOCK_BYTES_MAX = 256 << 10,
    SAME_OFFSET = 6, /* frames */
    PROBES = 4096,
    VOTES_MIN = 2,
    THREADS_MAX = 64,
};
#define SORT_MIN (UINT64_C(2) << 20)

/* How a mode looks up keys. Without sides, stored keys are varied by every combination of their
 * weak bits. With sides, stored keys are varied one bit at a time, dense keys by every combination.
 */
typedef struct mode_form {
    spsh__join_form form;
    size_t few_keys; /* fewer in a print: one vote is enough */
} mode_form;

/* One equal 48-bit key is rarely wrong (BENCHMARKS.md), and recordings shorter than four seconds
 * often have no second one. */
static const mode_form modes[] = {
    [SPSH__JOIN_MILD] = {{48, 38, 3, false, 3, 30}, 16      },
    [SPSH__JOIN_DEEP] = {{32, 22, 6, false, 0, 30}, 8       },
    [SPSH__JOIN_AUDIT] = {{32, 22, 6, true, 0, 30},  8       },
    [SPSH__JOIN_CONTOUR] = {{42, 32, 6, false, 6, 20}, SIZE_MAX},
};

/* Records of one partition: full blocks on disk, and one partial block in memory. */
typedef struct partition {
    uint64_t *blocks;
    size_t block_count, block_capacity;
    spsh__u128 *begun;
    size_t begun_count;
} partition;

struct spsh__key_join {
    spsh__key_join_options options;
    const mode_form *mode;
    uint64_t block_records;
    uint64_t sort_memory; /* sort memory per thread */
    partition *partitions;
    spsh__spill *spill;
    char *temporary_path;
    spsh__sort128 *hits;
    spsh__join_votes *votes;
    spsh__sort128 *others; /* candidates of another search; opened for the first one */
    spsh__sort128_cursor others_at;
    spsh__candidate own, other; /* next candidate of each kind, if has_* is set */
    bool has_own, has_other, has_seen_other;
    spsh__join_facts facts;
    bool is_reading;
    spsh_status failure;
    pthread_mutex_t lock; /* guards hits while threads add to them */
};

static uint64_t block_bytes_for(uint64_t memory_bytes)
{
    uint64_t bytes = memory_bytes / 8 / PARTITIONS / RECORD_BYTES * RECORD_BYTES;
    if (bytes < BLOCK_BYTES_MIN)
        bytes = BLOCK_BYTES_MIN;
    return bytes > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX : bytes;
}

static spsh_status open_sort(const spsh__key_join *join, uint64_t memory_bytes, uint32_t threads,
                             spsh__sort128 **ret_sort, spsh_error *err)
{
    const spsh__sort128_options sort = {
        .io = join->options.io,
        .temporary_path = join->temporary_path,
        .memory_bytes = memory_bytes,
        .threads = threads,
    };
    return spsh__sort128_open(&sort, ret_sort, err);
}

spsh_status spsh__key_join_open(const spsh__key_join_options *options, spsh__key_join **ret_join,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (options->memory_bytes < SPSH__JOIN_MEMORY_MIN || options->threads == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a join needs at least 64 MiB and one thread");
    spsh__key_join *join = calloc(1, sizeof(*join));
    if (join == NULL)
        return SPSH_NO_MEMORY(err);
    (void)pthread_mutex_init(&join->lock, NULL);
    join->options = *options;
    const uint64_t rest =
        options->memory_bytes - options->memory_bytes / 8 - options->memory_bytes / 4;
    if (join->options.threads > THREADS_MAX)
        join->options.threads = THREADS_MAX;
    if (join->options.threads > rest / SORT_MIN)
        join->options.threads = (uint32_t)(rest / SORT_MIN);
    join->sort_memory = rest / join->options.threads;
    join->mode = &modes[options->mode];
    join->block_records = block_bytes_for(options->memory_bytes) / RECORD_BYTES - 1;
    join->partitions = calloc(PARTITIONS, sizeof(*join->partitions));
    join->temporary_path = strdup(options->temporary_path);
    if (join->partitions == NULL || join->temporary_path == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = open_sort(join, options->memory_bytes / 4, join->options.threads, &join->hits, err);
    if (rc == SPSH_OK)
        *ret_join = join;
    else
        spsh__key_join_free(join);
    return rc;
}

void spsh__key_join_free(spsh__key_join *join)
{
    if (join == NULL)
        return;
    for (size_t i = 0; join->partitions != NULL && i < PARTITIONS; i++) {
        free(join->partitions[i].blocks);
        free(join->partitions[i].begun);
    }
    free(join->partitions);
    spsh__join_votes_free(join->votes);
    spsh__sort128_free(join->hits);
    spsh__sort128_free(join->others);
    spsh__spill_close(join->spill);
    free(join->temporary_path);
    (void)pthread_mutex_destroy(&join->lock);
    free(join);
}

/* ---- keys to partitions ---- */

static spsh_status spill_block(spsh__key_join *join, partition *part, spsh_error *err)
{
    uint64_t block = 0;
    spsh_status rc = SPSH_OK;
    if (join->spill == NULL)
        rc = spsh__spill_open(join->options.io, join->temporary_path, join->block_records,
                              &join->spill, err);
    if (rc == SPSH_OK)
        rc = spsh__spill_write(join->spill, part->begun, part->begun_count, &block, err);
    if (rc != SPSH_OK)
        return rc;
    if (!SPSH_GROW(part->blocks, part->block_capacity, part->block_count + 1))
        return SPSH_NO_MEMORY(err);
    part->blocks[part->block_count++] = block;
    part->begun_count = 0;
    return SPSH_OK;
}

static spsh_status put_key(spsh__key_join *join, const spsh__join_key *key, spsh_error *err)
{
    const spsh__join_form *form = &join->mode->form;
    partition *part = &join->partitions[spsh__join_partition(form, key->bits)];
    if (part->begun == NULL) {
        part->begun = malloc((join->block_records + 1) * RECORD_BYTES);
        if (part->begun == NULL)
            return SPSH_NO_MEMORY(err);
    }
    part->begun[part->begun_count++] = spsh__join_pack_key(form, key);
    return part->begun_count == join->block_records ? spill_block(join, part, err) : SPSH_OK;
}

/* Return whether every combination of weak bits is flipped; else one bit at a time. */
static bool turns_all(const spsh__join_form *form, const spsh__join_key *key)
{
    return key->is_test || !form->has_sides;
}

/* Add the key to its partition, and to the partitions that flips of its weak upper bits select. */
static spsh_status put_ways(spsh__key_join *join, const spsh__join_key *key, spsh_error *err)
{
    const spsh__join_form *form = &join->mode->form;
    const bool is_all = turns_all(form, key);
    uint8_t upper[SPSH__JOIN_SLOTS];
    unsigned upper_count = 0;
    spsh__join_key whole = *key;
    spsh_status rc = SPSH_OK;

    for (unsigned i = 0; i < SPSH__JOIN_SLOTS; i++) {
        if (key->slots[i] == SPSH__JOIN_NO_PLACE || key->slots[i] < form->rest_bits)
            continue;
        upper[upper_count++] = key->slots[i];
        whole.slots[i] = SPSH__JOIN_NO_PLACE;
    }
    for (unsigned way = 0; rc == SPSH_OK && way < 1U << upper_count; way++) {
        const bool is_one = (way & (way - 1)) == 0;
        if (!is_all && !is_one)
            continue;
        spsh__join_key turned = whole;
        unsigned used = 0;
        if (!is_all && way != 0)
            memset(turned.slots, SPSH__JOIN_NO_PLACE, sizeof(turned.slots));
        for (unsigned i = 0; i < upper_count; i++) {
            if ((way >> i & 1) == 0)
                continue;
            while (turned.slots[used] != SPSH__JOIN_NO_PLACE)
                used++;
            turned.slots[used] = upper[i];
            turned.bits ^= UINT64_C(1) << upper[i];
        }
        rc = put_key(join, &turned, err);
    }
    return rc;
}

static spsh_status check_print(spsh__key_join *join, uint64_t print, spsh_error *err)
{
    if (join->is_reading)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "keys were added after the first read");
    if (join->failure != SPSH_OK)
        return SPSH_FAIL(err, join->failure, "an earlier call of the join failed");
    if (print >= SPSH__JOIN_PRINTS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "there are more than %" PRIu64 " fingerprints to compare",
                         SPSH__JOIN_PRINTS_MAX);
    return SPSH_OK;
}

/* Make the record of one of the `count` keys of a print. bits: as in spsh__print_key. */
static spsh__join_key new_key(const spsh__key_join *join, uint64_t print, size_t count,
                              uint64_t bits, uint64_t frame)
{
    spsh__join_key key = {.bits = bits >> (SPSH__KEY_BITS - join->mode->form.bits),
                          .print = print,
                          .frame = frame,
                          .is_short = count < join->mode->few_keys};
    memset(key.slots, SPSH__JOIN_NO_PLACE, sizeof(key.slots));
    return key;
}

static spsh_status add_key(spsh__key_join *join, const spsh__join_key *key, spsh_error *err)
{
    if (key->frame >= UINT64_C(1) << join->mode->form.frame_bits)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a recording is longer than %s",
                         join->mode->form.frame_bits < SPSH__JOIN_FRAME_BITS ? "4.6 hours"
                                                                             : "198 days");
    return put_ways(join, key, err);
}

static spsh_status end_print(spsh__key_join *join, size_t count, spsh_status rc)
{
    join->facts.key_count += count;
    if (rc != SPSH_OK && rc != SPSH_E_INVALID_ARG)
        join->failure = rc;
    return rc;
}

spsh_status spsh__key_join_add(spsh__key_join *join, uint64_t print, const spsh__print_key *keys,
                               size_t count, spsh_error *err)
{
    const unsigned dropped = SPSH__KEY_BITS - join->mode->form.bits;
    spsh_status rc = check_print(join, print, err);

    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh__join_key key = new_key(join, print, count, keys[i].bits, keys[i].frame);
        unsigned slots = 0;
        for (unsigned w = 0; w < SPSH__KEY_WEAK_MAX; w++)
            if (keys[i].weak[w] >= dropped)
                key.slots[slots++] = (uint8_t)(keys[i].weak[w] - dropped);
        rc = add_key(join, &key, err);
    }
    return end_print(join, count, rc);
}

spsh_status spsh__key_join_add_test(spsh__key_join *join, uint64_t print,
                                    const spsh__dense_key *keys, size_t count, spsh_error *err)
{
    const unsigned dropped = SPSH__KEY_BITS - join->mode->form.bits;
    spsh_status rc = check_print(join, print, err);

    if (rc == SPSH_OK && !join->mode->form.has_sides)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a search with two sides is only for audits");
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh__join_key key = new_key(join, print, count, keys[i].bits, keys[i].frame);
        key.is_test = true;
        for (unsigned w = 0; w < SPSH__JOIN_AUDIT_WEAK; w++)
            key.slots[w] = (uint8_t)(keys[i].weak[w] - dropped);
        rc = add_key(join, &key, err);
    }
    return end_print(join, count, rc);
}

spsh_status spsh__key_join_add_contour(spsh__key_join *join, uint64_t print,
                                       const spsh__contour_key *keys, size_t count, unsigned weak,
                                       spsh_error *err)
{
    spsh_status rc = check_print(join, print, err);

    if (rc == SPSH_OK && join->options.mode != SPSH__JOIN_CONTOUR)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG, "contour keys need the mode for contours");
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        spsh__join_key key = {
            .bits = keys[i].bits, .print = print, .frame = keys[i].frame, .is_short = true};
        memset(key.slots, SPSH__JOIN_NO_PLACE, sizeof(key.slots));
        for (unsigned w = 0; w < weak && w < SPSH__CONTOUR_WEAK; w++)
            key.slots[w] = keys[i].weak[w];
        rc = add_key(join, &key, err);
    }
    return end_print(join, count, rc);
}

/* ---- partitions to hits ---- */

/* Data of one thread. */
typedef struct worker {
    spsh__key_join *join;
    spsh__join_pairs *pairs;
    spsh__sort128 *sort;
    spsh__u128 *block;
    spsh__u128 *probes;
    size_t probe_count;
    spsh__join_facts facts; /* probes and spilled bytes */
} worker;

static spsh_status give_probes(worker *self, spsh_error *err)
{
    const spsh_status rc = spsh__sort128_add(self->sort, self->probes, self->probe_count, err);
    self->facts.probe_count += self->probe_count;
    self->probe_count = 0;
    return rc;
}

/* Add the probes of a key: unchanged, and with its weak bits flipped. */
static spsh_status expand(worker *self, const spsh__join_key *key, spsh_error *err)
{
    const mode_form *mode = self->join->mode;
    const bool is_all = turns_all(&mode->form, key);
    uint8_t places[SPSH__JOIN_SLOTS];
    unsigned place_count = 0;
    spsh_status rc = SPSH_OK;
    spsh__join_probe probe = {.rest = key->bits,
                              .print = key->print,
                              .frame = key->frame,
                              .is_short = key->is_short,
                              .is_test = key->is_test};

    for (unsigned i = 0; i < mode->form.slots; i++) {
        if (key->slots[i] < mode->form.rest_bits)
            places[place_count++] = key->slots[i];
        else if (key->slots[i] != SPSH__JOIN_NO_PLACE)
            probe.turned |= UINT64_C(1) << key->slots[i];
    }
    for (unsigned way = 0; rc == SPSH_OK && way < 1U << place_count; way++) {
        spsh__join_probe turned = probe;
        if (!is_all && (way & (way - 1)) != 0)
            continue;
        for (unsigned i = 0; i < place_count; i++)
            turned.turned |= (uint64_t)(way >> i & 1) << places[i];
        turned.rest ^= turned.turned & ((UINT64_C(1) << mode->form.rest_bits) - 1);
        self->probes[self->probe_count++] = spsh__join_pack_probe(&mode->form, &turned);
        if (self->probe_count == PROBES)
            rc = give_probes(self, err);
    }
    return rc;
}

static spsh_status expand_all(worker *self, const spsh__u128 *records, size_t count,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        const spsh__join_key key = spsh__join_unpack_key(&self->join->mode->form, records[i]);
        rc = expand(self, &key, err);
    }
    return rc;
}

static spsh_status read_partition(worker *self, const partition *part, spsh_error *err)
{
    const spsh__key_join *join = self->join;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < part->block_count; i++) {
        rc = spsh__spill_read(join->spill, part->blocks[i], self->block, join->block_records, err);
        if (rc == SPSH_OK)
            rc = expand_all(self, self->block, join->block_records, err);
    }
    if (rc == SPSH_OK)
        rc = expand_all(self, part->begun, part->begun_count, err);
    return rc == SPSH_OK ? give_probes(self, err) : rc;
}

static spsh_status pair_up(worker *self, spsh_error *err)
{
    const spsh__u128 *probes = NULL;
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK) {
        rc = spsh__sort128_next(self->sort, &probes, &count, err);
        if (rc == SPSH_OK)
            rc = spsh__join_pairs_add(self->pairs, probes, count, err);
    }
    return rc == SPSH_E_END ? spsh__join_pairs_finish(self->pairs, err) : rc;
}

static spsh_status take_partition(void *argument, uint64_t number, spsh_error *err)
{
    worker *self = argument;
    const spsh__key_join *join = self->join;
    partition *part = &join->partitions[number];
    if (part->begun == NULL) /* the partition has no records */
        return SPSH_OK;
    spsh_status rc =
        self->sort != NULL ? SPSH_OK : open_sort(join, join->sort_memory, 1, &self->sort, err);
    if (rc == SPSH_OK)
        rc = read_partition(self, part, err);
    if (rc == SPSH_OK)
        rc = pair_up(self, err);
    if (self->sort != NULL && !spsh__sort128_clear(self->sort)) {
        self->facts.spilled_bytes += spsh__sort128_spilled_bytes(self->sort);
        spsh__sort128_free(self->sort);
        self->sort = NULL;
    }
    free(part->begun);
    free(part->blocks);
    *part = (partition){0};
    return rc;
}

static spsh_status add_hits(void *user, const spsh__u128 *hits, size_t count, spsh_error *err)
{
    spsh__key_join *join = user;
    (void)pthread_mutex_lock(&join->lock);
    const spsh_status rc = spsh__sort128_add(join->hits, hits, count, err);
    (void)pthread_mutex_unlock(&join->lock);
    return rc;
}

static spsh_status open_worker(void *worker_of, void *user, spsh_error *err)
{
    worker *self = worker_of;
    spsh__key_join *join = user;
    self->join = join;
    self->block = malloc((join->block_records + 1) * RECORD_BYTES);
    self->probes = malloc((size_t)PROBES * RECORD_BYTES);
    if (self->block == NULL || self->probes == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh__join_pairs_new(&join->mode->form, (spsh__hit_sink){add_hits, join}, &self->pairs,
                                err);
}

static void close_worker(void *worker_of, void *user)
{
    worker *self = worker_of;
    spsh__key_join *join = user;
    spsh__join_facts *facts = &join->facts;
    facts->probe_count += self->facts.probe_count;
    facts->spilled_bytes += self->facts.spilled_bytes;
    if (self->pairs != NULL) {
        facts->hit_count += spsh__join_pairs_hits(self->pairs);
        facts->crowded_count += spsh__join_pairs_crowded(self->pairs);
    }
    spsh__join_pairs_free(self->pairs);
    spsh__sort128_free(self->sort);
    free(self->block);
    free(self->probes);
}

static spsh_status join_partitions(spsh__key_join *join, spsh_error *err)
{
    const spsh__deal deal = {
        .end = PARTITIONS,
        .at_once = 1,
        .threads = join->options.threads,
        .user = join,
        .worker_bytes = sizeof(worker),
        .open_fn = open_worker,
        .close_fn = close_worker,
        .take_fn = take_partition,
        .watch = join->options.watch,
        .stage = "keys",
    };
    return spsh__deal_run(&deal, err);
}

static spsh_status start_reading(spsh__key_join *join, spsh_error *err)
{
    join->is_reading = true;
    spsh_status rc = join_partitions(join, err);
    if (join->spill != NULL)
        join->facts.spilled_bytes += spsh__spill_bytes(join->spill);
    spsh__spill_close(join->spill);
    join->spill = NULL;
    if (rc == SPSH_OK)
        rc = spsh__join_votes_new(join->hits, VOTES_MIN, &join->votes, err);
    return rc;
}

spsh_status spsh__key_join_add_candidate(spsh__key_join *join, const spsh__candidate *candidate,
                                         spsh_error *err)
{
    spsh_status rc =
        check_print(join, candidate->a > candidate->b ? candidate->a : candidate->b, err);
    if (rc == SPSH_OK && join->others == NULL)
        rc = open_sort(join, join->options.memory_bytes / 16, join->options.threads, &join->others,
                       err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__u128 record = spsh__join_pack_candidate(candidate);
    rc = spsh__sort128_add(join->others, &record, 1, err);
    join->failure = rc;
    return rc;
}

/* Fetch the next candidate of another search into join->other. Skip candidates of the same pair
 * within 6 frames of the previous one: they repeat it. */
static spsh_status next_other(spsh__key_join *join, spsh_error *err)
{
    while (join->others != NULL) {
        const spsh__u128 *record = NULL;
        const spsh_status rc = spsh__sort128_take(join->others, &join->others_at, &record, err);
        if (rc != SPSH_OK)
            return rc;
        const spsh__candidate last = join->other;
        const spsh__candidate next = spsh__join_unpack_candidate(*record);
        if (join->has_seen_other && last.a == next.a && last.b == next.b &&
            next.offset - last.offset <= SAME_OFFSET)
            continue;
        join->has_seen_other = true;
        join->has_other = true;
        join->other = next;
        return SPSH_OK;
    }
    return SPSH_E_END;
}

static bool comes_first(const spsh__candidate *x, const spsh__candidate *y)
{
    if (x->a != y->a)
        return x->a < y->a;
    return x->b != y->b ? x->b < y->b : x->offset <= y->offset;
}

/* Whether both searches found the same offset of a pair. */
static bool is_found_twice(const spsh__key_join *join)
{
    return join->has_own && join->has_other && join->own.a == join->other.a &&
           join->own.b == join->other.b &&
           llabs(join->own.offset - join->other.offset) <= SAME_OFFSET;
}

/* Return the lower candidate of both kinds. If they are the same, skip the one of the other search.
 */
static spsh_status next_of_both(spsh__key_join *join, spsh__candidate *ret_candidate,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (!join->has_own) {
        rc = spsh__join_votes_next(join->votes, &join->own, err);
        join->has_own = rc == SPSH_OK;
    }
    if ((rc == SPSH_OK || rc == SPSH_E_END) && !join->has_other)
        rc = next_other(join, err);
    while (rc == SPSH_OK && is_found_twice(join)) {
        join->has_other = false;
        rc = next_other(join, err);
    }
    if (rc != SPSH_OK && rc != SPSH_E_END)
        return rc;
    if (!join->has_own && !join->has_other)
        return SPSH_E_END;
    const bool is_own =
        join->has_own && (!join->has_other || comes_first(&join->own, &join->other));
    *ret_candidate = is_own ? join->own : join->other;
    if (is_own)
        join->has_own = false;
    else
        join->has_other = false;
    return SPSH_OK;
}

spsh_status spsh__key_join_next(spsh__key_join *join, spsh__candidate *ret_candidate,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (join->failure != SPSH_OK)
        return SPSH_FAIL(err, join->failure, "an earlier call of the join failed");
    if (!join->is_reading)
        rc = start_reading(join, err);
    if (rc == SPSH_OK)
        rc = next_of_both(join, ret_candidate, err);
    if (rc == SPSH_OK)
        join->facts.candidate_count++;
    else if (rc != SPSH_E_END)
        join->failure = rc;
    return rc;
}

void spsh__key_join_facts(const spsh__key_join *join, spsh__join_facts *ret_facts)
{
    *ret_facts = join->facts;
    ret_facts->spilled_bytes += spsh__sort128_spilled_bytes(join->hits);
    if (join->others != NULL)
        ret_facts->spilled_bytes += spsh__sort128_spilled_bytes(join->others);
}

/* Measured on real speech (docs/BENCHMARKS.md). *_PERCENT: records per key in hundredths; a weak
 * bit among the partition's bits adds records. *_RARE: one in 2^N pairs of keys is a hit by chance.
 */
enum { STORED_PERCENT = 178, DENSE_PERCENT = 410, MILD_RARE = 34, COARSE_RARE = 23 };

/* Number of records on disk: full blocks are spilled, partial blocks stay in memory. */
static double spilled(double record_count, uint64_t memory_bytes)
{
    const uint64_t block_records = block_bytes_for(memory_bytes) / RECORD_BYTES - 1;
    const double block = (double)block_records;
    const double begun = block / 2 * PARTITIONS;
    return record_count > begun ? (record_count - begun) * (block + 1) / block : 0;
}

uint64_t spsh__key_join_space(spsh__join_mode mode, uint64_t train_keys, uint64_t test_keys,
                              uint64_t memory_bytes)
{
    const double train = (double)train_keys;
    const double test = (double)test_keys;
    const double records = train * STORED_PERCENT / 100 + test * DENSE_PERCENT / 100;
    const double pairs = mode == SPSH__JOIN_AUDIT ? train * test : train * train / 2;
    const uint64_t rare = UINT64_C(1) << (mode == SPSH__JOIN_MILD ? MILD_RARE : COARSE_RARE);
    const double hits = pairs / (double)rare;
    const double hits_in_memory = (double)memory_bytes / 8 / RECORD_BYTES;
    const double space = spilled(records, memory_bytes) + (hits > hits_in_memory ? hits : 0);
    return (uint64_t)(space * RECORD_BYTES);
}
