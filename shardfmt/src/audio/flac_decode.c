/* flac_decode.c: one frame of a FLAC file in memory, to samples.
 *
 *     header | subframe of each channel | zero bits to a whole byte | CRC-16
 *
 *     subframe:  0, 6 bits type, 1 bit "wasted bits" (then their number in unary)
 *       type  0 constant   1 verbatim   8-12 fixed predictor   32-63 linear predictor
 *     residual:  2 bits method, 4 bits partition order, partitions of Rice codes or raw values
 *
 * A fixed predictor is a linear one with binomial taps and no shift. The time goes into residual
 * and prediction, which are done together: here in plain C, in flac_decode_avx2.c with vectors when
 * its sums fit 32 bits. Samples are compared with their range at the end of each subframe, and the
 * frame's CRC-16 before any is handed out: one of the two checks detects a flipped bit.
 */
#include "flac_decode.h"

#include "flac_bits.h"

#define FRAME_TAIL_BYTES 2
#define STEREO_LEFT      8
#define STEREO_RIGHT     9
#define STEREO_MID       10

static bool is_plain_c_forced;

void spsh__flac_force_plain_c(bool is_forced)
{
    is_plain_c_forced = is_forced;
}

#if defined(__x86_64__)
static bool has_vectors(void)
{
    return !is_plain_c_forced && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("pclmul");
}
#endif

bool spsh__flac_decode_is_fast(void)
{
#if defined(__x86_64__)
    return has_vectors();
#else
    return false;
#endif
}

static uint32_t frame_crc16(const uint8_t *data, size_t size_bytes)
{
#if defined(__x86_64__)
    if (has_vectors())
        return spsh__flac_crc16_pclmul(data, size_bytes);
#endif
    return spsh__flac_crc16(0, data, size_bytes);
}

/* ---- residual and prediction ---- */

static bool predict(const spsh__flac_predictor *predictor, int32_t residual, int32_t *sample)
{
    int64_t sum = 0;
    for (uint32_t j = 0; j < predictor->order; j++)
        sum += (int64_t)predictor->taps[j] * sample[-1 - (ptrdiff_t)j];
    if (predictor->wraps) {
        sum = predictor->is_narrow ? (int32_t)(uint32_t)(uint64_t)sum : sum;
        *sample = (int32_t)((uint32_t)(uint64_t)(sum >> predictor->shift) + (uint32_t)residual);
        return true;
    }
    sum = residual + (sum >> predictor->shift);
    *sample = (int32_t)sum;
    return sum >= INT32_MIN && sum <= INT32_MAX;
}

static bool restore_plain_c(spsh__flac_bits *bits, const spsh__flac_predictor *predictor,
                            const spsh__flac_partitions *partitions, int32_t *plane)
{
    int32_t *out = plane + predictor->order;
    for (uint32_t p = 0; p < partitions->count; p++) {
        uint32_t count = spsh__flac_partition_samples(partitions, p, predictor->order);
        spsh__flac_coding coding;
        if (!spsh__flac_get_coding(bits, partitions, &coding))
            return false;
        for (uint32_t i = 0; i < count; i++) {
            int32_t residual = 0;
            if (coding.is_raw)
                residual = spsh__flac_get_signed(bits, coding.bits);
            else if (!spsh__flac_get_rice(bits, coding.bits, &residual))
                return false;
            if (!predict(predictor, residual, &out[i]))
                return false;
        }
        out += count;
    }
    return true;
}

#if defined(__x86_64__)
/* Check whether the vector form's totals fit 32 bits, and set the maximum residual that fits. */
static bool fits_vectors(spsh__flac_predictor *predictor)
{
    uint64_t sizes = 0;
    for (uint32_t j = 0; j < predictor->order; j++)
        sizes += (uint32_t)(predictor->taps[j] < 0 ? -predictor->taps[j] : predictor->taps[j]);
    sizes <<= predictor->bits_per_sample - 1;
    predictor->raised_max = INT32_MAX - (int64_t)sizes;
    return predictor->raised_max > 0;
}
#endif

static bool restore(spsh__flac_bits *bits, spsh__flac_predictor *predictor, uint32_t block_samples,
                    int32_t *plane)
{
    spsh__flac_partitions partitions;
    uint32_t method = spsh__flac_get(bits, 2);
    uint32_t order = spsh__flac_get(bits, 4);
    partitions.parameter_bits = 4 + method;
    partitions.count = 1u << order;
    partitions.samples = block_samples >> order;
    partitions.is_plain = !predictor->wraps;
    if (method > 1 || partitions.samples << order != block_samples ||
        partitions.samples < predictor->order)
        return false;
#if defined(__x86_64__)
    const spsh__flac_bits begin = *bits;
    if (!predictor->wraps && has_vectors() && fits_vectors(predictor) &&
        spsh__flac_restore_avx2(bits, predictor, &partitions, plane))
        return true;
    *bits = begin; /* the plain C form below handles rare large residuals */
#endif
    return restore_plain_c(bits, predictor, &partitions, plane);
}

