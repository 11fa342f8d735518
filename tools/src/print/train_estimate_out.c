/* train_estimate_out.c: a run before it is one, as lines for people or as JSON. */
#include "train_estimate_out.h"

#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "common/json_out.h"
#include "estimate_out.h"
#include "speechshard/train.h"

enum { LINE_BYTES = 400 };

/* ---- for people ---- */

static const char *count(uint64_t number, char dst[SPSH_HUMAN_BYTES])
{
    return spsh__human_count(number, dst);
}

static void print_config(const char *text)
{
    printf("configuration\n");
    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");
        printf("  %.*s\n", (int)size, text);
        text += size + (text[size] == '\n' ? 1 : 0);
    }
}

static void print_model(const spsh_train_estimate *e)
{
    char number[SPSH_HUMAN_BYTES], line[LINE_BYTES];
    (void)snprintf(line, sizeof(line), "%s weights; %" PRIu32 " values a frame, %" PRIu32 " %s",
                   count(e->weights, number), e->inputs, e->states > 0 ? e->states : e->symbols,
                   e->states > 0 ? "states" : "symbols with the blank");
    spsh__estimate_print_line("model", line);
    const uint32_t batches = e->virtual_world * e->accumulate;
    (void)snprintf(line, sizeof(line),
                   "%" PRIu32 ", with %" PRIu32 " thread%s each; %" PRIu32 " batch%s a step",
                   e->world_size, e->threads, e->threads == 1 ? "" : "s", batches,
                   batches == 1 ? "" : "es, whose gradients are added, in");
    spsh__estimate_print_line("processes", line);
    spsh__estimate_print_line("computes on", e->compute);
}

static bool print_domains(const spsh_train_estimate *e)
{
    spsh_table *table = spsh__table_new("llrrrr");
    if (table == NULL)
        return false;
    spsh__table_row(table, "train on", "domain", "utterances", "audio", "share", "passes an epoch");
    for (uint32_t i = 0; i < e->domain_count; i++) {
        const spsh_train_domain *d = &e->domains[i];
        char utterances[SPSH_HUMAN_BYTES], audio[SPSH_HUMAN_BYTES], share[SPSH_HUMAN_BYTES];
        char passes[SPSH_HUMAN_BYTES];
        (void)snprintf(passes, sizeof(passes), "%.3g", d->passes);
        spsh__table_row(table, d->dataset, d->name[0] != '\0' ? d->name : "-",
                        count(d->utterances, utterances), spsh__human_duration(d->seconds, audio),
                        spsh__human_percent(d->share, 1, share), passes);
    }
    for (uint32_t i = 0; i < e->dev_count; i++) {
        const spsh_train_set *s = &e->dev[i];
        char utterances[SPSH_HUMAN_BYTES], audio[SPSH_HUMAN_BYTES];
        if (i == 0)
            spsh__table_row(table, "evaluate on", "", "", "", "", "");
        spsh__table_row(table, s->name, "", count(s->utterances, utterances),
                        spsh__human_duration(s->seconds, audio), "", "");
    }
    const bool good = spsh__table_print(table, stdout, "", 0);
    spsh__table_free(table);
    return good;
}

static void print_epoch(const spsh_train_estimate *e)
{
    char utterances[SPSH_HUMAN_BYTES], audio[SPSH_HUMAN_BYTES], batches[SPSH_HUMAN_BYTES];
    char steps[SPSH_HUMAN_BYTES], line[LINE_BYTES];
    (void)snprintf(line, sizeof(line), "%s utterances, %s: %s batches, %s steps",
                   count(e->utterances, utterances), spsh__human_duration(e->seconds, audio),
                   count(e->batches, batches), count(e->steps, steps));
    spsh__estimate_print_line("an epoch", line);
    (void)snprintf(line, sizeof(line),
                   "at most %" PRIu32 " utterances and %.1f s with padding, which is %.1f %%; the "
                   "longest utterance has %.2f s",
                   e->batch_utterances_max, e->batch_padded_seconds_max, 100 * e->padding,
                   e->longest_seconds);
    spsh__estimate_print_line("a batch", line);
    (void)snprintf(line, sizeof(line), "%s epoch%s, %s steps, %s utterances",
                   count(e->epochs, batches), e->epochs == 1 ? "" : "s",
                   count(e->epochs * e->steps, steps), count(e->samples, utterances));
    spsh__estimate_print_line("the run", line);
}

