/* decimal.h: decimal numbers from text, with a point in every locale.
 *
 *     double seconds;
 *     if (spsh_decimal_scan(text, strlen(text), &seconds) != strlen(text))
 *         return SPSH_E_SYNTAX;
 */
#ifndef SPEECHSHARD_DECIMAL_H
#define SPEECHSHARD_DECIMAL_H

#include <stdbool.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read the number at the start of a text: an optional sign, digits with at most one point, and an
 * optional exponent ("-12.5", "+.5", "1e-10"). No blanks, no hexadecimal digits, no "inf" or "nan".
 *
 * @param text        need not be NUL-terminated
 * @param size_bytes  bytes of text that may be read
 * @param ret_value   the nearest double; not written on failure
 * @return bytes of the number. 0 if the text does not start with a number, if the number has more
 * than 400 bytes, or if it is too large for a double
 *
 * Thread-safe. Does not read the locale of the process or of the thread.
 */
SPSH_API size_t spsh_decimal_scan(const char *text, size_t size_bytes, double *ret_value);

/**
 * Read a size in bytes: digits, with at most one point, and K, M, G, or T as powers of 1024
 * ("4096", "512M", "1.5G", "1GiB").
 *
 * @param ret_bytes  rounded down to whole bytes; not written on failure
 * @return false: the text is not a size, or it does not fit. Thread-safe.
 */
SPSH_API bool spsh_size_parse(const char *text, uint64_t *ret_bytes);

#ifdef __cplusplus
}
#endif

#endif
