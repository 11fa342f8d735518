/* cmd_plan.c: `speechshard plan`: predict training with these options, only from the index.
 *
 * Large datasets are not read completely. The first windows of an epoch, about a million
 * utterances, predict the others, because every window is a similar sample of the whole. --whole
 * reads all windows.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "commands.h"
#include "print/plan_out.h"
#include "print/show_augment.h"

enum { LOOKED_AT_MAX = 1 << 20, WORDS_MAX = 128 };

/* ---- reading an epoch ---- */

/* Convert a duration to values of one channel, rounded up: a batch rounds up each item. */
static uint64_t values_of(uint64_t microseconds, uint32_t rate_hz)
{
    return (uint64_t)((double)microseconds * rate_hz / 1e6) + 1;
}

static void conclude(spsh__plan_summary *s)
{
    const spsh__plan_words *w = s->words;
    const uint32_t rate_hz = spsh_plan_info_get(s->plan)->sample_rate_hz_max;
    s->estimated = s->report.window_count < s->report.windows_total;
    s->batch_count = s->report.batch_count;
    /* Window sizes differ by at most one utterance. */
    if (s->estimated)
        s->batch_count =
            (uint64_t)((double)s->batch_count * s->report.windows_total / s->report.window_count +
                       0.5);
    s->step_batches = w->virtual_world_size != 0 ? w->virtual_world_size : w->world_size;
    const uint64_t last = s->batch_count % s->step_batches;
    s->step_count = s->batch_count / s->step_batches;
    if (last != 0 && w->drop_last) {
        s->dropped_batches = last;
    } else if (last != 0) {
        s->step_count++;
        s->missing_batches = s->step_batches - last;
    }
    s->int16_bytes = 2 * values_of(s->report.batch_microseconds_max, rate_hz);
    s->float32_bytes = 4 * values_of(s->report.batch_padded_microseconds_max, rate_hz);
}

static void free_summary(spsh__plan_summary *s)
{
    free(s->domains);
    spsh_plan_close(s->plan);
}

/* Fill in the summary s, whose label, words, datasets, and epoch are set. */
static int summarize(spsh__plan_summary *s, bool whole)
{
    spsh__plan_request request;
    spsh_error err = SPSH_ERROR_INIT;
    const double begin = spsh__cli_now_s();
    int rc = spsh__plan_request_make("plan", s->words, &request);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    const uint32_t window = request.plan.window_utterances != 0 ? request.plan.window_utterances
                                                                : SPSH_PLAN_WINDOW_DEFAULT;
    const uint32_t windows_max = window < LOOKED_AT_MAX ? LOOKED_AT_MAX / window : 1;
    spsh_status status = spsh_plan_open((const spsh_dataset *const *)s->datasets->items,
                                        s->datasets->count, &request.plan, &s->plan, &err);
    spsh__plan_request_free(&request);
    if (status != SPSH_OK)
        return spsh__plan_fail("plan", &err);
    s->domains = (spsh_domain_report *)calloc((size_t)spsh_plan_info_get(s->plan)->domain_count + 1,
                                              sizeof(*s->domains));
    if (s->domains == NULL)
        return spsh__cli_fail_memory();
    s->report = (spsh_epoch_report)SPSH_EPOCH_REPORT_INIT;
    status =
        spsh_plan_report(s->plan, s->epoch, whole ? 0 : windows_max, &s->report, s->domains, &err);
    if (status != SPSH_OK)
        return spsh__plan_fail("plan", &err);
    s->seconds = spsh__cli_now_s() - begin;
    conclude(s);
    return SPSH_EXIT_DONE;
}

static int print_json(const spsh__plan_summary *summaries, size_t count, bool compared)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh_json *json = spsh__json_new();
    if (compared)
        spsh__json_begin_array(json, "settings");
    for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
        if (compared)
            spsh__json_begin_object(json, NULL);
        rc = spsh__plan_put(json, &summaries[i], &err);
        if (compared)
            spsh__json_end(json);
    }
    if (compared)
        spsh__json_end(json);
    return spsh__cli_json_indented(json, rc, NULL, &err);
}

/* ---- --compare ---- */

/* Split text at blanks into argv, whose first word is the name of the command. Quotes keep blanks,
 * as in a shell. Returns the number of words; 0 if there are too many or a quote is not closed. */
