/* config.c: one table gives the name of each key, the offset of its field, its range, and its
 * default. Reading, checking, and writing all use this table, so none of them can forget a key.
 *
 * Values are first gathered as strings, from the file and then from the overrides, and are
 * converted to fields at the end. A preset therefore applies before the keys that change it,
 * regardless of their order.
 */
#include "config.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/new_text.h"
#include "base/settings_text.h"
#include "labels/alignments.h"
#include "speechshard/augment.h"
#include "speechshard/decimal.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"
#include "speechshard/nearest_word.h"
#include "speechshard/settings.h"

typedef enum field_kind {
    FIELD_TEXT,    /* char * */
    FIELD_TEXTS,   /* char **, NULL-terminated */
    FIELD_NUMBERS, /* double *, one number per item of data.train; NULL if omitted */
    FIELD_DOUBLE,
    FIELD_U32,
    FIELD_U64,
    FIELD_TRUTH,  /* bool: words[0], words[1] */
    FIELD_WORD,   /* enumerator: index of the word in words */
    FIELD_BOUND,  /* uint32_t, or "any": UINT32_MAX */
    FIELD_PRESET, /* preset of the model: fills all its fields */
} field_kind;

typedef struct field {
    const char *name; /* with its section */
    field_kind kind;
    size_t offset;
    double min, max;          /* inclusive range of a number; max 0: the largest value of the
                                 type */
    const char *const *words; /* NULL-terminated */
    const char *otherwise;    /* the default, as text; NULL: the preset's, or an empty list */
} field;

static const char *const truths[] = {"false", "true", NULL};
static const char *const losses[] = {"end", "shrink", NULL};
static const char *const cells[] = {"lstm", "gru", NULL};
static const char *const batch_norms[] = {"masked", "compat", NULL};
static const char *const optimisers[] = {"sgd", "adamw", NULL};
static const char *const backends[] = {"auto", "cpu", "cuda", "reference", NULL};
static const char *const precisions[] = {"auto", "fp32", "tf32", "bf16", "fp16", NULL};
static const char *const rnns[] = {"auto",  "persistent", "cudnn-persistent",
                                   "cudnn", "stepwise",   NULL};
static const char *const exchanges[] = {"auto", "nccl", "host", NULL};
static const char *const gradient_exchanges[] = {"fp32", "bf16", "fp16", NULL};
static const char *const decodes[] = {"host", "device", NULL};
static const char *const damages[] = {"fail", "skip", NULL};      /* order of spsh_on_error */
static const char *const undecodables[] = {"skip", "fail", NULL}; /* order of spsh_undecodable */
static const char *const schedules[] = {"constant", "anneal", "cosine", NULL};
static const char *const scalings[] = {"none", "linear", "sqrt", NULL};
static const char *const strategies[] = {
    "allreduce", "partitioned", "ps-sync",      "ps-async",
    "hogwild",   "dpsgd-ring",  "adpsgd-fixed", "adpsgd-random",
    "d1-model",  "d1-grad",     "hierarchical", "pipeline",
    NULL};
static const char *const inner_strategies[] = {"allreduce", "partitioned", "ps-sync", NULL};
static const char *const outer_strategies[] = {"adpsgd-random", "adpsgd-fixed", "dpsgd-ring",
                                               "d1-model", NULL};

#define AT(member_)          offsetof(spsh__config, member_)
#define TEXT(otherwise_)     0, 0, NULL, otherwise_
#define WORD(words_, other_) 0, 0, words_, other_

#define YEAR_S        31536000.0
#define BELOW_ONE     0.999999999
#define LEARNERS_MAX  65536
#define DEADLINE_MAX  86400000
#define UNITS_MAX     16384
#define THREADS_MAX   1024
#define BEAM_MAX      4096
#define CHECKPOINTS   10000
#define CHANNELS_MAX  1024
#define LOOKAHEAD_MAX 1024
#define CHUNK_MAX     1048576
#define DEVICES_MAX   1024
#define STALENESS_MAX 1000000000

