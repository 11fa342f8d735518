/* Failures during a run: it must resume from its checkpoint with identical bits, or report clearly
 * why it cannot.
 *
 *     fault_train_run             all tests
 *     fault_train_run --fewer     killed and stopped at a fifth of the places
 *     fault_train_run FOLDER RUN  start one run there, in a separate process
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "speechshard/loader.h"
#include "test_number.h"
#include "train_kit.h"

static kit_run whole = {.folder = "whole"};
static uint64_t whole_weights;
static uint64_t stride = 1; /* odd, so that both kinds of kills occur */

static void check_same(const char *folder)
{
    CHECK_U64(train_kit_weights(folder), whole_weights);
}

static void check_says(const kit_run *run, spsh_status rc, spsh_status want, const char *text)
{
    CHECK_I64(rc, want);
    if (strstr(run->err.message, text) == NULL)
        fprintf(stderr, "    said \"%s\"\n", run->err.message);
    CHECK(strstr(run->err.message, text) != NULL);
}

/* ---- utterances of the loader, changed during the run ---- */

/* The linker option --wrap defines these names.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
spsh_status __real_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err);
spsh_status __wrap_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err);

static struct served {
    uint64_t batches;            /* since it was zeroed */
    uint64_t nan_first, nan_end; /* batches whose first feature is not a number */
    uint64_t stop_at;            /* at this batch *stop is set */
    volatile int *stop;
} served;

