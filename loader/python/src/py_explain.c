/* py_explain.c: speechshard.explain, over dedup.h. */
#include <string.h>

#include "py_work.h"
#include "speechshard/dedup.h"

static PyObject *report_class;

typedef struct explain_call {
    spsh__py_work work;
    const char *datasets[2], *ids[2];
    const char *plot, *listen, *command;
    uint64_t jobs;
    spsh_explanation *explanation;
} explain_call;

#define AT(member_) offsetof(explain_call, member_)
static const spsh__py_keyword keywords[] = {
    {"dataset",       spsh__py_take_path,  AT(datasets[0]), NULL, 0, 0                     },
    {"id",            spsh__py_take_text,  AT(ids[0]),      NULL, 0, 0                     },
    {"other_id",      spsh__py_take_text,  AT(ids[1]),      NULL, 0, 0                     },
    {"other_dataset", spsh__py_take_path,  AT(datasets[1]), NULL, 0, 0                     },
    {"plot",          spsh__py_take_path,  AT(plot),        NULL, 0, 0                     },
    {"listen",        spsh__py_take_path,  AT(listen),      NULL, 0, 0                     },
    {"jobs",          spsh__py_take_count, AT(jobs),        NULL, 1, SPSH_DEDUP_THREADS_MAX},
    SPSH_PY_WORK_KEYWORDS
};

static const spsh__py_function function = {"explain", keywords, 4, 3, NULL};

/* ---- the report ---- */

static PyObject *side_facts(const void *of, size_t index)
{
    const spsh_explain_side *s = spsh_explanation_side((const spsh_explanation *)of, index);
    const double rate = s->row.sample_rate_hz;
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_file(dict, "dataset", spsh_dataset_path(s->dataset)) != 0 ||
         spsh__py_dict_text(dict, "id", s->utterance.id) != 0 ||
         spsh__py_dict_text(dict, "split", s->utterance.split) != 0 ||
         spsh__py_dict_text(dict, "speaker", s->utterance.speaker) != 0 ||
         spsh__py_dict_text(dict, "text", s->utterance.text) != 0 ||
         spsh__py_dict_real(dict, "seconds", rate == 0 ? 0 : (double)s->row.samples / rate) != 0 ||
         spsh__py_dict_u64(dict, "samples", s->row.samples) != 0 ||
         spsh__py_dict_u64(dict, "sample_rate_hz", s->row.sample_rate_hz) != 0 ||
         spsh__py_dict_u64(dict, "channels", s->row.channels) != 0 ||
         spsh__py_dict_string(dict, "codec", spsh_codec_name(s->row.codec)) != 0 ||
         spsh__py_dict_u64(dict, "bandwidth_hz", s->bandwidth_hz) != 0 ||
         spsh__py_dict_u64(dict, "clipped", s->clipped_count) != 0 ||
         spsh__py_dict_real(dict, "active_seconds", (double)s->active_ms / 1000) != 0 ||
         spsh__py_dict_truth(dict, "decodes", s->is_decoded) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *match_facts(const void *of, size_t index)
{
    return spsh__py_match_facts(spsh_explanation_match((const spsh_explanation *)of, index));
}

static PyObject *check_facts(const void *of, size_t index)
{
    static const spsh__py_fact facts[] = {
        SPSH_PY_FACT(REAL, spsh_explain_check, "found", found),
        SPSH_PY_FACT(REAL, spsh_explain_check, "limit", limit),
        SPSH_PY_FACT(TRUTH, spsh_explain_check, "at_most", is_at_most),
        SPSH_PY_FACT(TRUTH, spsh_explain_check, "passed", is_passed),
        SPSH_PY_FACT(TRUTH, spsh_explain_check, "decides", decides),
        SPSH_PY_FACTS_END,
    };
    const spsh_explain_check *check = spsh_explanation_check((const spsh_explanation *)of, index);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_string(dict, "what", check->what) != 0 ||
                         spsh__py_dict_string(dict, "unit", check->unit) != 0 ||
                         spsh__py_facts_put(dict, check, facts) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

/* value, or None if it is unknown. */
static int put_known(PyObject *dict, const char *key, bool is_known, double value)
{
    return is_known ? spsh__py_dict_real(dict, key, value)
                    : PyDict_SetItemString(dict, key, Py_None);
}

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_explain_facts, name_, member_)
static int put_facts(PyObject *dict, const spsh_explain_facts *f)
{
    static const spsh__py_fact facts[] = {
        FACT(TRUTH, "may_drop", may_drop),
        FACT(TRUTH, "equal_bytes", is_one_record),
        FACT(TRUTH, "equal_samples", has_equal_pcm),
        FACT(TRUTH, "equal_samples_trimmed", has_equal_trimmed),
        FACT(TRUTH, "equal_samples_mono", has_equal_mono),
        FACT(NUMBER, "pieces", equal_chunk_count),
        FACT(REAL, "piece_seconds", equal_chunk_seconds),
        SPSH_PY_FACTS_END,
    };
    PyObject *equal = !f->has_texts ? Py_None : f->has_equal_texts ? Py_True : Py_False;
    return spsh__py_dict_string(dict, "kind", spsh_copy_class_text(f->kind)) != 0 ||
                   spsh__py_dict_string(dict, "tier", spsh_copy_tier_text(f->tier)) != 0 ||
                   spsh__py_dict_string(dict, "verdict", f->verdict) != 0 ||
                   spsh__py_facts_put(dict, f, facts) != 0 ||
                   PyDict_SetItemString(dict, "equal_texts", equal) != 0 ||
                   put_known(dict, "similarity", f->has_texts, f->similarity) != 0 ||
                   spsh__py_dict_string(dict, "text_profile", f->text_profile) != 0 ||
                   put_known(dict, "gain_db", f->has_gain, f->gain_db) != 0
               ? -1
               : 0;
}

static PyObject *closest_facts(const spsh_explain_facts *f)
{
    if (f->closest->count == 0)
        Py_RETURN_NONE;
    return spsh__py_match_facts(f->closest);
}

static PyObject *make_report(const spsh_explanation *e)
{
    const spsh_explain_facts *f = spsh_explanation_facts(e);
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_take(dict, "a", side_facts(e, 0)) != 0 ||
         spsh__py_dict_take(dict, "b", side_facts(e, 1)) != 0 || put_facts(dict, f) != 0 ||
         spsh__py_dict_take(dict, "matches", spsh__py_facts_list(e, f->match_count, match_facts)) !=
             0 ||
         spsh__py_dict_take(dict, "closest", closest_facts(f)) != 0 ||
         spsh__py_dict_take(dict, "checks", spsh__py_facts_list(e, f->check_count, check_facts)) !=
             0))
        Py_CLEAR(dict);
    return spsh__py_report(report_class, dict);
}

