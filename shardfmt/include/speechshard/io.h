/* io.h: every system call that touches files, behind one table, and the one way to publish a file.
 *
 *     spsh_file_writer *writer = NULL;
 *     rc = spsh_file_writer_open(spsh_io_default(), "dir", "name.spsh", 0, NULL, &writer, &err);
 *     rc = spsh_file_writer_write(writer, bytes, size, &err);
 *     rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, &err);
 *     spsh_file_writer_free(writer);          // unpublished: the temporary is removed
 *
 * The protocol: temporary name in the target directory, reserve, write, one fsync (never repeated
 * after a failure), publish, fsync of the directory. Only then has the caller something to
 * acknowledge. Tests hand in a table whose calls fail, stop short or kill the process at the n-th
 * call.
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
 * Each function behaves like the system call it is named after and returns 0 (or a descriptor or a
 * byte count) or a negative errno. Short transfers are allowed; callers continue them. Thread-safe.
 */
typedef struct spsh_io {
    void *user;
    int (*open_fn)(void *user, const char *path, int flags, mode_t mode);
    int (*close_fn)(void *user, int fd);
    int64_t (*pread_fn)(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes);
    int64_t (*pwrite_fn)(void *user, int fd, const void *src, size_t size_bytes,
                         uint64_t offset_bytes);
    int (*fallocate_fn)(void *user, int fd, uint64_t size_bytes); /* may answer -EOPNOTSUPP */
    int (*ftruncate_fn)(void *user, int fd, uint64_t size_bytes);
    int (*fstat_fn)(void *user, int fd, struct stat *ret_stat);
    int (*stat_fn)(void *user, const char *path, struct stat *ret_stat); /* lstat semantics */
    int (*fsync_fn)(void *user, int fd);
    int (*rename_fn)(void *user, const char *from, const char *to);     /* replaces */
    int (*rename_new_fn)(void *user, const char *from, const char *to); /* -EEXIST if there */
    int (*link_fn)(void *user, const char *from, const char *to);
    int (*unlink_fn)(void *user, const char *path);
    int (*mkdir_fn)(void *user, const char *path, mode_t mode);
    int (*rmdir_fn)(void *user, const char *path);
    void *(*mmap_fn)(void *user, int fd, size_t size_bytes,
                     uint64_t offset_bytes); /* read-only; NULL */
    int (*munmap_fn)(void *user, void *memory, size_t size_bytes);
} spsh_io;

/** The operating system's calls. Never NULL. */
SPSH_API const spsh_io *spsh_io_default(void);

/** Read exactly size_bytes at offset, through short reads and EINTR; SPSH_E_TRUNCATED at the end.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_read_exact(const spsh_io *io, int fd, void *dst,
                                                       size_t size_bytes, uint64_t offset_bytes,
                                                       const char *path, spsh_error *err);

/** Read a whole regular file of at most size_max bytes; *ret_data from allocator, owned by the
 * caller. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_read_file(const spsh_io *io, const char *path,
                                                      size_t size_max,
                                                      const spsh_allocator *allocator,
                                                      uint8_t **ret_data, size_t *ret_bytes,
                                                      spsh_error *err);

/** mkdir that accepts an existing directory, then fsync of the parent. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_make_directory(const spsh_io *io, const char *path,
                                                           spsh_error *err);

/** fsync of a directory by path. */
SPSH_API SPSH_NODISCARD spsh_status spsh_io_sync_directory(const spsh_io *io, const char *path,
                                                           spsh_error *err);

/** SPSH_E_NO_SPACE for ENOSPC, EDQUOT, and EFBIG, _NOT_FOUND for ENOENT, _EXISTS for EEXIST, else
 * _E_IO. */
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
 * @param reserve_bytes fallocate this much first, so that a full disk shows early; 0: none
 * @param allocator     NULL: default
 * Temporary: NAME.tmp-<pid>-<n>, opened with O_EXCL. A killed process leaves it:
 * spsh_stale_files_remove.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_open(const spsh_io *io, const char *directory,
                                                          const char *name, uint64_t reserve_bytes,
                                                          const spsh_allocator *allocator,
                                                          spsh_file_writer **ret_writer,
                                                          spsh_error *err);

/** Append. After any failure the file is dead: only free is allowed. */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_write(spsh_file_writer *writer,
                                                           const void *data, size_t size_bytes,
                                                           spsh_error *err);

/** Write at a position (tables write their columns side by side); may leave holes until filled. */
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

/** Truncate to the size written, fsync once, publish, fsync the directory. Free afterwards. */
SPSH_API SPSH_NODISCARD spsh_status spsh_file_writer_publish(spsh_file_writer *writer,
                                                             spsh_publish_mode mode,
                                                             spsh_error *err);

/** NULL is fine. Removes the temporary if it was not published. */
SPSH_API void spsh_file_writer_free(spsh_file_writer *writer);

/**
 * Remove temporaries whose processes have ended from a directory.
 *
 * A process of another machine seems to have ended, and this process counts as ended: name only
 * files that nothing else writes now. Temporaries that cannot be removed stay.
 *
 * @param is_ours_fn  whether to remove temporaries of the file NAME. name: NAME, followed by
 *                    ".tmp-<pid>-<n>"; name_bytes: of NAME
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
