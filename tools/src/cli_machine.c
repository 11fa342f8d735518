/* cli_machine.c: the signals that ask a long run to stop. */
#include <signal.h>

#include "cli.h"

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
