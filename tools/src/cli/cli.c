/* cli.c: option parsing and help, both from the command's table of options.
 *
 * argv is permuted in place: each operand moves to the front of the arguments read so far, so that
 * nothing is allocated. The message for a wrong argument suggests a valid one: the nearest option
 * or word, the allowed words, or the range.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/decimal.h"
#include "speechshard/inside.h"
#include "speechshard/nearest_word.h"

enum {
    WORD_BYTES_MAX = 64,
    OPTIONS_MAX = 128, /* options of a command that are compared to find the nearest one */
    HELP_COLUMN = 24,  /* column at which the help of an option begins */
    HELP_WIDTH = 98,
    OPERAND_KINDS_MAX = 8, /* maximum number of words in an operands pattern */
    GIVEN_MAX = 2 * SPSH_CLI_TEXTS_MAX
};

static bool flag_help, flag_version, flag_quiet,
    flag_verbose; /* flags of the process's only command line */

static const spsh_cli_option common_options[] = {
    {"quiet", 'q', SPSH_CLI_FLAG, NULL, "print errors only", &flag_quiet, 0, 0},
    {"verbose", 'v', SPSH_CLI_FLAG, NULL,
     "also print the reasons for choices, such as why no GPU is used", &flag_verbose, 0, 0},
    {"help", 'h', SPSH_CLI_FLAG, NULL, "print this help", &flag_help, 0, 0},
    {"version", 0, SPSH_CLI_FLAG, NULL, "print name and version", &flag_version, 0, 0},
    SPSH_CLI_OPTIONS_END,
};

static spsh_cli_given given[GIVEN_MAX];
static size_t given_count;

size_t spsh__cli_given_options(const spsh_cli_given **ret_given)
{
    *ret_given = given;
    return given_count;
}

static const char *memory_options; /* see spsh__cli_memory_options */

const char *spsh__cli_memory_options(void)
{
    return memory_options;
}

static bool has_option(const spsh_cli_command *command, const char *name)
{
    const spsh_cli_option *o = command->options;
    while (o->long_name != NULL && strcmp(o->long_name, name) != 0)
        o++;
    return o->long_name != NULL;
}

static void note_memory_options(const spsh_cli_command *command)
{
    const bool has_memory = has_option(command, "memory");
    if (has_option(command, "jobs"))
        memory_options = has_memory ? "--memory or --jobs" : "--jobs";
    else
        memory_options = has_memory ? "--memory" : NULL;
}

bool spsh__cli_is_quiet(void)
{
    return flag_quiet;
}

bool spsh__cli_is_verbose(void)
{
    return flag_verbose && !flag_quiet;
}

/* ---- values ---- */

static int set_choice(const char *command, const spsh_cli_option *option, const char *text)
{
    char words[8 * WORD_BYTES_MAX];
    const char *word_list[16] = {NULL};
    size_t count = 0;
    char *save = NULL;
    snprintf(words, sizeof(words), "%s", option->argument);
    for (char *word = strtok_r(words, "|", &save); word != NULL && count + 1 < 16;
         word = strtok_r(NULL, "|", &save)) {
        if (strcmp(word, text) == 0) {
            *(int *)option->value = (int)count;
            return SPSH_CLI_RUN;
        }
        word_list[count++] = word;
    }
    char allowed[8 * WORD_BYTES_MAX];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof(allowed); i++)
        used += (size_t)snprintf(allowed + used, sizeof(allowed) - used, "%s%s",
                                 i == 0           ? ""
                                 : i + 1 == count ? " or "
                                                  : ", ",
                                 word_list[i]);
    const char *nearest = spsh_nearest_word(text, strlen(text), word_list);
    return spsh__cli_usage(command, "--%s: '%s' is not %s%s%s%s", option->long_name, text, allowed,
                           nearest == NULL ? "" : "; did you mean '",
                           nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
}

static void print_limit(const spsh_cli_option *option, uint64_t limit, char dst[SPSH_HUMAN_BYTES])
{
    static const char suffixes[] = "BKMGT";
    size_t suffix = 0;
    while (option->kind == SPSH_CLI_SIZE && suffix < 4 && limit != 0 && limit % 1024 == 0) {
        limit /= 1024;
        suffix++;
    }
    snprintf(dst, SPSH_HUMAN_BYTES, "%llu%.*s", (unsigned long long)limit, suffix == 0 ? 0 : 1,
             &suffixes[suffix]);
}

