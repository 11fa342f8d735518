/* cli_machine.c: a clock that nobody sets, and the signals that ask a long run to stop. */
#include <signal.h>
#include <time.h>

#include "cli.h"

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

static volatile bool interrupted;

static void on_signal(int signal_number)
{
    (void)signal_number;
    interrupted = true;
}

void spsh__cli_watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

const volatile bool *spsh__cli_interrupted(void)
{
    return &interrupted;
}
