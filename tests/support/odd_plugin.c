/* odd_plugin.c: faulty or unrelated files instead of the CUDA plug-in. Compiled once per ODD_*.
 */
#include <stdio.h>

#include "speechshard/cuda_plugin.h"

#if defined(ODD_ABI) || defined(ODD_VERSION) || defined(ODD_DRIVER)

SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void);

static spsh_status count_devices(uint32_t *ret_count, spsh_error *err)
{
    *ret_count = 1;
#ifdef ODD_DRIVER
    if (err != NULL) {
        err->status = SPSH_E_UNSUPPORTED;
        (void)snprintf(err->message, sizeof(err->message), "the driver says no");
    }
    return SPSH_E_UNSUPPORTED;
#else
    (void)err;
    return SPSH_OK;
#endif
}

SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin(void)
{
    static const spsh__cuda_plugin plugin = {
#ifdef ODD_ABI
        .abi = SPSH__CUDA_ABI + 1,
#else
        .abi = SPSH__CUDA_ABI,
#endif
#ifdef ODD_VERSION
        .version = "0.0.1",
#else
        .version = SPSH_VERSION_STRING,
#endif
        .count_fn = count_devices,
    };
    return &plugin;
}

#else

SPSH_API int odd_plugin(void);

/* An unrelated library. */
SPSH_API int odd_plugin(void)
{
    return 0;
}

#endif
