/* cmd_cat.c: `speechshard cat`: write one utterance as a WAV file, unchanged or augmented as in
 * training, or its recording as stored, or a picture of it. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "commands.h"
#include "common/file_names.h"
#include "common/file_out.h"
#include "plot/cat_plot.h"
#include "print/utterance_out.h"

typedef struct request {
    const char *dataset_path;
    const char *id;
    const char *output; /* NULL: standard output */
    const char *plot;   /* NULL: none */
    spsh__hear_words words;
    uint64_t epoch;
    bool payload, json;
    bool has_audio; /* a WAV file is written; not needed for only a picture or a description */
    spsh__hear_request hear;
} request;

/* The stored bytes are the whole recording. Print a note if the utterance is only a part of it. */
static spsh_status note_part(const request *r, spsh_reader *reader, uint64_t position,
                             const spsh_row *row, spsh_error *err)
{
    const spsh_record *record = NULL;
    spsh_status rc = spsh_reader_record(reader, position, &record, err);
    if (rc != SPSH_OK)
        return rc;
    if (row->samples != record->samples)
        spsh__cli_message("%s is samples %" PRIu64 " to %" PRIu64
                          " of the recording; its payload holds all %" PRIu64,
                          r->id, row->start_sample, row->start_sample + row->samples,
                          record->samples);
    return SPSH_OK;
}

static spsh_status write_utterance(const request *r, const spsh__cat_subject *c,
                                   const spsh__byte_sink *sink, spsh_error *err)
{
    spsh__wav wav;
    spsh_status rc;
    if (r->words.augment != NULL)
        return spsh__cat_hear(c, NULL, sink, err);
    if (r->payload) {
        rc = note_part(r, c->reader, c->position, c->row, err);
        return rc == SPSH_OK ? spsh__payload_write(c->reader, c->position, sink, err) : rc;
    }
    rc = spsh__wav_describe(c->reader, c->position, c->row->samples, &wav, err);
    return rc == SPSH_OK ? spsh__wav_write(&wav, c->reader, c->position, sink, err) : rc;
}

