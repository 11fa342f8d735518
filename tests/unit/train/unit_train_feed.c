/* unit_train_feed.c: the feed: every utterance once over all ranks, labels from the vocabulary,
 * limits, cursors that resume, and weights of datasets. */
#include "feed/feed.h"

#include <xxhash.h>

#include "spsh_test.h"
#include "talk_dataset.h"

static const char yaml[] = "kind: characters\nprofile: lower-1\nsymbols:\n  - \" \"\n"
                           "  - \"a\"\n  - \"e\"\n  - \"t\"\n  - \"u\"\n";

static char folder[512], source[600];
static spsh__config *config;
static spsh__vocabulary *vocabulary;

static void set_up(const char *more)
{
    char text[2048];
    spsh_error err = SPSH_ERROR_INIT;
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(source, sizeof(source), "%s/talk.spsh", folder);
    talk_dataset_make(source, TALK_MIXED);
    (void)snprintf(text, sizeof(text),
                   "features: kaldi-fbank,mel_count=20\naugment: none\n"
                   "data:\n  train: [\"%s\"]\n  max_padded_seconds: 12\n  virtual_world: 4\n%s",
                   source, more);
    if (spsh__config_parse(text, strlen(text), NULL, &config, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(config != NULL);
    REQUIRE(spsh__vocabulary_parse(yaml, strlen(yaml), "test", &vocabulary, &err) == SPSH_OK);
}

static void tear_down(void)
{
    spsh__config_free(config);
    spsh__vocabulary_free(vocabulary);
    config = NULL;
    vocabulary = NULL;
    test_remove_tree(folder);
}

static spsh__feed *open_rank(uint32_t rank, uint32_t world_size)
{
    const spsh__feed_options options = {.config = config,
                                        .vocabulary = vocabulary,
                                        .names = (const char *const *)config->train,
                                        .weights = config->train_weights,
                                        .is_training = true,
                                        .rank = rank,
                                        .world_size = world_size};
    spsh__feed *feed = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__feed_open(&options, &feed, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(feed != NULL);
    return feed;
}

static void check_batch(const spsh__feed *feed, const spsh__feed_batch *b)
{
    const spsh__model_limits limits = spsh__feed_limits(feed);
    uint32_t longest = 0, samples = 0;
    CHECK(b->batch <= limits.batch_max && b->frames <= limits.frames_max);
    CHECK((uint64_t)b->batch * b->frames <= limits.rows_max);
    CHECK_U64(b->label_offsets[0], 0);
    for (uint32_t n = 0; n < b->batch; n++) {
        uint32_t labels[4096];
        uint32_t count = 0, dropped = 0;
        REQUIRE(spsh__vocabulary_encode(vocabulary, b->source->utterances[n].text, labels, 4096,
                                        &count, &dropped, NULL) == SPSH_OK);
        REQUIRE(b->label_offsets[n + 1] - b->label_offsets[n] == count);
        CHECK(memcmp(b->labels + b->label_offsets[n], labels, count * sizeof(*labels)) == 0);
        CHECK((b->weights[n] > 0) == (count > 0 && b->lengths[n] > 0));
        CHECK(b->domains[n] < spsh__feed_domain_count(feed));
        longest = b->lengths[n] > longest ? b->lengths[n] : longest;
        samples += b->weights[n] > 0;
    }
    CHECK_U64(longest, b->frames);
    CHECK_U64(samples, b->samples);
    CHECK_U64(samples + b->without_text + b->without_frames, b->batch);
}

/* Count how often each position occurs in the rest of a rank's epoch. */
static void count_rest(spsh__feed *feed, uint32_t *counts)
{
    const spsh__feed_batch *b = NULL;
    spsh_status rc = SPSH_OK;
    while ((rc = spsh__feed_next(feed, &b, NULL)) == SPSH_OK) {
        check_batch(feed, b);
        for (uint32_t n = 0; n < b->batch; n++)
            counts[b->source->utterances[n].item.position]++;
    }
    CHECK_I64(rc, SPSH_E_END);
}

static void test_each_once(void)
{
    set_up("");
    for (uint32_t world = 1; world <= 4; world++) {
        uint32_t counts[TALK_UTTERANCES] = {0};
        for (uint32_t rank = 0; rank < world; rank++) {
            spsh__feed *feed = open_rank(rank, world);
            CHECK_U64(spsh__feed_leaves(feed), 4);
            CHECK_U64(spsh__feed_dim(feed), 20);
            CHECK_U64(spsh__feed_epoch_utterances(feed), TALK_UTTERANCES);
            CHECK_U64(spsh__feed_domain_count(feed), 2);
            count_rest(feed, counts);
            spsh__feed_close(feed);
        }
        for (size_t i = 0; i < TALK_UTTERANCES; i++)
            CHECK_U64(counts[i], 1);
    }
    tear_down();
}

/* One process stops after a step. Two processes resume. */
static void test_resume(void)
{
    set_up("");
    uint32_t counts[TALK_UTTERANCES] = {0};
    uint8_t cursor[4096];
    size_t size = 0;
    const spsh__feed_batch *b = NULL;
    spsh__feed *feed = open_rank(0, 1);
    do {
        REQUIRE(spsh__feed_next(feed, &b, NULL) == SPSH_OK);
        for (uint32_t n = 0; n < b->batch; n++)
            counts[b->source->utterances[n].item.position]++;
    } while (!b->is_step_end);
    REQUIRE(spsh__feed_save(feed, cursor, sizeof(cursor), &size, NULL) == SPSH_OK);
    spsh__feed_close(feed);
    for (uint32_t rank = 0; rank < 2; rank++) {
        feed = open_rank(rank, 2);
        REQUIRE(spsh__feed_restore(feed, cursor, size, NULL) == SPSH_OK);
        count_rest(feed, counts);
        spsh__feed_close(feed);
    }
    for (size_t i = 0; i < TALK_UTTERANCES; i++)
        CHECK_U64(counts[i], 1);
    tear_down();
}

/* ---- a feed with requested batches ---- */

static spsh__feed *open_asked(void)
{
    const spsh__feed_options options = {.config = config,
                                        .vocabulary = vocabulary,
                                        .names = (const char *const *)config->train,
                                        .weights = config->train_weights,
                                        .is_training = true,
                                        .rank = 3,
                                        .world_size = 5,
                                        .is_asked = true};
    spsh__feed *feed = NULL;
    REQUIRE(spsh__feed_open(&options, &feed, NULL) == SPSH_OK);
    return feed;
}

/* Digest the features, labels, and lengths of a batch. */
static uint64_t digest(const spsh__feed_batch *b)
{
    const size_t values = (size_t)b->batch * b->frames * (b->source->feature_dim);
    uint64_t hash = XXH3_64bits(b->features, values * sizeof(*b->features));
    hash ^= XXH3_64bits_withSeed(b->labels, b->label_offsets[b->batch] * sizeof(*b->labels), hash);
    return hash ^ XXH3_64bits_withSeed(b->lengths, b->batch * sizeof(*b->lengths), hash);
}

enum { STEPS_MAX = 128, EPOCHS = 2 };

/* For any rank, world size, and request order, the batch of a step equals the batch of that step on
 * the feed of a single rank. */
static void test_asked(void)
{
    set_up("");
    config->max_padded_seconds = 3;
    static uint64_t wanted[EPOCHS][STEPS_MAX];
    uint64_t counts[EPOCHS] = {0};
    const spsh__feed_batch *b = NULL;
    free(config->augment);
    config->augment = strdup("speed-perturb,frequency_masks=2,frequency_mask_bins_max=5");
    spsh__feed *feed = open_rank(0, 1);
    for (uint32_t e = 0; e < EPOCHS;) {
        const spsh_status rc = spsh__feed_next(feed, &b, NULL);
        REQUIRE(rc == SPSH_OK || rc == SPSH_E_END);
        if (rc == SPSH_OK && b->batch > 0)
            wanted[e][counts[e]++] = digest(b);
        e += rc == SPSH_E_END;
        REQUIRE(e == EPOCHS || counts[e] < STEPS_MAX);
    }
    spsh__feed_close(feed);
    feed = open_asked();
    for (uint32_t e = EPOCHS; e-- > 0;) {
        uint64_t steps = 0;
        REQUIRE(spsh__feed_steps(feed, e, &steps, NULL) == SPSH_OK);
        CHECK_U64(steps, counts[e]);
        for (uint64_t n = 0; n <= steps; n++) { /* 0, 2, 4, ... 1, 3, 5, ...: one ahead */
            const uint64_t half = (steps + 1) / 2, last = n - 1;
            if (n < steps)
                REQUIRE(spsh__feed_ask(feed, e, n < half ? 2 * n : 2 * (n - half) + 1, NULL) ==
                        SPSH_OK);
            if (n == 0)
                continue;
            REQUIRE(spsh__feed_next(feed, &b, NULL) == SPSH_OK);
            CHECK_U64(b->source->epoch, e);
            CHECK(b->is_step_end);
            check_batch(feed, b);
            CHECK_U64(digest(b), wanted[e][last < half ? 2 * last : 2 * (last - half) + 1]);
        }
    }
    CHECK(spsh__feed_next(feed, &b, NULL) == SPSH_E_INVALID_ARG);
    spsh__feed_close(feed);
    tear_down();
}

/* A position between steps is a cursor like any other. */
static void test_places(void)
{
    set_up("");
    config->max_padded_seconds = 3;
    uint8_t cursor[SPSH_CURSOR_BYTES], next[4096];
    size_t size = 0;
    uint64_t steps = 0, epoch = 0, step = 0, hash = 0, other = 0;
    const spsh__feed_batch *b = NULL;
    spsh__feed *asked = open_asked(), *feed = open_rank(0, 1);
    REQUIRE(spsh__feed_steps(asked, 1, &steps, NULL) == SPSH_OK);
    REQUIRE(steps > 5);
    CHECK(spsh__feed_save_at(asked, 1, 4, cursor, 79, &size, NULL) == SPSH_E_LIMIT);
    REQUIRE(spsh__feed_save_at(asked, 1, 4, cursor, sizeof(cursor), &size, NULL) == SPSH_OK);
    REQUIRE(spsh__feed_find(asked, cursor, size, &epoch, &step, NULL) == SPSH_OK);
    CHECK(epoch == 1 && step == 4);
    REQUIRE(spsh__feed_restore(feed, cursor, size, NULL) == SPSH_OK);
    REQUIRE(spsh__feed_next_hash(feed, cursor, size, &hash, NULL) == SPSH_OK);
    REQUIRE(spsh__feed_save(feed, next, sizeof(next), &size, NULL) == SPSH_OK);
    REQUIRE(spsh__feed_next_hash(asked, next, size, &other, NULL) == SPSH_OK);
    CHECK_U64(hash, other);
    REQUIRE(spsh__feed_next(feed, &b, NULL) == SPSH_OK);
    CHECK(b->source->epoch == 1 && b->source->number == 4);
    REQUIRE(spsh__feed_save_at(asked, 1, steps, cursor, sizeof(cursor), &size, NULL) == SPSH_OK);
    CHECK(spsh__feed_save_at(asked, 1, steps + 1, cursor, sizeof(cursor), &size, NULL) ==
          SPSH_E_INVALID_ARG);
    cursor[70] ^= 1;
    CHECK(spsh__feed_find(asked, cursor, size, &epoch, &step, NULL) != SPSH_OK);
    CHECK(spsh__feed_save(asked, next, sizeof(next), &size, NULL) == SPSH_E_INVALID_ARG);
    spsh__feed_close(asked);
    spsh__feed_close(feed);
    tear_down();
}

/* Slower speech is longer, and limits take this into account. */
static void test_limits_with_speeds(void)
{
    set_up("");
    uint32_t counts[TALK_UTTERANCES] = {0};
    free(config->augment);
    config->augment = strdup("speeds=0.5:1:2");
    REQUIRE(config->augment != NULL);
    spsh__feed *feed = open_rank(0, 1);
    count_rest(feed, counts);
    count_rest(feed, counts);
    for (size_t i = 0; i < TALK_UTTERANCES; i++)
        CHECK_U64(counts[i], 2);
    spsh__feed_close(feed);
    tear_down();
}

static void test_unknown_split(void)
{
    set_up("");
    char name[700];
    (void)snprintf(name, sizeof(name), "%s:no-such-split", source);
    const char *const names[] = {name, NULL};
    const spsh__feed_options options = {
        .config = config, .vocabulary = vocabulary, .names = names, .world_size = 1};
    spsh__feed *feed = NULL;
    CHECK(spsh__feed_open(&options, &feed, NULL) != SPSH_OK);
    CHECK(feed == NULL);
    tear_down();
}

TEST_MAIN(unit_train_feed)
{
    RUN(test_each_once);
    RUN(test_resume);
    RUN(test_asked);
    RUN(test_places);
    RUN(test_limits_with_speeds);
    RUN(test_unknown_split);
    return TEST_RESULT();
}
