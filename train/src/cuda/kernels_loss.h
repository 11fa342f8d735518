/* kernels_loss.h */
#ifndef SPSH_TRAIN_KERNELS_LOSS_H
#define SPSH_TRAIN_KERNELS_LOSS_H

#include "speechshard/device_text.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_LOSS(X)

#endif
