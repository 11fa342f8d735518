/* io.h: one table of all system calls that touch files, and the one way to publish a file.
 *
 *     spsh_file_writer *writer = NULL;
 *     rc = spsh_file_writer_open(spsh_io_default(), "dir", "name.spsh", 0, NULL, &writer, &err);
 *     rc = spsh_file_writer_write(writer, bytes, size, &err);
 *     rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, &err);
 *     spsh_file_writer_free(writer);          // removes the temporary file if not published
 *
 * A file is written in these steps: create a temporary file in the target directory, reserve space,
 * write, fsync once (never again after a failure), publish, fsync the directory. The file is
 * durable only after the last step. Tests pass a table whose n-th call fails, transfers less, or
 * kills the process.
 */
#ifndef SPEECHSHARD_IO_H
#define SPEECHSHARD_IO_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Each function behaves like the system call in its name. It returns 0, a descriptor, a byte count,
 * or a negative errno. Short transfers are allowed; callers continue them. Thread-safe.
 */
typedef struct spsh_io {
    void *user;
    int (*open_fn)(void *user, const char *path, int flags, mode_t mode);
    int (*close_fn)(void *user, int fd);
    int64_t (*pread_fn)(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes);
    int64_t (*pwrite_fn)(void *user, int fd, const void *src, size_t size_bytes,
                         uint64_t offset_bytes);
    int (*fallocate_fn)(void *user, int fd, uint64_t size_bytes); /* may return -EOPNOTSUPP */
    int (*ftruncate_fn)(void *user, int fd, uint64_t size_bytes);
    int (*fstat_fn)(void *user, int fd, struct stat *ret_stat);
    int (*stat_fn)(void *user, const char *path, struct stat *ret_stat); /* lstat semantics */
    int (*fsync_fn)(void *user, int fd);
    int (*rename_fn)(void *user, const char *from, const char *to);     /* replaces `to` */
    int (*rename_new_fn)(void *user, const char *from, const char *to); /* -EEXIST if `to` exists */
    int (*link_fn)(void *user, const char *from, const char *to);
    int (*unlink_fn)(void *user, const char *path);
    int (*mkdir_fn)(void *user, const char *path, mode_t mode);
    int (*rmdir_fn)(void *user, const char *path);
    void *(*mmap_fn)(void *user, int fd, size_t size_bytes,
                     uint64_t offset_bytes); /* read-only; NULL on failure */
    int (*munmap_fn)(void *user, void *memory, size_t size_bytes);
} spsh_io;

/** The operating system's calls. Never NULL. */
SPSH_API const spsh_io *spsh_io_default(void);

/** Read exactly size_bytes at an offset. Continues after short reads and EINTR. SPSH_E_TRUNCATED if
 * the file ends first. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_read_exact(const spsh_io *io, int fd, void *dst,
                                                       size_t size_bytes, uint64_t offset_bytes,
                                                       const char *path, spsh_error *err);

/** Read a whole regular file of at most size_max bytes. *ret_data: allocated with allocator, owned
 * by the caller. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_read_file(const spsh_io *io, const char *path,
                                                      size_t size_max,
                                                      const spsh_allocator *allocator,
                                                      uint8_t **ret_data, size_t *ret_bytes,
                                                      spsh_error *err);

/** Make a directory, unless it exists, and fsync its parent. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_make_directory(const spsh_io *io, const char *path,
                                                           spsh_error *err);

/** fsync a directory. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_sync_directory(const spsh_io *io, const char *path,
                                                           spsh_error *err);

/** Status of an errno: SPSH_E_NO_SPACE for ENOSPC, EDQUOT, and EFBIG; _NOT_FOUND for ENOENT;
 * _EXISTS for EEXIST; else _IO. */
SPSH_API spsh_status spsh_io_status(int os_errno);

typedef enum spsh_publish_mode {
    SPSH_PUBLISH_NEW = 0,     /* the name must be free, or a file with identical bytes */
    SPSH_PUBLISH_REPLACE = 1, /* replace an existing file */
} spsh_publish_mode;

/** A file being written under a temporary name. One thread per object. */
typedef struct spsh_file_writer spsh_file_writer;

/**
 * Start a file.
 *
 * @param io            borrowed until free
 * @param directory     exists; copied
 * @param name          final name inside it, without a slash; copied
 * @param reserve_bytes disk space to reserve first, so that a full disk is detected early; 0: none
 * @param allocator     NULL: default
 *
 * The temporary file is NAME.tmp-<pid>-<n>, opened with O_EXCL. It stays if the process is killed;
 * spsh_stale_files_remove removes it.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_open(const spsh_io *io, const char *directory,
                                                          const char *name, uint64_t reserve_bytes,
                                                          const spsh_allocator *allocator,
                                                          spsh_file_writer **ret_writer,
                                                          spsh_error *err);

/** Append bytes. After a failure only free is allowed. */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_write(spsh_file_writer *writer,
                                                           const void *data, size_t size_bytes,
                                                           spsh_error *err);

/** Write at a position. May leave holes, which the caller must fill before publishing. */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_write_at(spsh_file_writer *writer,
                                                              const void *data, size_t size_bytes,
                                                              uint64_t offset_bytes,
                                                              spsh_error *err);

/** Read written bytes back. */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_read_at(spsh_file_writer *writer, void *dst,
                                                             size_t size_bytes,
                                                             uint64_t offset_bytes,
                                                             spsh_error *err);

/** Bytes appended so far. */
SPSH_API uint64_t spsh_file_writer_size(const spsh_file_writer *writer);

/** Truncate to the written size, fsync once, publish, and fsync the directory. Then only free is
 * allowed. */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_publish(spsh_file_writer *writer,
                                                             spsh_publish_mode mode,
                                                             spsh_error *err);

/** NULL is fine. Removes the temporary file if it was not published. */
SPSH_API void spsh_file_writer_free(spsh_file_writer *writer);

/**
 * Remove temporary files from a directory if the processes that wrote them have ended.
 *
 * Processes of other machines, and this process itself, count as ended. So is_ours_fn must accept
 * only files that no other process or thread is writing. Files that cannot be removed stay.
 *
 * @param is_ours_fn  return true to remove the temporary files of the file NAME. name: NAME and
 * ".tmp-<pid>-<n>"; name_bytes: length of NAME
 */
SPSH_API void spsh_stale_files_remove(const spsh_io *io, const char *directory,
                                      bool (*is_ours_fn)(void *user, const char *name,
                                                         size_t name_bytes),
                                      void *user);
/** The same for one file. */
SPSH_API void spsh_stale_files_remove_of(const spsh_io *io, const char *directory,
                                         const char *name);

#ifdef __cplusplus
}
#endif

#endif
