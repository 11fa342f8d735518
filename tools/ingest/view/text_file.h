/* text_file.h: open a metadata file of a view as input for the row and line readers. */
#ifndef SPSH_INGEST_TEXT_FILE_H
#define SPSH_INGEST_TEXT_FILE_H

#include "common/row_reader.h"
#include "view.h"

typedef struct spsh__text_stream spsh__text_stream;

/** An open file. fd -1 means closed. */
typedef struct spsh__text_file {
    int fd;
    const char *path;      /* path in the view, for messages; borrowed */
    uint64_t offset_bytes; /* offset of the first byte in fd */
    uint64_t size_bytes;
    bool is_part; /* the file is a part of fd, and reading stops after size_bytes. A whole file may
                     grow. */
    uint64_t bytes_max;        /* argument of spsh__text_input_start */
    spsh__text_stream *stream; /* state of a compressed file, whose size_bytes is unknown, or
                                  NULL */
} spsh__text_file;

/* Open a regular file. Rejects any other type. SPSH_E_NOT_FOUND if the file does not exist. A
 * compressed file is decompressed on demand while it is read, and its size_bytes is
 * SPSH__PIECE_BYTES_UNKNOWN.
 */
SPSH_NODISCARD spsh_status spsh__text_file_open(const spsh__view *view, const char *path,
                                                spsh__text_file *ret_file, spsh_error *err);

/* Open a piece without decompression. path appears in messages. */
SPSH_NODISCARD spsh_status spsh__text_file_open_piece(const spsh__piece *piece, const char *path,
                                                      spsh__text_file *ret_file, spsh_error *err);
spsh__text_input spsh__text_input_file(spsh__text_file *file);

/* Make an input that ends after bytes_max, so that a probe is cheap for any file. */
spsh__text_input spsh__text_input_start(spsh__text_file *file, uint64_t bytes_max,
                                        size_t window_bytes);
void spsh__text_file_close(spsh__text_file *file);

/* Read the start of a file, at most size_bytes. */
SPSH_NODISCARD spsh_status spsh__text_file_head(const spsh__view *view, const char *path,
                                                void *head, size_t size_bytes,
                                                size_t *ret_size_bytes, spsh_error *err);

typedef enum spsh__whole_file {
    SPSH__WHOLE_READ,
    SPSH__WHOLE_UNREADABLE, /* it cannot be opened */
    SPSH__WHOLE_TOO_LONG,
} spsh__whole_file;

/* Replace the content of out by a whole file of at most bytes_max bytes. Only other failures are
 * returned. */
SPSH_NODISCARD spsh_status spsh__text_file_whole(const spsh__view *view, const char *path,
                                                 size_t bytes_max, spsh__builder *out,
                                                 spsh__whole_file *ret_state, spsh_error *err);

#endif
