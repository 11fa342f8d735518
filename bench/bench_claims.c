/* bench_claims.c: the time that a part spends on the claim of a unit.
 *
 *     bench_claims DIRECTORY [CLAIMS]
 *
 * Claims that many units in a new folder of DIRECTORY, with the thread that shows signs of life,
 * and then looks at each of them once as another process. Printed: wall time and processor time per
 * claim and per look.
 */
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_kit.h"
#include "claim/claim_keeper.h"

#define CLAIMS_DEFAULT 2000U

static double processor_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double wall_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static spsh__claim_state try_unit(const spsh__claims *claims, unsigned unit, spsh__own_claim *claim)
{
    spsh__claim_watch watch = {0};
    spsh__claim_state state = SPSH__CLAIM_UNKNOWN;
    char name[32];

    (void)snprintf(name, sizeof(name), "unit-%06u", unit);
    check_ok(spsh__claim_try(claims, name, &watch, claim, &state, NULL, &failure));
    return state;
}

static void claim_units(const spsh__claims *claims, unsigned count)
{
    for (unsigned unit = 0; unit < count; unit++) {
        spsh__own_claim claim;
        spsh__claim_keeper keeper;
        must(try_unit(claims, unit, &claim) == SPSH__CLAIM_WON, "not won");
        check_ok(spsh__claim_keeper_start(&keeper, &claim, &failure));
        spsh__claim_keeper_stop(&keeper);
        spsh__claim_close(&claim);
    }
}

static void look_at_units(const spsh__claims *claims, unsigned count)
{
    for (unsigned unit = 0; unit < count; unit++) {
        spsh__own_claim claim;
        must(try_unit(claims, unit, &claim) == SPSH__CLAIM_UNKNOWN, "not another process");
    }
}

static void remove_claims(const spsh__claims *claims, unsigned count)
{
    for (unsigned unit = 0; unit < count; unit++) {
        spsh__own_claim claim = {.claims = claims, .fd = -1};
        char name[32];
        (void)snprintf(name, sizeof(name), "unit-%06u", unit);
        spsh__claim_folder(name, 1, claim.folder);
        spsh__claim_remove(&claim);
    }
}

int main(int argc, char **argv)
{
    const unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : CLAIMS_DEFAULT;
    char folder[4096];
    spsh__claims claims;

    must(argc > 1, "usage: bench_claims DIRECTORY [CLAIMS]");
    (void)snprintf(folder, sizeof(folder), "%s/claims-XXXXXX", argv[1]);
    must(mkdtemp(folder) != NULL, folder);
    spsh__claims_begin(&claims, spsh_io_default(), folder, 60);
    double wall = wall_s();
    double processor = processor_s();
    claim_units(&claims, count);
    printf("claim: %.0f us of wall time, %.0f us of processor time\n",
           1e6 * (wall_s() - wall) / count, 1e6 * (processor_s() - processor) / count);
    claims.boot[0] = '\0'; /* as a process of another machine, which does not test the lock */
    wall = wall_s();
    processor = processor_s();
    look_at_units(&claims, count);
    printf("look: %.0f us of wall time, %.0f us of processor time\n",
           1e6 * (wall_s() - wall) / count, 1e6 * (processor_s() - processor) / count);
    remove_claims(&claims, count);
    must(rmdir(folder) == 0, folder);
    return 0;
}
