/* prop_exact.c: recordings cut anywhere, among others that are similar but not equal. Every match
 * has equal samples and cannot be extended. Every long overlap is found, at its offset.
 */
#include "copy_dataset.h"
#include "exact_kit.h"

enum {
    SOURCES = 12,
    PIECES = 60,
    SOURCE_SECONDS = 30,
    OVERLAP_SURE_MS = 2500, /* contains chunks and speech for any cut */
};

typedef struct source {
    uint32_t rate_hz, channels, samples;
    signal_kind kind;
    int16_t *pcm;
} source;

typedef struct piece {
    uint32_t source, first, count;
} piece;

static source sources[SOURCES];
static piece pieces[PIECES];
static uint64_t seed;

static void make_sources(uint64_t *random)
{
    static const signal_kind kinds[] = {SIGNAL_SPEECH, SIGNAL_SPEECH, SIGNAL_CLIPPED,
                                        SIGNAL_NOISE,  SIGNAL_HISS,   SIGNAL_TONE};
    static const uint32_t rates[] = {8000, 16000, 22050};
    for (uint32_t i = 0; i < SOURCES; i++) {
        source *s = &sources[i];
        s->kind = kinds[i % (sizeof(kinds) / sizeof(kinds[0]))];
        s->rate_hz = rates[test_random(random) % 3];
        s->channels = 1 + (uint32_t)(test_random(random) % 2);
        s->samples = SOURCE_SECONDS * s->rate_hz;
        s->pcm = calloc((size_t)s->samples * s->channels, sizeof(*s->pcm));
        REQUIRE(s->pcm != NULL);
        /* Values of one signal after each other: the channels are its odd and even ones. */
        make_signal(s->kind, s->rate_hz, test_random(random), s->pcm,
                    (size_t)s->samples * s->channels);
        const size_t silent = test_random(random) % (s->rate_hz / 2); /* somewhere, digitally */
        memset(s->pcm + test_random(random) % (s->samples / 2) * s->channels, 0,
               silent * s->channels * sizeof(*s->pcm));
    }
}

static void make_pieces(const char *path, uint64_t *random)
{
    static const spsh_codec codecs[] = {SPSH_CODEC_WAV, SPSH_CODEC_FLAC, SPSH_CODEC_PCM};
    copy_dataset *set = copy_dataset_open(path, 1);
    for (size_t i = 0; i < PIECES; i++) {
        piece *p = &pieces[i];
        p->source = (uint32_t)(test_random(random) % SOURCES);
        const source *s = &sources[p->source];
        const uint32_t most = s->rate_hz * 12;
        p->count = s->rate_hz / 4 + (uint32_t)(test_random(random) % most);
        p->first = (uint32_t)(test_random(random) % (s->samples - p->count));
        copy_dataset_add(set,
                         &(copy_audio){codecs[test_random(random) % 3], 16, s->rate_hz, s->channels,
                                       s->pcm + (size_t)p->first * s->channels, p->count});
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
}

static const int16_t *frame(const piece *p, uint64_t at)
{
    const source *s = &sources[p->source];
    return s->pcm + (size_t)(p->first + at) * s->channels;
}

static bool is_equal(const piece *a, uint64_t a_at, const piece *b, uint64_t b_at, uint64_t count)
{
    const size_t bytes = sizeof(int16_t) * sources[a->source].channels * (size_t)count;
    return memcmp(frame(a, a_at), frame(b, b_at), bytes) == 0;
}

static void check_match(const spsh__match *match)
{
    const piece *a = &pieces[match->a];
    const piece *b = &pieces[match->b];
    const uint64_t a_end = match->a_first + match->count;
    const uint64_t b_end = match->b_first + match->count;
    REQUIRE(a_end <= a->count && b_end <= b->count);
    REQUIRE(sources[a->source].rate_hz == sources[b->source].rate_hz &&
            sources[a->source].channels == sources[b->source].channels);
    CHECK_U64(a->source, b->source); /* no two sources have half a second in common */
    CHECK(is_equal(a, match->a_first, b, match->b_first, match->count));
    if (match->tier != SPSH_TIER_CHUNKS)
        return;
    CHECK(match->a_first == 0 || match->b_first == 0 ||
          !is_equal(a, match->a_first - 1, b, match->b_first - 1, 1));
    CHECK(a_end == a->count || b_end == b->count || !is_equal(a, a_end, b, b_end, 1));
}

static bool has_offset(const exact_found *found, size_t a, size_t b)
{
    const int64_t lag = (int64_t)pieces[a].first - (int64_t)pieces[b].first;
    for (size_t i = 0; i < found->count; i++)
        if (found->matches[i].a == a && found->matches[i].b == b &&
            (int64_t)found->matches[i].lag == lag)
            return true;
    return false;
}

/* Pairs of informative sources: hiss is too quiet to count, and tones repeat. */
static bool must_be_found(const piece *a, const piece *b)
{
    const uint32_t first = a->first > b->first ? a->first : b->first;
    const uint32_t a_end = a->first + a->count;
    const uint32_t b_end = b->first + b->count;
    const uint32_t end = a_end < b_end ? a_end : b_end;
    const source *s = &sources[a->source];
    return a->source == b->source && end > first &&
           end - first >= (uint64_t)s->rate_hz * OVERLAP_SURE_MS / 1000 &&
           (s->kind == SIGNAL_SPEECH || s->kind == SIGNAL_NOISE);
}

static void test_random_cuts(void)
{
    char folder[512], path[600];
    size_t sure = 0;
    uint64_t random = seed;
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/set", folder);
    make_sources(&random);
    make_pieces(path, &random);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    for (size_t i = 0; i < found.count; i++)
        check_match(&found.matches[i]);
    for (size_t a = 0; a < PIECES; a++)
        for (size_t b = a + 1; b < PIECES; b++)
            if (must_be_found(&pieces[a], &pieces[b])) {
                sure++;
                if (!has_offset(&found, a, b))
                    fprintf(stderr, "pieces %zu and %zu: not found\n", a, b);
                CHECK(has_offset(&found, a, b));
            }
    printf("%zu matches, %zu sure\n", found.count, sure);
    CHECK(sure > 3);
    const exact_settings other = {(uint64_t)5 << 20, 1 + (uint32_t)(test_random(&random) % 5),
                                  test_random(&random) % 2 == 0};
    exact_found again = exact_find_in(path, &other);
    CHECK(exact_is_same(&found, &again));
    exact_free(&again);
    exact_free(&found);
    for (size_t i = 0; i < SOURCES; i++)
        free(sources[i].pcm);
    test_remove_tree(folder);
}

TEST_MAIN(prop_exact)
{
    seed = test_seed(1);
    RUN(test_random_cuts);
    return TEST_RESULT();
}
