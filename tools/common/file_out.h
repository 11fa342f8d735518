/* file_out.h: a file that a subcommand writes for the user, as a byte sink.
 *
 *     rc = spsh__file_out_open(path, &file, &err);
 *     sink = spsh__file_out_sink(file);
 *     ...
 *     rc = spsh__file_out_finish(file, &err);      // the complete file now exists
 *     spsh__file_out_free(file);                   // unfinished: the file is removed
 */
#ifndef SPSH_FILE_OUT_H
#define SPSH_FILE_OUT_H

#include "wav_out.h"

typedef struct spsh__file_out spsh__file_out;

/**
 * Open a file for writing. A regular file is written under a temporary name in the same folder, and
 * finish renames it to path. Anything else that exists (a device, a pipe) is written directly.
 */
SPSH_NODISCARD spsh_status spsh__file_out_open(const char *path, spsh__file_out **ret_file,
                                               spsh_error *err);
spsh__byte_sink spsh__file_out_sink(spsh__file_out *file);
SPSH_NODISCARD spsh_status spsh__file_out_finish(spsh__file_out *file, spsh_error *err);
void spsh__file_out_free(spsh__file_out *file);

/** Open path, write content, and finish the file. */
SPSH_NODISCARD spsh_status spsh__file_out_write(const char *path, spsh_bytes content,
                                                spsh_error *err);

/** Return a sink for standard output, through stdio. */
spsh__byte_sink spsh__stdout_sink(void);

#endif
