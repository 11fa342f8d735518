/* unit_part.c: the part that `--part auto` finds in the variables of schedulers and launchers, as
 * they were recorded or as their manuals describe them, and the sets of variables that it rejects.
 */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/part.h"
#include "speechshard/train.h"
#include "spsh_test.h"

#define VARIABLES_MAX 16

typedef struct part_case {
    const char *what;
    const char *variables[VARIABLES_MAX]; /* "NAME=value" */
    uint64_t given;                       /* number of parts in auto/N; 0: auto */
    uint64_t index, count;
    const char *source;  /* NULL: rejected */
    const char *message; /* part of the error message */
} part_case;

#define SLURM_ARRAY(id_, count_, min_, max_, step_)                                                \
    "SLURM_ARRAY_TASK_ID=" id_, "SLURM_ARRAY_TASK_COUNT=" count_, "SLURM_ARRAY_TASK_MIN=" min_,    \
        "SLURM_ARRAY_TASK_MAX=" max_, "SLURM_ARRAY_TASK_STEP=" step_, "SLURM_ARRAY_JOB_ID=7"
#define SLURM_BATCH "SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=9"
#define SLURM_STEP(procid_, ntasks_)                                                               \
    "SLURM_PROCID=" procid_, "SLURM_NTASKS=" ntasks_, "SLURM_STEP_NUM_TASKS=" ntasks_,             \
        "SLURM_STEP_ID=0", "SLURM_JOB_ID=9"
#define MPIRUN(rank_, size_) "OMPI_COMM_WORLD_RANK=" rank_, "OMPI_COMM_WORLD_SIZE=" size_
#define SGE(id_, first_, last_, step_)                                                             \
    "SGE_TASK_ID=" id_, "SGE_TASK_FIRST=" first_, "SGE_TASK_LAST=" last_, "SGE_TASK_STEPSIZE=" step_

