/* py_loader.c: speechshard.Loader: the C loader as an iterable. One `for` serves one epoch, or the
 * rest of one.
 *
 * next() waits for 100 ms at a time, without the GIL. In between it handles signals, delivers log
 * messages, and notices a close() from another thread. So Ctrl-C works.
 *
 * The caller borrows each batch. If the caller keeps batches and the next one would take the last
 * free slot, the batch is copied and its slot released. So list(loader) works and cannot deadlock.
 */
#include <unistd.h>

#include "py_binding.h"

enum { WAIT_MS = 100 };

typedef struct loader {
    PyObject ob_base;
    spsh__py_lease *lease; /* NULL when closed */
    PyObject *log;         /* callable */
    PyObject *domains;     /* tuple: names of the plan's domains */
    PyObject *order;       /* dict: the options that determine the order, as text */
    PyObject *text;        /* str: the repr */
    PyObject *columns;     /* callable: dict of the columns of a Batch; NULL: none */
    bool busy;             /* a thread is in an exclusive call */
} loader;

/* The iterator of one `for`. */
typedef struct served_epoch {
    PyObject ob_base;
    PyObject *loader; /* NULL: the epoch has ended */
} served_epoch;

/* ---- access checks ---- */

/* Begin a call. NULL with an exception set if the loader is closed, was opened by another process,
 * or (exclusive) is in use. Otherwise end the call with leave. */
static spsh__py_lease *enter(loader *self, bool exclusive)
{
    if (self->lease == NULL) {
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
        return NULL;
    }
    if (self->lease->pid != getpid()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the loader was opened before this process was forked, and its threads do "
                        "not exist here: open one in each process (in a PyTorch DataLoader, use "
                        "num_workers=0: the loader has its own threads)");
        return NULL;
    }
    if (exclusive && self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the loader is in use by another thread");
        return NULL;
    }
    if (exclusive)
        self->busy = true;
    return spsh__py_lease_hold(self->lease);
}

/* Returns -1 with an exception that the log callable raised. The caller drops its result. */
static int leave(loader *self, spsh__py_lease *lease, bool exclusive)
{
    if (exclusive)
        self->busy = false;
    const int rc = spsh__py_log_drain(lease->log, self->log);
    spsh__py_lease_drop(lease);
    return rc;
}

typedef PyObject *(*lease_fn)(const spsh__py_lease *lease, void *argument);

/* Call a function between enter and leave. */
static PyObject *with_lease(PyObject *object, bool exclusive, lease_fn call, void *argument)
{
    loader *self = (loader *)object;
    spsh__py_lease *lease = enter(self, exclusive);
    if (lease == NULL)
        return NULL;
    PyObject *result = call(lease, argument);
    if (leave(self, lease, exclusive) != 0)
        Py_CLEAR(result);
    return result;
}

/* A lease_fn that returns argument. */
static PyObject *get_argument(const spsh__py_lease *lease, void *argument)
{
    (void)lease;
    Py_INCREF((PyObject *)argument);
    return (PyObject *)argument;
}

/* A property that is computed from the lease. */
typedef struct report {
    PyObject *(*make)(const spsh__py_lease *lease);
    bool exclusive;
} report;

static PyObject *make_report(const spsh__py_lease *lease, void *argument)
{
    return ((const report *)argument)->make(lease);
}

/* closure: a report. */
static PyObject *get_report(PyObject *object, void *closure)
{
    return with_lease(object, ((const report *)closure)->exclusive, make_report, closure);
}