spsh_status __wrap_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err)
{
    const spsh_status rc = __real_spsh_loader_next(loader, ret, err);
    if (rc != SPSH_OK)
        return rc;
    served.batches++;
    if (served.stop != NULL && served.batches == served.stop_at)
        *served.stop = 1;
    if (served.batches >= served.nan_first && served.batches < served.nan_end &&
        (*ret)->utterance_count > 0) {
        float nan = NAN;
        const union {
            const void *from;
            void *to;
        } features = {(*ret)->features};
        REQUIRE(features.to != NULL);
        memcpy(features.to, &nan, sizeof(nan));
    }
    return rc;
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* ---- kill -9 ---- */

static pid_t start_child(kit_run *run)
{
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        _exit(train_kit_run(run) == SPSH_OK ? 0 : 1);
    return child;
}

/* Return whether the process was killed. Otherwise it must have succeeded. */
static bool end_child(pid_t child)
{
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static uint64_t kill_step;

static void kill_at_step(kit_run *run, uint64_t step)
{
    (void)run;
    if (step == kill_step)
        (void)raise(SIGKILL);
}

/* With a checkpoint after each step and at the end of each epoch. */
#define OFTEN "train.checkpoint_every_s=1e-9"

static void test_killed_at_each_step(void)
{
    for (kill_step = 1; kill_step <= whole.result.steps; kill_step += stride) {
        char name[32];
        (void)snprintf(name, sizeof(name), "step%d", (int)kill_step);
        kit_run run = {.folder = name, .step_fn = kill_at_step};
        if (kill_step % 2 == 0)
            run.overrides[0] = OFTEN;
        CHECK(end_child(start_child(&run)));
        run.resume = true;
        run.step_fn = NULL;
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        CHECK_U64(run.result.steps, whole.result.steps);
        check_same(name);
        test_remove_tree(at(name));
    }
}

static _Atomic uint64_t change_count;
static uint64_t kill_change;

static void count_change(void)
{
    if (atomic_fetch_add(&change_count, 1) + 1 == kill_change)
        (void)raise(SIGKILL);
}

static int open_and_count(void *user, const char *path, int flags, mode_t mode)
{
    if ((flags & O_CREAT) != 0)
        count_change();
    return spsh_io_default()->open_fn(user, path, flags, mode);
}

/* Half of a write may have happened. */
static int64_t write_and_count(void *user, int fd, const void *src, size_t size, uint64_t offset)
{
    if (atomic_load(&change_count) + 1 == kill_change && size > 1)
        (void)spsh_io_default()->pwrite_fn(user, fd, src, size / 2, offset);
    count_change();
    return spsh_io_default()->pwrite_fn(user, fd, src, size, offset);
}

static int rename_and_count(void *user, const char *from, const char *to)
{
    count_change();
    return spsh_io_default()->rename_fn(user, from, to);
}

static int unlink_and_count(void *user, const char *path)
{
    count_change();
    return spsh_io_default()->unlink_fn(user, path);
}

static int sync_and_count(void *user, int fd)
{
    count_change();
    return kit_no_sync(user, fd);
}

static spsh_io counting_io(void)
{
    spsh_io io = *spsh_io_default();
    io.open_fn = open_and_count;
    io.pwrite_fn = write_and_count;
    io.rename_fn = rename_and_count;
    io.unlink_fn = unlink_and_count;
    io.fsync_fn = sync_and_count;
    return io;
}

/* Kill the run at each change of a file. Every other time, kill the resumed process as well, at a
 * random change. */
static void test_killed_at_each_write(void)
{
    const spsh_io io = counting_io();
    uint64_t seed = test_seed(11);
    bool was_killed = true;
    uint64_t n = 0;
    while (was_killed) {
        kit_run run = {.folder = "write", .io = &io, .overrides = {"data.dev=[]"}};
        n += stride;
        kill_change = n;
        atomic_store(&change_count, 0);
        was_killed = end_child(start_child(&run));
        run.resume = true;
        if (n % 2 == 0) {
            kill_change = 1 + test_random(&seed) % 40;
            (void)end_child(start_child(&run));
        }
        kill_change = 0;
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        check_same("write");
        test_remove_tree(at("write"));
    }
    CHECK(n > 60);
}

static void test_killed_at_random(void)
{
    uint64_t seed = test_seed(17);
    bool was_killed = true;
    int kills = 0;
    uint64_t pause_us = 20000; /* grows, so that the run finishes on a slow machine, too */
    while (was_killed) {
        kit_run run = {.folder = "random", .resume = true, .overrides = {OFTEN}};
        const pid_t child = start_child(&run);
        /* selects only the moment of the kill */
        (void)usleep((useconds_t)(pause_us + test_random(&seed) % pause_us));
        pause_us += pause_us / 12;
        (void)kill(child, SIGKILL);
        was_killed = end_child(child);
        kills += was_killed;
    }
    CHECK(kills > 0);
    check_same("random");
}

/* ---- a full disk ---- */

static volatile bool is_full;

static int64_t write_while_space(void *user, int fd, const void *src, size_t size, uint64_t offset)
{
    return is_full ? -ENOSPC : spsh_io_default()->pwrite_fn(user, fd, src, size, offset);
}

static int reserve_while_space(void *user, int fd, uint64_t size)
{
    return is_full ? -ENOSPC : spsh_io_default()->fallocate_fn(user, fd, size);
}

static spsh_io io_while_space(void)
{
    spsh_io io = *spsh_io_default();
    io.pwrite_fn = write_while_space;
    io.fallocate_fn = reserve_while_space;
    io.fsync_fn = kit_no_sync;
    is_full = false;
    return io;
}

static void full_for_steps(kit_run *run, uint64_t step)
{
    (void)run;
    if (step == 3 || step == 7)
        is_full = step == 3;
}

static uint64_t count_of(const char *text, const char *what)
{
    uint64_t count = 0;
    for (const char *at_text = text; (at_text = strstr(at_text, what)) != NULL; at_text++)
        count++;
    return count;
}

static void test_full_for_a_while(void)
{
    const spsh_io io = io_while_space();
    kit_run run = {.folder = "full", .io = &io, .step_fn = full_for_steps, .overrides = {OFTEN}};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK(count_of(run.log, "cannot write a checkpoint: ") >= 1);
    CHECK_U64(count_of(run.log, "cannot write metrics: "), 1);
    CHECK_U64(count_of(run.log, "metrics can be written again"), 1);
    check_same("full");
}

static void full_at_the_end(kit_run *run, uint64_t step)
{
    (void)run;
    is_full = step + 1 >= whole.result.steps;
}

static void test_full_at_the_end(void)
{
    const spsh_io io = io_while_space();
    kit_run run = {.folder = "end", .io = &io, .step_fn = full_at_the_end};
    check_says(&run, train_kit_run(&run), SPSH_E_NO_SPACE, "");
    CHECK(run.err.message[0] != '\0');
    spsh__checkpoint_file *file = NULL;
    CHECK_U64(kit_newest_state("end", &file).epoch, 1);
    spsh__checkpoint_close(file);
    is_full = false;
    run = (kit_run){.folder = "end", .resume = true};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    check_same("end");
}

/* ---- damage ---- */

/* Checkpoints of a folder, their names joined. */
static void list_checkpoints(const char *folder, char *names, size_t capacity)
{
    char path[1024];
    struct dirent **entries = NULL;
    (void)snprintf(path, sizeof(path), "%s/checkpoints", at(folder));
    const int count = scandir(path, &entries, NULL, alphasort);
    size_t length = 0;
    REQUIRE(count >= 0);
    names[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (strstr(entries[i]->d_name, ".spsh") != NULL)
            length +=
                (size_t)snprintf(names + length, capacity - length, "%s\n", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    REQUIRE(length < capacity);
}

/* Damage the middle of the file whose name is at `name`. */
static void damage(const char *folder, const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/checkpoints/%.*s", at(folder), (int)strcspn(name, "\n"),
                   name);
    FILE *file = fopen(path, "r+b");
    REQUIRE(file != NULL && fseek(file, 5000, SEEK_SET) == 0);
    const int byte = fgetc(file);
    REQUIRE(fseek(file, 5000, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
}

static void test_damaged_checkpoints(void)
{
    char before[2048], after[2048];
    kit_run run = {.folder = "damaged", .stop_at = whole.result.steps - 3, .overrides = {OFTEN}};
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    list_checkpoints("damaged", before, sizeof(before));
    const uint64_t count = count_of(before, "\n");
    REQUIRE(count >= 3);
    const char *newest = before;
    for (uint64_t i = 1; i < count; i++)
        newest = strchr(newest, '\n') + 1;
    damage("damaged", newest);
    run = (kit_run){.folder = "damaged", .resume = true, .stop_at = 1, .overrides = {OFTEN}};
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    CHECK_U64(count_of(run.log, "skipping a checkpoint"), 1);
    char name[64];
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(newest, "\n"), newest);
    CHECK(strstr(run.log, name) != NULL);
    run = (kit_run){.folder = "damaged", .resume = true};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    check_same("damaged");

    list_checkpoints("damaged", before, sizeof(before));
    for (const char *one = before; *one != '\0'; one = strchr(one, '\n') + 1)
        damage("damaged", one);
    run = (kit_run){.folder = "damaged", .resume = true};
    check_says(&run, train_kit_run(&run), SPSH_E_CORRUPT, "can be used; the newest:");
    list_checkpoints("damaged", after, sizeof(after));
    CHECK_STR(after, before);
}

/* ---- values that are not finite ---- */

/* Sum of a key's numbers over the lines of one kind, and the last number. */
static double read_metrics(const char *folder, const char *kind, const char *key, double *ret_last)
{
    char path[1024], line[8192], quoted_kind[64], quoted[64];
    double sum = 0;
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", at(folder));
    (void)snprintf(quoted_kind, sizeof(quoted_kind), "\"kind\":\"%s\"", kind);
    (void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *value = strstr(line, quoted);
        if (strstr(line, quoted_kind) == NULL || value == NULL)
            continue;
        value += strlen(quoted);
        *ret_last = test_number(value, NULL); /* "null" is NaN */
        sum += *ret_last;
    }
    (void)fclose(file);
    return sum;
}

static double sum_of(const char *folder, const char *kind, const char *key)
{
    double unused = 0;
    return read_metrics(folder, kind, key, &unused);
}

static uint64_t last_of(const char *folder, const char *kind, const char *key)
{
    double last = 0;
    (void)read_metrics(folder, kind, key, &last);
    return (uint64_t)last;
}

static void test_a_batch_that_is_no_number(void)
{
    kit_run run = {.folder = "nan"};
    served = (struct served){.nan_first = 6, .nan_end = 7};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    served = (struct served){0};
    CHECK_U64(run.result.steps, whole.result.steps);
    CHECK_U64(last_of("nan", "step", "skipped_steps"), 1);
    CHECK_U64(count_of(run.log, "is skipped: its loss is"), 1);
    CHECK(isfinite(run.result.loss) && isfinite(sum_of("nan", "evaluation", "loss")));
    CHECK(strstr(run.log, "epoch 1: loss ") != NULL && strstr(run.log, "loss nan") == NULL);
    CHECK(train_kit_weights("nan") != whole_weights);
}

/* After a skipped step the state is as before it. */
static void test_a_step_that_is_left_out(void)
{
    kit_run with = {.folder = "with"}, before = {.folder = "before"};
    served = (struct served){.nan_first = 6, .nan_end = 7, .stop_at = 5, .stop = &with.stop};
    CHECK_I64(train_kit_run(&with), SPSH_E_CANCELED);
    served = (struct served){.stop_at = 1, .stop = &before.stop};
    CHECK_I64(train_kit_run(&before), SPSH_E_CANCELED);
    served = (struct served){0};
    CHECK_U64(with.result.steps, 2);
    CHECK_U64(before.result.steps, 1);
    CHECK_U64(train_kit_weights("with"), train_kit_weights("before"));
}

static void test_nothing_but_such_batches(void)
{
    kit_run run = {
        .folder = "nans", .overrides = {"train.epochs=100", "data.dev=[]"}
    };
    served = (struct served){.nan_first = 20, .nan_end = UINT64_MAX};
    check_says(&run, train_kit_run(&run), SPSH_E_LIMIT, "100 steps in a row");
    served = (struct served){0};
}

/* A rate at which the weights diverge: the next losses are not finite. */
static void test_a_rate_that_is_too_high(void)
{
    kit_run run = {
        .folder = "rate",
        .overrides = {"train.rate=1000", "train.optimiser=sgd", "train.clip=0", "train.epochs=100",
                      "data.dev=[]"}
    };
    check_says(&run, train_kit_run(&run), SPSH_E_LIMIT, "lower the learning rate");
}

/* ---- what cannot be learnt from ---- */

/* Windows of 60 ms: the shortest utterances have no frames. */
static void test_utterances_that_teach_nothing(void)
{
    kit_run run = {
        .folder = "nothing",
        .overrides = {"features=kaldi-fbank,mel_count=20,hop_us=2500,window_us=60000",
                      "train.epochs=1"}
    };
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    const double infeasible = sum_of("nothing", "step", "infeasible");
    const double text = sum_of("nothing", "step", "without_text");
    const double frames = sum_of("nothing", "step", "without_frames");
    char want[256];
    CHECK(infeasible > 0 && text > 0 && frames > 0);
    (void)snprintf(want, sizeof(want),
                   "%.0f of %d utterances are not trained on: %.0f have too few frames for their "
                   "transcript, %.0f have no symbol of the vocabulary in it, %.0f have no frames",
                   infeasible + text + frames, (int)TALK_UTTERANCES, infeasible, text, frames);
    if (strstr(run.log, want) == NULL)
        fprintf(stderr, "    said \"%s\", want %s\n", run.log, want);
    CHECK(strstr(run.log, want) != NULL);
    CHECK(isfinite(run.result.loss));
    CHECK_U64(run.result.samples, TALK_UTTERANCES);
    CHECK_U64(last_of("nothing", "evaluation", "utterances"), TALK_UTTERANCES);
}

/* No transcript contains a symbol of this vocabulary. */
static void test_an_epoch_that_teaches_nothing(void)
{
    test_file_write_text(at("strange"), "kind: characters\nprofile: lower-1\nsymbols: [\"q\"]\n");
    char vocabulary[1024];
    (void)snprintf(vocabulary, sizeof(vocabulary), "vocabulary=%s", at("strange"));
    kit_run run = {.folder = "strange-run", .overrides = {vocabulary}};
    check_says(&run, train_kit_run(&run), SPSH_E_NOT_FOUND,
               "epoch 1: nothing to train on in its 96 utterances");
}

/* ---- other settings ---- */

static void half_a_run(const char *folder)
{
    kit_run run = {.folder = folder, .stop_at = 3};
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
}

static void test_other_settings(void)
{
    half_a_run("other");
    static const struct {
        const char *override, *text;
        spsh_status status;
    } refused[] = {
        {"model.hidden=16",                   "model.hidden is 16, but ", SPSH_E_MISMATCH},
        {"model.cell=gru",                    "model.cell is gru, but ",  SPSH_E_MISMATCH},
        {"features=kaldi-fbank,mel_count=30", "features is ",             SPSH_E_MISMATCH},
        {"train.optimiser=sgd",               "train.optimiser: ",        SPSH_E_MISMATCH},
        {"data.seed=2",                       "seed",                     SPSH_E_MISMATCH},
        {"data.max_padded_seconds=3",         "options",                  SPSH_E_MISMATCH},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        kit_run run = {.folder = "other", .resume = true, .overrides = {refused[i].override}};
        check_says(&run, train_kit_run(&run), refused[i].status, refused[i].text);
    }
    kit_run run = {
        .folder = "other",
        .resume = true,
        .overrides = {"train.rate=2e-3", "train.epochs=3", "train.strategy=partitioned"}
    };
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(run.result.epochs, 3);
    CHECK(strstr(run.log, "resuming with train.rate: 0.002; before, it was 0.001") != NULL);
    CHECK(strstr(run.log, "resuming with train.epochs: 3; before, it was 2") != NULL);
    CHECK(strstr(run.log, "resuming with train.strategy: ") != NULL);
    CHECK_U64(count_of(run.log, "resuming with"), 3);
    CHECK(train_kit_weights("other") != whole_weights);
}

/* Without a configuration the run's own configuration applies, and no change is reported. */
static void test_its_own_settings(void)
{
    half_a_run("own");
    kit_run run = {.folder = "own", .resume = true, .has_no_config = true};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(count_of(run.log, "resuming with"), 0);
    check_same("own");
    run = (kit_run){.folder = "nobody", .resume = true, .has_no_config = true};
    check_says(&run, train_kit_run(&run), SPSH_E_NOT_FOUND, "nobody");
}

static void test_another_vocabulary(void)
{
    half_a_run("words");
    REQUIRE(rename(at("letters"), at("letters.old")) == 0);
    kit_run run = {.folder = "words", .resume = true, .stop_at = 1};
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED); /* the run has its own */
    test_file_write_text(at("letters"), "kind: characters\nprofile: lower-1\nsymbols: [\"q\"]\n");
    run = (kit_run){.folder = "words", .resume = true};
    check_says(&run, train_kit_run(&run), SPSH_E_MISMATCH, "the vocabulary differs from");
    REQUIRE(rename(at("letters.old"), at("letters")) == 0);
    run = (kit_run){.folder = "words", .resume = true};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    check_same("words");
}

/* A missing dataset is an error with its name; the same data at another path are accepted. */
static void test_data_that_moved(void)
{
    char train[1100], dev[1100];
    half_a_run("moved");
    REQUIRE(rename(at("talk.spsh"), at("elsewhere.spsh")) == 0);
    kit_run run = {.folder = "moved", .resume = true};
    check_says(&run, train_kit_run(&run), SPSH_E_NOT_FOUND, "talk.spsh");
    (void)snprintf(train, sizeof(train), "data.train=[\"%s\"]", at("elsewhere.spsh"));
    (void)snprintf(dev, sizeof(dev), "data.dev=[\"%s\"]", at("elsewhere.spsh"));
    run = (kit_run){
        .folder = "moved", .resume = true, .overrides = {train, dev}
    };
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK(strstr(run.log, "resuming with data.train: ") != NULL);
    REQUIRE(rename(at("elsewhere.spsh"), at("talk.spsh")) == 0);
    check_same("moved");
}

static void test_a_run_that_is_done(void)
{
    char before[2048], after[2048];
    kit_run run = {.folder = "done"};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    list_checkpoints("done", before, sizeof(before));
    run = (kit_run){.folder = "done", .resume = true};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(run.steps, 0);
    CHECK(strstr(run.log, "the run is done: 2 epochs, 192 utterances") != NULL);
    CHECK_U64(run.result.steps, whole.result.steps);
    list_checkpoints("done", after, sizeof(after));
    CHECK_STR(after, before);
    run = (kit_run){.folder = "done", .resume = true, .overrides = {"train.epochs=3"}};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(run.result.epochs, 3);
}

static void test_folders_that_are_none(void)
{
    test_file_write_text(at("file"), "");
    kit_run run = {.folder = "file"};
    check_says(&run, train_kit_run(&run), SPSH_E_EXISTS, "file: not a folder");
    run = (kit_run){.folder = "file/run"};
    check_says(&run, train_kit_run(&run), SPSH_E_IO, "file/run");
    run = (kit_run){.folder = "missing/run"};
    check_says(&run, train_kit_run(&run), SPSH_E_NOT_FOUND, "missing/run");
    if (geteuid() == 0)
        return; /* root bypasses file permissions */
    REQUIRE(mkdir(at("locked"), 0555) == 0);
    run = (kit_run){.folder = "locked/run"};
    check_says(&run, train_kit_run(&run), SPSH_E_IO, "locked/run");
    run = (kit_run){.folder = "locked"};
    check_says(&run, train_kit_run(&run), SPSH_E_IO, "locked");
}

/* ---- the batch that comes next ---- */

static void test_another_next_batch(void)
{
    half_a_run("next");
    spsh__checkpoint_file *file = NULL;
    spsh__checkpoint state = kit_newest_state("next", &file);
    CHECK(state.next_batch_hash != 0);
    spsh__checkpoint_writer *writer = NULL;
    REQUIRE(spsh__checkpoint_writer_open(at("next"), 3, NULL, NULL, &writer, NULL) == SPSH_OK);
    state.next_batch_hash++;
    CHECK_I64(spsh__checkpoint_put(writer, &state, NULL), SPSH_OK);
    CHECK_I64(spsh__checkpoint_flush(writer, NULL), SPSH_OK);
    spsh__checkpoint_writer_close(writer);
    spsh__checkpoint_close(file);
    kit_run run = {.folder = "next", .resume = true};
    check_says(&run, train_kit_run(&run), SPSH_E_MISMATCH, "the next batch is not");
}

/* ---- stopping ---- */

/* At each batch of all evaluations and of training. */
static void test_stopped_at_each_batch(void)
{
    bool was_stopped = true;
    uint64_t stops = 0;
    for (uint64_t batch = 3; was_stopped; batch += 5 * stride) {
        kit_run run = {.folder = "stopped"};
        served = (struct served){.stop_at = batch, .stop = &run.stop};
        const spsh_status rc = train_kit_run(&run);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CANCELED);
        CHECK(rc == SPSH_OK || strstr(run.err.message, "stopped after step ") != NULL);
        was_stopped = served.batches >= batch;
        served = (struct served){0};
        stops += rc == SPSH_E_CANCELED;
        run = (kit_run){.folder = "stopped", .resume = true};
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        CHECK_U64(run.result.steps, whole.result.steps);
        check_same("stopped");
        /* Both epochs were evaluated, once. */
        CHECK(sum_of("stopped", "evaluation", "utterances") == 2.0 * TALK_UTTERANCES);
        test_remove_tree(at("stopped"));
    }
    CHECK(stops > 10 / stride);
}

/* ---- two at once ---- */

static char program[4096];

/* Start a second process and wait for its end, while this process is in a step. */
static void be_overtaken(kit_run *run, uint64_t step)
{
    if (step == 5) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            (void)execl(program, program, base, run->folder, (char *)NULL);
            _exit(127);
        }
        CHECK(!end_child(child));
    }
    if (step > 5) /* simulate long steps; the process polls once per second */
        (void)usleep(300000);
}

