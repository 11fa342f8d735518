/* step_rule.h: the rule by which a step's gradients are scaled, clipped, or skipped. Host and device
 * compute the same bits.
 */
#ifndef SPSH_TRAIN_STEP_RULE_H
#define SPSH_TRAIN_STEP_RULE_H

#include <float.h>
#include <math.h>

#include "speechshard/device_text.h"

typedef struct spsh__step_rule {
    double divisor; /* divides the gradients: number of losses, times the loss scale */
    double clip;    /* maximum norm of the divided gradients; 0: no limit */
} spsh__step_rule;

typedef struct spsh__step_scale {
    double norm;    /* norm of the divided gradients, before clipping */
    double scale;   /* factor of the gradients in the update */
    bool is_finite; /* whether the norm is; false: skip the update */
} spsh__step_scale;

/* square_sum: of the gradients, before the division. */
SPSH__INLINE spsh__step_scale spsh__step_rule_apply(const spsh__step_rule *rule, double square_sum)
{
    spsh__step_scale ret;
    ret.norm = sqrt(square_sum) / rule->divisor;
    ret.scale = 1 / rule->divisor;
    if (rule->clip > 0 && ret.norm > rule->clip)
        ret.scale *= rule->clip / ret.norm;
    ret.is_finite = ret.norm <= DBL_MAX; /* false for NaN */
    return ret;
}

#endif
