/* canonical.c: three running hashes over one pass of samples.
 *
 *     0 0 0 | s s s 0 0 s s | 0 0 0        full: all samples
 *           '-- trim, mono -'              zeros after sound are counted, and hashed only if
 *                                          sound follows
 *
 * Each hash begins with the rate and the channel count, so the same samples at another rate are
 * another recording. mono hashes a channel count of 1 and the first channel, so it equals the hash
 * of a mono file with those samples. The mono hash ends at the first frame whose channels differ.
 */
#include "canonical.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"
#include "speechshard/shard.h"

enum {
    PIECE_VALUES = 4096,      /* values per piece */
    CLIP_RUN_MIN = 3,         /* an isolated full-scale sample may be an unclipped peak */
    CLIP_LEVEL = 0x7FFF << 16 /* full scale of 16 bits */
};

typedef struct clip_run {
    uint32_t length;
    bool is_negative;
} clip_run;

struct spsh__canonical {
    spsh__pack_hasher *full, *trim, *mono;
    uint32_t rate_hz, channels;
    uint64_t first_sound; /* frames; SPSH_NONE_U64: nothing but zeros so far */
    uint64_t after_sound; /* end of the last frame with sound */
    uint64_t taken;       /* frames */
    bool is_mono;         /* all channels were equal so far */
    uint32_t clipped_count;
    clip_run runs[SPSH_CHANNELS_MAX];
};

static const int32_t zeros[PIECE_VALUES];

/* Hash the values as little-endian bytes on every machine. */
static void hash_values(spsh__pack_hasher *hasher, const int32_t *values, size_t count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    spsh__pack_hasher_add(hasher, (spsh_bytes){(const uint8_t *)values, count * sizeof(*values)});
#else
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        spsh__store_u32le(bytes, (uint32_t)values[i]);
        spsh__pack_hasher_add(hasher, (spsh_bytes){bytes, sizeof(bytes)});
    }
#endif
}

static void hash_zeros(spsh__pack_hasher *hasher, uint64_t count)
{
    while (count > 0) {
        const size_t some = count < PIECE_VALUES ? (size_t)count : PIECE_VALUES;
        hash_values(hasher, zeros, some);
        count -= some;
    }
}

static void hash_begin(spsh__pack_hasher *hasher, uint32_t rate_hz, uint32_t channels)
{
    const int32_t head[2] = {(int32_t)rate_hz, (int32_t)channels};
    spsh__pack_hasher_reset(hasher);
    hash_values(hasher, head, 2);
}

/* Find the first frame that is not all zero, and the end of the last such frame. Both are equal if
 * all frames are zero. */
static void find_sound(const int32_t *samples, size_t count, uint32_t channels, size_t *ret_first,
                       size_t *ret_end)
{
    const size_t values = count * channels;
    size_t first = 0;
    size_t end = values;
    while (first < values && samples[first] == 0)
        first++;
    while (end > first && samples[end - 1] == 0)
        end--;
    *ret_first = first / channels;
    *ret_end = end > first ? (end - 1) / channels + 1 : first / channels;
}

static bool are_channels_equal(const int32_t *samples, size_t count, uint32_t channels)
{
    bool is_equal = true;
    for (size_t i = 0; i < count && is_equal; i++)
        for (uint32_t c = 1; c < channels; c++)
            is_equal = is_equal && samples[i * channels + c] == samples[i * channels];
    return is_equal;
}

static void hash_first_channel(spsh__pack_hasher *hasher, const int32_t *samples, size_t count,
                               uint32_t channels)
{
    int32_t values[PIECE_VALUES];
    while (count > 0) {
        const size_t some = count < PIECE_VALUES ? count : PIECE_VALUES;
        for (size_t i = 0; i < some; i++)
            values[i] = samples[i * channels];
        hash_values(hasher, values, some);
        samples += some * channels;
        count -= some;
    }
}

/* Hash the sound of a piece, and the zeros before it, into trim and mono. */
static void push_sound(spsh__canonical *canonical, const int32_t *samples, size_t count)
{
    const uint32_t channels = canonical->channels;
    size_t first = 0;
    size_t end = 0;
    find_sound(samples, count, channels, &first, &end);
    if (first == end)
        return;
    if (canonical->first_sound == SPSH_NONE_U64)
        canonical->first_sound = canonical->after_sound = canonical->taken + first;
    const uint64_t gap = canonical->taken + first - canonical->after_sound;
    hash_zeros(canonical->trim, gap * channels);
    hash_values(canonical->trim, samples + first * channels, (end - first) * channels);
    if (channels > 1 && canonical->is_mono)
        canonical->is_mono = are_channels_equal(samples, count, channels);
    if (channels > 1 && canonical->is_mono) {
        hash_zeros(canonical->mono, gap);
        hash_first_channel(canonical->mono, samples + first * channels, end - first, channels);
    }
    canonical->after_sound = canonical->taken + end;
}

