/* strategy_pipeline.c: stages of one model: each learner owns a slice of the arena, whose gradients
 * it sums and which it updates.
 *
 *     stage s:  w_s <- w_s - rate * U(sum over leaves of gradients of w_s)
 *
 * The stages exchange only the totals, which the last stage has, and the gradient's norm. The norm
 * is a sum over blocks of the whole arena, as in gradient_sum.h. If a block crosses a cut, the
 * stage where it begins collects it, so the sum has the bits of an undivided model.
 */
#include "speechshard/inside.h"
#include "strategy_internal.h"

enum { TAG_BLOCK = 20010 };

static spsh_status pipeline_start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    if (l->staged == NULL || l->comm->world_size != 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.strategy pipeline: the learner has no stage of a model");
    return spsh__strategy_sum_start(s, l, true, err);
}

/* Only the last stage has losses, but any stage can set a flag, so sum the totals over all
 * stages. */
static spsh_status pipeline_after_backward(spsh__strategy *s, const double *rows, double *totals,
                                           uint32_t count, spsh_error *err)
{
    const spsh_status rc = spsh__strategy_sum_after_backward(s, rows, totals, count, err);
    return rc != SPSH_OK ? rc
                         : spsh__comm_all_reduce(s->learner->staged->comm, SPSH__COMM_F64,
                                                 SPSH__COMM_SUM, totals, count, err);
}

/* Intersection of a stage and a block. */
static spsh__slice part_of(const spsh__slice *stage, const spsh__slice *block)
{
    const uint64_t stage_end = stage->offset + stage->count, end = block->offset + block->count;
    const uint64_t first = stage->offset > block->offset ? stage->offset : block->offset;
    const uint64_t last = stage_end < end ? stage_end : end;
    return (spsh__slice){first, last > first ? last - first : 0};
}

/* Address of a part in a buffer. first: position of the buffer in the whole arena. */
static spsh__backend_buffer at(const spsh__learner *l, spsh__backend_buffer buffer, uint64_t first,
                               const spsh__slice *part)
{
    return spsh__at(l->backend->ops, buffer, (size_t)(part->offset - first));
}

/* Memory for one block. */
typedef struct scratch {
    spsh__backend_buffer block; /* with parts of other stages */
    float *values;              /* parts of a device, as messages; NULL: on the host */
} scratch;

static spsh_status open_scratch(const spsh__learner *l, scratch *ret, spsh_error *err)
{
    if (l->backend->ops->stream_fn != NULL) {
        ret->values = spsh__new(&l->backend->allocator, SPSH__BLOCK_ELEMENTS, sizeof(float));
        if (ret->values == NULL)
            return SPSH_NO_MEMORY(err);
    }
    return l->backend->ops->alloc_fn(l->backend, SPSH__BLOCK_ELEMENTS, &ret->block, err);
}

static void close_scratch(const spsh__learner *l, const scratch *s)
{
    l->backend->ops->free_fn(l->backend, s->block);
    spsh__free(&l->backend->allocator, s->values);
}

static spsh_status send_part(const spsh__learner *l, uint32_t rank, const scratch *s,
                             spsh__backend_buffer part, uint64_t count, spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    if (s->values != NULL)
        ops->read_f32_fn(l->backend, s->values, part, (size_t)count);
    return spsh__comm_send(l->staged->comm, rank, TAG_BLOCK,
                           s->values != NULL ? s->values : part.data,
                           (size_t)count * ops->element_bytes, err);
}

static spsh_status receive_part(const spsh__learner *l, uint32_t rank, const scratch *s,
                                spsh__backend_buffer part, uint64_t count, spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    const spsh_status rc = spsh__comm_receive(l->staged->comm, rank, TAG_BLOCK,
                                              s->values != NULL ? s->values : part.data,
                                              (size_t)count * ops->element_bytes, err);
    if (rc == SPSH_OK && s->values != NULL)
        ops->write_f32_fn(l->backend, part, s->values, (size_t)count);
    return rc;
}

