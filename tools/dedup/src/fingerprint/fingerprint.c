/* fingerprint.c: 8 kHz -> two Fourier analyses every 16 ms -> logarithms of band energies -> signs.
 *
 *     input -> resample8k -> samples (float, exact) -> groups of 8 frames
 *       1,024-point frames -> 33 bands -> 32 bits against the frame 8 before -> print frames
 *       2,048-point frames -> 17 bands -> 16 bits against the frame 8 before -> wide frames -> keys
 *
 * A group is 8 consecutive frames, starting at a multiple of 8. Frames 2l and 2l + 1 are the real
 * and the imaginary part of lane l. Groups are counted from the start of the recording, so the
 * division of the input into pieces has no effect. Print frames wait in blocks of 64 until the
 * levels of the next eight blocks are known, which decide whether a frame is active. Keys wait for
 * the same levels. So the memory is bounded.
 *
 * Every rounding is specified: tables are integers, sums run in the order of the bins, and the
 * logarithm of a band energy is an integer computed from the bits of the float. A difference of 0
 * gives bit 0.
 */
#include "fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "fft.h"
#include "resample8k.h"
#include "speechshard/inside.h"

enum {
    DENSE_SIZE = 1024,
    WIDE_SIZE = 2048,
    DENSE_BANDS = 33,
    WIDE_BANDS = 17,
    WIDE_BITS = WIDE_BANDS - 1,
    LAG = 8, /* frames between the two operands of a difference */
    GROUP = 2 * SPSH__LANES,
    GROUP_HOP = GROUP * SPSH__PRINT_HOP,
    GROUP_SPAN = WIDE_SIZE + (GROUP - 1) * SPSH__PRINT_HOP,
    LOG_STEPS = 1024, /* steps per doubling of the energy */
    LEVEL_ZERO = 25 * LOG_STEPS,
    LEVEL_SHIFT = 8,
    LEVEL_MAX = 127,
    BLOCK = 64,      /* frames per block */
    BLOCKS_NEAR = 8, /* blocks on each side that decide on a block's frames */
    BLOCKS_KEPT = 2 * BLOCKS_NEAR + 2,
    WIDE_AHEAD = 4, /* print frame with the same middle as wide frame u: u + 4 */
    WIDE_KEPT = 32, /* number of wide frames in memory, a power of two */
    PEAK_REACH = 3,
    KEY_REACH = 20,
    KEY_MIDDLE = 10,
    FRAMES_WAITING = BLOCK * BLOCKS_KEPT,
    KEYS_WAITING = BLOCK * (BLOCKS_NEAR + 2) / (PEAK_REACH + 1) + 1,
    DENSE_WAITING = BLOCK * (BLOCKS_NEAR + 2) + GROUP,
};

/* Approximate energy that one unit of 16-bit white noise (16 after resampling) adds to a bin; see
 * docs/reference/FINGERPRINT.md.
 */
static const float dense_floor = 393216.0F;
static const float wide_floor = 786432.0F;

static const uint16_t dense_edges[DENSE_BANDS + 1] = {
    32,  35,  37,  41,  44,  48,  51,  56,  60,  65,  71,  76,  83,  89,  97,  105, 113,
    123, 133, 144, 156, 168, 182, 197, 214, 231, 250, 271, 293, 317, 343, 372, 402, 435,
};
static const uint16_t wide_edges[WIDE_BANDS + 1] = {
    64, 75, 87, 101, 118, 138, 161, 187, 219, 255, 297, 346, 404, 471, 549, 640, 747, 870,
};

/* A kind of analysis and the last LAG + GROUP frames' logarithms, frame t at t % 16. */
typedef struct analysis {
    size_t size;
    uint32_t band_count;
    float floor;
    const uint16_t *edges;
    float *window;
    uint16_t *position; /* alternating positions of the bins below edges[band_count] and of their
                           mirror images */
    int32_t logs[LAG + GROUP][DENSE_BANDS];
    int32_t totals[LAG + GROUP]; /* logarithm of the energy of all bands, without floors */
} analysis;

