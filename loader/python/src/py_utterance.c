/* py_utterance.c: speechshard.Utterance: one utterance of a Dataset.
 *
 * Numbers and names come from the index row that is read at creation. The strings of text_kind are
 * in the shard; all are read at the first access to one of them. Each call of audio() decodes
 * again.
 */
#include "py_binding.h"

typedef enum text_kind {
    TEXT_ID,
    TEXT_TRANSCRIPT,
    TEXT_SOURCE,
    TEXT_DOCUMENT,
    TEXT_EXTRAS,
    TEXT_KINDS
} text_kind;

typedef struct utterance {
    PyObject ob_base;
    PyObject *dataset;
    uint64_t position;
    spsh_row row;
    PyObject *texts[TEXT_KINDS]; /* NULL until all are read */
} utterance;

PyObject *spsh__py_utterance_new(PyObject *dataset, uint64_t position)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_row row;
    const spsh__py_store *store = spsh__py_dataset_store(dataset);
    if (store == NULL)
        return NULL;
    if (spsh_dataset_rows(store->dataset, position, 1, &row, &err) != SPSH_OK)
        return spsh__py_raise(&err);
    utterance *self = PyObject_New(utterance, spsh__py.utterance);
    if (self == NULL)
        return NULL;
    Py_INCREF(dataset);
    self->dataset = dataset;
    self->position = position;
    self->row = row;
    memset(self->texts, 0, sizeof(self->texts));
    return (PyObject *)self;
}

static void utterance_dealloc(PyObject *object)
{
    utterance *self = (utterance *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->dataset);
    for (int i = 0; i < TEXT_KINDS; i++)
        Py_XDECREF(self->texts[i]);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- from the shard ---- */

static int keep_texts(utterance *self, const spsh_utterance *found)
{
    const spsh_bytes texts[TEXT_KINDS] = {found->id, found->text, found->source, found->document,
                                          found->extras};
    for (int i = TEXT_KINDS - 1; i >= 0; i--) {
        PyObject *before = self->texts[i]; /* left by an attempt that ran out of memory */
        self->texts[i] = spsh__py_text(texts[i]);
        Py_XDECREF(before);
        if (self->texts[i] == NULL)
            return -1;
    }
    return 0;
}

/* Borrowed. The id is set last: if it is set, so are the other strings. */
static PyObject *read_text(utterance *self, text_kind kind)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_utterance found;
    spsh_status rc = SPSH_OK;
    if (self->texts[TEXT_ID] != NULL)
        return self->texts[kind];
    spsh__py_store *store = spsh__py_dataset_store(self->dataset);
    spsh_reader *reader = store == NULL ? NULL : spsh__py_reader_take(store);
    if (reader == NULL)
        return NULL;
    spsh__py_store_hold(store);
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_reader_metadata(reader, self->position, &found, &err);
    Py_END_ALLOW_THREADS;
    int failed = 0;
    if (rc != SPSH_OK)
        failed = SPSH_PY_RAISE(&err);
    else if (self->texts[TEXT_ID] == NULL) /* else another thread has set it in the meantime */
        failed = keep_texts(self, &found);
    spsh__py_reader_give(store, reader);
    spsh__py_store_drop(store);
    return failed ? NULL : self->texts[kind];
}

/* closure: a text_kind. */
static PyObject *get_text(PyObject *object, void *closure)
{
    PyObject *text = read_text((utterance *)object, (text_kind)(*(const int *)closure));
    Py_XINCREF(text);
    return text;
}

static PyObject *get_extras(PyObject *object, void *unused)
{
    (void)unused;
    PyObject *text = read_text((utterance *)object, TEXT_EXTRAS);
    PyObject *json = text == NULL ? NULL : PyImport_ImportModule("json");
    if (json == NULL)
        return NULL;
    PyObject *extras =
        PyObject_Size(text) == 0 ? PyDict_New() : PyObject_CallMethod(json, "loads", "O", text);
    Py_DECREF(json);
    return extras;
}

/* ---- from the index ---- */