static int set_number(const char *command, const spsh_cli_option *option, const char *text)
{
    uint64_t value = 0;
    char low[SPSH_HUMAN_BYTES], high[SPSH_HUMAN_BYTES];
    bool is_size = option->kind == SPSH_CLI_SIZE;
    const char *at = text;
    if (is_size ? !spsh_size_parse(text, &value)
                : !spsh__take_digits(&at, UINT64_MAX, &value) || *at != '\0')
        return spsh__cli_usage(command, "--%s: '%s' is not %s", option->long_name, text,
                               is_size ? "a size, such as 512M or 1G" : "a whole number");
    print_limit(option, option->min, low);
    print_limit(option, option->max, high);
    if (value < option->min && option->max == 0)
        return spsh__cli_usage(command, "--%s: %s is too small; it must be at least %s",
                               option->long_name, text, low);
    if (value < option->min || (option->max != 0 && value > option->max))
        return spsh__cli_usage(command, "--%s: %s is out of range; it must be %s to %s",
                               option->long_name, text, low, high);
    *(uint64_t *)option->value = value;
    return SPSH_CLI_RUN;
}

/* Digits with at most one point: neither signs nor exponents, hexadecimal or the like. */
static int set_real(const char *command, const spsh_cli_option *option, const char *text)
{
    size_t length = strlen(text), digits = strspn(text, "0123456789");
    size_t fraction = text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0;
    size_t point = text[digits] == '.' ? 1 : 0;
    if (digits + fraction == 0 || digits + point + fraction != length)
        return spsh__cli_usage(command, "--%s: '%s' is not a number, such as 0.5",
                               option->long_name, text);
    double value = 0;
    if (spsh_decimal_scan(text, length, &value) != length || value < (double)option->min ||
        (option->max != 0 && value > (double)option->max)) {
        char high[SPSH_HUMAN_BYTES];
        snprintf(high, sizeof(high), " to %llu", (unsigned long long)option->max);
        return spsh__cli_usage(command, "--%s: %s is out of range; it must be %llu%s",
                               option->long_name, text, (unsigned long long)option->min,
                               option->max == 0 ? " or more" : high);
    }
    *(double *)option->value = value;
    return SPSH_CLI_RUN;
}

static int add_text(const char *command, const spsh_cli_option *option, const char *text)
{
    spsh_cli_texts *texts = (spsh_cli_texts *)option->value;
    if (texts->count == SPSH_CLI_TEXTS_MAX)
        return spsh__cli_usage(command, "--%s: at most %d of them", option->long_name,
                               SPSH_CLI_TEXTS_MAX);
    texts->items[texts->count++] = text;
    return SPSH_CLI_RUN;
}

static int set_value(const char *command, const spsh_cli_option *option, const char *text)
{
    if (given_count == GIVEN_MAX)
        return spsh__cli_usage(command, "more than %d options", GIVEN_MAX);
    given[given_count++] = (spsh_cli_given){option, text};
    switch (option->kind) {
    case SPSH_CLI_FLAG: *(bool *)option->value = true; return SPSH_CLI_RUN;
    case SPSH_CLI_CHOICE: return set_choice(command, option, text);
    case SPSH_CLI_COUNT:
    case SPSH_CLI_SIZE: return set_number(command, option, text);
    case SPSH_CLI_REAL: return set_real(command, option, text);
    case SPSH_CLI_TEXTS: return add_text(command, option, text);
    case SPSH_CLI_TEXT: break;
    }
    if (text[0] == '\0')
        return spsh__cli_usage(command, "--%s: %s must not be empty", option->long_name,
                               option->argument);
    *(const char **)option->value = text;
    return SPSH_CLI_RUN;
}

/* ---- the command line ---- */

typedef struct parser {
    const spsh_cli_command *command;
    int argc;
    char **argv;
    int at; /* the argument being read */
} parser;

static const spsh_cli_option *find_option(const parser *p, const char *name, size_t length,
                                          char short_name)
{
    const spsh_cli_option *lists[2] = {p->command->options, common_options};
    for (size_t list = 0; list < 2; list++) {
        for (const spsh_cli_option *o = lists[list]; o->long_name != NULL; o++) {
            if (short_name != 0
                    ? o->short_name == short_name
                    : strlen(o->long_name) == length && memcmp(o->long_name, name, length) == 0)
                return o;
        }
    }
    return NULL;
}

