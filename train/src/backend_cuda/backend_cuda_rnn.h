/* backend_cuda_rnn.h: by which of several ways the backend `cuda` does recurrent layers. All have
 * the same weights, results and rounding of activations; what is fastest depends on shape and
 * device.
 *
 *     persistent        ours: one kernel for all frames, the recurrent weights in shared memory
 *     cudnn-persistent  cuDNN's PERSIST_STATIC, where it takes the shape
 *     cudnn             cuDNN's STANDARD
 *     stepwise          ours: a product and a kernel a frame; takes everything
 *
 * A rung that a shape, the precision, the device or deterministic mode (none of cuDNN's) rules out
 * gives way to the next below.
 */
#ifndef SPSH_TRAIN_BACKEND_CUDA_RNN_H
#define SPSH_TRAIN_BACKEND_CUDA_RNN_H

#include "backend/backend.h"

/* "auto", "persistent", ... */
const char *spsh__rnn_rung_name(spsh__rnn_rung rung);

/* From the next forward on: not between a forward and its backward. */
void spsh__cuda_rnn_choose(spsh__backend *b, spsh__rnn_rung rung);

/* What was chosen for a shape that forward has seen, for logs: "persistent: 64 blocks of 16 units,
 * 210 KiB", "cudnn, not cudnn-persistent (...)": with the reasons why rungs above it are not. ""
 * for others. Until close. */
const char *spsh__cuda_rnn_text(const spsh__backend *b, const spsh__rnn_shape *s,
                                bool has_two_biases);

/* For logs: the next choice that is news, with its layer; false: there is none. Other lengths and
 * batches of a layer are news only where they came to another rung. */
bool spsh__cuda_rnn_news(spsh__backend *b, char *text, size_t size_bytes);

#endif
