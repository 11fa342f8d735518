/* pcm_encode.c: one block, by linear prediction.
 *
 * The bytes must not depend on the processor. The coefficients come from floating-point arithmetic
 * that uses only +, -, *, / and floor, in a fixed order; IEEE 754 defines each to the bit as long
 * as nothing is contracted to fused multiply-adds: ISO mode (-std=c11) forbids that to GCC, the
 * pragma to Clang. Everything after the coefficients is integer arithmetic.
 */
#include "pcm_internal.h"

#include "base/base_internal.h"

#include <float.h>
#include <math.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "arithmetic in double must not be more precise than double");

enum {
    SEGMENT_SAMPLES_MIN = 512,  /* per coefficient set: enough to pay for its bytes, */
    SEGMENT_SAMPLES_MAX = 1024, /* short enough to follow speech */
    SETS_LOG2 = 3,
    LANE_SAMPLES_MAX = PCM_ROWS_MAX * PCM_GROUP_SAMPLES,
};
_Static_assert(SPSH_PCM_FRAME_SAMPLES >> SETS_LOG2 == SEGMENT_SAMPLES_MAX, "one set a segment");

/* A block that is being encoded. */
typedef struct block_plan {
    uint32_t samples;
    uint32_t rows;
    uint32_t lane_samples;
    unsigned zero_bits;
    unsigned sets_log2;
    bool has_starts;
    pcm_coefficients sets[1 << SETS_LOG2];
    int16_t starts[PCM_LANES];
    int16_t residuals[PCM_LANES][LANE_SAMPLES_MAX];
    uint8_t widths[PCM_ROWS_MAX][PCM_LANES];
} block_plan;

/* Two doubles, as every processor with vectors has them. */
typedef double pair __attribute__((vector_size(16)));
enum { LAG_PAIRS = PCM_ORDER / 2 + 1, LAGS = 2 * LAG_PAIRS };

/* Autocorrelation under a Welch window: lags 0 to PCM_ORDER, and one more. */
static void autocorrelate(const int16_t *pcm, uint32_t samples, double r[LAGS])
{
    double windowed[LAGS + SEGMENT_SAMPLES_MAX];
    pair sums[LAG_PAIRS] = {{0}};
    double scale = 1 / (double)samples;
    memset(windowed, 0, LAGS * sizeof(windowed[0]));
    for (uint32_t i = 0; i < samples; i++) {
        double z = (2 * (double)i + 1) * scale - 1;
        windowed[LAGS + i] = pcm[i] * (1 - z * z);
    }
    for (uint32_t i = 0; i < samples; i++) {
        const double *x = windowed + LAGS + i;
        pair now = {x[0], x[0]};
        PCM_UNROLL
        for (size_t k = 0; k < LAG_PAIRS; k++) {
            pair before; /* lags 2k + 1 and 2k */
            memcpy(&before, x - 1 - 2 * k, sizeof(before));
            sums[k] += now * before;
        }
    }
    for (size_t k = 0; k < LAG_PAIRS; k++) {
        r[2 * k] = sums[k][1];
        r[2 * k + 1] = sums[k][0];
    }
}

/* Levinson's recursion. A little is added to the energy, as if there were faint noise: that keeps
 * the recursion stable for signals that are predicted almost perfectly. */
static void solve(const double *r, double a[PCM_ORDER])
{
    double error = r[0] * (1 + 1e-9) + 1;
    for (int i = 0; i < PCM_ORDER; i++) {
        double before[PCM_ORDER];
        double reflection = r[i + 1];
        for (int j = 0; j < i; j++)
            reflection -= a[j] * r[i - j];
        reflection /= error;
        memcpy(before, a, sizeof(before));
        for (int j = 0; j < i; j++)
            a[j] = before[j] - reflection * before[i - 1 - j];
        a[i] = reflection;
        error *= 1 - reflection * reflection;
        if (!(error > 0))
            return;
    }
}

/* Quantize as precisely as the largest coefficient allows. Each rounding error is carried over to
 * the next coefficient, so that their sum, the gain at 0 Hz, stays right. */
