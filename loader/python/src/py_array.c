/* py_array.c: speechshard.Array: a view of numbers, without a copy.
 *
 * One to three dimensions of int16, float16, float32, or int64. Arrays are exported through the
 * buffer protocol (memoryview, numpy.asarray) and DLPack (py_dlpack.c). Access to single elements
 * is for inspection, not for arithmetic. It goes through a memoryview, which converts them. float16
 * is converted to float32 first, because older memoryviews do not support it.
 */
#include <string.h>

#include "py_binding.h"
#include "py_hidden_abi.h"

/* Never changed. Not const, because the format in the buffer protocol is not const. */
static struct {
    const char *name;
    char format[2];
    Py_ssize_t bytes;
} dtypes[] = {
    [SPSH_PY_INT16] = {"int16",   "h", 2},
    [SPSH_PY_FLOAT16] = {"float16", "e", 2},
    [SPSH_PY_FLOAT32] = {"float32", "f", 4},
    [SPSH_PY_INT64] = {"int64",   "q", 8},
};

/* data of an array without elements */
static int64_t nothing;

Py_ssize_t spsh__py_item_bytes(spsh__py_dtype dtype)
{
    return dtypes[dtype].bytes;
}

static Py_ssize_t element_count(const spsh__py_array *array)
{
    Py_ssize_t count = 1;
    for (int i = 0; i < array->ndim; i++)
        count *= array->shape[i];
    return count;
}

/* The stride of a dimension with at most one element does not matter. */
static bool is_contiguous(const spsh__py_array *array, bool fortran)
{
    Py_ssize_t stride = dtypes[array->dtype].bytes;
    if (element_count(array) == 0)
        return true;
    for (int i = 0; i < array->ndim; i++) {
        int at = fortran ? i : array->ndim - 1 - i;
        if (array->shape[at] > 1 && array->strides[at] != stride)
            return false;
        stride *= array->shape[at];
    }
    return true;
}

static spsh__py_array *make(const spsh__py_layout *layout, Py_ssize_t *ret_bytes)
{
    Py_ssize_t stride = dtypes[layout->dtype].bytes;
    Py_ssize_t strides[SPSH_PY_NDIM_MAX] = {0};
    for (int i = layout->ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        if (__builtin_mul_overflow(stride, layout->shape[i], &stride)) {
            PyErr_NoMemory();
            return NULL;
        }
    }
    spsh__py_array *array = PyObject_New(spsh__py_array, spsh__py.array);
    if (array == NULL)
        return NULL;
    array->owner = NULL;
    array->data = (uint8_t *)&nothing;
    array->dtype = layout->dtype;
    array->ndim = layout->ndim;
    memcpy(array->shape, layout->shape, sizeof(array->shape));
    memcpy(array->strides, strides, sizeof(array->strides));
    *ret_bytes = stride;
    return array;
}

PyObject *spsh__py_array_new(PyObject *owner, const void *data, const spsh__py_layout *layout)
{
    Py_ssize_t size_bytes = 0;
    spsh__py_array *array = make(layout, &size_bytes);
    if (array == NULL)
        return NULL;
    if (owner != NULL) {
        Py_INCREF(owner);
        array->owner = owner;
        if (size_bytes > 0)
            memcpy(&array->data, &data, sizeof(data)); /* drops const: borrowers may write */
    } else if (size_bytes > 0) {
        uint8_t *memory = (uint8_t *)malloc((size_t)size_bytes);
        if (memory == NULL) {
            Py_DECREF(array);
            return PyErr_NoMemory();
        }
        array->data = memory;
    }
    return (PyObject *)array;
}

