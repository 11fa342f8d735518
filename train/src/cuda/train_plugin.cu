/* train_plugin.cu: the trainer's entry of the plug-in: opening, closing, the table. */
#include <cuda_runtime.h>
#include <stdlib.h>

#include "train_state.h"

static void close_state(void *opaque)
{
    spsh__train_state *self = (spsh__train_state *)opaque;
    int before = 0;
    const bool has_entered = spsh__cuda_enter(self->plan.device, &before, NULL) == SPSH_OK;
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++) {
        spsh__train_conv_close(self, &self->lanes[i]);
        spsh__train_gemm_close(self, &self->lanes[i]);
    }
    if (has_entered)
        spsh__cuda_leave(before);
    free(self);
}

static spsh_status open_lanes(spsh__train_state *self, spsh_error *err)
{
    spsh_status rc = spsh__cuda_check(
        cudaDeviceGetAttribute(&self->shared_bytes_max, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                               (int)self->plan.device),
        "setting the shared memory of a kernel", err);
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES && rc == SPSH_OK; i++) {
        rc = spsh__train_gemm_open(self, &self->lanes[i], err);
        if (rc == SPSH_OK)
            rc = spsh__train_conv_open(self, &self->lanes[i], err);
    }
    return rc;
}

static spsh_status open_state(const spsh__device_train_plan *plan, void **ret_state,
                              spsh_error *err)
{
    int before = 0;
    spsh__train_state *self = (spsh__train_state *)calloc(1, sizeof(*self));
    if (self == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "state of the trainer: out of memory");
    self->plan = *plan;
    spsh_status rc = spsh__library_calls_find(&self->calls, err);
    if (rc == SPSH_OK)
        rc = spsh__cuda_enter(self->plan.device, &before, err);
    if (rc != SPSH_OK) {
        free(self);
        return rc;
    }
    rc = open_lanes(self, err);
    spsh__cuda_leave(before);
    if (rc != SPSH_OK) {
        close_state(self);
        return rc;
    }
    *ret_state = self;
    return SPSH_OK;
}

#define SPSH_X(number_, name_, job_) +sizeof(job_)
extern "C" SPSH_API const spsh__device_train_entry *spsh_cuda_train_entry(void)
{
    static const spsh__device_train_entry entry = {
        0 SPSH__KERNELS(SPSH_X),
        SPSH__DEVICE_KERNEL_COUNT,
        (size_t)SPSH__DEVICE_LANES * SPSH__GEMM_WORK_BYTES,
        open_state,
        close_state,
        spsh__train_launch,
        spsh__train_gemm,
        spsh__train_conv_space,
        spsh__train_conv,
    };
    return &entry;
}
#undef SPSH_X
