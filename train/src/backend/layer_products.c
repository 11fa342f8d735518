/* layer_products.c: see layer_products.h. */
#include "layer_products.h"

void spsh__dense_forward(spsh__backend *b, const spsh__dense *d, spsh__backend_buffer x,
                         spsh__backend_buffer weight, spsh__backend_buffer y)
{
    const spsh__gemm g = {.b_transposed = true,
                          .m = d->rows,
                          .n = d->outputs,
                          .k = d->inputs,
                          .a = x,
                          .b = weight,
                          .c = y,
                          .a_stride = d->inputs,
                          .b_stride = d->inputs,
                          .c_stride = d->outputs};
    b->ops->gemm_fn(b, &g);
}

void spsh__dense_backward(spsh__backend *b, const spsh__dense *d, spsh__backend_buffer dy,
                          spsh__backend_buffer weight, spsh__backend_buffer dx)
{
    const spsh__gemm g = {.m = d->rows,
                          .n = d->inputs,
                          .k = d->outputs,
                          .a = dy,
                          .b = weight,
                          .c = dx,
                          .a_stride = d->outputs,
                          .b_stride = d->inputs,
                          .c_stride = d->inputs};
    if (dx.data != NULL)
        b->ops->gemm_fn(b, &g);
}

spsh__gemm spsh__dense_gradient(const spsh__dense *d, spsh__backend_buffer dy,
                                spsh__backend_buffer x, spsh__backend_buffer dweight)
{
    return (spsh__gemm){.a_transposed = true,
                        .m = d->outputs,
                        .n = d->inputs,
                        .k = d->rows,
                        .a = dy,
                        .b = x,
                        .c = dweight,
                        .a_stride = d->outputs,
                        .b_stride = d->inputs,
                        .c_stride = d->inputs,
                        .keep = 1};
}

static spsh__dense input_of(const spsh__rnn_shape *s)
{
    return (spsh__dense){(uint32_t)spsh__rnn_rows(s), spsh__rnn_gates(s) * s->hidden, s->inputs};
}

void spsh__rnn_input_product(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                             spsh__backend_buffer x, spsh__backend_buffer gates)
{
    const spsh__dense input = input_of(s);
    spsh__dense_forward(b, &input, x, w->input, gates);
}

/* The first frame has no state before it. */
static void recurrent_gradient(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g,
                               spsh__backend_buffer gates, spsh__backend_buffer inner)
{
    const spsh__backend_ops *ops = b->ops;
    const spsh__dense state = {(uint32_t)spsh__rnn_rows(s) - s->batch,
                               spsh__rnn_gates(s) * s->hidden, s->hidden};
    const size_t first = s->batch;
    spsh__gemm product = spsh__dense_gradient(&state, spsh__at(ops, gates, first * state.outputs),
                                              g->y, g->gradients->recurrent);
    if (product.k == 0)
        return;
    if (s->cell == SPSH__CELL_GRU) /* the last gate follows */
        product.m = 2 * s->hidden;
    ops->gemm_fn(b, &product);
    if (s->cell != SPSH__CELL_GRU)
        return;
    product.m = s->hidden;
    product.a = spsh__at(ops, inner, first * s->hidden);
    product.a_stride = s->hidden;
    product.c = spsh__at(ops, product.c, 2 * (size_t)s->hidden * s->hidden);
    ops->gemm_fn(b, &product);
}

void spsh__rnn_gradient_products(spsh__backend *b, const spsh__rnn_shape *s,
                                 const spsh__rnn_grad *g, spsh__backend_buffer gates,
                                 spsh__backend_buffer inner)
{
    const spsh__dense input = input_of(s);
    const spsh__gemm of_input = spsh__dense_gradient(&input, gates, g->x, g->gradients->input);
    spsh__dense_backward(b, &input, gates, g->weights->input, g->dx);
    b->ops->gemm_fn(b, &of_input);
    recurrent_gradient(b, s, g, gates, inner);
}
