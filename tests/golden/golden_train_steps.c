/* golden_train_steps.c: small DeepSpeech2 models train like PyTorch's models.
 *
 *     test_train_steps reference | cpu
 *
 * tests/golden/train/ has models, batches, the losses of ten steps, and the gradients of the first;
 * tests/golden/train_reference.py makes them and documents the lines of steps.txt. Both sides draw
 * the same initial weights. The largest differences are printed.
 */
#include <math.h>

#include "doubles.h"
#include "model/model.h"
#include "spsh_test.h"
#include "test_number.h"

enum { BATCH_MAX = 8, LABELS_MAX = 64, LINE_BYTES = 512, NAME_BYTES = 64, STEPS = 10 };

/* Tolerances of a backend: for the losses of the first steps, for all losses, and for gradients
 * relative to the largest of their slice. */
typedef struct tolerance {
    const char *backend;
    double loss, later_loss, gradient;
} tolerance;

static const tolerance tolerances[] = {
    {"reference", 1e-12, 1e-10, 1e-6}, /* gradients are stored as floats */
    {"cpu",       1e-5,  1e-4,  1e-4},
};

typedef struct fixture {
    const tolerance *allowed;
    spsh__backend *backend;
    FILE *lines, *values;
    char name[NAME_BYTES];
    spsh__model *model;
    spsh__model_shape shape;
    uint64_t seed;
    bool is_adamw;
    spsh__sgd sgd;
    spsh__adamw adamw;
    spsh__backend_buffer moments[2];
    uint32_t batch, frames;
    float *features;
    uint32_t lengths[BATCH_MAX], label_offsets[BATCH_MAX + 1], labels[LABELS_MAX];
    uint32_t utterances, step;
    double loss;                   /* loss of the current forward pass */
    double loss_off, gradient_off; /* largest of the case */
} fixture;

static float *next_values(fixture *f, size_t count)
{
    float *values = (float *)calloc(count, sizeof(*values));
    REQUIRE(values != NULL && fread(values, sizeof(*values), count, f->values) == count);
    return values;
}

/* The next word of a line; empty after the last one. */
static char *next_word(char **text)
{
    char *word = *text + strspn(*text, " ");
    *text = word + strcspn(word, " ");
    if (**text != '\0')
        *(*text)++ = '\0';
    return word;
}

/* Numbers of a line. */
static uint32_t numbers(const char *text, double *ret, uint32_t most)
{
    uint32_t count = 0;
    for (const char *at = text; count < most; count++) {
        at += strspn(at, " \n");
        ret[count] = test_number(at, &at);
        if (isnan(ret[count]))
            break;
    }
    return count;
}

static void read_shape(fixture *f, char *text)
{
    double front[3] = {0}, v[6] = {0};
    char *words[4];
    for (int i = 0; i < 4; i++)
        words[i] = next_word(&text);
    for (int i = 0; i < 3; i++)
        REQUIRE(numbers(words[i], &front[i], 1) == 1);
    REQUIRE(numbers(text, v, 6) == 6);
    f->shape =
        (spsh__model_shape){.kind = SPSH__MODEL_DS2,
                            .inputs = (uint32_t)front[0],
                            .conv_channels = (uint32_t)front[1],
                            .layers = (uint32_t)front[2],
                            .cell = strcmp(words[3], "gru") == 0 ? SPSH__CELL_GRU : SPSH__CELL_LSTM,
                            .hidden = (uint32_t)v[0],
                            .is_bidirectional = v[1] > 0,
                            .lookahead = (uint32_t)v[2],
                            .outputs = (uint32_t)v[3],
                            .counts_padding = v[4] > 0};
    f->seed = (uint64_t)v[5];
}

static void read_optimiser(fixture *f, char *text)
{
    double v[5] = {0};
    char *rest = strchr(text, ' ');
    f->is_adamw = strncmp(text, "adamw ", 6) == 0;
    REQUIRE(rest != NULL);
    REQUIRE(numbers(rest, v, 5) == (f->is_adamw ? 5 : 4));
    if (f->is_adamw)
        f->adamw = (spsh__adamw){v[0], v[1], v[2], v[3], v[4], 0};
    else
        f->sgd = (spsh__sgd){
            .rate = v[0], .momentum = v[1], .is_nesterov = v[2] > 0, .weight_decay = v[3]};
}

