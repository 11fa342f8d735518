/* part.c: two counts with a slash between. */
#include "part.h"

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"

enum { DIGITS_MAX = 9 };

static bool take_count(const char **at, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; **at >= '0' && **at <= '9' && digits <= DIGITS_MAX; (*at)++, digits++)
        value = value * 10 + (uint64_t)(**at - '0');
    *ret_value = value;
    return digits > 0 && digits <= DIGITS_MAX;
}

int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count)
{
    uint64_t part = 0;
    uint64_t count = 1;
    if (text != NULL) {
        const char *at = text;
        if (!take_count(&at, &part) || *at++ != '/' || !take_count(&at, &count) || *at != '\0' ||
            part >= count)
            return spsh__cli_usage(command,
                                   "--part '%s' is not a part: '0/4' is the first of four, '3/4' "
                                   "the last",
                                   text);
    }
    *ret_part = part;
    *ret_count = count;
    return SPSH_EXIT_DONE;
}
