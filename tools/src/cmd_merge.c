/* cmd_merge.c: `speechshard merge`: publish a dataset that `pack --part` packed. */
#include "cli/cli.h"
#include "commands.h"
#include "print/pack_out.h"
#include "print/pack_view.h"

static int run(const char *dataset, spsh_pack_options *options, bool json)
{
    spsh__pack_view view;
    spsh_pack_report *report = NULL;
    spsh_error err = SPSH_ERROR_INIT;

    options->output = dataset;
    spsh__pack_view_begin(&view, options);
    const spsh_status status = spsh_pack_merge(options, &report, &err);
    spsh__pack_view_end(&view);
    const int rc = status == SPSH_OK ? spsh__pack_print_result(dataset, report, false, json)
                                     : spsh__cli_fail_resumable("merge", &err);
    spsh_pack_report_free(report);
    return spsh__cli_finish(rc);
}

int spsh__cmd_merge(int argc, char **argv)
{
    spsh_pack_options pack = SPSH_PACK_OPTIONS_INIT;
    uint64_t lease_s = 0;
    bool json = false;
    const spsh_cli_option options[] = {
        {"memory", 0, SPSH_CLI_SIZE, "SIZE", "memory for sorting (default: 256M)",
         &pack.memory_bytes, SPSH_PACK_MEMORY_BYTES_MIN, 0},
        {"lease", 0, SPSH_CLI_COUNT, "SECONDS",
         "time without a sign of life after which another merge takes over (default: 60)", &lease_s,
         1, SPSH_PACK_LEASE_S_MAX},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print the report as JSON", &json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "merge",
        "DATASET",
        NULL,
        "publish a dataset that was packed in parts",
        "Checks that the parts of `speechshard pack --part` have packed all units of the plan, "
        "then publishes the dataset with its reports. Otherwise it names the missing units, and "
        "exits with 1. The dataset is the one that `speechshard pack` without --part makes, byte "
        "for byte. A dataset that is published already is left as it is.",
        "speechshard merge corpus.spsh\n",
        options,
    };
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    pack.lease_s = (uint32_t)lease_s;
    return run(args.operands[0], &pack, json);
}
