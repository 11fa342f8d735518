/* py_options.c: the keywords of Loader, in one table.
 *
 * Each row has the function that parses a value, and the member of spsh__py_config that stores it.
 * None means the default for every keyword. This file checks types, and whether numbers fit. The
 * library checks the rest, such as the limits of a batch and the names of domains.
 */
#include <stddef.h>
#include <string.h>

#include "py_binding.h"
#include "speechshard/inside.h"

typedef struct option_row option_row;
typedef int (*parse_fn)(const option_row *option, PyObject *value, spsh__py_config *config);

struct option_row {
    const char *name;
    parse_fn parse;
    size_t offset; /* in spsh__py_config */
    const spsh__py_choice *choices;
};

static void *place_of(const option_row *option, spsh__py_config *config)
{
    return (char *)config + option->offset;
}

/* ---- numbers ---- */

static int read_u64(const option_row *option, PyObject *value, uint64_t max, uint64_t *ret_number)
{
    PyObject *index = PyNumber_Index(value);
    if (index == NULL)
        return SPSH_PY_FAIL(PyExc_TypeError, "%s must be an integer", option->name);
    *ret_number = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (PyErr_Occurred() == NULL && *ret_number <= max)
        return 0;
    return SPSH_PY_FAIL(PyExc_ValueError, "%s must be an integer from 0 to %llu", option->name,
                        (unsigned long long)max);
}

static int parse_u64(const option_row *option, PyObject *value, spsh__py_config *config)
{
    return read_u64(option, value, UINT64_MAX, (uint64_t *)place_of(option, config));
}

static int parse_u32(const option_row *option, PyObject *value, spsh__py_config *config)
{
    uint64_t number = 0;
    if (read_u64(option, value, UINT32_MAX, &number) != 0)
        return -1;
    *(uint32_t *)place_of(option, config) = (uint32_t)number;
    return 0;
}

static int read_real(const option_row *option, PyObject *value, double *ret_number)
{
    *ret_number = PyFloat_AsDouble(value);
    if (*ret_number == -1.0 && PyErr_Occurred() != NULL)
        return SPSH_PY_FAIL(PyExc_TypeError, "%s must be a number", option->name);
    return 0;
}

static int parse_real(const option_row *option, PyObject *value, spsh__py_config *config)
{
    return read_real(option, value, (double *)place_of(option, config));
}

static int parse_single(const option_row *option, PyObject *value, spsh__py_config *config)
{
    double number = 0;
    const int rc = read_real(option, value, &number);
    *(float *)place_of(option, config) = (float)number;
    return rc;
}

/* ---- words ---- */

static int parse_word(const option_row *option, PyObject *value, spsh__py_config *config)
{
    for (const spsh__py_choice *at = option->choices; at->word != NULL; at++) {
        if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, at->word) == 0) {
            *(int *)place_of(option, config) = at->value;
            return 0;
        }
    }
    return spsh__py_refuse_word(option->name, option->choices, value);
}

static int parse_output(const option_row *option, PyObject *value, spsh__py_config *config)
{
    config->has_output = true;
    return parse_word(option, value, config);
}

/* "mix", "all", or a channel number from 1. */
static int parse_channel(const option_row *option, PyObject *value, spsh__py_config *config)
{
    uint64_t number = 0;
    int32_t *channel = (int32_t *)place_of(option, config);
    if (PyUnicode_Check(value)) {
        if (parse_word(option, value, config) != 0)
            return -1;
        if (*channel == SPSH_CHANNEL_ALL)
            config->plan.flags |= SPSH_PLAN_BY_CHANNELS;
        return 0;
    }
    if (read_u64(option, value, INT32_MAX, &number) != 0)
        return -1;
    if (number == 0)
        return SPSH_PY_FAIL(PyExc_ValueError,
                            "channel must be \"mix\", \"all\" or a number from 1");
    *channel = (int32_t)number;
    return 0;
}

