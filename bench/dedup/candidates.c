/* candidates.c: how often the keys lead from a copy to its source, and how often to another source.
 *
 *     candidates LIST [SEED]
 *
 * LIST: recordings.h (transform.sh writes it). All sources, and all copies of a family, whole or
 * clips of 1, 2 and 3 s (CLIPS of each copy, mostly speech), go through key_join in each mode, and
 * through frame_scan (`frames`). Output: a line of tab-separated values for each copy or clip:
 * `candidate`, mode, family, group, id, seconds (0: whole), votes (0: not found, or more than 0.2 s
 * from where it is); and for each family, mode and length the pairs of different sources that were
 * proposed: `false`, mode, family, seconds, proposed, pairs, keys or frames of sources, keys or
 * frames of copies, hits, proposed by votes (1, 2 ... 12 and more). report.py --candidates makes a
 * table.
 */
#include <inttypes.h>

#include "bench_kit.h"
#include "join/frame_scan.h"
#include "join/key_join.h"
#include "recordings.h"

enum { VOTES_TOLD = 12, LENGTHS = 4, CLIPS = 4, CLIPS_MAX = 1 << 15 };

typedef struct dense_list {
    spsh__dense_key *keys;
    size_t count, capacity;
} dense_list;

typedef struct word_list {
    spsh__weak_word *words;
    size_t count, capacity;
} word_list;

/* A copy, or a clip of one. */
typedef struct clip {
    char family[64];
    char id[128];
    size_t source;
    unsigned seconds; /* 0: the whole copy */
    double start_s;
    spsh__print print;
    dense_list dense;
    word_list words;
    uint32_t votes;
} clip;

static recording sources[SOURCES_MAX];
static size_t source_count;
static clip clips[CLIPS_MAX];
static size_t clip_count;
static const char *temporary;

static spsh_status take_frames(void *user, uint64_t first, const spsh__print_frame *frames,
                               size_t count, spsh_error *error)
{
    const spsh__print_sink sink = spsh__print_collect(&((clip *)user)->print);
    return sink.frames_fn(sink.user, first, frames, count, error);
}

static spsh_status take_key(void *user, const spsh__print_key *key, spsh_error *error)
{
    const spsh__print_sink sink = spsh__print_collect(&((clip *)user)->print);
    return sink.key_fn(sink.user, key, error);
}

static spsh_status take_dense(void *user, const spsh__dense_key *key, spsh_error *error)
{
    dense_list *list = &((clip *)user)->dense;
    (void)error;
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->keys = realloc(list->keys, list->capacity * sizeof(*list->keys));
        must(list->keys != NULL, "memory");
    }
    list->keys[list->count++] = *key;
    return SPSH_OK;
}

static spsh_status take_word(void *user, const spsh__weak_word *word, spsh_error *error)
{
    word_list *list = &((clip *)user)->words;
    (void)error;
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->words = realloc(list->words, list->capacity * sizeof(*list->words));
        must(list->words != NULL, "memory");
    }
    list->words[list->count++] = *word;
    return SPSH_OK;
}

static void make_clip(const recording *copy, size_t source, unsigned seconds, size_t start,
                      size_t length)
{
    must(clip_count < CLIPS_MAX, "too many clips");
    clip *made = &clips[clip_count++];
    const spsh__print_sink sink = {.frames_fn = take_frames,
                                   .key_fn = take_key,
                                   .dense_fn = take_dense,
                                   .word_fn = take_word,
                                   .user = made};
    spsh__fingerprint *maker = NULL;

    *made = (clip){.source = source, .seconds = seconds, .start_s = (double)start / copy->rate_hz};
    memcpy(made->family, copy->family, sizeof(made->family));
    memcpy(made->id, copy->id, sizeof(made->id));
    check_ok(spsh__fingerprint_new(copy->rate_hz, sink, &maker, &failure));
    check_ok(spsh__fingerprint_push(maker, copy->pcm + start, length, &failure));
    check_ok(spsh__fingerprint_finish(maker, &failure));
    spsh__fingerprint_free(maker);
}

