/* lhotse.c: see lhotse.h.
 *
 * Recordings have the paths of the machine that wrote the manifest. Each path is tried unchanged,
 * then below the working directory and the folders above the manifest, where Lhotse's recipes store
 * files. Then it is tried without its first folders, so that a moved corpus is found. At least one
 * folder and the file name must match. The method that found the last recording is tried first.
 */
#include "lhotse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/scan/scan_strings.h"
#include "json_manifest.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"

#define TRY_WRITTEN   ((size_t)0)
#define TRY_PROCESS   ((size_t)1) /* below the working directory */
#define TRY_ABOVE     ((size_t)2) /* 2 to 4: below the folders above the manifest */
#define TRY_SHORTENED ((size_t)5) /* 5 to 12: without the first one to eight folders */
#define TRIES         ((size_t)13)

const char *const spsh__lhotse_recording_names[SPSH__LHOTSE_NAMES_MAX] = {
    "id",          "sources",  "sampling_rate", "transforms",
    "channel_ids", "duration", "num_samples",   "type",
};
enum { RECORDING_ID, SOURCES, SAMPLING_RATE, TRANSFORMS, CHANNEL_IDS, DURATION };

const char *const spsh__lhotse_supervision_names[SPSH__LHOTSE_NAMES_MAX] = {
    "id", "recording_id", "start", "duration", "text", "speaker", "language", "type",
};
enum {
    SUP_ID,
    SUP_RECORDING,
    SUP_START,
    SUP_DURATION,
    SUP_TEXT,
    SUP_SPEAKER,
    SUP_LANGUAGE,
    SUP_TYPE
};

const char *const spsh__lhotse_cut_names[SPSH__LHOTSE_NAMES_MAX] = {
    "id", "type", "start", "duration", "supervisions", "recording", "custom", "channel",
};
enum {
    CUT_ID,
    CUT_TYPE,
    CUT_START,
    CUT_DURATION,
    CUT_SUPERVISIONS,
    CUT_RECORDING,
    CUT_CUSTOM,
    CUT_CHANNEL
};

const char *spsh__lhotse_kind_problem(spsh__lhotse_kind kind, const spsh__json_value *values,
                                      char buffer[SPSH__JSON_KIND_PROBLEM_BYTES])
{
    static const unsigned recordings[SPSH__LHOTSE_NAMES_MAX] = {
        [RECORDING_ID] = SPSH__JSON_STRINGS,
        [SOURCES] = SPSH__JSON_ARRAYS,
        [TRANSFORMS] = SPSH__JSON_ARRAYS,
        [DURATION] = SPSH__JSON_TIMES,
    };
    static const unsigned supervisions[SPSH__LHOTSE_NAMES_MAX] = {
        [SUP_ID] = SPSH__JSON_STRINGS,     [SUP_RECORDING] = SPSH__JSON_STRINGS,
        [SUP_START] = SPSH__JSON_TIMES,    [SUP_DURATION] = SPSH__JSON_TIMES,
        [SUP_TEXT] = SPSH__JSON_STRINGS,   [SUP_SPEAKER] = SPSH__JSON_NAMES,
        [SUP_LANGUAGE] = SPSH__JSON_NAMES,
    };
    static const unsigned cuts[SPSH__LHOTSE_NAMES_MAX] = {
        [CUT_ID] = SPSH__JSON_STRINGS,          [CUT_TYPE] = SPSH__JSON_STRINGS,
        [CUT_START] = SPSH__JSON_TIMES,         [CUT_DURATION] = SPSH__JSON_TIMES,
        [CUT_SUPERVISIONS] = SPSH__JSON_ARRAYS, [CUT_RECORDING] = SPSH__JSON_OBJECTS,
    };
    const bool of_cuts = kind == SPSH__LHOTSE_CUTS || kind == SPSH__LHOTSE_OTHER;
    const char *const *names = of_cuts                           ? spsh__lhotse_cut_names
                               : kind == SPSH__LHOTSE_RECORDINGS ? spsh__lhotse_recording_names
                                                                 : spsh__lhotse_supervision_names;
    const unsigned *kinds = of_cuts                           ? cuts
                            : kind == SPSH__LHOTSE_RECORDINGS ? recordings
                                                              : supervisions;
    return spsh__json_kind_problem(values, names, kinds, SPSH__LHOTSE_NAMES_MAX, buffer);
}

