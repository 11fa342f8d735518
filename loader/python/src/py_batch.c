/* py_batch.c: speechshard.Batch: utterances with their audio or features, in a slot of the loader.
 *
 * Nothing is copied: arrays of values point into the slot and keep the Batch alive, which releases
 * the slot when it is freed. If the loader would have no free slot to continue, the batch is copied
 * to one separate block instead:
 *
 *     spsh_batch | utterances | values (64-byte aligned) | ids, texts, names
 *
 * Values in device memory are copied to separate device memory, on the loader's stream.
 *
 * Lists of strings and arrays of numbers are created at the first access.
 */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "py_binding.h"

enum { LIST_IDS, LIST_TEXTS, LIST_SPEAKERS, LIST_LANGUAGES, LIST_DOMAINS, LISTS };
enum {
    NUMBERS_LENGTHS,
    NUMBERS_FRAMES,
    NUMBERS_OFFSETS,
    NUMBERS_POSITIONS,
    NUMBERS_STARTS,
    NUMBERS_DATASETS,
    NUMBERS
};
enum { VALUES_ALIGNMENT = 64, STREAMS_MAX = 8 };

typedef struct batch {
    PyObject ob_base;
    spsh__py_lease *lease;         /* keeps the slot and the device open; NULL for a host copy */
    const spsh_batch *batch;       /* in a slot of the loader, or the same as copy */
    spsh_batch *copy;              /* the separate block; NULL: batch is in a slot */
    spsh__py_device_memory values; /* values of a copy in device memory */
    void *streams[STREAMS_MAX];    /* streams that received values in device memory */
    int stream_count;
    PyObject *domains; /* tuple: names of the plan's domains */
    PyObject *columns; /* dict; NULL: none were requested */
    PyObject *lists[LISTS], *numbers[NUMBERS];
} batch;

static spsh__py_dtype dtype_of(const spsh_batch *from)
{
    switch (from->output) {
    case SPSH_OUTPUT_INT16: return SPSH_PY_INT16;
    case SPSH_OUTPUT_FLOAT32: return SPSH_PY_FLOAT32;
    case SPSH_OUTPUT_FEATURES: break;
    }
    return from->feature_dtype == SPSH_FLOAT16 ? SPSH_PY_FLOAT16 : SPSH_PY_FLOAT32;
}

static size_t item_bytes(const spsh_batch *from)
{
    return (size_t)spsh__py_item_bytes(dtype_of(from));
}

/* The audio or the features. */
static const void *values_of(const spsh_batch *from)
{
    switch (from->output) {
    case SPSH_OUTPUT_INT16: return from->i16;
    case SPSH_OUTPUT_FLOAT32: return from->f32;
    case SPSH_OUTPUT_FEATURES: break;
    }
    return from->features;
}

static void set_values(spsh_batch *to, const void *values)
{
    switch (to->output) {
    case SPSH_OUTPUT_INT16: to->i16 = (const int16_t *)values; break;
    case SPSH_OUTPUT_FLOAT32: to->f32 = (const float *)values; break;
    case SPSH_OUTPUT_FEATURES: to->features = values; break;
    }
}

/* ---- copying ---- */

static void copy_text(spsh_bytes *text, uint8_t **at)
{
    if (text->size_bytes > 0)
        memcpy(*at, text->data, text->size_bytes);
    text->data = *at;
    *at += text->size_bytes;
}

static size_t text_bytes(const spsh_batch *from)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < from->utterance_count; i++) {
        const spsh_batch_utterance *utterance = &from->utterances[i];
        sum += utterance->id.size_bytes + utterance->text.size_bytes +
               utterance->speaker.size_bytes + utterance->language.size_bytes;
    }
    return sum;
}

/* Copy a batch to one block; NULL if out of memory. Values in device memory are not copied. Needs
 * no GIL. */
