/* devices.h: `speechshard info --devices`: list the usable GPUs, or report why none is. */
#ifndef SPSH_DEVICES_H
#define SPSH_DEVICES_H

#include <stdbool.h>

/** Print one line per device and one per library that the plug-in's parts load, or one line with
 * the reason; as JSON {"devices": [...], "libraries": [...], "reason": ...}.
 * SPEECHSHARD_CUDA_PLUGIN, if set, names the plug-in file. Returns the exit status: the lack of a
 * device is not a failure. */
int spsh__print_devices(bool as_json);

#endif
