/* ctc_layout.h: lengths of the arrays of ctc_body.h, for all of its types. */
#ifndef SPSH_TRAIN_CTC_LAYOUT_H
#define SPSH_TRAIN_CTC_LAYOUT_H

#include <stddef.h>

enum { SPSH__CTC_LANES_MAX = 8 };

static inline size_t spsh__ctc_padded(size_t count)
{
    return (count + SPSH__CTC_LANES_MAX - 1) / SPSH__CTC_LANES_MAX * SPSH__CTC_LANES_MAX;
}

/* Return the number of elements of an array with one state per pair (blank i, label i), for i = 0
 * ... label_count. It is rounded up to whole vectors, and one more vector is a guard. */
static inline size_t spsh__ctc_row(size_t label_count)
{
    return spsh__ctc_padded(label_count + 1) + SPSH__CTC_LANES_MAX;
}

#endif
