/* weak_fs.c: a file system for tests that promises no more than shared file systems do.
 *
 *     weak_fs BACKING MOUNT DELAY_MS SEED [MODE...]
 *
 * Each process is one client. It mounts the folder BACKING at MOUNT, and runs until it gets SIGTERM.
 * Clients of the same folder see each other's changes as those of Linux NFS may:
 *
 *     names      a client repeats an answer to a lookup, also "no such file", for DELAY_MS, unless
 *                it changed that name or opened the folder since
 *     listings   in random order, and up to DELAY_MS old, unless the client changed the folder
 *     content    written at fsync or close; open shows what the folder has then
 *     flock      local to the client
 *     rename     EINVAL with RENAME_NOREPLACE
 *     append     at the size that the client knows
 *
 * Modes:
 *
 *     no-links             EOPNOTSUPP from link
 *     lost-replies         every ninth change of a name happens, but fails as a repeated request does
 *     fail=NAME:ERRNO      each call fails that has a path whose last part is NAME; ERRNO is a number
 *     fail-read=NAME:ERRNO only reads of such a file fail
 *     slow=MS              each read, write, and sync of a file takes MS longer
 *     stall=MS:COUNT       the first COUNT writes to files other than `alive` take MS longer
 *
 * Calls run one at a time, under a lock, except while they wait for slow and stall. Memory for names
 * is freed at exit.
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define LOST_EACH 9U

/* An answer to a lookup. */
typedef struct name_note {
    struct name_note *next;
    int error;
    struct stat state;
    uint64_t until_ns;
    char path[];
} name_note;

typedef struct listing {
    struct listing *next;
    uint64_t until_ns;
    size_t count;
    char **names;
    char path[];
} listing;

/* Content that this client has written, of a file that it has open. */
typedef struct written_file {
    struct written_file *next;
    ino_t inode;
    unsigned open_count;
    bool is_dirty;
    bool is_resized;
    char *data;
    size_t size_bytes;
    size_t capacity_bytes;
    size_t dirty_from;
    size_t dirty_to;
} written_file;

typedef struct open_file {
    int fd;
    written_file *written; /* NULL: not written through this descriptor */
} open_file;

static open_file *opened(const struct fuse_file_info *info)
{
    return (open_file *)(uintptr_t)info->fh; /* NOLINT(performance-no-int-to-ptr) */
}

static struct {
    const char *backing;
    uint64_t delay_ns;
    uint64_t random;
    bool has_no_links;
    bool loses_replies;
    const char *failing; /* last part of a path, or NULL */
    int failure;         /* errno */
    bool only_reads_fail;
    uint64_t slow_ns;
    uint64_t stall_ns;
    uint64_t stalls_left;
    uint64_t changes;
    name_note *names;
    listing *listings;
    written_file *files;
} client;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(void)
{
    client.random = client.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return client.random >> 33;
}

static int answer(int rc)
{
    return rc < 0 ? -errno : 0;
}

/* Result of a change of a name. error: what a client gets if the server repeats the request. */
static int answer_change(int rc, int error)
{
    if (rc < 0)
        return -errno;
    return client.loses_replies && ++client.changes % LOST_EACH == 0 ? -error : 0;
}

static const char *backing_path(const char *path, char dst[PATH_MAX])
{
    (void)snprintf(dst, PATH_MAX, "%s%s", client.backing, path);
    return dst;
}

/* ---- names ---- */

static bool is_in_folder(const char *path, const char *folder)
{
    const size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/' &&
           strchr(path + length + 1, '/') == NULL;
}

static name_note *note_of(const char *path)
{
    name_note *note = client.names;
    while (note != NULL && strcmp(note->path, path) != 0)
        note = note->next;
    if (note != NULL)
        return note;
    note = calloc(1, sizeof(*note) + strlen(path) + 1);
    if (note == NULL)
        abort();
    memcpy(note->path, path, strlen(path) + 1);
    note->next = client.names;
    client.names = note;
    return note;
}

static void forget_listing(const char *folder, size_t length)
{
    for (listing *list = client.listings; list != NULL; list = list->next)
        if (strlen(list->path) == length && strncmp(list->path, folder, length) == 0)
            list->until_ns = 0;
}

/* This client has changed the name. */
static void forget_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    note_of(path)->until_ns = 0;
    forget_listing(path, slash == path ? 1 : (size_t)(slash - path));
}

