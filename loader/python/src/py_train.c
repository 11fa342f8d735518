/* py_train.c: speechshard.train and make_vocab, over train.h. */
#include <string.h>

#include "py_work.h"
#include "speechshard/options.h"
#include "speechshard/train.h"

enum { SYMBOLS_MAX = 65536 };

static PyObject *report_class, *vocabulary_class;
static bool is_training; /* a process trains one run at a time; guarded by the GIL */

typedef struct train_call {
    spsh__py_work work;
    const char *config, *output, *strategy, *rendezvous, *link, *simulate, *replay;
    int resume;
    bool record;
    spsh__py_texts slow, freeze, kill;
    const char *kind, *profile; /* arguments of make_vocab, like symbols */
    uint64_t symbols;
    PyObject *overrides; /* list of bytes "KEY=VALUE" */
    const char **texts;  /* pointers into overrides */
    spsh_train_options options;
    spsh_train_result result;
} train_call;

/* ---- overrides ---- */

static PyObject *value_text(PyObject *value);

/* "[a, b]", as in the configuration. */
static PyObject *list_text(PyObject *value)
{
    PyObject *tuple = PySequence_Tuple(value);
    PyObject *text = tuple == NULL ? NULL : PyUnicode_FromString("[");
    for (Py_ssize_t i = 0; text != NULL && i < PyTuple_Size(tuple); i++) {
        PyObject *item = value_text(PyTuple_GetItem(tuple, i));
        PyObject *longer =
            item == NULL ? NULL : PyUnicode_FromFormat("%U%s%U", text, i == 0 ? "" : ", ", item);
        Py_XDECREF(item);
        Py_DECREF(text);
        text = longer;
    }
    PyObject *closed = text == NULL ? NULL : PyUnicode_FromFormat("%U]", text);
    Py_XDECREF(text);
    Py_XDECREF(tuple);
    return closed;
}

/* A value as the configuration file writes it. */
static PyObject *value_text(PyObject *value)
{
    if (PyBool_Check(value))
        return PyUnicode_FromString(value == Py_True ? "true" : "false");
    if (PyList_Check(value) || PyTuple_Check(value))
        return list_text(value);
    return PyObject_Str(value);
}

static int put_override(PyObject *name, PyObject *value, train_call *c)
{
    PyObject *text = value_text(value);
    PyObject *whole = text == NULL ? NULL : PyUnicode_FromFormat("%S=%U", name, text);
    PyObject *bytes = whole == NULL ? NULL : spsh__py_utf8(whole, "a key or its value");
    Py_XDECREF(text);
    Py_XDECREF(whole);
    return spsh__py_list_take(c->overrides, bytes);
}

/* Take a keyword with a dot as an override, such as **{"train.rate": 3e-4}. */
static int take_other(PyObject *name, PyObject *value, spsh__py_work *work)
{
    return put_override(name, value, (train_call *)work);
}

static int take_overrides(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                          void *place)
{
    (void)keyword, (void)place;
    train_call *c = (train_call *)work;
    Py_ssize_t at = 0;
    PyObject *name = NULL, *item = NULL;
    if (!PyDict_Check(value))
        return SPSH_PY_FAIL(PyExc_TypeError,
                            "overrides must be a dict, such as {\"train.rate\": 3e-4}");
    while (PyDict_Next(value, &at, &name, &item))
        if (put_override(name, item, c) != 0)
            return -1;
    return 0;
}

/* ---- arguments ---- */

static const spsh__py_choice resumes[] = {
    {"no",   0},
    {"auto", 1},
    {NULL,   0}
};

#define AT(member_) offsetof(train_call, member_)
/* clang-format off */
static const spsh__py_keyword keywords[] = {
    {"config",     spsh__py_take_path,  AT(config),     NULL,    0, 0},
    {"output",     spsh__py_take_path,  AT(output),     NULL,    0, 0},
    {"overrides",  take_overrides,      0,              NULL,    0, 0},
    {"resume",     spsh__py_take_word,  AT(resume),     resumes, 0, 0},
    {"strategy",   spsh__py_take_text,  AT(strategy),   NULL,    0, 0},
    {"rendezvous", spsh__py_take_text,  AT(rendezvous), NULL,    0, 0},
    {"simulate",   spsh__py_take_text,  AT(simulate),   NULL,    0, 0},
    {"slow",       spsh__py_take_texts, AT(slow),       NULL,    0, 0},
    {"link",       spsh__py_take_text,  AT(link),       NULL,    0, 0},
    {"freeze",     spsh__py_take_texts, AT(freeze),     NULL,    0, 0},
    {"kill",       spsh__py_take_texts, AT(kill),       NULL,    0, 0},
    {"record",     spsh__py_take_flag,  AT(record),     NULL,    0, 0},
    {"replay",     spsh__py_take_path,  AT(replay),     NULL,    0, 0},
    SPSH_PY_WORK_KEYWORDS
};
/* clang-format on */

