/* py_dedupe.c: speechshard.dedupe, and apply and revert for its plans, over dedup.h. */
#include <stdio.h>
#include <string.h>

#include "py_work.h"
#include "speechshard/dedup.h"

static PyObject *report_class, *plan_class;

typedef struct dedupe_call {
    spsh__py_work work;
    spsh__py_texts datasets, prefer;
    const char *output, *html, *drop_from, *work_path, *part;
    uint64_t memory_bytes, jobs;
    int search, keep, contained;
    bool exact_only, speed_grid, confirm, estimate;
    PyObject *temporary; /* str: a directory of this call; or NULL */
    spsh_dedup_sources *sources;
    spsh_dedupe_options options;
    spsh_dedupe_result *result;
} dedupe_call;

/* ---- arguments ---- */

static const spsh__py_choice searches[] = {
    {"auto", SPSH_SEARCH_AUTO},
    {"mild", SPSH_SEARCH_MILD},
    {"deep", SPSH_SEARCH_DEEP},
    {NULL,   0               }
};
static const spsh__py_choice keeps[] = {
    {"best",    SPSH_KEEP_BEST   },
    {"first",   SPSH_KEEP_FIRST  },
    {"longest", SPSH_KEEP_LONGEST},
    {NULL,      0                }
};
static const spsh__py_choice containeds[] = {
    {"tag",       SPSH_CONTAINED_TAG      },
    {"keep-long", SPSH_CONTAINED_KEEP_LONG},
    {"keep-part", SPSH_CONTAINED_KEEP_PART},
    {NULL,        0                       }
};

#define AT(member_) offsetof(dedupe_call, member_)
/* clang-format off */
static const spsh__py_keyword keywords[] = {
    {"datasets",   spsh__py_take_paths, AT(datasets),     NULL,       0, 0},
    {"output",     spsh__py_take_path,  AT(output),       NULL,       0, 0},
    {"html",       spsh__py_take_path,  AT(html),         NULL,       0, 0},
    {"search",     spsh__py_take_word,  AT(search),       searches,   0, 0},
    {"exact_only", spsh__py_take_flag,  AT(exact_only),   NULL,       0, 0},
    {"keep",       spsh__py_take_word,  AT(keep),         keeps,      0, 0},
    {"prefer",     spsh__py_take_paths, AT(prefer),       NULL,       0, 0},
    {"drop_from",  spsh__py_take_names, AT(drop_from),    NULL,       0, 0},
    {"contained",  spsh__py_take_word,  AT(contained),    containeds, 0, 0},
    {"speed_grid", spsh__py_take_flag,  AT(speed_grid),   NULL,       0, 0},
    {"confirm",    spsh__py_take_flag,  AT(confirm),      NULL,       0, 0},
    {"memory",     spsh__py_take_size,  AT(memory_bytes), NULL,       SPSH_DEDUP_MEMORY_BYTES_MIN, 0},
    {"work",       spsh__py_take_path,  AT(work_path),    NULL,       0, 0},
    {"jobs",       spsh__py_take_count, AT(jobs),         NULL,       1, SPSH_DEDUP_THREADS_MAX},
    {"part",       spsh__py_take_text,  AT(part),         NULL,       0, 0},
    {"estimate",   spsh__py_take_flag,  AT(estimate),     NULL,       0, 0},
    SPSH_PY_WORK_KEYWORDS
};
/* clang-format on */

static const spsh__py_function function = {"dedupe", keywords, 2, 1, NULL};

static int add_sources(dedupe_call *c)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_dedup_sources_new(&c->sources, &err) != SPSH_OK)
        return SPSH_PY_RAISE(&err);
    return spsh__py_sources_add(c->sources, &c->datasets, false, true);
}

/* Replace the paths of prefer by real ones, in place. */
static int resolve_prefer(dedupe_call *c)
{
    const char **items = c->prefer.items;
    for (size_t i = 0; i < c->prefer.count; i++) {
        bool is_there = false;
        const char *real = spsh__py_keep(c->work.kept, spsh__py_real_path(items[i]));
        if (real == NULL)
            return -1;
        for (size_t k = 0; k < spsh_dedup_sources_count(c->sources); k++)
            is_there = is_there || strcmp(spsh_dedup_sources_get(c->sources, k)->path, real) == 0;
        if (!is_there)
            return SPSH_PY_FAIL(spsh__py.invalid_error, "prefer: %s is none of the datasets",
                                items[i]);
        items[i] = real;
    }
    return 0;
}

