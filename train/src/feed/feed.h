/* feed.h: the loader's batches in the form that the model needs: features, labels, and their
 * source.
 *
 *     spsh__feed_options options = {.config = config, .vocabulary = vocabulary,
 *                                   .names = config->train, .is_training = true, .world_size = 1};
 *     spsh__feed_open(&options, &feed, &err);
 *     while (spsh__feed_next(feed, &batch, &err) == SPSH_OK)      // SPSH_E_END: the epoch's end
 *         ... batch->features, batch->labels ...
 *     spsh__feed_close(feed);
 *
 * A step of the loader has virtual_world batches (micro-batches). The loader assigns some of them
 * to this rank. Labels are the symbols of a transcript or, with alignments, one state per frame.
 * Some utterances cannot be trained on: no frames, no symbol left of the transcript, no alignment,
 * or an alignment of another length. Such an utterance stays in its batch with weight 0 and is
 * counted by reason, so that all ranks take part in every collective. The model checks whether
 * labels fit into the frames.
 */
#ifndef SPSH_TRAIN_FEED_H
#define SPSH_TRAIN_FEED_H

#include "config/config.h"
#include "labels/alignments.h"
#include "labels/vocabulary.h"
#include "speechshard/loader.h"

#define SPSH__FEED_BATCH_MAX UINT32_C(256) /* utterances */

typedef struct spsh__feed_options {
    const spsh__config *config;         /* borrowed until close */
    const spsh__vocabulary *vocabulary; /* borrowed until close */
    const spsh__alignments *alignments; /* borrowed until close; NULL: labels are symbols */
    const char *const *names;           /* datasets, as config->train; NULL-terminated */
    const double *weights;              /* one number per dataset, as config->train_weights; NULL */
    bool is_training; /* shuffled by the seed and augmented; else every utterance once, unchanged */
    uint32_t rank, world_size;
    bool is_asked; /* spsh__feed_ask requests the batches. A step is then one batch of the config's
                    * sequence, independent of rank, world, and virtual world */
    const spsh_cuda *cuda; /* NULL: features are in host memory; else in device memory. Borrowed
                              until close */
    uint32_t device;
    const spsh_io *io; /* NULL: the operating system */
    spsh_log_fn log_fn;
    void *log_user;
} spsh__feed_options;

typedef struct spsh__feed_batch {
    uint32_t batch, frames;      /* 0: an empty batch of an incomplete step */
    const float *features;       /* [batch][frames][dim]; NULL: in device memory */
    const void *device_features; /* like features, but in device memory */
    void *ready, *done; /* CUDA events: the features are ready; record `done` after their last
                                use */
    /* lengths, label_offsets, and weights have SPSH__FEED_BATCH_MAX utterances. Those that follow
     * the batch have no frames, no labels, and the weight 0: padding for the model. */
    const uint32_t *lengths; /* frames per utterance */
    const uint32_t *labels, *label_offsets;
    const double *weights;    /* 1; 0: not trained on */
    const uint32_t *domains;  /* indices for spsh__feed_domain_name */
    const spsh_batch *source; /* ids, transcripts, epoch, step, number */
    bool is_step_end;         /* set for the last batch of this rank in the step */
    uint32_t without_text, without_frames;
    uint32_t without_alignment, other_length; /* missing alignment; alignment of another length */
    uint32_t samples;                         /* utterances of weight 1 */
    double seconds;                           /* duration of the audio after augmentation */
} spsh__feed_batch;

typedef struct spsh__feed spsh__feed;
/* @return SPSH_OK; the codes of datasets, plan, loader and features; _NO_MEMORY */
spsh_status spsh__feed_open(const spsh__feed_options *options, spsh__feed **ret, spsh_error *err);
void spsh__feed_close(spsh__feed *feed); /* NULL is fine */

/* Limits of the batches of this feed, and of other feeds with the same options. */
spsh__model_limits spsh__feed_limits(const spsh__feed *feed);
uint32_t spsh__feed_dim(const spsh__feed *feed); /* values per frame */
uint32_t spsh__feed_leaves(const spsh__feed *feed);
/* Needs alignments. Set marks to 1 for the alignments of utterances in its datasets, of any split.
 */
spsh_status spsh__feed_mark_aligned(const spsh__feed *feed, uint8_t *marks, spsh_error *err);
uint64_t spsh__feed_epoch_utterances(const spsh__feed *feed);
/* Domains of all datasets by name, without duplicates. Borrowed until close. */
uint32_t spsh__feed_domain_count(const spsh__feed *feed);
const char *spsh__feed_domain_name(const spsh__feed *feed, uint32_t domain);

/* Return the batch in the model's form. */
spsh__model_batch spsh__feed_for_model(const spsh__feed_batch *b);

/* Get the next batch. Borrowed until the next call. SPSH_E_END at the end of an epoch: the next
 * call begins the next one. A feed with is_asked never returns it. Other codes are those of
 * spsh_loader_next. One thread. */
spsh_status spsh__feed_next(spsh__feed *feed, const spsh__feed_batch **ret, spsh_error *err);
/* Request the batch of one step; needs is_asked. spsh__feed_next returns batches in the order of
 * the requests. The content of a batch depends only on epoch and step. As with spsh_loader_ask, at
 * most as many requests as the loader has slots (at least two) may be outstanding. A batch
 * requested ahead is prepared while another is trained on. */
spsh_status spsh__feed_ask(spsh__feed *feed, uint64_t epoch, uint64_t step, spsh_error *err);
/* Number of steps that can be requested in an epoch. The first call walks the epoch. */
spsh_status spsh__feed_steps(const spsh__feed *feed, uint64_t epoch, uint64_t *ret_steps,
                             spsh_error *err);
/* Convert between an epoch and step and the bytes of spsh__feed_save. The position is before a step
 * that can be requested, or after the last step. A feed without is_asked can be restored to it.
 * Returns the codes of spsh_cursor_decode for bytes of other data, options, or another seed. */
spsh_status spsh__feed_save_at(const spsh__feed *feed, uint64_t epoch, uint64_t step,
                               uint8_t *bytes, size_t capacity, size_t *ret_size, spsh_error *err);
spsh_status spsh__feed_find(const spsh__feed *feed, const uint8_t *bytes, size_t size,
                            uint64_t *ret_epoch, uint64_t *ret_step, spsh_error *err);
/* Save the loader's cursor at the end of a step. Any rank of any world can restore it. */
spsh_status spsh__feed_save(const spsh__feed *feed, uint8_t *bytes, size_t capacity,
                            size_t *ret_size, spsh_error *err);
spsh_status spsh__feed_restore(spsh__feed *feed, const uint8_t *bytes, size_t size,
                               spsh_error *err);
/* Hash the utterances of the batch after a cursor, in order. Independent of the world. */
spsh_status spsh__feed_next_hash(const spsh__feed *feed, const uint8_t *bytes, size_t size,
                                 uint64_t *ret_hash, spsh_error *err);
uint64_t spsh__feed_wait_ns(const spsh__feed *feed); /* time that next waited */

/* For callers that look ahead (estimate.c). Borrowed until close. */
const spsh_plan *spsh__feed_plan(const spsh__feed *feed);
const spsh_dataset *spsh__feed_dataset(const spsh__feed *feed,
                                       uint32_t number); /* index as in items */
uint64_t spsh__feed_memory_bytes(const spsh__feed *feed);
uint64_t spsh__feed_device_bytes(const spsh__feed *feed); /* device memory of batches */
#endif
