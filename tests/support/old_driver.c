/* old_driver.c: as libcuda.so.1, a driver that is older than any CUDA that builds the plug-in. */
#include "speechshard/base.h"

SPSH_API int driver_version(int *version) __asm__("cuDriverGetVersion");
SPSH_API int driver_init(unsigned flags) __asm__("cuInit");

SPSH_API int driver_version(int *version)
{
    *version = 11040;
    return 0;
}

SPSH_API int driver_init(unsigned flags)
{
    return (int)flags;
}
