/* cores.c: see cores.h. */
#include "speechshard/cores.h"

#include <sched.h>
#include <unistd.h>

uint32_t spsh_core_count(uint32_t most)
{
    cpu_set_t cores;
    long count = 0;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
        count = CPU_COUNT(&cores);
    else /* more of them than the set has room for */
        count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 || most == 0 ? 1 : count > (long)most ? most : (uint32_t)count;
}
