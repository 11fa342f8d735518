/* cmd_transcribe.c: `speechshard transcribe`: transcribe files and datasets with a trained model.
 *
 * A folder is a dataset, `-` is standard input, and anything else is an audio file of a codec that
 * shards may hold. Several channels are averaged. Utterances wait until dozens are collected, are
 * transcribed together, and are printed in input order. Inputs that cannot be read are reported and
 * skipped. Recordings longer than PART_SECONDS_MAX are cut where they are quietest, so that memory
 * does not depend on the length of a recording. The transcripts of the parts are joined by blanks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "commands.h"
#include "common/file_names.h"
#include "common/grow.h"
#include "common/json_out.h"
#include "speechshard/audio.h"
#include "speechshard/dedup.h"
#include "speechshard/inside.h"
#include "speechshard/io.h"
#include "speechshard/train.h"

enum { THREADS_MAX = 1024, BEAM_MAX = 4096, SAMPLES_A_TURN = 1 << 16 };
enum { PART_SECONDS_MIN = 30, PART_SECONDS_MAX = 60, QUIET_A_SECOND = 10, QUIET_STEPS = 4 };
enum { WAITING_MAX = 128, WAITING_SAMPLES_MAX = 20 << 20 /* 40 MiB */, STDIN_PIECE = 1 << 20 };

#define INPUT_BYTES_MAX ((size_t)1 << 31)

/* An utterance in the queue. Its memory is reused for later utterances. */
typedef struct waiting {
    spsh__builder id;
    int16_t *pcm;
    uint64_t capacity; /* values */
    uint64_t samples;
    uint32_t sample_rate_hz;
} waiting;

typedef struct transcribe_command {
    spsh_recogniser *recogniser;
    spsh__row_filter filter;
    uint64_t threads, beam, limit;
    bool json;
    waiting items[WAITING_MAX];
    size_t count;
    uint64_t samples; /* samples of all waiting utterances */
    spsh_speech *parts;
    size_t part_count, part_capacity;
    uint64_t heard;
    spsh_progress progress;
} transcribe_command;

static spsh_status ensure_capacity(waiting *w, uint64_t values, spsh_error *err)
{
    if (values <= w->capacity)
        return SPSH_OK;
    const uint64_t capacity = values + values / 2;
    int16_t *pcm = (int16_t *)realloc(w->pcm, capacity * sizeof(*pcm));
    if (pcm == NULL)
        return SPSH_NO_MEMORY(err);
    w->pcm = pcm;
    w->capacity = capacity;
    return SPSH_OK;
}

/* ---- results ---- */

