/* run_pipeline.c: a run in which each rank has one stage of the model (pipeline_parallel.h).
 *
 * All ranks receive all batches, as one process would. The last rank counts utterances and frames,
 * because it has the losses. A checkpoint holds the whole model, as with any other strategy: rank 0
 * gathers it. For an evaluation, each rank temporarily holds the weights of the whole model.
 */
#include <stdlib.h>

#include "run_internal.h"
#include "speechshard/inside.h"

enum { TAG_ARENA = 20020, PART_ELEMENTS = 1 << 18 };

/* ---- opening ---- */

static spsh_status on_loss(void *user, uint32_t micro_batch, spsh__model *model,
                           spsh__backend_buffer logits, spsh_error *err)
{
    spsh__run *r = (spsh__run *)user;
    (void)micro_batch, (void)err;
    spsh__loss_put(&r->loss, r->leaf.batch, model, logits, r->progress.loss_scale.scale);
    spsh__backend_finish(r->backend);
    spsh__loss_take(&r->loss, r->leaf.batch, r->rows.domain_count, r->leaf.row);
    return SPSH_OK;
}

static spsh_status on_bucket(void *user, uint32_t micro_batch, uint32_t bucket, spsh_error *err)
{
    const spsh__run *r = (const spsh__run *)user;
    return r->strategy->ops->on_bucket_fn(r->strategy, micro_batch, bucket, err);
}

static spsh_status on_skip(void *user, uint32_t micro_batch, spsh_error *err)
{
    const spsh__run *r = (const spsh__run *)user;
    return r->strategy->ops->skip_leaf_fn(r->strategy, micro_batch, err);
}

/* Read the cuts of train.stages. */
static spsh_status read_cuts(const spsh__config *c, uint32_t cuts[SPSH__MODEL_LAYERS_MAX + 2],
                             uint32_t *ret_count, spsh_error *err)
{
    uint32_t count = 0;
    for (; c->stages[count] != NULL; count++) {
        const char *at = c->stages[count];
        uint64_t number = 0;
        if (!spsh__take_digits(&at, UINT32_MAX, &number) || *at != '\0' ||
            count == SPSH__MODEL_LAYERS_MAX + 2)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "train.stages: '%.40s' is not a block number, or the list is too long",
                             c->stages[count]);
        cuts[count] = (uint32_t)number;
    }
    *ret_count = count;
    return SPSH_OK;
}

static void log_stages(const spsh__run *r)
{
    for (uint32_t s = 0; s < r->world->comm->world_size; s++) {
        const spsh__model_stage blocks = spsh__stages_blocks(r->model.stages, s);
        spsh__run_log(r, SPSH_LOG_INFO, "process %u has blocks %u to %u of %u", s, blocks.first,
                      blocks.end - 1, spsh__model_block_count(&r->model.shape));
    }
}

spsh_status spsh__run_open_stage(spsh__run *r, const spsh__model_limits *limits, spsh_error *err)
{
    uint32_t cuts[SPSH__MODEL_LAYERS_MAX + 2];
    uint32_t count = 0;
    spsh_status rc = read_cuts(r->setup.config, cuts, &count, err);
    const spsh__stages_options options = {.backend = r->backend,
                                          .comm = r->world->comm,
                                          .shape = &r->model.shape,
                                          .limits = limits,
                                          .cuts = count > 0 ? cuts : NULL,
                                          .cut_count = count,
                                          .loss_fn = on_loss,
                                          .bucket_fn = on_bucket,
                                          .skip_fn = on_skip,
                                          .user = r};
    if (rc == SPSH_OK)
        rc = spsh__stages_open(&options, &r->model.stages, err);
    if (rc != SPSH_OK)
        return rc;
    r->model.own = spsh__stages_model(r->model.stages);
    spsh__model_init(r->model.own, r->setup.config->seed);
    log_stages(r);
    return SPSH_OK;
}

spsh_status spsh__run_stage_learner(spsh__run *r, spsh_error *err)
{
    spsh__stages_learner(r->model.stages, &r->learner);
    const spsh_status rc = spsh__comm_self_open(spsh_allocator_default(), &r->model.own_comm, err);
    if (rc == SPSH_OK)
        r->learner.comm = r->model.own_comm;
    return rc;
}

void spsh__run_close_model(spsh__run_model *m)
{
    if (m->stages != NULL)
        spsh__stages_close(m->stages);
    else
        spsh__model_close(m->own);
    spsh__comm_close(m->own_comm);
    m->stages = NULL;
    m->own = NULL;
    m->own_comm = NULL;
}

const spsh__model *spsh__run_whole(const spsh__run_model *m)
{
    return m->stages != NULL ? spsh__stages_layout(m->stages) : m->own;
}

bool spsh__run_counts(const spsh__learner *l)
{
    return l->staged == NULL || l->staged->comm->rank + 1 == l->staged->comm->world_size;
}

/* ---- arenas ---- */

typedef struct arena {
    spsh__backend_buffer own;  /* slice of this stage */
    const spsh__slice *slices; /* slices of all stages */
    float *whole;              /* whole arena on rank 0; NULL: not used */
} arena;

enum { ARENAS = 4 };

static void list_arenas(const spsh__learner *l, const spsh__host_arenas *host, arena ret[ARENAS])
{
    ret[0] = (arena){l->weights, l->staged->stages, host->weights};
    ret[1] = (arena){l->moments[0], l->staged->stages, host->moments[0]};
    ret[2] = (arena){l->moments[1], l->staged->stages, host->moments[1]};
    ret[3] = (arena){l->statistics, l->staged->statistics, host->statistics};
}

