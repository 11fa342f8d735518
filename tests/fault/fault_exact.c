/* fault_exact.c: the exact tiers when memory runs out, when the match callback rejects a match, and
 * when samples become unreadable.
 */
#include "copy_dataset.h"
#include "exact_kit.h"
#include "fail_malloc.h"

enum { RATE = 16000, LONG = 6 * RATE };

static char folder[512], path[600];

/* A recording, its FLAC, a part of it, two views of one record. */
static void make_dataset(void)
{
    static int16_t pcm[2 * LONG];
    make_signal(SIGNAL_SPEECH, RATE, 1, pcm, LONG);
    make_signal(SIGNAL_SPEECH, RATE, 2, pcm + LONG, LONG);
    (void)snprintf(path, sizeof(path), "%s/set", folder);
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_audio audio = {SPSH_CODEC_WAV, 16, RATE, 1, pcm, LONG};
    copy_dataset_add(set, &audio);
    audio.codec = SPSH_CODEC_FLAC;
    copy_dataset_add(set, &audio);
    copy_dataset_add(set, &(copy_audio){SPSH_CODEC_WAV, 16, RATE, 1, pcm + 999, 3 * RATE});
    audio.pcm = pcm + LONG;
    const uint64_t record = copy_dataset_record(set, &audio);
    copy_dataset_utterance(set, record, 0, 4 * RATE, "train");
    copy_dataset_utterance(set, record, 2 * RATE, 4 * RATE, "train");
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
}

static spsh_status count_match(void *user, const spsh__match *match, spsh_error *err)
{
    size_t *count = user;
    (void)match;
    (void)err;
    (*count)++;
    return SPSH_OK;
}

static spsh_status refuse_match(void *user, const spsh__match *match, spsh_error *err)
{
    size_t *left = user;
    (void)match;
    if (*left == 0) {
        spsh_error_set(err, SPSH_E_NO_SPACE, 0, SPSH_OFFSET_NONE, "full");
        return SPSH_E_NO_SPACE;
    }
    (*left)--;
    return SPSH_OK;
}

static bool groups_only;
static spsh__call_watch watch;

static spsh_status find(spsh__match_sink sink, bool confirm, spsh_error *err)
{
    const spsh_dedup_source source = {path, NULL, SPSH_SIDE_TRAIN};
    const spsh__exact_options options = {
        .temporary_path = folder,
        .memory_bytes = (uint64_t)16 << 20,
        .threads = 1, /* one thread allocates in a fixed order */
        .min_active_s = 0.5,
        .coverage_min = 0.8,
        .confirm = confirm,
        .groups_only = groups_only,
        .watch = &watch,
    };
    spsh__print_set *set = NULL;
    spsh__exact_groups *groups = NULL;
    spsh_status rc = spsh__print_set_open(&source, 1, NULL, &set, err);
    if (rc == SPSH_OK)
        rc = spsh__exact_find(set, &options, sink, &groups, err);
    spsh__exact_groups_free(groups);
    spsh__print_set_close(set);
    return rc;
}

static void test_every_allocation_failure(void)
{
    size_t count = 0;
    fail_malloc.calls = 0;
    REQUIRE(find((spsh__match_sink){count_match, &count}, true, NULL) == SPSH_OK);
    CHECK_U64(count, 3);
    const uint64_t all = fail_malloc.calls;
    CHECK(all > 20);
    for (int later = 0; later < 2; later++)
        for (uint64_t at = 0; at < all; at += 1 + at / 200) {
            spsh_error err = SPSH_ERROR_INIT;
            count = 0;
            fail_malloc.calls = 0;
            fail_malloc.later_too = later != 0;
            fail_malloc.at = at;
            const spsh_status rc = find((spsh__match_sink){count_match, &count}, true, &err);
            fail_malloc.at = UINT64_MAX;
            /* A single failure may have no effect: stdio and readers can work without a buffer. */
            CHECK(rc == SPSH_E_NO_MEMORY || (rc == SPSH_OK && count == 3));
            CHECK(err.status == rc);
        }
    fail_malloc.later_too = false;
}

static void test_a_refused_match_ends_it(void)
{
    for (size_t taken = 0; taken < 4; taken++) {
        size_t left = taken;
        spsh_error err = SPSH_ERROR_INIT;
        const spsh_status rc = find((spsh__match_sink){refuse_match, &left}, false, &err);
        CHECK_I64(rc, taken < 3 ? SPSH_E_NO_SPACE : SPSH_OK);
        CHECK_STR(err.message, taken < 3 ? "full" : "");
    }
}

static spsh_status stop_at_match(void *user, const spsh__match *match, spsh_error *err)
{
    watch.is_canceled = true;
    return count_match(user, match, err);
}

static void test_stopping(void)
{
    size_t count = 0;
    spsh_error err = SPSH_ERROR_INIT;
    watch.is_canceled = true;
    CHECK_I64(find((spsh__match_sink){count_match, &count}, false, &err), SPSH_E_CANCELED);
    CHECK_U64(count, 0);
    watch.is_canceled = false;
    CHECK_I64(find((spsh__match_sink){stop_at_match, &count}, false, &err), SPSH_E_CANCELED);
    CHECK(count > 0 && count < 3);
    watch.is_canceled = false;
}

static void test_groups_only(void)
{
    size_t count = 0;
    groups_only = true;
    CHECK(find((spsh__match_sink){count_match, &count}, false, NULL) == SPSH_OK);
    CHECK_U64(count, 2); /* equal samples, one record; no stretch */
    groups_only = false;
}

/* Damage is an error; it does not count as different samples. This test is last, because it damages
 * the dataset. */
static void test_damaged_samples_are_a_failure(void)
{
    char name[32], shard[700];
    size_t count = 0;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_shard_file_name(0, 0, name);
    (void)snprintf(shard, sizeof(shard), "%s/shards/%s", path, name);
    REQUIRE(chmod(shard, 0600) == 0);
    FILE *file = fopen(shard, "r+b");
    REQUIRE(file != NULL);
    for (long at = 8192; at < 100000; at += 512) { /* in the first payload */
        REQUIRE(fseek(file, at, SEEK_SET) == 0);
        REQUIRE(fputc(0x5a, file) != EOF);
    }
    REQUIRE(fclose(file) == 0);
    CHECK_I64(find((spsh__match_sink){count_match, &count}, false, &err), SPSH_E_CORRUPT);
    CHECK(strstr(err.message, name) != NULL);
}

TEST_MAIN(fault_exact)
{
    test_temp_dir(folder, sizeof(folder));
    make_dataset();
    RUN(test_every_allocation_failure);
    RUN(test_a_refused_match_ends_it);
    RUN(test_stopping);
    RUN(test_groups_only);
    RUN(test_damaged_samples_are_a_failure);
    test_remove_tree(folder);
    return TEST_RESULT();
}
