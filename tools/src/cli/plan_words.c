/* plan_words.c: convert command-line options to spsh_plan_options, and open datasets.
 *
 * Lists of names are copied once and cut at their commas; the names point into the copy.
 */
#include "plan_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "selection.h"
#include "speechshard/decimal.h"
#include "speechshard/options.h"

enum { RATE_HZ_MAX = 768000 };

void spsh__plan_options_list(spsh__plan_words *words, spsh_cli_option *options)
{
    spsh__plan_words *w = words;
    /* clang-format off */
    const spsh_cli_option list[SPSH__PLAN_OPTION_COUNT] = {
        {"seed", 's', SPSH_CLI_COUNT, "N", "seed of the order (default: 0)", &w->seed, 0, 0},
        {"max-seconds", 0, SPSH_CLI_REAL, "S",
         "maximum sum of durations in a batch, in seconds (default: 600 if no limit of a batch is set)", &w->batch_seconds_max, 0, 0},
        {"max-padded-seconds", 0, SPSH_CLI_REAL, "S",
         "maximum of the longest duration times the number of utterances (default: no limit)", &w->batch_padded_seconds_max, 0, 0},
        {"max-utterances", 0, SPSH_CLI_COUNT, "N", "maximum number of utterances in a batch (default: no limit)", &w->batch_utterances_max, 0,
         UINT32_MAX},
        {"alpha", 0, SPSH_CLI_REAL, "A",
         "make a domain's share proportional to its size to the power of A; 1: proportional, 0: equal (default: 1)", &w->alpha, 0, 0},
        {"weight", 0, SPSH_CLI_TEXTS, "DOMAIN=W",
         "set a domain's share instead of using --alpha; repeat it for each domain to serve", &w->weights, 0, 0},
        {"unit", 0, SPSH_CLI_CHOICE, "seconds|utterances|tokens", "unit of the shares (default: seconds)",
         &w->unit, 0, 0},
        {"split", 0, SPSH_CLI_TEXT, "S,...", "serve only these splits", &w->splits, 0, 0},
        {"domain", 'd', SPSH_CLI_TEXT, "D,...", "serve only these domains", &w->domains, 0, 0},
        {"language", 0, SPSH_CLI_TEXT, "L,...", "serve only these languages", &w->languages, 0, 0},
        {"min-duration", 0, SPSH_CLI_REAL, "S", "minimum duration of an utterance in seconds (default: no limit)",
         &w->utterance_seconds_min, 0, 0},
        {"max-duration", 0, SPSH_CLI_REAL, "S", "maximum duration of an utterance in seconds (default: no limit)",
         &w->utterance_seconds_max, 0, 0},
        {"max-per-speaker", 0, SPSH_CLI_COUNT, "N", "serve at most N utterances per speaker (default: no limit)",
         &w->speaker_utterances_max, 0, UINT32_MAX},
        {"duplicates", 0, SPSH_CLI_CHOICE, "all|once",
         "serve all utterances with equal audio, or only the first (default: all)", &w->duplicates, 0, 0},
        {"long", 0, SPSH_CLI_CHOICE, "error|drop|split",
         "for an utterance that is longer than a batch: fail, drop it, or split it (default: error)", &w->long_utterances, 0, 0},
        {"window", 0, SPSH_CLI_COUNT, "N", "number of utterances from which batches of similar durations are formed (default: 65536)",
         &w->window_utterances, 1, SPSH_PLAN_WINDOW_MAX},
        {"shuffle", 0, SPSH_CLI_TEXT, "global|none|K",
         "shuffle single utterances, keep the dataset's order, or shuffle runs of K adjacent utterances, so that a disk can read ahead (default: global)", &w->shuffle, 0, 0},
        {"world-size", 0, SPSH_CLI_COUNT, "N", "number of ranks that share the batches (default: 1)", &w->world_size, 1, UINT32_MAX},
        {"virtual-world-size", 0, SPSH_CLI_COUNT, "N",
         "batches per step, for any number of ranks (default: the number of ranks)", &w->virtual_world_size, 0, UINT32_MAX},
        {"drop-last", 0, SPSH_CLI_FLAG, NULL, "omit an epoch's last step if it is not full",
         &w->drop_last, 0, 0},
        {"rate", 0, SPSH_CLI_COUNT, "HZ", "resample to this rate (default: no resampling)", &w->sample_rate_hz, 1,
         RATE_HZ_MAX},
        {"output", 0, SPSH_CLI_CHOICE, "int16|float32",
         "ragged int16, or float32 padded to the longest (default: int16)", &w->output, 0, 0},
        {"cache", 0, SPSH_CLI_TEXT, "DIR", "store the results of the index scan there for later runs",
         &w->cache_dir, 0, 0},
    };
    /* clang-format on */
    memcpy(options, list, sizeof(list));
}

/* ---- names ---- */

