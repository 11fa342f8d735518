/* claim_host.c: clock, locks, and identity of this process and machine. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"
#include "speechshard/inside.h"

#define BOOT_ID_BYTES 20 /* with its dashes: at least 60 random bits */

static uint64_t now_ns(void *user)
{
    (void)user;
    return spsh__now_ns();
}

static void sleep_ns(void *user, uint64_t ns)
{
    const struct timespec pause = {(time_t)(ns / UINT64_C(1000000000)),
                                   (long)(ns % UINT64_C(1000000000))};
    (void)user;
    (void)nanosleep(&pause, NULL); /* a signal may cut it short */
}

static int lock(void *user, int fd)
{
    (void)user;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
}

static const spsh__claim_host machine = {NULL, now_ns, sleep_ns, lock};

/* The start of the id that the kernel makes at each boot, and the device of the folder. One kernel
 * can mount a shared file system twice, for example in two containers, and then locks of one mount
 * do not show in the other. Without an id, only leases show that an owner has exited. */
static void read_boot(const char *directory, char boot[40])
{
    char id[BOOT_ID_BYTES + 1] = "";
    struct stat state;
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? 0 : read(fd, id, BOOT_ID_BYTES);

    boot[0] = '\0';
    if (got == BOOT_ID_BYTES && stat(directory, &state) == 0)
        (void)snprintf(boot, 40, "%s%016" PRIx64, id, (uint64_t)state.st_dev);
    if (fd >= 0)
        (void)close(fd);
}

void spsh__claims_begin(spsh__claims *claims, const spsh_io *io, const char *directory,
                        uint32_t lease_s)
{
    char name[65] = "";

    *claims =
        (spsh__claims){.io = io, .directory = directory, .host = &machine, .lease_s = lease_s};
    if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0')
        (void)snprintf(name, sizeof(name), "an unnamed machine");
    name[strcspn(name, "\n")] = '\0';
    (void)snprintf(claims->owner, sizeof(claims->owner), "process %ld of %s", (long)getpid(), name);
    read_boot(directory, claims->boot);
    if (getrandom(&claims->random, sizeof(claims->random), GRND_NONBLOCK) !=
        (ssize_t)sizeof(claims->random))
        claims->random = spsh__now_ns();
}
