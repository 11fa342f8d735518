/* window_function.h: window functions (spsh_feature_window). */
#ifndef SPSH_WINDOW_FUNCTION_H
#define SPSH_WINDOW_FUNCTION_H

#include "speechshard/featgen.h"

/* Fill `count` values. A window of one sample is 1. */
void spsh__window_fill(spsh_feature_window window, uint32_t count, float *values);

#endif
