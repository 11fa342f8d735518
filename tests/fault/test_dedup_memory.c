/* test_dedup_memory.c: each allocation of a fingerprint and of an alignment fails once, and then it
 * and all that follow. What was made before is freed (the address sanitizer looks). The linker puts
 * the functions below in the place of calloc and its kin (--wrap).
 */
#include "align.h"
#include "print_signals.h"
#include "spsh_test.h"

/* The names are the linker's.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);

static uint64_t calls;
static uint64_t fail_at = UINT64_MAX;
static bool fail_later_too;

static bool fails(void)
{
    const uint64_t call = calls++;
    return call == fail_at || (fail_later_too && call > fail_at);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(memory, alignment, size);
}

/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

enum { RATE = 16000, COUNT = 3 * RATE };
static int16_t speech[COUNT];
static int16_t faster[COUNT];

/* All there is: two prints, a search, a judgement that undoes a drift. */
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
    calls = 0;
    REQUIRE(run(&want, NULL) == SPSH_OK);
    CHECK_STR(spsh__align_class_text(want.kind), "time_scaled");
    const uint64_t count = calls;
    CHECK(count > 20);
    for (int later = 0; later < 2; later++) {
        fail_later_too = later != 0;
        for (fail_at = 0; fail_at < count; fail_at++) {
            spsh__alignment found = {.count = 77};
            spsh_error err = SPSH_ERROR_INIT;
            calls = 0;
            CHECK_I64(run(&found, &err), SPSH_E_NO_MEMORY);
            CHECK_I64(err.status, SPSH_E_NO_MEMORY);
            CHECK_U64(found.count, 77);
        }
    }
    fail_at = UINT64_MAX;
    fail_later_too = false;
    spsh__alignment again = {0};
    CHECK_I64(run(&again, NULL), SPSH_OK);
    CHECK(again.kind == want.kind && again.count == want.count);
}

int main(void)
{
    make_signal(SIGNAL_SPEECH, RATE, 6, speech, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        faster[i] = speech[i * 1005 / 1000 < COUNT ? i * 1005 / 1000 : COUNT - 1];
    RUN(test_every_allocation_failure);
    return TEST_RESULT();
}
