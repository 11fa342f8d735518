/* operator_cases.h: every operator of a backend, in a few shapes each, as one table, so that one
 * test checks gradients, another compares backends, a third counts threads.
 *
 *     operator_run r;
 *     operator_run_open(&r, backend, &operator_cases[i], seed);    -- inputs from the seed
 *     r.c->forward_fn(&r);                                         -- y from the inputs
 *     operator_run_backward(&r);                                   -- gradients from y's dy
 *     operator_run_close(&r);                                      -- checks that nothing was
 *                                                                     written past a buffer
 *
 * Inputs, dy, and the initial gradients are exact in float, and the same in any backend. Outputs
 * and overwritten gradients hold NaNs before. A test program links operator_cases.c only once.
 *
 * If a backend has 16-bit buffers, they hold what a model keeps in 16 bits: activations, their
 * gradients, and weights as factors. All values are first rounded to operator_rounding, so that two
 * backends start from the same values.
 */
#ifndef OPERATOR_CASES_H
#define OPERATOR_CASES_H

#include "backend/backend.h"

#define OPERATOR_INPUTS_MAX  5
#define OPERATOR_BUFFERS_MAX 32

typedef struct operator_run operator_run;

typedef struct operator_case {
    const char *name;
    const void *shape; /* parameters of the operator */
    void (*open_fn)(operator_run *r);
    void (*forward_fn)(operator_run *r);
    void (*backward_fn)(operator_run *r); /* NULL: no backward pass */
    bool is_large;                        /* too slow for finite differences */
} operator_case;

extern const operator_case operator_cases[];
extern spsh__precision
    operator_rounding; /* rounding of inputs, dy, and other random values; FP32 at first */
extern const size_t operator_case_count;

typedef struct operator_input {
    size_t count;
    spsh__backend_buffer data, gradient;
    bool adds; /* the operator adds to the gradient */
    double *before;
} operator_input;

struct operator_run {
    spsh__backend *b;
    const spsh__backend_ops *ops;
    const operator_case *c;
    operator_input inputs[OPERATOR_INPUTS_MAX]; /* dx is that of inputs[0] */
    size_t input_count;
    size_t y_count;
    spsh__backend_buffer y, dy;
    double *dy_values;
    spsh__backend_buffer work[6]; /* work of the operator: reserves, statistics */
    size_t work_counts[6];
    bool is_without_dx;
    uint32_t halves; /* buffers in float16: bit i for input i, bit OPERATOR_INPUTS_MAX for y */
    uint64_t random;
    spsh__backend_buffer buffers[OPERATOR_BUFFERS_MAX];
    size_t buffer_counts[OPERATOR_BUFFERS_MAX], buffer_count;
};

void operator_run_open(operator_run *r, spsh__backend *b, const operator_case *c, uint64_t seed);
void operator_run_backward(operator_run *r);
void operator_run_close(operator_run *r);

/* All outputs of a case, concatenated: y, statistics and moments, gradients. */
typedef struct operator_results {
    double *values; /* the caller's to free */
    size_t count;
    size_t ends[16], end_count;
} operator_results;

operator_results operator_case_run(spsh__backend *b, const operator_case *c, uint64_t seed);

#endif
