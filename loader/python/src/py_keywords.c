/* py_keywords.c: arguments of the functions of py_work.h, from tables of keywords.
 *
 * The command's options have the same names and values, with hyphens instead of underscores. Types
 * and ranges are checked here, and combinations of options in the library.
 */
#include <inttypes.h>
#include <string.h>

#include "py_work.h"
#include "speechshard/decimal.h"
#include "speechshard/nearest_word.h"
#include "speechshard/train.h"

enum { KEYWORDS_MAX = 64 };

/* ---- strings and paths ---- */

int spsh__py_take_text(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                       void *place)
{
    const char *text = spsh__py_keep(work->kept, spsh__py_utf8(value, keyword->name));
    *(const char **)place = text;
    return text == NULL ? -1 : 0;
}

/* New bytes. */
static PyObject *path_bytes(PyObject *value)
{
    if (!PyObject_TypeCheck(value, spsh__py.dataset))
        return spsh__py_path(value);
    const spsh__py_store *store = spsh__py_dataset_store(value);
    return store == NULL ? NULL : PyBytes_FromString(spsh_dataset_path(store->dataset));
}

int spsh__py_take_path(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                       void *place)
{
    (void)keyword;
    const char *path = spsh__py_keep(work->kept, path_bytes(value));
    *(const char **)place = path;
    return path == NULL ? -1 : 0;
}

static bool is_one(PyObject *value)
{
    return PyUnicode_Check(value) || PyBytes_Check(value) ||
           PyObject_TypeCheck(value, spsh__py.dataset) ||
           PyObject_HasAttrString(value, "__fspath__");
}

/* One value, or the values of an iterable. */
static PyObject *value_tuple(const spsh__py_keyword *keyword, PyObject *value)
{
    if (is_one(value))
        return PyTuple_Pack(1, value);
    PyObject *tuple = PySequence_Tuple(value);
    if (tuple == NULL && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s must be one value or a sequence of them", keyword->name);
    return tuple;
}

static int take_list(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                     spsh__py_texts *ret_texts, bool is_path)
{
    PyObject *tuple = value_tuple(keyword, value);
    if (tuple == NULL)
        return -1;
    const Py_ssize_t count = PyTuple_Size(tuple);
    const char **items = (const char **)spsh__py_keep_array(work->kept, count, sizeof(char *));
    int rc = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; rc == 0 && i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        items[i] = spsh__py_keep(work->kept,
                                 is_path ? path_bytes(item) : spsh__py_utf8(item, keyword->name));
        rc = items[i] == NULL ? -1 : 0;
    }
    Py_DECREF(tuple);
    *ret_texts = (spsh__py_texts){items, (size_t)count};
    return rc;
}

int spsh__py_take_texts(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                        void *place)
{
    return take_list(keyword, value, work, (spsh__py_texts *)place, false);
}

int spsh__py_take_paths(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                        void *place)
{
    return take_list(keyword, value, work, (spsh__py_texts *)place, true);
}

int spsh__py_take_names(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                        void *place)
{
    if (PyUnicode_Check(value))
        return spsh__py_take_text(keyword, value, work, place);
    PyObject *comma = PyUnicode_FromString(",");
    PyObject *tuple = comma == NULL ? NULL : value_tuple(keyword, value);
    PyObject *text = tuple == NULL ? NULL : PyUnicode_Join(comma, tuple);
    int rc = text == NULL ? -1 : spsh__py_take_text(keyword, text, work, place);
    Py_XDECREF(comma);
    Py_XDECREF(tuple);
    Py_XDECREF(text);
    return rc;
}

/* ---- words, truths, numbers ---- */

int spsh__py_take_word(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                       void *place)
{
    (void)work;
    for (const spsh__py_choice *at = keyword->choices; at->word != NULL; at++) {
        if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, at->word) == 0) {
            *(int *)place = at->value;
            return 0;
        }
    }
    return spsh__py_refuse_word(keyword->name, keyword->choices, value);
}

int spsh__py_take_flag(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                       void *place)
{
    (void)keyword, (void)work;
    const int is_true = PyObject_IsTrue(value);
    *(bool *)place = is_true > 0;
    return is_true < 0 ? -1 : 0;
}

static int refuse_number(const spsh__py_keyword *keyword)
{
    if (keyword->max == 0)
        return SPSH_PY_FAIL(PyExc_ValueError, "%s must be at least %llu", keyword->name,
                            (unsigned long long)keyword->min);
    return SPSH_PY_FAIL(PyExc_ValueError, "%s must be %llu to %llu", keyword->name,
                        (unsigned long long)keyword->min, (unsigned long long)keyword->max);
}