/* In the order of the canonical text. The keys of one section are adjacent. */
/* clang-format off */
static const field fields[] = {
    {"vocabulary", FIELD_TEXT, AT(vocabulary), TEXT("")},
    {"features", FIELD_TEXT, AT(features), TEXT("deepspeech")},
    {"augment", FIELD_TEXT, AT(augment), TEXT("none")},
    {"data.train", FIELD_TEXTS, AT(train), TEXT(NULL)},
    {"data.train_weights", FIELD_NUMBERS, AT(train_weights), 1e-9, 1e9, NULL, NULL},
    {"data.alpha", FIELD_DOUBLE, AT(alpha), 0, 1, NULL, "1"},
    {"data.dev", FIELD_TEXTS, AT(dev), TEXT(NULL)},
    {"data.alignments", FIELD_TEXTS, AT(alignments), TEXT(NULL)},
    {"data.noises", FIELD_TEXTS, AT(noises), TEXT(NULL)},
    {"data.rooms", FIELD_TEXTS, AT(rooms), TEXT(NULL)},
    {"data.seed", FIELD_U64, AT(seed), 0, 0, NULL, "1"},
    {"data.max_seconds", FIELD_DOUBLE, AT(max_seconds), 0, 1e6, NULL, "0"},
    {"data.max_padded_seconds", FIELD_DOUBLE, AT(max_padded_seconds), 0, 1e6, NULL, "0"},
    {"data.utterance_seconds_min", FIELD_DOUBLE, AT(utterance_seconds_min), 0, 1e6, NULL, "0"},
    {"data.utterance_seconds_max", FIELD_DOUBLE, AT(utterance_seconds_max), 0, 1e6, NULL, "0"},
    {"data.virtual_world", FIELD_U32, AT(virtual_world), 0, LEARNERS_MAX, NULL, "0"},
    {"data.decode", FIELD_WORD, AT(decode), WORD(decodes, "host")},
    {"data.damaged", FIELD_WORD, AT(damaged), WORD(damages, "fail")},
    {"data.undecodable", FIELD_WORD, AT(undecodable), WORD(undecodables, "skip")},
    {"model.preset", FIELD_PRESET, AT(model), TEXT("ds2")},
    {"model.conv_channels", FIELD_U32, AT(model.conv_channels), 0, CHANNELS_MAX, NULL, NULL},
    {"model.layers", FIELD_U32, AT(model.layers), 1, SPSH__MODEL_LAYERS_MAX, NULL, NULL},
    {"model.cell", FIELD_WORD, AT(model.cell), WORD(cells, NULL)},
    {"model.hidden", FIELD_U32, AT(model.hidden), 1, UNITS_MAX, NULL, NULL},
    {"model.bidirectional", FIELD_TRUTH, AT(model.is_bidirectional), WORD(truths, NULL)},
    {"model.lookahead", FIELD_U32, AT(model.lookahead), 0, LOOKAHEAD_MAX, NULL, NULL},
    {"model.bottleneck", FIELD_U32, AT(model.bottleneck), 0, UNITS_MAX, NULL, NULL},
    {"model.chunk_frames", FIELD_U32, AT(model.chunk_frames), 0, CHUNK_MAX, NULL, NULL},
    {"model.outputs", FIELD_U32, AT(model.outputs), 0, SPSH__ALIGNMENT_STATES_MAX, NULL, NULL},
    {"model.batch_norm", FIELD_TRUTH, AT(model.counts_padding), WORD(batch_norms, NULL)},
    {"train.backend", FIELD_WORD, AT(backend), WORD(backends, "auto")},
    {"train.device", FIELD_TEXT, AT(device), TEXT("auto")},
    {"train.precision", FIELD_WORD, AT(precision), WORD(precisions, "auto")},
    {"train.deterministic", FIELD_TRUTH, AT(is_deterministic), WORD(truths, "false")},
    {"train.graphs", FIELD_TRUTH, AT(has_graphs), WORD(truths, "true")},
    {"train.rnn", FIELD_WORD, AT(rnn), WORD(rnns, "auto")},
    {"train.exchange", FIELD_WORD, AT(exchange), WORD(exchanges, "auto")},
    {"train.gradient_exchange", FIELD_WORD, AT(gradient_exchange),
     WORD(gradient_exchanges, "fp32")},
    {"train.threads", FIELD_U32, AT(threads), 0, THREADS_MAX, NULL, "0"},
    {"train.strategy", FIELD_TEXT, AT(strategy), WORD(strategies, "allreduce")},
    {"train.servers", FIELD_U32, AT(servers), 0, LEARNERS_MAX, NULL, "0"},
    {"train.staleness_max", FIELD_BOUND, AT(staleness_max), 0, STALENESS_MAX, NULL, "any"},
    {"train.scale_by_staleness", FIELD_TRUTH, AT(scales_by_staleness), WORD(truths, "false")},
    {"train.overlap", FIELD_TRUTH, AT(overlaps), WORD(truths, "false")},
    {"train.node_size", FIELD_U32, AT(node_size), 0, LEARNERS_MAX, NULL, "0"},
    {"train.inner", FIELD_TEXT, AT(inner), WORD(inner_strategies, "allreduce")},
    {"train.outer", FIELD_TEXT, AT(outer), WORD(outer_strategies, "adpsgd-random")},
    {"train.stages", FIELD_TEXTS, AT(stages), TEXT(NULL)},
    {"train.optimiser", FIELD_TRUTH, AT(is_adamw), WORD(optimisers, "adamw")},
    {"train.rate", FIELD_DOUBLE, AT(adamw.rate), 1e-12, 1e3, NULL, "1.5e-4"},
    {"train.momentum", FIELD_DOUBLE, AT(sgd.momentum), 0, BELOW_ONE, NULL, "0.9"},
    {"train.nesterov", FIELD_TRUTH, AT(sgd.is_nesterov), WORD(truths, "true")},
    {"train.beta1", FIELD_DOUBLE, AT(adamw.beta1), 0, BELOW_ONE, NULL, "0.9"},
    {"train.beta2", FIELD_DOUBLE, AT(adamw.beta2), 0, BELOW_ONE, NULL, "0.999"},
    {"train.epsilon", FIELD_DOUBLE, AT(adamw.epsilon), 1e-30, 1, NULL, "1e-8"},
    {"train.weight_decay", FIELD_DOUBLE, AT(adamw.weight_decay), 0, 1, NULL, "1e-5"},
    {"train.clip", FIELD_DOUBLE, AT(clip), 0, 1e9, NULL, "400"},
    {"train.schedule", FIELD_WORD, AT(schedule), WORD(schedules, "anneal")},
    {"train.warm_up_samples", FIELD_U64, AT(warm_up_samples), 0, SPSH__COUNT_MAX, NULL, "0"},
    {"train.warm_up_epochs", FIELD_DOUBLE, AT(warm_up_epochs), 0, 1e6, NULL, "0"},
    {"train.warm_up_from", FIELD_DOUBLE, AT(warm_up_from), 0, 1, NULL, "0"},
    {"train.schedule_samples", FIELD_U64, AT(schedule_samples), 0, SPSH__COUNT_MAX, NULL, "0"},
    {"train.anneal", FIELD_DOUBLE, AT(anneal), 1e-9, 1, NULL, "0.99"},
    {"train.rate_scaling", FIELD_WORD, AT(rate_scaling), WORD(scalings, "none")},
    {"train.rate_seconds", FIELD_DOUBLE, AT(rate_seconds), 0, 1e9, NULL, "0"},
    {"train.epochs", FIELD_U32, AT(epochs), 0, UINT32_MAX, NULL, "70"},
    {"train.samples_max", FIELD_U64, AT(samples_max), 0, SPSH__COUNT_MAX, NULL, "0"},
    {"train.accumulate", FIELD_U32, AT(accumulate), 1, LEARNERS_MAX, NULL, "1"},
    {"train.accumulate_max", FIELD_U32, AT(accumulate_max), 0, LEARNERS_MAX, NULL, "0"},
    {"train.accumulate_samples", FIELD_U64, AT(accumulate_samples), 0, SPSH__COUNT_MAX, NULL, "0"},
    {"train.checkpoint_every_s", FIELD_DOUBLE, AT(checkpoint_every_s), 0, YEAR_S, NULL, "600"},
    {"train.keep", FIELD_U32, AT(keep_checkpoints), 0, CHECKPOINTS, NULL, "3"},
    {"train.deadline_ms", FIELD_U32, AT(deadline_ms), 1, DEADLINE_MAX, NULL, "300000"},
    {"train.on_lost", FIELD_TRUTH, AT(shrinks), WORD(losses, "end")},
    {"eval.every_s", FIELD_DOUBLE, AT(evaluate_every_s), 0, YEAR_S, NULL, "0"},
    {"eval.beam_width", FIELD_U32, AT(beam_width), 0, BEAM_MAX, NULL, "0"},
};
/* clang-format on */
enum { FIELDS = sizeof(fields) / sizeof(fields[0]), NUMBER_BYTES = 40 };
enum { KEY_BYTES = SPSH_SETTINGS_DEPTH_MAX * SPSH_SETTINGS_KEY_BYTES };

