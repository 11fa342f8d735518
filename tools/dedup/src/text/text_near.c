/* text_near.c: the band keys of all texts in buckets, and the texts themselves.
 *
 *     texts     the normalized texts, concatenated; text i ends at ends[i]
 *     keys      32 band keys per text, only while texts are added
 *     shapes    per text: its length, and how often each of 28 sets of code points occurs
 *     filter    per band: a Bloom filter with two bits per key (16 bits per bucket), which rejects
 *               most keys
 *     starts    per band: the position of each bucket in the entries of the band
 *     entries   per band: (text, upper 32 bits of the key), by bucket, then ascending
 *
 * The lower bits of a key select the bucket. Memory: 500 bytes per text and the text itself, and
 * another 256 bytes per text until finish.
 *
 * An edit changes at most one count of a shape by one up and another by one down. So shapes give a
 * lower bound of the distance, which excludes texts that only share a phrase without reading them.
 */
#include "text_near.h"

#include <stdlib.h>

#include "common/edit_distance.h"
#include "minhash.h"
#include "speechshard/inside.h"

enum { BANDS = SPSH__MINHASH_BANDS, TEXTS_MAX = 1 << 27, BUCKET_BITS_MIN = 6, SETS = 28 };

typedef struct entry {
    uint32_t text, tag;
} entry;

typedef struct shape {
    uint32_t size;        /* code points; 0: too short or too long to be near any text */
    uint8_t counts[SETS]; /* saturates at 255 */
} shape;

struct spsh__text_near {
    spsh_text_profile profile;
    spsh__builder texts, keys;
    spsh__builder ends;   /* array of uint64_t */
    spsh__builder shapes; /* array of shape */
    size_t count;
    uint64_t *filter;
    uint32_t *starts;
    entry *entries;
    unsigned bucket_bits;
};

struct spsh__near_probe {
    const spsh__text_near *near;
    spsh__near_text *found;
    uint32_t candidates[SPSH__NEAR_CANDIDATES_MAX];
    size_t candidate_count;
    uint32_t *stamps; /* per text: the last probe that had it as a candidate */
    uint32_t stamp;
    uint32_t text[SPSH__NEAR_POINTS_MAX], other[SPSH__NEAR_POINTS_MAX];
    uint32_t row[2 * SPSH__NEAR_POINTS_MAX]; /* row of the distance table; more than 2 * limit + 3,
                                                as the limit is 15 % */
};

/* Decode the text, which must be well-formed UTF-8. Returns 0 if it has too few or too many code
 * points. */
static size_t take_points(spsh_text_profile profile, spsh_bytes text, uint32_t *points)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size_bytes;) {
        const uint8_t byte = text.data[i];
        const unsigned size = 1U + (byte >= 0xc0) + (byte >= 0xe0) + (byte >= 0xf0);
        uint32_t point = size == 1 ? byte : byte & (0xffU >> (size + 1));
        for (unsigned k = 1; k < size; k++)
            point = point << 6 | (text.data[i + k] & 0x3fU);
        i += size;
        if (profile == SPSH_TEXT_PROFILE_CJK && point == ' ')
            continue;
        if (count == SPSH__NEAR_POINTS_MAX)
            return 0;
        points[count++] = point;
    }
    return count < SPSH__MINHASH_GRAM ? 0 : count;
}

static shape shape_of(const uint32_t *points, size_t size)
{
    shape s = {.size = (uint32_t)size};
    for (size_t i = 0; i < size; i++) {
        uint8_t *count = &s.counts[points[i] % SETS];
        *count = (uint8_t)(*count + (*count < UINT8_MAX));
    }
    return s;
}

/* Return a lower bound of the edit distance. */
static size_t distance_least(const shape *a, const shape *b)
{
    unsigned sum = a->size > b->size ? a->size - b->size : b->size - a->size;
    for (unsigned i = 0; i < SETS; i++)
        sum += a->counts[i] > b->counts[i] ? (unsigned)(a->counts[i] - b->counts[i])
                                           : (unsigned)(b->counts[i] - a->counts[i]);
    return sum / 2;
}

spsh__text_near *spsh__text_near_new(spsh_text_profile profile)
{
    spsh__text_near *near = calloc(1, sizeof(*near));
    if (near != NULL)
        near->profile = profile;
    return near;
}

