/* py_binding.h: declarations that the sources of the extension module speechshard._speechshard
 * share.
 *
 * Ownership. An arrow means "keeps alive":
 *
 *     Array --> Batch --> lease --> spsh_loader
 *                          ^  |
 *               Loader ----+  +---> store --> spsh_dataset
 *                                     ^
 *            Utterance --> Dataset ---+
 *
 * An Array is a view: it keeps the object alive that owns the memory. A Batch holds a slot of the
 * loader. It releases the slot when neither the Batch nor any of its Arrays is referenced. A lease
 * counts its holders: the Loader, its Batches, and calls in progress. The C loader is closed when
 * the last holder drops the lease. A store does the same for a dataset. All of these counts change
 * under the GIL only.
 *
 * Arrays in device memory can be exported through DLPack only. A Batch in device memory releases
 * its slot after the work that its consumers had enqueued when it was freed (py_device.c).
 *
 * The C library never calls Python. Messages from its threads are queued, and the next call from
 * Python delivers them.
 */
#ifndef SPSH_PY_BINDING_H
#define SPSH_PY_BINDING_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#include "speechshard/loader.h"

/* PyType_Slot keeps functions in a void pointer. ISO C has no such conversion; POSIX does. */
#define SPSH_PY_SLOT(slot_, function_)                                                             \
    {                                                                                              \
        (slot_), __extension__(void *)(function_)                                                  \
    }
#define SPSH_PY_KEYWORDS(function_) ((PyCFunction)(void (*)(void))(function_))

/* Types and exceptions, made once when the module is imported. In a limited API older than 3.10 a
 * type cannot find its module, so these are global: one interpreter per process. */
typedef struct spsh__py_globals {
    PyTypeObject *array, *batch, *dataset, *epoch, *featgen, *loader, *utterance;
    PyObject *error, *corrupt_error, *not_found_error, *invalid_error, *read_error;
} spsh__py_globals;
extern spsh__py_globals spsh__py;

/* tp_new of types whose objects only the module creates: raises TypeError. */
PyObject *spsh__py_no_new(PyTypeObject *type, PyObject *args, PyObject *keywords);
/* Create a type in *ret_type. name: its name in the module; NULL: do not add it to the module. */
int spsh__py_add_type(PyObject *module, const char *name, PyType_Spec *spec,
                      PyTypeObject **ret_type);

/* ---- py_error.c ---- */

int spsh__py_errors_init(PyObject *module);

/* Set the exception for err->status. Returns NULL. */
PyObject *spsh__py_raise(const spsh_error *err);
/* The same; the message ends with "; advice". advice: a str, or NULL for none. */
PyObject *spsh__py_raise_advice(const spsh_error *err, PyObject *advice);
/* Set an exception; the value is -1. Expressions, so that the caller's return stays visible. */
#define SPSH_PY_RAISE(err_)       (spsh__py_raise(err_), -1)
#define SPSH_PY_FAIL(class_, ...) (PyErr_Format((class_), __VA_ARGS__), -1)

/* ---- py_convert.c: NULL or -1 on failure, with an exception set ---- */

PyObject *spsh__py_text(spsh_bytes text);
/* Returns new bytes, NUL-terminated. what: name of the argument in messages. */
PyObject *spsh__py_utf8(PyObject *text, const char *what);
PyObject *spsh__py_path(PyObject *path);
/* A variable of os.environ, as new bytes, or None. */
PyObject *spsh__py_environment_path(const char *name);
/* Set dict[key] and release value. value NULL: fail, its exception is set. */
int spsh__py_dict_take(PyObject *dict, const char *key, PyObject *value);
int spsh__py_dict_u64(PyObject *dict, const char *key, uint64_t value);
int spsh__py_dict_real(PyObject *dict, const char *key, double value);
int spsh__py_dict_text(PyObject *dict, const char *key, spsh_bytes value);
/* An unsigned member of a structure. SPSH_PY_FIELD makes the closure of a getter. */
typedef struct spsh__py_field {
    size_t offset, size_bytes;
} spsh__py_field;
#define SPSH_PY_FIELD(type_, member_)                                                              \
    (&(spsh__py_field){offsetof(type_, member_), sizeof(((const type_ *)NULL)->member_)})
PyObject *spsh__py_number(const void *structure, const spsh__py_field *field);
/* Append value and release it. value NULL: fail, its exception is set. */
int spsh__py_list_take(PyObject *list, PyObject *value);

/* Objects that arguments point into are kept in a list. Takes bytes; or NULL. */
const char *spsh__py_keep(PyObject *kept, PyObject *bytes);
/* A zeroed array with one element more than count, which stays zero. */
void *spsh__py_keep_array(PyObject *kept, Py_ssize_t count, size_t element_bytes);

/* A word that an argument accepts, and its value. An entry with word NULL ends an array. */
typedef struct spsh__py_choice {
    const char *word;
    int value;
} spsh__py_choice;
/* Raise a TypeError for a keyword that a function does not have. Returns -1. names: those that it
 * has; NULL ends them. */
