/* stale_files.c: temporaries by their names, which end in the process that made them. */
#include "stale_files.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a container, the process that was killed had our own number as often as not. */
static bool is_running(long pid)
{
    return pid != (long)getpid() && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);
}

/* Bytes of the name in front of ".tmp-PID-N" of a process that is no more; else 0. */
static size_t stale_bytes(const char *name)
{
    char *end = NULL;
    const char *mark = strstr(name, ".tmp-");
    if (mark == NULL)
        return 0;
    errno = 0;
    const long pid = strtol(mark + strlen(".tmp-"), &end, 10);
    if (errno != 0 || pid <= 0 || *end != '-' || is_running(pid))
        return 0;
    return (size_t)(mark - name);
}

static void remove_file(const spsh_io *io, const char *directory, const char *name)
{
    const size_t room = strlen(directory) + strlen(name) + 2;
    char *path = malloc(room);
    if (path == NULL)
        return;
    (void)snprintf(path, room, "%s/%s", directory, name);
    (void)io->unlink_fn(io->user, path);
    free(path);
}

void spsh__remove_stale(const spsh_io *io, const char *directory,
                        bool (*is_ours_fn)(void *user, const char *name, size_t name_bytes),
                        void *user)
{
    DIR *list = opendir(directory);
    for (struct dirent *entry = NULL; list != NULL && (entry = readdir(list)) != NULL;) {
        const size_t name_bytes = stale_bytes(entry->d_name);
        if (name_bytes > 0 && is_ours_fn(user, entry->d_name, name_bytes))
            remove_file(io, directory, entry->d_name);
    }
    if (list != NULL)
        (void)closedir(list);
}
