/* chunker.c: cut at positions where a hash of the last 32 samples is the maximum of its
 * surroundings.
 *
 *     hash   . . : . | . : . . : ! . : . . . | : . .        !: no hash within an eighth of a second
 *                    '--- W ---' '--- W ---'                on either side is greater: a cut
 *
 * Whether a position is a cut depends only on the nearby samples, not even on the previous cut. So
 * two recordings that share a stretch have the same cuts in it, except at its ends. They need no
 * stretch to resynchronize, as they would if a hash only had to match a value. Cuts are more than W
 * apart, 2 W + 1 on average. Content that repeats within W (silence, tones) has no maximum and no
 * cuts. A stretch of more than a second without a cut is not a chunk.
 *
 * The hash is a gear hash: h[i] = (h[i - 1] << 1) + mix(sample i) in 32 bits, so samples older than
 * 32 positions have no effect. It is computed by doubling (2, 4 ... 32 terms), which has no
 * dependency between consecutive positions. The maximum is computed block by block. A block of W
 * positions has at most one cut, at its maximum, which is then compared with the adjacent blocks.
 * Compilers vectorize both loops.
 */
#include "chunker.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/hash.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"

enum {
    MEMORY = 32,     /* samples that the hash depends on */
    PIECE = 2048,    /* frames that are hashed together */
    NEAR_DIVISOR = 8 /* W: an eighth of a second */
};

struct spsh__chunker {
    uint32_t rate_hz, channels;
    uint64_t near;  /* W */
    uint64_t taken; /* frames */

    uint32_t mixed[MEMORY - 1 + PIECE]; /* mixed values of the last frames and of the new frames */
    uint32_t sums[2][MEMORY - 1 + PIECE];

    /* Hashes from position hash_first on: the block under test and its two neighbors. */
    uint32_t *hashes;
    size_t hash_count, hash_capacity;
    uint64_t hash_first;
    uint64_t block; /* position of the block that is judged next */

    /* Samples from pcm_first on, as little-endian bytes. The unfinished chunk begins at cut. */
    int32_t *pcm;
    size_t pcm_skipped, pcm_count; /* frames: unused ones at the front; all */
    size_t pcm_capacity;           /* values of all channels */
    uint64_t pcm_first;            /* position of frame pcm_skipped */
    uint64_t cut;

    spsh__chunk *chunks;
    size_t chunk_count, chunk_capacity;
};

static uint32_t mix(uint32_t value)
{
    value ^= value >> 16;
    value *= UINT32_C(0x9E3779B1);
    value ^= value >> 15;
    value *= UINT32_C(0x85EBCA77);
    return value ^ value >> 13;
}

/* Write the mixed values of count frames to mixed[MEMORY - 1 ...]. The entries before them are from
 * the last call. */
