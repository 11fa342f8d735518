/* base.h: definitions that all parts of speechshard share: status codes, errors, allocator, log,
 * version.
 *
 *     spsh_error err = SPSH_ERROR_INIT;
 *     if (spsh_dataset_open("corpus.spsh", NULL, &dataset, &err) != SPSH_OK)
 *         fprintf(stderr, "%s: %s\n", spsh_status_text(err.status), err.message);
 *
 * A structure that begins with struct_size may get more fields at its end: initialize it with its
 * INIT macro. So may a structure that a function returns by pointer to const: do not use its size.
 * All other structures are frozen. docs/ARCHITECTURE.md, "The ABI", has the rule.
 */
#ifndef SPEECHSHARD_BASE_H
#define SPEECHSHARD_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_VERSION_MAJOR  0
#define SPSH_VERSION_MINOR  1
#define SPSH_VERSION_PATCH  0
#define SPSH_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define SPSH_API                     __attribute__((visibility("default")))
#define SPSH_NODISCARD               __attribute__((warn_unused_result))
#define SPSH_PRINTF(format_, first_) __attribute__((format(printf, format_, first_)))
#else
#define SPSH_API
#define SPSH_NODISCARD
#define SPSH_PRINTF(format_, first_)
#endif

/* Name, pinned number, text. Append only: numbers are part of the ABI and of reports. */
#define SPSH_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(E_INVALID_ARG, -1, "invalid argument")                                                       \
    X(E_NO_MEMORY, -2, "out of memory")                                                            \
    X(E_IO, -3, "input/output error")                                                              \
    X(E_NOT_FOUND, -4, "not found")                                                                \
    X(E_EXISTS, -5, "already exists")                                                              \
    X(E_NO_SPACE, -6, "no space left on device")                                                   \
    X(E_UNSUPPORTED, -7, "not supported")                                                          \
    X(E_UNKNOWN_NAME, -8, "no such split, domain, or language")                                    \
    X(E_NOT_SPEECHSHARD, -10, "not a speechshard file")                                            \
    X(E_VERSION, -11, "format version or feature is not supported")                                \
    X(E_CORRUPT, -12, "corrupt data")                                                              \
    X(E_TRUNCATED, -13, "data ends too early")                                                     \
    X(E_LIMIT, -14, "a configured limit was exceeded")                                             \
    X(E_MISMATCH, -15, "file belongs to another dataset or generation")                            \
    X(E_AUDIO, -16, "audio cannot be decoded")                                                     \
    X(E_SYNTAX, -17, "malformed text or metadata")                                                 \
    X(E_END, -20, "no more items")                                                                 \
    X(E_CANCELED, -21, "canceled")                                                                 \
    X(E_TIMEOUT, -22, "time is up")

typedef enum spsh_status {
#define SPSH_X(name_, value_, text_) SPSH_##name_ = (value_),
    SPSH_STATUS_MAP(SPSH_X)
#undef SPSH_X
} spsh_status;

#define SPSH_OFFSET_NONE UINT64_MAX

/** Description of a failure. Owned by the caller; every function accepts NULL; written on failure
 * only. */
typedef struct spsh_error {
    spsh_status status;
    int os_errno;          /* 0 if no system call failed */
    uint64_t offset_bytes; /* position in the file, SPSH_OFFSET_NONE if none */
    char message[480];     /* one line of English that names file, place, expected and found */
} spsh_error;

/* clang-format off */
#define SPSH_ERROR_INIT {SPSH_OK, 0, SPSH_OFFSET_NONE, {0}}
/* clang-format on */

/** Source of all memory. alloc_fn returns memory aligned for any type, or NULL on failure. */
typedef struct spsh_allocator {
    void *(*alloc_fn)(void *user, size_t size_bytes);
    void (*free_fn)(void *user, void *memory); /* memory may be NULL */
    void *user;
} spsh_allocator;

/** Borrowed bytes without a terminating NUL. data may be NULL if size_bytes is 0. */
typedef struct spsh_bytes {
    const uint8_t *data;
    size_t size_bytes;
} spsh_bytes;

typedef enum spsh_log_level {
    SPSH_LOG_ERROR = 0,
    SPSH_LOG_WARNING = 1,
    SPSH_LOG_INFO = 2,
    SPSH_LOG_DEBUG = 3, /* explains an automatic choice; useful only if the choice surprises */
} spsh_log_level;

/** text is one line without a newline, valid during the call. May be called from worker threads. */
typedef void (*spsh_log_fn)(void *user, spsh_log_level level, const char *text);

/**
 * Progress of a long call, and the way to cancel it.
 *
 * Called on the thread of the call unless its options say otherwise. Calls never overlap. They are
 * frequent, so a caller that prints should limit its output.
 *
 * @param phase  name of the work at hand, such as "scan"; valid during the call
 * @param done   finished units of the phase; never decreases within a phase
 * @param total  units of the whole phase; 0: unknown; may grow
 * @return 0 to continue. Any other value cancels: the long call returns SPSH_E_CANCELED
 */
typedef int (*spsh_progress_fn)(void *user, const char *phase, uint64_t done, uint64_t total);

/** "SPSH_E_CORRUPT" for SPSH_E_CORRUPT; "SPSH_E_?" for an unknown number. Thread-safe. */
SPSH_API const char *spsh_status_name(spsh_status status);

/** The English text of a status, lower case, without a full stop. Thread-safe. */
SPSH_API const char *spsh_status_text(spsh_status status);

/** SPSH_VERSION_STRING of the library that is linked. Thread-safe. */
SPSH_API const char *spsh_version(void);

/** malloc and free, as an allocator. Never NULL. Thread-safe. */
SPSH_API const spsh_allocator *spsh_allocator_default(void);

/**
 * Fill err (may be NULL) as library calls do, with a message in printf format.
 *
 * With SPSH_E_NO_MEMORY, append "out of memory", and the size of the allocation that failed if
 * spsh_allocator_default made it on this thread, unless the text says "out of memory" already.
 * os_errno is taken from the argument, not from errno. Thread-safe.
 */
SPSH_API void spsh_error_set(spsh_error *err, spsh_status status, int os_errno,
                             uint64_t offset_bytes, const char *format, ...) SPSH_PRINTF(5, 6);

#ifdef __cplusplus
}
#endif

#endif