static bool is_text(const spsh__json_value *value, const char *text)
{
    return value->kind == SPSH__JSON_STRING && spsh__bytes_equal(value->raw, spsh__bytes_of(text));
}

static bool has_elements(const spsh__json_value *value)
{
    spsh_bytes rest = value->raw;
    spsh__json_value first;
    return value->kind == SPSH__JSON_ARRAY && spsh__json_array_next(&rest, &first);
}

spsh__lhotse_kind spsh__lhotse_kind_of(spsh_bytes line)
{
    static const char *const cut_types[] = {"MonoCut", "MultiCut", "MixedCut", "PaddingCut", "Cut"};
    static const char *const names[] = {"id",    "type",     "sources",      "sampling_rate",
                                        "start", "duration", "recording_id", "storage_type"};
    spsh__json_value v[sizeof(names) / sizeof(names[0])];
    size_t offset = 0;
    if (spsh__json_pick(line, names, sizeof(names) / sizeof(names[0]), v, NULL, &offset) != NULL ||
        v[0].kind == SPSH__JSON_ABSENT)
        return SPSH__LHOTSE_OTHER;
    for (size_t i = 0; i < sizeof(cut_types) / sizeof(cut_types[0]); i++) {
        if (is_text(&v[1], cut_types[i]))
            return SPSH__LHOTSE_CUTS;
    }
    if (v[2].kind == SPSH__JSON_ARRAY && v[3].kind == SPSH__JSON_NUMBER)
        return SPSH__LHOTSE_RECORDINGS;
    if (v[4].kind == SPSH__JSON_NUMBER && v[5].kind == SPSH__JSON_NUMBER &&
        v[6].kind == SPSH__JSON_STRING && v[7].kind == SPSH__JSON_ABSENT)
        return SPSH__LHOTSE_SUPERVISIONS;
    return SPSH__LHOTSE_OTHER;
}

/* ---- names of manifests ---- */

void spsh__lhotse_name_parse(const char *name, spsh__lhotse_name *ret_name)
{
    static const char *const kinds[] = {"recordings", "supervisions", "cuts"};
    const char *end = strstr(name, ".json");
    spsh_bytes stem = spsh__bytes_of(name);
    if (end != NULL)
        stem.size_bytes = (size_t)(end - name);
    *ret_name = (spsh__lhotse_name){.partition = stem, .split = spsh__split_of_name(name)};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *at = strstr(name, kinds[i]);
        const size_t before = at == NULL ? 0 : (size_t)(at - name);
        const size_t after = before + strlen(kinds[i]);
        if (at == NULL || after > stem.size_bytes)
            continue;
        ret_name->prefix = spsh__bytes_trim((spsh_bytes){stem.data, before}, "_-.");
        ret_name->partition =
            spsh__bytes_trim((spsh_bytes){stem.data + after, stem.size_bytes - after}, "_-.");
        break;
    }
    /* "train_cuts": "train" is a split, not a corpus name. */
    if (ret_name->partition.size_bytes == 0 && ret_name->split.size_bytes > 0) {
        ret_name->partition = ret_name->prefix;
        ret_name->prefix = (spsh_bytes){0};
    }
}

/* ---- audio ---- */