static spsh_status pass(spsh__comm *c, uint32_t rank, bool is_in, float *values, uint64_t count,
                        spsh_error *err)
{
    const size_t bytes = (size_t)count * sizeof(*values);
    return is_in ? spsh__comm_receive(c, rank, TAG_ARENA, values, bytes, err)
                 : spsh__comm_send(c, rank, TAG_ARENA, values, bytes, err);
}

/* On a rank other than 0: move this stage's slice to or from rank 0, in parts. */
static spsh_status move_own(const spsh__learner *l, const arena *a, bool is_in, float *part,
                            spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    const uint64_t count = a->slices[l->staged->comm->rank].count;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i += PART_ELEMENTS) {
        const uint64_t n = count - i < PART_ELEMENTS ? count - i : PART_ELEMENTS;
        if (!is_in)
            ops->read_f32_fn(l->backend, part, spsh__at(ops, a->own, (size_t)i), (size_t)n);
        rc = pass(l->staged->comm, 0, is_in, part, n, err);
        if (rc == SPSH_OK && is_in)
            ops->write_f32_fn(l->backend, spsh__at(ops, a->own, (size_t)i), part, (size_t)n);
    }
    return rc;
}

/* On rank 0: copy its own slice, and then move the slices of all other ranks, one rank at a
 * time. */
static spsh_status move_all(const spsh__learner *l, const arena *a, bool is_in, spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    const spsh__slice *mine = &a->slices[0];
    spsh_status rc = SPSH_OK;
    if (is_in)
        ops->read_f32_fn(l->backend, a->whole + mine->offset, a->own, (size_t)mine->count);
    else
        ops->write_f32_fn(l->backend, a->own, a->whole + mine->offset, (size_t)mine->count);
    for (uint32_t rank = 1; rank < l->staged->comm->world_size; rank++) {
        const spsh__slice *slice = &a->slices[rank];
        for (uint64_t i = 0; rc == SPSH_OK && i < slice->count; i += PART_ELEMENTS) {
            const uint64_t left = slice->count - i;
            rc = pass(l->staged->comm, rank, is_in, a->whole + slice->offset + i,
                      left < PART_ELEMENTS ? left : PART_ELEMENTS, err);
        }
    }
    return rc;
}

static spsh_status move_arenas(const spsh__learner *l, const spsh__host_arenas *host,
                               bool is_gathered, spsh_error *err)
{
    arena arenas[ARENAS];
    float *part = calloc(PART_ELEMENTS, sizeof(*part));
    if (part == NULL)
        return SPSH_NO_MEMORY(err);
    list_arenas(l, host, arenas);
    spsh_status rc = SPSH_OK;
    for (int i = 0; rc == SPSH_OK && i < ARENAS; i++) {
        if (arenas[i].own.data == NULL)
            continue;
        rc = l->staged->comm->rank == 0 ? move_all(l, &arenas[i], is_gathered, err)
                                        : move_own(l, &arenas[i], !is_gathered, part, err);
    }
    free(part);
    return rc;
}

spsh_status spsh__run_gather_stages(const spsh__learner *l, const spsh__host_arenas *host,
                                    spsh_error *err)
{
    return move_arenas(l, host, true, err);
}

spsh_status spsh__run_scatter_stages(const spsh__learner *l, const spsh__host_arenas *host,
                                     spsh_error *err)
{
    return move_arenas(l, host, false, err);
}

/* ---- evaluation ---- */

/* On a device: broadcast `count` floats of `rank` through the host, in parts. */
static spsh_status share_through_host(const spsh__learner *l, uint32_t rank,
                                      spsh__backend_buffer values, size_t count, spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    const bool is_own = rank == l->staged->comm->rank;
    spsh_status rc = SPSH_OK;
    float *part = calloc(PART_ELEMENTS, sizeof(*part));
    if (part == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; rc == SPSH_OK && i < count; i += PART_ELEMENTS) {
        const size_t n = count - i < PART_ELEMENTS ? count - i : PART_ELEMENTS;
        if (is_own)
            ops->read_f32_fn(l->backend, part, spsh__at(ops, values, i), n);
        rc = spsh__comm_broadcast(l->staged->comm, part, n * sizeof(*part), rank, err);
        if (rc == SPSH_OK && !is_own)
            ops->write_f32_fn(l->backend, spsh__at(ops, values, i), part, n);
    }
    free(part);
    return rc;
}

/* Copy in the backend's element type, so that a reader's values are bit-identical to the stages'.
 */
static spsh_status share(const spsh__learner *l, const spsh__slice *slices,
                         spsh__backend_buffer own, spsh__backend_buffer whole, spsh_error *err)
{
    const spsh__backend_ops *ops = l->backend->ops;
    spsh_status rc = SPSH_OK;
    for (uint32_t rank = 0; rc == SPSH_OK && rank < l->staged->comm->world_size; rank++) {
        const spsh__backend_buffer to = spsh__at(ops, whole, (size_t)slices[rank].offset);
        const size_t count = (size_t)slices[rank].count;
        if (rank == l->staged->comm->rank)
            ops->copy_fn(l->backend, to, own, count);
        if (ops->stream_fn != NULL)
            rc = share_through_host(l, rank, to, count, err);
        else if (count > 0)
            rc = spsh__comm_broadcast(l->staged->comm, to.data, count * ops->element_bytes, rank,
                                      err);
    }
    return rc;
}

spsh_status spsh__run_share_stages(const spsh__learner *l, spsh__model *reader, spsh_error *err)
{
    uint64_t elements = 0;
    const spsh__backend_buffer statistics = spsh__model_statistics(reader, &elements);
    spsh_status rc = share(l, l->staged->stages, l->weights, spsh__model_weights(reader), err);
    if (rc == SPSH_OK)
        rc = share(l, l->staged->statistics, l->statistics, statistics, err);
    if (rc == SPSH_OK)
        spsh__model_weights_changed(reader);
    return rc;
}