spsh_status spsh__text_near_add(spsh__text_near *near, uint32_t number, spsh_bytes text,
                                spsh_error *err)
{
    uint32_t points[SPSH__NEAR_POINTS_MAX];
    uint64_t keys[BANDS] = {0};
    spsh__minhash minhash;
    if (number >= TEXTS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the test side has more than %d different texts",
                         TEXTS_MAX);
    while (near->count <= number) {
        const bool is_this = near->count == number;
        const size_t size = is_this ? take_points(near->profile, text, points) : 0;
        if (size > 0) {
            spsh__minhash_of(points, size, &minhash);
            spsh__minhash_bands(&minhash, keys);
            spsh__builder_append_bytes(&near->texts, text);
        }
        const uint64_t end = near->texts.size_bytes;
        const shape form = shape_of(points, size);
        spsh__builder_append(&near->keys, keys, sizeof(keys));
        spsh__builder_append(&near->ends, &end, sizeof(end));
        spsh__builder_append(&near->shapes, &form, sizeof(form));
        near->count++;
    }
    if (near->texts.failed || near->keys.failed || near->ends.failed || near->shapes.failed)
        return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

static const shape *shapes_of(const spsh__text_near *near)
{
    return (const shape *)(const void *)near->shapes.data;
}

static size_t bucket_of(const spsh__text_near *near, uint64_t key)
{
    return (size_t)key & (((size_t)1 << near->bucket_bits) - 1);
}

/* Return the word of the filter for a key. The filter has 16 bits per bucket. */
static uint64_t *filter_word(const spsh__text_near *near, unsigned band, uint64_t key)
{
    const size_t words = (size_t)1 << near->bucket_bits >> 2;
    return near->filter + band * words + ((size_t)(key >> 20) & (words - 1));
}

static uint64_t filter_bits(uint64_t key)
{
    return UINT64_C(1) << (key >> 52 & 63) | UINT64_C(1) << (key >> 58);
}

static uint32_t tag_of(uint64_t key)
{
    return (uint32_t)(key >> 32);
}

static void fill_band(spsh__text_near *near, unsigned band)
{
    const uint64_t *keys = (const uint64_t *)(const void *)near->keys.data;
    const shape *shapes = shapes_of(near);
    const size_t buckets = (size_t)1 << near->bucket_bits;
    uint32_t *starts = near->starts + band * (buckets + 2);
    entry *entries = near->entries + band * near->count;
    for (size_t text = 0; text < near->count; text++) {
        if (shapes[text].size > 0)
            starts[bucket_of(near, keys[text * BANDS + band]) + 2]++;
    }
    for (size_t i = 2; i < buckets + 2; i++)
        starts[i] += starts[i - 1];
    for (size_t text = 0; text < near->count; text++) {
        const uint64_t key = keys[text * BANDS + band];
        if (shapes[text].size == 0)
            continue;
        entries[starts[bucket_of(near, key) + 1]++] = (entry){(uint32_t)text, tag_of(key)};
        *filter_word(near, band, key) |= filter_bits(key);
    }
}

spsh_status spsh__text_near_finish(spsh__text_near *near, spsh_error *err)
{
    near->bucket_bits = BUCKET_BITS_MIN;
    while (((size_t)1 << near->bucket_bits) < near->count)
        near->bucket_bits++;
    const size_t buckets = (size_t)1 << near->bucket_bits;
    near->filter = calloc(BANDS * buckets / 4, sizeof(*near->filter));
    near->starts = calloc(BANDS * (buckets + 2), sizeof(*near->starts));
    near->entries = malloc((BANDS * near->count + 1) * sizeof(*near->entries));
    if (near->filter == NULL || near->starts == NULL || near->entries == NULL)
        return SPSH_NO_MEMORY(err);
    for (unsigned band = 0; band < BANDS; band++)
        fill_band(near, band);
    spsh__builder_free(&near->keys);
    return SPSH_OK;
}

uint64_t spsh__text_near_bytes(const spsh__text_near *near)
{
    const uint64_t buckets = near->starts == NULL ? 0 : (uint64_t)1 << near->bucket_bits;
    return near->texts.capacity_bytes + near->ends.capacity_bytes + near->shapes.capacity_bytes +
           near->keys.capacity_bytes + near->count * BANDS * sizeof(entry) + BANDS * buckets * 6;
}

void spsh__text_near_free(spsh__text_near *near)
{
    if (near == NULL)
        return;
    spsh__builder_free(&near->texts);
    spsh__builder_free(&near->keys);
    spsh__builder_free(&near->ends);
    spsh__builder_free(&near->shapes);
    free(near->filter);
    free(near->starts);
    free(near->entries);
    free(near);
}

spsh__near_probe *spsh__near_probe_new(const spsh__text_near *near)
{
    spsh__near_probe *probe = calloc(1, sizeof(*probe));
    if (probe == NULL)
        return NULL;
    probe->near = near;
    probe->stamps = calloc(near->count + 1, sizeof(*probe->stamps));
    probe->found = malloc(SPSH__NEAR_CANDIDATES_MAX * sizeof(*probe->found));
    if (probe->stamps == NULL || probe->found == NULL) {
        spsh__near_probe_free(probe);
        return NULL;
    }
    return probe;
}

void spsh__near_probe_free(spsh__near_probe *probe)
{
    if (probe == NULL)
        return;
    free(probe->stamps);
    free(probe->found);
    free(probe);
}

/* Add the texts with this key in the band to the candidates. Returns false if there are too many.
 */
static bool take_band(spsh__near_probe *probe, unsigned band, uint64_t key)
{
    const spsh__text_near *near = probe->near;
    if ((~*filter_word(near, band, key) & filter_bits(key)) != 0)
        return true;
    const size_t buckets = (size_t)1 << near->bucket_bits;
    const uint32_t *start = near->starts + band * (buckets + 2) + bucket_of(near, key);
    for (size_t i = start[0]; i < start[1]; i++) {
        const entry *e = &near->entries[band * near->count + i];
        if (e->tag != tag_of(key) || probe->stamps[e->text] == probe->stamp)
            continue;
        if (probe->candidate_count == SPSH__NEAR_CANDIDATES_MAX)
            return false;
        probe->stamps[e->text] = probe->stamp;
        probe->candidates[probe->candidate_count++] = e->text;
    }
    return true;
}

static bool is_near(spsh__near_probe *probe, const shape *form, uint32_t number,
                    double *ret_similarity)
{
    const spsh__text_near *near = probe->near;
    const uint64_t *ends = (const uint64_t *)(const void *)near->ends.data;
    const shape *other_form = &shapes_of(near)[number];
    const uint32_t longer = form->size > other_form->size ? form->size : other_form->size;
    const size_t limit = (size_t)(SPSH__NEAR_DISTANCE * longer);
    if (distance_least(form, other_form) > limit)
        return false;
    const uint64_t begin = number == 0 ? 0 : ends[number - 1];
    const spsh_bytes other = {near->texts.data + begin, (size_t)(ends[number] - begin)};
    (void)take_points(near->profile, other, probe->other);
    const spsh__points a = {probe->text, form->size};
    const spsh__points b = {probe->other, other_form->size};
    const size_t distance = spsh__edit_distance(a, b, limit, probe->row);
    *ret_similarity = 1 - (double)distance / longer;
    return distance <= limit;
}

static int compare_found(const void *left, const void *right)
{
    const spsh__near_text *l = left;
    const spsh__near_text *r = right;
    return (l->number > r->number) - (l->number < r->number);
}

size_t spsh__near_probe_text(spsh__near_probe *probe, spsh_bytes text,
                             const spsh__near_text **ret_texts, bool *ret_crowded)
{
    spsh__minhash minhash;
    uint64_t keys[BANDS];
    size_t count = 0;
    const size_t size = take_points(probe->near->profile, text, probe->text);
    *ret_texts = probe->found;
    *ret_crowded = false;
    if (size == 0 || probe->near->count == 0)
        return 0;
    spsh__minhash_of(probe->text, size, &minhash);
    spsh__minhash_bands(&minhash, keys);
    for (unsigned band = 0; band < BANDS; band++)
        __builtin_prefetch(filter_word(probe->near, band, keys[band]));
    probe->candidate_count = 0;
    if (++probe->stamp == 0) {
        memset(probe->stamps, 0, probe->near->count * sizeof(*probe->stamps));
        probe->stamp = 1;
    }
    for (unsigned band = 0; band < BANDS && !*ret_crowded; band++)
        *ret_crowded = !take_band(probe, band, keys[band]);
    const shape form = shape_of(probe->text, size);
    for (size_t i = 0; i < probe->candidate_count; i++) {
        spsh__near_text *found = &probe->found[count];
        found->number = probe->candidates[i];
        count += is_near(probe, &form, found->number, &found->similarity);
    }
    if (count > 1)
        qsort(probe->found, count, sizeof(*probe->found), compare_found);
    return count;
}
