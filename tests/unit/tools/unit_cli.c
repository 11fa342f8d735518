/* unit_cli.c: functions that the subcommands share: options, suggestions for misspelled
 * names, numbers and text for people, and ids as paths. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "common/byte_builder.h"
#include "common/json_out.h"
#include "export/export.h"
#include "spsh_test.h"

typedef struct parsed {
    bool json;
    const char *output;
    int codec;
    uint64_t jobs, size;
    double alpha;
    spsh_cli_texts weights;
    spsh_cli_args args;
} parsed;

static int parse(const char *const *words, parsed *p)
{
    const spsh_cli_option options[] = {
        {"json",   'J', SPSH_CLI_FLAG,   NULL,            "x", &p->json,    0,    0 },
        {"output", 'o', SPSH_CLI_TEXT,   "FILE",          "x", &p->output,  0,    0 },
        {"codec",  0,   SPSH_CLI_CHOICE, "keep|flac|pcm", "x", &p->codec,   0,    0 },
        {"jobs",   'j', SPSH_CLI_COUNT,  "N",             "x", &p->jobs,    1,    64},
        {"size",   0,   SPSH_CLI_SIZE,   "BYTES",         "x", &p->size,    4096, 0 },
        {"alpha",  0,   SPSH_CLI_REAL,   "A",             "x", &p->alpha,   0,    2 },
        {"weight", 'w', SPSH_CLI_TEXTS,  "D=W",           "x", &p->weights, 0,    0 },
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {"try", "IN [MORE]", NULL, "try", NULL, "try\n", options};
    static char copies[16][64];
    static char *argv[16];
    int argc = 0;
    *p = (parsed){.codec = -1};
    for (; words[argc] != NULL; argc++) {
        snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    return spsh__cli_parse(&command, argc, argv, &p->args);
}

#define PARSE(p_, ...) parse((const char *const[]){"try", __VA_ARGS__, NULL}, (p_))

static void test_options(void)
{
    parsed p;
    CHECK_I64(PARSE(&p, "a", "-o", "out", "--json", "b"), SPSH_CLI_RUN);
    CHECK(p.json);
    CHECK_STR(p.output, "out");
    CHECK_I64(p.args.operand_count, 2);
    CHECK_STR(p.args.operands[0], "a");
    CHECK_STR(p.args.operands[1], "b");

    CHECK_I64(PARSE(&p, "-Joout", "--codec=pcm", "-j", "64", "--size", "4K", "a"), SPSH_CLI_RUN);
    CHECK(p.json);
    CHECK_STR(p.output, "out");
    CHECK_I64(p.codec, 2);
    CHECK_U64(p.jobs, 64);
    CHECK_U64(p.size, 4096);

    CHECK_I64(PARSE(&p, "--", "--json", "-o"), SPSH_CLI_RUN);
    CHECK(!p.json);
    CHECK_STR(p.args.operands[0], "--json");
    CHECK_STR(p.args.operands[1], "-o");

    CHECK_I64(PARSE(&p, "-", "--output=x=y"), SPSH_CLI_RUN);
    CHECK_STR(p.args.operands[0], "-");
    CHECK_STR(p.output, "x=y");

    CHECK_I64(PARSE(&p, "--alpha", "0.25", "-wa=1", "x", "--weight=b=2", "--weight", ""),
              SPSH_CLI_RUN);
    CHECK(p.alpha > 0.249 && p.alpha < 0.251);
    CHECK_U64(p.weights.count, 3);
    CHECK_STR(p.weights.items[0], "a=1");
    CHECK_STR(p.weights.items[1], "b=2");
    CHECK_STR(p.weights.items[2], "");
    CHECK_I64(PARSE(&p, "x", "--alpha", "2"), SPSH_CLI_RUN);
    CHECK_I64(PARSE(&p, "x", "--alpha", ".5"), SPSH_CLI_RUN);
    CHECK_I64(PARSE(&p, "x", "--alpha", "1."), SPSH_CLI_RUN);

    static const char *const not_real[] = {"",    "-1",  "2.01", "1e1",  "0x1",
                                           "nan", "inf", ".",    "1.2.3"};
    for (size_t i = 0; i < sizeof(not_real) / sizeof(not_real[0]); i++)
        CHECK_I64(PARSE(&p, "x", "--alpha", not_real[i]), SPSH_EXIT_USAGE);

    CHECK_I64(PARSE(&p, "--json"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "b", "c"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--jsn"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "-x"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--json=1"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "-o"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "-o", ""), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--codec", "mp3"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--jobs", "0"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--jobs", "65"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--jobs", "-1"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--jobs", "18446744073709551616"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--size", "4095"), SPSH_EXIT_USAGE);
    CHECK_I64(PARSE(&p, "a", "--size", "big"), SPSH_EXIT_USAGE);
}

static void test_numbers(void)
{
    char text[SPSH_HUMAN_BYTES];
    CHECK_STR(spsh__human_bytes(0, text), "0 B");
    CHECK_STR(spsh__human_bytes(812, text), "812 B");
    CHECK_STR(spsh__human_bytes(999, text), "999 B");
    CHECK_STR(spsh__human_bytes(1000, text), "1.00 kB");
    CHECK_STR(spsh__human_bytes(999949, text), "1.00 MB");
    CHECK_STR(spsh__human_bytes(UINT64_C(5650000000000), text), "5.65 TB");
    CHECK_STR(spsh__human_bytes(UINT64_MAX, text), "18.4 EB");
    CHECK_STR(spsh__human_count(0, text), "0");
    CHECK_STR(spsh__human_count(999, text), "999");
    CHECK_STR(spsh__human_count(1000, text), "1,000");
    CHECK_STR(spsh__human_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
    CHECK_STR(spsh__human_duration(0, text), "0.00 s");
    CHECK_STR(spsh__human_duration(59.999, text), "1 min 00 s");
    CHECK_STR(spsh__human_duration(247, text), "4 min 07 s");
    CHECK_STR(spsh__human_duration(3600, text), "1.0 h");
    CHECK_STR(spsh__human_duration(121000.0 * 3600, text), "121,000.0 h");
    CHECK_STR(spsh__human_percent(1, 3, text), "33.3 %");
    CHECK_STR(spsh__human_percent(0, 0, text), "0.0 %");
}

static spsh_bytes bytes_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static void check_shown(const char *text, size_t columns, const char *want)
{
    char got[256] = {0};
    FILE *stream = fmemopen(got, sizeof(got), "w");
    REQUIRE(stream != NULL);
    spsh__text_print(stream, bytes_of(text), columns);
    fclose(stream);
    CHECK_STR(got, want);
}

static void test_text(void)
{
    check_shown("plain", 0, "plain");
    check_shown("a\tb\nc\rd", 0, "a b c d");
    check_shown("\033[2Jgone", 0, "?[2Jgone");
    check_shown("\xc2\x9b"
                "2J",
                0, "?2J");                           /* CSI as one C1 character */
    check_shown("\xff\xc3(\xe2\x82", 0, "?\?(?\?");  /* not UTF-8 */
    check_shown("\xc0\xaf\xed\xa0\x80", 0, "?????"); /* overlong; a surrogate */
    check_shown("a\xe2\x80\xae"
                "b",
                0, "ab"); /* right-to-left override */
    check_shown("gr\xc3\xbc\xc3\x9f", 0, "gr\xc3\xbc\xc3\x9f");
    check_shown("abcdef", 6, "abcdef");
    check_shown("abcdefg", 6, "abcde\xe2\x80\xa6");
    check_shown("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 3, "\xc3\xa4\xc3\xb6\xe2\x80\xa6");
    CHECK_U64(spsh__text_columns(bytes_of("\xc3\xa4\xc3\xb6")), 2);
}

