/* train_rank.c: a process of a run, for tests that start several, with faults for given ranks.
 *
 *     train_rank BASE make                       dataset, vocabulary, and BASE/run.yaml
 *     train_rank BASE hash RUN                   hash of the newest checkpoint: weights and the
 *                                                rest
 *     train_rank BASE run RUN [FAULT...] [KEY=VALUE...]
 *         resume              from the newest checkpoint
 *         stop:RANK:BATCH     that rank requests a stop at the n-th batch of its start
 *         heard:RANK:BATCH    ... at the n-th batch of its evaluations
 *         kill:RANK:BATCH     it is killed there; hang:... it stops answering
 *         slow:RANK:BATCH     it sleeps at each batch from there on
 *         end:0:SECONDS       rank 0 takes this long at the end before it reports the end
 *         signals             TERM, INT, and USR1 request a stop, as in the command
 *         weights             a rank prints the hash of its weights at the end
 *         served:NAME         BASE/NAME.RANK: a line "EPOCH POSITION" for each served utterance
 *
 * Exits like the command: 0, 1, 70 (another rank is missing), 75 (stopped).
 */
#include <signal.h>

#include "speechshard/loader.h"
#include "strategy/strategy.h"
#include "train_kit.h"

typedef struct fault {
    char name[8];
    uint64_t batch; /* 0: never */
} fault;

static fault faults[8];
static size_t fault_count;
static uint64_t batches, heard_batches; /* all batches; those of evaluations */
static const spsh_loader *training;     /* the first loader opened; a rank may evaluate before it
                                         * trains */
static FILE *served;
static bool has_weights; /* the word `weights` */
static unsigned end_s;
static kit_run run;

/* The linker option --wrap defines these names.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
spsh_status __real_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err);
spsh_status __wrap_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err);
spsh_status __real_spsh_loader_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                                    const spsh_loader_options *options, spsh_loader **ret,
                                    spsh_error *err);
spsh_status __wrap_spsh_loader_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                                    const spsh_loader_options *options, spsh_loader **ret,
                                    spsh_error *err);
void __real_spsh__strategy_close(spsh__strategy *s);
void __wrap_spsh__strategy_close(spsh__strategy *s);

static void write_served(const spsh_batch *batch)
{
    for (uint32_t n = 0; served != NULL && n < batch->utterance_count; n++)
        REQUIRE(fprintf(served, "%" PRIu64 " %" PRIu64 "\n", batch->epoch,
                        batch->utterances[n].item.position) > 0);
    REQUIRE(served == NULL || fflush(served) == 0); /* mpirun kills those that end late */
}

static void suffer(const fault *f)
{
    if (strcmp(f->name, "slow") == 0 && batches >= f->batch)
        (void)usleep(50000);
    if (strcmp(f->name, "heard") == 0 && heard_batches == f->batch)
        run.stop = 1;
    if (batches != f->batch)
        return;
    if (strcmp(f->name, "stop") == 0)
        run.stop = 1;
    else if (strcmp(f->name, "kill") == 0)
        (void)raise(SIGKILL);
    else if (strcmp(f->name, "hang") == 0)
        (void)raise(SIGSTOP);
}

spsh_status __wrap_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err)
{
    const spsh_status rc = __real_spsh_loader_next(loader, ret, err);
    if (rc != SPSH_OK)
        return rc;
    batches++;
    heard_batches += loader != training;
    for (size_t i = 0; i < fault_count; i++)
        suffer(&faults[i]);
    if (loader == training)
        write_served(*ret);
    return rc;
}

spsh_status __wrap_spsh_loader_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                                    const spsh_loader_options *options, spsh_loader **ret,
                                    spsh_error *err)
{
    const spsh_status rc = __real_spsh_loader_open(datasets, dataset_count, options, ret, err);
    if (rc == SPSH_OK && training == NULL)
        training = *ret;
    return rc;
}

static void print_weights(const spsh__learner *l)
{
    float *values = calloc(l->arena_elements, sizeof(*values));
    REQUIRE(values != NULL);
    l->backend->ops->read_f32_fn(l->backend, values, l->weights, l->arena_elements);
    (void)fprintf(stderr, "rank %u has weights %016" PRIx64 "\n", l->comm->rank,
                  spsh__checkpoint_hash(values, l->arena_elements));
    free(values);
}

void __wrap_spsh__strategy_close(spsh__strategy *s)
{
    if (has_weights && s != NULL && s->learner != NULL)
        print_weights(s->learner);
    __real_spsh__strategy_close(s);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static void on_end(void *user, const char *stopped)
{
    (void)user;
    (void)sleep(end_s);
    (void)fprintf(stderr, "rank 0 at the end: %s\n", stopped == NULL ? "done" : stopped);
}

static void on_signal(int number)
{
    (void)number;
    run.stop = 1;
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)sigaction(numbers[i], &action, NULL);
}

static void take_word(char *word, unsigned rank)
{
    static size_t overrides;
    unsigned of_rank = 0;
    fault f = {.batch = 0};
    char path[1200];
    if (strcmp(word, "resume") == 0) {
        run.resume = true;
    } else if (strcmp(word, "weights") == 0) {
        has_weights = true;
    } else if (strcmp(word, "signals") == 0) {
        watch_signals();
    } else if (strncmp(word, "served:", 7) == 0) {
        (void)snprintf(path, sizeof(path), "%s.%u", at(word + 7), rank);
        served = fopen(path, "ab");
        REQUIRE(served != NULL);
    } else if (strchr(word, '=') != NULL) {
        REQUIRE(overrides < KIT_OVERRIDES);
        run.overrides[overrides++] = word;
    } else {
        /* NOLINTNEXTLINE(cert-err34-c): the test gives small numbers */
        REQUIRE(sscanf(word, "%7[a-z]:%u:%" SCNu64, f.name, &of_rank, &f.batch) == 3);
        if (strcmp(f.name, "end") == 0)
            end_s = (unsigned)f.batch;
        else if (of_rank == rank && fault_count < 8)
            faults[fault_count++] = f;
    }
}

static int train(char **words)
{
    spsh_train_world world = SPSH_TRAIN_WORLD_INIT;
    REQUIRE(spsh_train_world_find(&world, NULL) == SPSH_OK);
    const unsigned rank = world.rank;
    run.folder = words[0];
    run.end_fn = on_end;
    for (char **word = words + 1; *word != NULL; word++)
        take_word(*word, rank);
    const spsh_status rc = train_kit_run(&run);
    if (served != NULL)
        REQUIRE(fclose(served) == 0);
    fputs(run.log, stderr);
    if (rc != SPSH_OK)
        fprintf(stderr, "rank %u ends: %s\n", rank, run.err.message);
    return rc == SPSH_OK ? 0 : rc == SPSH_E_CANCELED ? 75 : rc == SPSH_E_TIMEOUT ? 70 : 1;
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 3);
    (void)snprintf(base, sizeof(base), "%s", argv[1]);
    (void)snprintf(kit_config, sizeof(kit_config), "%s/run.yaml", base);
    if (strcmp(argv[2], "run") == 0)
        return train(argv + 3);
    if (strcmp(argv[2], "make") == 0)
        train_kit_make("");
    if (strcmp(argv[2], "hash") == 0)
        printf("%016" PRIx64 "\n", train_kit_weights(argv[3]));
    return TEST_RESULT();
}
