/* py_dlpack.c: __dlpack__: export an Array as a DLPack capsule.
 *
 * The structs are DLPack's ABI. Version 1.x, in a capsule "dltensor_versioned", is for a caller
 * that passes max_version (1, 0) or later. Other callers get version 0.x, in a capsule "dltensor".
 * The consumer renames the capsule and calls the deleter when it is done, on any thread and without
 * the GIL. A capsule without a consumer calls the deleter when it is freed. Consumers may write to
 * the data: the slot of a batch belongs to its borrower.
 *
 * For an Array in device memory, `stream` is the consumer's stream: None or 1 for the legacy
 * default stream, 2 for the per-thread default stream, -1 if the consumer synchronizes by itself.
 * The stream waits until the values are ready. The memory is reused after the work that was
 * enqueued on the stream while tensors of the batch existed.
 */
#include <string.h>

#include "py_binding.h"

enum {
    DEVICE_CPU = 1,
    DEVICE_CUDA = 2,
    CODE_INT = 0,
    CODE_FLOAT = 2,
    VERSION_MAJOR = 1,
    VERSION_MINOR = 0,
    FLAG_IS_COPIED = 2
};

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

typedef struct export
{
    union {
        dl_managed plain;
        dl_managed_versioned versioned;
    } managed;
    PyObject *array; /* kept alive */
    int64_t shape[SPSH_PY_NDIM_MAX], strides[SPSH_PY_NDIM_MAX];
}
export;

static const char plain_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";

static void export_free(export *exported)
{
    if (exported == NULL)
        return;
    /* A tensor may outlive the interpreter. Then its array can no longer be released. */
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(exported->array);
        PyGILState_Release(state);
    }
    free(exported);
}

static void delete_plain(dl_managed *self)
{
    if (self != NULL)
        export_free((export *)self->context);
}

static void delete_versioned(dl_managed_versioned *self)
{
    if (self != NULL)
        export_free((export *)self->context);
}

static void free_capsule(PyObject *capsule)
{
    void *managed = NULL;
    if (PyCapsule_IsValid(capsule, plain_name)) {
        managed = PyCapsule_GetPointer(capsule, plain_name);
        delete_plain((dl_managed *)managed);
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        managed = PyCapsule_GetPointer(capsule, versioned_name);
        delete_versioned((dl_managed_versioned *)managed);
    }
}

static dl_device device_of(const spsh__py_array *array)
{
    const int64_t number = spsh__py_batch_device(array->owner);
    return number < 0 ? (dl_device){DEVICE_CPU, 0} : (dl_device){DEVICE_CUDA, (int32_t)number};
}

static void fill_tensor(export *exported, const spsh__py_array *array, dl_tensor *tensor)
{
    Py_ssize_t item_bytes = spsh__py_item_bytes(array->dtype);
    for (int i = 0; i < array->ndim; i++) {
        exported->shape[i] = array->shape[i];
        exported->strides[i] = array->strides[i] / item_bytes;
    }
    *tensor = (dl_tensor){
        .data = array->data,
        .device = device_of(array),
        .ndim = array->ndim,
        .code = array->dtype == SPSH_PY_FLOAT16 || array->dtype == SPSH_PY_FLOAT32 ? CODE_FLOAT
                                                                                   : CODE_INT,
        .bits = (uint8_t)(8 * item_bytes),
        .lanes = 1,
        .shape = exported->shape,
        .strides = exported->strides,
    };
}

/* Takes over the reference to array. */
static PyObject *export_array(PyObject *array, bool versioned, bool copied)
{
    export *exported = (export *)malloc(sizeof(*exported));
    PyObject *capsule = NULL;
    if (exported == NULL) {
        Py_DECREF(array);
        return PyErr_NoMemory();
    }
    exported->array = array;
    if (versioned) {
        dl_managed_versioned *managed = &exported->managed.versioned;
        *managed = (dl_managed_versioned){.major = VERSION_MAJOR,
                                          .minor = VERSION_MINOR,
                                          .context = exported,
                                          .deleter = delete_versioned,
                                          .flags = copied ? FLAG_IS_COPIED : 0};
        fill_tensor(exported, (spsh__py_array *)array, &managed->tensor);
        capsule = PyCapsule_New(managed, versioned_name, free_capsule);
    } else {
        dl_managed *managed = &exported->managed.plain;
        *managed = (dl_managed){.context = exported, .deleter = delete_plain};
        fill_tensor(exported, (spsh__py_array *)array, &managed->tensor);
        capsule = PyCapsule_New(managed, plain_name, free_capsule);
    }
    if (capsule == NULL)
        export_free(exported);
    return capsule;
}

