/* part.c: see part.h. */
#include "part.h"

#include <inttypes.h>

#include "cli.h"
#include "speechshard/train.h"

int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count)
{
    spsh_job_part part = SPSH_JOB_PART_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    part.count = 1;
    if (text != NULL && spsh_job_part_find(text, &part, &err) != SPSH_OK)
        return spsh__cli_usage(command, "--part %s: %s", text, err.message);
    if (part.source[0] != '\0')
        spsh__cli_message("part %" PRIu64 "/%" PRIu64 " (%s)", part.index, part.count, part.source);
    *ret_part = part.index;
    *ret_count = part.count;
    return SPSH_EXIT_DONE;
}
