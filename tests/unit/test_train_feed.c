/* The feed: every utterance once over the ranks, labels as the vocabulary makes them, limits that
 * hold, cursors that resume, weights of datasets. */
#include "feed.h"
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

/* The rest of an epoch of one rank: how often each position comes. */
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

/* One process stops behind a step; two go on. */
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

/* Slower speech is longer: limits know. */
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

int main(void)
{
    RUN(test_each_once);
    RUN(test_resume);
    RUN(test_limits_with_speeds);
    RUN(test_unknown_split);
    return TEST_RESULT();
}
