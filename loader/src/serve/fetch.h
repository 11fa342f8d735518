/* fetch.h: the thread that plans and reads. */
#ifndef SPSH_FETCH_H
#define SPSH_FETCH_H

#include "loader_threads.h"
#include "shard_files.h"

/* One read, of one record or of several neighbours. */
typedef struct spsh__request {
    struct spsh__request *next; /* in a list: idle, or to recycle */
    spsh_read_completion done;
    bool is_lent; /* delivered and not recycled */
    bool is_slow; /* said so */
    uint64_t submitted_ns;
    uint64_t offset_bytes;
    spsh__shard_file *file; /* until delivered */
    uint8_t file_id[16];
    spsh__slot *slot;
    uint32_t first, count; /* of the slot's order */
    _Atomic uint32_t jobs_left;
} spsh__request;

/* Opens sampler and engine; the thread is started by spsh__fetch_start. */
spsh_status spsh__fetch_open(spsh_loader *loader, spsh_error *err);
spsh_status spsh__fetch_start(spsh_loader *loader, spsh_error *err);
/* Ends the thread. */
void spsh__fetch_stop(spsh_loader *loader);
/* Waits for reads in flight. The thread and those that decode have ended. */
void spsh__fetch_close(spsh_loader *loader);

/* In a child: free the engine and the tables whose size is fixed at open. */
void spsh__fetch_close_inherited(spsh_loader *loader);

const char *spsh__fetch_engine_name(const spsh_loader *loader);
uint64_t spsh__fetch_cpu_ns(const spsh_loader *loader);

/* Fails when a shard has been being opened for longer than a read may take. Under lock. */
spsh_status spsh__fetch_watch(spsh_loader *loader, spsh_error *err);

/* Drop what was decoded ahead and stop; between the two the sampler is the caller's. */
spsh_sampler *spsh__fetch_park(spsh_loader *loader);
void spsh__fetch_go_on(spsh_loader *loader);

#endif
