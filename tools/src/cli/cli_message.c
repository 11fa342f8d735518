/* cli_message.c: messages and the progress line, which share the terminal on standard error.
 *
 * At most one progress line is on the screen, without a line end. A message first removes it, and
 * the next update draws it again. One lock keeps both intact when worker threads report.
 */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/os_error.h"
#include "speechshard/io.h"

enum {
    MESSAGE_BYTES = 2048,
    LINE_BYTES = 512,
    DRAW_INTERVAL_MS = 100,
    EXIT_PIPE_CLOSED = 141 /* exit status that a shell reports if SIGPIPE ended a process */
};

static pthread_mutex_t terminal_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile bool progress_is_shown; /* guarded by terminal_lock; a handler only reads it */

#define CLEAR_LINE "\r\033[K"

static void clear_progress(void)
{
    if (progress_is_shown)
        fputs(CLEAR_LINE, stderr);
    progress_is_shown = false;
}

static void write_line(const char *format, va_list arguments) SPSH_PRINTF(1, 0);
static void write_line(const char *format, va_list arguments)
{
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof(text), format, arguments);
    pthread_mutex_lock(&terminal_lock);
    clear_progress();
    fputs("speechshard: ", stderr);
    /* Sanitize the text, because ids and paths from files must not control the terminal. */
    spsh__text_print(stderr, (spsh_bytes){(const uint8_t *)text, strlen(text)}, 0);
    fputc('\n', stderr);
    (void)fflush(stderr);
    pthread_mutex_unlock(&terminal_lock);
}

