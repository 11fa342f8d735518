/* parts.h: an arena in parts of up to SPSH__PART_BYTES, in which learners send it. A part can be
 * taken as floats, put back, or mixed.
 *
 * Averages are made of snapshots, and only the difference is applied. Updates to the arena since
 * the snapshot therefore survive. One learner gains what the other loses, so the sum over learners
 * stays constant up to rounding.
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
    spsh__backend_buffer scratch; /* one part */
    float *host;                  /* one part; the caller may use it between calls */
    spsh_allocator allocator;
} spsh__parts;

/* Open the parts of an arena. count_min: use smaller parts if there would be fewer than count_min.
 */
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

/* Return true if the message carries a part of this arena. */
static inline bool spsh__parts_is_of(const spsh__parts *p, const spsh__message *m)
{
    return m->part < p->count && m->size_bytes == spsh__parts_bytes(p, m->part);
}

void spsh__parts_take(spsh__parts *p, uint32_t part, float *to);
void spsh__parts_put(spsh__parts *p, uint32_t part, const float *from);
/* Copy a part to a buffer of the backend, for mix. */
void spsh__parts_keep(spsh__parts *p, uint32_t part, spsh__backend_buffer to);
/* arena += weight * (theirs - mine). mine.data NULL: the arena itself, if it has not changed since
 * its snapshot. */
void spsh__parts_mix(spsh__parts *p, uint32_t part, double weight, const float *theirs,
                     spsh__backend_buffer mine);

/* Save the arena to `aside`, or restore it. save does nothing if the arena is already saved;
 * restore does nothing if it is not. */
void spsh__parts_save(spsh__parts *p, float *aside, bool *is_aside);
void spsh__parts_restore(spsh__parts *p, const float *aside, bool *is_aside);

#endif