static const char *const sections[] = {"data", "model", "train", "eval"};

/* The last value given for a field, as text. */
typedef struct given {
    char *bytes; /* strings, each with its NUL; NULL: the field was not given */
    size_t count;
    bool is_list;
    const char *name; /* name of the file, or the override itself */
    uint64_t line;    /* 0: an override */
} given;

typedef struct reading {
    given given[FIELDS];
    spsh__config *config;
    const char *override; /* override being read; NULL: the file is being read */
} reading;

/* ---- numbers, with a point in every locale ---- */

/* Return false if the text is not a decimal number, or is too large for a double. */
static bool read_double(const char *text, double *ret_value)
{
    double value = 0;
    const size_t size = strlen(text);
    if (size == 0 || spsh_decimal_scan(text, size, &value) != size)
        return false;
    *ret_value = value;
    return true;
}

/* Write the shortest text that reads back to the same double. */
static void write_double(double value, char text[NUMBER_BYTES])
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(c);
    const bool is_whole = value == floor(value) && fabs(value) < 1e15;
    for (int digits = is_whole ? 0 : 1; digits <= 17; digits++) {
        (void)snprintf(text, NUMBER_BYTES, is_whole ? "%.*f" : "%.*g", digits, value);
        double back = 0;
        if (is_whole || (read_double(text, &back) && back == value))
            break;
    }
    (void)uselocale(before);
    if (c != (locale_t)0)
        freelocale(c);
}

