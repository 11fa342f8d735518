/* run_history.c: see run_history.h. */
#include "run_history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { FILE_BYTES_MAX = 1 << 30, STEPS_AT_FIRST = 1024 };

static const char *const column_names[SPSH__RUN_COLUMNS] = {
    [SPSH__RUN_SAMPLES] = "samples",
    [SPSH__RUN_STEP] = "step",
    [SPSH__RUN_EPOCH] = "epoch",
    [SPSH__RUN_TIME] = "time",
    [SPSH__RUN_LOSS] = "loss",
    [SPSH__RUN_NORM] = "gradient_norm",
    [SPSH__RUN_RATE] = "rate",
    [SPSH__RUN_STEP_S] = "step_s",
    [SPSH__RUN_WAIT_S] = "wait_s",
    [SPSH__RUN_EXCHANGE_S] = "exchange_s",
    [SPSH__RUN_AUDIO_S] = "audio_s",
    [SPSH__RUN_AUDIO_TOTAL_S] = "audio_total_s",
    [SPSH__RUN_PADDING] = "padding",
    [SPSH__RUN_UTTERANCES] = "utterances",
    [SPSH__RUN_INFEASIBLE] = "infeasible",
    [SPSH__RUN_WITHOUT_TEXT] = "without_text",
    [SPSH__RUN_WITHOUT_FRAMES] = "without_frames",
    [SPSH__RUN_SKIPPED_STEPS] = "skipped_steps",
};

static spsh_status fail_memory(spsh_error *err)
{
    spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
    return SPSH_E_NO_MEMORY;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* A copy; empty where there is none; NULL: no memory. */
static char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return strdup(text == NULL ? "" : text);
}

/* ---- the three kinds ---- */

static bool grow_steps(spsh__run_history *h)
{
    const size_t capacity = h->step_capacity == 0 ? STEPS_AT_FIRST : 2 * h->step_capacity;
    if (h->step_count < h->step_capacity)
        return true;
    for (int c = 0; c < SPSH__RUN_COLUMNS; c++) {
        double *column = (double *)realloc(h->columns[c], capacity * sizeof(*column));
        if (column == NULL)
            return false;
        h->columns[c] = column;
    }
    h->step_capacity = capacity;
    return true;
}

static spsh__run_domain *find_domain(spsh__run_history *h, const char *name)
{
    for (size_t i = 0; i < h->domain_count; i++) {
        if (strcmp(h->domains[i].name, name) == 0)
            return &h->domains[i];
    }
    if (h->domain_count == SPSH__RUN_DOMAINS_MAX)
        return NULL;
    spsh__run_domain *d = &h->domains[h->domain_count];
    d->name = strdup(name);
    if (d->name == NULL)
        return NULL;
    h->domain_count++;
    return d;
}

/* recent_loss: a mean that forgets, half of it in about as many steps as a tenth of those so far.
 */
static void add_domains(spsh__run_history *h, const json_t *line)
{
    const char *name = NULL;
    json_t *domain = NULL;
    const double keep = pow(0.5, 10.0 / (double)(h->step_count + 1));
    json_object_foreach(json_object_get(line, "domains"), name, domain)
    {
        spsh__run_domain *d = find_domain(h, name);
        const double loss = number_of(domain, "loss");
        const double utterances = number_of(domain, "utterances");
        if (d == NULL || !isfinite(loss) || !(utterances > 0))
            continue;
        d->utterances += utterances;
        d->recent_utterances = d->recent_utterances * keep + utterances;
        d->recent_loss += (loss - d->recent_loss) * utterances / d->recent_utterances;
    }
}

static bool add_step(spsh__run_history *h, const json_t *line)
{
    if (!grow_steps(h))
        return false;
    for (int c = 0; c < SPSH__RUN_COLUMNS; c++)
        h->columns[c][h->step_count] = number_of(line, column_names[c]);
    h->step_count++;
    add_domains(h, line);
    return true;
}

static bool add_examples(spsh__run_evaluation *e, const json_t *examples)
{
    const size_t count = json_array_size(examples);
    e->examples = (spsh__run_example *)calloc(count + 1, sizeof(*e->examples));
    if (e->examples == NULL)
        return false;
    for (; e->example_count < count; e->example_count++) {
        const json_t *example = json_array_get(examples, e->example_count);
        spsh__run_example *to = &e->examples[e->example_count];
        *to = (spsh__run_example){text_of(example, "id"), text_of(example, "reference"),
                                  text_of(example, "found")};
        if (to->id == NULL || to->reference == NULL || to->found == NULL) {
            e->example_count++;
            return false;
        }
    }
    return true;
}

