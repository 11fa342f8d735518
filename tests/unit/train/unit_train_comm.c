/* unit_train_comm.c: messages between ranks over TCP. They arrive whole and in order, for any size
 * and any order of the ranks. If a rank exits, hangs, or sends anything else, the error names it.
 * No other rank hangs or crashes.
 *
 * Ranks are threads. Ranks that are killed or stopped are processes.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "comm/comm.h"
#include "comm/fold_tree.h"
#include "speechshard/inside.h"
#include "spsh_test.h"

#define RANKS       3
#define LONG_MS     60000
#define SHORT_MS    1000 /* for messages that never come */
#define LARGE_BYTES (3u << 20)
#define ORDERED     40
#define ROLLS       200
#define UNHEARD     3000 /* more messages than the queue holds */

static char folder[64];
static uint32_t meetings;

typedef struct rank {
    uint32_t rank, deadline_ms;
    void (*body)(spsh__comm *c);
    spsh_status status;
    pthread_t thread;
} rank;

static spsh_status open_comm(uint32_t number, uint32_t ranks, uint32_t deadline_ms,
                             spsh__comm **ret, spsh_error *err)
{
    const spsh__launch launch = {.rank = number,
                                 .world_size = ranks,
                                 .local_rank = number,
                                 .local_size = ranks,
                                 .node_count = 1,
                                 .restart_count = meetings,
                                 .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = folder, .deadline_ms = deadline_ms};
    return spsh__comm_open(&meeting, spsh_allocator_default(), ret, err);
}

static void *be_rank(void *user)
{
    rank *r = (rank *)user;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__comm *c = NULL;
    r->status = open_comm(r->rank, RANKS, LONG_MS, &c, &err);
    if (r->status != SPSH_OK) {
        fprintf(stderr, "rank %u: %s\n", r->rank, err.message);
        return NULL;
    }
    CHECK(strcmp(c->ops->name, "tcp") == 0);
    c->deadline_ms = r->deadline_ms;
    r->body(c);
    spsh__comm_close(c);
    return NULL;
}

/* Run body on a thread per rank. */
static void run_ranks(void (*body)(spsh__comm *c), uint32_t deadline_ms)
{
    rank ranks[RANKS];
    meetings++;
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.rank = i, .deadline_ms = deadline_ms, .body = body};
        REQUIRE(pthread_create(&ranks[i].thread, NULL, be_rank, &ranks[i]) == 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        REQUIRE(pthread_join(ranks[i].thread, NULL) == 0);
        CHECK_I64(ranks[i].status, SPSH_OK);
    }
}

static spsh__comm_handle post_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                                   size_t size)
{
    spsh__comm_handle h = 0;
    REQUIRE(c->ops->send_fn(c, to, tag, bytes, size, &h, NULL) == SPSH_OK);
    return h;
}

static spsh__comm_handle post_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                                      size_t size)
{
    spsh__comm_handle h = 0;
    REQUIRE(c->ops->receive_fn(c, from, tag, bytes, size, &h, NULL) == SPSH_OK);
    return h;
}

static void finish(spsh__comm *c, spsh__comm_handle h)
{
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = c->ops->wait_fn(c, h, c->deadline_ms, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "rank %u: %s\n", c->rank, err.message);
    CHECK_I64(rc, SPSH_OK);
}

static uint8_t *pattern(uint32_t from, uint32_t to, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    uint64_t state = 1000 * from + to;
    REQUIRE(bytes != NULL);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)test_random(&state);
    return bytes;
}

/* ---- delivery ---- */

static const size_t sizes[] = {0, 1, 24, 16383, 16384, 16385, 262143, 262144, 262145, LARGE_BYTES};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Every rank exchanges messages with every other, all at once. Some ranks post their receives
 * before the others send, some after. */
static void exchange_sizes(spsh__comm *c)
{
    spsh__comm_handle sends[RANKS][SIZES], receives[RANKS][SIZES];
    uint8_t *from_here[RANKS][SIZES], *there[RANKS][SIZES];
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t r = 0; r < RANKS; r++)
            for (uint32_t n = 0; r != c->rank && n < SIZES; n++) {
                if ((c->rank == 1) == (turn == 0)) {
                    there[r][n] = malloc(sizes[n] + 1);
                    receives[r][n] = post_receive(c, r, n, there[r][n], sizes[n]);
                } else {
                    from_here[r][n] = pattern(c->rank, r, sizes[n]);
                    sends[r][n] = post_send(c, r, n, from_here[r][n], sizes[n]);
                }
            }
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t n = SIZES; r != c->rank && n-- > 0;) {
            uint8_t *want = pattern(r, c->rank, sizes[n]);
            finish(c, receives[r][n]);
            CHECK(memcmp(want, there[r][n], sizes[n]) == 0);
            finish(c, sends[r][n]);
            free(want);
            free(there[r][n]);
            free(from_here[r][n]);
        }
}

