/* unit_train_launch.c: rank and world size from the variables of every launcher, and of nested
 * launchers. */
#include "comm/comm.h"
#include "spsh_test.h"

#define VARIABLES_MAX 16

typedef struct launch_case {
    const char *what;
    const char *variables[VARIABLES_MAX]; /* "NAME=value" */
    spsh_status status;
    const char *launcher;
    uint32_t rank, world_size, local_rank, local_size, node, node_count;
    const char *master;
} launch_case;

static const char *get(void *user, const char *name)
{
    const char *const *variables = user;
    size_t length = strlen(name);
    for (; *variables != NULL; variables++)
        if (strncmp(*variables, name, length) == 0 && (*variables)[length] == '=')
            return *variables + length + 1;
    return NULL;
}

#define BAD SPSH_E_INVALID_ARG, "", 0, 0, 0, 0, 0, 0, ""

/* clang-format off */
static const launch_case cases[] = {
    {"nothing", {NULL}, SPSH_OK, "alone", 0, 1, 0, 1, 0, 1, ""},
    {"empty variables", {"RANK=", "WORLD_SIZE=", NULL}, SPSH_OK, "alone", 0, 1, 0, 1, 0, 1, ""},
    {"mpirun", {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=1", NULL},
     SPSH_OK, "mpirun", 5, 8, 1, 4, 1, 2, ""},
    {"torchrun", {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
      "GROUP_WORLD_SIZE=2", "MASTER_ADDR=node7", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=a1",
      "TORCHELASTIC_RESTART_COUNT=2", NULL},
     SPSH_OK, "torchrun", 3, 4, 1, 2, 1, 2, "node7"},
    {"mpiexec of MPICH", {"PMI_RANK=2", "PMI_SIZE=4", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2",
      NULL}, SPSH_OK, "pmi", 2, 4, 0, 2, 1, 2, ""},
    {"srun", {"SLURM_PROCID=9", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=2",
      "SLURM_NNODES=3", "SLURM_TASKS_PER_NODE=4(x2),3", "SLURM_STEP_ID=0", "SLURM_JOB_ID=77",
      "SLURM_JOB_NODELIST=gnode[010,20-25]", NULL},
     SPSH_OK, "srun", 9, 11, 1, 3, 2, 3, "gnode010"},
    {"a step smaller than its job", {"SLURM_PROCID=1", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=2",
      "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_TASKS_PER_NODE=4(x2)",
      "SLURM_LOCALID=1", "SLURM_NODEID=0", "SLURM_NNODES=2", "SLURM_STEP_ID=4",
      "SLURM_STEP_NODELIST=r[2-3]n[5,7],x1", NULL},
     SPSH_OK, "srun", 1, 2, 1, 2, 0, 1, "r2n5"},
    {"the shell of a batch script", {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0",
      "SLURM_TASKS_PER_NODE=1(x4)", "SLURM_NNODES=4", "SLURM_NODEID=0", NULL},
     SPSH_OK, "alone", 0, 1, 0, 1, 0, 1, ""},
    {"plain variables", {"RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=10.0.0.1", NULL},
     SPSH_OK, "environment", 1, 3, 0, 3, 0, 1, "10.0.0.1"},
    {"an indexed job of Kubernetes", {"JOB_COMPLETION_INDEX=2", "WORLD_SIZE=3", NULL},
     SPSH_OK, "environment", 2, 3, 0, 1, 2, 3, ""},
    {"an index alone", {"JOB_COMPLETION_INDEX=2", NULL}, SPSH_OK, "alone", 0, 1, 0, 1, 0, 1, ""},

    {"mpirun inside srun", {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "PMI_RANK=0",
      "PMI_SIZE=1", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", NULL},
     SPSH_OK, "mpirun", 3, 4, 0, 4, 0, 1, ""},
    {"torchrun inside srun", {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "RANK=3",
      "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
      "TORCHELASTIC_RUN_ID=b", NULL}, SPSH_OK, "torchrun", 3, 4, 1, 2, 1, 2, ""},
    {"plain variables that agree", {"RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1",
      "OMPI_COMM_WORLD_SIZE=2", NULL}, SPSH_OK, "mpirun", 1, 2, 0, 2, 0, 1, ""},

    {"plain variables that differ", {"RANK=0", "WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=1",
      "OMPI_COMM_WORLD_SIZE=2", NULL}, BAD},
    {"torchrun and mpirun", {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "TORCHELASTIC_RUN_ID=b",
      "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", NULL}, BAD},
    {"a pod of a PyTorchJob with a process", {"RANK=1", "WORLD_SIZE=3", "PET_NPROC_PER_NODE=1",
      NULL}, SPSH_OK, "environment", 1, 3, 0, 3, 0, 1, ""},
    {"a pod of a PyTorchJob with more processes", {"RANK=1", "WORLD_SIZE=6", "PET_NPROC_PER_NODE=2",
      NULL}, BAD},
    {"half a set", {"RANK=1", NULL}, BAD},
    {"the other half", {"WORLD_SIZE=2", NULL}, BAD},
    {"half of mpirun's", {"OMPI_COMM_WORLD_RANK=1", NULL}, BAD},
    {"a rank beyond the world", {"RANK=2", "WORLD_SIZE=2", NULL}, BAD},
    {"a world of none", {"RANK=0", "WORLD_SIZE=0", NULL}, BAD},
    {"no number", {"RANK=one", "WORLD_SIZE=2", NULL}, BAD},
    {"a negative number", {"RANK=-1", "WORLD_SIZE=2", NULL}, BAD},
    {"a number that does not fit", {"RANK=0", "WORLD_SIZE=4294967297", NULL}, BAD},
    {"more on a node than in the world", {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
      "OMPI_COMM_WORLD_LOCAL_SIZE=4", NULL}, BAD},
    {"a node without tasks", {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
      "SLURM_NODEID=2", "SLURM_NNODES=3", "SLURM_TASKS_PER_NODE=1(x2)", NULL}, BAD},
    {"tasks per node without an end", {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
      "SLURM_TASKS_PER_NODE=2(x1", NULL}, BAD},
    {"a list of nodes without an end", {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
      "SLURM_JOB_NODELIST=n[1-2", NULL}, BAD},
};
/* clang-format on */

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const launch_case *c = &cases[i];
        spsh__launch l = {.launcher = "untouched"};
        spsh_error err = SPSH_ERROR_INIT;
        int before = test_failures;
        const char *variables[VARIABLES_MAX];
        memcpy(variables, c->variables, sizeof(variables));
        CHECK_I64(spsh__launch_find(get, variables, &l, &err), c->status);
        if (c->status != SPSH_OK) {
            CHECK_STR(l.launcher, "untouched");
            CHECK(err.message[0] != '\0');
        } else {
            CHECK_STR(l.launcher, c->launcher);
            CHECK_U64(l.rank, c->rank);
            CHECK_U64(l.world_size, c->world_size);
            CHECK_U64(l.local_rank, c->local_rank);
            CHECK_U64(l.local_size, c->local_size);
            CHECK_U64(l.node, c->node);
            CHECK_U64(l.node_count, c->node_count);
            CHECK_STR(l.master, c->master);
        }
        if (test_failures != before)
            fprintf(stderr, "    case: %s (%s)\n", c->what, err.message);
    }
}

