/* py_job.c: a call of the C library in a separate thread.
 *
 *     job thread:      spsh_pack(...) --> progress, messages --> queues
 *     calling thread:  wait 50 ms, or for a new phase, without the GIL; hand the queues on; look
 *                      for signals; again
 *
 * So the library never waits for the GIL, the callable runs on the thread that called, and Ctrl-C
 * works: the interpreter runs signal handlers only on its main thread. If a callable or a signal
 * handler raises, the job's next call of progress cancels it. The exception is raised after the job
 * has ended, since the job uses the arguments until then.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "py_work.h"

enum { WAIT_MS = 50, EVENTS_MAX = 64, PHASE_BYTES = 64, LINE_BYTES = 256 };

#define STACK_BYTES ((size_t)1 << 20) /* like the command; 300 KB are needed; see ulimit -s */

/* Progress that Python has not seen. A phase has one event: its newest. */
typedef struct event {
    char phase[PHASE_BYTES];
    char line[LINE_BYTES]; /* report of a training run; else empty */
    uint64_t done, total;
} event;

struct spsh__py_job {
    spsh__py_job_fn *job_fn;
    void *call;
    spsh__py_log *log;
    pthread_mutex_t mutex; /* for everything below */
    pthread_cond_t changed;
    bool has_ended;
    bool has_phase; /* a phase began that Python has not seen */
    volatile int stop;
    event events[EVENTS_MAX];
    int event_count;
    spsh_status status;
    spsh_error err;
};

/* ---- the job's side ---- */

/* Return the event to write: the newest one if its phase is the same or the list is full, else a
 * new event. */
static event *new_event(spsh__py_job *job, const char *phase)
{
    event *newest = job->event_count == 0 ? NULL : &job->events[job->event_count - 1];
    if (newest != NULL &&
        (strncmp(newest->phase, phase, PHASE_BYTES - 1) == 0 || job->event_count == EVENTS_MAX))
        return newest;
    return &job->events[job->event_count++];
}

static int put_event(spsh__py_job *job, const event *added)
{
    pthread_mutex_lock(&job->mutex);
    const int count = job->event_count;
    *new_event(job, added->phase) = *added;
    if (job->event_count > count) {
        job->has_phase = true;
        pthread_cond_signal(&job->changed);
    }
    const int stop = job->stop;
    pthread_mutex_unlock(&job->mutex);
    return stop;
}

int spsh__py_job_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    event added = {.done = done, .total = total};
    PyOS_snprintf(added.phase, sizeof(added.phase), "%s", phase);
    return put_event((spsh__py_job *)user, &added);
}

void spsh__py_job_line(void *user, uint64_t step, const char *line)
{
    event added = {.phase = "train", .done = step};
    PyOS_snprintf(added.line, sizeof(added.line), "%s", line);
    (void)put_event((spsh__py_job *)user, &added);
}

void spsh__py_job_log(void *user, spsh_log_level level, const char *text)
{
    spsh__py_log_put(((spsh__py_job *)user)->log, level, text);
}

const volatile int *spsh__py_job_stop(const spsh__py_job *job)
{
    return &job->stop;
}

static void *run(void *argument)
{
    spsh__py_job *job = (spsh__py_job *)argument;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = job->job_fn(job->call, job, &err);
    pthread_mutex_lock(&job->mutex);
    job->status = rc;
    job->err = err;
    job->has_ended = true;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->mutex);
    return NULL;
}

/* ---- the calling thread's side ---- */

static struct timespec deadline(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += WAIT_MS * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    return at;
}

/* Needs no GIL. Returns true once the job has ended. */
static bool wait_for_end(spsh__py_job *job)
{
    const struct timespec at = deadline();
    int rc = 0;
    pthread_mutex_lock(&job->mutex);
    while (!job->has_ended && !job->has_phase && rc == 0)
        rc = pthread_cond_timedwait(&job->changed, &job->mutex, &at);
    job->has_phase = false;
    const bool has_ended = job->has_ended;
    pthread_mutex_unlock(&job->mutex);
    return has_ended;
}

static void stop_job(spsh__py_job *job)
{
    pthread_mutex_lock(&job->mutex);
    job->stop = 1;
    pthread_mutex_unlock(&job->mutex);
}

