/* slot.h: the memory in which batches are prepared.
 *
 * One arena is allocated at open, with all parts aligned to 4096 bytes:
 *
 *     | staging of the read engine | audio of slot 0 | audio of slot 1 | ...
 *
 * In addition, each slot has tables that grow to the largest batch and are then reused, and chunks
 * for ids and texts. Growth is charged to a budget.
 *
 * If a device decodes or computes features (device_slots.h), more parts follow the audio of a slot:
 *
 *     | audio: samples, each utterance at its position | packed: payloads | norms: means, scales |
 *
 * A payload for the device to decode is in `packed`, in the order in which decode threads finish.
 * Its range in the host's audio stays unused, and the device fills the same range of its copy. The
 * host decodes all other payloads of the batch.
 */
#ifndef SPSH_SLOT_H
#define SPSH_SLOT_H

#include <pthread.h>
#include <stdatomic.h>

#include "speechshard/inside.h"
#include "speechshard/loader.h"
#include "speechshard/pcm.h"

#define SPSH__ARENA_ALIGN UINT32_C(4096)

/* Samples from which a device computes features begin at multiples of this number. */
#define SPSH__SAMPLES_ALIGN 8

/* Maximum utterances of a batch that a device decodes or computes features for: the size of tables
 * that are allocated at open. */
#define SPSH__DEVICE_UTTERANCES_MAX UINT32_C(8192)

/* Buffer of each decode thread for decoded samples; from the budget. */
#define SPSH__CHUNK_BYTES ((size_t)64 << 10)

/* Limited memory outside the arena. Thread-safe. */
typedef struct spsh__budget {
    spsh_allocator allocator;
    uint64_t limit_bytes;
    _Atomic uint64_t used_bytes;
    _Atomic bool has_refused; /* a request exceeded the limit */
} spsh__budget;

/* Allocate, without zeroing. NULL: over the limit, or out of memory. */
void *spsh__budget_take(spsh__budget *budget, size_t size_bytes);
void spsh__budget_give(spsh__budget *budget, void *memory, size_t size_bytes);
/* The budget as an allocator. Free its memory only through this allocator. */
spsh_allocator spsh__budget_allocator(spsh__budget *budget);

typedef struct spsh__memory {
    spsh_arena hook; /* the caller's arena; alloc_fn NULL: our own mapping */
    uint8_t *data;
    size_t size_bytes;
    size_t kept_bytes; /* bytes from the beginning that a forked child does not inherit */
} spsh__memory;

spsh_status spsh__memory_open(const spsh_arena *hook, size_t size_bytes, spsh__memory *ret_memory,
                              spsh_error *err);
/* Advise the kernel not to give the first bytes to forked children: a child would get copies of
 * pages that devices write to. Has no effect on a caller's arena. */
void spsh__memory_keep(spsh__memory *memory, size_t size_bytes);
/* is_inherited: in a forked child. Then a caller's arena is not freed: it may be device memory. */
void spsh__memory_close(spsh__memory *memory, bool is_inherited);

/* The parts of a slot's memory. All values are multiples of SPSH__ARENA_ALIGN. */
typedef struct spsh__slot_layout {
    size_t audio_bytes; /* audio, at offset 0 */
    size_t packed_at, packed_bytes;
    size_t norms_at;   /* per utterance: dim means, dim scales */
    size_t host_bytes; /* all parts above */
    size_t rows_bytes; /* features, only on the device, at offset host_bytes */
} spsh__slot_layout;

struct spsh__slot;
struct spsh__request;

/* How the record of a job is read. */
typedef enum spsh__way {
    SPSH__WAY_WHOLE = 0, /* the engine reads the whole record */
    SPSH__WAY_SELF = 1,  /* the decode thread reads the bytes that it needs */
    SPSH__WAY_BAD = 2,   /* not at all: the record is known to be bad */
} spsh__way;