/* Only digits, or a whole number in another notation ("1e6"). */
static bool read_u64(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    double number = 0;
    const char *at = text;
    if (spsh__take_digits(&at, UINT64_MAX, &value) && *at == '\0') {
        *ret_value = value;
        return true;
    }
    if (!read_double(text, &number) || number < 0 || number > SPSH__COUNT_MAX ||
        number != floor(number))
        return false;
    *ret_value = (uint64_t)number;
    return true;
}

/* ---- gathering ---- */

/* Where a value was given: "digits.yaml: line 7: train.rate" or "train.rate=x: train.rate". */
typedef struct place {
    char text[256];
} place;

static place place_of(const char *name, uint64_t line, const char *key)
{
    place p;
    if (line == 0)
        (void)snprintf(p.text, sizeof(p.text), "%.160s: %.90s", name, key);
    else
        (void)snprintf(p.text, sizeof(p.text), "%.120s: line %llu: %.90s", name,
                       (unsigned long long)line, key);
    return p;
}

static spsh_status unknown_key(const place *where, const char *key, spsh_error *err)
{
    const char *names[FIELDS + 1] = {NULL};
    for (size_t i = 0; i < FIELDS; i++)
        names[i] = fields[i].name;
    const char *nearest = spsh_nearest_word(key, strlen(key), names);
    for (size_t i = 0; i < FIELDS && nearest == NULL; i++) {
        const char *dot = strrchr(names[i], '.'); /* the right key in the wrong section, or none */
        const char *last = strrchr(key, '.');
        if (strcmp(dot == NULL ? names[i] : dot + 1, last == NULL ? key : last + 1) == 0)
            nearest = names[i];
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: unknown key%s%s%s", where->text,
                     nearest == NULL ? "" : "; did you mean '", nearest == NULL ? "" : nearest,
                     nearest == NULL ? "" : "'?");
}

static bool is_section(const char *key)
{
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (strcmp(sections[i], key) == 0)
            return true;
    return false;
}

/* "data.train" from section and key. */
static void join_keys(const spsh_setting *s, char key[KEY_BYTES])
{
    size_t size = 0;
    for (size_t i = 0; i < SPSH_SETTINGS_DEPTH_MAX && s->keys[i] != NULL; i++)
        size +=
            (size_t)snprintf(key + size, KEY_BYTES - size, "%s%s", i == 0 ? "" : ".", s->keys[i]);
}

static spsh_status take_setting(void *user, const spsh_setting *s, spsh_error *err)
{
    reading *r = (reading *)user;
    const uint64_t line = r->override == NULL ? s->line : 0;
    const char *name = r->override == NULL ? s->name : r->override;
    char key[KEY_BYTES];
    size_t number = 0;
    size_t size = 0;
    join_keys(s, key);
    const place where = place_of(name, line, key);
    while (number < FIELDS && strcmp(fields[number].name, key) != 0)
        number++;
    if (number == FIELDS && is_section(key) && !s->is_list && s->texts[0][0] == '\0')
        return SPSH_OK; /* a section without a key */
    if (number == FIELDS)
        return unknown_key(&where, key, err);
    given *g = &r->given[number];
    if (line > 0 && g->bytes != NULL)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the key is also in line %llu; remove one",
                         where.text, (unsigned long long)g->line);
    for (size_t i = 0; i < s->count; i++)
        size += strlen(s->texts[i]) + 1;
    char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return SPSH_NO_MEMORY(err);
    free(g->bytes);
    *g = (given){bytes, s->count, s->is_list, name, line};
    for (size_t i = 0; i < s->count; i++) {
        const size_t text_size = strlen(s->texts[i]) + 1;
        memcpy(bytes, s->texts[i], text_size);
        bytes += text_size;
    }
    return SPSH_OK;
}

/* A list is YAML. Any other value is taken verbatim, so that a shell needs no second quotes. A key
 * that contains a dot is the section and the key joined by it. */
