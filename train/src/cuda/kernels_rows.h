/* kernels_rows.h */
#ifndef SPSH_TRAIN_KERNELS_ROWS_H
#define SPSH_TRAIN_KERNELS_ROWS_H

#include "speechshard/device_text.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_ROWS(X)

#endif
