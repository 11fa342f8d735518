/* pipeline_parallel.c: see pipeline_parallel.h.
 *
 * A context holds one micro-batch in flight: an instance of the stage's model (activations), and
 * the gradients that the next stage returns. A stage has one context per slot of its window, and
 * uses them in turn.
 *
 * On a device, messages are in pinned memory. Copies to and from it are on the stream of the
 * backend, in the order of the operators:
 *
 *     activations | gradients received -> copy -> forward | backward -> copy -> event -> sent
 *
 * The host waits for the event before it sends. A message that was received may be overwritten once
 * the host has waited for later work: each forward pass ends with such a wait, for its activations
 * or for its losses. So `in` is free at the next receive, and so are the gradients of a context.
 */
#include "pipeline_parallel.h"

#include <stdlib.h>

#include "pipeline_schedule.h"
#include "speechshard/cuda_plugin.h"
#include "speechshard/inside.h"

enum { TAG_ACTIVATIONS = 20000, TAG_GRADIENTS, BLOCKS_MAX = SPSH__MODEL_LAYERS_MAX + 2 };

typedef struct context {
    spsh__model *model;
    spsh__backend_buffer statistics;  /* from the forward pass of this micro-batch */
    spsh__backend_buffer gradients;   /* message from the next stage, of the output sent there */
    spsh__backend_buffer activations; /* message to the next stage, on a device */
    spsh__comm_handle sent, coming;
    size_t out_elements; /* in the current batch */
    uint32_t in_rows;
} context;

typedef struct entry { /* a micro-batch of the step */
    uint32_t micro_batch;
    bool is_empty;
} entry;

struct spsh__stages {
    spsh__stages_options o;
    spsh__backend *backend;
    const spsh__backend_ops *ops;
    spsh__comm *comm;
    bool is_last, is_device;
    void *down; /* event of a device: after the last copy to the host */
    spsh__model *layout;
    spsh__model_stage blocks[BLOCKS_MAX]; /* blocks of each stage */
    spsh__slice arenas[BLOCKS_MAX], statistics[BLOCKS_MAX];
    spsh__slice *buckets, *whole_buckets;
    spsh__staged staged;
    context contexts[BLOCKS_MAX];
    uint32_t window;
    uint32_t *out_lengths;
    spsh__backend_buffer statistics_before, own_statistics;
    uint64_t statistics_elements;
    spsh__backend_buffer in;     /* message: activations that come in */
    spsh__backend_buffer out[2]; /* messages: gradients that go out, by turns */
    spsh__comm_handle out_sent[2];
    entry entries[SPSH__LEAVES_MAX];
    uint32_t entry_count,
        entry_next; /* micro-batches of the step; first micro-batch that is not done */
    uint32_t forwards, backwards;
    uint32_t micro_batch; /* in backward */
    spsh_status bucket_status;
    spsh_error bucket_error;
};

/* ---- opening ---- */

static spsh_status find_cuts(spsh__stages *p, uint32_t *firsts, spsh_error *err)
{
    const uint32_t blocks = spsh__model_block_count(p->o.shape);
    const uint32_t stages = p->comm->world_size;
    double works[BLOCKS_MAX] = {0};
    spsh_status rc = SPSH_OK;
    if (p->o.cuts != NULL) {
        rc = spsh__stages_check_cuts(p->o.cuts, p->o.cut_count, stages, blocks, err);
        for (uint32_t s = 1; rc == SPSH_OK && s < stages; s++)
            firsts[s] = p->o.cuts[s - 1];
        return rc;
    }
    for (uint32_t b = 0; rc == SPSH_OK && b < blocks; b++) {
        spsh__model *block = NULL;
        rc = spsh__model_open_layout(p->backend, p->o.shape, &(spsh__model_stage){b, b + 1}, &block,
                                     err);
        works[b] = rc == SPSH_OK ? spsh__model_work(block) : 0;
        spsh__model_close(block);
    }
    return rc != SPSH_OK ? rc : spsh__stages_balance(works, blocks, stages, firsts, err);
}