static void test_a_contradiction_names_both(void)
{
    const char *variables[] = {"RANK=0", "WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=1",
                               "OMPI_COMM_WORLD_SIZE=2", NULL};
    spsh__launch l = {0};
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh__launch_find(get, variables, &l, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "mpirun say rank 1 of 2") != NULL);
    CHECK(strstr(err.message, "RANK and WORLD_SIZE say rank 0 of 1") != NULL);
}

static void test_what_torchrun_says_of_a_run(void)
{
    const char *variables[] = {"RANK=0",
                               "WORLD_SIZE=1",
                               "LOCAL_RANK=0",
                               "MASTER_PORT=29500",
                               "LOCAL_WORLD_SIZE=1",
                               "TORCHELASTIC_RUN_ID=night",
                               "TORCHELASTIC_RESTART_COUNT=2",
                               NULL};
    spsh__launch l = {0};
    CHECK_I64(spsh__launch_find(get, variables, &l, NULL), SPSH_OK);
    CHECK_STR(l.run_id, "night");
    CHECK_U64(l.restart_count, 2);
    CHECK_U64(l.master_port, 29500);
}

/* The same cases with and without MPI. */
static void test_what_carries_messages(void)
{
    static const struct {
        const char *launcher, *comm, *where, *want;
        uint32_t world_size;
    } wanted[] = {
        {"alone",       "",    NULL,         "self", 1},
        {"mpirun",      "tcp", NULL,         "self", 1},
        {"mpirun",      "",    NULL,         "mpi",  2},
        {"srun",        "",    "auto",       "mpi",  2},
        {"mpirun",      "",    "file:///a",  "tcp",  2},
        {"torchrun",    "",    NULL,         "tcp",  2},
        {"environment", "",    "tcp://a:80", "tcp",  2},
        {"torchrun",    "tcp", NULL,         "tcp",  2},
        {"mpirun",      "tcp", NULL,         "tcp",  2},
        {"torchrun",    "mpi", "file:///a",  "mpi",  2},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        spsh__launch l = {.launcher = wanted[i].launcher, .world_size = wanted[i].world_size};
        (void)snprintf(l.comm, sizeof(l.comm), "%s", wanted[i].comm);
        CHECK_STR(spsh__comm_name(&l, wanted[i].where), wanted[i].want);
    }
}