static void forget_inode(ino_t inode)
{
    for (name_note *note = client.names; note != NULL; note = note->next)
        if (note->error == 0 && note->state.st_ino == inode)
            note->until_ns = 0;
}

static written_file *written_of(ino_t inode)
{
    written_file *file = client.files;
    while (file != NULL && (file->inode != inode || file->open_count == 0))
        file = file->next;
    return file;
}

static int state_of(const char *path, struct stat *ret_state, struct fuse_file_info *info)
{
    const open_file *file = info == NULL ? NULL : opened(info);
    char full[PATH_MAX];

    if (file != NULL) {
        if (fstat(file->fd, ret_state) != 0)
            return -errno;
    } else {
        name_note *note = note_of(path);
        const uint64_t now = now_ns();
        if (now >= note->until_ns) {
            note->error = lstat(backing_path(path, full), &note->state) == 0 ? 0 : errno;
            note->until_ns = now + client.delay_ns;
        }
        if (note->error != 0)
            return -note->error;
        *ret_state = note->state;
    }
    const written_file *written = written_of(ret_state->st_ino);
    if (written != NULL)
        ret_state->st_size = (off_t)written->size_bytes;
    return 0;
}

/* ---- changes of names ---- */

static int make_folder(const char *path, mode_t mode)
{
    char full[PATH_MAX];
    const int rc = mkdir(backing_path(path, full), mode);
    forget_name(path);
    return answer_change(rc, next_random() % 2 == 0 ? EEXIST : EIO);
}

static int remove_folder(const char *path)
{
    char full[PATH_MAX];
    const int rc = rmdir(backing_path(path, full));
    forget_name(path);
    return answer_change(rc, ENOENT);
}

static int remove_file(const char *path)
{
    char full[PATH_MAX];
    const int rc = unlink(backing_path(path, full));
    forget_name(path);
    return answer_change(rc, ENOENT);
}

static int rename_file(const char *from, const char *to, unsigned flags)
{
    char full_from[PATH_MAX];
    char full_to[PATH_MAX];

    if (flags != 0)
        return -EINVAL;
    const int rc = answer(rename(backing_path(from, full_from), backing_path(to, full_to)));
    forget_name(from);
    forget_name(to);
    return rc;
}

static int link_file(const char *from, const char *to)
{
    char full_from[PATH_MAX];
    char full_to[PATH_MAX];

    if (client.has_no_links)
        return -EOPNOTSUPP;
    const int rc = link(backing_path(from, full_from), backing_path(to, full_to));
    forget_name(from);
    forget_name(to);
    return answer_change(rc, EEXIST);
}

/* ---- folders ---- */

static int open_folder(const char *path, struct fuse_file_info *info)
{
    char full[PATH_MAX];
    struct stat state;

    info->fh = 0;
    for (name_note *note = client.names; note != NULL; note = note->next)
        if (is_in_folder(note->path, path))
            note->until_ns = 0;
    return answer(stat(backing_path(path, full), &state));
}

static void free_names(listing *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    list->names = NULL;
    list->count = 0;
}

static int read_names(listing *list)
{
    char full[PATH_MAX];
    DIR *folder = opendir(backing_path(list->path, full));

    if (folder == NULL)
        return -errno;
    free_names(list);
    for (const struct dirent *entry = NULL; (entry = readdir(folder)) != NULL;) {
        char **grown = realloc(list->names, (list->count + 1) * sizeof(*grown));
        if (grown == NULL)
            abort();
        list->names = grown;
        list->names[list->count++] = strdup(entry->d_name);
    }
    (void)closedir(folder);
    list->until_ns = now_ns() + client.delay_ns;
    return 0;
}

static void shuffle(listing *list)
{
    for (size_t i = list->count; i > 1; i--) {
        const size_t other = next_random() % i;
        char *name = list->names[i - 1];
        list->names[i - 1] = list->names[other];
        list->names[other] = name;
    }
}

static int list_folder(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                       struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
    listing *list = client.listings;
    int rc = 0;

    (void)offset, (void)info, (void)flags;
    while (list != NULL && strcmp(list->path, path) != 0)
        list = list->next;
    if (list == NULL) {
        list = calloc(1, sizeof(*list) + strlen(path) + 1);
        if (list == NULL)
            return -ENOMEM;
        memcpy(list->path, path, strlen(path) + 1);
        list->next = client.listings;
        client.listings = list;
    }
    if (now_ns() >= list->until_ns)
        rc = read_names(list);
    shuffle(list);
    for (size_t i = 0; rc == 0 && i < list->count; i++)
        if (fill(buffer, list->names[i], NULL, 0, 0) != 0)
            rc = -ENOMEM;
    return rc;
}