/* Square a block that begins in this stage. */
static spsh_status square_block(const spsh__learner *l, const spsh__slice *block, const scratch *s,
                                double *ret, spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    const spsh__slice *stages = l->staged->stages;
    const uint32_t own = l->staged->comm->rank;
    const spsh__slice mine = part_of(&stages[own], block);
    const spsh__backend_buffer here = at(l, l->gradients, stages[own].offset, &mine);
    spsh_status rc = SPSH_OK;
    if (mine.count == block->count) {
        *ret = ops->square_sum_fn(l->backend, here, (size_t)block->count);
        return SPSH_OK;
    }
    ops->copy_fn(l->backend, at(l, s->block, block->offset, &mine), here, (size_t)mine.count);
    for (uint32_t r = own; rc == SPSH_OK && r-- > 0;) { /* earlier stages have the rest of the
                                                           block */
        const spsh__slice part = part_of(&stages[r], block);
        if (part.count > 0)
            rc = receive_part(l, r, s, at(l, s->block, block->offset, &part), part.count, err);
    }
    *ret = ops->square_sum_fn(l->backend, s->block, (size_t)block->count);
    return rc;
}

/* Ranks send blocks only in one direction, so that no two ranks wait for each other. */
static spsh_status take_block(const spsh__learner *l, const spsh__slice *block, const scratch *s,
                              double *ret, spsh_error *err)
{
    const spsh__slice *stages = l->staged->stages;
    const uint32_t own = l->staged->comm->rank;
    const spsh__slice mine = part_of(&stages[own], block);
    uint32_t owner = l->staged->comm->world_size - 1;
    while (block->offset >= stages[owner].offset + stages[owner].count)
        owner--;
    if (owner == own)
        return square_block(l, block, s, ret, err);
    if (mine.count == 0)
        return SPSH_OK;
    return send_part(l, owner, s, at(l, l->gradients, stages[own].offset, &mine), mine.count, err);
}

static uint64_t block_count_of(const spsh__staged *staged)
{
    uint64_t count = 0;
    for (uint32_t b = 0; b < staged->bucket_count; b++)
        count += (staged->buckets[b].count + SPSH__BLOCK_ELEMENTS - 1) / SPSH__BLOCK_ELEMENTS;
    return count;
}

static spsh_status take_blocks(const spsh__learner *l, const scratch *s, double *squares,
                               spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t b = 0; b < l->staged->bucket_count; b++) {
        const spsh__slice *bucket = &l->staged->buckets[b];
        for (uint64_t i = 0; rc == SPSH_OK && i < bucket->count; i += SPSH__BLOCK_ELEMENTS) {
            const uint64_t left = bucket->count - i;
            const spsh__slice block = {bucket->offset + i,
                                       left < SPSH__BLOCK_ELEMENTS ? left : SPSH__BLOCK_ELEMENTS};
            rc = take_block(l, &block, s, squares++, err);
        }
    }
    return rc;
}

static spsh_status pipeline_square_sum(spsh__strategy *s, double *ret, spsh_error *err)
{
    const spsh__learner *l = s->learner;
    const uint64_t count = block_count_of(l->staged);
    scratch one = {
        {NULL, false},
        NULL
    };
    double *squares = spsh__new(&s->allocator, count, sizeof(*squares));
    if (squares == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = open_scratch(l, &one, err);
    if (rc == SPSH_OK)
        rc = take_blocks(l, &one, squares, err);
    if (rc == SPSH_OK) /* all ranks except one have 0 */
        rc = spsh__comm_all_reduce(l->staged->comm, SPSH__COMM_F64, SPSH__COMM_SUM, squares,
                                   (size_t)count, err);
    double sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += squares[i];
    *ret = sum;
    close_scratch(l, &one);
    spsh__free(&s->allocator, squares);
    return rc;
}

const spsh__strategy_ops spsh__strategy_pipeline = {
    .name = "pipeline",
    .start_fn = pipeline_start,
    .before_forward_fn = spsh__strategy_sum_before_forward,
    .on_bucket_fn = spsh__strategy_sum_on_bucket,
    .skip_leaf_fn = spsh__strategy_sum_skip_leaf,
    .after_backward_fn = pipeline_after_backward,
    .square_sum_fn = pipeline_square_sum,
    .slice_fn = spsh__strategy_whole_slice,
    .after_step_fn = spsh__strategy_own_nothing,
    .gather_fn = spsh__strategy_own_nothing,
    .close_fn = spsh__strategy_sum_close,
};
