/* launch.c: see launch.h. One function per launcher reports whether its variables are set. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>

#include "comm.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"
#include "speechshard/train.h"

#define WORLD_MAX 65536u
enum { SECRET_LENGTH_MIN = 16 };

typedef struct variables {
    const char *(*get_fn)(void *user, const char *name);
    void *user;
} variables;

static const char *get(const variables *v, const char *name)
{
    const char *text = v->get_fn(v->user, name);
    return text == NULL || *text == '\0' ? NULL : text;
}

/* Read a variable that must be a number. If it is not set, *ret does not change. */
static spsh_status number(const variables *v, const char *name, uint32_t *ret, spsh_error *err)
{
    const char *text = get(v, name);
    const char *end = text;
    uint64_t value = 0;
    if (text == NULL)
        return SPSH_OK;
    if (!spsh__take_digits(&end, UINT32_MAX, &value) || *end != '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is '%s', not a number", name, text);
    *ret = (uint32_t)value;
    return SPSH_OK;
}

/* Rank and world size: both or none. */
static spsh_status pair(const variables *v, const char *rank_name, const char *size_name,
                        spsh__launch *l, spsh_error *err)
{
    const char *rank_text = get(v, rank_name);
    const char *size_text = get(v, size_name);
    if (rank_text == NULL || size_text == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is set, but %s is not; set both or neither",
                         rank_text == NULL ? size_name : rank_name,
                         rank_text == NULL ? rank_name : size_name);
    spsh_status rc = number(v, rank_name, &l->rank, err);
    if (rc == SPSH_OK)
        rc = number(v, size_name, &l->world_size, err);
    if (rc != SPSH_OK)
        return rc;
    if (l->world_size == 0 || l->world_size > WORLD_MAX || l->rank >= l->world_size)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s is %u, but %s is %u; a rank must be less than the number of processes",
                         rank_name, l->rank, size_name, l->world_size);
    return SPSH_OK;
}

static spsh_status text_of(const variables *v, const char *name, char *to, size_t capacity,
                           spsh_error *err)
{
    const char *text = get(v, name);
    if (text == NULL)
        return SPSH_OK;
    if (strlen(text) >= capacity)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s has more than %zu characters", name, capacity - 1);
    memcpy(to, text, strlen(text) + 1);
    return SPSH_OK;
}

/* Fill in node counts that the launcher did not set: one node, or equally full nodes. */
static spsh_status finish(const char *launcher, spsh__launch *l, spsh_error *err)
{
    l->launcher = launcher;
    if (l->local_size == 0)
        l->local_size = l->world_size;
    if (l->node_count == 0)
        l->node_count = (l->world_size + l->local_size - 1) / l->local_size;
    if (l->local_size > l->world_size || l->local_rank >= l->local_size || l->node >= l->node_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the variables of %s contradict each other: rank %u of %u, local rank %u "
                         "of %u, node %u of %u",
                         launcher, l->rank, l->world_size, l->local_rank, l->local_size, l->node,
                         l->node_count);
    return SPSH_OK;
}

/* A variable and the field that receives it. A NULL name ends a list. */
typedef struct wanted {
    const char *name;
    uint32_t *to;
} wanted;

static spsh_status numbers(const variables *v, const wanted *w, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (; rc == SPSH_OK && w->name != NULL; w++)
        rc = number(v, w->name, w->to, err);
    return rc;
}

static spsh_status from_torchrun(const variables *v, spsh__launch *l, spsh_error *err)
{
    const wanted names[] = {
        {"LOCAL_RANK",                 &l->local_rank   },
        {"LOCAL_WORLD_SIZE",           &l->local_size   },
        {"GROUP_RANK",                 &l->node         },
        {"GROUP_WORLD_SIZE",           &l->node_count   },
        {"MASTER_PORT",                &l->master_port  },
        {"TORCHELASTIC_RESTART_COUNT", &l->restart_count},
        {NULL,                         NULL             }
    };
    spsh_status rc = pair(v, "RANK", "WORLD_SIZE", l, err);
    if (rc == SPSH_OK)
        rc = numbers(v, names, err);
    if (rc == SPSH_OK)
        rc = text_of(v, "MASTER_ADDR", l->master, sizeof(l->master), err);
    if (rc == SPSH_OK)
        rc = text_of(v, "TORCHELASTIC_RUN_ID", l->run_id, sizeof(l->run_id), err);
    return rc == SPSH_OK ? finish("torchrun", l, err) : rc;
}