/* Take the value of an option: the attached text, else the next argument. */
static int take_value(parser *p, const spsh_cli_option *option, const char *attached)
{
    const char short_name[] = {'-', option->short_name, ',', ' ', '\0'};
    if (attached == NULL && p->at + 1 >= p->argc)
        return spsh__cli_usage(p->command->name, "%s--%s needs a value: %s",
                               option->short_name != 0 ? short_name : "", option->long_name,
                               option->argument);
    return set_value(p->command->name, option, attached != NULL ? attached : p->argv[++p->at]);
}

static const char *nearest_option(const parser *p, const char *name)
{
    const spsh_cli_option *lists[2] = {p->command->options, common_options};
    const char *names[OPTIONS_MAX + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < 2; i++)
        for (const spsh_cli_option *o = lists[i]; o->long_name != NULL && count < OPTIONS_MAX; o++)
            names[count++] = o->long_name;
    return spsh_nearest_word(name, strlen(name), names);
}

static int parse_long(parser *p, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals == NULL ? strlen(text) : (size_t)(equals - text);
    const spsh_cli_option *option = find_option(p, text, length, 0);
    if (option == NULL) {
        char name[WORD_BYTES_MAX];
        snprintf(name, sizeof(name), "%.*s",
                 (int)(length < WORD_BYTES_MAX ? length : WORD_BYTES_MAX), text);
        const char *nearest = nearest_option(p, name);
        return spsh__cli_usage(p->command->name, "unknown option '--%s'%s%s%s", name,
                               nearest == NULL ? "" : "; did you mean '--",
                               nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
    }
    if (option->kind == SPSH_CLI_FLAG) {
        if (equals != NULL)
            return spsh__cli_usage(p->command->name, "--%s takes no value", option->long_name);
        return set_value(p->command->name, option, NULL);
    }
    return take_value(p, option, equals == NULL ? NULL : equals + 1);
}

/* -q, -qj, -oFILE, -o FILE */
static int parse_short(parser *p, const char *text)
{
    for (; *text != '\0'; text++) {
        const spsh_cli_option *option = find_option(p, NULL, 0, *text);
        if (option == NULL)
            return spsh__cli_usage(p->command->name, "unknown option '-%c'", *text);
        if (option->kind != SPSH_CLI_FLAG)
            return take_value(p, option, text[1] == '\0' ? NULL : text + 1);
        int rc = set_value(p->command->name, option, NULL);
        if (rc != SPSH_CLI_RUN)
            return rc;
    }
    return SPSH_CLI_RUN;
}

/* Parse a pattern such as "DATASET... [ACTION]": names[i] gets the i-th word without brackets and
 * dots. *ret_max is -1 for any number. */
static int read_pattern(const char *pattern, char names[OPERAND_KINDS_MAX][WORD_BYTES_MAX],
                        int *ret_min, int *ret_max)
{
    int count = 0;
    *ret_min = 0;
    *ret_max = 0;
    while (*pattern != '\0' && count < OPERAND_KINDS_MAX) {
        size_t length = strcspn(pattern, " ");
        bool optional = pattern[0] == '[';
        bool many = length > 3 && memmem(pattern, length, "...", 3) != NULL;
        size_t begin = optional ? 1 : 0;
        size_t end = begin + strcspn(pattern + begin, " ].");
        snprintf(names[count], WORD_BYTES_MAX, "%.*s", (int)(end - begin), pattern + begin);
        count++;
        *ret_min += optional ? 0 : 1;
        *ret_max = many || *ret_max < 0 ? -1 : *ret_max + 1;
        pattern += length;
        pattern += strspn(pattern, " ");
    }
    return count;
}

static int check_operands(const spsh_cli_command *command, const spsh_cli_args *args)
{
    char names[OPERAND_KINDS_MAX][WORD_BYTES_MAX];
    int min = 0, max = 0;
    read_pattern(command->operands, names, &min, &max);
    if (args->operand_count < min)
        return spsh__cli_usage(command->name, "%s is missing", names[args->operand_count]);
    if (max >= 0 && args->operand_count > max)
        return spsh__cli_usage(command->name, "unexpected argument '%s'", args->operands[max]);
    return SPSH_CLI_RUN;
}

static int line_bytes(const char *line)
{
    return (int)strcspn(line, "\n");
}

static const char *line_after(const char *line)
{
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

/* Print text in lines of at most HELP_WIDTH columns, the first one from column `indent` on. */
static void print_wrapped(const char *text, int indent)
{
    size_t at = (size_t)indent;
    for (const char *word = text; *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (at + 1 + length > HELP_WIDTH && word != text) {
            printf("\n%*s", indent, "");
            at = (size_t)indent;
        } else if (word != text) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)length, word);
        at += length;
        word += length + (word[length] == ' ' ? 1 : 0);
    }
    putchar('\n');
}

