/* set_readers.c: see set_readers.h. */
#include "set_readers.h"

#include <stdlib.h>

#include "speechshard/inside.h"

spsh_status spsh__set_readers_open(const spsh__print_set *set, spsh__set_readers *ret_readers,
                                   spsh_error *err)
{
    const size_t count = spsh__print_set_dataset_count(set);
    spsh_reader **readers = (spsh_reader **)calloc(count + 1, sizeof(spsh_reader *));
    if (readers == NULL)
        return SPSH_NO_MEMORY(err);
    *ret_readers = (spsh__set_readers){set, readers};
    return SPSH_OK;
}

void spsh__set_readers_close(spsh__set_readers *readers)
{
    const size_t count = readers->set == NULL ? 0 : spsh__print_set_dataset_count(readers->set);
    for (size_t i = 0; i < count; i++)
        spsh_reader_close(readers->readers[i]);
    free((void *)readers->readers);
    *readers = (spsh__set_readers){0};
}

spsh_status spsh__set_readers_find(const spsh__set_readers *readers, uint64_t ordinal,
                                   spsh_reader **ret_reader, uint64_t *ret_position,
                                   spsh_error *err)
{
    const spsh__set_place place = spsh__print_set_place(readers->set, ordinal);
    spsh_reader **reader = &readers->readers[place.number];
    const spsh_status rc = *reader == NULL ? spsh_reader_open(place.dataset, reader, err) : SPSH_OK;
    *ret_reader = *reader;
    *ret_position = place.position;
    return rc;
}

spsh_status spsh__set_readers_metadata(const spsh__set_readers *readers, uint64_t ordinal,
                                       spsh_utterance *ret_utterance, spsh_error *err)
{
    spsh_reader *reader = NULL;
    uint64_t position = 0;
    const spsh_status rc = spsh__set_readers_find(readers, ordinal, &reader, &position, err);
    return rc == SPSH_OK ? spsh_reader_metadata(reader, position, ret_utterance, err) : rc;
}