/* The last stage's arena is the first part of the whole one. */
static spsh_status find_places(spsh__stages *p, spsh_error *err)
{
    const uint32_t stages = p->comm->world_size;
    uint32_t firsts[BLOCKS_MAX] = {0};
    uint64_t arena = 0, statistics = 0;
    uint32_t end = spsh__model_block_count(p->o.shape);
    spsh_status rc = find_cuts(p, firsts, err);
    for (uint32_t s = stages; rc == SPSH_OK && s-- > 0;) {
        spsh__model *stage = NULL;
        p->blocks[s] = (spsh__model_stage){firsts[s], end};
        rc = spsh__model_open_layout(p->backend, p->o.shape, &p->blocks[s], &stage, err);
        if (rc != SPSH_OK)
            break;
        p->arenas[s] = (spsh__slice){arena, spsh__model_arena_elements(stage)};
        p->statistics[s].offset = statistics;
        (void)spsh__model_statistics(stage, &p->statistics[s].count);
        arena += p->arenas[s].count;
        statistics += p->statistics[s].count;
        end = firsts[s];
        spsh__model_close(stage);
    }
    if (rc == SPSH_OK)
        rc = spsh__model_open_layout(p->backend, p->o.shape, &(spsh__model_stage){0, 0}, &p->layout,
                                     err);
    return rc;
}

static spsh_status take(const spsh__stages *p, uint64_t elements, spsh__backend_buffer *ret,
                        spsh_error *err)
{
    return p->ops->alloc_fn(p->backend, (size_t)elements + 1, ret, err);
}

static size_t bytes_of(const spsh__stages *p, spsh__backend_buffer buffer, size_t elements)
{
    return elements * (buffer.is_half ? sizeof(uint16_t) : p->ops->element_bytes);
}

/* Allocate host memory for a message. Values between layers have 16 bits if the backend does. */
static spsh_status take_message(const spsh__stages *p, uint64_t elements, spsh__backend_buffer *ret,
                                spsh_error *err)
{
    spsh__backend_buffer message = {NULL, p->backend->has_half};
    if (!p->is_device)
        return take(p, elements, ret, err);
    const spsh_status rc = spsh_cuda_host_alloc(
        p->backend->cuda, bytes_of(p, message, (size_t)elements + 1), &message.data, err);
    if (rc == SPSH_OK)
        *ret = message;
    return rc;
}

static void free_message(const spsh__stages *p, spsh__backend_buffer message)
{
    if (p->is_device)
        spsh_cuda_host_free(p->backend->cuda, message.data);
    else
        p->ops->free_fn(p->backend, message);
}

