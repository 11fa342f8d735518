/* twin_kernels.h: the trainer's kernels as C, for the parts of the host emulation that launch
 * them. */
#ifndef SPSH_TWIN_KERNELS_H
#define SPSH_TWIN_KERNELS_H

#include "cuda/device_train.h"

/* Like launch_fn of the trainer's entry. */
spsh_status twin_launch(void *stream, const spsh__kernel_launch *l, spsh_error *err);

#endif
