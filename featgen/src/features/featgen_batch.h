/* featgen_batch.h: the threads of spsh_featgen_batch. */
#ifndef SPSH_FEATGEN_BATCH_H
#define SPSH_FEATGEN_BATCH_H

#include "speechshard/featgen.h"

typedef struct spsh__batch spsh__batch;

/* Stop the threads. NULL is allowed. */
void spsh__batch_close(spsh__batch *batch);

#endif
