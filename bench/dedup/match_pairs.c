/* match_pairs.c: results of fingerprint and alignment for pairs with known answers.
 *
 *     match_pairs copies LIST [SEED]
 *     match_pairs all LIST
 *
 * `copies`: each copy, whole and cut to 1, 2, and 3 s, against its source and against every other
 * source of its group. `all`: every two files of a group, all different (hard negatives). LIST:
 * recordings.h (copies_kit.py writes WORK/list.tsv). Output: a line of tab-separated values for each true pair,
 * and for each false pair that got a class other than none and reread or came close to one. Then a
 * summary. report.py makes tables.
 */
#include <inttypes.h>
#include <math.h>

#include "bench_kit.h"
#include "fingerprint/align.h"
#include "recordings.h"

enum { CLIP_KINDS = 4 };

/* Common keys of 48 bits, and of the upper 32. Each key may have one of its weak bits flipped. */
typedef struct key_hits {
    uint64_t keys48;
    uint64_t keys32;
} key_hits;

typedef struct tally {
    key_hits hits;
    uint64_t key_pairs;
    uint64_t pairs;
    uint64_t windows;    /* offsets compared */
    double window_pairs; /* pairs of one-second windows that do not overlap */
    uint64_t kinds[SPSH_COPY_CLASS_COUNT];
    double worst_ncc;
    double align_seconds;
    uint64_t aligned;
} tally;

static recording sources[SOURCES_MAX];
static size_t source_count;
static tally wrong_pairs;

/* Whether the upper `bits` of the keys are equal, with at most one weak bit of each flipped. */
static bool is_hit(const spsh__print_key *a, const spsh__print_key *b, uint32_t bits)
{
    const uint64_t mask = ((UINT64_C(1) << bits) - 1) << (SPSH__KEY_BITS - bits);
    for (size_t i = 0; i <= SPSH__KEY_WEAK_MAX; i++) {
        for (size_t k = 0; k <= SPSH__KEY_WEAK_MAX; k++) {
            const uint64_t a_turned = i == 0 ? 0 : UINT64_C(1) << a->weak[i - 1];
            const uint64_t b_turned = k == 0 ? 0 : UINT64_C(1) << b->weak[k - 1];
            if (((a->bits ^ b->bits ^ a_turned ^ b_turned) & mask) == 0)
                return true;
        }
    }
    return false;
}

/* Count hits within 3 frames of the offset. INT64_MAX: at any offset. */
static key_hits count_hits(const spsh__print *a, const spsh__print *b, int64_t offset)
{
    key_hits hits = {0};
    for (size_t i = 0; i < a->key_count; i++) {
        for (size_t k = 0; k < b->key_count; k++) {
            const int64_t at = (int64_t)b->keys[k].frame - (int64_t)a->keys[i].frame;
            if (offset != INT64_MAX && (at < offset - 3 || at > offset + 3))
                continue;
            hits.keys48 += is_hit(&a->keys[i], &b->keys[k], 48);
            hits.keys32 += is_hit(&a->keys[i], &b->keys[k], 32);
        }
    }
    return hits;
}

static void print_result(const char *truth, const recording *query, const char *other,
                         double clip_s, double start_s, const spsh__alignment *found, key_hits hits)
{
    printf("%s\t%s\t%s\t%s\t%s\t%.0f\t%.6f\t%s\t%.4f\t%.4f\t%.4f\t%.4f\t%.3f\t%.3f\t%.3f\t%.4f\t"
           "%.1f\t%.3f\t%.4f\t%.3f\t%.3f\t%.1f\t%.3f\t%" PRIu64 "\t%" PRIu64 "\n",
           truth, query->family, query->group, query->id, other, clip_s, start_s,
           spsh_copy_class_text(found->kind), found->ber, found->ncc, found->ncc_white,
           found->envelope, found->active_s, found->coverage_a, found->coverage_b,
           found->lag / 8000, found->drift.slope_ppm, found->drift.spread_ms, found->unscaled.ncc,
           found->drift.block_median, found->drift.block_share, found->words_hz, found->tonality,
           hits.keys48, hits.keys32);
}

/* Align a query with a source, and return the alignment. */
static spsh__alignment match(const spsh__print *query, const spsh__print *source)
{
    const spsh__align_limits *limits = &spsh__align_limits_default;
    spsh__alignment found = {0};
    int64_t offset = 0;
    if (spsh__align_search(query, source, limits, &offset)) {
        const double start = cpu_seconds();
        check_ok(spsh__align(query, source, offset, limits, &found, &failure));
        wrong_pairs.align_seconds += cpu_seconds() - start;
        wrong_pairs.aligned++;
    }
    return found;
}