typedef struct wide_frame {
    int32_t differences[WIDE_BITS];
    int32_t strength;
    uint16_t bits;
} wide_frame;

struct spsh__fingerprint {
    spsh__print_sink sink;
    spsh__resample8k *resampler;
    spsh__fft_circle circle;
    int32_t log_table[LOG_STEPS];
    float dense_window[DENSE_SIZE];
    float wide_window[WIDE_SIZE];
    uint16_t dense_position[2 * 435];
    uint16_t wide_position[2 * 870];
    analysis dense;
    analysis wide;
    spsh__lanes re[WIDE_SIZE];
    spsh__lanes im[WIDE_SIZE];

    float samples[GROUP_SPAN + SPSH__RESAMPLE_OUT_MAX];
    size_t sample_count;
    uint64_t sample_total; /* since the start of the recording */
    uint64_t group_frame;  /* first frame of the next group */

    spsh__print_frame waiting[FRAMES_WAITING]; /* print frame i is at i % FRAMES_WAITING */
    uint8_t waiting_weak[FRAMES_WAITING][SPSH__WORD_WEAK]; /* set only if the sink wants them */
    uint8_t loudest[BLOCKS_KEPT];
    uint64_t frame_count;
    uint64_t blocks_done;

    wide_frame wides[WIDE_KEPT]; /* wide frame u is at u % WIDE_KEPT */
    uint64_t wide_count;
    spsh__print_key keys[KEYS_WAITING];
    size_t key_count;
    spsh__dense_key dense_keys[DENSE_WAITING]; /* set only if the sink wants them */
    size_t dense_count;
};

/* Fill the table with round(1024 log2(1 + (i + 0.5) / 1024)). Compute one bit at a time, because
 * squaring doubles the logarithm. */
static void make_log_table(int32_t *table)
{
    for (uint32_t i = 0; i < LOG_STEPS; i++) {
        uint64_t x = (uint64_t)(2 * (LOG_STEPS + i) + 1) << 20; /* 1 is 2^31 */
        int32_t value = 0;
        for (int bit = 0; bit < 11; bit++) {
            x = (x * x) >> 31;
            value = 2 * value + (x >= UINT64_C(1) << 32);
            x >>= x >= UINT64_C(1) << 32;
        }
        table[i] = (value + 1) / 2;
    }
}

/* Return 1024 log2(x), computed from the bits of x, which is positive and normal. */
static int32_t log_of(const int32_t *table, float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    return ((int32_t)(bits >> 23) - 127) * LOG_STEPS + table[(bits >> 13) & (LOG_STEPS - 1)];
}

static void init_analysis(analysis *kind)
{
    const float unit = 1.0F / (2.0F * SPSH__COSINE_1);
    for (size_t i = 0; i < kind->size; i++) {
        const int64_t one_less =
            SPSH__COSINE_1 - (int64_t)spsh__cosine((int64_t)(i * (SPSH__TURN / kind->size)));
        kind->window[i] = (float)one_less * unit;
    }
    for (size_t bin = kind->edges[0]; bin < kind->edges[kind->band_count]; bin++) {
        kind->position[2 * bin] = (uint16_t)spsh__fft_position(bin, kind->size);
        kind->position[2 * bin + 1] = (uint16_t)spsh__fft_position(kind->size - bin, kind->size);
    }
}

static void forget(spsh__fingerprint *maker)
{
    maker->sample_count = 0;
    maker->sample_total = 0;
    maker->group_frame = 0;
    maker->frame_count = 0;
    maker->blocks_done = 0;
    maker->wide_count = 0;
    maker->key_count = 0;
    maker->dense_count = 0;
}

