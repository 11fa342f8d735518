/* contour_keys.c: anchors, then three kinds of bits per anchor, from the lowest:
 *
 *     words      8    the sum of four adjacent print bits over 7 frames is positive; nearer frames
 *                     count more
 *     contour   24    the smoothed level 4, 8, 12, and 16 frames before and after the anchor is
 *                     above each of three thresholds, relative to the anchor
 *     position  10    distances of the anchor from both ends, in units of 6 frames, as Gray codes:
 *                     a distance near the border of a unit has one weak bit
 *
 * Each bit has a margin: its distance from the threshold, in units of the standard deviation that
 * codecs cause (1.8 levels, 1.5 frames, 20 of a word's 64), times 36. The bits with the smallest
 * margins are the weak ones.
 */
#include "contour_keys.h"

#include <stdlib.h>
#include <string.h>

enum {
    ACTIVE_MIN = 17, /* active frames: 0.5 s of speech, which the judge needs */
    MOMENT = 6,      /* frames on each side of an anchor whose levels balance */
    RANGE = 16,      /* frames on each side that the contour covers */
    STEP = 4,        /* frames between two points of the contour */
    BELOW = 40,      /* levels below the anchor's that count as silence */
    SMOOTH = 3,      /* frames on each side of the words that are summed */
    GROUP = 4,       /* print bits per sum */
    UNIT = 6,        /* frames per unit of a distance */
    POSITION_BITS = 5,
    SURE = 1 << 20, /* a margin that no other bit reaches */
};
static const int thresholds[] = {-3, -9, -18}; /* levels of 0.75 dB */
enum { THRESHOLDS = sizeof(thresholds) / sizeof(thresholds[0]) };

typedef struct bits {
    int32_t margins[SPSH__CONTOUR_BITS]; /* negative: the bit is 0 */
    size_t count;
} bits;

/* Return the amplitude of a level: a factor of two per 6 dB. */
static int64_t amplitude(const spsh__print_frame *frame)
{
    static const uint16_t steps[] = {256, 279, 304, 332, 362, 395, 431, 470};
    return (int64_t)steps[frame->level & 7] << (frame->level >> 3);
}

/* Return the moment of the amplitudes around a frame. It is positive before a maximum. */
static int64_t moment_at(const spsh__print_frame *frames, size_t count, size_t at)
{
    int64_t sum = 0;
    for (size_t k = 1; k <= MOMENT; k++) {
        if (at + k < count)
            sum += (int64_t)k * amplitude(&frames[at + k]);
        if (at >= k)
            sum -= (int64_t)k * amplitude(&frames[at - k]);
    }
    return sum;
}

/* Insert an anchor. If there are too many, drop the softest one, and the last of equals. */
static size_t add_anchor(const spsh__print_frame *frames, uint32_t *anchors, size_t count,
                         uint32_t frame)
{
    size_t softest = count;
    anchors[count++] = frame;
    if (count <= SPSH__CONTOUR_KEYS_MAX)
        return count;
    for (size_t i = count; i-- > 0;)
        if (frames[anchors[i]].level < frames[anchors[softest]].level)
            softest = i;
    memmove(anchors + softest, anchors + softest + 1, (count - 1 - softest) * sizeof(*anchors));
    return count - 1;
}

/* Find the frames at which the moment changes its sign. */
static size_t find_anchors(const spsh__print_frame *frames, size_t frame_count,
                           uint32_t anchors[SPSH__CONTOUR_KEYS_MAX + 1])
{
    int64_t last = 0;
    size_t count = 0;
    for (size_t i = 0; i < frame_count; i++) {
        const int64_t moment = moment_at(frames, frame_count, i);
        const bool turns = (last > 0 && moment <= 0) || (last < 0 && moment >= 0);
        if (i > 0 && turns && frames[i].is_active)
            count = add_anchor(frames, anchors, count,
                               (uint32_t)(llabs(last) < llabs(moment) ? i - 1 : i));
        last = moment;
    }
    return count;
}

static int level_at(const spsh__print_frame *frames, size_t count, int64_t at)
{
    const int64_t end = (int64_t)count - 1;
    return frames[at < 0 ? 0 : at > end ? end : at].level;
}

static void add_bit(bits *key, int32_t margin, bool is_set)
{
    key->margins[key->count++] = is_set ? margin : -margin - 1;
}

