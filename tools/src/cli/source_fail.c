/* source_fail.c: add advice to errors whose message begins with the path of a dataset or of its
 * file. */
#include "source_fail.h"

#include <string.h>

#include "cli.h"
#include "speechshard/options.h"

/* Return the rest of a message after the dataset's path. NULL: the message names another path. */
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

/* True if the message is about the dataset; then the advice is given. */
static bool advise(const char *path, const spsh_error *err)
{
    static const char segments[] = "fingerprints/";
    const char *rest = rest_of(err->message, path);
    if (rest == NULL || !is_damage(err->status))
        return rest != NULL;
    if (strncmp(rest + strspn(rest, "/"), segments, sizeof(segments) - 1) == 0)
        spsh__cli_message("'speechshard fingerprint %s' makes damaged fingerprints again", path);
    else
        spsh__cli_message("'speechshard verify %s' lists the damage", path);
    return true;
}

int spsh__path_fail(const char *command, const char *const *paths, size_t path_count,
                    const spsh_error *err)
{
    (void)spsh__cli_fail(command, err);
    for (size_t i = 0; i < path_count && !advise(paths[i], err);)
        i++;
    return SPSH_EXIT_FAILED;
}

/* The library names members of spsh_dedupe_options and spsh_audit_options. */
int spsh__source_fail(const char *command, const spsh_dedup_sources *sources, spsh_error *err)
{
    static const spsh_option_name names[] = {
        {"drop_from", "--drop-from"},
        {"work_path", "--work"},
    };
    const size_t count = spsh_dedup_sources_count(sources);
    spsh_options_rename(err, names, sizeof(names) / sizeof(names[0]));
    const int status = spsh__cli_fail(command, err);
    for (size_t i = 0; i < count && !advise(spsh_dedup_sources_get(sources, i)->path, err);)
        i++;
    return status;
}
