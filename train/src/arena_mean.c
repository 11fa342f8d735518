/* arena_mean.c: see arena_mean.h. Sums are doubles: of floats of some thousand ranks exact enough
 * that the mean is the nearest float but for ties. */
#include "arena_mean.h"

#include "train_internal.h"

#define TAG_PART 41u
#define TAG_MEAN 42u

static spsh_status wait_for(spsh__comm *c, spsh__comm_handle handle, spsh_error *err)
{
    return c->ops->wait_fn(c, handle, c->deadline_ms, err);
}

/* The owner's: sum of all, in the order of ranks; then to all. */
static spsh_status own_part(spsh__comm *c, float *part, double *sum, float *theirs, size_t count,
                            spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__comm_handle handle = 0;
    memset(sum, 0, count * sizeof(*sum));
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++) {
        const float *from = r == c->rank ? part : theirs;
        if (r != c->rank)
            rc = c->ops->receive_fn(c, r, TAG_PART, theirs, count * sizeof(*theirs), &handle, err);
        if (r != c->rank && rc == SPSH_OK)
            rc = wait_for(c, handle, err);
        for (size_t i = 0; rc == SPSH_OK && i < count; i++)
            sum[i] += (double)from[i];
    }
    for (size_t i = 0; i < count; i++)
        part[i] = (float)(sum[i] / c->world_size);
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++) {
        if (r == c->rank)
            continue;
        rc = c->ops->send_fn(c, r, TAG_MEAN, part, count * sizeof(*part), &handle, err);
        if (rc == SPSH_OK)
            rc = wait_for(c, handle, err);
    }
    return rc;
}

static spsh_status lend_part(spsh__comm *c, uint32_t owner, float *part, size_t count,
                             spsh_error *err)
{
    spsh__comm_handle handle = 0;
    spsh_status rc = c->ops->send_fn(c, owner, TAG_PART, part, count * sizeof(*part), &handle, err);
    if (rc == SPSH_OK)
        rc = wait_for(c, handle, err);
    if (rc == SPSH_OK)
        rc = c->ops->receive_fn(c, owner, TAG_MEAN, part, count * sizeof(*part), &handle, err);
    return rc != SPSH_OK ? rc : wait_for(c, handle, err);
}

spsh_status spsh__arena_mean_make(const spsh__arena_mean *m, spsh__buffer from, spsh__buffer to,
                                  uint64_t elements, spsh_error *err)
{
    const spsh__backend_ops *ops = m->backend->ops;
    spsh__comm *c = m->comm;
    const uint64_t parts = (elements + m->part_elements - 1) / m->part_elements;
    double *sum = spsh__train_new(&c->allocator, m->part_elements, sizeof(*sum));
    float *theirs = spsh__train_new(&c->allocator, m->part_elements, sizeof(*theirs));
    spsh_status rc = SPSH_OK;
    if (sum == NULL || theirs == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "the mean of all models");
    for (uint64_t p = 0; rc == SPSH_OK && p < parts; p++) {
        const uint64_t first = p * m->part_elements, left = elements - first;
        const size_t count = (size_t)(left < m->part_elements ? left : m->part_elements);
        const uint32_t owner = (uint32_t)(p % c->world_size);
        ops->read_f32_fn(m->backend, m->host, spsh__at(ops, from, first), count);
        rc = owner == c->rank ? own_part(c, m->host, sum, theirs, count, err)
                              : lend_part(c, owner, m->host, count, err);
        if (rc == SPSH_OK)
            ops->write_f32_fn(m->backend, spsh__at(ops, to, first), m->host, count);
    }
    spsh__train_delete(&c->allocator, sum);
    spsh__train_delete(&c->allocator, theirs);
    return rc;
}

spsh_status spsh__arena_mean_align(const spsh__arena_mean *m, spsh__buffer arena, uint64_t elements,
                                   spsh_error *err)
{
    const spsh__backend_ops *ops = m->backend->ops;
    spsh_status rc = SPSH_OK;
    if (m->comm->world_size == 1)
        return SPSH_OK;
    for (uint64_t first = 0; rc == SPSH_OK && first < elements; first += m->part_elements) {
        const uint64_t left = elements - first;
        const size_t count = (size_t)(left < m->part_elements ? left : m->part_elements);
        const spsh__buffer part = spsh__at(ops, arena, first);
        if (m->comm->rank == 0)
            ops->read_f32_fn(m->backend, m->host, part, count);
        rc = spsh__comm_broadcast(m->comm, m->host, count * sizeof(float), 0, err);
        if (rc == SPSH_OK && m->comm->rank != 0)
            ops->write_f32_fn(m->backend, part, m->host, count);
    }
    return rc;
}
