/* run_shared.c: see run_shared.h. */
#include "run_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "speechshard/inside.h"

enum { PATH_BYTES = 1024 };

static spsh_status make(const char *folder, const spsh_io *io, size_t size, char path[PATH_BYTES],
                        int *ret_fd, spsh_error *err)
{
    *ret_fd = -1;
    for (int i = 0; i < 2 && *ret_fd < 0; i++) {
        (void)snprintf(path, PATH_BYTES, "%s/.speechshard-XXXXXX", i == 0 ? "/dev/shm" : folder);
        if (i == 1 && spsh_io_make_directory(io, folder, NULL) != SPSH_OK)
            break;
        *ret_fd = mkostemp(path, O_CLOEXEC);
        if (*ret_fd >= 0 && posix_fallocate(*ret_fd, 0, (off_t)size) != 0) {
            (void)unlink(path);
            (void)close(*ret_fd);
            *ret_fd = -1;
        }
    }
    if (*ret_fd >= 0)
        return SPSH_OK;
    path[0] = '\0';
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY,
                     "cannot allocate %zu bytes of shared memory in /dev/shm or in %s", size,
                     folder);
}

/* Fail on all ranks if one rank has failed. All ranks call this, also after a failure. */
static spsh_status agree(spsh__comm *comm, spsh_status own, spsh_error *err)
{
    uint64_t has_failed = own != SPSH_OK;
    const spsh_status rc =
        spsh__comm_all_reduce(comm, SPSH__COMM_U64, SPSH__COMM_MAX, &has_failed, 1, err);
    if (own != SPSH_OK || rc != SPSH_OK || has_failed == 0)
        return own != SPSH_OK ? own : rc;
    return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                     "train.strategy hogwild: another process cannot open the shared memory");
}

spsh_status spsh__shared_open(const spsh__run_world *w, const char *folder, const spsh_io *io,
                              size_t size, spsh__shared_memory *ret, spsh_error *err)
{
    char path[PATH_BYTES] = "";
    int fd = -1;
    spsh_status rc = SPSH_OK;
    if (w->comm->world_size > 1 && w->launch.local_size != w->comm->world_size)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.strategy hogwild: all processes must share memory, but of %u only "
                         "%u are on this node",
                         w->comm->world_size, w->launch.local_size);
    if (w->is_first)
        rc = make(folder, io, size, path, &fd, err);
    const spsh_status sent = spsh__comm_broadcast(w->comm, path, sizeof(path), 0, err);
    if (sent != SPSH_OK)
        rc = rc != SPSH_OK ? rc : sent;
    if (rc == SPSH_OK && !w->is_first)
        fd = open(path, O_RDWR | O_CLOEXEC);
    void *memory =
        fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rc == SPSH_OK && memory == MAP_FAILED)
        rc = SPSH_FAIL_OS(
            err, SPSH_E_UNSUPPORTED, errno,
            "train.strategy hogwild: cannot open '%s', the memory that all processes share", path);
    if (fd >= 0)
        (void)close(fd);
    if (memory != MAP_FAILED)
        *ret = (spsh__shared_memory){(float *)memory, size};
    rc = agree(w->comm, rc, err);
    if (w->is_first && path[0] != '\0')
        (void)unlink(path);
    return rc;
}

void spsh__shared_close(spsh__shared_memory *m)
{
    if (m->elements != NULL)
        (void)munmap(m->elements, m->size_bytes);
    m->elements = NULL;
}
