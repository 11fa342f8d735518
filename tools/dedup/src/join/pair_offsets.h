/* pair_offsets.h: at which offsets two recordings' keys agree: candidates of one pair, when no join
 * has been made.
 */
#ifndef SPSH_DEDUP_PAIR_OFFSETS_H
#define SPSH_DEDUP_PAIR_OFFSETS_H

#include "fingerprint/fingerprint.h"

#define SPSH__PAIR_OFFSETS_MAX 8

typedef struct spsh__pair_offset {
    int64_t offset; /* a's frame plus offset is b's frame */
    uint32_t votes; /* keys that agree there */
} spsh__pair_offset;

/* The offsets with the most keys that agree in their upper 32 bits, one weak bit of each left open;
 * most votes first, then the smallest offset. Memory: 64 bytes a key, and 8 a hit, of which at most
 * 4 million are looked at. */
spsh_status spsh__pair_offsets_find(const spsh__print_key *a, size_t a_count,
                                    const spsh__print_key *b, size_t b_count,
                                    spsh__pair_offset ret_offsets[SPSH__PAIR_OFFSETS_MAX],
                                    size_t *ret_count, spsh_error *err);

#endif
