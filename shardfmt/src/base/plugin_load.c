/* plugin_load.c: plug-ins are never unloaded: the runtime of CUDA keeps threads and handlers that
 * outlive any caller, and FFmpeg's libraries keep tables.
 */
#include "plugin_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_internal.h"

enum { PATH_BYTES = 4096 };

/* Where plug-ins are, from the folder of this code: a build or a wheel, an installation, and the
 * Python package of the wheel speechshard-cuda, which pip installs next to that folder. */
static const char *const folders[] = {"", SPSH__LIBRARY_FOLDER "/", "../speechshard_cuda/"};

/* Find the file that contains this code. For the main program the loader only knows the name it was
 * called by, which may be a bare name that the shell found. The kernel knows the file. */
static bool find_self(char path[PATH_BYTES])
{
    static const char here = 0;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL)
        return false;
    if (strchr(info.dli_fname, '/') == NULL) {
        const ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 1);
        path[length > 0 ? length : 0] = '\0';
        return length > 0;
    }
    const int length = snprintf(path, PATH_BYTES, "%s", info.dli_fname);
    return length > 0 && length < PATH_BYTES;
}

/* FOLDER/NAME, relative to that file's folder; false: there is no such file. */
static bool beside(const char *folder, const char *name, char path[PATH_BYTES])
{
    char self[PATH_BYTES];
    if (!find_self(self))
        return false;
    const char *slash = strrchr(self, '/');
    if (slash == NULL)
        return false;
    const int length =
        snprintf(path, PATH_BYTES, "%.*s%s%s", (int)(slash - self + 1), self, folder, name);
    return length > 0 && length < PATH_BYTES && access(path, F_OK) == 0;
}

/* Return the text of dlerror, which names the file and the cause. It is never NULL after a failure.
 */
static const char *loader_text(void)
{
    const char *text = dlerror();
    return text == NULL ? "no reason given" : text;
}

spsh_status spsh__plugin_load(const char *path, const char *name, const char *title,
                              void **ret_library, spsh_error *err)
{
    char found[PATH_BYTES];
    if (path == NULL) {
        path = name; /* a bare name is left to the system */
        for (size_t i = 0; path == name && i < sizeof(folders) / sizeof(folders[0]); i++)
            if (beside(folders[i], name, found))
                path = found;
    }
    if (strchr(path, '/') != NULL && access(path, F_OK) != 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: the %s plug-in was not found", path, title);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL && strchr(path, '/') == NULL)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "the %s plug-in was not built or not installed (%s)", title,
                         loader_text());
    if (library == NULL)
        return SPSH_FAIL(err, SPSH_E_IO, "the %s plug-in cannot be loaded: %s", title,
                         loader_text());
    *ret_library = library;
    return SPSH_OK;
}
