/* twin_layers.h: the recurrent layers of twin_rnn.c, for fake_rnn.c, which implements cuDNN's
 * functions with them. */
#ifndef SPSH_TWIN_LAYERS_H
#define SPSH_TWIN_LAYERS_H

#include "cuda/device_rnn.h"

/* Like layer_open_fn and its kin of device_rnn.h. turn: a byte of the device that only one
 * persistent layer uses at a time; NULL: they need not take turns. */
spsh_status twin_layer_open(void *turn, const spsh__cudnn_plan *plan, void **ret_layer,
                            spsh__cudnn_sizes *ret_sizes, spsh_error *err);
void twin_layer_close(void *opaque);
spsh_status twin_layer_call(void *opaque, void *stream, const spsh__cudnn_call *c, spsh_error *err);

#endif
