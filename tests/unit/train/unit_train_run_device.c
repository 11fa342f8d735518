/* unit_train_run_device.c: runs on a device. The device is the host emulation of the CUDA plug-in,
 * or a real one with the argument `device`. The plug-in is next to this program, as it is next to
 * the command. The tests compare losses with the CPU in every precision. They stop, kill, and
 * resume runs, also on another backend. Other tests have too little device memory, a lost device,
 * or no device.
 *
 * Losses are compared with the CPU in two ways. If the weights stay the same at all steps, only
 * rounding differs: the tolerance is the last bit of the precision. If the weights learn, training
 * itself amplifies differences. Then the tolerance comes from two CPU runs: their inputs differ by
 * as little as the precision changes losses.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "run/run_internal.h"
#include "test_number.h"
#include "tone_dataset.h"
#include "train_kit.h"
#include "twin_plugin.h"

enum { STEPS_MAX = 64 };

static twin_controls *twin; /* NULL: a real device */

/* Metrics of a run, step by step. */
typedef struct history {
    uint32_t count;
    double losses[STEPS_MAX], norms[STEPS_MAX], scales[STEPS_MAX], skipped[STEPS_MAX];
} history;

static double number_behind(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    REQUIRE(at != NULL);
    return test_number(at + strlen(key), NULL); /* "null" is NaN */
}

static history read_history(const char *folder)
{
    static char line[1 << 16];
    char path[1024];
    history h = {0};
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", at(folder));
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strstr(line, "\"kind\":\"step\"") == NULL)
            continue;
        REQUIRE(h.count < STEPS_MAX);
        h.losses[h.count] = number_behind(line, "\"loss\":");
        h.norms[h.count] = number_behind(line, "\"gradient_norm\":");
        h.scales[h.count] = number_behind(line, "\"loss_scale\":");
        h.skipped[h.count++] = number_behind(line, "\"skipped_steps\":");
    }
    REQUIRE(fclose(file) == 0);
    return h;
}

/* Small features, to save time in the host emulation. */
#define FEATURES "features=kaldi-fbank,mel_count=12,hop_us=4000,window_us=8000"

static void set(kit_run *run, const char *override)
{
    size_t count = 0;
    while (run->overrides[count] != NULL)
        count++;
    REQUIRE(count < KIT_OVERRIDES);
    run->overrides[count] = override;
}

static kit_run on_cuda(const char *folder, const char *precision)
{
    return (kit_run){
        .folder = folder,
        .overrides = {FEATURES, "train.backend=cuda", precision, "train.deterministic=true"}
    };
}

static kit_run on_cpu(const char *folder)
{
    return (kit_run){
        .folder = folder, .overrides = {FEATURES, "train.backend=cpu"}
    };
}

/* ---- losses ---- */

/* Largest relative difference of two runs in `steps` steps. Steps that one of the runs skipped do
 * not count. */
static double off_by(const double *a, const double *b, uint32_t steps)
{
    double most = 0;
    for (uint32_t i = 0; i < steps; i++)
        if (isfinite(a[i]) && isfinite(b[i]))
            most = fmax(most, fabs(a[i] - b[i]) / b[i]);
    return most;
}

static double difference(const history *a, const history *b, uint32_t steps)
{
    REQUIRE(a->count >= steps && b->count >= steps);
    return off_by(a->losses, b->losses, steps);
}

static void must_run(kit_run *run)
{
    const spsh_status rc = train_kit_run(run);
    if (rc != SPSH_OK)
        printf("%s: %s\n", run->folder, run->err.message);
    REQUIRE(rc == SPSH_OK);
}

static void check_nothing_left(void)
{
    if (twin == NULL)
        return;
    CHECK_U64(twin->open_memory, 0);
    CHECK_U64(twin->open_streams + twin->open_events + twin->open_graphs, 0);
    CHECK_U64(twin->open_pinned, 0);
    CHECK_U64(twin->hazards, 0);
}

static void check_computed_there(const kit_run *run)
{
    CHECK(strstr(run->log, "computes on cuda, device 0 of ") != NULL);
    CHECK(strstr(run->log, ", deterministic") != NULL);
    check_nothing_left();
}

/* Run with one batch per step. changes: settings of the model, NULL-terminated. */
static history run_curve(kit_run *run, const char *const *changes)
{
    set(run, "train.accumulate=1");
    set(run, "data.virtual_world=1");
    set(run, "data.dev=[]");
    for (; *changes != NULL; changes++)
        set(run, *changes);
    must_run(run);
    return read_history(run->folder);
}

/* Difference of the running statistics of norms in two runs. */
static double statistics_off(const char *folder, const char *other)
{
    spsh__checkpoint_file *files[2] = {NULL, NULL};
    const spsh__checkpoint a = kit_newest_state(folder, &files[0]),
                           b = kit_newest_state(other, &files[1]);
    double most = 0;
    REQUIRE(a.statistics_elements == b.statistics_elements && a.statistics_elements > 0);
    for (uint64_t i = 0; i < a.statistics_elements; i++)
        most = fmax(most, fabs((double)a.statistics[i] - (double)b.statistics[i]) /
                              (1 + fabs((double)b.statistics[i])));
    spsh__checkpoint_close(files[0]);
    spsh__checkpoint_close(files[1]);
    return most;
}

/* Constant weights: losses, gradient norms, and statistics of an epoch, each from a single batch. A
 * gradient may jump where a value is at an edge of the clip, so norms differ more than losses. A
 * step that fp16 skips has no statistics. */
