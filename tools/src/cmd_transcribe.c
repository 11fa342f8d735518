/* cmd_transcribe.c: `speechshard transcribe`: what a trained model hears in files and datasets.
 *
 * A folder is a dataset, anything else an audio file of a codec that shards may hold. Of several
 * channels their mean is heard.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "json_out.h"
#include "selection.h"
#include "speechshard/audio.h"
#include "speechshard/io.h"
#include "speechshard/train.h"

enum { THREADS_MAX = 1024, BEAM_MAX = 4096, SAMPLES_A_TURN = 1 << 16 };

#define FILE_BYTES_MAX ((size_t)1 << 31)

typedef struct transcribe_command {
    spsh_recogniser *recogniser;
    spsh__filter filter;
    uint64_t threads, beam, limit;
    bool json;
    int16_t *pcm;
    uint64_t capacity; /* values */
} transcribe_command;

static spsh_status fail_memory(spsh_error *err)
{
    spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
    return SPSH_E_NO_MEMORY;
}

static spsh_status make_room(transcribe_command *c, uint64_t values, spsh_error *err)
{
    if (values <= c->capacity)
        return SPSH_OK;
    const uint64_t capacity = values + values / 2;
    int16_t *pcm = (int16_t *)realloc(c->pcm, capacity * sizeof(*pcm));
    if (pcm == NULL)
        return fail_memory(err);
    c->pcm = pcm;
    c->capacity = capacity;
    return SPSH_OK;
}

/* Frames of several channels become their means, halves up, in place. */
static void mix(int16_t *pcm, uint64_t samples, uint32_t channels)
{
    for (uint64_t s = 0; s < samples && channels > 1; s++) {
        int64_t sum = 0;
        for (uint32_t c = 0; c < channels; c++)
            sum += pcm[s * channels + c];
        const int64_t twice = 2 * sum + channels;
        const int64_t divisor = 2 * (int64_t)channels;
        pcm[s] = (int16_t)(twice >= 0 ? twice / divisor : -((-twice + divisor - 1) / divisor));
    }
}

/* ---- results ---- */

