/* py_audit.c: speechshard.audit, over dedup.h. */
#include <string.h>

#include "py_work.h"
#include "speechshard/decimal.h"
#include "speechshard/dedup.h"
#include "speechshard/nearest_word.h"

static PyObject *report_class;

typedef struct audit_call {
    spsh__py_work work;
    spsh__py_texts train, test, fail_on;
    const char *output, *aliases, *work_path, *part;
    int profile;
    bool speed_grid, estimate;
    uint64_t memory_bytes, jobs;
    double limits[SPSH_LEAK_COUNT];
    spsh_dedup_sources *sources;
    spsh_audit_options options;
    spsh_audit *audit;
} audit_call;

/* ---- arguments ---- */

static const spsh__py_choice profiles[] = {
    {"default", SPSH_TEXT_PROFILE_DEFAULT},
    {"cjk",     SPSH_TEXT_PROFILE_CJK    },
    {"marks",   SPSH_TEXT_PROFILE_MARKS  },
    {NULL,      0                        }
};

#define AT(member_) offsetof(audit_call, member_)
/* clang-format off */
static const spsh__py_keyword keywords[] = {
    {"train",      spsh__py_take_paths, AT(train),        NULL,     0, 0},
    {"test",       spsh__py_take_paths, AT(test),         NULL,     0, 0},
    {"output",     spsh__py_take_path,  AT(output),       NULL,     0, 0},
    {"fail_on",    spsh__py_take_texts, AT(fail_on),      NULL,     0, 0},
    {"profile",    spsh__py_take_word,  AT(profile),      profiles, 0, 0},
    {"aliases",    spsh__py_take_path,  AT(aliases),      NULL,     0, 0},
    {"speed_grid", spsh__py_take_flag,  AT(speed_grid),   NULL,     0, 0},
    {"memory",     spsh__py_take_size,  AT(memory_bytes), NULL,     SPSH_DEDUP_MEMORY_BYTES_MIN, 0},
    {"work",       spsh__py_take_path,  AT(work_path),    NULL,     0, 0},
    {"jobs",       spsh__py_take_count, AT(jobs),         NULL,     1, SPSH_DEDUP_THREADS_MAX},
    {"part",       spsh__py_take_text,  AT(part),         NULL,     0, 0},
    {"estimate",   spsh__py_take_flag,  AT(estimate),     NULL,     0, 0},
    SPSH_PY_WORK_KEYWORDS
};
/* clang-format on */

static const spsh__py_function function = {"audit", keywords, 3, 3, NULL};

static int unknown_kind(const char *text, size_t bytes)
{
    const char *names[SPSH_LEAK_COUNT + 2] = {NULL};
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
        names[k] = spsh_leak_text((spsh_leak)k);
    names[SPSH_LEAK_COUNT] = "none";
    const char *near = spsh_nearest_word(text, bytes, names);
    return SPSH_PY_FAIL(PyExc_ValueError,
                        "fail_on \"%s\": kinds are recording, segment, performance, sentence, "
                        "sentence_near, document, source, speaker, none%s%s%s",
                        text, near == NULL ? "" : "; did you mean \"", near == NULL ? "" : near,
                        near == NULL ? "" : "\"?");
}

/* KIND[=PERCENT] */
static int take_limit(const char *text, double limits[SPSH_LEAK_COUNT])
{
    const char *equals = strchr(text, '=');
    const size_t bytes = equals != NULL ? (size_t)(equals - text) : strlen(text);
    const size_t size = equals != NULL ? strlen(equals + 1) : 0;
    double percent = 0;
    if (equals != NULL && (size == 0 || spsh_decimal_scan(equals + 1, size, &percent) != size ||
                           percent < 0 || percent > 100))
        return SPSH_PY_FAIL(PyExc_ValueError, "fail_on \"%s\": a percentage is from 0 to 100",
                            text);
    if (strcmp(text, "none") == 0) {
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
            limits[k] = 2;
        return 0;
    }
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        const char *kind = spsh_leak_text((spsh_leak)k);
        if (strlen(kind) == bytes && memcmp(kind, text, bytes) == 0) {
            limits[k] = percent / 100;
            return 0;
        }
    }
    return unknown_kind(text, bytes);
}