static void print_left_out(const spsh_train_estimate *e)
{
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"of other splits, or without a weight",            e->filtered         },
        {"in skip lists",                                   e->skipped          },
        {"shorter or longer than data.utterance_seconds_*", e->out_of_range     },
        {"longer than a batch",                             e->too_long         },
        {"without an alignment",                            e->without_alignment},
        {"with an alignment of another length",             e->other_length     },
        {"without a transcript",                            e->without_text     },
        {"shorter than a frame",                            e->without_frames   },
    };
    const char *label = "not learnt from";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char number[SPSH_HUMAN_BYTES], line[LINE_BYTES];
        if (rows[i].count == 0)
            continue;
        (void)snprintf(line, sizeof(line), "%s %s", count(rows[i].count, number), rows[i].what);
        spsh__estimate_print_line(label, line);
        label = "";
    }
    if (e->infeasible > 0) {
        char number[SPSH_HUMAN_BYTES], line[LINE_BYTES];
        (void)snprintf(line, sizeof(line), "%s%s with fewer frames than their transcript needs",
                       e->is_infeasible_exact ? "" : "about ", count(e->infeasible, number));
        spsh__estimate_print_line(label, line);
    }
}

static void print_unknown(const spsh_train_estimate *e)
{
    char line[LINE_BYTES] = "";
    size_t size = 0;
    for (uint32_t i = 0; i < e->unknown_count; i++) {
        const spsh_train_unknown *u = &e->unknown[i];
        char number[SPSH_HUMAN_BYTES];
        const int added =
            u->text[0] != '\0'
                ? snprintf(line + size, sizeof(line) - size, "%s'%s' %s", i > 0 ? ", " : "",
                           u->text, count(u->count, number))
                : snprintf(line + size, sizeof(line) - size, "%sbytes that are not UTF-8 %s",
                           i > 0 ? ", " : "", count(u->count, number));
        if (added < 0 || (size_t)added >= sizeof(line) - size)
            break;
        size += (size_t)added;
    }
    spsh__estimate_print_line("", line);
}

static void print_texts(const spsh_train_estimate *e)
{
    char texts[SPSH_HUMAN_BYTES], characters[SPSH_HUMAN_BYTES], unknown[SPSH_HUMAN_BYTES];
    char percent[SPSH_HUMAN_BYTES], line[LINE_BYTES];
    (void)snprintf(
        line, sizeof(line), "%s of them read: %s characters, and no symbol for %s of them (%s)",
        count(e->texts_read, texts), count(e->characters, characters),
        count(e->unknown_characters, unknown),
        spsh__human_percent((double)e->unknown_characters, (double)e->characters, percent));
    spsh__estimate_print_line("transcripts", line);
    if (e->unknown_count > 0)
        print_unknown(e);
    if (e->without_symbols > 0) {
        (void)snprintf(line, sizeof(line), "%s of them have no symbol at all",
                       count(e->without_symbols, texts));
        spsh__estimate_print_line("", line);
    }
}

static uint64_t memory_bytes(const spsh_train_estimate *e)
{
    return e->weight_bytes + e->gradient_bytes + e->moment_bytes + e->activation_bytes +
           e->copy_bytes + e->sum_bytes + e->loader_bytes + e->loader_device_bytes + e->work_bytes +
           e->snapshot_bytes;
}