/* closure: a spsh_name_kind. */
static PyObject *get_name(PyObject *object, void *closure)
{
    const utterance *self = (const utterance *)object;
    spsh_name_kind kind = (spsh_name_kind)(*(const int *)closure);
    const spsh_row *row = &self->row;
    uint32_t number = kind == SPSH_NAME_DOMAIN    ? row->domain
                      : kind == SPSH_NAME_SPLIT   ? row->split
                      : kind == SPSH_NAME_SPEAKER ? row->speaker
                                                  : row->language;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_bytes name = {NULL, 0};
    const spsh__py_store *store = spsh__py_dataset_store(self->dataset);
    if (store == NULL)
        return NULL;
    if (spsh_dataset_name(store->dataset, kind, number, &name, &err) != SPSH_OK)
        return spsh__py_raise(&err);
    return spsh__py_text(name);
}

/* Reads the id first: overlays are keyed by id. */
static PyObject *get_skipped(PyObject *object, void *unused)
{
    (void)unused;
    utterance *self = (utterance *)object;
    spsh_error err = SPSH_ERROR_INIT;
    bool is_skipped = false;
    const spsh__py_store *store = spsh__py_dataset_store(self->dataset);
    PyObject *text = store == NULL ? NULL : read_text(self, TEXT_ID);
    PyObject *bytes = text == NULL ? NULL : spsh__py_utf8(text, "an id");
    if (bytes == NULL)
        return NULL;
    const spsh_bytes id = {(const uint8_t *)PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)};
    const spsh_status rc = spsh_dataset_skipped(store->dataset, id, &is_skipped, NULL, &err);
    Py_DECREF(bytes);
    return rc == SPSH_OK ? PyBool_FromLong(is_skipped) : spsh__py_raise(&err);
}

/* closure: a spsh__py_field of utterance. */
static PyObject *get_number(PyObject *object, void *closure)
{
    return spsh__py_number(object, (const spsh__py_field *)closure);
}

static PyObject *get_duration(PyObject *object, void *unused)
{
    (void)unused;
    const spsh_row *row = &((const utterance *)object)->row;
    return PyFloat_FromDouble((double)row->samples / row->sample_rate_hz);
}

/* ---- audio ---- */

/* Decode into an array of the right size, without the GIL. */
static spsh_status decode(const utterance *self, spsh_reader *reader, const spsh__py_array *array,
                          spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    uint64_t done = 0, samples = self->row.samples;
    void *pcm = array->data;
    Py_BEGIN_ALLOW_THREADS;
    if (array->dtype == SPSH_PY_INT16)
        rc = spsh_reader_read_i16(reader, self->position, 0, (int16_t *)pcm, samples, &done, err);
    else
        rc = spsh_reader_read_f32(reader, self->position, 0, (float *)pcm, samples, &done, err);
    Py_END_ALLOW_THREADS;
    return rc;
}

static int audio_dtype(const char *name, spsh__py_dtype *ret_dtype)
{
    *ret_dtype = strcmp(name, "float32") == 0 ? SPSH_PY_FLOAT32 : SPSH_PY_INT16;
    if (*ret_dtype == SPSH_PY_FLOAT32 || strcmp(name, "int16") == 0)
        return 0;
    return SPSH_PY_FAIL(PyExc_ValueError, "dtype is \"int16\" or \"float32\"");
}

static PyObject *utterance_audio(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char dtype_name[] = "dtype";
    static char *names[] = {dtype_name, NULL};
    const utterance *self = (const utterance *)object;
    const char *dtype = "int16";
    spsh__py_layout layout = {.ndim = self->row.channels == 1 ? 1 : 2};
    layout.shape[0] = (Py_ssize_t)self->row.samples;
    layout.shape[1] = (Py_ssize_t)self->row.channels;
    spsh_error err = SPSH_ERROR_INIT;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s:audio", names, &dtype) ||
        audio_dtype(dtype, &layout.dtype) != 0)
        return NULL;
    spsh__py_store *store = spsh__py_dataset_store(self->dataset);
    PyObject *array = store == NULL ? NULL : spsh__py_array_new(NULL, NULL, &layout);
    spsh_reader *reader = array == NULL ? NULL : spsh__py_reader_take(store);
    if (reader == NULL) {
        Py_XDECREF(array);
        return NULL;
    }
    spsh__py_store_hold(store);
    if (decode(self, reader, (const spsh__py_array *)array, &err) != SPSH_OK) {
        spsh__py_raise(&err);
        Py_CLEAR(array);
    }
    spsh__py_reader_give(store, reader);
    spsh__py_store_drop(store);
    return array;
}