void spsh__cli_message(const char *format, ...)
{
    va_list arguments;
    if (spsh__cli_is_quiet())
        return;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void spsh__cli_log(void *user, spsh_log_level level, const char *text)
{
    (void)user;
    if (level == SPSH_LOG_ERROR)
        spsh__cli_error("%s", text);
    else if (level != SPSH_LOG_DEBUG || spsh__cli_is_verbose())
        spsh__cli_message("%s", text);
}

void spsh__cli_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

int spsh__cli_usage(const char *name, const char *format, ...)
{
    char text[MESSAGE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    spsh__cli_error("%s: %s (see 'speechshard %s --help')", name, text, name);
    return SPSH_EXIT_USAGE;
}

static void advise_memory(void)
{
    const char *options = spsh__cli_memory_options();
    if (options != NULL)
        spsh__cli_error("less memory is needed with a smaller %s", options);
}

static void advise_space(spsh_status status)
{
    struct rlimit file;
    if (status != SPSH_E_NO_SPACE)
        return;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY)
        spsh__cli_error("files are limited to %llu bytes (ulimit -f): raise the limit or free "
                        "space, and repeat the command",
                        (unsigned long long)file.rlim_cur);
    else
        spsh__cli_error("free space and repeat the command");
}

int spsh__cli_fail(const char *context, const spsh_error *err)
{
    const char *text = err->message[0] != '\0' ? err->message : spsh_status_text(err->status);
    if (context == NULL)
        spsh__cli_error("%s", text);
    else
        spsh__cli_error("%s: %s", context, text);
    if (err->status == SPSH_E_NO_MEMORY)
        advise_memory();
    advise_space(err->status);
    return err->status == SPSH_E_UNKNOWN_NAME ? SPSH_EXIT_USAGE : SPSH_EXIT_FAILED;
}

int spsh__cli_fail_resumable(const char *context, const spsh_error *err)
{
    const int exit_status = spsh__cli_fail(context, err);

    if (err->status != SPSH_E_IO || !spsh__os_error_is_transient(err->os_errno))
        return exit_status;
    spsh__cli_error("this error may pass: repeat the same command, here or on another machine, and "
                    "it continues (exit status %d)",
                    SPSH_EXIT_STOPPED);
    return SPSH_EXIT_STOPPED;
}

int spsh__cli_fail_memory(void)
{
    const spsh_error err = {.status = SPSH_E_NO_MEMORY};
    return spsh__cli_fail(NULL, &err);
}

bool spsh__cli_output_failed(void)
{
    return ferror(stdout) != 0;
}

static int end_json(spsh_json *json, spsh_status rc, const char *context, const spsh_error *err)
{
    spsh__json_free(json);
    return rc == SPSH_OK || spsh__cli_output_failed() ? SPSH_EXIT_DONE
                                                      : spsh__cli_fail(context, err);
}

int spsh__cli_json(spsh_json *json)
{
    spsh_error err = SPSH_ERROR_INIT;
    return end_json(json, spsh__json_write_line(json, stdout, &err), NULL, &err);
}

int spsh__cli_json_indented(spsh_json *json, spsh_status rc, const char *context, spsh_error *err)
{
    if (rc == SPSH_OK)
        rc = spsh__json_write_pretty(json, stdout, err);
    return end_json(json, rc, context, err);
}

/* True if the reader of standard output disconnected. errno of the failed write may be overwritten
 * by now. */
static bool output_is_closed_pipe(void)
{
    struct pollfd output = {STDOUT_FILENO, POLLOUT, 0};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int spsh__cli_finish(int exit_status)
{
    errno = 0;
    bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (!failed)
        return exit_status;
    const int os_errno = errno;
    if (os_errno == EPIPE || output_is_closed_pipe())
        return EXIT_PIPE_CLOSED;
    spsh__cli_error("standard output: %s", os_errno == 0 ? "write failed" : strerror(os_errno));
    advise_space(spsh_io_status(os_errno));
    return SPSH_EXIT_FAILED;
}

unsigned spsh__terminal_columns(int fd)
{
    struct winsize size = {0};
    if (!isatty(fd))
        return 0;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

/* ---- progress ---- */

void spsh__progress_begin(spsh_progress *progress, const char *label, const char *unit,
                          uint64_t total)
{
    const char *terminal = getenv("TERM");
    bool enabled = !spsh__cli_is_quiet() && isatty(STDERR_FILENO) && terminal != NULL &&
                   strcmp(terminal, "dumb") != 0;
    uint64_t now = spsh__cli_now_ns();
    *progress = (spsh_progress){label, unit, total, now, now, enabled, 0};
}

#define SHOW_AMOUNT(is_bytes_, amount_)                                                            \
    ((is_bytes_) ? SPSH_SHOW_BYTES(amount_) : SPSH_SHOW_COUNT(amount_))

static void format_line(const spsh_progress *progress, uint64_t done, double seconds,
                        const char *text, char line[LINE_BYTES])
{
    const bool is_bytes = strcmp(progress->unit, "B") == 0;
    const double rate = seconds > 0 ? (double)(done - progress->done_before) / seconds : 0;
    const uint64_t total = progress->total;
    const uint64_t left_s =
        total > done && rate > 0 ? (uint64_t)((double)(total - done) / rate) : 0;
    const char *of = total != 0 ? SPSH_SHOW(" of %s", SHOW_AMOUNT(is_bytes, total)) : "";
    const char *eta = total > done && rate > 0
                          ? SPSH_SHOW(", ETA %u:%02u:%02u", (unsigned)(left_s / 3600),
                                      (unsigned)(left_s / 60 % 60), (unsigned)(left_s % 60))
                          : "";
    const bool has_text = text != NULL && text[0] != '\0';
    (void)snprintf(line, LINE_BYTES, "%s: %s%s%s%s, %s/s%s%s%s", progress->label,
                   SHOW_AMOUNT(is_bytes, done), of, is_bytes ? "" : " ",
                   is_bytes ? "" : progress->unit, SHOW_AMOUNT(is_bytes, (uint64_t)(rate + 0.5)),
                   eta, has_text ? ", " : "", has_text ? text : "");
}

void spsh__progress_update(spsh_progress *progress, uint64_t done, const char *text)
{
    if (!progress->enabled)
        return;
    uint64_t now = spsh__cli_now_ns();
    if (now - progress->shown_ns < DRAW_INTERVAL_MS * UINT64_C(1000000))
        return;
    progress->shown_ns = now;
    char line[LINE_BYTES];
    format_line(progress, done, (double)(now - progress->begin_ns) / 1e9, text, line);
    unsigned columns = spsh__terminal_columns(STDERR_FILENO);
    pthread_mutex_lock(&terminal_lock);
    fputs(CLEAR_LINE, stderr);
    spsh__text_print(stderr, (spsh_bytes){(const uint8_t *)line, strlen(line)},
                     columns > 1 ? columns - 1 : 1);
    (void)fflush(stderr);
    progress_is_shown = true;
    pthread_mutex_unlock(&terminal_lock);
}

void spsh__progress_clear(void)
{
    pthread_mutex_lock(&terminal_lock);
    clear_progress();
    (void)fflush(stderr);
    pthread_mutex_unlock(&terminal_lock);
}

void spsh__progress_wipe(void)
{
    if (progress_is_shown && write(STDERR_FILENO, CLEAR_LINE, sizeof(CLEAR_LINE) - 1) < 0)
        return; /* the terminal was closed */
}

void spsh__progress_end(spsh_progress *progress)
{
    spsh__progress_clear();
    progress->enabled = false;
    progress->label = NULL;
}

void spsh__progress_stage(spsh_progress *progress, const char *stage, uint64_t done, uint64_t total)
{
    if (progress->label == NULL || strcmp(progress->label, stage) != 0) {
        spsh__progress_end(progress);
        spsh__progress_begin(progress, stage, "", total);
    }
    progress->total = total;
    spsh__progress_update(progress, done, NULL);
}