static void print_room(const spsh_train_estimate *e)
{
    const struct {
        const char *what;
        uint64_t bytes;
    } rows[] = {
        {"weights",                                 e->weight_bytes       },
        {"copy of the weights for products",        e->copy_bytes         },
        {"gradients",                               e->gradient_bytes     },
        {"moments of the optimiser",                e->moment_bytes       },
        {"activations of the largest batch",        e->activation_bytes   },
        {"sums of gradients",                       e->sum_bytes          },
        {"the loader",                              e->loader_bytes       },
        {"the loader's batches on the device",      e->loader_device_bytes},
        {"work space on the device",                e->work_bytes         },
        {"what is being saved (the first process)", e->snapshot_bytes     },
    };
    char size[SPSH_HUMAN_BYTES], all[SPSH_HUMAN_BYTES], line[LINE_BYTES];
    (void)snprintf(line, sizeof(line), "%s a process", spsh__human_bytes(memory_bytes(e), size));
    spsh__estimate_print_line("memory", line);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(line, sizeof(line), "%s %s", spsh__human_bytes(rows[i].bytes, size),
                       rows[i].what);
        if (rows[i].bytes > 0)
            spsh__estimate_print_line("", line);
    }
    if (e->device_bytes > 0) {
        (void)snprintf(line, sizeof(line), "%s of it are the device's, which has %s free",
                       spsh__human_bytes(e->device_bytes, size),
                       spsh__human_bytes(e->device_free_bytes, all));
        spsh__estimate_print_line("", line);
    }
    if (e->checkpoint_count > 0)
        (void)snprintf(line, sizeof(line), "%s each, at most %" PRIu32 " of them: %s",
                       spsh__human_bytes(e->checkpoint_bytes, size), e->checkpoint_count,
                       spsh__human_bytes(e->checkpoint_count * e->checkpoint_bytes, all));
    else
        (void)snprintf(line, sizeof(line), "%s each, and all are kept",
                       spsh__human_bytes(e->checkpoint_bytes, size));
    spsh__estimate_print_line("checkpoints", line);
}

static bool print(const spsh_train_estimate *e)
{
    print_config(e->config);
    print_model(e);
    if (!print_domains(e))
        return false;
    print_epoch(e);
    print_left_out(e);
    if (e->states == 0)
        print_texts(e);
    print_room(e);
    return true;
}

/* ---- for programs ---- */