static void test_two_at_once(void)
{
    kit_run run = {
        .folder = "two",
        .step_fn = be_overtaken,
        .overrides = {"train.epochs=50", "data.virtual_world=1", "train.accumulate=1"}
    };
    check_says(&run, train_kit_run(&run), SPSH_E_MISMATCH, "start 2 has taken over");
    CHECK(run.steps <= whole.result.steps); /* stops in its first epoch */
    check_same("two");
}

static int start_here(char **words)
{
    (void)snprintf(base, sizeof(base), "%s", words[1]);
    (void)snprintf(kit_config, sizeof(kit_config), "%s/run.yaml", base);
    kit_run run = {.folder = words[2], .resume = true};
    const spsh_status rc = train_kit_run(&run);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", run.err.message);
    return rc == SPSH_OK ? 0 : 1;
}

TEST_MAIN(fault_train_run)
{
    if (argc == 3)
        return start_here(argv);
    if (test_wants_fewer(argc, argv))
        stride = 5;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    REQUIRE(length > 0);
    test_temp_dir(base, sizeof(base));
    train_kit_make("");
    REQUIRE(train_kit_run(&whole) == SPSH_OK);
    whole_weights = train_kit_weights("whole");
    RUN(test_killed_at_each_step);
    RUN(test_killed_at_each_write);
    RUN(test_killed_at_random);
    RUN(test_full_for_a_while);
    RUN(test_full_at_the_end);
    RUN(test_damaged_checkpoints);
    RUN(test_a_batch_that_is_no_number);
    RUN(test_a_step_that_is_left_out);
    RUN(test_nothing_but_such_batches);
    RUN(test_a_rate_that_is_too_high);
    RUN(test_utterances_that_teach_nothing);
    RUN(test_an_epoch_that_teaches_nothing);
    RUN(test_other_settings);
    RUN(test_its_own_settings);
    RUN(test_another_vocabulary);
    RUN(test_data_that_moved);
    RUN(test_a_run_that_is_done);
    RUN(test_folders_that_are_none);
    RUN(test_another_next_batch);
    RUN(test_stopped_at_each_batch);
    RUN(test_two_at_once);
    test_remove_tree(base);
    return TEST_RESULT();
}