static spsh_status open_context(spsh__stages *p, context *c, spsh_error *err)
{
    const uint32_t stage = p->comm->rank;
    const spsh__model *lender = c == p->contexts ? NULL : p->contexts[0].model;
    spsh_status rc = spsh__model_open_stage(p->backend, p->o.shape, p->o.limits, &p->blocks[stage],
                                            lender, &c->model, err);
    if (rc == SPSH_OK)
        rc = take(p, p->statistics[stage].count, &c->statistics, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t out = spsh__model_out_rows_max(c->model) * spsh__model_stage_out_width(c->model);
    if (!p->is_last)
        rc = take_message(p, out, &c->gradients, err);
    if (rc == SPSH_OK && !p->is_last && p->is_device)
        rc = take_message(p, out, &c->activations, err);
    if (rc == SPSH_OK)
        spsh__model_divert_statistics(c->model, c->statistics);
    return rc;
}

static spsh_status open_memory(spsh__stages *p, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    p->out_lengths =
        spsh__new(&p->backend->allocator, p->o.limits->batch_max, sizeof(*p->out_lengths));
    if (p->out_lengths == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; rc == SPSH_OK && i < p->window; i++)
        rc = open_context(p, &p->contexts[i], err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__model *m = p->contexts[0].model;
    const uint64_t in =
        p->comm->rank == 0 ? 0 : spsh__model_out_rows_max(m) * spsh__model_stage_in_width(m);
    p->own_statistics = spsh__model_statistics(m, &p->statistics_elements);
    rc = take(p, p->statistics_elements, &p->statistics_before, err);
    if (rc == SPSH_OK)
        rc = take_message(p, in, &p->in, err);
    for (int i = 0; rc == SPSH_OK && i < 2; i++)
        rc = take_message(p, in, &p->out[i], err);
    if (rc == SPSH_OK && p->is_device)
        rc = spsh_cuda_event_open(p->backend->cuda, p->backend->device, 0, &p->down, err);
    return rc;
}

static spsh_status open_buckets(spsh__stages *p, spsh_error *err)
{
    p->buckets = spsh__learner_list_buckets(p->contexts[0].model);
    p->whole_buckets = spsh__learner_list_buckets(p->layout);
    p->staged = (spsh__staged){.comm = p->comm,
                               .stages = p->arenas,
                               .statistics = p->statistics,
                               .buckets = p->whole_buckets,
                               .bucket_count = spsh__model_bucket_count(p->layout)};
    return p->buckets != NULL && p->whole_buckets != NULL ? SPSH_OK : SPSH_NO_MEMORY(err);
}

spsh_status spsh__stages_open(const spsh__stages_options *options, spsh__stages **ret,
                              spsh_error *err)
{
    spsh__backend *backend = options->backend;
    spsh__stages *p = spsh__new(&backend->allocator, 1, sizeof(*p));
    if (p == NULL)
        return SPSH_NO_MEMORY(err);
    *p = (spsh__stages){
        .o = *options, .backend = backend, .ops = backend->ops, .comm = options->comm};
    p->is_last = p->comm->rank + 1 == p->comm->world_size;
    p->is_device = backend->ops->stream_fn != NULL;
    spsh_status rc = find_places(p, err);
    if (rc == SPSH_OK)
        p->window = spsh__stages_window(p->comm->rank, p->comm->world_size);
    if (rc == SPSH_OK)
        rc = open_memory(p, err);
    if (rc == SPSH_OK)
        rc = open_buckets(p, err);
    p->o.shape = NULL;
    p->o.limits = NULL;
    p->o.cuts = NULL;
    if (rc != SPSH_OK)
        spsh__stages_close(p);
    else
        *ret = p;
    return rc;
}

void spsh__stages_close(spsh__stages *p)
{
    if (p == NULL)
        return;
    const spsh_allocator allocator = p->backend->allocator;
    if (p->is_device) /* after a failure, copies of messages may be in flight */
        (void)spsh_cuda_plugin_of(p->backend->cuda)
            ->synchronize_fn(p->ops->stream_fn(p->backend), NULL);
    for (uint32_t i = p->window; i-- > 0;) {
        spsh__model_close(p->contexts[i].model);
        p->ops->free_fn(p->backend, p->contexts[i].statistics);
        free_message(p, p->contexts[i].gradients);
        free_message(p, p->contexts[i].activations);
    }
    spsh__model_close(p->layout);
    free(p->buckets);
    free(p->whole_buckets);
    p->ops->free_fn(p->backend, p->statistics_before);
    free_message(p, p->in);
    free_message(p, p->out[0]);
    free_message(p, p->out[1]);
    if (p->is_device)
        spsh_cuda_event_close(p->backend->cuda, p->down);
    spsh__free(&allocator, p->out_lengths);
    spsh__free(&allocator, p);
}

spsh__model *spsh__stages_model(const spsh__stages *p)
{
    return p->contexts[0].model;
}

spsh__model_stage spsh__stages_blocks(const spsh__stages *p, uint32_t stage)
{
    return p->blocks[stage];
}

void spsh__stages_learner(const spsh__stages *p, spsh__learner *l)
{
    const spsh__model *m = p->contexts[0].model;
    l->backend = p->backend;
    l->weights = spsh__model_weights(m);
    l->gradients = spsh__model_gradients(m);
    l->arena_elements = spsh__model_arena_elements(m);
    l->statistics = spsh__model_statistics(m, &l->statistics_elements);
    l->buckets = p->buckets;
    l->bucket_count = spsh__model_bucket_count(m);
    l->staged = &p->staged;
}

const spsh__model *spsh__stages_layout(const spsh__stages *p)
{
    return p->layout;
}

/* ---- messages ---- */

static spsh_status wait_for(spsh__stages *p, spsh__comm_handle *handle, spsh_error *err)
{
    if (*handle == 0)
        return SPSH_OK;
    const spsh_status rc = p->comm->ops->wait_fn(p->comm, *handle, p->comm->deadline_ms, err);
    *handle = 0;
    return rc;
}

/* Rows of a batch between stages, with its padding. */
static size_t rows_of(const spsh__stages *p, const spsh__model_batch *b)
{
    const spsh__model *m = p->contexts[0].model;
    return (size_t)spsh__model_padded_batch(m, b->batch) * spsh__model_out_frames(m, b->frames);
}

/* Copy to a message, and wait for the copy: the message may then be sent. */
static spsh_status put_down(const spsh__stages *p, spsh__backend_buffer message,
                            spsh__backend_buffer from, size_t elements, spsh_error *err)
{
    const spsh_cuda *cuda = p->backend->cuda;
    if (!p->is_device) {
        p->ops->copy_fn(p->backend, message, from, elements);
        return SPSH_OK;
    }
    void *stream = p->ops->stream_fn(p->backend);
    spsh_status rc =
        spsh_cuda_copy(cuda, message.data, from.data, bytes_of(p, from, elements), stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(cuda, p->down, stream, err);
    return rc != SPSH_OK ? rc : spsh_cuda_event_synchronize(cuda, p->down, err);
}

/* Copy from a message, before later operators. */
static spsh_status put_up(const spsh__stages *p, spsh__backend_buffer to,
                          spsh__backend_buffer message, size_t elements, spsh_error *err)
{
    if (p->is_device)
        return spsh_cuda_copy(p->backend->cuda, to.data, message.data, bytes_of(p, to, elements),
                              p->ops->stream_fn(p->backend), err);
    p->ops->copy_fn(p->backend, to, message, elements);
    return SPSH_OK;
}

/* ---- a micro-batch ---- */

static void on_bucket(void *user, uint32_t bucket)
{
    spsh__stages *p = (spsh__stages *)user;
    if (p->bucket_status == SPSH_OK)
        p->bucket_status = p->o.bucket_fn(p->o.user, p->micro_batch, bucket, &p->bucket_error);
}

/* Send the gradients of the stage's input. They are copied from scratch to a separate buffer, so
 * that the next backward pass may start. */
static spsh_status send_back(spsh__stages *p, const context *c, spsh_error *err)
{
    const uint32_t turn = p->backwards % 2;
    const size_t elements = (size_t)c->in_rows * spsh__model_stage_in_width(c->model);
    spsh_status rc = wait_for(p, &p->out_sent[turn], err);
    if (rc == SPSH_OK)
        rc = put_down(p, p->out[turn], spsh__model_stage_in_gradients(c->model), elements, err);
    return rc != SPSH_OK
               ? rc
               : p->comm->ops->send_fn(p->comm, p->comm->rank - 1, TAG_GRADIENTS, p->out[turn].data,
                                       bytes_of(p, p->out[turn], elements), &p->out_sent[turn],
                                       err);
}

static spsh_status go_back(spsh__stages *p, spsh_error *err)
{
    context *c = &p->contexts[p->backwards % p->window];
    const spsh__backend_buffer gradients = spsh__model_stage_out_gradients(c->model);
    spsh_status rc = wait_for(p, &c->coming, err);
    if (rc == SPSH_OK && !p->is_last)
        rc = put_up(p, gradients, c->gradients, c->out_elements, err);
    if (rc != SPSH_OK)
        return rc;
    if (p->window > 1)
        spsh__model_resume(c->model);
    p->ops->copy_fn(p->backend, p->own_statistics, c->statistics, p->statistics_elements);
    p->micro_batch = p->entries[p->entry_next++].micro_batch;
    spsh__model_backward(c->model, gradients, on_bucket, p);
    rc = spsh__fail_again(p->bucket_status, &p->bucket_error, err);
    if (rc == SPSH_OK && p->comm->rank > 0)
        rc = send_back(p, c, err);
    p->backwards++;
    return rc;
}

/* Empty micro-batches come when it is their turn. */
static spsh_status skip_empty(spsh__stages *p, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && p->entry_next < p->entry_count && p->entries[p->entry_next].is_empty)
        rc = p->o.skip_fn(p->o.user, p->entries[p->entry_next++].micro_batch, err);
    return rc;
}

/* Run the backward passes that are due before the next micro-batch; after the last, all of them. */
static spsh_status take_back(spsh__stages *p, bool has_more, spsh_error *err)
{
    spsh_status rc = skip_empty(p, err);
    while (rc == SPSH_OK && spsh__stages_next(p->window, p->forwards, p->backwards, has_more) ==
                                SPSH__STAGES_BACKWARD) {
        rc = go_back(p, err);
        if (rc == SPSH_OK)
            rc = skip_empty(p, err);
    }
    return rc;
}

/* Send activations to the next stage, and post the receive of their gradients. */
static spsh_status send_on(spsh__stages *p, context *c, spsh__backend_buffer out, spsh_error *err)
{
    const uint32_t next = p->comm->rank + 1;
    const spsh__backend_buffer message = p->is_device ? c->activations : out;
    const size_t bytes = bytes_of(p, message, c->out_elements);
    spsh_status rc = p->is_device ? put_down(p, message, out, c->out_elements, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = p->comm->ops->receive_fn(p->comm, next, TAG_GRADIENTS, c->gradients.data, bytes,
                                      &c->coming, err);
    return rc != SPSH_OK ? rc
                         : p->comm->ops->send_fn(p->comm, next, TAG_ACTIVATIONS, message.data,
                                                 bytes, &c->sent, err);
}

static spsh_status go_forward(spsh__stages *p, uint32_t micro_batch, const spsh__model_batch *batch,
                              spsh_error *err)
{
    context *c = &p->contexts[p->forwards % p->window];
    const size_t rows = rows_of(p, batch);
    spsh__backend_buffer out = {NULL, false};
    spsh_status rc = wait_for(p, &c->sent, err);
    if (rc == SPSH_OK && p->comm->rank > 0)
        rc = put_up(p, spsh__model_stage_in(c->model), p->in,
                    rows * spsh__model_stage_in_width(c->model), err);
    if (rc != SPSH_OK)
        return rc;
    p->ops->copy_fn(p->backend, c->statistics, p->statistics_before, p->statistics_elements);
    rc = spsh__model_forward(c->model, batch, true, &out, p->out_lengths, err);
    if (rc != SPSH_OK)
        return rc;
    c->in_rows = (uint32_t)rows;
    c->out_elements = rows * spsh__model_stage_out_width(c->model);
    p->forwards++;
    return p->is_last ? p->o.loss_fn(p->o.user, micro_batch, c->model, out, err)
                      : send_on(p, c, out, err);
}

/* ---- a step ---- */

void spsh__stages_begin(spsh__stages *p)
{
    p->entry_count = p->entry_next = 0;
    p->forwards = p->backwards = 0;
    p->bucket_status = SPSH_OK;
    p->ops->copy_fn(p->backend, p->statistics_before, p->own_statistics, p->statistics_elements);
}

static spsh_status note(spsh__stages *p, uint32_t micro_batch, bool is_empty, spsh_error *err)
{
    if (p->entry_count == SPSH__LEAVES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a step has more than %u micro-batches",
                         SPSH__LEAVES_MAX);
    p->entries[p->entry_count++] = (entry){micro_batch, is_empty};
    return SPSH_OK;
}

spsh_status spsh__stages_put(spsh__stages *p, uint32_t micro_batch, const spsh__model_batch *batch,
                             spsh_error *err)
{
    spsh__comm_handle coming = 0;
    spsh_status rc = SPSH_OK;
    if (batch == NULL) {
        rc = note(p, micro_batch, true, err);
        return rc != SPSH_OK ? rc : skip_empty(p, err);
    }
    if (p->comm->rank > 0) {
        const size_t elements =
            rows_of(p, batch) * spsh__model_stage_in_width(p->contexts[0].model);
        rc = p->comm->ops->receive_fn(p->comm, p->comm->rank - 1, TAG_ACTIVATIONS, p->in.data,
                                      bytes_of(p, p->in, elements), &coming, err);
    }
    if (rc == SPSH_OK)
        rc = take_back(p, true, err);
    if (rc == SPSH_OK)
        rc = wait_for(p, &coming, err);
    if (rc == SPSH_OK)
        rc = note(p, micro_batch, false, err);
    return rc != SPSH_OK ? rc : go_forward(p, micro_batch, batch, err);
}

/* Wait until all messages are sent: the next step overwrites the memory of the contexts. */
spsh_status spsh__stages_end(spsh__stages *p, spsh_error *err)
{
    spsh_status rc = take_back(p, false, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < p->window; i++)
        rc = wait_for(p, &p->contexts[i].sent, err);
    for (int i = 0; rc == SPSH_OK && i < 2; i++)
        rc = wait_for(p, &p->out_sent[i], err);
    return rc != SPSH_OK ? rc : p->ops->status_fn(p->backend, err);
}
