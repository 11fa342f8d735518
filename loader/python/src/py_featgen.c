/* py_featgen.c: speechshard.Featgen: compute features of samples without a loader. */
#include <string.h>

#include "py_binding.h"

typedef struct featgen {
    PyObject ob_base;
    spsh_featgen *featgen;
} featgen;

/* ---- life ---- */

static PyObject *featgen_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char features_name[] = "features";
    static char *names[] = {features_name, NULL};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *made = NULL;
    const char *text = "kaldi-fbank";
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s:Featgen", names, &text))
        return NULL;
    spsh_status rc = spsh_feature_options_parse(text, &options, &err);
    if (rc != SPSH_OK)
        err.status = SPSH_E_INVALID_ARG;
    else
        rc = spsh_featgen_open(&options, NULL, &made, &err);
    if (rc != SPSH_OK)
        return spsh__py_raise(&err);
    allocfunc alloc = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (self == NULL)
        spsh_featgen_close(made);
    else
        ((featgen *)self)->featgen = made;
    return self;
}

static void featgen_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    spsh_featgen_close(((featgen *)self)->featgen);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- computing ---- */

/* 1 if the attribute of a memoryview equals want, else 0; -1 with an exception set. Releases
 * want. */
static int attribute_is(PyObject *view, const char *name, PyObject *want)
{
    PyObject *value = PyObject_GetAttrString(view, name);
    int is_same = value == NULL || want == NULL ? -1 : PyObject_RichCompareBool(value, want, Py_EQ);
    Py_XDECREF(value);
    Py_XDECREF(want);
    return is_same;
}

/* Copy samples (one dimension of int16 or float32) to bytes; NULL with an exception set. */
static PyObject *sample_bytes(PyObject *samples, bool *ret_floats)
{
    PyObject *view = PyMemoryView_FromObject(samples);
    if (view == NULL)
        return NULL;
    int is_line = attribute_is(view, "ndim", PyLong_FromLong(1));
    int is_int = is_line <= 0 ? is_line : attribute_is(view, "format", PyUnicode_FromString("h"));
    int is_float = is_line <= 0 ? is_line : attribute_is(view, "format", PyUnicode_FromString("f"));
    PyObject *bytes = NULL;
    if (is_int > 0 || is_float > 0)
        bytes = PyObject_CallMethod(view, "tobytes", NULL);
    else if (PyErr_Occurred() == NULL)
        PyErr_SetString(PyExc_TypeError, "samples must have one dimension, of int16 or float32");
    *ret_floats = is_float > 0;
    Py_DECREF(view);
    return bytes;
}

static spsh_status compute(const featgen *self, const spsh_feature_input *input, float *rows,
                           spsh_error *err)
{
    spsh_featgen_worker *worker = NULL;
    spsh_status rc = SPSH_OK;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_featgen_worker_open(self->featgen, &worker, err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_compute(worker, input, rows, err);
    spsh_featgen_worker_close(worker);
    Py_END_ALLOW_THREADS;
    return rc;
}

static PyObject *featgen_compute(PyObject *object, PyObject *samples)
{
    const featgen *self = (const featgen *)object;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__py_layout layout = {.dtype = SPSH_PY_FLOAT32, .ndim = 2};
    spsh_feature_input input = {.sample_count = 0};
    bool floats = false;
    PyObject *bytes = sample_bytes(samples, &floats);
    if (bytes == NULL)
        return NULL;
    const void *data = PyBytes_AsString(bytes);
    input.sample_count = (uint64_t)PyBytes_Size(bytes) / (floats ? sizeof(float) : sizeof(int16_t));
    if (floats)
        input.f32 = (const float *)data;
    else
        input.i16 = (const int16_t *)data;
    layout.shape[0] = (Py_ssize_t)spsh_featgen_frame_count(self->featgen, input.sample_count);
    layout.shape[1] = (Py_ssize_t)spsh_featgen_dim(self->featgen);
    PyObject *array = spsh__py_array_new(NULL, NULL, &layout);
    void *rows = array == NULL ? NULL : ((spsh__py_array *)array)->data;
    if (array != NULL && compute(self, &input, (float *)rows, &err) != SPSH_OK) {
        spsh__py_raise(&err);
        Py_CLEAR(array);
    }
    Py_DECREF(bytes);
    return array;
}

/* ---- the type ---- */

static PyObject *get_features(PyObject *object, void *unused)
{
    (void)unused;
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    spsh_feature_options_text(spsh_featgen_features(((featgen *)object)->featgen), text,
                              sizeof(text));
    return PyUnicode_FromString(text);
}

static PyObject *get_dim(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(spsh_featgen_dim(((featgen *)object)->featgen));
}

static PyObject *get_rate(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(
        spsh_featgen_features(((featgen *)object)->featgen)->sample_rate_hz);
}

static PyGetSetDef properties[] = {
    {"features",       get_features, NULL, "All options as canonical text (str).",      NULL},
    {"dim",            get_dim,      NULL, "Number of values per frame (int).",         NULL},
    {"sample_rate_hz", get_rate,     NULL, "Sample rate that compute() expects (int).", NULL},
    {NULL,             NULL,         NULL, NULL,                                        NULL},
};

static PyMethodDef methods[] = {
    {"compute", featgen_compute, METH_O,
     "compute($self, samples, /)\n--\n\n"
     "Compute the features of one channel. samples: any object with a one-dimensional buffer of\n"
     "int16 or float32 (full scale is 1). Returns a new float32 Array of shape (frames, dim).\n"
     "Raises TypeError for other types and shapes."},
    {NULL,      NULL,            0,      NULL      },
};

static char doc[] =
    "Featgen(features=\"kaldi-fbank\"): compute features of samples, bit-identical to those of a\n"
    "Loader.\n\n"
    "features: a preset and changes to it, such as \"kaldi-fbank,mel_count=40\". Raises\n"
    "InvalidArgumentError for an unknown option or a value out of range. Thread-safe.";

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_new, featgen_new), SPSH_PY_SLOT(Py_tp_dealloc, featgen_dealloc),
    SPSH_PY_SLOT(Py_tp_methods, methods), SPSH_PY_SLOT(Py_tp_getset, properties),
    SPSH_PY_SLOT(Py_tp_doc, doc),         {0, NULL},
};

static PyType_Spec spec = {"speechshard.Featgen", sizeof(featgen), 0, Py_TPFLAGS_DEFAULT, slots};

int spsh__py_featgen_init(PyObject *module)
{
    return spsh__py_add_type(module, "Featgen", &spec, &spsh__py.featgen);
}
