/* time_text.c: see time_text.h. */
#include "time_text.h"

#include "file_names.h"

bool spsh__is_placeholder(spsh_bytes value)
{
    static const char *const words[] = {"-", "n/a", "nan", "unknown", "<unk>"};
    if (value.size_bytes == 0)
        return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (spsh__bytes_equal_nocase(value, spsh__bytes_of(words[i])))
            return true;
    }
    return false;
}

/* Parse the exponent after 'e': at most three digits, which covers every possible time. */
static bool parse_exponent(spsh_bytes text, size_t at, int *ret_exponent)
{
    bool negative = false;
    int exponent = 0;
    size_t digits = 0;
    if (at < text.size_bytes && (text.data[at] == '-' || text.data[at] == '+'))
        negative = text.data[at++] == '-';
    for (; at < text.size_bytes; at++) {
        if (text.data[at] < '0' || text.data[at] > '9' || ++digits > 3)
            return false;
        exponent = exponent * 10 + (text.data[at] - '0');
    }
    *ret_exponent = negative ? -exponent : exponent;
    return digits > 0;
}

/* Parse digits as an integer and a power of ten. Digits after the nineteenth only change the power:
 * they are below a nanosecond of any time that fits, or the number is too large anyway. */
static bool parse_decimal(spsh_bytes text, uint64_t *ret_mantissa, int *ret_power)
{
    uint64_t mantissa = 0;
    int power = 0;
    bool point = false;
    size_t digits = 0;
    size_t at = text.size_bytes > 0 && text.data[0] == '+' ? 1 : 0;
    if (text.size_bytes > 512)
        return false;
    for (; at < text.size_bytes; at++) {
        const uint8_t c = text.data[at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9')
            break;
        digits++;
        const bool kept = mantissa < UINT64_C(1000000000000000000);
        if (kept)
            mantissa = mantissa * 10 + (uint64_t)(c - '0');
        power += !kept - point;
    }
    int exponent = 0;
    if (at < text.size_bytes) {
        if ((text.data[at] != 'e' && text.data[at] != 'E') ||
            !parse_exponent(text, at + 1, &exponent))
            return false;
    }
    *ret_mantissa = mantissa;
    *ret_power = power + exponent;
    return digits > 0;
}

spsh__time_result spsh__table_time(spsh_bytes value, uint64_t unit_ns, uint64_t *ret_ns)
{
    uint64_t mantissa = 0;
    int power = 0;
    if (spsh__is_placeholder(value))
        return SPSH__TIME_ABSENT;
    if (!parse_decimal(value, &mantissa, &power))
        return SPSH__TIME_BAD;
    for (uint64_t unit = unit_ns; unit > 1; unit /= 10)
        power++;
    for (; power < 0 && mantissa > 0; power++)
        mantissa /= 10;
    for (; power > 0 && mantissa > 0; power--) {
        if (mantissa > (SPSH__TIME_NS_MAX / 10))
            return SPSH__TIME_BAD;
        mantissa *= 10;
    }
    if (mantissa > SPSH__TIME_NS_MAX)
        return SPSH__TIME_BAD;
    *ret_ns = mantissa;
    return SPSH__TIME_OK;
}
