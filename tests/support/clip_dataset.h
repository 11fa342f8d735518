/* clip_dataset.h: a dataset of given samples, with its fingerprints, opened as a set.
 *
 *     const clip clips[] = {{"a", 16000, 1, pcm, 48000}, ...};
 *     clip_dataset_make(path, clips, 2);
 *     spsh__print_set *set = clip_dataset_open(path);
 *
 * Ordinals of the set are the clips' places in the array. One shard, codec wav. The same bytes at
 * every call.
 */
#ifndef CLIP_DATASET_H
#define CLIP_DATASET_H

#include "print_set.h"

typedef struct clip {
    const char *id;
    uint32_t rate_hz;
    uint32_t channels;
    const int16_t *pcm; /* interleaved */
    uint64_t samples;   /* per channel */
} clip;

/* path must not exist; the test stops on failure. */
void clip_dataset_make(const char *path, const clip *clips, size_t count);

/* Makes the segments; close with spsh__print_set_close. */
spsh__print_set *clip_dataset_open(const char *path);

#endif
