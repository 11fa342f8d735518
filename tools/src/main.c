/* main.c: the command `speechshard`: find the subcommand and call it. */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "commands.h"
#include "speechshard/nearest_word.h"

typedef struct subcommand {
    const char *name;
    int (*run_fn)(int argc, char **argv);
    const char *summary;
} subcommand;

#define SUBCOMMAND(name_, summary_) {#name_, spsh__cmd_##name_, summary_},
static const subcommand subcommands[] = {SPSH_COMMANDS(SUBCOMMAND){NULL, NULL, NULL}};
#undef SUBCOMMAND

enum { NAMES_MAX = sizeof(subcommands) / sizeof(subcommands[0]) };

static int print_help(void)
{
    printf("usage: speechshard COMMAND [options]\n"
           "\n"
           "Pack speech corpora into checksummed shards, check them, read them back, and train on "
           "them.\n"
           "\n"
           "Commands:\n");
    for (const subcommand *s = subcommands; s->name != NULL; s++)
        printf("  %-11s %s\n", s->name, s->summary);
    printf("\n"
           "Options:\n"
           "  --help     print this; after a command: its options and examples\n"
           "  --version  print name and version\n"
           "\n"
           "Examples:\n"
           "  speechshard pack corpus/ -o corpus.spsh\n"
           "  speechshard info corpus.spsh\n"
           "  speechshard verify corpus.spsh\n"
           "  speechshard cat corpus.spsh UTTERANCE -o utterance.wav\n"
           "\n"
           "Results go to standard output, messages to standard error. Exit status: 0 done, 1 "
           "failed or\n"
           "damage was found, 2 wrong arguments. More: man speechshard\n");
    return spsh__cli_finish(SPSH_EXIT_DONE);
}

static int report_unknown(const char *name)
{
    static const char *const options[] = {"--help", "--version", NULL};
    const char *names[NAMES_MAX] = {NULL};
    bool is_option = name[0] == '-';
    for (size_t i = 0; subcommands[i].name != NULL; i++)
        names[i] = subcommands[i].name;
    const char *nearest = spsh_nearest_word(name, strlen(name), is_option ? options : names);
    const char *what = is_option ? "option" : "command";
    spsh__cli_error("unknown %s '%s'%s%s%s (see 'speechshard --help')", what, name,
                    nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                    nearest != NULL ? "'?" : "");
    return SPSH_EXIT_USAGE;
}

/* Open a standard stream that the caller closed, so that no file of ours gets its number and our
 * messages. Writing to the stream fails as if it were closed. */
static bool take_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    }
    return true;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        spsh__cli_error("a command is missing (see 'speechshard --help')");
        return SPSH_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0) {
        printf("speechshard %s\n", spsh_version());
        return spsh__cli_finish(SPSH_EXIT_DONE);
    }
    for (const subcommand *s = subcommands; s->name != NULL; s++) {
        if (strcmp(s->name, argv[1]) == 0)
            return s->run_fn(argc - 1, argv + 1);
    }
    return report_unknown(argv[1]);
}

int main(int argc, char **argv)
{
    if (!take_standard_streams())
        return SPSH_EXIT_FAILED;
    /* A message is one write, so that messages of several processes do not mix. */
    (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
    setlocale(LC_CTYPE,
              "C.UTF-8"); /* widths of characters; files and messages are UTF-8 everywhere */
    return spsh__cli_run(run, argc, argv);
}
