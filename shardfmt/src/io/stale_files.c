/* stale_files.c: removes temporaries of file_writer.c whose processes have ended. Their names end
 * in the process number. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speechshard/io.h"

enum { PATH_BYTES = 4400 };

/* In a container, the process that was killed often had the number of this one. */
static bool is_running(long pid)
{
    return pid != (long)getpid() && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);
}

/* Bytes of the name in front of ".tmp-PID-N" if that process has ended, else 0. */
static size_t stale_bytes(const char *name)
{
    static const char digits[] = "0123456789";
    char *end = NULL;
    const char *mark = strstr(name, ".tmp-");
    if (mark == NULL)
        return 0;
    errno = 0;
    const long pid = strtol(mark + strlen(".tmp-"), &end, 10);
    if (errno != 0 || pid <= 0 || *end != '-')
        return 0;
    const size_t number_bytes = strspn(end + 1, digits);
    if (number_bytes == 0 || end[1 + number_bytes] != '\0' || is_running(pid))
        return 0;
    return (size_t)(mark - name);
}

static void remove_file(const spsh_io *io, const char *directory, const char *name)
{
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (length > 0 && length < PATH_BYTES)
        (void)io->unlink_fn(io->user, path);
}

void spsh_stale_files_remove(const spsh_io *io, const char *directory,
                             bool (*is_ours_fn)(void *user, const char *name, size_t name_bytes),
                             void *user)
{
    DIR *list = opendir(directory);
    for (const struct dirent *entry = NULL;
         list != NULL &&
         (entry = readdir(list)) != NULL;) { /* NOLINT(concurrency-mt-unsafe): own stream */
        const size_t name_bytes = stale_bytes(entry->d_name);
        if (name_bytes > 0 && is_ours_fn(user, entry->d_name, name_bytes))
            remove_file(io, directory, entry->d_name);
    }
    if (list != NULL)
        (void)closedir(list);
}

static bool is_name(void *user, const char *name, size_t name_bytes)
{
    const char *wanted = *(const char **)user;
    return strlen(wanted) == name_bytes && memcmp(wanted, name, name_bytes) == 0;
}

void spsh_stale_files_remove_of(const spsh_io *io, const char *directory, const char *name)
{
    spsh_stale_files_remove(io, directory, is_name, (void *)&name);
}
