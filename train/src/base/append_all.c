/* append_all.c: see append_all.h. */
#include "append_all.h"

#include <errno.h>
#include <string.h>

spsh_status spsh__append_all(const spsh_io *io, int fd, const void *data, size_t size_bytes,
                             uint64_t *at, const char *path, spsh_error *err)
{
    const uint8_t *bytes = (const uint8_t *)data;
    for (size_t done = 0; done < size_bytes;) {
        const int64_t n = io->pwrite_fn(io->user, fd, bytes + done, size_bytes - done, *at + done);
        if (n == -EINTR)
            continue;
        if (n <= 0) {
            const int os_errno = n == 0 ? EIO : (int)-n;
            const spsh_status rc = spsh_io_status(os_errno);
            spsh_error_set(err, rc, os_errno, *at + done, "%s: cannot write: %s", path,
                           strerror(os_errno));
            return rc;
        }
        done += (size_t)n;
    }
    *at += size_bytes;
    return SPSH_OK;
}
