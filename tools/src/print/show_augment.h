/* show_augment.h: what training does to one utterance, epoch by epoch: `plan --show-augment`. */
#ifndef SPSH_SHOW_AUGMENT_H
#define SPSH_SHOW_AUGMENT_H

#include "cli/hear_words.h"

typedef struct spsh__show_request {
    const char *id;
    spsh__hear_words words;
    uint32_t sample_rate_hz; /* of the batches; 0: the utterance's, or the features' */
    uint64_t first_epoch, epoch_count;
    bool json; /* a line an epoch */
} spsh__show_request;

/** The first dataset that has the id. Returns the exit status, reported. */
int spsh__show_augment(const spsh__show_request *show, const spsh__datasets *datasets);

#endif
