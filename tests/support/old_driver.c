/* old_driver.c: as libcuda.so.1, a driver that is older than any CUDA that builds the plug-in. */
#include "speechshard/base.h"

SPSH_API int cuDriverGetVersion(int *version);
SPSH_API int cuInit(unsigned flags);

SPSH_API int cuDriverGetVersion(int *version)
{
    *version = 11040;
    return 0;
}

SPSH_API int cuInit(unsigned flags)
{
    return (int)flags;
}