/* True, False, or the number of adjacent utterances that stay together. */
static int parse_shuffle(const option_row *option, PyObject *value, spsh__py_config *config)
{
    if (value == Py_True)
        return 0;
    if (value == Py_False) {
        config->plan.flags |= SPSH_PLAN_IN_ORDER;
        return 0;
    }
    if (parse_u32(option, value, config) != 0)
        return -1;
    if (config->plan.shuffle_block_utterances > 0)
        return 0;
    return SPSH_PY_FAIL(PyExc_ValueError, "shuffle must be True, False or a number from 1");
}

static int parse_drop_last(const option_row *option, PyObject *value, spsh__py_config *config)
{
    (void)option;
    int is_true = PyObject_IsTrue(value);
    if (is_true > 0)
        config->plan.flags |= SPSH_PLAN_DROP_LAST;
    return is_true < 0 ? -1 : 0;
}

static int parse_cached(const option_row *option, PyObject *value, spsh__py_config *config)
{
    (void)option;
    int is_true = PyObject_IsTrue(value);
    if (is_true >= 0)
        config->options.flags |= is_true ? SPSH_LOADER_CACHED : SPSH_LOADER_DIRECT;
    return is_true < 0 ? -1 : 0;
}

/* ---- strings, lists, weights ---- */

static int parse_path(const option_row *option, PyObject *value, spsh__py_config *config)
{
    const char *path = spsh__py_keep(config->kept, spsh__py_path(value));
    *(const char **)place_of(option, config) = path;
    return path == NULL ? -1 : 0;
}

static PyObject *name_tuple(const option_row *option, PyObject *value)
{
    if (PyUnicode_Check(value))
        return PyTuple_Pack(1, value);
    PyObject *tuple = PySequence_Tuple(value);
    if (tuple == NULL)
        PyErr_Format(PyExc_TypeError, "%s must be a str or a sequence of them", option->name);
    return tuple;
}

static int read_names(const option_row *option, PyObject *value, spsh__py_config *config,
                      const char *const **ret_names, uint32_t *ret_count)
{
    PyObject *tuple = name_tuple(option, value);
    if (tuple == NULL)
        return -1;
    const Py_ssize_t count = PyTuple_Size(tuple);
    const char **names = (const char **)spsh__py_keep_array(config->kept, count, sizeof(char *));
    int rc = names == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; rc == 0 && i < count; i++) {
        names[i] =
            spsh__py_keep(config->kept, spsh__py_utf8(PyTuple_GetItem(tuple, i), option->name));
        rc = names[i] == NULL ? -1 : 0;
    }
    Py_DECREF(tuple);
    *ret_names = names;
    *ret_count = (uint32_t)count;
    return rc;
}

static int parse_splits(const option_row *option, PyObject *value, spsh__py_config *config)
{
    spsh_plan_options *plan = &config->plan;
    return read_names(option, value, config, &plan->splits, &plan->split_count);
}

static int parse_domains(const option_row *option, PyObject *value, spsh__py_config *config)
{
    spsh_plan_options *plan = &config->plan;
    return read_names(option, value, config, &plan->domains, &plan->domain_count);
}

static int parse_languages(const option_row *option, PyObject *value, spsh__py_config *config)
{
    spsh_plan_options *plan = &config->plan;
    return read_names(option, value, config, &plan->languages, &plan->language_count);
}

/* "name", or (dataset number, "name"). */
static int read_weight_key(const option_row *option, PyObject *key, spsh__py_config *config,
                           spsh_weight *weight)
{
    uint64_t dataset = SPSH_NONE_U32;
    PyObject *name = key;
    if (PyTuple_Check(key) && PyTuple_Size(key) == 2) {
        if (read_u64(option, PyTuple_GetItem(key, 0), SPSH_PLAN_DATASETS_MAX, &dataset) != 0)
            return -1;
        name = PyTuple_GetItem(key, 1);
    }
    weight->dataset = (uint32_t)dataset;
    weight->domain = spsh__py_keep(config->kept, spsh__py_utf8(name, "a domain in weights"));
    return weight->domain == NULL ? -1 : 0;
}

