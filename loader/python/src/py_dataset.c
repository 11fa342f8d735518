/* py_dataset.c: speechshard.Dataset: a packed dataset as a sequence of utterances. */
#include <string.h>

#include "py_binding.h"

enum { SEARCH_ROWS = 4096 }; /* rows between two checks for signals */

spsh__py_store *spsh__py_dataset_store(PyObject *dataset)
{
    spsh__py_store *store = ((spsh__py_dataset *)dataset)->store;
    if (store == NULL)
        PyErr_SetString(PyExc_ValueError, "the dataset is closed");
    return store;
}

/* Create a Dataset that takes over the store. */
static PyObject *dataset_of(PyTypeObject *type, spsh__py_store *store)
{
    allocfunc alloc = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (self == NULL)
        spsh__py_store_drop(store);
    else
        ((spsh__py_dataset *)self)->store = store;
    return self;
}

PyObject *spsh__py_dataset_share(spsh__py_store *store)
{
    return dataset_of(spsh__py.dataset, spsh__py_store_hold(store));
}

static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char path_name[] = "path";
    static char *names[] = {path_name, NULL};
    PyObject *path = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Dataset", names, &path))
        return NULL;
    path = spsh__py_path(path);
    if (path == NULL)
        return NULL;
    spsh__py_store *store = spsh__py_store_open(PyBytes_AsString(path));
    Py_DECREF(path);
    return store == NULL ? NULL : dataset_of(type, store);
}

static void dataset_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    spsh__py_store_drop(((spsh__py_dataset *)self)->store);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *dataset_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    spsh__py_dataset *dataset = (spsh__py_dataset *)self;
    spsh__py_store *store = dataset->store;
    dataset->store = NULL;
    spsh__py_store_drop(store);
    Py_RETURN_NONE;
}

static PyObject *dataset_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (spsh__py_dataset_store(self) == NULL)
        return NULL;
    Py_INCREF(self);
    return self;
}

/* ---- sequence protocol, and lookup by id ---- */

static Py_ssize_t dataset_length(PyObject *self)
{
    const spsh__py_store *store = spsh__py_dataset_store(self);
    return store == NULL ? -1 : (Py_ssize_t)spsh_dataset_info_get(store->dataset)->utterance_count;
}

static PyObject *dataset_item(PyObject *self, Py_ssize_t index)
{
    Py_ssize_t count = dataset_length(self);
    if (count < 0)
        return NULL;
    if (index < 0 || index >= count)
        return PyErr_Format(PyExc_IndexError, "index out of range: the dataset has %zd utterances",
                            count);
    return spsh__py_utterance_new(self, (uint64_t)index);
}

/* Look up an id. On failure, either an exception is set or err has the reason. */
static spsh_status find(PyObject *self, PyObject *id, uint64_t *ret_position, spsh_error *err)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    spsh__py_store *store = spsh__py_dataset_store(self);
    PyObject *bytes = store == NULL ? NULL : spsh__py_utf8(id, "an id");
    spsh_reader *reader = bytes == NULL ? NULL : spsh__py_reader_take(store);
    if (reader == NULL) {
        Py_XDECREF(bytes);
        return rc;
    }
    spsh__py_store_hold(store);
    spsh_bytes text = {(const uint8_t *)PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)};
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_reader_find(reader, text, ret_position, err);
    Py_END_ALLOW_THREADS;
    spsh__py_reader_give(store, reader);
    spsh__py_store_drop(store);
    Py_DECREF(bytes);
    return rc;
}

static PyObject *dataset_subscript(PyObject *self, PyObject *key)
{
    if (PyUnicode_Check(key)) {
        spsh_error err = SPSH_ERROR_INIT;
        uint64_t position = 0;
        if (find(self, key, &position, &err) == SPSH_OK)
            return spsh__py_utterance_new(self, position);
        return PyErr_Occurred() != NULL ? NULL : spsh__py_raise(&err);
    }
    if (!PyIndex_Check(key))
        return PyErr_Format(PyExc_TypeError, "an index must be a position (int) or an id (str)");
    Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != NULL)
        return NULL;
    Py_ssize_t count = dataset_length(self);
    if (count < 0)
        return NULL;
    return dataset_item(self, index < 0 ? index + count : index);
}

