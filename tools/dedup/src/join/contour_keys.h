/* contour_keys.h: keys from the loudness contour of a print, for copies of whole recordings.
 *
 * Telephone codecs and vocoders change one in six to one in four bits of a print. A key of
 * fingerprint.h needs 32 equal bits and 0.7 s of audio, so short clips share few keys with their
 * copies. But codecs keep the loudness: the levels of two copies differ by about 1 dB, and the
 * levels of speech vary by 10 dB. A contour key consists of the levels around an anchor, the
 * distances of the anchor from both ends of the print, and a few smoothed print bits. Anchors are
 * the maxima and minima of the loudness.
 *
 * The keys are computed from stored frames, so they need no other fingerprint. They find copies
 * whose ends are within about 0.1 s of each other. All arithmetic is on integers, so every machine
 * makes the same keys.
 */
#ifndef SPSH_DEDUP_CONTOUR_KEYS_H
#define SPSH_DEDUP_CONTOUR_KEYS_H

#include "fingerprint/fingerprint.h"

enum {
    SPSH__CONTOUR_BITS = 42,
    SPSH__CONTOUR_WEAK = 6,
    SPSH__CONTOUR_KEYS_MAX = 10, /* keys per print: at its loudest anchors */
};

typedef struct spsh__contour_key {
    uint64_t bits;                    /* 10 bits of position, 24 of the contour, 8 of words */
    uint32_t frame;                   /* the anchor */
    uint8_t weak[SPSH__CONTOUR_WEAK]; /* positions of the least certain bits, least certain first */
} spsh__contour_key;

/* Write the keys of a print, in the order of their frames. Return their number: 0 with less than
 * half a second of active speech. */
size_t spsh__contour_keys_make(const spsh__print_frame *frames, size_t frame_count,
                               spsh__contour_key ret_keys[SPSH__CONTOUR_KEYS_MAX]);

#endif