static size_t count_names(const char *list)
{
    size_t count = list == NULL ? 0 : 1;
    for (; list != NULL && *list != '\0'; list++)
        count += *list == ',' ? 1 : 0;
    return count;
}

static size_t text_bytes(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

/* Allocate one block for all names, one for the pointers to the names of lists, and one for the
 * weights. */
static bool take_memory(const spsh__plan_words *w, spsh__plan_request *r)
{
    size_t names = count_names(w->splits) + count_names(w->domains) + count_names(w->languages);
    size_t bytes = text_bytes(w->splits) + text_bytes(w->domains) + text_bytes(w->languages);
    for (size_t i = 0; i < w->weights.count; i++)
        bytes += text_bytes(w->weights.items[i]);
    r->text = (char *)malloc(bytes + 1);
    r->names = (const char **)calloc(names + 1, sizeof(*r->names));
    r->weights = (spsh_weight *)calloc(w->weights.count + 1, sizeof(*r->weights));
    return r->text != NULL && r->names != NULL && r->weights != NULL;
}

static char *copy_text(const char *source, char **text)
{
    char *copy = *text;
    memcpy(copy, source, strlen(source) + 1);
    *text += strlen(source) + 1;
    return copy;
}

/* Split a comma-separated list into names. Returns the number of names. */
static uint32_t cut_list(const char *list, char **text, const char **names)
{
    uint32_t count = 0;
    char *at = list == NULL ? NULL : copy_text(list, text);
    while (at != NULL) {
        char *comma = strchr(at, ',');
        if (comma != NULL)
            *comma++ = '\0';
        names[count++] = at;
        at = comma;
    }
    return count;
}

static void take_lists(const spsh__plan_words *w, char **text, spsh__plan_request *r)
{
    const char **names = r->names;
    r->plan.splits = names;
    r->plan.split_count = cut_list(w->splits, text, names);
    names += r->plan.split_count;
    r->plan.domains = names;
    r->plan.domain_count = cut_list(w->domains, text, names);
    names += r->plan.domain_count;
    r->plan.languages = names;
    r->plan.language_count = cut_list(w->languages, text, names);
}

/* Parse DOMAIN=W. Splits at the last '=', because a domain may contain '=', but a number cannot. */
static int parse_weight(const char *command, const char *source, char **text,
                        spsh_weight *ret_weight)
{
    char *domain = copy_text(source, text);
    char *equals = strrchr(domain, '=');
    const size_t size = equals == NULL ? 0 : strlen(equals + 1);
    double weight = 0;
    if (size == 0 || spsh_decimal_scan(equals + 1, size, &weight) != size || weight <= 0)
        return spsh__cli_usage(command,
                               "--weight: '%s' is not DOMAIN=W with a number W above 0, such as "
                               "read=0.7",
                               source);
    *equals = '\0';
    *ret_weight = (spsh_weight){domain, SPSH_NONE_U32, weight};
    return SPSH_EXIT_DONE;
}

/* A later weight of the same domain replaces the earlier one. */
static int take_weights(const char *command, const spsh__plan_words *w, char **text,
                        spsh__plan_request *r)
{
    r->plan.weights = r->weights;
    for (size_t i = 0; i < w->weights.count; i++) {
        spsh_weight weight = {"", SPSH_NONE_U32, 0};
        uint32_t at = 0;
        int rc = parse_weight(command, w->weights.items[i], text, &weight);
        if (rc != SPSH_EXIT_DONE)
            return rc;
        while (at < r->plan.weight_count && strcmp(r->weights[at].domain, weight.domain) != 0)
            at++;
        r->plan.weight_count += at == r->plan.weight_count ? 1 : 0;
        r->weights[at] = weight;
    }
    return SPSH_EXIT_DONE;
}

/* ---- the request ---- */

static int take_shuffle(const char *command, const char *text, spsh_plan_options *plan)
{
    uint64_t block = 0;
    if (text == NULL || strcmp(text, "global") == 0)
        return SPSH_EXIT_DONE;
    if (strcmp(text, "none") == 0) {
        plan->flags |= SPSH_PLAN_IN_ORDER;
        return SPSH_EXIT_DONE;
    }
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && block <= UINT32_MAX; at++)
        block = block * 10 + (uint64_t)(*at - '0');
    if (*at != '\0' || block == 0 || block > SPSH_PLAN_WINDOW_MAX)
        return spsh__cli_usage(
            command,
            "--shuffle: '%s' is not global, none, or a number of adjacent utterances from 1 to %u",
            text, (unsigned)SPSH_PLAN_WINDOW_MAX);
    plan->shuffle_block_utterances = (uint32_t)block;
    return SPSH_EXIT_DONE;
}

/* Set the limit of padded batches like the loader. */
static void bound_padding(spsh_plan_options *plan)
{
    if (plan->batch_utterances_max != 0 || plan->batch_padded_seconds_max > 0)
        return;
    if (plan->batch_seconds_max <= 0)
        plan->batch_seconds_max = SPSH_BATCH_SECONDS_DEFAULT;
    plan->batch_padded_seconds_max = plan->batch_seconds_max;
}

