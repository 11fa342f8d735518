/* recipe.h: what is made of an utterance's samples on their way into a batch, and how much room
 * that takes: all that threads share of augmentation and features. Fixed after open.
 *
 *     samples at the batch's rate -> speed, room, noise, gain -> features -> masks -> the slot
 *     features as stored -----------------------------------------------> masks -> the slot
 *     samples, features by a device: speed, room, noise, gain -----------------> the slot
 *
 * How long an utterance becomes follows from the index, the seed and the epoch, so that it has its
 * place in a batch before anything is read.
 */
#ifndef SPSH_RECIPE_H
#define SPSH_RECIPE_H

#include "sounds.h"
#include "speechshard/statistics.h"

typedef struct spsh__recipe {
    const spsh_allocator *allocator;
    spsh_output output;
    spsh_featgen *featgen; /* NULL: audio is served */
    uint32_t dim;          /* of features; else 0 */
    spsh_feature_dtype dtype;
    float padding;
    size_t value_bytes; /* in the slot */
    bool hands_samples; /* features are made by a device: samples go into the slot */
    bool packs;         /* payloads of codec pcm are decoded by it */

    bool has_sound; /* samples are augmented */
    bool has_masks;
    spsh_augment_options augment;
    uint64_t seed;
    double stretch; /* most samples after the change of speed, of one before */
    spsh__sounds noises, rooms;

    uint8_t *stored; /* by dataset: bytes of a value of stored features; 0: it holds audio */
    bool has_stored, has_halves; /* any dataset; any of halves */

    spsh_feature_norm norm;
    spsh_statistics **statistics; /* by dataset, for SPSH_NORM_SPEAKER and _DATASET; of those that
                                     hold audio */
    uint32_t dataset_count;
} spsh__recipe;

/* Lay a caller's options, and those of its plan, over the defaults. ret_opt->plan becomes ret_plan.
 * options: NULL for defaults. */
spsh_status spsh__recipe_take_options(const spsh_loader_options *options,
                                      spsh_loader_options *ret_opt, spsh_plan_options *ret_plan,
                                      spsh_error *err);

/* Checks and takes what is said of features and augmentation. The options' pointers to them are not
 * used any more after that. If the recipe has a featgen, the plan's rate must become its rate. */
spsh_status spsh__recipe_open(spsh__recipe *recipe, spsh_loader_options *opt,
                              const spsh_dataset *const *datasets, uint32_t dataset_count,
                              const spsh_allocator *allocator, spsh_error *err);
void spsh__recipe_close(spsh__recipe *recipe);

/* Does anything lie between samples and the slot? */
bool spsh__recipe_makes(const spsh__recipe *recipe);

/* What the largest batch that a plan may make needs; at most about 2^46 bytes. */
void spsh__recipe_slot_room(const spsh__recipe *recipe, const spsh_loader_options *opt,
                            const spsh_plan_info *info, spsh__slot_room *ret_room);

/* Utterances of such a batch; its frames, all together. */
uint64_t spsh__recipe_utterances_max(const spsh_loader_options *opt);
uint64_t spsh__recipe_frames_max(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                 const spsh_plan_info *info);

/* Samples of the longest utterance at the batch's rate, before and after the change of speed. */
uint64_t spsh__recipe_rate_samples_max(const spsh_plan_info *info);
uint64_t spsh__recipe_out_samples_max(const spsh__recipe *recipe, const spsh_plan_info *info);

/* What is drawn for the job's item in its batch's epoch. */
void spsh__recipe_draw(const spsh__recipe *recipe, const spsh__job *job,
                       spsh_augment_draw *ret_draw);

/* job->out_samples and job->frames, from job->row and job->rate_samples. */
void spsh__recipe_measure(const spsh__recipe *recipe, spsh__job *job);

#endif
