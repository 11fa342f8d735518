/* device_frames.h: frames.h for a block of threads: some frames of an utterance, each as a lane.
 *
 *     samples --> [other] --> dc, pre-emphasis, window --> [points] --> passes --> powers [other]
 *             --> mel, log [points] --> (DCT) --> values
 *
 * In each frame every sum has the order that frames_body.h gives it, every operation is rounded
 * separately, and tables are the same. Only the assignment of work to threads differs. A thread
 * does items of one lane: their numbers are lane + lanes * i, and lanes divides the number of
 * threads.
 */
#ifndef SPSH_DEVICE_FRAMES_H
#define SPSH_DEVICE_FRAMES_H

#include "device_job.h"
#include "features/frames_constants.h"
#include "features/half_bits.h"

/* ------------------------------------------------------------------------------- logarithms */

DEVICE int32_t device_bits(float value)
{
    int32_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

DEVICE float device_float(int32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

DEVICE float device_log_rest(float f)
{
    const float square = f * f;
    float q = f * LOG_Q7 + LOG_Q6;
    q = q * f + LOG_Q5;
    q = q * f + LOG_Q4;
    q = q * f + LOG_Q3;
    q = q * f + LOG_Q2;
    q = q * f + LOG_Q1;
    q = q * f + LOG_Q0;
    return q * f * square - square * 0.5F;
}

/* value: positive and normal. The value is 2^*exponent * (1 + the result). */
DEVICE float device_split(float value, int32_t *exponent)
{
    const int32_t bits = device_bits(value);
    const int32_t power = (bits - SQRT_HALF_BITS) & EXPONENT_MASK;
    *exponent = power / 0x800000;
    return device_float(bits - power) - 1.0F;
}

DEVICE float device_log_of_parts(float e, float f)
{
    return (f + (device_log_rest(f) + e * LN2_LOW)) + e * LN2_HIGH;
}

DEVICE float device_log_natural(float value)
{
    int32_t exponent = 0;
    const float f = device_split(value, &exponent);
    return device_log_of_parts((float)exponent, f);
}

DEVICE float device_log_decimal(float value)
{
    int32_t exponent = 0;
    const float f = device_split(value, &exponent);
    const float e = (float)exponent;
    return ((f + device_log_rest(f)) * LOG10_E + e * LOG10_2_LOW) + e * LOG10_2_HIGH;
}

DEVICE float device_log_one_plus(float x)
{
    const float sum = x + 1.0F;
    const float taken = sum - 1.0F;
    const float lost = (x - taken) + (1.0F - (sum - taken));
    int32_t exponent = 0;
    const float f = device_split(sum, &exponent);
    const float unit = device_float(ONE_BITS - exponent * 0x800000);
    return device_log_of_parts((float)exponent, f + lost * unit);
}

DEVICE float device_log(const spsh__frame_tables *tables, float value)
{
    const float floored = value > tables->log_floor ? value : tables->log_floor;
    switch (tables->features.log) {
    case SPSH_LOG_NATURAL: return device_log_natural(floored);
    case SPSH_LOG_10: return device_log_decimal(floored);
    case SPSH_LOG_1P: return device_log_one_plus(value);
    case SPSH_LOG_NONE: break;
    }
    return value;
}

/* ----------------------------------------------------------------------------------- samples */

/* Return the index of the sample that replaces sample `at`, which is outside 0 ... count - 1 (see
 * frame_samples.c). Return count for a zero. */
DEVICE uint64_t device_mirrored(spsh_feature_edges edges, int64_t count, int64_t at)
{
    const bool is_twice = edges == SPSH_EDGES_MIRROR;
    if (edges == SPSH_EDGES_CENTER_ZEROS || edges == SPSH_EDGES_SNIP)
        return (uint64_t)count;
    if (count == 1)
        return 0;
    const int64_t period = is_twice ? 2 * count : 2 * (count - 1);
    int64_t place = at % period;
    if (place < 0)
        place += period;
    if (place >= count)
        place = is_twice ? period - 1 - place : period - place;
    return (uint64_t)place;
}

DEVICE float device_sample(const spsh__device_block *block, int64_t at)
{
    const spsh__device_job *job = block->job;
    const spsh__device_utterance *utterance = block->utterance;
    const int64_t count = (int64_t)utterance->sample_count;
    uint64_t place = (uint64_t)at;
    if (at < 0 || at >= count)
        place = device_mirrored(job->tables.features.edges, count, at);
    if (place >= utterance->given_count)
        return 0;
    return (float)job->samples[utterance->first_sample + place] * job->scale;
}

DEVICE uint32_t device_lanes(const spsh__device_block *block)
{
    return 1U << block->job->lane_shift;
}

DEVICE uint32_t device_lane(const spsh__device_block *block, uint32_t thread)
{
    return thread & (device_lanes(block) - 1);
}

/* Return the address of vector number `at` of a lane. */
DEVICE float *device_at(const spsh__device_block *block, uint32_t at, uint32_t lane)
{
    return block->memory + ((size_t)at << block->job->lane_shift) + lane;
}

/* Load samples: threads go along the samples of a lane, which are adjacent in global memory. */
DEVICE void device_load(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const uint32_t size = job->tables.window_samples;
    const uint32_t lanes = device_lanes(block);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const uint64_t frame = block->first_frame + lane;
        const int64_t start = job->first_start + (int64_t)(frame * job->tables.hop_samples);
        float *x = device_at(block, job->layout.other, lane);
        for (uint32_t i = thread; i < size; i += SPSH__DEVICE_THREADS)
            x[(size_t)i << job->lane_shift] =
                lane < block->lane_count ? device_sample(block, start + (int64_t)i) : 0;
    }
}

/* Each thread computes one of the partial sums of a lane. */
DEVICE void device_sums(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const uint32_t lane = device_lane(block, thread);
    const uint32_t part = thread >> job->lane_shift;
    const float *x = device_at(block, job->layout.other, lane);
    float sum = 0;
    if (part >= SPSH__DEVICE_PARTS)
        return;
    for (uint32_t i = part; i < job->tables.window_samples; i += SPSH__DEVICE_PARTS)
        sum += x[(size_t)i << job->lane_shift];
    *device_at(block, job->layout.sums + part, lane) = sum;
}

DEVICE float device_sum_of_parts(const spsh__device_block *block, uint32_t first, uint32_t lane)
{
    const float a = *device_at(block, first, lane), b = *device_at(block, first + 1, lane);
    const float c = *device_at(block, first + 2, lane), d = *device_at(block, first + 3, lane);
    return (a + b) + (c + d);
}

DEVICE float device_mean(const spsh__device_block *block, uint32_t lane)
{
    const spsh__frame_tables *tables = &block->job->tables;
    if (!tables->features.remove_dc)
        return 0;
    return device_sum_of_parts(block, block->job->layout.sums, lane) /
           (float)tables->window_samples;
}

/* Return the position of sample i among the points. */
DEVICE uint32_t device_point(const spsh__fft_plan *plan, uint32_t i)
{
    if (!plan->is_paired)
        return i;
    return (i & 1U) != 0 ? plan->point_count + (i >> 1) : i >> 1;
}

/* Store windowed samples to the points, and zeros after them. */
DEVICE void device_condition(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const spsh__frame_tables *tables = &job->tables;
    const uint32_t shift = job->lane_shift;
    const uint32_t lane = device_lane(block, thread);
    const float mean = device_mean(block, lane);
    const float preemphasis = tables->features.preemphasis;
    const float *x = device_at(block, job->layout.other, lane);
    float *z = device_at(block, 0, lane);
    const uint32_t end = 2 * tables->fft.point_count;
    for (uint32_t i = thread >> shift; i < end; i += SPSH__DEVICE_THREADS >> shift) {
        float result = 0;
        if (i < tables->window_samples) {
            const float value = x[(size_t)i << shift] - mean;
            const float before = x[(size_t)(i > 0 ? i - 1 : 0) << shift] - mean;
            result = (value - before * preemphasis) * tables->window[i];
        }
        z[(size_t)device_point(&tables->fft, i) << shift] = result;
    }
}

/* Compute partial sums of squares: of the samples, or of the points. */
DEVICE void device_squares(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const spsh__frame_tables *tables = &job->tables;
    const bool is_raw = tables->features.energy == SPSH_ENERGY_RAW;
    const uint32_t lane = device_lane(block, thread);
    const uint32_t part = thread >> job->lane_shift;
    const float mean = is_raw ? device_mean(block, lane) : 0;
    float sum = 0;
    if (part >= SPSH__DEVICE_PARTS)
        return;
    for (uint32_t i = part; i < tables->window_samples; i += SPSH__DEVICE_PARTS) {
        const uint32_t at = is_raw ? job->layout.other + i : device_point(&tables->fft, i);
        const float value = *device_at(block, at, lane) - mean;
        sum += value * value;
    }
    *device_at(block, job->layout.sums + SPSH__DEVICE_PARTS + part, lane) = sum;
}

/* -------------------------------------------------------------------------------- transforms */

/* The points of a butterfly: number t is at re[t * step], im[t * step]. */
typedef struct device_legs {
    float *re, *im;
    size_t step;
    const float *twiddles; /* for all legs except the first; NULL: no turn */
} device_legs;

DEVICE void device_put(const device_legs *z, uint32_t leg, float re, float im)
{
    const size_t at = leg * z->step;
    if (leg == 0 || z->twiddles == NULL) {
        z->re[at] = re;
        z->im[at] = im;
    } else {
        const float *w = z->twiddles + 2 * (leg - 1);
        z->re[at] = re * w[0] - im * w[1];
        z->im[at] = re * w[1] + im * w[0];
    }
}

DEVICE void device_butterfly2(const device_legs *z)
{
    const size_t s = z->step;
    const float re0 = z->re[0], im0 = z->im[0], re1 = z->re[s], im1 = z->im[s];
    device_put(z, 0, re0 + re1, im0 + im1);
    device_put(z, 1, re0 - re1, im0 - im1);
}

DEVICE void device_butterfly3(const device_legs *z)
{
    const size_t s = z->step;
    const float re0 = z->re[0], im0 = z->im[0];
    const float sum_re = z->re[s] + z->re[2 * s], sum_im = z->im[s] + z->im[2 * s];
    const float off_re = (z->re[s] - z->re[2 * s]) * SINE_3;
    const float off_im = (z->im[s] - z->im[2 * s]) * SINE_3;
    const float mid_re = re0 - sum_re * 0.5F, mid_im = im0 - sum_im * 0.5F;
    device_put(z, 0, re0 + sum_re, im0 + sum_im);
    device_put(z, 1, mid_re + off_im, mid_im - off_re);
    device_put(z, 2, mid_re - off_im, mid_im + off_re);
}

DEVICE void device_butterfly4(const device_legs *z)
{
    const size_t s = z->step;
    const float even_re = z->re[0] + z->re[2 * s], even_im = z->im[0] + z->im[2 * s];
    const float even_off_re = z->re[0] - z->re[2 * s], even_off_im = z->im[0] - z->im[2 * s];
    const float odd_re = z->re[s] + z->re[3 * s], odd_im = z->im[s] + z->im[3 * s];
    const float odd_off_re = z->re[s] - z->re[3 * s], odd_off_im = z->im[s] - z->im[3 * s];
    device_put(z, 0, even_re + odd_re, even_im + odd_im);
    device_put(z, 1, even_off_re + odd_off_im, even_off_im - odd_off_re);
    device_put(z, 2, even_re - odd_re, even_im - odd_im);
    device_put(z, 3, even_off_re - odd_off_im, even_off_im + odd_off_re);
}

DEVICE void device_butterfly5(const device_legs *z)
{
    const size_t s = z->step;
    const float re0 = z->re[0], im0 = z->im[0];
    const float a_re = z->re[s] + z->re[4 * s], a_im = z->im[s] + z->im[4 * s];
    const float b_re = z->re[s] - z->re[4 * s], b_im = z->im[s] - z->im[4 * s];
    const float c_re = z->re[2 * s] + z->re[3 * s], c_im = z->im[2 * s] + z->im[3 * s];
    const float d_re = z->re[2 * s] - z->re[3 * s], d_im = z->im[2 * s] - z->im[3 * s];
    const float m_re = re0 + a_re * COSINE_5_1 + c_re * COSINE_5_2;
    const float m_im = im0 + a_im * COSINE_5_1 + c_im * COSINE_5_2;
    const float n_re = b_re * SINE_5_1 + d_re * SINE_5_2;
    const float n_im = b_im * SINE_5_1 + d_im * SINE_5_2;
    const float o_re = re0 + a_re * COSINE_5_2 + c_re * COSINE_5_1;
    const float o_im = im0 + a_im * COSINE_5_2 + c_im * COSINE_5_1;
    const float p_re = b_re * SINE_5_2 - d_re * SINE_5_1;
    const float p_im = b_im * SINE_5_2 - d_im * SINE_5_1;
    device_put(z, 0, re0 + a_re + c_re, im0 + a_im + c_im);
    device_put(z, 1, m_re + n_im, m_im - n_re);
    device_put(z, 2, o_re + p_im, o_im - p_re);
    device_put(z, 3, o_re - p_im, o_im + p_re);
    device_put(z, 4, m_re - n_im, m_im + n_re);
}

/* Return the legs of butterfly number b of a pass, for a lane. */
DEVICE device_legs device_legs_of(const spsh__device_block *block, const spsh__fft_pass *pass,
                                  uint32_t b, uint32_t lane)
{
    const uint32_t turn = b % pass->step;
    device_legs z;
    z.re = device_at(block, b / pass->step * pass->length + turn, lane);
    z.im = z.re + ((size_t)block->job->layout.plane << block->job->lane_shift);
    z.step = (size_t)pass->step << block->job->lane_shift;
    z.twiddles = turn == 0 ? NULL : pass->twiddles + (size_t)2 * (pass->radix - 1) * (turn - 1);
    return z;
}

/* Do one pass in place; radices 2 to 5. */
DEVICE void device_pass(const spsh__device_block *block, const spsh__fft_pass *pass,
                        uint32_t thread)
{
    const uint32_t shift = block->job->lane_shift;
    const uint32_t lane = device_lane(block, thread);
    const uint32_t count = block->job->tables.fft.point_count / pass->radix;
    for (uint32_t b = thread >> shift; b < count; b += SPSH__DEVICE_THREADS >> shift) {
        const device_legs z = device_legs_of(block, pass, b, lane);
        switch (pass->radix) {
        case 2: device_butterfly2(&z); break;
        case 3: device_butterfly3(&z); break;
        case 4: device_butterfly4(&z); break;
        default: device_butterfly5(&z); break;
        }
    }
}

/* Compute results k and radix - k of a butterfly of any odd radix, into the other area. */
DEVICE void device_any_pair(const device_legs *z, const spsh__fft_pass *pass, uint32_t k,
                            const device_legs *to)
{
    const uint32_t radix = pass->radix;
    float m_re = z->re[0], m_im = z->im[0], n_re = 0, n_im = 0;
    uint32_t angle = 0;
    for (uint32_t t = 1; t <= radix / 2; t++) {
        const size_t near = t * z->step, far = (radix - t) * z->step;
        angle += angle + k >= radix ? k - radix : k;
        const float cosine = pass->circle[2 * angle], sine = pass->circle[2 * angle + 1];
        m_re += (z->re[near] + z->re[far]) * cosine;
        m_im += (z->im[near] + z->im[far]) * cosine;
        n_re += (z->re[near] - z->re[far]) * sine;
        n_im += (z->im[near] - z->im[far]) * sine;
    }
    device_put(to, k, m_re + n_im, m_im - n_re);
    device_put(to, radix - k, m_re - n_im, m_im + n_re);
}

DEVICE void device_any_first(const device_legs *z, uint32_t radix, const device_legs *to)
{
    float re = z->re[0], im = z->im[0];
    for (uint32_t t = 1; t <= radix / 2; t++) {
        const size_t near = t * z->step, far = (radix - t) * z->step;
        re += z->re[near] + z->re[far];
        im += z->im[near] + z->im[far];
    }
    device_put(to, 0, re, im);
}

/* Do one pass, not in place: a thread computes two results of a butterfly, which need all its
 * points. */
DEVICE void device_pass_any(const spsh__device_block *block, const spsh__fft_pass *pass,
                            uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const uint32_t shift = job->lane_shift;
    const uint32_t lane = device_lane(block, thread);
    const uint32_t count = job->tables.fft.point_count / pass->radix;
    const uint32_t pairs = pass->radix / 2 + 1;
    const size_t moved = (size_t)job->layout.other << shift;
    for (uint32_t item = thread >> shift; item < count * pairs;
         item += SPSH__DEVICE_THREADS >> shift) {
        const uint32_t k = item / count;
        const device_legs z = device_legs_of(block, pass, item % count, lane);
        device_legs to = z;
        to.re += moved;
        to.im += moved;
        if (k == 0)
            device_any_first(&z, pass->radix, &to);
        else
            device_any_pair(&z, pass, k, &to);
    }
}

DEVICE void device_move_back(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const float *from = device_at(block, job->layout.other, 0);
    const size_t end = (size_t)(2 * job->layout.plane) << job->lane_shift;
    for (size_t i = thread; i < end; i += SPSH__DEVICE_THREADS)
        block->memory[i] = from[i];
}

DEVICE float device_magnitude(const spsh__frame_tables *tables, float power)
{
    return tables->features.power == SPSH_MAGNITUDE ? sqrtf(power) : power;
}

/* Compute bins k and point_count - k of an even size; frames_body.h has the formula. */
DEVICE void device_power_pair(const spsh__device_block *block, uint32_t k, uint32_t lane)
{
    const spsh__device_job *job = block->job;
    const spsh__fft_plan *plan = &job->tables.fft;
    const uint32_t last = plan->point_count;
    const uint32_t near = plan->places[k], far = plan->places[last - k];
    const float a_re = *device_at(block, near, lane), b_re = *device_at(block, far, lane);
    const float a_im = *device_at(block, near + job->layout.plane, lane);
    const float b_im = *device_at(block, far + job->layout.plane, lane);
    const float cosine = plan->unpack[2 * k], sine = plan->unpack[2 * k + 1];
    const float even_re = a_re + b_re, even_im = a_im - b_im;
    const float odd_re = a_re - b_re, odd_im = a_im + b_im;
    const float turned_re = odd_im * cosine - odd_re * sine;
    const float turned_im = odd_re * cosine + odd_im * sine;
    const float near_re = even_re + turned_re, near_im = even_im - turned_im;
    const float far_re = even_re - turned_re, far_im = even_im + turned_im;
    *device_at(block, job->layout.other + k, lane) =
        device_magnitude(&job->tables, (near_re * near_re + near_im * near_im) * 0.25F);
    *device_at(block, job->layout.other + last - k, lane) =
        device_magnitude(&job->tables, (far_re * far_re + far_im * far_im) * 0.25F);
}

/* Compute bin 0, and the last bin of an even size. */
DEVICE void device_power_ends(const spsh__device_block *block, uint32_t lane)
{
    const spsh__device_job *job = block->job;
    const float re = *device_at(block, 0, lane);
    const float im = *device_at(block, job->layout.plane, lane);
    const float sum = re + im, difference = re - im;
    *device_at(block, job->layout.other, lane) = device_magnitude(&job->tables, sum * sum);
    *device_at(block, job->layout.other + job->layout.plane, lane) =
        device_magnitude(&job->tables, difference * difference);
}

DEVICE void device_powers(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const spsh__fft_plan *plan = &job->tables.fft;
    const uint32_t shift = job->lane_shift;
    const uint32_t lane = device_lane(block, thread);
    for (uint32_t k = thread >> shift; k <= plan->point_count / 2;
         k += SPSH__DEVICE_THREADS >> shift) {
        if (!plan->is_paired) {
            const float re = *device_at(block, plan->places[k], lane);
            const float im = *device_at(block, plan->places[k] + job->layout.plane, lane);
            *device_at(block, job->layout.other + k, lane) =
                device_magnitude(&job->tables, re * re + im * im);
        } else if (k == 0) {
            device_power_ends(block, lane);
        } else {
            device_power_pair(block, k, lane);
        }
    }
}

/* ------------------------------------------------------------------------------------ values */

/* Return the number of values before the bins: the energy. */
DEVICE uint32_t device_front(const spsh__frame_tables *tables)
{
    return tables->features.energy != SPSH_ENERGY_NONE && tables->features.kind != SPSH_FEATURE_MFCC
               ? 1
               : 0;
}

/* Compute logarithms of mel bins; adjacent rows have equal lengths (mel_bank.h). */
DEVICE void device_mels(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const spsh__mel_bank *bank = &job->tables.mels;
    const uint32_t shift = job->lane_shift;
    const uint32_t lane = device_lane(block, thread);
    const uint32_t front = device_front(&job->tables);
    for (uint32_t row = thread >> shift; row < bank->row_count;
         row += SPSH__DEVICE_THREADS >> shift) {
        const uint32_t length = bank->offsets[row + 1] - bank->offsets[row];
        const float *weights = bank->weights + bank->offsets[row];
        const float *bins = device_at(block, job->layout.other + bank->first_bins[row], lane);
        float sum = 0;
        for (uint32_t i = 0; i < length; i++)
            sum += bins[(size_t)i << shift] * weights[i];
        *device_at(block, front + row, lane) = device_log(&job->tables, sum);
    }
}

/* Compute the DCT of mel bins in the first area; the values are stored after them. */
DEVICE void device_dct(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const uint32_t mel_count = job->tables.mels.row_count;
    const uint32_t shift = job->lane_shift;
    const uint32_t lane = device_lane(block, thread);
    for (uint32_t c = thread >> shift; c < job->tables.features.cepstrum_count;
         c += SPSH__DEVICE_THREADS >> shift) {
        const float *row = job->tables.dct + (size_t)c * mel_count;
        const float *mels = device_at(block, 0, lane);
        float sum = 0;
        for (uint32_t i = 0; i < mel_count; i++)
            sum += mels[(size_t)i << shift] * row[i];
        *device_at(block, mel_count + c, lane) = sum;
    }
}

DEVICE float device_value(const spsh__device_block *block, uint32_t d, uint32_t lane)
{
    const spsh__device_job *job = block->job;
    const spsh__frame_tables *tables = &job->tables;
    const uint32_t front = device_front(tables);
    if (d == 0 && tables->features.energy != SPSH_ENERGY_NONE) {
        const float energy =
            device_sum_of_parts(block, job->layout.sums + SPSH__DEVICE_PARTS, lane);
        return device_log_natural(energy > tables->energy_floor ? energy : tables->energy_floor);
    }
    if (tables->features.kind == SPSH_FEATURE_SPECTRUM)
        return device_log(tables, *device_at(block, job->layout.other + d - front, lane));
    if (tables->features.kind == SPSH_FEATURE_MFCC)
        return *device_at(block, tables->mels.row_count + d, lane);
    return *device_at(block, d, lane);
}

DEVICE void device_write(const spsh__device_job *job, uint64_t at, float value)
{
    if (job->dtype == SPSH_FLOAT16)
        ((uint16_t *)job->values)[at] = spsh__half_of(value);
    else
        ((float *)job->values)[at] = value;
}

/* Store values: threads go along the values of a lane. */
DEVICE void device_store(const spsh__device_block *block, uint32_t thread)
{
    const spsh__device_job *job = block->job;
    const uint32_t dim = job->tables.dim;
    for (uint32_t lane = 0; lane < block->lane_count; lane++) {
        const uint64_t row = (block->first_frame + lane) * dim;
        for (uint32_t d = thread; d < dim; d += SPSH__DEVICE_THREADS) {
            const float value = device_value(block, d, lane);
            if (job->rows != NULL)
                job->rows[block->utterance->first_row * dim + row + d] = value;
            else
                device_write(job, block->utterance->first_value + row + d, value);
        }
    }
}

/* Process a block, from samples to rows. */
DEVICE void spsh__device_frames(const spsh__device_block *block)
{
    const spsh__frame_tables *tables = &block->job->tables;
    const spsh_feature_options *features = &tables->features;
    EACH_THREAD(block, device_load(block, thread));
    if (features->remove_dc)
        EACH_THREAD(block, device_sums(block, thread));
    if (features->energy == SPSH_ENERGY_RAW)
        EACH_THREAD(block, device_squares(block, thread));
    EACH_THREAD(block, device_condition(block, thread));
    if (features->energy == SPSH_ENERGY_WINDOWED)
        EACH_THREAD(block, device_squares(block, thread));
    for (uint32_t i = 0; i < tables->fft.pass_count; i++) {
        const spsh__fft_pass *pass = &tables->fft.passes[i];
        if (pass->radix <= 5) {
            EACH_THREAD(block, device_pass(block, pass, thread));
        } else {
            EACH_THREAD(block, device_pass_any(block, pass, thread));
            EACH_THREAD(block, device_move_back(block, thread));
        }
    }
    EACH_THREAD(block, device_powers(block, thread));
    if (features->kind != SPSH_FEATURE_SPECTRUM)
        EACH_THREAD(block, device_mels(block, thread));
    if (features->kind == SPSH_FEATURE_MFCC)
        EACH_THREAD(block, device_dct(block, thread));
    EACH_THREAD(block, device_store(block, thread));
}

#endif