static void add_words(bits *key, const spsh__print_frame *frames, size_t count, int64_t anchor)
{
    const int64_t end = (int64_t)count - 1;
    for (size_t first = 0; first < 32; first += GROUP) {
        int32_t sum = 0;
        for (int64_t k = -SMOOTH; k <= SMOOTH; k++) {
            const int64_t at = anchor + k < 0 ? 0 : anchor + k > end ? end : anchor + k;
            const uint32_t group = frames[at].word >> first & ((1U << GROUP) - 1);
            const int32_t weight = (int32_t)(SMOOTH + 1 - llabs(k));
            sum += weight * (2 * __builtin_popcount(group) - GROUP);
        }
        add_bit(key, 9 * abs(sum) / 5, sum > 0);
    }
}

static void add_contour(bits *key, const spsh__print_frame *frames, size_t count, int64_t anchor)
{
    int top = 0; /* in quarters of a level */
    for (int64_t k = -2; k <= 2; k++)
        top += level_at(frames, count, anchor + k);
    top = 4 * top / 5;
    for (int64_t k = -RANGE; k <= RANGE; k += STEP) {
        const int64_t at = anchor + k;
        int level = top - 4 * BELOW;
        if (k == 0)
            continue;
        if (at >= 0 && at < (int64_t)count) {
            const int smooth = level_at(frames, count, at - 1) + 2 * level_at(frames, count, at) +
                               level_at(frames, count, at + 1);
            level = smooth > level ? smooth : level;
        }
        for (size_t i = 0; i < THRESHOLDS; i++) {
            const int above = level - top - 4 * thresholds[i];
            add_bit(key, 5 * abs(above), above > 0);
        }
    }
}

static void add_distance(bits *key, int64_t frames)
{
    const uint32_t unit = (uint32_t)(frames / UNIT) + 1;
    const int32_t into = (int32_t)(frames % UNIT);
    const bool is_low = 2 * into < UNIT;
    const uint32_t code = unit ^ unit >> 1;
    const uint32_t next = is_low ? unit - 1 : unit + 1;
    const uint32_t other = code ^ next ^ next >> 1;
    const int32_t margin = 24 * (is_low ? into : UNIT - into);
    for (uint32_t i = 0; i < POSITION_BITS; i++)
        add_bit(key, (other >> i & 1) != 0 ? margin : SURE, (code >> i & 1) != 0);
}

static int32_t certainty(int32_t margin)
{
    return margin < 0 ? -margin - 1 : margin;
}

/* Turn margins into bits and the positions of the weakest ones; the lower position is the weaker of
 * equals. */
static void make_key(const bits *made, uint32_t anchor, spsh__contour_key *ret_key)
{
    size_t weak_count = 0;
    *ret_key = (spsh__contour_key){.frame = anchor};
    for (size_t i = 0; i < made->count; i++) {
        size_t at = weak_count;
        ret_key->bits |= (uint64_t)(made->margins[i] >= 0) << i;
        while (at > 0 &&
               certainty(made->margins[ret_key->weak[at - 1]]) > certainty(made->margins[i])) {
            if (at < SPSH__CONTOUR_WEAK)
                ret_key->weak[at] = ret_key->weak[at - 1];
            at--;
        }
        if (at < SPSH__CONTOUR_WEAK)
            ret_key->weak[at] = (uint8_t)i;
        if (weak_count < SPSH__CONTOUR_WEAK)
            weak_count++;
    }
}

size_t spsh__contour_keys_make(const spsh__print_frame *frames, size_t frame_count,
                               spsh__contour_key ret_keys[SPSH__CONTOUR_KEYS_MAX])
{
    uint32_t anchors[SPSH__CONTOUR_KEYS_MAX + 1];
    size_t active = 0;
    for (size_t i = 0; i < frame_count && active < ACTIVE_MIN; i++)
        active += frames[i].is_active;
    if (active < ACTIVE_MIN)
        return 0;
    const size_t count = find_anchors(frames, frame_count, anchors);
    for (size_t i = 0; i < count; i++) {
        bits made = {.count = 0};
        add_words(&made, frames, frame_count, anchors[i]);
        add_contour(&made, frames, frame_count, anchors[i]);
        add_distance(&made, anchors[i]);
        add_distance(&made, (int64_t)frame_count - 1 - anchors[i]);
        make_key(&made, anchors[i], &ret_keys[i]);
    }
    return count;
}
