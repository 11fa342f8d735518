/* unit_claim.c: claims with a simulated clock: one owner per generation, leases, takeovers, and
 * owners that continue after they were taken for dead.
 */
#include "claim/claim.h"
#include "claim/claim_keeper.h"
#include "fault_io.h"
#include "test_tree.h"

#include <fcntl.h>

#define SECOND UINT64_C(1000000000)

static uint64_t now_ns;

static uint64_t test_now(void *user)
{
    (void)user;
    return now_ns;
}

static const spsh__claim_host unlocked_host = {NULL, test_now, NULL, NULL};

/* A process on the machine `boot`. */
static spsh__claims process(const char *owner, const char *boot)
{
    spsh__claims claims = {.io = spsh_io_default(),
                           .directory = base,
                           .host = &unlocked_host,
                           .lease_s = 60,
                           .random = strlen(owner)};
    (void)snprintf(claims.owner, sizeof(claims.owner), "%s", owner);
    (void)snprintf(claims.boot, sizeof(claims.boot), "%s", boot);
    return claims;
}

static spsh__claim_state look(const spsh__claims *claims, const char *name,
                              spsh__claim_watch *watch, spsh__own_claim *ret_claim)
{
    spsh__claim_state state = SPSH__CLAIM_UNKNOWN;
    CHECK_I64(spsh__claim_try(claims, name, watch, ret_claim, &state, NULL, NULL), SPSH_OK);
    return state;
}

static bool exists(const char *relative)
{
    return access(at(relative), F_OK) == 0;
}

static void test_one_owner(void)
{
    const spsh__claims a = process("a", "one");
    const spsh__claims b = process("bb", "two");
    spsh__claim_watch watch_a = {0};
    spsh__claim_watch watch_b = {0};
    spsh__own_claim claim;
    spsh__own_claim other;
    char owner[SPSH__CLAIM_OWNER_BYTES] = "";
    spsh__claim_state state = SPSH__CLAIM_WON;

    CHECK(look(&a, "x", &watch_a, &claim) == SPSH__CLAIM_WON);
    CHECK_U64(claim.generation, 1);
    CHECK_STR(claim.folder, "x.g1");
    CHECK_STR(claim.previous, "");
    CHECK_I64(spsh__claim_try(&b, "x", &watch_b, &other, &state, owner, NULL), SPSH_OK);
    CHECK(state == SPSH__CLAIM_UNKNOWN);
    CHECK_STR(owner, "a");
    now_ns += 30 * SECOND;
    spsh__claim_beat(&claim);
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_ALIVE);
    now_ns += 59 * SECOND; /* less than a lease since the last change that b has seen */
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_ALIVE);
    spsh__claim_close(&claim);
}

/* b takes over after a lease, and a, which continues, changes nothing. */
static void test_takeover_and_zombie(void)
{
    const spsh__claims a = process("a", "one");
    const spsh__claims b = process("bb", "two");
    const spsh__claims c = process("ccc", "three");
    spsh__claim_watch watch_a = {0};
    spsh__claim_watch watch_b = {0};
    spsh__claim_watch watch_c = {0};
    spsh__own_claim claim;
    spsh__own_claim taken;
    spsh__own_claim none;

    CHECK(look(&a, "x", &watch_a, &claim) == SPSH__CLAIM_WON);
    CHECK(look(&b, "x", &watch_b, &taken) == SPSH__CLAIM_UNKNOWN);
    now_ns += 60 * SECOND;
    CHECK(look(&b, "x", &watch_b, &taken) == SPSH__CLAIM_WON);
    CHECK_U64(taken.generation, 2);
    CHECK_STR(taken.previous, "a");
    CHECK(!taken.previous_has_stopped);
    spsh__claim_beat(&claim); /* a beat of generation 1, although b owns generation 2 */
    CHECK(look(&c, "x", &watch_c, &none) == SPSH__CLAIM_UNKNOWN);
    CHECK_U64(watch_c.generation, 2);
    now_ns += 10 * SECOND;
    spsh__claim_beat(&claim);
    CHECK(look(&c, "x", &watch_c, &none) == SPSH__CLAIM_UNKNOWN);
    spsh__claim_beat(&taken);
    CHECK(look(&c, "x", &watch_c, &none) == SPSH__CLAIM_ALIVE);
    spsh__claim_close(&claim);
    spsh__claim_close(&taken);
}