static const spsh__py_function function = {"train", keywords, 2, 0, take_other};

/* clang-format off */
static const spsh__py_keyword vocab_keywords[] = {
    {"config",    spsh__py_take_path,  AT(config),  NULL, 0, 0},
    {"overrides", take_overrides,      0,           NULL, 0, 0},
    {"kind",      spsh__py_take_text,  AT(kind),    NULL, 0, 0},
    {"profile",   spsh__py_take_text,  AT(profile), NULL, 0, 0},
    {"symbols",   spsh__py_take_count, AT(symbols), NULL, 2, SYMBOLS_MAX},
    {NULL,        NULL,                0,           NULL, 0, 0}
};
/* clang-format on */

static const spsh__py_function vocab_function = {"make_vocab", vocab_keywords, 1, 1, take_other};

static int add_strategy(train_call *c)
{
    if (c->strategy == NULL)
        return 0;
    return spsh__py_list_take(c->overrides, PyBytes_FromFormat("train.strategy=%s", c->strategy));
}

static int check(const train_call *c)
{
    if (c->output == NULL)
        return SPSH_PY_FAIL(PyExc_TypeError, "train() needs the argument 'output'");
    if (c->config == NULL && c->resume == 0 && c->replay == NULL)
        return SPSH_PY_FAIL(PyExc_TypeError,
                            "train() needs the argument 'config'; with resume=\"auto\" the run's "
                            "own is used");
    if (c->replay != NULL && (c->config != NULL || PyList_Size(c->overrides) > 0 || c->resume != 0))
        return SPSH_PY_FAIL(spsh__py.invalid_error, "replay uses the recorded run's configuration");
    return 0;
}

static int list_overrides(train_call *c)
{
    const Py_ssize_t count = PyList_Size(c->overrides);
    c->texts = (const char **)calloc((size_t)count + 1, sizeof(*c->texts));
    if (c->texts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        c->texts[i] = PyBytes_AsString(PyList_GetItem(c->overrides, i));
    return 0;
}

static void fill(train_call *c)
{
    spsh_train_options *o = &c->options;
    *o = (spsh_train_options)SPSH_TRAIN_OPTIONS_INIT;
    o->config_path = c->config;
    o->overrides = c->texts;
    o->run = c->output;
    o->resume = c->resume == 1;
    o->log_fn = spsh__py_job_log;
    o->progress_fn = spsh__py_job_line;
    o->rendezvous = c->rendezvous;
    o->slow = c->slow.items;
    o->freeze = c->freeze.items;
    o->kill = c->kill.items;
    o->link = c->link;
    o->simulate = c->simulate;
    o->record = c->record;
    o->replay = c->replay;
}

/* ---- the function ---- */

static spsh_status run(void *call, spsh__py_job *job, spsh_error *err)
{
    train_call *c = (train_call *)call;
    c->options.log_user = job;
    c->options.progress_user = job;
    c->options.stop = spsh__py_job_stop(job);
    return spsh_train(&c->options, &c->result, err);
}

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_train_result, name_, member_)
static PyObject *make_report(const train_call *c)
{
    static const spsh__py_fact facts[] = {
        FACT(NUMBER, "steps", steps),
        FACT(NUMBER, "epochs", epochs),
        FACT(NUMBER, "utterances", samples),
        FACT(REAL, "loss", loss),
        FACT(REAL, "wer", wer),
        FACT(REAL, "cer", cer),
        FACT(REAL, "frame_error", frame_error),
        SPSH_PY_FACTS_END,
    };
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_file(dict, "run", c->output) != 0 ||
                         spsh__py_facts_put(dict, &c->result, facts) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(report_class, dict);
}

static PyObject *run_training(train_call *c)
{
    static const spsh_option_name names[] = {
        {"config_path", "config"},
    };
    spsh_error err = SPSH_ERROR_INIT;
    if (is_training)
        return PyErr_Format(PyExc_RuntimeError,
                            "this process trains another run; start a process for each");
    is_training = true;
    const spsh_status rc = spsh__py_job_run(&c->work, run, c, &err);
    is_training = false;
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (rc == SPSH_OK)
        return make_report(c);
    if (rc == SPSH_E_INVALID_ARG)
        spsh_options_rename(&err, names, 1);
    return spsh__py_raise(&err);
}

