/* cli_machine.c: a monotonic clock, the signals that ask a long run to stop, and the limits
 * that a shell sets (ulimit).
 *
 * An interrupted command ends by the signal itself, because only then does a shell end its loop.
 * SIGUSR1 is the exception: schedulers send it before the end of a job, and scripts must be able to
 * tell a clean stop from a kill by the exit status.
 * Commands that must clean up watch for the signals and return first. All other commands end at
 * once.
 *
 * The kernel ends a process whose main thread outgrows RLIMIT_STACK, and the size is the default of
 * threads, too. Below STACK_BYTES the whole command runs on a thread with a larger stack.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define STACK_BYTES ((size_t)1 << 20) /* commands need 300 KB, with their libraries */

uint64_t spsh__cli_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

double spsh__cli_now_s(void)
{
    return (double)spsh__cli_now_ns() * 1e-9;
}

/* ---- signals ---- */

static const int stop_signals[] = {SIGINT, SIGTERM, SIGUSR1};
enum { STOP_SIGNALS = sizeof(stop_signals) / sizeof(stop_signals[0]) };

static volatile bool is_watched;
static volatile bool interrupted;
static volatile sig_atomic_t caught; /* the signal; 0: none */

/* The signal is blocked inside its handler. So it ends the process when the handler returns. The
 * kernel does not let a signal end the first process of a container. */
static void end_by(int number)
{
    if (getpid() == 1)
        _exit(128 + number); /* as a shell reports it */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void on_stop(int number)
{
    caught = number;
    interrupted = true;
    if (is_watched)
        return;
    spsh__progress_wipe();
    end_by(number);
}

/* So write() returns EFBIG. A child process gets the default action again, unlike with SIG_IGN. */
static void on_large_file(int number)
{
    (void)number;
}

static void take_signals(void)
{
    struct sigaction stop = {.sa_handler = on_stop};
    struct sigaction large_file = {.sa_handler = on_large_file, .sa_flags = SA_RESTART};
    (void)sigemptyset(&stop.sa_mask);
    (void)sigemptyset(&large_file.sa_mask);
    (void)sigaction(SIGXFSZ, &large_file, NULL);
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        struct sigaction before;
        /* A shell without job control makes background commands ignore SIGINT. Keep that. */
        if (sigaction(stop_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(stop_signals[i], &stop, NULL);
    }
}

void spsh__cli_watch_signals(void)
{
    is_watched = true;
}

const volatile bool *spsh__cli_interrupted(void)
{
    return &interrupted;
}

/* ---- running a command ---- */

typedef struct command_run {
    int (*main_fn)(int argc, char **argv);
    int argc;
    char **argv;
    int exit_status;
} command_run;

static void *run_on_thread(void *user)
{
    command_run *run = (command_run *)user;
    run->exit_status = run->main_fn(run->argc, run->argv);
    return NULL;
}

static void run_on_own_stack(command_run *run, rlim_t stack_bytes)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t stops;
    int failed = pthread_attr_init(&attributes);
    if (failed == 0)
        failed = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (failed == 0)
        failed = pthread_setattr_default_np(&attributes);
    if (failed == 0)
        failed = pthread_create(&thread, &attributes, run_on_thread, run);
    if (failed != 0) {
        spsh__cli_error("the stack limit is %llu bytes (ulimit -s), %zu are needed, and no thread "
                        "can have them: %s; raise the limit",
                        (unsigned long long)stack_bytes, STACK_BYTES, strerror(failed));
        run->exit_status = SPSH_EXIT_FAILED;
        return;
    }
    /* Block the signals here, so that they interrupt the command's thread and not this join. */
    (void)sigemptyset(&stops);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        (void)sigaddset(&stops, stop_signals[i]);
    (void)pthread_sigmask(SIG_BLOCK, &stops, NULL);
    (void)pthread_join(thread, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &stops, NULL);
}

int spsh__cli_run(int (*main_fn)(int argc, char **argv), int argc, char **argv)
{
    struct rlimit stack;
    command_run run = {main_fn, argc, argv, SPSH_EXIT_FAILED};
    take_signals();
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < STACK_BYTES)
        run_on_own_stack(&run, stack.rlim_cur);
    else
        (void)run_on_thread(&run);
    spsh__progress_wipe(); /* a failed command may not have removed its progress line */
    if (caught == SIGUSR1)
        return SPSH_EXIT_STOPPED; /* only if it is watched: else on_stop ends the process */
    if (caught != 0)
        end_by(caught);
    return run.exit_status;
}
