/* decimal_text.h: floats as strings, with a decimal point in every locale; decimal.h reads them. */
#ifndef SPSH_DECIMAL_TEXT_H
#define SPSH_DECIMAL_TEXT_H

#include <stddef.h>

#define SPSH__DECIMAL_BYTES_MAX 24

/* Write the shortest string that reads back to the same float; value is finite. Returns its length;
 * dst is NUL-terminated. */
size_t spsh__decimal_write(float value, char dst[SPSH__DECIMAL_BYTES_MAX]);

#endif