/* Parse a tuple of two integers. None leaves both results unchanged. */
static int parse_pair(PyObject *pair, const char *name, int *ret_first, int *ret_second)
{
    if (pair == Py_None)
        return 0;
    if (!PyTuple_Check(pair))
        return SPSH_PY_FAIL(PyExc_TypeError, "%s must be a tuple of two integers", name);
    return PyArg_ParseTuple(pair, "ii", ret_first, ret_second) ? 0 : -1;
}

/* Check dl_device: None, the array's device, or (1, 0), which sets *ret_to_host for an array in
 * device memory. */
static int check_device(const spsh__py_array *array, PyObject *device, bool *ret_to_host)
{
    const dl_device at = device_of(array);
    int type = at.type, id = at.id;
    if (parse_pair(device, "dl_device", &type, &id) != 0)
        return -1;
    *ret_to_host = at.type != DEVICE_CPU && type == DEVICE_CPU && id == 0;
    if (*ret_to_host || (type == at.type && id == at.id))
        return 0;
    return SPSH_PY_FAIL(PyExc_BufferError,
                        at.type == DEVICE_CPU
                            ? "the Array is on the CPU: dl_device must be None or (1, 0)"
                            : "the Array is on device (%d, %d): dl_device must be None, this "
                              "device, or (1, 0) for a copy on the CPU",
                        (int)at.type, (int)at.id);
}

/* Make the consumer's stream wait for the values. */
static int use_stream(const spsh__py_array *array, PyObject *stream)
{
    if (device_of(array).type == DEVICE_CPU) {
        if (stream == Py_None)
            return 0;
        return SPSH_PY_FAIL(PyExc_BufferError, "the Array is on the CPU: stream must be None");
    }
    long long handle = 1; /* the legacy default stream, as None */
    if (stream != Py_None)
        handle = PyLong_AsLongLong(stream);
    if (PyErr_Occurred() != NULL)
        return -1;
    if (handle == -1)
        return 0;
    if (handle <= 0) {
        PyErr_SetString(PyExc_BufferError,
                        "stream must be None, -1, 1 (legacy default), 2 (per-thread default), or a "
                        "cudaStream_t; 0 is ambiguous");
        return -1;
    }
    /* CUDA accepts 2 as the per-thread default stream. It names the stream of the calling thread,
     * and another thread may free the batch. So the batch waits for the legacy default stream
     * instead, which waits for the default streams of all threads. 1 becomes NULL, which is the
     * legacy default stream. */
    void *to = NULL;
    const uintptr_t bits = handle == 1 ? 0 : (uintptr_t)handle;
    memcpy(&to, &bits, sizeof(to));
    return spsh__py_batch_use(array->owner, to, handle == 2 ? NULL : to);
}

PyObject *spsh__py_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char stream_name[] = "stream", version_name[] = "max_version";
    static char device_name[] = "dl_device", copy_name[] = "copy";
    static char *names[] = {stream_name, version_name, device_name, copy_name, NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy))
        return NULL;
    const spsh__py_array *view = (const spsh__py_array *)self;
    int major = 0, minor = 0;
    bool to_host = false;
    if (parse_pair(version, "max_version", &major, &minor) != 0 ||
        check_device(view, device, &to_host) != 0)
        return NULL;
    int copied = copy == Py_None ? to_host : PyObject_IsTrue(copy);
    if (copied < 0)
        return NULL;
    if (copied != to_host && device_of(view).type != DEVICE_CPU)
        return PyErr_Format(
            PyExc_BufferError,
            "an Array in device memory can be shared (copy must be None or False), or copied to "
            "the CPU (dl_device must be (1, 0))");
    if (!to_host && use_stream(view, stream) != 0)
        return NULL;
    PyObject *array = self;
    if (copied)
        array = spsh__py_array_copy((spsh__py_array *)self);
    else
        Py_INCREF(array);
    return array == NULL ? NULL : export_array(array, major >= VERSION_MAJOR, copied);
}

PyObject *spsh__py_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const dl_device at = device_of((const spsh__py_array *)self);
    return Py_BuildValue("(ii)", (int)at.type, (int)at.id);
}
