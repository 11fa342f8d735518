/* run_history.c: see run_history.h. */
#include "run_history.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/json_out.h"
#include "common/row_reader.h"
#include "speechshard/inside.h"

static const char *const column_names[SPSH__RUN_COLUMNS] = {
    [SPSH__RUN_LOSS] = "loss",
    [SPSH__RUN_NORM] = "gradient_norm",
    [SPSH__RUN_RATE] = "rate",
    [SPSH__RUN_STEP_S] = "step_s",
    [SPSH__RUN_WAIT_S] = "wait_s",
    [SPSH__RUN_EXCHANGE_S] = "exchange_s",
    [SPSH__RUN_SAVE_S] = "save_s",
    [SPSH__RUN_AUDIO_S] = "audio_s",
    [SPSH__RUN_PADDING] = "padding",
    [SPSH__RUN_UTTERANCES] = "utterances",
    [SPSH__RUN_INFEASIBLE] = "infeasible",
    [SPSH__RUN_WITHOUT_TEXT] = "without_text",
    [SPSH__RUN_WITHOUT_FRAMES] = "without_frames",
    [SPSH__RUN_WITHOUT_ALIGNMENT] = "without_alignment",
    [SPSH__RUN_OTHER_LENGTH] = "other_length",
    [SPSH__RUN_FRAME_ERROR] = "frame_error",
};

static double number_of(const spsh__json_node *object, const char *key)
{
    return spsh__json_node_number(spsh__json_node_member(object, key));
}

/* Return a copy of the string; empty if absent; NULL: no memory. */
static char *text_of(const spsh__json_node *object, const char *key)
{
    const char *text = spsh__json_node_string(spsh__json_node_member(object, key));
    return strdup(text == NULL ? "" : text);
}

/* ---- steps ---- */

/* Find or add a domain. NULL: no memory (*failed is set), or too many domains: further domains have
 * no curve. */
static spsh__run_domain *find_domain(spsh__run_history *h, const char *name, bool *failed)
{
    for (size_t i = 0; i < h->domain_count; i++) {
        if (strcmp(h->domains[i].name, name) == 0)
            return &h->domains[i];
    }
    if (h->domain_count == SPSH__RUN_DOMAINS_MAX)
        return NULL;
    spsh__run_domain *d = &h->domains[h->domain_count];
    char *copy = strdup(name);
    if (copy == NULL || !spsh__series_open(&d->series, 1)) {
        free(copy);
        *failed = true;
        return NULL;
    }
    d->name = copy;
    h->domain_count++;
    return d;
}

static bool add_domains(spsh__run_history *h, double samples, const spsh__json_node *line)
{
    const char *name = NULL;
    spsh__json_node *domain = NULL;
    bool failed = false;
    void *at = NULL;
    while (!failed &&
           spsh__json_node_next(spsh__json_node_member(line, "domains"), &at, &name, &domain)) {
        const double loss = number_of(domain, "loss");
        const double utterances = number_of(domain, "utterances");
        if (!isfinite(loss) || !(utterances > 0))
            continue;
        spsh__run_domain *d = find_domain(h, name, &failed);
        if (d != NULL)
            spsh__series_add(&d->series, samples, &loss, utterances);
    }
    return !failed;
}

static bool add_step(spsh__run_history *h, const spsh__json_node *line)
{
    const spsh__run_place place = {number_of(line, "samples"), number_of(line, "step"),
                                   number_of(line, "epoch"), number_of(line, "time"),
                                   number_of(line, "skipped_steps")};
    if (!isfinite(place.samples))
        return true;
    for (int c = 0; c < SPSH__RUN_COLUMNS; c++)
        h->last[c] = number_of(line, column_names[c]);
    h->last_step = place;
    spsh__series_add(&h->steps, place.samples, h->last, 1);
    return add_domains(h, place.samples, line);
}

/* ---- evaluations ---- */

static void free_examples(spsh__run_set *set)
{
    for (size_t i = 0; i < set->example_count; i++) {
        free(set->examples[i].id);
        free(set->examples[i].reference);
        free(set->examples[i].found);
    }
    free(set->examples);
    set->examples = NULL;
    set->example_count = 0;
}

static bool take_examples(spsh__run_set *set, const spsh__json_node *examples)
{
    const size_t count = spsh__json_node_count(examples);
    free_examples(set);
    set->examples = (spsh__run_example *)calloc(count + 1, sizeof(*set->examples));
    if (set->examples == NULL)
        return false;
    while (set->example_count < count) {
        const spsh__json_node *example = spsh__json_node_at(examples, set->example_count);
        spsh__run_example *to = &set->examples[set->example_count++];
        *to = (spsh__run_example){text_of(example, "id"), text_of(example, "reference"),
                                  text_of(example, "found")};
        if (to->id == NULL || to->reference == NULL || to->found == NULL)
            return false;
    }
    return true;
}