static spsh_status write_output(const request *r, const spsh__cat_subject *c, spsh_error *err)
{
    spsh__file_out *file = NULL;
    spsh__byte_sink sink = spsh__stdout_sink();
    spsh_status rc = SPSH_OK;
    if (r->output == NULL)
        return write_utterance(r, c, &sink, err);
    rc = spsh__file_out_open(r->output, &file, err);
    if (rc == SPSH_OK) {
        sink = spsh__file_out_sink(file);
        rc = write_utterance(r, c, &sink, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__file_out_finish(file, err);
    spsh__file_out_free(file);
    return rc;
}

/* Print the members of `ls --json`, and the names of the files that were written. */
static spsh_status print_json(const request *r, const spsh__cat_subject *c, spsh_error *err)
{
    spsh__utterance_place place = {c->dataset, c->reader, NULL, c->position, c->row};
    spsh_json *json = NULL;
    spsh_status rc = spsh_reader_open(c->dataset, &place.original_reader, err);
    if (rc == SPSH_OK) {
        json = spsh__json_new();
        rc = spsh__utterance_put(json, &place, err);
    }
    if (rc == SPSH_OK) {
        spsh__json_put_string(json, "output", r->output);
        spsh__json_put_string(json, "plot", r->plot);
        rc = spsh__json_write_line(json, stdout, err);
    }
    spsh__json_free(json);
    spsh_reader_close(place.original_reader);
    return rc;
}

static int cat(const request *r, const spsh_dataset *dataset)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_row row;
    spsh__cat_subject c = {.dataset = dataset, .row = &row, .request = &r->hear, .epoch = r->epoch};
    spsh_status rc = spsh_reader_open(dataset, &c.reader, &err);
    if (rc == SPSH_OK) {
        rc = spsh_reader_find(c.reader, spsh__bytes_of(r->id), &c.position, &err);
        /* NOT_FOUND with an errno means a missing shard, not a missing id. */
        if (rc == SPSH_E_NOT_FOUND && err.os_errno == 0) {
            const int status = spsh__utterance_missing(dataset, c.reader, r->id);
            spsh_reader_close(c.reader);
            return status;
        }
    }
    if (rc == SPSH_OK)
        rc = spsh_dataset_rows(dataset, c.position, 1, &row, &err);
    if (rc == SPSH_OK && r->plot != NULL)
        rc = spsh__cat_hear(&c, r->plot, NULL, &err);
    if (rc == SPSH_OK && r->has_audio)
        rc = write_output(r, &c, &err);
    if (rc == SPSH_OK && r->json)
        rc = print_json(r, &c, &err);
    spsh_reader_close(c.reader);
    if (rc == SPSH_OK || spsh__cli_output_failed())
        return SPSH_EXIT_DONE;
    if (rc == SPSH_E_INVALID_ARG)
        return spsh__cli_usage("cat", "%s", err.message);
    spsh__cli_fail(NULL, &err);
    if (rc == SPSH_E_AUDIO && !r->payload)
        spsh__cli_message("--payload writes the stored bytes without decoding them");
    return SPSH_EXIT_FAILED;
}

/* Check the options before anything is opened. */
static int check(request *r)
{
    r->has_audio = (r->plot == NULL && !r->json) || r->output != NULL || (r->payload && !r->json);
    if (r->json && r->output != NULL && strcmp(r->output, "-") == 0)
        return spsh__cli_usage("cat", "--json and the audio cannot both go to standard output; "
                                      "give -o a file");
    if (r->output != NULL && strcmp(r->output, "-") == 0)
        r->output = NULL;
    if (r->plot != NULL && !spsh__cat_plot_is_svg(r->plot))
        return spsh__cli_usage("cat", "--plot writes SVG; '%s' does not end in .svg", r->plot);
    if (r->payload && r->words.augment != NULL)
        return spsh__cli_usage("cat",
                               "--payload writes the stored bytes; --augment would change them");
    if (r->words.features != NULL && r->plot == NULL && r->words.augment == NULL)
        return spsh__cli_usage("cat", "--features needs --plot FILE or --augment TEXT");
    if (r->has_audio && r->output == NULL && isatty(STDOUT_FILENO))
        return spsh__cli_usage("cat", "standard output is a terminal; use -o FILE or a pipe");
    return spsh__hear_request_make("cat", &r->words, &r->hear);
}

int spsh__cmd_cat(int argc, char **argv)
{
    request r = {.output = NULL};
    /* clang-format off */
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "FILE", "write to FILE instead of standard output",
         &r.output, 0, 0},
        {"payload", 0, SPSH_CLI_FLAG, NULL,
         "write the stored recording without decoding it, such as the original FLAC file",
         &r.payload, 0, 0},
        {"plot", 0, SPSH_CLI_TEXT, "FILE.svg",
         "draw waveform and features as SVG; write audio as well only with --output",
         &r.plot, 0, 0},
        {"features", 0, SPSH_CLI_TEXT, "TEXT",
         "features to draw: a preset with changes, such as whisper-logmel,mel_count=128 (default: kaldi-fbank at the utterance's rate)",
         &r.words.features, 0, 0},
        {"augment", 0, SPSH_CLI_TEXT, "TEXT",
         "augment the utterance as in training: a preset with changes, such as speed-perturb,time_masks=2",
         &r.words.augment, 0, 0},
        {"seed", 's', SPSH_CLI_COUNT, "N", "seed of that training (default: 0)", &r.words.seed, 0, 0},
        {"epoch", 0, SPSH_CLI_COUNT, "N", "epoch of that training (default: 0)", &r.epoch, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL,
         "describe the utterance as one JSON object; write audio as well only with --output",
         &r.json, 0, 0},
        {"noise", 0, SPSH_CLI_TEXTS, "DATASET", "draw noises from this dataset; may be repeated",
         &r.words.noises, 0, 0},
        {"room", 0, SPSH_CLI_TEXTS, "DATASET", "draw room impulse responses from this dataset; may be repeated",
         &r.words.rooms, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    /* clang-format on */
    const spsh_cli_command command = {
        "cat",
        "DATASET ID",
        NULL,
        "write one utterance as a WAV file, or draw it",
        "The samples have the source's format: 16, 24, or 32 bits, or 32-bit float. With "
        "--augment they are 16-bit, one channel.",
        "speechshard cat corpus.spsh en/hello-world | aplay\n"
        "speechshard cat corpus.spsh en/hello-world -o hello.wav\n"
        "speechshard cat corpus.spsh en/hello-world --plot hello.svg\n"
        "speechshard cat corpus.spsh en/hello-world --augment speed-perturb --epoch 3 -o "
        "heard.wav\n"
        "speechshard cat corpus.spsh 84-121123-0001 --payload -o 84-121123-0001.flac\n",
        options,
    };
    spsh_cli_args args;
    spsh_dataset *dataset = NULL;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    r.dataset_path = args.operands[0];
    r.id = args.operands[1];
    rc = check(&r);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__dataset_open_or_report(r.dataset_path, 0, &dataset);
    if (rc == SPSH_EXIT_DONE)
        rc = cat(&r, dataset);
    spsh_dataset_close(dataset);
    spsh__hear_request_free(&r.hear);
    return spsh__cli_finish(rc);
}