static int dataset_contains(PyObject *self, PyObject *id)
{
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t position = 0;
    if (!PyUnicode_Check(id))
        return 0;
    spsh_status rc = find(self, id, &position, &err);
    if (rc == SPSH_OK || (rc == SPSH_E_NOT_FOUND && PyErr_Occurred() == NULL))
        return rc == SPSH_OK;
    return PyErr_Occurred() != NULL ? -1 : SPSH_PY_RAISE(&err);
}

/* ---- search in extras ---- */

/* Search at most SEARCH_ROWS utterances for the first one whose extras contain text. *position: the
 * first one to search; afterward, the one that was found, or the next one to search. Needs no GIL.
 */
static spsh_status search_rows(spsh_reader *reader, spsh_bytes text, uint64_t count,
                               uint64_t *position, bool *ret_found, spsh_error *err)
{
    const uint64_t end = count - *position < SEARCH_ROWS ? count : *position + SEARCH_ROWS;
    spsh_utterance row;
    for (; *position < end; ++*position) {
        const spsh_status rc = spsh_reader_metadata(reader, *position, &row, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_found = row.extras.size_bytes > 0 && memmem(row.extras.data, row.extras.size_bytes,
                                                         text.data, text.size_bytes) != NULL;
        if (*ret_found)
            break;
    }
    return SPSH_OK;
}

/* Returns the position as an int, None, or NULL with an exception set. */
static PyObject *search_extras(spsh__py_store *store, spsh_reader *reader, spsh_bytes text,
                               uint64_t position)
{
    const uint64_t count = spsh_dataset_info_get(store->dataset)->utterance_count;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    bool found = false;
    while (!found && position < count) {
        Py_BEGIN_ALLOW_THREADS;
        rc = search_rows(reader, text, count, &position, &found, &err);
        Py_END_ALLOW_THREADS;
        if (rc != SPSH_OK)
            return spsh__py_raise(&err);
        if (PyErr_CheckSignals() != 0)
            return NULL;
    }
    if (!found)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(position);
}

/* For _columns.py. */
static PyObject *dataset_find_in_extras(PyObject *self, PyObject *args)
{
    PyObject *text = NULL;
    unsigned long long from = 0;
    if (!PyArg_ParseTuple(args, "UK:_find_in_extras", &text, &from))
        return NULL;
    spsh__py_store *store = spsh__py_dataset_store(self);
    PyObject *bytes = store == NULL ? NULL : spsh__py_utf8(text, "a column");
    spsh_reader *reader = bytes == NULL ? NULL : spsh__py_reader_take(store);
    if (reader == NULL) {
        Py_XDECREF(bytes);
        return NULL;
    }
    spsh__py_store_hold(store);
    const spsh_bytes wanted = {(const uint8_t *)PyBytes_AsString(bytes),
                               (size_t)PyBytes_Size(bytes)};
    PyObject *position = search_extras(store, reader, wanted, from);
    spsh__py_reader_give(store, reader);
    spsh__py_store_drop(store);
    Py_DECREF(bytes);
    return position;
}

/* ---- properties ---- */

static PyObject *get_info(PyObject *self, void *unused)
{
    (void)unused;
    const spsh__py_store *store = spsh__py_dataset_store(self);
    return store == NULL ? NULL : spsh__py_info(store->dataset);
}

static PyObject *get_skipped(PyObject *self, void *unused)
{
    (void)unused;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t count = 0;
    const spsh__py_store *store = spsh__py_dataset_store(self);
    if (store == NULL)
        return NULL;
    if (spsh_dataset_skipped_positions(store->dataset, NULL, 0, &count, &err) != SPSH_OK)
        return spsh__py_raise(&err);
    return PyLong_FromUnsignedLongLong(count);
}

static PyObject *get_served(PyObject *self, void *unused)
{
    PyObject *skipped = get_skipped(self, unused);
    PyObject *all = skipped == NULL ? NULL : PyLong_FromSsize_t(dataset_length(self));
    PyObject *served = all == NULL ? NULL : PyNumber_Subtract(all, skipped);
    Py_XDECREF(all);
    Py_XDECREF(skipped);
    return served;
}

static PyObject *get_path(PyObject *self, void *unused)
{
    (void)unused;
    const spsh__py_store *store = spsh__py_dataset_store(self);
    return store == NULL ? NULL : PyUnicode_DecodeFSDefault(spsh_dataset_path(store->dataset));
}

static PyObject *dataset_repr(PyObject *self)
{
    PyObject *path = get_path(self, NULL);
    if (path == NULL) {
        PyErr_Clear();
        return PyUnicode_FromString("speechshard.Dataset(closed)");
    }
    PyObject *text = PyUnicode_FromFormat("speechshard.Dataset(%R)", path);
    Py_DECREF(path);
    return text;
}

/* Pickle the path only: unpickling opens the dataset again. */
static PyObject *dataset_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *path = get_path(self, NULL);
    return path == NULL ? NULL : Py_BuildValue("(O(N))", (PyObject *)Py_TYPE(self), path);
}