static void check_path(const char *id, bool dots, const char *want)
{
    spsh__builder path = {0};
    spsh__export_path(&path, bytes_of(id), dots, 42);
    CHECK_STR(spsh__builder_text(&path), want);
    spsh__builder_free(&path);
}

static void test_paths(void)
{
    check_path("84-121123-0001", true, "84-121123-0001");
    check_path("en/hello-world", true, "en/hello-world");
    check_path("a.b/c.d", true, "a.b/c.d");
    check_path("a.b/c.d", false, "a%2Eb/c%2Ed");
    check_path("../../etc/passwd", true, "%2E%2E/%2E%2E/etc/passwd");
    check_path(".", true, "%2E");
    check_path("..", true, "%2E%2E");
    check_path("...", true, "...");
    check_path("/etc/passwd", true, "%2Fetc/passwd");
    check_path("a//b", true, "a/%2Fb");
    check_path("a/", true, "a%2F");
    check_path("/", true, "%2F");
    check_path("//", true, "%2F%2F");
    check_path("a b\n\"*?\\:|<>%41", true, "a%20b%0A%22%2A%3F%5C%3A%7C%3C%3E%2541");
    check_path("gr\xc3\xbc\xc3\x9f", true, "gr\xc3\xbc\xc3\x9f");
    check_path("bad\xff\xc3", true, "bad%FF%C3");
    check_path("a.wav/b", true, "a%2Ewav/b");
    check_path("a.FLAC/b.wav", true, "a%2EFLAC/b.wav");
}