/* Return the path of try `number` of l->written. Empty if that try does not exist. */
static spsh_bytes make_try(spsh__lhotse *l, size_t number)
{
    static const uint8_t above[] = "../../../";
    spsh_bytes path = spsh__builder_bytes(&l->written);
    const bool absolute = path.size_bytes > 0 && path.data[0] == '/';
    if (number == TRY_WRITTEN)
        return path;
    if (number < TRY_SHORTENED && (absolute || (number == TRY_PROCESS && l->cwd == NULL)))
        return (spsh_bytes){0};
    if (number == TRY_PROCESS)
        return spsh__strings_path(l->scan, spsh__bytes_of(l->cwd), path);
    if (number < TRY_SHORTENED)
        return SPSH__JOIN(l->scan, (spsh_bytes){above, 3 * (number - TRY_ABOVE + 1)}, path);
    if (absolute)
        path = (spsh_bytes){path.data + 1, path.size_bytes - 1};
    for (size_t i = TRY_SHORTENED; i <= number; i++) {
        const uint8_t *slash =
            path.size_bytes == 0 ? NULL : memchr(path.data, '/', path.size_bytes);
        if (slash == NULL)
            return (spsh_bytes){0};
        path = (spsh_bytes){slash + 1, path.size_bytes - (size_t)(slash + 1 - path.data)};
    }
    return path.size_bytes > 0 && memchr(path.data, '/', path.size_bytes) != NULL ? path
                                                                                  : (spsh_bytes){0};
}

static spsh_status resolve(spsh__lhotse *l, spsh__audio_file *ret_file, spsh_error *err)
{
    spsh__audio_file first = {.found = SPSH__AUDIO_MISSING};
    for (size_t i = 0; i <= TRIES; i++) {
        const size_t number = i == 0 ? l->last_try : i - 1;
        const spsh_bytes path = make_try(l, number);
        if (path.size_bytes == 0)
            continue;
        spsh_status rc = spsh__audio_resolve(l->resolver, path, ret_file, err);
        if (rc != SPSH_OK)
            return rc;
        if (ret_file->found == SPSH__AUDIO_FOUND || ret_file->found == SPSH__AUDIO_REMOTE) {
            l->last_try = number;
            return SPSH_OK;
        }
        if (number == TRY_WRITTEN)
            first = *ret_file;
    }
    *ret_file = first;
    return SPSH_OK;
}

static void refuse(spsh__lhotse_audio *audio, spsh_reject_reason reason, const char *detail)
{
    audio->reject.reason = reason;
    audio->reject.detail = detail;
}