int spsh__py_refuse_keyword(const char *function, PyObject *name, const char *const *names);
/* Returns -1 with a ValueError that lists the words. */
int spsh__py_refuse_word(const char *name, const spsh__py_choice *choices, PyObject *value);

/* ---- py_array.c ---- */

typedef enum spsh__py_dtype {
    SPSH_PY_INT16,
    SPSH_PY_FLOAT16,
    SPSH_PY_FLOAT32,
    SPSH_PY_INT64,
} spsh__py_dtype;

enum { SPSH_PY_NDIM_MAX = 3 };

typedef struct spsh__py_layout {
    spsh__py_dtype dtype;
    int ndim;
    Py_ssize_t shape[SPSH_PY_NDIM_MAX];
} spsh__py_layout;

typedef struct spsh__py_array {
    PyObject ob_base;
    PyObject *owner; /* owns data; NULL: the array itself does */
    uint8_t *data;
    spsh__py_dtype dtype;
    int ndim;
    Py_ssize_t shape[SPSH_PY_NDIM_MAX];
    Py_ssize_t strides[SPSH_PY_NDIM_MAX]; /* in bytes */
} spsh__py_array;

int spsh__py_array_init(PyObject *module);
/* Create a view of memory that owner keeps alive, or, if owner is NULL, an array with its own
 * memory. data may be NULL for an empty view. */
PyObject *spsh__py_array_new(PyObject *owner, const void *data, const spsh__py_layout *layout);
Py_ssize_t spsh__py_item_bytes(spsh__py_dtype dtype);
/* Copy to new contiguous host memory. */
PyObject *spsh__py_array_copy(const spsh__py_array *array);

/* ---- py_dlpack.c ---- */

PyObject *spsh__py_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *spsh__py_dlpack_device(PyObject *self, PyObject *unused);

/* ---- py_store.c: a dataset with several holders ---- */

enum { SPSH_PY_READERS_IDLE_MAX = 8 };

typedef struct spsh__py_store {
    spsh_dataset *dataset;
    Py_ssize_t holders;
    spsh_reader *readers[SPSH_PY_READERS_IDLE_MAX]; /* idle */
    int reader_count;
} spsh__py_store;

spsh__py_store *spsh__py_store_open(const char *path);
spsh__py_store *spsh__py_store_hold(spsh__py_store *store);
void spsh__py_store_drop(spsh__py_store *store); /* NULL is fine */

/* Take an idle reader, or open one. One thread uses it, until it gives it back. */
spsh_reader *spsh__py_reader_take(spsh__py_store *store);
void spsh__py_reader_give(spsh__py_store *store, spsh_reader *reader);

/* ---- py_dataset.c, py_info.c, py_utterance.c ---- */

typedef struct spsh__py_dataset {
    PyObject ob_base;
    spsh__py_store *store; /* NULL when closed */
} spsh__py_dataset;

int spsh__py_dataset_init(PyObject *module);
/* Borrowed; NULL with an exception set if the dataset is closed. */
spsh__py_store *spsh__py_dataset_store(PyObject *dataset);
PyObject *spsh__py_info(const spsh_dataset *dataset);
int spsh__py_utterance_init(PyObject *module);
PyObject *spsh__py_utterance_new(PyObject *dataset, uint64_t position);
/* A new Dataset that holds the store. */
PyObject *spsh__py_dataset_share(spsh__py_store *store);

/* ---- py_lease.c: a loader with several holders ---- */

typedef struct spsh__py_log spsh__py_log;

/* Datasets that a lease holds. */
typedef struct spsh__py_stores {
    spsh__py_store **stores;
    const spsh_dataset **datasets;
    uint32_t count;
} spsh__py_stores;

typedef struct spsh__py_lease {
    spsh_loader *loader;
    Py_ssize_t holders;
    pid_t pid;          /* process that opened it: a forked child lacks its threads */
    spsh_cuda *cuda;    /* NULL: batches are in host memory, and the next three are unused */
    uint32_t device;    /* device number */
    void *gate, *event; /* see py_device.c */
    spsh__py_log *log;
    spsh__py_stores served, noises, rooms;
} spsh__py_lease;

/* Open the datasets, without a loader yet. Each argument is a path, a Dataset, or a sequence of
 * these. noises and rooms may be NULL. */
spsh__py_lease *spsh__py_lease_new(PyObject *datasets, PyObject *noises, PyObject *rooms);
/* Open the loader. device: a device number, or -1 for the host. */
int spsh__py_lease_open(spsh__py_lease *lease, const spsh_loader_options *options, int64_t device);
spsh__py_lease *spsh__py_lease_hold(spsh__py_lease *lease);
void spsh__py_lease_drop(spsh__py_lease *lease); /* NULL is fine */
/* Release a batch. streams: consumer streams that received its device memory. */
void spsh__py_lease_release(const spsh__py_lease *lease, const spsh_batch *batch,
                            void *const *streams, int count);

/* ---- py_device.c ---- */

typedef struct spsh__py_device_memory {
    void *data, *ready; /* ready: event recorded after the copy that fills data */
} spsh__py_device_memory;

