/* fault.c: see fault.h. */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "speechshard/inside.h"

/* Parse each entry of a list in the format of cluster.h, and keep the faults of this rank. */
static spsh_status read_list(spsh__sim_fault_kind kind, const char *const *list,
                             const uint32_t ranks[2], spsh__faults *to, spsh_error *err)
{
    for (; list != NULL && *list != NULL; list++) {
        spsh__sim_fault f;
        bool is_step = false;
        const spsh_status rc = spsh__fault_read(kind, *list, &is_step, &f, err);
        if (rc != SPSH_OK)
            return rc;
        if (f.learner >= ranks[1])
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "'%s': rank %u does not exist: there are %u processes", *list,
                             f.learner, ranks[1]);
        if (f.learner != ranks[0])
            continue;
        const uint64_t duration_ns = is_step ? f.to_ns : f.to_ns - f.from_ns;
        const spsh__fault fault = {true, is_step, f.from_ns, duration_ns};
        if (kind == SPSH__SIM_SLOW)
            to->slow = f.factor;
        else if (kind == SPSH__SIM_FREEZE)
            to->freeze = fault;
        else
            to->kill = fault;
    }
    return SPSH_OK;
}

spsh_status spsh__faults_read(const spsh_train_options *o, uint32_t rank, uint32_t world_size,
                              spsh__faults *ret, spsh_error *err)
{
    const uint32_t ranks[2] = {rank, world_size};
    *ret = (spsh__faults){.slow = 1};
    spsh_status rc = read_list(SPSH__SIM_SLOW, o->slow, ranks, ret, err);
    if (rc == SPSH_OK)
        rc = read_list(SPSH__SIM_FREEZE, o->freeze, ranks, ret, err);
    if (rc == SPSH_OK)
        rc = read_list(SPSH__SIM_KILL, o->kill, ranks, ret, err);
    if (rc == SPSH_OK && ret->slow < 1)
        rc =
            SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                      "slow: the factor must be 1 or more, not %g: a process cannot be made faster",
                      ret->slow);
    return rc;
}

static void sleep_ns(uint64_t duration_ns)
{
    struct timespec left = {(time_t)(duration_ns / 1000000000), (long)(duration_ns % 1000000000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Stop this process. A child resumes it, repeatedly: the stop may take effect after the child's
 * first signal. */
static void stop_for(uint64_t duration_ns)
{
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) {
        sleep_ns(duration_ns);
        while (getppid() == self && kill(self, SIGCONT) == 0)
            sleep_ns(20000000);
        _exit(0);
    }
    if (child < 0) {
        sleep_ns(duration_ns); /* only the computing task sleeps */
        return;
    }
    (void)kill(self, SIGSTOP);
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

static bool is_due(const spsh__faults *f, const spsh__fault *fault)
{
    return fault->is_there &&
           (fault->is_step ? f->steps : spsh__now_ns() - f->begin_ns) >= fault->at;
}

void spsh__fault_before_step(spsh__faults *f)
{
    if (f->steps++ == 0)
        f->begin_ns = spsh__now_ns();
    if (is_due(f, &f->kill))
        (void)kill(getpid(), SIGKILL);
    if (is_due(f, &f->freeze)) {
        f->freeze.is_there = false;
        stop_for(f->freeze.duration_ns);
    }
}

void spsh__fault_after_compute(const spsh__faults *f, double duration_s)
{
    if (f->slow > 1 && duration_s > 0)
        sleep_ns((uint64_t)(duration_s * 1e9 * (f->slow - 1)));
}
