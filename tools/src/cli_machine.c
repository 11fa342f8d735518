/* cli_machine.c: processors, and the signals that ask a long run to stop. */
#include <signal.h>
#include <unistd.h>

#include "cli.h"

static volatile bool interrupted;

static void on_signal(int signal_number)
{
    (void)signal_number;
    interrupted = true;
}

uint32_t spsh__cli_processors(uint32_t max)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > (long)max ? max : (uint32_t)count;
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