static void test_messages_arrive(void)
{
    run_ranks(exchange_sizes, LONG_MS);
}

/* Small and large messages of one tag. The receiver posts some receives before the messages come.
 */
static void exchange_in_order(spsh__comm *c)
{
    static const size_t two[] = {8, 40000};
    const uint32_t to = (c->rank + 1) % RANKS, from = (c->rank + RANKS - 1) % RANKS;
    spsh__comm_handle sends[ORDERED], receives[ORDERED];
    uint8_t *outgoing = calloc(ORDERED, 40000), *incoming = calloc(ORDERED, 40000);
    REQUIRE(outgoing != NULL && incoming != NULL);
    for (uint32_t i = 0; i < ORDERED; i++) {
        outgoing[(size_t)i * 40000] = (uint8_t)(i + 1);
        if (i % 3 == c->rank)
            (void)usleep(1000);
        if (c->rank == 0)
            receives[i] = post_receive(c, from, 7, &incoming[(size_t)i * 40000], two[i % 2]);
        sends[i] = post_send(c, to, 7, &outgoing[(size_t)i * 40000], two[i % 2]);
    }
    for (uint32_t i = 0; c->rank != 0 && i < ORDERED; i++)
        receives[i] = post_receive(c, from, 7, &incoming[(size_t)i * 40000], two[i % 2]);
    for (uint32_t i = ORDERED; i-- > 0;) {
        finish(c, receives[i]);
        CHECK_U64(incoming[(size_t)i * 40000], i + 1);
        finish(c, sends[i]);
        CHECK(c->ops->done_fn(c, sends[i])); /* the handle is no longer open */
    }
    free(outgoing);
    free(incoming);
}

static void test_messages_of_a_tag_are_in_order(void)
{
    run_ranks(exchange_in_order, LONG_MS);
}

/* No rank waits for these messages until all are in flight. */
static void leave_unheard(spsh__comm *c)
{
    static const uint8_t bytes[100] = {3};
    spsh__comm_handle *handles = calloc(UNHEARD, sizeof(*handles));
    uint8_t there[100];
    REQUIRE(handles != NULL);
    for (uint32_t i = 0; c->rank == 0 && i < UNHEARD; i++)
        handles[i] = post_send(c, 1, i, bytes, sizeof(bytes));
    uint64_t all = 1;
    for (uint32_t i = 0; c->rank == 1 && i < UNHEARD; i++) {
        finish(c, post_receive(c, 0, i, there, sizeof(there)));
        CHECK(there[0] == 3);
    }
    for (uint32_t i = 0; c->rank == 0 && i < UNHEARD; i++)
        finish(c, handles[i]);
    CHECK(spsh__comm_all_reduce(c, SPSH__COMM_U64, SPSH__COMM_SUM, &all, 1, NULL) == SPSH_OK);
    CHECK_U64(all, RANKS);
    free(handles);
}

static void test_many_that_nobody_waits_for(void)
{
    run_ranks(leave_unheard, LONG_MS);
}

/* ---- sums, broadcasts, status polls ---- */

static void add_up(spsh__comm *c)
{
    double rows[RANKS][2], sum[2];
    uint8_t *bytes = pattern(c->rank, 0, LARGE_BYTES), *of_one = pattern(1, 0, LARGE_BYTES);
    uint64_t counts[RANKS];
    for (uint32_t r = 0; r < RANKS; r++) {
        rows[r][0] = 1.0 / (3 + r);
        rows[r][1] = r == 0 ? 1e16 : 1;
    }
    memcpy(sum, rows[c->rank], sizeof(sum));
    spsh__fold_rows(rows[0], RANKS, 2);
    CHECK(spsh__comm_all_reduce(c, SPSH__COMM_F64, SPSH__COMM_SUM, sum, 2, NULL) == SPSH_OK);
    CHECK(sum[0] == rows[0][0] && sum[1] == rows[0][1]);
    CHECK(spsh__comm_broadcast(c, bytes, LARGE_BYTES, 1, NULL) == SPSH_OK);
    CHECK(memcmp(bytes, of_one, LARGE_BYTES) == 0);
    spsh__comm_roll(c, 10 + c->rank, LONG_MS, counts);
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK_U64(counts[r], 10 + r);
    free(bytes);
    free(of_one);
}

static void test_sums_broadcasts_and_the_roll(void)
{
    run_ranks(add_up, LONG_MS);
}

/* No rank may leave a status poll while its own answer is in flight, or the answer would be lost.
 * The last rank to answer is the likeliest to do so. */
