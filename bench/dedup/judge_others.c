/* judge_others.c: classes of pairs that are not copies, but as alike as can be found.
 *
 *     judge_others SHARE PLAIN CODED > table.tsv
 *
 * copy_others.py makes the datasets, and its ids name voice and word. Pairs have the voice or the
 * word in common, and at least one side is of PLAIN. The program judges all retakes, and one in
 * SHARE of the other pairs. spsh__judge_pair judges each pair as `dedupe` and `audit` judge a
 * candidate: at all offsets that keys propose and at the best of all offsets. Clips that are too
 * short for the search are judged again with the thresholds of tiny_pairs.h, without any evidence
 * from names.
 *
 * Output: a line per corpus, kind of pair, side, and duration of the shorter recording, with the
 * number of pairs by class and by closeness. Closeness is the factor by which the thresholds of the
 * correlations would have to be multiplied for a merge. A line `pair` for each merge and for each
 * pair of 0.9 or more.
 */
#include <inttypes.h>
#include <math.h>

#include "bench_kit.h"
#include "common/edit_distance.h"
#include "common/hash.h"
#include "copies/judge.h"
#include "copies/tiny_pairs.h"
#include "set/set_readers.h"

enum { CORPORA_MAX = 16, BINS = 6, CLOSENESS_BINS = 5, BLOCK = 8, WORD_MAX = 96 };
typedef enum kind { COPY, RETAKE, MINIMAL, OTHER_WORD, OTHER_VOICE, KINDS } kind;
static const char *const kind_texts[KINDS] = {"copy", "retake", "one letter differs", "other word",
                                              "other voice"};
static const double bin_ends_s[BINS] = {0.5, 0.65, 0.8, 1, 2, (double)INFINITY};
static const double closeness_mins[CLOSENESS_BINS] = {1, 0.95, 0.9, 0.8, 0.7};
static const double shown_min = 0.9;

typedef struct named {
    char *id;
    size_t corpus;
    uint64_t voice, word, clip; /* hashes */
    uint32_t points[WORD_MAX];
    size_t point_count;
    uint64_t ordinal;
    double seconds;
    bool is_tiny, is_coded;
} named;

typedef struct cell {
    uint64_t pairs, tiny, tiny_merges;
    uint64_t classes[SPSH_COPY_CLASS_COUNT];
    uint64_t closeness[CLOSENESS_BINS];
} cell;

/* The strongest match of a pair, and the highest closeness of all its matches. */
typedef struct opinion {
    const spsh__align_limits *limits;
    spsh__match best;
    double closeness;
} opinion;

static spsh__align_limits ordinary, tiny;
static char corpora[CORPORA_MAX][32];
static size_t corpus_count;
static cell cells[CORPORA_MAX][KINDS][2][BINS];

/* Continuous form of is_waveform_same in align.c: 1 or more if it is true. */
static double closeness_of(const spsh__align_limits *limits, const spsh__match *match)
{
    const double flat = fabs(match->ncc_white);
    const double size = fmax(fabs(match->ncc), flat);
    const double clean = match->ber > 0 ? limits->ber_sure / match->ber : (double)INFINITY;
    if (match->active_s < limits->tiny_s)
        return fmin(size / limits->ncc_tiny, flat / limits->white_tiny);
    if (match->active_s < limits->short_s)
        return fmax(fmin(size / limits->ncc_short, flat / limits->white_short),
                    fmin(flat / limits->white_with_bits, clean));
    return fmin(flat / limits->white_min,
                fmax(size / limits->ncc_sure, fmin(size / limits->ncc_with_bits, clean)));
}

static spsh_status form_opinion(void *user, const spsh__match *match, spsh_error *err)
{
    opinion *o = user;
    (void)err;
    if (match->kind != SPSH_COPY_NONE &&
        (o->best.kind == SPSH_COPY_NONE || match->kind < o->best.kind))
        o->best = *match;
    o->closeness = fmax(o->closeness, closeness_of(o->limits, match));
    return SPSH_OK;
}

/* ---- names ---- */

static size_t corpus_of(const char *clip)
{
    const size_t length = strcspn(clip, " ");
    for (size_t i = 0; i < corpus_count; i++)
        if (strlen(corpora[i]) == length && strncmp(corpora[i], clip, length) == 0)
            return i;
    must(corpus_count < CORPORA_MAX && length < sizeof(corpora[0]), "too many corpora");
    memcpy(corpora[corpus_count], clip, length);
    return corpus_count++;
}

static uint64_t hash_of(const char *first, const char *end, uint64_t more)
{
    return mix64(spsh__pack_hash64((spsh_bytes){(const uint8_t *)first, (size_t)(end - first)}) +
                 more);
}