static void mix_frames(spsh__chunker *chunker, const int32_t *samples, size_t count)
{
    uint32_t *mixed = chunker->mixed + MEMORY - 1;
    const uint32_t channels = chunker->channels;
    if (channels == 1) {
        for (size_t i = 0; i < count; i++)
            mixed[i] = mix((uint32_t)samples[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t value = 0;
        for (uint32_t c = 0; c < channels; c++)
            value = value * UINT32_C(0x9E3779B1) + (uint32_t)samples[i * channels + c];
        mixed[i] = mix(value);
    }
}

/* Compute sums of 2 * terms terms from sums of `terms` terms. */
static void double_terms(const uint32_t *restrict from, uint32_t *restrict to, size_t terms,
                         size_t count)
{
    for (size_t i = 2 * terms - 1; i < count; i++)
        to[i] = from[i] + (from[i - terms] << terms);
}

/* Compute the hashes of the new frames. */
static const uint32_t *gear(spsh__chunker *chunker, size_t count)
{
    const size_t all = MEMORY - 1 + count;
    double_terms(chunker->mixed, chunker->sums[0], 1, all);
    double_terms(chunker->sums[0], chunker->sums[1], 2, all);
    double_terms(chunker->sums[1], chunker->sums[0], 4, all);
    double_terms(chunker->sums[0], chunker->sums[1], 8, all);
    double_terms(chunker->sums[1], chunker->sums[0], 16, all);
    memmove(chunker->mixed, chunker->mixed + count, (MEMORY - 1) * sizeof(uint32_t));
    return chunker->sums[0] + MEMORY - 1;
}

static uint32_t greatest(const uint32_t *values, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* Find the cut of the block, if there is one. The cut is the first maximum of the block. All hashes
 * within W before it must be less, and no hash within W after it may be greater. */
static bool find_cut(const spsh__chunker *chunker, uint64_t *ret_cut)
{
    const size_t near = (size_t)chunker->near;
    const uint32_t *block = chunker->hashes + (chunker->block - chunker->hash_first);
    const uint32_t most = greatest(block, near);
    size_t at = 0;
    while (block[at] != most)
        at++;
    if (chunker->block + at + near >= chunker->taken)
        return false;
    /* The value is the maximum of its block. Compare it with the part of the previous block within
     * reach, and with that part of the next block. */
    if (greatest(block + at - near, near - at) >= most || greatest(block + near, at + 1) > most)
        return false;
    *ret_cut = chunker->block + at;
    return true;
}

static bool is_constant(const int32_t *samples, size_t count, uint32_t channels)
{
    return memcmp(samples, samples + channels, (count - 1) * channels * sizeof(*samples)) == 0;
}

/* Add the chunk from the last cut to this cut. */
static spsh_status end_chunk(spsh__chunker *chunker, uint64_t cut, spsh_error *err)
{
    const uint64_t first = chunker->cut;
    const size_t count = (size_t)(cut - first);
    chunker->cut = cut;
    if (cut == first || cut - first > chunker->rate_hz)
        return SPSH_OK;
    const int32_t *samples =
        chunker->pcm +
        (chunker->pcm_skipped + (size_t)(first - chunker->pcm_first)) * chunker->channels;
    if (is_constant(samples, count, chunker->channels))
        return SPSH_OK;
    if (!SPSH_GROW(chunker->chunks, chunker->chunk_capacity, chunker->chunk_count + 1))
        return SPSH_NO_MEMORY(err);
    const spsh_bytes bytes = {(const uint8_t *)samples,
                              count * chunker->channels * sizeof(*samples)};
    chunker->chunks[chunker->chunk_count++] =
        (spsh__chunk){spsh__pack_hash64(bytes), first, (uint32_t)count};
    return SPSH_OK;
}

/* Test the next block for a cut, and discard samples that later blocks do not need. */
static spsh_status judge_block(spsh__chunker *chunker, spsh_error *err)
{
    uint64_t cut = 0;
    if (find_cut(chunker, &cut)) {
        spsh_status rc = end_chunk(chunker, cut, err);
        if (rc != SPSH_OK)
            return rc;
    }
    chunker->block += chunker->near;
    /* The earliest possible next cut is in the next block. If that is too far from the last cut for
     * a chunk, the samples before the block are not needed. */
    const bool is_long = chunker->block - chunker->cut > chunker->rate_hz;
    const uint64_t needed = is_long ? chunker->block : chunker->cut;
    chunker->pcm_skipped += (size_t)(needed - chunker->pcm_first);
    chunker->pcm_first = needed;
    return SPSH_OK;
}

static spsh_status keep_samples(spsh__chunker *chunker, const int32_t *samples, size_t count,
                                spsh_error *err)
{
    const uint32_t channels = chunker->channels;
    const size_t used = chunker->pcm_count - chunker->pcm_skipped;
    if ((chunker->pcm_count + count) * channels > chunker->pcm_capacity &&
        chunker->pcm_skipped > 0 && chunker->pcm_skipped >= used) {
        memcpy(chunker->pcm, chunker->pcm + chunker->pcm_skipped * channels,
               used * channels * sizeof(*samples));
        chunker->pcm_skipped = 0;
        chunker->pcm_count = used;
    }
    if (!SPSH_GROW(chunker->pcm, chunker->pcm_capacity, (chunker->pcm_count + count) * channels))
        return SPSH_NO_MEMORY(err);
    int32_t *end = chunker->pcm + chunker->pcm_count * channels;
    memcpy(end, samples, count * channels * sizeof(*samples));
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    for (size_t i = 0; i < count * channels; i++)
        end[i] = (int32_t)__builtin_bswap32((uint32_t)end[i]); /* chunks are hashed as bytes */
#endif
    chunker->pcm_count += count;
    return SPSH_OK;
}

/* The first 31 frames have no hash, because fewer than 32 samples precede their end. */
static spsh_status keep_hashes(spsh__chunker *chunker, const uint32_t *hashes, size_t count,
                               spsh_error *err)
{
    const uint64_t early = MEMORY - 1;
    const size_t without = chunker->taken >= early ? 0 : (size_t)(early - chunker->taken);
    if (count <= without)
        return SPSH_OK;
    hashes += without;
    count -= without;
    const uint64_t needed = chunker->block - chunker->near;
    const size_t unused = (size_t)(needed - chunker->hash_first);
    if (chunker->hash_count + count > chunker->hash_capacity && unused > 0) {
        chunker->hash_count -= unused;
        memmove(chunker->hashes, chunker->hashes + unused, chunker->hash_count * sizeof(*hashes));
        chunker->hash_first = needed;
    }
    if (!SPSH_GROW(chunker->hashes, chunker->hash_capacity, chunker->hash_count + count))
        return SPSH_NO_MEMORY(err);
    memcpy(chunker->hashes + chunker->hash_count, hashes, count * sizeof(*hashes));
    chunker->hash_count += count;
    return SPSH_OK;
}

static spsh_status push_piece(spsh__chunker *chunker, const int32_t *samples, size_t count,
                              spsh_error *err)
{
    mix_frames(chunker, samples, count);
    spsh_status rc = keep_samples(chunker, samples, count, err);
    if (rc == SPSH_OK)
        rc = keep_hashes(chunker, gear(chunker, count), count, err);
    chunker->taken += count;
    while (rc == SPSH_OK && chunker->block + 2 * chunker->near <= chunker->taken)
        rc = judge_block(chunker, err);
    return rc;
}

spsh_status spsh__chunker_new(spsh__chunker **ret_chunker, spsh_error *err)
{
    spsh__chunker *chunker = calloc(1, sizeof(*chunker));
    if (chunker == NULL)
        return SPSH_NO_MEMORY(err);
    *ret_chunker = chunker;
    return SPSH_OK;
}

spsh_status spsh__chunker_begin(spsh__chunker *chunker, uint32_t rate_hz, uint32_t channels,
                                spsh_error *err)
{
    if (rate_hz < SPSH_SAMPLE_RATE_HZ_MIN || rate_hz > SPSH_SAMPLE_RATE_HZ_MAX || channels == 0 ||
        channels > SPSH_CHANNELS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%u channels at %u Hz", channels, rate_hz);
    chunker->rate_hz = rate_hz;
    chunker->channels = channels;
    chunker->near = rate_hz / NEAR_DIVISOR;
    chunker->taken = 0;
    memset(chunker->mixed, 0, sizeof(chunker->mixed));
    chunker->hash_first = MEMORY - 1;
    chunker->hash_count = 0;
    chunker->block = MEMORY - 1 + chunker->near; /* first position with W hashes before it */
    chunker->pcm_skipped = chunker->pcm_count = 0;
    chunker->pcm_first = chunker->cut = 0;
    chunker->chunk_count = 0;
    return SPSH_OK;
}

spsh_status spsh__chunker_push(spsh__chunker *chunker, const int32_t *samples, size_t count,
                               spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && count > 0) {
        const size_t some = count < PIECE ? count : PIECE;
        rc = push_piece(chunker, samples, some, err);
        samples += some * chunker->channels;
        count -= some;
    }
    return rc;
}

spsh_status spsh__chunker_finish(spsh__chunker *chunker, const spsh__chunk **ret_chunks,
                                 size_t *ret_count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (chunker->block + chunker->near < chunker->taken)
        rc = judge_block(chunker, err);
    if (rc == SPSH_OK)
        rc = end_chunk(chunker, chunker->taken, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_chunks = chunker->chunks;
    *ret_count = chunker->chunk_count;
    return SPSH_OK;
}

void spsh__chunker_free(spsh__chunker *chunker)
{
    if (chunker == NULL)
        return;
    free(chunker->hashes);
    free(chunker->pcm);
    free(chunker->chunks);
    free(chunker);
}
