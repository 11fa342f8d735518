/* unit_plan_item.c: items keep their fields in the plan's buffers. Also: which lengths differ from
 * the metadata. */
#include "spsh_test.h"

#include "plan/plan_item.h"

#define MS UINT64_C(1000000)

static spsh_ingest_item whole_file(uint64_t expected_ns)
{
    const spsh_bytes name = {(const uint8_t *)"a.wav", 5};
    return (spsh_ingest_item){
        .audio = {"/corpus/a.wav", 1, 2, 3},
        .source = name,
        .recording_id = name,
        .id = name,
        .end_ns = SPSH_SEGMENT_END,
        .expected_ns = expected_ns,
        .source_bytes = 44
    };
}

static void test_length_travels(void)
{
    spsh__builder out = {0};
    spsh_ingest_item got = {0};
    uint64_t sequence = 0;
    spsh_ingest_item item = whole_file(UINT64_C(0x123456789abcdef));
    item.sidecar = (spsh__piece){"/corpus/a.txt", 4, 5, 6};
    spsh__item_append(&out, &item, 7);
    REQUIRE(!out.failed);
    REQUIRE(spsh__item_read(spsh__builder_bytes(&out), &got, &sequence));
    CHECK_U64(sequence, 7);
    CHECK_U64(got.expected_ns, item.expected_ns);
    CHECK_U64(got.end_ns, SPSH_SEGMENT_END);
    CHECK_U64(got.source_bytes, 44);
    CHECK_U64(got.audio.offset_bytes, 1);
    CHECK_U64(got.sidecar.file_bytes, 6);
    spsh__builder_free(&out);
}

/* max(50 ms, 1 %), in both directions. The limits themselves count as equal. */
static void test_which_lengths_are_off(void)
{
    static const struct {
        uint64_t expected_ns, audio_ns;
        bool off;
    } cases[] = {
        {400 * MS,          400 * MS,          false},
        {400 * MS,          450 * MS,          false},
        {400 * MS,          450 * MS + 1,      true },
        {400 * MS,          350 * MS,          false},
        {400 * MS,          350 * MS - 1,      true },
        {2400 * MS,         400 * MS,          true },
        {20 * MS,           1,                 false},
        {5000 * MS,         5050 * MS,         false},
        {10000 * MS,        10100 * MS,        false},
        {10000 * MS,        10100 * MS + 1,    true },
        {10000 * MS,        9900 * MS,         false},
        {10000 * MS,        9900 * MS - 1,     true },
        {0,                 400 * MS,          false},
        {UINT64_C(1) << 61, 400 * MS,          true },
        {1,                 UINT64_C(1) << 63, true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const spsh_ingest_item item = whole_file(cases[i].expected_ns);
        CHECK(spsh__item_length_is_off(&item, cases[i].audio_ns) == cases[i].off);
    }
}

static void test_segments_are_not_compared(void)
{
    spsh_ingest_item item = whole_file(2400 * MS);
    CHECK(spsh__item_length_is_off(&item, 400 * MS));
    item.start_ns = 1;
    CHECK(!spsh__item_length_is_off(&item, 400 * MS));
    item.start_ns = 0;
    item.end_ns = 400 * MS;
    CHECK(!spsh__item_length_is_off(&item, 400 * MS));
}

TEST_MAIN(unit_plan_item)
{
    RUN(test_length_travels);
    RUN(test_which_lengths_are_off);
    RUN(test_segments_are_not_compared);
    return TEST_RESULT();
}