/* A bar has a separate method for the line of a training run. */
static PyObject *call_line(const spsh__py_work *work, const event *at)
{
    PyObject *result = NULL;
    const unsigned long long step = at->done;
    PyObject *line = PyUnicode_DecodeUTF8(at->line, (Py_ssize_t)strlen(at->line), "replace");
    if (line != NULL && work->has_bar)
        result = PyObject_CallMethod(work->progress, "line", "OK", line, step);
    else if (line != NULL)
        result = PyObject_CallFunction(work->progress, "OKi", line, step, 0);
    Py_XDECREF(line);
    return result;
}

/* -1 with the callable's exception. */
static int call_progress(const spsh__py_work *work, const event *at)
{
    PyObject *result = at->line[0] != '\0' ? call_line(work, at)
                                           : PyObject_CallFunction(work->progress, "sKK", at->phase,
                                                                   (unsigned long long)at->done,
                                                                   (unsigned long long)at->total);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int hand_on_progress(spsh__py_job *job, const spsh__py_work *work)
{
    event events[EVENTS_MAX];
    pthread_mutex_lock(&job->mutex);
    const int count = job->event_count;
    memcpy(events, job->events, (size_t)count * sizeof(events[0]));
    job->event_count = 0;
    pthread_mutex_unlock(&job->mutex);
    for (int i = 0; work->progress != NULL && i < count; i++)
        if (call_progress(work, &events[i]) != 0)
            return -1;
    return 0;
}

/* Deliver progress and messages, and handle signals. An exception stays set. */
static void serve(spsh__py_job *job, const spsh__py_work *work)
{
    if (PyErr_Occurred() != NULL)
        (void)spsh__py_log_drain(job->log, work->log);
    else if (spsh__py_log_pass(job->log, work->log) != 0 || hand_on_progress(job, work) != 0 ||
             PyErr_CheckSignals() != 0)
        stop_job(job);
}

static void attend(spsh__py_job *job, const spsh__py_work *work)
{
    for (bool has_ended = false; !has_ended;) {
        Py_BEGIN_ALLOW_THREADS;
        has_ended = wait_for_end(job);
        Py_END_ALLOW_THREADS;
        serve(job, work);
    }
}

/* Signals are for the interpreter's threads: the job and its threads inherit a mask without them.
 */
static int start(pthread_t *thread, spsh__py_job *job)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    size_t stack_bytes = 0;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    if (pthread_attr_getstacksize(&attributes, &stack_bytes) == 0 && stack_bytes < STACK_BYTES)
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSEGV);
    (void)sigdelset(&all, SIGBUS);
    (void)sigdelset(&all, SIGFPE);
    (void)sigdelset(&all, SIGILL);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(thread, &attributes, run, job);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attributes);
    return rc;
}

static void close_bar(const spsh__py_work *work)
{
    if (!work->has_bar)
        return;
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallMethod(work->progress, "close", NULL);
    if (result == NULL)
        PyErr_WriteUnraisable(work->progress);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
}

static spsh__py_job *new_job(spsh__py_job_fn *job_fn, void *call)
{
    pthread_condattr_t monotonic;
    spsh__py_job *job = (spsh__py_job *)calloc(1, sizeof(*job));
    if (job == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *job = (spsh__py_job){.job_fn = job_fn, .call = call, .log = spsh__py_log_new()};
    if (job->log == NULL) {
        free(job);
        return NULL;
    }
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&job->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&job->mutex, NULL);
    return job;
}

static void free_job(spsh__py_job *job)
{
    pthread_mutex_destroy(&job->mutex);
    pthread_cond_destroy(&job->changed);
    spsh__py_log_free(job->log);
    free(job);
}

spsh_status spsh__py_job_run(spsh__py_work *work, spsh__py_job_fn *job_fn, void *call,
                             spsh_error *err)
{
    pthread_t thread;
    spsh__py_job *job = new_job(job_fn, call);
    if (job == NULL)
        return SPSH_E_NO_MEMORY;
    const int rc = start(&thread, job);
    if (rc != 0) {
        free_job(job);
        PyErr_Format(PyExc_RuntimeError, "a thread cannot be started (errno %d)", rc);
        return SPSH_E_IO;
    }
    attend(job, work);
    (void)pthread_join(thread, NULL);
    close_bar(work);
    const spsh_status status = job->status;
    *err = job->err;
    free_job(job);
    return status;
}