/* ---- content ---- */

static int open_backing(const char *path, mode_t mode, struct fuse_file_info *info)
{
    char full[PATH_MAX];
    int flags = info->flags & ~O_APPEND;
    open_file *file = calloc(1, sizeof(*file));

    if (file == NULL)
        return -ENOMEM;
    if ((flags & O_ACCMODE) == O_WRONLY)
        flags = (flags & ~O_ACCMODE) | O_RDWR;
    file->fd = open(backing_path(path, full), flags, mode);
    const int error = file->fd < 0 ? errno : 0;
    if (error != 0)
        free(file);
    else
        info->fh = (uint64_t)(uintptr_t)file;
    return -error;
}

static int open_existing(const char *path, struct fuse_file_info *info)
{
    const int rc = open_backing(path, 0, info);
    note_of(path)->until_ns = 0;
    return rc;
}

static int create_file(const char *path, mode_t mode, struct fuse_file_info *info)
{
    const int rc = open_backing(path, mode, info);
    forget_name(path);
    return rc;
}

static void resize(written_file *written, size_t size_bytes)
{
    if (size_bytes > written->capacity_bytes) {
        written->capacity_bytes = size_bytes * 2;
        written->data = realloc(written->data, written->capacity_bytes);
        if (written->data == NULL)
            abort();
    }
    if (size_bytes > written->size_bytes)
        memset(written->data + written->size_bytes, 0, size_bytes - written->size_bytes);
    written->size_bytes = size_bytes;
}

/* Start to hold the content of a file that is being written. */
static int begin_writing(open_file *file)
{
    struct stat state;

    if (file->written != NULL)
        return 0;
    if (fstat(file->fd, &state) != 0)
        return -errno;
    file->written = written_of(state.st_ino);
    if (file->written == NULL) {
        file->written = calloc(1, sizeof(*file->written));
        if (file->written == NULL)
            return -ENOMEM;
        file->written->inode = state.st_ino;
        file->written->next = client.files;
        client.files = file->written;
        resize(file->written, (size_t)state.st_size);
        if (pread(file->fd, file->written->data, (size_t)state.st_size, 0) != state.st_size)
            return -EIO;
    }
    file->written->open_count++;
    return 0;
}

static int write_file(const char *path, const char *src, size_t size, off_t offset,
                      struct fuse_file_info *info)
{
    open_file *file = opened(info);
    const int rc = begin_writing(file);
    const size_t from = (size_t)offset;

    (void)path;
    if (rc != 0)
        return rc;
    written_file *written = file->written;
    if (from + size > written->size_bytes)
        resize(written, from + size);
    memcpy(written->data + from, src, size);
    if (!written->is_dirty || from < written->dirty_from)
        written->dirty_from = from;
    if (!written->is_dirty || from + size > written->dirty_to)
        written->dirty_to = from + size;
    written->is_dirty = true;
    return (int)size;
}

static int read_file(const char *path, char *dst, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
    const open_file *file = opened(info);
    struct stat state;

    (void)path;
    if (fstat(file->fd, &state) != 0)
        return -errno;
    const written_file *written = written_of(state.st_ino);
    if (written == NULL) {
        const ssize_t got = pread(file->fd, dst, size, offset);
        return got < 0 ? -errno : (int)got;
    }
    const size_t from = (size_t)offset;
    if (from >= written->size_bytes)
        return 0;
    if (size > written->size_bytes - from)
        size = written->size_bytes - from;
    memcpy(dst, written->data + from, size);
    return (int)size;
}

/* Show the written content to other clients. */
static int push(const open_file *file)
{
    written_file *written = file->written;

    if (written == NULL)
        return 0;
    if (written->is_resized && ftruncate(file->fd, (off_t)written->size_bytes) != 0)
        return -errno;
    if (written->dirty_to > written->size_bytes)
        written->dirty_to = written->size_bytes;
    while (written->is_dirty && written->dirty_from < written->dirty_to) {
        const ssize_t put =
            pwrite(file->fd, written->data + written->dirty_from,
                   written->dirty_to - written->dirty_from, (off_t)written->dirty_from);
        if (put < 0)
            return -errno;
        written->dirty_from += (size_t)put;
    }
    written->is_dirty = written->is_resized = false;
    forget_inode(written->inode);
    return 0;
}