/* names: rank, size, local rank, local size. Nodes follow one another. */
static spsh_status from_names(const variables *v, const char *launcher, const char *const names[4],
                              spsh__launch *l, spsh_error *err)
{
    spsh_status rc = pair(v, names[0], names[1], l, err);
    if (rc == SPSH_OK)
        rc = number(v, names[2], &l->local_rank, err);
    if (rc == SPSH_OK)
        rc = number(v, names[3], &l->local_size, err);
    if (rc == SPSH_OK && l->local_size > 0)
        l->node = l->rank / l->local_size;
    return rc == SPSH_OK ? finish(launcher, l, err) : rc;
}

/* OMPI_COMM_WORLD_NODE_RANK is the rank among all jobs of a node, not the node. */
static spsh_status from_mpirun(const variables *v, spsh__launch *l, spsh_error *err)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
    return from_names(v, "mpirun", names, l, err);
}

static spsh_status from_pmi(const variables *v, spsh__launch *l, spsh_error *err)
{
    static const char *const names[] = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS"};
    return from_names(v, "pmi", names, l, err);
}

/* "4(x2),3": tasks of node after node. */
static spsh_status slurm_local_size(const char *text, uint32_t node, uint32_t *ret, spsh_error *err)
{
    const char *at = text;
    uint64_t nodes = 0;
    while (nodes <= node) {
        uint64_t tasks = 0, times = 1;
        bool is_good = spsh__take_digits(&at, UINT32_MAX, &tasks);
        if (is_good && at[0] == '(' && at[1] == 'x') {
            at += 2;
            is_good = spsh__take_digits(&at, UINT32_MAX, &times) && *at++ == ')';
        }
        if (!is_good || tasks == 0 || times == 0 || (*at != ',' && *at != '\0'))
            return SPSH_FAIL(
                err, SPSH_E_INVALID_ARG,
                "cannot read the number of tasks per node from Slurm's '%s' (this is node %u)",
                text, node);
        nodes += times;
        *ret = (uint32_t)tasks;
        if (*at == '\0')
            break;
        at++;
    }
    if (nodes <= node)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "Slurm's numbers of tasks per node, '%s', do not include this node, %u",
                         text, node);
    return SPSH_OK;
}

/* Find the first host of a list such as "a[10,20-25]x[1-2],b": each bracket yields its first
 * number. */
static spsh_status slurm_first_host(const char *list, char *host, size_t capacity, spsh_error *err)
{
    size_t length = 0;
    bool is_skipped = false;
    bool is_inside = false;
    for (const char *at = list; *at != '\0' && (is_inside || *at != ','); at++) {
        if (*at == '[' || *at == ']') {
            is_inside = *at == '[';
            is_skipped = false;
            continue;
        }
        is_skipped = is_skipped || (is_inside && (*at == ',' || *at == '-'));
        if (is_skipped)
            continue;
        if (length + 1 >= capacity)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "the name of the first Slurm node has more than %zu characters",
                             capacity - 1);
        host[length++] = *at;
    }
    host[length] = '\0';
    if (is_inside || length == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "cannot read the first node from Slurm's node list '%s'", list);
    return SPSH_OK;
}

static const char *slurm_variable(const variables *v, const char *step_name, const char *job_name)
{
    return get(v, step_name) != NULL ? step_name : job_name;
}