static void test_released(void)
{
    const spsh__claims a = process("a", "one");
    const spsh__claims b = process("bb", "two");
    spsh__claim_watch watch_a = {0};
    spsh__claim_watch watch_b = {0};
    spsh__own_claim claim;

    CHECK(look(&a, "x", &watch_a, &claim) == SPSH__CLAIM_WON);
    spsh__claim_release(&claim);
    CHECK(look(&b, "x", &watch_b, &claim) == SPSH__CLAIM_WON);
    CHECK_U64(claim.generation, 2);
    CHECK_STR(claim.previous, "a");
    CHECK(claim.previous_has_stopped);
    spsh__claim_remove(&claim); /* nothing was written: the generation is free again */
    CHECK(!exists("x.g2"));
    CHECK(look(&b, "x", &watch_b, &claim) == SPSH__CLAIM_WON);
    CHECK_U64(claim.generation, 2);
    spsh__claim_close(&claim);
}

/* The owner's lease counts, because its beats depend on it. */
static void test_lease_of_the_owner(void)
{
    spsh__claims a = process("a", "one");
    const spsh__claims b = process("bb", "two");
    spsh__claim_watch watch_a = {0};
    spsh__claim_watch watch_b = {0};
    spsh__own_claim claim;
    spsh__own_claim other;

    a.lease_s = 600;
    CHECK(look(&a, "x", &watch_a, &claim) == SPSH__CLAIM_WON);
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_UNKNOWN);
    now_ns += 599 * SECOND;
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_UNKNOWN);
    now_ns += SECOND;
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_WON);
    spsh__claim_close(&claim);
    spsh__claim_close(&other);
}

/* mkdir succeeded but its reply was lost, or the owner ended before it wrote its record: the folder
 * has no record. It looks like an owner without a sign of life. */
static void test_folder_without_record(void)
{
    const spsh__claims a = process("a", "one");
    spsh__claim_watch watch = {0};
    spsh__own_claim claim;

    REQUIRE(mkdir(at("x.g1"), 0777) == 0);
    CHECK(look(&a, "x", &watch, &claim) == SPSH__CLAIM_UNKNOWN);
    now_ns += 59 * SECOND;
    CHECK(look(&a, "x", &watch, &claim) == SPSH__CLAIM_UNKNOWN);
    now_ns += SECOND;
    CHECK(look(&a, "x", &watch, &claim) == SPSH__CLAIM_WON);
    CHECK_U64(claim.generation, 2);
    CHECK_STR(claim.previous, "");
    spsh__claim_close(&claim);
}

/* A new observer finds the newest generation, also over the folders of generations that ended. */
static void test_many_generations(void)
{
    const spsh__claims a = process("a", "one");
    spsh__claim_watch watch = {0};
    spsh__own_claim claim;

    for (uint32_t generation = 1; generation <= 20; generation++) {
        spsh__claim_watch fresh = {0};
        CHECK(look(&a, "x", &fresh, &claim) == SPSH__CLAIM_WON);
        CHECK_U64(claim.generation, generation);
        spsh__claim_release(&claim);
    }
    CHECK(look(&a, "x", &watch, &claim) == SPSH__CLAIM_WON);
    CHECK_U64(claim.generation, 21);
    spsh__claim_close(&claim);
}

/* On one machine the lock shows at once that an owner has exited, and a living one keeps it. */
static void test_lock_of_one_machine(void)
{
    spsh__claims a;
    spsh__claims b;
    spsh__claims elsewhere;
    spsh__claim_watch watch_a = {0};
    spsh__claim_watch watch_b = {0};
    spsh__claim_watch watch_elsewhere = {0};
    spsh__own_claim claim;
    spsh__own_claim other;

    spsh__claims_begin(&a, spsh_io_default(), base, 60);
    spsh__claims_begin(&b, spsh_io_default(), base, 60);
    spsh__claims_begin(&elsewhere, spsh_io_default(), base, 60);
    (void)snprintf(elsewhere.boot, sizeof(elsewhere.boot), "another kernel");
    CHECK(a.random != b.random);
    CHECK(look(&a, "x", &watch_a, &claim) == SPSH__CLAIM_WON);
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_UNKNOWN);
    spsh__claim_close(&claim); /* as at the end of a process that was killed */
    CHECK(look(&elsewhere, "x", &watch_elsewhere, &other) == SPSH__CLAIM_UNKNOWN);
    CHECK(look(&b, "x", &watch_b, &other) == SPSH__CLAIM_WON);
    CHECK(other.previous_has_stopped);
    CHECK(strncmp(other.previous, "process ", 8) == 0);
    spsh__claim_close(&other);
}

static void test_keeper(void)
{
    spsh__claims a;
    spsh__claims b;
    spsh__claim_keeper keeper;
    spsh__claim_watch watch = {0};
    spsh__claim_watch watch_b = {0};
    spsh__own_claim claim;
    spsh__own_claim other;

    spsh__claims_begin(&a, spsh_io_default(), base, 1);
    spsh__claims_begin(&b, spsh_io_default(), base, 1);
    CHECK(look(&a, "x", &watch, &claim) == SPSH__CLAIM_WON);
    REQUIRE(spsh__claim_keeper_start(&keeper, &claim, NULL) == SPSH_OK);
    while (look(&b, "x", &watch_b, &other) != SPSH__CLAIM_ALIVE)
        (void)usleep(1000);
    spsh__claim_keeper_stop(&keeper);
    spsh__claim_close(&claim);
}

