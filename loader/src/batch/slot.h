/* slot.h: where batches are made.
 *
 * One arena, taken at open:
 *
 *     | staging of the read engine | audio of slot 0 | audio of slot 1 | ...
 *
 * all parts aligned to 4096 bytes. Beside it, each slot has tables that grow to the longest batch
 * and are then used again, and chunks for ids and texts. What grows is charged to a budget.
 *
 * Where a device makes something of a slot (device_slots.h), more is behind the audio:
 *
 *     | audio: samples, each utterance in its place | packed: payloads | norms: means, scales |
 *
 * A payload that the device decodes is in `packed`, in the order in which decode threads come by,
 * and its place in the audio stays empty: the device fills that on its side. All others are decoded
 * by the host into their places, in the same batch.
 */
#ifndef SPSH_SLOT_H
#define SPSH_SLOT_H

#include <pthread.h>
#include <stdatomic.h>

#include "speechshard/inside.h"
#include "speechshard/loader.h"
#include "speechshard/pcm.h"

#define SPSH__ARENA_ALIGN UINT32_C(4096)

/* Samples for a device's features begin at multiples of so many. */
#define SPSH__SAMPLES_ALIGN 8

/* Utterances of a batch whose features are made, or that are decoded, on a device: tables are taken
 * at open. */
#define SPSH__DEVICE_UTTERANCES_MAX UINT32_C(8192)

/* Of each decode thread, for samples on their way; from the budget. */
#define SPSH__CHUNK_BYTES ((size_t)64 << 10)

/* Memory beside the arena: counted, and refused beyond a limit. Thread-safe. */
typedef struct spsh__budget {
    spsh_allocator allocator;
    uint64_t limit_bytes;
    _Atomic uint64_t used_bytes;
    _Atomic bool has_refused; /* for the limit, not for want of memory */
} spsh__budget;

/* NULL: over the limit, or no memory. Not zeroed. */
void *spsh__budget_take(spsh__budget *budget, size_t size_bytes);
void spsh__budget_give(spsh__budget *budget, void *memory, size_t size_bytes);
/* The budget as an allocator, for parts that take one. Memory goes back through it alone. */
spsh_allocator spsh__budget_allocator(spsh__budget *budget);

typedef struct spsh__memory {
    spsh_arena hook; /* alloc_fn NULL: mapped */
    uint8_t *data;
    size_t size_bytes;
    size_t kept_bytes; /* from the beginning: a child that is forked does not get them */
} spsh__memory;

spsh_status spsh__memory_open(const spsh_arena *hook, size_t size_bytes, spsh__memory *ret_memory,
                              spsh_error *err);
/* Keep the first bytes from children that are forked, as advice to the kernel: a child would get
 * copies of pages that devices write to. Not of a caller's memory. */
void spsh__memory_keep(spsh__memory *memory, size_t size_bytes);
/* is_inherited: in a child. A caller's memory stays, because it may be a device's. */
void spsh__memory_close(spsh__memory *memory, bool is_inherited);

/* What a slot has room for; all are multiples of SPSH__ARENA_ALIGN. */
typedef struct spsh__slot_room {
    size_t audio_bytes; /* from 0 on */
    size_t packed_at, packed_bytes;
    size_t norms_at;   /* by utterance: dim means, dim scales */
    size_t host_bytes; /* of all of these */
    size_t rows_bytes; /* of features, on the device alone */
} spsh__slot_room;

struct spsh__slot;
struct spsh__request;

typedef enum spsh__way {
    SPSH__WAY_WHOLE = 0, /* the whole record is read, by the engine */
    SPSH__WAY_SELF = 1,  /* who decodes reads what it needs, if anything */
    SPSH__WAY_BAD = 2,   /* is known to be bad: not read */
} spsh__way;