static spsh_batch *copy_batch(const spsh_batch *from)
{
    const bool is_here = from->ready == NULL;
    size_t value_bytes = is_here ? (size_t)from->value_count * item_bytes(from) : 0;
    size_t head_bytes = sizeof(*from) + from->utterance_count * sizeof(*from->utterances);
    uint8_t *block =
        (uint8_t *)malloc(head_bytes + VALUES_ALIGNMENT + value_bytes + text_bytes(from) + 1);
    if (block == NULL)
        return NULL;
    spsh_batch *to = (spsh_batch *)(void *)block;
    spsh_batch_utterance *utterances = (spsh_batch_utterance *)(void *)(block + sizeof(*to));
    uint8_t *values = block + head_bytes;
    values += VALUES_ALIGNMENT - (uintptr_t)values % VALUES_ALIGNMENT;
    uint8_t *text = values + value_bytes;
    *to = *from;
    to->utterances = utterances;
    if (is_here)
        set_values(to, values);
    if (value_bytes > 0)
        memcpy(values, values_of(from), value_bytes);
    for (uint32_t i = 0; i < from->utterance_count; i++) {
        utterances[i] = from->utterances[i];
        copy_text(&utterances[i].id, &text);
        copy_text(&utterances[i].text, &text);
        copy_text(&utterances[i].speaker, &text);
        copy_text(&utterances[i].language, &text);
    }
    return to;
}

/* ---- life ---- */

/* Copy a batch and release its slot, also after a failure. Needs no GIL. */
static spsh_status copy_from(const spsh__py_lease *lease, const spsh_batch *from,
                             spsh_batch **ret_copy, spsh__py_device_memory *values, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh_batch *copied = copy_batch(from);
    if (copied == NULL) {
        rc = SPSH_E_NO_MEMORY;
        spsh_error_set(err, rc, 0, SPSH_OFFSET_NONE, "out of memory while copying a batch");
    }
    if (rc == SPSH_OK && from->ready != NULL) {
        rc = spsh__py_device_copy(lease, from, values_of(from),
                                  (size_t)from->value_count * item_bytes(from), values, err);
        set_values(copied, values->data);
        copied->ready = values->ready;
    }
    spsh_loader_release_after(lease->loader, from, NULL); /* after the copy on its stream */
    *ret_copy = copied;
    return rc;
}

PyObject *spsh__py_batch_new(spsh__py_lease *lease, const spsh_batch *from, PyObject *domains,
                             bool copy)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_batch *copied = NULL;
    spsh__py_device_memory values = {NULL, NULL};
    spsh_status rc = SPSH_OK;
    batch *self = PyObject_New(batch, spsh__py.batch);
    if (self == NULL) {
        spsh_loader_release(lease->loader, from);
        return NULL;
    }
    if (copy) {
        Py_BEGIN_ALLOW_THREADS;
        rc = copy_from(lease, from, &copied, &values, &err);
        Py_END_ALLOW_THREADS;
    }
    memset(self->lists, 0, sizeof(self->lists));
    memset(self->numbers, 0, sizeof(self->numbers));
    Py_INCREF(domains);
    self->domains = domains;
    self->columns = NULL;
    self->lease = copy && lease->cuda == NULL ? NULL : spsh__py_lease_hold(lease);
    self->copy = copied;
    self->values = values;
    self->stream_count = 0;
    self->batch = copy ? copied : from;
    if (rc == SPSH_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return rc == SPSH_E_NO_MEMORY && lease->cuda == NULL ? PyErr_NoMemory() : spsh__py_raise(&err);
}