static void test_long_paths(void)
{
    char id[4097];
    spsh__builder path = {0};
    memset(id, 'x', sizeof(id));
    id[4096] = '\0';
    spsh__export_path(&path, bytes_of(id), true, 42);
    CHECK_U64(path.size_bytes, 204);
    CHECK_STR(spsh__builder_text(&path) + 200, "%n42");
    for (size_t i = 1; i < 4095; i += 2)
        id[i] = '/';
    spsh__builder_clear(&path);
    spsh__export_path(&path, bytes_of(id), true, 43);
    CHECK_STR(spsh__builder_text(&path), "%n43");
    /* Cut neither inside a character nor inside %XX. */
    for (size_t i = 0; i < 300; i++)
        memcpy(id + 2 * i, i % 2 == 0 ? "\xc3\xbc" : "? ", 2);
    for (size_t shift = 0; shift < 12; shift++) {
        id[600] = '\0';
        spsh__builder_clear(&path);
        spsh__export_path(&path, bytes_of(id + 2 * shift), true, 44);
        const char *text = spsh__builder_text(&path);
        size_t length = strlen(text);
        CHECK(length <= 205 && strcmp(text + length - 4, "%n44") == 0);
        CHECK(strncmp(text + length - 7, "%3F", 3) == 0 ||
              strncmp(text + length - 7, "%20", 3) == 0 ||
              strncmp(text + length - 6, "\xc3\xbc", 2) == 0);
    }
    spsh__builder_free(&path);
}

static void test_json(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    char *text = NULL;
    spsh_json *json = spsh__json_new();
    REQUIRE(json != NULL);
    spsh__json_put_text(json, "id", bytes_of("a\"\n\xc3\xbc"));
    spsh__json_put_text_or_null(json, "split", bytes_of(""));
    spsh__json_begin_array(json, "list");
    spsh__json_put_u64(json, NULL, 7);
    spsh__json_begin_object(json, NULL);
    spsh__json_put_real(json, "seconds", 0.1);
    spsh__json_end(json);
    spsh__json_end(json);
    spsh__json_put_parsed(json, "extras", bytes_of("{\"k\":\"v\"}"));
    spsh__json_put_parsed(json, "none", bytes_of(""));
    spsh__json_put_hex(json, "hash", (const uint8_t *)"\x00\xff", 2);
    CHECK_I64(spsh__json_take_text(json, &text, &err), SPSH_OK);
    CHECK_STR(text, "{\"id\":\"a\\\"\\n\xc3\xbc\",\"split\":null,\"list\":[7,{\"seconds\":0.1}],"
                    "\"extras\":{\"k\":\"v\"},\"none\":{},\"hash\":\"00ff\"}");
    free(text);
    /* A failure is remembered until the object is written, and then forgotten. */
    spsh__json_put_text(json, "bad", bytes_of("\xff"));
    spsh__json_put_u64(json, "good", 1);
    CHECK_I64(spsh__json_take_text(json, &text, &err), SPSH_E_SYNTAX);
    CHECK(strstr(err.message, "bad") != NULL);
    spsh__json_put_parsed(json, "broken", bytes_of("{"));
    CHECK_I64(spsh__json_take_text(json, &text, &err), SPSH_E_SYNTAX);
    spsh__json_put_u64(json, "large", UINT64_MAX);
    CHECK_I64(spsh__json_take_text(json, &text, &err), SPSH_E_LIMIT);
    CHECK_I64(spsh__json_take_text(json, &text, &err), SPSH_OK);
    CHECK_STR(text, "{}");
    free(text);
    spsh__json_free(json);
}

static void test_table(void)
{
    char got[256] = {0};
    FILE *stream = fmemopen(got, sizeof(got), "w");
    spsh_table *table = spsh__table_new("lrl");
    REQUIRE(stream != NULL && table != NULL);
    spsh__table_row(table, "a", "1", "short");
    spsh__table_row(table, "gr\xc3\xbcn", "234", "somewhat longer");
    CHECK(spsh__table_print(table, stream, "> ", 20));
    fclose(stream);
    CHECK_STR(got, "> a       1  short\n> gr\xc3\xbcn  234  somewh\xe2\x80\xa6\n");
    spsh__table_free(table);
}

/* Run body with standard error connected to a terminal. Store the output in dst. */
static void on_terminal(void (*body)(void), char *dst, size_t size_bytes)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    int saved = dup(STDERR_FILENO);
    REQUIRE(terminal >= 0 && saved >= 0 && dup2(terminal, STDERR_FILENO) >= 0);
    REQUIRE(setenv("TERM", "xterm", 1) == 0);
    body();
    REQUIRE(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(terminal);
    size_t used = 0; /* read until EIO: the terminal is closed, and all output has been read */
    for (ssize_t got = 1; got > 0 && used + 1 < size_bytes; used += got > 0 ? (size_t)got : 0)
        got = read(master, dst + used, size_bytes - 1 - used);
    dst[used] = '\0';
    close(master);
}

