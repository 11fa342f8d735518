/* append_all.h: appending to a file whose size is known. */
#ifndef SPSH_APPEND_ALL_H
#define SPSH_APPEND_ALL_H

#include "speechshard/io.h"

/* Appends at *at, and moves it, through short writes; on failure *at is as it was. */
spsh_status spsh__append_all(const spsh_io *io, int fd, const void *data, size_t size_bytes,
                             uint64_t *at, const char *path, spsh_error *err);

#endif
