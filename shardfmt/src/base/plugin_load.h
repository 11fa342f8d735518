/* plugin_load.h: find and load a plug-in of ours. */
#ifndef SPSH_PLUGIN_LOAD_H
#define SPSH_PLUGIN_LOAD_H

#include "speechshard/base.h"

/**
 * Load a plug-in.
 *
 * @param path   path of the file. NULL: search `name` next to the file that contains this function,
 *               then in the installed library folder, then where the system searches libraries
 * @param title  "CUDA", for messages
 * @param ret_library  for dlsym and dlclose; the code stays in the process after dlclose
 * @return SPSH_OK, SPSH_E_NOT_FOUND, SPSH_E_IO
 */
SPSH_NODISCARD spsh_status spsh__plugin_load(const char *path, const char *name, const char *title,
                                             void **ret_library, spsh_error *err);

#endif