/* Parse VOICE~WORD~NUMBER@FOLDER, the last part of an id. */
static void parse(named *name)
{
    const char *slash = strrchr(name->id, '/');
    const char *voice = slash == NULL ? name->id : slash + 1;
    const char *voice_end = voice + strcspn(voice, "~");
    must(*voice_end == '~', name->id);
    const char *word = voice_end + 1;
    const char *word_end = word + strcspn(word, "~");
    name->corpus = corpus_of(voice);
    name->voice = hash_of(voice, voice_end, 0);
    name->word = hash_of(word, word_end, name->corpus);
    name->clip = hash_of(voice, voice + strcspn(voice, "@"), 0);
    for (const char *at = word; at < word_end && name->point_count < WORD_MAX; at++) {
        if (((unsigned char)*at & 0xc0) != 0x80)
            name->point_count++;
        name->points[name->point_count - 1] =
            name->points[name->point_count - 1] << 8 | (unsigned char)*at;
    }
}

static int compare_named(const void *left, const void *right)
{
    const named *a = left;
    const named *b = right;
    if (a->voice != b->voice)
        return a->voice < b->voice ? -1 : 1;
    if (a->word != b->word)
        return a->word < b->word ? -1 : 1;
    return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

/* Read the decoded utterances. */
static named *read_names(const spsh__print_set *set, size_t *ret_count)
{
    const uint64_t count = spsh__print_set_count(set);
    named *names = calloc((size_t)count + 1, sizeof(*names));
    spsh__set_readers readers;
    must(names != NULL, "names");
    check_ok(spsh__set_readers_open(set, &readers, &failure));
    *ret_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        spsh_utterance utterance;
        spsh__segment_row row;
        check_ok(spsh__print_set_row(set, i, &row, NULL, &failure));
        check_ok(spsh__set_readers_metadata(&readers, i, &utterance, &failure));
        if ((row.flags & SPSH__ROW_DECODED) == 0)
            continue;
        named *name = &names[(*ret_count)++];
        name->id = strndup((const char *)utterance.id.data, utterance.id.size_bytes);
        must(name->id != NULL, "id");
        name->ordinal = i;
        name->seconds = spsh__segment_row_seconds(&row);
        name->is_tiny = spsh__is_tiny(&row);
        name->is_coded = spsh__print_set_side(set, i) == SPSH_SIDE_TEST;
        parse(name);
    }
    spsh__set_readers_close(&readers);
    qsort(names, *ret_count, sizeof(*names), compare_named);
    return names;
}

/* ---- pairs ---- */

static kind kind_of(const named *a, const named *b)
{
    uint32_t row[5];
    if (a->clip == b->clip)
        return COPY;
    if (a->voice != b->voice)
        return OTHER_VOICE;
    if (a->word == b->word)
        return RETAKE;
    const spsh__points x = {a->points, a->point_count};
    const spsh__points y = {b->points, b->point_count};
    return spsh__edit_distance(x, y, 1, row) <= 1 ? MINIMAL : OTHER_WORD;
}

static void show(const char *judged, kind which, const named *a, const named *b, const opinion *o)
{
    printf("pair\t%s\t%s\t%s\t%s\t%s\t%.3f\tactive %.2f\tber %.3f\tncc %.3f\twhite %.3f\t"
           "coverage %.2f %.2f\tlag %.1f\n",
           judged, kind_texts[which], a->id, b->id, spsh_copy_class_text(o->best.kind),
           o->closeness, o->best.active_s, o->best.ber, o->best.ncc, o->best.ncc_white,
           o->best.coverage_a, o->best.coverage_b, o->best.lag);
}

/* Judge a pair as tiny_pairs.c does. */
static void judge_tiny(spsh__judge *judge, kind which, const named *a, const named *b, cell *in)
{
    opinion o = {.limits = &tiny};
    check_ok(spsh__judge_pair(judge, a->ordinal, b->ordinal, (spsh__match_sink){form_opinion, &o},
                              &failure));
    const bool is_proven =
        o.best.kind == SPSH_COPY_SAME_RECORDING && o.best.active_s < SPSH__TINY_ACTIVE_S;
    in->tiny++;
    in->tiny_merges += is_proven;
    if (which != COPY && (is_proven || o.closeness >= shown_min))
        show(is_proven ? "tiny" : "tiny, no merge", which, a, b, &o);
}

