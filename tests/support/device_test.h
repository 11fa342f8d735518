/* device_test.h: the plug-in that a test of devices was called with: the real one, or a twin. */
#ifndef SPSH_DEVICE_TEST_H
#define SPSH_DEVICE_TEST_H

#include "speechshard/cuda.h"
#include "twin_plugin.h"

/* 0: it is open; else what the program has to end with, the reason being printed: TEST_SKIPPED
 * where there is no device, 1 where more is wrong. ret_twin: what a twin lets a test change; NULL
 * of a real device. It may be NULL. */
int device_test_open(const char *path, spsh_cuda **ret_cuda, twin_controls **ret_twin);

#endif
