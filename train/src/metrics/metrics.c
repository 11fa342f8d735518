/* metrics.c: see metrics.h.
 *
 * A line is built as a JSON object, printed into memory, and written with its line feed at the end
 * of the file. The end advances only after a complete write, so the next line overwrites the
 * remains of a line that a full disk cut.
 */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "base/append_all.h"
#include "base/new_text.h"
#include "event_file.h"
#include "speechshard/decimal.h"
#include "speechshard/inside.h"

enum { LINE_BYTES_MAX = 1 << 20, TAG_BYTES = 128, OWN_SCALARS = 16 };

struct spsh__metrics {
    const spsh_io *io;
    int fd;
    uint64_t size_bytes;
    char *path;
    spsh__event_file *events;
    double (*time_fn)(const void *user); /* NULL: the computer's clock */
    const void *time_user;
};

static double wall_s(const spsh__metrics *m)
{
    struct timespec now;
    if (m->time_fn != NULL)
        return m->time_fn(m->time_user);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- lines ---- */

/* A JSON object under construction. Failures of put calls are recorded and checked at the end. */
typedef struct line {
    json_t *object;
    bool failed;
} line;

static void put(line *l, const char *key, json_t *value)
{
    if (json_object_set_new(l->object, key, value) != 0)
        l->failed = true;
}

static void put_count(line *l, const char *key, uint64_t value)
{
    put(l, key, json_integer((json_int_t)value));
}

static void put_real(line *l, const char *key, double value)
{
    put(l, key, isfinite(value) ? json_real(value) : json_null());
}

/* A JSON string with U+FFFD for each byte that is not UTF-8, which a dataset's path may contain.
 * NULL without memory. */
static json_t *new_string(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    spsh_bytes left = {(const uint8_t *)text, strlen(text)};
    char *valid = malloc(left.size_bytes * strlen(replacement) + 1);
    size_t valid_bytes = 0;
    if (valid == NULL)
        return NULL;
    while (left.size_bytes > 0) {
        const size_t size = spsh__utf8_sequence(left), taken = size > 0 ? size : 1;
        const size_t put_bytes = size > 0 ? size : strlen(replacement);
        memcpy(valid + valid_bytes, size > 0 ? (const char *)left.data : replacement, put_bytes);
        valid_bytes += put_bytes;
        left = (spsh_bytes){left.data + taken, left.size_bytes - taken};
    }
    json_t *string = json_stringn(valid, valid_bytes);
    free(valid);
    return string;
}

static void put_text(line *l, const char *key, const char *text)
{
    put(l, key, text == NULL ? json_null() : new_string(text));
}

static line begin_line(const spsh__metrics *m, const char *kind, uint64_t samples, uint64_t step)
{
    line l = {json_object(), false};
    put_text(&l, "kind", kind);
    put_count(&l, "samples", samples); /* before all strings, so that samples_of finds it */
    put_count(&l, "step", step);
    put_real(&l, "time", floor(wall_s(m) * 1e3) / 1e3);
    return l;
}

static spsh_status write_line(spsh__metrics *m, line *l, spsh_error *err)
{
    char *text = l->failed ? NULL : json_dumps(l->object, JSON_COMPACT | JSON_REAL_PRECISION(13));
    spsh_status rc = SPSH_OK;
    if (text == NULL) {
        rc = SPSH_NO_MEMORY(err);
    } else {
        const size_t length = strlen(text);
        text[length] = '\n'; /* replaces the NUL */
        rc = spsh__append_all(m->io, m->fd, text, length + 1, &m->size_bytes, m->path, err);
    }
    free(text);
    json_decref(l->object);
    return rc;
}

/* ---- truncation ---- */

/* Totals of the lines of earlier processes, as far as they were read. Lines after the checkpoint
 * that the run resumes from are lost. Lost lines of kind start describe older losses, so their lost
 * work is added, too. */
typedef struct past {
    double time, samples, processes; /* from the last line, or the last start; NaN: unknown */
    bool is_lost;                    /* the work of this line and of all later lines was lost */
    double lost_samples, lost_s, lost_process_s;
    double lost_starts;
    double stopped_s; /* between the end of one lost process and the start of the next */
} past;

/* Return the number after "key": in a line of ours, or NaN. In our lines, all keys precede the
 * strings that could contain the same text. */
static double number_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (at == NULL)
        return (double)NAN;
    double value = 0;
    at += strlen(key);
    return spsh_decimal_scan(at, strcspn(at, ",}"), &value) > 0 ? value : (double)NAN;
}

