/* decimal.h: numbers as text, with a point in every locale. */
#ifndef SPSH_DECIMAL_H
#define SPSH_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

#define SPSH__DECIMAL_BYTES_MAX 24

/* "-12.5", "1e-10": the whole of text[0 ... size); no more than 15 digits that count. */
bool spsh__decimal_read(const char *text, size_t size, double *ret_value);

/* The shortest that reads back to the same float; value is finite. Returns its length; dst is
 * NUL-terminated. */
size_t spsh__decimal_write(float value, char dst[SPSH__DECIMAL_BYTES_MAX]);

#endif