static void roll_often(spsh__comm *c)
{
    uint64_t counts[RANKS];
    for (uint32_t i = 0; i < ROLLS && !spsh__comm_has_failed(c); i++) {
        spsh__comm_roll(c, 10 * i + c->rank, LONG_MS, counts);
        for (uint32_t r = 0; r < RANKS; r++)
            CHECK_U64(counts[r], 10 * i + r);
    }
    CHECK(!spsh__comm_has_failed(c));
}

static void test_no_answer_is_lost(void)
{
    run_ranks(roll_often, LONG_MS);
}

/* ---- waiting for any message ---- */

static void *wake_it(void *user)
{
    spsh__comm *c = (spsh__comm *)user;
    c->ops->wake_fn(c);
    return NULL;
}

static void wait_for_any(spsh__comm *c)
{
    spsh__comm_handle handles[2] = {0, 0};
    uint8_t there[2] = {0, 0}, here = 9;
    uint32_t which = 0;
    if (c->rank == 0) {
        pthread_t waker;
        for (uint32_t i = 0; i < 2; i++)
            handles[i] = post_receive(c, i + 1, 5, &there[i], 1);
        CHECK(c->ops->wait_any_fn(c, handles, 2, 1, &which, NULL) ==
              SPSH_OK); /* the deadline has passed */
        CHECK_U64(which, 2);
        REQUIRE(pthread_create(&waker, NULL, wake_it, c) == 0);
        CHECK(c->ops->wait_any_fn(c, handles, 2, LONG_MS, &which, NULL) == SPSH_OK);
        CHECK_U64(which, 2);
        REQUIRE(pthread_join(waker, NULL) == 0);
        finish(c, post_send(c, 2, 6, &here, 1));
        CHECK(c->ops->wait_any_fn(c, handles, 2, LONG_MS, &which, NULL) == SPSH_OK);
        CHECK_U64(which, 1);
        CHECK(c->ops->done_fn(c, handles[1]) && !c->ops->done_fn(c, handles[0]));
        finish(c, handles[1]);
        finish(c, post_send(c, 1, 6, &here, 1));
        CHECK(c->ops->wait_any_fn(c, handles, 1, LONG_MS, &which, NULL) == SPSH_OK);
        CHECK_U64(which, 0);
        finish(c, handles[0]);
        CHECK(there[0] == 9 && there[1] == 9);
    } else {
        finish(c, post_receive(c, 0, 6, &there[0], 1));
        finish(c, post_send(c, 0, 5, &here, 1));
    }
}

static void test_waiting_for_any(void)
{
    run_ranks(wait_for_any, LONG_MS);
}

/* ---- failures ---- */

/* Check the error of a wait. No later call may hang. */
static void expect(spsh__comm *c, spsh__comm_handle h, spsh_status want, const char *text)
{
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(c->ops->wait_fn(c, h, c->deadline_ms, &err), want);
    if (strstr(err.message, text) == NULL)
        fprintf(stderr, "rank %u: '%s' has no '%s'\n", c->rank, err.message, text);
    CHECK(strstr(err.message, text) != NULL);
    CHECK(c->has_failed);
    c->deadline_ms = 0; /* no more bytes are moved */
    CHECK(c->ops->wait_fn(c, h, 0, NULL) == want);
}

/* Rank 1 expects another size than rank 0 sends. All ranks must end, whatever else fails. */
static void expect_another_size(spsh__comm *c, size_t sent, size_t expected, const char *text)
{
    uint8_t *bytes = calloc(1, sent + expected), last = 0;
    REQUIRE(bytes != NULL);
    if (c->rank == 0) {
        const spsh__comm_handle h = post_send(c, 1, 1, bytes, sent);
        finish(c, post_send(c, 1, 2, &last, 1)); /* a message after it */
        (void)c->ops->done_fn(c, h);
        finish(c, post_receive(c, 1, 3, &last, 1));
    } else if (c->rank == 1) {
        finish(c, post_receive(c, 0, 2, &last, 1));
        finish(c, post_send(c, 0, 3, &last, 1));
        expect(c, post_receive(c, 0, 1, bytes, expected), SPSH_E_MISMATCH, text);
    }
    spsh__comm_fail(c);
    free(bytes);
}

static void expect_less(spsh__comm *c)
{
    expect_another_size(c, 90, 80, "rank 0 sent more than the expected 80 bytes");
}

static void expect_much_more(spsh__comm *c)
{
    expect_another_size(c, 99999, 100000, "rank 0 sent less than the expected 100000 bytes");
}

static void test_another_size(void)
{
    run_ranks(expect_less, LONG_MS);
    run_ranks(expect_much_more, LONG_MS);
}

static pthread_barrier_t all_silent;