static void show_progress(void)
{
    spsh_progress progress;
    spsh__progress_begin(&progress, "pack", "files", 1001);
    spsh__progress_update(&progress, 1, NULL); /* too early to be shown */
    progress.shown_ns = 0;
    progress.begin_ns -= UINT64_C(100000000000);
    spsh__progress_update(&progress, 1000, "3 rejected");
    spsh__cli_message("a message");
    progress.shown_ns = 0;
    progress.unit = "B";
    spsh__progress_update(&progress, 1001, NULL);
    spsh__progress_end(&progress);
    spsh__progress_update(&progress, 1001, NULL);
}

/* Draw the progress line at once. */
static void draw(spsh_progress *progress)
{
    spsh__progress_begin(progress, "eval", "files", 0);
    progress->begin_ns -= UINT64_C(100000000000);
    progress->shown_ns = 0;
    spsh__progress_update(progress, 500, NULL);
}

static void print_under_progress(void)
{
    spsh_progress progress;
    draw(&progress);
    spsh__progress_clear();
    (void)fputs("a result\n", stderr); /* as if standard output were the same terminal */
    progress.shown_ns = 0;
    spsh__progress_update(&progress, 600, NULL);
    spsh__progress_end(&progress);
}

static int fail_under_progress(int argc, char **argv)
{
    spsh_progress progress;
    (void)argc, (void)argv;
    draw(&progress);
    return SPSH_EXIT_FAILED;
}

static int stop_signal; /* the signal that stop_under_progress raises */

static int stop_under_progress(int argc, char **argv)
{
    spsh_progress progress;
    (void)argv;
    draw(&progress);
    if (argc > 0)
        spsh__cli_watch_signals();
    (void)raise(stop_signal);
    CHECK(*spsh__cli_interrupted());
    return SPSH_EXIT_DONE;
}

static void fail_command(void)
{
    CHECK_I64(spsh__cli_run(fail_under_progress, 0, NULL), SPSH_EXIT_FAILED);
}

/* Run stop_under_progress in a child. Returns its wait status. */
static int stop_child(int number, int watches)
{
    int status = 0;
    stop_signal = number;
    const pid_t child = fork();
    if (child == 0)
        _exit(spsh__cli_run(stop_under_progress, watches, NULL));
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* In a child: the signal ends the process, whether or not the command handles it. */
static void stop_command(void)
{
    for (int watches = 0; watches <= 1; watches++) {
        const int status = stop_child(watches != 0 ? SIGTERM : SIGINT, watches);
        CHECK(WIFSIGNALED(status));
        CHECK_I64(WTERMSIG(status), watches != 0 ? SIGTERM : SIGINT);
    }
}

/* A command that watches for SIGUSR1 exits with 75. Otherwise the signal ends the process. */
static void warn_command(void)
{
    int status = stop_child(SIGUSR1, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    status = stop_child(SIGUSR1, 1);
    CHECK(WIFEXITED(status));
    CHECK_I64(WEXITSTATUS(status), SPSH_EXIT_STOPPED);
}

static void test_progress(void)
{
    char got[1024];
    on_terminal(show_progress, got, sizeof(got));
    CHECK_STR(got, "\r\033[Kpack: 1,000 of 1,001 files, 10/s, ETA 0:00:00, 3 rejected"
                   "\r\033[Kspeechshard: a message\r\n"
                   "\r\033[Kpack: 1.00 kB of 1.00 kB, 10 B/s"
                   "\r\033[K");
}

static void test_progress_is_cleared(void)
{
#define LINE  "\r\033[Keval: 500 files, 5/s"
#define CLEAR "\r\033[K"
    char got[1024];
    on_terminal(print_under_progress, got, sizeof(got));
    CHECK_STR(got, LINE CLEAR "a result\r\n\r\033[Keval: 600 files, 6/s" CLEAR);
    on_terminal(fail_command, got, sizeof(got));
    CHECK_STR(got, LINE CLEAR);
    on_terminal(warn_command, got, sizeof(got));
    on_terminal(stop_command, got, sizeof(got));
    CHECK_STR(got, LINE CLEAR LINE CLEAR);
#undef LINE
#undef CLEAR
}

TEST_MAIN(unit_cli)
{
    RUN(test_options);
    RUN(test_numbers);
    RUN(test_text);
    RUN(test_paths);
    RUN(test_long_paths);
    RUN(test_json);
    RUN(test_table);
    RUN(test_progress);
    RUN(test_progress_is_cleared);
    return TEST_RESULT();
}