static spsh_status print_text(const transcribe_command *c, const waiting *w, const char *text,
                              spsh_error *err)
{
    const spsh_bytes id = spsh__builder_bytes(&w->id);
    if (!c->json) {
        spsh__text_print_field(stdout, id);
        (void)printf("\t%s\n", text);
        return SPSH_OK;
    }
    spsh_json *json = spsh__json_new();
    spsh__json_put_text(json, "id", id);
    spsh__json_put_real(json, "seconds", (double)w->samples / w->sample_rate_hz);
    spsh__json_put_string(json, "text", text);
    const spsh_status rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

/* Return the end of the first part of an utterance: the middle of the quietest tenth of a second
 * between PART_SECONDS_MIN and PART_SECONDS_MAX. */
static uint64_t part_end(const int16_t *pcm, uint64_t samples, uint32_t sample_rate_hz)
{
    const uint64_t window = sample_rate_hz / QUIET_A_SECOND + 1;
    const uint64_t last = (uint64_t)PART_SECONDS_MAX * sample_rate_hz - window;
    uint64_t least = UINT64_MAX, at = last;
    if (samples <= (uint64_t)PART_SECONDS_MAX * sample_rate_hz)
        return samples;
    for (uint64_t first = (uint64_t)PART_SECONDS_MIN * sample_rate_hz; first <= last;
         first += window / QUIET_STEPS + 1) {
        uint64_t loud = 0;
        for (uint64_t s = first; s < first + window; s++)
            loud += (uint64_t)((int32_t)pcm[s] * pcm[s]);
        if (loud < least) {
            least = loud;
            at = first;
        }
    }
    return at + window / 2;
}

/* Append the parts of an utterance. false: no memory. */
static bool add_parts(transcribe_command *c, const waiting *w)
{
    uint64_t done = 0;
    do {
        spsh_speech *parts = (spsh_speech *)spsh__grow(c->parts, &c->part_capacity,
                                                       c->part_count + 1, sizeof(*parts));
        if (parts == NULL)
            return false;
        c->parts = parts;
        const uint64_t end = part_end(w->pcm + done, w->samples - done, w->sample_rate_hz);
        c->parts[c->part_count++] = (spsh_speech){w->pcm + done, end, w->sample_rate_hz};
        done += end;
    } while (done < w->samples);
    return true;
}

/* Join the transcripts of an utterance's parts, and advance *number from the first part past the
 * last. The caller frees the result. */
static char *join_texts(const waiting *w, const spsh_speech *parts, char *const *texts,
                        size_t *number)
{
    spsh__builder joined = {0};
    uint64_t samples = 0;
    do {
        const char *text = texts[*number];
        if (joined.size_bytes > 0 && text[0] != '\0')
            spsh__builder_append(&joined, " ", 1);
        spsh__builder_append_text(&joined, text);
        samples += parts[(*number)++].sample_count;
    } while (samples < w->samples);
    const char *text = spsh__builder_text(&joined);
    char *copy = text == NULL ? NULL : strdup(text);
    spsh__builder_free(&joined);
    return copy;
}

static spsh_status print_texts(transcribe_command *c, char *const *texts, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t part = 0;
    for (size_t i = 0; i < c->count && rc == SPSH_OK; i++) {
        char *text = join_texts(&c->items[i], c->parts, texts, &part);
        rc = text == NULL ? SPSH_NO_MEMORY(err) : print_text(c, &c->items[i], text, err);
        free(text);
    }
    return rc;
}

/* Transcribe and print all utterances in the queue. */
static spsh_status hear(transcribe_command *c, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    c->part_count = 0;
    for (size_t i = 0; i < c->count && rc == SPSH_OK; i++)
        rc = add_parts(c, &c->items[i]) ? SPSH_OK : SPSH_NO_MEMORY(err);
    char **texts = (char **)calloc(c->part_count + 1, sizeof(*texts));
    if (rc == SPSH_OK && texts == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh_recogniser_transcribe_all(c->recogniser, c->parts, c->part_count, texts, err);
    if (rc == SPSH_OK) {
        spsh__progress_update(&c->progress, c->heard += c->count, NULL);
        spsh__progress_clear();
        rc = print_texts(c, texts, err);
    }
    for (size_t i = 0; texts != NULL && i < c->part_count; i++)
        free(texts[i]);
    free(texts);
    c->count = 0;
    c->samples = 0;
    return rc;
}

/* Queue the utterance whose samples are already in the next waiting slot. Transcribe all if the
 * queue is full. */
static spsh_status put(transcribe_command *c, spsh_bytes id, uint64_t samples,
                       uint32_t sample_rate_hz, spsh_error *err)
{
    waiting *w = &c->items[c->count];
    spsh__builder_clear(&w->id);
    spsh__builder_append_bytes(&w->id, id);
    if (w->id.failed)
        return SPSH_NO_MEMORY(err);
    w->samples = samples;
    w->sample_rate_hz = sample_rate_hz;
    c->count++;
    c->samples += samples;
    return c->count == WAITING_MAX || c->samples >= WAITING_SAMPLES_MAX ? hear(c, err) : SPSH_OK;
}

/* Report an error. If the message already begins with the path, do not add it. */
static int report(const char *path, const spsh_error *err)
{
    const bool is_named = strncmp(err->message, path, strlen(path)) == 0;
    return spsh__cli_fail(is_named ? NULL : path, err);
}

/* ---- files ---- */

static spsh_status decode(waiting *w, spsh_decoder *decoder, uint64_t *ret_samples, spsh_error *err)
{
    const uint32_t channels = spsh_decoder_info(decoder)->channels;
    uint64_t samples = 0, got = SAMPLES_A_TURN;
    while (got == SAMPLES_A_TURN) {
        spsh_status rc = ensure_capacity(w, (samples + SAMPLES_A_TURN) * channels, err);
        if (rc == SPSH_OK)
            rc = spsh_decoder_read_i16(decoder, w->pcm + samples * channels, SAMPLES_A_TURN, &got,
                                       err);
        if (rc != SPSH_OK)
            return rc;
        samples += got;
    }
    spsh_mix_i16(w->pcm, samples, channels, w->pcm);
    *ret_samples = samples;
    return SPSH_OK;
}

static spsh_status decode_bytes(transcribe_command *c, const char *path, const uint8_t *data,
                                size_t size_bytes, spsh_error *err)
{
    spsh_memory_source memory = {{data, size_bytes}};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    uint64_t samples = 0;
    spsh_status rc =
        spsh_decoder_open(&source, spsh_audio_sniff(data, size_bytes, path), NULL, &decoder, err);
    if (rc == SPSH_OK)
        rc = decode(&c->items[c->count], decoder, &samples, err);
    if (rc == SPSH_OK)
        rc = put(c, spsh__bytes_of(path), samples, spsh_decoder_info(decoder)->sample_rate_hz, err);
    spsh_decoder_free(decoder);
    return rc;
}

static spsh_status read_input(spsh__builder *data, spsh_error *err)
{
    ssize_t n = 1;
    while (n != 0) {
        uint8_t *at = spsh__builder_reserve(data, STDIN_PIECE);
        if (at == NULL)
            return SPSH_NO_MEMORY(err);
        n = read(STDIN_FILENO, at, STDIN_PIECE);
        if (n < 0 && errno != EINTR)
            return SPSH_FAIL_OS(err, SPSH_E_IO, errno, "standard input: %s", strerror(errno));
        data->size_bytes += n > 0 ? (size_t)n : 0;
        if (data->size_bytes > INPUT_BYTES_MAX)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "standard input: more than 2 GiB");
    }
    return SPSH_OK;
}

static spsh_status transcribe_file(transcribe_command *c, const char *path, spsh_error *err)
{
    const spsh_allocator *a = spsh_allocator_default();
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    spsh_status rc = SPSH_OK;
    if (strcmp(path, "-") == 0) {
        spsh__builder input = {0};
        rc = read_input(&input, err);
        if (rc == SPSH_OK)
            rc = decode_bytes(c, path, input.data, input.size_bytes, err);
        spsh__builder_free(&input);
        return rc;
    }
    rc = spsh_io_read_file(spsh_io_default(), path, INPUT_BYTES_MAX, a, &data, &size_bytes, err);
    if (rc == SPSH_OK)
        rc = decode_bytes(c, path, data, size_bytes, err);
    a->free_fn(a->user, data);
    return rc;
}

/* ---- datasets ---- */

static spsh_status transcribe_row(transcribe_command *c, spsh_reader *reader, uint64_t position,
                                  const spsh_row *row, spsh_error *err)
{
    spsh_utterance utterance;
    uint64_t samples = 0;
    waiting *w = &c->items[c->count];
    const uint32_t channels = row->channels > 0 ? row->channels : 1;
    spsh_status rc = ensure_capacity(w, row->samples * channels + 1, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_read_i16(reader, position, 0, w->pcm, row->samples, &samples, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(reader, position, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_mix_i16(w->pcm, samples, channels, w->pcm);
    return put(c, utterance.id, samples, row->sample_rate_hz, err);
}

/* True for a failure that affects only one utterance. */
static bool is_damage(spsh_status rc)
{
    return rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED || rc == SPSH_E_AUDIO;
}

static int transcribe_rows(transcribe_command *c, const spsh_dataset *dataset, spsh_reader *reader,
                           const char *path)
{
    spsh__selection *selection = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_row *row = NULL;
    uint64_t position = 0;
    c->filter.served_only = true;
    int exit_status = spsh__selection_open("transcribe", dataset, &c->filter, &selection);
    if (exit_status != SPSH_EXIT_DONE)
        return exit_status;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; rc == SPSH_OK && (c->limit == 0 || i < c->limit); i++) {
        rc = spsh__selection_next(selection, &position, &row, &err);
        if (rc != SPSH_OK)
            break;
        rc = transcribe_row(c, reader, position, row, &err);
        if (is_damage(rc)) {
            exit_status = report(path, &err);
            rc = SPSH_OK;
        }
        if (spsh__cli_output_failed())
            break;
    }
    spsh__selection_free(selection);
    return rc == SPSH_OK || rc == SPSH_E_END ? exit_status : report(path, &err);
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
        exit_status = transcribe_rows(c, dataset, reader, path);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    return exit_status;
}

/* Transcribe the splits of DATASET:SPLIT,SPLIT one after the other. */
static int transcribe_splits(transcribe_command *c, const spsh_dedup_source *source)
{
    const spsh__row_filter given = c->filter;
    char *splits = strdup(source->splits);
    char *rest = splits;
    int exit_status = splits == NULL ? spsh__cli_fail_memory() : SPSH_EXIT_DONE;
    for (char *name = splits != NULL ? strsep(&rest, ",") : NULL; name != NULL;
         name = strsep(&rest, ",")) {
        c->filter.split = name;
        const int one = transcribe_dataset(c, source->path);
        exit_status = one != SPSH_EXIT_DONE ? one : exit_status;
    }
    c->filter = given;
    free(splits);
    return exit_status;
}

/* ---- arguments ---- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int transcribe_operand(transcribe_command *c, const char *operand)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dedup_sources *list = NULL;
    const spsh_dedup_source *source = NULL;
    int exit_status = SPSH_EXIT_DONE;
    if (is_folder(operand))
        return transcribe_dataset(c, operand);
    if (spsh_dedup_sources_new(&list, &err) == SPSH_OK &&
        spsh_dedup_sources_add(list, operand, SPSH_SIDE_TEST, NULL, &err) == SPSH_OK)
        source = spsh_dedup_sources_get(list, 0);
    if (source != NULL && source->splits != NULL && is_folder(source->path)) {
        exit_status =
            c->filter.split == NULL
                ? transcribe_splits(c, source)
                : spsh__cli_usage("transcribe", "'%s' already names splits; omit --split", operand);
    } else if (transcribe_file(c, operand, &err) != SPSH_OK) {
        exit_status = report(operand, &err);
    }
    spsh_dedup_sources_free(list);
    return exit_status;
}

static int transcribe(transcribe_command *c, const spsh_cli_args *args)
{
    spsh_error err = SPSH_ERROR_INIT;
    int exit_status = SPSH_EXIT_DONE;
    spsh_recogniser_options options = SPSH_RECOGNISER_OPTIONS_INIT;
    options.checkpoint = args->operands[0];
    options.threads = (uint32_t)c->threads;
    options.beam_width = (uint32_t)c->beam;
    options.log_fn = spsh__cli_log;
    if (spsh_recogniser_open(&options, &c->recogniser, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    spsh__progress_begin(&c->progress, "transcribe", "utterances", 0);
    for (int i = 1; i < args->operand_count && !spsh__cli_output_failed(); i++) {
        const int one = transcribe_operand(c, args->operands[i]);
        exit_status = one != SPSH_EXIT_DONE ? one : exit_status;
    }
    if (c->count > 0 && hear(c, &err) != SPSH_OK)
        exit_status = spsh__cli_fail(NULL, &err);
    spsh__progress_end(&c->progress);
    spsh_recogniser_close(c->recogniser);
    free(c->parts);
    for (size_t i = 0; i < WAITING_MAX; i++) {
        spsh__builder_free(&c->items[i].id);
        free(c->items[i].pcm);
    }
    return exit_status;
}

int spsh__cmd_transcribe(int argc, char **argv)
{
    transcribe_command c = {.recogniser = NULL};
    const spsh_cli_option options[] = {
        {"domain", 0, SPSH_CLI_TEXT, "NAME",
         "transcribe only utterances of this domain of a dataset", &c.filter.domain, 0, 0},
        {"split", 0, SPSH_CLI_TEXT, "NAME", "transcribe only utterances of this split of a dataset",
         &c.filter.split, 0, 0},
        {"limit", 0, SPSH_CLI_COUNT, "N",
         "transcribe at most N utterances of a dataset or split (default: all)", &c.limit, 1, 0},
        {"beam", 0, SPSH_CLI_COUNT, "N",
         "number of prefixes in the beam search; 0: greedy search (default: 0)", &c.beam, 0,
         BEAM_MAX},
        {"threads", 0, SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &c.threads,
         1, THREADS_MAX},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object per line", &c.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "transcribe",
        "RUN INPUT...",
        NULL,
        "transcribe audio with a trained model",
        "RUN is a run's directory with its newest good checkpoint, or a checkpoint file. INPUT is "
        "an audio file of any rate and any codec that pack reads, - for standard input, or a "
        "dataset: DATASET or DATASET:SPLIT,SPLIT. A line has the identifier of an utterance (the "
        "path of a file), a tab, and the text. Audio longer than a minute is transcribed in parts.",
        "speechshard transcribe run question.wav answer.flac\n"
        "speechshard transcribe run digits.spsh:test --limit 3\n"
        "arecord -f S16_LE -r 16000 -d 5 | speechshard transcribe run -\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    return spsh__cli_finish(transcribe(&c, &args));
}