static void open_model(fixture *f, char *text)
{
    double v[2] = {0};
    REQUIRE(numbers(text, v, 2) == 2);
    f->batch = (uint32_t)v[0];
    f->frames = (uint32_t)v[1];
    REQUIRE(f->batch <= BATCH_MAX);
    f->features = next_values(f, (size_t)f->batch * f->frames * f->shape.inputs);
    f->utterances = 0;
    f->label_offsets[0] = 0;
    f->step = 0;
    f->loss_off = f->gradient_off = 0;
    spsh__model_limits limits = {f->batch, f->frames, (uint64_t)f->batch * f->frames};
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__model_open(f->backend, &f->shape, &limits, &f->model, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(f->model != NULL);
    spsh__model_init(f->model, f->seed);
    for (int i = 0; i < 2; i++)
        REQUIRE(f->backend->ops->alloc_fn(f->backend, spsh__model_arena_elements(f->model),
                                          &f->moments[i], NULL) == SPSH_OK);
}

static void close_model(fixture *f)
{
    if (f->model == NULL)
        return;
    printf("%s %s: losses %.1e, gradients %.1e\n", f->allowed->backend, f->name, f->loss_off,
           f->gradient_off);
    for (int i = 0; i < 2; i++)
        f->backend->ops->free_fn(f->backend, f->moments[i]);
    spsh__model_close(f->model);
    free(f->features);
    f->model = NULL;
    f->features = NULL;
}

static void read_utterance(fixture *f, char *text)
{
    double v[1 + LABELS_MAX] = {0};
    uint32_t count = numbers(text, v, 1 + LABELS_MAX);
    REQUIRE(count >= 1 && f->utterances < f->batch);
    uint32_t begin = f->label_offsets[f->utterances];
    f->lengths[f->utterances++] = (uint32_t)v[0];
    REQUIRE(begin + count - 1 <= LABELS_MAX);
    for (uint32_t i = 1; i < count; i++)
        f->labels[begin + i - 1] = (uint32_t)v[i];
    f->label_offsets[f->utterances] = begin + count - 1;
}

/* Compute the loss and, if is_training, its gradients. */
static void run_batch(fixture *f, bool is_training)
{
    const spsh__backend_ops *ops = f->backend->ops;
    spsh__ctc_result results[BATCH_MAX];
    uint32_t out_lengths[BATCH_MAX];
    spsh__label_batch labels = {f->labels, f->label_offsets};
    spsh__ctc_io io = {.results = results, .dlogits = spsh__model_logit_gradients(f->model)};

    REQUIRE(f->utterances == f->batch);
    spsh__model_batch batch = {
        .features = f->features, .lengths = f->lengths, .batch = f->batch, .frames = f->frames};
    REQUIRE(spsh__model_forward(f->model, &batch, is_training, &io.logits, out_lengths, NULL) ==
            SPSH_OK);
    spsh__ctc_shape shape = {.frames = spsh__model_out_frames(f->model, f->frames),
                             .batch = f->batch,
                             .symbols = f->shape.outputs,
                             .scale = 1.0 / f->batch};
    ops->ctc_fn(f->backend, &shape, out_lengths, &labels, &io);
    f->loss = 0;
    for (uint32_t n = 0; n < f->batch; n++)
        f->loss += results[n].is_infeasible ? 0 : results[n].loss / f->batch;
    if (is_training) {
        ops->zero_fn(f->backend, spsh__model_gradients(f->model),
                     spsh__model_arena_elements(f->model));
        spsh__model_backward(f->model, io.dlogits, NULL, NULL);
    }
    CHECK(ops->status_fn(f->backend, NULL) == SPSH_OK);
}

static const spsh__parameter *find_slice(const fixture *f, const char *name)
{
    for (uint32_t i = 0; i < spsh__model_parameter_count(f->model); i++) {
        const spsh__parameter *p = spsh__model_parameter(f->model, i);
        if (strcmp(p->name, name) == 0)
            return p;
    }
    test_stop(__FILE__, __LINE__, name);
}

static void fill(fixture *f, char *text)
{
    const spsh__parameter *p = find_slice(f, next_word(&text));
    double value = 0;
    REQUIRE(numbers(text, &value, 1) == 1);
    for (uint64_t i = 0; i < p->count; i++)
        put_doubles(f->backend,
                    spsh__at(f->backend->ops, spsh__model_weights(f->model), p->offset + i), &value,
                    1);
}

static void check_gradient(fixture *f, char *text)
{
    const char *name = next_word(&text);
    const spsh__parameter *p = find_slice(f, name);
    double values = 0;
    REQUIRE(numbers(text, &values, 1) == 1);
    size_t count = (size_t)values;
    REQUIRE(p->count == count);
    float *want = next_values(f, count);
    double *got = (double *)calloc(count, sizeof(*got));
    REQUIRE(got != NULL);
    take_doubles(f->backend, got,
                 spsh__at(f->backend->ops, spsh__model_gradients(f->model), p->offset), count);

    double largest = 1e-2, off = 0; /* a bias before a norm has no gradient except rounding */
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)want[i]));
        off = fmax(off, fabs(got[i] - (double)want[i]));
    }
    if (!(off / largest <= f->allowed->gradient))
        fprintf(stderr, "%s %s: off by %g of %g\n", f->name, name, off, largest);
    CHECK(off / largest <= f->allowed->gradient);
    f->gradient_off = fmax(f->gradient_off, off / largest);
    free(want);
    free(got);
}