/* ---- subframes ---- */

typedef struct flac_subframe {
    uint32_t bits_per_sample;
    uint32_t block_samples;
    bool wraps;
} flac_subframe;

static void read_samples(spsh__flac_bits *bits, uint32_t bits_per_sample, uint32_t count,
                         int32_t *plane)
{
    for (uint32_t i = 0; i < count; i++)
        plane[i] = spsh__flac_get_signed(bits, bits_per_sample);
}

static bool read_fixed(spsh__flac_bits *bits, uint32_t order, flac_subframe sub, int32_t *plane)
{
    static const int32_t taps[5][4] = {
        {0, 0,  0, 0 },
        {1, 0,  0, 0 },
        {2, -1, 0, 0 },
        {3, -3, 1, 0 },
        {4, -6, 4, -1}
    };
    spsh__flac_predictor predictor = {
        .order = order, .bits_per_sample = sub.bits_per_sample, .wraps = sub.wraps};
    memcpy(predictor.taps, taps[order], sizeof(taps[order]));
    if (order >= sub.block_samples) /* as libFLAC has it */
        return false;
    read_samples(bits, sub.bits_per_sample, order, plane);
    return restore(bits, &predictor, sub.block_samples, plane);
}

static bool read_linear(spsh__flac_bits *bits, uint32_t order, flac_subframe sub, int32_t *plane)
{
    spsh__flac_predictor predictor = {
        .order = order, .bits_per_sample = sub.bits_per_sample, .wraps = sub.wraps};
    if (order >= sub.block_samples) /* as libFLAC has it */
        return false;
    read_samples(bits, sub.bits_per_sample, order, plane);
    uint32_t precision = spsh__flac_get(bits, 4) + 1;
    predictor.shift = spsh__flac_get(bits, 5);
    if (precision == 16 || predictor.shift > 15) /* reserved; negative */
        return false;
    /* Up to this width, encoders and decoders before libFLAC 1.4 summed in 32 bits; above it in 64
     * bits. */
    predictor.is_narrow =
        sub.bits_per_sample + precision + (31 - (uint32_t)__builtin_clz(order)) <= 32;
    for (uint32_t j = 0; j < order; j++)
        predictor.taps[j] = spsh__flac_get_signed(bits, precision);
    return restore(bits, &predictor, sub.block_samples, plane);
}

/* Return whether all samples have at most bits_per_sample bits. */
static bool is_within(const int32_t *plane, uint32_t count, uint32_t bits_per_sample)
{
    uint32_t half = 1u << (bits_per_sample - 1);
    uint32_t outside = 0;
#if defined(__x86_64__)
    if (has_vectors())
        return spsh__flac_is_within_avx2(plane, count, bits_per_sample);
#endif
    for (uint32_t i = 0; i < count; i++)
        outside |= (uint32_t)plane[i] + half;
    return outside >> bits_per_sample == 0;
}

static bool read_subframe(spsh__flac_bits *bits, flac_subframe sub, int32_t *plane)
{
    uint32_t head = spsh__flac_get(bits, 8);
    uint32_t type = head >> 1 & 0x3f;
    uint32_t wasted = 0;
    bool is_good = true;
    if ((head & 0x80) != 0)
        return false;
    if ((head & 1) != 0) {
        wasted = spsh__flac_get_unary(bits, sub.bits_per_sample);
        if (wasted >= sub.bits_per_sample - 1) /* UINT32_MAX among them */
            return false;
        wasted++;
        sub.bits_per_sample -= wasted;
    }
    if (type == 0) {
        int32_t value = spsh__flac_get_signed(bits, sub.bits_per_sample);
        for (uint32_t i = 0; i < sub.block_samples; i++)
            plane[i] = value;
    } else if (type == 1) {
        read_samples(bits, sub.bits_per_sample, sub.block_samples, plane);
    } else if (type >= 8 && type <= 12) {
        is_good = read_fixed(bits, type - 8, sub, plane);
    } else if (type >= 32) {
        is_good = read_linear(bits, type - 31, sub, plane);
    } else {
        return false;
    }
    if (!is_good || (!sub.wraps && !is_within(plane, sub.block_samples, sub.bits_per_sample)))
        return false;
    for (uint32_t i = 0; wasted > 0 && i < sub.block_samples; i++)
        plane[i] = (int32_t)((uint32_t)plane[i] << wasted);
    return true;
}

/* ---- frames ---- */