/* New str: a new directory for temporary files. */
static PyObject *make_temporary(void)
{
    PyObject *tempfile = PyImport_ImportModule("tempfile");
    PyObject *path = tempfile == NULL
                         ? NULL
                         : PyObject_CallMethod(tempfile, "mkdtemp", "ss", "", "speechshard-");
    Py_XDECREF(tempfile);
    return path;
}

/* Put the work next to the plan, or into a temporary directory, as the command does. */
static int settle_work(dedupe_call *c)
{
    PyObject *path = NULL;
    if (c->work_path != NULL)
        return 0;
    if (c->output != NULL) {
        path = PyBytes_FromFormat("%s.work", c->output);
    } else if (c->estimate) {
        path = PyBytes_FromString("/tmp"); /* named in messages only */
    } else {
        c->temporary = make_temporary();
        PyObject *bytes = c->temporary == NULL ? NULL : spsh__py_path(c->temporary);
        path = bytes == NULL ? NULL : PyBytes_FromFormat("%s/work", PyBytes_AsString(bytes));
        Py_XDECREF(bytes);
    }
    c->work_path = spsh__py_keep(c->work.kept, path);
    return c->work_path == NULL ? -1 : 0;
}

static int fill(dedupe_call *c, const char *command)
{
    spsh_dedupe_options *o = &c->options;
    *o = (spsh_dedupe_options)SPSH_DEDUPE_OPTIONS_INIT;
    o->progress_fn = spsh__py_job_progress;
    o->work_path = c->work_path;
    o->plan_path = c->output;
    o->html_path = c->html;
    o->command = command;
    o->drop_from = c->drop_from;
    o->prefer = c->prefer.items;
    o->prefer_count = c->prefer.count;
    o->memory_bytes = c->memory_bytes;
    o->threads = (uint32_t)c->jobs;
    o->flags = (c->exact_only ? SPSH_DEDUPE_EXACT_ONLY : 0) |
               (c->speed_grid ? SPSH_DEDUPE_SPEED_GRID : 0) |
               (c->confirm ? SPSH_DEDUPE_CONFIRM : 0) |
               (c->temporary != NULL ? SPSH_DEDUPE_DISCARD_WORK : 0);
    o->search = (spsh_dedupe_search)c->search;
    o->keep = (spsh_dedupe_keep)c->keep;
    o->contained = (spsh_dedupe_contained)c->contained;
    return spsh__py_part_take(&c->work, c->part, &o->part, &o->part_count);
}

static int check(const dedupe_call *c)
{
    if (c->part != NULL && c->output == NULL && c->work_path == NULL)
        return SPSH_PY_FAIL(spsh__py.invalid_error,
                            "part needs output or work, which the parts share");
    if (c->exact_only && (c->speed_grid || c->search != SPSH_SEARCH_AUTO))
        return SPSH_PY_FAIL(spsh__py.invalid_error,
                            "exact_only compares no audio, so it excludes search and speed_grid");
    return 0;
}

/* ---- the report ---- */

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_dedupe_facts, name_, member_)
static const spsh__py_fact facts_of_dedupe[] = {
    FACT(NUMBER, "datasets", dataset_count),
    FACT(NUMBER, "utterances", utterance_count),
    FACT(REAL, "seconds", seconds),
    FACT(NUMBER, "undecodable", undecoded_count),
    FACT(NUMBER, "keys", key_count),
    FACT(NUMBER, "key_bits", key_bits),
    FACT(NUMBER, "contour_bits", contour_bits),
    FACT(NUMBER, "telephone_utterances", telephone_count),
    FACT(TRUTH, "is_limited", is_limited),
    FACT(NUMBER, "short_pairs", short_pair_count),
    FACT(NUMBER, "candidates", candidate_count),
    FACT(NUMBER, "decoded", decoded_count),
    FACT(NUMBER, "dropped", dropped_count),
    FACT(REAL, "dropped_seconds", dropped_seconds),
    FACT(NUMBER, "dropped_bytes", dropped_bytes),
    FACT(NUMBER, "clusters_with_different_texts", texts_differ_count),
    SPSH_PY_FACTS_END,
};

