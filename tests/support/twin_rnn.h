/* twin_rnn.h: what a test can change in the twin of the plug-in's recurrent layers. */
#ifndef SPSH_TWIN_RNN_H
#define SPSH_TWIN_RNN_H

#include <stdint.h>

#define TWIN_RNN_CONTROLS_SYMBOL "twin_rnn_controls_get"

typedef struct twin_rnn_controls {
    uint32_t blocks;       /* that a cooperative grid may have; 0: there are none */
    uint32_t shared_bytes; /* of a block */
    uint32_t has_cudnn;
    uint32_t layers; /* of cuDNN's that are open */
    uint32_t calls;  /* of cuDNN's that were done */
    uint32_t grids;  /* cooperative ones that were done */
} twin_rnn_controls;

typedef twin_rnn_controls *twin_rnn_controls_fn(void);

#endif