static void array_dealloc(PyObject *self)
{
    spsh__py_array *array = (spsh__py_array *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (array->owner == NULL && array->data != (uint8_t *)&nothing)
        free(array->data);
    Py_XDECREF(array->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static uint8_t *copy_dimension(const spsh__py_array *array, int dimension, const uint8_t *from,
                               uint8_t *to)
{
    Py_ssize_t item_bytes = dtypes[array->dtype].bytes;
    /* The second condition only satisfies gcc's bounds analysis: ndim is at most NDIM_MAX. */
    if (dimension == array->ndim || dimension == SPSH_PY_NDIM_MAX) {
        memcpy(to, from, (size_t)item_bytes);
        return to + item_bytes;
    }
    for (Py_ssize_t i = 0; i < array->shape[dimension]; i++)
        to = copy_dimension(array, dimension + 1, from + i * array->strides[dimension], to);
    return to;
}

/* Copy device memory to the host. Only contiguous arrays: they need one copy. */
static int read_device(const spsh__py_array *array, uint8_t *to, size_t size_bytes)
{
    if (is_contiguous(array, false))
        return spsh__py_batch_read(array->owner, array->data, to, size_bytes);
    return SPSH_PY_FAIL(PyExc_BufferError,
                        "the array in device memory is not contiguous and cannot "
                        "be copied; use torch.from_dlpack()");
}

PyObject *spsh__py_array_copy(const spsh__py_array *array)
{
    spsh__py_layout layout = {.dtype = array->dtype, .ndim = array->ndim};
    for (int i = 0; i < array->ndim; i++)
        layout.shape[i] = array->shape[i];
    PyObject *copy = spsh__py_array_new(NULL, NULL, &layout);
    Py_ssize_t size_bytes = element_count(array) * dtypes[array->dtype].bytes;
    if (copy == NULL || size_bytes == 0)
        return copy;
    uint8_t *to = ((spsh__py_array *)copy)->data;
    if (spsh__py_batch_device(array->owner) >= 0) {
        if (read_device(array, to, (size_t)size_bytes) == 0)
            return copy;
        Py_DECREF(copy);
        return NULL;
    }
    if (is_contiguous(array, false))
        memcpy(to, array->data, (size_t)size_bytes);
    else
        copy_dimension(array, 0, array->data, to);
    return copy;
}

/* Convert float16 to float32, in new memory. */
static PyObject *widen(const spsh__py_array *array)
{
    spsh__py_layout layout = {.dtype = SPSH_PY_FLOAT32, .ndim = array->ndim};
    PyObject *halves = spsh__py_array_copy(array);
    for (int i = 0; i < array->ndim; i++)
        layout.shape[i] = array->shape[i];
    PyObject *floats = halves == NULL ? NULL : spsh__py_array_new(NULL, NULL, &layout);
    if (floats != NULL) {
        const void *from = ((spsh__py_array *)halves)->data;
        void *to = ((spsh__py_array *)floats)->data;
        spsh_float_from_half((float *)to, (const uint16_t *)from, (size_t)element_count(array));
    }
    Py_XDECREF(halves);
    return floats;
}

/* Return a memoryview whose elements can be read: of a copy if the array is in device memory or
 * float16. */
static PyObject *view_elements(PyObject *self)
{
    const spsh__py_array *array = (const spsh__py_array *)self;
    const bool is_half = array->dtype == SPSH_PY_FLOAT16;
    if (!is_half && spsh__py_batch_device(array->owner) < 0)
        return PyMemoryView_FromObject(self);
    PyObject *floats = is_half ? widen(array) : spsh__py_array_copy(array);
    PyObject *view = floats == NULL ? NULL : PyMemoryView_FromObject(floats);
    Py_XDECREF(floats);
    return view;
}

/* ---- buffer protocol ---- */

static int array_get_buffer(PyObject *self, spsh__py_buffer *view, int flags)
{
    spsh__py_array *array = (spsh__py_array *)self;
    bool plain = is_contiguous(array, false);
    bool wants_plain = (flags & SPSH_PY_BUF_STRIDES) != SPSH_PY_BUF_STRIDES ||
                       (flags & SPSH_PY_BUF_C) == SPSH_PY_BUF_C;
    bool wants_fortran = (flags & SPSH_PY_BUF_FORTRAN) == SPSH_PY_BUF_FORTRAN;
    bool wants_any = (flags & SPSH_PY_BUF_ANY) == SPSH_PY_BUF_ANY;
    view->obj = NULL;
    if (spsh__py_batch_device(array->owner) >= 0)
        return SPSH_PY_FAIL(
            PyExc_BufferError,
            "the array is in device memory: use torch.from_dlpack(), or tolist() for a copy");
    if ((wants_plain && !plain) || (wants_fortran && !is_contiguous(array, true)) ||
        (wants_any && !plain && !is_contiguous(array, true)))
        return SPSH_PY_FAIL(PyExc_BufferError,
                            "the array does not have the requested memory layout");
    Py_INCREF(self);
    view->obj = self;
    view->buf = array->data;
    view->itemsize = dtypes[array->dtype].bytes;
    view->len = element_count(array) * view->itemsize;
    view->readonly = 0;
    view->ndim = array->ndim;
    view->format = (flags & SPSH_PY_BUF_FORMAT) != 0 ? dtypes[array->dtype].format : NULL;
    view->shape = (flags & SPSH_PY_BUF_ND) != 0 ? array->shape : NULL;
    view->strides = (flags & SPSH_PY_BUF_STRIDES) == SPSH_PY_BUF_STRIDES ? array->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    return 0;
}

/* ---- elements ---- */

static Py_ssize_t array_length(PyObject *self)
{
    return ((spsh__py_array *)self)->shape[0];
}

/* A view of part of the first dimension. rows < 0: row `first`, with one dimension less. Else
 * `rows` rows from `first` on, `step` apart. */
static PyObject *part(spsh__py_array *self, Py_ssize_t first, Py_ssize_t rows, Py_ssize_t step)
{
    spsh__py_layout layout = {.dtype = self->dtype, .ndim = self->ndim};
    for (int i = 0; i < self->ndim; i++)
        layout.shape[i] = self->shape[i];
    const uint8_t *data = rows == 0 ? self->data : self->data + first * self->strides[0];
    /* Never NULL, or the part would own the memory that it shows. */
    PyObject *owner = self->owner != NULL ? self->owner : (PyObject *)self;
    PyObject *made = spsh__py_array_new(owner, data, &layout);
    if (made == NULL)
        return NULL;
    spsh__py_array *view = (spsh__py_array *)made;
    int skipped = rows < 0 ? 1 : 0;
    view->ndim = self->ndim - skipped;
    for (int i = 0; i < view->ndim; i++) {
        view->shape[i] = self->shape[i + skipped];
        view->strides[i] = self->strides[i + skipped];
    }
    if (rows >= 0) {
        view->shape[0] = rows;
        view->strides[0] *= step;
    }
    return made;
}

static PyObject *array_item(PyObject *self, Py_ssize_t index)
{
    spsh__py_array *array = (spsh__py_array *)self;
    if (index < 0 || index >= array->shape[0])
        return PyErr_Format(PyExc_IndexError, "index out of range");
    if (array->ndim > 1)
        return part(array, index, -1, 1);
    PyObject *one = part(array, index, 1, 1);
    PyObject *view = one == NULL ? NULL : view_elements(one);
    PyObject *value = view == NULL ? NULL : PySequence_GetItem(view, 0);
    Py_XDECREF(view);
    Py_XDECREF(one);
    return value;
}

static PyObject *array_subscript(PyObject *self, PyObject *key)
{
    spsh__py_array *array = (spsh__py_array *)self;
    if (PySlice_Check(key)) {
        Py_ssize_t start = 0, stop = 0, step = 0;
        if (PySlice_Unpack(key, &start, &stop, &step) < 0)
            return NULL;
        Py_ssize_t rows = PySlice_AdjustIndices(array->shape[0], &start, &stop, step);
        return part(array, start, rows, step);
    }
    if (!PyIndex_Check(key)) {
        PyErr_SetString(PyExc_TypeError,
                        "an index must be an integer or a slice; numpy() supports other indexes");
        return NULL;
    }
    Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != NULL)
        return NULL;
    return array_item(self, index < 0 ? index + array->shape[0] : index);
}

static PyObject *array_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *view = view_elements(self);
    PyObject *list = view == NULL ? NULL : PyObject_CallMethod(view, "tolist", NULL);
    Py_XDECREF(view);
    return list;
}

static PyObject *array_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *array = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "asarray", "(O)", self);
    Py_XDECREF(numpy);
    return array;
}

