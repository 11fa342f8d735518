/* reference.h: the operators of the backend `reference`, by file. Each is its definition in
 * backend.h written down: loops over indices, in double, nothing shared between them. */
#ifndef SPSH_TRAIN_REFERENCE_H
#define SPSH_TRAIN_REFERENCE_H

#include "backend/backend.h"

static inline double *spsh__f64(spsh__backend_buffer buffer)
{
    return (double *)buffer.data;
}

/* reference_conv.c */
void spsh__reference_conv_forward(spsh__backend *b, const spsh__conv_shape *s,
                                  spsh__backend_buffer x, spsh__backend_buffer weight,
                                  spsh__backend_buffer bias, spsh__backend_buffer y);
void spsh__reference_conv_backward(spsh__backend *b, const spsh__conv_shape *s,
                                   const spsh__conv_grad *g);
void spsh__reference_mask_conv(spsh__backend *b, const spsh__conv_shape *s, const uint32_t *lengths,
                               spsh__backend_buffer y);
void spsh__reference_rows_from_conv(spsh__backend *b, const spsh__conv_shape *s,
                                    spsh__backend_buffer conv, spsh__backend_buffer rows);
void spsh__reference_conv_from_rows(spsh__backend *b, const spsh__conv_shape *s,
                                    spsh__backend_buffer rows, spsh__backend_buffer conv);

/* reference_norm.c */
void spsh__reference_norm_forward(spsh__backend *b, const spsh__norm_shape *s,
                                  const uint32_t *lengths, bool is_training,
                                  const spsh__norm_state *state, const spsh__norm_io *io);
void spsh__reference_norm_backward(spsh__backend *b, const spsh__norm_shape *s,
                                   const uint32_t *lengths, const spsh__norm_state *state,
                                   const spsh__norm_grad *g);

/* reference_rnn.c */
size_t spsh__reference_rnn_reserve(const spsh__rnn_shape *s);
void spsh__reference_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s,
                                 const spsh__rnn_weights *w, spsh__backend_buffer x,
                                 spsh__backend_buffer y, spsh__backend_buffer reserve);
void spsh__reference_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s,
                                  const spsh__rnn_grad *g);

/* reference_rows.c */
void spsh__reference_bias_forward(spsh__backend *b, size_t rows, uint32_t width,
                                  spsh__backend_buffer bias, spsh__backend_buffer x);
void spsh__reference_bias_backward(spsh__backend *b, size_t rows, uint32_t width,
                                   spsh__backend_buffer dy, spsh__backend_buffer dbias);
void spsh__reference_copy_columns(spsh__backend *b, const spsh__columns *c);
void spsh__reference_mask_rows(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                               spsh__backend_buffer x);
void spsh__reference_reverse(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                             spsh__backend_buffer from, spsh__backend_buffer to);
void spsh__reference_lookahead_forward(spsh__backend *b, const spsh__lookahead *l,
                                       spsh__backend_buffer x, spsh__backend_buffer y);
void spsh__reference_lookahead_backward(spsh__backend *b, const spsh__lookahead *l,
                                        const spsh__lookahead_grad *g);

/* reference_loss.c */
void spsh__reference_log_softmax(spsh__backend *b, size_t rows, uint32_t width,
                                 spsh__backend_buffer x, spsh__backend_buffer y);
void spsh__reference_cross_entropy(spsh__backend *b, spsh__cross_entropy *c);

/* reference_update.c */
double spsh__reference_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count);
void spsh__reference_scale(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count);
void spsh__reference_axpy(spsh__backend *b, double factor, spsh__backend_buffer x,
                          spsh__backend_buffer y, size_t count);
void spsh__reference_sgd(spsh__backend *b, const spsh__sgd *o, const spsh__update *u);
void spsh__reference_adamw(spsh__backend *b, const spsh__adamw *o, const spsh__update *u);

#endif