static int add_matches(PyObject *list, const spsh_dedupe_result *result, int kind, int tier)
{
    const uint64_t count =
        spsh_dedupe_result_matches(result, (spsh_copy_tier)tier, (spsh_copy_class)kind);
    PyObject *dict = count == 0 ? NULL : PyDict_New();
    if (count == 0)
        return 0;
    if (dict != NULL &&
        (spsh__py_dict_string(dict, "kind", spsh_copy_class_text((spsh_copy_class)kind)) != 0 ||
         spsh__py_dict_string(dict, "tier", spsh_copy_tier_text((spsh_copy_tier)tier)) != 0 ||
         spsh__py_dict_u64(dict, "count", count) != 0))
        Py_CLEAR(dict);
    return spsh__py_list_take(list, spsh__py_facts(dict));
}

static PyObject *match_list(const spsh_dedupe_result *result)
{
    PyObject *list = PyList_New(0);
    for (int kind = 0; list != NULL && kind < SPSH_COPY_CLASS_COUNT; kind++)
        for (int tier = 0; list != NULL && tier < SPSH_TIER_COUNT; tier++)
            if (add_matches(list, result, kind, tier) != 0)
                Py_CLEAR(list);
    return list;
}

/* {"keep": 3, ...} */
static PyObject *member_counts(const spsh_dedupe_result *result)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < SPSH_DECISION_COUNT; i++) {
        const spsh_copy_decision decision = (spsh_copy_decision)i;
        if (spsh__py_dict_u64(dict, spsh_copy_decision_text(decision),
                              spsh_dedupe_result_decisions(result, decision)) != 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *sum_facts(const spsh_dedupe_sum *sum)
{
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_u64(dict, "utterances", sum->utterance_count) != 0 ||
                         spsh__py_dict_real(dict, "seconds", sum->seconds) != 0 ||
                         spsh__py_dict_u64(dict, "bytes", sum->bytes) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

/* {"pcm": sum, ...} with each tier that drops utterances. */
static PyObject *drop_sums(const spsh_dedupe_result *result)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < SPSH_TIER_COUNT; i++) {
        const spsh_dedupe_sum *sum = spsh_dedupe_result_dropped(result, (spsh_copy_tier)i);
        if (sum->utterance_count > 0 &&
            spsh__py_dict_take(dict, spsh_copy_tier_text((spsh_copy_tier)i), sum_facts(sum)) != 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *boilerplate_facts(const void *of, size_t index)
{
    const spsh_dedupe_result *result = (const spsh_dedupe_result *)of;
    const spsh_boilerplate *b = spsh_dedupe_result_boilerplate(result, index);
    const spsh_dataset *dataset = spsh_dedupe_result_dataset(result, b->dataset);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_file(dict, "dataset", spsh_dataset_path(dataset)) != 0 ||
                         spsh__py_dict_u64(dict, "position", b->position) != 0 ||
                         spsh__py_dict_real(dict, "start", b->start_s) != 0 ||
                         spsh__py_dict_real(dict, "seconds", b->seconds) != 0 ||
                         spsh__py_dict_u64(dict, "utterances", b->utterance_count) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static int put_hash(PyObject *dict, const dedupe_call *c, const spsh_dedupe_facts *f)
{
    if (c->output == NULL)
        return PyDict_SetItemString(dict, "plan_hash", Py_None);
    return spsh__py_dict_hex(dict, "plan_hash", f->plan_hash, sizeof(f->plan_hash));
}

/* Takes the result: its clusters are made on demand. */
static PyObject *make_report(dedupe_call *c)
{
    const spsh_dedupe_facts *f = spsh_dedupe_result_facts(c->result);
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_file(dict, "plan", c->output) != 0 || put_hash(dict, c, f) != 0 ||
         spsh__py_facts_put(dict, f, facts_of_dedupe) != 0 ||
         spsh__py_dict_take(dict, "matches", match_list(c->result)) != 0 ||
         spsh__py_dict_take(dict, "members", member_counts(c->result)) != 0 ||
         spsh__py_dict_take(dict, "drop", drop_sums(c->result)) != 0 ||
         spsh__py_dict_take(
             dict, "boilerplate",
             spsh__py_facts_list(c->result, f->boilerplate_count, boilerplate_facts)) != 0))
        Py_CLEAR(dict);
    if (dict != NULL) {
        spsh_dedupe_result *result = c->result;
        c->result = NULL;
        if (spsh__py_dict_take(dict, "clusters", spsh__py_clusters_new(result)) != 0)
            Py_CLEAR(dict);
    }
    return spsh__py_report(report_class, dict);
}

/* ---- the function ---- */

static spsh_status run(void *call, spsh__py_job *job, spsh_error *err)
{
    dedupe_call *c = (dedupe_call *)call;
    c->options.user = job;
    const spsh_status rc = spsh_dedupe_run(c->sources, &c->options, &c->result, err);
    if (rc == SPSH_E_END)
        spsh__py_job_log(job, SPSH_LOG_INFO, err->message);
    return rc;
}

static PyObject *estimate(const dedupe_call *c)
{
    spsh_dedup_cost cost = SPSH_DEDUP_COST_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_dedupe_estimate(c->sources, &c->options, &cost, &err);
    Py_END_ALLOW_THREADS;
    if (rc == SPSH_OK)
        return spsh__py_cost(&cost);
    spsh__py_raise_for_sources(c->sources, &err);
    return NULL;
}

static PyObject *find_copies(dedupe_call *c)
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

/* Remove the temporary directory, which the library has emptied. Keeps an exception that is set. */
static void remove_temporary(dedupe_call *c)
{
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    if (c->temporary == NULL)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *path = spsh__py_path(c->temporary);
    if (path != NULL)
        (void)remove(PyBytes_AsString(path));
    Py_XDECREF(path);
    Py_CLEAR(c->temporary);
    PyErr_Restore(type, value, traceback);
}

static PyObject *dedupe(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    dedupe_call c = {.search = SPSH_SEARCH_AUTO};
    PyObject *report = NULL;
    const char *command = NULL;
    if (spsh__py_arguments_parse(&function, args, given, &c.work) == 0 && check(&c) == 0)
        command = spsh__py_call_text("dedupe", args, given, &c.work);
    if (command != NULL && add_sources(&c) == 0 && resolve_prefer(&c) == 0 &&
        settle_work(&c) == 0 && fill(&c, command) == 0)
        report = find_copies(&c);
    remove_temporary(&c);
    spsh_dedupe_result_free(c.result);
    spsh_dedup_sources_free(c.sources);
    spsh__py_arguments_clear(&c.work);
    return report;
}

static char doc[] =
    "dedupe($module, /, datasets, output=None, *, html=None, search=\"auto\", exact_only=False, "
    "keep=\"best\", prefer=None, drop_from=None, contained=\"tag\", speed_grid=False, "
    "confirm=False, memory=\"4G\", work=None, jobs=None, part=None, estimate=False, progress=None, "
    "log=None)\n"
    "--\n\n"
    "Find copies in one dataset or across several. Returns a DedupeReport.\n\n"
    "    report = speechshard.dedupe([\"a.spsh\", \"b.spsh:train\"], \"plan.jsonl\")\n"
    "    print(report.dropped_seconds, \"s of copies\")\n"
    "    for cluster in report.clusters:     # the kept utterance comes first\n"
    "        print([member.id for member in cluster.members])\n"
    "    speechshard.apply(\"plan.jsonl\")     # until then, nothing has changed\n\n"
    "datasets is \"DATASET\", \"DATASET:SPLIT,SPLIT\", a Dataset, or a list of them. output is "
    "the\n"
    "plan, as JSON lines. None: only report. The keywords are the options of `speechshard\n"
    "dedupe`; `speechshard dedupe --help` describes them. The plan has the same bytes as the\n"
    "command's. A call that was stopped resumes when it is repeated with the same output or work.\n"
    "With part, the call returns None unless it completes the last part. With estimate=True it\n"
    "measures a few utterances, writes nothing, and returns a CostEstimate.\n\n"
    "help(speechshard.pack) describes part, progress, and log.\n";

/* ---- plans ---- */

typedef struct plan_call {
    spsh__py_work work;
    const char *plan;
    spsh__py_texts datasets;
} plan_call;

typedef spsh_status plan_fn(const char *plan_path, const spsh_copy_plan_options *options,
                            spsh_copy_plan_facts *ret_facts, spsh_error *err);

/* clang-format off */
static const spsh__py_keyword plan_keywords[] = {
    {"plan",     spsh__py_take_path,  offsetof(plan_call, plan),     NULL, 0, 0},
    {"datasets", spsh__py_take_paths, offsetof(plan_call, datasets), NULL, 0, 0},
    {NULL,       NULL,                0,                             NULL, 0, 0}
};
/* clang-format on */

#define PLAN_FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_copy_plan_facts, name_, member_)
static PyObject *make_plan_report(const spsh_copy_plan_facts *found)
{
    static const spsh__py_fact facts[] = {
        PLAN_FACT(NUMBER, "datasets", dataset_count),
        PLAN_FACT(NUMBER, "changed", changed_count),
        PLAN_FACT(NUMBER, "utterances", utterance_count),
        SPSH_PY_FACTS_END,
    };
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_string(dict, "overlay", found->overlay) != 0 ||
                         spsh__py_facts_put(dict, found, facts) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(plan_class, dict);
}

static PyObject *change(const char *name, plan_fn *change_fn, PyObject *args, PyObject *given)
{
    const spsh__py_function named = {name, plan_keywords, 2, 1, NULL};
    plan_call c = {.plan = NULL};
    spsh_copy_plan_options options = SPSH_COPY_PLAN_OPTIONS_INIT;
    spsh_copy_plan_facts facts = SPSH_COPY_PLAN_FACTS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *report = NULL;
    if (spsh__py_arguments_parse(&named, args, given, &c.work) == 0) {
        spsh_status rc = SPSH_OK;
        options.datasets = c.datasets.items;
        options.dataset_count = c.datasets.count;
        Py_BEGIN_ALLOW_THREADS;
        rc = change_fn(c.plan, &options, &facts, &err);
        Py_END_ALLOW_THREADS;
        report = rc == SPSH_OK ? make_plan_report(&facts) : spsh__py_raise(&err);
    }
    spsh__py_arguments_clear(&c.work);
    return report;
}

static PyObject *apply(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    return change("apply", spsh_copy_plan_apply, args, given);
}

static PyObject *revert(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    return change("revert", spsh_copy_plan_revert, args, given);
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
    {"dedupe", SPSH_PY_KEYWORDS(dedupe), METH_VARARGS | METH_KEYWORDS, doc },
    {"apply",  SPSH_PY_KEYWORDS(apply),  METH_VARARGS | METH_KEYWORDS,
     "apply($module, /, plan, datasets=None)\n--\n\n"
     "Skip the utterances that a plan of dedupe drops: each dataset of the plan gets an overlay.\n"
     "Datasets do not change otherwise, and revert(plan) undoes it. datasets: new paths of "
     "datasets\n"
     "that were moved. An open Dataset or Loader keeps its view until it is opened again.\n\n"
     "Returns a PlanReport."                                               },
    {"revert", SPSH_PY_KEYWORDS(revert), METH_VARARGS | METH_KEYWORDS,
     "revert($module, /, plan, datasets=None)\n--\n\n"
     "Undo apply(plan): remove the plan's overlay from each dataset. Later overlays stay.\n\n"
     "Returns a PlanReport."                                               },
    {NULL,     NULL,                     0,                            NULL},
};

int spsh__py_dedupe_init(PyObject *module)
{
    report_class = spsh__py_report_class(
        module, "DedupeReport",
        "Copies that speechshard.dedupe found. matches counts pairs by kind and evidence (tier),\n"
        "members counts utterances by decision, drop has the sums of each tier. clusters is a\n"
        "sequence that reads the datasets on demand.");
    plan_class = spsh__py_report_class(
        module, "PlanReport",
        "Outcome of speechshard.apply and revert: the overlay's name, datasets with something to\n"
        "drop, datasets that the call changed, and utterances that the plan drops.");
    return report_class == NULL || plan_class == NULL || spsh__py_clusters_init(module) != 0 ||
                   spsh__py_cost_init(module) != 0
               ? -1
               : PyModule_AddFunctions(module, methods);
}
