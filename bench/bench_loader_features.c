/* bench_loader_features.c: the loader with features, compared with only decoding and only computing
 * features. All run in turns, on the same cores; bench/loader_features.sh runs it.
 *
 *     bench_loader_features DATASET... [--features TEXT] [--dtype float16] [--augment TEXT]
 *
 * If only features are computed, the rows go round in ROWS_BYTES of each thread, as the loader's
 * rows go to its slots: a batch needs memory, and that is not a cache.
 *
 * Prints one JSON object. loader_of_slower is the loader's rate relative to the slower of the two
 * parts. But threads do both in turns. So loader_of_both, relative to the time of one part after
 * the other, shows the cost of the loader itself. Rates of processor time (cpu_*) are the rates on
 * otherwise idle cores.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cmd_bench_parts.h"
#include "speechshard/read_engine.h"

enum { ROUNDS_MAX = 99, UTTERANCES_MAX = 4096, SAMPLES_MAX = 1 << 24, ROWS_BYTES = 64 << 20 };

typedef struct request {
    spsh__plan_words words;
    spsh__plan_request plan;
    spsh__datasets datasets;
    spsh__bench_sample sample;
    spsh_feature_options features;
    spsh_augment_options augment;
    bool has_augment;
    uint64_t rounds, threads, dtype;
    double seconds;
} request;

/* Audio that features are computed of, again and again. */
typedef struct audio {
    int16_t *pcm;
    uint64_t sample_count;
    uint64_t starts[UTTERANCES_MAX + 1];
    uint32_t utterances;
} audio;

/* ---- the audio, as the loader has it ---- */

static spsh_loader_options loader_options(const request *r)
{
    spsh_loader_options opt = SPSH_LOADER_OPTIONS_INIT;
    opt.plan = &r->plan.plan;
    opt.decode_threads = (uint32_t)r->threads;
    opt.flags = SPSH_LOADER_CACHED;
    return opt;
}

static void take_batch(audio *a, const spsh_batch *batch)
{
    for (uint32_t n = 0; n < batch->utterance_count && a->utterances < UTTERANCES_MAX; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        if (a->sample_count + u->samples > SAMPLES_MAX)
            return;
        memcpy(a->pcm + a->sample_count, batch->i16 + u->offset, u->samples * sizeof(*a->pcm));
        a->starts[a->utterances++] = a->sample_count;
        a->sample_count += u->samples;
        a->starts[a->utterances] = a->sample_count;
    }
}

static int take_audio(const request *r, audio *a)
{
    spsh_loader_options opt = loader_options(r);
    spsh_error err = SPSH_ERROR_INIT;
    spsh_loader *loader = NULL;
    const spsh_batch *batch = NULL;
    a->pcm = (int16_t *)malloc(SAMPLES_MAX * sizeof(*a->pcm));
    if (a->pcm == NULL)
        return spsh__cli_fail_memory();
    spsh_plan_options plan = r->plan.plan;
    plan.sample_rate_hz = r->features.sample_rate_hz;
    opt.plan = &plan;
    spsh_status rc = spsh_loader_open((const spsh_dataset *const *)r->datasets.items,
                                      r->datasets.count, &opt, &loader, &err);
    while (rc == SPSH_OK && a->sample_count < SAMPLES_MAX / 2) {
        rc = spsh_loader_next(loader, &batch, &err);
        if (rc != SPSH_OK)
            break;
        take_batch(a, batch);
        spsh_loader_release(loader, batch);
    }
    spsh_loader_close(loader);
    return rc == SPSH_OK || (rc == SPSH_E_END && a->utterances > 0) ? SPSH_EXIT_DONE
                                                                    : spsh__cli_fail(NULL, &err);
}

/* ---- only features ---- */

typedef struct computing {
    const request *r;
    const audio *a;
    spsh_featgen *featgen;
    uint64_t values_max; /* values of one utterance */
    double end_wall;
    _Atomic uint32_t next;
    _Atomic uint64_t samples;
    _Atomic bool failed;
} computing;