/* One utterance of a batch on its way. */
typedef struct spsh__job {
    struct spsh__job *next; /* in a queue */
    struct spsh__slot *slot;
    struct spsh__request *request; /* that brought the record, until it is decoded */
    const uint8_t *record;         /* row.record_bytes bytes; NULL: who decodes reads it */
    spsh__way way;
    bool retry; /* has been read in vain */
    bool left_out;
    bool substitute;
    uint32_t number;       /* of the utterance in the batch */
    uint32_t attempts;     /* to find a substitute */
    uint64_t rate_samples; /* per channel, after resampling */
    uint64_t out_samples;  /* after a change of speed, too */
    uint64_t frames;       /* of features; else 0 */
    uint64_t room;         /* out_samples that a substitute may have */
    uint64_t place;        /* of the first value in the slot's audio */
    bool is_packed;        /* the payload is in the slot; a device decodes it */
    spsh_pcm_part packed;  /* ... there */
    uint64_t packed_first; /* ... from this sample on */
    spsh_item planned;
    spsh_item item; /* planned, or a substitute */
    spsh_row row;   /* of item */
} spsh__job;

typedef enum spsh__slot_state {
    SPSH__SLOT_FREE = 0,
    SPSH__SLOT_FILLING = 1,
    SPSH__SLOT_READY = 2,
    SPSH__SLOT_LENT = 3,
    SPSH__SLOT_LEAVING = 4, /* given back; a device still uses it */
} spsh__slot_state;

typedef struct spsh__text_chunk {
    struct spsh__text_chunk *next;
    size_t size_bytes, used_bytes;
    uint8_t data[];
} spsh__text_chunk;

typedef struct spsh__slot {
    spsh_batch batch;       /* first: what is lent */
    spsh__slot_state state; /* under the loader's lock */

    uint8_t *audio; /* of room.host_bytes */
    spsh__slot_room room;
    bool hands_samples; /* what is served are features; samples are in the audio */
    _Atomic size_t packed_bytes;
    _Atomic uint64_t packed_blocks;
    uint8_t *on_device; /* its place there; NULL: none. As the next three */
    void *stream, *ready, *freed;
    spsh__budget *budget;
    spsh_batch_utterance *utterances;
    spsh__job *jobs;
    spsh__job **order; /* jobs to read, in the order of storage */
    uint32_t capacity; /* of the three */
    uint32_t job_count;
    size_t value_bytes;
    uint64_t stride; /* padded: values per utterance, as laid out; ragged: 0 */

    spsh_position place; /* in whose window the batch is */
    spsh_position next;

    _Atomic uint32_t jobs_left;

    pthread_mutex_t lock;        /* of what follows */
    spsh__text_chunk *chunks;    /* all, in use order */
    spsh__text_chunk *chunk_now; /* that strings are put into */
    spsh_bad_record *bads;       /* met in this batch */
    uint32_t bad_count, bad_capacity;
    spsh_status status; /* why there is no batch */
    uint32_t status_number;
    spsh_error error;
} spsh__slot;

spsh_status spsh__slot_open(spsh__slot *slot, spsh__budget *budget, uint8_t *audio,
                            const spsh__slot_room *room, spsh_error *err);
void spsh__slot_close(spsh__slot *slot);

/* Begin another batch: tables for so many utterances, no strings, no failure. */
spsh_status spsh__slot_reset(spsh__slot *slot, uint32_t utterance_count, spsh_error *err);

/* Copy a string; thread-safe. */
spsh_status spsh__slot_string(spsh__slot *slot, spsh_bytes string, spsh_bytes *ret_copy,
                              spsh_error *err);

/* The failure of the lowest utterance stands; thread-safe. number: SPSH_NONE_U32 for the batch. */
void spsh__slot_fail(spsh__slot *slot, uint32_t number, spsh_status status,
                     const spsh_error *error);

/* Note a record that was left out; thread-safe. SPSH_E_NO_MEMORY. */
spsh_status spsh__slot_bad(spsh__slot *slot, const spsh_bad_record *bad);

/* All jobs are done: close gaps and fill in the batch. One thread. */
void spsh__slot_finish(spsh__slot *slot);

#endif
