/* time_text.h: a time as decimal text, exactly, and placeholders for a missing value. */
#ifndef SPSH_TIME_TEXT_H
#define SPSH_TIME_TEXT_H

#include <stdbool.h>

#include "speechshard/base.h"

/* True for "", "-", "n/a", "nan", "unknown", "<unk>": a name that stands for a missing value. */
bool spsh__is_placeholder(spsh_bytes value);

/* 73 years; a sum of two such times fits. */
#define SPSH__TIME_NS_MAX (UINT64_C(1) << 61)

typedef enum spsh__time_result {
    SPSH__TIME_OK,
    SPSH__TIME_ABSENT,
    SPSH__TIME_BAD
} spsh__time_result;

/* Parse a decimal number of units as nanoseconds, exactly. Smaller fractions are cut off. */
spsh__time_result spsh__table_time(spsh_bytes value, uint64_t unit_ns, uint64_t *ret_ns);

#endif
