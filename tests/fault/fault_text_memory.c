/* fault_text_memory.c: each allocation of a text join fails once, as a single failure and with all
 * that follow. The join must report it or find the same pairs. Earlier allocations must be freed
 * (the address sanitizer checks).
 */
#include "fail_malloc.h"
#include "spsh_test.h"
#include "text/text_join.h"
#include "text_dataset.h"

#define LONG_TEXT                                                                                  \
    "it was a bright cold day in the valley and the clocks of both churches were striking one "    \
    "hour after the other while nobody at all was listening to them"
#define STRETCH "{\"source_url\":\"http://a/b\",\"source_start\":\"1\",\"source_end\":\"2.5\"}"

/* A pair for each tier. */
static const text_row rows[] = {
    {.id = "0",         .split = "train",               .text = "the quick brown fox",                   .speaker = "ann"},
    {.id = "1",         .split = "train",               .text = "before it " LONG_TEXT " and behind it"},
    {.id = "2", .split = "train",        .text = "\xc3\x84ndern",                               .extras = STRETCH                },
    {.id = "3", .split = "train",                   .text = NULL,                            .document = "a book"},
    {.id = "4",  .split = "test", .text = "The quick brown fix!",                                  .speaker = "A"                },
    {.id = "5",  .split = "test",              .text = LONG_TEXT,                            .document = "A Book"},
    {.id = "6",  .split = "test",       .text = "a\xcc\x88ndern",                               .extras = STRETCH                },
};

static uint64_t found;

static spsh_status take(void *user, const spsh__match *match, spsh_error *err)
{
    (void)user, (void)match, (void)err;
    found++;
    return SPSH_OK;
}

static void check_run(const spsh__print_set *set, const spsh__text_join_options *options,
                      spsh_status *ret_status)
{
    const spsh__match_sink sink = {take, NULL};
    spsh__text_facts facts = {0};
    spsh_error err = SPSH_ERROR_INIT;
    found = 0;
    fail_malloc.calls = 0;
    *ret_status = spsh__text_join_run(set, options, sink, &facts, &err);
    CHECK(*ret_status == SPSH_OK || *ret_status == SPSH_E_NO_MEMORY);
    CHECK((*ret_status == SPSH_OK) == (facts.tests != NULL));
    CHECK(*ret_status != SPSH_OK || found == 6);
    free(facts.tests);
}

TEST_MAIN(fault_text_memory)
{
    char folder[400], path[600], alias_path[600];
    spsh__print_set *set = NULL;
    spsh_status rc = SPSH_OK;
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/corpus", folder);
    (void)snprintf(alias_path, sizeof(alias_path), "%s/aliases", folder);
    text_dataset_make(path, 1, rows, sizeof(rows) / sizeof(rows[0]));
    FILE *file = fopen(alias_path, "w");
    REQUIRE(file != NULL && fputs("A\tann\nb*\tc*\n", file) >= 0 && fclose(file) == 0);
    const spsh_dedup_source sources[] = {
        {path, "train", SPSH_SIDE_TRAIN},
        {path, "test",  SPSH_SIDE_TEST }
    };
    REQUIRE(spsh__print_set_open(sources, 2, NULL, &set, NULL) == SPSH_OK);
    const spsh__text_join_options options = {.alias_path = alias_path,
                                             .fold_names = true,
                                             .memory_bytes = UINT64_C(1) << 28,
                                             .threads = 1};
    check_run(set, &options, &rc);
    CHECK(rc == SPSH_OK);
    const uint64_t all = fail_malloc.calls;
    uint64_t failed = 0;
    for (uint64_t at = 0; at < 2 * all; at++) {
        fail_malloc.at = at / 2;
        fail_malloc.later_too = at % 2 != 0;
        check_run(set, &options, &rc);
        failed += rc != SPSH_OK;
    }
    fail_malloc.at = UINT64_MAX;
    fail_malloc.later_too = false;
    printf("allocations: %" PRIu64 ", runs that failed: %" PRIu64 "\n", all, failed);
    CHECK(all > 40 && failed > all);
    spsh__print_set_close(set);
    test_remove_tree(folder);
    return TEST_RESULT();
}
