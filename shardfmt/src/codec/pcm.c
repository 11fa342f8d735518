/* pcm.c: payloads of the codec `pcm`: head, directory, random access. FORMAT.md is normative.
 *
 *     0  u8   version           8  u32  end[frame_count * channels]
 *     1  u8   log2 of the frame length       block i = bytes [end[i - 1], end[i]) of the payload;
 *     2  u8   channels                       end[-1] is the size of the head
 *     3  u8   0                 ...  blocks
 *     4  u32  samples per channel
 *
 * A block is one channel of one frame; block i is channel i % channels of frame i / channels. An
 * empty block stands for the same samples as the channel before it (dual mono). Offsets are
 * absolute, so that a block is found with two loads, and every block can be decoded by itself, on a
 * CPU or a GPU.
 */
#include "pcm_internal.h"

#include "base/base_internal.h"
#include "speechshard/limits.h"

#define PCM_VERSION    1
#define PCM_FRAME_LOG2 13
#define PREFIX_BYTES   8 /* bytes of the head before the directory */

_Static_assert(SPSH_PCM_FRAME_SAMPLES == 1 << PCM_FRAME_LOG2, "one frame length");

static bool is_within_limits(uint64_t samples, uint32_t channels)
{
    return channels >= 1 && channels <= SPSH_CHANNELS_MAX &&
           samples <= SPSH_PCM_BYTES_MAX / sizeof(int16_t) / channels;
}

static uint64_t count_frames(uint64_t samples)
{
    return (samples + SPSH_PCM_FRAME_SAMPLES - 1) / SPSH_PCM_FRAME_SAMPLES;
}

uint32_t spsh__pcm_frame_length(uint64_t samples, uint64_t frame_index)
{
    uint64_t left = samples - frame_index * SPSH_PCM_FRAME_SAMPLES;
    return left < SPSH_PCM_FRAME_SAMPLES ? (uint32_t)left : SPSH_PCM_FRAME_SAMPLES;
}

/* samples and channels are within limits; the largest result is below 2^32. */
static size_t head_size(uint64_t samples, uint32_t channels)
{
    return PREFIX_BYTES + 4 * (size_t)(count_frames(samples) * channels);
}

size_t spsh_pcm_head_bytes(uint64_t samples, uint32_t channels)
{
    return is_within_limits(samples, channels) ? head_size(samples, channels) : SIZE_MAX;
}

size_t spsh_pcm_bound(uint64_t samples, uint32_t channels)
{
    if (!is_within_limits(samples, channels))
        return SIZE_MAX;
    size_t block_count = (size_t)(count_frames(samples) * channels);
    return head_size(samples, channels) + block_count * PCM_BLOCK_BYTES_MAX(0) +
           (size_t)samples * channels * sizeof(int16_t);
}

/* Channel c of a frame whose first value is frame[0]; true if it equals channel c - 1. */
static bool gather_channel(const int16_t *frame, uint32_t samples, uint32_t channels, uint32_t c,
                           int16_t *plane)
{
    bool same = c > 0;
    for (uint32_t i = 0; i < samples; i++) {
        const int16_t *values = frame + (size_t)i * channels + c;
        plane[i] = values[0];
        same = same && values[0] == values[-1];
    }
    return same;
}

/* NOLINTNEXTLINE(readability-function-size): a buffer and its size belong side by side */
spsh_status spsh_pcm_encode(const int16_t *pcm, uint64_t samples, uint32_t channels,
                            uint8_t *payload, size_t capacity_bytes, size_t *ret_payload_bytes,
                            spsh_error *err)
{
    int16_t plane[SPSH_PCM_FRAME_SAMPLES];

    if (!is_within_limits(samples, channels))
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%llu samples of %u channels exceed the limits of codec pcm",
                         (unsigned long long)samples, channels);
    if ((pcm == NULL && samples > 0) || payload == NULL || ret_payload_bytes == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a buffer is NULL");
    if (capacity_bytes < spsh_pcm_bound(samples, channels))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the payload buffer has %zu bytes, but %zu are needed", capacity_bytes,
                         spsh_pcm_bound(samples, channels));

    payload[0] = PCM_VERSION;
    payload[1] = PCM_FRAME_LOG2;
    payload[2] = (uint8_t)channels;
    payload[3] = 0;
    spsh__store_u32le(payload + 4, (uint32_t)samples);

    uint8_t *directory = payload + PREFIX_BYTES;
    size_t end = head_size(samples, channels);
    uint64_t frame_count = count_frames(samples);
    for (uint64_t f = 0; f < frame_count; f++) {
        const int16_t *frame = pcm + f * SPSH_PCM_FRAME_SAMPLES * channels;
        uint32_t length = spsh__pcm_frame_length(samples, f);
        for (uint32_t c = 0; c < channels; c++) {
            const int16_t *source = channels == 1 ? frame : plane;
            if (channels == 1 || !gather_channel(frame, length, channels, c, plane))
                end += spsh__pcm_block_encode(source, length, payload + end);
            spsh__store_u32le(directory, (uint32_t)end);
            directory += 4;
        }
    }
    *ret_payload_bytes = end;
    return SPSH_OK;
}

