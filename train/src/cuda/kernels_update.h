/* kernels_update.h */
#ifndef SPSH_TRAIN_KERNELS_UPDATE_H
#define SPSH_TRAIN_KERNELS_UPDATE_H

#include "speechshard/device_text.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_UPDATE(X)

#endif