static PyObject *train(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    train_call c = {.result = SPSH_TRAIN_RESULT_INIT, .overrides = PyList_New(0)};
    PyObject *report = NULL;
    if (c.overrides != NULL && spsh__py_arguments_parse(&function, args, given, &c.work) == 0 &&
        check(&c) == 0 && add_strategy(&c) == 0 && list_overrides(&c) == 0) {
        fill(&c);
        report = run_training(&c);
    }
    free((void *)c.texts);
    Py_XDECREF(c.overrides);
    spsh__py_arguments_clear(&c.work);
    return report;
}

/* ---- the vocabulary ---- */

static PyObject *vocabulary(const char *path, uint32_t symbols)
{
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_file(dict, "path", path) != 0 ||
                         spsh__py_dict_u64(dict, "symbols", symbols) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(vocabulary_class, dict);
}

static PyObject *make_vocabulary(train_call *c)
{
    spsh_vocabulary_options options = SPSH_VOCABULARY_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    char *path = NULL;
    uint32_t symbols = 0;
    options.config_path = c->config;
    options.overrides = c->texts;
    options.kind = c->kind;
    options.profile = c->profile;
    options.symbols = (uint32_t)c->symbols;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_vocabulary_make(&options, &path, &symbols, &err);
    Py_END_ALLOW_THREADS;
    if (rc != SPSH_OK)
        return spsh__py_raise(&err);
    PyObject *made = vocabulary(path, symbols);
    free(path);
    return made;
}

static PyObject *make_vocab(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    train_call c = {.overrides = PyList_New(0)};
    PyObject *made = NULL;
    if (c.overrides != NULL &&
        spsh__py_arguments_parse(&vocab_function, args, given, &c.work) == 0 &&
        list_overrides(&c) == 0)
        made = make_vocabulary(&c);
    free((void *)c.texts);
    Py_XDECREF(c.overrides);
    spsh__py_arguments_clear(&c.work);
    return made;
}

static char vocab_doc[] =
    "make_vocab($module, /, config, *, overrides=None, kind=\"characters\", profile=\"lower\", "
    "symbols=None, **keys)\n"
    "--\n\n"
    "Write the vocabulary that a configuration names, from the transcripts of its data.train.\n"
    "Returns a Vocabulary: path, and symbols with the blank.\n\n"
    "The same as `speechshard train CONFIG --make-vocab`. kind is \"characters\" or \"pieces\".\n"
    "profile normalizes transcripts: \"lower\", \"upper\", or \"nfc\". symbols is the maximum.\n"
    "help(speechshard.train) describes overrides.\n";

static char doc[] =
    "train($module, /, config=None, output=None, *, overrides=None, resume=\"no\", strategy=None, "
    "rendezvous=None, simulate=None, slow=None, link=None, freeze=None, kill=None, record=False, "
    "replay=None, progress=None, log=None, **keys)\n"
    "--\n\n"
    "Train a recognizer on packed speech. Returns a TrainReport.\n\n"
    "    report = speechshard.train(\"digits.yaml\", \"run\", overrides={\"train.epochs\": 20})\n"
    "    print(report.loss, report.wer)\n\n"
    "config is a YAML file (TRAINING.md); with resume=\"auto\" or replay, None takes the\n"
    "run's own. output is the folder of the run. overrides change keys of the configuration:\n"
    "{\"train.rate\": 3e-4}. Keywords with a dot do, too: **{\"train.rate\": 3e-4}. The other\n"
    "keywords are the options of `speechshard train`; `speechshard train --help` describes them.\n"
    "The checkpoints have the same bytes as the command's. `speechshard report` makes the page of\n"
    "the run.\n\n"
    "progress is f(line, step, 0), called at most 20 times per second with the newest step: line\n"
    "has epoch, loss, rate, speed, and time left. Ctrl-C, or an exception in progress, stops the\n"
    "run after its step and saves it: the same call with resume=\"auto\" continues.\n";

static PyMethodDef methods[] = {
    {"train",      SPSH_PY_KEYWORDS(train),      METH_VARARGS | METH_KEYWORDS, doc      },
    {"make_vocab", SPSH_PY_KEYWORDS(make_vocab), METH_VARARGS | METH_KEYWORDS, vocab_doc},
    {NULL,         NULL,                         0,                            NULL     },
};

int spsh__py_train_init(PyObject *module)
{
    report_class =
        spsh__py_report_class(module, "TrainReport",
                              "Outcome of speechshard.train: steps, epochs, and utterances since "
                              "the run began; loss, wer,\n"
                              "cer, and frame_error of this call, NaN where there is none.");
    vocabulary_class = spsh__py_report_class(
        module, "Vocabulary", "The file that speechshard.make_vocab has made: path, symbols.");
    return report_class == NULL || vocabulary_class == NULL
               ? -1
               : PyModule_AddFunctions(module, methods);
}
