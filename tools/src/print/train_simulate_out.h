/* train_simulate_out.h: what `train --simulate` prints. */
#ifndef SPSH_TRAIN_SIMULATE_OUT_H
#define SPSH_TRAIN_SIMULATE_OUT_H

#include <stdbool.h>

/* config: NULL, or whose model it is; overrides: NULL behind the last. Returns an exit status. */
int spsh__train_simulate(const char *cluster, const char *config, const char *const *overrides,
                         bool json);

#endif