/* Load the plug-in and select a device. -1 with an exception that states why it cannot be used. */
int spsh__py_device_open(spsh__py_lease *lease, uint32_t number);
void spsh__py_device_close(spsh__py_lease *lease); /* call after the loader is closed */
/* Make the stream wait for the batch: work enqueued later runs after the batch is ready. */
int spsh__py_device_wait(const spsh__py_lease *lease, const spsh_batch *batch, void *stream);
/* Release the batch after all work that these streams hold now. */
void spsh__py_device_release(const spsh__py_lease *lease, const spsh_batch *batch,
                             void *const *streams, int count);
/* Copy bytes of a batch to the host, and wait for the copy. */
int spsh__py_device_read(const spsh__py_lease *lease, const spsh_batch *batch, const void *from,
                         void *to, size_t size_bytes);
/* Copy bytes of a batch into new device memory in *to. The caller frees *to, also after a failure.
 * Needs no GIL. */
spsh_status spsh__py_device_copy(const spsh__py_lease *lease, const spsh_batch *batch,
                                 const void *from, size_t size_bytes, spsh__py_device_memory *to,
                                 spsh_error *err);
void spsh__py_device_memory_free(const spsh__py_lease *lease, spsh__py_device_memory *memory);

/* ---- py_log.c ---- */

spsh__py_log *spsh__py_log_new(void);
void spsh__py_log_free(spsh__py_log *log);
/* The callable that messages go to: given, or (NULL) logging's. */
PyObject *spsh__py_log_callable(PyObject *given);
void spsh__py_log_put(void *user, spsh_log_level level, const char *text); /* a spsh_log_fn */
/* Deliver the queued messages, under the GIL. An Exception of the callable is reported as
 * unraisable: a faulty callable does not end a training. A KeyboardInterrupt or SystemExit is
 * raised: returns -1, and the remaining messages are lost. An exception that is pending at the call
 * stays pending, or becomes the context of the raised one. */
int spsh__py_log_drain(spsh__py_log *log, PyObject *callable);
/* Deliver the queued messages. Call with no exception set. Returns -1 with the callable's
 * exception; the remaining messages are lost. */
int spsh__py_log_pass(spsh__py_log *log, PyObject *callable);
/* Deliver one message at once. Returns -1 with the callable's exception. */
int spsh__py_log_line(PyObject *callable, spsh_log_level level, const char *text);

/* ---- py_options.c: the keywords of Loader ---- */

typedef struct spsh__py_config {
    spsh_loader_options options; /* options.plan points to plan below: do not move a config */
    spsh_plan_options plan;
    PyObject *log;  /* callable; borrowed; NULL: logging */
    PyObject *kept; /* list of objects that the config points into */
    spsh_feature_options features;
    spsh_augment_options augment;
    PyObject *noise, *rooms; /* datasets; borrowed; NULL: none */
    PyObject *columns;       /* tuple of str in kept; NULL: none */
    int64_t device;          /* device number; -1: the host */
    bool has_output;
} spsh__py_config;

/* Parse the keywords. Call spsh__py_config_clear afterward, also after a failure. */
int spsh__py_config_parse(PyObject *keywords, spsh__py_config *config);
void spsh__py_config_clear(spsh__py_config *config);

/* ---- py_featgen.c ---- */

int spsh__py_featgen_init(PyObject *module);

/* ---- py_batch.c ---- */

int spsh__py_batch_init(PyObject *module);
/* Set batch.columns. Takes over the dict. */
void spsh__py_batch_set_columns(PyObject *object, PyObject *columns);
/* Takes over the batch. copy: copy it to separate memory and release the slot at once. */
PyObject *spsh__py_batch_new(spsh__py_lease *lease, const spsh_batch *from, PyObject *domains,
                             bool copy);

/* owner: the owner of an array, or NULL. Returns the number of the device whose memory holds its
 * values, or -1 for the host. */
int64_t spsh__py_batch_device(PyObject *owner);
/* Give the values to a consumer: stream waits until they are ready. The batch releases its slot
 * only after the work on the stream `release_after`. */
int spsh__py_batch_use(PyObject *owner, void *stream, void *release_after);
/* Copy values of an owner from device memory to the host. */
int spsh__py_batch_read(PyObject *owner, const void *from, void *to, size_t size_bytes);

/* ---- py_loader.c, py_report.c ---- */

int spsh__py_loader_init(PyObject *module);

PyObject *spsh__py_plan_dict(const spsh__py_lease *lease);
PyObject *spsh__py_plan_domain_names(const spsh_plan *plan);
PyObject *spsh__py_stats_dict(const spsh__py_lease *lease);
PyObject *spsh__py_bad_list(const spsh__py_lease *lease);

/* ---- py_state.c: a cursor as a dict ---- */

typedef struct spsh__py_place {
    uint64_t epoch, batches;
} spsh__py_place;

int spsh__py_place_get(const spsh_loader *loader, spsh__py_place *ret_place);
/* order: the loader's options of the order, as text. */
PyObject *spsh__py_state_save(const spsh__py_lease *lease, PyObject *order);
int spsh__py_state_load(spsh_loader *loader, PyObject *state, PyObject *order);

#endif