static void quantize(const double a[PCM_ORDER], pcm_coefficients *set)
{
    const double limit = (1 << (PCM_COEFFICIENT_BITS - 1)) - 1;
    double largest = 0;
    double carry = 0;
    for (int k = 0; k < PCM_ORDER; k++)
        largest = fabs(a[k]) > largest ? fabs(a[k]) : largest;
    set->shift = PCM_SHIFT_MAX;
    while (set->shift > 0 && largest * (1 << set->shift) > limit)
        set->shift--;
    for (int k = 0; k < PCM_ORDER; k++) {
        double wanted = a[k] * (1 << set->shift) + carry;
        double value = floor(wanted + 0.5);
        value = value > limit ? limit : value < -limit ? -limit : value;
        set->values[k] = (int16_t)value;
        carry = wanted - value;
    }
}

static void find_sets(const int16_t *pcm, block_plan *plan)
{
    plan->sets_log2 = 0;
    while (plan->sets_log2 < SETS_LOG2 &&
           plan->samples >> (plan->sets_log2 + 1) >= SEGMENT_SAMPLES_MIN)
        plan->sets_log2++;
    uint32_t segment_samples = plan->lane_samples * PCM_LANES >> plan->sets_log2;
    for (uint32_t i = 0; i < 1u << plan->sets_log2; i++) {
        double r[LAGS];
        double a[PCM_ORDER] = {0};
        uint32_t first = i * segment_samples;
        uint32_t left = plan->samples > first ? plan->samples - first : 0;
        autocorrelate(pcm + (left > 0 ? first : 0), left < segment_samples ? left : segment_samples,
                      r);
        solve(r, a);
        quantize(a, &plan->sets[i]);
    }
}

void spsh__pcm_residuals_scalar(const pcm_coefficients *set, const int16_t *pcm, uint32_t count,
                                int16_t *residuals)
{
    for (uint32_t t = 0; t < count; t++) {
        const int16_t *next = pcm + t;
        uint32_t sum = 0;
        for (int k = 0; k < PCM_ORDER; k++)
            sum += (uint32_t)(set->values[k] * next[-1 - k]);
        residuals[t] = (int16_t)((uint32_t)next[0] - (sum >> set->shift));
    }
}

static uint8_t width_scalar(const int16_t residuals[PCM_GROUP_SAMPLES])
{
    uint32_t any = 0;
    uint32_t reach = 0;
    for (int i = 0; i < PCM_GROUP_SAMPLES; i++) {
        any |= (uint16_t)residuals[i];
        reach |= (uint16_t)(residuals[i] > 0 ? residuals[i] - 1 : -residuals[i]);
    }
    if (reach == 0)
        return any == 0 ? 0 : 1;
    uint32_t width = 33 - (uint32_t)__builtin_clz(reach);
    return width > PCM_WIDTH_MAX ? PCM_WIDTH_MAX : (uint8_t)width; /* -32768 counts as 32768 */
}

static void pack_scalar(const int16_t residuals[PCM_GROUP_SAMPLES], unsigned width, uint8_t *out)
{
    uint64_t bits = 0;
    unsigned count = 0;
    uint32_t mask = (UINT32_C(1) << width) - 1;
    for (int i = 0; i < PCM_GROUP_SAMPLES; i++) {
        bits |= (uint64_t)(((uint32_t)residuals[i] + (mask >> 1)) & mask) << count;
        for (count += width; count >= 8; count -= 8, bits >>= 8)
            *out++ = (uint8_t)bits;
    }
}

typedef struct encoder_parts {
    pcm_residuals_fn *residuals;
    pcm_width_fn *width;
    pcm_pack_fn *pack;
} encoder_parts;

static encoder_parts choose_encoder(void)
{
#if defined(__x86_64__)
    if (spsh__pcm_isa() != PCM_ISA_SCALAR)
        return (encoder_parts){spsh__pcm_residuals_avx2, spsh__pcm_width_avx2, spsh__pcm_pack_avx2};
#endif
    return (encoder_parts){spsh__pcm_residuals_scalar, width_scalar, pack_scalar};
}

/* The first group of a lane, when all samples before the lane count as start. */
static void find_first_residuals(const pcm_coefficients *set, const int16_t *pcm, uint32_t count,
                                 int16_t start, int16_t *residuals)
{
    int16_t samples[2 * PCM_ORDER];
    uint32_t early = count < PCM_ORDER ? count : PCM_ORDER;
    for (int k = 0; k < PCM_ORDER; k++)
        samples[k] = start;
    for (uint32_t t = 0; t < early; t++)
        samples[PCM_ORDER + t] = pcm[t];
    spsh__pcm_residuals_scalar(set, samples + PCM_ORDER, early, residuals);
}

