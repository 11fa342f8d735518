/* py_error.c: the exception classes. Each exception carries the status and the offset in the file.
 *
 *     Error                            any status without its own class
 *     +-- CorruptError                 damaged or truncated data, or audio that cannot be decoded
 *     +-- NotFoundError, KeyError      no such dataset or utterance, or nothing passes the filters
 *     +-- InvalidArgumentError, ValueError
 *     +-- ReadError, OSError           a failed system call, with its errno
 *
 * Out of memory is MemoryError. Methods of a closed object raise ValueError, like those of files.
 */
#include <string.h>

#include "py_binding.h"

static PyObject *class_of(spsh_status status)
{
    switch (status) {
    case SPSH_E_NO_MEMORY: return PyExc_MemoryError;
    case SPSH_E_UNKNOWN_NAME:
    case SPSH_E_MISMATCH:
    case SPSH_E_INVALID_ARG: return spsh__py.invalid_error;
    case SPSH_E_NOT_FOUND: return spsh__py.not_found_error;
    case SPSH_E_IO: return spsh__py.read_error;
    case SPSH_E_CORRUPT:
    case SPSH_E_TRUNCATED:
    case SPSH_E_NOT_SPEECHSHARD:
    case SPSH_E_AUDIO:
    case SPSH_E_SYNTAX: return spsh__py.corrupt_error;
    default: return spsh__py.error;
    }
}

static int set_attribute(PyObject *object, const char *name, PyObject *value)
{
    int rc = value == NULL ? -1 : PyObject_SetAttrString(object, name, value);
    Py_XDECREF(value);
    return rc;
}

static PyObject *offset_or_none(uint64_t offset_bytes)
{
    if (offset_bytes == SPSH_OFFSET_NONE)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(offset_bytes);
}

PyObject *spsh__py_raise(const spsh_error *err)
{
    return spsh__py_raise_advice(err, NULL);
}

PyObject *spsh__py_raise_advice(const spsh_error *err, PyObject *advice)
{
    const char *message = err->message[0] != '\0' ? err->message : spsh_status_text(err->status);
    PyObject *class = class_of(err->status);
    /* A long message may be truncated inside a UTF-8 character. */
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
    if (text != NULL && advice != NULL) {
        PyObject *longer = PyUnicode_FromFormat("%U; %U", text, advice);
        Py_DECREF(text);
        text = longer;
    }
    PyObject *instance = text == NULL ? NULL : PyObject_CallFunctionObjArgs(class, text, NULL);
    Py_XDECREF(text);
    if (instance == NULL)
        return NULL;
    bool good = set_attribute(instance, "status",
                              PyUnicode_FromString(spsh_status_name(err->status))) == 0 &&
                set_attribute(instance, "offset", offset_or_none(err->offset_bytes)) == 0;
    if (good && err->status == SPSH_E_IO && err->os_errno != 0)
        good = set_attribute(instance, "errno", PyLong_FromLong(err->os_errno)) == 0;
    if (good)
        PyErr_SetObject(class, instance);
    Py_DECREF(instance);
    return NULL;
}

/* Create a subclass of Error. other: NULL, or a built-in exception as a second base class. */
static PyObject *add_class(PyObject *module, const char *name, PyObject *other, const char *doc)
{
    char full_name[64];
    PyOS_snprintf(full_name, sizeof(full_name), "speechshard.%s", name);
    PyObject *bases =
        other == NULL ? PyTuple_Pack(1, spsh__py.error) : PyTuple_Pack(2, spsh__py.error, other);
    PyObject *class = bases == NULL ? NULL : PyErr_NewExceptionWithDoc(full_name, doc, bases, NULL);
    Py_XDECREF(bases);
    if (class == NULL)
        return NULL;
    Py_INCREF(class); /* one reference for the module, one for the globals */
    if (PyModule_AddObject(module, name, class) == 0)
        return class;
    Py_DECREF(class);
    Py_DECREF(class);
    return NULL;
}

/* Use __str__ of Exception: __str__ of KeyError puts the message in quotes, and __str__ of OSError
 * may expect two arguments. */
static PyObject *error_dict(void)
{
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    PyObject *str = PyObject_GetAttrString(PyExc_Exception, "__str__");
    if (spsh__py_dict_take(dict, "__str__", str) == 0 &&
        PyDict_SetItemString(dict, "status", Py_None) == 0 &&
        PyDict_SetItemString(dict, "offset", Py_None) == 0)
        return dict;
    Py_DECREF(dict);
    return NULL;
}

int spsh__py_errors_init(PyObject *module)
{
    PyObject *dict = error_dict();
    if (dict == NULL)
        return -1;
    spsh__py.error = PyErr_NewExceptionWithDoc(
        "speechshard.Error",
        "Base class of the library's errors.\n\n"
        "status: name of the error code, such as \"SPSH_E_LIMIT\". offset: position in the file\n"
        "in bytes, or None.",
        PyExc_Exception, dict);
    Py_DECREF(dict);
    if (spsh__py.error == NULL)
        return -1;
    Py_INCREF(spsh__py.error);
    if (PyModule_AddObject(module, "Error", spsh__py.error) != 0)
        return -1;
    spsh__py.corrupt_error =
        add_class(module, "CorruptError", NULL,
                  "A file is damaged, truncated, or not a speechshard file, or its audio cannot\n"
                  "be decoded.");
    spsh__py.not_found_error = add_class(module, "NotFoundError", PyExc_KeyError,
                                         "The dataset or utterance does not exist, or no utterance "
                                         "passes the filters.");
    spsh__py.invalid_error = add_class(module, "InvalidArgumentError", PyExc_ValueError,
                                       "An argument is invalid or out of range.");
    spsh__py.read_error = add_class(module, "ReadError", PyExc_OSError,
                                    "The operating system could not read; errno has its code.");
    return spsh__py.corrupt_error != NULL && spsh__py.not_found_error != NULL &&
                   spsh__py.invalid_error != NULL && spsh__py.read_error != NULL
               ? 0
               : -1;
}
