/* file_out.h: a file that a subcommand writes for the user, as a byte sink.
 *
 *     rc = spsh__file_out_open(path, &file, &err);
 *     sink = spsh__file_out_sink(file);
 *     ...
 *     rc = spsh__file_out_finish(file, &err);      // now it is there, whole
 *     spsh__file_out_free(file);                   // unfinished: nothing is left
 */
#ifndef SPSH_FILE_OUT_H
#define SPSH_FILE_OUT_H

#include "wav_out.h"

typedef struct spsh__file_out spsh__file_out;

/**
 * A regular file is written beside its place and replaces what is there at finish; anything else
 * that exists (a device, a pipe) is written directly.
 */
SPSH_NODISCARD spsh_status spsh__file_out_open(const char *path, spsh__file_out **ret_file,
                                               spsh_error *err);
spsh__byte_sink spsh__file_out_sink(spsh__file_out *file);
SPSH_NODISCARD spsh_status spsh__file_out_finish(spsh__file_out *file, spsh_error *err);
void spsh__file_out_free(spsh__file_out *file);

/** All of it: opened, written, finished. */
SPSH_NODISCARD spsh_status spsh__file_out_write(const char *path, spsh_bytes content,
                                                spsh_error *err);

/** Standard output, through stdio. */
spsh__byte_sink spsh__stdout_sink(void);

#endif