static spsh_status take_override(reading *r, const char *override, spsh_error *err)
{
    const char *equals = strchr(override, '=');
    const size_t size = equals == NULL ? 0 : (size_t)(equals - override);
    char key[SPSH_SETTINGS_KEY_BYTES];
    if (size == 0 || size >= sizeof(key))
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "'%.200s': expected KEY=VALUE", override);
    memcpy(key, override, size);
    key[size] = '\0';
    const char *value = equals + 1;
    r->override = override;
    if (value[0] != '[') {
        const spsh_setting setting = {override, {key}, &value, 1, false, 0};
        return take_setting(r, &setting, err);
    }
    char *yaml = spsh__new_text("\"%s\": %s", key, value);
    if (yaml == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh_settings_read(yaml, strlen(yaml), override, take_setting, r, err);
    free(yaml);
    return rc;
}

/* ---- from text to fields ---- */

static void *field_at(const field *f, void *config)
{
    return (char *)config + f->offset;
}

static spsh_status set_text(char **to, const char *text, spsh_error *err)
{
    char *copy = strdup(text);
    if (copy == NULL)
        return SPSH_NO_MEMORY(err);
    free(*to);
    *to = copy;
    return SPSH_OK;
}

static spsh_status set_number(const field *f, const char *text, void *to, const place *where,
                              spsh_error *err)
{
    double number = 0;
    uint64_t whole = 0;
    if (f->kind == FIELD_U32 || f->kind == FIELD_U64 || f->kind == FIELD_BOUND) {
        if (!read_u64(text, &whole))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: '%.100s' is not %s", where->text, text,
                             f->kind == FIELD_BOUND ? "'any' or a whole number" : "a whole number");
        number = (double)whole;
    } else if (!read_double(text, &number)) {
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: '%.100s' is not a number", where->text,
                         text);
    }
    if (f->max > 0 && (number < f->min || number > f->max))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %.100s is not in the range %g to %g",
                         where->text, text, f->min, f->max);
    if (f->kind == FIELD_U32 || f->kind == FIELD_BOUND)
        *(uint32_t *)to = (uint32_t)whole;
    else if (f->kind == FIELD_U64)
        *(uint64_t *)to = whole;
    else
        *(double *)to = number;
    return SPSH_OK;
}

/* Report an unknown word, with the closest word, or with a list of all words: "lstm, gru". */
static spsh_status no_such_word(const field *f, const char *text, const place *where,
                                spsh_error *err)
{
    char all[200] = "";
    size_t size = 0;
    const char *nearest = spsh_nearest_word(text, strlen(text), f->words);
    if (nearest != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: unknown value '%.100s'; did you mean '%s'?",
                         where->text, text, nearest);
    for (size_t i = 0; f->words[i] != NULL && size < sizeof(all); i++)
        size += (size_t)snprintf(all + size, sizeof(all) - size, "%s%s", i == 0 ? "" : ", ",
                                 f->words[i]);
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: unknown value '%.100s'; expected one of %s",
                     where->text, text, all);
}

static spsh_status set_word(const field *f, const char *text, void *to, const place *where,
                            spsh_error *err)
{
    uint32_t count = 0;
    for (; f->words[count] != NULL; count++) {
        if (strcmp(f->words[count], text) != 0)
            continue;
        if (f->kind == FIELD_TRUTH)
            *(bool *)to = count == 1;
        else
            *(uint32_t *)to = count;
        return SPSH_OK;
    }
    return no_such_word(f, text, where, err);
}

/* A string. If the field has a list of words, the string must be one of them. */
static spsh_status set_name(const field *f, const char *text, char **to, const place *where,
                            spsh_error *err)
{
    for (size_t i = 0; f->words != NULL; i++) {
        if (f->words[i] == NULL)
            return no_such_word(f, text, where, err);
        if (strcmp(f->words[i], text) == 0)
            break;
    }
    return set_text(to, text, err);
}

static spsh_status set_preset(const char *text, spsh__model_shape *shape, const place *where,
                              spsh_error *err)
{
    spsh_error inner = SPSH_ERROR_INIT;
    *shape = (spsh__model_shape){0};
    const spsh_status rc = spsh__model_preset(text, shape, &inner);
    shape->inputs = 0;
    shape->outputs = 0;
    return rc == SPSH_OK ? SPSH_OK : SPSH_FAIL(err, rc, "%s: %s", where->text, inner.message);
}

