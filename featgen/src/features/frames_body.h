/* frames_body.h: the arithmetic of frames.h, for one instruction set. Included once per file, after
 * these definitions:
 *
 *     NAME                        of the instruction set, a string
 *     LANES, vec, ivec            lanes; a vector of LANES floats, and of LANES int32_t
 *     TARGET, INLINE              attributes of a function, and of one that is always inlined
 *     vec_max, vec_min, vec_sqrt  of floats that are not NaN
 *     vec_of_ints                 ivec to vec
 *     gather4(windows, at, x)     x[0 ... 3]: samples at ... at + 3 of all lanes' windows
 *     scatter4(rows, at, y)       y[0 ... 3] to values at ... at + 3 of all lanes' rows
 *     vec_load, vec_load_i16      LANES floats, LANES int16_t as floats, not aligned
 *     vec_store                   LANES floats, not aligned
 *
 * This file fixes the order of every sum, and every operation is rounded separately. So the results
 * do not depend on LANES.
 */

/* Sums of many terms use four partial sums in turn: shorter chains, smaller errors. */
enum { PARTS = 4 };

INLINE ivec bits_of(vec value)
{
    ivec bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

INLINE vec from_bits(ivec bits)
{
    vec value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

INLINE vec splat(float value)
{
    vec zero;
    memset(&zero, 0, sizeof(zero));
    return zero + value;
}

/* ------------------------------------------------------------------------------- logarithms */

/* Return r with ln(1 + f) = f + r, for 1 + f from sqrt(1/2) to sqrt(2): r = -f^2 / 2 + f^3 q(f). */
INLINE vec log_rest(vec f)
{
    const vec square = f * f;
    vec q = f * LOG_Q7 + LOG_Q6;
    q = q * f + LOG_Q5;
    q = q * f + LOG_Q4;
    q = q * f + LOG_Q3;
    q = q * f + LOG_Q2;
    q = q * f + LOG_Q1;
    q = q * f + LOG_Q0;
    return q * f * square - square * 0.5F;
}

/* ln(2^e (1 + f)). The constants have two parts: e times the first part is exact. */
INLINE vec log_of_parts(vec e, vec f)
{
    return (f + (log_rest(f) + e * LN2_LOW)) + e * LN2_HIGH;
}

INLINE vec log10_of_parts(vec e, vec f)
{
    return ((f + log_rest(f)) * LOG10_E + e * LOG10_2_LOW) + e * LOG10_2_HIGH;
}

/* value: a positive normal number. *power: 2^e as exponent bits to subtract. */
INLINE vec split(vec value, ivec *power)
{
    const ivec bits = bits_of(value);
    *power = (bits - SQRT_HALF_BITS) & EXPONENT_MASK;
    return from_bits(bits - *power) - 1.0F;
}

INLINE vec log_natural(vec value)
{
    ivec power;
    const vec f = split(value, &power);
    return log_of_parts(vec_of_ints(power >> 23), f);
}

INLINE vec log_decimal(vec value)
{
    ivec power;
    const vec f = split(value, &power);
    return log10_of_parts(vec_of_ints(power >> 23), f);
}

/* ln(1 + x), x from 0 to 2^126. The rounding error of 1 + x is added to f. */
INLINE vec log_one_plus(vec x)
{
    const vec sum = x + 1.0F;
    const vec taken = sum - 1.0F;
    const vec lost = (x - taken) + (1.0F - (sum - taken));
    ivec power;
    const vec f = split(sum, &power);
    const vec unit = from_bits(ONE_BITS - power);
    return log_of_parts(vec_of_ints(power >> 23), f + lost * unit);
}

/* Take logarithms in place. */
TARGET static void take_logs(const spsh__frame_tables *tables, void *memory, size_t count)
{
    vec *values = memory;
    const vec floor = splat(tables->log_floor);
    switch (tables->features.log) {
    case SPSH_LOG_NATURAL:
        for (size_t i = 0; i < count; i++)
            values[i] = log_natural(vec_max(values[i], floor));
        break;
    case SPSH_LOG_10:
        for (size_t i = 0; i < count; i++)
            values[i] = log_decimal(vec_max(values[i], floor));
        break;
    case SPSH_LOG_1P:
        for (size_t i = 0; i < count; i++)
            values[i] = log_one_plus(values[i]);
        break;
    case SPSH_LOG_NONE: break;
    }
}

/* ----------------------------------------------------------------------------------- windows */

/* Gather samples into x. Returns their mean, or 0 unless is_wanted, a constant. */
INLINE vec gather(const spsh__frame_tables *tables, const float *const *windows, bool is_wanted,
                  vec *x)
{
    const size_t count = tables->window_samples;
    const size_t whole = count / PARTS * PARTS;
    vec parts[PARTS] = {splat(0), splat(0), splat(0), splat(0)};
    for (size_t i = 0; i < whole; i += PARTS) {
        gather4(windows, i, x + i);
        for (size_t part = 0; part < PARTS && is_wanted; part++)
            parts[part] += x[i + part];
    }
    if (whole < count)
        gather4(windows, whole, x + whole);
    for (size_t i = whole; i < count; i++)
        parts[i - whole] += x[i];
    if (!is_wanted)
        return splat(0);
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) / (float)count;
}

INLINE vec sum_of_squares(const vec *x, size_t count, vec mean)
{
    vec parts[PARTS] = {splat(0), splat(0), splat(0), splat(0)};
    const size_t whole = count / PARTS * PARTS;
    for (size_t i = 0; i < whole; i += PARTS) {
        for (size_t part = 0; part < PARTS; part++) {
            const vec value = x[i + part] - mean;
            parts[part] += value * value;
        }
    }
    for (size_t i = whole; i < count; i++) {
        const vec value = x[i] - mean;
        parts[i - whole] += value * value;
    }
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

/* Condition one sample for the transform. *before: the value of the sample before it on entry, then
 * its own value.
 */
INLINE vec condition(vec sample, vec mean, float preemphasis, float weight, vec *before)
{
    const vec value = sample - mean;
    const vec result = (value - *before * preemphasis) * weight;
    *before = value;
    return result;
}

/* Condition all samples in place, and store zeros after them. */
INLINE void condition_all(const spsh__frame_tables *tables, vec *x, vec mean)
{
    const float preemphasis = tables->features.preemphasis;
    vec before = x[0] - mean; /* Kaldi's x[0] -= p x[0] */
    for (size_t i = 0; i < tables->window_samples; i++)
        x[i] = condition(x[i], mean, preemphasis, tables->window[i], &before);
    for (size_t i = tables->window_samples; i < tables->fft_size; i++)
        x[i] = splat(0);
}

/* -------------------------------------------------------------------------------- transforms */

/* Store a result of a butterfly, turned by the twiddle factor (cos, -sin) unless that is NULL. */
INLINE void put(vec *z, vec re, vec im, const float *twiddle)
{
    if (twiddle == NULL) {
        z[0] = re;
        z[1] = im;
    } else {
        z[0] = re * twiddle[0] - im * twiddle[1];
        z[1] = re * twiddle[1] + im * twiddle[0];
    }
}

/* All butterflies: points z, z + step, ... (steps in vectors), twiddles for all except the first.
 */
INLINE void butterfly2(vec *z, size_t step, const float *w)
{
    const vec re0 = z[0], im0 = z[1], re1 = z[step], im1 = z[step + 1];
    put(z, re0 + re1, im0 + im1, NULL);
    put(z + step, re0 - re1, im0 - im1, w);
}

INLINE void butterfly3(vec *z, size_t step, const float *w)
{
    const vec sum_re = z[step] + z[2 * step], sum_im = z[step + 1] + z[2 * step + 1];
    const vec off_re = (z[step] - z[2 * step]) * SINE_3;
    const vec off_im = (z[step + 1] - z[2 * step + 1]) * SINE_3;
    const vec mid_re = z[0] - sum_re * 0.5F, mid_im = z[1] - sum_im * 0.5F;
    put(z, z[0] + sum_re, z[1] + sum_im, NULL);
    put(z + step, mid_re + off_im, mid_im - off_re, w);
    put(z + 2 * step, mid_re - off_im, mid_im + off_re, w == NULL ? NULL : w + 2);
}

/* Store four points in registers to z. Legs from leg_count on are 0. leg_count: a constant. */
INLINE void butterfly4_of(const vec *re, const vec *im, uint32_t leg_count, vec *z, size_t step,
                          const float *w)
{
    const bool has2 = leg_count > 2, has3 = leg_count > 3;
    const vec even_re = has2 ? re[0] + re[2] : re[0], even_im = has2 ? im[0] + im[2] : im[0];
    const vec even_off_re = has2 ? re[0] - re[2] : re[0];
    const vec even_off_im = has2 ? im[0] - im[2] : im[0];
    const vec odd_re = has3 ? re[1] + re[3] : re[1], odd_im = has3 ? im[1] + im[3] : im[1];
    const vec odd_off_re = has3 ? re[1] - re[3] : re[1];
    const vec odd_off_im = has3 ? im[1] - im[3] : im[1];
    put(z, even_re + odd_re, even_im + odd_im, NULL);
    put(z + step, even_off_re + odd_off_im, even_off_im - odd_off_re, w);
    put(z + 2 * step, even_re - odd_re, even_im - odd_im, w == NULL ? NULL : w + 2);
    put(z + 3 * step, even_off_re - odd_off_im, even_off_im + odd_off_re, w == NULL ? NULL : w + 4);
}

INLINE void butterfly4(vec *z, size_t step, const float *w)
{
    const vec re[4] = {z[0], z[step], z[2 * step], z[3 * step]};
    const vec im[4] = {z[1], z[step + 1], z[2 * step + 1], z[3 * step + 1]};
    butterfly4_of(re, im, 4, z, step, w);
}

INLINE void butterfly5(vec *z, size_t step, const float *w)
{
    const vec *z1 = z + step, *z2 = z + 2 * step, *z3 = z + 3 * step, *z4 = z + 4 * step;
    const vec a_re = z1[0] + z4[0], a_im = z1[1] + z4[1];
    const vec b_re = z1[0] - z4[0], b_im = z1[1] - z4[1];
    const vec c_re = z2[0] + z3[0], c_im = z2[1] + z3[1];
    const vec d_re = z2[0] - z3[0], d_im = z2[1] - z3[1];
    const vec m_re = z[0] + a_re * COSINE_5_1 + c_re * COSINE_5_2;
    const vec m_im = z[1] + a_im * COSINE_5_1 + c_im * COSINE_5_2;
    const vec n_re = b_re * SINE_5_1 + d_re * SINE_5_2;
    const vec n_im = b_im * SINE_5_1 + d_im * SINE_5_2;
    const vec o_re = z[0] + a_re * COSINE_5_2 + c_re * COSINE_5_1;
    const vec o_im = z[1] + a_im * COSINE_5_2 + c_im * COSINE_5_1;
    const vec p_re = b_re * SINE_5_2 - d_re * SINE_5_1;
    const vec p_im = b_im * SINE_5_2 - d_im * SINE_5_1;
    put(z, z[0] + a_re + c_re, z[1] + a_im + c_im, NULL);
    put(z + step, m_re + n_im, m_im - n_re, w);
    put(z + 2 * step, o_re + p_im, o_im - p_re, w == NULL ? NULL : w + 2);
    put(z + 3 * step, o_re - p_im, o_im + p_re, w == NULL ? NULL : w + 4);
    put(z + 4 * step, m_re - n_im, m_im + n_re, w == NULL ? NULL : w + 6);
}

/* Butterfly of any odd radix: sums and differences of points t and radix - t, then the cosine and
 * sine parts of results k and radix - k together. spare: 2 * radix vectors. */
TARGET static void butterfly_any(vec *z, size_t step, const float *w, const spsh__fft_pass *pass,
                                 vec *spare)
{
    const size_t radix = pass->radix;
    const vec first_re = z[0], first_im = z[1];
    vec all_re = first_re, all_im = first_im;
    for (size_t t = 1; t <= radix / 2; t++) {
        const vec *near = z + t * step, *far = z + (radix - t) * step;
        vec *pair = spare + 4 * (t - 1);
        pair[0] = near[0] + far[0];
        pair[1] = near[1] + far[1];
        pair[2] = near[0] - far[0];
        pair[3] = near[1] - far[1];
        all_re += pair[0];
        all_im += pair[1];
    }
    put(z, all_re, all_im, NULL);
    for (size_t k = 1; k <= radix / 2; k++) {
        vec m_re = first_re, m_im = first_im, n_re = splat(0), n_im = splat(0);
        size_t angle = 0;
        for (size_t t = 1; t <= radix / 2; t++) {
            const vec *pair = spare + 4 * (t - 1);
            angle += angle + k >= radix ? k - radix : k;
            const float cosine = pass->circle[2 * angle], sine = pass->circle[2 * angle + 1];
            m_re += pair[0] * cosine;
            m_im += pair[1] * cosine;
            n_re += pair[2] * sine;
            n_im += pair[3] * sine;
        }
        put(z + k * step, m_re + n_im, m_im - n_re, w == NULL ? NULL : w + 2 * (k - 1));
        put(z + (radix - k) * step, m_re - n_im, m_im + n_re,
            w == NULL ? NULL : w + 2 * (radix - k - 1));
    }
}

/* radix: a constant, 0 for any radix. */
INLINE void butterfly(uint32_t radix, vec *z, size_t step, const float *w,
                      const spsh__fft_pass *pass, vec *spare)
{
    switch (radix) {
    case 2: butterfly2(z, step, w); break;
    case 3: butterfly3(z, step, w); break;
    case 4: butterfly4(z, step, w); break;
    case 5: butterfly5(z, step, w); break;
    default: butterfly_any(z, step, w, pass, spare); break;
    }
}

INLINE void run_pass(uint32_t radix, const spsh__fft_plan *plan, const spsh__fft_pass *pass, vec *z,
                     vec *spare)
{
    const size_t step = pass->step;
    const size_t twiddle_floats = 2 * ((size_t)pass->radix - 1);
    for (size_t block = 0; block < plan->point_count; block += pass->length) {
        vec *at = z + 2 * block;
        const float *w = pass->twiddles;
        butterfly(radix, at, 2 * step, NULL, pass, spare);
        for (size_t j = 1; j < step; j++, w += twiddle_floats)
            butterfly(radix, at + 2 * j, 2 * step, w, pass, spare);
    }
}

/* Run all passes from `first` on. */
TARGET static void run_passes(const spsh__fft_plan *plan, uint32_t first, vec *z, vec *spare)
{
    for (uint32_t i = first; i < plan->pass_count; i++) {
        const spsh__fft_pass *pass = &plan->passes[i];
        switch (pass->radix) {
        case 2: run_pass(2, plan, pass, z, spare); break;
        case 3: run_pass(3, plan, pass, z, spare); break;
        case 4: run_pass(4, plan, pass, z, spare); break;
        case 5: run_pass(5, plan, pass, z, spare); break;
        default: run_pass(0, plan, pass, z, spare); break;
        }
    }
}

/* The points are a transform z of pairs (x[2 i], x[2 i + 1]), so that with w = exp(-2 pi i / size)
 *
 *     2 X[k] = z[k] + conj z[m - k] - i w^k (z[k] - conj z[m - k]),      m = point_count
 *     2 conj X[m - k] = z[k] + conj z[m - k] + i w^k (z[k] - conj z[m - k])
 */
TARGET static void powers_of_pairs(const spsh__fft_plan *plan, const vec *z, vec *powers)
{
    const size_t last = plan->point_count;
    const vec sum = z[0] + z[1];
    const vec difference = z[0] - z[1];
    powers[0] = sum * sum;
    powers[last] = difference * difference;
    for (size_t k = 1; k <= last / 2; k++) {
        const vec *a = z + 2 * (size_t)plan->places[k];
        const vec *b = z + 2 * (size_t)plan->places[last - k];
        const float cosine = plan->unpack[2 * k], sine = plan->unpack[2 * k + 1];
        const vec even_re = a[0] + b[0], even_im = a[1] - b[1];
        const vec odd_re = a[0] - b[0], odd_im = a[1] + b[1];
        const vec turned_re = odd_im * cosine - odd_re * sine;
        const vec turned_im = odd_re * cosine + odd_im * sine; /* imaginary part of i w^k (z[k] -
                                                                  conj z[m - k]) */
        const vec near_re = even_re + turned_re, near_im = even_im - turned_im;
        const vec far_re = even_re - turned_re, far_im = even_im + turned_im;
        powers[k] = (near_re * near_re + near_im * near_im) * 0.25F;
        powers[last - k] = (far_re * far_re + far_im * far_im) * 0.25F;
    }
}

TARGET static void powers_of_points(const spsh__fft_plan *plan, const vec *z, vec *powers)
{
    for (size_t k = 0; k <= plan->point_count / 2; k++) {
        const vec *point = z + 2 * (size_t)plan->places[k];
        powers[k] = point[0] * point[0] + point[1] * point[1];
    }
}

/* State of the conditioning: the values before the next samples of each leg. */
typedef struct leg_state {
    bool is_plain; /* a constant: no mean, no pre-emphasis */
    vec mean;
    vec before[4];
} leg_state;

/* Do butterflies j ... end - 1 of the first pass. */
INLINE size_t first_pass_part(const spsh__frame_tables *tables, uint32_t leg_count, size_t j,
                              size_t end, leg_state *state, vec *z)
{
    const spsh__fft_pass *pass = &tables->fft.passes[0];
    const float preemphasis = tables->features.preemphasis;
    const size_t step = 2 * (size_t)pass->step;
    static const float unturned[6] = {1, 0, 1, 0, 1, 0};
    for (; j < end; j++) {
        vec re[4], im[4];
        for (uint32_t leg = 0; leg < leg_count; leg++) {
            const vec *pair = z + 2 * j + leg * step;
            const float *weights = tables->window + 2 * j + leg * step;
            if (state->is_plain) {
                re[leg] = pair[0] * weights[0];
                im[leg] = pair[1] * weights[1];
                continue;
            }
            re[leg] = condition(pair[0], state->mean, preemphasis, weights[0], &state->before[leg]);
            im[leg] = condition(pair[1], state->mean, preemphasis, weights[1], &state->before[leg]);
        }
        butterfly4_of(re, im, leg_count, z + 2 * j, step,
                      j == 0 ? unturned : pass->twiddles + 6 * (j - 1));
    }
    return j;
}

/* Return whether the first pass can take samples as gathered. */
INLINE bool has_first_pass(const spsh__frame_tables *tables)
{
    const spsh__fft_plan *plan = &tables->fft;
    return plan->is_paired && plan->pass_count > 0 && plan->passes[0].radix == 4 &&
           tables->features.energy != SPSH_ENERGY_WINDOWED;
}

/* condition_all and the first pass, of radix 4, in one loop. If a window is shorter than the
 * transform, legs 3 and 2 end early, and no work is done for the zeros after it. is_plain: a
 * constant, true if samples only need the window function. */
INLINE void first_pass(const spsh__frame_tables *tables, bool is_plain, vec *z, vec mean)
{
    const size_t step = tables->fft.passes[0].step;
    const size_t pairs = (tables->window_samples + (size_t)1) / 2;
    const size_t ends[2] = {pairs > 2 * step ? pairs - 2 * step : 0,
                            pairs > 3 * step ? pairs - 3 * step : 0};
    leg_state state = {.is_plain = is_plain, .mean = mean};
    state.before[0] = z[0] - mean;
    for (size_t leg = 1; leg < 4; leg++)
        state.before[leg] = z[2 * leg * step - 1] - mean;
    size_t j = first_pass_part(tables, 4, 0, ends[1], &state, z);
    j = first_pass_part(tables, 3, j, ends[0] < step ? ends[0] : step, &state, z);
    (void)first_pass_part(tables, 2, j, step, &state, z);
}

/* Run the passes from `first` on, and compute powers or magnitudes. */
INLINE void transform(const spsh__frame_tables *tables, uint32_t first, vec *z, vec *powers,
                      vec *spare)
{
    const spsh__fft_plan *plan = &tables->fft;
    if (!plan->is_paired) {
        for (size_t i = plan->size; i > 0; i--) {
            z[2 * (i - 1)] = z[i - 1];
            z[2 * (i - 1) + 1] = splat(0);
        }
    }
    run_passes(plan, first, z, spare);
    if (plan->is_paired)
        powers_of_pairs(plan, z, powers);
    else
        powers_of_points(plan, z, powers);
    if (tables->features.power == SPSH_MAGNITUDE)
        for (size_t k = 0; k < tables->bin_count; k++)
            powers[k] = vec_sqrt(powers[k]);
}

TARGET static void transform_block(const spsh__frame_tables *tables, void *scratch)
{
    const spsh__frame_layout layout = spsh__frame_layout_of(tables);
    vec *memory = scratch;
    transform(tables, 0, memory, memory + layout.powers, memory + layout.spare);
}

/* ------------------------------------------------------------------------------------ values */

/* Apply `count` rows of the same length, from `row` on. count: a constant. */
INLINE void apply_group(const spsh__mel_bank *bank, size_t row, size_t count, const vec *powers,
                        vec *mels)
{
    const size_t length = bank->offsets[row + 1] - bank->offsets[row];
    const float *weights = bank->weights + bank->offsets[row];
    const vec *bins[SPSH__MEL_GROUP];
    vec sums[SPSH__MEL_GROUP];
    for (size_t r = 0; r < count; r++) {
        bins[r] = powers + bank->first_bins[row + r];
        sums[r] = splat(0);
    }
    for (size_t i = 0; i < length; i++)
        for (size_t r = 0; r < count; r++)
            sums[r] += bins[r][i] * weights[r * length + i];
    for (size_t r = 0; r < count; r++)
        mels[row + r] = sums[r];
}

TARGET static void apply_mels(const spsh__mel_bank *bank, const vec *powers, vec *mels)
{
    size_t row = 0;
    for (; row + SPSH__MEL_GROUP <= bank->row_count; row += SPSH__MEL_GROUP)
        apply_group(bank, row, SPSH__MEL_GROUP, powers, mels);
    for (; row < bank->row_count; row++)
        apply_group(bank, row, 1, powers, mels);
}

TARGET static void apply_dct(const spsh__frame_tables *tables, const vec *mels, vec *values)
{
    const size_t mel_count = tables->mels.row_count;
    for (size_t c = 0; c < tables->features.cepstrum_count; c++) {
        const float *row = tables->dct + c * mel_count;
        vec sum = splat(0);
        for (size_t i = 0; i < mel_count; i++)
            sum += mels[i] * row[i];
        values[c] = sum;
    }
}

/* Scatter the lanes to their rows. */
TARGET static void scatter(const spsh__frame_tables *tables, const vec *values, uint32_t lane_count,
                           vec *spare, float *rows)
{
    const size_t dim = tables->dim;
    const size_t whole = dim / 4 * 4;
    float *lane_rows[LANES];
    for (size_t lane = 0; lane < LANES; lane++)
        lane_rows[lane] = lane < lane_count ? rows + lane * dim : (float *)spare;
    for (size_t i = 0; i < whole; i += 4)
        scatter4(lane_rows, i, values + i);
    for (size_t i = whole; i < dim; i++) {
        float lanes[LANES];
        memcpy(lanes, &values[i], sizeof(lanes));
        for (size_t lane = 0; lane < LANES; lane++)
            lane_rows[lane][i] = lanes[lane];
    }
}

TARGET static void frames(const spsh__frame_tables *tables, const float *const *windows,
                          uint32_t lane_count, void *scratch, float *rows)
{
    const spsh__frame_layout layout = spsh__frame_layout_of(tables);
    const spsh_feature_options *features = &tables->features;
    vec *x = scratch;
    vec *powers = x + layout.powers;
    vec *values = x + layout.values;
    const vec mean =
        features->remove_dc ? gather(tables, windows, true, x) : gather(tables, windows, false, x);
    vec energy = splat(0);
    if (features->energy == SPSH_ENERGY_RAW)
        energy = sum_of_squares(x, tables->window_samples, mean);
    const bool is_fused = has_first_pass(tables);
    const bool is_plain = !features->remove_dc && features->preemphasis == 0;
    if (is_fused && is_plain)
        first_pass(tables, true, x, mean);
    else if (is_fused)
        first_pass(tables, false, x, mean);
    else
        condition_all(tables, x, mean);
    if (features->energy == SPSH_ENERGY_WINDOWED)
        energy = sum_of_squares(x, tables->window_samples, splat(0));
    transform(tables, is_fused ? 1 : 0, x, powers, x + layout.spare);

    const size_t front =
        features->energy != SPSH_ENERGY_NONE && features->kind != SPSH_FEATURE_MFCC;
    if (features->kind == SPSH_FEATURE_SPECTRUM) {
        memcpy(values + front, powers, tables->bin_count * sizeof(vec));
        take_logs(tables, values + front, tables->bin_count);
    } else if (features->kind == SPSH_FEATURE_MEL) {
        apply_mels(&tables->mels, powers, values + front);
        take_logs(tables, values + front, tables->mels.row_count);
    } else {
        apply_mels(&tables->mels, powers, x + layout.mels);
        take_logs(tables, x + layout.mels, tables->mels.row_count);
        apply_dct(tables, x + layout.mels, values);
    }
    if (features->energy != SPSH_ENERGY_NONE)
        values[0] = log_natural(vec_max(energy, splat(tables->energy_floor)));
    scatter(tables, values, lane_count, x + layout.spare, rows);
}

/* ----------------------------------------------------------------------------------- samples */

TARGET static void take_i16(const int16_t *samples, size_t count, float scale, float *values)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        vec_store(values + i, vec_load_i16(samples + i) * scale);
    for (; i < count; i++)
        values[i] = (float)samples[i] * scale;
}

INLINE vec clean(vec value)
{
    const ivec bits = bits_of(value);
    const ivec exponent = bits & EXPONENT_BITS;
    /* All ones unless the exponent is the largest: (exponent - largest) is negative. */
    const ivec is_finite = (exponent - EXPONENT_BITS) >> 31;
    const vec finite = from_bits(bits & is_finite);
    return vec_max(vec_min(finite, splat(SAMPLE_MAX)), splat(-SAMPLE_MAX));
}

TARGET static void take_f32(const float *samples, size_t count, float scale, float *values)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        vec_store(values + i, clean(vec_load(samples + i)) * scale);
    if (i < count) {
        float rest[LANES] = {0};
        memcpy(rest, samples + i, (count - i) * sizeof(float));
        vec_store(rest, clean(vec_load(rest)) * scale);
        memcpy(values + i, rest, (count - i) * sizeof(float));
    }
}

static const spsh__frames_isa isa = {NAME,      LANES,    frames,  transform_block,
                                     take_logs, take_i16, take_f32};
