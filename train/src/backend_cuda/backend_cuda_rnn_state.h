/* backend_cuda_rnn_state.h: shared declarations of backend_cuda_rnn.c (choice, operators),
 * _rnn_own.c (our two algorithms), and _rnn_layer.c (cuDNN's two).
 */
#ifndef SPSH_TRAIN_BACKEND_CUDA_RNN_STATE_H
#define SPSH_TRAIN_BACKEND_CUDA_RNN_STATE_H

#include <stddef.h>

#include "backend/layer_products.h"
#include "backend_cuda.h"
#include "backend_cuda_rnn.h"
#include "cuda/device_rnn.h"

enum { SPSH__RNN_USES = 20, SPSH__RNN_ALIGNMENT = 256 };

/* Choice for one shape, for one pass or for both directions at once, made when forward first sees
 * it. SPSH__RNN_CHOICES of them are kept, and the least recently used one is closed. That needs no
 * wait: cuDNN reads a descriptor only during a call, and work on a stream or in a graph has copies.
 * Only a recording refers to layers, namely those of its step (backend_cuda_segment.c), which are
 * not the least recently used ones. */
typedef struct spsh__rnn_choice {
    struct spsh__rnn_choice *next;
    spsh__rnn_shape shape;
    bool has_two_biases;
    uint32_t passes; /* 1 or 2 */
    spsh__rnn_algorithm asked, algorithm;
    uint32_t spared;
    /* persistent */
    spsh__rnn_job job; /* only sizes and layout */
    uint32_t blocks;   /* per pass */
    uint32_t at_once;  /* passes per launch */
    /* cuDNN */
    void *layer;
    spsh__cudnn_sizes sizes;
    uint32_t inputs; /* inputs of the layer: more than the inputs of the shape if padded */
    char text[400];
    bool is_logged; /* already passed to the log */
} spsh__rnn_choice;

/* Additional reserve, for a layer that needs more than its caller provides. */
typedef struct spsh__rnn_own_reserve {
    struct spsh__rnn_own_reserve *next;
    const void *key; /* the layer's reserve */
    spsh__backend_buffer memory;
    size_t count; /* number of floats */
} spsh__rnn_own_reserve;

typedef struct spsh__rnn_state {
    const spsh__device_rnn_entry *entry;
    void *device; /* state of the entry */
    void *turn;   /* event that orders the lanes' cuDNN calls */
    spsh__rnn_algorithm algorithm;
    uint32_t spared;           /* multiprocessors that `persistent` leaves free */
    spsh__rnn_choice *choices; /* most recently used first */
    uint32_t choice_count;
    spsh__rnn_own_reserve *reserves;
} spsh__rnn_state;

/* Arguments of a launch. Only as much of `job` as the kernel uses is copied. */
typedef struct spsh__rnn_work {
    spsh__rnn_launch l;
    spsh__device_use uses[SPSH__RNN_USES];
    union {
        spsh__rnn_grid_job persistent;
        spsh__rnn_job recurrence; /* the first pass */
        spsh__rnn_pack_job pack;
    } job;
} spsh__rnn_work;

static inline spsh__rnn_state *spsh__rnn_of(const spsh__backend *b)
{
    return spsh__cuda_rnn_state(b);
}

static inline size_t spsh__rnn_element_bytes(bool is_half)
{
    return is_half ? sizeof(uint16_t) : sizeof(float);
}

static inline size_t spsh__rnn_inner_bytes(const spsh__rnn_shape *s, bool is_half)
{
    const size_t each =
        s->cell == SPSH__CELL_LSTM ? sizeof(float) : spsh__rnn_element_bytes(is_half);
    return spsh__round_up(spsh__rnn_rows(s) * s->hidden * each, SPSH__RNN_ALIGNMENT);
}

/* ---- backend_cuda_rnn.c ---- */
void spsh__rnn_put(spsh__backend *b, spsh__rnn_work *w, spsh__rnn_kernel kernel, size_t job_bytes);
/* Note memory that the kernel uses. NULL or 0 bytes: none. */
void spsh__rnn_use(spsh__rnn_work *w, const void *begin, size_t size_bytes, bool is_write);
void spsh__rnn_zero(spsh__backend *b, void *memory, size_t size_bytes);
/* Enqueue the next operators for pass i: two passes are on two lanes. Then join the lanes. */
void spsh__rnn_begin_pass(spsh__backend *b, const spsh__rnn_choice *c, uint32_t i);
void spsh__rnn_join_passes(spsh__backend *b, const spsh__rnn_choice *c);

/* Check that the algorithm supports the shape. Else SPSH_E_UNSUPPORTED, or a library's status, with
 * the reason. */

/* ---- backend_cuda_rnn_own.c ---- */
spsh_status spsh__rnn_fit_persistent(const spsh__rnn_state *self, spsh__rnn_choice *c,
                                     spsh__device_kind kind, spsh_error *err);
/* p, g: one element per pass of the choice. */
void spsh__rnn_own_forward(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_pass *p);
void spsh__rnn_own_backward(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_grad *g);

/* ---- backend_cuda_rnn_layer.c ---- */
spsh_status spsh__rnn_fit_cudnn(spsh__backend *b, spsh__rnn_choice *c, spsh_error *err);
spsh_status spsh__rnn_fit_cudnn_persistent(spsh__backend *b, spsh__rnn_choice *c, spsh_error *err);
void spsh__rnn_close_layer(const spsh__rnn_state *self, spsh__rnn_choice *c);
/* One pass, on the current lane. */
void spsh__rnn_layer_run_forward(spsh__backend *b, const spsh__rnn_choice *c,
                                 const spsh__rnn_pass *p);
void spsh__rnn_layer_run_backward(spsh__backend *b, const spsh__rnn_choice *c,
                                  const spsh__rnn_grad *g);

#endif