static int cut_words(char *text, char *argv[WORDS_MAX])
{
    static char name[] = "plan";
    int count = 0;
    char *from = text;
    argv[count++] = name;
    for (;;) {
        char quote = '\0';
        from += strspn(from, " \t\n");
        if (*from == '\0')
            return count;
        if (count == WORDS_MAX)
            return 0;
        char *to = from;
        argv[count++] = to;
        for (; *from != '\0' && (quote != '\0' || strchr(" \t\n", *from) == NULL); from++) {
            if (quote == '\0' && (*from == '\'' || *from == '"'))
                quote = *from;
            else if (*from == quote)
                quote = '\0';
            else
                *to++ = *from;
        }
        if (quote != '\0')
            return 0;
        from += *from != '\0' ? 1 : 0;
        *to = '\0';
    }
}

/* Parse the common options, then the options of one --compare, which override them. text is split
 * in place and borrowed. */
static int parse_setting(const spsh__plan_words *common, const char *label, char *text,
                         spsh__plan_words *ret_words)
{
    char *argv[WORDS_MAX];
    spsh_cli_option options[SPSH__PLAN_OPTION_COUNT + 1];
    spsh_cli_args args;
    *ret_words = *common;
    spsh__plan_options_list(ret_words, options);
    options[SPSH__PLAN_OPTION_COUNT] = (spsh_cli_option)SPSH_CLI_OPTIONS_END;
    const spsh_cli_command command = {
        "plan", "", "", "one setting", NULL, "speechshard plan --help\n", options};
    int argc = cut_words(text, argv);
    if (argc == 0)
        return spsh__cli_usage("plan",
                               "--compare: '%s' lacks a closing quote, or has more than %d words",
                               label, WORDS_MAX - 1);
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc == SPSH_CLI_RUN ? SPSH_EXIT_DONE : rc;
}

typedef struct request {
    spsh__plan_words words;
    spsh_cli_texts compare;
    uint64_t epoch;
    bool whole, json;
    spsh__show_request augment; /* id NULL: the plan is shown */
} request;

/* True if one --compare is empty: the baseline then has its row at that position. */
static bool has_baseline(const spsh_cli_texts *compare)
{
    size_t i = 0;
    while (i < compare->count && compare->items[i][0] != '\0')
        i++;
    return i < compare->count;
}

static int compare(const request *r, const spsh__datasets *datasets)
{
    const size_t count = r->compare.count + 1; /* the first one is the baseline */
    size_t first = has_baseline(&r->compare) ? 1 : 0;
    int rc = SPSH_EXIT_DONE;
    spsh__plan_summary *summaries = (spsh__plan_summary *)calloc(count, sizeof(*summaries));
    spsh__plan_words *words = (spsh__plan_words *)calloc(count, sizeof(*words));
    char **texts = (char **)calloc(count, sizeof(*texts));
    if (summaries == NULL || words == NULL || texts == NULL) {
        rc = spsh__cli_fail_memory();
        goto out;
    }
    /* Parse all settings before the first plan is opened, so that a mistake is reported at once. */
    for (size_t i = 0; i < count && rc == SPSH_EXIT_DONE; i++) {
        const char *label = i == 0 ? "" : r->compare.items[i - 1];
        texts[i] = strdup(label);
        rc = texts[i] == NULL ? spsh__cli_fail_memory()
                              : parse_setting(&r->words, label, texts[i], &words[i]);
        summaries[i].label = label;
    }
    for (size_t i = first; i < count && rc == SPSH_EXIT_DONE; i++) {
        summaries[i].words = &words[i];
        summaries[i].datasets = datasets;
        summaries[i].epoch = r->epoch;
        rc = summarize(&summaries[i], r->whole);
        if (rc != SPSH_EXIT_DONE && i > 0) {
            spsh__cli_error("the error above is from --compare '%s'", summaries[i].label);
        } else if (rc != SPSH_EXIT_DONE) { /* the other settings may be valid */
            spsh__cli_error(
                "the error above is from the options outside --compare; the table omits their row");
            first = 1;
            rc = SPSH_EXIT_DONE;
        }
    }
    if (rc == SPSH_EXIT_DONE)
        rc = r->json ? print_json(summaries + first, count - first, true)
                     : spsh__plan_print_compared(summaries + first, count - first);
    for (size_t i = 0; i < count; i++) {
        free_summary(&summaries[i]);
        free(texts[i]);
    }
out:
    free(texts);
    free(words);
    free(summaries);
    return rc;
}

static int show(const request *r, const spsh__datasets *datasets)
{
    spsh__plan_summary s = {.words = &r->words, .datasets = datasets, .epoch = r->epoch};
    int rc = summarize(&s, r->whole);
    if (rc == SPSH_EXIT_DONE)
        rc = r->json ? print_json(&s, 1, false) : spsh__plan_print(&s);
    free_summary(&s);
    return rc;
}