spsh_status spsh__fingerprint_new(uint32_t rate_hz, spsh__print_sink sink,
                                  spsh__fingerprint **ret_maker, spsh_error *err)
{
    void *memory = NULL;
    if (posix_memalign(&memory, sizeof(spsh__lanes), sizeof(spsh__fingerprint)) != 0)
        return SPSH_NO_MEMORY(err);
    spsh__fingerprint *maker = memory;
    memset(maker, 0, sizeof(*maker));
    maker->sink = sink;
    const spsh_status rc = spsh__resample8k_new(rate_hz, &maker->resampler, err);
    if (rc != SPSH_OK) {
        free(maker);
        return rc;
    }
    spsh__fft_circle_init(&maker->circle);
    make_log_table(maker->log_table);
    maker->dense = (analysis){.size = DENSE_SIZE,
                              .band_count = DENSE_BANDS,
                              .floor = dense_floor,
                              .edges = dense_edges,
                              .window = maker->dense_window,
                              .position = maker->dense_position};
    maker->wide = (analysis){.size = WIDE_SIZE,
                             .band_count = WIDE_BANDS,
                             .floor = wide_floor,
                             .edges = wide_edges,
                             .window = maker->wide_window,
                             .position = maker->wide_position};
    init_analysis(&maker->dense);
    init_analysis(&maker->wide);
    *ret_maker = maker;
    return SPSH_OK;
}

void spsh__fingerprint_free(spsh__fingerprint *maker)
{
    if (maker == NULL)
        return;
    spsh__resample8k_free(maker->resampler);
    free(maker);
}

/* Sum the energies of one band separately for the even and the odd frames of all lanes. */
static void sum_band(const spsh__fingerprint *maker, const analysis *kind, uint32_t band,
                     spsh__lanes *ret_even, spsh__lanes *ret_odd)
{
    spsh__lanes even = {0};
    spsh__lanes odd = {0};
    for (size_t bin = kind->edges[band]; bin < kind->edges[band + 1]; bin++) {
        const size_t here = kind->position[2 * bin];
        const size_t mirror = kind->position[2 * bin + 1];
        const spsh__lanes a = maker->re[here] + maker->re[mirror];
        const spsh__lanes b = maker->im[here] - maker->im[mirror];
        const spsh__lanes c = maker->re[here] - maker->re[mirror];
        const spsh__lanes d = maker->im[here] + maker->im[mirror];
        even = even + (a * a + b * b);
        odd = odd + (c * c + d * d);
    }
    *ret_even = even;
    *ret_odd = odd;
}

/* Analyze the frames of the group into kind->logs and kind->totals. */
static void analyse(spsh__fingerprint *maker, analysis *kind)
{
    const size_t hop = SPSH__PRINT_HOP;
    const float *x = maker->samples;
    const size_t slot = maker->group_frame % (LAG + GROUP);
    spsh__lanes total[2] = {{0}, {0}};

    for (size_t n = 0; n < kind->size; n++) {
        const float *s = x + n;
        const float w = kind->window[n];
        maker->re[n] = (spsh__lanes){s[0], s[2 * hop], s[4 * hop], s[6 * hop]} * w;
        maker->im[n] = (spsh__lanes){s[hop], s[3 * hop], s[5 * hop], s[7 * hop]} * w;
    }
    spsh__fft_lanes(&maker->circle, maker->re, maker->im, kind->size);
    for (uint32_t band = 0; band < kind->band_count; band++) {
        const float floor = kind->floor * (float)(kind->edges[band + 1] - kind->edges[band]);
        spsh__lanes sum[2];
        sum_band(maker, kind, band, &sum[0], &sum[1]);
        for (size_t part = 0; part < 2; part++) {
            total[part] = total[part] + sum[part];
            const spsh__lanes raised = sum[part] + floor;
            for (size_t lane = 0; lane < SPSH__LANES; lane++)
                kind->logs[slot + 2 * lane + part][band] = log_of(maker->log_table, raised[lane]);
        }
    }
    for (size_t i = 0; i < GROUP; i++)
        kind->totals[slot + i] = log_of(maker->log_table, total[i % 2][i / 2] + 1.0F);
}

