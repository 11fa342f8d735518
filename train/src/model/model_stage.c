/* model_stage.c: some blocks of a model (spsh__model_open_stage): which blocks exist, and the
 * activations at their borders.
 *
 *     block    0            1                       layers           layers + 1
 *     ds2      convolutions rnn1       norm, rnn2   norm, rnnN       look-ahead, norm, product
 *     hybrid   rnn1         rnn2       ...          bottleneck       product
 *
 * The arenas of a model begin with the parameters nearest to the loss. The arenas of a stage are
 * therefore a slice of the whole arenas. The parameters of later blocks precede the slice.
 */
#include "model_internal.h"

uint32_t spsh__model_block_count(const spsh__model_shape *shape)
{
    return shape->layers + 2;
}

spsh_status spsh__model_check_stage(spsh__model *m, spsh_error *err)
{
    const uint32_t blocks = spsh__model_block_count(&m->shape);
    if (m->stage.end == 0)
        m->stage.end = blocks;
    if (m->stage.first < m->stage.end && m->stage.end <= blocks)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "model: blocks %u to %u are not a range within the %u blocks", m->stage.first,
                     m->stage.end, blocks);
}

bool spsh__model_has_output(const spsh__model *m)
{
    return m->stage.end == spsh__model_block_count(&m->shape);
}

/* Widths follow from the shape. */
void spsh__model_find_borders(spsh__model *m)
{
    m->out_width = m->shape.outputs;
    if (m->stage.first > 0)
        (void)m->ops->border_fn(m, m->stage.first - 1, &m->in_width);
    if (!spsh__model_has_output(m))
        (void)m->ops->border_fn(m, m->stage.end - 1, &m->out_width);
}

/* No layer of this stage takes memory for the input. */
void spsh__model_take_borders(spsh__model *m)
{
    m->stage_in = m->input;
    m->stage_out = m->logits;
    if (!spsh__model_has_output(m))
        m->stage_out = *m->ops->border_fn(m, m->stage.end - 1, &m->out_width);
    if (m->stage.first > 0) {
        spsh__backend_buffer *in = m->ops->border_fn(m, m->stage.first - 1, &m->in_width);
        m->stage_in = *in = spsh__model_take_values(m, m->out_rows_max * m->in_width);
    }
}

uint32_t spsh__model_stage_in_width(const spsh__model *m)
{
    return m->in_width;
}

uint32_t spsh__model_stage_out_width(const spsh__model *m)
{
    return m->out_width;
}

spsh__backend_buffer spsh__model_stage_in(const spsh__model *m)
{
    return m->stage_in;
}

spsh__backend_buffer spsh__model_stage_out(const spsh__model *m)
{
    return m->stage_out;
}

spsh__backend_buffer spsh__model_stage_out_gradients(const spsh__model *m)
{
    return spsh__model_has_output(m) ? m->logit_gradients : m->gradient[0];
}

spsh__backend_buffer spsh__model_stage_in_gradients(const spsh__model *m)
{
    return m->in_gradients;
}

/* Return the operations per row: each weight costs two forward and four backward. Gradients of
 * features are not computed. */
double spsh__model_work(const spsh__model *m)
{
    double work = 6 * (double)m->weight_count;
    for (int i = 0; i < 2 && m->conv[i].norm != NULL; i++) {
        const double each = i == 0 ? 4 : 6;
        const double weights = (double)m->slices[m->conv[i].weight].count;
        work += (each * m->conv[i].shape.out_bins - 6) * weights;
    }
    return work;
}

void spsh__model_divert_statistics(spsh__model *m, spsh__backend_buffer to)
{
    m->diverted = to;
}