static int parse_weights(const option_row *option, PyObject *value, spsh__py_config *config)
{
    Py_ssize_t at = 0;
    PyObject *key = NULL, *number = NULL;
    if (!PyDict_Check(value))
        return SPSH_PY_FAIL(PyExc_TypeError, "weights must be a dict of domains to numbers");
    spsh_plan_options *plan = &config->plan;
    spsh_weight *weight =
        (spsh_weight *)spsh__py_keep_array(config->kept, PyDict_Size(value), sizeof(*weight));
    if (weight == NULL)
        return -1;
    plan->weights = weight;
    for (; PyDict_Next(value, &at, &key, &number); weight++) {
        plan->weight_count++;
        if (read_weight_key(option, key, config, weight) != 0)
            return -1;
        weight->weight = PyFloat_AsDouble(number);
        if (PyErr_Occurred() != NULL)
            return -1;
    }
    return 0;
}

/* ---- features ---- */

/* Raise any error in an option text, which the library parsed, as InvalidArgumentError. */
static int check_text(spsh_status rc, spsh_error *err)
{
    err->status = SPSH_E_INVALID_ARG;
    return rc == SPSH_OK ? 0 : SPSH_PY_RAISE(err);
}

static int parse_features(const option_row *option, PyObject *value, spsh__py_config *config)
{
    spsh_error err = SPSH_ERROR_INIT;
    const char *text = spsh__py_keep(config->kept, spsh__py_utf8(value, option->name));
    if (text == NULL)
        return -1;
    config->options.features = &config->features;
    return check_text(spsh_feature_options_parse(text, &config->features, &err), &err);
}

static int parse_augment(const option_row *option, PyObject *value, spsh__py_config *config)
{
    spsh_error err = SPSH_ERROR_INIT;
    const char *text = spsh__py_keep(config->kept, spsh__py_utf8(value, option->name));
    if (text == NULL)
        return -1;
    config->options.augment = &config->augment;
    return check_text(spsh_augment_options_parse(text, &config->augment, &err), &err);
}

/* "cpu", "cuda", or "cuda:N". */
static int parse_device(const option_row *option, PyObject *value, spsh__py_config *config)
{
    uint64_t number = 0;
    const char *text = spsh__py_keep(config->kept, spsh__py_utf8(value, option->name));
    if (text == NULL)
        return -1;
    if (strcmp(text, "cpu") == 0)
        return 0;
    bool is_good = strncmp(text, "cuda", 4) == 0;
    if (is_good && text[4] == ':') {
        text += 5;
        is_good = spsh__take_digits(&text, UINT16_MAX, &number) && *text == '\0';
    } else {
        is_good = is_good && text[4] == '\0';
    }
    if (!is_good)
        return SPSH_PY_FAIL(PyExc_ValueError, "device must be \"cpu\", \"cuda\" or \"cuda:1\"");
    config->device = (int64_t)number;
    return 0;
}

/* The Loader finds the columns when its datasets are open. */
static int parse_columns(const option_row *option, PyObject *value, spsh__py_config *config)
{
    PyObject *tuple = name_tuple(option, value);
    int rc = tuple == NULL ? -1 : PyList_Append(config->kept, tuple);
    for (Py_ssize_t i = 0; rc == 0 && i < PyTuple_Size(tuple); i++)
        if (!PyUnicode_Check(PyTuple_GetItem(tuple, i)))
            rc = SPSH_PY_FAIL(PyExc_TypeError, "%s must be a str or a sequence of them",
                              option->name);
    config->columns = rc == 0 && PyTuple_Size(tuple) > 0 ? tuple : NULL;
    Py_XDECREF(tuple);
    return rc;
}

/* Datasets are only stored here, and opened later. */
static int parse_object(const option_row *option, PyObject *value, spsh__py_config *config)
{
    *(PyObject **)place_of(option, config) = value;
    return 0;
}

