/* train_estimate_out.c: print the estimate of a run before it starts, for people or as JSON. */
#include "train_estimate_out.h"

#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "estimate_out.h"
#include "speechshard/train.h"

enum { LINE_BYTES = 400 };

/* ---- for people ---- */

static void print_model(const spsh_train_estimate *e)
{
    const uint32_t batches = e->virtual_world * e->accumulate;
    spsh__estimate_print_line("model", "%s weights; %" PRIu32 " values per frame, %" PRIu32 " %s",
                              SPSH_SHOW_COUNT(e->weights), e->inputs,
                              e->states > 0 ? e->states : e->symbols,
                              e->states > 0 ? "states" : "symbols with the blank");
    spsh__estimate_print_line(
        "processes", "%" PRIu32 ", with %" PRIu32 " thread%s each; %" PRIu32 " batch%s per step%s",
        e->world_size, e->threads, e->threads == 1 ? "" : "s", batches, batches == 1 ? "" : "es",
        batches == 1 ? "" : ", whose gradients are added");
    spsh__estimate_print_line("computes on", "%s", e->compute);
}

static bool print_domains(const spsh_train_estimate *e)
{
    spsh_table *table = spsh__table_new("llrrrr");
    spsh__table_row(table, "train on", "domain", "utterances", "audio", "share",
                    "passes per epoch");
    for (uint32_t i = 0; i < e->domain_count; i++) {
        const spsh_train_domain *d = &e->domains[i];
        spsh__table_row(table, d->dataset, d->name[0] != '\0' ? d->name : "-",
                        SPSH_SHOW_COUNT(d->utterances), SPSH_SHOW_DURATION(d->seconds),
                        SPSH_SHOW_PERCENT(d->share, 1), SPSH_SHOW("%.3g", d->passes));
    }
    if (e->dev_count > 0)
        spsh__table_row(table, "evaluate on", "", "", "", "", "");
    for (uint32_t i = 0; i < e->dev_count; i++)
        spsh__table_row(table, e->dev[i].name, "", SPSH_SHOW_COUNT(e->dev[i].utterances),
                        SPSH_SHOW_DURATION(e->dev[i].seconds), "", "");
    return spsh__table_finish(table);
}

static void print_epoch(const spsh_train_estimate *e)
{
    spsh__estimate_print_line("an epoch", "%s utterances, %s: %s batches, %s steps",
                              SPSH_SHOW_COUNT(e->utterances), SPSH_SHOW_DURATION(e->seconds),
                              SPSH_SHOW_COUNT(e->batches), SPSH_SHOW_COUNT(e->steps));
    spsh__estimate_print_line(
        "a batch",
        "at most %" PRIu32 " utterances and %.1f s with padding, which is %.1f %%; the "
        "longest utterance has %.2f s",
        e->batch_utterances_max, e->batch_padded_seconds_max, 100 * e->padding, e->longest_seconds);
    spsh__estimate_print_line("the run", "%s epoch%s, %s steps, %s utterances",
                              SPSH_SHOW_COUNT(e->epochs), e->epochs == 1 ? "" : "s",
                              SPSH_SHOW_COUNT(e->epochs * e->steps), SPSH_SHOW_COUNT(e->samples));
}

static void print_left_out(const spsh_train_estimate *e)
{
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"in other splits, or without a weight", e->filtered},
        {"in skip lists", e->skipped},
        {"shorter or longer than data.utterance_seconds_*", e->out_of_range},
        {"longer than a batch", e->too_long},
        {"without an alignment", e->without_alignment},
        {"with an alignment of another length", e->other_length},
        {"without a transcript", e->without_text},
        {"shorter than a frame", e->without_frames},
        {"with fewer frames than their transcript needs", e->infeasible},
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    const char *label = "not trained on";
    for (size_t i = 0; i < count; i++) {
        if (rows[i].count == 0)
            continue;
        spsh__estimate_print_line(label, "%s%s %s",
                                  i + 1 == count && !e->is_infeasible_exact ? "about " : "",
                                  SPSH_SHOW_COUNT(rows[i].count), rows[i].what);
        label = "";
    }
}

static void print_unknown(const spsh_train_estimate *e)
{
    char line[LINE_BYTES] = "";
    size_t size = 0;
    for (uint32_t i = 0; i < e->unknown_count; i++) {
        const spsh_train_unknown *u = &e->unknown[i];
        const char *what =
            u->text[0] != '\0' ? SPSH_SHOW("'%s'", u->text) : "bytes that are not UTF-8";
        const int added = snprintf(line + size, sizeof(line) - size, "%s%s %s", i > 0 ? ", " : "",
                                   what, SPSH_SHOW_COUNT(u->count));
        if (added < 0 || (size_t)added >= sizeof(line) - size)
            break;
        size += (size_t)added;
    }
    spsh__estimate_print_line("", "%s", line);
}

