/* bench_comm.c: TCP against Gloo, between processes of this machine.
 *
 *     bench_comm [PROCESSES [ROUNDS]]
 *
 * All processes open both carriers. Each size is measured in rounds, TCP and Gloo in turns, so that
 * other load disturbs both alike. `us` is the median time of one operation, `cpu_us` the processor
 * time that all processes spend on it. Operations: `pingpong`, half of a round trip between ranks 0
 * and 1; `stream`, one message of many from rank 0 to rank 1, eight in flight; `reduce`, a sum over
 * all ranks (spsh__comm_all_reduce). `others` is the share of the machine that other programs took.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/train_internal.h"
#include "comm/comm.h"
/* After it: `err` is all benches'. */
#include "bench_kit.h"

enum { CARRIERS = 2, ROUNDS_MAX = 64, WINDOW = 8, DEADLINE_MS = 600000, TAG = 7 };

static const char *const names[CARRIERS] = {"tcp", "gloo"};
static const size_t sizes[] = {8, 1024, 16384, 65536, 1u << 20, 8u << 20, 64u << 20};

typedef struct bench {
    spsh__comm *comms[CARRIERS];
    uint8_t *bytes;
    uint32_t rounds;
} bench;

static uint32_t count_of(size_t size)
{
    const size_t count = (256u << 20) / (size + 100000);
    return count < 4 ? 4 : count > 1000 ? 1000 : (uint32_t)count;
}

static void move(spsh__comm *c, bool sends, void *bytes, size_t size, spsh__comm_handle *h)
{
    check_ok(sends ? c->ops->send_fn(c, 1 - c->rank, TAG, bytes, size, h, &err)
                   : c->ops->receive_fn(c, 1 - c->rank, TAG, bytes, size, h, &err));
}

static void finish(spsh__comm *c, spsh__comm_handle h)
{
    check_ok(c->ops->wait_fn(c, h, DEADLINE_MS, &err));
}

static void pingpong(bench *b, spsh__comm *c, size_t size, uint32_t count)
{
    for (uint32_t i = 0; i < 2 * count && c->rank < 2; i++) {
        spsh__comm_handle h = 0;
        move(c, i % 2 == c->rank, b->bytes, size, &h);
        finish(c, h);
    }
}

static void stream(bench *b, spsh__comm *c, size_t size, uint32_t count)
{
    spsh__comm_handle h[WINDOW] = {0};
    for (uint32_t i = 0; i < count + WINDOW && c->rank < 2; i++) {
        if (i >= WINDOW)
            finish(c, h[i % WINDOW]);
        if (i < count)
            move(c, c->rank == 0, b->bytes, size, &h[i % WINDOW]);
    }
}

static void reduce(bench *b, spsh__comm *c, size_t size, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        check_ok(spsh__comm_all_reduce(c, SPSH__COMM_F64, SPSH__COMM_SUM, b->bytes,
                                       size / sizeof(double), &err));
}

static const struct {
    const char *name;
    void (*run)(bench *b, spsh__comm *c, size_t size, uint32_t count);
    uint32_t parts; /* operations of one count */
} operations[] = {
    {"pingpong", pingpong, 2},
    {"stream",   stream,   1},
    {"reduce",   reduce,   1},
};

static uint64_t own_cpu_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void together(spsh__comm *c)
{
    double one = 1;
    check_ok(spsh__comm_all_reduce(c, SPSH__COMM_F64, SPSH__COMM_SUM, &one, 1, &err));
}