int spsh__plan_request_make(const char *command, const spsh__plan_words *words,
                            spsh__plan_request *ret_request)
{
    spsh__plan_request r = {.plan = SPSH_PLAN_OPTIONS_INIT};
    r.plan.seed = words->seed;
    r.plan.unit = (spsh_unit)words->unit;
    r.plan.alpha = words->alpha;
    r.plan.utterance_seconds_min = words->utterance_seconds_min;
    r.plan.utterance_seconds_max = words->utterance_seconds_max;
    r.plan.speaker_utterances_max = (uint32_t)words->speaker_utterances_max;
    r.plan.duplicates = (spsh_duplicates)words->duplicates;
    r.plan.batch_utterances_max = (uint32_t)words->batch_utterances_max;
    r.plan.batch_seconds_max = words->batch_seconds_max;
    r.plan.batch_padded_seconds_max = words->batch_padded_seconds_max;
    r.plan.long_utterances = (spsh_long_utterances)words->long_utterances;
    r.plan.window_utterances = (uint32_t)words->window_utterances;
    r.plan.virtual_world_size = (uint32_t)words->virtual_world_size;
    r.plan.sample_rate_hz = (uint32_t)words->sample_rate_hz;
    r.plan.flags = words->drop_last ? SPSH_PLAN_DROP_LAST : 0;
    r.plan.cache_dir = words->cache_dir;
    if (words->output == SPSH_OUTPUT_FLOAT32)
        bound_padding(&r.plan);
    int rc = take_shuffle(command, words->shuffle, &r.plan);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    if (!take_memory(words, &r)) {
        spsh__plan_request_free(&r);
        return spsh__cli_fail_memory();
    }
    char *text = r.text;
    take_lists(words, &text, &r);
    rc = take_weights(command, words, &text, &r);
    if (rc != SPSH_EXIT_DONE) {
        spsh__plan_request_free(&r);
        return rc;
    }
    *ret_request = r;
    return SPSH_EXIT_DONE;
}

void spsh__plan_request_free(spsh__plan_request *request)
{
    free(request->weights);
    free(request->names);
    free(request->text);
    *request = (spsh__plan_request){.plan = SPSH_PLAN_OPTIONS_INIT};
}

int spsh__plan_fail(const char *command, const spsh_error *err)
{
    static const spsh_option_name names[] = {
        {"batch_seconds_max", "--max-seconds"},
        {"batch_padded_seconds_max", "--max-padded-seconds"},
        {"batch_utterances_max", "--max-utterances"},
        {"utterance_seconds_min", "--min-duration"},
        {"utterance_seconds_max", "--max-duration"},
        {"speaker_utterances_max", "--max-per-speaker"},
        {"long_utterances", "--long"},
        {"window_utterances", "--window"},
        {"virtual_world_size", "--virtual-world-size"},
        {"world_size", "--world-size"},
        {"sample_rate_hz", "--rate"},
        {"decode_threads", "--threads"},
    };
    spsh_error shown = *err;
    spsh_options_rename(&shown, names, sizeof(names) / sizeof(names[0]));
    if (shown.status == SPSH_E_INVALID_ARG || shown.status == SPSH_E_UNKNOWN_NAME)
        return spsh__cli_usage(command, "%s", shown.message);
    return spsh__cli_fail(NULL, &shown);
}

/* ---- datasets ---- */

int spsh__datasets_open_all(const char *const *paths, size_t count, spsh__datasets *ret_datasets)
{
    spsh__datasets all = {(spsh_dataset **)calloc(count + 1, sizeof(spsh_dataset *)), 0};
    int rc = SPSH_EXIT_DONE;
    if (all.items == NULL)
        return spsh__cli_fail_memory();
    for (size_t i = 0; i < count && rc == SPSH_EXIT_DONE; i++) {
        rc = spsh__dataset_open_or_report(paths[i], 0, &all.items[i]);
        all.count += rc == SPSH_EXIT_DONE ? 1 : 0;
    }
    if (rc != SPSH_EXIT_DONE)
        spsh__datasets_close(&all);
    *ret_datasets = all;
    return rc;
}

int spsh__datasets_open(const char *command, const spsh_cli_args *paths,
                        spsh__datasets *ret_datasets)
{
    if (paths->operand_count > (int)SPSH_PLAN_DATASETS_MAX)
        return spsh__cli_usage(command, "at most %u datasets", (unsigned)SPSH_PLAN_DATASETS_MAX);
    return spsh__datasets_open_all((const char *const *)paths->operands,
                                   (size_t)paths->operand_count, ret_datasets);
}

void spsh__datasets_close(spsh__datasets *datasets)
{
    for (uint32_t i = 0; i < datasets->count; i++)
        spsh_dataset_close(datasets->items[i]);
    free(datasets->items);
    *datasets = (spsh__datasets){NULL, 0};
}