static void test_weights_that_stay(void)
{
    static const struct {
        const char *name, *precision, *of, *changes[2];
        double loss, norm, statistics; /* allowed differences */
    } rows[] = {
        {"s-fp32",   "fp32", "s-cpu",        {NULL},                               1e-5,    1e-3, 1e-5  },
        {"s-tf32",   "tf32", "s-cpu",        {NULL},                               0x1p-11, 0.1,  0x1p-9},
        {"s-bf16",   "bf16", "s-cpu",        {NULL},                               0x1p-8,  0.2,  0x1p-6},
        {"s-fp16",   "fp16", "s-cpu",        {NULL},                               0x1p-11, 0.2,  1     },
        {"s-ahead",
         "fp32",             "s-ahead-cpu",
         {"model.bidirectional=false", "model.lookahead=4"},
         1e-5,                                                                              1e-3,
         1e-5                                                                                           },
        {"s-gru",    "bf16", "s-gru-cpu",    {"model.cell=gru", "model.layers=2"}, 0x1p-8,  0.2,  0x1p-6},
        {"s-compat",
         "fp32",             "s-compat-cpu",
         {"model.batch_norm=compat", "model.layers=2"},
         1e-5,                                                                              1e-3,
         1e-5                                                                                           },
    };
    history want = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const changes[] = {"train.epochs=1",   "train.optimiser=sgd",
                                       "train.rate=1e-12", rows[i].changes[0],
                                       rows[i].changes[1], NULL};
        char precision[32];
        (void)snprintf(precision, sizeof(precision), "train.precision=%s", rows[i].precision);
        kit_run host = on_cpu(rows[i].of), run = on_cuda(rows[i].name, precision);
        if (i == 0 || strcmp(rows[i].of, rows[i - 1].of) != 0)
            want = run_curve(&host, changes);
        const history got = run_curve(&run, changes);
        const double loss = difference(&got, &want, want.count);
        const double norm = off_by(got.norms, want.norms, want.count);
        const double statistics = statistics_off(rows[i].name, rows[i].of);
        printf("%s: of %u steps losses are within %.1e of the CPU's, norms %.1e, statistics %.1e\n",
               rows[i].name, got.count, loss, norm, statistics);
        CHECK_U64(got.count, want.count);
        CHECK(loss <= rows[i].loss && loss > 0);
        CHECK(norm <= rows[i].norm && statistics <= rows[i].statistics);
        check_computed_there(&run);
    }
}

static double mean_of_last(const history *h, uint32_t count)
{
    double sum = 0;
    REQUIRE(h->count >= count);
    for (uint32_t i = h->count - count; i < h->count; i++)
        sum += h->losses[i] / count;
    return sum;
}

/* Two epochs of AdamW, more than 50 steps. The tolerance comes from CPU runs with another
 * pre-emphasis: a change of 1e-6 alters losses like another order of float sums, a change of 2e-2
 * like bf16. The test prints how much training amplifies the change. The minimum tolerance is 1e-5.
 */
static void test_weights_that_learn(void)
{
    static const char *const changes[] = {"train.epochs=2", NULL};
    static const struct {
        const char *name, *precision;
        bool is_of_halves;
    } rows[] = {
        {"c-fp32", "train.precision=fp32", false},
        {"c-tf32", "train.precision=tf32", true },
        {"c-bf16", "train.precision=bf16", true },
    };
    kit_run host = on_cpu("c-cpu"), other[] = {on_cpu("c-cpu-6"), on_cpu("c-cpu-2")};
    other[0].overrides[0] = FEATURES ",preemphasis=0.970001";
    other[1].overrides[0] = FEATURES ",preemphasis=0.99";
    const history want = run_curve(&host, changes);
    double grown[2];
    for (int i = 0; i < 2; i++) {
        const history changed = run_curve(&other[i], changes);
        grown[i] = difference(&changed, &want, want.count);
        printf("the CPU against itself: %.1e in the first step, %.1e in %u\n",
               difference(&changed, &want, 1), grown[i], want.count);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* Convolutions and exponentials of a real device differ, too. */
        const bool is_of_halves = rows[i].is_of_halves || twin == NULL;
        kit_run run = on_cuda(rows[i].name, rows[i].precision);
        const history got = run_curve(&run, changes);
        const double off = difference(&got, &want, want.count);
        printf("%s: %u steps, losses within %.1e of the CPU's; %.3f, then %.3f\n", rows[i].name,
               got.count, off, got.losses[0], got.losses[got.count - 1]);
        CHECK_U64(got.count, want.count);
        CHECK(off <= 4 * fmax(grown[is_of_halves], 1e-5) && off > 0);
        check_computed_there(&run);
    }
    kit_run run = on_cuda("c-fp16", "train.precision=fp16");
    const history got = run_curve(&run, changes);
    const double last = mean_of_last(&got, 16), last_of_cpu = mean_of_last(&want, 16);
    printf("c-fp16: %.3f are the last 16 losses, %.3f the CPU's\n", last, last_of_cpu);
    CHECK(fabs(last - last_of_cpu) <= 0.2 * last_of_cpu); /* fp16 skipped a dozen steps */
    check_computed_there(&run);
}

/* Frame states, with two concatenated directions, on chunks that the host cuts. */
static void test_frames(void)
{
    char before[sizeof(kit_config)], text[KIT_TEXT_BYTES], data[600], alignments[600];
    memcpy(before, kit_config, sizeof(before));
    (void)snprintf(data, sizeof(data), "%s", at("tones.spsh"));
    (void)snprintf(alignments, sizeof(alignments), "%s", at("ali"));
    tone_dataset_make(data, alignments);
    (void)snprintf(kit_config, sizeof(kit_config), "%s", at("frames.yaml"));
    (void)snprintf(text, sizeof(text),
                   "features: kaldi-fbank,mel_count=20\n"
                   "data:\n  train: [\"%s:train\"]\n  dev: [\"%s:dev\"]\n  alignments: [\"%s\"]\n"
                   "  max_padded_seconds: 6\n"
                   "model:\n  preset: lstm-hybrid\n  hidden: 8\n  layers: 2\n  bottleneck: 8\n"
                   "train:\n  threads: 1\n  rate: 1e-2\n  schedule: constant\n  epochs: 1\n",
                   data, data, alignments);
    test_file_write_text(kit_config, text);
    static const struct {
        const char *name, *of, *precision, *rate;
        double allowed;
    } rows[] = {
        {"f-fp32", "f-cpu",       "train.precision=fp32", "train.rate=1e-2",  1e-5  },
        {"f-bf16", "f-cpu-stays", "train.precision=bf16", "train.rate=1e-12", 0x1p-8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const changes[] = {rows[i].rate, NULL};
        kit_run host = on_cpu(rows[i].of), run = on_cuda(rows[i].name, rows[i].precision);
        host.overrides[0] = run.overrides[0] = "features=kaldi-fbank,mel_count=20";
        const history want = run_curve(&host, changes), got = run_curve(&run, changes);
        const double off = difference(&got, &want, want.count);
        printf("%s: %u steps, losses within %.1e of the CPU's\n", rows[i].name, got.count, off);
        CHECK(got.count == want.count && got.count >= 5);
        CHECK(off <= rows[i].allowed && off > 0);
        check_computed_there(&run);
    }
    memcpy(kit_config, before, sizeof(before));
}

/* fp16 begins with a scale that is too large. Steps are skipped until it fits. */
static void test_overflow_at_first(void)
{
    const history got = read_history("c-fp16");
    uint32_t good = 0;
    int halved = 0;
    for (uint32_t i = 0; i < got.count; i++) {
        const bool is_left_out = got.skipped[i] > (i == 0 ? 0 : got.skipped[i - 1]);
        CHECK(got.scales[i] == ldexp(65536, -halved));
        halved += is_left_out && isfinite(got.losses[i]); /* not if the step had nothing to learn */
        good += !is_left_out;
    }
    printf("fp16: %u of %u steps made, scale %g\n", good, got.count, got.scales[got.count - 1]);
    CHECK(got.skipped[0] == 1 && got.scales[0] == 65536);
    CHECK(good > got.count / 2 && good < got.count);
}

/* ---- identical bits ---- */

static uint64_t die_at, whole_work; /* work count of the whole run "fp32" */

static uint64_t work_count(void)
{
    return twin == NULL ? 0 : twin->work_count;
}

static void die(kit_run *run, uint64_t step)
{
    (void)run;
    if (step == die_at)
        _exit(9);
}

/* Run in a separate process, forked before this one opens the device: a device does not survive a
 * fork. */
static void kill_run(kit_run *run)
{
    int status = 0;
    (void)fflush(stdout);
    run->step_fn = die;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)train_kit_run(run);
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_I64(WEXITSTATUS(status), 9);
    run->step_fn = NULL;
    run->resume = true;
}

