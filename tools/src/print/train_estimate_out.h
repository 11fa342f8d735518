/* train_estimate_out.h: what `train --estimate` prints. */
#ifndef SPSH_TRAIN_ESTIMATE_OUT_H
#define SPSH_TRAIN_ESTIMATE_OUT_H

#include <stdbool.h>

/* overrides: NULL behind the last. Returns an exit status. */
int spsh__train_estimate(const char *config, const char *const *overrides, bool json);

#endif