/* Read and check the fixed part of the head, and check that the directory is complete. */
static spsh_status read_head(spsh_bytes head, spsh_pcm_info *ret_info, spsh_error *err)
{
    if (head.data == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a buffer is NULL");
    if (head.size_bytes < PREFIX_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, head.size_bytes,
                            "pcm header needs %d bytes, but the payload has %zu", PREFIX_BYTES,
                            head.size_bytes);
    if (head.data[0] != PCM_VERSION)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 0, "pcm payload has version %u, expected %d",
                            (unsigned)head.data[0], PCM_VERSION);
    if (head.data[1] != PCM_FRAME_LOG2)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 1, "pcm frames have 2^%u samples, expected 2^%d",
                            (unsigned)head.data[1], PCM_FRAME_LOG2);
    if (head.data[3] != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 3,
                            "reserved byte of the pcm header is %u, expected 0",
                            (unsigned)head.data[3]);
    uint32_t channels = head.data[2];
    uint64_t samples = spsh__load_u32le(head.data + 4);
    if (!is_within_limits(samples, channels))
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, 2,
                            "pcm payload states an invalid size: %llu samples, %u channels",
                            (unsigned long long)samples, channels);
    if (head.size_bytes < head_size(samples, channels))
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, head.size_bytes,
                            "pcm header needs %zu bytes, but the payload has %zu",
                            head_size(samples, channels), head.size_bytes);
    *ret_info = (spsh_pcm_info){.samples = samples,
                                .channels = channels,
                                .frame_samples = SPSH_PCM_FRAME_SAMPLES,
                                .frame_count = count_frames(samples)};
    return SPSH_OK;
}

/* Return the offset of a block in the payload. The caller checks that the offsets ascend. */
static uint64_t block_offset(spsh_bytes head, const spsh_pcm_info *info, uint64_t block_index)
{
    if (block_index == 0)
        return head_size(info->samples, info->channels);
    return spsh__load_u32le(head.data + PREFIX_BYTES + 4 * (block_index - 1));
}

static spsh_status check_order(const spsh_pcm_info *info, uint64_t begin, uint64_t end,
                               spsh_error *err)
{
    if (begin < head_size(info->samples, info->channels) || begin > end)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, begin,
                            "pcm directory has an invalid range: bytes %llu to %llu",
                            (unsigned long long)begin, (unsigned long long)end);
    return SPSH_OK;
}

static spsh_status check_range(const spsh_pcm_info *info, uint64_t first_sample,
                               uint64_t sample_count, spsh_error *err)
{
    if (first_sample > info->samples || sample_count > info->samples - first_sample)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "samples from %llu, %llu of them, are outside the payload, which has %llu",
                         (unsigned long long)first_sample, (unsigned long long)sample_count,
                         (unsigned long long)info->samples);
    return SPSH_OK;
}

