/* backend_reference.c: every operator in plain C: double, one thread, no library. The gradient
 * checks run on it, and tests compare the other backends with it. The operators are in
 * reference_*.c. This file has memory, matrix products, clipping, and CTC over ctc.c, the only
 * operator that needs scratch. */
#include "backend/ctc.h"
#include "reference.h"
#include "speechshard/inside.h"

typedef struct reference {
    size_t scratch_count; /* elements */
    double *scratch;      /* scratch of CTC; grows */
    size_t missing_count; /* elements of the first failed allocation; 0: none */
} reference;

static void close_reference(spsh__backend *b)
{
    reference *r = b->state;
    spsh__free(&b->allocator, r->scratch);
    spsh__free(&b->allocator, r);
}

static spsh_status status(spsh__backend *b, spsh_error *err)
{
    const reference *r = b->state;
    if (r->missing_count == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "backend reference: scratch of %zu doubles",
                     r->missing_count);
}

void spsh__reference_write_f32(spsh__backend *b, spsh__backend_buffer to, const float *from,
                               size_t count)
{
    (void)b;
    for (size_t i = 0; i < count; i++)
        spsh__f64(to)[i] = (double)from[i];
}

void spsh__reference_read_f32(spsh__backend *b, float *to, spsh__backend_buffer from, size_t count)
{
    (void)b;
    for (size_t i = 0; i < count; i++)
        to[i] = (float)spsh__f64(from)[i];
}

void spsh__reference_zero(spsh__backend *b, spsh__backend_buffer to, size_t count)
{
    (void)b;
    for (size_t i = 0; i < count; i++)
        spsh__f64(to)[i] = 0;
}

void spsh__reference_copy(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                          size_t count)
{
    (void)b;
    if (count > 0)
        memcpy(to.data, from.data, count * sizeof(double));
}

void spsh__reference_gemm(spsh__backend *b, const spsh__gemm *g)
{
    (void)b;
    const size_t a_row = g->a_transposed ? 1 : g->a_stride,
                 a_column = g->a_transposed ? g->a_stride : 1;
    const size_t b_row = g->b_transposed ? 1 : g->b_stride,
                 b_column = g->b_transposed ? g->b_stride : 1;
    for (size_t m = 0; m < g->m; m++) {
        for (size_t n = 0; n < g->n; n++) {
            double *c = spsh__f64(g->c) + m * g->c_stride + n;
            double sum = 0;
            for (size_t k = 0; k < g->k; k++)
                sum += spsh__f64(g->a)[m * a_row + k * a_column] *
                       spsh__f64(g->b)[k * b_row + n * b_column];
            *c = g->keep == 0 ? sum : sum + g->keep * *c;
        }
    }
}

void spsh__reference_clip_forward(spsh__backend *b, double limit, size_t count,
                                  spsh__backend_buffer x, spsh__backend_buffer y)
{
    (void)b;
    for (size_t i = 0; i < count; i++) {
        const double v = spsh__f64(x)[i];
        spsh__f64(y)[i] = v < 0 ? 0 : v > limit ? limit : v;
    }
}

void spsh__reference_clip_backward(spsh__backend *b, double limit, size_t count,
                                   spsh__backend_buffer y, spsh__backend_buffer dy,
                                   spsh__backend_buffer dx)
{
    (void)b;
    for (size_t i = 0; i < count; i++) {
        const double v = spsh__f64(y)[i];
        spsh__f64(dx)[i] = v <= 0 || v >= limit ? 0 : spsh__f64(dy)[i];
    }
}

/* Return false if out of memory. */
static bool grow_scratch(spsh__backend *b, size_t count)
{
    reference *r = b->state;
    if (count <= r->scratch_count)
        return true;
    double *scratch = spsh__new(&b->allocator, count, sizeof(double));
    if (scratch == NULL) {
        r->missing_count = r->missing_count == 0 ? count : r->missing_count;
        return false;
    }
    spsh__free(&b->allocator, r->scratch);
    r->scratch = scratch;
    r->scratch_count = count;
    return true;
}

/* Process utterances one after another. The gradient is set to 0 first, for utterances without one.
 */
void spsh__reference_ctc(spsh__backend *b, const spsh__ctc_shape *s, const uint32_t *lengths,
                         const spsh__label_batch *labels, const spsh__ctc_io *io)
{
    reference *r = b->state;
    if (io->dlogits.data != NULL)
        spsh__reference_zero(b, io->dlogits, (size_t)s->frames * s->batch * s->symbols);
    for (uint32_t n = 0; n < s->batch; n++) {
        const size_t at = (size_t)n * s->symbols;
        const double weight = io->weights == NULL ? 1 : io->weights[n];
        const bool is_learnt = io->dlogits.data != NULL && weight != 0;
        const uint32_t label_count = labels->offsets[n + 1] - labels->offsets[n];
        const spsh__ctc_utterance u = {
            .frames = lengths[n],
            .symbols = s->symbols,
            .blank = s->blank,
            .stride = (size_t)s->batch * s->symbols,
            .labels = label_count == 0 ? NULL : labels->labels + labels->offsets[n],
            .label_count = label_count,
            .scale = s->scale * weight,
        };
        const uint32_t kept = is_learnt ? u.frames : 1;
        if (!grow_scratch(b, spsh__ctc_scratch(kept, u.label_count, u.symbols)))
            return;
        io->results[n] = spsh__ctc_f64(&u, spsh__f64(io->logits) + at,
                                       is_learnt ? spsh__f64(io->dlogits) + at : NULL, r->scratch);
    }
}

#define SPSH_X(name_) , .name_##_fn = spsh__reference_##name_
static const spsh__backend_ops reference_ops = {
    .name = "reference",
    .element_bytes = sizeof(double),
    .close_fn = close_reference,
    .status_fn = status,
    .alloc_fn = spsh__host_alloc,
    .free_fn = spsh__host_free SPSH__OPERATORS(SPSH_X),
};
#undef SPSH_X

spsh_status spsh__backend_reference_open(spsh__backend *backend, spsh_error *err)
{
    reference *r = spsh__new(&backend->allocator, 1, sizeof(*r));
    if (r == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "backend reference: %zu bytes", sizeof(*r));
    backend->ops = &reference_ops;
    backend->state = r;
    return SPSH_OK;
}
