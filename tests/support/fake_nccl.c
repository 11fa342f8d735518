/* fake_nccl.c: the part of libnccl.so.2 that returns its version. Under another name, it is a
 * library without the functions that its name promises. */
#include "speechshard/base.h"

/* NCCL's name. NOLINTBEGIN(readability-identifier-naming) */
SPSH_API int ncclGetVersion(int *version);

SPSH_API int ncclGetVersion(int *version)
{
    *version = 22903;
    return 0;
}
/* NOLINTEND(readability-identifier-naming) */