/* Compute residuals and their widths, and decide whether start values save space. */
static void find_residuals(const encoder_parts *encoder, const int16_t *pcm, block_plan *plan)
{
    int16_t with_starts[PCM_LANES][PCM_GROUP_SAMPLES];
    uint8_t start_widths[PCM_LANES];
    int saved_bytes = -PCM_STARTS_BYTES;

    for (uint32_t lane = 0; lane < PCM_LANES; lane++) {
        const pcm_coefficients *set = &plan->sets[lane >> (PCM_SETS_LOG2_MAX - plan->sets_log2)];
        int16_t *residuals = plan->residuals[lane];
        uint32_t first = lane * plan->lane_samples;
        uint32_t left = plan->samples > first ? plan->samples - first : 0;
        uint32_t count = left < plan->lane_samples ? left : plan->lane_samples;
        const int16_t *samples = pcm + plan->samples - left;

        find_first_residuals(set, samples, count, 0, residuals);
        if (count > PCM_ORDER)
            encoder->residuals(set, samples + PCM_ORDER, count - PCM_ORDER, residuals + PCM_ORDER);
        memset(residuals + count, 0, (plan->lane_samples - count) * sizeof(residuals[0]));
        for (uint32_t b = 0; b < plan->rows; b++)
            plan->widths[b][lane] = encoder->width(residuals + (size_t)b * PCM_GROUP_SAMPLES);

        plan->starts[lane] = 0;
        if (count > 0)
            plan->starts[lane] = *(lane == 0 ? samples : samples - 1);
        memcpy(with_starts[lane], residuals, sizeof(with_starts[lane]));
        find_first_residuals(set, samples, count, plan->starts[lane], with_starts[lane]);
        start_widths[lane] = encoder->width(with_starts[lane]);
        saved_bytes += 2 * (plan->widths[0][lane] - start_widths[lane]);
    }
    plan->has_starts = saved_bytes > 0;
    for (int lane = 0; lane < PCM_LANES && plan->has_starts; lane++) {
        memcpy(plan->residuals[lane], with_starts[lane], sizeof(with_starts[lane]));
        plan->widths[0][lane] = start_widths[lane];
    }
}

/* Raise widths to the nearest ones that the width codes can express: in rows 0 and 1 anything
 * except 15, in later rows at least one less and at most two more than in the row before. The
 * result is the smallest such envelope. Groups after the last sample repeat the width before them.
 */
static void fit_widths(block_plan *plan)
{
    for (uint32_t lane = 0; lane < PCM_LANES; lane++) {
        uint32_t live = spsh__pcm_live_rows(plan->samples, plan->rows, lane);
        for (uint32_t b = live; b-- > 2;)
            if (plan->widths[b - 1][lane] + 2 < plan->widths[b][lane])
                plan->widths[b - 1][lane] = (uint8_t)(plan->widths[b][lane] - 2);
        for (uint32_t b = 0; b < 2 && b < plan->rows; b++)
            if (plan->widths[b][lane] == 15)
                plan->widths[b][lane] = PCM_WIDTH_MAX;
        for (uint32_t b = 2; b < plan->rows; b++) {
            uint8_t before = plan->widths[b - 1][lane];
            if (b >= live)
                plan->widths[b][lane] = before;
            else if (plan->widths[b][lane] + 1 < before)
                plan->widths[b][lane] = (uint8_t)(before - 1);
        }
    }
}

/* Write everything before the groups, with fitted widths. */
static uint8_t *write_head(const block_plan *plan, uint8_t *out)
{
    *out++ = PCM_FORM_PREDICTED;
    *out++ = (uint8_t)(plan->sets_log2 | (plan->has_starts ? PCM_FLAG_STARTS : 0) |
                       plan->zero_bits << PCM_ZERO_BITS_SHIFT);
    for (uint32_t i = 0; i < 1u << plan->sets_log2; i++) {
        const int16_t *values = plan->sets[i].values;
        *out++ = (uint8_t)plan->sets[i].shift;
        for (int k = 0; k < PCM_ORDER; k += 2, out += 3) {
            out[0] = (uint8_t)values[k];
            out[1] = (uint8_t)(((uint32_t)values[k] >> 8 & 15) | (uint32_t)values[k + 1] << 4);
            out[2] = (uint8_t)((uint32_t)values[k + 1] >> 4);
        }
    }
    for (int lane = 0; lane < PCM_LANES && plan->has_starts; lane++, out += 2)
        spsh__store_u16le(out, (uint16_t)plan->starts[lane]);
    for (uint32_t b = 0; b < 2 && b < plan->rows; b++)
        for (int lane = 0; lane < PCM_LANES; lane += 2) {
            uint32_t low = plan->widths[b][lane];
            uint32_t high = plan->widths[b][lane + 1];
            *out++ = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
        }
    for (uint32_t b = 2; b < plan->rows; b++, out += PCM_NEXT_ROW_WIDTH_BYTES) {
        uint32_t low = 0;
        uint32_t high = 0;
        for (int lane = 0; lane < PCM_LANES; lane++) {
            uint32_t code = 1u + plan->widths[b][lane] - plan->widths[b - 1][lane];
            low |= (code & 1) << lane;
            high |= (code >> 1) << lane;
        }
        spsh__store_u16le(out, (uint16_t)low);
        spsh__store_u16le(out + 2, (uint16_t)high);
    }
    return out;
}

