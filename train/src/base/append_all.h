/* append_all.h: append to a file whose size is known. */
#ifndef SPSH_APPEND_ALL_H
#define SPSH_APPEND_ALL_H

#include "speechshard/io.h"

/* Append at *at and advance it, through short writes. On failure *at is unchanged. */
spsh_status spsh__append_all(const spsh_io *io, int fd, const void *data, size_t size_bytes,
                             uint64_t *at, const char *path, spsh_error *err);

#endif