static spsh_status from_slurm(const variables *v, spsh__launch *l, spsh_error *err)
{
    const wanted names[] = {
        {"SLURM_LOCALID",    &l->local_rank        },
        {"SLURM_NODEID",     &l->node              },
        {slurm_variable(v,   "SLURM_STEP_NUM_NODES", "SLURM_NNODES"), &l->node_count},
        {"SLURM_RESTART_COUNT",    &l->restart_count                         },
        {NULL,NULL}
    };
    const char *tasks =
        get(v, slurm_variable(v, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
    const char *hosts = get(v, slurm_variable(v, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"));
    spsh_status rc =
        pair(v, "SLURM_PROCID", slurm_variable(v, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), l, err);
    if (rc == SPSH_OK)
        rc = numbers(v, names, err);
    if (rc == SPSH_OK && tasks != NULL)
        rc = slurm_local_size(tasks, l->node, &l->local_size, err);
    if (rc == SPSH_OK && tasks == NULL)
        rc = number(v, "SLURM_NTASKS_PER_NODE", &l->local_size, err);
    if (rc == SPSH_OK && hosts != NULL)
        rc = slurm_first_host(hosts, l->master, sizeof(l->master), err);
    if (rc == SPSH_OK)
        rc = text_of(v, "SLURM_JOB_ID", l->run_id, sizeof(l->run_id), err);
    return rc == SPSH_OK ? finish("srun", l, err) : rc;
}

static spsh_status from_plain(const variables *v, spsh__launch *l, spsh_error *err)
{
    const bool is_pod = get(v, "RANK") == NULL && get(v, "JOB_COMPLETION_INDEX") != NULL;
    const char *const names[] = {is_pod ? "JOB_COMPLETION_INDEX" : "RANK", "WORLD_SIZE",
                                 "LOCAL_RANK", is_pod ? "" : "LOCAL_WORLD_SIZE"};
    const char *per_pod = get(v, "PET_NPROC_PER_NODE");
    if (per_pod != NULL && strcmp(per_pod, "1") != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "PET_NPROC_PER_NODE is '%.40s', so RANK is the number of a pod, but "
                         "WORLD_SIZE counts processes; start the processes with torchrun",
                         per_pod);
    l->local_size = is_pod; /* a pod has 1 process; 0: unknown unless LOCAL_WORLD_SIZE is set */
    spsh_status rc = number(v, "MASTER_PORT", &l->master_port, err);
    if (rc == SPSH_OK)
        rc = text_of(v, "MASTER_ADDR", l->master, sizeof(l->master), err);
    return rc == SPSH_OK ? from_names(v, "environment", names, l, err) : rc;
}
/* In order: the first launcher whose variables are all set counts. */
static const struct launcher {
    const char *const names[3]; /* all must be set */
    spsh_status (*read_fn)(const variables *v, spsh__launch *l, spsh_error *err);
} launchers[] = {
    {{"TORCHELASTIC_RUN_ID", "LOCAL_RANK", NULL}, from_torchrun},
    {{"OMPI_COMM_WORLD_RANK", NULL, NULL},        from_mpirun  },
    {{"PMI_RANK", NULL, NULL},                    from_pmi     },
    {{"SLURM_PROCID", "SLURM_STEP_ID", NULL},     from_slurm   },
    {{"WORLD_SIZE", NULL, NULL},                  from_plain   },
    {{"RANK", NULL, NULL},                        from_plain   },
};

static bool is_there(const variables *v, const struct launcher *launcher)
{
    for (int i = 0; launcher->names[i] != NULL; i++)
        if (get(v, launcher->names[i]) == NULL)
            return false;
    return true;
}

static bool differ(const spsh__launch *a, const spsh__launch *b)
{
    return a->rank != b->rank || a->world_size != b->world_size;
}

/* Reject variables of launchers that cannot be nested if they contradict each other. */
static spsh_status check_against(const variables *v, const spsh__launch *found, spsh_error *err)
{
    bool is_torchrun = strcmp(found->launcher, "torchrun") == 0;
    bool is_plain = strcmp(found->launcher, "environment") == 0;
    spsh__launch other = {0};
    spsh_status rc = SPSH_OK;
    if (is_torchrun && get(v, "OMPI_COMM_WORLD_RANK") != NULL)
        rc = from_mpirun(v, &other, err);
    else if (!is_torchrun && !is_plain && get(v, "RANK") != NULL && get(v, "WORLD_SIZE") != NULL)
        rc = from_plain(v, &other, err);
    else
        return SPSH_OK;
    if (rc == SPSH_OK && differ(found, &other))
        rc =
            SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                      "the variables of %s say rank %u of %u, but those of %s say rank %u of %u; "
                      "unset the wrong ones",
                      found->launcher, found->rank, found->world_size,
                      is_torchrun ? "mpirun" : "RANK and WORLD_SIZE", other.rank, other.world_size);
    return rc;
}

const char *spsh__launch_environment(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

static spsh_status find_comm(const variables *v, spsh__launch *l, spsh_error *err)
{
    const char *name = get(v, "SPEECHSHARD_COMM");
    if (name == NULL || strcmp(name, "auto") == 0)
        return SPSH_OK;
    if (strcmp(name, "mpi") != 0 && strcmp(name, "tcp") != 0)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG, "SPEECHSHARD_COMM is '%.100s', expected auto, mpi, or tcp%s",
            name,
            strcmp(name, "gloo") == 0 ? "; Gloo has been removed: set it to tcp, or unset it" : "");
    return text_of(v, "SPEECHSHARD_COMM", l->comm, sizeof(l->comm), err);
}

static spsh_status find_secret(const variables *v, spsh__launch *l, spsh_error *err)
{
    l->secret = get(v, SPSH__LAUNCH_SECRET);
    if (l->secret != NULL && strlen(l->secret) < SECRET_LENGTH_MIN)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         SPSH__LAUNCH_SECRET
                         " has %zu characters, expected at least %d: set it to random "
                         "characters, such as the output of 'openssl rand -hex 32'",
                         strlen(l->secret), SECRET_LENGTH_MIN);
    return SPSH_OK;
}

spsh_status spsh__launch_find(const char *(*get_fn)(void *user, const char *name), void *user,
                              spsh__launch *ret_launch, spsh_error *err)
{
    variables v = {get_fn == NULL ? spsh__launch_environment : get_fn, user};
    spsh__launch found = {0};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (!is_there(&v, &launchers[i]))
            continue;
        rc = launchers[i].read_fn(&v, &found, err);
        if (rc == SPSH_OK)
            rc = find_comm(&v, &found, err);
        if (rc == SPSH_OK)
            rc = find_secret(&v, &found, err);
        if (rc == SPSH_OK)
            rc = check_against(&v, &found, err);
        if (rc == SPSH_OK)
            *ret_launch = found;
        return rc;
    }
    found.world_size = 1;
    rc = finish("alone", &found, err);
    if (rc == SPSH_OK)
        *ret_launch = found;
    return rc;
}

spsh_status spsh_train_world_find(spsh_train_world *ret_world, spsh_error *err)
{
    spsh__launch launch;
    spsh_status rc = spsh_result_check(ret_world, sizeof(*ret_world), err);
    if (rc == SPSH_OK)
        rc = spsh__launch_find(NULL, NULL, &launch, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_train_world world = {
        .rank = launch.rank,
        .world_size = launch.world_size,
        .local_rank = launch.local_rank,
        .local_size = launch.local_size,
        .node = launch.node,
        .node_count = launch.node_count,
        .master_port = launch.master_port,
        .restart_count = launch.restart_count,
    };
    world.has_mpi = spsh__comm_has_mpi();
    (void)snprintf(world.comm, sizeof(world.comm), "%s", spsh__comm_name(&launch, NULL));
    (void)snprintf(world.launcher, sizeof(world.launcher), "%s", launch.launcher);
    (void)snprintf(world.master, sizeof(world.master), "%s", launch.master);
    (void)snprintf(world.run_id, sizeof(world.run_id), "%s", launch.run_id);
    spsh_result_give(ret_world, &world, sizeof(world));
    return SPSH_OK;
}
