/* fingerprint.h: what a recording sounds like, in bits that survive codecs, and in keys to find it
 * by.
 *
 *     const spsh__print_sink sink = {.frames_fn = my_frames, .user = me};
 *     spsh__fingerprint *maker = NULL;
 *     spsh_status rc = spsh__fingerprint_new(16000, sink, &maker, err);
 *     while (rc == SPSH_OK && (count = more(pcm)) > 0)
 *         rc = spsh__fingerprint_push(maker, pcm, count, err);
 *     if (rc == SPSH_OK)
 *         rc = spsh__fingerprint_finish(maker, err);
 *     spsh__fingerprint_free(maker);
 *
 * Every 16 ms a print frame: 32 bits and a level. About four times a second a key: 48 bits and the
 * three of them that are nearest to turning over. docs/FINGERPRINT.md is normative; the same input
 * gives the same bits with any compiler, processor, number of threads and in any pieces.
 */
#ifndef SPSH_DEDUP_FINGERPRINT_H
#define SPSH_DEDUP_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "speechshard/base.h"

#define SPSH__FINGERPRINT_VERSION 1

#define SPSH__PRINT_HOP    128  /* samples of 8 kHz between frames: 16 ms */
#define SPSH__PRINT_SPAN   2048 /* samples that one print frame depends on: 256 ms */
#define SPSH__PRINT_HZ     62.5 /* frames a second */
#define SPSH__LEVEL_FLOOR  24   /* about 4 units of 16-bit samples (-78 dB of full scale) */
#define SPSH__LEVEL_RANGE  40   /* 30 dB */
#define SPSH__KEY_BITS     48
#define SPSH__KEY_WEAK_MAX 3
#define SPSH__DENSE_WEAK   6
#define SPSH__WORD_WEAK    14

/* Frame i comes from samples 128 i to 128 i + 2047 of the 8 kHz signal. */
typedef struct spsh__print_frame {
    uint32_t word;
    uint8_t level;  /* of the middle, steps of 0.75 dB, 0 to 127 */
    bool is_active; /* level >= SPSH__LEVEL_FLOOR and within 30 dB of the loudest nearby */
} spsh__print_frame;

typedef struct spsh__print_key {
    uint64_t bits;                    /* 48; the upper 32 are a key of their own */
    uint64_t frame;                   /* of the print, at whose middle the key begins */
    uint8_t weak[SPSH__KEY_WEAK_MAX]; /* places of the least certain bits, from the lowest bit;
                                         least first */
} spsh__print_key;

/* A key as it would be if there were one at every active frame: for the small side of an audit,
 * which looks for the upper 32 bits of stored keys and can afford to turn over more. */
typedef struct spsh__dense_key {
    uint64_t bits;                  /* as of a key */
    uint64_t frame;                 /* likewise */
    uint8_t weak[SPSH__DENSE_WEAK]; /* of the upper 32 bits (16 to 47), least certain first */
} spsh__dense_key;

/* An active print frame with its least certain bits: for clips that are looked for in every frame
 * of others (frame_scan.h). */
typedef struct spsh__weak_word {
    uint64_t frame;
    uint32_t word;
    uint8_t weak[SPSH__WORD_WEAK]; /* places, least certain first */
} spsh__weak_word;

/* Called with each piece in order; anything but SPSH_OK ends the push with that. Any may be NULL.
 */
typedef struct spsh__print_sink {
    spsh_status (*frames_fn)(void *user, uint64_t first, const spsh__print_frame *frames,
                             size_t count, spsh_error *err);
    spsh_status (*key_fn)(void *user, const spsh__print_key *key, spsh_error *err);
    spsh_status (*dense_fn)(void *user, const spsh__dense_key *key, spsh_error *err);
    spsh_status (*word_fn)(void *user, const spsh__weak_word *word, spsh_error *err);
    /* The 8 kHz signal, in sixteenths of the input's unit; what verification works on. */
    spsh_status (*samples_fn)(void *user, const int32_t *samples, size_t count, spsh_error *err);
    void *user;
} spsh__print_sink;

typedef struct spsh__fingerprint spsh__fingerprint;

/**
 * @param rate_hz  of the samples, 8,000 to 192,000
 * @return SPSH_OK, SPSH_E_INVALID_ARG or SPSH_E_NO_MEMORY
 *
 * Memory: 200 KB and the resampler's, whatever the length. One thread per object.
 */
spsh_status spsh__fingerprint_new(uint32_t rate_hz, spsh__print_sink sink,
                                  spsh__fingerprint **ret_maker, spsh_error *err);

/* Any number of samples of one channel; what a stereo recording is mixed to is the caller's choice.
 * Floating-point audio has become 16-bit integers before, so there is no NaN here. After a failure
 * only spsh__fingerprint_free is allowed. */
spsh_status spsh__fingerprint_push(spsh__fingerprint *maker, const int16_t *samples, size_t count,
                                   spsh_error *err);

/* The end of the recording; then the object takes the next one. */
spsh_status spsh__fingerprint_finish(spsh__fingerprint *maker, spsh_error *err);

void spsh__fingerprint_free(spsh__fingerprint *maker);

/* A whole recording's print in memory. All zero is empty; free with spsh__print_free. */
typedef struct spsh__print {
    spsh__print_frame *frames;
    size_t frame_count;
    size_t frame_capacity;
    spsh__print_key *keys;
    size_t key_count;
    size_t key_capacity;
    int32_t *samples; /* of 8 kHz; with spsh__print_collect_all only */
    size_t sample_count;
    size_t sample_capacity;
} spsh__print;

/* A sink that appends to print, which is borrowed; the second also keeps the 8 kHz signal. */
spsh__print_sink spsh__print_collect(spsh__print *print);
spsh__print_sink spsh__print_collect_all(spsh__print *print);

/* A whole recording that is in memory, with its 8 kHz signal; appended to print. */
spsh_status spsh__print_make(uint32_t rate_hz, const int16_t *samples, size_t count,
                             spsh__print *print, spsh_error *err);

void spsh__print_free(spsh__print *print);

#endif
