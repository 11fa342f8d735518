/* plan_words.h: command-line options for an order of utterances, for `plan` and `bench`.
 *
 *     spsh__plan_words words = SPSH__PLAN_WORDS_INIT;
 *     spsh_cli_option options[SPSH__PLAN_OPTION_COUNT + 1];
 *     spsh__plan_options_list(&words, options);        // then SPSH_CLI_OPTIONS_END
 *     ... spsh__cli_parse ...
 *     rc = spsh__plan_request_make("plan", &words, &request);
 *     spsh_plan_open(datasets, count, &request.plan, &plan, &err);
 *     spsh__plan_request_free(&request);
 */
#ifndef SPSH_PLAN_WORDS_H
#define SPSH_PLAN_WORDS_H

#include "cli.h"
#include "speechshard/loader.h"

enum { SPSH__PLAN_OPTION_COUNT = 23 };

/** Values from the command line. Strings are borrowed from argv. */
typedef struct spsh__plan_words {
    uint64_t seed, batch_utterances_max, speaker_utterances_max, window_utterances;
    uint64_t world_size, virtual_world_size, sample_rate_hz;
    double batch_seconds_max, batch_padded_seconds_max, alpha;
    double utterance_seconds_min, utterance_seconds_max;
    int unit, duplicates, long_utterances, output; /* values of the enums in sampler.h, loader.h */
    const char *splits, *domains, *languages; /* separated by commas, empty: absent; NULL: all */
    const char *shuffle;                      /* NULL, "global", "none", or a count */
    const char *cache_dir;
    bool drop_last;
    spsh_cli_texts weights; /* DOMAIN=W */
} spsh__plan_words;

/* clang-format off */
#define SPSH__PLAN_WORDS_INIT {.world_size = 1, .alpha = 1.0}
/* clang-format on */

/** Fill the first SPSH__PLAN_OPTION_COUNT options, which write to words. */
void spsh__plan_options_list(spsh__plan_words *words, spsh_cli_option *options);

/** The options for spsh_plan_open and their memory. */
typedef struct spsh__plan_request {
    spsh_plan_options plan;
    char *text;         /* names, stored one after the other */
    const char **names; /* names of splits, domains, languages */
    spsh_weight *weights;
} spsh__plan_request;

/**
 * @param command      for messages
 * @param ret_request  written on success; strings of words must outlive it
 * @return SPSH_EXIT_DONE; SPSH_EXIT_USAGE or SPSH_EXIT_FAILED, reported
 */
int spsh__plan_request_make(const char *command, const spsh__plan_words *words,
                            spsh__plan_request *ret_request);
void spsh__plan_request_free(spsh__plan_request *request);

/** Report that a plan or loader could not be opened. Wrong options give SPSH_EXIT_USAGE. */
int spsh__plan_fail(const char *command, const spsh_error *err);

/** Several open datasets. */
typedef struct spsh__datasets {
    spsh_dataset **items;
    uint32_t count;
} spsh__datasets;

/** Open datasets by their paths. Returns SPSH_EXIT_DONE, or reports the failure and leaves nothing
 * open. */
int spsh__datasets_open_all(const char *const *paths, size_t count, spsh__datasets *ret_datasets);

/** The same for a command's operands, at most SPSH_PLAN_DATASETS_MAX. */
int spsh__datasets_open(const char *command, const spsh_cli_args *paths,
                        spsh__datasets *ret_datasets);
void spsh__datasets_close(spsh__datasets *datasets);

#endif
