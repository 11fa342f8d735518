/* bench_train_pipeline.c: how much of two processors do two stages of a model use?
 *
 *     bench_train_pipeline [MODEL [BATCH [FRAMES [MICRO_BATCHES [CUT]]]]]
 *
 * Two variants run in turns, so that a disturbance affects both. Each is a step of MICRO_BATCHES
 * (M) micro-batches (forward, loss, backward). In one, a single thread has the whole model. In the
 * other, two threads have a stage each and communicate over TCP, as processes do. `efficiency` is
 * the speed of two threads relative to one, over 2; `ideal` is M / (M + 1); `share` is efficiency
 * over ideal.
 *
 * Two other figures bound the efficiency on an undisturbed machine. `balance` comes from processor
 * time, which other programs do not disturb: the time of both stages over twice the time of the
 * slower stage. `machine` is the throughput of two independent threads that each have the whole
 * model, over twice the throughput of one: both processors share caches and memory.
 *
 * CUT is the block that the second stage begins with. Without it, the number of multiplications
 * decides.
 */
#include <pthread.h>
#include <unistd.h>

#include "bench_kit.h"
#include "strategy/pipeline_parallel.h"

enum { ROUNDS = 5, LABEL_FRAMES = 8, BATCH_MAX = 256, DEADLINE_MS = 600000, STAGES = 2 };

typedef struct work { /* the same for all */
    spsh__model_shape shape;
    spsh__model_limits limits;
    spsh__model_batch batch;
    uint32_t lengths[BATCH_MAX], offsets[BATCH_MAX + 1], *labels;
    uint32_t micro_batches, cut;
    char folder[64];
} work;

typedef struct part {
    const work *w;
    uint32_t rank, stages;
    spsh__backend *backend;
    spsh__comm *comm;
    spsh__stages *stage;
    spsh__ctc_result results[BATCH_MAX];
    double cpu_s[ROUNDS + 1], loss;
} part;

typedef struct second { /* arguments of the second thread */
    part *whole, *stage;
    pthread_barrier_t *together;
} second;

static spsh_status on_loss(void *user, uint32_t micro_batch, spsh__model *m,
                           spsh__backend_buffer logits, spsh_error *failed)
{
    part *p = (part *)user;
    const work *w = p->w;
    const spsh__ctc_shape shape = {spsh__model_out_frames(m, w->batch.frames), w->batch.batch,
                                   w->shape.outputs, 0, 1};
    const spsh__label_batch labels = {w->labels, w->offsets};
    const spsh__ctc_io io = {logits, spsh__model_logit_gradients(m), NULL, p->results};
    (void)micro_batch, (void)failed;
    p->backend->ops->ctc_fn(p->backend, &shape, spsh__model_out_lengths(m), &labels, &io);
    for (uint32_t n = 0; n < w->batch.batch; n++)
        p->loss += p->results[n].loss;
    return SPSH_OK;
}

static spsh_status on_bucket(void *user, uint32_t micro_batch, uint32_t bucket, spsh_error *failed)
{
    (void)user, (void)micro_batch, (void)bucket, (void)failed;
    return SPSH_OK;
}

static spsh_status on_skip(void *user, uint32_t micro_batch, spsh_error *failed)
{
    (void)user, (void)micro_batch, (void)failed;
    return SPSH_OK;
}

static void open_part(part *p)
{
    const work *w = p->w;
    const spsh__launch launch = {.rank = p->rank,
                                 .world_size = p->stages,
                                 .local_rank = p->rank,
                                 .local_size = p->stages,
                                 .node_count = 1,
                                 .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = w->folder, .deadline_ms = DEADLINE_MS};
    check_ok(spsh__backend_open("cpu", 1, NULL, &p->backend, &failure));
    if (p->stages == 1)
        check_ok(spsh__comm_self_open(spsh_allocator_default(), &p->comm, &failure));
    else
        check_ok(spsh__comm_open(&meeting, spsh_allocator_default(), &p->comm, &failure));
    const bool is_cut = w->cut > 0 && p->stages > 1;
    const spsh__stages_options options = {.backend = p->backend,
                                          .comm = p->comm,
                                          .shape = &w->shape,
                                          .limits = &w->limits,
                                          .cuts = is_cut ? &w->cut : NULL,
                                          .cut_count = is_cut ? 1 : 0,
                                          .loss_fn = on_loss,
                                          .bucket_fn = on_bucket,
                                          .skip_fn = on_skip,
                                          .user = p};
    check_ok(spsh__stages_open(&options, &p->stage, &failure));
    spsh__model_init(spsh__stages_model(p->stage), 1);
}

/* Returns its milliseconds. */
static double step(part *p, int round)
{
    const double begin_ms = now_ms(), cpu_s = cpu_seconds();
    spsh__stages_begin(p->stage);
    for (uint32_t m = 0; m < p->w->micro_batches; m++)
        check_ok(spsh__stages_put(p->stage, m, &p->w->batch, &failure));
    check_ok(spsh__stages_end(p->stage, &failure));
    p->cpu_s[round] = cpu_seconds() - cpu_s;
    return now_ms() - begin_ms;
}

static void close_part(part *p)
{
    spsh__comm_close(p->comm);
    spsh__stages_close(p->stage);
    spsh__backend_close(p->backend);
}

/* Both models at once. Returns the milliseconds until both are done. */
static double step_together(part *p, int round, pthread_barrier_t *together)
{
    (void)pthread_barrier_wait(together);
    const double begin_ms = now_ms();
    (void)step(p, round);
    (void)pthread_barrier_wait(together);
    return now_ms() - begin_ms;
}

