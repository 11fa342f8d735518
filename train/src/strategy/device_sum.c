/* device_sum.c: see device_sum.h. All ranks start the same collectives in the same order: of a
 * step's last leaf first the running statistics, then the buckets, ascending. */
#include "device_sum.h"

#include "comm/fold_tree.h"
#include "speechshard/inside.h"

#define PART_ELEMENTS 64u /* parts are multiples of 256 bytes */

typedef struct spsh__device_sum {
    spsh_allocator allocator;
    spsh__learner *learner;
    spsh__backend *backend;
    const spsh__backend_ops *ops;
    spsh__comm *comm;
    bool is_whole;
    spsh__collectives *collectives;
    uint32_t own_count;             /* leaves of this rank */
    uint32_t next_own, next_bucket; /* own leaf and bucket that on_bucket expects next */
    spsh__backend_buffer before;    /* running statistics of the step's beginning */
    spsh__backend_buffer sum;       /* sum over own leaves so far; data NULL: one leaf per step */
    spsh__backend_buffer halves;    /* [2][world][part] of the largest bucket; data NULL: floats */
    double *rows;                   /* [own leaves][1 + count], folded into row 0 */
    double *present;                /* own leaves that had a batch */
    spsh__backend_buffer decision;  /* about the update, while is_decided */
    bool is_decided;
    double square_sum; /* written with the decision, once the backend has finished */
} spsh__device_sum;

/* ---- parts ---- */

static uint64_t equal_part(const spsh__device_sum *d, uint64_t count)
{
    return count / d->comm->world_size / PART_ELEMENTS * PART_ELEMENTS;
}

/* Elements of a bucket that only one rank updates, per rank. */
static uint64_t part_elements(const spsh__device_sum *d, uint64_t count)
{
    return d->is_whole || d->comm->world_size == 1 ? 0 : equal_part(d, count);
}

static void bucket_slices(const spsh__device_sum *d, uint32_t bucket, spsh__slice *ret_part,
                          spsh__slice *ret_rest)
{
    const spsh__slice *b = &d->learner->buckets[bucket];
    const uint64_t part = part_elements(d, b->count);
    const uint64_t parted = part * d->comm->world_size;
    *ret_part = (spsh__slice){b->offset + d->comm->rank * part, part};
    *ret_rest = (spsh__slice){b->offset + parted, b->count - parted};
}

static spsh_status start(spsh__device_sum *d, spsh__collective_kind kind,
                         spsh__backend_buffer values, uint64_t count, const char *what,
                         spsh_error *err)
{
    const spsh__collective c = {kind, values.data, count};
    return spsh__collectives_start(d->collectives, &c, what, err);
}

/* Add up to = from[0] + from[1] + ... on the stream of the collectives. */
static spsh_status add_rows(spsh__device_sum *d, spsh__backend_buffer to, spsh__backend_buffer from,
                            uint32_t rows, uint64_t count, spsh_error *err)
{
    const spsh__add_rows a = {.stream = spsh__collectives_stream(d->collectives),
                              .half = d->learner->sent_as,
                              .from = from,
                              .to = to,
                              .rows = rows,
                              .count = count};
    return d->ops->add_rows_fn(d->backend, &a, err);
}

/* Sum values[world][part] with 16 bits between ranks. The sum of a part is rounded only if all ranks
 * get it. */
static spsh_status start_halves(spsh__device_sum *d, spsh__backend_buffer values, uint64_t part,
                                const char *what, spsh_error *err)
{
    const uint32_t world = d->comm->world_size, rank = d->comm->rank;
    const spsh__backend_buffer sent = d->halves, received = spsh__at(d->ops, sent, world * part);
    const spsh__backend_buffer own = spsh__at(d->ops, d->is_whole ? received : values, rank * part);
    if (part == 0)
        return SPSH_OK;
    spsh_status rc = add_rows(d, sent, values, 1, world * part, err);
    if (rc == SPSH_OK)
        rc = start(d, SPSH__COLLECTIVE_EXCHANGE_HALVES, sent, part, what, err);
    if (rc == SPSH_OK)
        rc = add_rows(d, own, received, world, part, err);
    if (rc == SPSH_OK && d->is_whole)
        rc = start(d, SPSH__COLLECTIVE_GATHER_HALVES, received, part, what, err);
    if (rc == SPSH_OK && d->is_whole)
        rc = add_rows(d, values, received, 1, world * part, err);
    return rc;
}