/* clang-format off */
static const part_case cases[] = {
    /* Slurm arrays */
    {"Slurm array", {SLURM_ARRAY("3", "16", "0", "15", "1"), SLURM_BATCH}, 0, 3, 16, "Slurm array", NULL},
    {"Slurm array from 1", {SLURM_ARRAY("1", "16", "1", "16", "1")}, 0, 0, 16, "Slurm array", NULL},
    {"--array=1-7:2", {SLURM_ARRAY("5", "4", "1", "7", "2")}, 0, 2, 4, "Slurm array", NULL},
    {"--array=1-8:2: the last number is not a task", {SLURM_ARRAY("7", "4", "1", "8", "2")}, 0, 3, 4, "Slurm array", NULL},
    {"Slurm array of one", {SLURM_ARRAY("0", "1", "0", "0", "1")}, 0, 0, 1, "Slurm array", NULL},
    {"Slurm array, the same count given", {SLURM_ARRAY("3", "16", "0", "15", "1")}, 16, 3, 16, "Slurm array", NULL},
    {"Slurm array, another count given", {SLURM_ARRAY("3", "16", "0", "15", "1")}, 8, 0, 0, NULL,
     "8 parts are given, but the Slurm array has 16"},
    {"--array=1,3,9", {SLURM_ARRAY("3", "3", "1", "9", "1")}, 0, 0, 0, NULL, "some numbers are missing"},
    {"--array=3,7, to repeat two of 16", {SLURM_ARRAY("7", "2", "3", "7", "1")}, 16, 0, 0, NULL, "some numbers are missing"},
    {"Slurm array without its range", {"SLURM_ARRAY_TASK_ID=3", "SLURM_ARRAY_TASK_COUNT=4"}, 0, 3, 4, "Slurm array", NULL},
    {"Slurm array without a count", {"SLURM_ARRAY_TASK_ID=3"}, 0, 3, 0, "Slurm array", NULL},
    {"Slurm array, no number", {"SLURM_ARRAY_TASK_ID=4294967294x"}, 0, 0, 0, NULL, "SLURM_ARRAY_TASK_ID is '4294967294x'"},
    {"Slurm array, below its range", {SLURM_ARRAY("0", "4", "1", "4", "1")}, 0, 0, 0, NULL, "SLURM_ARRAY_TASK_ID is 0"},
    {"Slurm array, beyond its range", {SLURM_ARRAY("5", "4", "1", "4", "1")}, 0, 0, 0, NULL, "SLURM_ARRAY_TASK_ID is 5"},
    {"Slurm array, off its step", {SLURM_ARRAY("4", "4", "1", "7", "2")}, 0, 0, 0, NULL, "tasks of the Slurm array are 1, 3"},

    /* Slurm steps */
    {"srun", {SLURM_STEP("2", "4")}, 0, 2, 4, "srun", NULL},
    {"a batch script, which is no task", {SLURM_BATCH}, 0, 0, 0, NULL, "no variables of a job array or of a launcher"},
    {"a batch script with more tasks", {"SLURM_PROCID=0", "SLURM_NTASKS=4"}, 4, 0, 0, NULL, "no variables"},
    {"srun in an array", {SLURM_ARRAY("2", "3", "0", "2", "1"), SLURM_STEP("1", "4")}, 0, 9, 12, "Slurm array and srun", NULL},
    {"srun of one task in an array", {SLURM_ARRAY("2", "3", "0", "2", "1"), SLURM_STEP("0", "1")}, 0, 2, 3, "Slurm array", NULL},
    {"the batch script of an array with more tasks",
     {SLURM_ARRAY("2", "3", "0", "2", "1"), "SLURM_PROCID=0", "SLURM_NTASKS=4"}, 0, 2, 3, "Slurm array", NULL},

    /* MPI */
    {"mpirun", {MPIRUN("5", "8")}, 0, 5, 8, "mpirun", NULL},
    {"mpirun, another count given", {MPIRUN("5", "8")}, 16, 0, 0, NULL, "16 parts are given, but the mpirun has 8"},
    {"mpiexec of MPICH", {"PMI_RANK=2", "PMI_SIZE=4"}, 0, 2, 4, "pmi", NULL},
    {"half of mpirun's", {"OMPI_COMM_WORLD_RANK=1"}, 0, 0, 0, NULL, "OMPI_COMM_WORLD_SIZE is not"},
    {"mpirun in a step of Slurm", {SLURM_STEP("0", "2"), MPIRUN("3", "4")}, 0, 3, 4, "mpirun", NULL},
    {"mpirun in a Slurm array", {SLURM_ARRAY("1", "2", "1", "2", "1"), SLURM_BATCH, MPIRUN("3", "4")}, 0, 3, 8,
     "Slurm array and mpirun", NULL},
    {"mpirun in an SGE array", {SGE("2", "1", "3", "1"), MPIRUN("1", "2")}, 0, 3, 6, "SGE array and mpirun", NULL},
    {"mpirun in an array with too many parts", {SLURM_ARRAY("1", "600000000", "0", "599999999", "1"), SLURM_BATCH, MPIRUN("3", "8")},
     0, 0, 0, NULL, "has 4800000000 parts"},
    {"mpirun in an array without a count", {"PBS_ARRAY_INDEX=2", MPIRUN("1", "2")}, 6, 5, 6, "PBS array and mpirun", NULL},

    /* Kubernetes, torchrun, plain variables */
    {"Indexed Job", {"JOB_COMPLETION_INDEX=5"}, 16, 5, 16, "Kubernetes Indexed Job", NULL},
    {"Indexed Job without a count", {"JOB_COMPLETION_INDEX=5"}, 0, 5, 0, "Kubernetes Indexed Job", NULL},
    {"Indexed Job with its count", {"JOB_COMPLETION_INDEX=5", "WORLD_SIZE=8"}, 0, 5, 8, "Kubernetes Indexed Job", NULL},
    {"Indexed Job beyond its count", {"JOB_COMPLETION_INDEX=5"}, 5, 0, 0, NULL, "the last of 5 parts is 4"},
    {"Indexed Job whose pods are one torchrun",
     {"JOB_COMPLETION_INDEX=1", "RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
      "TORCHELASTIC_RUN_ID=a"}, 0, 0, 0, NULL, "torchrun say rank 9 of 16"},
    {"Indexed Job and a rank that agrees", {"JOB_COMPLETION_INDEX=1", "RANK=1", "WORLD_SIZE=2"}, 0, 1, 2,
     "Kubernetes Indexed Job", NULL},
    {"Indexed Job and another rank", {"JOB_COMPLETION_INDEX=1", "RANK=0", "WORLD_SIZE=2"}, 0, 0, 0, NULL,
     "says part 1, but the variables of environment say rank 0 of 2"},
    {"torchrun", {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=a"}, 0, 3, 4,
     "torchrun", NULL},
    {"plain variables", {"RANK=1", "WORLD_SIZE=3"}, 0, 1, 3, "environment", NULL},
    {"a rank without a size", {"RANK=1"}, 3, 0, 0, NULL, "WORLD_SIZE is not"},
    {"a pod of a PyTorchJob with more processes", {"RANK=1", "WORLD_SIZE=6", "PET_NPROC_PER_NODE=2"}, 0, 0, 0, NULL,
     "RANK is the number of a pod"},
    {"a plain rank in an array of other parts", {SLURM_ARRAY("2", "3", "0", "2", "1"), "RANK=1", "WORLD_SIZE=4"}, 0, 0, 0,
     NULL, "give the part as I/N"},

    /* SGE, PBS, LSF, clouds */
    {"SGE array", {SGE("16", "1", "16", "1")}, 0, 15, 16, "SGE array", NULL},
    {"SGE array with a step", {SGE("7", "1", "10", "3")}, 0, 2, 4, "SGE array", NULL},
    {"SGE job without an array", {SGE("undefined", "undefined", "undefined", "undefined")}, 0, 0, 0, NULL, "no variables"},
    {"PBS array", {"PBS_ARRAY_INDEX=3"}, 4, 3, 4, "PBS array", NULL},
    {"PBS array without a count", {"PBS_ARRAY_INDEX=3"}, 0, 3, 0, "PBS array", NULL},
    {"PBS array from 1", {"PBS_ARRAY_INDEX=4"}, 4, 0, 0, NULL, "number the tasks from 0"},
    {"Torque array", {"PBS_ARRAYID=3"}, 4, 3, 4, "Torque array", NULL},
    {"LSF array", {"LSB_JOBINDEX=4", "LSB_JOBINDEX_END=4", "LSB_JOBINDEX_STEP=1"}, 0, 3, 4, "LSF array", NULL},
    {"LSF job without an array", {"LSB_JOBINDEX=0", "LSB_JOBINDEX_END=0"}, 0, 0, 0, NULL, "no variables"},
    {"AWS Batch", {"AWS_BATCH_JOB_ARRAY_INDEX=0", "AWS_BATCH_JOB_ARRAY_SIZE=10"}, 0, 0, 10, "AWS Batch array", NULL},
    {"AWS Batch, contradiction", {"AWS_BATCH_JOB_ARRAY_INDEX=10", "AWS_BATCH_JOB_ARRAY_SIZE=10"}, 0, 0, 0, NULL,
     "the last of 10 parts is 9"},
    {"Google Batch", {"BATCH_TASK_INDEX=2", "BATCH_TASK_COUNT=3"}, 0, 2, 3, "Google Batch", NULL},
    {"Slurm with the variables of PBS", {SLURM_ARRAY("3", "4", "0", "3", "1"), "PBS_ARRAYID=3"}, 0, 3, 4, "Slurm array", NULL},
    {"two arrays", {SLURM_ARRAY("3", "4", "0", "3", "1"), "JOB_COMPLETION_INDEX=0"}, 0, 0, 0, NULL,
     "SLURM_ARRAY_TASK_ID is 3, but JOB_COMPLETION_INDEX is 0"},

    {"nothing", {NULL}, 4, 0, 0, NULL, "give the part as I/N"},
    {"empty variables", {"SLURM_ARRAY_TASK_ID=", "JOB_COMPLETION_INDEX="}, 4, 0, 0, NULL, "give the part as I/N"},
};
/* clang-format on */

static void set_environment(const char *const *variables)
{
    CHECK_I64(clearenv(), 0);
    for (; *variables != NULL; variables++) {
        char name[64];
        const size_t length = strcspn(*variables, "=");
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, *variables);
        CHECK_I64(setenv(name, *variables + length + 1, 1), 0);
    }
}

