/* loss_scale.c: see loss_scale.h. */
#include "loss_scale.h"

#include <math.h>

spsh__loss_scale spsh__loss_scale_start(spsh__precision precision)
{
    const bool is_used = spsh__loss_scale_is_used(precision);
    return (spsh__loss_scale){is_used ? SPSH__LOSS_SCALE_START : 1, 0};
}

spsh__loss_scale spsh__loss_scale_resume(const spsh__loss_scale *before, spsh__precision precision)
{
    int exponent = 0;
    const bool is_one = before->scale >= 1 && before->scale <= SPSH__LOSS_SCALE_MAX &&
                        frexp(before->scale, &exponent) == 0.5 &&
                        before->good_steps < SPSH__LOSS_SCALE_GOOD;
    const bool was_used = before->scale > 1 || before->good_steps > 0;
    if (!spsh__loss_scale_is_used(precision) || !is_one || !was_used)
        return spsh__loss_scale_start(precision);
    return *before;
}

bool spsh__loss_scale_step(spsh__loss_scale *s, spsh__precision precision, bool are_finite)
{
    if (!spsh__loss_scale_is_used(precision))
        return false;
    if (are_finite) {
        s->good_steps++;
        if (s->good_steps == SPSH__LOSS_SCALE_GOOD) {
            s->scale = fmin(2 * s->scale, SPSH__LOSS_SCALE_MAX);
            s->good_steps = 0;
        }
        return false;
    }
    s->good_steps = 0;
    if (s->scale <= 1)
        return false;
    s->scale /= 2;
    return true;
}