static void batch_dealloc(PyObject *object)
{
    batch *self = (batch *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->lease != NULL && self->batch != NULL && self->copy == NULL)
        spsh__py_lease_release(self->lease, self->batch, self->streams, self->stream_count);
    else if (self->lease != NULL && self->lease->pid == getpid())
        spsh__py_device_memory_free(self->lease, &self->values); /* waits for work that uses it */
    spsh__py_lease_drop(self->lease);
    free(self->copy);
    for (int i = 0; i < LISTS; i++)
        Py_XDECREF(self->lists[i]);
    for (int i = 0; i < NUMBERS; i++)
        Py_XDECREF(self->numbers[i]);
    Py_DECREF(self->domains);
    Py_XDECREF(self->columns);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- device memory ---- */

int64_t spsh__py_batch_device(PyObject *owner)
{
    if (owner == NULL || Py_TYPE(owner) != spsh__py.batch ||
        ((const batch *)owner)->batch->ready == NULL)
        return -1;
    return ((const batch *)owner)->lease->device;
}

int spsh__py_batch_use(PyObject *owner, void *stream, void *release_after)
{
    batch *self = (batch *)owner;
    int at = 0;
    while (at < self->stream_count && self->streams[at] != release_after)
        at++;
    if (at == STREAMS_MAX)
        return SPSH_PY_FAIL(PyExc_BufferError, "a batch can be given to at most 8 streams");
    if (spsh__py_device_wait(self->lease, self->batch, stream) != 0)
        return -1;
    self->streams[at] = release_after;
    self->stream_count += at == self->stream_count;
    return 0;
}

int spsh__py_batch_read(PyObject *owner, const void *from, void *to, size_t size_bytes)
{
    const batch *self = (const batch *)owner;
    return spsh__py_device_read(self->lease, self->batch, from, to, size_bytes);
}

static PyObject *get_device(PyObject *object, void *unused)
{
    (void)unused;
    const int64_t number = spsh__py_batch_device(object);
    return number < 0 ? PyUnicode_FromString("cpu")
                      : PyUnicode_FromFormat("cuda:%lld", (long long)number);
}

static PyObject *get_ready(PyObject *object, void *unused)
{
    (void)unused;
    void *ready = ((const batch *)object)->batch->ready;
    if (ready == NULL)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(ready);
}

/* ---- strings ---- */

static PyObject *text_at(const batch *self, int list, const spsh_batch_utterance *utterance)
{
    PyObject *domain = NULL;
    switch (list) {
    case LIST_IDS: return spsh__py_text(utterance->id);
    case LIST_TEXTS: return spsh__py_text(utterance->text);
    case LIST_SPEAKERS: return spsh__py_text(utterance->speaker);
    case LIST_LANGUAGES: return spsh__py_text(utterance->language);
    default:
        domain = PyTuple_GetItem(self->domains, (Py_ssize_t)utterance->item.domain);
        Py_XINCREF(domain);
        return domain;
    }
}

/* closure: index of the list, LIST_... */
static PyObject *get_list(PyObject *object, void *closure)
{
    batch *self = (batch *)object;
    int which = *(const int *)closure;
    if (self->lists[which] == NULL) {
        PyObject *list = PyList_New(0);
        int rc = list == NULL ? -1 : 0;
        for (uint32_t i = 0; rc == 0 && i < self->batch->utterance_count; i++)
            rc = spsh__py_list_take(list, text_at(self, which, &self->batch->utterances[i]));
        if (rc != 0)
            Py_CLEAR(list);
        self->lists[which] = list;
    }
    Py_XINCREF(self->lists[which]);
    return self->lists[which];
}

/* ---- columns ---- */

void spsh__py_batch_set_columns(PyObject *object, PyObject *columns)
{
    ((batch *)object)->columns = columns;
}

static PyObject *get_columns(PyObject *object, void *unused)
{
    (void)unused;
    batch *self = (batch *)object;
    if (self->columns == NULL)
        self->columns = PyDict_New();
    Py_XINCREF(self->columns);
    return self->columns;
}

/* ---- numbers ---- */

static int64_t number_at(int which, const spsh_batch_utterance *utterance)
{
    switch (which) {
    case NUMBERS_LENGTHS: return (int64_t)utterance->samples;
    case NUMBERS_FRAMES: return (int64_t)utterance->frames;
    case NUMBERS_OFFSETS: return (int64_t)utterance->offset;
    case NUMBERS_POSITIONS: return (int64_t)utterance->item.position;
    case NUMBERS_STARTS: return (int64_t)utterance->item.start_sample;
    default: return (int64_t)utterance->item.dataset;
    }
}

/* closure: index of the numbers, NUMBERS_... */
static PyObject *get_numbers(PyObject *object, void *closure)
{
    batch *self = (batch *)object;
    int which = *(const int *)closure;
    if (self->numbers[which] == NULL) {
        spsh__py_layout layout = {.dtype = SPSH_PY_INT64, .ndim = 1};
        layout.shape[0] = (Py_ssize_t)self->batch->utterance_count;
        PyObject *array = spsh__py_array_new(NULL, NULL, &layout);
        if (array == NULL)
            return NULL;
        void *data = ((spsh__py_array *)array)->data;
        for (uint32_t i = 0; i < self->batch->utterance_count; i++)
            ((int64_t *)data)[i] = number_at(which, &self->batch->utterances[i]);
        self->numbers[which] = array;
    }
    Py_INCREF(self->numbers[which]);
    return self->numbers[which];
}

/* ---- audio and features ---- */

static PyObject *get_audio(PyObject *object, void *unused)
{
    (void)unused;
    const spsh_batch *from = ((batch *)object)->batch;
    spsh__py_layout layout = {.dtype = dtype_of(from), .ndim = 1};
    if (from->output == SPSH_OUTPUT_FEATURES)
        return PyErr_Format(PyExc_AttributeError,
                            "the batch has features, not audio: use batch.features");
    layout.shape[0] = (Py_ssize_t)from->value_count;
    if (from->output == SPSH_OUTPUT_FLOAT32) {
        layout.ndim = from->channels > 1 ? 3 : 2;
        layout.shape[0] = (Py_ssize_t)from->utterance_count;
        layout.shape[1] = (Py_ssize_t)from->padded_samples;
        layout.shape[2] = (Py_ssize_t)from->channels;
    }
    return spsh__py_array_new(object, values_of(from), &layout);
}

static PyObject *get_features(PyObject *object, void *unused)
{
    (void)unused;
    const spsh_batch *from = ((batch *)object)->batch;
    spsh__py_layout layout = {.dtype = dtype_of(from), .ndim = 3};
    if (from->output != SPSH_OUTPUT_FEATURES)
        return PyErr_Format(PyExc_AttributeError,
                            "the batch has audio, not features: for features, open "
                            "Loader(..., features=\"kaldi-fbank\")");
    layout.shape[0] = (Py_ssize_t)from->utterance_count;
    layout.shape[1] = (Py_ssize_t)from->padded_frames;
    layout.shape[2] = (Py_ssize_t)from->feature_dim;
    return spsh__py_array_new(object, values_of(from), &layout);
}

static PyObject *batch_utterance(PyObject *object, PyObject *number)
{
    const spsh_batch *from = ((batch *)object)->batch;
    Py_ssize_t at = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred() != NULL)
        return NULL;
    at += at < 0 ? (Py_ssize_t)from->utterance_count : 0;
    if (at < 0 || at >= (Py_ssize_t)from->utterance_count)
        return PyErr_Format(PyExc_IndexError, "the batch has %u utterances",
                            (unsigned)from->utterance_count);
    const spsh_batch_utterance *utterance = &from->utterances[at];
    spsh__py_layout layout = {.dtype = dtype_of(from), .ndim = from->channels > 1 ? 2 : 1};
    layout.shape[0] = (Py_ssize_t)utterance->samples;
    layout.shape[1] = (Py_ssize_t)from->channels;
    if (from->output == SPSH_OUTPUT_FEATURES) {
        layout.ndim = 2;
        layout.shape[0] = (Py_ssize_t)utterance->frames;
        layout.shape[1] = (Py_ssize_t)from->feature_dim;
    }
    const uint8_t *values = (const uint8_t *)values_of(from);
    return spsh__py_array_new(object, values + utterance->offset * item_bytes(from), &layout);
}