static int flush_file(const char *path, struct fuse_file_info *info)
{
    (void)path;
    return push(opened(info));
}

static int sync_file(const char *path, int is_data_only, struct fuse_file_info *info)
{
    (void)is_data_only;
    return flush_file(path, info);
}

static int sync_folder(const char *path, int is_data_only, struct fuse_file_info *info)
{
    (void)path, (void)is_data_only, (void)info;
    return 0;
}

static int close_file(const char *path, struct fuse_file_info *info)
{
    open_file *file = opened(info);
    written_file *written = file->written;

    (void)path;
    (void)push(file);
    if (written != NULL && --written->open_count == 0) {
        free(written->data);
        written->data = NULL;
        written->size_bytes = written->capacity_bytes = 0;
    }
    (void)close(file->fd);
    free(file);
    return 0;
}

static int truncate_file(const char *path, off_t size, struct fuse_file_info *info)
{
    char full[PATH_MAX];

    if (info == NULL || info->fh == 0) {
        note_of(path)->until_ns = 0;
        return answer(truncate(backing_path(path, full), size));
    }
    open_file *file = opened(info);
    const int rc = begin_writing(file);
    if (rc == 0) {
        resize(file->written, (size_t)size);
        file->written->is_resized = true;
    }
    return rc;
}

static int space(const char *path, struct statvfs *ret_space)
{
    (void)path;
    return answer(statvfs(client.backing, ret_space));
}

/* ---- the mount ---- */

static void *begin(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->use_ino = 1;
    config->entry_timeout = 0; /* all caching is here */
    config->attr_timeout = 0;
    config->negative_timeout = 0;
    return NULL;
}

/* ---- failures, delays, and the lock ---- */

static bool is_called(const char *path, const char *name)
{
    return strcmp(strrchr(path, '/') + 1, name) == 0;
}

/* The errno with which a call fails, or 0. */
static int failure_of(const char *path, bool is_read)
{
    const bool fails = client.failing != NULL && (is_read || !client.only_reads_fail) &&
                       is_called(path, client.failing);
    return fails ? client.failure : 0;
}

static void pause_for(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / UINT64_C(1000000000)), (long)(ns % UINT64_C(1000000000))};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Wait as long as a slow disk takes. Other calls run meanwhile. */
static void wait_for_disk(const char *path, bool is_write)
{
    uint64_t ns = client.slow_ns;

    (void)pthread_mutex_lock(&lock);
    if (is_write && client.stalls_left > 0 && !is_called(path, "alive") &&
        !is_called(path, "alive.new")) {
        client.stalls_left--;
        ns += client.stall_ns;
    }
    (void)pthread_mutex_unlock(&lock);
    if (ns > 0)
        pause_for(ns);
}

/* Define locked_NAME, which calls NAME under the lock, or fails. */
#define LOCKED(name_, path_, is_read_, parameters_, arguments_)                                    \
    static int locked_##name_ parameters_                                                          \
    {                                                                                              \
        (void)pthread_mutex_lock(&lock);                                                           \
        const int failure = failure_of(path_, is_read_);                                           \
        const int rc = failure != 0 ? -failure : name_ arguments_;                                 \
        (void)pthread_mutex_unlock(&lock);                                                         \
        return rc;                                                                                 \
    }

LOCKED(state_of, path, false, (const char *path, struct stat *state, struct fuse_file_info *info),
       (path, state, info))
LOCKED(make_folder, path, false, (const char *path, mode_t mode), (path, mode))
LOCKED(remove_folder, path, false, (const char *path), (path))
LOCKED(remove_file, path, false, (const char *path), (path))
LOCKED(rename_file, from, false, (const char *from, const char *to, unsigned flags),
       (from, to, flags))
LOCKED(link_file, from, false, (const char *from, const char *to), (from, to))
LOCKED(open_folder, path, false, (const char *path, struct fuse_file_info *info), (path, info))
LOCKED(list_folder, path, true,
       (const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
        struct fuse_file_info *info, enum fuse_readdir_flags flags),
       (path, buffer, fill, offset, info, flags))
LOCKED(open_existing, path, false, (const char *path, struct fuse_file_info *info), (path, info))
LOCKED(create_file, path, false, (const char *path, mode_t mode, struct fuse_file_info *info),
       (path, mode, info))
LOCKED(read_file, path, true,
       (const char *path, char *dst, size_t size, off_t offset, struct fuse_file_info *info),
       (path, dst, size, offset, info))