/* Return the difference of bands b and b + 1 in this frame, minus the same difference LAG frames
 * before. */
static int32_t difference(const analysis *kind, uint64_t frame, uint32_t band)
{
    const int32_t *now = kind->logs[(frame + LAG) % (LAG + GROUP)];
    const int32_t *before = kind->logs[frame % (LAG + GROUP)];
    return (now[band] - now[band + 1]) - (before[band] - before[band + 1]);
}

/* Positions of the smallest differences so far, in ascending order of the difference. */
typedef struct weakest {
    int32_t least[SPSH__WORD_WEAK]; /* capacity for the longest list in use */
    uint8_t places[SPSH__WORD_WEAK];
    size_t count;
} weakest;

static void begin_weakest(weakest *found)
{
    for (size_t i = 0; i < found->count; i++)
        found->least[i] = INT32_MAX;
}

/* Offer the next position, with the difference that decides its bit. */
static void weigh(weakest *found, uint32_t place, int32_t value)
{
    const int32_t size = value < 0 ? -value : value;
    size_t i = found->count;
    for (; i > 0 && size < found->least[i - 1]; i--) {
        if (i == found->count)
            continue;
        found->least[i] = found->least[i - 1];
        found->places[i] = found->places[i - 1];
    }
    if (i == found->count)
        return;
    found->least[i] = size;
    found->places[i] = (uint8_t)place;
}

static void add_print_frame(spsh__fingerprint *maker)
{
    const uint64_t i = maker->frame_count++;
    uint32_t word = 0;
    weakest found = {.count = SPSH__WORD_WEAK};
    begin_weakest(&found);
    for (uint32_t band = 0; band + 1 < DENSE_BANDS; band++) {
        const int32_t value = difference(&maker->dense, i, band);
        word |= (uint32_t)(value > 0) << band;
        if (maker->sink.word_fn != NULL)
            weigh(&found, band, value);
    }
    memcpy(maker->waiting_weak[i % FRAMES_WAITING], found.places, sizeof(found.places));

    const int32_t total = maker->dense.totals[(i + LAG / 2) % (LAG + GROUP)];
    int32_t level = total < LEVEL_ZERO ? 0 : (total - LEVEL_ZERO) >> LEVEL_SHIFT;
    if (level > LEVEL_MAX)
        level = LEVEL_MAX;

    uint8_t *loudest = &maker->loudest[i / BLOCK % BLOCKS_KEPT];
    if (i % BLOCK == 0)
        *loudest = 0;
    if (level > *loudest)
        *loudest = (uint8_t)level;
    maker->waiting[i % FRAMES_WAITING] = (spsh__print_frame){.word = word, .level = (uint8_t)level};
}

/* Find the weak_count smallest differences of a key at positions from first_place on. `order` lists
 * the wide frames, starting with the frame of the lowest bits. */
static void find_weak(const wide_frame *const *order, uint32_t first_place, uint8_t *weak,
                      size_t weak_count)
{
    weakest found = {.count = weak_count};
    begin_weakest(&found);
    for (uint32_t place = first_place; place < SPSH__KEY_BITS; place++)
        weigh(&found, place, order[place / WIDE_BITS]->differences[place % WIDE_BITS]);
    memcpy(weak, found.places, weak_count);
}

static const wide_frame *wide_at(const spsh__fingerprint *maker, uint64_t u)
{
    return &maker->wides[u % WIDE_KEPT];
}

static int64_t strength_at(const spsh__fingerprint *maker, uint64_t u)
{
    return (int64_t)wide_at(maker, u - 1)->strength + wide_at(maker, u)->strength +
           wide_at(maker, u + 1)->strength;
}

