/* frames_constants.h: constants of frames_body.h, common to all instruction sets. */
#ifndef SPSH_FRAMES_CONSTANTS_H
#define SPSH_FRAMES_CONSTANTS_H

#include <float.h>
#include <math.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "features need floats that are evaluated as floats (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

/* ln(1 + f) = f - f^2 / 2 + f^3 q(f) for 1 + f from sqrt(1/2) to sqrt(2): minimax by iteratively
 * weighted least squares, relative error 5.9e-9, a tenth of a unit in the last place. */
#define LOG_Q0 0x1.555554p-2F
#define LOG_Q1 (-0x1.000226p-2F)
#define LOG_Q2 0x1.99a008p-3F
#define LOG_Q3 (-0x1.547244p-3F)
#define LOG_Q4 0x1.22da1cp-3F
#define LOG_Q5 (-0x1.0d8542p-3F)
#define LOG_Q6 0x1.055b6ap-3F
#define LOG_Q7 (-0x1.38b580p-4F)

/* ln(2), the first part with 15 bits. */
#define LN2_HIGH 0x1.62e4p-1F
#define LN2_LOW  0x1.7f7d1cp-20F
#define LOG10_E  0x1.bcb7b2p-2F
/* log10(2), the first part with 15 bits. */
#define LOG10_2_HIGH 0x1.3440p-2F
#define LOG10_2_LOW  0x1.3509f8p-18F

#define SQRT_HALF_BITS 0x3f3504f3 /* as a float */
#define ONE_BITS       0x3f800000
#define EXPONENT_BITS  0x7f800000
#define EXPONENT_MASK  (-0x800000) /* sign and exponent */

#define SINE_3     0x1.bb67aep-1F    /* sine of 1/3 of a turn */
#define COSINE_5_1 0x1.3c6ef4p-2F    /* cosine of 1/5 of a turn */
#define COSINE_5_2 (-0x1.9e377ap-1F) /* cosine of 2/5 of a turn */
#define SINE_5_1   0x1.e6f0e2p-1F
#define SINE_5_2   0x1.2cf230p-1F

#define SAMPLE_MAX 1024.0F

#endif