static bool is_clipped(int32_t value)
{
    return value >= CLIP_LEVEL || value <= -CLIP_LEVEL;
}

static bool has_clipped(const int32_t *values, size_t count)
{
    int clipped = 0;
    for (size_t i = 0; i < count; i++)
        clipped |= is_clipped(values[i]);
    return clipped != 0;
}

/* count: number of values of all channels together. */
static void count_clipped(spsh__canonical *canonical, const int32_t *values, size_t count)
{
    const uint32_t channels = canonical->channels;
    for (size_t i = 0; i < count; i++) {
        clip_run *run = &canonical->runs[i % channels];
        const bool is_negative = values[i] < 0;
        if (!is_clipped(values[i]) || is_negative != run->is_negative)
            run->length = 0;
        run->is_negative = is_negative;
        if (!is_clipped(values[i]))
            continue;
        run->length += run->length <= CLIP_RUN_MIN;
        const uint32_t more = run->length < CLIP_RUN_MIN ? 0
                              : run->length == CLIP_RUN_MIN
                                  ? CLIP_RUN_MIN /* all samples of the run */
                                  : 1;
        if (canonical->clipped_count <= UINT32_MAX - more)
            canonical->clipped_count += more;
    }
}

spsh_status spsh__canonical_new(spsh__canonical **ret_canonical, spsh_error *err)
{
    spsh__canonical *canonical = calloc(1, sizeof(*canonical));
    if (canonical == NULL)
        return SPSH_NO_MEMORY(err);
    canonical->full = spsh__pack_hasher_new();
    canonical->trim = spsh__pack_hasher_new();
    canonical->mono = spsh__pack_hasher_new();
    if (canonical->full == NULL || canonical->trim == NULL || canonical->mono == NULL) {
        spsh__canonical_free(canonical);
        return SPSH_NO_MEMORY(err);
    }
    spsh__canonical_begin(canonical, SPSH_SAMPLE_RATE_HZ_MIN, 1);
    *ret_canonical = canonical;
    return SPSH_OK;
}

void spsh__canonical_begin(spsh__canonical *canonical, uint32_t rate_hz, uint32_t channels)
{
    canonical->rate_hz = rate_hz;
    canonical->channels = channels;
    canonical->first_sound = SPSH_NONE_U64;
    canonical->after_sound = 0;
    canonical->taken = 0;
    canonical->is_mono = true;
    canonical->clipped_count = 0;
    memset(canonical->runs, 0, sizeof(canonical->runs));
    hash_begin(canonical->full, rate_hz, channels);
    hash_begin(canonical->trim, rate_hz, channels);
    hash_begin(canonical->mono, rate_hz, 1);
}

void spsh__canonical_push(spsh__canonical *canonical, const int32_t *samples, size_t count)
{
    const uint32_t channels = canonical->channels;
    while (count > 0) {
        const size_t most = PIECE_VALUES / channels;
        const size_t some = count < most ? count : most;
        hash_values(canonical->full, samples, some * channels);
        push_sound(canonical, samples, some);
        if (has_clipped(samples, some * channels))
            count_clipped(canonical, samples, some * channels);
        else
            memset(canonical->runs, 0, channels * sizeof(canonical->runs[0]));
        canonical->taken += some;
        samples += some * channels;
        count -= some;
    }
}

void spsh__canonical_finish(spsh__canonical *canonical, spsh__digests *ret_digests)
{
    spsh__digests digests = {.clipped_count = canonical->clipped_count};
    spsh__pack_hasher_digest(canonical->full, digests.full);
    if (canonical->first_sound != SPSH_NONE_U64) {
        digests.trim_first = canonical->first_sound;
        digests.trim_count = canonical->after_sound - canonical->first_sound;
        spsh__pack_hasher_digest(canonical->trim, digests.trim);
        if (canonical->channels == 1)
            memcpy(digests.mono, digests.trim, sizeof(digests.mono));
        else if (canonical->is_mono)
            spsh__pack_hasher_digest(canonical->mono, digests.mono);
    }
    *ret_digests = digests;
}

void spsh__canonical_free(spsh__canonical *canonical)
{
    if (canonical == NULL)
        return;
    spsh__pack_hasher_free(canonical->full);
    spsh__pack_hasher_free(canonical->trim);
    spsh__pack_hasher_free(canonical->mono);
    free(canonical);
}