/* The uninterrupted run comes after the killed runs. */
static void test_killed(void)
{
    kit_run host = on_cpu("cpu"), full = on_cuda("killed-fp32", "train.precision=fp32"),
            half = on_cuda("killed-fp16", "train.precision=fp16");
    must_run(&host);
    die_at = read_history("cpu").count - 1;
    kill_run(&full);
    kill_run(&half);
    must_run(&full);
    must_run(&half);
    full.folder = "fp32";
    half.folder = "fp16";
    full.resume = half.resume = false;
    const uint64_t begin = work_count();
    must_run(&full);
    whole_work = work_count() - begin;
    must_run(&half);
    CHECK_U64(train_kit_weights("killed-fp32"), train_kit_weights("fp32"));
    CHECK_U64(train_kit_weights("killed-fp16"), train_kit_weights("fp16"));
    const history want = read_history("cpu"), got = read_history("fp32");
    const double allowed = twin != NULL ? 1e-4 : 1e-2; /* see test_weights_that_learn */
    CHECK(difference(&got, &want, want.count) <= allowed);
    CHECK(fabs(full.result.wer - host.result.wer) <= allowed * host.result.wer);
    CHECK(strstr(full.log, "CUDA graphs: ") != NULL);
    CHECK(twin == NULL || strstr(full.log, "captured, 0 could not be") != NULL);
    CHECK(strstr(half.log, "gradients exceed the range of fp16; the loss scale is now 32768") !=
          NULL);
}

/* A single learner has no other gradients to wait for, so `d1-grad` equals SGD. It keeps its own
 * loss scale. */
static void test_one_learner_is_not_late(void)
{
    kit_run sgd = on_cuda("sgd-fp16", "train.precision=fp16"),
            late = on_cuda("late-fp16", "train.precision=fp16");
    kit_run *const runs[] = {&sgd, &late};
    for (size_t i = 0; i < 2; i++) {
        set(runs[i], "data.virtual_world=1");
        set(runs[i], "train.accumulate=1");
    }
    set(&late, "train.strategy=d1-grad");
    must_run(&sgd);
    must_run(&late);
    const history want = read_history("sgd-fp16"), got = read_history("late-fp16");
    CHECK(want.scales[0] == 65536 && want.scales[want.count - 1] < 65536);
    CHECK_U64(got.count, want.count);
    for (uint32_t i = 0; i < want.count; i++)
        CHECK(got.scales[i] == want.scales[i]);
    CHECK_U64(train_kit_weights("late-fp16"), train_kit_weights("sgd-fp16"));
}

/* Weights decay much, biases and norms do not: on the device in one kernel, on the CPU one by one. */
static void test_decay(void)
{
    static const char *const changes[] = {"train.weight_decay=0.9", "train.rate=0.1",
                                          "train.optimiser=adamw", NULL};
    kit_run there = on_cuda("decay", "train.precision=fp32"), here = on_cpu("decay-cpu");
    there.stop_at = here.stop_at = 4;
    for (const char *const *change = changes; *change != NULL; change++) {
        set(&there, *change);
        set(&here, *change);
    }
    CHECK_I64(train_kit_run(&there), SPSH_E_CANCELED);
    CHECK_I64(train_kit_run(&here), SPSH_E_CANCELED);
    const history got = read_history("decay"), want = read_history("decay-cpu");
    printf("decay: losses differ by at most %.1e\n", difference(&got, &want, 4));
    CHECK(difference(&got, &want, 4) <= 1e-3);
}

static void test_graphs_change_nothing(void)
{
    kit_run run = on_cuda("plain", "train.precision=fp32");
    set(&run, "train.graphs=false");
    must_run(&run);
    CHECK_U64(train_kit_weights("plain"), train_kit_weights("fp32"));
    CHECK(strstr(run.log, "CUDA graphs") == NULL);
}

static _Atomic uint64_t moves;       /* steps, and times that learner 0 has met the others */
static _Atomic uint64_t first_saved; /* moves at the first checkpoint; 0: none so far */
static _Atomic bool is_first_late;   /* the first checkpoint waits for the next move */

static void make_first_late(void)
{
    atomic_store(&first_saved, 0);
    atomic_store(&is_first_late, true);
}

/* The linker option --wrap defines these names.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
spsh_status __real_spsh__host_arenas_land(const spsh__host_arenas *a, spsh_error *err);
spsh_status __wrap_spsh__host_arenas_land(const spsh__host_arenas *a, spsh_error *err);

spsh_status __wrap_spsh__host_arenas_land(const spsh__host_arenas *a, spsh_error *err)
{
    const bool is_late = atomic_exchange(&is_first_late, false);
    while (is_late && atomic_load(&moves) == atomic_load(&first_saved))
        (void)usleep(1000);
    return __real_spsh__host_arenas_land(a, err);
}

spsh_status __real_spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err);
spsh_status __wrap_spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err);

spsh_status __wrap_spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err)
{
    const spsh_status rc = __real_spsh__run_meet(r, is_taken, err);
    uint64_t none = 0;
    moves += r->world->is_first;
    if (r->world->is_first && is_taken)
        (void)atomic_compare_exchange_strong(&first_saved, &none, atomic_load(&moves));
    return rc;
}

static _Atomic bool is_server_early; /* a server updates a part as soon as a checkpoint has begun */

