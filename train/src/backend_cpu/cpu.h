/* cpu.h: the operators of the backend `cpu`, by file, and what they share. */
#ifndef SPSH_TRAIN_CPU_H
#define SPSH_TRAIN_CPU_H

#include "backend/backend.h"
#include "cpu_kernels.h"
#include "cpu_pool.h"

typedef struct spsh__cpu_room {
    spsh__backend_buffer data;
    size_t floats;
} spsh__cpu_room;

typedef struct spsh__cpu {
    spsh__cpu_pool *pool;
    const spsh__cpu_kernels *kernels;
    spsh__cpu_room scratch;      /* of the operator at work */
    spsh__cpu_room gemm_scratch; /* of a product within it */
    spsh_error failure;          /* the first */
} spsh__cpu;

static inline spsh__cpu *spsh__cpu_of(const spsh__backend *b)
{
    return (spsh__cpu *)b->state;
}

static inline float *spsh__f32(spsh__backend_buffer buffer)
{
    return (float *)buffer.data;
}

static inline size_t spsh__round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static inline size_t spsh__least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* So many floats, until the next call; NULL: there is no memory, and status_fn will say so. */
float *spsh__cpu_scratch(spsh__backend *b, size_t floats);
float *spsh__cpu_gemm_scratch(spsh__backend *b, size_t floats);

/* fn(work, 0 ... pieces - 1), by all threads. */
static inline void spsh__cpu_run(spsh__backend *b, spsh__piece_fn fn, void *work, size_t pieces)
{
    spsh__cpu_pool_run(spsh__cpu_of(b)->pool, fn, work, pieces);
}

/* Elements of a piece, where one element is as good as another. */
#define SPSH__CPU_PIECE ((size_t)32768)

/* cpu_gemm.c */
void spsh__cpu_gemm(spsh__backend *b, const spsh__gemm *g);

/* cpu_conv.c */
typedef struct spsh__conv_io {
    spsh__backend_buffer x, weight, bias, y;
} spsh__conv_io;

void spsh__cpu_conv_forward(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer x,
                            spsh__backend_buffer weight, spsh__backend_buffer bias,
                            spsh__backend_buffer y);
void spsh__cpu_conv_backward(spsh__backend *b, const spsh__conv_shape *s, const spsh__conv_grad *g);

/* cpu_spectral.c: what cpu_conv.c leaves to it. y and dx are written, dweight is added to, dbias is
 * left alone. */
bool spsh__cpu_spectral_suits(const spsh__conv_shape *s);
void spsh__cpu_spectral_forward(spsh__backend *b, const spsh__conv_shape *s,
                                const spsh__conv_io *io);
void spsh__cpu_spectral_backward(spsh__backend *b, const spsh__conv_shape *s,
                                 const spsh__conv_grad *g);

/* cpu_norm.c */
void spsh__cpu_norm_forward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                            bool is_training, const spsh__norm_state *state,
                            const spsh__norm_io *io);
void spsh__cpu_norm_backward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                             const spsh__norm_state *state, const spsh__norm_grad *g);

/* cpu_rnn.c */
size_t spsh__cpu_rnn_reserve(const spsh__rnn_shape *s);
void spsh__cpu_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                           spsh__backend_buffer x, spsh__backend_buffer y,
                           spsh__backend_buffer reserve);
void spsh__cpu_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g);

/* cpu_rows.c */
void spsh__cpu_bias_forward(spsh__backend *b, size_t rows, uint32_t width,
                            spsh__backend_buffer bias, spsh__backend_buffer x);
void spsh__cpu_bias_backward(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer dy,
                             spsh__backend_buffer dbias);
void spsh__cpu_copy_columns(spsh__backend *b, const spsh__columns *c);
void spsh__cpu_mask_conv(spsh__backend *b, const spsh__conv_shape *s, const uint32_t *lengths,
                         spsh__backend_buffer y);
void spsh__cpu_mask_rows(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                         spsh__backend_buffer x);
void spsh__cpu_rows_from_conv(spsh__backend *b, const spsh__conv_shape *s,
                              spsh__backend_buffer conv, spsh__backend_buffer rows);
void spsh__cpu_conv_from_rows(spsh__backend *b, const spsh__conv_shape *s,
                              spsh__backend_buffer rows, spsh__backend_buffer conv);
void spsh__cpu_reverse(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                       spsh__backend_buffer from, spsh__backend_buffer to);
void spsh__cpu_lookahead_forward(spsh__backend *b, const spsh__lookahead *l, spsh__backend_buffer x,
                                 spsh__backend_buffer y);
void spsh__cpu_lookahead_backward(spsh__backend *b, const spsh__lookahead *l,
                                  const spsh__lookahead_grad *g);

/* cpu_loss.c */
void spsh__cpu_ctc(spsh__backend *b, const spsh__ctc_shape *s, const uint32_t *lengths,
                   const spsh__label_batch *labels, const spsh__ctc_io *io);
void spsh__cpu_cross_entropy(spsh__backend *b, spsh__cross_entropy *c);
void spsh__cpu_log_softmax(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                           spsh__backend_buffer y);

/* cpu_update.c */
void spsh__cpu_clip_forward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer x,
                            spsh__backend_buffer y);
void spsh__cpu_clip_backward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer y,
                             spsh__backend_buffer dy, spsh__backend_buffer dx);
double spsh__cpu_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count);
void spsh__cpu_scale(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count);
void spsh__cpu_axpy(spsh__backend *b, double factor, spsh__backend_buffer x, spsh__backend_buffer y,
                    size_t count);
void spsh__cpu_sgd_step(spsh__backend *b, const spsh__sgd *o, const spsh__update *u);
void spsh__cpu_adamw_step(spsh__backend *b, const spsh__adamw *o, const spsh__update *u);

#endif