static void match_wrong(const spsh__print *query, const recording *about, const recording *source,
                        double clip_s, double start_s)
{
    const spsh__alignment found = match(query, &source->print);
    const key_hits hits = count_hits(query, &source->print, INT64_MAX);
    wrong_pairs.hits.keys48 += hits.keys48;
    wrong_pairs.hits.keys32 += hits.keys32;
    wrong_pairs.key_pairs += (uint64_t)query->key_count * source->print.key_count;
    wrong_pairs.pairs++;
    wrong_pairs.windows += query->frame_count + source->print.frame_count;
    wrong_pairs.window_pairs +=
        (double)query->frame_count * (double)source->print.frame_count / SPSH__PRINT_HZ;
    wrong_pairs.kinds[found.kind]++;
    if (fabs(found.ncc) > wrong_pairs.worst_ncc)
        wrong_pairs.worst_ncc = fabs(found.ncc);
    if ((found.kind != SPSH_COPY_NONE && found.kind != SPSH_COPY_REREAD) || fabs(found.ncc) > 0.4 ||
        found.envelope > 0.2)
        print_result("false", about, source->id, clip_s, start_s, &found, hits);
}

static void match_copy(const recording *copy, double clip_s, double start_s,
                       const spsh__print *print)
{
    for (size_t i = 0; i < source_count; i++) {
        if (strcmp(sources[i].group, copy->group) != 0)
            continue;
        if (strcmp(sources[i].id, copy->id) != 0) {
            match_wrong(print, copy, &sources[i], clip_s, start_s);
            continue;
        }
        const spsh__alignment found = match(print, &sources[i].print);
        const int64_t offset = (int64_t)lrint(found.lag / SPSH__PRINT_HOP);
        print_result("true", copy, sources[i].id, clip_s, start_s, &found,
                     count_hits(print, &sources[i].print, offset));
    }
}

static void match_clips(const recording *copy, uint64_t *state)
{
    match_copy(copy, 0, 0, &copy->print);
    for (size_t seconds = 1; seconds < CLIP_KINDS; seconds++) {
        const size_t length = seconds * copy->rate_hz;
        if (length > copy->count)
            continue;
        spsh__print clip = {0};
        const size_t start = recording_clip_start(copy, &copy->print, length, state);
        check_ok(spsh__print_make(copy->rate_hz, copy->pcm + start, length, &clip, &failure));
        match_copy(copy, (double)seconds, (double)start / copy->rate_hz, &clip);
        spsh__print_free(&clip);
    }
}

static void match_all(void)
{
    for (size_t i = 0; i < source_count; i++)
        for (size_t k = i + 1; k < source_count; k++)
            if (strcmp(sources[i].group, sources[k].group) == 0)
                match_wrong(&sources[i].print, &sources[i], &sources[k], 0, 0);
}

static void take_source(void *user, const recording *file)
{
    (void)user;
    must(source_count < SOURCES_MAX, "too many sources");
    sources[source_count] = *file;
    recording_make_print(&sources[source_count++]);
}

static void take_copy(void *user, const recording *file)
{
    recording copy = *file;
    recording_make_print(&copy);
    match_clips(&copy, user);
    recording_free(&copy);
}

int main(int argc, char **argv)
{
    must(argc >= 3, "usage: match_pairs copies|all LIST [SEED]");
    const bool is_all = strcmp(argv[1], "all") == 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    recordings_read(argv[2], true, take_source, NULL);
    if (is_all)
        match_all();
    else
        recordings_read(argv[2], false, take_copy, &seed);

    printf("summary\tpairs\t%" PRIu64 "\twindows\t%" PRIu64
           "\twindow_pairs\t%.3g\tworst_ncc\t%.4f\talign_ms\t%.3f",
           wrong_pairs.pairs, wrong_pairs.windows, wrong_pairs.window_pairs, wrong_pairs.worst_ncc,
           wrong_pairs.aligned > 0 ? wrong_pairs.align_seconds * 1e3 / (double)wrong_pairs.aligned
                                   : 0);
    for (size_t i = 0; i < SPSH_COPY_CLASS_COUNT; i++)
        printf("\t%s\t%" PRIu64, spsh_copy_class_text((spsh_copy_class)i), wrong_pairs.kinds[i]);
    printf("\tkey_pairs\t%" PRIu64 "\thits48\t%" PRIu64 "\thits32\t%" PRIu64 "\n",
           wrong_pairs.key_pairs, wrong_pairs.hits.keys48, wrong_pairs.hits.keys32);
    for (size_t i = 0; i < source_count; i++)
        recording_free(&sources[i]);
    return 0;
}
