/* parts.h: an arena in parts of up to SPSH__PART_BYTES, as learners send it: taken out as floats,
 * put back, mixed.
 *
 * Averages are made of snapshots, and it is the difference that is applied: what came to the arena
 * in between stays, and what one learner gains of another that one loses: the sum over learners
 * stays, but for rounding.
 */
#ifndef SPSH_TRAIN_PARTS_H
#define SPSH_TRAIN_PARTS_H

#include "backend/backend.h"
#include "runtime/runtime.h"

typedef struct spsh__parts {
    spsh__backend *backend;
    spsh__backend_buffer arena; /* borrowed */
    uint64_t elements, part_elements;
    uint32_t count;
    spsh__backend_buffer scratch; /* a part */
    float *host;                  /* a part; the caller may use it between calls */
    spsh_allocator allocator;
} spsh__parts;

/* count_min: smaller parts where there were fewer than so many. */
spsh_status spsh__parts_open(spsh__backend *backend, spsh__backend_buffer arena, uint64_t elements,
                             uint32_t count_min, spsh__parts *ret, spsh_error *err);
void spsh__parts_close(spsh__parts *p); /* zeroed is fine */

static inline uint64_t spsh__parts_offset(const spsh__parts *p, uint32_t part)
{
    return part * p->part_elements;
}

static inline uint64_t spsh__parts_elements(const spsh__parts *p, uint32_t part)
{
    const uint64_t left = p->elements - spsh__parts_offset(p, part);
    return left < p->part_elements ? left : p->part_elements;
}

static inline size_t spsh__parts_bytes(const spsh__parts *p, uint32_t part)
{
    return spsh__parts_elements(p, part) * sizeof(float);
}

/* A message with a part of this arena. */
static inline bool spsh__parts_is_of(const spsh__parts *p, const spsh__message *m)
{
    return m->part < p->count && m->size_bytes == spsh__parts_bytes(p, m->part);
}

void spsh__parts_take(spsh__parts *p, uint32_t part, float *to);
void spsh__parts_put(spsh__parts *p, uint32_t part, const float *from);
/* arena += weight * (theirs - mine) */
void spsh__parts_mix(spsh__parts *p, uint32_t part, double weight, const float *theirs,
                     const float *mine);

/* The arena is put aside, to come back; nothing where it is (not) aside already. */
void spsh__parts_save(spsh__parts *p, float *aside, bool *is_aside);
void spsh__parts_restore(spsh__parts *p, const float *aside, bool *is_aside);

#endif
