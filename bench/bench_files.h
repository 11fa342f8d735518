/* bench_files.h: audio files in memory, and libFLAC over them. An error stops the program. */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <FLAC/stream_decoder.h>

#include "speechshard/base.h"

/* Call take_fn with each file of a folder except hidden files, or with the file itself. */
void bench_walk(const char *path, void (*take_fn)(const char *path));

/* The whole file, from malloc. */
uint8_t *bench_read_file(const char *path, size_t *ret_bytes);

typedef struct bench_stream {
    spsh_bytes bytes;
    size_t position;
} bench_stream;

/* Callbacks of a decoder whose user data begins with a bench_stream. */
FLAC__StreamDecoderReadStatus bench_flac_read(const FLAC__StreamDecoder *library,
                                              FLAC__byte buffer[], size_t *bytes, void *user);
void bench_flac_ignore(const FLAC__StreamDecoder *library, FLAC__StreamDecoderErrorStatus status,
                       void *user);

#endif