static int take_limits(audit_call *c)
{
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
        c->limits[k] = k == SPSH_LEAK_RECORDING || k == SPSH_LEAK_SEGMENT ? 0 : 2;
    for (size_t i = 0; i < c->fail_on.count; i++)
        if (take_limit(c->fail_on.items[i], c->limits) != 0)
            return -1;
    return 0;
}

static int add_sources(audit_call *c)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_dedup_sources_new(&c->sources, &err) != SPSH_OK)
        return SPSH_PY_RAISE(&err);
    return spsh__py_sources_add(c->sources, &c->train, false, false) == 0
               ? spsh__py_sources_add(c->sources, &c->test, true, false)
               : -1;
}

/* ---- the command line in the report ---- */

/* Append an option. Releases line. */
static PyObject *append(PyObject *line, const char *option, const char *value)
{
    PyObject *longer =
        line == NULL ? NULL
                     : PyBytes_FromFormat("%s --%s%s%s", PyBytes_AsString(line), option,
                                          value == NULL ? "" : " ", value == NULL ? "" : value);
    Py_XDECREF(line);
    return longer;
}

static int compare_texts(const void *left, const void *right)
{
    const char *const *l = left;
    const char *const *r = right;
    return strcmp(*l, *r);
}

static PyObject *append_sorted(PyObject *line, const char *option, const spsh__py_texts *texts)
{
    const char **sorted = (const char **)calloc(texts->count + 1, sizeof(*sorted));
    if (sorted == NULL) {
        Py_XDECREF(line);
        return PyErr_NoMemory();
    }
    if (texts->count > 0)
        memcpy((void *)sorted, (const void *)texts->items, texts->count * sizeof(*sorted));
    qsort((void *)sorted, texts->count, sizeof(*sorted), compare_texts);
    for (size_t i = 0; i < texts->count; i++)
        line = append(line, option, sorted[i]);
    free((void *)sorted);
    return line;
}

/* Return the line that the command would show, so that the reports have identical bytes. */
static const char *command_line(audit_call *c)
{
    PyObject *line = PyBytes_FromString("speechshard audit");
    line = append_sorted(line, "train", &c->train);
    line = append_sorted(line, "test", &c->test);
    for (size_t i = 0; i < c->fail_on.count; i++)
        line = append(line, "fail-on", c->fail_on.items[i]);
    line = append(line, "profile", profiles[c->profile].word);
    if (c->aliases != NULL)
        line = append(line, "aliases", c->aliases);
    if (c->speed_grid)
        line = append(line, "speed-grid", NULL);
    return spsh__py_keep(c->work.kept, line);
}

static int settle_work(audit_call *c)
{
    if (c->work_path != NULL)
        return 0;
    size_t bytes = strlen(c->output);
    while (bytes > 1 && c->output[bytes - 1] == '/')
        bytes--;
    PyObject *folder = PyBytes_FromStringAndSize(c->output, (Py_ssize_t)bytes);
    if (folder != NULL)
        c->work_path =
            spsh__py_keep(c->work.kept, PyBytes_FromFormat("%s.work", PyBytes_AsString(folder)));
    Py_XDECREF(folder);
    return c->work_path == NULL ? -1 : 0;
}

static int fill(audit_call *c)
{
    spsh_audit_options *o = &c->options;
    *o = (spsh_audit_options)SPSH_AUDIT_OPTIONS_INIT;
    o->progress_fn = spsh__py_job_progress;
    o->folder = c->output;
    o->work_path = c->work_path;
    o->alias_path = c->aliases;
    o->command = command_line(c);
    o->limits = c->limits;
    o->limit_count = SPSH_LEAK_COUNT;
    o->memory_bytes = c->memory_bytes;
    o->threads = (uint32_t)c->jobs;
    o->flags = c->speed_grid ? SPSH_AUDIT_SPEED_GRID : 0;
    o->profile = (spsh_text_profile)c->profile;
    return o->command == NULL ? -1
                              : spsh__py_part_take(&c->work, c->part, &o->part, &o->part_count);
}

