/* recipe.h: the steps from an utterance's samples to its part of a batch, and the memory that they
 * need. All threads share one recipe. Fixed after open.
 *
 *     samples at the batch's rate -> speed, room, noise, gain -> features -> masks -> the slot
 *     features as stored -----------------------------------------------> masks -> the slot
 *     samples, features by a device: speed, room, noise, gain -----------------> the slot
 *
 * The length of an utterance after augmentation follows from the index, the seed, and the epoch. So
 * it has a position in the batch before anything is read.
 */
#ifndef SPSH_RECIPE_H
#define SPSH_RECIPE_H

#include "sounds.h"
#include "speechshard/statistics.h"

typedef struct spsh__recipe {
    const spsh_allocator *allocator;
    spsh_output output;
    spsh_featgen *featgen; /* NULL: audio is served */
    uint32_t dim;          /* values per feature frame; 0: audio is served */
    spsh_feature_dtype dtype;
    float padding;
    size_t value_bytes; /* bytes per value in the slot */
    bool hands_samples; /* a device computes features: samples are written to the slot */
    bool packs;         /* a device decodes payloads of codec pcm */

    bool has_sound; /* samples are augmented */
    bool has_masks;
    spsh_augment_options augment;
    uint64_t seed;
    double stretch; /* maximum ratio of samples after and before the change of speed */
    spsh__sounds noises, rooms;

    uint8_t *stored;             /* per dataset: bytes per stored feature value; 0: it has audio */
    bool has_stored, has_halves; /* a dataset stores features; a dataset stores float16 */

    spsh_feature_norm norm;
    spsh_statistics **statistics; /* per dataset with audio, for SPSH_NORM_SPEAKER and _DATASET */
    uint32_t dataset_count;
} spsh__recipe;

/* Copy a caller's options and its plan options over the defaults. ret_opt->plan becomes ret_plan.
 * options: NULL for defaults. */
spsh_status spsh__recipe_take_options(const spsh_loader_options *options,
                                      spsh_loader_options *ret_opt, spsh_plan_options *ret_plan,
                                      spsh_error *err);

/* Check and copy the options for features and augmentation, and clear the pointers to them in *opt.
 * If the recipe has a featgen, the caller must set the plan's rate to its rate. */
spsh_status spsh__recipe_open(spsh__recipe *recipe, spsh_loader_options *opt,
                              const spsh_dataset *const *datasets, uint32_t dataset_count,
                              const spsh_allocator *allocator, spsh_error *err);
void spsh__recipe_close(spsh__recipe *recipe);

/* Must the host process samples before they are written to the slot? */
bool spsh__recipe_makes(const spsh__recipe *recipe);

/* Memory layout of a slot for the largest batch of the plan; at most about 2^46 bytes. */
void spsh__recipe_slot_layout(const spsh__recipe *recipe, const spsh_loader_options *opt,
                              const spsh_plan_info *info, spsh__slot_layout *ret_layout);

/* Maximum utterances, and maximum total frames, of a batch. */
uint64_t spsh__recipe_utterances_max(const spsh_loader_options *opt);
uint64_t spsh__recipe_frames_max(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                 const spsh_plan_info *info);

/* Samples of the longest utterance at the batch's rate, before and after a change of speed. */
uint64_t spsh__recipe_rate_samples_max(const spsh_plan_info *info);
uint64_t spsh__recipe_out_samples_max(const spsh__recipe *recipe, const spsh_plan_info *info);

/* Draw the augmentation of the job's item in its batch's epoch. */
void spsh__recipe_draw(const spsh__recipe *recipe, const spsh__job *job,
                       spsh_augment_draw *ret_draw);

/* Compute job->out_samples and job->frames from job->row and job->rate_samples. */
void spsh__recipe_measure(const spsh__recipe *recipe, spsh__job *job);

#endif