static void make_clips(const recording *copy, size_t source, uint64_t *state)
{
    const clip *whole = &clips[clip_count];
    make_clip(copy, source, 0, 0, copy->count);
    for (unsigned seconds = 1; seconds < LENGTHS; seconds++) {
        const size_t length = (size_t)seconds * copy->rate_hz;
        for (size_t i = 0; i < CLIPS && length <= copy->count; i++) {
            const size_t start = recording_clip_start(copy, &whole->print, length, state);
            make_clip(copy, source, seconds, start, length);
        }
    }
}

static size_t source_of(const recording *copy)
{
    for (size_t i = 0; i < source_count; i++)
        if (strcmp(sources[i].group, copy->group) == 0 && strcmp(sources[i].id, copy->id) == 0)
            return i;
    return SOURCES_MAX;
}

static void take_source(void *user, const recording *file)
{
    (void)user;
    must(source_count < SOURCES_MAX, "too many sources");
    recording *source = &sources[source_count++];
    *source = *file;
    recording_make_print(source);
    free(source->pcm);
    source->pcm = NULL;
}

static void take_copy(void *user, const recording *file)
{
    const size_t source = source_of(file);
    if (source < SOURCES_MAX)
        make_clips(file, source, user);
    free(file->pcm);
}

typedef struct tally {
    uint64_t proposed, pairs, source_keys, copy_keys, hits, by_votes[VOTES_TOLD];
} tally;

static void take_candidate(const spsh__candidate *candidate, tally *sums)
{
    if (candidate->b < source_count) { /* between two sources */
        sums->proposed++;
        sums->by_votes[candidate->votes < VOTES_TOLD ? candidate->votes - 1 : VOTES_TOLD - 1]++;
        return;
    }
    if (candidate->a >= source_count)
        return; /* between two copies: not measured here */
    clip *copy = &clips[candidate->b - source_count];
    if (candidate->a != copy->source) {
        sums->proposed++;
        sums->by_votes[candidate->votes < VOTES_TOLD ? candidate->votes - 1 : VOTES_TOLD - 1]++;
        return;
    }
    const double error_s = (double)candidate->offset / SPSH__PRINT_HZ + copy->start_s;
    if ((strcmp(copy->family, "natural") == 0 || (error_s > -0.2 && error_s < 0.2)) &&
        candidate->votes > copy->votes)
        copy->votes = candidate->votes;
}

static bool is_of(const clip *copy, const char *family, unsigned seconds)
{
    return strcmp(copy->family, family) == 0 && copy->seconds == seconds;
}

static void print_results(const char *mode, const char *family, unsigned seconds, const tally *sums)
{
    for (size_t i = 0; i < clip_count; i++)
        if (is_of(&clips[i], family, seconds))
            printf("candidate\t%s\t%s\t%s\t%s\t%u\t%" PRIu32 "\n", mode, family,
                   sources[clips[i].source].group, clips[i].id, seconds, clips[i].votes);
    printf("false\t%s\t%s\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, mode,
           family, seconds, sums->proposed, sums->pairs, sums->source_keys, sums->copy_keys,
           sums->hits);
    for (size_t i = 0; i < VOTES_TOLD; i++)
        printf("\t%" PRIu64, sums->by_votes[i]);
    printf("\n");
}