static void measure(bench *b, uint32_t operation, size_t size)
{
    const uint32_t count = count_of(size), each = count * operations[operation].parts;
    double us[CARRIERS][ROUNDS_MAX], cpu_us[CARRIERS] = {0};
    for (uint32_t r = 0; r < b->rounds; r++)
        for (uint32_t k = 0; k < CARRIERS; k++) {
            const uint32_t which = (r + k) % CARRIERS;
            spsh__comm *c = b->comms[which];
            together(c);
            const double begin_ms = now_ms();
            uint64_t cpu = own_cpu_us();
            operations[operation].run(b, c, size, count);
            us[which][r] = (now_ms() - begin_ms) * 1e3 / each;
            cpu = own_cpu_us() - cpu;
            check_ok(spsh__comm_all_reduce(c, SPSH__COMM_U64, SPSH__COMM_SUM, &cpu, 1, &err));
            cpu_us[which] += (double)cpu / each / b->rounds;
        }
    if (b->comms[0]->rank > 1 || (b->comms[0]->rank == 1) != (operation == 1))
        return; /* of a stream, the time at the receiver */
    for (uint32_t k = 0; k < CARRIERS; k++)
        qsort(us[k], b->rounds, sizeof(double), compare_doubles);
    printf("%-8s %9zu B", operations[operation].name, size);
    for (uint32_t k = 0; k < CARRIERS; k++)
        printf("  %s %.1f us (%.1f to %.1f), %.1f cpu_us", names[k], us[k][b->rounds / 2], us[k][0],
               us[k][b->rounds - 1], cpu_us[k]);
    printf("  gloo/tcp %.2f, cpu %.2f\n", us[1][b->rounds / 2] / us[0][b->rounds / 2],
           cpu_us[1] / cpu_us[0]);
    (void)fflush(stdout);
}

static int be_rank(uint32_t rank, uint32_t world, uint32_t rounds, const char *folder)
{
    bench b = {.rounds = rounds};
    for (uint32_t k = 0; k < CARRIERS; k++) {
        spsh__launch launch = {.rank = rank,
                               .world_size = world,
                               .local_rank = rank,
                               .local_size = world,
                               .node_count = 1,
                               .restart_count = k,
                               .launcher = "environment"};
        const spsh__rendezvous_options meeting = {
            .launch = &launch, .folder = folder, .deadline_ms = DEADLINE_MS};
        (void)snprintf(launch.comm, sizeof(launch.comm), "%s", names[k]);
        check_ok(spsh__comm_open(&meeting, spsh_allocator_default(), &b.comms[k], &err));
    }
    b.bytes = calloc(1, 64u << 20);
    for (uint32_t o = 0; o < 3; o++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            if (o < 2 || sizes[s] <= (16u << 20) || world < 4)
                measure(&b, o, sizes[s]);
    for (uint32_t k = 0; k < CARRIERS; k++)
        spsh__comm_close(b.comms[k]);
    free(b.bytes);
    return 0;
}

/* Processor time of the machine in seconds: used by all, and passed in all. */
static void machine_time(double *used, double *passed)
{
    unsigned long long t[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    *used = *passed = 0;
    if (f == NULL)
        return;
    if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4],
               &t[5], &t[6], &t[7]) == 8)
        for (int i = 0; i < 8; i++) {
            *passed += (double)t[i] / 100;
            *used += i == 3 || i == 4 ? 0 : (double)t[i] / 100;
        }
    (void)fclose(f);
}

int main(int argc, char **argv)
{
    const uint32_t world = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    const uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 5;
    char folder[] = "/tmp/bench-comm-XXXXXX";
    double used[2], passed[2];
    struct rusage own;
    int failed = mkdtemp(folder) == NULL || rounds > ROUNDS_MAX;
    machine_time(&used[0], &passed[0]);
    for (uint32_t r = 0; r < world && !failed; r++)
        if (fork() == 0)
            return be_rank(r, world, rounds, folder);
    for (int status = 0; wait(&status) > 0;)
        failed |= status != 0;
    machine_time(&used[1], &passed[1]);
    (void)getrusage(RUSAGE_CHILDREN, &own);
    const double mine = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec);
    printf("others took %.0f%% of the machine\n",
           100 * (used[1] - used[0] - mine) / (passed[1] - passed[0]));
    (void)rmdir(folder);
    return failed;
}