static PyGetSetDef properties[] = {
    {"info",    get_info,    NULL,
     "Totals as a new dict with the keys of `speechshard info --json`,\n"
     "without the counts that need a pass over the index.",                       NULL},
    {"path",    get_path,    NULL, "Path that was opened (str).",                 NULL},
    {"served",  get_served,  NULL, "Number of utterances without overlay skips.", NULL},
    {"skipped", get_skipped, NULL, "Number of utterances that overlays skip.",    NULL},
    {NULL,      NULL,        NULL, NULL,                                          NULL},
};

static PyMethodDef methods[] = {
    {"close",           dataset_close,          METH_NOARGS,
     "close() -> None. Loaders that use the dataset keep working: they keep it open themselves."},
    {"__enter__",       dataset_enter,          METH_NOARGS,  NULL                              },
    {"__exit__",        dataset_close,          METH_VARARGS, NULL                              },
    {"__reduce__",      dataset_reduce,         METH_NOARGS,  NULL                              },
    {"_find_in_extras", dataset_find_in_extras, METH_VARARGS,
     "Position of the first utterance from a position on whose extras contain a text, or None." },
    {NULL,              NULL,                   0,            NULL                              },
};

static char doc[] =
    "Dataset(path)\n--\n\n"
    "A packed dataset: a sequence of utterances, indexed by position or by id.\n\n"
    "    with speechshard.Dataset(\"corpus.spsh\") as dataset:\n"
    "        print(len(dataset), dataset.info[\"seconds\"])\n"
    "        utterance = dataset[\"en/hello-world\"]\n"
    "        pcm = utterance.audio().numpy()\n\n"
    "len(dataset) and positions count all utterances, including those that an overlay skips:\n"
    "len(dataset) == dataset.served + dataset.skipped. Utterance.skipped tells them apart.\n\n"
    "Opening maps the index and reads a few pages of it. Thread-safe. Raises NotFoundError for an\n"
    "unknown id, IndexError for a position out of range, and ValueError after close().";

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_new, dataset_new),
    SPSH_PY_SLOT(Py_tp_dealloc, dataset_dealloc),
    SPSH_PY_SLOT(Py_tp_repr, dataset_repr),
    SPSH_PY_SLOT(Py_tp_methods, methods),
    SPSH_PY_SLOT(Py_tp_getset, properties),
    SPSH_PY_SLOT(Py_tp_doc, doc),
    SPSH_PY_SLOT(Py_sq_length, dataset_length),
    SPSH_PY_SLOT(Py_sq_item, dataset_item),
    SPSH_PY_SLOT(Py_sq_contains, dataset_contains),
    SPSH_PY_SLOT(Py_mp_length, dataset_length),
    SPSH_PY_SLOT(Py_mp_subscript, dataset_subscript),
    {0, NULL},
};

static PyType_Spec spec = {"speechshard.Dataset", sizeof(spsh__py_dataset), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

int spsh__py_dataset_init(PyObject *module)
{
    return spsh__py_add_type(module, "Dataset", &spec, &spsh__py.dataset);
}