static spsh_status start_bucket(spsh__device_sum *d, uint32_t bucket, spsh_error *err)
{
    static const char *const names[] = {"bucket 0", "bucket 1", "bucket 2",  "bucket 3",
                                        "bucket 4", "bucket 5", "bucket 6",  "bucket 7",
                                        "bucket 8", "bucket 9", "bucket 10", "bucket 11"};
    const char *what =
        bucket < sizeof(names) / sizeof(names[0]) ? names[bucket] : "bucket 12 or later";
    const spsh__slice *b = &d->learner->buckets[bucket];
    const bool has_halves = d->halves.data != NULL;
    const spsh__backend_buffer values = spsh__at(d->ops, d->learner->gradients, b->offset);
    const uint64_t part = has_halves ? equal_part(d, b->count) : part_elements(d, b->count);
    const uint64_t parted = part * d->comm->world_size;
    spsh_status rc = spsh__collectives_behind(d->collectives, err);
    if (rc == SPSH_OK)
        rc = has_halves ? start_halves(d, values, part, what, err)
                        : start(d, SPSH__COLLECTIVE_SUM_PARTS, values, part, what, err);
    if (rc == SPSH_OK)
        rc = start(d, SPSH__COLLECTIVE_SUM, spsh__at(d->ops, values, parted), b->count - parted,
                   what, err);
    return rc;
}

/* ---- leaves ---- */

static bool is_last(const spsh__device_sum *d)
{
    return d->next_own + 1 == d->own_count;
}

/* Each leaf starts from the statistics of the step's beginning. After the last own leaf, the
 * statistics are the sum over own leaves, and their all-reduce starts. */
static spsh_status pass_statistics(spsh__device_sum *d, spsh_error *err)
{
    const spsh__learner *l = d->learner;
    const uint64_t count = l->statistics_elements;
    if (count == 0)
        return SPSH_OK;
    if (d->own_count > 1) {
        if (d->next_own == 0)
            d->ops->copy_fn(d->backend, d->sum, l->statistics, count);
        else
            d->ops->axpy_fn(d->backend, 1.0, l->statistics, d->sum, count);
        d->ops->copy_fn(d->backend, l->statistics, is_last(d) ? d->sum : d->before, count);
    }
    if (!is_last(d) || d->collectives == NULL)
        return SPSH_OK;
    const spsh_status rc = spsh__collectives_behind(d->collectives, err);
    return rc != SPSH_OK
               ? rc
               : start(d, SPSH__COLLECTIVE_SUM, l->statistics, count, "running statistics", err);
}

static spsh_status pass(spsh__device_sum *d, uint32_t bucket, spsh_error *err)
{
    spsh_status rc = bucket == 0 ? pass_statistics(d, err) : SPSH_OK;
    if (rc == SPSH_OK && is_last(d) && d->collectives != NULL)
        rc = start_bucket(d, bucket, err);
    d->next_bucket = bucket + 1;
    if (d->next_bucket == d->learner->bucket_count) {
        d->next_bucket = 0;
        d->next_own++;
    }
    return rc;
}

static spsh_status sum_begin(void *state, spsh_error *err)
{
    spsh__device_sum *d = state;
    const spsh__learner *l = d->learner;
    (void)err;
    d->ops->zero_fn(d->backend, l->gradients, l->arena_elements);
    if (l->statistics_elements > 0)
        d->ops->copy_fn(d->backend, d->before, l->statistics, l->statistics_elements);
    d->next_own = 0;
    d->next_bucket = 0;
    memset(d->present, 0, d->own_count * sizeof(*d->present));
    return SPSH_OK;
}

