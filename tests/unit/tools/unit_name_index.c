/* unit_name_index.c: names keep the content of their slots while the index grows in place, for any
 * runs of slots, including one across the end of the table.
 */
#include "spsh_test.h"

#include <stdio.h>

#include "common/file_names.h"
#include "ingest/view/name_index.h"

#define ROUNDS     200U
#define NAME_COUNT 4000U /* the table grows: 1024, 2048, 4096, 8192 slots */

static spsh_bytes name_of(char text[48], unsigned long long salt, size_t number)
{
    const int length = snprintf(text, 48, "%llx-%zu", salt, number);
    return (spsh_bytes){(const uint8_t *)text, length > 0 ? (size_t)length : 0};
}

/* Every name has its own state and value, and other names are not found. */
static void check_names(const spsh__name_index *index, unsigned long long salt, size_t count)
{
    char text[48];
    CHECK_U64(index->count, count);
    for (size_t i = 0; i < count; i++) {
        const spsh__name_slot *slot = spsh__name_index_find(index, name_of(text, salt, i));
        REQUIRE(slot != NULL);
        CHECK_U64(slot->value, i);
        CHECK_U64(slot->state, i % 3 + 1);
    }
    CHECK(spsh__name_index_find(index, name_of(text, salt, count)) == NULL);
}

static void test_growth(void)
{
    uint64_t random = test_seed(11);
    for (unsigned round = 0; round < ROUNDS; round++) {
        const unsigned long long salt = test_random(&random);
        spsh__name_index index = {0};
        char text[48];
        for (size_t i = 0; i < NAME_COUNT; i++) {
            const size_t before = index.capacity;
            spsh__name_slot *slot =
                spsh__name_index_add(&index, name_of(text, salt, i), (uint32_t)(i % 3 + 1));
            REQUIRE(slot != NULL);
            slot->value = i;
            if (index.capacity != before)
                check_names(&index, salt, i + 1);
        }
        check_names(&index, salt, NAME_COUNT);
        spsh__name_index_free(&index);
    }
}

static void test_add_again(void)
{
    spsh__name_index index = {0};
    const spsh_bytes name = spsh__bytes_of("a");
    CHECK(spsh__name_index_find(&index, name) == NULL);
    CHECK(!spsh__name_index_any(&index, 0, 0));
    spsh__name_slot *slot = spsh__name_index_add(&index, name, 5);
    REQUIRE(slot != NULL);
    CHECK(spsh__name_index_add(&index, name, 8) == slot);
    CHECK_U64(slot->state, 5);
    CHECK_U64(index.count, 1);
    CHECK(spsh__name_index_any(&index, 4, 2));
    CHECK(!spsh__name_index_any(&index, 4, 1));
    CHECK(!spsh__name_index_any(&index, 2, 0));
    spsh__name_index_free(&index);
}

/* Marked names can be found after they are settled, for any order and number of marks. */
static void test_marks(void)
{
    uint64_t random = test_seed(12);
    const unsigned long long salt = test_random(&random);
    spsh__name_index index = {0};
    char text[48];
    for (size_t i = 0; i < 2 * NAME_COUNT; i++) {
        const uint32_t bit = i < NAME_COUNT ? 1 : 4;
        const uint64_t value = i % 2 == 0 ? i : SPSH__NAME_VALUE_KEPT;
        REQUIRE(spsh__name_index_mark(&index, name_of(text, salt, i % NAME_COUNT), bit, value));
        spsh__name_index_expect(&index, name_of(text, salt, i));
    }
    REQUIRE(spsh__name_index_settle(&index));
    CHECK_U64(index.count, NAME_COUNT);
    for (size_t i = 0; i < NAME_COUNT; i++) {
        const spsh__name_slot *slot = spsh__name_index_find(&index, name_of(text, salt, i));
        REQUIRE(slot != NULL);
        CHECK_U64(slot->state, 5);
        CHECK_U64(slot->value, i % 2 == 0 ? NAME_COUNT + i : 0);
    }
    /* A new mark cannot be found before the index is settled. */
    REQUIRE(spsh__name_index_mark(&index, name_of(text, salt, NAME_COUNT), 2, 7));
    CHECK(spsh__name_index_find(&index, name_of(text, salt, NAME_COUNT)) == NULL);
    REQUIRE(spsh__name_index_settle(&index) && spsh__name_index_settle(&index));
    const spsh__name_slot *slot = spsh__name_index_find(&index, name_of(text, salt, NAME_COUNT));
    REQUIRE(slot != NULL);
    CHECK(slot->state == 2 && slot->value == 7);
    spsh__name_index_free(&index);
}

TEST_MAIN(unit_name_index)
{
    RUN(test_growth);
    RUN(test_add_again);
    RUN(test_marks);
    return TEST_RESULT();
}