static int parse_log(const option_row *option, PyObject *value, spsh__py_config *config)
{
    if (!PyCallable_Check(value))
        return SPSH_PY_FAIL(PyExc_TypeError, "log must be callable: log(level, text)");
    return parse_object(option, value, config);
}

/* ---- the table ---- */

static const spsh__py_choice units[] = {
    {"seconds",    SPSH_UNIT_SECONDS   },
    {"utterances", SPSH_UNIT_UTTERANCES},
    {"tokens",     SPSH_UNIT_TOKENS    },
    {NULL,         0                   }
};
static const spsh__py_choice duplicates[] = {
    {"all",  SPSH_DUPLICATES_ALL },
    {"once", SPSH_DUPLICATES_ONCE},
    {NULL,   0                   }
};
static const spsh__py_choice longs[] = {
    {"error", SPSH_LONG_ERROR},
    {"drop",  SPSH_LONG_DROP },
    {"split", SPSH_LONG_SPLIT},
    {NULL,    0              }
};
static const spsh__py_choice outputs[] = {
    {"int16",    SPSH_OUTPUT_INT16   },
    {"float32",  SPSH_OUTPUT_FLOAT32 },
    {"features", SPSH_OUTPUT_FEATURES},
    {NULL,       0                   }
};
static const spsh__py_choice dtypes[] = {
    {"float32", SPSH_FLOAT32},
    {"float16", SPSH_FLOAT16},
    {NULL,      0           }
};
static const spsh__py_choice channels[] = {
    {"mix", SPSH_CHANNEL_MIX},
    {"all", SPSH_CHANNEL_ALL},
    {NULL,  0               }
};
static const spsh__py_choice engines[] = {
    {"auto",     SPSH_ENGINE_AUTO },
    {"io_uring", SPSH_ENGINE_URING},
    {"pread",    SPSH_ENGINE_PREAD},
    {NULL,       0                }
};
static const spsh__py_choice decodes[] = {
    {"host",   SPSH_DECODE_HOST  },
    {"device", SPSH_DECODE_DEVICE},
    {NULL,     0                 }
};
static const spsh__py_choice undecodables[] = {
    {"skip", SPSH_UNDECODABLE_SKIP},
    {"fail", SPSH_UNDECODABLE_FAIL},
    {NULL,   0                    }
};
static const spsh__py_choice on_errors[] = {
    {"fail",       SPSH_ON_ERROR_FAIL      },
    {"skip",       SPSH_ON_ERROR_SKIP      },
    {"substitute", SPSH_ON_ERROR_SUBSTITUTE},
    {NULL,         0                       }
};

/* parse_word writes enums through an int pointer. */
_Static_assert(sizeof(spsh_unit) == sizeof(int) && sizeof(int32_t) == sizeof(int),
               "enums are ints");