static PyObject *epoch_number(const spsh__py_lease *lease)
{
    spsh__py_place place;
    if (spsh__py_place_get(lease->loader, &place) != 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(place.epoch);
}

static report plan_report = {spsh__py_plan_dict, false};
static report stats_report = {spsh__py_stats_dict, false};
static report bad_report = {spsh__py_bad_list, false};
static report epoch_report = {epoch_number, true};

/* ---- open and close ---- */

/* Set self->columns. names: a tuple, or NULL for none. */
static int open_columns(loader *self, const spsh__py_lease *lease, PyObject *names)
{
    if (names == NULL)
        return 0;
    PyObject *datasets = PyList_New(0);
    int rc = datasets == NULL ? -1 : 0;
    for (uint32_t i = 0; rc == 0 && i < lease->served.count; i++)
        rc = spsh__py_list_take(datasets, spsh__py_dataset_share(lease->served.stores[i]));
    PyObject *module = rc == 0 ? PyImport_ImportModule("speechshard._columns") : NULL;
    if (module != NULL)
        self->columns = PyObject_CallMethod(module, "Columns", "OO", names, datasets);
    Py_XDECREF(module);
    Py_XDECREF(datasets);
    return self->columns == NULL ? -1 : 0;
}

/* Set batch.columns. The loader may be closed by another thread during the call. */
static int fill_columns(const loader *self, PyObject *batch)
{
    PyObject *columns = self->columns;
    if (columns == NULL)
        return 0;
    Py_INCREF(columns);
    PyObject *dict = PyObject_CallFunctionObjArgs(columns, batch, NULL);
    Py_DECREF(columns);
    spsh__py_batch_set_columns(batch, dict);
    return dict == NULL ? -1 : 0;
}

/* Open the loader. Set self->log before: opening may log messages. */
static int open_with(loader *self, PyObject *datasets, const spsh__py_config *config)
{
    PyObject *domains = NULL;
    spsh__py_lease *lease = spsh__py_lease_new(datasets, config->noise, config->rooms);
    if (lease == NULL)
        return -1;
    if (open_columns(self, lease, config->columns) == 0 &&
        spsh__py_lease_open(lease, &config->options, config->device) == 0)
        domains = spsh__py_plan_domain_names(spsh_loader_plan(lease->loader));
    if (spsh__py_log_drain(lease->log, self->log) != 0)
        Py_CLEAR(domains);
    if (domains == NULL) {
        Py_CLEAR(self->columns);
        spsh__py_lease_drop(lease);
        return -1;
    }
    self->lease = lease;
    self->domains = domains;
    return 0;
}

/* Keep the arguments as text, for states and for repr. */
static int keep_arguments(loader *self, PyObject *datasets, PyObject *keywords)
{
    PyObject *module = PyImport_ImportModule("speechshard._state");
    PyObject *given = keywords != NULL ? PyDict_Copy(keywords) : PyDict_New();
    if (module != NULL && given != NULL) {
        self->order = PyObject_CallMethod(module, "order_options", "O", given);
        self->text = PyObject_CallMethod(module, "describe", "OO", datasets, given);
    }
    Py_XDECREF(module);
    Py_XDECREF(given);
    return self->order == NULL || self->text == NULL ? -1 : 0;
}

static PyObject *loader_repr(PyObject *object)
{
    PyObject *text = ((loader *)object)->text;
    if (text == NULL)
        return PyUnicode_FromString("speechshard.Loader(not open)");
    Py_INCREF(text);
    return text;
}

static int loader_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    loader *self = (loader *)object;
    PyObject *datasets = NULL;
    spsh__py_config config;
    if (self->log != NULL)
        return SPSH_PY_FAIL(PyExc_RuntimeError, "the loader is open already");
    if (!PyArg_ParseTuple(args, "O:Loader", &datasets))
        return -1;
    int rc = spsh__py_config_parse(keywords, &config);
    if (rc == 0) {
        self->log = spsh__py_log_callable(config.log);
        rc = self->log == NULL || keep_arguments(self, datasets, keywords) != 0
                 ? -1
                 : open_with(self, datasets, &config);
        if (rc != 0)
            Py_CLEAR(self->log);
    }
    spsh__py_config_clear(&config);
    return rc;
}