static void update(fixture *f)
{
    for (uint32_t i = 0; i < spsh__model_parameter_count(f->model); i++) {
        const spsh__parameter *p = spsh__model_parameter(f->model, i);
        const spsh__backend_ops *ops = f->backend->ops;
        spsh__update u = {
            .weights = spsh__at(ops, spsh__model_weights(f->model), p->offset),
            .gradients = spsh__at(ops, spsh__model_gradients(f->model), p->offset),
            .moments = {spsh__at(ops, f->moments[0], p->offset),
                        spsh__at(ops, f->moments[1], p->offset)},
            .count = p->count,
            .decays = p->decays,
            .gradient_scale = 1
        };
        f->adamw.step = f->step + 1;
        if (f->is_adamw)
            ops->adamw_fn(f->backend, &f->adamw, &u);
        else
            ops->sgd_fn(f->backend, &f->sgd, &u);
    }
    f->step++;
}

static void check_loss(fixture *f, char *text)
{
    double want = 0;
    REQUIRE(numbers(text, &want, 1) == 1);
    double allowed = f->step < 2 ? f->allowed->loss : f->allowed->later_loss;
    double off = fabs(f->loss - want) / fabs(want);
    if (!(off <= allowed))
        fprintf(stderr, "%s step %u: loss %.12g, want %.12g\n", f->name, f->step, f->loss, want);
    CHECK(off <= allowed);
    f->loss_off = fmax(f->loss_off, off);
}

static void take_line(fixture *f, char *line)
{
    char *rest = strchr(line, ' ');
    if (line[0] == '#')
        return;
    REQUIRE(rest != NULL);
    *rest++ = '\0';
    if (strcmp(line, "case") == 0) {
        close_model(f);
        (void)snprintf(f->name, sizeof(f->name), "%.63s", rest);
    } else if (strcmp(line, "shape") == 0) {
        read_shape(f, rest);
    } else if (strcmp(line, "optimiser") == 0) {
        read_optimiser(f, rest);
    } else if (strcmp(line, "batch") == 0) {
        open_model(f, rest);
    } else if (strcmp(line, "fill") == 0) {
        fill(f, rest);
    } else if (strcmp(line, "utterance") == 0) {
        read_utterance(f, rest);
        if (f->utterances == f->batch)
            run_batch(f, true);
    } else if (strcmp(line, "gradient") == 0) {
        check_gradient(f, rest);
    } else if (strcmp(line, "loss") == 0) {
        check_loss(f, rest);
        update(f);
        run_batch(f, f->step < STEPS);
    } else {
        REQUIRE(strcmp(line, "evaluation") == 0);
        CHECK_U64(f->step, STEPS);
        check_loss(f, rest);
    }
}

static FILE *open_file(const char *relative)
{
    char path[1024];
    test_source_path(path, sizeof(path), relative);
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    return file;
}

static const char *backend_name;

static void test_steps(void)
{
    fixture f = {.allowed = NULL};
    char line[LINE_BYTES];
    for (size_t i = 0; i < sizeof(tolerances) / sizeof(tolerances[0]); i++) {
        if (strcmp(tolerances[i].backend, backend_name) == 0)
            f.allowed = &tolerances[i];
    }
    REQUIRE(f.allowed != NULL);
    REQUIRE(spsh__backend_open(backend_name, 2, spsh_allocator_default(), &f.backend, NULL) ==
            SPSH_OK);
    f.lines = open_file("tests/golden/train/steps.txt");
    f.values = open_file("tests/golden/train/values.f32");
    while (fgets(line, sizeof(line), f.lines) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        take_line(&f, line);
    }
    CHECK_STR(f.name, "lstm-compat");
    close_model(&f);
    CHECK(fgetc(f.values) == EOF);
    REQUIRE(fclose(f.lines) == 0 && fclose(f.values) == 0);
    spsh__backend_close(f.backend);
}

TEST_MAIN(golden_train_steps)
{
    REQUIRE(argc == 2);
    backend_name = argv[1];
    RUN(test_steps);
    return TEST_RESULT();
}
