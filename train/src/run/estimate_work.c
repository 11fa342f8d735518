/* estimate_work.c: device memory of operators. The operators are walked as in a step and in an
 * evaluation, with the largest possible batches, but they only count (backend_cuda_count.h).
 *
 * The limits bound utterances, frames, and their product, so no single batch is the largest in all
 * three. Three batches are tried: the longest utterances, the most utterances, and one between.
 */
#include <stdlib.h>

#include "backend_cuda/backend_cuda_count.h"
#include "estimate.h"
#include "feed/frame_batch.h"
#include "speechshard/inside.h"

enum { SHAPES = 3, FRAMES_A_LABEL = 4 /* output frames per label, if unknown */ };

typedef struct walk {
    const spsh__estimating *e;
    const spsh__estimate_model *m;
    spsh__backend *b;
    uint32_t batch, frames;
    uint32_t *lengths, *out_lengths;
    uint32_t *labels, *label_offsets;
    spsh__ctc_result *losses;
    double *row_losses;
} walk;

/* ---- losses ---- */

static uint32_t labels_of(const walk *w, uint32_t out_frames)
{
    const uint64_t rows = (uint64_t)w->batch * out_frames;
    const uint64_t pairs = w->e->ctc_pairs;
    const uint64_t labels = pairs == 0 ? out_frames / FRAMES_A_LABEL : pairs / rows + 1;
    return labels < out_frames ? (uint32_t)labels : out_frames;
}

static spsh_status add_texts(walk *w, spsh__backend_buffer logits, spsh__backend_buffer gradients,
                             spsh_error *err)
{
    const uint32_t symbols = w->m->shape.outputs;
    const uint32_t frames = spsh__model_out_frames(w->m->model, w->frames);
    const uint32_t count = labels_of(w, frames);
    const uint32_t padded = spsh__model_padded_batch(w->m->model, w->batch);
    const spsh__ctc_shape shape = {frames, padded, symbols, SPSH__VOCABULARY_BLANK, 1};
    w->labels = calloc((size_t)w->batch * count + 1, sizeof(*w->labels));
    w->label_offsets = calloc((size_t)padded + 1, sizeof(*w->label_offsets));
    w->losses = calloc(padded, sizeof(*w->losses));
    if (w->labels == NULL || w->label_offsets == NULL || w->losses == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < (size_t)w->batch * count; i++)
        w->labels[i] = 1 + (uint32_t)(i % (symbols - 1));
    for (uint32_t n = 0; n < padded; n++)
        w->label_offsets[n + 1] = w->label_offsets[n] + (n < w->batch ? count : 0);
    const spsh__label_batch labels = {w->labels, w->label_offsets};
    const spsh__ctc_io io = {.logits = logits, .dlogits = gradients, .results = w->losses};
    w->b->ops->ctc_fn(w->b, &shape, spsh__model_out_lengths(w->m->model), &labels, &io);
    return SPSH_OK;
}

static spsh_status add_frames(walk *w, spsh__backend_buffer logits, spsh__backend_buffer gradients,
                              spsh_error *err)
{
    const size_t rows = (size_t)w->batch * w->frames;
    w->labels = calloc(rows, sizeof(*w->labels));
    w->row_losses = calloc(rows, sizeof(*w->row_losses));
    if (w->labels == NULL || w->row_losses == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__cross_entropy c = {.rows = rows,
                             .width = w->m->shape.outputs,
                             .states = w->labels,
                             .scale = 1,
                             .logits = logits,
                             .dlogits = gradients,
                             .row_losses = w->row_losses};
    w->b->ops->cross_entropy_fn(w->b, &c);
    return SPSH_OK;
}

/* ---- a batch ---- */

/* Features are on the host or the device as in the run. Their values are not read. */
static spsh_status go(walk *w, spsh_error *err)
{
    const bool is_of_frames = w->e->alignments != NULL;
    const bool is_training = !w->m->is_forward_only;
    const float nothing = 0;
    spsh__model_batch batch = {.lengths = w->lengths, .batch = w->batch, .frames = w->frames};
    spsh__backend_buffer logits = {NULL, false}, gradients = {NULL, false};
    if (is_of_frames)
        batch.features = &nothing;
    else
        batch.device_features = &nothing;
    spsh_status rc =
        spsh__model_forward(w->m->model, &batch, is_training, &logits, w->out_lengths, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_training)
        gradients = spsh__model_logit_gradients(w->m->model);
    rc =
        is_of_frames ? add_frames(w, logits, gradients, err) : add_texts(w, logits, gradients, err);
    if (rc == SPSH_OK && is_training)
        spsh__model_backward(w->m->model, gradients, NULL, NULL);
    return rc;
}

static spsh_status go_with(const walk *like, uint32_t batch, uint32_t frames, spsh_error *err)
{
    walk w = *like;
    w.batch = batch;
    w.frames = frames;
    w.lengths = calloc(batch, sizeof(*w.lengths));
    w.out_lengths = calloc(batch, sizeof(*w.out_lengths));
    spsh_status rc = SPSH_OK;
    if (w.lengths == NULL || w.out_lengths == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (uint32_t n = 0; n < batch && rc == SPSH_OK; n++)
        w.lengths[n] = frames;
    if (rc == SPSH_OK)
        rc = go(&w, err);
    free(w.lengths);
    free(w.out_lengths);
    free(w.labels);
    free(w.label_offsets);
    free(w.losses);
    free(w.row_losses);
    return rc;
}

static uint32_t most(uint64_t rows, uint32_t by, uint32_t limit)
{
    const uint64_t count = rows / by;
    return count > limit ? limit : count == 0 ? 1 : (uint32_t)count;
}

spsh_status spsh__estimate_work(const spsh__estimating *e, spsh__backend *b,
                                const spsh__estimate_model *m, spsh_error *err)
{
    const walk like = {.e = e, .m = m, .b = b};
    const spsh__model_limits *l = &m->limits;
    const uint32_t longest = most(l->rows_max, 1, l->frames_max);
    const uint32_t shortest = most(l->rows_max, l->batch_max, l->frames_max);
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; i < SHAPES && rc == SPSH_OK; i++) {
        const uint32_t frames = longest - (longest - shortest) / (SHAPES - 1) * i;
        rc = go_with(&like, most(l->rows_max, frames, l->batch_max), frames, err);
    }
    return rc;
}
