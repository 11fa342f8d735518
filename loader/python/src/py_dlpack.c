/* py_dlpack.c: __dlpack__: an Array as a DLPack capsule, for every framework that can take one.
 *
 * The structs are DLPack's ABI: that of version 0.x, in a capsule "dltensor", for a caller that
 * says nothing of versions, and that of 1.x, in "dltensor_versioned", for one with max_version (1,
 * 0) or later. The consumer renames the capsule and calls the deleter when it is done, in any
 * thread and without the GIL; a capsule that nobody took calls it itself. Data may be written to:
 * the slot of a batch belongs to its borrower.
 *
 * Of an Array in a device's memory, `stream` is the consumer's (None and 1: the legacy default one,
 * 2: the thread's default one, -1: it looks after the order by itself): it is made to wait until
 * the values are there, and the memory is used again when it has come past what was put onto it as
 * long as tensors of the batch lived.
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
    /* A tensor that outlives the interpreter: there is nobody to give the memory back to. */
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

/* Takes the array. */
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

/* None, which leaves the numbers as they are, or a tuple of two. */
static int parse_pair(PyObject *pair, const char *name, int *ret_first, int *ret_second)
{
    if (pair == Py_None)
        return 0;
    if (!PyTuple_Check(pair))
        return SPSH_PY_FAIL(PyExc_TypeError, "%s must be a tuple of two integers", name);
    return PyArg_ParseTuple(pair, "ii", ret_first, ret_second) ? 0 : -1;
}

/* None, where the array is, or (1, 0): *ret_to_host, a copy of what is in a device's memory. */
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
                            ? "an Array is on the CPU: dl_device is None or (1, 0)"
                            : "the Array is on device (%d, %d): dl_device is None, that, "
                              "or (1, 0) for a copy on the CPU",
                        (int)at.type, (int)at.id);
}

/* The consumer's stream is to wait for the values. */
static int use_stream(const spsh__py_array *array, PyObject *stream)
{
    if (device_of(array).type == DEVICE_CPU) {
        if (stream == Py_None)
            return 0;
        return SPSH_PY_FAIL(PyExc_BufferError, "an Array is on the CPU: stream is None");
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
                        "stream is None, -1, 1 (legacy default), 2 (per-thread default) or a "
                        "cudaStream_t; 0 would be ambiguous");
        return -1;
    }
    /* CUDA takes 2 for what it means here; 1 is the NULL stream. The default stream of a thread is
     * that of whichever thread names it, and another one may drop the batch; but the legacy one
     * waits for all of them. */
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
            "an Array in a device's memory is shared as it is, or copied to the CPU: "
            "copy is None or False, or dl_device (1, 0)");
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
