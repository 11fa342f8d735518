/* twin_nccl.c: the host emulation of nccl.cu: nccl_calls.c over the library that TWIN_NCCL names
 * (tests/support/nccl_shim.c), which uses the emulation's streams. Without TWIN_NCCL, NCCL is
 * missing.
 *
 * The device of each process has a different key, unless TWIN_DEVICE_KEY sets the key. With
 * TWIN_LAUNCHES_WAIT, launches of graphs wait for the device (twin_plugin.h). */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/nccl_calls.h"
#include "nccl_shim.h"
#include "twin_internal.h"

spsh_status spsh__cuda_enter(uint32_t device, int *ret_before, spsh_error *err)
{
    return twin_table.enter_fn(device, ret_before, err);
}

void spsh__cuda_leave(int before)
{
    twin_table.leave_fn(before);
}

spsh_status spsh__nccl_key(uint32_t device, uint64_t *ret_key, spsh_error *err)
{
    const char *key = getenv("TWIN_DEVICE_KEY");
    (void)err;
    *ret_key = key != NULL ? strtoull(key, NULL, 10) : (uint64_t)getpid() << 8 | device;
    return SPSH_OK;
}

const char *spsh__nccl_default(void)
{
    const char *path = getenv("TWIN_NCCL");
    return path != NULL ? path : "/nonexistent/libnccl.so.2";
}

static spsh_status load(const char *path, void **ret_library, spsh_error *err)
{
    nccl_shim_streams_fn *streams = NULL;
    const spsh_status rc = spsh__nccl_entry.load_fn(path, ret_library, err);
    if (rc != SPSH_OK)
        return rc;
    void *symbol = dlsym(((const spsh__nccl *)*ret_library)->handle, NCCL_SHIM_STREAMS_SYMBOL);
    if (symbol == NULL)
        twin_stop("that is no shim of NCCL");
    memcpy(&streams, &symbol, sizeof(streams));
    streams(twin_enqueue);
    return SPSH_OK;
}

SPSH_API const spsh__device_nccl_entry *spsh_cuda_nccl_entry(void);

SPSH_API const spsh__device_nccl_entry *spsh_cuda_nccl_entry(void)
{
    static spsh__device_nccl_entry entry;
    if (getenv("TWIN_LAUNCHES_WAIT") != NULL)
        twin_state.launches_wait = true;
    entry = spsh__nccl_entry;
    entry.load_fn = load;
    return &entry;
}
