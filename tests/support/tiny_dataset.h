/* tiny_dataset.h: a dataset of four shards in three units that has one of everything that matters
 * between shards.
 *
 *     unit 0, shard 0    A pcm 16 kHz, B wav 8 kHz stereo          u0 A, u1 part of A, u2 B, u3 as
 * u1 unit 0, shard 1    C flac 16 kHz                             v0 C, v1 A (of the shard before),
 * v2 part of C unit 1, shard 0    A again, A as wav, D pcm                  w0, w1, w2: one of each
 *     unit 2, shard 0    D again, E undecodable, F trusted, too    x0, x1, x2: one of each
 *                        short by 10 samples
 *
 * The bytes are the same on every machine.
 */
#ifndef TINY_DATASET_H
#define TINY_DATASET_H

#include "speechshard/publish.h"

enum {
    TINY_SHARDS = 4,
    TINY_UTTERANCES = 13,
    TINY_RECORDS = 9,
    TINY_SAMPLES_A = 3000,
    TINY_SAMPLES_B = 1000,
    TINY_SAMPLES_C = 9000,
    TINY_SAMPLES_D = 500,
    TINY_SAMPLES_F = 400,
};

typedef struct tiny_dataset {
    char path[512];
    spsh_shard_seal seals[TINY_SHARDS];
} tiny_dataset;

extern const uint8_t tiny_dataset_id[16];
extern const char *const tiny_dataset_ids[TINY_UTTERANCES];

/* Makes the folder and writes the shards; stops the test on failure. */
void tiny_dataset_write(tiny_dataset *dataset, const char *path);

/* allocator, io, ret_info may be NULL. */
spsh_status tiny_dataset_publish(const tiny_dataset *dataset, spsh_dedupe dedupe,
                                 const spsh_allocator *allocator, const spsh_io *io,
                                 spsh_dataset_info *ret_info, spsh_error *err);

/* Sample i (value i of the interleaved ones) of a recording, 'A' to 'F'. */
int16_t tiny_dataset_sample(char recording, uint64_t i);

/* Open a dataset and read all of it: manifest, rows, names, groups, overlays, strings, each id
 * found. With decode also payloads and PCM, including the required failures. The digest covers
 * everything that was returned. */
spsh_status tiny_dataset_read(const char *path, const spsh_dataset_options *options, bool decode,
                              uint8_t ret_digest[16], spsh_error *err);

#endif
