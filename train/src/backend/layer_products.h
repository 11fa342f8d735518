/* layer_products.h: the matrix products of layers: products with a weight, and products of a
 * recurrent layer over all frames. For backends whose recurrence computes only the rest.
 */
#ifndef SPSH_TRAIN_LAYER_PRODUCTS_H
#define SPSH_TRAIN_LAYER_PRODUCTS_H

#include "backend.h"

/* Sizes of a weight, [outputs][inputs], and row count of the matrix that it multiplies. Matrices
 * have no gaps. */
typedef struct spsh__dense {
    uint32_t rows, outputs, inputs;
} spsh__dense;

/* y = x weight^T */
void spsh__dense_forward(spsh__backend *b, const spsh__dense *d, spsh__backend_buffer x,
                         spsh__backend_buffer weight, spsh__backend_buffer y);
/* dx = dy weight. Does nothing if dx has no data. */
void spsh__dense_backward(spsh__backend *b, const spsh__dense *d, spsh__backend_buffer dy,
                          spsh__backend_buffer weight, spsh__backend_buffer dx);
/* Return the product dweight += dy^T x. */
spsh__gemm spsh__dense_gradient(const spsh__dense *d, spsh__backend_buffer dy,
                                spsh__backend_buffer x, spsh__backend_buffer dweight);

/* gates, [T][N][gates * hidden]: written; the part of the gates that comes from the input. */
void spsh__rnn_input_product(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                             spsh__backend_buffer x, spsh__backend_buffer gates);
/* Compute the gradients of x and of both weights. gates: the gradients of the gates' inputs; inner,
 * [T][N][hidden]: for a GRU, the gradient of the term that the reset gate multiplies. */
void spsh__rnn_gradient_products(spsh__backend *b, const spsh__rnn_shape *s,
                                 const spsh__rnn_grad *g, spsh__backend_buffer gates,
                                 spsh__backend_buffer inner);

#endif
