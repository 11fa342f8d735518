/* ctc_f64.c: ctc_body.h in doubles, one by one: of `reference`. */
#include <math.h>
#include <string.h>

#include "ctc.h"
#include "ctc_layout.h"

typedef double real;
typedef double vec;
typedef uint64_t ivec;
enum { LANES = 1, MANTISSA_BITS = 52, BIAS = 1023, TERMS = 13 };

#define HEAD spsh__ctc_result spsh__ctc_f64
#define TARGET
#define INLINE static inline
/* The first with 21 zeros at its end. */
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW  1.90821492927058770002e-10

INLINE vec vec_max(vec a, vec b)
{
    return a > b ? a : b;
}

#include "ctc_body.h"