/* ---- other properties ---- */

/* closure: a spsh__py_field of spsh_batch. */
static PyObject *get_scalar(PyObject *object, void *closure)
{
    return spsh__py_number(((batch *)object)->batch, (const spsh__py_field *)closure);
}

/* closure: a flag, SPSH_BATCH_... */
static PyObject *get_flag(PyObject *object, void *closure)
{
    return PyBool_FromLong((((batch *)object)->batch->flags & *(const unsigned *)closure) != 0);
}

static Py_ssize_t batch_length(PyObject *object)
{
    return (Py_ssize_t)((batch *)object)->batch->utterance_count;
}

static PyObject *batch_repr(PyObject *object)
{
    const spsh_batch *from = ((batch *)object)->batch;
    return PyUnicode_FromFormat(
        "speechshard.Batch(epoch=%llu, step=%llu, utterances=%u, sample_rate_hz=%u)",
        (unsigned long long)from->epoch, (unsigned long long)from->step,
        (unsigned)from->utterance_count, (unsigned)from->sample_rate_hz);
}

static int numbers[] = {0, 1, 2, 3, 4, 5};
#define CLOSURE(number_) (&numbers[(number_)])
static unsigned flags[] = {SPSH_BATCH_EMPTY, SPSH_BATCH_STEP_END};