static void judge_pair(spsh__judge *judges[2], const named *a, const named *b)
{
    const kind which = kind_of(a, b);
    const double shorter = fmin(a->seconds, b->seconds);
    size_t bin = 0;
    while (shorter >= bin_ends_s[bin])
        bin++;
    cell *in = &cells[a->corpus][which][a->is_coded || b->is_coded][bin];
    opinion o = {.limits = &ordinary};
    check_ok(spsh__judge_pair(judges[0], a->ordinal, b->ordinal,
                              (spsh__match_sink){form_opinion, &o}, &failure));
    in->pairs++;
    in->classes[o.best.kind]++;
    for (size_t i = 0; i < CLOSENESS_BINS; i++)
        in->closeness[i] += o.closeness >= closeness_mins[i];
    const bool is_weak = o.best.kind == SPSH_COPY_NONE || o.best.kind == SPSH_COPY_REREAD;
    if (which != COPY && (!is_weak || o.closeness >= shown_min))
        show("ordinary", which, a, b, &o);
    if (a->is_tiny && b->is_tiny && fabs(a->seconds - b->seconds) <= 0.1)
        judge_tiny(judges[1], which, a, b, in);
}

static bool is_drawn(const named *a, const named *b, uint64_t share)
{
    if ((a->is_coded && b->is_coded) || (a->voice != b->voice && a->word != b->word))
        return false;
    return (a->voice == b->voice && a->word == b->word) || share <= 1 ||
           mix64(a->ordinal << 32 | b->ordinal) % share == 0;
}

/* Judge blocks against blocks, because the judge keeps the last 16 prints. */
static void judge_all(spsh__judge *judges[2], const named *names, size_t count, uint64_t share)
{
    for (size_t first = 0; first < count; first += BLOCK)
        for (size_t other = first; other < count; other += BLOCK)
            for (size_t i = first; i < first + BLOCK && i < count; i++)
                for (size_t k = other > i ? other : i + 1; k < other + BLOCK && k < count; k++)
                    if (is_drawn(&names[i], &names[k], share))
                        judge_pair(judges, &names[i], &names[k]);
}

/* ---- table ---- */

static void print_cell(const char *corpus, const char *which, const char *side, size_t bin)
{
    printf("%s\t%s\t%s\t%g-%g", corpus, which, side, bin == 0 ? 0 : bin_ends_s[bin - 1],
           bin_ends_s[bin]);
}

static void print_table(void)
{
    printf("corpus\tpair\tside\tseconds\tpairs\ttiny\ttiny_merges");
    for (size_t i = 0; i < SPSH_COPY_CLASS_COUNT; i++)
        printf("\t%s", spsh_copy_class_text((spsh_copy_class)i));
    for (size_t i = 0; i < CLOSENESS_BINS; i++)
        printf("\tclose_%g", closeness_mins[i]);
    printf("\n");
    const size_t cells_per_corpus = (size_t)KINDS * 2 * BINS;
    for (size_t at = 0; at < corpus_count * cells_per_corpus; at++) {
        const size_t corpus = at / cells_per_corpus;
        const size_t which = at / ((size_t)2 * BINS) % KINDS;
        const size_t side = at / BINS % 2;
        const cell *in = &cells[corpus][which][side][at % BINS];
        if (in->pairs == 0)
            continue;
        print_cell(corpora[corpus], kind_texts[which], side == 0 ? "plain" : "coded", at % BINS);
        printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, in->pairs, in->tiny, in->tiny_merges);
        for (size_t i = 0; i < SPSH_COPY_CLASS_COUNT; i++)
            printf("\t%" PRIu64, in->classes[i]);
        for (size_t i = 0; i < CLOSENESS_BINS; i++)
            printf("\t%" PRIu64, in->closeness[i]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    must(argc == 4, "usage: judge_others SHARE PLAIN CODED");
    const spsh_dedup_source sources[2] = {
        {argv[2], NULL, SPSH_SIDE_TRAIN},
        {argv[3], NULL, SPSH_SIDE_TEST }
    };
    spsh__print_set *set = NULL;
    spsh__judge *judges[2] = {NULL, NULL};
    size_t count = 0;
    ordinary = spsh__align_limits_default;
    tiny = spsh__tiny_limits();
    check_ok(spsh__print_set_open(sources, 2, NULL, &set, &failure));
    for (size_t i = 0; i < 2; i++) {
        const spsh__judge_options options = {.limits = i == 0 ? &ordinary : &tiny, .threads = 1};
        check_ok(spsh__judge_open(set, &options, &judges[i], &failure));
    }
    named *names = read_names(set, &count);
    const double start = cpu_seconds();
    judge_all(judges, names, count, strtoull(argv[1], NULL, 10));
    printf("# processor seconds\t%.1f\n# recordings\t%zu\n", cpu_seconds() - start, count);
    print_table();
    for (size_t i = 0; i < count; i++)
        free(names[i].id);
    free(names);
    spsh__judge_close(judges[0]);
    spsh__judge_close(judges[1]);
    spsh__print_set_close(set);
    return 0;
}