static void print_option(const spsh_cli_option *option)
{
    char head[8 * WORD_BYTES_MAX];
    snprintf(head, sizeof(head), "  %c%c%c --%s%s%s", option->short_name == 0 ? ' ' : '-',
             option->short_name == 0 ? ' ' : option->short_name,
             option->short_name == 0 ? ' ' : ',', option->long_name,
             option->argument == NULL ? "" : " ", option->argument == NULL ? "" : option->argument);
    if (strlen(head) < HELP_COLUMN)
        printf("%-*s", HELP_COLUMN, head);
    else
        printf("%s\n%*s", head, HELP_COLUMN, "");
    print_wrapped(option->help, HELP_COLUMN);
}

void spsh__cli_print_indented(const char *text, const char *indent)
{
    for (const char *line = text; *line != '\0'; line = line_after(line))
        printf("%s%.*s\n", line_bytes(line) == 0 ? "" : indent, line_bytes(line), line);
}

static int print_help(const spsh_cli_command *command)
{
    if (command->synopsis == NULL) {
        printf("usage: speechshard %s %s%s[options]\n", command->name, command->operands,
               command->operands[0] == '\0' ? "" : " ");
    } else {
        const char *lead = "usage:";
        for (const char *line = command->synopsis; *line != '\0'; line = line_after(line)) {
            printf("%s speechshard %s %.*s\n", lead, command->name, line_bytes(line), line);
            lead = "      ";
        }
    }
    printf("\n%c%s.\n",
           command->summary[0] >= 'a' ? command->summary[0] - ('a' - 'A') : command->summary[0],
           command->summary + 1);
    if (command->description != NULL) {
        putchar('\n');
        print_wrapped(command->description, 0);
    }
    printf("\nOptions:\n");
    for (const spsh_cli_option *o = command->options; o->long_name != NULL; o++)
        print_option(o);
    for (const spsh_cli_option *o = common_options; o->long_name != NULL; o++)
        print_option(o);
    printf("\nExamples:\n");
    spsh__cli_print_indented(command->examples, "  ");
    return spsh__cli_finish(SPSH_EXIT_DONE);
}

/* --help and --version take effect where they appear, before later mistakes in the command line. */
static int answer_common(const spsh_cli_command *command)
{
    if (flag_help)
        return print_help(command);
    if (flag_version) {
        printf("speechshard %s\n", spsh_version());
        return spsh__cli_finish(SPSH_EXIT_DONE);
    }
    return SPSH_CLI_RUN;
}

int spsh__cli_parse(const spsh_cli_command *command, int argc, char **argv, spsh_cli_args *ret_args)
{
    parser p = {command, argc, argv, 1};
    spsh_cli_args args = {argv + 1, 0};
    bool options_ended = false;
    given_count = 0;
    note_memory_options(command);
    for (; p.at < argc; p.at++) {
        char *text = argv[p.at];
        int rc = SPSH_CLI_RUN;
        if (options_ended || text[0] != '-' || text[1] == '\0')
            args.operands[args.operand_count++] = text;
        else if (strcmp(text, "--") == 0)
            options_ended = true;
        else if (text[1] == '-')
            rc = parse_long(&p, text + 2);
        else
            rc = parse_short(&p, text + 1);
        if (rc == SPSH_CLI_RUN)
            rc = answer_common(command);
        if (rc != SPSH_CLI_RUN)
            return rc;
    }
    int rc = check_operands(command, &args);
    if (rc == SPSH_CLI_RUN)
        *ret_args = args;
    return rc;
}
