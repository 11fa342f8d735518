/* decimal_text.c: digits * 10^exponent in double precision.
 *
 * An integer below 2^53 and a power of ten up to 10^22 are exact in a double, so their product or
 * quotient is rounded once. Nine digits tell all floats apart.
 */
#include "decimal_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_WRITTEN_MAX = 9, POWER_EXACT_MAX = 22 };

static double power_of_ten(int exponent)
{
    double power = 1;
    for (int i = 0; i < exponent; i++)
        power *= 10;
    return power;
}

static double scaled(double digits, int exponent)
{
    while (exponent > POWER_EXACT_MAX) {
        digits *= power_of_ten(POWER_EXACT_MAX);
        exponent -= POWER_EXACT_MAX;
    }
    while (exponent < -POWER_EXACT_MAX) {
        digits /= power_of_ten(POWER_EXACT_MAX);
        exponent += POWER_EXACT_MAX;
    }
    return exponent < 0 ? digits / power_of_ten(-exponent) : digits * power_of_ten(exponent);
}

/* Write digits[0].digits[1...] * 10^exponent: with "e" only if the number is very small or
 * large. */
static void write_digits(const char *digits, int count, int exponent, char *dst)
{
    size_t size = 0;
    if (exponent < -5 || exponent > 8) {
        dst[size++] = digits[0];
        if (count > 1)
            dst[size++] = '.';
        memcpy(dst + size, digits + 1, (size_t)count - 1);
        size += (size_t)count - 1;
        (void)snprintf(dst + size, SPSH__DECIMAL_BYTES_MAX - 1 - size, "e%d", exponent);
        return;
    }
    for (int place = exponent > 0 ? exponent : 0; place >= 0 || exponent - place < count; place--) {
        if (place == -1)
            dst[size++] = '.';
        const int number = exponent - place;
        dst[size++] = (char)(number >= 0 && number < count ? digits[number] : '0');
    }
    dst[size] = '\0';
}

size_t spsh__decimal_write(float value, char dst[SPSH__DECIMAL_BYTES_MAX])
{
    char *at = dst;
    double rest = (double)value;
    if (rest < 0) {
        *at++ = '-';
        rest = -rest;
    }
    if (rest == 0) {
        memcpy(at, "0", 2);
        return (size_t)(at - dst) + 1;
    }
    int exponent = (int)floor(log10(rest));
    char digits[DIGITS_WRITTEN_MAX + 8] = {0};
    int asked = 0;
    bool is_same = false;
    while (!is_same && asked < DIGITS_WRITTEN_MAX) {
        asked++;
        const double mantissa = floor(scaled(rest, asked - 1 - exponent) + 0.5);
        (void)snprintf(digits, sizeof digits, "%.0f", mantissa);
        is_same = (float)scaled(mantissa, exponent - asked + 1) == (float)rest;
    }
    int count = (int)strlen(digits); /* rounding may carry into one more digit */
    exponent += count - asked;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    write_digits(digits, count, exponent, at);
    return strlen(dst);
}