/* Clocks of two machines differ, so a negative duration counts as 0. An unknown one is not counted.
 */
static double at_least_none(double value)
{
    return value > 0 ? value : 0;
}

static void lose_start(past *p, const char *text, double time)
{
    p->lost_starts += 1 + at_least_none(number_of(text, "\"lost_starts\":"));
    p->stopped_s += at_least_none(time - number_of(text, "\"before_time\":")) +
                    at_least_none(number_of(text, "\"stopped_s\":"));
    p->lost_samples += at_least_none(number_of(text, "\"lost_samples\":"));
    p->lost_s += at_least_none(number_of(text, "\"lost_s\":"));
    p->lost_process_s += at_least_none(number_of(text, "\"lost_process_s\":"));
}

static void lose_work(past *p, double time, double samples)
{
    const double seconds = at_least_none(time - p->time);
    p->lost_s += seconds;
    p->lost_process_s += seconds * at_least_none(p->processes);
    p->lost_samples += at_least_none(samples - p->samples);
}

/* Add one line, without its line feed, to the totals. samples_kept: samples of the checkpoint. */
static void pass_line(past *p, const char *text, uint64_t samples_kept)
{
    static const char start[] = "{\"kind\":\"start\"";
    const double samples = number_of(text, "\"samples\":");
    const double time = number_of(text, "\"time\":");
    const bool is_start = strncmp(text, start, sizeof(start) - 1) == 0;
    p->is_lost = p->is_lost || samples > (double)samples_kept;
    if (p->is_lost && is_start)
        lose_start(p, text, time);
    else if (p->is_lost)
        lose_work(p, time, samples);
    if (is_start)
        p->processes = number_of(text, "\"world_size\":");
    p->time = isfinite(time) ? time : p->time;
    p->samples = isfinite(samples) ? samples : p->samples;
}

/* Add the complete lines at the beginning of text. Returns their size; *ret_kept: bytes of lines to
 * keep. */
static size_t pass_lines(past *p, char *text, size_t size_bytes, uint64_t samples, size_t *ret_kept)
{
    size_t used = 0;
    for (char *end = memchr(text, '\n', size_bytes); end != NULL;
         end = memchr(text + used, '\n', size_bytes - used)) {
        *end = '\0';
        pass_line(p, text + used, samples);
        used = (size_t)(end - text) + 1;
        *ret_kept = p->is_lost ? *ret_kept : used;
    }
    return used;
}

static spsh_status read_some(const spsh__metrics *m, char *text, size_t capacity,
                             uint64_t offset_bytes, size_t *ret_bytes, spsh_error *err)
{
    int64_t n = -EINTR;
    while (n == -EINTR)
        n = m->io->pread_fn(m->io->user, m->fd, text, capacity, offset_bytes);
    if (n < 0) {
        spsh_error_set(err, SPSH_E_IO, (int)-n, offset_bytes, "%s: cannot read: %s", m->path,
                       strerror((int)-n));
        return SPSH_E_IO;
    }
    *ret_bytes = (size_t)n;
    return SPSH_OK;
}

/* Set size_bytes to the offset of the next line. */
static spsh_status find_end(spsh__metrics *m, uint64_t samples, past *p, spsh_error *err)
{
    char *text = malloc(LINE_BYTES_MAX);
    spsh_status rc = text == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    uint64_t offset_bytes = 0;
    for (size_t used = 1;
         rc == SPSH_OK && used > 0;) { /* until a line is incomplete or the file ends */
        size_t size_bytes = 0, kept = 0;
        rc = read_some(m, text, LINE_BYTES_MAX, offset_bytes, &size_bytes, err);
        if (rc != SPSH_OK)
            break;
        used = pass_lines(p, text, size_bytes, samples, &kept);
        if (used == 0 && size_bytes == LINE_BYTES_MAX && !p->is_lost)
            rc = SPSH_FAIL_AT(err, SPSH_E_LIMIT, offset_bytes, "%s: a line is longer than %d bytes",
                              m->path, LINE_BYTES_MAX);
        m->size_bytes += kept;
        offset_bytes += used;
    }
    free(text);
    return rc;
}

