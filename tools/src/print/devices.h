/* devices.h: `speechshard info --devices`: which GPUs can be used, or why none. */
#ifndef SPSH_DEVICES_H
#define SPSH_DEVICES_H

#include <stdbool.h>

/** Prints a line a device and one a library that the plug-in's parts load, or one line with the
 * reason; as JSON {"devices": [...], "libraries": [...], "reason": ...}. The plug-in is the file
 * that SPEECHSHARD_CUDA_PLUGIN names, where that is set. Returns the exit status: that there is no
 * device is an answer, not a failure. */
int spsh__print_devices(bool as_json);

#endif