/* clang-format off */
static PyGetSetDef properties[] = {
    {"ids", get_list, NULL, "Ids, a list of str.", CLOSURE(LIST_IDS)},
    {"texts", get_list, NULL, "Transcripts, a list of str; \"\" if there is none.",
     CLOSURE(LIST_TEXTS)},
    {"speakers", get_list, NULL, "Speakers, a list of str; \"\" if unknown.",
     CLOSURE(LIST_SPEAKERS)},
    {"languages", get_list, NULL, "Languages, a list of str; \"\" if unknown.",
     CLOSURE(LIST_LANGUAGES)},
    {"domains", get_list, NULL, "Domains, a list of str; \"\" if unknown.",
     CLOSURE(LIST_DOMAINS)},
    {"columns", get_columns, NULL,
     "The columns that Loader(columns=...) names, a dict: name to list, with one value per\n"
     "utterance; None if the utterance has no value.", NULL},
    {"lengths", get_numbers, NULL, "Samples per channel of each utterance, an int64 Array.",
     CLOSURE(NUMBERS_LENGTHS)},
    {"frames", get_numbers, NULL,
     "Feature frames of each utterance, an int64 Array; 0 if the batch has audio.",
     CLOSURE(NUMBERS_FRAMES)},
    {"offsets", get_numbers, NULL,
     "Index of each utterance's first value in the flattened audio or features, an int64 Array.",
     CLOSURE(NUMBERS_OFFSETS)},
    {"positions", get_numbers, NULL,
     "Position of each utterance in its dataset, an int64 Array.", CLOSURE(NUMBERS_POSITIONS)},
    {"starts", get_numbers, NULL,
     "First stored sample of each part of a split utterance, else 0; an int64 Array.",
     CLOSURE(NUMBERS_STARTS)},
    {"datasets", get_numbers, NULL,
     "Number of each utterance's dataset, from 0, an int64 Array.", CLOSURE(NUMBERS_DATASETS)},
    {"audio", get_audio, NULL,
     "Audio, an Array. int16: one dimension, the utterances one after another, channels\n"
     "interleaved. float32: (utterances, samples of the longest), padded with zeros, with a third\n"
     "dimension for several channels. Raises AttributeError if the batch has features.", NULL},
    {"features", get_features, NULL,
     "Features, a float32 or float16 Array: (utterances, frames of the longest, values per\n"
     "frame), padded; `frames` has the lengths. Raises AttributeError if the batch has audio.",
     NULL},
    {"sample_rate_hz", get_scalar, NULL,
     "Sample rate of all utterances in Hz; 0 in an empty batch.",
     SPSH_PY_FIELD(spsh_batch, sample_rate_hz)},
    {"channels", get_scalar, NULL, "Channels of all utterances; 0 in an empty batch.",
     SPSH_PY_FIELD(spsh_batch, channels)},
    {"epoch", get_scalar, NULL, "Epoch, from 0.", SPSH_PY_FIELD(spsh_batch, epoch)},
    {"device", get_device, NULL, "Device of audio and features: \"cpu\" or \"cuda:0\".", NULL},
    {"ready", get_ready, NULL,
     "cudaEvent_t recorded after the last write to the values, as an int; None on the CPU. For\n"
     "consumers that pass stream=-1 to __dlpack__.", NULL},
    {"step", get_scalar, NULL, "Step in the epoch, the same on all ranks.",
     SPSH_PY_FIELD(spsh_batch, step)},
    {"number", get_scalar, NULL, "Index of the batch in the epoch, counted over all ranks.",
     SPSH_PY_FIELD(spsh_batch, number)},
    {"empty", get_flag, NULL,
     "True if this rank has no utterances in the epoch's last step.", &flags[0]},
    {"step_end", get_flag, NULL, "True for this rank's last batch of a step.", &flags[1]},
    {NULL, NULL, NULL, NULL, NULL},
};
/* clang-format on */

static PyMethodDef methods[] = {
    {"utterance", batch_utterance, METH_O,
     "utterance(i) -> Array: a view of utterance i, without padding. Audio has the shape "
     "(samples,)\n"
     "or (samples, channels), features (frames, values per frame). Raises IndexError."},
    {NULL,        NULL,            0,      NULL                                       },
};

static char doc[] =
    "A batch of utterances; len(batch) is their number.\n\n"
    "Arrays of a batch are views of the loader's memory. You may write to them. The "
    "memory stays\n"
    "valid and unchanged until the batch and all of its arrays are released.";

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_new, spsh__py_no_new), SPSH_PY_SLOT(Py_tp_dealloc, batch_dealloc),
    SPSH_PY_SLOT(Py_tp_repr, batch_repr),     SPSH_PY_SLOT(Py_tp_methods, methods),
    SPSH_PY_SLOT(Py_tp_getset, properties),   SPSH_PY_SLOT(Py_tp_doc, doc),
    SPSH_PY_SLOT(Py_sq_length, batch_length), {0, NULL},
};

static PyType_Spec spec = {"speechshard.Batch", sizeof(batch), 0, Py_TPFLAGS_DEFAULT, slots};

int spsh__py_batch_init(PyObject *module)
{
    return spsh__py_add_type(module, "Batch", &spec, &spsh__py.batch);
}