/* The side channel is left - right; mid lacks the lowest bit of left + right, which side has too.
 * Unsigned sums: hostile samples may wrap. */
static void undo_stereo(uint32_t code, uint32_t count, int32_t *first, int32_t *second)
{
    for (uint32_t i = 0; code == STEREO_LEFT && i < count; i++)
        second[i] = (int32_t)((uint32_t)first[i] - (uint32_t)second[i]);
    for (uint32_t i = 0; code == STEREO_RIGHT && i < count; i++)
        first[i] = (int32_t)((uint32_t)first[i] + (uint32_t)second[i]);
    for (uint32_t i = 0; code == STEREO_MID && i < count; i++) {
        uint32_t side = (uint32_t)second[i];
        uint32_t sum = (uint32_t)first[i] * 2 + (side & 1);
        first[i] = (int32_t)(sum + side) >> 1;
        second[i] = (int32_t)(sum - side) >> 1;
    }
}

/* Reduce samples to their low bits, sign-extended. */
static void wrap_samples(int32_t *plane, uint32_t count, uint32_t bits_per_sample)
{
    uint32_t shift = 32 - bits_per_sample;
    for (uint32_t i = 0; i < count; i++)
        plane[i] = (int32_t)((uint32_t)plane[i] << shift) >> shift;
}

static bool is_side(uint32_t channel_code, uint32_t channel)
{
    return channel == 1 ? channel_code == STEREO_LEFT || channel_code == STEREO_MID
                        : channel == 0 && channel_code == STEREO_RIGHT;
}

static bool read_channels(spsh__flac_bits *bits, const spsh__flac_shape *shape,
                          const spsh__flac_frame *frame, bool wraps, int32_t *planes)
{
    for (uint32_t c = 0; c < frame->channels; c++) {
        const flac_subframe sub = {shape->bits_per_sample + is_side(frame->channel_code, c),
                                   frame->block_samples, wraps};
        if (!read_subframe(bits, sub, planes + (size_t)c * shape->block_samples_max))
            return false;
    }
    int32_t *second = planes + shape->block_samples_max;
    if (frame->channel_code >= STEREO_LEFT)
        undo_stereo(frame->channel_code, frame->block_samples, planes, second);
    for (uint32_t c = 0; wraps && c < frame->channels; c++)
        wrap_samples(planes + (size_t)c * shape->block_samples_max, frame->block_samples,
                     shape->bits_per_sample);
    if (wraps || frame->channel_code < STEREO_LEFT)
        return true;
    return is_within(planes, frame->block_samples, shape->bits_per_sample) &&
           is_within(second, frame->block_samples, shape->bits_per_sample);
}

static bool decode_unchecked(spsh_bytes bytes, const spsh__flac_shape *shape, bool wraps,
                             int32_t *planes, spsh__flac_frame *ret_frame)
{
    spsh__flac_frame frame = {.size_bytes = 0};
    if (!spsh__flac_parse_frame(bytes, &frame) || !spsh__flac_has_shape(&frame, shape) ||
        frame.block_samples > shape->block_samples_max)
        return false;
    spsh__flac_bits bits = {
        .data = bytes.data, .size_bytes = bytes.size_bytes, .offset = frame.header_bytes};
    if (!read_channels(&bits, shape, &frame, wraps, planes))
        return false;
    uint32_t padding = (uint32_t)(0 - spsh__flac_bits_position(&bits)) & 7;
    if (spsh__flac_get(&bits, padding) != 0)
        return false;
    uint64_t end = spsh__flac_bits_position(&bits) / 8;
    frame.size_bytes = end + FRAME_TAIL_BYTES;
    *ret_frame = frame;
    return end <= bytes.size_bytes;
}

static bool decode_checked(spsh_bytes bytes, const spsh__flac_shape *shape, bool wraps,
                           int32_t *planes, spsh__flac_frame *ret_frame)
{
    spsh__flac_frame frame = {.size_bytes = 0};
    if (!decode_unchecked(bytes, shape, wraps, planes, &frame) ||
        frame.size_bytes > bytes.size_bytes ||
        frame_crc16(bytes.data, (size_t)frame.size_bytes) != 0)
        return false;
    *ret_frame = frame;
    return true;
}

bool spsh__flac_decode_unchecked(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                                 spsh__flac_frame *ret_frame)
{
    return decode_unchecked(bytes, shape, false, planes, ret_frame);
}

bool spsh__flac_decode_frame(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                             spsh__flac_frame *ret_frame)
{
    return decode_checked(bytes, shape, false, planes, ret_frame);
}

bool spsh__flac_decode_wrapped(spsh_bytes bytes, const spsh__flac_shape *shape, int32_t *planes,
                               spsh__flac_frame *ret_frame)
{
    return decode_checked(bytes, shape, true, planes, ret_frame);
}