static spsh_status set_list(const field *f, const given *g, void *config, const place *where,
                            spsh_error *err)
{
    const bool is_empty = g->count == 1 && !g->is_list && g->bytes[0] == '\0';
    const size_t count = is_empty ? 0 : g->count;
    char **texts = NULL;
    double *numbers = NULL;
    const char *at = g->bytes;
    if (f->kind == FIELD_TEXTS) {
        texts = (char **)calloc(count + 1, sizeof(*texts));
        *(char ***)field_at(f, config) = texts;
    } else if (count > 0) {
        numbers = (double *)calloc(count, sizeof(*numbers));
        *(double **)field_at(f, config) = numbers;
    }
    if (texts == NULL && numbers == NULL)
        return f->kind == FIELD_NUMBERS && count == 0 ? SPSH_OK : SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1) {
        if (at[0] == '\0')
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: the list has an empty item",
                             where->text);
        const spsh_status rc = texts != NULL ? set_text(&texts[i], at, err)
                                             : set_number(f, at, &numbers[i], where, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

static spsh_status set_field(const field *f, const given *g, spsh__config *config, spsh_error *err)
{
    const place where = place_of(g->name, g->line, f->name);
    void *to = field_at(f, config);
    if (f->kind == FIELD_TEXTS || f->kind == FIELD_NUMBERS)
        return set_list(f, g, config, &where, err);
    if (g->is_list)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: expected one value, found a list",
                         where.text);
    switch (f->kind) {
    case FIELD_TEXT: return set_name(f, g->bytes, (char **)to, &where, err);
    case FIELD_BOUND:
        if (strcmp(g->bytes, "any") == 0) {
            *(uint32_t *)to = UINT32_MAX;
            return SPSH_OK;
        }
        return set_number(f, g->bytes, to, &where, err);
    case FIELD_TRUTH:
    case FIELD_WORD: return set_word(f, g->bytes, to, &where, err);
    case FIELD_PRESET: return set_preset(g->bytes, (spsh__model_shape *)to, &where, err);
    case FIELD_DOUBLE:
    case FIELD_U32:
    case FIELD_U64: return set_number(f, g->bytes, to, &where, err);
    case FIELD_TEXTS:
    case FIELD_NUMBERS: break;
    }
    return SPSH_OK;
}

static spsh_status set_default(const field *f, spsh__config *config, spsh_error *err)
{
    char empty[] = "";
    char text[32] = "";
    const given g = {f->otherwise == NULL ? empty : text, 1, false, "default", 0};
    if (f->otherwise == NULL && f->kind != FIELD_TEXTS && f->kind != FIELD_NUMBERS)
        return SPSH_OK; /* keep the preset's value */
    if (f->otherwise != NULL)
        (void)snprintf(text, sizeof(text), "%s", f->otherwise);
    return set_field(f, &g, config, err);
}

/* ---- checks that involve several keys ---- */

static const given *given_of(const reading *r, const char *name)
{
    size_t number = 0;
    while (strcmp(fields[number].name, name) != 0)
        number++;
    return &r->given[number];
}

static spsh_status take_features(const reading *r, spsh_error *err)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_error inner = SPSH_ERROR_INIT;
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    char augment_text[SPSH_AUGMENT_TEXT_BYTES_MAX];
    const char *key = "features";
    spsh__config *config = r->config;
    spsh_status rc = spsh_feature_options_parse(config->features, &features, &inner);
    if (rc == SPSH_OK) {
        key = "augment";
        rc = spsh_augment_options_parse(config->augment[0] == '\0' ? "none" : config->augment,
                                        &augment, &inner);
    }
    if (rc != SPSH_OK) {
        const given *g = given_of(r, key); /* the default is valid, so the value was given */
        const place where = place_of(g->name, g->line, key);
        return SPSH_FAIL(err, rc, "%s: %s", where.text, inner.message);
    }
    (void)spsh_feature_options_text(&features, text, sizeof(text));
    (void)spsh_augment_options_text(&augment, augment_text, sizeof(augment_text));
    rc = set_text(&config->features, text, err);
    return rc == SPSH_OK ? set_text(&config->augment, augment_text, err) : rc;
}

/* Check the device: "auto", or a device number that a machine may have. */
static spsh_status check_device(const reading *r, spsh_error *err)
{
    uint64_t number = 0;
    const char *text = r->config->device;
    if (strcmp(text, "auto") == 0 || (read_u64(text, &number) && number < DEVICES_MAX))
        return SPSH_OK;
    const given *g = given_of(r, "train.device");
    const place where = place_of(g->name, g->line, "train.device");
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: '%.100s' is not auto or a device number",
                     where.text, text);
}

static bool sums_gradients(const spsh__config *c)
{
    static const char *const names[] = {"allreduce", "partitioned", "ps-sync", "hierarchical"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(c->strategy, names[i]) == 0)
            return true;
    return false;
}

