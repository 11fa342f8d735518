/* train_simulate_out.h: the output of `train --simulate`. */
#ifndef SPSH_TRAIN_SIMULATE_OUT_H
#define SPSH_TRAIN_SIMULATE_OUT_H

#include <stdbool.h>

/* config: source of the model, or NULL; overrides: NULL-terminated. Returns an exit status. */
int spsh__train_simulate(const char *cluster, const char *config, const char *const *overrides,
                         bool json);

#endif
