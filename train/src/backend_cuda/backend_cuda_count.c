/* backend_cuda_count.c: see backend_cuda_count.h. State of earlier work (a failure, more reserve of
 * recurrent layers) is saved and restored.
 */
#include "backend_cuda_count.h"

#include "backend_cuda_state.h"

void spsh__cuda_count_begin(spsh__backend *b)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_count *count = &self->count;
    *count = (spsh__cuda_count){.is_on = true, .rc = self->rc, .err = self->err};
    count->reserves = spsh__cuda_rnn_swap(b, NULL);
    self->rc = SPSH_OK;
}

/* Maximum size of one scratch buffer: rounded as allocated, after growth from a smaller one. */
static uint64_t most_scratch(size_t size_bytes)
{
    return size_bytes == 0 ? 0 : spsh__cuda_scratch_bytes(size_bytes + size_bytes / 4);
}

spsh_status spsh__cuda_count_end(spsh__backend *b, uint64_t *ret_bytes, spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_count *count = &self->count;
    const spsh_status rc = spsh__fail_again(self->rc, &self->err, err);
    uint64_t bytes = count->lengths_bytes + count->trial_bytes;
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++)
        for (uint32_t k = 0; k < SPSH__CUDA_SCRATCHES; k++)
            bytes += most_scratch(count->scratch_bytes[i][k]);
    *ret_bytes = bytes;
    spsh__cuda_rnn_forget(b, spsh__cuda_rnn_swap(b, count->reserves));
    self->rc = count->rc;
    self->err = count->err;
    self->lane = 0;
    count->is_on = false;
    return rc;
}

uint64_t spsh__cuda_open_bytes(const spsh__backend *b)
{
    return spsh__cuda_of(b)->entry->open_bytes;
}

void spsh__cuda_count_trial(spsh__backend *b, size_t size_bytes)
{
    uint64_t *most = &spsh__cuda_of(b)->count.trial_bytes;
    *most = size_bytes > *most ? size_bytes : *most;
}

/* Placeholder address that is never read or written. */
void *spsh__cuda_nowhere(void)
{
    static _Alignas(256) unsigned char nowhere[256];
    return nowhere;
}

void *spsh__cuda_count_scratch(spsh__backend *b, uint32_t number, size_t size_bytes)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    size_t *most = &self->count.scratch_bytes[self->lane][number];
    *most = size_bytes > *most ? size_bytes : *most;
    return spsh__cuda_nowhere();
}