/* One utterance of a batch that is being prepared. */
typedef struct spsh__job {
    struct spsh__job *next; /* in a queue */
    struct spsh__slot *slot;
    struct spsh__request *request; /* the read that has the record, until it is decoded */
    const uint8_t *record;         /* row.record_bytes bytes; NULL: the decode thread reads it */
    spsh__way way;
    bool retry; /* the first read failed */
    bool left_out;
    bool substitute;
    uint32_t number;          /* index of the utterance in the batch */
    uint32_t attempts;        /* number of attempts to find a substitute */
    uint64_t rate_samples;    /* samples per channel after resampling */
    uint64_t out_samples;     /* samples per channel after resampling and a change of speed */
    uint64_t frames;          /* feature frames; 0 for audio */
    uint64_t out_samples_max; /* maximum out_samples of a substitute */
    uint64_t place;           /* index of the first value in the slot's audio */
    bool is_packed;           /* the payload is in the slot, for a device to decode */
    spsh_pcm_part packed;     /* if is_packed: the payload */
    uint64_t packed_first;    /* if is_packed: first sample to decode */
    spsh_item planned;
    spsh_item item; /* planned, or its substitute */
    spsh_row row;   /* index row of item */
} spsh__job;

typedef enum spsh__slot_state {
    SPSH__SLOT_FREE = 0,
    SPSH__SLOT_FILLING = 1,
    SPSH__SLOT_READY = 2,
    SPSH__SLOT_LENT = 3,    /* borrowed by the caller */
    SPSH__SLOT_LEAVING = 4, /* released, but a device still uses it */
} spsh__slot_state;

typedef struct spsh__text_chunk {
    struct spsh__text_chunk *next;
    size_t size_bytes, used_bytes;
    uint8_t data[];
} spsh__text_chunk;

typedef struct spsh__slot {
    spsh_batch batch;       /* the batch that the caller borrows */
    spsh__slot_state state; /* guarded by the loader's lock */

    uint8_t *audio; /* [layout.host_bytes] */
    spsh__slot_layout layout;
    bool hands_samples; /* features are served, but the audio holds samples */
    _Atomic size_t packed_bytes;
    _Atomic uint64_t packed_blocks;
    uint8_t *on_device;           /* its memory on the device; NULL without a device */
    void *stream, *ready, *freed; /* NULL without a device */
    spsh__budget *budget;
    spsh_batch_utterance *utterances;
    spsh__job *jobs;
    spsh__job **order; /* jobs to read, in the order of storage */
    uint32_t capacity; /* size of utterances, jobs, and order */
    uint32_t job_count;
    size_t value_bytes;
    uint64_t stride; /* values per utterance in padded output; 0: ragged */

    spsh_position place; /* position of the batch */
    spsh_position next;  /* position after the batch */

    _Atomic uint32_t jobs_left;

    pthread_mutex_t lock;        /* guards everything below */
    spsh__text_chunk *chunks;    /* all chunks, in the order of use */
    spsh__text_chunk *chunk_now; /* the chunk that new strings go to */
    spsh_bad_record *bads;       /* bad records found in this batch */
    uint32_t bad_count, bad_capacity;
    spsh_status status; /* not SPSH_OK: the batch failed */
    uint32_t status_number;
    spsh_error error;
} spsh__slot;

spsh_status spsh__slot_open(spsh__slot *slot, spsh__budget *budget, uint8_t *audio,
                            const spsh__slot_layout *layout, spsh_error *err);
void spsh__slot_close(spsh__slot *slot);

/* Prepare the slot for a new batch: grow the tables, clear strings and failure. */
spsh_status spsh__slot_reset(spsh__slot *slot, uint32_t utterance_count, spsh_error *err);

/* Copy a string to the slot. Thread-safe. */
spsh_status spsh__slot_string(spsh__slot *slot, spsh_bytes string, spsh_bytes *ret_copy,
                              spsh_error *err);

/* Record a failure. The failure of the lowest-numbered utterance is kept. Thread-safe. number:
 * SPSH_NONE_U32 for the whole batch. */
void spsh__slot_fail(spsh__slot *slot, uint32_t number, spsh_status status,
                     const spsh_error *error);

/* Record a skipped record. Thread-safe. May return SPSH_E_NO_MEMORY. */
spsh_status spsh__slot_bad(spsh__slot *slot, const spsh_bad_record *bad);

/* After all jobs are done: close gaps, and fill in the batch. One thread. */
void spsh__slot_finish(spsh__slot *slot);

#endif
