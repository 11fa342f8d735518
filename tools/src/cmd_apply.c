/* cmd_apply.c: `speechshard apply`: a plan of `dedupe` comes into force. */

#include "cli/cli.h"
#include "cli/copy_plan_words.h"
#include "commands.h"

static int run(const spsh_cli_args *args)
{
    spsh__plan_view view;
    spsh__copy_view_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    char name[SPSH__COPY_VIEW_NAME_BYTES];
    char count[SPSH_HUMAN_BYTES];
    int rc = spsh__plan_view_open("apply", args->operands, args->operand_count, &view);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    spsh__copy_view_name(view.plan, name);
    if (spsh__copy_view_apply(view.plan, view.paths, spsh_io_default(), &facts, &err) != SPSH_OK)
        rc = spsh__cli_fail("apply", &err);
    else if (facts.dataset_count == 0)
        spsh__cli_message("the plan drops nothing; nothing to apply");
    else if (facts.changed_count == 0)
        spsh__cli_message("applied already: overlay %s is in force; nothing to do", name);
    else
        spsh__cli_message("applied: overlay %s skips %s utterances of %zu dataset%s; "
                          "`speechshard revert %s` undoes it",
                          name, spsh__human_count(facts.utterance_count, count),
                          facts.dataset_count, facts.dataset_count == 1 ? "" : "s",
                          args->operands[0]);
    spsh__plan_view_free(&view);
    return rc;
}

int spsh__cmd_apply(int argc, char **argv)
{
    const spsh_cli_option options[] = {SPSH_CLI_OPTIONS_END};
    const spsh_cli_command command = {
        "apply",
        "PLAN [DATASET...]",
        NULL,
        "leave out the copies that a plan of dedupe drops",
        "Adds an overlay to each dataset of the plan that loses utterances: they are no longer\n"
        "listed, loaded or exported, and stay where they are. `speechshard revert` undoes it.\n"
        "DATASET: where a dataset of the plan is now, if it was moved.\n",
        "speechshard apply plan.jsonl\n"
        "speechshard apply plan.jsonl /mnt/fast/corpus.spsh\n",
        options,
    };
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc != SPSH_CLI_RUN ? rc : spsh__cli_finish(run(&args));
}