static bool is_peak(const spsh__fingerprint *maker, uint64_t u)
{
    const int64_t here = strength_at(maker, u);
    for (uint64_t k = 1; k <= PEAK_REACH; k++)
        if (here <= strength_at(maker, u - k) || here < strength_at(maker, u + k))
            return false;
    return true;
}

/* Return the bits of a key at wide frame u. `order` receives the frames that the bits come from. */
static uint64_t key_bits(const spsh__fingerprint *maker, uint64_t u, const wide_frame *order[3])
{
    uint64_t bits = 0;
    order[0] = wide_at(maker, u + KEY_MIDDLE);
    order[1] = wide_at(maker, u + KEY_REACH);
    order[2] = wide_at(maker, u);
    for (uint32_t i = 0; i < 3; i++)
        bits |= (uint64_t)order[i]->bits << (i * WIDE_BITS);
    return bits;
}

static void add_dense_key(spsh__fingerprint *maker, uint64_t u)
{
    const wide_frame *order[3];
    spsh__dense_key *key = &maker->dense_keys[maker->dense_count++];
    *key = (spsh__dense_key){.frame = u + WIDE_AHEAD};
    key->bits = key_bits(maker, u, order);
    find_weak(order, WIDE_BITS, key->weak, SPSH__DENSE_WEAK);
}

static void add_wide_frame(spsh__fingerprint *maker)
{
    const uint64_t newest = maker->wide_count++;
    wide_frame *wide = &maker->wides[newest % WIDE_KEPT];
    wide->strength = 0;
    wide->bits = 0;
    for (uint32_t band = 0; band < WIDE_BITS; band++) {
        const int32_t value = difference(&maker->wide, newest, band);
        wide->differences[band] = value;
        wide->strength += value < 0 ? -value : value;
        wide->bits = (uint16_t)(wide->bits | (value > 0) << band);
    }

    if (newest >= KEY_REACH && maker->sink.dense_fn != NULL)
        add_dense_key(maker, newest - KEY_REACH);
    const uint64_t u = newest - KEY_REACH;
    if (newest < KEY_REACH + PEAK_REACH + 1 || !is_peak(maker, u))
        return;
    const wide_frame *order[3];
    spsh__print_key *key = &maker->keys[maker->key_count++];
    *key = (spsh__print_key){.frame = u + WIDE_AHEAD};
    key->bits = key_bits(maker, u, order);
    find_weak(order, 0, key->weak, SPSH__KEY_WEAK_MAX);
}

/* Pass the keys before frame `end` whose frame is active. frames: the frames of the block that ends
 * at `end`. */
static spsh_status give_keys(spsh__fingerprint *maker, const spsh__print_frame *frames,
                             uint64_t end, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t given = 0;
    for (; rc == SPSH_OK && given < maker->key_count; given++) {
        const spsh__print_key *key = &maker->keys[given];
        if (key->frame >= end)
            break;
        if (maker->sink.key_fn != NULL && frames[key->frame % BLOCK].is_active)
            rc = maker->sink.key_fn(maker->sink.user, key, err);
    }
    maker->key_count -= given;
    memmove(maker->keys, maker->keys + given, maker->key_count * sizeof(maker->keys[0]));
    return rc;
}

static spsh_status give_dense_keys(spsh__fingerprint *maker, const spsh__print_frame *frames,
                                   uint64_t end, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t given = 0;
    for (; rc == SPSH_OK && given < maker->dense_count; given++) {
        const spsh__dense_key *key = &maker->dense_keys[given];
        if (key->frame >= end)
            break;
        if (frames[key->frame % BLOCK].is_active)
            rc = maker->sink.dense_fn(maker->sink.user, key, err);
    }
    maker->dense_count -= given;
    memmove(maker->dense_keys, maker->dense_keys + given,
            maker->dense_count * sizeof(maker->dense_keys[0]));
    return rc;
}