static int check_number(const spsh__py_keyword *keyword, uint64_t number)
{
    return number < keyword->min || (keyword->max != 0 && number > keyword->max)
               ? refuse_number(keyword)
               : 0;
}

static int take_number(const spsh__py_keyword *keyword, PyObject *value, const char *what,
                       uint64_t *ret_number)
{
    PyObject *index = PyNumber_Index(value);
    if (index == NULL)
        return SPSH_PY_FAIL(PyExc_TypeError, "%s must be %s", keyword->name, what);
    *ret_number = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (PyErr_Occurred() == NULL)
        return check_number(keyword, *ret_number);
    PyErr_Clear();
    return refuse_number(keyword);
}

int spsh__py_take_count(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                        void *place)
{
    (void)work;
    return take_number(keyword, value, "an integer", (uint64_t *)place);
}

int spsh__py_take_size(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                       void *place)
{
    static const char what[] = "bytes, or a size such as \"512M\" or \"1G\"";
    const char *text = NULL;
    if (!PyUnicode_Check(value))
        return take_number(keyword, value, what, (uint64_t *)place);
    if (spsh__py_take_text(keyword, value, work, (void *)&text) != 0)
        return -1;
    if (!spsh_size_parse(text, (uint64_t *)place))
        return SPSH_PY_FAIL(PyExc_ValueError, "%s must be %s, not %R", keyword->name, what, value);
    return check_number(keyword, *(uint64_t *)place);
}

int spsh__py_part_take(const spsh__py_work *work, const char *text, uint64_t *ret_part,
                       uint64_t *ret_count)
{
    spsh_job_part part = SPSH_JOB_PART_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    char line[128];
    if (text == NULL)
        return 0;
    if (spsh_job_part_find(text, &part, &err) != SPSH_OK)
        return SPSH_PY_FAIL(spsh__py.invalid_error, "part %s: %s", text, err.message);
    *ret_part = part.index;
    *ret_count = part.count;
    PyOS_snprintf(line, sizeof(line), "part %" PRIu64 "/%" PRIu64 " (%s)", part.index, part.count,
                  part.source);
    return part.source[0] == '\0' ? 0 : spsh__py_log_line(work->log, SPSH_LOG_INFO, line);
}

/* ---- progress and messages ---- */

/* A progress bar, or None without tqdm. */
static PyObject *make_bar(void)
{
    PyObject *module = PyImport_ImportModule("speechshard._progress");
    PyObject *bar = module == NULL ? NULL : PyObject_CallMethod(module, "bar", NULL);
    Py_XDECREF(module);
    return bar;
}

int spsh__py_take_progress(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                           void *place)
{
    (void)keyword, (void)place;
    if (value == Py_False)
        return 0;
    if (value != Py_True && !PyCallable_Check(value))
        return SPSH_PY_FAIL(PyExc_TypeError,
                            "progress must be True, False, or a function of phase, done, total");
    work->progress = value;
    if (value != Py_True) {
        Py_INCREF(value);
        return 0;
    }
    work->progress = make_bar();
    work->has_bar = work->progress != NULL && work->progress != Py_None;
    if (work->progress == Py_None)
        Py_CLEAR(work->progress);
    return work->has_bar || PyErr_Occurred() == NULL ? 0 : -1;
}

int spsh__py_take_log(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                      void *place)
{
    (void)keyword, (void)place;
    if (!PyCallable_Check(value))
        return SPSH_PY_FAIL(PyExc_TypeError, "log must be callable: log(level, text)");
    Py_INCREF(value);
    work->log = value;
    return 0;
}

/* ---- the table ---- */

static const spsh__py_keyword *find_keyword(const spsh__py_function *function, PyObject *name)
{
    for (const spsh__py_keyword *at = function->keywords; at->name != NULL; at++)
        if (PyUnicode_CompareWithASCIIString(name, at->name) == 0)
            return at;
    return NULL;
}

static int refuse_keyword(const spsh__py_function *function, PyObject *name)
{
    const char *names[KEYWORDS_MAX] = {NULL};
    for (size_t i = 0; i + 1 < KEYWORDS_MAX && function->keywords[i].name != NULL; i++)
        names[i] = function->keywords[i].name;
    return spsh__py_refuse_keyword(function->name, name, names);
}