/* One thread that computes features. */
typedef struct computer {
    computing *all;
    pthread_t thread;
    uint8_t *rows; /* ROWS_BYTES, and one utterance's more */
    float *floats; /* floats that are rounded to float16 */
} computer;

static uint64_t values_max(const audio *a, const spsh_featgen *featgen)
{
    uint64_t longest = 0;
    for (uint32_t n = 0; n < a->utterances; n++)
        if (a->starts[n + 1] - a->starts[n] > longest)
            longest = a->starts[n + 1] - a->starts[n];
    return spsh_featgen_frame_count(featgen, longest) * spsh_featgen_dim(featgen);
}

static void *compute(void *opaque)
{
    const computer *self = (const computer *)opaque;
    computing *c = self->all;
    const uint32_t dim = spsh_featgen_dim(c->featgen);
    const bool is_half = c->r->dtype == SPSH_FLOAT16;
    spsh_featgen_worker *worker = NULL;
    uint64_t at = 0;
    spsh_status rc = spsh_featgen_worker_open(c->featgen, &worker, NULL);
    while (rc == SPSH_OK && spsh__cli_now_s() < c->end_wall) {
        const uint32_t n = atomic_fetch_add(&c->next, 1) % c->a->utterances;
        const spsh_feature_input input = {.i16 = c->a->pcm + c->a->starts[n],
                                          .sample_count = c->a->starts[n + 1] - c->a->starts[n]};
        const uint64_t values = spsh_featgen_frame_count(c->featgen, input.sample_count) * dim;
        void *place = self->rows + at;
        rc = spsh_featgen_compute(worker, &input, is_half ? self->floats : (float *)place, NULL);
        if (is_half)
            spsh_half_from_float((uint16_t *)place, self->floats, values);
        at += values * (is_half ? sizeof(uint16_t) : sizeof(float));
        at = at < ROWS_BYTES ? at : 0;
        atomic_fetch_add(&c->samples, input.sample_count);
    }
    if (rc != SPSH_OK)
        atomic_store(&c->failed, true);
    spsh_featgen_worker_close(worker);
    return NULL;
}

/* Touched, so that no page is new when the clock runs. */
static bool open_computer(computer *self, computing *all)
{
    const size_t bytes = all->values_max * sizeof(float);
    self->all = all;
    self->rows = (uint8_t *)malloc(ROWS_BYTES + bytes);
    self->floats = (float *)malloc(bytes + 1);
    if (self->rows == NULL || self->floats == NULL)
        return false;
    memset(self->rows, 1, ROWS_BYTES + bytes);
    return true;
}

/* Seconds of audio per second, and processor seconds per second of audio. */
typedef struct rate {
    double speed, cost;
} rate;