static spsh_status give_words(spsh__fingerprint *maker, uint64_t first, size_t count,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        const size_t at = (size_t)((first + i) % FRAMES_WAITING);
        spsh__weak_word word = {.frame = first + i, .word = maker->waiting[at].word};
        memcpy(word.weak, maker->waiting_weak[at], sizeof(word.weak));
        if (maker->waiting[at].is_active)
            rc = maker->sink.word_fn(maker->sink.user, &word, err);
    }
    return rc;
}

/* Pass the block `blocks_done` and its keys to the sink. */
static spsh_status give_block(spsh__fingerprint *maker, spsh_error *err)
{
    const uint64_t block = maker->blocks_done++;
    const uint64_t first = block * BLOCK;
    const uint64_t last_block = (maker->frame_count - 1) / BLOCK;
    const uint64_t left = maker->frame_count - first;
    const size_t count = left < BLOCK ? (size_t)left : BLOCK;
    spsh__print_frame *frames = &maker->waiting[first % FRAMES_WAITING];
    spsh_status rc = SPSH_OK;
    int32_t reference = 0;

    for (uint64_t b = block < BLOCKS_NEAR ? 0 : block - BLOCKS_NEAR;
         b <= last_block && b <= block + BLOCKS_NEAR; b++)
        if (maker->loudest[b % BLOCKS_KEPT] > reference)
            reference = maker->loudest[b % BLOCKS_KEPT];
    for (size_t i = 0; i < count; i++)
        frames[i].is_active = frames[i].level >= SPSH__LEVEL_FLOOR &&
                              frames[i].level >= reference - SPSH__LEVEL_RANGE;
    if (maker->sink.frames_fn != NULL)
        rc = maker->sink.frames_fn(maker->sink.user, first, frames, count, err);

    if (rc == SPSH_OK && maker->sink.word_fn != NULL)
        rc = give_words(maker, first, count, err);
    if (rc == SPSH_OK)
        rc = give_keys(maker, frames, first + count, err);
    return rc == SPSH_OK ? give_dense_keys(maker, frames, first + count, err) : rc;
}

/* Process one group of frames. dense_end, wide_end: number of frames of each kind that the
 * recording is known to have. */
