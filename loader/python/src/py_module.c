/* py_module.c: the extension module. py_binding.h and py_work.h describe its parts. */
#include "py_work.h"

spsh__py_globals spsh__py;

PyObject *spsh__py_no_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args;
    (void)keywords;
    return PyErr_Format(PyExc_TypeError, "%S cannot be created directly", (PyObject *)type);
}

int spsh__py_add_type(PyObject *module, const char *name, PyType_Spec *spec,
                      PyTypeObject **ret_type)
{
    PyObject *type = PyType_FromSpec(spec);
    *ret_type = (PyTypeObject *)type;
    if (type == NULL || name == NULL)
        return type == NULL ? -1 : 0;
    Py_INCREF(type); /* one reference for the module, one for the globals */
    return PyModule_AddObject(module, name, type);
}

static char module_doc[] = "The C part of speechshard; import speechshard instead.";

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_speechshard", module_doc, -1, NULL, NULL, NULL, NULL, NULL,
};

/* NOLINTBEGIN(readability-identifier-naming): the interpreter looks for this name */
PyMODINIT_FUNC PyInit__speechshard(void);

PyMODINIT_FUNC PyInit__speechshard(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    if (spsh__py_errors_init(module) == 0 && spsh__py_array_init(module) == 0 &&
        spsh__py_dataset_init(module) == 0 && spsh__py_utterance_init(module) == 0 &&
        spsh__py_batch_init(module) == 0 && spsh__py_loader_init(module) == 0 &&
        spsh__py_featgen_init(module) == 0 && spsh__py_pack_init(module) == 0 &&
        spsh__py_dedupe_init(module) == 0 && spsh__py_audit_init(module) == 0 &&
        spsh__py_explain_init(module) == 0 && spsh__py_verify_init(module) == 0 &&
        spsh__py_train_init(module) == 0 &&
        PyModule_AddStringConstant(module, "__version__", spsh_version()) == 0)
        return module;
    Py_DECREF(module);
    return NULL;
}
/* NOLINTEND(readability-identifier-naming) */