#define AT(member_) offsetof(spsh__py_config, member_)
static const option_row options[] = {
    {"seed",               parse_u64,       AT(plan.seed),                     NULL        },
    {"rank",               parse_u32,       AT(options.rank),                  NULL        },
    {"world_size",         parse_u32,       AT(options.world_size),            NULL        },
    {"max_seconds",        parse_real,      AT(plan.batch_seconds_max),        NULL        },
    {"max_padded_seconds", parse_real,      AT(plan.batch_padded_seconds_max), NULL        },
    {"max_utterances",     parse_u32,       AT(plan.batch_utterances_max),     NULL        },
    {"alpha",              parse_real,      AT(plan.alpha),                    NULL        },
    {"weights",            parse_weights,   0,                                 NULL        },
    {"unit",               parse_word,      AT(plan.unit),                     units       },
    {"splits",             parse_splits,    0,                                 NULL        },
    {"domains",            parse_domains,   0,                                 NULL        },
    {"languages",          parse_languages, 0,                                 NULL        },
    {"min_duration",       parse_real,      AT(plan.utterance_seconds_min),    NULL        },
    {"max_duration",       parse_real,      AT(plan.utterance_seconds_max),    NULL        },
    {"max_per_speaker",    parse_u32,       AT(plan.speaker_utterances_max),   NULL        },
    {"duplicates",         parse_word,      AT(plan.duplicates),               duplicates  },
    {"long",               parse_word,      AT(plan.long_utterances),          longs       },
    {"output",             parse_output,    AT(options.output),                outputs     },
    {"features",           parse_features,  0,                                 NULL        },
    {"feature_dtype",      parse_word,      AT(options.feature_dtype),         dtypes      },
    {"feature_padding",    parse_single,    AT(options.feature_padding),       NULL        },
    {"augment",            parse_augment,   0,                                 NULL        },
    {"noise",              parse_object,    AT(noise),                         NULL        },
    {"rooms",              parse_object,    AT(rooms),                         NULL        },
    {"sample_rate_hz",     parse_u32,       AT(plan.sample_rate_hz),           NULL        },
    {"channel",            parse_channel,   AT(options.channel),               channels    },
    {"shuffle",            parse_shuffle,   AT(plan.shuffle_block_utterances), NULL        },
    {"window",             parse_u32,       AT(plan.window_utterances),        NULL        },
    {"virtual_world_size", parse_u32,       AT(plan.virtual_world_size),       NULL        },
    {"drop_last",          parse_drop_last, 0,                                 NULL        },
    {"threads",            parse_u32,       AT(options.decode_threads),        NULL        },
    {"slots",              parse_u32,       AT(options.slots),                 NULL        },
    {"memory_bytes",       parse_u64,       AT(options.memory_bytes),          NULL        },
    {"engine",             parse_word,      AT(options.engine),                engines     },
    {"cached",             parse_cached,    0,                                 NULL        },
    {"on_error",           parse_word,      AT(options.on_error),              on_errors   },
    {"quarantine_max",     parse_u64,       AT(options.quarantine_max),        NULL        },
    {"undecodable",        parse_word,      AT(options.undecodable),           undecodables},
    {"cache_dir",          parse_path,      AT(plan.cache_dir),                NULL        },
    {"device",             parse_device,    0,                                 NULL        },
    {"decode",             parse_word,      AT(options.decode),                decodes     },
    {"columns",            parse_columns,   0,                                 NULL        },
    {"log",                parse_log,       AT(log),                           NULL        },
};

static const option_row *find_option(PyObject *name)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (PyUnicode_CompareWithASCIIString(name, options[i].name) == 0)
            return &options[i];
    }
    return NULL;
}

static int refuse_keyword(PyObject *name)
{
    enum { COUNT = sizeof(options) / sizeof(options[0]) };
    const char *names[COUNT + 1] = {NULL};
    for (size_t i = 0; i < COUNT; i++)
        names[i] = options[i].name;
    return spsh__py_refuse_keyword("Loader", name, names);
}

int spsh__py_config_parse(PyObject *keywords, spsh__py_config *config)
{
    *config = (spsh__py_config){.options = SPSH_LOADER_OPTIONS_INIT,
                                .plan = SPSH_PLAN_OPTIONS_INIT,
                                .features = SPSH_FEATURE_OPTIONS_INIT,
                                .augment = SPSH_AUGMENT_OPTIONS_INIT,
                                .kept = PyList_New(0),
                                .device = -1};
    config->options.plan = &config->plan;
    Py_ssize_t at = 0;
    PyObject *name = NULL, *value = NULL;
    if (config->kept == NULL)
        return -1;
    while (keywords != NULL && PyDict_Next(keywords, &at, &name, &value)) {
        const option_row *option = find_option(name);
        if (option == NULL)
            return refuse_keyword(name);
        if (value != Py_None && option->parse(option, value, config) != 0)
            return -1;
    }
    if (config->options.features != NULL && !config->has_output)
        config->options.output = SPSH_OUTPUT_FEATURES;
    return 0;
}

void spsh__py_config_clear(spsh__py_config *config)
{
    Py_CLEAR(config->kept);
}
