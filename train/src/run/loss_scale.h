/* loss_scale.h: what losses' gradients are multiplied by, so that those of fp16 do not become zero
 * on their way: as large as they allow.
 *
 *     factor of the loss's gradients            scale
 *     all gradients finite                      after SPSH__LOSS_SCALE_GOOD such updates: twice it
 *     one is not                                half of it, down to 1; the update is left out
 *
 * As PyTorch's GradScaler has it by default (torch/amp/grad_scaler.py: init_scale 2^16,
 * growth_factor 2, backoff_factor 0.5, growth_interval 2000), but that it never falls below 1. All
 * ranks see the same sum of gradients, so all have the same scale. Without one it is 1 and stays.
 */
#ifndef SPSH_TRAIN_LOSS_SCALE_H
#define SPSH_TRAIN_LOSS_SCALE_H

#include "backend/backend.h"

#define SPSH__LOSS_SCALE_START 65536.0
#define SPSH__LOSS_SCALE_MAX   16777216.0 /* 2^24: beyond it a float's gradients may overflow */
#define SPSH__LOSS_SCALE_GOOD  UINT64_C(2000)

typedef struct spsh__loss_scale {
    double scale;        /* a power of two, at least 1 */
    uint64_t good_steps; /* since it last changed */
} spsh__loss_scale;

static inline bool spsh__loss_scale_is_used(spsh__precision precision)
{
    return precision == SPSH__FP16;
}

spsh__loss_scale spsh__loss_scale_start(spsh__precision precision);

/* One that a checkpoint has, for a run that goes on in `precision`: not used, used from now on, or
 * none that there can be: as start. */
spsh__loss_scale spsh__loss_scale_resume(const spsh__loss_scale *before, spsh__precision precision);

/* After a step's gradients are known. true: they are to be left out, and a lower scale may help. */
bool spsh__loss_scale_step(spsh__loss_scale *s, spsh__precision precision, bool are_finite);

#endif