spsh_status __real_spsh__run_save(spsh__run *r, spsh_error *err);
spsh_status __wrap_spsh__run_save(spsh__run *r, spsh_error *err);

spsh_status __wrap_spsh__run_save(spsh__run *r, spsh_error *err)
{
    const spsh_status rc = __real_spsh__run_save(r, err);
    const spsh__slice first = {0, SPSH__UPDATE_BLOCK};
    if (rc == SPSH_OK && r->world->is_first && atomic_exchange(&is_server_early, false))
        spsh__served_update(&r->served, &first, r->learner.moments[0], 0);
    return rc;
}

static uint32_t forwards;                 /* batches of models so far */
static _Atomic uint32_t enqueued_updates; /* updates about which the device decides */

void __real_spsh__optimizer_update(const spsh__optimizer *o, const spsh__slice_update *u);
void __wrap_spsh__optimizer_update(const spsh__optimizer *o, const spsh__slice_update *u);

void __wrap_spsh__optimizer_update(const spsh__optimizer *o, const spsh__slice_update *u)
{
    enqueued_updates += u->decision.data != NULL;
    __real_spsh__optimizer_update(o, u);
}

spsh_status __real_spsh__model_forward(spsh__model *m, const spsh__model_batch *batch,
                                       bool is_training, spsh__backend_buffer *ret_logits,
                                       uint32_t *ret_lengths, spsh_error *err);
spsh_status __wrap_spsh__model_forward(spsh__model *m, const spsh__model_batch *batch,
                                       bool is_training, spsh__backend_buffer *ret_logits,
                                       uint32_t *ret_lengths, spsh_error *err);

