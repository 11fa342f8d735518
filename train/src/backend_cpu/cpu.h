/* cpu.h: shared declarations of the operators of the backend `cpu`. */
#ifndef SPSH_TRAIN_CPU_H
#define SPSH_TRAIN_CPU_H

#include "backend/backend.h"
#include "base/whole_numbers.h"
#include "cpu_kernels.h"
#include "cpu_pool.h"

typedef struct spsh__cpu_buffer {
    spsh__backend_buffer data;
    size_t floats;
} spsh__cpu_buffer;

typedef struct spsh__cpu {
    spsh__cpu_pool *pool;
    const spsh__cpu_kernels *kernels;
    spsh__cpu_buffer scratch;      /* scratch of the current operator */
    spsh__cpu_buffer gemm_scratch; /* scratch of a product within it */
    spsh_error failure;            /* first failure */
} spsh__cpu;

static inline spsh__cpu *spsh__cpu_of(const spsh__backend *b)
{
    return (spsh__cpu *)b->state;
}

static inline float *spsh__f32(spsh__backend_buffer buffer)
{
    return (float *)buffer.data;
}

/* Return scratch of `floats` floats, valid until the next call. NULL: out of memory, which
 * status_fn will return. */
float *spsh__cpu_scratch(spsh__backend *b, size_t floats);
float *spsh__cpu_gemm_scratch(spsh__backend *b, size_t floats);

/* Call fn(work, piece) for each piece 0 ... pieces - 1, on all threads. */
static inline void spsh__cpu_run(spsh__backend *b, spsh__piece_fn fn, void *work, size_t pieces)
{
    spsh__cpu_pool_run(spsh__cpu_of(b)->pool, fn, work, pieces);
}

/* Elements per piece, for element-wise operators. */
#define SPSH__CPU_PIECE ((size_t)32768)

/* Parts of rows, for operators that treat all rows alike. */
typedef struct spsh__rows_work {
    const spsh__cpu_kernels *kernels;
    size_t rows, width, rows_per_part;
    const float *from;
    float *to;
} spsh__rows_work;

static inline size_t spsh__rows_parts(const spsh__rows_work *w)
{
    return (w->rows + w->rows_per_part - 1) / w->rows_per_part;
}

/* The row after the part's last one. */
static inline size_t spsh__rows_end(const spsh__rows_work *w, size_t part)
{
    return spsh__least((part + 1) * w->rows_per_part, w->rows);
}

/* Operators, by their names in backend.h. */
#define SPSH_X(name_) SPSH__OPERATOR_TYPE(name_) spsh__cpu_##name_;
SPSH__OPERATORS(SPSH_X)
#undef SPSH_X

/* cpu_spectral.c: convolutions that cpu_conv.c does not compute itself. y and dx are written,
 * dweight is added to, and dbias does not change. */
typedef struct spsh__conv_io {
    spsh__backend_buffer x, weight, bias, y;
} spsh__conv_io;

bool spsh__cpu_spectral_suits(const spsh__conv_shape *s);
void spsh__cpu_spectral_forward(spsh__backend *b, const spsh__conv_shape *s,
                                const spsh__conv_io *io);
void spsh__cpu_spectral_backward(spsh__backend *b, const spsh__conv_shape *s,
                                 const spsh__conv_grad *g);

#endif
