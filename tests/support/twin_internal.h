/* twin_internal.h: functions that twin_runtime.c, twin_memory.c, and twin_hazards.c share. Unless
 * stated otherwise, all of them are called with the emulation's single lock held. */
#ifndef SPSH_TWIN_INTERNAL_H
#define SPSH_TWIN_INTERNAL_H

#include "twin_plugin.h"
#include "twin_runtime.h"

enum { TWIN_DEVICES = 2, TWIN_STREAMS = 64, TWIN_POISON = 0xff };

extern twin_controls twin_state; /* the controls */

uint64_t twin_random(uint64_t below);

/* ---- for fake_cudart.c; these functions take the lock themselves ---- */

uint32_t twin_stream_device(void *handle);
/* The device of the memory. TWIN_DEVICES: pinned memory; greater: neither kind. */
uint32_t twin_memory_device(const void *memory, size_t size_bytes);
bool twin_is_captured(void *handle);
bool twin_is_capturing(void); /* this thread */

/* ---- hazards: vector clocks ----
 *
 * Pieces of work on a stream have times 1, 2, 3, ... A clock has a time for each stream: work of
 * the stream up to this time is surely done. The next piece of work of a stream follows all work
 * within the stream's own clock. */

typedef struct twin_clock {
    uint64_t at[TWIN_STREAMS];
} twin_clock;

void twin_clock_join(twin_clock *into, const twin_clock *from);

typedef struct twin_access {
    const char *name;
    uintptr_t begin, end;
    bool is_write;
    uint32_t stream;
    uint64_t time;
} twin_access;

/* Accesses that may conflict with a later one. */
typedef struct twin_accesses {
    twin_access *list;
    size_t count, capacity;
} twin_accesses;

/* Add an access of work that follows `now`. Accesses within the clock `host` are dropped. */
void twin_accesses_add(twin_accesses *all, const twin_access *one, const twin_clock *now,
                       const twin_clock *host);
void twin_accesses_free(twin_accesses *all);

/* ---- memory ---- */

typedef struct twin_block {
    uintptr_t begin, end;
    uint32_t device; /* TWIN_DEVICES: pinned */
    bool is_registered;
    twin_accesses accesses;
    void *allocation; /* pinned and not registered */
    uintptr_t pages;  /* device memory: its whole pages, up to end_pages */
    uintptr_t end_pages;
} twin_block;

bool twin_is_device_memory(const void *memory); /* allocated now or earlier */
/* The block that contains the whole range, or NULL. */
twin_block *twin_block_of(const void *memory, size_t size_bytes);

spsh_status twin_memory_new(uint32_t device, size_t size_bytes, void **ret_memory, spsh_error *err);
void twin_memory_free(void *memory); /* no work in flight uses it */
uint64_t twin_memory_used(uint32_t device);
spsh_status twin_pinned_new(size_t size_bytes, void **ret_memory, spsh_error *err);
spsh_status twin_pinned_register(void *memory, size_t size_bytes, spsh_error *err);
void twin_pinned_free(void *memory, bool is_registered);

#endif
