/* py_convert.c: strings, numbers, containers, and reports between C and Python. */
#include <string.h>

#include "py_work.h"
#include "speechshard/nearest_word.h"

enum { WORDS_MAX = 32 };

/* Strings in a dataset are UTF-8. surrogateescape keeps any other bytes of an id unchanged in both
 * directions. */
PyObject *spsh__py_text(spsh_bytes text)
{
    const char *data = text.size_bytes == 0 ? "" : (const char *)text.data;
    return PyUnicode_DecodeUTF8(data, (Py_ssize_t)text.size_bytes, "surrogateescape");
}

PyObject *spsh__py_utf8(PyObject *text, const char *what)
{
    if (!PyUnicode_Check(text))
        return PyErr_Format(PyExc_TypeError, "%s must be str", what);
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (bytes != NULL && strlen(PyBytes_AsString(bytes)) != (size_t)PyBytes_Size(bytes)) {
        Py_DECREF(bytes);
        return PyErr_Format(PyExc_ValueError, "%s holds a NUL character", what);
    }
    return bytes;
}

/* path: str, bytes, or os.PathLike. Returns bytes in the file system's encoding. */
PyObject *spsh__py_path(PyObject *path)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, (void *)&bytes))
        return NULL;
    return bytes;
}

PyObject *spsh__py_number(const void *structure, const spsh__py_field *field)
{
    const void *member = (const char *)structure + field->offset;
    return PyLong_FromUnsignedLongLong(field->size_bytes == sizeof(uint32_t)
                                           ? *(const uint32_t *)member
                                           : *(const uint64_t *)member);
}

int spsh__py_dict_take(PyObject *dict, const char *key, PyObject *value)
{
    int rc = value == NULL ? -1 : PyDict_SetItemString(dict, key, value);
    Py_XDECREF(value);
    return rc;
}

int spsh__py_dict_u64(PyObject *dict, const char *key, uint64_t value)
{
    return spsh__py_dict_take(dict, key, PyLong_FromUnsignedLongLong(value));
}

int spsh__py_dict_real(PyObject *dict, const char *key, double value)
{
    return spsh__py_dict_take(dict, key, PyFloat_FromDouble(value));
}

int spsh__py_dict_text(PyObject *dict, const char *key, spsh_bytes value)
{
    return spsh__py_dict_take(dict, key, spsh__py_text(value));
}

int spsh__py_list_take(PyObject *list, PyObject *value)
{
    int rc = value == NULL ? -1 : PyList_Append(list, value);
    Py_XDECREF(value);
    return rc;
}

/* ---- arguments ---- */

const char *spsh__py_keep(PyObject *kept, PyObject *bytes)
{
    const char *text = bytes == NULL ? NULL : PyBytes_AsString(bytes);
    if (text != NULL && PyList_Append(kept, bytes) != 0)
        text = NULL;
    Py_XDECREF(bytes);
    return text;
}

void *spsh__py_keep_array(PyObject *kept, Py_ssize_t count, size_t element_bytes)
{
    const size_t size_bytes = ((size_t)count + 1) * element_bytes;
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size_bytes);
    void *array = bytes == NULL ? NULL : PyByteArray_AsString(bytes);
    if (array != NULL)
        memset(array, 0, size_bytes);
    if (array != NULL && PyList_Append(kept, bytes) != 0)
        array = NULL;
    Py_XDECREF(bytes);
    return array;
}

PyObject *spsh__py_environment_path(const char *name)
{
    PyObject *module = PyImport_ImportModule("os");
    PyObject *variables = module == NULL ? NULL : PyObject_GetAttrString(module, "environ");
    PyObject *path = variables == NULL ? NULL : PyObject_CallMethod(variables, "get", "s", name);
    Py_XDECREF(variables);
    Py_XDECREF(module);
    if (path == NULL || path == Py_None)
        return path;
    PyObject *bytes = spsh__py_path(path);
    Py_DECREF(path);
    return bytes;
}

int spsh__py_refuse_keyword(const char *function, PyObject *name, const char *const *names)
{
    PyObject *bytes = spsh__py_utf8(name, "a keyword");
    if (bytes == NULL)
        return -1;
    const char *near =
        spsh_nearest_word(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes), names);
    Py_DECREF(bytes);
    if (near == NULL)
        return SPSH_PY_FAIL(PyExc_TypeError,
                            "%s() has no keyword '%U'; help(speechshard.%s) lists them", function,
                            name, function);
    return SPSH_PY_FAIL(PyExc_TypeError, "%s() has no keyword '%U'; did you mean '%s'?", function,
                        name, near);
}

int spsh__py_refuse_word(const char *name, const spsh__py_choice *choices, PyObject *value)
{
    const char *words[WORDS_MAX] = {NULL};
    PyObject *text = PyUnicode_FromFormat("%s must be ", name);
    for (size_t i = 0; text != NULL && choices[i].word != NULL; i++) {
        const char *before = i == 0 ? "" : choices[i + 1].word == NULL ? " or " : ", ";
        words[i] = choices[i].word;
        PyObject *more = PyUnicode_FromFormat("%U%s\"%s\"", text, before, words[i]);
        Py_DECREF(text);
        text = more;
    }
    if (text == NULL)
        return -1;
    PyObject *bytes = PyUnicode_Check(value) ? spsh__py_utf8(value, name) : NULL;
    PyErr_Clear(); /* no word is suggested for a string that is not UTF-8 */
    const char *near = bytes == NULL ? NULL
                                     : spsh_nearest_word(PyBytes_AsString(bytes),
                                                         (size_t)PyBytes_Size(bytes), words);
    if (near != NULL)
        PyErr_Format(PyExc_ValueError, "%U, not %R; did you mean \"%s\"?", text, value, near);
    else
        PyErr_Format(PyExc_ValueError, "%U, not %R", text, value);
    Py_XDECREF(bytes);
    Py_DECREF(text);
    return -1;
}

/* ---- reports ----
 *
 * They are subclasses of types.SimpleNamespace, which has a repr, equality, and pickling. Names of
 * attributes are the keys that the command prints with --json, if it has them.
 */

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
    Py_INCREF(class); /* AddObject takes one reference, the caller keeps the other */
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