static spsh_status check_turn(const spsh__device_sum *d, uint32_t leaf, uint32_t bucket,
                              spsh_error *err)
{
    if (d->next_own < d->own_count && spsh__leaf_of(d->learner, d->next_own) == leaf &&
        d->next_bucket == bucket)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "bucket %u of micro-batch %u was completed out of order on rank %u", bucket,
                     leaf, d->comm->rank);
}

static spsh_status sum_bucket(void *state, uint32_t leaf, uint32_t bucket, spsh_error *err)
{
    spsh__device_sum *d = state;
    const spsh_status rc = check_turn(d, leaf, bucket, err);
    if (rc != SPSH_OK)
        return rc;
    d->present[d->next_own] = 1;
    return pass(d, bucket, err);
}

static spsh_status sum_skip(void *state, uint32_t leaf, spsh_error *err)
{
    spsh__device_sum *d = state;
    const spsh__learner *l = d->learner;
    spsh_status rc = check_turn(d, leaf, 0, err);
    if (rc == SPSH_OK && l->statistics_elements > 0)
        d->ops->zero_fn(d->backend, l->statistics, l->statistics_elements);
    for (uint32_t b = 0; rc == SPSH_OK && b < l->bucket_count; b++)
        rc = pass(d, b, err);
    return rc;
}

/* ---- end of a step ---- */

/* Sum over all leaves the rows, and the number of leaves that had a batch. */
static spsh_status share(spsh__device_sum *d, const double *rows, uint32_t count, spsh_error *err)
{
    const size_t width = (size_t)count + 1;
    spsh_error why = SPSH_ERROR_INIT;
    for (uint32_t own = 0; own < d->own_count; own++) {
        d->rows[own * width] = d->present[own];
        memcpy(d->rows + own * width + 1, rows + (size_t)own * count, count * sizeof(*rows));
    }
    spsh__fold_rows(d->rows, d->own_count, width);
    const spsh_status rc =
        spsh__comm_all_reduce(d->comm, SPSH__COMM_F64, SPSH__COMM_SUM, d->rows, width, &why);
    if (rc != SPSH_OK)
        spsh_error_set(err, rc, 0, SPSH_OFFSET_NONE,
                       "step %llu, sharing losses and counts: %.120s; this is rank %u of %u",
                       (unsigned long long)d->learner->step, why.message, d->comm->rank,
                       d->comm->world_size);
    return rc;
}