static void drop_lease(loader *self)
{
    spsh__py_lease *lease = self->lease;
    self->lease = NULL;
    Py_CLEAR(self->columns);
    spsh__py_lease_drop(lease);
}

static PyObject *loader_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    drop_lease((loader *)object);
    Py_RETURN_NONE;
}

static int loader_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((loader *)object)->log);
    return 0;
}

static int loader_clear(PyObject *object)
{
    loader *self = (loader *)object;
    drop_lease(self);
    Py_CLEAR(self->log);
    Py_CLEAR(self->domains);
    Py_CLEAR(self->order);
    Py_CLEAR(self->text);
    return 0;
}

static void loader_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    loader_clear(object);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *loader_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    return with_lease(object, false, get_argument, object);
}

/* ---- iterating ---- */

/* Wait for a batch. Never returns SPSH_E_TIMEOUT. With SPSH_E_CANCELED an exception may be set. */
static spsh_status wait_for_batch(loader *self, const spsh__py_lease *lease,
                                  const spsh_batch **ret_batch, spsh_error *err)
{
    spsh_status rc = SPSH_E_TIMEOUT;
    while (rc == SPSH_E_TIMEOUT) {
        Py_BEGIN_ALLOW_THREADS;
        rc = spsh_loader_next_for(lease->loader, WAIT_MS, ret_batch, err);
        Py_END_ALLOW_THREADS;
        if (rc != SPSH_E_TIMEOUT)
            break;
        if (spsh__py_log_drain(lease->log, self->log) != 0 || PyErr_CheckSignals() != 0)
            return SPSH_E_CANCELED;
        if (self->lease != lease) {
            PyErr_SetString(PyExc_ValueError, "the loader was closed");
            return SPSH_E_CANCELED;
        }
    }
    return rc;
}

/* Return the next batch; NULL without an exception at the end of an epoch. */
static PyObject *take_batch(loader *self)
{
    const spsh_batch *batch = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *result = NULL;
    spsh__py_lease *lease = enter(self, true);
    if (lease == NULL)
        return NULL;
    spsh_status rc = wait_for_batch(self, lease, &batch, &err);
    if (rc == SPSH_OK)
        result = spsh__py_batch_new(lease, batch, self->domains,
                                    spsh_loader_slots_free(lease->loader) == 0);
    else if (rc != SPSH_E_END && PyErr_Occurred() == NULL)
        spsh__py_raise(&err);
    if (result != NULL && fill_columns(self, result) != 0)
        Py_CLEAR(result);
    if (leave(self, lease, true) != 0)
        Py_CLEAR(result);
    return result;
}

static PyObject *loader_iter(PyObject *object)
{
    PyObject *usable = loader_enter(object, NULL);
    if (usable == NULL)
        return NULL;
    allocfunc alloc = __extension__(allocfunc) PyType_GetSlot(spsh__py.epoch, Py_tp_alloc);
    PyObject *iterator = alloc(spsh__py.epoch, 0);
    if (iterator == NULL)
        Py_DECREF(usable);
    else
        ((served_epoch *)iterator)->loader = usable;
    return iterator;
}

/* An iterator that has ended stays at its end. The next epoch needs a new iterator. */
static PyObject *epoch_next(PyObject *object)
{
    served_epoch *self = (served_epoch *)object;
    if (self->loader == NULL)
        return NULL;
    PyObject *batch = take_batch((loader *)self->loader);
    if (batch == NULL && PyErr_Occurred() == NULL)
        Py_CLEAR(self->loader);
    return batch;
}

static PyObject *epoch_iter(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static int epoch_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((served_epoch *)object)->loader);
    return 0;
}

static int epoch_clear(PyObject *object)
{
    Py_CLEAR(((served_epoch *)object)->loader);
    return 0;
}

