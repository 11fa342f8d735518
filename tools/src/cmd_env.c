/* cmd_env.c: `speechshard env`: show which launcher or job array started this process, the ranks
 * that training would use, and the part that `--part auto` would be. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "commands.h"
#include "common/json_out.h"
#include "speechshard/train.h"

/* part: NULL after the failure that error describes. */
static int put_json(const spsh_train_world *w, const spsh_job_part *part, const spsh_error *error)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "launcher", w->launcher);
    spsh__json_put_u64(json, "rank", w->rank);
    spsh__json_put_u64(json, "world_size", w->world_size);
    spsh__json_put_u64(json, "local_rank", w->local_rank);
    spsh__json_put_u64(json, "local_size", w->local_size);
    spsh__json_put_u64(json, "node", w->node);
    spsh__json_put_u64(json, "node_count", w->node_count);
    spsh__json_put_string(json, "master", w->master[0] != '\0' ? w->master : NULL);
    spsh__json_put_u64(json, "master_port", w->master_port);
    spsh__json_put_string(json, "run_id", w->run_id[0] != '\0' ? w->run_id : NULL);
    spsh__json_put_u64(json, "restart_count", w->restart_count);
    spsh__json_put_string(json, "comm", w->comm);
    spsh__json_put_bool(json, "has_mpi", w->has_mpi);
    spsh__json_put_string(json, "part_source", part != NULL ? part->source : NULL);
    spsh__json_put_string(json, "part_error", part != NULL ? NULL : error->message);
    if (part != NULL)
        spsh__json_put_u64(json, "part", part->index);
    if (part != NULL && part->count != 0)
        spsh__json_put_u64(json, "part_count", part->count);
    return spsh__cli_json(json);
}

static void print_part(const spsh_job_part *part, const spsh_error *error)
{
    if (part == NULL)
        (void)printf("part: %s\n", error->message);
    else if (part->count == 0)
        (void)printf("part: %" PRIu64 " (%s), which does not set the number of parts: --part "
                     "auto/N\n",
                     part->index, part->source);
    else
        (void)printf("part: %" PRIu64 "/%" PRIu64 " (%s)\n", part->index, part->count,
                     part->source);
}

static void print_world(const spsh_train_world *w)
{
    if (w->world_size == 1 && strcmp(w->launcher, "alone") == 0) {
        (void)printf("no launcher found in the environment; one process");
    } else {
        (void)printf("%s: rank %" PRIu32 " of %" PRIu32 ", %" PRIu32 " of %" PRIu32
                     " on node %" PRIu32 " of %" PRIu32,
                     w->launcher, w->rank, w->world_size, w->local_rank, w->local_size, w->node,
                     w->node_count);
        if (w->master[0] != '\0')
            (void)printf(", master %s:%" PRIu32, w->master, w->master_port);
        if (w->run_id[0] != '\0')
            (void)printf(", run %s, restart %" PRIu32, w->run_id, w->restart_count);
    }
    (void)printf("\nmessages: %s; built with %stcp\n", w->comm, w->has_mpi ? "mpi, " : "");
}

int spsh__cmd_env(int argc, char **argv)
{
    bool json = false;
    spsh_train_world world = SPSH_TRAIN_WORLD_INIT;
    spsh_job_part part = SPSH_JOB_PART_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_cli_option options[] = {
        {"json", 0, SPSH_CLI_FLAG, NULL, "print JSON", &json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "env",
        "",
        NULL,
        "show the processes that would train together, and the part for --part auto",
        "Rank and world size come from the variables of mpirun, srun, torchrun, or Kubernetes, or "
        "from RANK and WORLD_SIZE. Contradictory sets of variables are an error. Processes "
        "communicate through MPI if mpirun or srun with PMIx started them, else over TCP "
        "connections. Set SPEECHSHARD_COMM to mpi or tcp in the environment of all of them to "
        "select one. The part also comes from a job array of Slurm, Kubernetes, SGE, PBS, LSF, AWS "
        "Batch, or Google Batch.",
        "speechshard env --json\n"
        "mpirun -n 4 speechshard env\n"
        "srun -n 8 speechshard env\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (args.operand_count != 0)
        return spsh__cli_usage("env", "unexpected argument '%s'; env takes none", args.operands[0]);
    if (spsh_train_world_find(&world, &err) != SPSH_OK)
        return spsh__cli_finish(spsh__cli_fail(NULL, &err));
    const spsh_job_part *found = spsh_job_part_find(NULL, &part, &err) == SPSH_OK ? &part : NULL;
    if (json)
        return spsh__cli_finish(put_json(&world, found, &err));
    print_world(&world);
    print_part(found, &err);
    return spsh__cli_finish(SPSH_EXIT_DONE);
}
