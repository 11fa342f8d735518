/* backend_cuda.c: the backend `cuda`: memory, lanes, segments, products and convolutions. */
#include "backend_cuda.h"

spsh_status spsh__backend_cuda_open(spsh__backend *backend, const spsh__backend_options *options,
                                    spsh_error *err)
{
    (void)backend, (void)options;
    return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, SPSH_OFFSET_NONE, "backend cuda: not yet");
}