LOCKED(write_file, path, false,
       (const char *path, const char *src, size_t size, off_t offset, struct fuse_file_info *info),
       (path, src, size, offset, info))
LOCKED(truncate_file, path, false, (const char *path, off_t size, struct fuse_file_info *info),
       (path, size, info))
LOCKED(flush_file, path, false, (const char *path, struct fuse_file_info *info), (path, info))
LOCKED(sync_file, path, false, (const char *path, int is_data_only, struct fuse_file_info *info),
       (path, is_data_only, info))

static int slow_read(const char *path, char *dst, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
    wait_for_disk(path, false);
    return locked_read_file(path, dst, size, offset, info);
}

static int slow_write(const char *path, const char *src, size_t size, off_t offset,
                      struct fuse_file_info *info)
{
    wait_for_disk(path, true);
    return locked_write_file(path, src, size, offset, info);
}

static int slow_sync(const char *path, int is_data_only, struct fuse_file_info *info)
{
    wait_for_disk(path, false);
    return locked_sync_file(path, is_data_only, info);
}

/* Never fails, because it frees the file. */
static int locked_close(const char *path, struct fuse_file_info *info)
{
    (void)pthread_mutex_lock(&lock);
    const int rc = close_file(path, info);
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

static const struct fuse_operations operations = {
    .init = begin,
    .getattr = locked_state_of,
    .mkdir = locked_make_folder,
    .rmdir = locked_remove_folder,
    .unlink = locked_remove_file,
    .rename = locked_rename_file,
    .link = locked_link_file,
    .opendir = locked_open_folder,
    .readdir = locked_list_folder,
    .fsyncdir = sync_folder,
    .open = locked_open_existing,
    .create = locked_create_file,
    .read = slow_read,
    .write = slow_write,
    .truncate = locked_truncate_file,
    .flush = locked_flush_file,
    .fsync = slow_sync,
    .release = locked_close,
    .statfs = space,
};

/* Set "NAME:ERRNO". */
static void take_failure(char *value, bool only_reads)
{
    char *colon = strrchr(value, ':');

    if (colon == NULL)
        return;
    *colon = '\0';
    client.failing = value;
    client.failure = (int)strtol(colon + 1, NULL, 10);
    client.only_reads_fail = only_reads;
}

static void take_mode(char *mode)
{
    char *value = strchr(mode, '=');
    const size_t length = value == NULL ? strlen(mode) : (size_t)(value - mode);
    char *end = NULL;

    if (strcmp(mode, "no-links") == 0)
        client.has_no_links = true;
    else if (strcmp(mode, "lost-replies") == 0)
        client.loses_replies = true;
    if (value == NULL)
        return;
    value++;
    if (strncmp(mode, "fail", length) == 0) {
        take_failure(value, false);
    } else if (strncmp(mode, "fail-read", length) == 0) {
        take_failure(value, true);
    } else if (strncmp(mode, "slow", length) == 0) {
        client.slow_ns = strtoull(value, NULL, 10) * UINT64_C(1000000);
    } else if (strncmp(mode, "stall", length) == 0) {
        client.stall_ns = strtoull(value, &end, 10) * UINT64_C(1000000);
        client.stalls_left = *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
    }
}

/* fuse_main, which logs an error about its own default of threads, without it. */
static int serve(char *name, const char *mount)
{
    char *words[] = {name, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, words);
    struct fuse *fuse = fuse_new(&args, &operations, sizeof(operations), NULL);
    int failed = 1;

    if (fuse == NULL || fuse_mount(fuse, mount) != 0)
        return failed;
    if (fuse_set_signal_handlers(fuse_get_session(fuse)) == 0) {
        failed = fuse_loop_mt(fuse, 0);
        fuse_remove_signal_handlers(fuse_get_session(fuse));
    }
    fuse_unmount(fuse);
    fuse_destroy(fuse);
    return failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{

    if (argc < 5) {
        (void)fprintf(stderr, "usage: weak_fs BACKING MOUNT DELAY_MS SEED [MODE...]\n");
        return 2;
    }
    client.backing = argv[1];
    client.delay_ns = strtoull(argv[3], NULL, 10) * UINT64_C(1000000);
    client.random = strtoull(argv[4], NULL, 10);
    client.changes = client.random % LOST_EACH;
    for (int i = 5; i < argc; i++)
        take_mode(argv[i]);
    (void)umask(0);
    return serve(argv[0], argv[2]);
}
