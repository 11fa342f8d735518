/* bench_files.c: see bench_files.h. */
#include "bench_files.h"

#include <ftw.h>

#include "bench_kit.h"

enum { FOLDERS_OPEN_MAX = 16 };

static void (*walk_take_fn)(const char *path); /* nftw passes no user pointer */

static int visit(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat;
    if (kind == FTW_F && path[walk->base] != '.')
        walk_take_fn(path);
    return 0;
}

void bench_walk(const char *path, void (*take_fn)(const char *path))
{
    walk_take_fn = take_fn;
    must(nftw(path, visit, FOLDERS_OPEN_MAX, 0) == 0, path);
}

uint8_t *bench_read_file(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    must(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
    const long end = ftell(file);
    must(end >= 0 && fseek(file, 0, SEEK_SET) == 0, path);
    uint8_t *data = (uint8_t *)malloc((size_t)end + 1);
    must(data != NULL, path);
    *ret_bytes = fread(data, 1, (size_t)end, file);
    must(*ret_bytes == (size_t)end && fclose(file) == 0, path);
    return data;
}

FLAC__StreamDecoderReadStatus bench_flac_read(const FLAC__StreamDecoder *library,
                                              FLAC__byte buffer[], size_t *bytes, void *user)
{
    bench_stream *stream = (bench_stream *)user;
    const size_t left = stream->bytes.size_bytes - stream->position;
    (void)library;
    *bytes = *bytes < left ? *bytes : left;
    memcpy(buffer, stream->bytes.data + stream->position, *bytes);
    stream->position += *bytes;
    return *bytes == 0 ? FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM
                       : FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

void bench_flac_ignore(const FLAC__StreamDecoder *library, FLAC__StreamDecoderErrorStatus status,
                       void *user)
{
    (void)library, (void)status, (void)user;
}
