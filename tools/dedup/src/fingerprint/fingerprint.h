/* fingerprint.h: compute the print of a recording: bits that survive codecs, and keys for lookups.
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
 * There is one print frame per 16 ms: 32 bits and a level. There are about four keys per second: 48
 * bits, and the positions of the three bits that are most likely to flip. FINGERPRINT.md is
 * normative. The same input gives the same bits with any compiler, processor, number of threads,
 * and division into pieces.
 */
#ifndef SPSH_DEDUP_FINGERPRINT_H
#define SPSH_DEDUP_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "speechshard/base.h"

#define SPSH__FINGERPRINT_VERSION 1

#define SPSH__PRINT_HOP    128  /* samples at 8 kHz between frames: 16 ms */
#define SPSH__PRINT_SPAN   2048 /* samples that one print frame depends on: 256 ms */
#define SPSH__PRINT_HZ     62.5 /* frames per second */
#define SPSH__LEVEL_FLOOR  24   /* about 4 units of 16-bit samples (-78 dB of full scale) */
#define SPSH__LEVEL_RANGE  40   /* 30 dB */
#define SPSH__KEY_BITS     48
#define SPSH__KEY_WEAK_MAX 3
#define SPSH__DENSE_WEAK   6
#define SPSH__WORD_WEAK    14

/* Frame i is computed from the samples 128 i to 128 i + 2047 of the 8 kHz signal. */
typedef struct spsh__print_frame {
    uint32_t word;
    uint8_t level;  /* level at the middle of the frame, in steps of 0.75 dB, 0 to 127 */
    bool is_active; /* level >= SPSH__LEVEL_FLOOR, and within 30 dB of the loudest nearby frame */
} spsh__print_frame;

typedef struct spsh__print_key {
    uint64_t bits;                    /* 48 bits; the upper 32 are also used as a shorter key */
    uint64_t frame;                   /* the key starts at the middle of this frame of the print */
    uint8_t weak[SPSH__KEY_WEAK_MAX]; /* positions of the least certain bits, counted from the
                                         lowest bit, least certain first */
} spsh__print_key;

/* A key of an arbitrary active frame, for the small side of an audit. It is compared with the upper
 * 32 bits of stored keys, with more of its bits flipped. */
typedef struct spsh__dense_key {
    uint64_t bits;                  /* as spsh__print_key.bits */
    uint64_t frame;                 /* as spsh__print_key.frame */
    uint8_t weak[SPSH__DENSE_WEAK]; /* positions among the upper 32 bits (16 to 47), least certain
                                       first */
} spsh__dense_key;

/* An active print frame with its least certain bits, for clips that are searched in every frame of
 * other recordings (frame_scan.h). */
typedef struct spsh__weak_word {
    uint64_t frame;
    uint32_t word;
    uint8_t weak[SPSH__WORD_WEAK]; /* bit positions, least certain first */
} spsh__weak_word;

/* Callbacks, called for each piece in order. Any result except SPSH_OK ends the push, which returns
 * it. Each may be NULL.
 */
typedef struct spsh__print_sink {
    spsh_status (*frames_fn)(void *user, uint64_t first, const spsh__print_frame *frames,
                             size_t count, spsh_error *err);
    spsh_status (*key_fn)(void *user, const spsh__print_key *key, spsh_error *err);
    spsh_status (*dense_fn)(void *user, const spsh__dense_key *key, spsh_error *err);
    spsh_status (*word_fn)(void *user, const spsh__weak_word *word, spsh_error *err);
    /* The 8 kHz signal, in sixteenths of the input's unit, for waveform verification. */
    spsh_status (*samples_fn)(void *user, const int32_t *samples, size_t count, spsh_error *err);
    void *user;
} spsh__print_sink;

typedef struct spsh__fingerprint spsh__fingerprint;

/**
 * @param rate_hz sample rate, 8,000 to 192,000 @return SPSH_OK, SPSH_E_INVALID_ARG or
 * SPSH_E_NO_MEMORY
 *
 * Memory: 200 KB plus the resampler, for any length. Use each object from one thread.
 */
spsh_status spsh__fingerprint_new(uint32_t rate_hz, spsh__print_sink sink,
                                  spsh__fingerprint **ret_maker, spsh_error *err);

/* Add any number of samples of one channel. The caller mixes several channels to one.
 * Floating-point audio was converted to 16-bit integers before, so there are no NaNs. After a
 * failure, only spsh__fingerprint_free is allowed. */
spsh_status spsh__fingerprint_push(spsh__fingerprint *maker, const int16_t *samples, size_t count,
                                   spsh_error *err);

/* End the recording. Then the object accepts the next one. */
spsh_status spsh__fingerprint_finish(spsh__fingerprint *maker, spsh_error *err);

void spsh__fingerprint_free(spsh__fingerprint *maker);

/* The print of a whole recording in memory. A zeroed print is empty. Free it with spsh__print_free.
 */
typedef struct spsh__print {
    spsh__print_frame *frames;
    size_t frame_count;
    size_t frame_capacity;
    spsh__print_key *keys;
    size_t key_count;
    size_t key_capacity;
    int32_t *samples; /* 8 kHz signal; only with spsh__print_collect_all */
    size_t sample_count;
    size_t sample_capacity;
} spsh__print;

/* Return a sink that appends to print, which is borrowed. spsh__print_collect_all also keeps the 8
 * kHz signal. */
spsh__print_sink spsh__print_collect(spsh__print *print);
spsh__print_sink spsh__print_collect_all(spsh__print *print);

/* Append the print of a whole recording in memory, with its 8 kHz signal, to print. */
spsh_status spsh__print_make(uint32_t rate_hz, const int16_t *samples, size_t count,
                             spsh__print *print, spsh_error *err);

void spsh__print_free(spsh__print *print);

#endif