static void *be_second(void *user)
{
    const second *s = (second *)user;
    open_part(s->whole);
    open_part(s->stage);
    for (int round = 0; round <= ROUNDS; round++) {
        (void)step_together(s->whole, round, s->together);
        (void)step(s->stage, round);
    }
    close_part(s->whole);
    close_part(s->stage);
    return NULL;
}

static void make_work(work *w)
{
    const spsh__model_batch *b = &w->batch;
    const size_t count = (size_t)b->batch * b->frames * w->shape.inputs;
    float *features = calloc(count, sizeof(*features));
    w->labels = calloc((size_t)b->batch * b->frames, sizeof(*w->labels));
    must(features != NULL && w->labels != NULL, "no memory");
    for (size_t i = 0; i < count; i++)
        features[i] = (float)((double)(int64_t)mix64(i) / 9.3e18);
    for (uint32_t n = 0; n < b->batch; n++) {
        w->lengths[n] = b->frames;
        w->offsets[n + 1] = w->offsets[n] + b->frames / LABEL_FRAMES;
        for (uint32_t i = w->offsets[n]; i < w->offsets[n + 1]; i++)
            w->labels[i] = 1 + (uint32_t)(mix64(i) % (w->shape.outputs - 1));
    }
    w->batch.features = features;
    w->batch.lengths = w->lengths;
}

/* Median of all rounds except the first. */
static double median_of(const double *rounds)
{
    double sorted[ROUNDS];
    memcpy(sorted, rounds + 1, sizeof(sorted));
    return figure_of(sorted, ROUNDS).median;
}

/* Milliseconds of rounds. */
typedef struct times {
    double one[ROUNDS + 1], both[ROUNDS + 1], two[ROUNDS + 1];
} times;

static void tell(const char *model, const work *w, const times *t, const part *parts)
{
    const double of_one = median_of(t->one), of_two = median_of(t->two);
    const double cpu[3] = {median_of(parts[1].cpu_s), median_of(parts[2].cpu_s),
                           median_of(parts[0].cpu_s)};
    const double dearer = cpu[0] > cpu[1] ? cpu[0] : cpu[1];
    const double ideal = (double)w->micro_batches / (w->micro_batches + STAGES - 1);
    const double efficiency = of_one / of_two / STAGES;
    printf("{\"model\": \"%s\", \"batch\": %u, \"frames\": %u, \"micro_batches\": %u, \"cut\": %u, "
           "\"one_ms\": %.1f, \"two_ms\": %.1f, \"one_cpu_ms\": %.1f, \"cpu_ms\": [%.1f, %.1f], "
           "\"balance\": %.3f, \"machine\": %.3f, "
           "\"ideal\": %.3f, \"efficiency\": %.3f, \"share\": %.3f}\n",
           model, w->batch.batch, w->batch.frames, w->micro_batches, w->cut, of_one, of_two,
           cpu[2] * 1e3, cpu[0] * 1e3, cpu[1] * 1e3, cpu[2] / 2 / dearer,
           of_one / median_of(t->both), ideal, efficiency, efficiency / ideal);
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
    return argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "ds2-small";
    static work w;
    static part parts[4]; /* whole model; the two stages; whole model of the second thread */
    static times t;
    pthread_barrier_t together;
    second of_second = {&parts[3], &parts[2], &together};
    pthread_t thread;
    w = (work){
        .shape = {.inputs = 161, .outputs = 29}
    };
    w.batch = (spsh__model_batch){.batch = number(argc, argv, 2, 4),
                                  .frames = number(argc, argv, 3, 200)};
    w.micro_batches = number(argc, argv, 4, 8);
    w.cut = number(argc, argv, 5, 0);
    must(w.batch.batch >= 1 && w.batch.batch <= BATCH_MAX && w.micro_batches >= 1, "what batch?");
    w.limits = (spsh__model_limits){w.batch.batch, w.batch.frames,
                                    (uint64_t)w.batch.batch * w.batch.frames};
    check_ok(spsh__model_preset(model, &w.shape, &failure));
    must(w.shape.kind == SPSH__MODEL_DS2, "a model with texts: ds2, ds2-small, ds2-tiny");
    make_work(&w);
    (void)snprintf(w.folder, sizeof(w.folder), "/tmp/bench-pipeline-XXXXXX");
    must(mkdtemp(w.folder) != NULL, "mkdtemp");
    for (uint32_t i = 0; i < 4; i++)
        parts[i] = (part){.w = &w, .rank = i == 2 ? 1 : 0, .stages = i % 3 == 0 ? 1 : STAGES};
    must(pthread_barrier_init(&together, NULL, STAGES) == 0, "pthread_barrier_init");
    must(pthread_create(&thread, NULL, be_second, &of_second) == 0, "pthread_create");
    open_part(&parts[0]);
    open_part(&parts[1]);
    for (int round = 0; round <= ROUNDS; round++) { /* the first one warms up */
        t.both[round] = step_together(&parts[0], round, &together);
        t.one[round] = step(&parts[0], round);
        t.two[round] = step(&parts[1], round);
    }
    must(parts[0].loss > 0, "no loss");
    w.cut = spsh__stages_blocks(parts[1].stage, 1).first; /* the second one closes when this does */
    close_part(&parts[0]);
    close_part(&parts[1]);
    must(pthread_join(thread, NULL) == 0, "pthread_join");
    (void)pthread_barrier_destroy(&together);
    tell(model, &w, &t, parts);
    (void)rmdir(w.folder);
    return 0;
}