static void epoch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    epoch_clear(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* Number of calls of next in the current epoch. */
static Py_ssize_t loader_length(PyObject *object)
{
    loader *self = (loader *)object;
    spsh__py_lease *lease = enter(self, true);
    if (lease == NULL)
        return -1;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh__py_place place;
    uint64_t calls = 0;
    int failed = spsh__py_place_get(lease->loader, &place);
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS;
        rc = spsh_loader_call_count(lease->loader, place.epoch, &calls, &err);
        Py_END_ALLOW_THREADS;
        if (rc != SPSH_OK)
            spsh__py_raise(&err);
    }
    failed = leave(self, lease, true) != 0 || failed;
    return failed || rc != SPSH_OK ? -1 : (Py_ssize_t)calls;
}

/* Without nb_bool, `if loader:` would compute the length, which plans the whole epoch. */
static int loader_bool(PyObject *object)
{
    (void)object;
    return 1;
}

/* ---- position ---- */

/* A lease_fn. argument: a spsh__py_place whose `batches` holds a step. */
static PyObject *seek_to(const spsh__py_lease *lease, void *argument)
{
    const spsh__py_place *place = (spsh__py_place *)argument;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_loader_seek(lease->loader, place->epoch, place->batches, &err);
    Py_END_ALLOW_THREADS;
    if (rc != SPSH_OK)
        return spsh__py_raise(&err);
    Py_RETURN_NONE;
}

/* Like seek_to, but do nothing if the loader is already in the epoch. */
static PyObject *enter_epoch(const spsh__py_lease *lease, void *argument)
{
    spsh__py_place now;
    if (spsh__py_place_get(lease->loader, &now) != 0)
        return NULL;
    if (now.epoch != ((spsh__py_place *)argument)->epoch)
        return seek_to(lease, argument);
    Py_RETURN_NONE;
}

/* Without this check, the conversion to uint64_t would accept -1. */
static int check_place(long long epoch, long long step)
{
    if (epoch >= 0 && step >= 0)
        return 0;
    return SPSH_PY_FAIL(PyExc_ValueError, "epochs and steps count from 0");
}

static PyObject *loader_seek(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char epoch_name[] = "epoch", step_name[] = "step";
    static char *names[] = {epoch_name, step_name, NULL};
    long long epoch = 0, step = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "L|L:seek", names, &epoch, &step) ||
        check_place(epoch, step) != 0)
        return NULL;
    spsh__py_place place = {(uint64_t)epoch, (uint64_t)step};
    return with_lease(object, true, seek_to, &place);
}

static PyObject *loader_set_epoch(PyObject *object, PyObject *number)
{
    const long long epoch = PyLong_AsLongLong(number);
    if ((epoch == -1 && PyErr_Occurred() != NULL) || check_place(epoch, 0) != 0)
        return NULL;
    spsh__py_place place = {(uint64_t)epoch, 0};
    return with_lease(object, true, enter_epoch, &place);
}

/* A lease_fn; argument: the options of the order. */
static PyObject *save_state(const spsh__py_lease *lease, void *argument)
{
    return spsh__py_state_save(lease, (PyObject *)argument);
}

static PyObject *loader_state_dict(PyObject *object, PyObject *unused)
{
    (void)unused;
    return with_lease(object, true, save_state, ((loader *)object)->order);
}

