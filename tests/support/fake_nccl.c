/* fake_nccl.c: as much of libnccl.so.2 as says which version it is; and, under another name, a
 * library that lacks what its name promises. */
#include "speechshard/base.h"

/* NCCL's name. NOLINTBEGIN(readability-identifier-naming) */
SPSH_API int ncclGetVersion(int *version);

SPSH_API int ncclGetVersion(int *version)
{
    *version = 22903;
    return 0;
}
/* NOLINTEND(readability-identifier-naming) */
