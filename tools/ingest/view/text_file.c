/* text_file.c: see text_file.h.
 *
 * A compressed file is decompressed on demand into an unnamed file in the scratch directory.
 * Decompression stops where the reader stops, so that reading the start of a large file is cheap.
 */
#include "text_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "archive_file.h"
#include "archive_table.h"
#include "common/plain_file.h"
#include "speechshard/inside.h"
#include "view_internal.h"

struct spsh__text_stream {
    spsh__archive *archive;
    int source;          /* descriptor of the compressed file */
    uint64_t size_bytes; /* bytes decompressed so far to the text file's fd */
    bool at_end;
};

/* Decompress up to an offset, or to the end. */
static spsh_status reach(const spsh__text_file *file, uint64_t end_bytes, spsh_error *err)
{
    spsh__text_stream *stream = file->stream;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && !stream->at_end && stream->size_bytes < end_bytes) {
        spsh_bytes data = {NULL, 0};
        rc = spsh__archive_read(stream->archive, &data, err);
        if (rc == SPSH_OK)
            rc = spsh__archive_write(spsh_io_default(), file->fd, file->path, data,
                                     stream->size_bytes, err);
        stream->at_end = rc == SPSH_E_END;
        stream->size_bytes += rc == SPSH_OK ? data.size_bytes : 0;
    }
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status read_file(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                             size_t *ret_size_bytes, spsh_error *err)
{
    const spsh__text_file *file = user;
    const spsh__plain_file plain = {file->fd, file->size_bytes, file->path};
    if (file->stream != NULL) {
        spsh_status rc = reach(file, offset_bytes + size_bytes, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (file->is_part) {
        const uint64_t left = offset_bytes < file->size_bytes ? file->size_bytes - offset_bytes : 0;
        size_bytes = left < size_bytes ? (size_t)left : size_bytes;
    }
    return spsh__plain_file_read(&plain, file->offset_bytes + offset_bytes, buffer, size_bytes,
                                 ret_size_bytes, err);
}

spsh__text_input spsh__text_input_file(spsh__text_file *file)
{
    return (spsh__text_input){read_file, file, file->path,
                              spsh__plain_file_window(file->size_bytes)};
}

static spsh_status read_start(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                              size_t *ret_size_bytes, spsh_error *err)
{
    const spsh__text_file *file = user;
    const uint64_t left = offset_bytes < file->bytes_max ? file->bytes_max - offset_bytes : 0;
    return read_file(user, offset_bytes, buffer, left < size_bytes ? (size_t)left : size_bytes,
                     ret_size_bytes, err);
}

spsh__text_input spsh__text_input_start(spsh__text_file *file, uint64_t bytes_max,
                                        size_t window_bytes)
{
    file->bytes_max = bytes_max;
    return (spsh__text_input){read_start, file, file->path, window_bytes};
}

static void free_stream(spsh__text_stream *stream)
{
    if (stream == NULL)
        return;
    spsh__archive_close(stream->archive);
    if (stream->source >= 0)
        (void)close(stream->source);
    free(stream);
}

static bool is_compressed(const spsh__view *view, const spsh__text_file *file)
{
    uint8_t head[8];
    const size_t size = file->size_bytes < sizeof(head) ? (size_t)file->size_bytes : sizeof(head);
    const ssize_t got = pread(file->fd, head, size, (off_t)file->offset_bytes);
    if (got < 0)
        spsh__view_note_failure(view, file->path, errno);
    return got > 0 && spsh__archive_is_compressed(head, (size_t)got);
}

/* Replace file->fd by an unnamed file for the decompressed bytes. */
static spsh_status decompress(const spsh__view *view, spsh__text_file *file, spsh_error *err)
{
    const spsh_io *io = spsh_io_default();
    const spsh__archive_input input = {io, file->fd, file->path, file->offset_bytes,
                                       file->is_part ? file->offset_bytes + file->size_bytes
                                                     : SPSH_OFFSET_NONE};
    spsh__archive_column column = {.fd = -1};
    spsh__text_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory to read it", file->path);
    stream->source = -1;
    spsh_status rc = spsh__archive_open_stream(&input, &stream->archive, err);
    if (rc == SPSH_OK)
        rc = spsh__column_open(io, view->scratch_directory, &column, err);
    if (rc != SPSH_OK) {
        free_stream(stream);
        return rc;
    }
    stream->source = file->fd;
    *file = (spsh__text_file){.fd = column.fd,
                              .path = file->path,
                              .size_bytes = SPSH__PIECE_BYTES_UNKNOWN,
                              .stream = stream};
    return SPSH_OK;
}

spsh_status spsh__text_file_open(const spsh__view *view, const char *path,
                                 spsh__text_file *ret_file, spsh_error *err)
{
    spsh__piece piece;
    spsh_error cause = SPSH_ERROR_INIT;
    const int os_errno = spsh__view_locate_known(view, path, SPSH__PIECE_BYTES_UNKNOWN, &piece);
    if (os_errno != 0)
        return SPSH_FAIL_OS(err, os_errno == ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_IO, os_errno,
                            "%s: cannot open the file", path);
    spsh_status rc = spsh__text_file_open_piece(&piece, path, ret_file, &cause);
    if (rc != SPSH_OK) {
        spsh__view_note_failure(view, path, cause.os_errno);
        return spsh__fail_again(rc, &cause, err);
    }
    if (view->scratch_directory != NULL && is_compressed(view, ret_file)) {
        rc = decompress(view, ret_file, err);
        if (rc != SPSH_OK)
            spsh__text_file_close(ret_file);
    }
    return rc;
}

spsh_status spsh__text_file_open_piece(const spsh__piece *piece, const char *path,
                                       spsh__text_file *ret_file, spsh_error *err)
{
    spsh__plain_file plain;
    const bool is_part = piece->offset_bytes != 0 || piece->size_bytes != piece->file_bytes;
    spsh_status rc = spsh__plain_file_open(piece->path, path, &plain, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_part && plain.size_bytes != piece->file_bytes) {
        spsh__plain_file_close(&plain);
        return SPSH_FAIL(err, SPSH_E_IO, "%s: %s changed its size since it was listed", path,
                         piece->path);
    }
    *ret_file = (spsh__text_file){
        .fd = plain.fd,
        .path = path,
        .offset_bytes = piece->offset_bytes,
        .size_bytes = is_part ? piece->size_bytes : plain.size_bytes,
        .is_part = is_part,
    };
    return SPSH_OK;
}

void spsh__text_file_close(spsh__text_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
    free_stream(file->stream);
    file->stream = NULL;
}

spsh_status spsh__text_file_head(const spsh__view *view, const char *path, void *head,
                                 size_t size_bytes, size_t *ret_size_bytes, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    *ret_size_bytes = 0;
    spsh_status rc = spsh__text_file_open(view, path, &file, err);
    if (rc == SPSH_OK)
        rc = read_file(&file, 0, head, size_bytes, ret_size_bytes, err);
    spsh__text_file_close(&file);
    return rc;
}

spsh_status spsh__text_file_whole(const spsh__view *view, const char *path, size_t bytes_max,
                                  spsh__builder *out, spsh__whole_file *ret_state, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh__builder_clear(out);
    spsh_status rc = spsh__text_file_open(view, path, &file, NULL);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    *ret_state = rc != SPSH_OK                 ? SPSH__WHOLE_UNREADABLE
                 : file.size_bytes > bytes_max ? SPSH__WHOLE_TOO_LONG
                                               : SPSH__WHOLE_READ;
    rc = SPSH_OK;
    if (*ret_state == SPSH__WHOLE_READ) {
        const size_t size_bytes = (size_t)file.size_bytes;
        uint8_t *data = spsh__builder_reserve(out, size_bytes + 1);
        rc = data == NULL ? SPSH_NO_MEMORY(err)
                          : read_file(&file, 0, data, size_bytes, &out->size_bytes, err);
    }
    spsh__text_file_close(&file);
    return rc;
}