static void put_data(spsh_json *json, const spsh_train_estimate *e)
{
    spsh__json_begin_array(json, "domains");
    for (uint32_t i = 0; i < e->domain_count; i++) {
        const spsh_train_domain *d = &e->domains[i];
        spsh__json_begin_object(json, NULL);
        spsh__json_put_string(json, "dataset", d->dataset);
        spsh__json_put_string(json, "domain", d->name[0] != '\0' ? d->name : NULL);
        spsh__json_put_u64(json, "utterances", d->utterances);
        spsh__json_put_real(json, "seconds", d->seconds);
        spsh__json_put_real(json, "share", d->share);
        spsh__json_put_real(json, "passes", d->passes);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    spsh__json_begin_array(json, "dev");
    for (uint32_t i = 0; i < e->dev_count; i++) {
        spsh__json_begin_object(json, NULL);
        spsh__json_put_string(json, "dataset", e->dev[i].name);
        spsh__json_put_u64(json, "utterances", e->dev[i].utterances);
        spsh__json_put_real(json, "seconds", e->dev[i].seconds);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_epoch(spsh_json *json, const spsh_train_estimate *e)
{
    spsh__json_put_u64(json, "utterances", e->utterances);
    spsh__json_put_real(json, "seconds", e->seconds);
    spsh__json_put_real(json, "longest_seconds", e->longest_seconds);
    spsh__json_put_u64(json, "batches", e->batches);
    spsh__json_put_u64(json, "steps", e->steps);
    spsh__json_put_u64(json, "batch_utterances_max", e->batch_utterances_max);
    spsh__json_put_real(json, "batch_padded_seconds_max", e->batch_padded_seconds_max);
    spsh__json_put_real(json, "padding", e->padding);
    spsh__json_put_u64(json, "epochs", e->epochs);
    spsh__json_put_u64(json, "run_utterances", e->samples);
    spsh__json_begin_object(json, "not_learnt_from");
    spsh__json_put_u64(json, "filtered", e->filtered);
    spsh__json_put_u64(json, "skipped", e->skipped);
    spsh__json_put_u64(json, "out_of_range", e->out_of_range);
    spsh__json_put_u64(json, "too_long", e->too_long);
    spsh__json_put_u64(json, "without_text", e->without_text);
    spsh__json_put_u64(json, "without_frames", e->without_frames);
    spsh__json_put_u64(json, "without_alignment", e->without_alignment);
    spsh__json_put_u64(json, "other_length", e->other_length);
    spsh__json_put_u64(json, "infeasible", e->infeasible);
    spsh__json_put_bool(json, "infeasible_is_exact", e->is_infeasible_exact);
    spsh__json_end(json);
}

static void put_texts(spsh_json *json, const spsh_train_estimate *e)
{
    spsh__json_begin_object(json, "transcripts");
    spsh__json_put_u64(json, "read", e->texts_read);
    spsh__json_put_u64(json, "without_symbols", e->without_symbols);
    spsh__json_put_u64(json, "characters", e->characters);
    spsh__json_put_u64(json, "unknown", e->unknown_characters);
    spsh__json_put_u64(json, "unknown_kinds", e->unknown_kinds);
    spsh__json_begin_array(json, "most_frequent_unknown");
    for (uint32_t i = 0; i < e->unknown_count; i++) {
        spsh__json_begin_object(json, NULL);
        spsh__json_put_string(json, "character",
                              e->unknown[i].text[0] != '\0' ? e->unknown[i].text : NULL);
        spsh__json_put_u64(json, "count", e->unknown[i].count);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    spsh__json_end(json);
}

static void put_room(spsh_json *json, const spsh_train_estimate *e)
{
    spsh__json_put_u64(json, "memory_bytes", memory_bytes(e));
    spsh__json_begin_object(json, "memory");
    spsh__json_put_u64(json, "weights", e->weight_bytes);
    spsh__json_put_u64(json, "weights_copy", e->copy_bytes);
    spsh__json_put_u64(json, "gradients", e->gradient_bytes);
    spsh__json_put_u64(json, "moments", e->moment_bytes);
    spsh__json_put_u64(json, "activations", e->activation_bytes);
    spsh__json_put_u64(json, "gradient_sums", e->sum_bytes);
    spsh__json_put_u64(json, "loader", e->loader_bytes);
    spsh__json_put_u64(json, "loader_device", e->loader_device_bytes);
    spsh__json_put_u64(json, "work_device", e->work_bytes);
    spsh__json_put_u64(json, "snapshot", e->snapshot_bytes);
    spsh__json_end(json);
    spsh__json_put_u64(json, "device_bytes", e->device_bytes);
    spsh__json_put_u64(json, "device_free_bytes", e->device_free_bytes);
    spsh__json_put_u64(json, "checkpoint_bytes", e->checkpoint_bytes);
    spsh__json_put_u64(json, "checkpoints", e->checkpoint_count);
}

static spsh_status put(const spsh_train_estimate *e, spsh_error *err)
{
    spsh_json *json = spsh__json_new();
    if (json == NULL) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
        return SPSH_E_NO_MEMORY;
    }
    spsh__json_put_string(json, "config", e->config);
    spsh__json_put_u64(json, "weights", e->weights);
    spsh__json_put_u64(json, "inputs", e->inputs);
    spsh__json_put_u64(json, "symbols", e->symbols);
    spsh__json_put_u64(json, "states", e->states);
    spsh__json_put_u64(json, "world_size", e->world_size);
    spsh__json_put_u64(json, "threads", e->threads);
    spsh__json_put_string(json, "compute", e->compute);
    spsh__json_put_u64(json, "step_batches", (uint64_t)e->virtual_world * e->accumulate);
    put_data(json, e);
    put_epoch(json, e);
    put_texts(json, e);
    put_room(json, e);
    const spsh_status rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

int spsh__train_estimate(const char *config, const char *const *overrides, bool json)
{
    spsh_train_estimate_options options = SPSH_TRAIN_ESTIMATE_OPTIONS_INIT;
    spsh_train_estimate *estimate = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    options.config_path = config;
    options.overrides = overrides;
    spsh_status rc = spsh_train_estimate_make(&options, &estimate, &err);
    if (rc == SPSH_OK && json)
        rc = put(estimate, &err);
    const bool is_printed = rc != SPSH_OK || json || print(estimate);
    spsh_train_estimate_free(estimate);
    if (!is_printed)
        return spsh__cli_fail_memory();
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}
