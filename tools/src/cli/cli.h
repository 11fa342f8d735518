/* cli.h: the common parts of all subcommands: options, messages, the progress line. human.h has
 * numbers and tables.
 *
 *     int spsh__cmd_verify(int argc, char **argv)
 *     {
 *         bool json = false;
 *         uint64_t jobs = 0;
 *         const spsh_cli_option options[] = {
 *             {"json", 0, SPSH_CLI_FLAG, NULL, "print JSON", &json, 0, 0},
 *             {"jobs", 'j', SPSH_CLI_COUNT, "N", "threads", &jobs, 1, 1024},
 *             SPSH_CLI_OPTIONS_END,
 *         };
 *         const spsh_cli_command command = {"verify", "DATASET...", NULL, "check every byte", NULL,
 *                                           "speechshard verify corpus.spsh\n", options};
 *         spsh_cli_args args;
 *         int rc = spsh__cli_parse(&command, argc, argv, &args);
 *         if (rc != SPSH_CLI_RUN)
 *             return rc;                          // after --help: 0; wrong arguments: 2
 *         ...
 *         return spsh__cli_finish(rc);            // reports a failure of standard output
 *     }
 *
 * A command returns its exit status: 0 done, 1 failed or damage was found, 2 wrong arguments.
 * After SIGINT or SIGTERM the process ends by the signal: a shell reports 130 or 143. Messages go
 * to standard error, each line with the prefix "speechshard: ". They remove the progress line
 * first.
 */
#ifndef SPSH_CLI_H
#define SPSH_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "common/human.h"
#include "common/json_out.h"

/* ---- options ---- */

#define SPSH_EXIT_DONE   0
#define SPSH_EXIT_FAILED 1
#define SPSH_EXIT_USAGE  2
#define SPSH_EXIT_STOPPED                                                                          \
    75 /* repeat the command: a signal stopped it cleanly, or an error may pass */
#define SPSH_CLI_RUN (-1) /* spsh__cli_parse: continue */

typedef enum spsh_cli_kind {
    SPSH_CLI_FLAG,   /* bool *, set to true */
    SPSH_CLI_TEXT,   /* const char **; never empty */
    SPSH_CLI_CHOICE, /* int *: index of the word in argument, such as "keep|flac|pcm" */
    SPSH_CLI_COUNT,  /* uint64_t *: decimal, in min ... max */
    SPSH_CLI_SIZE,   /* uint64_t *: bytes, with K, M, G, T as powers of 1024, in min ... max */
    SPSH_CLI_REAL,   /* double *: decimal, such as 0.5, in min ... max */
    SPSH_CLI_TEXTS,  /* spsh_cli_texts *: may be given more than once, and may be empty */
} spsh_cli_kind;

/** Values of a repeated option, in order, NULL-terminated. Borrowed from argv. Zero-initialize. */
enum { SPSH_CLI_TEXTS_MAX = 512 };
typedef struct spsh_cli_texts {
    const char *items[SPSH_CLI_TEXTS_MAX + 1];
    size_t count;
} spsh_cli_texts;

/** One option. Every command has --help, --quiet, --verbose, and --version, which are not listed.
 */
typedef struct spsh_cli_option {
    const char *long_name; /* without dashes */
    char short_name;       /* 0: none */
    spsh_cli_kind kind;
    const char *argument; /* name of the value in help; the words of a CHOICE; NULL for a FLAG */
    const char *help;     /* one or more lines */
    void *value;          /* depends on kind; unchanged without the option; the last value wins */
    uint64_t min, max;    /* COUNT, SIZE and REAL; max 0: no upper limit */
} spsh_cli_option;

/* clang-format off */
#define SPSH_CLI_OPTIONS_END {NULL, 0, SPSH_CLI_FLAG, NULL, NULL, NULL, 0, 0}
/* clang-format on */

typedef struct spsh_cli_command {
    const char *name;
    const char *operands;    /* "DATASET ID", "DATASET...", "DATASET [ACTION] [NAME]" */
    const char *synopsis;    /* forms, one per line, without the name; NULL: operands [options] */
    const char *summary;     /* one line, without a full stop */
    const char *description; /* further lines; may be NULL */
    const char *examples;    /* lines */
    const spsh_cli_option *options; /* terminated by SPSH_CLI_OPTIONS_END */
} spsh_cli_command;

/** Arguments that are not options, in order. Point into argv. */
typedef struct spsh_cli_args {
    char **operands;
    int operand_count;
} spsh_cli_args;

/**
 * Parse argv[1 ...]. argv is reordered: operands first. `--` ends the options.
 *
 * @return SPSH_CLI_RUN; or the exit status after --help and --version (0) or a wrong argument (2),
 *         which has been reported with a suggestion
 */
int spsh__cli_parse(const spsh_cli_command *command, int argc, char **argv,
                    spsh_cli_args *ret_args);

