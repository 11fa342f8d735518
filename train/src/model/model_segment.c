/* model_segment.c: captured work that a device replays (segments of backend.h).
 *
 *     forward      | 0                         |
 *     backward     | 1          | 2        | ...     one segment per bucket: the exchange of a
 *                    bucket 0     bucket 1           complete bucket runs between two segments
 *
 * A replayed segment needs no operators. The layers still run on the host, but the backend enqueues
 * nothing. Their bookkeeping therefore stays the same, and a step may mix captured and other
 * segments.
 *
 * A captured segment belongs to one shape. To keep shapes few, frames are padded to a multiple of
 * SPSH__MODEL_FRAMES, and utterances to a multiple of the backend's batch_multiple. Padding
 * utterances have no frames. With norms that exclude padding, this does not change the results.
 * With BN `compat` it would. In models of chunks, the number of chunks differs per batch. Neither
 * kind is padded.
 */
#include "base/whole_numbers.h"
#include "model_internal.h"

/* A forward-only model exists only during an evaluation, or runs one batch at a time, so its
 * segments are not captured. */
void spsh__model_segments_open(spsh__model *m)
{
    m->number = ++m->backend->model_count;
    m->has_segments =
        m->b->segment_begin_fn != NULL && !m->is_forward_only && m->shape.kind == SPSH__MODEL_DS2;
}

static uint32_t round_up(uint32_t count, uint32_t multiple)
{
    return (uint32_t)spsh__round_up(count, multiple);
}

uint32_t spsh__model_segment_frames(const spsh__model *m, uint32_t frames)
{
    const bool is_padded = m->has_segments && !m->shape.counts_padding;
    return is_padded ? round_up(frames, SPSH__MODEL_FRAMES) : frames;
}

uint32_t spsh__model_segment_batch(const spsh__model *m, uint32_t batch)
{
    const bool is_padded = m->has_segments && !m->shape.counts_padding;
    return is_padded ? round_up(batch, m->backend->batch_multiple) : batch;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* Hash everything that differs between batches. */
static uint64_t key_of(const spsh__model *m)
{
    const uint64_t key =
        mix(mix(mix(mix(1, m->number), m->batch), m->frames), m->is_training ? 1 : 0);
    return key == 0 ? 1 : key;
}

void spsh__model_segment_begin(spsh__model *m, uint32_t number)
{
    const spsh__graph_segment segment = {key_of(m), number};
    if (m->has_segments)
        (void)m->b->segment_begin_fn(m->backend, &segment);
}

void spsh__model_segment_end(spsh__model *m)
{
    if (m->has_segments)
        m->b->segment_end_fn(m->backend);
}
