/* unit_dataset_splits.c: operands DATASET[:SPLITS], with colons in all possible positions. */
#include "speechshard/dedup.h"
#include "speechshard/io.h"
#include "spsh_test.h"

/* These files exist. */
static int stat_some(void *user, const char *path, struct stat *ret_stat)
{
    static const char *const paths[] = {"a.spsh", "b:c.spsh", "d:e", "d", "x:train"};
    (void)user;
    memset(ret_stat, 0, sizeof(*ret_stat));
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (strcmp(paths[i], path) == 0)
            return 0;
    }
    return -ENOENT;
}

static void test_operands(void)
{
    static const struct {
        const char *operand, *path, *splits;
    } cases[] = {
        {"a.spsh",           "a.spsh",   NULL       },
        {"a.spsh:train",     "a.spsh",   "train"    },
        {"a.spsh:train,dev", "a.spsh",   "train,dev"},
        {"a.spsh:train:one", "a.spsh",   "train:one"},
        {"b:c.spsh",         "b:c.spsh", NULL       },
        {"b:c.spsh:dev",     "b:c.spsh", "dev"      },
        {"d:e",              "d:e",      NULL       },
        {"d:e:test",         "d:e",      "test"     },
        {"d:f",              "d",        "f"        },
        {"x:train",          "x:train",  NULL       },
        {"none",             "none",     NULL       },
        {"none:train",       "none",     "train"    },
        {"no:ne:train",      "no:ne",    "train"    },
    };
    spsh_io io = *spsh_io_default();
    io.stat_fn = stat_some;
    spsh_dedup_sources *list = NULL;
    REQUIRE(spsh_dedup_sources_new(&list, NULL) == SPSH_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        REQUIRE(spsh_dedup_sources_add(list, cases[i].operand, SPSH_SIDE_TEST, &io, NULL) ==
                SPSH_OK);
    REQUIRE(spsh_dedup_sources_count(list) == sizeof(cases) / sizeof(cases[0]));
    for (size_t i = 0; i < spsh_dedup_sources_count(list); i++) {
        CHECK_STR(spsh_dedup_sources_get(list, i)->path, cases[i].path);
        CHECK((spsh_dedup_sources_get(list, i)->splits == NULL) == (cases[i].splits == NULL));
        if (spsh_dedup_sources_get(list, i)->splits != NULL && cases[i].splits != NULL)
            CHECK_STR(spsh_dedup_sources_get(list, i)->splits, cases[i].splits);
        CHECK(spsh_dedup_sources_get(list, i)->side == SPSH_SIDE_TEST);
    }
    spsh_dedup_sources_free(list);
}

static void test_what_is_no_operand(void)
{
    static const char *const operands[] = {
        "",          ":train",      ":",     "a.spsh:",       "a.spsh:,a",
        "a.spsh:a,", "a.spsh:a,,b", "none:", "a.spsh:caf\xe9"};
    spsh_dedup_sources *list = NULL;
    REQUIRE(spsh_dedup_sources_new(&list, NULL) == SPSH_OK);
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++) {
        spsh_error err = SPSH_ERROR_INIT;
        CHECK(spsh_dedup_sources_add(list, operands[i], SPSH_SIDE_TRAIN, NULL, &err) ==
              SPSH_E_INVALID_ARG);
        CHECK(strstr(err.message, operands[i]) != NULL);
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