/* ---- --show-augment ---- */

static int show_augment(request *r, const spsh__datasets *datasets)
{
    r->augment.words.seed = r->words.seed;
    r->augment.sample_rate_hz = (uint32_t)r->words.sample_rate_hz;
    r->augment.first_epoch = r->epoch;
    r->augment.json = r->json;
    return spsh__show_augment(&r->augment, datasets);
}

static int check_augment(const request *r)
{
    const spsh__hear_words *w = &r->augment.words;
    const bool has_words =
        w->augment != NULL || w->features != NULL || w->noises.count > 0 || w->rooms.count > 0;
    if (r->augment.id == NULL && has_words)
        return spsh__cli_usage("plan",
                               "--augment, --features, --noise, and --room need --show-augment ID");
    if (r->augment.id != NULL && w->augment == NULL)
        return spsh__cli_usage("plan", "--show-augment needs --augment TEXT");
    if (r->augment.id != NULL && r->compare.count > 0)
        return spsh__cli_usage("plan", "--show-augment and --compare exclude each other");
    return SPSH_EXIT_DONE;
}

/* ---- the command ---- */

int spsh__cmd_plan(int argc, char **argv)
{
    request r = {.words = SPSH__PLAN_WORDS_INIT, .augment = {.epoch_count = 1}};
    /* clang-format off */
    const spsh_cli_option own[] = {
        {"epoch",   0, SPSH_CLI_COUNT, "N",         "plan this epoch (default: 0)",   &r.epoch,   0, 0},
        {"compare", 0, SPSH_CLI_TEXTS, "'OPTIONS'",
         "print a table: a row without and one with these options, which are added to the others; may be repeated", &r.compare, 0, 0},
        {"whole",   0, SPSH_CLI_FLAG,  NULL,
         "plan the whole epoch, instead of about a million utterances", &r.whole,   0, 0},
        {"json",    0, SPSH_CLI_FLAG,  NULL,        "print one JSON object",   &r.json,    0, 0},
        {"show-augment", 0, SPSH_CLI_TEXT, "ID",
         "instead of the plan, describe the augmentation of this utterance; with --json one line per epoch", &r.augment.id, 0, 0},
        {"augment", 0, SPSH_CLI_TEXT, "TEXT",
         "a preset with changes, such as speed-perturb,time_masks=2",
         &r.augment.words.augment, 0, 0},
        {"features", 0, SPSH_CLI_TEXT, "TEXT",
         "features that masks apply to (default: kaldi-fbank at the utterance's rate)",
         &r.augment.words.features, 0, 0},
        {"noise", 0, SPSH_CLI_TEXTS, "DATASET", "draw noises from this dataset; may be repeated",
         &r.augment.words.noises, 0, 0},
        {"room", 0, SPSH_CLI_TEXTS, "DATASET", "draw room impulse responses from this dataset; may be repeated",
         &r.augment.words.rooms, 0, 0},
        {"epochs", 0, SPSH_CLI_COUNT, "N", "number of epochs, from --epoch on (default: 1)",
         &r.augment.epoch_count, 1, UINT32_MAX},
        SPSH_CLI_OPTIONS_END,
    };
    /* clang-format on */
    spsh_cli_option options[SPSH__PLAN_OPTION_COUNT + sizeof(own) / sizeof(own[0])];
    spsh__plan_options_list(&r.words, options);
    memcpy(&options[SPSH__PLAN_OPTION_COUNT], own, sizeof(own));
    const spsh_cli_command command = {
        "plan",
        "DATASET...",
        NULL,
        "predict training with these options, from the index only",
        "Prints the served utterances and the reasons why others are not served, batches, padding, "
        "memory, and the share of each domain. The options are the loader's.",
        "speechshard plan corpus.spsh --max-seconds 600\n"
        "speechshard plan a.spsh b.spsh --alpha 0.5 --min-duration 1\n"
        "speechshard plan corpus.spsh --compare '--max-seconds 300' \\\n"
        "    --compare '--max-padded-seconds 300 --shuffle 64'\n"
        "speechshard plan corpus.spsh --show-augment en/hello --augment specaugment-ld --epochs "
        "3\n",
        options,
    };
    spsh_cli_args args;
    spsh__datasets datasets;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    rc = check_augment(&r);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__datasets_open("plan", &args, &datasets);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    if (r.augment.id != NULL)
        rc = show_augment(&r, &datasets);
    else
        rc = r.compare.count > 0 ? compare(&r, &datasets) : show(&r, &datasets);
    spsh__datasets_close(&datasets);
    return spsh__cli_finish(rc);
}
