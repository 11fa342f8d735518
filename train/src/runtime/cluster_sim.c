/* cluster_sim.c: see cluster_sim.h. */
#include "cluster_sim.h"

#define FAR_NS (UINT64_MAX / 4) /* later than any event */

spsh_status spsh__cluster_sim_open(spsh__cluster_sim *s, const spsh__cluster *cluster,
                                   const spsh__sim_options *options, spsh_error *err)
{
    spsh__sim_options sim = *options;
    *s = (spsh__cluster_sim){.cluster = cluster};
    for (uint32_t i = 0; i < cluster->fault_count; i++) {
        spsh__sim_fault f = cluster->faults[i];
        if (f.learner >= options->learners)
            continue;
        f.from_ns += FAR_NS;
        f.to_ns += f.to_ns > 0 ? FAR_NS : 0;
        s->faults[s->fault_count++] = f;
    }
    sim.allocator = *spsh_allocator_default();
    sim.latency_ns = cluster->link.latency_ns;
    sim.bytes_per_s = cluster->link.bytes_per_s;
    sim.node_size = cluster->node_size;
    sim.node_bytes_per_s = cluster->node_link.bytes_per_s;
    sim.node_latency_ns = cluster->node_link.latency_ns;
    sim.seed = cluster->seed;
    sim.deadline_ms = cluster->deadline_ms;
    sim.faults = s->faults;
    sim.fault_count = s->fault_count;
    return spsh__sim_open(&sim, &s->sim, err);
}

void spsh__cluster_sim_close(spsh__cluster_sim *s)
{
    spsh__sim_close(s->sim);
}

void spsh__cluster_begin(spsh__cluster_sim *s)
{
    const uint64_t now_ns = spsh__sim_now_ns(s->sim);
    if (s->has_begun)
        return;
    s->has_begun = true;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        s->faults[i].from_ns += now_ns - FAR_NS;
        if (s->faults[i].to_ns > 0)
            s->faults[i].to_ns += now_ns - FAR_NS;
    }
}

static void pass(const spsh__cluster_sim *s, uint32_t learner, spsh__cluster_batch *b,
                 uint64_t until_ns)
{
    spsh__runtime *t = spsh__sim_runtime(s->sim, learner);
    t->ops->compute_fn(t, until_ns - b->spent_ns);
    b->spent_ns = until_ns;
}

void spsh__cluster_forward(const spsh__cluster_sim *s, uint32_t learner, uint64_t number,
                           spsh__cluster_batch *ret)
{
    const spsh__cluster *c = s->cluster;
    const double more = 1 + c->jitter * spsh__sim_uniform(c->seed, learner, number);
    *ret = (spsh__cluster_batch){.batch_ns = (uint64_t)((double)c->step_ns * more)};
    pass(s, learner, ret, ret->batch_ns / 3);
}

void spsh__cluster_backward(const spsh__cluster_sim *s, uint32_t learner, spsh__cluster_batch *b,
                            uint32_t bucket, uint32_t bucket_count)
{
    const uint64_t forward_ns = b->batch_ns / 3;
    const uint64_t part_ns = (b->batch_ns - forward_ns) / bucket_count;
    pass(s, learner, b,
         bucket + 1 == bucket_count ? b->batch_ns : forward_ns + part_ns * (bucket + 1));
}
