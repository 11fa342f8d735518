/* operator_cases.h: every operator of a backend, in a few shapes each, as one table, so that one
 * test checks gradients, another compares backends, a third counts threads.
 *
 *     operator_run r;
 *     operator_run_open(&r, backend, &operator_cases[i], seed);    -- inputs from the seed
 *     r.c->forward_fn(&r);                                         -- y from the inputs
 *     operator_run_backward(&r);                                   -- gradients from y's dy
 *     operator_run_close(&r);                                      -- checks that nothing was
 *                                                                     written behind a buffer
 *
 * Inputs, dy and what gradients hold before are values that float has, the same in any backend.
 * Gradients that are overwritten hold no numbers before. A test program has one of these files.
 */
#ifndef OPERATOR_CASES_H
#define OPERATOR_CASES_H

#include "backend.h"

#define OPERATOR_INPUTS_MAX  5
#define OPERATOR_BUFFERS_MAX 32

typedef struct operator_run operator_run;

typedef struct operator_case {
    const char *name;
    const void *shape; /* the operator's */
    void (*open_fn)(operator_run *r);
    void (*forward_fn)(operator_run *r);
    void (*backward_fn)(operator_run *r); /* NULL: it has none */
    bool is_large;                        /* too slow for finite differences */
} operator_case;

extern const operator_case operator_cases[];
extern const size_t operator_case_count;

typedef struct operator_input {
    size_t count;
    spsh__buffer data, gradient;
    bool adds; /* its gradient is added to */
    double *before;
} operator_input;

struct operator_run {
    spsh__backend *b;
    const spsh__backend_ops *ops;
    const operator_case *c;
    operator_input inputs[OPERATOR_INPUTS_MAX]; /* dx is that of inputs[0] */
    size_t input_count;
    size_t y_count;
    spsh__buffer y, dy;
    double *dy_values;
    spsh__buffer work[6]; /* the operator's: reserves, statistics */
    size_t work_counts[6];
    bool is_without_dx;
    uint64_t random;
    spsh__buffer buffers[OPERATOR_BUFFERS_MAX];
    size_t buffer_counts[OPERATOR_BUFFERS_MAX], buffer_count;
};

void operator_run_open(operator_run *r, spsh__backend *b, const operator_case *c, uint64_t seed);
void operator_run_backward(operator_run *r);
void operator_run_close(operator_run *r);

#endif
