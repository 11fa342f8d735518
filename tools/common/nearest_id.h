/* nearest_id.h: the utterance that was probably meant by an unknown id, for "did you mean". */
#ifndef SPSH_NEAREST_ID_H
#define SPSH_NEAREST_ID_H

#include "byte_builder.h"
#include "speechshard/dataset.h"

/* Return the id that ends in "/TYPED", or else the one with the fewest changes; NULL if none is
 * close. The text is borrowed from *id. Reads at most 200,000 ids of a dataset. In a larger one, it
 * also looks up TYPED below the folders of ids from all of its parts. */
const char *spsh__nearest_id(const spsh_dataset *dataset, spsh_reader *reader, const char *typed,
                             spsh__builder *id);

#endif
