/* search_choice.c: count telephone material, then choose.
 *
 *              keys                                contours
 *     mild     48 bits                             none
 *     deep     32 bits                             all weak bits
 *     auto     32 bits for telephone material,     as many weak bits as the number of prints
 *              else 48                             allows
 *
 * Keys of 32 bits are equal by chance so often that their number in auto is limited: the chance
 * hits of 4e7 keys take about 1.5 GB of disk, and they grow with the square.
 */
#include "search_choice.h"

#include "join/contour_search.h"

enum { NARROW_HZ = 4000, LOW_BPS = 40000, SHORT_KEYS_MAX = 40000000 };

static bool is_telephone(const spsh__segment_row *row)
{
    return (row->flags & SPSH__ROW_DECODED) != 0 &&
           ((row->bandwidth_hz > 0 && row->bandwidth_hz <= NARROW_HZ) ||
            (row->payload_bps > 0 && row->payload_bps < LOW_BPS));
}

static spsh_status count_telephone(const spsh__print_set *set, uint64_t *ret_count, spsh_error *err)
{
    const uint64_t count = spsh__print_set_count(set);
    *ret_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        spsh__segment_row row;
        if (spsh__print_set_side(set, i) == SPSH_SIDE_NONE)
            continue;
        const spsh_status rc = spsh__print_set_row(set, i, &row, NULL, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_count += is_telephone(&row);
    }
    return SPSH_OK;
}

spsh__search_choice spsh__search_choice_of(spsh_dedupe_search search, uint64_t key_count,
                                           uint64_t print_count, uint64_t telephone_count)
{
    spsh__search_choice choice = {.mode = SPSH__JOIN_MILD, .telephone_count = telephone_count};
    if (search == SPSH_SEARCH_DEEP) {
        choice.mode = SPSH__JOIN_DEEP;
        choice.contour_weak = SPSH__CONTOUR_WEAK;
    } else if (search == SPSH_SEARCH_AUTO) {
        choice.contour_weak = spsh__contour_weak_for(print_count);
        if (telephone_count > 0 && key_count <= SHORT_KEYS_MAX)
            choice.mode = SPSH__JOIN_DEEP;
    }
    choice.key_bits = choice.mode == SPSH__JOIN_DEEP ? 32 : 48;
    choice.is_limited = telephone_count > 0 && (choice.mode != SPSH__JOIN_DEEP ||
                                                choice.contour_weak < SPSH__CONTOUR_WEAK);
    return choice;
}

spsh_status spsh__search_choose(const spsh__print_set *set, spsh_dedupe_search search,
                                uint64_t key_count, spsh__search_choice *ret_choice,
                                spsh_error *err)
{
    uint64_t telephone_count = 0;
    const spsh_status rc = count_telephone(set, &telephone_count, err);
    if (rc == SPSH_OK)
        *ret_choice = spsh__search_choice_of(search, key_count, spsh__print_set_print_count(set),
                                             telephone_count);
    return rc;
}