static spsh__run_set *find_set(spsh__run_history *h, const char *name, bool *failed)
{
    for (size_t i = 0; i < h->set_count; i++) {
        if (strcmp(h->sets[i].name, name) == 0)
            return &h->sets[i];
    }
    if (h->set_count == SPSH__RUN_SETS_MAX)
        return NULL;
    spsh__run_set *set = &h->sets[h->set_count];
    set->name = strdup(name);
    if (set->name == NULL || !spsh__series_open(&set->series, SPSH__SET_COLUMNS)) {
        free(set->name);
        *failed = true;
        return NULL;
    }
    h->set_count++;
    return set;
}

static bool keep_evaluation(spsh__run_history *h, const spsh__run_evaluation *e)
{
    if (!SPSH_GROW(h->evaluations, h->evaluation_capacity, h->evaluation_count + 1))
        return false;
    h->evaluations[h->evaluation_count++] = *e;
    return true;
}

static bool add_evaluation(spsh__run_history *h, const spsh__json_node *line)
{
    bool failed = false;
    const char *name = spsh__json_node_string(spsh__json_node_member(line, "set"));
    spsh__run_set *set = find_set(h, name == NULL ? "" : name, &failed);
    if (set == NULL)
        return !failed;
    const spsh__run_evaluation e = {
        .samples = number_of(line, "samples"),
        .step = number_of(line, "step"),
        .time = number_of(line, "time"),
        .loss = number_of(line, "loss"),
        .wer = number_of(line, "wer"),
        .cer = number_of(line, "cer"),
        .cer_letters = number_of(line, "cer_letters"),
        .frame_error = number_of(line, "frame_error"),
        .seconds = number_of(line, "seconds"),
        .utterances = number_of(line, "utterances"),
        .set = (size_t)(set - h->sets),
    };
    const double values[SPSH__SET_COLUMNS] = {e.loss, e.wer, e.cer, e.frame_error};
    if (!isfinite(e.samples))
        return true;
    spsh__series_add(&set->series, e.samples, values, 1);
    return keep_evaluation(h, &e) && take_examples(set, spsh__json_node_member(line, "examples"));
}

/* ---- starts ---- */

static void forget_beyond(spsh__run_history *h, double samples)
{
    spsh__series_cut(&h->steps, samples);
    for (size_t i = 0; i < h->domain_count; i++)
        spsh__series_cut(&h->domains[i].series, samples);
    for (size_t i = 0; i < h->set_count; i++)
        spsh__series_cut(&h->sets[i].series, samples);
    while (h->evaluation_count > 0 && h->evaluations[h->evaluation_count - 1].samples > samples)
        h->evaluation_count--;
}

static bool add_start(spsh__run_history *h, const spsh__json_node *line)
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
        .before_time = number_of(line, "before_time"),
        .lost_samples = number_of(line, "lost_samples"),
        .lost_starts = number_of(line, "lost_starts"),
        .lost_s = number_of(line, "lost_s"),
        .lost_process_s = number_of(line, "lost_process_s"),
        .stopped_s = number_of(line, "stopped_s"),
        .last_time = (double)NAN,
        .backend = text_of(line, "backend"),
        .strategy = text_of(line, "strategy"),
        .launcher = text_of(line, "launcher"),
    };
    if (isfinite(s->samples))
        forget_beyond(h, s->samples);
    return s->backend != NULL && s->strategy != NULL && s->launcher != NULL;
}

/* ---- lines ---- */

/* Add a line. Ignores line kinds of later versions. Returns false if out of memory. */
static bool add_line(spsh__run_history *h, const spsh__row *row)
{
    spsh__json_node *line = spsh__json_node_read(row->raw);
    const char *kind = spsh__json_node_string(spsh__json_node_member(line, "kind"));
    bool is_kept = true;
    if (kind == NULL) {
        if (h->damaged_lines++ == 0)
            h->first_damaged_line = row->line;
    } else if (strcmp(kind, "step") == 0) {
        is_kept = add_step(h, line);
    } else if (strcmp(kind, "evaluation") == 0) {
        is_kept = add_evaluation(h, line);
    } else if (strcmp(kind, "start") == 0) {
        is_kept = add_start(h, line);
    }
    const double time = number_of(line, "time");
    h->last_time = isfinite(time) ? time : h->last_time;
    if (h->start_count > 0 && isfinite(time))
        h->starts[h->start_count - 1].last_time = time;
    spsh__json_node_free(line);
    return is_kept;
}

typedef struct metrics_file {
    const spsh_io *io;
    int fd;
    const char *path;
    uint64_t end_bytes; /* end of the part read so far */
} metrics_file;

