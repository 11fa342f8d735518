/* py_state.c: Loader.state_dict: the cursor as a small dict of plain values:
 *
 *     {"version": 1, "epoch": 3, "batches": 1200, "cursor": "535053484355...",
 *      "options": {"seed": "1", "max_seconds": "600"}}
 *
 * Only the cursor is read back. The options of the order explain why a cursor is rejected. It is in
 * hexadecimal, so that every serializer can store it. epoch and batches (of the epoch, over all
 * ranks) are for people. Both come from the cursor, whose layout is in sampler.h.
 */
#include <string.h>

#include "py_binding.h"
#include "speechshard/inside.h"

enum { STATE_VERSION = 1, EPOCH_AT = 40, BATCHES_AT = 48 };

/* The cursor as bytes. */
static PyObject *save_cursor(const spsh_loader *loader)
{
    spsh_error err = SPSH_ERROR_INIT;
    size_t size = 0;
    spsh_status rc = spsh_loader_cursor_save(loader, NULL, 0, &size, &err);
    if (rc != SPSH_OK)
        return spsh__py_raise(&err);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL)
        return NULL;
    if (spsh_loader_cursor_save(loader, PyBytes_AsString(bytes), size, &size, &err) == SPSH_OK)
        return bytes;
    Py_DECREF(bytes);
    return spsh__py_raise(&err);
}

static spsh__py_place read_place(PyObject *cursor)
{
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(cursor);
    return (spsh__py_place){spsh__load_u64le(bytes + EPOCH_AT),
                            spsh__load_u64le(bytes + BATCHES_AT)};
}

int spsh__py_place_get(const spsh_loader *loader, spsh__py_place *ret_place)
{
    PyObject *cursor = save_cursor(loader);
    if (cursor == NULL)
        return -1;
    *ret_place = read_place(cursor);
    Py_DECREF(cursor);
    return 0;
}

PyObject *spsh__py_state_save(const spsh__py_lease *lease, PyObject *order)
{
    PyObject *cursor = save_cursor(lease->loader);
    PyObject *dict = cursor == NULL ? NULL : PyDict_New();
    if (dict == NULL) {
        Py_XDECREF(cursor);
        return NULL;
    }
    spsh__py_place place = read_place(cursor);
    if (spsh__py_dict_u64(dict, "version", STATE_VERSION) != 0 ||
        spsh__py_dict_u64(dict, "epoch", place.epoch) != 0 ||
        spsh__py_dict_u64(dict, "batches", place.batches) != 0 ||
        PyDict_SetItemString(dict, "options", order) != 0 ||
        spsh__py_dict_take(dict, "cursor", PyObject_CallMethod(cursor, "hex", NULL)) != 0)
        Py_CLEAR(dict);
    Py_DECREF(cursor);
    return dict;
}

/* The bytes of state["cursor"]. */
static PyObject *state_cursor(PyObject *state)
{
    PyObject *version = PyDict_Check(state) ? PyDict_GetItemString(state, "version") : NULL;
    PyObject *hex = version == NULL ? NULL : PyDict_GetItemString(state, "cursor");
    if (hex == NULL || !PyLong_Check(version) || !PyUnicode_Check(hex))
        return PyErr_Format(PyExc_ValueError, "the state is not a dict from state_dict()");
    long number = PyLong_AsLong(version);
    if (number != STATE_VERSION) {
        PyErr_Clear(); /* PyLong_AsLong sets an exception if the number does not fit */
        return PyErr_Format(PyExc_ValueError, "the state has version %S; expected version %d",
                            version, STATE_VERSION);
    }
    return PyObject_CallMethod((PyObject *)&PyBytes_Type, "fromhex", "O", hex);
}

/* Raise the error of a rejected cursor, with the options that differ. */
static void refuse_cursor(PyObject *state, PyObject *order, const spsh_error *err)
{
    PyObject *saved =
        PyDict_GetItemString(state, "options"); /* absent in states of older versions */
    PyObject *advice = NULL;
    if (err->status == SPSH_E_MISMATCH && saved != NULL && PyDict_Check(saved)) {
        PyObject *module = PyImport_ImportModule("speechshard._state");
        if (module == NULL)
            return;
        advice = PyObject_CallMethod(module, "differences", "OO", saved, order);
        Py_DECREF(module);
        if (advice == NULL)
            return;
    }
    spsh__py_raise_advice(err, advice == Py_None ? NULL : advice);
    Py_XDECREF(advice);
}

int spsh__py_state_load(spsh_loader *loader, PyObject *state, PyObject *order)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    PyObject *cursor = state_cursor(state);
    if (cursor == NULL)
        return -1;
    const void *bytes = PyBytes_AsString(cursor);
    size_t size = (size_t)PyBytes_Size(cursor);
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_loader_cursor_restore(loader, bytes, size, &err);
    Py_END_ALLOW_THREADS;
    Py_DECREF(cursor);
    if (rc == SPSH_OK)
        return 0;
    refuse_cursor(state, order, &err);
    return -1;
}
