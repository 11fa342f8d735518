/* py_lease.c: an open C loader and its datasets, shared by the Loader and all batches that hold
 * slots.
 *
 * The last holder closes the C loader. In a forked child, which lacks the loader's threads, close
 * only frees what belongs to the child. The child must not touch the device, and releases no batch.
 */
#include <unistd.h>

#include "py_binding.h"
#include "speechshard/options.h"

/* Members of the C options, and the Python keywords with other names. */
static const spsh_option_name option_names[] = {
    {"batch_seconds_max",        "max_seconds"       },
    {"batch_padded_seconds_max", "max_padded_seconds"},
    {"batch_utterances_max",     "max_utterances"    },
    {"utterance_seconds_min",    "min_duration"      },
    {"utterance_seconds_max",    "max_duration"      },
    {"speaker_utterances_max",   "max_per_speaker"   },
    {"long_utterances",          "long"              },
    {"window_utterances",        "window"            },
    {"decode_threads",           "threads"           },
};

static void drop_stores(spsh__py_stores *stores)
{
    for (uint32_t i = 0; i < stores->count; i++)
        spsh__py_store_drop(stores->stores[i]);
    free(stores->stores);
    free(stores->datasets);
}

static void lease_free(spsh__py_lease *lease)
{
    if (lease->loader != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        spsh_loader_close(lease->loader);
        Py_END_ALLOW_THREADS;
    }
    if (lease->pid == getpid())
        spsh__py_device_close(lease);
    drop_stores(&lease->served);
    drop_stores(&lease->noises);
    drop_stores(&lease->rooms);
    spsh__py_log_free(lease->log);
    free(lease);
}

spsh__py_lease *spsh__py_lease_hold(spsh__py_lease *lease)
{
    lease->holders++;
    return lease;
}

void spsh__py_lease_drop(spsh__py_lease *lease)
{
    if (lease != NULL && --lease->holders == 0)
        lease_free(lease);
}

void spsh__py_lease_release(const spsh__py_lease *lease, const spsh_batch *batch,
                            void *const *streams, int count)
{
    if (lease->pid != getpid())
        return;
    if (lease->cuda != NULL)
        spsh__py_device_release(lease, batch, streams, count);
    else
        spsh_loader_release(lease->loader, batch);
}

/* ---- datasets ---- */

/* Hold the store of a Dataset, or open the dataset at a path. */
static spsh__py_store *open_store(PyObject *dataset)
{
    int known = PyObject_IsInstance(dataset, (PyObject *)spsh__py.dataset);
    if (known < 0)
        return NULL;
    if (known) {
        spsh__py_store *store = spsh__py_dataset_store(dataset);
        return store == NULL ? NULL : spsh__py_store_hold(store);
    }
    PyObject *path = spsh__py_path(dataset);
    if (path == NULL)
        return NULL;
    spsh__py_store *store = spsh__py_store_open(PyBytes_AsString(path));
    Py_DECREF(path);
    return store;
}

/* Convert one dataset or a sequence of them to a tuple. */
static PyObject *as_tuple(PyObject *datasets)
{
    int single = PyObject_IsInstance(datasets, (PyObject *)spsh__py.dataset);
    if (single < 0)
        return NULL;
    if (!single) {
        PyObject *path = PyOS_FSPath(datasets);
        single = path != NULL;
        Py_XDECREF(path);
        PyErr_Clear();
    }
    if (single)
        return PyTuple_Pack(1, datasets);
    PyObject *tuple = PySequence_Tuple(datasets);
    if (tuple == NULL && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_SetString(PyExc_TypeError,
                        "datasets must be a path, a Dataset, or a sequence of them");
    return tuple;
}

static int open_each(spsh__py_stores *stores, PyObject *tuple)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 1 || count > (Py_ssize_t)SPSH_PLAN_DATASETS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd datasets; there must be 1 to %d", count,
                     (int)SPSH_PLAN_DATASETS_MAX);
        return -1;
    }
    /* NOLINTBEGIN(bugprone-sizeof-expression): arrays of pointers */
    stores->stores = (spsh__py_store **)calloc((size_t)count, sizeof(*stores->stores));
    stores->datasets = (const spsh_dataset **)calloc((size_t)count, sizeof(*stores->datasets));
    /* NOLINTEND(bugprone-sizeof-expression) */
    if (stores->stores == NULL || stores->datasets == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        spsh__py_store *store = open_store(PyTuple_GetItem(tuple, i));
        if (store == NULL)
            return -1;
        stores->stores[i] = store;
        stores->datasets[i] = store->dataset;
        stores->count++;
    }
    return 0;
}

/* datasets: NULL for none. */
static int open_stores(spsh__py_stores *stores, PyObject *datasets)
{
    PyObject *tuple = datasets == NULL ? NULL : as_tuple(datasets);
    if (tuple == NULL)
        return datasets == NULL ? 0 : -1;
    int rc = open_each(stores, tuple);
    Py_DECREF(tuple);
    return rc;
}

/* ---- open ---- */

spsh__py_lease *spsh__py_lease_new(PyObject *datasets, PyObject *noises, PyObject *rooms)
{
    spsh__py_lease *lease = (spsh__py_lease *)calloc(1, sizeof(*lease));
    if (lease == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    lease->holders = 1;
    lease->pid = getpid();
    if (open_stores(&lease->served, datasets) == 0 && open_stores(&lease->noises, noises) == 0 &&
        open_stores(&lease->rooms, rooms) == 0)
        lease->log = spsh__py_log_new();
    if (lease->log != NULL)
        return lease;
    spsh__py_lease_drop(lease);
    return NULL;
}

int spsh__py_lease_open(spsh__py_lease *lease, const spsh_loader_options *options, int64_t device)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_loader_options opt = *options;
    spsh_status rc = SPSH_OK;
    if (device >= 0 && spsh__py_device_open(lease, (uint32_t)device) != 0)
        return -1;
    opt.cuda = lease->cuda;
    opt.device = lease->device;
    opt.log_fn = spsh__py_log_put;
    opt.log_user = lease->log;
    opt.noises = lease->noises.datasets;
    opt.noise_count = lease->noises.count;
    opt.rooms = lease->rooms.datasets;
    opt.room_count = lease->rooms.count;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_loader_open(lease->served.datasets, lease->served.count, &opt, &lease->loader, &err);
    Py_END_ALLOW_THREADS;
    if (rc == SPSH_OK)
        return 0;
    spsh_options_rename(&err, option_names, sizeof(option_names) / sizeof(option_names[0]));
    return SPSH_PY_RAISE(&err);
}