static int run_features(const request *r, const audio *a, rate *ret_rate)
{
    computer computers[256] = {{0}};
    spsh_error err = SPSH_ERROR_INIT;
    computing c = {.r = r, .a = a};
    uint64_t started = 0;
    bool is_good = true;
    if (spsh_featgen_open(&r->features, NULL, &c.featgen, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    c.values_max = values_max(a, c.featgen);
    for (uint64_t n = 0; n < r->threads; n++)
        is_good = open_computer(&computers[n], &c) && is_good;
    const spsh__bench_clock begin = spsh__bench_now();
    c.end_wall = begin.wall + r->seconds;
    while (is_good && started < r->threads &&
           pthread_create(&computers[started].thread, NULL, compute, &computers[started]) == 0)
        started++;
    for (uint64_t n = 0; n < started; n++)
        (void)pthread_join(computers[n].thread, NULL);
    const spsh__bench_clock end = spsh__bench_now();
    const double audio_seconds =
        (double)atomic_load(&c.samples) / (double)r->features.sample_rate_hz;
    *ret_rate =
        (rate){audio_seconds / (end.wall - begin.wall), (end.cpu - begin.cpu) / audio_seconds};
    for (uint64_t n = 0; n < r->threads; n++) {
        free(computers[n].rows);
        free(computers[n].floats);
    }
    spsh_featgen_close(c.featgen);
    return started == r->threads && !atomic_load(&c.failed) ? SPSH_EXIT_DONE
                                                            : spsh__cli_fail_memory();
}

/* ---- the others ---- */

static int run_decode(const request *r, rate *ret_rate)
{
    spsh__bench_decoded decoded;
    spsh__plan_words words = r->words;
    words.sample_rate_hz = r->features.sample_rate_hz;
    int rc = spsh__bench_decode(&r->sample, &words, (uint32_t)r->threads, r->seconds, &decoded);
    const double audio_seconds = (double)decoded.microseconds / 1e6;
    *ret_rate = (rate){audio_seconds / decoded.seconds, decoded.cpu_seconds / audio_seconds};
    return rc;
}

static int run_loader(const request *r, rate *ret_rate)
{
    spsh__bench_loaded loaded;
    spsh_loader_options opt = loader_options(r);
    opt.output = SPSH_OUTPUT_FEATURES;
    opt.features = &r->features;
    opt.feature_dtype = (spsh_feature_dtype)r->dtype;
    opt.augment = r->has_augment ? &r->augment : NULL;
    int rc = spsh__bench_load(&r->datasets, &opt, r->seconds, &loaded);
    const double audio_seconds = (double)loaded.stats.microseconds / 1e6;
    *ret_rate = (rate){audio_seconds / loaded.seconds, loaded.cpu_seconds / audio_seconds};
    return rc;
}

/* ---- figures ---- */

enum { DECODE, FEATURES, LOADER, PARTS };

typedef struct round_result {
    rate parts[PARTS];
} round_result;

enum { FIGURES = 9 };
static const char *const names[FIGURES] = {"decode_real_time_factor",
                                           "features_real_time_factor",
                                           "loader_real_time_factor",
                                           "loader_of_slower",
                                           "loader_of_both",
                                           "cpu_loader_of_slower",
                                           "cpu_loader_of_both",
                                           "decode_cpu_seconds_per_audio_hour",
                                           "features_cpu_seconds_per_audio_hour"};

static double figure(const round_result *result, int which)
{
    const rate *d = &result->parts[DECODE];
    const rate *f = &result->parts[FEATURES];
    const rate *l = &result->parts[LOADER];
    switch (which) {
    case 0: return d->speed;
    case 1: return f->speed;
    case 2: return l->speed;
    case 3: return l->speed / (d->speed < f->speed ? d->speed : f->speed);
    case 4: return l->speed * (1 / d->speed + 1 / f->speed);
    case 5: return (d->cost > f->cost ? d->cost : f->cost) / l->cost;
    case 6: return (d->cost + f->cost) / l->cost;
    case 7: return d->cost * 3600;
    default: return f->cost * 3600;
    }
}

static int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* [median, minimum, maximum], with four digits each */
static void print_figures(const request *r, const round_result *results)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    const size_t count = (size_t)r->rounds;
    (void)spsh_feature_options_text(&r->features, text, sizeof(text));
    printf("{\n  \"features\": \"%s\",\n  \"dtype\": \"%s\",\n", text,
           r->dtype == SPSH_FLOAT16 ? "float16" : "float32");
    printf("  \"threads\": %u,\n  \"rounds\": %u,\n  \"seconds_per_part\": %g",
           (unsigned)r->threads, (unsigned)count, r->seconds);
    for (int which = 0; which < FIGURES; which++) {
        double values[ROUNDS_MAX];
        for (size_t n = 0; n < count; n++)
            values[n] = figure(&results[n], which);
        qsort(values, count, sizeof(*values), compare_reals);
        printf(",\n  \"%s\": [%.4g, %.4g, %.4g]", names[which],
               (values[(count - 1) / 2] + values[count / 2]) / 2, values[0], values[count - 1]);
    }
    printf("\n}\n");
}

/* ---- the program ---- */

static int run_rounds(const request *r, const audio *a)
{
    static round_result results[ROUNDS_MAX];
    int rc = SPSH_EXIT_DONE;
    for (uint64_t round = 0; round < r->rounds; round++)
        for (uint64_t turn = 0; turn < PARTS && rc == SPSH_EXIT_DONE; turn++) {
            const uint64_t part = (turn + round) % PARTS;
            rate *place = &results[round].parts[part];
            if (part == DECODE)
                rc = run_decode(r, place);
            else if (part == FEATURES)
                rc = run_features(r, a, place);
            else
                rc = run_loader(r, place);
        }
    if (rc == SPSH_EXIT_DONE)
        print_figures(r, results);
    return rc;
}

static int run(request *r)
{
    static audio a;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan *plan = NULL;
    if (spsh_plan_open((const spsh_dataset *const *)r->datasets.items, r->datasets.count,
                       &r->plan.plan, &plan, &err) != SPSH_OK)
        return spsh__plan_fail("bench_loader_features", &err);
    int rc = spsh__bench_sample_take(plan, &r->datasets, 1, &r->sample);
    spsh_plan_close(plan);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__bench_sample_load(&r->sample, SPSH_READ_CACHED);
    if (rc == SPSH_EXIT_DONE)
        rc = take_audio(r, &a);
    if (rc == SPSH_EXIT_DONE)
        rc = run_rounds(r, &a);
    free(a.pcm);
    return rc;
}

static int read_texts(request *r, const char *features, const char *dtype, const char *augment)
{
    spsh_error err = SPSH_ERROR_INIT;
    r->dtype = strcmp(dtype, "float16") == 0 ? SPSH_FLOAT16 : SPSH_FLOAT32;
    r->has_augment = augment != NULL;
    if (spsh_feature_options_parse(features, &r->features, &err) != SPSH_OK ||
        (augment != NULL && spsh_augment_options_parse(augment, &r->augment, &err) != SPSH_OK))
        return spsh__cli_fail(NULL, &err);
    return SPSH_EXIT_DONE;
}

int main(int argc, char **argv)
{
    request r = {.words = SPSH__PLAN_WORDS_INIT,
                 .features = SPSH_FEATURE_OPTIONS_INIT,
                 .augment = SPSH_AUGMENT_OPTIONS_INIT,
                 .rounds = 5,
                 .seconds = 3,
                 .threads = 2};
    const char *features = "kaldi-fbank", *dtype = "float32", *augment = NULL;
    spsh_cli_option options[SPSH__PLAN_OPTION_COUNT + 7];
    const spsh_cli_option own[] = {
        {"rounds",   'n', SPSH_CLI_COUNT, "N",    "of each in turn; 5",        &r.rounds,  1, ROUNDS_MAX},
        {"seconds",  0,   SPSH_CLI_REAL,  "S",    "of one part of a round; 3", &r.seconds, 0, 0         },
        {"threads",  'j', SPSH_CLI_COUNT, "N",    "of each part; 2",           &r.threads, 1, 256       },
        {"features", 0,   SPSH_CLI_TEXT,  "TEXT", "kaldi-fbank",               &features,  0, 0         },
        {"dtype",    0,   SPSH_CLI_TEXT,  "TYPE", "float32 or float16",        &dtype,     0, 0         },
        {"augment",  0,   SPSH_CLI_TEXT,  "TEXT", "in the loader alone",       &augment,   0, 0         },
        SPSH_CLI_OPTIONS_END,
    };
    spsh__plan_options_list(&r.words, options);
    memcpy(&options[SPSH__PLAN_OPTION_COUNT], own, sizeof(own));
    const spsh_cli_command command = {"bench_loader_features",
                                      "DATASET...",
                                      "DATASET... [options]\n",
                                      "measure the loader with features",
                                      NULL,
                                      "bench_loader_features corpus.spsh\n",
                                      options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    rc = read_texts(&r, features, dtype, augment);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__plan_request_make("bench_loader_features", &r.words, &r.plan);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__datasets_open("bench_loader_features", &args, &r.datasets);
    if (rc == SPSH_EXIT_DONE)
        rc = run(&r);
    spsh__bench_sample_free(&r.sample);
    spsh__datasets_close(&r.datasets);
    spsh__plan_request_free(&r.plan);
    return spsh__cli_finish(rc);
}