static void test_environments(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const part_case *c = &cases[i];
        const int before = test_failures;
        char text[24];
        spsh_job_part part = SPSH_JOB_PART_INIT;
        spsh_error err = SPSH_ERROR_INIT;
        set_environment(c->variables);
        (void)snprintf(text, sizeof(text), "auto/%u", (unsigned)c->given);
        part.index = 77;
        const spsh_status rc = spsh_job_part_find(c->given == 0 ? NULL : text, &part, &err);
        CHECK_I64(rc == SPSH_OK, c->source != NULL);
        CHECK_U64(part.index, c->source != NULL ? c->index : 77);
        CHECK_U64(part.count, c->count);
        CHECK_STR(part.source, c->source != NULL ? c->source : "");
        CHECK(c->message == NULL || strstr(err.message, c->message) != NULL);
        if (test_failures != before)
            fprintf(stderr, "    case: %s (%s)\n", c->what, err.message);
    }
}

/* Every process of srun in an array has another part. */
static void test_each_part_once(void)
{
    bool seen[12] = {false};
    for (unsigned n = 0; n < 12; n++) {
        char variables[4][40];
        const char *list[] = {variables[0],      variables[1],     variables[2], variables[3],
                              "SLURM_STEP_ID=0", "SLURM_NTASKS=4", NULL};
        spsh_job_part part = SPSH_JOB_PART_INIT;
        (void)snprintf(variables[0], 40, "SLURM_ARRAY_TASK_ID=%u", 5 + n / 4 * 2);
        (void)snprintf(variables[1], 40, "SLURM_ARRAY_TASK_MIN=5");
        (void)snprintf(variables[2], 40, "SLURM_PROCID=%u", n % 4);
        (void)snprintf(variables[3], 40, "SLURM_ARRAY_TASK_STEP=2");
        set_environment(list);
        CHECK_I64(spsh_job_part_find("auto/12", &part, NULL), SPSH_OK);
        CHECK(part.index < 12 && !seen[part.index]);
        seen[part.index] = true;
    }
}

