/* kernels.h: all kernels of the trainer except those of recurrent layers, by number. A kernel has a
 * job (plain data, copied at each launch) and kernel source, spsh__kernel_NAME(job, block)
 * (device_text.h). kernels.cu compiles the list for CUDA, tests/support/twin_train.c for the host
 * emulation.
 */
#ifndef SPSH_TRAIN_KERNELS_H
#define SPSH_TRAIN_KERNELS_H

#include "kernels_loss.h"
#include "kernels_norm.h"
#include "kernels_product.h"
#include "kernels_rows.h"
#include "kernels_update.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS(X)                                                                           \
    SPSH__KERNELS_PRODUCT(X)                                                                       \
    SPSH__KERNELS_ROWS(X)                                                                          \
    SPSH__KERNELS_NORM(X)                                                                          \
    SPSH__KERNELS_UPDATE(X)                                                                        \
    SPSH__KERNELS_LOSS(X)

#endif