static void expect_silence(spsh__comm *c)
{
    static uint8_t bytes[RANKS][200000], here[200000];
    const uint32_t other = (c->rank + 1) % RANKS;
    uint64_t all = 1;
    CHECK(spsh__comm_all_reduce(c, SPSH__COMM_U64, SPSH__COMM_SUM, &all, 1, NULL) == SPSH_OK);
    c->deadline_ms = SHORT_MS;
    const spsh__comm_handle receive = post_receive(c, other, 3, bytes[c->rank], 200000);
    const spsh__comm_handle send = post_send(c, other, 4, here, 200000);
    expect(c, receive, SPSH_E_TIMEOUT, "has not sent 200000 bytes");
    expect(c, send, SPSH_E_TIMEOUT, "has not received 200000 bytes");
    (void)pthread_barrier_wait(&all_silent); /* no rank has left before */
}

static void test_nobody_answers(void)
{
    REQUIRE(pthread_barrier_init(&all_silent, NULL, RANKS) == 0);
    run_ranks(expect_silence, LONG_MS);
    REQUIRE(pthread_barrier_destroy(&all_silent) == 0);
}

/* Start a process that waits to be killed while it sends and receives. */
static pid_t start_victim(uint32_t number, int to_parent)
{
    static uint8_t bytes[LARGE_BYTES], more[LARGE_BYTES];
    spsh__comm *c = NULL;
    const pid_t child = fork();
    if (child != 0)
        return child;
    if (open_comm(number, 2, LONG_MS, &c, NULL) != SPSH_OK)
        _exit(1);
    (void)post_send(c, 0, 1, bytes, 100);
    (void)post_send(c, 0, 2, bytes, sizeof(bytes));
    (void)post_receive(c, 0, 3, more, sizeof(more));
    finish(c, post_receive(c, 0, 4, more, 1));
    if (write(to_parent, "", 1) != 1)
        _exit(1);
    for (;;)
        (void)pause();
}

/* A process is killed or stopped while rank 0, in this process, waits for it. */
static void meet_victim(int number, const char *text)
{
    static uint8_t bytes[LARGE_BYTES];
    spsh_error err = SPSH_ERROR_INIT;
    spsh__comm *c = NULL;
    int pipes[2], ended = 0;
    char byte = 0;
    uint32_t which = 2;
    meetings++;
    REQUIRE(pipe(pipes) == 0);
    const pid_t victim = start_victim(1, pipes[1]);
    REQUIRE(victim > 0);
    if (open_comm(0, 2, LONG_MS, &c, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(c != NULL);
    finish(c, post_receive(c, 1, 1, bytes, 100));
    finish(c, post_send(c, 1, 4, bytes, 1));
    REQUIRE(read(pipes[0], &byte, 1) == 1);
    const spsh__comm_handle some[2] = {post_receive(c, 1, 9, bytes, 10),
                                       post_receive(c, 1, 10, bytes + 10, 20000)};
    REQUIRE(kill(victim, number) == 0);
    c->deadline_ms = number == SIGKILL ? LONG_MS : SHORT_MS;
    CHECK(c->ops->wait_any_fn(c, some, 2, c->deadline_ms, &which, NULL) == SPSH_OK);
    CHECK_U64(which, number == SIGKILL ? 0 : 2);
    for (uint32_t i = 0; i < 100; i++) /* to a dead process: no signal may end this process */
        (void)post_send(c, 1, 20 + i, bytes, 16384);
    expect(c, some[1], SPSH_E_TIMEOUT, text);
    expect(c, some[0], SPSH_E_TIMEOUT, text);
    expect(c, post_send(c, 1, 3, bytes, sizeof(bytes)), SPSH_E_TIMEOUT, "rank 1 ");
    spsh__comm_close(c);
    (void)kill(victim, SIGKILL);
    REQUIRE(waitpid(victim, &ended, 0) == victim);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void test_one_is_killed(void)
{
    meet_victim(SIGKILL, "rank 1 disconnected");
}

static void test_one_is_stopped(void)
{
    meet_victim(SIGSTOP, "rank 1 has not sent");
}

TEST_MAIN(unit_train_comm)
{
    (void)argc, (void)argv;
    test_temp_dir(folder, sizeof(folder));
    RUN(test_one_is_killed); /* tests that fork come first, while there is one thread */
    RUN(test_one_is_stopped);
    RUN(test_messages_arrive);
    RUN(test_messages_of_a_tag_are_in_order);
    RUN(test_many_that_nobody_waits_for);
    RUN(test_sums_broadcasts_and_the_roll);
    RUN(test_no_answer_is_lost);
    RUN(test_waiting_for_any);
    RUN(test_another_size);
    RUN(test_nobody_answers);
    test_remove_tree(folder);
    return TEST_RESULT();
}
