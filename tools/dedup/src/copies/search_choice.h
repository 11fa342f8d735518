/* search_choice.h: choose the searches of a deduplication by its material.
 *
 * Telephone material is narrowband (at most 4 kHz) or has a low bit rate (below 40 kbit/s). Codecs
 * of telephones and vocoders hide its copies from keys of 48 bits.
 */
#ifndef SPSH_DEDUP_SEARCH_CHOICE_H
#define SPSH_DEDUP_SEARCH_CHOICE_H

#include "join/key_join.h"
#include "set/print_set.h"

typedef struct spsh__search_choice {
    spsh__join_mode mode;     /* MILD or DEEP */
    uint32_t key_bits;        /* bits per key of the mode */
    unsigned contour_weak;    /* 0: no search for contours */
    uint64_t telephone_count; /* utterances of telephone material */
    bool is_limited;          /* deep would find more copies of the telephone material */
} spsh__search_choice;

/* Choose the searches from counts. */
spsh__search_choice spsh__search_choice_of(spsh_dedupe_search search, uint64_t key_count,
                                           uint64_t print_count, uint64_t telephone_count);
/* Choose the searches. key_count: stored keys of all prints. */
spsh_status spsh__search_choose(const spsh__print_set *set, spsh_dedupe_search search,
                                uint64_t key_count, spsh__search_choice *ret_choice,
                                spsh_error *err);

#endif