static spsh_status read_at(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                           size_t *ret_size_bytes, spsh_error *err)
{
    metrics_file *f = (metrics_file *)user;
    size_t got = 0;
    int64_t n = 1;
    while (got < size_bytes && n != 0) {
        n = f->io->pread_fn(f->io->user, f->fd, (char *)buffer + got, size_bytes - got,
                            offset_bytes + got);
        if (n < 0 && n != -EINTR)
            return SPSH_FAIL_OS(err, SPSH_E_IO, (int)-n, "%s: cannot read: %s", f->path,
                                strerror((int)-n));
        got += n > 0 ? (size_t)n : 0;
    }
    f->end_bytes = offset_bytes + got;
    *ret_size_bytes = got;
    return SPSH_OK;
}

/* A last line without an end is being written, or was torn. */
static spsh_status add_lines(spsh__run_history *h, metrics_file *f, spsh_error *err)
{
    const spsh__text_input input = {read_at, f, f->path, 0};
    const spsh__dialect whole_lines = {.kind = SPSH__DIALECT_RAW, .delimiter = '\n'};
    spsh__row_reader *rows = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(&input, &whole_lines, &rows, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(rows, &row, err)) == SPSH_OK) {
        const bool is_torn =
            row.problem == NULL && row.offset_bytes + row.raw.size_bytes == f->end_bytes;
        if (!is_torn && !add_line(h, &row))
            rc = SPSH_NO_MEMORY(err);
    }
    spsh__row_reader_free(rows);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status read_file(spsh__run_history *h, const char *path, const spsh_io *io,
                             spsh_error *err)
{
    metrics_file f = {.io = io, .path = path};
    f.fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (f.fd < 0) {
        const spsh_status rc = spsh_io_status(-f.fd);
        return SPSH_FAIL_OS(err, rc, -f.fd, "%s: cannot open: %s%s", path, strerror(-f.fd),
                            rc == SPSH_E_NOT_FOUND || f.fd == -ENOTDIR
                                ? "; a run is the folder that train -o writes"
                                : "");
    }
    const spsh_status rc = add_lines(h, &f, err);
    (void)io->close_fn(io->user, f.fd);
    return rc;
}

spsh_status spsh__run_history_read(const char *run, const spsh_io *io, spsh__run_history **ret,
                                   spsh_error *err)
{
    const size_t capacity = strlen(run) + sizeof("/metrics.jsonl");
    spsh__run_history *h = (spsh__run_history *)calloc(1, sizeof(*h));
    char *path = (char *)malloc(capacity);
    spsh_status rc = SPSH_OK;
    if (h == NULL || path == NULL || !spsh__series_open(&h->steps, SPSH__RUN_COLUMNS)) {
        rc = SPSH_NO_MEMORY(err);
    } else {
        (void)snprintf(path, capacity, "%s/metrics.jsonl", run);
        for (int c = 0; c < SPSH__RUN_COLUMNS; c++)
            h->last[c] = (double)NAN;
        h->last_time = (double)NAN;
        rc = read_file(h, path, io, err);
    }
    free(path);
    if (rc == SPSH_OK)
        *ret = h;
    else
        spsh__run_history_free(h);
    return rc;
}

void spsh__run_history_free(spsh__run_history *h)
{
    if (h == NULL)
        return;
    spsh__series_close(&h->steps);
    for (size_t i = 0; i < h->set_count; i++) {
        free_examples(&h->sets[i]);
        spsh__series_close(&h->sets[i].series);
        free(h->sets[i].name);
    }
    for (size_t i = 0; i < h->start_count; i++) {
        free(h->starts[i].backend);
        free(h->starts[i].strategy);
        free(h->starts[i].launcher);
    }
    for (size_t i = 0; i < h->domain_count; i++) {
        spsh__series_close(&h->domains[i].series);
        free(h->domains[i].name);
    }
    free(h->evaluations);
    free(h->starts);
    free(h);
}

double spsh__run_error(const spsh__run_evaluation *e)
{
    return isfinite(e->wer) ? e->wer : e->frame_error;
}

const spsh__run_evaluation *spsh__run_newest(const spsh__run_history *h, size_t set)
{
    for (size_t i = h->evaluation_count; i > 0; i--) {
        if (h->evaluations[i - 1].set == set)
            return &h->evaluations[i - 1];
    }
    return NULL;
}

const spsh__run_evaluation *spsh__run_best(const spsh__run_history *h)
{
    const spsh__run_evaluation *best = NULL;
    for (size_t i = 0; i < h->evaluation_count; i++) {
        const spsh__run_evaluation *e = &h->evaluations[i];
        if (e->set == 0 && isfinite(spsh__run_error(e)) &&
            (best == NULL || spsh__run_error(e) < spsh__run_error(best)))
            best = e;
    }
    return best;
}
