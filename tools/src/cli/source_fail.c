/* source_fail.c: messages begin with the path of a dataset, or of a file in one. */
#include "source_fail.h"

#include <string.h>

#include "cli.h"

/* What follows the dataset's path in a message; NULL: it is of another one. */
static const char *rest_of(const char *message, const char *dataset_path)
{
    size_t bytes = strlen(dataset_path);
    while (bytes > 1 && dataset_path[bytes - 1] == '/')
        bytes--;
    const bool begins = strncmp(message, dataset_path, bytes) == 0;
    return begins && strchr("/:", message[bytes]) != NULL ? message + bytes : NULL;
}

static bool is_damage(spsh_status status)
{
    return status == SPSH_E_CORRUPT || status == SPSH_E_TRUNCATED || status == SPSH_E_MISMATCH ||
           status == SPSH_E_NOT_SPEECHSHARD;
}

int spsh__source_fail(const char *command, const spsh_dedup_source *sources, size_t source_count,
                      const spsh_error *err)
{
    static const char segments[] = SPSH__SEGMENT_DIRECTORY "/";
    const char *rest = NULL;
    size_t i = 0;
    (void)spsh__cli_fail(command, err);
    while (i < source_count && (rest = rest_of(err->message, sources[i].path)) == NULL)
        i++;
    if (rest == NULL || !is_damage(err->status))
        return SPSH_EXIT_FAILED;
    if (strncmp(rest + strspn(rest, "/"), segments, sizeof(segments) - 1) == 0)
        spsh__cli_message("'speechshard fingerprint %s' makes damaged fingerprints anew",
                          sources[i].path);
    else
        spsh__cli_message("'speechshard verify %s' tells what is damaged", sources[i].path);
    return SPSH_EXIT_FAILED;
}
