/* arena_mean.c: see arena_mean.h. Sums are doubles. For some thousand ranks that is exact enough:
 * except for ties, the mean is the float nearest to the exact mean. */
#include "arena_mean.h"

#include "speechshard/inside.h"

#define TAG_PART 41u
#define TAG_MEAN 42u
#define TAG_NEXT 43u

/* For the owner of a part: sum the part of all ranks in rank order, and send the mean to all. */
static spsh_status own_part(spsh__comm *c, float *part, double *sum, float *theirs, size_t count,
                            spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    memset(sum, 0, count * sizeof(*sum));
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++) {
        const float *from = r == c->rank ? part : theirs;
        if (r != c->rank)
            rc = spsh__comm_receive(c, r, TAG_PART, theirs, count * sizeof(*theirs), err);
        for (size_t i = 0; rc == SPSH_OK && i < count; i++)
            sum[i] += (double)from[i];
    }
    for (size_t i = 0; i < count; i++)
        part[i] = (float)(sum[i] / c->world_size);
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++)
        if (r != c->rank)
            rc = spsh__comm_send(c, r, TAG_MEAN, part, count * sizeof(*part), err);
    return rc;
}

static spsh_status lend_part(spsh__comm *c, uint32_t owner, float *part, size_t count,
                             spsh_error *err)
{
    const size_t bytes = count * sizeof(*part);
    const spsh_status rc = spsh__comm_send(c, owner, TAG_PART, part, bytes, err);
    return rc != SPSH_OK ? rc : spsh__comm_receive(c, owner, TAG_MEAN, part, bytes, err);
}

spsh_status spsh__arena_mean(spsh__comm *c, spsh__parts *from, spsh__parts *to, spsh_error *err)
{
    double *sum = spsh__new(&c->allocator, from->part_elements, sizeof(*sum));
    float *theirs = spsh__new(&c->allocator, from->part_elements, sizeof(*theirs));
    spsh_status rc = SPSH_OK;
    if (sum == NULL || theirs == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "mean of all models");
    for (uint32_t part = 0; rc == SPSH_OK && part < from->count; part++) {
        const uint32_t owner = part % c->world_size;
        const size_t count = spsh__parts_elements(from, part);
        spsh__parts_take(from, part, from->host);
        rc = owner == c->rank ? own_part(c, from->host, sum, theirs, count, err)
                              : lend_part(c, owner, from->host, count, err);
        if (rc == SPSH_OK)
            spsh__parts_put(to, part, from->host);
    }
    spsh__free(&c->allocator, sum);
    spsh__free(&c->allocator, theirs);
    return rc;
}

/* Receive one part from the previous rank, and send it to the next rank. */
static spsh_status pass_part(spsh__comm *c, spsh__parts *arena, uint32_t part, spsh_error *err)
{
    const size_t bytes = spsh__parts_bytes(arena, part);
    spsh_status rc = SPSH_OK;
    if (c->rank == 0)
        spsh__parts_take(arena, part, arena->host);
    else
        rc = spsh__comm_receive(c, c->rank - 1, TAG_NEXT, arena->host, bytes, err);
    if (rc == SPSH_OK && c->rank + 1 < c->world_size)
        rc = spsh__comm_send(c, c->rank + 1, TAG_NEXT, arena->host, bytes, err);
    return rc;
}

spsh_status spsh__arena_align(spsh__comm *c, spsh__parts *arena, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && c->world_size > 1 && part < arena->count; part++) {
        rc = pass_part(c, arena, part, err);
        if (rc == SPSH_OK && c->rank != 0)
            spsh__parts_put(arena, part, arena->host);
    }
    return rc;
}
