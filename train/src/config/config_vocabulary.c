/* config_vocabulary.c: the vocabulary that a configuration names, made from the transcripts that it
 * trains on. */
#include "speechshard/train.h"

#include <stdlib.h>

#include "config.h"
#include "dataset_list.h"
#include "labels/vocabulary.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

static spsh_status make(const spsh_vocabulary_options *o, const spsh__config *config,
                        spsh__vocabulary **ret, spsh_error *err)
{
    spsh__dataset_list list = {0};
    spsh_status rc = spsh__dataset_list_open((const char *const *)config->train, o->io, &list, err);
    if (rc != SPSH_OK)
        return rc;
    const char **splits = calloc(list.count + 1, sizeof(*splits));
    for (uint32_t i = 0; splits != NULL && i < list.count; i++)
        splits[i] = spsh__dataset_list_splits(&list, i);
    const spsh__vocabulary_options options = {o->kind, o->profile, o->symbols, splits};
    rc = splits == NULL ? SPSH_NO_MEMORY(err)
                        : spsh__vocabulary_make((const spsh_dataset *const *)list.datasets,
                                                list.count, &options, ret, err);
    free(splits);
    spsh__dataset_list_close(&list);
    return rc;
}

/* The existing file may have been written by another process, and runs may depend on it. */
static spsh_status write_new(const spsh__vocabulary *vocabulary, const char *path,
                             const spsh_io *io, spsh_error *err)
{
    spsh__vocabulary *before = NULL;
    spsh_error failed = SPSH_ERROR_INIT;
    spsh_status rc = spsh__vocabulary_read(path, io, &before, &failed);
    if (rc == SPSH_E_NOT_FOUND)
        return spsh__vocabulary_write(vocabulary, path, io, err);
    char *text = spsh__vocabulary_text(vocabulary);
    char *text_before = before == NULL ? NULL : spsh__vocabulary_text(before);
    if (text == NULL || rc == SPSH_E_NO_MEMORY || (before != NULL && text_before == NULL))
        rc = SPSH_NO_MEMORY(err);
    else if (rc != SPSH_OK || text_before == NULL || strcmp(text, text_before) != 0)
        rc = SPSH_FAIL(err, SPSH_E_EXISTS,
                       "%s: the file exists, but differs from the vocabulary of the transcripts; "
                       "remove it, or name another file",
                       path);
    free(text);
    free(text_before);
    spsh__vocabulary_free(before);
    return rc;
}

spsh_status spsh_vocabulary_make(const spsh_vocabulary_options *options, char **ret_path,
                                 uint32_t *ret_symbols, spsh_error *err)
{
    spsh_vocabulary_options known = SPSH_VOCABULARY_OPTIONS_INIT;
    spsh__config *config = NULL;
    spsh__vocabulary *vocabulary = NULL;
    char *path = NULL;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    if (known.config_path == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "config_path is NULL: a vocabulary needs a configuration");
    const spsh_io *io = known.io != NULL ? known.io : spsh_io_default();
    rc = spsh__config_read(known.config_path, known.overrides, io, &config, err);
    if (rc != SPSH_OK)
        return rc;
    if (config->vocabulary[0] == '\0')
        rc = SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "%s: the key vocabulary is not set; 'vocabulary: FILE' names the file to write",
            known.config_path);
    if (rc == SPSH_OK)
        rc = make(&known, config, &vocabulary, err);
    if (rc == SPSH_OK)
        rc = write_new(vocabulary, config->vocabulary, io, err);
    if (rc == SPSH_OK) {
        path = strdup(config->vocabulary);
        rc = path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    if (rc == SPSH_OK) {
        *ret_path = path;
        *ret_symbols = spsh__vocabulary_size(vocabulary);
    }
    spsh__vocabulary_free(vocabulary);
    spsh__config_free(config);
    return rc;
}
