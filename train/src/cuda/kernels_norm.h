/* kernels_norm.h */
#ifndef SPSH_TRAIN_KERNELS_NORM_H
#define SPSH_TRAIN_KERNELS_NORM_H

#include "speechshard/device_text.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_NORM(X)

#endif
