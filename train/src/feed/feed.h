/* feed.h: the loader's batches as the model takes them: features, labels, and where they come from.
 *
 *     spsh__feed_options options = {.config = config, .vocabulary = vocabulary,
 *                                   .names = config->train, .is_training = true, .world_size = 1};
 *     spsh__feed_open(&options, &feed, &err);
 *     while (spsh__feed_next(feed, &batch, &err) == SPSH_OK)      // SPSH_E_END: the epoch's end
 *         ... batch->features, batch->labels ...
 *     spsh__feed_close(feed);
 *
 * A step of the loader is virtual_world batches ("leaves"), of which this rank gets those that the
 * loader deals it. Labels are a text's symbols or, with alignments, a state for each frame. An
 * utterance that cannot be learnt from (no frames, no symbol left of its text, no alignment, one of
 * another length) stays in its batch with weight 0 and is counted by reason, so that all ranks take
 * part in everything. Whether its labels fit into its frames is the model's to say.
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
    const spsh__vocabulary *vocabulary; /* borrowed until close; or: */
    const spsh__alignments *alignments; /* borrowed until close; NULL: labels are symbols */
    const char *const *names;           /* datasets, as config->train; NULL behind the last */
    const double *weights;              /* a number a dataset, as config->train_weights; NULL */
    bool is_training; /* shuffled by the seed and augmented; else every utterance once, as it is */
    uint32_t rank, world_size;
    bool is_asked; /* batches come as spsh__feed_ask asks for them: a step is one batch of the
                      config's sequence, of whichever rank, world and virtual world */
    const spsh_cuda *cuda; /* NULL: features are the host's; else the device's. Until close */
    uint32_t device;
    const spsh_io *io; /* NULL: the operating system */
    spsh_log_fn log_fn;
    void *log_user;
} spsh__feed_options;

typedef struct spsh__feed_batch {
    uint32_t batch, frames;      /* 0: an empty batch of a step that is not full */
    const float *features;       /* [batch][frames][dim]; NULL: in a device's memory */
    const void *device_features; /* ... as many floats, there */
    void *ready, *done;      /* CUDA events: they are there; to be recorded behind their last use */
    const uint32_t *lengths; /* frames of each */
    const uint32_t *labels, *label_offsets; /* batch + 1 offsets */
    const double *weights;                  /* 1; 0: not learnt from */
    const uint32_t *domains;                /* for spsh__feed_domain_name */
    const spsh_batch *source;               /* ids, texts, epoch, step, number */
    bool is_step_end;                       /* the last of this rank in the step */
    uint32_t without_text, without_frames;
    uint32_t without_alignment, other_length; /* of an alignment */
    uint32_t samples;                         /* utterances of weight 1 */
    double seconds;                           /* of audio, augmented */
} spsh__feed_batch;

typedef struct spsh__feed spsh__feed;
/* @return SPSH_OK; what datasets, plan, loader and features say of the options; _NO_MEMORY */
spsh_status spsh__feed_open(const spsh__feed_options *options, spsh__feed **ret, spsh_error *err);
void spsh__feed_close(spsh__feed *feed); /* NULL is fine */

/* What no batch exceeds, of this feed and of others with the same options. */
spsh__model_limits spsh__feed_limits(const spsh__feed *feed);
uint32_t spsh__feed_dim(const spsh__feed *feed); /* values of a frame */
uint32_t spsh__feed_leaves(const spsh__feed *feed);
/* With alignments: those of utterances of its datasets, of any split, get 1 in marks. */
spsh_status spsh__feed_mark_aligned(const spsh__feed *feed, uint8_t *marks, spsh_error *err);
uint64_t spsh__feed_epoch_utterances(const spsh__feed *feed);
/* Domains of all datasets by name, each once. Borrowed until close. */
uint32_t spsh__feed_domain_count(const spsh__feed *feed);
const char *spsh__feed_domain_name(const spsh__feed *feed, uint32_t domain);

/* As the model takes it. */
spsh__model_batch spsh__feed_for_model(const spsh__feed_batch *b);

/* SPSH_E_END at the end of an epoch: the next call begins the next one; of a feed that is asked, it
 * never comes. Lent until the next call.
 * Also what spsh_loader_next says. One thread. */
spsh_status spsh__feed_next(spsh__feed *feed, const spsh__feed_batch **ret, spsh_error *err);
/* Of a feed with is_asked: next gives this step's batch behind those that were asked for before;
 * what it holds depends on epoch and step alone. As spsh_loader_ask: up to as many as the loader
 * has slots (two at least); asked for ahead, it is made while another is learnt from. */
spsh_status spsh__feed_ask(spsh__feed *feed, uint64_t epoch, uint64_t step, spsh_error *err);
/* How many steps an epoch has to ask for; goes through it on the first call. */
spsh_status spsh__feed_steps(const spsh__feed *feed, uint64_t epoch, uint64_t *ret_steps,
                             spsh_error *err);
/* Before a step that can be asked for, or behind the last: spsh__feed_save's bytes for that place,
 * which a feed that is not asked can be restored to; and back. What spsh_cursor_decode says of
 * bytes of other data, options or another seed. */
spsh_status spsh__feed_save_at(const spsh__feed *feed, uint64_t epoch, uint64_t step,
                               uint8_t *bytes, size_t capacity, size_t *ret_size, spsh_error *err);
spsh_status spsh__feed_find(const spsh__feed *feed, const uint8_t *bytes, size_t size,
                            uint64_t *ret_epoch, uint64_t *ret_step, spsh_error *err);
/* The loader's cursor, at a step's end, for any rank of any world. */
spsh_status spsh__feed_save(const spsh__feed *feed, uint8_t *bytes, size_t capacity,
                            size_t *ret_size, spsh_error *err);
spsh_status spsh__feed_restore(spsh__feed *feed, const uint8_t *bytes, size_t size,
                               spsh_error *err);
/* Of the batch that is next at a cursor: which utterances, in which order, whatever the world. */
spsh_status spsh__feed_next_hash(const spsh__feed *feed, const uint8_t *bytes, size_t size,
                                 uint64_t *ret_hash, spsh_error *err);
uint64_t spsh__feed_wait_ns(const spsh__feed *feed); /* that next waited */

/* For those who look ahead (estimate.c). Borrowed until close. */
const spsh_plan *spsh__feed_plan(const spsh__feed *feed);
const spsh_dataset *spsh__feed_dataset(const spsh__feed *feed, uint32_t number); /* as in items */
uint64_t spsh__feed_memory_bytes(const spsh__feed *feed);
uint64_t spsh__feed_device_bytes(const spsh__feed *feed); /* of batches, in a device's memory */
#endif
