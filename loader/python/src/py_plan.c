/* py_plan.c: speechshard.apply and revert: a plan of dedupe, over dedup.h. */
#include "py_work.h"
#include "speechshard/dedup.h"

static PyObject *report_class;

typedef struct plan_call {
    spsh__py_work work;
    const char *plan;
    spsh__py_texts datasets;
} plan_call;

typedef spsh_status plan_fn(const char *plan_path, const spsh_copy_plan_options *options,
                            spsh_copy_plan_facts *ret_facts, spsh_error *err);

#define AT(member_) offsetof(plan_call, member_)
static const spsh__py_keyword keywords[] = {
    {"plan",     spsh__py_take_path,  AT(plan),     NULL, 0, 0},
    {"datasets", spsh__py_take_paths, AT(datasets), NULL, 0, 0},
    {NULL,       NULL,                0,            NULL, 0, 0}
};

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_copy_plan_facts, name_, member_)
static PyObject *make_report(const spsh_copy_plan_facts *found)
{
    static const spsh__py_fact facts[] = {
        FACT(NUMBER, "datasets", dataset_count),
        FACT(NUMBER, "changed", changed_count),
        FACT(NUMBER, "utterances", utterance_count),
        SPSH_PY_FACTS_END,
    };
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_string(dict, "overlay", found->overlay) != 0 ||
                         spsh__py_facts_put(dict, found, facts) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(report_class, dict);
}

static PyObject *change(const char *name, plan_fn *change_fn, PyObject *args, PyObject *given)
{
    const spsh__py_function function = {name, keywords, 2, 1, NULL};
    plan_call c = {.plan = NULL};
    spsh_copy_plan_options options = SPSH_COPY_PLAN_OPTIONS_INIT;
    spsh_copy_plan_facts facts = SPSH_COPY_PLAN_FACTS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *report = NULL;
    if (spsh__py_arguments_parse(&function, args, given, &c.work) == 0) {
        spsh_status rc = SPSH_OK;
        options.datasets = c.datasets.items;
        options.dataset_count = c.datasets.count;
        Py_BEGIN_ALLOW_THREADS;
        rc = change_fn(c.plan, &options, &facts, &err);
        Py_END_ALLOW_THREADS;
        report = rc == SPSH_OK ? make_report(&facts) : spsh__py_raise(&err);
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

static PyMethodDef methods[] = {
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

int spsh__py_plan_init(PyObject *module)
{
    report_class = spsh__py_report_class(
        module, "PlanReport",
        "Outcome of speechshard.apply and revert: the overlay's name, datasets with something to\n"
        "drop, datasets that the call changed, and utterances that the plan drops.");
    return report_class == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
