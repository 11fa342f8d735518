/* text_file.h: a metadata file of a view as an input for the readers of rows and lines. */
#ifndef SPSH_INGEST_TEXT_FILE_H
#define SPSH_INGEST_TEXT_FILE_H

#include "common/row_reader.h"
#include "view.h"

typedef struct spsh__text_stream spsh__text_stream;

/** An open file; fd -1 is closed. */
typedef struct spsh__text_file {
    int fd;
    const char *path;      /* in the view, for messages; borrowed */
    uint64_t offset_bytes; /* of its first byte in fd */
    uint64_t size_bytes;
    bool is_part; /* of fd: what lies behind size_bytes is not read. A whole file may grow. */
    spsh__text_stream *stream; /* of a compressed file, whose size_bytes is not known, or NULL */
} spsh__text_file;

/* Opens a regular file; anything else is refused. SPSH_E_NOT_FOUND when there is none. A compressed
 * file is given decompressed, as far as it is read: its size_bytes is SPSH__PIECE_BYTES_UNKNOWN.
 */
SPSH_NODISCARD spsh_status spsh__text_file_open(const spsh__view *view, const char *path,
                                                spsh__text_file *ret_file, spsh_error *err);

/* The same for a piece; path is for messages. */
SPSH_NODISCARD spsh_status spsh__text_file_open_piece(const spsh__piece *piece, const char *path,
                                                      spsh__text_file *ret_file, spsh_error *err);
spsh__text_input spsh__text_input_file(spsh__text_file *file);
void spsh__text_file_close(spsh__text_file *file);

#endif