/* Each call fails once: either the claim is won or nothing is left that blocks others for longer
 * than a lease. */
static void test_every_failing_call(void)
{
    bool reached = true;

    for (uint64_t n = 0; reached; n++) {
        fault_io fault = {.fail_at = n, .fail_count = 1, .fail_errno = EIO};
        const spsh_io io = fault_io_table(&fault);
        spsh__claims a = process("a", "one");
        const spsh__claims b = process("bb", "two");
        spsh__claim_watch watch_a = {0};
        spsh__claim_watch watch_b = {0};
        spsh__own_claim claim = {.fd = -1};
        spsh__claim_state state = SPSH__CLAIM_UNKNOWN;
        char name[16];

        a.io = &io;
        (void)snprintf(name, sizeof(name), "x%" PRIu64, n);
        const spsh_status rc = spsh__claim_try(&a, name, &watch_a, &claim, &state, NULL, NULL);
        reached = fault.call_count > n;
        CHECK(rc == SPSH_OK || rc == SPSH_E_IO);
        if (rc == SPSH_OK) {
            CHECK(state == SPSH__CLAIM_WON);
            spsh__claim_close(&claim);
        }
        CHECK_I64(fault.open_count, 0);
        if (look(&b, name, &watch_b, &claim) != SPSH__CLAIM_WON) {
            now_ns += 60 * SECOND;
            CHECK(look(&b, name, &watch_b, &claim) == SPSH__CLAIM_WON);
        }
        spsh__claim_close(&claim);
        CHECK(n < 20);
    }
}

/* A client of a file system that remembers that a record is missing, until it opens the folder. */
static bool knows_record;

static int open_cached(void *user, const char *path, int flags, mode_t mode)
{
    const size_t length = strlen(path);

    knows_record = knows_record || (flags & O_DIRECTORY) != 0;
    if (!knows_record && length > 6 && strcmp(path + length - 6, "/alive") == 0)
        return -ENOENT;
    return spsh_io_default()->open_fn(user, path, flags, mode);
}

static void test_cached_absence(void)
{
    const spsh__claims a = process("a", "one");
    spsh__claims b = process("bb", "two");
    spsh_io io = *spsh_io_default();
    spsh__claim_watch watch_a = {0};
    spsh__claim_watch watch_b = {0};
    spsh__own_claim claim;
    spsh__own_claim other;
    char owner[SPSH__CLAIM_OWNER_BYTES] = "";
    spsh__claim_state state = SPSH__CLAIM_WON;

    knows_record = false;
    io.open_fn = open_cached;
    b.io = &io;
    CHECK(look(&a, "x", &watch_a, &claim) == SPSH__CLAIM_WON);
    CHECK_I64(spsh__claim_try(&b, "x", &watch_b, &other, &state, owner, NULL), SPSH_OK);
    CHECK(state == SPSH__CLAIM_UNKNOWN);
    CHECK_STR(owner, "a");
    spsh__claim_close(&claim);
}

static void test_missing_directory(void)
{
    spsh__claims a = process("a", "one");
    spsh__claim_watch watch = {0};
    spsh__own_claim claim;
    spsh__claim_state state = SPSH__CLAIM_UNKNOWN;

    a.directory = at("nothing");
    CHECK_I64(spsh__claim_try(&a, "x", &watch, &claim, &state, NULL, NULL), SPSH_E_NOT_FOUND);
}

#define RUN_IN_FOLDER(test_)                                                                       \
    do {                                                                                           \
        test_temp_dir(base, sizeof(base));                                                         \
        now_ns = 5 * SECOND;                                                                       \
        RUN(test_);                                                                                \
        test_remove_tree(base);                                                                    \
    } while (0)

TEST_MAIN(unit_claim)
{
    RUN_IN_FOLDER(test_one_owner);
    RUN_IN_FOLDER(test_takeover_and_zombie);
    RUN_IN_FOLDER(test_released);
    RUN_IN_FOLDER(test_lease_of_the_owner);
    RUN_IN_FOLDER(test_folder_without_record);
    RUN_IN_FOLDER(test_many_generations);
    RUN_IN_FOLDER(test_lock_of_one_machine);
    RUN_IN_FOLDER(test_keeper);
    RUN_IN_FOLDER(test_every_failing_call);
    RUN_IN_FOLDER(test_cached_absence);
    RUN_IN_FOLDER(test_missing_directory);
    return TEST_RESULT();
}
