/* unit_dataset_splits.c: operands DATASET[:SPLITS]. */
#include "dataset_operands.h"
#include "speechshard/dedup.h"
#include "spsh_test.h"

static void test_operands(void)
{
    spsh_io io = *spsh_io_default();
    io.stat_fn = dataset_operands_stat;
    spsh_dedup_sources *list = NULL;
    REQUIRE(spsh_dedup_sources_new(&list, NULL) == SPSH_OK);
    for (size_t i = 0; i < DATASET_OPERANDS; i++)
        REQUIRE(spsh_dedup_sources_add(list, dataset_operands[i].name, SPSH_SIDE_TEST, &io, NULL) ==
                SPSH_OK);
    REQUIRE(spsh_dedup_sources_count(list) == DATASET_OPERANDS);
    for (size_t i = 0; i < spsh_dedup_sources_count(list); i++) {
        CHECK_STR(spsh_dedup_sources_get(list, i)->path, dataset_operands[i].path);
        CHECK((spsh_dedup_sources_get(list, i)->splits == NULL) ==
              (dataset_operands[i].splits == NULL));
        if (spsh_dedup_sources_get(list, i)->splits != NULL && dataset_operands[i].splits != NULL)
            CHECK_STR(spsh_dedup_sources_get(list, i)->splits, dataset_operands[i].splits);
        CHECK(spsh_dedup_sources_get(list, i)->side == SPSH_SIDE_TEST);
    }
    spsh_dedup_sources_free(list);
}

static void test_what_is_no_operand(void)
{
    spsh_dedup_sources *list = NULL;
    REQUIRE(spsh_dedup_sources_new(&list, NULL) == SPSH_OK);
    for (size_t i = 0; i < BAD_DATASET_OPERANDS; i++) {
        spsh_error err = SPSH_ERROR_INIT;
        CHECK(spsh_dedup_sources_add(list, bad_dataset_operands[i], SPSH_SIDE_TRAIN, NULL, &err) ==
              SPSH_E_INVALID_ARG);
        CHECK(strstr(err.message, bad_dataset_operands[i]) != NULL);
    }
    CHECK_U64(spsh_dedup_sources_count(list), 0);
    spsh_dedup_sources_free(list);
}

TEST_MAIN(unit_dataset_splits)
{
    RUN(test_operands);
    RUN(test_what_is_no_operand);
    return TEST_RESULT();
}