static void test_what_is_to_carry_them(void)
{
    const char *variables[] = {"RANK=0", "WORLD_SIZE=2", NULL, NULL};
    static const struct {
        const char *variable;
        const char *comm;    /* NULL: rejected, */
        const char *message; /* ... with this text */
    } wanted[] = {
        {"SPEECHSHARD_COMM=tcp",  "tcp", ""                                                 },
        {"SPEECHSHARD_COMM=auto", "",    ""                                                 },
        {"SPEECHSHARD_COMM=TCP",  NULL,  "expected auto, mpi, or tcp"                       },
        {"SPEECHSHARD_COMM=gloo", NULL,  "Gloo has been removed: set it to tcp, or unset it"},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        spsh_error err = SPSH_ERROR_INIT;
        spsh__launch l;
        variables[2] = wanted[i].variable;
        CHECK_I64(spsh__launch_find(get, variables, &l, &err),
                  wanted[i].comm != NULL ? SPSH_OK : SPSH_E_INVALID_ARG);
        CHECK(strstr(err.message, wanted[i].message) != NULL);
        CHECK(wanted[i].comm == NULL || strcmp(l.comm, wanted[i].comm) == 0);
    }
}

static void test_secret(void)
{
    const char *variables[] = {"RANK=0", "WORLD_SIZE=2", NULL, NULL};
    static const char *const values[] = {"=", "=fifteen letters", "=sixteen letters."};
    char variable[64];
    spsh_error err = SPSH_ERROR_INIT;
    spsh__launch l;
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(variable, sizeof(variable), SPSH__LAUNCH_SECRET "%s", values[i]);
        variables[2] = variable;
        CHECK_I64(spsh__launch_find(get, variables, &l, &err),
                  i == 1 ? SPSH_E_INVALID_ARG : SPSH_OK);
        CHECK(i == 1 || (l.secret == NULL) == (i == 0));
    }
    CHECK(strstr(err.message, "has 15 characters, expected at least 16") != NULL);
    CHECK(strstr(err.message, "fifteen") == NULL);
}

TEST_MAIN(unit_train_launch)
{
    RUN(test_cases);
    RUN(test_a_contradiction_names_both);
    RUN(test_what_torchrun_says_of_a_run);
    RUN(test_what_carries_messages);
    RUN(test_what_is_to_carry_them);
    RUN(test_secret);
    return TEST_RESULT();
}
