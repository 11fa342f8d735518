/* py_facts.c: reports: objects with attributes.
 *
 * They are subclasses of types.SimpleNamespace, which has a repr, equality, and pickling. Names of
 * attributes are the keys that the command prints with --json, if it has them.
 */
#include <string.h>

#include "py_work.h"

static PyObject *namespace_class(void)
{
    PyObject *types = PyImport_ImportModule("types");
    PyObject *class = types == NULL ? NULL : PyObject_GetAttrString(types, "SimpleNamespace");
    Py_XDECREF(types);
    return class;
}

PyObject *spsh__py_report_class(PyObject *module, const char *name, const char *doc)
{
    PyObject *base = namespace_class();
    PyObject *class =
        base == NULL ? NULL
                     : PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){s:s,s:s}", name, base,
                                             "__doc__", doc, "__module__", "speechshard");
    Py_XDECREF(base);
    if (class == NULL)
        return NULL;
    Py_INCREF(class); /* AddObject takes one, the caller keeps the other */
    if (PyModule_AddObject(module, name, class) == 0)
        return class;
    Py_DECREF(class);
    Py_DECREF(class);
    return NULL;
}

PyObject *spsh__py_report(PyObject *class, PyObject *dict)
{
    PyObject *none = dict == NULL ? NULL : PyTuple_New(0);
    PyObject *report = none == NULL ? NULL : PyObject_Call(class, none, dict);
    Py_XDECREF(none);
    Py_XDECREF(dict);
    return report;
}

PyObject *spsh__py_facts(PyObject *dict)
{
    PyObject *class = dict == NULL ? NULL : namespace_class();
    if (class == NULL) {
        Py_XDECREF(dict);
        return NULL;
    }
    PyObject *facts = spsh__py_report(class, dict);
    Py_DECREF(class);
    return facts;
}

int spsh__py_facts_put(PyObject *dict, const void *structure, const spsh__py_fact *facts)
{
    int rc = 0;
    for (; rc == 0 && facts->name != NULL; facts++) {
        const void *member = (const char *)structure + facts->field.offset;
        switch (facts->kind) {
        case SPSH_PY_FACT_NUMBER:
            rc = spsh__py_dict_take(dict, facts->name, spsh__py_number(structure, &facts->field));
            break;
        case SPSH_PY_FACT_REAL:
            rc = spsh__py_dict_real(dict, facts->name, *(const double *)member);
            break;
        default: rc = spsh__py_dict_truth(dict, facts->name, *(const bool *)member); break;
        }
    }
    return rc;
}

int spsh__py_dict_truth(PyObject *dict, const char *key, bool value)
{
    return PyDict_SetItemString(dict, key, value ? Py_True : Py_False);
}

int spsh__py_dict_string(PyObject *dict, const char *key, const char *value)
{
    if (value == NULL)
        return PyDict_SetItemString(dict, key, Py_None);
    return spsh__py_dict_text(dict, key, (spsh_bytes){(const uint8_t *)value, strlen(value)});
}

int spsh__py_dict_file(PyObject *dict, const char *key, const char *path)
{
    if (path == NULL)
        return PyDict_SetItemString(dict, key, Py_None);
    return spsh__py_dict_take(dict, key, PyUnicode_DecodeFSDefault(path));
}

int spsh__py_dict_hex(PyObject *dict, const char *key, const uint8_t *bytes, size_t size_bytes)
{
    PyObject *raw = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size_bytes);
    PyObject *hex = raw == NULL ? NULL : PyObject_CallMethod(raw, "hex", NULL);
    Py_XDECREF(raw);
    return spsh__py_dict_take(dict, key, hex);
}

PyObject *spsh__py_facts_list(const void *of, size_t count, spsh__py_element_fn *element_fn)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++)
        if (spsh__py_list_take(list, element_fn(of, i)) != 0)
            Py_CLEAR(list);
    return list;
}
