/* talk_dataset.h: a dataset for tests of the loader: three shards of short utterances in codecs
 * wav, flac and pcm, and in each shard a long recording that segments are cut out of.
 *
 *     talk_dataset_make(path, TALK_MIXED);
 *
 * The bytes are the same at every call. Domains "read" and "talk", four speakers, ids
 * "s<shard>-u<n>".
 */
#ifndef TALK_DATASET_H
#define TALK_DATASET_H

#include "speechshard/publish.h"

enum {
    TALK_SHARDS = 3,
    TALK_SHORT = 24,   /* utterances per shard with a separate recording */
    TALK_SEGMENTS = 8, /* segments of the shard's long recording */
    TALK_UTTERANCES = TALK_SHARDS * (TALK_SHORT + TALK_SEGMENTS),
    TALK_LONG_SECONDS = 24,
};

typedef enum talk_kind {
    TALK_PLAIN = 0, /* 16 kHz, mono */
    TALK_MIXED = 1, /* 8 and 16 kHz, mono and stereo */
} talk_kind;

/* path must not exist; the test stops on failure. */
void talk_dataset_make(const char *path, talk_kind kind);

/* The path of a shard, 0 to TALK_SHARDS - 1. */
void talk_dataset_shard(const char *path, uint32_t shard, char *ret_path, size_t capacity_bytes);

/* Pack FLAC files unchanged, one utterance each: at most count_max files below source, in the order
 * of their paths. Returns their number. */
uint32_t talk_dataset_pack(const char *path, const char *source, uint32_t count_max);

#endif
