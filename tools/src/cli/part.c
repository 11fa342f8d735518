/* part.c: parse two counts with a slash between them. */
#include "part.h"

#include <stddef.h>

#include "cli.h"
#include "speechshard/inside.h"

enum { COUNT_MAX = 999999999 };

int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count)
{
    uint64_t part = 0;
    uint64_t count = 1;
    if (text != NULL) {
        const char *at = text;
        if (!spsh__take_digits(&at, COUNT_MAX, &part) || *at++ != '/' ||
            !spsh__take_digits(&at, COUNT_MAX, &count) || *at != '\0' || part >= count)
            return spsh__cli_usage(command,
                                   "--part '%s' is not a part: '0/4' is the first of four, '3/4' "
                                   "the last",
                                   text);
    }
    *ret_part = part;
    *ret_count = count;
    return SPSH_EXIT_DONE;
}
