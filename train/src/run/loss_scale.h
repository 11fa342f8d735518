/* loss_scale.h: dynamic loss scaling: keep the scale as large as possible, so that fp16 gradients
 * do not underflow.
 *
 *     gradients                                 scale
 *     all finite                                doubles after SPSH__LOSS_SCALE_GOOD such updates
 *     not all finite                            halves, down to 1; the update is skipped
 *
 * Same defaults as PyTorch's GradScaler (torch/amp/grad_scaler.py: init_scale 2^16, growth_factor
 * 2, backoff_factor 0.5, growth_interval 2000), except that the scale never falls below 1. All
 * ranks see the same sum of gradients, so all have the same scale. Without loss scaling it stays 1.
 */
#ifndef SPSH_TRAIN_LOSS_SCALE_H
#define SPSH_TRAIN_LOSS_SCALE_H

#include "backend/backend.h"

#define SPSH__LOSS_SCALE_START 65536.0
#define SPSH__LOSS_SCALE_MAX   16777216.0 /* 2^24: above it a float's gradients may overflow */
#define SPSH__LOSS_SCALE_GOOD  UINT64_C(2000)

typedef struct spsh__loss_scale {
    double scale;        /* a power of two, at least 1 */
    uint64_t good_steps; /* since its last change */
} spsh__loss_scale;

static inline bool spsh__loss_scale_is_used(spsh__precision precision)
{
    return precision == SPSH__FP16;
}

spsh__loss_scale spsh__loss_scale_start(spsh__precision precision);

/* Return the scale for a run that resumes in `precision`. If the checkpoint's scale is invalid, was
 * unused, or is not needed in `precision`, return the initial scale. */
spsh__loss_scale spsh__loss_scale_resume(const spsh__loss_scale *before, spsh__precision precision);

/* Call once the gradients of a step are known. true: skip them; a lower scale may help. */
bool spsh__loss_scale_step(spsh__loss_scale *s, spsh__precision precision, bool are_finite);

#endif
