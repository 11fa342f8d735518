/* plain_file.h: a regular file as a text input.
 *
 *     spsh__plain_file file;
 *     rc = spsh__plain_file_open(path, path, &file, err);
 *     const spsh__text_input input = spsh__plain_file_input(&file);
 *     ...
 *     spsh__plain_file_close(&file);
 */
#ifndef SPSH_PLAIN_FILE_H
#define SPSH_PLAIN_FILE_H

#include "row_reader.h"

/** An open file. fd -1: closed. */
typedef struct spsh__plain_file {
    int fd;
    uint64_t size_bytes; /* size at opening; the file may grow */
    const char *name;    /* for messages; borrowed */
} spsh__plain_file;

/* SPSH_E_NOT_FOUND: no such file; SPSH_E_INVALID_ARG: not a regular file; SPSH_E_IO. On failure
 * there is nothing to close. */
SPSH_NODISCARD spsh_status spsh__plain_file_open(const char *path, const char *name,
                                                 spsh__plain_file *ret_file, spsh_error *err);
void spsh__plain_file_close(spsh__plain_file *file);

/* Read size_bytes bytes; fewer only at the end of the file. */
SPSH_NODISCARD spsh_status spsh__plain_file_read(const spsh__plain_file *file,
                                                 uint64_t offset_bytes, void *buffer,
                                                 size_t size_bytes, size_t *ret_size_bytes,
                                                 spsh_error *err);

/* Return the window size for a text of size_bytes bytes. A small text is read at once, with one
 * more byte to detect its end. 0 (the default window) for larger texts. */
size_t spsh__plain_file_window(uint64_t size_bytes);

/* Return an input that reads file, which is borrowed. */
spsh__text_input spsh__plain_file_input(spsh__plain_file *file);

#endif
