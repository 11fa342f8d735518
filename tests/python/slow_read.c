/* slow_read.c: a library to preload: pread waits while the file that SLOW_READ_WHILE names exists.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*pread_fn)(int fd, void *dst, size_t size_bytes, off_t offset_bytes);

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the system's are reserved */
ssize_t pread64(int fd, void *dst, size_t size_bytes, off_t offset_bytes)
{
    const char *path = getenv("SLOW_READ_WHILE");
    const struct timespec moment = {0, 5000000};
    pread_fn real = __extension__(pread_fn) dlsym(RTLD_NEXT, "pread64");
    while (path != NULL && access(path, F_OK) == 0)
        nanosleep(&moment, NULL);
    return real(fd, dst, size_bytes, offset_bytes);
}

ssize_t pread(int fd, void *dst, size_t size_bytes, off_t offset_bytes)
{
    return pread64(fd, dst, size_bytes, offset_bytes);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
