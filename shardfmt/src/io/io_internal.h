/* io_internal.h: small helpers for every user of the I/O table. */
#ifndef SPSH_IO_INTERNAL_H
#define SPSH_IO_INTERNAL_H

#include "base/base_internal.h"
#include "speechshard/io.h"

/* Return DIRECTORY/NAME, or NULL without memory. Free with spsh__free. */
char *spsh__path_join(const spsh_allocator *allocator, const char *directory, const char *name);
char *spsh__string_copy(const spsh_allocator *allocator, const char *text);

/* Open for reading, retrying after EINTR. Never blocks on a FIFO. */
spsh_status spsh__io_open_read(const spsh_io *io, const char *path, int *ret_fd, spsh_error *err);

/* Get the size of an open file. Fails unless it is a regular file. */
spsh_status spsh__io_file_bytes(const spsh_io *io, int fd, const char *path, uint64_t *ret_bytes,
                                spsh_error *err);

#endif