/* ---- the function ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static spsh_status write_files(const explain_call *c, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (c->plot != NULL && ends_with(c->plot, ".html"))
        rc = spsh_explanation_write_page(c->explanation, c->plot, c->command, err);
    else if (c->plot != NULL)
        rc = spsh_explanation_write_picture(c->explanation, c->plot, err);
    if (rc == SPSH_OK && c->listen != NULL)
        rc = spsh_explanation_write_audio(c->explanation, c->listen, err);
    return rc;
}

static spsh_status run(void *call, spsh__py_job *job, spsh_error *err)
{
    explain_call *c = (explain_call *)call;
    spsh_explain_options options = SPSH_EXPLAIN_OPTIONS_INIT;
    options.progress_fn = spsh__py_job_progress;
    options.user = job;
    options.threads = (uint32_t)c->jobs;
    const spsh_status rc = spsh_pair_explain(c->datasets, c->ids, &options, &c->explanation, err);
    return rc == SPSH_OK ? write_files(c, err) : rc;
}

static PyObject *explain(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    explain_call c = {.explanation = NULL};
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *report = NULL;
    if (spsh__py_arguments_parse(&function, args, given, &c.work) == 0)
        c.command = spsh__py_call_text("explain", args, given, &c.work);
    if (c.command != NULL) {
        if (c.datasets[1] == NULL)
            c.datasets[1] = c.datasets[0];
        const spsh_status rc = spsh__py_job_run(&c.work, run, &c, &err);
        if (rc == SPSH_OK && PyErr_Occurred() == NULL)
            report = make_report(c.explanation);
        else if (PyErr_Occurred() == NULL)
            spsh__py_raise_for(c.datasets, 2, &err);
    }
    spsh_explanation_free(c.explanation);
    spsh__py_arguments_clear(&c.work);
    return report;
}

static char doc[] =
    "explain($module, /, dataset, id, other_id, other_dataset=None, *, plot=None, listen=None, "
    "jobs=None, progress=None, log=None)\n"
    "--\n\n"
    "Explain why two utterances are copies, or are not. Returns an Explanation.\n\n"
    "    why = speechshard.explain(\"a.spsh\", \"en/hello\", \"en/hello-again\", "
    "plot=\"pair.svg\")\n"
    "    print(why.verdict, [check.what for check in why.checks if not check.passed])\n\n"
    "other_dataset: the dataset of other_id, if it is another one. plot writes a picture, or a "
    "page\n"
    "if its name ends with .html; listen writes a WAV file with a on the left and b on the right.\n"
    "Missing fingerprints of the datasets are made first.\n\n"
    "help(speechshard.pack) describes progress and log.\n";

static PyMethodDef methods[] = {
    {"explain", SPSH_PY_KEYWORDS(explain), METH_VARARGS | METH_KEYWORDS, doc },
    {NULL,      NULL,                      0,                            NULL},
};

int spsh__py_explain_init(PyObject *module)
{
    report_class = spsh__py_report_class(
        module, "Explanation",
        "Everything that speechshard.explain found out about two utterances, a and b. closest is\n"
        "the nearest miss if there is no match.");
    return report_class == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