static spsh_status check_together(const reading *r, spsh_error *err)
{
    const spsh__config *c = r->config;
    const bool is_hybrid = c->model.kind == SPSH__MODEL_LSTM_HYBRID;
    const struct {
        bool is_wrong;
        const char *what;
        /* clang-format off */
    } rules[] = {
        {is_hybrid && c->alignments[0] == NULL,
         "data.alignments is not set, but lstm-hybrid needs alignments: one state per frame"},
        {!is_hybrid && c->alignments[0] != NULL,
         "data.alignments is set, but only lstm-hybrid is trained on alignments"},
        {!is_hybrid && c->model.outputs > 0,
         "model.outputs is set, but only lstm-hybrid has it; other models have one output per symbol "
         "of the vocabulary"},
        {!is_hybrid && c->model.chunk_frames > 0,
         "model.chunk_frames is set, but only lstm-hybrid is trained on chunks"},
        {c->model.outputs == 1, "model.outputs is 1; expected 2 or more states, or 0"},
        {c->utterance_seconds_max > 0 && c->utterance_seconds_max < c->utterance_seconds_min,
         "data.utterance_seconds_max is less than data.utterance_seconds_min"},
        {c->epochs == 0 && c->samples_max == 0,
         "train.epochs and train.samples_max are both 0, so training would not end; set one"},
        {c->gradient_exchange > 0 && !sums_gradients(c),
         "train.gradient_exchange is not fp32, but only the strategies allreduce, partitioned, "
         "ps-sync, and hierarchical add up gradients"},
        {c->gradient_exchange == 2 && c->precision != 1 + SPSH__FP16,
         "train.gradient_exchange is fp16, which needs the loss scale of train.precision=fp16; use "
         "bf16"},
        {!c->is_adamw && c->sgd.is_nesterov && c->sgd.momentum <= 0,
         "train.nesterov needs a train.momentum greater than 0"},
        {c->schedule == SPSH__SCHEDULE_COSINE && c->schedule_samples > 0 && c->warm_up_epochs <= 0 &&
             c->schedule_samples <= c->warm_up_samples,
         "train.schedule_samples must be greater than train.warm_up_samples"},
        {(c->rate_scaling != SPSH__SCALING_NONE) != (c->rate_seconds > 0),
         "train.rate_scaling needs train.rate_seconds, the seconds per update that train.rate is "
         "meant for; set both or none"},
        {(c->accumulate_max > 0) != (c->accumulate_samples > 0),
         "train.accumulate grows only with both train.accumulate_samples and train.accumulate_max"},
        {c->accumulate_max > 0 && c->accumulate_max < c->accumulate,
         "train.accumulate_max is less than train.accumulate"},
    };
    /* clang-format on */
    const given *weights = given_of(r, "data.train_weights");
    size_t trained = 0;
    while (c->train[trained] != NULL)
        trained++;
    if (trained == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "data.train names no dataset");
    if (c->train_weights != NULL && weights->count != trained)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "data.train_weights has %zu numbers, but data.train has %zu datasets",
                         weights->count, trained);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].is_wrong)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s", rules[i].what);
    return SPSH_OK;
}

static spsh_status resolve(reading *r, spsh_error *err)
{
    spsh__config *c = r->config;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < FIELDS && rc == SPSH_OK; i++) /* the table lists the preset first */
        rc = r->given[i].bytes == NULL ? set_default(&fields[i], c, err)
                                       : set_field(&fields[i], &r->given[i], c, err);
    if (rc == SPSH_OK)
        rc = take_features(r, err);
    if (rc != SPSH_OK)
        return rc;
    c->sgd.rate = c->adamw.rate;
    c->sgd.weight_decay = c->adamw.weight_decay;
    rc = check_device(r, err);
    return rc != SPSH_OK ? rc : check_together(r, err);
}

static spsh_status parse(const char *yaml, size_t size, const char *name,
                         const char *const *overrides, spsh__config **ret, spsh_error *err)
{
    reading *r = calloc(1, sizeof(*r));
    spsh_status rc = SPSH_OK;
    if (r == NULL)
        return SPSH_NO_MEMORY(err);
    r->config = calloc(1, sizeof(*r->config));
    rc = r->config == NULL ? SPSH_NO_MEMORY(err)
                           : spsh_settings_read(yaml, size, name, take_setting, r, err);
    for (size_t i = 0; overrides != NULL && overrides[i] != NULL && rc == SPSH_OK; i++)
        rc = take_override(r, overrides[i], err);
    if (rc == SPSH_OK)
        rc = resolve(r, err);
    if (rc == SPSH_OK) {
        *ret = r->config;
        r->config = NULL;
    }
    for (size_t i = 0; i < FIELDS; i++)
        free(r->given[i].bytes);
    spsh__config_free(r->config);
    free(r);
    return rc;
}

