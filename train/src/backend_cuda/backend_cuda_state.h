/* backend_cuda_state.h: shared declarations of backend_cuda.c, _count.c, _memory.c, _product.c, and
 * _segment.c. The other parts of the backend include only backend_cuda.h. */
#ifndef SPSH_TRAIN_BACKEND_CUDA_STATE_H
#define SPSH_TRAIN_BACKEND_CUDA_STATE_H

#include "backend_cuda.h"

enum {
    SPSH__CUDA_SCRATCHES = 4,
    SPSH__CUDA_SLOTS = 16,          /* pinned slots that uploads use in turn */
    SPSH__CUDA_SLOT_BYTES = 262144, /* size of one slot */
    SPSH__CUDA_FETCHES = 4,         /* ... and that fetches use in turn */
    SPSH__CUDA_BLOCKS = 16,         /* maximum blocks of pinned memory for downloads */
    SPSH__CUDA_TAKE_BYTES = 128,
    SPSH__CUDA_KEYS = 256,   /* shapes whose segments are captured */
    SPSH__CUDA_RETIRED = 16, /* evicted shapes whose graphs may be in flight */
    SPSH__CUDA_SEGMENTS = 64,
};

typedef struct spsh__cuda_lane_state {
    void *stream;
    void *scratch[SPSH__CUDA_SCRATCHES];
    size_t scratch_bytes[SPSH__CUDA_SCRATCHES];
    void *taken; /* event after the last download */
    bool has_taken;
} spsh__cuda_lane_state;

typedef struct spsh__cuda_slot {
    void *done; /* event after the last copy from it */
    bool is_used;
} spsh__cuda_slot;

typedef struct spsh__cuda_take {
    void (*take_fn)(const void *user, const void *bytes);
    const void *bytes; /* pinned */
    _Alignas(16) unsigned char user[SPSH__CUDA_TAKE_BYTES];
} spsh__cuda_take;

typedef struct spsh__cuda_block {
    char *memory; /* pinned */
    size_t size_bytes, used_bytes;
} spsh__cuda_block;

typedef struct spsh__cuda_lengths_state {
    uint32_t *device; /* input lengths at offset 0, output lengths at offset capacity */
    uint32_t capacity;
    uint32_t batch;           /* utterances of the batch in progress */
    const uint32_t *in, *out; /* the caller's pointers, which identify the lengths */
} spsh__cuda_lengths_state;

/* A segment of a shape: seen, and then captured if possible. */
typedef struct spsh__cuda_kept {
    void *graph;
    bool is_seen, is_refused;
} spsh__cuda_kept;

typedef struct spsh__cuda_key {
    uint64_t key;  /* 0: free entry */
    uint64_t used; /* value of counts.begun at the last use */
    spsh__cuda_kept segments[SPSH__CUDA_SEGMENTS];
} spsh__cuda_key;

/* The graphs of an evicted shape. */
typedef struct spsh__cuda_retired {
    void *done; /* event after their last launch */
    bool is_used;
    spsh__cuda_kept segments[SPSH__CUDA_SEGMENTS];
} spsh__cuda_retired;

typedef struct spsh__cuda_segments {
    spsh__cuda_key *keys; /* SPSH__CUDA_KEYS; NULL without graphs */
    spsh__cuda_retired retired[SPSH__CUDA_RETIRED];
    bool is_whole;            /* all segments of the batch so far were launched */
    spsh__cuda_kept *current; /* between begin and end: segment whose work is recorded; else NULL */
    bool is_replayed;         /* between begin and end: the segment's graph was launched */
    char *works;              /* work enqueued since begin, in order */
    size_t used_bytes, capacity_bytes;
    spsh__cuda_segment_counts counts;
} spsh__cuda_segments;

/* backend_cuda_count.c: while is_on, operators only count their requests. */
typedef struct spsh__cuda_count {
    bool is_on;
    size_t scratch_bytes[SPSH__DEVICE_LANES][SPSH__CUDA_SCRATCHES]; /* maximum size so far */
    uint64_t lengths_bytes, trial_bytes;
    void *reserves; /* restored at the end: reserves of recurrent layers, and the first failure */
    spsh_status rc;
    spsh_error err;
} spsh__cuda_count;

struct spsh__cuda_state {
    const spsh__cuda_plugin *plugin;
    const spsh__device_train_entry *entry;
    void *train; /* state of the entry */
    spsh_cuda_device about;
    spsh__cuda_lane_state lanes[SPSH__DEVICE_LANES];
    uint32_t lane;
    void *fork, *join; /* events */
    void *passed;      /* event: the position that another backend waits for */
    spsh_status rc;    /* the first failure */
    spsh_error err;
    char *pinned;                      /* slots, and then the places of fetches */
    void *fetched[SPSH__CUDA_FETCHES]; /* events after the last copies to these places */
    spsh__cuda_slot slots[SPSH__CUDA_SLOTS];
    uint32_t slot;
    spsh__cuda_block blocks[SPSH__CUDA_BLOCKS];
    spsh__cuda_take *takes;
    size_t take_count, take_capacity;
    spsh__cuda_lengths_state lengths;
    spsh__cuda_segments segments;
    spsh__cuda_count count;
    size_t conv_bytes_max; /* maximum work space of a convolution */
    void *rnn;
};

static inline spsh__cuda_state *spsh__cuda_of(const spsh__backend *b)
{
    return b->state;
}

/* ---- backend_cuda_memory.c ---- */
spsh_status spsh__cuda_memory_open(spsh__backend *b, spsh_error *err);
void spsh__cuda_memory_close(spsh__backend *b);
/* Return the allocated size of scratch for a request. */
size_t spsh__cuda_scratch_bytes(size_t size_bytes);
/* Try to allocate size_bytes of scratch. Return false if memory is not available, without a
 * failure. */
bool spsh__cuda_scratch_try(spsh__backend *b, uint32_t number, size_t size_bytes);

/* ---- backend_cuda_count.c ---- */
void *spsh__cuda_count_scratch(spsh__backend *b, uint32_t number, size_t size_bytes);
void *spsh__cuda_nowhere(void); /* placeholder address */

/* ---- backend_cuda_segment.c ---- */
spsh_status spsh__cuda_segments_open(spsh__backend *b, bool has_graphs, spsh_error *err);
void spsh__cuda_segments_close(spsh__backend *b);
/* Drop the graphs. Call before memory that they refer to is freed. */
void spsh__cuda_segments_drop(spsh__backend *b);
/* Never capture the current segment: a graph cannot contain some of its work. */
void spsh__cuda_segment_refuse(spsh__backend *b);
/* Return memory for a copy of the arguments of enqueued work, aligned to 16. NULL: nothing is
 * recorded now. */
void *spsh__cuda_remember(spsh__backend *b, spsh__cuda_work_fn *work_fn, size_t size_bytes);

#endif