static void print_texts(const spsh_train_estimate *e)
{
    spsh__estimate_print_line(
        "transcripts", "%s read: %s characters, of which %s (%s) have no symbol in the vocabulary",
        SPSH_SHOW_COUNT(e->texts_read), SPSH_SHOW_COUNT(e->characters),
        SPSH_SHOW_COUNT(e->unknown_characters),
        SPSH_SHOW_PERCENT((double)e->unknown_characters, (double)e->characters));
    if (e->unknown_count > 0)
        print_unknown(e);
    if (e->without_symbols > 0)
        spsh__estimate_print_line("", "%s contain no symbol of the vocabulary",
                                  SPSH_SHOW_COUNT(e->without_symbols));
}

/* A part of a process's memory: its JSON key, its name for people, and its size. */
typedef struct memory_part {
    const char *key, *what;
    uint64_t bytes;
} memory_part;

enum { MEMORY_PARTS = 10 };

static uint64_t list_memory(const spsh_train_estimate *e, memory_part ret_parts[MEMORY_PARTS])
{
    const memory_part parts[MEMORY_PARTS] = {
        {"weights", "weights", e->weight_bytes},
        {"weights_copy", "copy of the weights for matrix products", e->copy_bytes},
        {"gradients", "gradients", e->gradient_bytes},
        {"moments", "moments of the optimizer", e->moment_bytes},
        {"activations", "activations of the largest batch", e->activation_bytes},
        {"gradient_sums", "sums of gradients", e->sum_bytes},
        {"loader", "the loader", e->loader_bytes},
        {"loader_device", "the loader's batches on the device", e->loader_device_bytes},
        {"work_device", "work space on the device", e->work_bytes},
        {"snapshot", "checkpoint being saved (the first process)", e->snapshot_bytes},
    };
    uint64_t sum = 0;
    for (size_t i = 0; i < MEMORY_PARTS; i++)
        sum += parts[i].bytes;
    memcpy(ret_parts, parts, sizeof(parts));
    return sum;
}

static void print_space(const spsh_train_estimate *e)
{
    memory_part parts[MEMORY_PARTS];
    const uint64_t bytes = list_memory(e, parts);
    spsh__estimate_print_line("memory", "%s per process", SPSH_SHOW_BYTES(bytes));
    for (size_t i = 0; i < MEMORY_PARTS; i++) {
        if (parts[i].bytes > 0)
            spsh__estimate_print_line("", "%s %s", SPSH_SHOW_BYTES(parts[i].bytes), parts[i].what);
    }
    if (e->device_bytes > 0)
        spsh__estimate_print_line("", "%s of it on the device, which has %s free",
                                  SPSH_SHOW_BYTES(e->device_bytes),
                                  SPSH_SHOW_BYTES(e->device_free_bytes));
    if (e->padded_seconds_fit > 0)
        spsh__estimate_print_line("", "batches fit up to data.max_padded_seconds=%" PRIu32,
                                  e->padded_seconds_fit);
    if (e->checkpoint_count > 0)
        spsh__estimate_print_line("checkpoints", "%s each, at most %" PRIu32 " of them: %s",
                                  SPSH_SHOW_BYTES(e->checkpoint_bytes), e->checkpoint_count,
                                  SPSH_SHOW_BYTES(e->checkpoint_count * e->checkpoint_bytes));
    else
        spsh__estimate_print_line("checkpoints", "%s each, and all are kept",
                                  SPSH_SHOW_BYTES(e->checkpoint_bytes));
}

static int print(const spsh_train_estimate *e)
{
    printf("configuration\n");
    spsh__cli_print_indented(e->config, "  ");
    print_model(e);
    if (!print_domains(e))
        return spsh__cli_fail_memory();
    print_epoch(e);
    print_left_out(e);
    if (e->states == 0)
        print_texts(e);
    print_space(e);
    return SPSH_EXIT_DONE;
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

static void put_space(spsh_json *json, const spsh_train_estimate *e)
{
    memory_part parts[MEMORY_PARTS];
    spsh__json_put_u64(json, "memory_bytes", list_memory(e, parts));
    spsh__json_begin_object(json, "memory");
    for (size_t i = 0; i < MEMORY_PARTS; i++)
        spsh__json_put_u64(json, parts[i].key, parts[i].bytes);
    spsh__json_end(json);
    spsh__json_put_u64(json, "device_bytes", e->device_bytes);
    spsh__json_put_u64(json, "device_free_bytes", e->device_free_bytes);
    spsh__json_put_u64(json, "padded_seconds_fit", e->padded_seconds_fit);
    spsh__json_put_u64(json, "checkpoint_bytes", e->checkpoint_bytes);
    spsh__json_put_u64(json, "checkpoints", e->checkpoint_count);
}

static int put(const spsh_train_estimate *e)
{
    spsh_json *json = spsh__json_new();
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
    put_space(json, e);
    return spsh__cli_json(json);
}

int spsh__train_estimate(const char *config, const char *const *overrides, bool json)
{
    spsh_train_estimate_options options = SPSH_TRAIN_ESTIMATE_OPTIONS_INIT;
    spsh_train_estimate *estimate = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    options.config_path = config;
    options.overrides = overrides;
    if (spsh_train_estimate_make(&options, &estimate, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    const int rc = json ? put(estimate) : print(estimate);
    spsh_train_estimate_free(estimate);
    return rc;
}
