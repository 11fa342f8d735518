/* py_clusters.c: the clusters of a DedupeReport, as a sequence that makes each element on demand:
 * there may be millions.
 */
#include "py_work.h"
#include "speechshard/dedup.h"

static PyTypeObject *clusters_type;

typedef struct clusters {
    PyObject ob_base;
    spsh_dedupe_result *result;
    spsh_reader **readers; /* one for each dataset; NULL: not opened yet */
} clusters;

/* ---- life ---- */

PyObject *spsh__py_clusters_new(spsh_dedupe_result *result)
{
    const size_t count = spsh_dedupe_result_facts(result)->dataset_count;
    spsh_reader **readers = (spsh_reader **)calloc(count + 1, sizeof(spsh_reader *));
    allocfunc alloc = __extension__(allocfunc) PyType_GetSlot(clusters_type, Py_tp_alloc);
    PyObject *self = readers == NULL ? PyErr_NoMemory() : alloc(clusters_type, 0);
    if (self == NULL) {
        free((void *)readers);
        spsh_dedupe_result_free(result);
        return NULL;
    }
    ((clusters *)self)->result = result;
    ((clusters *)self)->readers = readers;
    return self;
}

static void clusters_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    clusters *self = (clusters *)object;
    const size_t count = spsh_dedupe_result_facts(self->result)->dataset_count;
    for (size_t i = 0; i < count; i++)
        spsh_reader_close(self->readers[i]);
    free((void *)self->readers);
    spsh_dedupe_result_free(self->result);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* ---- elements ---- */

/* The id of a member. The reader is used under the GIL only. */
static PyObject *member_id(const clusters *self, const spsh_copy_member *member)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_utterance utterance;
    spsh_reader **reader = &self->readers[member->dataset];
    const spsh_dataset *dataset = spsh_dedupe_result_dataset(self->result, member->dataset);
    spsh_status rc = *reader != NULL ? SPSH_OK : spsh_reader_open(dataset, reader, &err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(*reader, member->position, &utterance, &err);
    return rc == SPSH_OK ? spsh__py_text(utterance.id) : spsh__py_raise(&err);
}

static PyObject *member_facts(const clusters *self, const spsh_copy_member *member)
{
    const spsh_dataset *dataset = spsh_dedupe_result_dataset(self->result, member->dataset);
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_file(dict, "dataset", spsh_dataset_path(dataset)) != 0 ||
         spsh__py_dict_take(dict, "id", member_id(self, member)) != 0 ||
         spsh__py_dict_u64(dict, "position", member->position) != 0 ||
         spsh__py_dict_string(dict, "decision", spsh_copy_decision_text(member->decision)) != 0 ||
         spsh__py_dict_string(dict, "reason", member->reason) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *member_list(const clusters *self, const spsh_copy_cluster *cluster)
{
    PyObject *list = PyList_New(0);
    for (uint64_t i = 0; list != NULL && i < cluster->member_count; i++) {
        const spsh_copy_member *member =
            spsh_dedupe_result_member(self->result, cluster->first_member + i);
        if (spsh__py_list_take(list, member_facts(self, member)) != 0)
            Py_CLEAR(list);
    }
    return list;
}

static Py_ssize_t clusters_length(PyObject *object)
{
    return (Py_ssize_t)spsh_dedupe_result_facts(((clusters *)object)->result)->cluster_count;
}

static PyObject *clusters_item(PyObject *object, Py_ssize_t index)
{
    const clusters *self = (const clusters *)object;
    if (index < 0 || index >= clusters_length(object))
        return PyErr_Format(PyExc_IndexError, "there are %zd clusters", clusters_length(object));
    const spsh_copy_cluster *cluster = spsh_dedupe_result_cluster(self->result, (uint64_t)index);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_truth(dict, "texts_differ", cluster->texts_differ) != 0 ||
                         spsh__py_dict_real(dict, "saved_seconds", cluster->saved_seconds) != 0 ||
                         spsh__py_dict_u64(dict, "saved_bytes", cluster->saved_bytes) != 0 ||
                         spsh__py_dict_take(dict, "members", member_list(self, cluster)) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *clusters_repr(PyObject *object)
{
    const Py_ssize_t count = clusters_length(object);
    return PyUnicode_FromFormat("<%zd cluster%s>", count, count == 1 ? "" : "s");
}

/* Pickle as a list. */
static PyObject *clusters_reduce(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *list = PySequence_List(object);
    return list == NULL ? NULL : Py_BuildValue("(O(N))", (PyObject *)&PyList_Type, list);
}

static PyMethodDef methods[] = {
    {"__reduce__", clusters_reduce, METH_NOARGS, NULL},
    {NULL,         NULL,            0,           NULL},
};

static PyType_Slot slots[] = {
    SPSH_PY_SLOT(Py_tp_new, spsh__py_no_new),
    SPSH_PY_SLOT(Py_tp_dealloc, clusters_dealloc),
    SPSH_PY_SLOT(Py_tp_repr, clusters_repr),
    SPSH_PY_SLOT(Py_tp_methods, methods),
    SPSH_PY_SLOT(Py_sq_length, clusters_length),
    SPSH_PY_SLOT(Py_sq_item, clusters_item),
    {0, NULL},
};

static PyType_Spec spec = {"speechshard._Clusters", sizeof(clusters), 0, Py_TPFLAGS_DEFAULT, slots};

int spsh__py_clusters_init(PyObject *module)
{
    return spsh__py_add_type(module, NULL, &spec, &clusters_type);
}