static int take_argument(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work)
{
    return value == Py_None
               ? 0
               : keyword->parse_fn(keyword, value, work, (char *)work + keyword->offset);
}

static int take_positional(const spsh__py_function *function, PyObject *args, spsh__py_work *work)
{
    const Py_ssize_t count = PyTuple_Size(args);
    if (count > function->positional_count)
        return SPSH_PY_FAIL(PyExc_TypeError,
                            "%s() takes %zd positional arguments but %zd were given; the others "
                            "are keywords",
                            function->name, function->positional_count, count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (take_argument(&function->keywords[i], PyTuple_GetItem(args, i), work) != 0)
            return -1;
    return 0;
}

static int take_keyword(const spsh__py_function *function, Py_ssize_t given, PyObject *name,
                        PyObject *value, spsh__py_work *work)
{
    const spsh__py_keyword *keyword = find_keyword(function, name);
    if (keyword == NULL && function->other_fn != NULL &&
        PyUnicode_FindChar(name, '.', 0, PyUnicode_GetLength(name), 1) >= 0)
        return function->other_fn(name, value, work);
    if (keyword == NULL)
        return refuse_keyword(function, name);
    if (keyword - function->keywords < given)
        return SPSH_PY_FAIL(PyExc_TypeError, "%s() got two values for '%U'", function->name, name);
    return take_argument(keyword, value, work);
}

static int check_required(const spsh__py_function *function, PyObject *args, PyObject *keywords)
{
    for (Py_ssize_t i = 0; i < function->required_count; i++) {
        const char *name = function->keywords[i].name;
        const PyObject *value = i < PyTuple_Size(args) ? PyTuple_GetItem(args, i)
                                : keywords == NULL     ? NULL
                                                       : PyDict_GetItemString(keywords, name);
        if (value == NULL || value == Py_None)
            return SPSH_PY_FAIL(PyExc_TypeError, "%s() needs the argument '%s'", function->name,
                                name);
    }
    return 0;
}

int spsh__py_arguments_parse(const spsh__py_function *function, PyObject *args, PyObject *keywords,
                             spsh__py_work *work)
{
    Py_ssize_t at = 0;
    PyObject *name = NULL, *value = NULL;
    work->kept = PyList_New(0);
    if (work->kept == NULL || take_positional(function, args, work) != 0)
        return -1;
    while (keywords != NULL && PyDict_Next(keywords, &at, &name, &value))
        if (take_keyword(function, PyTuple_Size(args), name, value, work) != 0)
            return -1;
    if (check_required(function, args, keywords) != 0)
        return -1;
    if (work->log == NULL)
        work->log = spsh__py_log_callable(NULL);
    return work->log == NULL ? -1 : 0;
}

void spsh__py_arguments_clear(spsh__py_work *work)
{
    Py_CLEAR(work->kept);
    Py_CLEAR(work->progress);
    Py_CLEAR(work->log);
}

/* ---- the call as text ---- */

/* Append ", " unless it is the first part, and then `more`. Releases text. */
static PyObject *append(PyObject *text, bool *is_first, PyObject *more)
{
    PyObject *longer = text == NULL || more == NULL
                           ? NULL
                           : PyUnicode_FromFormat("%U%s%U", text, *is_first ? "" : ", ", more);
    *is_first = false;
    Py_XDECREF(text);
    Py_XDECREF(more);
    return longer;
}

const char *spsh__py_call_text(const char *function, PyObject *args, PyObject *keywords,
                               spsh__py_work *work)
{
    bool is_first = true;
    Py_ssize_t at = 0;
    PyObject *name = NULL, *value = NULL;
    PyObject *text = PyUnicode_FromFormat("speechshard.%s(", function);
    for (Py_ssize_t i = 0; i < PyTuple_Size(args); i++)
        text = append(text, &is_first, PyObject_Repr(PyTuple_GetItem(args, i)));
    while (keywords != NULL && PyDict_Next(keywords, &at, &name, &value)) {
        if (PyUnicode_CompareWithASCIIString(name, "progress") != 0 &&
            PyUnicode_CompareWithASCIIString(name, "log") != 0)
            text = append(text, &is_first, PyUnicode_FromFormat("%U=%R", name, value));
    }
    is_first = true;
    text = append(text, &is_first, PyUnicode_FromString(")"));
    const char *kept =
        text == NULL ? NULL : spsh__py_keep(work->kept, spsh__py_utf8(text, "the call"));
    Py_XDECREF(text);
    return kept;
}
