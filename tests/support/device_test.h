/* device_test.h: the plug-in that a test of devices was called with: the real one, or a twin. */
#ifndef SPSH_DEVICE_TEST_H
#define SPSH_DEVICE_TEST_H

#include "speechshard/cuda.h"
#include "twin_plugin.h"

/* Open the plug-in. Returns 0, or the exit status of the program after printing the reason:
 * TEST_SKIPPED without a device, 1 for other failures. ret_twin: controls of a host emulation, NULL
 * for a real device; may be NULL. */
int device_test_open(const char *path, spsh_cuda **ret_cuda, twin_controls **ret_twin);

#endif