static spsh_status open_lines(spsh__metrics *m, const char *run, uint64_t samples, past *p,
                              spsh_error *err)
{
    m->path = spsh__new_text("%s/metrics.jsonl", run);
    if (m->path == NULL)
        return SPSH_NO_MEMORY(err);
    m->fd = m->io->open_fn(m->io->user, m->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int os_errno = m->fd < 0 ? -m->fd : 0;
    if (os_errno == 0) {
        const spsh_status rc = find_end(m, samples, p, err);
        if (rc != SPSH_OK)
            return rc;
        os_errno = -m->io->ftruncate_fn(m->io->user, m->fd, m->size_bytes);
    }
    if (os_errno == 0)
        return SPSH_OK;
    const spsh_status rc = spsh_io_status(os_errno);
    return SPSH_FAIL_OS(err, rc, os_errno, "%s: cannot open for writing: %s", m->path,
                        strerror(os_errno));
}

/* ---- the three kinds of lines ---- */

static spsh_status put_start(spsh__metrics *m, const spsh__start_facts *f, const past *p,
                             spsh_error *err)
{
    line l = begin_line(m, "start", f->samples, f->step);
    put_count(&l, "restarts", f->restarts);
    put_count(&l, "world_size", f->world_size);
    put_count(&l, "virtual_world", f->virtual_world);
    put_count(&l, "threads", f->threads);
    put_count(&l, "weights", f->weights);
    put_real(&l, "before_time", p->time);
    put_count(&l, "lost_samples", (uint64_t)p->lost_samples);
    put_count(&l, "lost_starts", (uint64_t)p->lost_starts);
    put_real(&l, "lost_s", p->lost_s);
    put_real(&l, "lost_process_s", p->lost_process_s);
    put_real(&l, "stopped_s", p->stopped_s);
    put_text(&l, "backend", f->backend);
    put_text(&l, "strategy", f->strategy);
    put_text(&l, "launcher", f->launcher);
    return write_line(m, &l, err);
}

uint32_t spsh__metric_staleness(uint64_t changes)
{
    return changes < 16 ? (uint32_t)changes : changes < 32 ? 16 : changes < 64 ? 17 : 18;
}

/* The histogram omits trailing zeros. */
static void put_staleness(line *l, const spsh__step_facts *f)
{
    json_t *counts = json_array();
    uint32_t count = SPSH__METRIC_STALENESS;
    while (count > 0 && f->staleness[count - 1] == 0)
        count--;
    for (uint32_t i = 0; i < count; i++)
        if (json_array_append_new(counts, json_integer((json_int_t)f->staleness[i])) != 0)
            l->failed = true;
    put(l, "staleness", counts);
}

static void put_domains(line *l, const spsh__step_facts *f)
{
    line domains = {json_object(), false};
    for (uint32_t i = 0; i < f->domain_count; i++) {
        line domain = {json_object(), false};
        put_real(&domain, "loss", f->domains[i].loss);
        put_count(&domain, "utterances", f->domains[i].utterances);
        l->failed = l->failed || domain.failed;
        put(&domains, f->domains[i].name, domain.object);
    }
    l->failed = l->failed || domains.failed;
    put(l, "domains", domains.object);
}

static spsh_status put_step_line(spsh__metrics *m, const spsh__step_facts *f, spsh_error *err)
{
    line l = begin_line(m, "step", f->samples, f->step);
    put_count(&l, "epoch", f->epoch);
    put_real(&l, "audio_total_s", f->audio_total_s);
    put_real(&l, "loss", f->loss);
    put_real(&l, "gradient_norm", f->gradient_norm);
    put_real(&l, "rate", f->rate);
    put_real(&l, "loss_scale", f->loss_scale);
    put_real(&l, "step_s", f->step_s);
    put_real(&l, "wait_s", f->wait_s);
    put_real(&l, "compute_s", f->compute_s);
    put_real(&l, "exchange_s", f->exchange_s);
    put_real(&l, "save_s", f->save_s);
    put_real(&l, "audio_s", f->audio_s);
    put_real(&l, "padding", f->padding);
    put_count(&l, "utterances", f->utterances);
    put_count(&l, "infeasible", f->infeasible);
    put_count(&l, "without_text", f->without_text);
    put_count(&l, "without_frames", f->without_frames);
    put_count(&l, "skipped_steps", f->skipped_steps);
    if (f->learners > 0)
        put_count(&l, "learners", f->learners);
    put_count(&l, "sent_bytes", f->sent_bytes);
    if (f->has_staleness)
        put_staleness(&l, f);
    if (f->is_of_frames) {
        put_real(&l, "frame_error", f->frame_error);
        put_count(&l, "without_alignment", f->without_alignment);
        put_count(&l, "other_length", f->other_length);
    }
    put_domains(&l, f);
    return write_line(m, &l, err);
}

static spsh_status put_evaluation_line(spsh__metrics *m, const spsh__evaluation_facts *f,
                                       spsh_error *err)
{
    line l = begin_line(m, "evaluation", f->samples, f->step);
    json_t *examples = json_array();
    put_text(&l, "set", f->set);
    put_real(&l, "loss", f->loss);
    put_real(&l, "wer", f->wer);
    put_real(&l, "cer", f->cer);
    put_real(&l, "cer_letters", f->cer_letters);
    if (f->is_of_frames) {
        put_real(&l, "frame_error", f->frame_error);
        put_count(&l, "frames", f->frames);
        put_count(&l, "without_alignment", f->without_alignment);
        put_count(&l, "other_length", f->other_length);
    }
    put_real(&l, "seconds", f->seconds);
    put_count(&l, "utterances", f->utterances);
    put_count(&l, "words", f->words);
    for (size_t i = 0; i < f->example_count; i++) {
        line example = {json_object(), false};
        put_text(&example, "id", f->examples[i].id);
        put_text(&example, "reference", f->examples[i].reference);
        put_text(&example, "found", f->examples[i].found);
        l.failed = l.failed || example.failed;
        if (json_array_append_new(examples, example.object) != 0)
            l.failed = true;
    }
    put(&l, "examples", examples);
    return write_line(m, &l, err);
}

static spsh_status put_step_events(spsh__metrics *m, const spsh__step_facts *f, spsh_error *err)
{
    char tags[SPSH__METRIC_DOMAINS_MAX][TAG_BYTES];
    const double used_s = f->step_s > 0 ? f->step_s : (double)NAN;
    spsh__scalar scalars[OWN_SCALARS + SPSH__METRIC_DOMAINS_MAX] = {
        {"train/loss",            f->loss                                                                    },
        {"train/gradient_norm",   f->gradient_norm                                                           },
        {"train/rate",            f->rate                                                                    },
        {"train/epoch",           (double)f->epoch                                                           },
        {"speed/step_s",          f->step_s                                                                  },
        {"speed/wait_share",      f->wait_s / used_s                                                         },
        {"speed/exchange_share",  f->exchange_s / used_s                                                     },
        {"speed/audio_s_per_s",   f->audio_s / used_s                                                        },
        {"batch/utterances",      f->utterances                                                              },
        {"batch/padding",         f->padding                                                                 },
        {"batch/not_learnt_from", f->infeasible + f->without_text + f->without_frames +
                                      f->without_alignment + f->other_length},
        {"train/skipped_steps",   f->skipped_steps                                                           },
    };
    size_t count = 12;
    if (f->is_of_frames)
        scalars[count++] = (spsh__scalar){"train/frame_error", f->frame_error};
    const uint32_t domains =
        f->domain_count < SPSH__METRIC_DOMAINS_MAX ? f->domain_count : SPSH__METRIC_DOMAINS_MAX;
    for (uint32_t i = 0; i < domains; i++) {
        (void)snprintf(tags[i], TAG_BYTES, "domain/%s", f->domains[i].name);
        scalars[count++] = (spsh__scalar){tags[i], f->domains[i].loss};
    }
    return spsh__event_file_put(m->events, wall_s(m), f->step, scalars, count, err);
}

/* ---- public functions ---- */

spsh_status spsh__metrics_open(const char *run, const spsh__start_facts *start, const spsh_io *io,
                               spsh__metrics **ret, spsh_error *err)
{
    spsh__metrics *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return SPSH_NO_MEMORY(err);
    m->io = io != NULL ? io : spsh_io_default();
    m->fd = -1;
    m->time_fn = start->time_fn;
    m->time_user = start->time_user;
    past p = {.time = (double)NAN, .samples = (double)NAN, .processes = (double)NAN};
    spsh_status rc = open_lines(m, run, start->samples, &p, err);
    if (rc == SPSH_OK)
        /* TensorBoard ignores events of earlier files from this step on. */
        rc = spsh__event_file_open(m->io, run, wall_s(m), start->step > 0 ? start->step + 1 : 0,
                                   NULL, &m->events, err);
    if (rc == SPSH_OK)
        rc = put_start(m, start, &p, err);
    if (rc == SPSH_OK) {
        *ret = m;
        m = NULL;
    }
    spsh__metrics_close(m);
    return rc;
}

spsh_status spsh__metrics_step(spsh__metrics *m, const spsh__step_facts *facts, spsh_error *err)
{
    const spsh_status rc = put_step_line(m, facts, err);
    return rc != SPSH_OK ? rc : put_step_events(m, facts, err);
}

spsh_status spsh__metrics_evaluation(spsh__metrics *m, const spsh__evaluation_facts *facts,
                                     spsh_error *err)
{
    /* One tag per set, because TensorBoard draws one curve per tag. */
    const spsh__scalar of_texts[] = {
        {"evaluation_loss",        facts->loss       },
        {"evaluation_wer",         facts->wer        },
        {"evaluation_cer",         facts->cer        },
        {"evaluation_cer_letters", facts->cer_letters},
    };
    const spsh__scalar of_frames[] = {
        {"evaluation_loss",        facts->loss       },
        {"evaluation_frame_error", facts->frame_error},
    };
    const spsh__scalar *measures = facts->is_of_frames ? of_frames : of_texts;
    const size_t count = facts->is_of_frames ? sizeof(of_frames) / sizeof(of_frames[0])
                                             : sizeof(of_texts) / sizeof(of_texts[0]);
    char tags[sizeof(of_texts) / sizeof(of_texts[0])][TAG_BYTES];
    spsh__scalar scalars[sizeof(of_texts) / sizeof(of_texts[0])];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(tags[i], TAG_BYTES, "%s/%s", measures[i].tag, facts->set);
        scalars[i] = (spsh__scalar){tags[i], measures[i].value};
    }
    const spsh_status rc = put_evaluation_line(m, facts, err);
    if (rc != SPSH_OK)
        return rc;
    return spsh__event_file_put(m->events, wall_s(m), facts->step, scalars, count, err);
}

void spsh__metrics_close(spsh__metrics *m)
{
    if (m == NULL)
        return;
    if (m->fd >= 0)
        (void)m->io->close_fn(m->io->user, m->fd);
    spsh__event_file_close(m->events);
    free(m->path);
    free(m);
}

const char *spsh__metrics_line(const spsh__step_facts *f, char *text, size_t capacity)
{
    const double used_s = f->step_s > 0 ? f->step_s : 1;
    char epochs[32] = "", left[48] = "";
    if (f->epochs > 0)
        (void)snprintf(epochs, sizeof(epochs), " of %" PRIu64, f->epochs);
    if (f->left_s >= 0 && f->left_s < 1e8) {
        const uint64_t s = (uint64_t)f->left_s;
        (void)snprintf(left, sizeof(left), ", ETA %" PRIu64 ":%02u:%02u", s / 3600,
                       (unsigned)(s / 60 % 60), (unsigned)(s % 60));
    }
    (void)snprintf(text, capacity,
                   "epoch %" PRIu64 "%s, loss %.4g, rate %.3g, %.0f utterances/s, waited %.1f %%%s",
                   f->epoch + 1, epochs, f->loss, f->rate, f->utterances / used_s,
                   100 * f->wait_s / used_s, left);
    return text;
}
