/* cmd_revert.c: `speechshard revert`: undo `apply` for a plan of `dedupe`. */

#include "cli/cli.h"
#include "commands.h"
#include "print/plan_change_out.h"
#include "speechshard/dedup.h"

static int run(const spsh_cli_args *args, bool json)
{
    spsh_copy_plan_options options = SPSH_COPY_PLAN_OPTIONS_INIT;
    spsh_copy_plan_facts facts = SPSH_COPY_PLAN_FACTS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    options.datasets = (const char *const *)args->operands + 1;
    options.dataset_count = (size_t)args->operand_count - 1;
    if (spsh_copy_plan_revert(args->operands[0], &options, &facts, &err) != SPSH_OK)
        return spsh__cli_fail("revert", &err);
    if (json)
        return spsh__plan_change_json(args->operands[0], &facts);
    if (facts.changed_count == 0)
        spsh__cli_message("not applied: overlay %s is not in force; nothing to undo",
                          facts.overlay);
    else
        spsh__cli_message("reverted: overlay %s is removed from %zu dataset%s", facts.overlay,
                          facts.changed_count, facts.changed_count == 1 ? "" : "s");
    return SPSH_EXIT_DONE;
}

int spsh__cmd_revert(int argc, char **argv)
{
    bool json = false;
    const spsh_cli_option options[] = {
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object instead of a message", &json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "revert",
        "PLAN [DATASET...]",
        NULL,
        "undo apply and restore the exact previous view",
        "Removes the plan's overlay; overlays that were added later stay in force. DATASET is the "
        "new location of a dataset of the plan, if it was moved.",
        "speechshard revert plan.jsonl\n",
        options,
    };
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc != SPSH_CLI_RUN ? rc : spsh__cli_finish(run(&args, json));
}