/* Vector packing writes past the group. Near the end of the buffer, groups are packed by the plain
 * form. */
static void write_groups(const encoder_parts *encoder, const block_plan *plan, uint8_t *out,
                         const uint8_t *end)
{
    for (uint32_t b = 0; b < plan->rows; b++) {
        for (uint32_t lane = 0; lane < PCM_LANES; lane++) {
            if (b >= spsh__pcm_live_rows(plan->samples, plan->rows, lane))
                continue;
            pcm_pack_fn *pack = end - out < PCM_PACK_AHEAD_BYTES ? pack_scalar : encoder->pack;
            pack(plan->residuals[lane] + (size_t)b * PCM_GROUP_SAMPLES, plan->widths[b][lane], out);
            out += 2 * (size_t)plan->widths[b][lane];
        }
    }
}

/* Writes nothing and returns 0 when raw is not larger. */
static size_t encode_predicted(const int16_t *pcm, uint32_t samples, unsigned zero_bits,
                               uint8_t *block)
{
    encoder_parts encoder = choose_encoder();
    block_plan plan;
    plan.samples = samples;
    plan.zero_bits = zero_bits;
    plan.rows = (samples + PCM_ROW_SAMPLES - 1) / PCM_ROW_SAMPLES;
    plan.lane_samples = plan.rows * PCM_GROUP_SAMPLES;
    find_sets(pcm, &plan);
    find_residuals(&encoder, pcm, &plan);
    fit_widths(&plan);

    size_t size = PCM_PREDICTED_HEAD_BYTES + ((size_t)PCM_SET_BYTES << plan.sets_log2) +
                  (plan.has_starts ? PCM_STARTS_BYTES : 0) + spsh__pcm_width_bytes(plan.rows);
    for (uint32_t lane = 0; lane < PCM_LANES; lane++) {
        uint32_t live = spsh__pcm_live_rows(samples, plan.rows, lane);
        for (uint32_t b = 0; b < live; b++)
            size += 2 * (size_t)plan.widths[b][lane];
    }
    if (size >= PCM_BLOCK_BYTES_MAX(samples))
        return 0;
    write_groups(&encoder, &plan, write_head(&plan, block), block + PCM_BLOCK_BYTES_MAX(samples));
    return size;
}

size_t spsh__pcm_block_encode(const int16_t *pcm, uint32_t samples, uint8_t *block)
{
    int16_t shifted[SPSH_PCM_FRAME_SAMPLES];
    uint32_t equal = 1;
    while (equal < samples && pcm[equal] == pcm[0])
        equal++;
    if (equal == samples) {
        block[0] = PCM_FORM_CONSTANT;
        spsh__store_u16le(block + 1, (uint16_t)pcm[0]);
        return PCM_BLOCK_BYTES_MAX(1);
    }
    /* Low zero bits occur in 8-bit, mu-law, and A-law sources and in samples scaled by a power of
     * two. */
    uint32_t any = 0;
    for (uint32_t i = 0; i < samples && (any & 1) == 0; i++)
        any |= (uint16_t)pcm[i];
    unsigned zero_bits = (unsigned)__builtin_ctz(any);
    for (uint32_t i = 0; i < samples && zero_bits > 0; i++)
        shifted[i] = (int16_t)(pcm[i] >> zero_bits);
    size_t size = encode_predicted(zero_bits > 0 ? shifted : pcm, samples, zero_bits, block);
    if (size > 0)
        return size;
    block[0] = PCM_FORM_RAW;
    for (uint32_t i = 0; i < samples; i++)
        spsh__store_u16le(block + 1 + 2 * (size_t)i, (uint16_t)pcm[i]);
    return PCM_BLOCK_BYTES_MAX(samples);
}