/* Find the file in l->written. */
static spsh_status find_file(spsh__lhotse *l, spsh__lhotse_audio *audio, spsh_error *err)
{
    spsh__audio_file file;
    audio->reject.source = spsh__builder_bytes(&l->written);
    if (l->resolver == NULL || l->written.size_bytes == 0) {
        refuse(audio, SPSH_REJECT_MISSING_AUDIO, "the recording names no file");
        return SPSH_OK;
    }
    if (l->cwd == NULL)
        l->cwd = realpath(".", NULL);
    spsh_status rc = resolve(l, &file, err);
    if (rc != SPSH_OK || spsh__audio_refused(&file, &audio->reject))
        return rc;
    spsh__builder_clear(&l->source);
    spsh__name_append(&l->source, spsh__bytes_of(file.path));
    audio->found = true;
    audio->path = file.path;
    audio->source = spsh__builder_bytes(&l->source);
    audio->size_bytes = file.size_bytes;
    return l->source.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Find the audio of a command. Lhotse omits the pipe sign that Kaldi's commands have. */
static spsh_status find_command(spsh__lhotse *l, spsh_bytes command, spsh__lhotse_audio *audio,
                                spsh_error *err)
{
    spsh__builder_clear(&l->written);
    spsh__builder_append_bytes(&l->written, command);
    spsh__builder_append(&l->written, " |", 2);
    if (l->written.failed)
        return SPSH_NO_MEMORY(err);
    spsh__kaldi_source_parse(spsh__builder_bytes(&l->written), &l->command);
    if (l->command.path.failed || l->command.channel.failed)
        return SPSH_NO_MEMORY(err);
    if (l->command.problem != NULL) {
        spsh__builder_clear(&l->detail);
        spsh__builder_append_text(&l->detail, l->command.problem);
        spsh__builder_append_text(&l->detail, ": ");
        spsh__name_append(
            &l->detail,
            (spsh_bytes){command.data, command.size_bytes < 160 ? command.size_bytes : 160});
        refuse(audio, SPSH_REJECT_COMMAND_SOURCE, spsh__builder_text(&l->detail));
        return l->detail.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    spsh__builder_clear(&l->written);
    spsh__builder_append_bytes(&l->written, spsh__builder_bytes(&l->command.path));
    if (l->written.failed)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = find_file(l, audio, err);
    l->commands += audio->found;
    return rc;
}

/* Find the audio of a source: {"type": "file", "channels": [0], "source": "a.wav"} */
static spsh_status find_source(spsh__lhotse *l, const spsh__json_value *source,
                               spsh__lhotse_audio *audio, spsh_error *err)
{
    static const char *const names[] = {"type", "source"};
    spsh__json_value v[2];
    size_t offset = 0;
    static const unsigned kinds[] = {SPSH__JSON_STRINGS, SPSH__JSON_STRINGS};
    if (spsh__json_pick(source->raw, names, 2, v, NULL, &offset) != NULL ||
        spsh__json_kind_problem(v, names, kinds, 2, l->kind_problem) != NULL) {
        refuse(audio, SPSH_REJECT_ROW_SYNTAX,
               "a source must be an object with the strings 'type' and 'source'");
        return SPSH_OK;
    }
    spsh__builder_clear(&l->written);
    const spsh_bytes written = spsh__strings_json_text(l->scan, &v[1]);
    if (is_text(&v[0], "command"))
        return find_command(l, written, audio, err);
    if (is_text(&v[0], "memory")) {
        refuse(audio, SPSH_REJECT_UNSUPPORTED_SOURCE,
               "audio inside the manifest (type 'memory') is not read; write it to files");
    } else if (is_text(&v[0], "shar")) {
        refuse(audio, SPSH_REJECT_UNSUPPORTED_SOURCE,
               "its audio is in an archive of a Shar, which is not next to the manifest");
    } else if (is_text(&v[0], "url")) {
        spsh__builder_append_bytes(&l->written, written);
        audio->reject.source = spsh__builder_bytes(&l->written);
        refuse(audio, SPSH_REJECT_REMOTE_SOURCE,
               "only audio in files can be read; download it first");
    } else if (is_text(&v[0], "file")) {
        spsh__builder_append_bytes(&l->written, written);
        return l->written.failed ? SPSH_NO_MEMORY(err) : find_file(l, audio, err);
    } else {
        refuse(audio, SPSH_REJECT_UNSUPPORTED_SOURCE, "the type of its source is unknown");
    }
    return l->written.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

spsh_status spsh__lhotse_find_audio(spsh__lhotse *l, const spsh__json_value *values,
                                    spsh__lhotse_audio *ret_audio, spsh_error *err)
{
    spsh_bytes rest = values[SOURCES].raw;
    spsh__json_value source, second;
    spsh__lhotse_audio audio = {.reject = {.rows = 1}};
    const char *problem =
        spsh__lhotse_kind_problem(SPSH__LHOTSE_RECORDINGS, values, l->kind_problem);
    spsh__builder_clear(&l->recording_id);
    spsh__builder_clear(&l->command.channel);
    if (problem != NULL) {
        refuse(&audio, SPSH_REJECT_ROW_SYNTAX, problem);
        *ret_audio = audio;
        return SPSH_OK;
    }
    spsh__json_unescape(&values[RECORDING_ID], &l->recording_id);
    if (l->recording_id.failed)
        return SPSH_NO_MEMORY(err);
    audio.recording_id = spsh__builder_bytes(&l->recording_id);
    if (spsh__json_seconds(&values[DURATION], &audio.expected_ns) != SPSH__TIME_OK)
        audio.expected_ns = 0;
    spsh_status rc = SPSH_OK;
    if (has_elements(&values[TRANSFORMS]))
        refuse(&audio, SPSH_REJECT_UNSUPPORTED_SOURCE,
               "the recording has 'transforms' (speed, volume ...): its file is not what the "
               "manifest describes");
    else if (values[SOURCES].kind != SPSH__JSON_ARRAY || !spsh__json_array_next(&rest, &source))
        refuse(&audio, SPSH_REJECT_MISSING_AUDIO, "the recording has no source");
    else if (spsh__json_array_next(&rest, &second))
        refuse(&audio, SPSH_REJECT_UNSUPPORTED_SOURCE,
               "its channels are in several files; join them to one file first");
    else
        rc = find_source(l, &source, &audio, err);
    *ret_audio = audio;
    return rc;
}

/* ---- cuts ---- */

static const char *cut_problem(const spsh__json_value *v, spsh_reject_reason *ret_reason)
{
    *ret_reason = SPSH_REJECT_UNSUPPORTED_SOURCE;
    if (is_text(&v[CUT_TYPE], "MixedCut"))
        return "a MixedCut is several recordings mixed or joined; no file has its "
               "audio";
    if (is_text(&v[CUT_TYPE], "PaddingCut"))
        return "a PaddingCut is silence that is in no file";
    if (!is_text(&v[CUT_TYPE], "MonoCut") && !is_text(&v[CUT_TYPE], "MultiCut") &&
        !is_text(&v[CUT_TYPE], "Cut"))
        return "the type of the cut is unknown";
    return NULL;
}

/* The JSON of the supervisions, for a loop over them. */
static spsh_bytes supervisions_of(const spsh__lhotse_cut *cut)
{
    return cut->supervisions.kind == SPSH__JSON_ARRAY ? cut->supervisions.raw : (spsh_bytes){0};
}

uint64_t spsh__lhotse_cut_rows(const spsh__lhotse_cut *cut)
{
    spsh_bytes rest = supervisions_of(cut);
    spsh__json_value supervision;
    uint64_t rows = 0;
    while (spsh__json_array_next(&rest, &supervision))
        rows++;
    return rows > 0 ? rows : 1;
}

/* Add a time to the start in a recording. The value may be negative. */
static bool add_time(const spsh__json_value *value, uint64_t base_ns, uint64_t *ret_ns)
{
    spsh__json_value positive = *value;
    uint64_t ns = 0;
    const bool negative =
        value->kind == SPSH__JSON_NUMBER && value->raw.size_bytes > 0 && value->raw.data[0] == '-';
    if (negative)
        positive.raw = (spsh_bytes){value->raw.data + 1, value->raw.size_bytes - 1};
    if (spsh__json_seconds(&positive, &ns) != SPSH__TIME_OK || (negative && ns > base_ns))
        return false;
    *ret_ns = negative ? base_ns - ns : base_ns + ns;
    return *ret_ns <= 2 * SPSH__TIME_NS_MAX;
}

void spsh__lhotse_cut_take(spsh__lhotse *l, const spsh__jsonl_line *line, spsh__lhotse_cut *ret_cut)
{
    const spsh__json_value *v = line->values;
    spsh__lhotse_cut cut = {.id = spsh__strings_json_text(l->scan, &v[CUT_ID]),
                            .line = line->raw,
                            .supervisions = v[CUT_SUPERVISIONS],
                            .recording = v[CUT_RECORDING],
                            .custom = v[CUT_CUSTOM],
                            .channel = v[CUT_CHANNEL],
                            .reason = SPSH_REJECT_ROW_SYNTAX};
    cut.problem = spsh__lhotse_kind_problem(SPSH__LHOTSE_CUTS, v, l->kind_problem);
    if (cut.problem == NULL)
        cut.problem = cut_problem(v, &cut.reason);
    if (cut.problem == NULL &&
        (!add_time(&v[CUT_START], 0, &cut.start_ns) ||
         !add_time(&v[CUT_DURATION], cut.start_ns, &cut.end_ns) || cut.end_ns <= cut.start_ns)) {
        cut.reason = SPSH_REJECT_SEGMENT_RANGE;
        cut.problem = "the cut needs a start of 0 or more and a duration above 0, in seconds";
    }
    *ret_cut = cut;
}

/* ---- utterances ---- */

/* Value of --domain column:NAME in the supervision or its "custom", else in the cut. */
static spsh_bytes column_of(spsh__lhotse *l, spsh_bytes raw)
{
    const char *name = (const char *)l->scan->domain_name.data;
    spsh__json_value v[2];
    size_t offset = 0;
    char inner[SPSH_NAME_BYTES_MAX + 8];
    const char *const names[] = {name, inner};
    if (raw.size_bytes == 0 || snprintf(inner, sizeof(inner), "custom.%s", name) < 0 ||
        spsh__json_pick(raw, names, 2, v, NULL, &offset) != NULL)
        return (spsh_bytes){0};
    const spsh_bytes own = spsh__strings_json_name(l->scan, &v[0]);
    return own.size_bytes > 0 ? own : spsh__strings_json_name(l->scan, &v[1]);
}

static spsh_bytes domain_of(spsh__lhotse *l, spsh_bytes supervision, spsh_bytes cut,
                            spsh_bytes language)
{
    if (l->scan->domain_rule != SPSH__DOMAIN_COLUMN)
        return l->name.prefix.size_bytes > 0 ? l->name.prefix : language;
    const spsh_bytes own = column_of(l, supervision);
    return own.size_bytes > 0 ? own : column_of(l, cut);
}

static bool has_members(const spsh__json_value *object)
{
    return object->kind == SPSH__JSON_OBJECT &&
           memchr(object->raw.data, '"', object->raw.size_bytes);
}

/* Collect the other members of the supervision, and fields of its cut and its manifest. */
static spsh_bytes make_extras(spsh__lhotse *l, spsh_bytes own, const spsh__lhotse_cut *cut,
                              spsh_bytes id)
{
    spsh__builder *extras = spsh__strings_open(l->scan);
    spsh__builder_append_bytes(extras, own);
    if (extras->size_bytes > 0)
        extras->size_bytes--; /* the closing brace */
    if (cut != NULL && own.size_bytes == 0)
        spsh__json_value_member(extras, 0, "channel", &cut->channel);
    if (cut != NULL && cut->id.size_bytes > 0 && !spsh__bytes_equal(cut->id, id))
        spsh__json_member(extras, 0, spsh__bytes_of("cut"), cut->id);
    if (cut != NULL && has_members(&cut->custom))
        spsh__json_value_member(extras, 0, "cut_custom", &cut->custom);
    if (l->command.channel.size_bytes > 0)
        spsh__json_member(extras, 0, spsh__bytes_of("source_channel"),
                          spsh__builder_bytes(&l->command.channel));
    if (l->name.partition.size_bytes > 0 && !spsh__bytes_equal(l->name.partition, l->name.split))
        spsh__json_member(extras, 0, spsh__bytes_of("partition"), l->name.partition);
    spsh__json_close(extras, 0);
    return spsh__strings_close(l->scan);
}

static spsh_status emit(spsh__lhotse *l, spsh_ingest_item *item, const spsh__lhotse_audio *audio,
                        const spsh__row_place *place, spsh_error *err)
{
    item->audio_path = audio->path;
    item->audio = audio->piece;
    item->source = audio->source;
    item->recording_id = audio->source;
    item->split = l->name.split;
    item->document = audio->recording_id;
    item->source_bytes = audio->size_bytes;
    return spsh__scan_emit(l->scan, item, place, err);
}

spsh_status spsh__lhotse_supervision_emit(spsh__lhotse *l,
                                          const spsh__lhotse_supervision *supervision,
                                          const spsh__lhotse_cut *cut,
                                          const spsh__lhotse_audio *audio,
                                          const spsh__row_place *place, spsh_error *err)
{
    const spsh__json_value *v = supervision->values;
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    spsh_ingest_item item = {.id = spsh__strings_json_text(l->scan, &v[SUP_ID])};
    spsh_reject reject = audio->reject;
    reject.id = item.id;
    reject.rows = 1;
    const char *problem = spsh__lhotse_kind_problem(SPSH__LHOTSE_SUPERVISIONS, v, buffer);
    if (problem != NULL) {
        reject.reason = SPSH_REJECT_ROW_SYNTAX;
        reject.detail = problem;
    }
    if (problem != NULL || !audio->found)
        return spsh__scan_reject(l->scan, &reject, place, err);
    if (!add_time(&v[SUP_START], cut == NULL ? 0 : cut->start_ns, &item.start_ns) ||
        !add_time(&v[SUP_DURATION], item.start_ns, &item.end_ns) || item.end_ns <= item.start_ns) {
        reject.reason = SPSH_REJECT_SEGMENT_RANGE;
        reject.source = audio->source;
        reject.detail =
            "the supervision is not within its recording, or its duration is not above 0";
        return spsh__scan_reject(l->scan, &reject, place, err);
    }
    item.text = spsh__strings_json_text(l->scan, &v[SUP_TEXT]);
    item.has_text = item.text.size_bytes > 0;
    item.speaker = spsh__strings_json_name(l->scan, &v[SUP_SPEAKER]);
    item.language = spsh__strings_json_name(l->scan, &v[SUP_LANGUAGE]);
    item.domain =
        domain_of(l, supervision->raw, cut == NULL ? (spsh_bytes){0} : cut->line, item.language);
    item.extras = make_extras(l, supervision->extras, cut, item.id);
    return emit(l, &item, audio, place, err);
}

/* Emit a cut or a recording without supervisions: one utterance with its whole span and no
 * transcript. */
static spsh_status emit_unlabelled(spsh__lhotse *l, const spsh__lhotse_cut *cut,
                                   const spsh__lhotse_audio *audio, const spsh__row_place *place,
                                   spsh_error *err)
{
    spsh_ingest_item item = {.id = cut->id,
                             .start_ns = cut->start_ns,
                             .end_ns = cut->end_ns,
                             .expected_ns = audio->expected_ns};
    spsh_reject reject = audio->reject;
    reject.id = cut->id;
    reject.rows = 1;
    if (!audio->found)
        return spsh__scan_reject(l->scan, &reject, place, err);
    item.domain = domain_of(l, (spsh_bytes){0}, cut->line, (spsh_bytes){0});
    item.extras = make_extras(l, (spsh_bytes){0}, cut, cut->id);
    return emit(l, &item, audio, place, err);
}

static spsh_status emit_inner(spsh__lhotse *l, const spsh__json_value *raw,
                              const spsh__lhotse_cut *cut, const spsh__lhotse_audio *audio,
                              const spsh__row_place *place, spsh_error *err)
{
    spsh__json_value values[SPSH__LHOTSE_NAMES_MAX];
    size_t offset = 0;
    spsh__builder_clear(&l->picked);
    const char *problem = spsh__json_pick(raw->raw, spsh__lhotse_supervision_names,
                                          SPSH__LHOTSE_NAMES_MAX, values, &l->picked, &offset);
    if (l->picked.failed)
        return SPSH_NO_MEMORY(err);
    if (problem != NULL) {
        const spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX,
                                    .id = cut->id,
                                    .detail = "a supervision of the cut is not a JSON object",
                                    .rows = 1};
        return spsh__scan_reject(l->scan, &reject, place, err);
    }
    const spsh__lhotse_supervision supervision = {values, spsh__builder_bytes(&l->picked),
                                                  raw->raw};
    return spsh__lhotse_supervision_emit(l, &supervision, cut, audio, place, err);
}

spsh_status spsh__lhotse_cut_emit(spsh__lhotse *l, const spsh__lhotse_cut *cut,
                                  const spsh__lhotse_audio *audio, const spsh__row_place *place,
                                  spsh_error *err)
{
    spsh_bytes rest = supervisions_of(cut);
    spsh__json_value supervision;
    spsh_status rc = SPSH_OK;
    if (cut->problem != NULL) {
        const spsh_reject reject = {.reason = cut->reason,
                                    .id = cut->id,
                                    .detail = cut->problem,
                                    .rows = spsh__lhotse_cut_rows(cut)};
        return spsh__scan_reject(l->scan, &reject, place, err);
    }
    bool labelled = false;
    while (rc == SPSH_OK && spsh__json_array_next(&rest, &supervision)) {
        const spsh__strings_mark mark = spsh__strings_here(l->scan);
        labelled = true;
        rc = emit_inner(l, &supervision, cut, audio, place, err);
        spsh__strings_release(l->scan, mark);
    }
    return labelled ? rc : emit_unlabelled(l, cut, audio, place, err);
}

void spsh__lhotse_free(spsh__lhotse *l)
{
    SPSH__BUILDERS_FREE(&l->written, &l->source, &l->recording_id, &l->detail, &l->picked);
    spsh__kaldi_source_free(&l->command);
    spsh__audio_resolver_free(l->resolver);
    free(l->cwd);
}
