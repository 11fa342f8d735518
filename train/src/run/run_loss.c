/* run_loss.c: see run_loss.h. */
#include "run_loss.h"

#include <stdlib.h>

#include "run_rows.h"
#include "speechshard/inside.h"

spsh_status spsh__loss_open(const spsh__batch_loss_options *o, spsh__batch_loss *ret,
                            spsh_error *err)
{
    const spsh__model_limits limits = spsh__feed_limits(o->feed);
    ret->backend = o->backend;
    ret->outputs = o->vocabulary != NULL ? spsh__vocabulary_size(o->vocabulary) : o->states;
    ret->results = calloc(SPSH__FEED_BATCH_MAX, sizeof(*ret->results));
    ret->out_lengths = calloc(limits.batch_max, sizeof(*ret->out_lengths));
    if (ret->results == NULL || ret->out_lengths == NULL)
        return SPSH_NO_MEMORY(err);
    if (o->vocabulary != NULL)
        return SPSH_OK;
    return spsh__frame_cutter_open(&limits, spsh__feed_dim(o->feed), o->chunk_frames, &ret->cutter,
                                   err);
}

void spsh__loss_close(spsh__batch_loss *l)
{
    spsh__frame_cutter_close(l->cutter);
    free(l->results);
    free(l->out_lengths);
}

spsh__model_batch spsh__loss_begin(spsh__batch_loss *l, const spsh__feed_batch *b)
{
    if (l->cutter == NULL)
        return spsh__feed_for_model(b);
    l->cut = spsh__frame_cut(l->cutter, b);
    return l->cut->batch;
}

uint32_t *spsh__loss_out_lengths(const spsh__batch_loss *l)
{
    return l->cut != NULL ? l->cut->out_lengths : l->out_lengths;
}

/* ---- transcripts ---- */

static void put_texts(const spsh__batch_loss *l, const spsh__feed_batch *b, spsh__model *m,
                      spsh__backend_buffer logits, double scale)
{
    const spsh__ctc_shape shape = {spsh__model_out_frames(m, b->frames),
                                   spsh__model_padded_batch(m, b->batch), l->outputs,
                                   SPSH__VOCABULARY_BLANK, scale};
    const spsh__label_batch labels = {b->labels, b->label_offsets};
    const spsh__ctc_io io = {logits, spsh__model_logit_gradients(m), b->weights, l->results};
    l->backend->ops->ctc_fn(l->backend, &shape, spsh__model_out_lengths(m), &labels, &io);
}

static void take_texts(const spsh__batch_loss *l, const spsh__feed_batch *b, uint32_t domain_count,
                       double *row)
{
    for (uint32_t n = 0; n < b->batch; n++) {
        const double loss[3] = {l->results[n].loss, 1, 1};
        if (b->weights[n] <= 0)
            continue;
        if (l->results[n].is_infeasible)
            row[SPSH__ROW_INFEASIBLE]++;
        else
            spsh__row_add_loss(row, domain_count, b->domains[n], loss);
    }
}

/* ---- frames ---- */

static void put_frames(spsh__batch_loss *l, spsh__model *m, spsh__backend_buffer logits,
                       double scale)
{
    const spsh__frame_batch *cut = l->cut;
    l->entropy = (spsh__cross_entropy){.rows = (size_t)cut->batch.batch * cut->batch.frames,
                                       .width = l->outputs,
                                       .states = cut->states,
                                       .scale = scale,
                                       .logits = logits,
                                       .dlogits = spsh__model_logit_gradients(m),
                                       .row_losses = cut->row_losses};
    l->backend->ops->cross_entropy_fn(l->backend, &l->entropy);
}

static void take_frames(const spsh__batch_loss *l, const spsh__feed_batch *b, uint32_t domain_count,
                        double *row)
{
    const spsh__frame_batch *cut = l->cut;
    const size_t chunks = cut->batch.batch;
    for (size_t i = 0; i < l->entropy.rows; i++) {
        const double loss[3] = {cut->row_losses[i], 1, 0};
        if (cut->states[i] != UINT32_MAX)
            spsh__row_add_loss(row, domain_count, b->domains[cut->owners[i % chunks]], loss);
    }
    for (uint32_t n = 0; n < b->batch; n++) {
        const double one[3] = {0, 0, b->weights[n] > 0 ? 1 : 0};
        spsh__row_add_loss(row, domain_count, b->domains[n], one);
    }
    row[SPSH__ROW_RIGHT] = (double)l->entropy.right;
}

/* ---- either ---- */

void spsh__loss_put(spsh__batch_loss *l, const spsh__feed_batch *b, spsh__model *m,
                    spsh__backend_buffer logits, double scale)
{
    if (l->cutter != NULL)
        put_frames(l, m, logits, scale);
    else
        put_texts(l, b, m, logits, scale);
}

void spsh__loss_take(const spsh__batch_loss *l, const spsh__feed_batch *b, uint32_t domain_count,
                     double *row)
{
    if (l->cutter != NULL)
        take_frames(l, b, domain_count, row);
    else
        take_texts(l, b, domain_count, row);
}