/** An option of the command line. */
typedef struct spsh_cli_given {
    const spsh_cli_option *option;
    const char *text; /* its value, borrowed from argv; NULL for a FLAG */
} spsh_cli_given;

/** Return the number of options that the last spsh__cli_parse read, and all of them in order. */
size_t spsh__cli_given_options(const spsh_cli_given **ret_given);

/** Report a wrong argument. name: the command. Returns SPSH_EXIT_USAGE. */
int spsh__cli_usage(const char *name, const char *format, ...) SPSH_PRINTF(2, 3);

/** True if --quiet was given. */
bool spsh__cli_is_quiet(void);

/** True if --verbose was given without --quiet. */
bool spsh__cli_is_verbose(void);

/** Return the command's options that reduce its memory, such as "--memory or --jobs", or NULL. */
const char *spsh__cli_memory_options(void);

/* ---- messages; any thread ---- */

/** Print a line to standard error unless --quiet. */
void spsh__cli_message(const char *format, ...) SPSH_PRINTF(1, 2);

/** Print a line to standard error, even with --quiet. */
void spsh__cli_error(const char *format, ...) SPSH_PRINTF(1, 2);

/** A log_fn for any library. Prints errors always, SPSH_LOG_DEBUG with --verbose, and other levels
 * unless --quiet. user is unused. */
void spsh__cli_log(void *user, spsh_log_level level, const char *text);

/** Print "context: message of err" (context may be NULL), then advice for a lack of memory or
 * space. Returns SPSH_EXIT_USAGE for SPSH_E_UNKNOWN_NAME, such as an unknown split, else
 * SPSH_EXIT_FAILED. */
int spsh__cli_fail(const char *context, const spsh_error *err);

/** The same for a command whose repeat continues the work. After an error that a repeat may mend
 * (os_error.h), advises a repeat and returns SPSH_EXIT_STOPPED. */
int spsh__cli_fail_resumable(const char *context, const spsh_error *err);

/** Report that the command itself is out of memory. Returns SPSH_EXIT_FAILED. */
int spsh__cli_fail_memory(void);

/** Flush standard output. If its reader disconnected (EPIPE), the process ends quietly. Another
 * failure is reported and makes the status SPSH_EXIT_FAILED. Returns the exit status. */
int spsh__cli_finish(int exit_status);

/** Print lines to standard output, each after indent, except empty lines. */
void spsh__cli_print_indented(const char *text, const char *indent);

/** Print the object on one line, and free it. Returns the exit status. */
int spsh__cli_json(spsh_json *json);

/** The same indented, if rc is SPSH_OK; else report err, with context before it (may be NULL). */
int spsh__cli_json_indented(spsh_json *json, spsh_status rc, const char *context, spsh_error *err);

/** True once standard output has failed. The command should then stop. */
bool spsh__cli_output_failed(void);

/* ---- the machine ---- */

/** Time of a monotonic clock, from an unspecified start. */
uint64_t spsh__cli_now_ns(void);
double spsh__cli_now_s(void);

/**
 * Run a command. Signals end the process cleanly, a file beyond `ulimit -f` fails with EFBIG, and a
 * small `ulimit -s` does no harm. Returns the exit status of main_fn, or SPSH_EXIT_STOPPED after a
 * SIGUSR1 that the command watched for. After SIGINT or SIGTERM the function does not return: the
 * process ends by that signal.
 */
int spsh__cli_run(int (*main_fn)(int argc, char **argv), int argc, char **argv);

/** From this call on, SIGINT, SIGTERM, and SIGUSR1 only set the flag of spsh__cli_interrupted. The
 * command then returns, with any exit status. */
void spsh__cli_watch_signals(void);
const volatile bool *spsh__cli_interrupted(void);

/* ---- progress ---- */

/** A progress line on standard error, if that is a terminal and without --quiet: label, count,
 * rate, time left, text. */
typedef struct spsh_progress {
    const char *label; /* "pack"; borrowed; NULL: not begun */
    const char *unit;  /* "files"; "B": bytes, formatted for people; borrowed */
    uint64_t total;    /* 0: unknown; may change between updates */
    uint64_t begin_ns, shown_ns;
    bool enabled;
    uint64_t done_before; /* part of done to exclude from the rate; may be set after begin */
} spsh_progress;

void spsh__progress_begin(spsh_progress *progress, const char *label, const char *unit,
                          uint64_t total);
/** Update the line. Cheap: draws ten times per second. text may be NULL. One thread at a time per
 * object. */
void spsh__progress_update(spsh_progress *progress, uint64_t done, const char *text);
/** The same for a run of several stages, with a separate line per stage. Zero *progress before the
 * first.
 */
void spsh__progress_stage(spsh_progress *progress, const char *stage, uint64_t done,
                          uint64_t total);
/** Remove the line before the caller prints to standard output. The next update draws the line
 * again. */
void spsh__progress_clear(void);
/** The same for a signal handler. */
void spsh__progress_wipe(void);
/** Remove the line for good. */
void spsh__progress_end(spsh_progress *progress);

#endif
