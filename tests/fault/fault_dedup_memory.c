/* fault_dedup_memory.c: each allocation of a fingerprint and of an alignment fails once, as a
 * single failure and with all that follow. Earlier allocations must be freed (the address sanitizer
 * checks).
 */
#include "fail_malloc.h"
#include "fingerprint/align.h"
#include "print_signals.h"
#include "spsh_test.h"

enum { RATE = 16000, COUNT = RATE };
static int16_t speech[COUNT];
static int16_t faster[COUNT];

/* The whole comparison: two fingerprints, a search, and an alignment that corrects a drift. */
static spsh_status run(spsh__alignment *found, spsh_error *err)
{
    spsh__print a = {0};
    spsh__print b = {0};
    int64_t offset = 0;
    spsh_status rc = spsh__print_make(RATE, speech, COUNT, &a, err);
    if (rc == SPSH_OK)
        rc = spsh__print_make(RATE, faster, COUNT, &b, err);
    if (rc == SPSH_OK && spsh__align_search(&a, &b, &spsh__align_limits_default, &offset))
        rc = spsh__align(&a, &b, offset, &spsh__align_limits_default, found, err);
    spsh__print_free(&a);
    spsh__print_free(&b);
    return rc;
}

static void test_every_allocation_failure(void)
{
    spsh__alignment want = {0};
    fail_malloc.calls = 0;
    REQUIRE(run(&want, NULL) == SPSH_OK);
    CHECK_STR(spsh_copy_class_text(want.kind), "time_scaled");
    const uint64_t count = fail_malloc.calls;
    printf("%" PRIu64 " allocations\n", count);
    CHECK(count > 20);
    spsh__alignment found = {.count = 77};
    spsh_error err = SPSH_ERROR_INIT;
    fail_malloc.calls = 0;
    fail_malloc.forks = true;
    const spsh_status rc = run(&found, &err);
    if (!fail_malloc.forks) {
        CHECK_I64(rc, SPSH_E_NO_MEMORY);
        CHECK_I64(err.status, SPSH_E_NO_MEMORY);
        CHECK_U64(found.count, 77);
        exit(TEST_RESULT());
    }
    fail_malloc.forks = false;
    CHECK_I64(rc, SPSH_OK);
    CHECK_U64(fail_malloc.children, 2 * count);
    CHECK_U64(fail_malloc.bad_children, 0);
    spsh__alignment again = {0};
    CHECK_I64(run(&again, NULL), SPSH_OK);
    CHECK(again.kind == want.kind && again.count == want.count);
}

TEST_MAIN(fault_dedup_memory)
{
    make_signal(SIGNAL_SPEECH, RATE, 6, speech, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        faster[i] = speech[i * 1005 / 1000 < COUNT ? i * 1005 / 1000 : COUNT - 1];
    RUN(test_every_allocation_failure);
    return TEST_RESULT();
}
