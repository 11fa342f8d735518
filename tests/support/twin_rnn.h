/* twin_rnn.h: controls of the host emulation's recurrent layers, for tests. */
#ifndef SPSH_TWIN_RNN_H
#define SPSH_TWIN_RNN_H

#include <stdint.h>

#define TWIN_RNN_CONTROLS_SYMBOL "twin_rnn_controls_get"

typedef struct twin_rnn_controls {
    uint32_t blocks;       /* multiprocessors, one block each; 0: no cooperative launches */
    uint32_t shared_bytes; /* shared memory per block */
    uint32_t has_cudnn;
    uint32_t layers; /* number of open cuDNN layers */
    uint32_t calls;  /* number of cuDNN calls */
    uint32_t grids;  /* number of completed cooperative launches */
} twin_rnn_controls;

typedef twin_rnn_controls *twin_rnn_controls_fn(void);

#endif