/* ---- writing ---- */

static void append_number(spsh__settings_text *to, double value)
{
    char text[NUMBER_BYTES];
    write_double(value, text);
    spsh__settings_append(to, text);
}

static void append_list(spsh__settings_text *to, const field *f, const spsh__config *c)
{
    char *const *texts = NULL;
    size_t count = 0;
    if (f->kind == FIELD_TEXTS)
        texts = *(char *const *const *)(const void *)((const char *)c + f->offset);
    else if (c->train_weights != NULL)
        while (c->train[count] != NULL)
            count++;
    while (texts != NULL && texts[count] != NULL)
        count++;
    spsh__settings_append(to, "[");
    for (size_t i = 0; i < count; i++) {
        spsh__settings_append(to, i == 0 ? "" : ", ");
        if (texts != NULL)
            spsh__settings_append_quoted(to, texts[i]);
        else
            append_number(to, c->train_weights[i]);
    }
    spsh__settings_append(to, "]");
}

static void append_whole(spsh__settings_text *to, uint64_t value)
{
    char text[NUMBER_BYTES];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    spsh__settings_append(to, text);
}

static void append_value(spsh__settings_text *to, const field *f, const spsh__config *c)
{
    const void *at = (const char *)c + f->offset;
    switch (f->kind) {
    case FIELD_TEXT: spsh__settings_append_quoted(to, *(char *const *)at); break;
    case FIELD_TEXTS:
    case FIELD_NUMBERS: append_list(to, f, c); break;
    case FIELD_DOUBLE: append_number(to, *(const double *)at); break;
    case FIELD_U32: append_whole(to, *(const uint32_t *)at); break;
    case FIELD_BOUND:
        if (*(const uint32_t *)at == UINT32_MAX)
            spsh__settings_append(to, "any");
        else
            append_whole(to, *(const uint32_t *)at);
        break;
    case FIELD_U64: append_whole(to, *(const uint64_t *)at); break;
    case FIELD_TRUTH: spsh__settings_append(to, f->words[*(const bool *)at ? 1 : 0]); break;
    case FIELD_WORD: spsh__settings_append(to, f->words[*(const uint32_t *)at]); break;
    case FIELD_PRESET: /* the other model keys are written, too, so only the kind matters */
        spsh__settings_append(to, c->model.kind == SPSH__MODEL_DS2 ? "ds2" : "lstm-hybrid");
        break;
    }
}

char *spsh__config_text(const spsh__config *config)
{
    spsh__settings_text to = {0};
    const char *section = "";
    size_t section_size = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        const char *dot = strchr(fields[i].name, '.');
        const size_t size = dot == NULL ? 0 : (size_t)(dot - fields[i].name);
        if (size != section_size || memcmp(section, fields[i].name, size) != 0) {
            char name[SPSH_SETTINGS_KEY_BYTES];
            (void)snprintf(name, sizeof(name), "%.*s:\n", (int)size, fields[i].name);
            spsh__settings_append(&to, name);
            section = fields[i].name;
            section_size = size;
        }
        spsh__settings_append(&to, dot == NULL ? "" : "  ");
        spsh__settings_append(&to, dot == NULL ? fields[i].name : dot + 1);
        spsh__settings_append(&to, ": ");
        append_value(&to, &fields[i], config);
        spsh__settings_append(&to, "\n");
    }
    return spsh__settings_take(&to);
}

/* ---- complete configurations ---- */

spsh_status spsh__config_parse(const char *yaml, size_t size, const char *const *overrides,
                               spsh__config **ret, spsh_error *err)
{
    return parse(yaml, size, "configuration", overrides, ret, err);
}

spsh_status spsh__config_read(const char *path, const char *const *overrides, const spsh_io *io,
                              spsh__config **ret, spsh_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    const spsh_allocator *allocator = spsh_allocator_default();
    spsh_status rc = spsh_io_read_file(io == NULL ? spsh_io_default() : io, path,
                                       SPSH_SETTINGS_BYTES_MAX, allocator, &data, &size, err);
    if (rc != SPSH_OK)
        return rc;
    rc = parse((const char *)data, size, path, overrides, ret, err);
    allocator->free_fn(allocator->user, data);
    return rc;
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++)
        free(texts[i]);
    free(texts);
}

void spsh__config_free(spsh__config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < FIELDS; i++) {
        void *at = field_at(&fields[i], config);
        if (fields[i].kind == FIELD_TEXT)
            free(*(char **)at);
        else if (fields[i].kind == FIELD_TEXTS)
            free_texts(*(char ***)at);
    }
    free(config->train_weights);
    free(config);
}
