/* py_log.c: a queue of messages from the loader's threads, delivered by the next call from Python.
 *
 * Those threads cannot call Python: that needs the GIL, and the thread that holds it may wait for
 * them. So they append to a list of bounded length, under a separate mutex, and count the messages
 * that did not fit.
 */
#include <pthread.h>
#include <string.h>

#include "py_binding.h"

enum {
    MESSAGES_MAX = 1000,
    LEVEL_ERROR = 40,
    LEVEL_WARNING = 30,
    LEVEL_INFO = 20,
    LEVEL_DEBUG = 10
};

typedef struct message {
    struct message *next;
    int level; /* a level of the logging module */
    char text[];
} message;

struct spsh__py_log {
    pthread_mutex_t mutex;
    message *first, **end;
    int count;
    int lost;
};

PyObject *spsh__py_log_callable(PyObject *given)
{
    if (given != NULL) {
        Py_INCREF(given);
        return given;
    }
    PyObject *logging = PyImport_ImportModule("logging");
    PyObject *logger =
        logging == NULL ? NULL : PyObject_CallMethod(logging, "getLogger", "s", "speechshard");
    PyObject *callable = logger == NULL ? NULL : PyObject_GetAttrString(logger, "log");
    Py_XDECREF(logging);
    Py_XDECREF(logger);
    return callable;
}

spsh__py_log *spsh__py_log_new(void)
{
    spsh__py_log *log = (spsh__py_log *)calloc(1, sizeof(*log));
    if (log == NULL || pthread_mutex_init(&log->mutex, NULL) != 0) {
        free(log);
        PyErr_NoMemory();
        return NULL;
    }
    log->end = &log->first;
    return log;
}

static void free_messages(message *at)
{
    while (at != NULL) {
        message *next = at->next;
        free(at);
        at = next;
    }
}

void spsh__py_log_free(spsh__py_log *log)
{
    if (log == NULL)
        return;
    free_messages(log->first);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

static int level_number(spsh_log_level level)
{
    return level == SPSH_LOG_ERROR     ? LEVEL_ERROR
           : level == SPSH_LOG_WARNING ? LEVEL_WARNING
           : level == SPSH_LOG_INFO    ? LEVEL_INFO
                                       : LEVEL_DEBUG;
}

void spsh__py_log_put(void *user, spsh_log_level level, const char *text)
{
    spsh__py_log *log = (spsh__py_log *)user;
    size_t size = strlen(text) + 1;
    message *added = (message *)malloc(sizeof(*added) + size);
    if (added != NULL) {
        added->next = NULL;
        added->level = level_number(level);
        memcpy(added->text, text, size);
    }
    pthread_mutex_lock(&log->mutex);
    if (added != NULL && log->count < MESSAGES_MAX) {
        *log->end = added;
        log->end = &added->next;
        log->count++;
        added = NULL;
    } else {
        log->lost++;
    }
    pthread_mutex_unlock(&log->mutex);
    free(added);
}

/* goes_on: report an Exception of the callable as unraisable. Other exceptions, and all without
 * goes_on, stay set, and the function returns -1. */
static int hand_on(PyObject *callable, int level, const char *text, bool goes_on)
{
    PyObject *string = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *result = string == NULL ? NULL : PyObject_CallFunction(callable, "iO", level, string);
    const bool failed =
        result == NULL && (!goes_on || PyErr_ExceptionMatches(PyExc_Exception) == 0);
    if (result == NULL && !failed)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(string);
    Py_XDECREF(result);
    return failed ? -1 : 0;
}

int spsh__py_log_line(PyObject *callable, spsh_log_level level, const char *text)
{
    return hand_on(callable, level_number(level), text, false);
}

static message *take_messages(spsh__py_log *log, int *ret_lost)
{
    pthread_mutex_lock(&log->mutex);
    message *messages = log->first;
    *ret_lost = log->lost;
    log->first = NULL;
    log->end = &log->first;
    log->count = 0;
    log->lost = 0;
    pthread_mutex_unlock(&log->mutex);
    return messages;
}

/* Deliver all queued messages. Call with no exception set. */
static int hand_on_all(spsh__py_log *log, PyObject *callable, bool goes_on)
{
    char text[64];
    int lost = 0, rc = 0;
    message *messages = take_messages(log, &lost);
    PyOS_snprintf(text, sizeof(text), "%d more messages were lost", lost);
    for (const message *at = messages; rc == 0 && at != NULL; at = at->next)
        rc = hand_on(callable, at->level, at->text, goes_on);
    if (rc == 0 && lost > 0)
        rc = hand_on(callable, LEVEL_WARNING, text, goes_on);
    free_messages(messages);
    return rc;
}

int spsh__py_log_pass(spsh__py_log *log, PyObject *callable)
{
    return hand_on_all(log, callable, false);
}

/* Make an exception, whose references are taken, the context of the one that is set. */
static void set_context(PyObject *type, PyObject *value, PyObject *traceback)
{
    PyObject *new_type = NULL, *new_value = NULL, *new_traceback = NULL;
    PyErr_Fetch(&new_type, &new_value, &new_traceback);
    PyErr_NormalizeException(&new_type, &new_value, &new_traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (new_value != NULL && value != NULL) {
        Py_INCREF(value);
        PyException_SetContext(new_value, value); /* takes the reference */
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Restore(new_type, new_value, new_traceback);
}

int spsh__py_log_drain(spsh__py_log *log, PyObject *callable)
{
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    const int rc = hand_on_all(log, callable, true);
    if (rc == 0)
        PyErr_Restore(type, value, traceback);
    else if (type != NULL)
        set_context(type, value, traceback);
    return rc;
}
