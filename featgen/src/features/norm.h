/* norm.h: norms of an utterance's features (spsh_feature_norm), in place. */
#ifndef SPSH_NORM_H
#define SPSH_NORM_H

#include "speechshard/featgen.h"

/* rows: frame_count rows of dim values, without gaps. input: must have mean and scale for _SPEAKER
 * and _DATASET, which the caller checks. */
void spsh__norm_apply(const spsh_feature_options *features, const spsh_feature_input *input,
                      float *rows, uint64_t frame_count, uint32_t dim);

#endif
