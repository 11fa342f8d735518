/* dataset_name.c: DATASET:SPLITS, cut in two. */
#include "base/base_internal.h"
#include "speechshard/dataset.h"
#include "speechshard/io.h"

static bool exists(const spsh_io *io, const char *path)
{
    struct stat status;
    return io->stat_fn(io->user, path, &status) == 0;
}

/* The colon that ends the path; NULL: the whole name is a path. */
static char *find_colon(char *name, const spsh_io *io)
{
    char *const last = strrchr(name, ':');
    if (last == NULL || exists(io, name))
        return NULL;
    for (size_t at = (size_t)(last - name) + 1; at-- > 0;) {
        if (name[at] != ':')
            continue;
        name[at] = '\0';
        const bool found = exists(io, name);
        name[at] = ':';
        if (found)
            return name + at;
    }
    return last;
}

/* "a,b": names between commas, none of them empty. */
static bool are_names(const char *splits)
{
    const size_t bytes = strlen(splits);
    return bytes > 0 && splits[0] != ',' && splits[bytes - 1] != ',' &&
           strstr(splits, ",,") == NULL;
}

spsh_status spsh_dataset_name_cut(char *name, const spsh_io *io, const char **ret_splits,
                                  spsh_error *err)
{
    char *const colon = find_colon(name, io != NULL ? io : spsh_io_default());
    if (name[0] == '\0' || colon == name)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "'%s': the name of the dataset is empty", name);
    if (colon == NULL) {
        *ret_splits = NULL;
        return SPSH_OK;
    }
    const char *const splits = colon + 1;
    if (!are_names(splits))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "'%s': splits are names with commas between, such as '%.*s:train'", name,
                         (int)(colon - name), name);
    if (!spsh__utf8_valid((spsh_bytes){(const uint8_t *)splits, strlen(splits)}))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "'%s': the name of a split must be valid UTF-8",
                         name);
    *colon = '\0';
    *ret_splits = splits;
    return SPSH_OK;
}
