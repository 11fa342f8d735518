/* recipe.h: what is made of an utterance's samples on their way into a batch, and how much room
 * that takes: all that threads share of features and augmentation. Fixed after open.
 *
 *     samples at the batch's rate -> speed, room, noise, gain -> features -> masks -> the slot
 *
 * How long an utterance becomes follows from the index, the seed and the epoch, so that it has its
 * place in a batch before anything is read.
 */
#ifndef SPSH_RECIPE_H
#define SPSH_RECIPE_H

#include "slot.h"

typedef struct spsh__recipe {
    spsh_output output;
    spsh_featgen *featgen; /* NULL: audio is served */
    uint32_t dim;          /* of features; else 0 */
    spsh_feature_dtype dtype;
    float padding;
    size_t value_bytes; /* in the slot */
} spsh__recipe;

/* Checks and takes what is said of features and augmentation; the plan's rate becomes theirs. The
 * options' pointers are not used any more after that. */
spsh_status spsh__recipe_open(spsh__recipe *recipe, spsh_loader_options *opt,
                              const spsh_allocator *allocator, spsh_error *err);
void spsh__recipe_close(spsh__recipe *recipe);

/* Does anything lie between samples and the slot? */
bool spsh__recipe_makes(const spsh__recipe *recipe);

/* Bytes of the largest batch that a plan may make, a multiple of SPSH__ARENA_ALIGN. */
uint64_t spsh__recipe_slot_bytes(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                 const spsh_plan_info *info);

/* Samples of the longest utterance at the batch's rate, before and after the change of speed. */
uint64_t spsh__recipe_samples_max(const spsh_plan_info *info);

/* job->out_samples and job->frames, from job->rate_samples. */
void spsh__recipe_measure(const spsh__recipe *recipe, spsh__job *job);

#endif