/* ---- the report ---- */

static PyObject *example_facts(const spsh_audit_example *example)
{
    if (example == NULL)
        Py_RETURN_NONE;
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_text(dict, "test_id", example->test_id) != 0 ||
         spsh__py_dict_file(dict, "train_corpus", example->train_corpus) != 0 ||
         spsh__py_dict_text(dict, "train_id", example->train_id) != 0 ||
         spsh__py_dict_take(dict, "match", spsh__py_match_facts(example->match)) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static int put_limit(PyObject *dict, double limit)
{
    return limit > 1 ? PyDict_SetItemString(dict, "limit", Py_None)
                     : spsh__py_dict_real(dict, "limit", limit);
}

static PyObject *leak_facts(const spsh_audit *audit, size_t split, spsh_leak kind)
{
    const spsh_audit_leak *leak = spsh_audit_leak_get(audit, split, kind);
    const uint64_t whole = spsh_audit_split_get(audit, split)->utterance_count;
    const double share = whole == 0 ? 0 : (double)leak->utterance_count / (double)whole;
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_u64(dict, "utterances", leak->utterance_count) != 0 ||
                         spsh__py_dict_real(dict, "seconds", leak->seconds) != 0 ||
                         spsh__py_dict_real(dict, "share", share) != 0 ||
                         spsh__py_dict_real(dict, "share_low", leak->share_low) != 0 ||
                         spsh__py_dict_real(dict, "share_high", leak->share_high) != 0 ||
                         put_limit(dict, leak->limit) != 0 ||
                         spsh__py_dict_truth(dict, "ok", !leak->is_failure) != 0 ||
                         spsh__py_dict_take(dict, "example", example_facts(leak->example)) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

/* {"recording": facts, ...} */
static PyObject *leak_dict(const spsh_audit *audit, size_t split)
{
    PyObject *dict = PyDict_New();
    for (unsigned k = 0; dict != NULL && k < SPSH_LEAK_COUNT; k++)
        if (spsh__py_dict_take(dict, spsh_leak_text((spsh_leak)k),
                               leak_facts(audit, split, (spsh_leak)k)) != 0)
            Py_CLEAR(dict);
    return dict;
}

static PyObject *split_facts(const void *of, size_t index)
{
    const spsh_audit *audit = (const spsh_audit *)of;
    const spsh_audit_split *split = spsh_audit_split_get(audit, index);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_string(dict, "name", split->name) != 0 ||
                         spsh__py_dict_u64(dict, "utterances", split->utterance_count) != 0 ||
                         spsh__py_dict_real(dict, "seconds", split->seconds) != 0 ||
                         spsh__py_dict_u64(dict, "dirty", split->dirty_count) != 0 ||
                         spsh__py_dict_take(dict, "leaks", leak_dict(audit, index)) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *warning_text(const void *audit, size_t index)
{
    const char *text = spsh_audit_warning((const spsh_audit *)audit, index);
    return spsh__py_text((spsh_bytes){(const uint8_t *)text, strlen(text)});
}

static bool is_within_limits(const spsh_audit *audit)
{
    for (size_t i = 0; i < spsh_audit_split_count(audit); i++)
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
            if (spsh_audit_leak_get(audit, i, (spsh_leak)k)->is_failure)
                return false;
    return true;
}

static PyObject *make_report(const audit_call *c)
{
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_file(dict, "output", c->output) != 0 ||
         spsh__py_dict_truth(dict, "ok", is_within_limits(c->audit)) != 0 ||
         spsh__py_dict_take(
             dict, "splits",
             spsh__py_facts_list(c->audit, spsh_audit_split_count(c->audit), split_facts)) != 0 ||
         spsh__py_dict_take(
             dict, "warnings",
             spsh__py_facts_list(c->audit, spsh_audit_warning_count(c->audit), warning_text)) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(report_class, dict);
}

/* ---- the function ---- */

static spsh_status run(void *call, spsh__py_job *job, spsh_error *err)
{
    audit_call *c = (audit_call *)call;
    c->options.user = job;
    const spsh_status rc = spsh_audit_run(c->sources, &c->options, &c->audit, err);
    if (rc == SPSH_E_END)
        spsh__py_job_log(job, SPSH_LOG_INFO, err->message);
    return rc;
}

static PyObject *estimate(const audit_call *c)
{
    spsh_dedup_cost cost = SPSH_DEDUP_COST_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_audit_estimate(c->sources, &c->options, &cost, &err);
    Py_END_ALLOW_THREADS;
    if (rc == SPSH_OK)
        return spsh__py_cost(&cost);
    spsh__py_raise_for_sources(c->sources, &err);
    return NULL;
}

static PyObject *find_leaks(audit_call *c)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (c->estimate)
        return estimate(c);
    const spsh_status rc = spsh__py_job_run(&c->work, run, c, &err);
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (rc == SPSH_OK)
        return make_report(c);
    if (rc == SPSH_E_END)
        Py_RETURN_NONE;
    spsh__py_raise_for_sources(c->sources, &err);
    return NULL;
}

static PyObject *audit(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    audit_call c = {.audit = NULL};
    PyObject *report = NULL;
    if (spsh__py_arguments_parse(&function, args, given, &c.work) == 0 && take_limits(&c) == 0 &&
        add_sources(&c) == 0 && settle_work(&c) == 0 && fill(&c) == 0)
        report = find_leaks(&c);
    spsh_audit_free(c.audit);
    spsh_dedup_sources_free(c.sources);
    spsh__py_arguments_clear(&c.work);
    return report;
}

static char doc[] =
    "audit($module, /, train, test, output, *, fail_on=None, profile=\"default\", aliases=None, "
    "speed_grid=False, memory=\"4G\", work=None, jobs=None, part=None, estimate=False, "
    "progress=None, log=None)\n"
    "--\n\n"
    "Find test data in the training data. Returns an AuditReport; writes a report for people to\n"
    "the folder output. No dataset changes.\n\n"
    "    report = speechshard.audit(\"a.spsh:train\", \"a.spsh:test\", \"audit\", "
    "fail_on=\"sentence=5\")\n"
    "    for split in report.splits:\n"
    "        print(split.name, split.leaks[\"recording\"].utterances, split.dirty)\n"
    "    assert report.ok, \"a limit is exceeded: see audit/report.html\"\n\n"
    "train and test are \"DATASET\", \"DATASET:SPLIT,SPLIT\", a Dataset, or a list of them. The\n"
    "keywords are the options of `speechshard audit`; `speechshard audit --help` describes them.\n"
    "The report has the same bytes as the command's. report.ok is false where the command exits\n"
    "with 1: more of a test split leaks than fail_on allows. A call that was stopped resumes when\n"
    "it is repeated. With part, it does one share of the work and returns None; the same call\n"
    "without part, after all parts, returns the report. With estimate=True, it measures a few\n"
    "utterances, writes nothing, and returns a CostEstimate.\n\n"
    "help(speechshard.pack) describes part, progress, and log.\n";

static PyMethodDef methods[] = {
    {"audit", SPSH_PY_KEYWORDS(audit), METH_VARARGS | METH_KEYWORDS, doc },
    {NULL,    NULL,                    0,                            NULL},
};

int spsh__py_audit_init(PyObject *module)
{
    report_class = spsh__py_report_class(
        module, "AuditReport",
        "Leaks that speechshard.audit found. splits lists the test splits: name, utterances,\n"
        "seconds, dirty, and leaks by kind, with the share that leaks (0 to 1) and its interval "
        "of\n"
        "95 %.");
    return report_class == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
