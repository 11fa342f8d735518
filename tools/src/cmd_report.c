/* cmd_report.c: `speechshard report`: the page of a training run. */
#include "cli.h"
#include "commands.h"
#include "train/run_page.h"

int spsh__cmd_report(int argc, char **argv)
{
    const char *output = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "FILE", "the page; RUN/report.html", &output, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "report",
        "RUN",
        NULL,
        "draw a training run: curves, error rates, examples",
        "The page needs nothing but itself. It is made of what the run has written so far, so it\n"
        "can be drawn while the run goes on.",
        "speechshard report run\n"
        "speechshard report run -o run.html\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (args.operand_count != 1)
        return spsh__cli_usage("report", "give one run");
    if (spsh__run_page_write(args.operands[0], output, spsh_io_default(), &err) != SPSH_OK)
        return spsh__cli_finish(spsh__cli_fail(NULL, &err));
    if (output != NULL)
        (void)printf("%s\n", output);
    else
        (void)printf("%s/report.html\n", args.operands[0]);
    return spsh__cli_finish(SPSH_EXIT_DONE);
}
