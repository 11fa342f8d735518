/* test_number.h: a number in a text of a test, with a point in every locale. */
#ifndef TEST_NUMBER_H
#define TEST_NUMBER_H

#include <math.h>
#include <string.h>

#include "speechshard/decimal.h"

/* Parse the number at the start of text; NaN without a number. *ret_end, unless NULL, is set past
 * it. */
static inline double test_number(const char *text, const char **ret_end)
{
    double value = (double)NAN;
    const size_t size = spsh_decimal_scan(text, strlen(text), &value);
    if (ret_end != NULL)
        *ret_end = text + size;
    return value;
}

#endif
