/* cmd_apply.c: `speechshard apply`: put a plan of `dedupe` into force. */

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
    if (spsh_copy_plan_apply(args->operands[0], &options, &facts, &err) != SPSH_OK)
        return spsh__cli_fail("apply", &err);
    if (json)
        return spsh__plan_change_json(args->operands[0], &facts);
    if (facts.dataset_count == 0)
        spsh__cli_message("the plan drops nothing; nothing to apply");
    else if (facts.changed_count == 0)
        spsh__cli_message("applied already: overlay %s is in force; nothing to do", facts.overlay);
    else
        spsh__cli_message("applied: overlay %s skips %s utterances of %zu dataset%s; "
                          "`speechshard revert %s` undoes it",
                          facts.overlay, SPSH_SHOW_COUNT(facts.utterance_count),
                          facts.dataset_count, facts.dataset_count == 1 ? "" : "s",
                          args->operands[0]);
    return SPSH_EXIT_DONE;
}

int spsh__cmd_apply(int argc, char **argv)
{
    bool json = false;
    const spsh_cli_option options[] = {
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object instead of a message", &json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "apply",
        "PLAN [DATASET...]",
        NULL,
        "skip the copies that a plan of dedupe drops",
        "Adds an overlay to each dataset of the plan that loses utterances. They are then no "
        "longer listed, loaded, or exported, but stay in the dataset. `speechshard revert` undoes "
        "it. DATASET is the new location of a dataset of the plan, if it was moved.",
        "speechshard apply plan.jsonl\n"
        "speechshard apply plan.jsonl /mnt/fast/corpus.spsh\n",
        options,
    };
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc != SPSH_CLI_RUN ? rc : spsh__cli_finish(run(&args, json));
}