/* ---- the type ---- */

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    const spsh__py_array *array = (const spsh__py_array *)self;
    PyObject *shape = PyTuple_New(array->ndim);
    for (int i = 0; shape != NULL && i < array->ndim; i++) {
        PyObject *size = PyLong_FromSsize_t(array->shape[i]);
        if (size == NULL || PyTuple_SetItem(shape, i, size) != 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(dtypes[((spsh__py_array *)self)->dtype].name);
}

static PyObject *array_repr(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL);
    if (shape == NULL)
        return NULL;
    PyObject *text = PyUnicode_FromFormat("speechshard.Array(shape=%R, dtype='%s')", shape,
                                          dtypes[((spsh__py_array *)self)->dtype].name);
    Py_DECREF(shape);
    return text;
}

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "Size of each dimension, as a tuple.",                NULL},
    {"dtype", get_dtype, NULL, "\"int16\", \"float16\", \"float32\", or \"int64\".", NULL},
    {NULL,    NULL,      NULL, NULL,                                                 NULL},
};

static PyMethodDef methods[] = {
    {"numpy",             array_numpy,                       METH_NOARGS,                  "numpy() -> numpy.ndarray that shares the memory."},
    {"tolist",            array_tolist,                      METH_NOARGS,                  "tolist() -> nested list of numbers, a copy."     },
    {"__dlpack__",        SPSH_PY_KEYWORDS(spsh__py_dlpack), METH_VARARGS | METH_KEYWORDS,
     "Export as DLPack, as the Python array API standard defines it."                                                                        },
    {"__dlpack_device__", spsh__py_dlpack_device,            METH_NOARGS,
     "Device of the memory: (1, 0) for the CPU, (2, n) for CUDA device n."                                                                   },
    {NULL,                NULL,                              0,                            NULL                                              },
};

