/* py_convert.c: strings, numbers and containers between C and Python. */
#include <string.h>

#include "py_binding.h"
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
    PyErr_Clear(); /* a text that is no UTF-8 has no near word */
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
