/* show_augment.h: show the augmentation of one utterance, epoch by epoch: `plan --show-augment`. */
#ifndef SPSH_SHOW_AUGMENT_H
#define SPSH_SHOW_AUGMENT_H

#include "cli/hear_words.h"

typedef struct spsh__show_request {
    const char *id;
    spsh__hear_words words;
    uint32_t sample_rate_hz; /* rate of the batches; 0: the utterance's or the features' rate */
    uint64_t first_epoch, epoch_count;
    bool json; /* one line per epoch */
} spsh__show_request;

/** Show the utterance of the first dataset that has the id. Reports failures and returns the exit
 * status. */
int spsh__show_augment(const spsh__show_request *show, const spsh__datasets *datasets);

#endif
