/* fault_cursor.c: a cursor that is damaged, or that belongs to another plan, is rejected. The
 * message names the difference. */
#include "plan_kit.h"
#include "speechshard/publish.h"

static void check_refused(const spsh_plan *plan, const uint8_t *cursor, size_t size_bytes,
                          spsh_status want, const char *text)
{
    spsh_position place = {.epoch = 77};
    spsh_error err = SPSH_ERROR_INIT;
    uint32_t extra_bytes = 0;
    uint8_t *copy = (uint8_t *)malloc(size_bytes == 0 ? 1 : size_bytes);
    REQUIRE(copy != NULL); /* exact size, so that a sanitizer sees an over-read of one byte */
    memcpy(copy, cursor, size_bytes);
    CHECK_I64(spsh_cursor_decode(plan, copy, size_bytes, &place, &extra_bytes, &err), want);
    CHECK_U64(place.epoch, 77);
    if (strstr(err.message, text) == NULL)
        CHECK_STR(err.message, text);
    free(copy);
}

static void test_round_trip_and_damage(void)
{
    plan_kit kit = {.dataset = NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    const spsh_position place = {3, 0x123456789a, 17, 99};
    spsh_position found = {.epoch = 0};
    enum { EXTRA = 1234 };
    uint8_t cursor[SPSH_CURSOR_BYTES + EXTRA + 1] = {0};
    const size_t whole = sizeof(cursor) - 1;
    uint32_t extra_bytes = 0;
    opt.seed = UINT64_MAX - 5;
    plan_kit_fill(&kit, 300, 2, 1);
    plan_kit_open(&kit, 1);
    spsh_plan *plan = plan_kit_plan(&kit, &opt);
    spsh_cursor_encode(plan, &place, EXTRA, cursor);
    CHECK(spsh_cursor_decode(plan, cursor, whole, &found, &extra_bytes, NULL) == SPSH_OK);
    CHECK(memcmp(&found, &place, sizeof(place)) == 0);
    CHECK_U64(extra_bytes, EXTRA);
    for (uint32_t bit = 0; bit < 8 * SPSH_CURSOR_BYTES; bit++) {
        cursor[bit / 8] ^= (uint8_t)(1 << bit % 8);
        check_refused(plan, cursor, whole, SPSH_E_CORRUPT, "cursor: ");
        cursor[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t size = 0; size < whole; size++)
        check_refused(plan, cursor, size, SPSH_E_TRUNCATED, "cursor: ");
    check_refused(plan, cursor, whole + 1, SPSH_E_CORRUPT, "1315 bytes, expected 1314");
    spsh_plan_close(plan);
    plan_kit_close(&kit);
}

static void skip(const char *path, const char *id)
{
    const spsh_overlay_entry entry = {
        {(const uint8_t *)id, strlen(id)},
        {NULL,                0         }
    };
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_overlay_add(path, "skips", SPSH_OVERLAY_SKIP, &entry, 1, NULL, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
}

static void test_other_plans(void)
{
    plan_kit kit = {.dataset = NULL};
    plan_kit other = {.dataset = NULL};
    static const char *const splits[] = {"split2"};
    const spsh_plan_options init = SPSH_PLAN_OPTIONS_INIT;
    const spsh_position place = {1, 2, 0, 2};
    uint8_t cursor[SPSH_CURSOR_BYTES];
    plan_kit_fill(&kit, 300, 2, 1);
    plan_kit_fill(&other, 300, 2, 1);
    other.rows[7].samples++;
    plan_kit_open(&kit, 1);
    plan_kit_open(&other, 1);
    spsh_plan *plan = plan_kit_plan(&kit, &init);
    spsh_cursor_encode(plan, &place, 0, cursor);

    spsh_plan *of_other = plan_kit_plan(&other, &init);
    check_refused(of_other, cursor, sizeof(cursor), SPSH_E_MISMATCH, "another dataset");
    spsh_plan_close(of_other);

    for (uint32_t i = 0; i < 9; i++) {
        spsh_plan_options o = init;
        const char *what = "different options";
        switch (i) {
        case 0: o.seed = 1, what = "another seed"; break;
        case 1: o.alpha = 0.5; break;
        case 2: o.splits = splits, o.split_count = 1; break;
        case 3: o.window_utterances = 100; break;
        case 4: o.batch_utterances_max = 10; break;
        case 5: o.flags = SPSH_PLAN_BY_CHANNELS; break;
        case 6: o.shuffle_block_utterances = 8; break;
        case 7: o.utterance_seconds_max = 100; break;
        default: o.unit = SPSH_UNIT_TOKENS; break;
        }
        spsh_plan *changed = plan_kit_plan(&kit, &o);
        check_refused(changed, cursor, sizeof(cursor), SPSH_E_MISMATCH, what);
        spsh_plan_close(changed);
    }

    /* Options that do not affect the order do not matter. */
    spsh_plan_options same = init;
    spsh_position found = {.epoch = 0};
    uint32_t extra_bytes = 0;
    same.virtual_world_size = 64;
    same.flags = SPSH_PLAN_DROP_LAST;
    spsh_plan *changed = plan_kit_plan(&kit, &same);
    CHECK(spsh_cursor_decode(changed, cursor, sizeof(cursor), &found, &extra_bytes, NULL) ==
          SPSH_OK);
    spsh_plan_close(changed);

    skip(kit.path, "u17");
    spsh_dataset *skipping = NULL;
    REQUIRE(spsh_dataset_open(kit.path, NULL, &skipping, NULL) == SPSH_OK);
    plan_kit with_skip = kit;
    with_skip.dataset = skipping;
    spsh_plan *skipped = plan_kit_plan(&with_skip, &init);
    CHECK_U64(spsh_plan_info_get(skipped)->skipped_count, 1);
    CHECK_U64(spsh_plan_info_get(skipped)->utterance_count, 299);
    check_refused(skipped, cursor, sizeof(cursor), SPSH_E_MISMATCH, "skip overlays");
    spsh_plan_close(skipped);
    spsh_dataset_close(skipping);

    spsh_plan_close(plan);
    plan_kit_close(&kit);
    plan_kit_close(&other);
}

TEST_MAIN(fault_cursor)
{
    RUN(test_round_trip_and_damage);
    RUN(test_other_plans);
    return TEST_RESULT();
}