static PyObject *loader_load_state_dict(PyObject *object, PyObject *state)
{
    loader *self = (loader *)object;
    spsh__py_lease *lease = enter(self, true);
    if (lease == NULL)
        return NULL;
    int failed = spsh__py_state_load(lease->loader, state, self->order);
    if (leave(self, lease, true) != 0 || failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyGetSetDef properties[] = {
    {"epoch",       get_report, NULL, "Epoch of the next batch, from 0 (int).",           &epoch_report},
    {"plan",        get_report, NULL,
     "The plan as a dict: utterances and seconds per epoch, the number of utterances that each\n"
     "filter excludes, and a list of domains (name, dataset, utterances, seconds, share, passes\n"
     "per epoch).",                                                                       &plan_report },
    {"stats",       get_report, NULL, "Counters since the loader was opened, as a dict.", &stats_report},
    {"bad_records", get_report, NULL,
     "Records that could not be read and were skipped or substituted: a list of dicts (dataset,\n"
     "position, epoch, status, message).",                                                &bad_report  },
    {NULL,          NULL,       NULL, NULL,                                               NULL         },
};

static PyMethodDef methods[] = {
    {"state_dict",      loader_state_dict,             METH_NOARGS,
     "state_dict($self, /)\n--\n\n"
     "Position after the last batch, as a small dict of plain values, the same on all ranks."},
    {"load_state_dict", loader_load_state_dict,        METH_O,
     "load_state_dict($self, state, /)\n--\n\n"
     "Continue at a position that any rank of any world size saved. The next `for` serves the "
     "rest\n"
     "of the epoch. The datasets and the options that decide the order must be the same. If they\n"
     "are not, raises Error or ValueError and changes nothing."                              },
    {"seek",            SPSH_PY_KEYWORDS(loader_seek), METH_VARARGS | METH_KEYWORDS,
     "seek($self, epoch, step=0)\n--\n\n"
     "Go to the beginning of a step. Raises InvalidArgumentError past the epoch's end."      },
    {"set_epoch",       loader_set_epoch,              METH_O,
     "set_epoch($self, epoch, /)\n--\n\n"
     "Go to the beginning of an epoch. Does nothing if the loader is already in this epoch, so "
     "that\n"
     "a training loop may call it after load_state_dict()."                                  },
    {"close",           loader_close,                  METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Serve no more batches. Batches that are still referenced stay valid. Threads and memory are\n"
     "freed with the last of them."                                                          },
    {"__enter__",       loader_enter,                  METH_NOARGS,                  NULL    },
    {"__exit__",        loader_close,                  METH_VARARGS,                 NULL    },
    {NULL,              NULL,                          0,                            NULL    },
};

#include "py_loader_doc.h"

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_init, loader_init),
    SPSH_PY_SLOT(Py_tp_new, PyType_GenericNew),
    SPSH_PY_SLOT(Py_tp_dealloc, loader_dealloc),
    SPSH_PY_SLOT(Py_tp_traverse, loader_traverse),
    SPSH_PY_SLOT(Py_tp_clear, loader_clear),
    SPSH_PY_SLOT(Py_tp_iter, loader_iter),
    SPSH_PY_SLOT(Py_tp_methods, methods),
    SPSH_PY_SLOT(Py_tp_getset, properties),
    SPSH_PY_SLOT(Py_tp_doc, spsh__py_loader_doc),
    SPSH_PY_SLOT(Py_sq_length, loader_length),
    SPSH_PY_SLOT(Py_tp_repr, loader_repr),
    SPSH_PY_SLOT(Py_nb_bool, loader_bool),
    {0, NULL},
};

static PyType_Spec spec = {"speechshard.Loader", sizeof(loader), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

static PyType_Slot epoch_slots[] = {
    SPSH_PY_SLOT(Py_tp_new, spsh__py_no_new),
    SPSH_PY_SLOT(Py_tp_dealloc, epoch_dealloc),
    SPSH_PY_SLOT(Py_tp_traverse, epoch_traverse),
    SPSH_PY_SLOT(Py_tp_clear, epoch_clear),
    SPSH_PY_SLOT(Py_tp_iter, epoch_iter),
    SPSH_PY_SLOT(Py_tp_iternext, epoch_next),
    {0, NULL},
};

static PyType_Spec epoch_spec = {"speechshard._Epoch", sizeof(served_epoch), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, epoch_slots};

int spsh__py_loader_init(PyObject *module)
{
    if (spsh__py_add_type(NULL, NULL, &epoch_spec, &spsh__py.epoch) != 0)
        return -1;
    return spsh__py_add_type(module, "Loader", &spec, &spsh__py.loader);
}
