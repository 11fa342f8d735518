/* utterance_out.h: everything about an utterance as members of a JSON object, for `ls` and `cat`.
 */
#ifndef SPSH_UTTERANCE_OUT_H
#define SPSH_UTTERANCE_OUT_H

#include "common/json_out.h"
#include "speechshard/dataset.h"

typedef struct spsh__utterance_place {
    const spsh_dataset *dataset;
    spsh_reader *reader;
    spsh_reader *original_reader; /* for the original of a duplicate, which is in another block */
    uint64_t position;
    const spsh_row *row;
} spsh__utterance_place;

/* Put the members into the open object. */
SPSH_NODISCARD spsh_status spsh__utterance_put(spsh_json *json, const spsh__utterance_place *place,
                                               spsh_error *err);

#endif