spsh_status __wrap_spsh__model_forward(spsh__model *m, const spsh__model_batch *batch,
                                       bool is_training, spsh__backend_buffer *ret_logits,
                                       uint32_t *ret_lengths, spsh_error *err)
{
    forwards++;
    return __real_spsh__model_forward(m, batch, is_training, ret_logits, ret_lengths, err);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* A device that has all gradients decides about updates. If the sums are made on the host, the host
 * decides. Both skip the same steps, and make the same updates. */
static void test_device_decides(void)
{
    kit_run there = on_cuda("decided", "train.precision=fp16"),
            here = on_cuda("decided-host", "train.precision=fp16");
    static const char *const changes[] = {"train.epochs=1", "train.clip=0", NULL};
    set(&here, "train.exchange=host");
    const uint32_t begin = enqueued_updates;
    const history want = run_curve(&here, changes);
    CHECK_U64(enqueued_updates, begin);
    const history got = run_curve(&there, changes);
    uint32_t finite = 0;
    REQUIRE(got.count == want.count);
    for (uint32_t i = 0; i < got.count; i++) {
        CHECK(got.losses[i] == want.losses[i] || (isnan(got.losses[i]) && isnan(want.losses[i])));
        CHECK(got.skipped[i] == want.skipped[i] && got.scales[i] == want.scales[i]);
        finite += isfinite(got.losses[i]) ? 1 : 0;
    }
    CHECK_U64(enqueued_updates - begin, finite);
    CHECK(got.skipped[got.count - 1] > 0);
    CHECK_U64(train_kit_weights("decided"), train_kit_weights("decided-host"));
    check_nothing_left();
}

static void count_step(kit_run *run, uint64_t step)
{
    (void)run, (void)step;
    moves++;
}

/* The host does not wait for the copies of a checkpoint before the next step changes the model. The
 * emulation stops the program if no event orders the step after the copies. A run that resumes from it has the bits of
 * the run that was not stopped. */
static void test_step_during_a_checkpoint(void)
{
    kit_run run = on_cuda("during", "train.precision=fp32");
    run.step_fn = count_step;
    run.stop_at = read_history("fp32").count - 1; /* later than the first checkpoint */
    make_first_late();
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    CHECK(!atomic_load(&is_first_late));
    run.stop_at = 0;
    run.resume = true;
    must_run(&run);
    CHECK_U64(train_kit_weights("during"), train_kit_weights("fp32"));
    check_nothing_left();
}

/* A third of the records use codec pcm. The device decodes these, the host the others. */
static void test_decoded_there(void)
{
    kit_run run = on_cuda("decoded", "train.precision=fp32");
    set(&run, "data.decode=device");
    const uint64_t begin = work_count();
    must_run(&run);
    CHECK(twin == NULL || work_count() - begin > whole_work);
    CHECK_U64(train_kit_weights("decoded"), train_kit_weights("fp32"));
    CHECK(strstr(run.log, "the host decodes") == NULL);
    check_nothing_left();
}

/* ---- from one backend to another ---- */

static void test_goes_on_elsewhere(void)
{
    kit_run run = on_cpu("moved");
    run.stop_at = 2;
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    kit_run there = on_cuda("moved", "train.precision=bf16");
    there.resume = true;
    there.stop_at = 2;
    CHECK_I64(train_kit_run(&there), SPSH_E_CANCELED);
    CHECK(strstr(there.log, "resuming with train.backend: cuda; before, it was cpu") != NULL);
    run.resume = true;
    run.stop_at = 0;
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK(strstr(run.log, "resuming with train.precision: auto; before, it was bf16") != NULL);
    const history got = read_history("moved"), want = read_history("cpu");
    CHECK_U64(got.count, want.count);
    CHECK(difference(&got, &want, want.count) <= 5e-2);
}

/* Utterances of a caller, with features from the host. */
static void check_transcribes(void)
{
    static const int16_t quiet[12000];
    spsh_recogniser_options options = SPSH_RECOGNISER_OPTIONS_INIT;
    spsh_recogniser *recogniser = NULL;
    char *text = NULL;
    options.checkpoint = at("fp16");
    REQUIRE(spsh_recogniser_open(&options, &recogniser, NULL) == SPSH_OK);
    for (uint64_t count = 4000; count <= 12000; count += 8000) {
        CHECK_I64(spsh_recogniser_transcribe(recogniser, quiet, count, 16000, &text, NULL),
                  SPSH_OK);
        free(text);
        text = NULL;
    }
    CHECK(twin->open_memory > 0);
    spsh_recogniser_close(recogniser);
    check_nothing_left();
}

/* Batches that were enqueued when the first utterance was decoded. */
static void on_heard(void *user, spsh_bytes id, const char *reference, const char *found)
{
    uint32_t *first = user;
    (void)id, (void)reference, (void)found;
    *first = *first == 0 ? forwards : *first;
}

/* A checkpoint written on a device can be evaluated on any backend. A batch is decoded after the
 * next one was enqueued. Without a beam, only one symbol
 * per frame is read from the device. */
static void test_evaluates(void)
{
    char data[1024];
    const char *const names[] = {data, NULL};
    spsh_evaluate_options options = SPSH_EVALUATE_OPTIONS_INIT;
    spsh_evaluation here = SPSH_EVALUATION_INIT, there = SPSH_EVALUATION_INIT;
    (void)snprintf(data, sizeof(data), "%s", at("talk.spsh"));
    options.checkpoint = at("fp16");
    options.datasets = names;
    uint32_t first = 0;
    uint64_t begin = twin->down_bytes;
    options.heard_fn = on_heard;
    options.heard_user = &first;
    forwards = 0;
    REQUIRE(spsh_evaluate(&options, &there, NULL) == SPSH_OK);
    const uint64_t symbol_bytes = twin->down_bytes - begin;
    CHECK_U64(first, 2);
    CHECK(forwards > 2);
    check_transcribes();
    options.beam_width = 1;
    begin = twin->down_bytes;
    REQUIRE(spsh_evaluate(&options, &here, NULL) == SPSH_OK);
    printf("an evaluation reads %llu bytes, with a beam %llu\n", (unsigned long long)symbol_bytes,
           (unsigned long long)(twin->down_bytes - begin));
    CHECK(twin->down_bytes - begin > 4 * symbol_bytes);
    options.beam_width = 0;
    twin->capability = 10; /* a capability that the backend rejects */
    REQUIRE(spsh_evaluate(&options, &here, NULL) == SPSH_OK);
    twin->capability = 90;
    CHECK_U64(here.utterances, there.utterances);
    CHECK(fabs(here.loss - there.loss) <= 3e-2 * here.loss && here.loss != there.loss);
}

/* ---- failures ---- */

static void test_too_many_batches(void)
{
    for (int k = 0; k < 2; k++) {
        kit_run run = k == 0 ? on_cuda("many", "train.precision=fp32") : on_cpu("many");
        set(&run, "data.virtual_world=1");
        set(&run, "train.accumulate_samples=1");
        set(&run, "train.accumulate_max=1025");
        CHECK_I64(train_kit_run(&run), SPSH_E_LIMIT);
        CHECK(strstr(run.err.message, "1025 micro-batches") != NULL);
        CHECK(strstr(run.err.message, "train.accumulate_max") != NULL);
        check_nothing_left();
        test_remove_tree(at("many"));
    }
}

static void test_no_device(void)
{
    twin->capability = 30;
    kit_run run = on_cuda("none", "train.precision=tf32");
    CHECK_I64(train_kit_run(&run), SPSH_E_UNSUPPORTED);
    CHECK(strstr(run.err.message, "train.backend is cuda, but cannot be used: ") != NULL);
    run = (kit_run){
        .folder = "none", .overrides = {"train.backend=auto", "train.precision=bf16"}
    };
    CHECK_I64(train_kit_run(&run), SPSH_E_INVALID_ARG);
    CHECK(strstr(run.err.message, "train.precision is bf16, which backend cpu does not support") !=
          NULL);
    CHECK(strstr(run.err.message, "fp32") != NULL);
    run = (kit_run){
        .folder = "none", .overrides = {FEATURES, "train.backend=auto"},
             .stop_at = 1
    };
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    CHECK(strstr(run.log, "computes on cpu, because there is no GPU") != NULL);
    twin->capability = 90;
    run = (kit_run){
        .folder = "other", .overrides = {"train.backend=cuda", "train.device=2"}
    };
    CHECK_I64(train_kit_run(&run), SPSH_E_INVALID_ARG);
    CHECK_STR(run.err.message, "train.backend is cuda, but cannot be used: train.device is 2, but "
                               "there are 2 devices, counted from 0");
    run = (kit_run){
        .folder = "other", .overrides = {FEATURES, "train.backend=auto"},
             .stop_at = 1
    };
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    CHECK(strstr(run.log, "computes on cuda, device 0 of 2 (twin 0), bf16; not deterministic") !=
          NULL);
}

/* ---- strategies ---- */

/* Learners of different speeds in one process, on a simulated clock: the order of their messages
 * is the same on both backends. */
#define CLUSTER "learners=%u,step=250ms,jitter=0.2,link=1ms+100Mbit%s"

static const struct strategy_row {
    const char *name, *cluster, *more;
    bool is_free;
} strategies[] = {
    {"allreduce",     "",           NULL,                   false},
    {"partitioned",   "",           NULL,                   false},
    {"ps-sync",       "",           NULL,                   false},
    {"ps-async",      ",slow=0:3x", "train.overlap=true",   true },
    {"hogwild",       ",node=4",    NULL,                   false},
    {"dpsgd-ring",    "",           NULL,                   false},
    {"adpsgd-fixed",  ",slow=0:3x", NULL,                   true },
    {"adpsgd-random", ",slow=0:3x", NULL,                   true },
    {"d1-model",      "",           NULL,                   false},
    {"d1-grad",       "",           NULL,                   false},
    {"hierarchical",  ",node=2",    NULL,                   true },
    {"hierarchical",  ",node=2",    "train.outer=d1-model", false},
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

static kit_run run_of_strategy(const struct strategy_row *row, uint32_t learners,
                               const char *backend)
{
    static char strategy[64], cluster[128];
    const bool has_nodes = strstr(row->cluster, "node=2") != NULL;
    (void)snprintf(strategy, sizeof(strategy), "train.strategy=%s", row->name);
    (void)snprintf(cluster, sizeof(cluster), CLUSTER, learners,
                   has_nodes && learners == 1 ? "" : row->cluster);
    kit_run run = {
        .folder = backend,
        .simulate = cluster,
        .overrides = {FEATURES, "data.virtual_world=4", "data.dev=[]", "train.accumulate=1",
                      "train.device=0", "train.deterministic=true", "train.clip=1", strategy}
    };
    if (row->more != NULL)
        set(&run, row->more);
    return run;
}

/* The distance of the weights of two runs, relative to the way from the first weights. */
static double weights_off(const char *folder, const char *other, const float *start)
{
    spsh__checkpoint_file *files[2] = {NULL, NULL};
    const spsh__checkpoint a = kit_newest_state(folder, &files[0]),
                           b = kit_newest_state(other, &files[1]);
    double off = 0, way = 0;
    REQUIRE(a.arena_elements == b.arena_elements);
    for (uint64_t i = 0; i < a.arena_elements; i++) {
        off += pow((double)a.weights[i] - (double)b.weights[i], 2);
        way += pow((double)b.weights[i] - (double)start[i], 2);
    }
    CHECK(way > 0);
    spsh__checkpoint_close(files[0]);
    spsh__checkpoint_close(files[1]);
    return sqrt(off / way);
}

/* The weights before the first step: the result of a run that hardly changes the weights. more: a
 * setting, or NULL. */
static float *first_weights(const char *more)
{
    spsh__checkpoint_file *file = NULL;
    kit_run run = on_cpu("start");
    set(&run, "data.dev=[]");
    set(&run, "train.epochs=1");
    set(&run, "train.optimiser=sgd");
    set(&run, "train.rate=1e-12");
    if (more != NULL)
        set(&run, more);
    must_run(&run);
    const spsh__checkpoint c = kit_newest_state("start", &file);
    float *weights = malloc(c.arena_elements * sizeof(*weights));
    REQUIRE(weights != NULL);
    memcpy(weights, c.weights, c.arena_elements * sizeof(*weights));
    spsh__checkpoint_close(file);
    test_remove_tree(at("start"));
    return weights;
}

/* Compare the weights at the end with the CPU's. Only rounding differs, which AdamW amplifies
 * where a gradient is near zero. With 16 bits, the copy of the weights is another reader of them. */
static void check_strategy(const struct strategy_row *row, uint32_t learners, const float *start)
{
    static const struct {
        const char *optimiser, *rate, *epochs, *precision;
        double allowed;
    } optimisers[] = {
        {"train.optimiser=sgd",   "train.rate=1e-3", "train.epochs=2", "fp32", 1e-3},
        {"train.optimiser=adamw", "train.rate=1e-3", "train.epochs=1", "fp32", 5e-2},
        {"train.optimiser=sgd",   "train.rate=1e-3", "train.epochs=1", "bf16", 0.2 },
    };
    for (size_t i = 0; i < sizeof(optimisers) / sizeof(optimisers[0]); i++) {
        char precision[32];
        kit_run runs[2] = {run_of_strategy(row, learners, "cpu-of-strategy"),
                           run_of_strategy(row, learners, "cuda-of-strategy")};
        for (size_t k = 0; k < 2; k++) {
            set(&runs[k], k == 0 ? "train.backend=cpu" : "train.backend=cuda");
            set(&runs[k], optimisers[i].optimiser);
            set(&runs[k], optimisers[i].rate);
            set(&runs[k], optimisers[i].epochs);
            (void)snprintf(precision, sizeof(precision), "train.precision=%s",
                           optimisers[i].precision);
            if (k == 1)
                set(&runs[k], precision);
            must_run(&runs[k]);
        }
        check_computed_there(&runs[1]);
        CHECK_U64(runs[1].result.samples, runs[0].result.samples);
        const double off = weights_off("cuda-of-strategy", "cpu-of-strategy", start);
        printf("%s%s%s, %u learners, %s, %s: weights %.1e from the CPU's\n", row->name,
               row->more == NULL ? "" : ", ", row->more == NULL ? "" : row->more, learners,
               optimisers[i].optimiser, optimisers[i].precision, off);
        CHECK(off <= optimisers[i].allowed);
        test_remove_tree(at("cpu-of-strategy"));
        test_remove_tree(at("cuda-of-strategy"));
    }
}

static void check_strategies(bool is_free_only, uint32_t fewest)
{
    float *start = first_weights(NULL);
    for (size_t n = 0; n < STRATEGIES; n++)
        for (uint32_t learners = fewest; learners <= 4; learners *= 2)
            if (!is_free_only || strategies[n].is_free)
                check_strategy(&strategies[n], learners, start);
    free(start);
}

static void test_strategies(void)
{
    check_strategies(false, 1);
}

/* Four learners of the strategies in which two tasks change a model. */
static void test_free_learners(void)
{
    check_strategies(true, 4);
}

/* The last epoch ends with a checkpoint, and so does the run: no step is between the two. The second
 * one changes the weights to the mean of all learners while the first one may still read them. */
static void test_meets_during_a_checkpoint(void)
{
    static const struct strategy_row rows[] = {
        {"dpsgd-ring",   "",        NULL,                   false},
        {"d1-model",     "",        NULL,                   false},
        {"hierarchical", ",node=2", "train.outer=d1-model", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kit_run run = run_of_strategy(&rows[i], 4, "meets");
        set(&run, "train.backend=cuda");
        set(&run, "train.epochs=1");
        make_first_late();
        must_run(&run);
        CHECK(!atomic_load(&is_first_late));
        check_computed_there(&run);
        test_remove_tree(at("meets"));
    }
}

/* The next rounds of asynchronous learners change the model while a checkpoint reads it. The host
 * does not wait for its copies. */
static void test_rounds_during_a_checkpoint(void)
{
    static const struct strategy_row rows[] = {
        {"ps-async",      ",slow=0:3x", "train.overlap=true", true},
        {"adpsgd-random", ",slow=0:3x", NULL,                 true},
        {"hierarchical",  ",node=2",    NULL,                 true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kit_run run = run_of_strategy(&rows[i], 4, "rounds");
        set(&run, "train.backend=cuda");
        set(&run, "train.epochs=2");
        make_first_late();
        is_server_early = i == 0;
        must_run(&run);
        CHECK(!atomic_load(&is_first_late) && !is_server_early);
        check_computed_there(&run);
        test_remove_tree(at("rounds"));
    }
}

/* ---- stages of a pipeline: processes, one device each ---- */

#define STAGED_LAYERS "model.layers=3" /* 5 blocks */

static void set_rank(const char *name, uint32_t value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", value);
    REQUIRE(setenv(name, text, 1) == 0);
}

/* A stage: the emulation of its device belongs to this process. */
static void be_stage(kit_run *run, uint32_t rank, uint32_t stages)
{
    set_rank("RANK", rank);
    set_rank("WORLD_SIZE", stages);
    set_rank("LOCAL_RANK", rank);
    set_rank("LOCAL_WORLD_SIZE", stages);
    set_rank("GROUP_WORLD_SIZE", 1);
    set_rank("GROUP_RANK", 0);
    set_rank("TORCHELASTIC_RESTART_COUNT", 0);
    REQUIRE(setenv("TORCHELASTIC_RUN_ID", run->folder, 1) == 0);
    REQUIRE(setenv("MASTER_ADDR", "127.0.0.1", 1) == 0);
    must_run(run);
    if (rank == 0)
        check_computed_there(run);
    check_nothing_left();
    (void)fflush(stdout);
    _exit(TEST_RESULT());
}

static void run_stages(kit_run *run, uint32_t stages)
{
    pid_t children[4];
    (void)fflush(stdout);
    for (uint32_t rank = 0; rank < stages; rank++) {
        children[rank] = fork();
        REQUIRE(children[rank] >= 0);
        if (children[rank] == 0)
            be_stage(run, rank, stages);
    }
    for (uint32_t rank = 0; rank < stages; rank++) {
        int status = 0;
        REQUIRE(waitpid(children[rank], &status, 0) == children[rank]);
        CHECK_I64(status, 0);
    }
}

/* Compare the weights with those of one process on the CPU. Blocks of the norm cross the cuts. */
static void check_stages(uint32_t stages, const char *precision, double allowed, const float *start)
{
    kit_run runs[2] = {on_cpu("cpu-of-stages"), on_cuda("cuda-of-stages", precision)};
    for (size_t k = 0; k < 2; k++) {
        set(&runs[k], STAGED_LAYERS);
        set(&runs[k], "data.virtual_world=4");
        set(&runs[k], "train.clip=1");
        set(&runs[k], "train.optimiser=sgd");
        set(&runs[k], "train.epochs=1");
    }
    set(&runs[1], "train.strategy=pipeline");
    set(&runs[1], "train.device=0");
    must_run(&runs[0]);
    run_stages(&runs[1], stages);
    const history cpu = read_history("cpu-of-stages"), cuda = read_history("cuda-of-stages");
    const double off = weights_off("cuda-of-stages", "cpu-of-stages", start);
    CHECK_U64(cuda.count, cpu.count);
    CHECK(off_by(cuda.losses, cpu.losses, cpu.count) <= allowed);
    CHECK(off_by(cuda.norms, cpu.norms, cpu.count) <= allowed);
    printf("pipeline of %u stages, %s: weights %.1e from the CPU's\n", stages, precision, off);
    CHECK(off <= allowed);
    test_remove_tree(at("cpu-of-stages"));
    test_remove_tree(at("cuda-of-stages"));
}

static void test_stages(void)
{
    float *start = first_weights(STAGED_LAYERS);
    for (uint32_t stages = 2; stages <= 4; stages += 2) {
        check_stages(stages, "train.precision=fp32", 1e-3, start);
        check_stages(stages, "train.precision=bf16", 0.2, start);
    }
    free(start);
}

/* Estimate a run's configuration, as --estimate does. */
static void estimate_of(const kit_run *run, spsh_train_estimate **ret)
{
    spsh_train_estimate_options options = SPSH_TRAIN_ESTIMATE_OPTIONS_INIT;
    options.config_path = kit_config;
    options.overrides = run->overrides;
    REQUIRE(spsh_train_estimate_make(&options, ret, NULL) == SPSH_OK);
}

/* A run with the largest batch takes the estimated memory, and hardly less. The estimate includes
 * work space. */
static void test_estimates_are_what_runs_take(void)
{
    static const struct {
        const char *name, *settings[3];
    } rows[] = {
        {"e-own",  {"train.precision=bf16", "train.rnn=persistent", "data.dev=[]"}},
        {"e-dev",  {"train.precision=fp16", "train.rnn=cudnn"}                    },
        {"e-free", {"train.strategy=ps-async", "data.dev=[]"}                     },
        {"e-mix",  {"train.strategy=adpsgd-random", "data.dev=[]"}                },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        spsh_train_estimate *e = NULL;
        kit_run run = {
            .folder = rows[i].name, .overrides = {FEATURES, "train.backend=cuda"},
                 .stop_at = 1
        };
        set(&run, "data.max_padded_seconds=40");
        set(&run, "data.virtual_world=1");
        set(&run, "train.accumulate=1");
        set(&run, rows[i].settings[0]);
        set(&run, rows[i].settings[1]);
        set(&run, rows[i].settings[2]);
        estimate_of(&run, &e);
        twin->most_bytes = 0;
        CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
        printf("%s: %llu batches, estimated %llu bytes, %llu of them work; %llu were taken\n",
               rows[i].name, (unsigned long long)e->batches, (unsigned long long)e->device_bytes,
               (unsigned long long)e->work_bytes, (unsigned long long)twin->most_bytes);
        CHECK(twin->most_bytes <= e->device_bytes);
        CHECK((double)twin->most_bytes >= 0.9 * (double)e->device_bytes);
        spsh_train_estimate_free(e);
        check_nothing_left();
    }
}

/* On two ranks, gradients of 16 bits take as much memory as the floats of the largest bucket. */
static void test_estimates_halves(void)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    static const char *const values[] = {"0", "2", "0", "2"};
    uint64_t bytes[2] = {0, 0}, arena_bytes = 0;
    for (int i = 0; i < 2; i++) {
        spsh_train_estimate *e = NULL;
        kit_run run = on_cuda("halves", "train.exchange=nccl");
        set(&run, i == 0 ? "train.gradient_exchange=fp32" : "train.gradient_exchange=bf16");
        for (size_t n = 0; n < 4; n++)
            REQUIRE(setenv(names[n], values[n], 1) == 0);
        estimate_of(&run, &e);
        for (size_t n = 0; n < 4; n++)
            REQUIRE(unsetenv(names[n]) == 0);
        bytes[i] = e->sum_bytes;
        arena_bytes = e->gradient_bytes;
        CHECK(e->buckets > 0);
        spsh_train_estimate_free(e);
    }
    printf("sums take %llu bytes, with halves %llu; the arena has %llu\n",
           (unsigned long long)bytes[0], (unsigned long long)bytes[1],
           (unsigned long long)arena_bytes);
    CHECK(bytes[1] > bytes[0] && bytes[1] - bytes[0] <= arena_bytes);
    check_nothing_left();
}

/* The estimate names the largest batches that fit, with a reserve of 1 GB. */
static void test_estimates_what_fits(void)
{
    enum { SECONDS = 40, MIB = 1 << 20 };
    const uint64_t before = twin->device_bytes, reserve = 1000000000;
    spsh_train_estimate *e = NULL;
    kit_run run = on_cuda("fits", "data.max_padded_seconds=40");
    estimate_of(&run, &e);
    CHECK(strstr(e->compute, "bf16") != NULL); /* auto */
    const uint64_t bytes = e->device_bytes;
    CHECK(e->padded_seconds_fit >= SECONDS && e->padded_seconds_fit % 20 == 0);
    spsh_train_estimate_free(e);
    const uint64_t rooms[] = {bytes + reserve + MIB, bytes * 3 / 4 + reserve, bytes + reserve / 2};
    const uint32_t least[] = {SECONDS, 0, 0}, most[] = {SECONDS + 20, SECONDS - 20, 0};
    for (int i = 0; i < 3; i++) {
        twin->device_bytes = rooms[i];
        estimate_of(&run, &e);
        printf("%llu bytes: %u s fit\n", (unsigned long long)rooms[i], e->padded_seconds_fit);
        CHECK(e->padded_seconds_fit >= least[i] && e->padded_seconds_fit <= most[i]);
        spsh_train_estimate_free(e);
    }
    twin->device_bytes = before;
    check_nothing_left();
}

/* Each allocation that fails is reported. If it belongs to the model, the message lists the memory
 * of each part. */
static void test_too_little_memory(void)
{
    const uint64_t before = twin->device_bytes;
    bool was_explained = false;
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (twin->device_bytes = 65536; rc != SPSH_E_CANCELED; twin->device_bytes *= 2) {
        kit_run run = on_cuda("small", "train.precision=fp32");
        set(&run, "train.device=1");
        run.stop_at = 1;
        rc = train_kit_run(&run);
        REQUIRE(rc == SPSH_E_NO_MEMORY || rc == SPSH_E_CANCELED);
        was_explained = was_explained ||
                        strstr(run.err.message, "device 1 has not enough memory: the run takes ");
        check_nothing_left();
    }
    CHECK(was_explained);
    twin->device_bytes = before;
}

/* The device is lost in the middle of the second epoch. The run resumes from the checkpoint of the
 * first epoch, also on another backend. */
static void test_lost(void)
{
    kit_run run = on_cuda("lost", "train.precision=fp32");
    REQUIRE(whole_work > 0);
    twin->lost_after = twin->work_count + whole_work * 3 / 4;
    CHECK_I64(train_kit_run(&run), SPSH_E_IO);
    CHECK_STR(run.err.message,
              "this process can no longer use the device; start the program again");
    twin->lost_after = 0;
    twin->is_lost = false;
    run = on_cpu("lost");
    run.resume = true;
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    const history got = read_history("lost"), want = read_history("cpu");
    CHECK_U64(got.count, want.count);
    CHECK(difference(&got, &want, want.count) <= 1e-3);
}

static void find_twin(const char *program)
{
    char path[1024];
    const char *slash = strrchr(program, '/');
    REQUIRE(slash != NULL);
    (void)snprintf(path, sizeof(path), "%.*s/" SPSH_CUDA_PLUGIN_NAME, (int)(slash - program),
                   program);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    REQUIRE(library != NULL);
    void *symbol = dlsym(library, TWIN_CONTROLS_SYMBOL);
    twin_controls_fn *controls_fn = NULL;
    REQUIRE(symbol != NULL);
    memcpy(&controls_fn, &symbol, sizeof(controls_fn));
    twin = controls_fn();
}

/* Another process looks for the device: see kill_run. */
static bool is_device_there(void)
{
    int status = 0;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        spsh_cuda *cuda = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        const spsh_status rc = spsh_cuda_open(NULL, &cuda, &err);
        printf("%s\n", rc == SPSH_OK ? "a device" : err.message);
        (void)fflush(stdout);
        _exit(rc == SPSH_OK ? 0 : 1);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status) == 0;
}

static void run_curves(void)
{
    RUN(test_weights_that_stay);
    RUN(test_weights_that_learn);
    RUN(test_overflow_at_first);
    RUN(test_frames);
}

static void run_failures(void)
{
    RUN(test_evaluates);
    RUN(test_too_many_batches);
    RUN(test_no_device);
    RUN(test_estimates_are_what_runs_take);
    RUN(test_estimates_halves);
    RUN(test_estimates_what_fits);
    RUN(test_too_little_memory);
    RUN(test_lost);
}

/* Argument curves: only losses. strategies: only strategies; strategies fewer: some of them.
 * stages: only pipelines. device: on a real device. None: on the host emulation, all the rest. */
TEST_MAIN(unit_train_run_device)
{
    const bool is_real = argc > 1 && strcmp(argv[1], "device") == 0;
    const bool has_curves = argc > 1;
    if (is_real && !is_device_there())
        return 77;
    test_temp_dir(base, sizeof(base));
    train_kit_make("");
    if (!is_real)
        find_twin(argv[0]);
    if (argc > 1 && strcmp(argv[1], "stages") == 0) {
        RUN(test_stages);
        test_remove_tree(base);
        return TEST_RESULT();
    }
    if (argc > 1 && strcmp(argv[1], "strategies") == 0) {
        if (argc > 2)
            RUN(test_free_learners);
        else
            RUN(test_strategies);
        test_remove_tree(base);
        return TEST_RESULT();
    }
    if (!has_curves || is_real) {
        RUN(test_killed);
        RUN(test_one_learner_is_not_late);
        RUN(test_device_decides);
        RUN(test_decay);
        RUN(test_graphs_change_nothing);
        RUN(test_step_during_a_checkpoint);
        RUN(test_meets_during_a_checkpoint);
        RUN(test_rounds_during_a_checkpoint);
        RUN(test_decoded_there);
        RUN(test_goes_on_elsewhere);
    }
    if (has_curves)
        run_curves();
    else
        run_failures();
    test_remove_tree(base);
    return TEST_RESULT();
}