static spsh_status take_group(spsh__fingerprint *maker, uint64_t dense_end, uint64_t wide_end,
                              spsh_error *err)
{
    const uint64_t group_end = maker->group_frame + GROUP;

    analyse(maker, &maker->dense);
    analyse(maker, &maker->wide);
    while (maker->frame_count + LAG < group_end && maker->frame_count + LAG < dense_end)
        add_print_frame(maker);
    while (maker->wide_count + LAG < group_end && maker->wide_count + LAG < wide_end)
        add_wide_frame(maker);
    maker->group_frame = group_end;
    if (maker->sample_count > GROUP_HOP) {
        const size_t rest = maker->sample_count - GROUP_HOP;
        memmove(maker->samples, maker->samples + GROUP_HOP, rest * sizeof(maker->samples[0]));
        maker->sample_count = rest;
    } else {
        maker->sample_count = 0;
    }
    while (maker->frame_count >= (maker->blocks_done + BLOCKS_NEAR + 1) * BLOCK) {
        spsh_status rc = give_block(maker, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

static spsh_status take_samples(spsh__fingerprint *maker, const int32_t *samples, size_t count,
                                spsh_error *err)
{
    for (size_t i = 0; i < count; i++)
        maker->samples[maker->sample_count + i] = (float)samples[i];
    maker->sample_count += count;
    maker->sample_total += count;
    if (maker->sink.samples_fn != NULL && count > 0) {
        spsh_status rc = maker->sink.samples_fn(maker->sink.user, samples, count, err);
        if (rc != SPSH_OK)
            return rc;
    }
    while (maker->sample_count >= GROUP_SPAN) {
        spsh_status rc = take_group(maker, UINT64_MAX, UINT64_MAX, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

spsh_status spsh__fingerprint_push(spsh__fingerprint *maker, const int16_t *samples, size_t count,
                                   spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    int32_t piece[SPSH__RESAMPLE_OUT_MAX];

    while (rc == SPSH_OK && count > 0) {
        const size_t taken = count < SPSH__RESAMPLE_IN_MAX ? count : SPSH__RESAMPLE_IN_MAX;
        const size_t made = spsh__resample8k_push(maker->resampler, samples, taken, piece);
        rc = take_samples(maker, piece, made, err);
        samples += taken;
        count -= taken;
    }
    return rc;
}

static uint64_t frames_of(uint64_t samples, uint64_t size)
{
    return samples < size ? 0 : (samples - size) / SPSH__PRINT_HOP + 1;
}

spsh_status spsh__fingerprint_finish(spsh__fingerprint *maker, spsh_error *err)
{
    int32_t piece[SPSH__RESAMPLE_OUT_MAX];
    const size_t made = spsh__resample8k_finish(maker->resampler, piece);
    spsh_status rc = take_samples(maker, piece, made, err);
    const uint64_t dense_end = frames_of(maker->sample_total, DENSE_SIZE);
    const uint64_t wide_end = frames_of(maker->sample_total, WIDE_SIZE);

    while (rc == SPSH_OK && maker->group_frame < dense_end) {
        memset(maker->samples + maker->sample_count, 0,
               (GROUP_SPAN - maker->sample_count) * sizeof(maker->samples[0]));
        rc = take_group(maker, dense_end, wide_end, err);
    }
    while (rc == SPSH_OK && maker->blocks_done * BLOCK < maker->frame_count)
        rc = give_block(maker, err);
    forget(maker);
    return rc;
}

static spsh_status collect_frames(void *user, uint64_t first, const spsh__print_frame *frames,
                                  size_t count, spsh_error *err)
{
    spsh__print *print = user;
    (void)first;
    if (!SPSH_GROW(print->frames, print->frame_capacity, print->frame_count + count))
        return SPSH_NO_MEMORY(err);
    memcpy(print->frames + print->frame_count, frames, count * sizeof(*frames));
    print->frame_count += count;
    return SPSH_OK;
}

static spsh_status collect_key(void *user, const spsh__print_key *key, spsh_error *err)
{
    spsh__print *print = user;
    if (!SPSH_GROW(print->keys, print->key_capacity, print->key_count + 1))
        return SPSH_NO_MEMORY(err);
    print->keys[print->key_count++] = *key;
    return SPSH_OK;
}

static spsh_status collect_samples(void *user, const int32_t *samples, size_t count,
                                   spsh_error *err)
{
    spsh__print *print = user;
    if (!SPSH_GROW(print->samples, print->sample_capacity, print->sample_count + count))
        return SPSH_NO_MEMORY(err);
    memcpy(print->samples + print->sample_count, samples, count * sizeof(*samples));
    print->sample_count += count;
    return SPSH_OK;
}

spsh__print_sink spsh__print_collect(spsh__print *print)
{
    return (spsh__print_sink){.frames_fn = collect_frames, .key_fn = collect_key, .user = print};
}

spsh__print_sink spsh__print_collect_all(spsh__print *print)
{
    spsh__print_sink sink = spsh__print_collect(print);
    sink.samples_fn = collect_samples;
    return sink;
}

spsh_status spsh__print_make(uint32_t rate_hz, const int16_t *samples, size_t count,
                             spsh__print *print, spsh_error *err)
{
    spsh__fingerprint *maker = NULL;
    spsh_status rc = spsh__fingerprint_new(rate_hz, spsh__print_collect_all(print), &maker, err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_push(maker, samples, count, err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_finish(maker, err);
    spsh__fingerprint_free(maker);
    return rc;
}

void spsh__print_free(spsh__print *print)
{
    free(print->frames);
    free(print->keys);
    free(print->samples);
    *print = (spsh__print){0};
}
