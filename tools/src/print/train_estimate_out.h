/* train_estimate_out.h: the output of `train --estimate`. */
#ifndef SPSH_TRAIN_ESTIMATE_OUT_H
#define SPSH_TRAIN_ESTIMATE_OUT_H

#include <stdbool.h>

/* overrides: NULL-terminated. Returns an exit status. */
int spsh__train_estimate(const char *config, const char *const *overrides, bool json);

#endif
