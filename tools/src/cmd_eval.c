/* cmd_eval.c: `speechshard eval`: measure the error rates of a trained model. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "commands.h"
#include "common/json_out.h"
#include "speechshard/train.h"

enum { THREADS_MAX = 1024, BEAM_MAX = 4096 };

typedef struct eval_command {
    spsh_evaluate_options run;
    uint64_t threads, beam;
    spsh_cli_texts alignments;
    bool json, transcripts, is_one_of_several;
    spsh_json *line; /* JSON line of an utterance; NULL: not requested */
    uint64_t heard;
    spsh_progress progress;
    spsh_status failed; /* status of printing an utterance */
    spsh_error err;
} eval_command;

static void on_heard(void *user, spsh_bytes id, const char *reference, const char *found)
{
    eval_command *c = (eval_command *)user;
    spsh__progress_update(&c->progress, ++c->heard, NULL);
    if (!c->transcripts || c->failed != SPSH_OK || spsh__cli_output_failed())
        return;
    spsh__progress_clear();
    if (c->line == NULL) {
        spsh__text_print_field(stdout, id);
        (void)printf("\t%s\t%s\n", reference, found);
        return;
    }
    spsh__json_put_text(c->line, "id", id);
    spsh__json_put_string(c->line, "reference", reference);
    spsh__json_put_string(c->line, "text", found);
    c->failed = spsh__json_write_line(c->line, stdout, &c->err);
}

static int put_json(const eval_command *c, const char *dataset, const spsh_evaluation *e)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "checkpoint", c->run.checkpoint);
    spsh__json_put_string(json, "dataset", dataset);
    spsh__json_put_u64(json, "utterances", e->utterances);
    spsh__json_put_u64(json, "wrong_utterances", e->wrong_utterances);
    spsh__json_put_u64(json, "words", e->words);
    spsh__json_put_u64(json, "letters", e->letters);
    spsh__json_put_u64(json, "infeasible", e->infeasible);
    spsh__json_put_real(json, "wer", e->wer);
    spsh__json_put_real(json, "cer", e->cer);
    spsh__json_put_real(json, "cer_letters", e->cer_letters);
    if (e->is_of_frames) {
        spsh__json_put_u64(json, "frames", e->frames);
        spsh__json_put_u64(json, "without_alignment", e->without_alignment);
        spsh__json_put_u64(json, "other_length", e->other_length);
        spsh__json_put_real(json, "frame_error", e->frame_error);
    }
    spsh__json_put_real(json, "loss", e->loss);
    spsh__json_put_real(json, "audio_seconds", e->audio_seconds);
    spsh__json_put_real(json, "seconds", e->seconds);
    return spsh__cli_json(json);
}

/* Format as "12.34 %". A dash if the count of possible errors is 0. */
#define SHOW_RATE(value_) (isfinite(value_) ? SPSH_SHOW("%.2f %%", 100 * (value_)) : "-")

/* Print the rates of one dataset. name NULL: it is the only dataset. */
static void print_rates(const char *name, const spsh_evaluation *e)
{
    if (name != NULL)
        (void)printf("%s: ", name);
    if (e->is_of_frames)
        (void)printf("wrong frames %s", SHOW_RATE(e->frame_error));
    else
        (void)printf("WER %s  CER %s (without blanks %s)", SHOW_RATE(e->wer), SHOW_RATE(e->cer),
                     SHOW_RATE(e->cer_letters));
    if (isfinite(e->loss))
        (void)printf("  loss %.4g", e->loss);
    (void)printf("\n%s utterances, ", SPSH_SHOW_COUNT(e->utterances));
    if (!e->is_of_frames)
        (void)printf("%s words; %s of the utterances without an error", SPSH_SHOW_COUNT(e->words),
                     SPSH_SHOW_PERCENT((double)(e->utterances - e->wrong_utterances),
                                       (double)e->utterances));
    else
        (void)printf("%s frames", SPSH_SHOW_COUNT(e->frames));
    if (e->is_of_frames && e->without_alignment > 0)
        (void)printf("; %" PRIu64 " utterances have no alignment", e->without_alignment);
    if (e->is_of_frames && e->other_length > 0)
        (void)printf("; %" PRIu64 " have one of another length", e->other_length);
    (void)printf("\n");
}

static int evaluate(eval_command *c, const char *dataset)
{
    const char *const datasets[] = {dataset, NULL};
    spsh_evaluation result = SPSH_EVALUATION_INIT;
    c->run.datasets = datasets;
    c->heard = 0;
    spsh__progress_begin(&c->progress, "eval", "utterances", 0);
    const spsh_status rc = spsh_evaluate(&c->run, &result, &c->err);
    spsh__progress_end(&c->progress);
    if (rc != SPSH_OK || c->failed != SPSH_OK)
        return spsh__cli_fail(NULL, &c->err);
    if (c->transcripts)
        spsh__cli_message("%s: WER %s, CER %s", dataset, SHOW_RATE(result.wer),
                          SHOW_RATE(result.cer));
    else if (c->json)
        return put_json(c, dataset, &result);
    else
        print_rates(c->is_one_of_several ? dataset : NULL, &result);
    spsh__cli_message("%s of audio in %s", SPSH_SHOW_DURATION(result.audio_seconds),
                      SPSH_SHOW_DURATION(result.seconds));
    return SPSH_EXIT_DONE;
}

int spsh__cmd_eval(int argc, char **argv)
{
    eval_command c = {.run = SPSH_EVALUATE_OPTIONS_INIT};
    const spsh_cli_option options[] = {
        {"beam", 0, SPSH_CLI_COUNT, "N",
         "number of prefixes in the beam search; 0: greedy search (default: 0)", &c.beam, 0,
         BEAM_MAX},
        {"threads", 0, SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &c.threads,
         1, THREADS_MAX},
        {"transcripts", 0, SPSH_CLI_FLAG, NULL,
         "print identifier, reference, and recognized text, separated by tabs, instead of rates; "
         "with --json one object per utterance",
         &c.transcripts, 0, 0},
        {"alignments", 0, SPSH_CLI_TEXTS, "FILE",
         "alignments for a frame model (default: from its configuration); may be repeated",
         &c.alignments, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print JSON", &c.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "eval",
        "RUN DATASET...",
        NULL,
        "measure the error rates of a trained model",
        "RUN is a run's directory with its newest good checkpoint, or a checkpoint file. DATASET "
        "is a dataset or DATASET:SPLIT,SPLIT. WER and CER compare all utterances of one dataset "
        "with their transcripts, normalized by the model's vocabulary.",
        "speechshard eval run digits.spsh:test\n"
        "speechshard eval run digits.spsh:test --beam 32 --json\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    c.run.alignments = c.alignments.count > 0 ? c.alignments.items : NULL;
    c.run.checkpoint = args.operands[0];
    c.is_one_of_several = args.operand_count > 2;
    c.run.threads = (uint32_t)c.threads;
    c.run.beam_width = (uint32_t)c.beam;
    c.run.log_fn = spsh__cli_log;
    c.run.heard_fn = on_heard;
    c.run.heard_user = &c;
    if (c.json && c.transcripts && (c.line = spsh__json_new()) == NULL)
        return spsh__cli_fail_memory();
    int exit_status = SPSH_EXIT_DONE;
    for (int i = 1; i < args.operand_count && !spsh__cli_output_failed(); i++) {
        const int one = evaluate(&c, args.operands[i]);
        exit_status = one != SPSH_EXIT_DONE ? one : exit_status;
    }
    spsh__json_free(c.line);
    return spsh__cli_finish(exit_status);
}
