/* pair_offsets.h: find the offsets at which the keys of two recordings agree: the candidates of one
 * pair, without a join.
 */
#ifndef SPSH_DEDUP_PAIR_OFFSETS_H
#define SPSH_DEDUP_PAIR_OFFSETS_H

#include "fingerprint/fingerprint.h"

#define SPSH__PAIR_OFFSETS_MAX 8

typedef struct spsh__pair_offset {
    int64_t offset; /* frame in b minus frame in a */
    uint32_t votes; /* number of keys that agree at this offset */
} spsh__pair_offset;

/* Find the offsets with the most keys that agree in their upper 32 bits, ignoring one weak bit of
 * each key. The result is sorted by votes, most first, then by offset. Memory: 64 bytes per key,
 * and 8 per hit. At most 4 million hits are considered. */
spsh_status spsh__pair_offsets_find(const spsh__print_key *a, size_t a_count,
                                    const spsh__print_key *b, size_t b_count,
                                    spsh__pair_offset ret_offsets[SPSH__PAIR_OFFSETS_MAX],
                                    size_t *ret_count, spsh_error *err);

#endif