static void test_option(void)
{
    static const struct {
        const char *text;
        int status; /* result of spsh__part_take */
        uint64_t part, count;
    } texts[] = {
        {NULL,      SPSH_EXIT_DONE,  0, 1},
        {"0/1",     SPSH_EXIT_DONE,  0, 1},
        {"3/4",     SPSH_EXIT_DONE,  3, 4},
        {"auto/4",  SPSH_EXIT_DONE,  2, 4},
        {"auto",    SPSH_EXIT_USAGE, 9, 9},
        {"auto/2",  SPSH_EXIT_USAGE, 9, 9},
        {"auto/0",  SPSH_EXIT_USAGE, 9, 9},
        {"auto/",   SPSH_EXIT_USAGE, 9, 9},
        {"auto/4x", SPSH_EXIT_USAGE, 9, 9},
        {"auto4",   SPSH_EXIT_USAGE, 9, 9},
        {"4/4",     SPSH_EXIT_USAGE, 9, 9},
        {"-1/4",    SPSH_EXIT_USAGE, 9, 9},
    };
    static const char *const variables[] = {"JOB_COMPLETION_INDEX=2", NULL};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t part = 9, count = 9;
        set_environment(variables);
        CHECK_I64(spsh__part_take("try", texts[i].text, &part, &count), texts[i].status);
        CHECK_U64(part, texts[i].part);
        CHECK_U64(count, texts[i].count);
    }
}

TEST_MAIN(unit_part)
{
    RUN(test_environments);
    RUN(test_each_part_once);
    RUN(test_option);
    return TEST_RESULT();
}
