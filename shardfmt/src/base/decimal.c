/* decimal.c: check the grammar, then let the C library round under its "C" locale.
 *
 * Plain strtod reads the decimal point of the locale that a host program has set, and accepts
 * blanks, hexadecimal digits, and words.
 */
#include "speechshard/decimal.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

enum { NUMBER_BYTES_MAX = 400 }; /* the smallest doubles need 324 zeros without an exponent */

static size_t scan_digits(const char *text, size_t at, size_t size)
{
    while (at < size && text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

static size_t scan_sign(const char *text, size_t at, size_t size)
{
    return at < size && (text[at] == '+' || text[at] == '-') ? at + 1 : at;
}

/* Bytes of the number at the start of text; 0: none. An "e" without digits is not part of it. */
static size_t number_bytes(const char *text, size_t size)
{
    const size_t whole = scan_sign(text, 0, size);
    size_t at = scan_digits(text, whole, size);
    size_t digits = at - whole;
    if (at < size && text[at] == '.') {
        const size_t fraction = at + 1;
        at = scan_digits(text, fraction, size);
        digits += at - fraction;
    }
    if (digits == 0)
        return 0;
    if (at < size && (text[at] == 'e' || text[at] == 'E')) {
        const size_t exponent = scan_sign(text, at + 1, size);
        const size_t end = scan_digits(text, exponent, size);
        at = end > exponent ? end : at;
    }
    return at;
}

size_t spsh_decimal_scan(const char *text, size_t size_bytes, double *ret_value)
{
    char copy[NUMBER_BYTES_MAX + 1];
    const size_t size = number_bytes(text, size_bytes);
    if (size == 0 || size > NUMBER_BYTES_MAX)
        return 0;
    memcpy(copy, text, size);
    copy[size] = '\0';

    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return 0;
    const double value = strtod_l(copy, NULL, c);
    freelocale(c);
    if (!isfinite(value))
        return 0;
    *ret_value = value;
    return size;
}

bool spsh_size_parse(const char *text, uint64_t *ret_bytes)
{
    static const char suffixes[] = "KMGT";
    uint64_t whole = 0, fraction = 0, fraction_unit = 1, unit = 1;
    const char *at = text;
    if (!spsh__take_digits(&at, UINT64_MAX, &whole))
        return false;
    if (*at == '.') {
        for (at++; *at >= '0' && *at <= '9' && fraction_unit < 1000000; at++) {
            fraction = fraction * 10 + (uint64_t)(*at - '0');
            fraction_unit *= 10;
        }
    }
    if (*at != '\0' && *at != 'B' && *at != 'b') {
        char upper = (char)(*at >= 'a' ? *at - ('a' - 'A') : *at);
        const char *suffix = strchr(suffixes, upper);
        if (suffix == NULL)
            return false;
        unit = UINT64_C(1) << (10 * (suffix - suffixes + 1));
        at++;
        if (*at == 'i')
            at++;
    }
    if (*at == 'B' || *at == 'b')
        at++;
    if (*at != '\0' || __builtin_mul_overflow(whole, unit, &whole))
        return false;
    /* unit is at most 2^40 and the fraction below 10^6: no overflow. */
    return !__builtin_add_overflow(whole, fraction * unit / fraction_unit, ret_bytes);
}