spsh_status spsh_pcm_inspect(const uint8_t *payload, size_t payload_bytes, spsh_pcm_info *ret_info,
                             spsh_error *err)
{
    spsh_bytes head = {payload, payload_bytes};
    spsh_pcm_info info;

    if (ret_info == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "ret_info is NULL");
    spsh_status rc = read_head(head, &info, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t block_count = info.frame_count * info.channels;
    uint64_t begin = block_offset(head, &info, 0);
    for (uint64_t i = 0; i < block_count; i++) {
        uint64_t end = block_offset(head, &info, i + 1);
        rc = check_order(&info, begin, end, err);
        if (rc != SPSH_OK)
            return rc;
        begin = end;
    }
    if (begin > payload_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, payload_bytes,
                            "the pcm payload is cut: it needs %llu bytes",
                            (unsigned long long)begin);
    if (begin < payload_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, begin,
                            "the last block of the pcm payload ends at byte %llu of %zu",
                            (unsigned long long)begin, payload_bytes);
    *ret_info = info;
    return SPSH_OK;
}

spsh_status spsh_pcm_range(spsh_bytes head, uint64_t first_sample, uint64_t sample_count,
                           uint64_t *ret_offset_bytes, uint64_t *ret_size_bytes, spsh_error *err)
{
    spsh_pcm_info info;

    if (ret_offset_bytes == NULL || ret_size_bytes == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a result is NULL");
    spsh_status rc = read_head(head, &info, err);
    if (rc == SPSH_OK)
        rc = check_range(&info, first_sample, sample_count, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t first_frame = first_sample / SPSH_PCM_FRAME_SAMPLES;
    uint64_t end_frame = count_frames(first_sample + sample_count);
    uint64_t begin = block_offset(head, &info, 0);
    uint64_t end = begin;
    if (sample_count > 0) {
        begin = block_offset(head, &info, first_frame * info.channels);
        end = block_offset(head, &info, end_frame * info.channels);
        rc = check_order(&info, begin, end, err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_offset_bytes = begin;
    *ret_size_bytes = end - begin;
    return SPSH_OK;
}

spsh_status spsh__pcm_range_of(const spsh_pcm_part *part, uint64_t first_sample,
                               uint64_t sample_count, pcm_range *ret_range, spsh_error *err)
{
    pcm_range range = {.first_sample = first_sample};
    spsh_status rc = read_head(part->head, &range.info, err);
    if (rc == SPSH_OK)
        rc = check_range(&range.info, first_sample, sample_count, err);
    if (rc != SPSH_OK)
        return rc;
    range.end_sample = first_sample + sample_count;
    if (sample_count > 0) {
        range.first_frame = first_sample / SPSH_PCM_FRAME_SAMPLES;
        range.end_frame = count_frames(range.end_sample);
    }
    *ret_range = range;
    return SPSH_OK;
}

spsh_status spsh__pcm_find_block(const spsh_pcm_part *part, const spsh_pcm_info *info,
                                 uint64_t block_index, spsh_bytes *ret_block, spsh_error *err)
{
    uint64_t begin = block_offset(part->head, info, block_index);
    uint64_t end = block_offset(part->head, info, block_index + 1);
    spsh_status rc = check_order(info, begin, end, err);
    if (rc != SPSH_OK)
        return rc;
    if (begin < part->offset_bytes || end - part->offset_bytes > part->piece.size_bytes)
        return SPSH_FAIL_AT(
            err, SPSH_E_TRUNCATED, begin,
            "pcm block %llu has bytes %llu to %llu, but bytes %llu to %llu were given",
            (unsigned long long)block_index, (unsigned long long)begin, (unsigned long long)end,
            (unsigned long long)part->offset_bytes,
            (unsigned long long)(part->offset_bytes + part->piece.size_bytes));
    *ret_block =
        (spsh_bytes){part->piece.data + (begin - part->offset_bytes), (size_t)(end - begin)};
    return SPSH_OK;
}

static spsh_status block_is_damaged(const spsh_pcm_part *part, const spsh_pcm_info *info,
                                    uint64_t block_index, size_t size_bytes, spsh_error *err)
{
    return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, block_offset(part->head, info, block_index),
                        "pcm block %llu of %zu bytes is damaged", (unsigned long long)block_index,
                        size_bytes);
}

/* Arguments of the call that decode_frame needs. */
typedef struct decode_job {
    const spsh_pcm_part *part;
    pcm_range range;
    int16_t *pcm; /* output position of range.first_sample */
} decode_job;

/* Samples [from, to) of the frame, of channel c, to out[0], out[channels], ... */
static void scatter_channel(const int16_t *plane, uint32_t from, uint32_t to, uint32_t channels,
                            int16_t *out)
{
    if (channels == 1) {
        memcpy(out, plane + from, (to - from) * sizeof(int16_t));
        return;
    }
    for (uint32_t i = from; i < to; i++, out += channels)
        *out = plane[i];
}

static spsh_status decode_frame(const decode_job *job, uint64_t frame_index, spsh_error *err)
{
    int16_t plane[SPSH_PCM_FRAME_SAMPLES];
    uint32_t channels = job->range.info.channels;
    uint64_t frame_first = frame_index * SPSH_PCM_FRAME_SAMPLES;
    uint32_t length = spsh__pcm_frame_length(job->range.info.samples, frame_index);
    uint32_t from = job->range.first_sample > frame_first
                        ? (uint32_t)(job->range.first_sample - frame_first)
                        : 0;
    uint32_t to = length;
    if (job->range.end_sample - frame_first < to)
        to = (uint32_t)(job->range.end_sample - frame_first);
    int16_t *out = job->pcm + (frame_first + from - job->range.first_sample) * channels;
    /* The common case needs no copy. */
    bool direct = channels == 1 && to - from == SPSH_PCM_FRAME_SAMPLES;

    for (uint32_t c = 0; c < channels; c++) {
        uint64_t block_index = frame_index * channels + c;
        spsh_bytes block = {NULL, 0};
        spsh_status rc =
            spsh__pcm_find_block(job->part, &job->range.info, block_index, &block, err);
        if (rc != SPSH_OK)
            return rc;
        if (block.size_bytes == 0 && c > 0) {
            for (size_t i = c; i < (size_t)(to - from) * channels; i += channels)
                out[i] = out[i - 1];
            continue;
        }
        size_t readable_bytes =
            job->part->piece.size_bytes - (size_t)(block.data - job->part->piece.data);
        if (!spsh__pcm_block_decode(block.data, block.size_bytes, readable_bytes, length,
                                    direct ? out : plane))
            return block_is_damaged(job->part, &job->range.info, block_index, block.size_bytes,
                                    err);
        if (!direct)
            scatter_channel(plane, from, to, channels, out + c);
    }
    return SPSH_OK;
}

spsh_status spsh_pcm_decode_part(const spsh_pcm_part *part, uint64_t first_sample,
                                 uint64_t sample_count, int16_t *pcm, spsh_error *err)
{
    decode_job job = {.part = part};

    if (part == NULL || (pcm == NULL && sample_count > 0))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a buffer is NULL");
    job.pcm = pcm;
    spsh_status rc = spsh__pcm_range_of(part, first_sample, sample_count, &job.range, err);
    for (uint64_t f = job.range.first_frame; rc == SPSH_OK && f < job.range.end_frame; f++)
        rc = decode_frame(&job, f, err);
    return rc;
}

spsh_status spsh_pcm_check_part(const spsh_pcm_part *part, uint64_t first_sample,
                                uint64_t sample_count, spsh_error *err)
{
    pcm_range range = {.first_frame = 0};

    if (part == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a buffer is NULL");
    spsh_status rc = spsh__pcm_range_of(part, first_sample, sample_count, &range, err);
    const uint32_t channels = rc == SPSH_OK ? range.info.channels : 0;
    const uint64_t end = range.end_frame * channels;
    for (uint64_t i = range.first_frame * channels; rc == SPSH_OK && i < end; i++) {
        const uint32_t length = spsh__pcm_frame_length(range.info.samples, i / channels);
        spsh_bytes block = {NULL, 0};
        rc = spsh__pcm_find_block(part, &range.info, i, &block, err);
        if (rc != SPSH_OK || (block.size_bytes == 0 && i % channels > 0))
            continue;
        if (!spsh__pcm_block_check(block.data, block.size_bytes, length))
            rc = block_is_damaged(part, &range.info, i, block.size_bytes, err);
    }
    return rc;
}

spsh_status spsh_pcm_decode(const uint8_t *payload, size_t payload_bytes, uint64_t first_sample,
                            uint64_t sample_count, int16_t *pcm, spsh_error *err)
{
    spsh_bytes whole = {payload, payload_bytes};
    spsh_pcm_part part = {.head = whole, .piece = whole, .offset_bytes = 0};
    return spsh_pcm_decode_part(&part, first_sample, sample_count, pcm, err);
}
