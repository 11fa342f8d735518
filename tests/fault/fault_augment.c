/* fault_augment.c: every allocation of an augmenter fails once; calls allocate nothing. */
#include "fault_alloc.h"
#include "speechshard/augment.h"
#include "spsh_test.h"

static spsh_status open_and_use(fault_alloc *fault)
{
    static int16_t samples[1000], room[90], out[2000];
    const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, fault};
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_augmenter *augmenter = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh_augment_options_parse("speeds=0.9:1:1.1:0.5:0.9", &options, NULL) == SPSH_OK);
    const spsh_status rc = spsh_augmenter_open(&options, 1000, 90, &allocator, &augmenter, &err);
    CHECK_I64(err.status, rc);
    CHECK((augmenter != NULL) == (rc == SPSH_OK));
    if (rc != SPSH_OK)
        return rc;
    const uint64_t calls = fault->call_count;
    for (size_t i = 0; i < 1000; i++)
        samples[i] = (int16_t)(i % 100 * 300);
    room[3] = 1000;
    room[40] = -500;
    const spsh_augment_draw draw = {
        .speed_percent = 50, .has_noise = true, .has_room = true, .has_gain = true, .gain_db = -3};
    const spsh_augment_input input = {samples, 1000, samples, 1000, 500, room, 90};
    CHECK_I64(spsh_augment_samples(augmenter, &draw, &input, out, NULL), SPSH_OK);
    CHECK_U64(fault->call_count, calls);
    spsh_augmenter_close(augmenter);
    return rc;
}

static void test_every_allocation_failure(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    uint64_t fail_at = 0;
    for (; rc != SPSH_OK && fail_at < 100; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        rc = open_and_use(&fault);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
    }
    CHECK_U64(fail_at, 10); /* augmenter, 3 for speeds, 3 for the RIR, 2 buffers, none */
}

TEST_MAIN(fault_augment)
{
    RUN(test_every_allocation_failure);
    return TEST_RESULT();
}