/* ---- the type ---- */

static PyObject *utterance_repr(PyObject *object)
{
    PyObject *id = read_text((utterance *)object, TEXT_ID);
    return id == NULL ? NULL : PyUnicode_FromFormat("speechshard.Utterance(%R)", id);
}

static PyObject *utterance_html(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *module = PyImport_ImportModule("speechshard._dataset");
    if (module == NULL)
        return NULL;
    PyObject *text = PyObject_CallMethod(module, "utterance_html", "O", object);
    Py_DECREF(module);
    return text;
}

static int numbers[] = {0, 1, 2, 3, 4};
#define CLOSURE(number_) (&numbers[(number_)])
/* clang-format off */
static PyGetSetDef properties[] = {
    {"id", get_text, NULL, "Id (str).", CLOSURE(TEXT_ID)},
    {"text", get_text, NULL, "Transcript after overlays; \"\" if there is none.",
     CLOSURE(TEXT_TRANSCRIPT)},
    {"source", get_text, NULL, "Path of the audio in the corpus.", CLOSURE(TEXT_SOURCE)},
    {"document", get_text, NULL, "Document, such as a book; \"\" if unknown.",
     CLOSURE(TEXT_DOCUMENT)},
    {"extras", get_extras, NULL,
     "A new dict of the columns of the source table that have no property here.", NULL},
    {"speaker", get_name, NULL, "Speaker; \"\" if unknown.", CLOSURE(SPSH_NAME_SPEAKER)},
    {"language", get_name, NULL, "Language; \"\" if unknown.", CLOSURE(SPSH_NAME_LANGUAGE)},
    {"domain", get_name, NULL, "Domain; \"\" if unknown.", CLOSURE(SPSH_NAME_DOMAIN)},
    {"split", get_name, NULL, "Split; \"\" if unknown.", CLOSURE(SPSH_NAME_SPLIT)},
    {"sample_rate_hz", get_number, NULL, "Sample rate in Hz, as stored.",
     SPSH_PY_FIELD(utterance, row.sample_rate_hz)},
    {"channels", get_number, NULL, "Number of channels.", SPSH_PY_FIELD(utterance, row.channels)},
    {"samples", get_number, NULL, "Samples per channel.", SPSH_PY_FIELD(utterance, row.samples)},
    {"position", get_number, NULL, "Position in the dataset, from 0.",
     SPSH_PY_FIELD(utterance, position)},
    {"duration", get_duration, NULL, "Duration in seconds.", NULL},
    {"skipped", get_skipped, NULL,
     "True if an overlay skips the utterance; a loader then does not serve it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
/* clang-format on */

static PyMethodDef methods[] = {
    {"audio",       SPSH_PY_KEYWORDS(utterance_audio), METH_VARARGS | METH_KEYWORDS,
     "audio($self, dtype=\"int16\")\n--\n\n"
     "Decode the audio. Returns a new Array of shape (samples,), or (samples, channels) for\n"
     "several channels.\n\n"
     "dtype: \"int16\", or \"float32\" with full scale 1. Raises CorruptError for damaged audio."                                    },
    {"_repr_html_", utterance_html,                    METH_NOARGS,                  "Metadata, waveform, and player, for notebooks."},
    {NULL,          NULL,                              0,                            NULL                                            },
};

static char doc[] = "An utterance of a Dataset; dataset[...] returns it.";

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_new, spsh__py_no_new),
    SPSH_PY_SLOT(Py_tp_dealloc, utterance_dealloc),
    SPSH_PY_SLOT(Py_tp_repr, utterance_repr),
    SPSH_PY_SLOT(Py_tp_methods, methods),
    SPSH_PY_SLOT(Py_tp_getset, properties),
    SPSH_PY_SLOT(Py_tp_doc, doc),
    {0, NULL},
};

static PyType_Spec spec = {"speechshard.Utterance", sizeof(utterance), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int spsh__py_utterance_init(PyObject *module)
{
    return spsh__py_add_type(module, "Utterance", &spec, &spsh__py.utterance);
}
