/* py_report.c: reports of a loader: its plan, its counters, and the records that it skipped. */
#include "py_binding.h"

/* ---- plan ---- */

static PyObject *domain_dict(const spsh_plan *plan, uint32_t number)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
    if (spsh_plan_domain_get(plan, number, &domain, &err) != SPSH_OK)
        return spsh__py_raise(&err);
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    if (spsh__py_dict_text(dict, "name", domain.name) == 0 &&
        spsh__py_dict_u64(dict, "dataset", domain.dataset) == 0 &&
        spsh__py_dict_u64(dict, "utterances", domain.utterance_count) == 0 &&
        spsh__py_dict_real(dict, "seconds", (double)domain.microseconds / 1e6) == 0 &&
        spsh__py_dict_real(dict, "share", domain.share) == 0 &&
        spsh__py_dict_real(dict, "passes", domain.passes) == 0)
        return dict;
    Py_DECREF(dict);
    return NULL;
}

static PyObject *domain_list(const spsh_plan *plan)
{
    PyObject *list = PyList_New(0);
    uint32_t count = spsh_plan_info_get(plan)->domain_count;
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        if (spsh__py_list_take(list, domain_dict(plan, i)) != 0)
            Py_CLEAR(list);
    }
    return list;
}

static int put_plan_counts(PyObject *dict, const spsh_plan_info *info)
{
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        {"utterances", info->utterance_count},
        {"windows",    info->window_count   },
        {"skipped",    info->skipped_count  },
        {"filtered",   info->filtered_count },
        {"duration",   info->duration_count },
        {"duplicate",  info->duplicate_count},
        {"speaker",    info->speaker_count  },
        {"too_long",   info->too_long_count },
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (spsh__py_dict_u64(dict, counts[i].key, counts[i].value) != 0)
            return -1;
    }
    return 0;
}

PyObject *spsh__py_plan_dict(const spsh__py_lease *lease)
{
    const spsh_plan *plan = spsh_loader_plan(lease->loader);
    const spsh_plan_info *info = spsh_plan_info_get(plan);
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    if (put_plan_counts(dict, info) == 0 &&
        spsh__py_dict_real(dict, "seconds", (double)info->microseconds / 1e6) == 0 &&
        spsh__py_dict_real(dict, "longest_seconds", (double)info->longest_microseconds / 1e6) ==
            0 &&
        spsh__py_dict_take(dict, "domains", domain_list(plan)) == 0)
        return dict;
    Py_DECREF(dict);
    return NULL;
}

static PyObject *domain_name(const spsh_plan *plan, uint32_t number)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
    if (spsh_plan_domain_get(plan, number, &domain, &err) != SPSH_OK)
        return spsh__py_raise(&err);
    return spsh__py_text(domain.name);
}

PyObject *spsh__py_plan_domain_names(const spsh_plan *plan)
{
    uint32_t count = spsh_plan_info_get(plan)->domain_count;
    PyObject *names = PyTuple_New((Py_ssize_t)count);
    int rc = names == NULL ? -1 : 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        PyObject *name = domain_name(plan, i);
        rc = name == NULL ? -1 : PyTuple_SetItem(names, (Py_ssize_t)i, name);
    }
    if (rc != 0)
        Py_CLEAR(names);
    return names;
}

/* ---- counters ---- */

PyObject *spsh__py_stats_dict(const spsh__py_lease *lease)
{
    /* Counters may gain digits between the two calls. */
    size_t capacity = spsh_loader_stats_json(lease->loader, NULL, 0) + 256;
    char *text = (char *)malloc(capacity);
    if (text == NULL)
        return PyErr_NoMemory();
    spsh_loader_stats_json(lease->loader, text, capacity);
    PyObject *json = PyImport_ImportModule("json");
    PyObject *dict = json == NULL ? NULL : PyObject_CallMethod(json, "loads", "s", text);
    Py_XDECREF(json);
    free(text);
    return dict;
}

/* ---- bad records ---- */

static PyObject *bad_dict(const spsh__py_lease *lease, const spsh_bad_record *bad)
{
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    const char *path = spsh_dataset_path(lease->served.datasets[bad->dataset]);
    if (spsh__py_dict_take(dict, "dataset", PyUnicode_DecodeFSDefault(path)) == 0 &&
        spsh__py_dict_u64(dict, "position", bad->position) == 0 &&
        spsh__py_dict_u64(dict, "epoch", bad->epoch) == 0 &&
        spsh__py_dict_take(dict, "status",
                           PyUnicode_FromString(spsh_status_name(bad->error.status))) == 0 &&
        spsh__py_dict_text(
            dict, "message",
            (spsh_bytes){(const uint8_t *)bad->error.message, strlen(bad->error.message)}) == 0)
        return dict;
    Py_DECREF(dict);
    return NULL;
}

static int add_bad(PyObject *list, const spsh__py_lease *lease, uint64_t number)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_bad_record bad;
    if (spsh_loader_bad_get(lease->loader, number, &bad, &err) == SPSH_OK)
        return spsh__py_list_take(list, bad_dict(lease, &bad));
    return SPSH_PY_RAISE(&err);
}

PyObject *spsh__py_bad_list(const spsh__py_lease *lease)
{
    PyObject *list = PyList_New(0);
    int rc = list == NULL ? -1 : 0;
    uint64_t count = spsh_loader_bad_count(lease->loader);
    for (uint64_t i = 0; rc == 0 && i < count; i++)
        rc = add_bad(list, lease, i);
    if (rc != 0)
        Py_CLEAR(list);
    return list;
}
