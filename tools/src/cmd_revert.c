/* cmd_revert.c: `speechshard revert`: a plan of `dedupe` is no longer in force. */

#include "cli/cli.h"
#include "cli/copy_plan_words.h"
#include "commands.h"

static int run(const spsh_cli_args *args)
{
    spsh__plan_view view;
    spsh__copy_view_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    char name[SPSH__COPY_VIEW_NAME_BYTES];
    int rc = spsh__plan_view_open("revert", args->operands, args->operand_count, &view);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    spsh__copy_view_name(view.plan, name);
    if (spsh__copy_view_revert(view.plan, view.paths, spsh_io_default(), &facts, &err) != SPSH_OK)
        rc = spsh__cli_fail("revert", &err);
    else if (facts.changed_count == 0)
        spsh__cli_message("not applied: overlay %s is not in force; nothing to undo", name);
    else
        spsh__cli_message("reverted: overlay %s is taken away from %zu dataset%s", name,
                          facts.changed_count, facts.changed_count == 1 ? "" : "s");
    spsh__plan_view_free(&view);
    return rc;
}

int spsh__cmd_revert(int argc, char **argv)
{
    const spsh_cli_option options[] = {SPSH_CLI_OPTIONS_END};
    const spsh_cli_command command = {
        "revert",
        "PLAN [DATASET...]",
        NULL,
        "undo apply: the view before it, exactly",
        "Takes the plan's overlay away; others that were added since stay in force.\n"
        "DATASET: where a dataset of the plan is now, if it was moved.\n",
        "speechshard revert plan.jsonl\n",
        options,
    };
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc != SPSH_CLI_RUN ? rc : spsh__cli_finish(run(&args));
}
