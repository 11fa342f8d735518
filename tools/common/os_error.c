/* os_error.c: see os_error.h. */
#include "os_error.h"

#include <errno.h>
#include <stddef.h>

bool spsh__os_error_is_transient(int os_errno)
{
    static const int transient[] = {
        EIO,        ESTALE,       ETIMEDOUT, ENOTCONN,     ESHUTDOWN, ECONNREFUSED,
        ECONNRESET, ECONNABORTED, EHOSTDOWN, EHOSTUNREACH, ENETDOWN,  ENETUNREACH,
        EREMOTEIO,  ENOLCK,       EAGAIN,    EBUSY,        ENFILE,
    };
    for (size_t i = 0; i < sizeof(transient) / sizeof(transient[0]); i++)
        if (os_errno == transient[i])
            return true;
    return false;
}
