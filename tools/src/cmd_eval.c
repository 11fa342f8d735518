/* cmd_eval.c: `speechshard eval`: how often a trained model is wrong. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli.h"
#include "commands.h"
#include "json_out.h"
#include "speechshard/train.h"

enum { THREADS_MAX = 1024, BEAM_MAX = 4096, DATASETS_MAX = 1024 };

typedef struct eval_command {
    spsh_evaluate_options run;
    uint64_t threads, beam;
    bool json, transcripts;
} eval_command;

static void on_log(void *user, spsh_log_level level, const char *text)
{
    (void)user, (void)level;
    spsh__cli_message("%s", text);
}

static void on_heard(void *user, spsh_bytes id, const char *reference, const char *found)
{
    (void)user;
    spsh__text_print_field(stdout, id);
    (void)printf("\t%s\t%s\n", reference, found);
}

static void put_real(spsh_json *json, const char *key, double value)
{
    if (isfinite(value))
        spsh__json_put_real(json, key, value);
    else
        spsh__json_put_null(json, key);
}

static int put_json(const eval_command *c, const spsh_evaluation *e)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return spsh__cli_fail_memory();
    spsh__json_put_string(json, "checkpoint", c->run.checkpoint);
    spsh__json_put_u64(json, "utterances", e->utterances);
    spsh__json_put_u64(json, "wrong_utterances", e->wrong_utterances);
    spsh__json_put_u64(json, "words", e->words);
    spsh__json_put_u64(json, "letters", e->letters);
    spsh__json_put_u64(json, "infeasible", e->infeasible);
    put_real(json, "wer", e->wer);
    put_real(json, "cer", e->cer);
    put_real(json, "cer_letters", e->cer_letters);
    put_real(json, "loss", e->loss);
    put_real(json, "audio_seconds", e->audio_seconds);
    put_real(json, "seconds", e->seconds);
    const spsh_status rc = spsh__json_write_line(json, stdout, &err);
    spsh__json_free(json);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static void print_rates(const spsh_evaluation *e)
{
    char utterances[SPSH_HUMAN_BYTES], words[SPSH_HUMAN_BYTES], right[SPSH_HUMAN_BYTES];
    char audio[SPSH_HUMAN_BYTES], took[SPSH_HUMAN_BYTES];
    (void)printf("WER %.2f %%  CER %.2f %% (without blanks %.2f %%)  loss %.4g\n", 100 * e->wer,
                 100 * e->cer, 100 * e->cer_letters, e->loss);
    (void)printf("%s utterances, %s words; %s of the utterances without an error\n",
                 spsh__human_count(e->utterances, utterances), spsh__human_count(e->words, words),
                 spsh__human_percent((double)(e->utterances - e->wrong_utterances),
                                     (double)e->utterances, right));
    spsh__cli_message("%s of audio in %s", spsh__human_duration(e->audio_seconds, audio),
                      spsh__human_duration(e->seconds, took));
}

static int evaluate(eval_command *c)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_evaluation result = {0};
    if (spsh_evaluate(&c->run, &result, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    if (c->json)
        return put_json(c, &result);
    if (!c->transcripts)
        print_rates(&result);
    else
        spsh__cli_message("WER %.2f %%, CER %.2f %%", 100 * result.wer, 100 * result.cer);
    return SPSH_EXIT_DONE;
}

int spsh__cmd_eval(int argc, char **argv)
{
    eval_command c = {.run = SPSH_EVALUATE_OPTIONS_INIT};
    const char *datasets[DATASETS_MAX + 1] = {NULL};
    const spsh_cli_option options[] = {
        {"beam",        0, SPSH_CLI_COUNT, "N",  "prefix beam search of so many prefixes; 0: greedy",
         &c.beam,                                                                                                     0, BEAM_MAX},
        {"threads",     0, SPSH_CLI_COUNT, "N",  "threads; as many as there are cores",               &c.threads,     1,
         THREADS_MAX                                                                                                             },
        {"transcripts", 0, SPSH_CLI_FLAG,  NULL,
         "print id, reference and what was found, a line each,\nTABs between, instead of rates",      &c.transcripts, 0, 0       },
        {"json",        0, SPSH_CLI_FLAG,  NULL, "print JSON",                                        &c.json,        0, 0       },
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "eval",
        "RUN DATASET[:SPLIT,...]...",
        NULL,
        "measure how often a trained model is wrong",
        "RUN is a run's folder, of which the newest good checkpoint counts, or a checkpoint.\n"
        "WER and CER are of all utterances together, against the transcripts as the model's\n"
        "vocabulary normalises them.",
        "speechshard eval run digits.spsh:test\n"
        "speechshard eval run digits.spsh:test --beam 32 --json\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (args.operand_count < 2 || args.operand_count > DATASETS_MAX)
        return spsh__cli_usage("eval", "give a run and one dataset, or several");
    if (c.json && c.transcripts)
        return spsh__cli_usage("eval", "--json and --transcripts do not go together");
    for (int i = 1; i < args.operand_count; i++)
        datasets[i - 1] = args.operands[i];
    c.run.checkpoint = args.operands[0];
    c.run.datasets = datasets;
    c.run.threads = (uint32_t)c.threads;
    c.run.beam_width = (uint32_t)c.beam;
    c.run.log_fn = on_log;
    c.run.heard_fn = c.transcripts ? on_heard : NULL;
    return spsh__cli_finish(evaluate(&c));
}