static char doc[] =
    "A view of numbers in the memory of a batch, or an array with its own memory. A view keeps "
    "its\n"
    "batch alive.\n\n"
    "numpy(), memoryview(), numpy.from_dlpack(), and torch.from_dlpack() share the memory without\n"
    "a copy. For device memory, use from_dlpack(), or tolist(), which copies.";

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_dealloc, array_dealloc),
    SPSH_PY_SLOT(Py_tp_new, spsh__py_no_new),
    SPSH_PY_SLOT(Py_tp_repr, array_repr),
    SPSH_PY_SLOT(Py_tp_methods, methods),
    SPSH_PY_SLOT(Py_tp_getset, properties),
    SPSH_PY_SLOT(Py_tp_doc, doc),
    SPSH_PY_SLOT(SPSH_PY_SLOT_GETBUFFER, array_get_buffer),
    SPSH_PY_SLOT(Py_sq_length, array_length),
    SPSH_PY_SLOT(Py_sq_item, array_item),
    SPSH_PY_SLOT(Py_mp_length, array_length),
    SPSH_PY_SLOT(Py_mp_subscript, array_subscript),
    {0, NULL},
};

static PyType_Spec spec = {"speechshard.Array", sizeof(spsh__py_array), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int spsh__py_array_init(PyObject *module)
{
    return spsh__py_add_type(module, "Array", &spec, &spsh__py.array);
}