static bool add_evaluation(spsh__run_history *h, const json_t *line)
{
    spsh__run_evaluation *all =
        (spsh__run_evaluation *)realloc(h->evaluations, (h->evaluation_count + 1) * sizeof(*all));
    if (all == NULL)
        return false;
    h->evaluations = all;
    spsh__run_evaluation *e = &all[h->evaluation_count++];
    *e = (spsh__run_evaluation){
        .samples = number_of(line, "samples"),
        .step = number_of(line, "step"),
        .loss = number_of(line, "loss"),
        .wer = number_of(line, "wer"),
        .cer = number_of(line, "cer"),
        .cer_letters = number_of(line, "cer_letters"),
        .seconds = number_of(line, "seconds"),
        .utterances = number_of(line, "utterances"),
        .words = number_of(line, "words"),
        .set = text_of(line, "set"),
    };
    return e->set != NULL && add_examples(e, json_object_get(line, "examples"));
}

static bool add_start(spsh__run_history *h, const json_t *line)
{
    spsh__run_start *all =
        (spsh__run_start *)realloc(h->starts, (h->start_count + 1) * sizeof(*all));
    if (all == NULL)
        return false;
    h->starts = all;
    spsh__run_start *s = &all[h->start_count++];
    *s = (spsh__run_start){
        .samples = number_of(line, "samples"),
        .time = number_of(line, "time"),
        .world_size = number_of(line, "world_size"),
        .threads = number_of(line, "threads"),
        .weights = number_of(line, "weights"),
        .backend = text_of(line, "backend"),
        .strategy = text_of(line, "strategy"),
        .launcher = text_of(line, "launcher"),
    };
    return s->backend != NULL && s->strategy != NULL && s->launcher != NULL;
}

/* ---- lines ---- */

static spsh_status add_line(spsh__run_history *h, const char *text, size_t size_bytes,
                            const char *where, spsh_error *err)
{
    json_error_t problem;
    json_t *line = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (line == NULL) {
        spsh_error_set(err, SPSH_E_SYNTAX, 0, SPSH_OFFSET_NONE, "%s: %s", where, problem.text);
        return SPSH_E_SYNTAX;
    }
    const char *kind = json_string_value(json_object_get(line, "kind"));
    bool is_kept = true; /* kinds of later versions are passed over */
    if (kind != NULL && strcmp(kind, "step") == 0)
        is_kept = add_step(h, line);
    else if (kind != NULL && strcmp(kind, "evaluation") == 0)
        is_kept = add_evaluation(h, line);
    else if (kind != NULL && strcmp(kind, "start") == 0)
        is_kept = add_start(h, line);
    json_decref(line);
    return is_kept ? SPSH_OK : fail_memory(err);
}

static spsh_status add_lines(spsh__run_history *h, const char *text, size_t size_bytes,
                             const char *path, spsh_error *err)
{
    uint64_t number = 1;
    spsh_status rc = SPSH_OK;
    for (size_t at = 0; at < size_bytes && rc == SPSH_OK; number++) {
        const char *end = (const char *)memchr(text + at, '\n', size_bytes - at);
        char where[512];
        if (end == NULL)
            break;
        (void)snprintf(where, sizeof(where), "%s: line %" PRIu64, path, number);
        rc = add_line(h, text + at, (size_t)(end - text) - at, where, err);
        at = (size_t)(end - text) + 1;
    }
    return rc;
}

spsh_status spsh__run_history_read(const char *run, const spsh_io *io, spsh__run_history *ret,
                                   spsh_error *err)
{
    spsh__run_history h = {.step_count = 0};
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    const size_t capacity = strlen(run) + sizeof("/metrics.jsonl");
    char *path = (char *)malloc(capacity);
    if (path == NULL)
        return fail_memory(err);
    (void)snprintf(path, capacity, "%s/metrics.jsonl", run);
    spsh_status rc = spsh_io_read_file(io, path, FILE_BYTES_MAX, spsh_allocator_default(), &data,
                                       &size_bytes, err);
    if (rc == SPSH_OK)
        rc = add_lines(&h, (const char *)data, size_bytes, path, err);
    spsh_allocator_default()->free_fn(spsh_allocator_default()->user, data);
    free(path);
    if (rc == SPSH_OK)
        *ret = h;
    else
        spsh__run_history_free(&h);
    return rc;
}

void spsh__run_history_free(spsh__run_history *h)
{
    for (int c = 0; c < SPSH__RUN_COLUMNS; c++)
        free(h->columns[c]);
    for (size_t i = 0; i < h->evaluation_count; i++) {
        spsh__run_evaluation *e = &h->evaluations[i];
        for (size_t x = 0; x < e->example_count; x++) {
            free(e->examples[x].id);
            free(e->examples[x].reference);
            free(e->examples[x].found);
        }
        free(e->examples);
        free(e->set);
    }
    for (size_t i = 0; i < h->start_count; i++) {
        free(h->starts[i].backend);
        free(h->starts[i].strategy);
        free(h->starts[i].launcher);
    }
    for (size_t i = 0; i < h->domain_count; i++)
        free(h->domains[i].name);
    free(h->evaluations);
    free(h->starts);
    *h = (spsh__run_history){.step_count = 0};
}
