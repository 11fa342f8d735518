/* owner_mean.c: see owner_mean.h. */
#include "owner_mean.h"

#include "speechshard/inside.h"
#include "strategy_internal.h"

spsh_status spsh__owner_mean_open(spsh__runtime *runtime, spsh__parts *parts,
                                  const spsh_allocator *allocator, spsh__owner_mean *ret,
                                  spsh_error *err)
{
    const uint32_t world = runtime->world_size;
    const uint32_t owned = parts->count / world + (runtime->rank < parts->count % world);
    *ret = (spsh__owner_mean){.runtime = runtime, .parts = parts, .allocator = *allocator};
    ret->mine = spsh__new(allocator, parts->part_elements, sizeof(*ret->mine));
    ret->sum = spsh__new(allocator, parts->part_elements, sizeof(*ret->sum));
    ret->inbox =
        spsh__new(allocator, (size_t)owned * world, parts->part_elements * sizeof(*ret->inbox));
    ret->came = spsh__new(allocator, owned, sizeof(*ret->came));
    ret->mean = spsh__new(allocator, parts->elements, sizeof(*ret->mean));
    if (ret->mine == NULL || ret->sum == NULL || ret->inbox == NULL || ret->came == NULL ||
        ret->mean == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "models of all learners");
    return SPSH_OK;
}

void spsh__owner_mean_close(spsh__owner_mean *m)
{
    if (m->runtime == NULL)
        return;
    spsh__free(&m->allocator, m->mine);
    spsh__free(&m->allocator, m->sum);
    spsh__free(&m->allocator, m->inbox);
    spsh__free(&m->allocator, m->came);
    spsh__free(&m->allocator, m->mean);
}

spsh_status spsh__owner_mean_send(spsh__owner_mean *m, uint32_t part, spsh_error *err)
{
    spsh__runtime *t = m->runtime;
    const spsh__message snapshot = {.kind = SPSH__MESSAGE_SNAPSHOT,
                                    .part = part,
                                    .number = m->round,
                                    .bytes = m->mine,
                                    .size_bytes = spsh__parts_bytes(m->parts, part)};
    return t->ops->post_fn(t, part % t->world_size, &snapshot, err);
}

spsh_status spsh__owner_mean_begin(spsh__owner_mean *m, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && part < m->parts->count; part++) {
        spsh__parts_take(m->parts, part, m->mine);
        rc = spsh__owner_mean_send(m, part, err);
    }
    return rc;
}

static spsh_status send_mean(spsh__owner_mean *m, uint32_t part, const float *inbox,
                             spsh_error *err)
{
    spsh__runtime *t = m->runtime;
    const uint64_t count = spsh__parts_elements(m->parts, part);
    float *mean = m->mean + spsh__parts_offset(m->parts, part);
    const spsh__message message = {.kind = SPSH__MESSAGE_MEAN,
                                   .part = part,
                                   .number = m->round,
                                   .bytes = mean,
                                   .size_bytes = count * sizeof(*mean)};
    spsh_status rc = SPSH_OK;
    memset(m->sum, 0, count * sizeof(*m->sum));
    for (uint32_t r = 0; r < t->world_size; r++)
        for (uint64_t i = 0; i < count; i++)
            m->sum[i] += (double)inbox[r * m->parts->part_elements + i];
    for (uint64_t i = 0; i < count; i++)
        mean[i] = (float)(m->sum[i] / t->world_size);
    m->mean_count++;
    for (uint32_t r = 0; rc == SPSH_OK && r < t->world_size; r++)
        if (r != t->rank)
            rc = t->ops->post_fn(t, r, &message, err);
    return rc;
}

static spsh_status take_snapshot(spsh__owner_mean *m, const spsh__message *message, spsh_error *err)
{
    const uint32_t world = m->runtime->world_size, owned = message->part / world;
    float *inbox = m->inbox + (size_t)owned * world * m->parts->part_elements;
    memcpy(inbox + message->from * m->parts->part_elements, message->bytes, message->size_bytes);
    if (++m->came[owned] < world)
        return SPSH_OK;
    m->came[owned] = 0;
    return send_mean(m, message->part, inbox, err);
}

spsh_status spsh__owner_mean_serve(spsh__owner_mean *m, const spsh__message *message,
                                   spsh_error *err)
{
    const uint32_t owner = message->part % m->runtime->world_size;
    const bool is_of = spsh__parts_is_of(m->parts, message);
    if (is_of && message->kind == SPSH__MESSAGE_SNAPSHOT && owner == m->runtime->rank)
        return take_snapshot(m, message, err);
    if (is_of && message->kind == SPSH__MESSAGE_MEAN && owner == message->from) {
        memcpy(m->mean + spsh__parts_offset(m->parts, message->part), message->bytes,
               message->size_bytes);
        m->mean_count++;
        return SPSH_OK;
    }
    return spsh__strategy_unknown(message, err);
}

bool spsh__owner_mean_is_here(void *mean)
{
    const spsh__owner_mean *m = (const spsh__owner_mean *)mean;
    return m->mean_count == m->parts->count;
}

spsh_status spsh__owner_mean_enter(spsh__owner_mean *m, bool (*ready_fn)(void *user), void *user,
                                   spsh_error *err)
{
    spsh__runtime *t = m->runtime;
    const spsh__mark wait = {SPSH__MARK_WAIT, 0, m->round}, mix = {SPSH__MARK_MIX, 0, m->round};
    const spsh_status rc = t->ops->wait_fn(t, &wait, ready_fn, user, 0, err);
    return rc != SPSH_OK ? rc : t->ops->enter_fn(t, &mix, err);
}

void spsh__owner_mean_leave(spsh__owner_mean *m)
{
    m->mean_count = 0;
    m->round++;
    m->runtime->ops->leave_fn(m->runtime);
}
