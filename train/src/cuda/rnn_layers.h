/* rnn_layers.h: cuDNN's recurrent layers, for rnn.cu: layer_open_fn and the other layer functions
 * of device_rnn.h. */
#ifndef SPSH_RNN_LAYERS_H
#define SPSH_RNN_LAYERS_H

#include "device_rnn.h"
#include "library_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spsh__rnn_layers {
    int device;
    spsh__precision precision;
    const spsh__library_calls *calls;          /* NULL before the first layer */
    cudnnHandle_t handles[SPSH__DEVICE_LANES]; /* a stream and work space each */
} spsh__rnn_layers;

/* Call after all layers are closed. */
void spsh__rnn_layers_close(spsh__rnn_layers *layers);

spsh_status spsh__rnn_layer_open(spsh__rnn_layers *layers, const spsh__cudnn_plan *plan,
                                 void **ret_layer, spsh__cudnn_sizes *ret_sizes, spsh_error *err);
void spsh__rnn_layer_close(void *layer);
spsh_status spsh__rnn_layer_call(void *layer, void *stream, const spsh__cudnn_call *call,
                                 spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
