/* backend_cuda_rnn.h: the algorithms for recurrent layers of the backend `cuda`. All have the same
 * weights, results, and rounding of activations. The fastest depends on shape and device.
 *
 *     persistent        ours: one kernel for all frames of both directions, with the recurrent
 *                       weights in shared memory
 *     cudnn-persistent  cuDNN's PERSIST_STATIC, if it supports the shape
 *     cudnn             cuDNN's STANDARD
 *     stepwise          ours: a product and a kernel per frame; supports everything
 *
 * The list is the fallback order. The shape, the precision, the device, or deterministic mode
 * (which excludes cuDNN) can rule out an algorithm.
 */
#ifndef SPSH_TRAIN_BACKEND_CUDA_RNN_H
#define SPSH_TRAIN_BACKEND_CUDA_RNN_H

#include "backend/backend.h"

/* Shapes whose choice is kept, of all lengths and batch sizes. One step has far fewer shapes: at
 * most the layers of the micro-batches in flight. */
enum { SPSH__RNN_CHOICES = 512 };

/* "auto", "persistent", ... */
const char *spsh__rnn_algorithm_name(spsh__rnn_algorithm algorithm);

/* Takes effect at the next forward. Do not call between a forward and its backward. */
void spsh__cuda_rnn_choose(spsh__backend *b, spsh__rnn_algorithm algorithm);

/* Describe the algorithm chosen for a shape that forward has seen, for logs: "persistent: 2 x 64
 * blocks of 16 units, 143 KiB", "cudnn, not cudnn-persistent (...)", with the reasons against
 * earlier algorithms. "" for other shapes, and for those that were forgotten. passes: 2 if both
 * directions ran at once. Valid until the next operator. */
const char *spsh__cuda_rnn_text(const spsh__backend *b, const spsh__rnn_shape *s,
                                bool has_two_biases, uint32_t passes);

/* Get the next unreported choice and its layer, for logs. Return false if there is no other. Other
 * lengths and batch sizes of a layer are reported only if they use another algorithm. */
bool spsh__cuda_rnn_news(spsh__backend *b, char *text, size_t size_bytes);

#endif