static spsh_status sum_end(void *state, const double *rows, double *totals, uint32_t count,
                           spsh_error *err)
{
    spsh__device_sum *d = state;
    const spsh__learner *l = d->learner;
    spsh_status rc = SPSH_OK;
    if (count > SPSH__SHARED_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%u shared numbers per micro-batch exceed the limit of %u", count,
                         SPSH__SHARED_MAX);
    while (rc == SPSH_OK && d->next_own < d->own_count)
        rc = sum_skip(d, spsh__leaf_of(l, d->next_own), err);
    if (rc == SPSH_OK)
        rc = share(d, rows, count, err);
    if (rc == SPSH_OK && d->collectives != NULL)
        rc = spsh__collectives_join(d->collectives, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(totals, d->rows + 1, count * sizeof(*totals));
    if (l->statistics_elements > 0 && d->rows[0] > 0)
        d->ops->scale_fn(d->backend, 1.0 / d->rows[0], l->statistics, l->statistics_elements);
    else if (l->statistics_elements > 0)
        d->ops->copy_fn(d->backend, l->statistics, d->before, l->statistics_elements);
    return SPSH_OK;
}

/* All ranks have the rest of a bucket, so only rank 0 counts it. */
static double square_own(const spsh__device_sum *d)
{
    const spsh__backend_buffer gradients = d->learner->gradients;
    double sum = 0;
    if (d->is_whole || d->comm->world_size == 1)
        return d->ops->square_sum_fn(d->backend, gradients, d->learner->arena_elements);
    for (uint32_t b = 0; b < d->learner->bucket_count; b++) {
        spsh__slice part = {0, 0}, rest = {0, 0};
        bucket_slices(d, b, &part, &rest);
        if (part.count > 0)
            sum += d->ops->square_sum_fn(d->backend, spsh__at(d->ops, gradients, part.offset),
                                         part.count);
        if (rest.count > 0 && d->comm->rank == 0)
            sum += d->ops->square_sum_fn(d->backend, spsh__at(d->ops, gradients, rest.offset),
                                         rest.count);
    }
    return sum;
}

/* With partitions, the norm needs the squares of other ranks, which pass through the host. */
static void sum_decide(void *state, const spsh__step_rule *rule, spsh__backend_buffer *ret)
{
    spsh__device_sum *d = state;
    const spsh__learner *l = d->learner;
    if (!d->is_whole && d->comm->world_size > 1)
        return;
    d->ops->decide_fn(d->backend, &(spsh__decide){.gradients = l->gradients,
                                                  .count = l->arena_elements,
                                                  .rule = *rule,
                                                  .decision = d->decision,
                                                  .ret_square_sum = &d->square_sum});
    d->is_decided = true;
    *ret = d->decision;
}

static spsh_status sum_squares(void *state, double *ret, spsh_error *err)
{
    spsh__device_sum *d = state;
    spsh_status rc = d->collectives == NULL ? SPSH_OK : spsh__collectives_wait(d->collectives, err);
    if (rc != SPSH_OK)
        return rc;
    if (d->is_decided) {
        spsh__backend_finish(d->backend);
        d->is_decided = false;
        *ret = d->square_sum;
        return SPSH_OK;
    }
    *ret = square_own(d);
    return d->is_whole
               ? SPSH_OK
               : spsh__comm_all_reduce(d->comm, SPSH__COMM_F64, SPSH__COMM_SUM, ret, 1, err);
}

/* ---- arenas ---- */

/* Wait for the started collectives, on the device and on the host. */
static spsh_status land(const spsh__device_sum *d, spsh_error *err)
{
    const spsh_status rc = spsh__collectives_join(d->collectives, err);
    return rc == SPSH_OK ? spsh__collectives_wait(d->collectives, err) : rc;
}

static spsh_status sum_gather(void *state, spsh__backend_buffer arena, spsh_error *err)
{
    spsh__device_sum *d = state;
    if (d->collectives == NULL)
        return SPSH_OK;
    spsh_status rc = spsh__collectives_behind(d->collectives, err);
    for (uint32_t b = 0; rc == SPSH_OK && b < d->learner->bucket_count; b++) {
        const spsh__slice *bucket = &d->learner->buckets[b];
        rc = start(d, SPSH__COLLECTIVE_GATHER_PARTS, spsh__at(d->ops, arena, bucket->offset),
                   part_elements(d, bucket->count), "gathering", err);
    }
    return rc == SPSH_OK ? land(d, err) : rc;
}

static spsh_status sum_share(void *state, spsh__backend_buffer values, uint64_t count,
                             spsh_error *err)
{
    spsh__device_sum *d = state;
    if (d->collectives == NULL)
        return SPSH_OK;
    spsh_status rc = spsh__collectives_behind(d->collectives, err);
    if (rc == SPSH_OK)
        rc = start(d, SPSH__COLLECTIVE_BROADCAST, values, count,
                   "sending the weights of rank 0 to all ranks", err);
    return rc == SPSH_OK ? land(d, err) : rc;
}

static spsh_status sum_align(void *state, spsh_error *err)
{
    spsh__device_sum *d = state;
    spsh__arena arenas[SPSH__ARENAS];
    if (d->collectives == NULL)
        return SPSH_OK;
    spsh__learner_arenas(d->learner, arenas);
    spsh_status rc = spsh__learner_check_sizes(d->learner, err);
    for (size_t i = 0; rc == SPSH_OK && i < SPSH__ARENAS; i++)
        if (arenas[i].buffer.data != NULL)
            rc = sum_share(d, arenas[i].buffer, arenas[i].elements, err);
    return rc;
}

/* Even index: this rank's part of a bucket. Odd index: the rest of the bucket, which all ranks
 * update. */
static bool sum_slice(const void *state, uint32_t index, spsh__slice *ret)
{
    const spsh__device_sum *d = state;
    spsh__slice part = {0, 0}, rest = {0, 0};
    if (index >= 2 * d->learner->bucket_count)
        return false;
    bucket_slices(d, index / 2, &part, &rest);
    *ret = index % 2 == 0 ? part : rest;
    return true;
}

/* ---- opening ---- */

static void sum_close(void *state)
{
    spsh__device_sum *d = state;
    if (d == NULL)
        return;
    spsh_allocator allocator = d->allocator;
    spsh__collectives_close(d->collectives);
    d->ops->free_fn(d->backend, d->before);
    d->ops->free_fn(d->backend, d->sum);
    d->ops->free_fn(d->backend, d->decision);
    d->ops->free_fn(d->backend, d->halves);
    spsh__free(&allocator, d->rows);
    spsh__free(&allocator, d->present);
    spsh__free(&allocator, d);
}

static const spsh__sum_ops sum_ops = {
    .align_fn = sum_align,
    .begin_fn = sum_begin,
    .bucket_fn = sum_bucket,
    .skip_fn = sum_skip,
    .end_fn = sum_end,
    .decide_fn = sum_decide,
    .squares_fn = sum_squares,
    .share_fn = sum_share,
    .slice_fn = sum_slice,
    .gather_fn = sum_gather,
    .close_fn = sum_close,
};

static spsh_status take_halves(spsh__device_sum *d, spsh_error *err)
{
    const spsh__learner *l = d->learner;
    uint64_t part = 0;
    if (l->sent_as == SPSH__FP32 || d->comm->world_size <= 1)
        return SPSH_OK;
    for (uint32_t b = 0; b < l->bucket_count; b++)
        if (equal_part(d, l->buckets[b].count) > part)
            part = equal_part(d, l->buckets[b].count);
    /* As many bytes as floats of one row. */
    const spsh_status rc =
        d->ops->alloc_fn(d->backend, d->comm->world_size * part + 1, &d->halves, err);
    d->halves.is_half = true;
    return rc;
}

spsh_status spsh__device_sum_open(spsh__learner *learner, bool is_whole,
                                  spsh__collectives *collectives, const spsh_allocator *allocator,
                                  spsh__sum *ret, spsh_error *err)
{
    const uint32_t own_count = spsh__leaf_count(learner);
    const uint64_t statistics = learner->statistics_elements;
    spsh__device_sum *d = spsh__new(allocator, 1, sizeof(*d));
    spsh_status rc = SPSH_OK;
    if (d == NULL) {
        spsh__collectives_close(collectives);
        return SPSH_NO_MEMORY(err);
    }
    *d = (spsh__device_sum){.allocator = *allocator,
                            .learner = learner,
                            .backend = learner->backend,
                            .ops = learner->backend->ops,
                            .comm = learner->comm,
                            .is_whole = is_whole,
                            .collectives = collectives,
                            .own_count = own_count};
    if (own_count == 0 || own_count > SPSH__LEAVES_MAX)
        rc = SPSH_FAIL(err, SPSH_E_LIMIT,
                       "rank %u has %u micro-batches per step; expected 1 to %u: lower "
                       "data.virtual_world, train.accumulate, or train.accumulate_max",
                       d->comm->rank, own_count, SPSH__LEAVES_MAX);
    if (rc == SPSH_OK) {
        d->rows = spsh__new(allocator, (size_t)own_count * (SPSH__SHARED_MAX + 1), sizeof(double));
        d->present = spsh__new(allocator, own_count, sizeof(*d->present));
        rc = d->rows == NULL || d->present == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    if (rc == SPSH_OK)
        rc = d->ops->alloc_fn(d->backend, statistics + 1, &d->before, err);
    if (rc == SPSH_OK)
        rc = d->ops->alloc_fn(d->backend, SPSH__DECISION_ELEMENTS, &d->decision, err);
    if (rc == SPSH_OK && own_count > 1)
        rc = d->ops->alloc_fn(d->backend, statistics + 1, &d->sum, err);
    if (rc == SPSH_OK)
        rc = take_halves(d, err);
    if (rc == SPSH_OK)
        *ret = (spsh__sum){&sum_ops, d};
    else
        sum_close(d);
    return rc;
}