static spsh_status print_text(const transcribe_command *c, spsh_bytes id, const char *text,
                              spsh_error *err)
{
    if (!c->json) {
        spsh__text_print_field(stdout, id);
        (void)printf("\t%s\n", text);
        return SPSH_OK;
    }
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return fail_memory(err);
    spsh__json_put_text(json, "id", id);
    spsh__json_put_string(json, "text", text);
    const spsh_status rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

static spsh_status hear(transcribe_command *c, spsh_bytes id, uint64_t samples,
                        uint32_t sample_rate_hz, spsh_error *err)
{
    char *text = NULL;
    spsh_status rc =
        spsh_recogniser_transcribe(c->recogniser, c->pcm, samples, sample_rate_hz, &text, err);
    if (rc == SPSH_OK)
        rc = print_text(c, id, text, err);
    free(text);
    return rc;
}

/* ---- files ---- */

static spsh_status decode(transcribe_command *c, spsh_decoder *decoder, uint64_t *ret_samples,
                          spsh_error *err)
{
    const uint32_t channels = spsh_decoder_info(decoder)->channels;
    uint64_t samples = 0, got = SAMPLES_A_TURN;
    while (got == SAMPLES_A_TURN) {
        spsh_status rc = make_room(c, (samples + SAMPLES_A_TURN) * channels, err);
        if (rc == SPSH_OK)
            rc = spsh_decoder_read_i16(decoder, c->pcm + samples * channels, SAMPLES_A_TURN, &got,
                                       err);
        if (rc != SPSH_OK)
            return rc;
        samples += got;
    }
    mix(c->pcm, samples, channels);
    *ret_samples = samples;
    return SPSH_OK;
}

static spsh_status transcribe_file(transcribe_command *c, const char *path, spsh_error *err)
{
    const spsh_allocator *a = spsh_allocator_default();
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    uint64_t samples = 0;
    spsh_decoder *decoder = NULL;
    spsh_status rc =
        spsh_io_read_file(spsh_io_default(), path, FILE_BYTES_MAX, a, &data, &size_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_memory_source memory = {
        {data, size_bytes}
    };
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    rc = spsh_decoder_open(&source, spsh_audio_sniff(data, size_bytes, path), NULL, &decoder, err);
    if (rc == SPSH_OK)
        rc = decode(c, decoder, &samples, err);
    if (rc == SPSH_OK)
        rc = hear(c, (spsh_bytes){(const uint8_t *)path, strlen(path)}, samples,
                  spsh_decoder_info(decoder)->sample_rate_hz, err);
    spsh_decoder_free(decoder);
    a->free_fn(a->user, data);
    return rc;
}

/* ---- datasets ---- */

static spsh_status transcribe_row(transcribe_command *c, spsh_reader *reader, uint64_t position,
                                  const spsh_row *row, spsh_error *err)
{
    spsh_utterance utterance;
    uint64_t samples = 0;
    const uint32_t channels = row->channels > 0 ? row->channels : 1;
    spsh_status rc = make_room(c, row->samples * channels + 1, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_read_i16(reader, position, 0, c->pcm, row->samples, &samples, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(reader, position, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    mix(c->pcm, samples, channels);
    return hear(c, utterance.id, samples, row->sample_rate_hz, err);
}

static int transcribe_rows(transcribe_command *c, const spsh_dataset *dataset, spsh_reader *reader)
{
    spsh__selection *selection = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_row *row = NULL;
    uint64_t position = 0;
    const int opened = spsh__selection_open("transcribe", dataset, &c->filter, &selection);
    if (opened != SPSH_EXIT_DONE)
        return opened;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; rc == SPSH_OK && (c->limit == 0 || i < c->limit); i++) {
        rc = spsh__selection_next(selection, &position, &row, &err);
        if (rc == SPSH_OK)
            rc = transcribe_row(c, reader, position, row, &err);
        if (spsh__cli_output_failed())
            break;
    }
    spsh__selection_free(selection);
    return rc == SPSH_OK || rc == SPSH_E_END ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static int transcribe_dataset(transcribe_command *c, const char *path)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    int exit_status = spsh__dataset_open_or_report(path, 0, &dataset);
    if (exit_status != SPSH_EXIT_DONE)
        return exit_status;
    if (spsh_reader_open(dataset, &reader, &err) != SPSH_OK)
        exit_status = spsh__cli_fail(path, &err);
    else
        exit_status = transcribe_rows(c, dataset, reader);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    return exit_status;
}

/* ---- arguments ---- */

static int transcribe(transcribe_command *c, const spsh_cli_args *args)
{
    spsh_error err = SPSH_ERROR_INIT;
    int exit_status = SPSH_EXIT_DONE;
    if (spsh_recogniser_open(args->operands[0], (uint32_t)c->threads, (uint32_t)c->beam,
                             &c->recogniser, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    for (int i = 1; i < args->operand_count && !spsh__cli_output_failed(); i++) {
        const char *path = args->operands[i];
        struct stat info;
        int one = SPSH_EXIT_DONE;
        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            one = transcribe_dataset(c, path);
        else if (transcribe_file(c, path, &err) != SPSH_OK)
            one = spsh__cli_fail(path, &err);
        exit_status = one != SPSH_EXIT_DONE ? one : exit_status;
    }
    spsh_recogniser_close(c->recogniser);
    free(c->pcm);
    return exit_status;
}

int spsh__cmd_transcribe(int argc, char **argv)
{
    transcribe_command c = {.recogniser = NULL};
    const spsh_cli_option options[] = {
        {"domain",  0, SPSH_CLI_TEXT,  "NAME", "of a dataset: utterances of this domain alone",
         &c.filter.domain,                                                                                      0, 0       },
        {"split",   0, SPSH_CLI_TEXT,  "NAME", "of a dataset: utterances of this split alone",
         &c.filter.split,                                                                                       0, 0       },
        {"limit",   0, SPSH_CLI_COUNT, "N",    "of a dataset: no more than N utterances",           &c.limit,   1,
         0                                                                                                                 },
        {"beam",    0, SPSH_CLI_COUNT, "N",    "prefix beam search of so many prefixes; 0: greedy",
         &c.beam,                                                                                               0, BEAM_MAX},
        {"threads", 0, SPSH_CLI_COUNT, "N",    "threads; as many as there are cores",               &c.threads, 1,
         THREADS_MAX                                                                                                       },
        {"json",    0, SPSH_CLI_FLAG,  NULL,   "print a line of JSON an utterance",                 &c.json,    0, 0       },
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "transcribe",
        "RUN FILE|DATASET...",
        NULL,
        "write down what a trained model hears",
        "RUN is a run's folder, of which the newest good checkpoint counts, or a checkpoint. A\n"
        "line an utterance: its id (of a file, its path), a TAB, the text.",
        "speechshard transcribe run question.wav\n"
        "speechshard transcribe run digits.spsh --split test --limit 3\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (args.operand_count < 2)
        return spsh__cli_usage("transcribe", "give a run, and files or datasets");
    return spsh__cli_finish(transcribe(&c, &args));
}