static void join(spsh__join_mode mode, const char *mode_text, const char *family, unsigned seconds)
{
    const spsh__key_join_options options = {
        .mode = mode, .temporary_path = temporary, .memory_bytes = 64 << 20, .threads = 1};
    spsh__key_join *at_work = NULL;
    spsh__candidate candidate;
    spsh__join_facts facts;
    spsh_status rc = SPSH_OK;
    tally sums = {0};
    uint64_t copies = 0;

    check_ok(spsh__key_join_open(&options, &at_work, &failure));
    for (size_t i = 0; i < source_count; i++) {
        const spsh__print *print = &sources[i].print;
        check_ok(spsh__key_join_add(at_work, i, print->keys, print->key_count, &failure));
        sums.source_keys += print->key_count;
    }
    for (size_t i = 0; i < clip_count; i++) {
        clip *copy = &clips[i];
        if (!is_of(copy, family, seconds))
            continue;
        const bool is_dense = mode == SPSH__JOIN_AUDIT;
        copy->votes = 0;
        copies++;
        sums.copy_keys += is_dense ? copy->dense.count : copy->print.key_count;
        check_ok(is_dense ? spsh__key_join_add_test(at_work, source_count + i, copy->dense.keys,
                                                    copy->dense.count, &failure)
                          : spsh__key_join_add(at_work, source_count + i, copy->print.keys,
                                               copy->print.key_count, &failure));
    }
    while ((rc = spsh__key_join_next(at_work, &candidate, &failure)) == SPSH_OK)
        take_candidate(&candidate, &sums);
    must(rc == SPSH_E_END, "join");
    spsh__key_join_facts(at_work, &facts);
    spsh__key_join_free(at_work);

    sums.pairs = copies * (source_count - 1);
    if (mode != SPSH__JOIN_AUDIT)
        sums.pairs += source_count * (source_count - 1) / 2;
    sums.hits = facts.hit_count;
    print_results(mode_text, family, seconds, &sums);
}

/* The same with every frame instead of keys. The copies are the small set. */
static void scan(const char *family, unsigned seconds)
{
    spsh__frame_scan *small = NULL;
    spsh__frame_finder *finder = NULL;
    tally sums = {0};
    uint64_t copies = 0;

    check_ok(spsh__frame_scan_open(&small, &failure));
    for (size_t i = 0; i < clip_count; i++) {
        clip *copy = &clips[i];
        if (!is_of(copy, family, seconds))
            continue;
        copy->votes = 0;
        copies++;
        sums.copy_keys += copy->words.count;
        check_ok(spsh__frame_scan_add(small, source_count + i, copy->words.words, copy->words.count,
                                      &failure));
    }
    check_ok(spsh__frame_scan_ready(small, NULL, &failure));
    check_ok(spsh__frame_finder_new(small, &finder, &failure));
    for (size_t i = 0; i < source_count; i++) {
        const spsh__print *print = &sources[i].print;
        const spsh__candidate *found = NULL;
        size_t found_count = 0;
        const spsh__frame_stretch whole = {i, 0, print->frames, print->frame_count};
        check_ok(spsh__frame_finder_run(finder, &whole, &found, &found_count, &failure));
        sums.source_keys += print->frame_count;
        for (size_t k = 0; k < found_count; k++)
            take_candidate(&found[k], &sums);
    }
    spsh__frame_finder_free(finder);
    spsh__frame_scan_free(small);
    sums.pairs = copies * (source_count - 1);
    print_results("frames", family, seconds, &sums);
}

int main(int argc, char **argv)
{
    must(argc >= 2, "usage: candidates LIST [SEED]");
    temporary = getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR");
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    recordings_read(argv[1], true, take_source, NULL);
    recordings_read(argv[1], false, take_copy, &seed);
    for (size_t i = 0; i < clip_count; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++)
            is_new = strcmp(clips[i].family, clips[k].family) != 0;
        if (!is_new)
            continue;
        for (unsigned seconds = 0; seconds < LENGTHS; seconds++) {
            join(SPSH__JOIN_MILD, "mild", clips[i].family, seconds);
            join(SPSH__JOIN_DEEP, "deep", clips[i].family, seconds);
            join(SPSH__JOIN_AUDIT, "audit", clips[i].family, seconds);
            scan(clips[i].family, seconds);
        }
    }
    for (size_t i = 0; i < clip_count; i++) {
        spsh__print_free(&clips[i].print);
        free(clips[i].dense.keys);
        free(clips[i].words.words);
    }
    for (size_t i = 0; i < source_count; i++)
        recording_free(&sources[i]);
    return 0;
}
