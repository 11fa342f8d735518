/* sample_scan.c: see sample_scan.h.
 *
 * The metadata of an utterance come from its .json, its .txt, and the names of the archives. A
 * .json with an object `extras` has our own format (STREAM.md): it is complete, and fields
 * that it omits are absent. In any other .json, members with known names are used, and the rest is
 * kept as extras.
 *
 * An id is the key, or the archive's path and the key if two archives share a key, unless the .json
 * has an `id`. Each key takes 32 to 64 bytes while the archives are read.
 */
#include "sample_scan.h"

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/name_index.h"
#include "ingest/view/text_file.h"
#include "json_manifest.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"
#include "table.h"

#define JSON_BYTES_MAX SPSH__ROW_BYTES_MAX
#define RATE_DIGITS    9U
#define ROWS_DIGITS    18U

typedef enum json_role {
    ROLE_TEXT, /* the string roles come first */
    ROLE_ID,
    ROLE_SPEAKER,
    ROLE_LANGUAGE,
    ROLE_DOMAIN,
    ROLE_SPLIT,
    ROLE_DOCUMENT,
    ROLE_SOURCE,
    TEXT_ROLES,
    ROLE_EXTRAS = TEXT_ROLES,
    ROLE_RATE,
    ROLE_REASON,
    ROLE_DETAIL,
    ROLE_ROWS,
    ROLE_COUNT,
} json_role;

/* Keys of each role, in order of priority. */
static const struct {
    json_role role;
    const char *name;
} json_keys[] = {
    {ROLE_TEXT,     "text"           },
    {ROLE_TEXT,     "transcript"     },
    {ROLE_TEXT,     "sentence"       },
    {ROLE_TEXT,     "transcription"  },
    {ROLE_TEXT,     "normalized_text"},
    {ROLE_ID,       "id"             },
    {ROLE_SPEAKER,  "speaker"        },
    {ROLE_SPEAKER,  "speaker_id"     },
    {ROLE_LANGUAGE, "language"       },
    {ROLE_LANGUAGE, "lang"           },
    {ROLE_DOMAIN,   "domain"         },
    {ROLE_SPLIT,    "split"          },
    {ROLE_DOCUMENT, "document"       },
    {ROLE_SOURCE,   "source"         },
    {ROLE_EXTRAS,   "extras"         },
    {ROLE_RATE,     "nominal_rate_hz"},
    {ROLE_REASON,   "reject.reason"  },
    {ROLE_DETAIL,   "reject.detail"  },
    {ROLE_ROWS,     "reject.rows"    },
};

#define KEY_COUNT (sizeof(json_keys) / sizeof(json_keys[0]))

/** A parsed .json. */
typedef struct description {
    spsh__json_value values[KEY_COUNT];
    const spsh__json_value *roles[ROLE_COUNT]; /* NULL: none */
    spsh_bytes texts[TEXT_ROLES];
    spsh_bytes whole;
    bool is_ours;
} description;

typedef struct sample_scan {
    spsh__scan *scan;
    const spsh__sample_set *set;
    const char *names[KEY_COUNT];
    spsh__name_index keys; /* value: 1 + index of the last archive that had the key */
    bool several;          /* two archives share a key */
    size_t number;         /* index of the archive being read */
    const char *archive;
    size_t stem_bytes;  /* length of archive without extensions */
    spsh__builder name; /* path of the archive, or the name of a root that is an archive */
    spsh_bytes prefix, split;
    spsh__text_file file; /* file of the last .json: normally the archive */
    spsh__builder file_path;
    spsh__builder json, extras;
    char kind_problem[SPSH__JSON_KIND_PROBLEM_BYTES];
} sample_scan;

/* ---- names of archives ---- */

/* Length of a name before its packaging extensions. */
static size_t archive_stem(const char *path)
{
    static const char *const endings[] = {".gz",  ".xz",  ".bz2", ".zst", ".lz4",
                                          ".tar", ".tgz", ".txz", ".zip"};
    size_t size_bytes = strlen(path);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (spsh__has_extension((spsh_bytes){(const uint8_t *)path, size_bytes}, endings[i]))
            size_bytes -= strlen(endings[i]);
    }
    return size_bytes;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

const char *spsh__sample_archive_name(const spsh__view *view, const char *archive,
                                      spsh__builder *out)
{
    spsh__builder_clear(out);
    if (archive[0] != '\0')
        spsh__builder_append_text(out, archive);
    else
        spsh__view_folder_name(view, "", out);
    return spsh__builder_text(out);
}

size_t spsh__sample_number_digits(const char *archive)
{
    const char *base = spsh__base_name(archive);
    const size_t size_bytes = archive_stem(base);
    size_t digits = 0;
    while (digits < size_bytes && is_digit(base[size_bytes - digits - 1]))
        digits++;
    return digits;
}

/* Whether a word is too common in part names to identify a corpus. */
static bool is_meaningless(spsh_bytes word)
{
    static const char *const words[] = {"shard", "shards",     "part", "parts", "chunk",
                                        "audio", "data",       "wds",  "train", "dev",
                                        "test",  "validation", "val",  "valid", "eval"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (spsh__bytes_equal_nocase(word, spsh__bytes_of(words[i])))
            return true;
    }
    return false;
}

spsh_bytes spsh__sample_prefix(const char *archive)
{
    const char *base = spsh__base_name(archive);
    const size_t digits = spsh__sample_number_digits(archive);
    spsh_bytes name = {(const uint8_t *)base, archive_stem(base) - digits};
    if (digits == 0)
        return (spsh_bytes){0};
    while (name.size_bytes > 0 && strchr("-_.", name.data[name.size_bytes - 1]) != NULL)
        name.size_bytes--;
    for (size_t i = 0; i < name.size_bytes;) {
        size_t length = 0;
        while (i + length < name.size_bytes && is_letter(name.data[i + length]))
            length++;
        if (length > 0 && !is_meaningless((spsh_bytes){name.data + i, length}))
            return name;
        i += length + 1;
    }
    return (spsh_bytes){0};
}

/* Split in the last part of the path, or in the name of the nearest folder above it. Truncates
 * path. */
static spsh_bytes split_of_path(char *path)
{
    for (;;) {
        char *slash = strrchr(path, '/');
        const spsh_bytes split = spsh__split_of_name(slash == NULL ? path : slash + 1);
        if (split.size_bytes > 0 || slash == NULL)
            return split;
        *slash = '\0';
    }
}

/* Derive prefix and split from the archive's name. Returns false if out of memory. */
static bool take_name(sample_scan *s)
{
    if (spsh__sample_archive_name(s->scan->options->view, s->archive, &s->name) == NULL)
        return false;
    s->stem_bytes = archive_stem(s->archive);
    s->prefix = spsh__strings_name(s->scan, spsh__sample_prefix((const char *)s->name.data));
    if (s->split.size_bytes == 0)
        s->split = split_of_path((char *)s->name.data);
    if (s->split.size_bytes == 0)
        s->split = s->set->split;
    return !s->scan->strings.failed;
}

/* ---- the .json ---- */

static const unsigned role_kinds[ROLE_COUNT] = {
    [ROLE_TEXT] = SPSH__JSON_STRINGS,   [ROLE_ID] = SPSH__JSON_STRINGS,
    [ROLE_SPEAKER] = SPSH__JSON_NAMES,  [ROLE_LANGUAGE] = SPSH__JSON_NAMES,
    [ROLE_DOMAIN] = SPSH__JSON_NAMES,   [ROLE_SPLIT] = SPSH__JSON_NAMES,
    [ROLE_DOCUMENT] = SPSH__JSON_NAMES, [ROLE_SOURCE] = SPSH__JSON_STRINGS,
    [ROLE_EXTRAS] = SPSH__JSON_OBJECTS, [ROLE_RATE] = SPSH__JSON_NUMBERS,
    [ROLE_REASON] = SPSH__JSON_STRINGS, [ROLE_DETAIL] = SPSH__JSON_STRINGS,
    [ROLE_ROWS] = SPSH__JSON_NUMBERS,
};

static bool fits_role(json_role role, const spsh__json_value *value)
{
    return (role_kinds[role] >> value->kind & 1) != 0;
}

static uint64_t take_number(const spsh__json_value *value, size_t digits_max, uint64_t otherwise)
{
    uint64_t number = 0;
    return value != NULL && value->raw.size_bytes <= digits_max &&
                   spsh__parse_digits(value->raw, &number)
               ? number
               : otherwise;
}

/* Sampling rate, or 0 if a shard cannot store it. */
static uint32_t take_rate(const spsh__json_value *value)
{
    const uint64_t rate_hz = take_number(value, RATE_DIGITS, 0);
    return rate_hz < SPSH_SAMPLE_RATE_HZ_MIN || rate_hz > SPSH_SAMPLE_RATE_HZ_MAX
               ? 0
               : (uint32_t)rate_hz;
}

/* NULL, or why the .json must be rejected. In our format, each member has a fixed type. In a
 * foreign .json, a member of another type becomes an extra, except for the text: without it the
 * utterance would be packed without a transcript. */
static const char *kind_problem(sample_scan *s, const description *d, bool has_text_file)
{
    const char *problem = NULL;
    const bool needs_text = !d->is_ours && !has_text_file && d->roles[ROLE_TEXT] == NULL;
    if (d->roles[ROLE_REASON] != NULL)
        return NULL;
    if (d->is_ours && d->roles[ROLE_RATE] != NULL && take_rate(d->roles[ROLE_RATE]) == 0)
        return "'nominal_rate_hz' is not a sample rate";
    for (size_t i = 0; i < KEY_COUNT && problem == NULL; i++) {
        const json_role role = json_keys[i].role;
        const bool is_alias = i > 0 && json_keys[i - 1].role == role;
        if ((d->is_ours && !is_alias) || (needs_text && role == ROLE_TEXT) || role == ROLE_REASON)
            problem = spsh__json_kind_problem(&d->values[i], &s->names[i], &role_kinds[role], 1,
                                              s->kind_problem);
    }
    return problem;
}

/* Take the string values. In a foreign .json, a number counts as its digits. */
static void take_texts(sample_scan *s, description *d)
{
    for (size_t role = 0; role < TEXT_ROLES; role++) {
        const spsh__json_value *value = d->roles[role];
        if (value == NULL)
            d->texts[role] = (spsh_bytes){0};
        else if (!d->is_ours && role >= ROLE_SPEAKER)
            d->texts[role] = spsh__strings_json_name(s->scan, value);
        else
            d->texts[role] = value->kind == SPSH__JSON_NUMBER
                                 ? value->raw
                                 : spsh__strings_json_text(s->scan, value);
    }
}

/* The problem of the .json in s->json, or NULL. */
static const char *parse_description(sample_scan *s, description *d)
{
    size_t offset = 0;
    d->whole = spsh__without_mark(spsh__builder_bytes(&s->json));
    spsh__builder_clear(&s->extras);
    const char *problem =
        spsh__json_pick(d->whole, s->names, KEY_COUNT, d->values, &s->extras, &offset);
    for (size_t i = 0; i < KEY_COUNT && problem == NULL; i++) {
        const json_role role = json_keys[i].role;
        if (d->roles[role] == NULL && fits_role(role, &d->values[i]))
            d->roles[role] = &d->values[i];
    }
    d->is_ours = d->roles[ROLE_EXTRAS] != NULL || d->roles[ROLE_REASON] != NULL;
    return problem;
}

/* Open the whole file that contains a piece, unless it is open already. */
static spsh_status open_file(sample_scan *s, const spsh__piece *piece, spsh_error *err)
{
    const spsh__piece whole = {piece->path, 0, piece->file_bytes, piece->file_bytes};
    if (s->file.fd >= 0 &&
        spsh__bytes_equal(spsh__builder_bytes(&s->file_path), spsh__bytes_of(piece->path)))
        return SPSH_OK;
    spsh__text_file_close(&s->file);
    spsh__builder_clear(&s->file_path);
    spsh__builder_append_text(&s->file_path, piece->path);
    if (s->file_path.failed)
        return SPSH_NO_MEMORY(err);
    return spsh__text_file_open_piece(&whole, s->archive, &s->file, err);
}

/* Read a .json. *ret_problem describes an invalid one. */
static spsh_status read_description(sample_scan *s, const spsh__sample_part *json, description *d,
                                    const char **ret_problem, spsh_error *err)
{
    size_t size_bytes = 0;
    spsh__builder_clear(&s->json);
    if (json->piece.size_bytes > JSON_BYTES_MAX) {
        *ret_problem = "its .json is longer than 16 MiB";
        return SPSH_OK;
    }
    uint8_t *data = spsh__builder_reserve(&s->json, (size_t)json->piece.size_bytes + 1);
    if (data == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = open_file(s, &json->piece, err);
    if (rc == SPSH_OK) {
        const spsh__text_input input = spsh__text_input_file(&s->file);
        rc = input.read_at_fn(input.user, json->piece.offset_bytes, data,
                              (size_t)json->piece.size_bytes, &size_bytes, err);
    }
    s->json.size_bytes = size_bytes;
    if (rc != SPSH_OK)
        return rc;
    *ret_problem = parse_description(s, d);
    take_texts(s, d);
    return s->extras.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static bool is_empty_object(spsh_bytes raw)
{
    size_t names = 0;
    for (size_t i = 0; i < raw.size_bytes; i++)
        names += raw.data[i] == '"';
    return names == 0;
}

static spsh_bytes take_extras(sample_scan *s, const description *d, bool text_is_used)
{
    if (d->is_ours) {
        const spsh__json_value *extras = d->roles[ROLE_EXTRAS];
        return extras == NULL || is_empty_object(extras->raw) ? (spsh_bytes){0} : extras->raw;
    }
    if (s->extras.size_bytes > 0)
        s->extras.size_bytes--; /* the closing brace */
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const json_role role = json_keys[i].role;
        const spsh__json_value *value = &d->values[i];
        const bool used =
            d->roles[role] == value && role != ROLE_SOURCE && (role != ROLE_TEXT || text_is_used);
        if (!used)
            spsh__json_value_member(&s->extras, 0, json_keys[i].name, value);
    }
    spsh__json_close(&s->extras, 0);
    return spsh__builder_bytes(&s->extras);
}

/* --domain column:NAME selects a member of `extras` in our format, or of the whole object in a
 * foreign .json. */
static spsh_bytes take_column(sample_scan *s, const description *d)
{
    spsh_bytes object = d->whole;
    if (d->is_ours)
        object = d->roles[ROLE_EXTRAS] == NULL ? (spsh_bytes){0} : d->roles[ROLE_EXTRAS]->raw;
    return object.size_bytes == 0 ? object : spsh__strings_json_column(s->scan, object);
}

static spsh_bytes take_domain(sample_scan *s, const description *d)
{
    if (s->scan->domain_rule == SPSH__DOMAIN_COLUMN)
        return take_column(s, d);
    if (d->is_ours || d->texts[ROLE_DOMAIN].size_bytes > 0)
        return d->texts[ROLE_DOMAIN];
    return d->texts[ROLE_LANGUAGE].size_bytes > 0 ? d->texts[ROLE_LANGUAGE] : s->prefix;
}

/* ---- samples ---- */

static bool ends_in(spsh_bytes extension, const char *word)
{
    const spsh_bytes end = spsh__bytes_of(word);
    if (extension.size_bytes < end.size_bytes)
        return false;
    const size_t at = extension.size_bytes - end.size_bytes;
    return memcmp(extension.data + at, end.data, end.size_bytes) == 0 &&
           (at == 0 || extension.data[at - 1] == '.');
}

/* Rank of an extension as a text: 0 is best, SPSH__SIDECAR_RANKS is not a text. */
static unsigned text_rank(const spsh__sample_part *part)
{
    for (unsigned rank = SPSH__SIDECAR_RANKS; rank-- > 0;) {
        const size_t stem = spsh__sidecar_stem(part->name, rank);
        if (stem > 0 && part->name.size_bytes - stem == part->extension.size_bytes + 1)
            return rank; /* the rank covers the whole extension */
    }
    return ends_in(part->extension, "txt") ? SPSH__SIDECAR_RANKS - 1 : SPSH__SIDECAR_RANKS;
}

spsh__sample_roles spsh__sample_roles_of(const spsh__sample *sample)
{
    spsh__sample_roles roles = {0};
    unsigned best = SPSH__SIDECAR_RANKS;
    for (size_t i = 0; i < sample->part_count; i++) {
        const spsh__sample_part *part = &sample->parts[i];
        const unsigned rank = text_rank(part);
        if (spsh__is_audio_name(part->name)) {
            roles.audio = roles.audio == NULL ? part : roles.audio;
        } else if (ends_in(part->extension, "json")) {
            roles.json = roles.json == NULL ? part : roles.json;
        } else if (rank < best) {
            roles.text = part;
            best = rank;
        }
    }
    return roles;
}

/* Source of a member: the path of the archive and the name, or only the name if the archive is the
 * corpus. */
static spsh_bytes take_source(sample_scan *s, spsh_bytes name)
{
    return spsh__strings_name(s->scan,
                              spsh__strings_path(s->scan, spsh__bytes_of(s->archive), name));
}

static spsh_bytes take_id(sample_scan *s, spsh_bytes key, const description *d)
{
    const spsh_bytes archive = {(const uint8_t *)s->archive, s->several ? s->stem_bytes : 0};
    if (d->texts[ROLE_ID].size_bytes > 0)
        return d->texts[ROLE_ID];
    return spsh__strings_name(
        s->scan, SPSH__JOIN(s->scan, archive, spsh__bytes_of(s->several ? "/" : ""), key));
}

static spsh_status reject_member(sample_scan *s, spsh_reject_reason reason, spsh_bytes name,
                                 const char *detail, spsh_error *err)
{
    const bool loses_row = reason != SPSH_REJECT_ORPHAN_TEXT &&
                           (reason != SPSH_REJECT_DUP_MEMBER || spsh__is_audio_name(name));
    const spsh_reject reject = {
        .reason = reason, .source = take_source(s, name), .detail = detail, .rows = loses_row};
    return spsh__scan_reject(s->scan, &reject, NULL, err);
}

static spsh_status reject_spare(void *user, spsh_bytes name, const char *detail, spsh_error *err)
{
    sample_scan *s = user;
    const spsh__strings_mark mark = spsh__strings_here(s->scan);
    const spsh_status rc = reject_member(s, SPSH_REJECT_DUP_MEMBER, name, detail, err);
    spsh__strings_release(s->scan, mark);
    return rc;
}

/* Report a sample that its producer marked as rejected. */
static spsh_status reject_described(sample_scan *s, const spsh__sample *sample,
                                    const description *d, spsh_error *err)
{
    spsh_reject reject = {
        .reason = SPSH_REJECT_ROW_SYNTAX,
        .source = d->texts[ROLE_SOURCE],
        .id = d->texts[ROLE_ID],
        .rows = take_number(d->roles[ROLE_ROWS], ROWS_DIGITS, 1),
    };
    for (size_t i = 0; i < SPSH_REJECT_COUNT; i++) {
        const char *text = spsh__reject_reason_text((spsh_reject_reason)i);
        if (spsh__bytes_equal(d->roles[ROLE_REASON]->raw, spsh__bytes_of(text)))
            reject.reason = (spsh_reject_reason)i;
    }
    if (d->roles[ROLE_DETAIL] != NULL)
        reject.detail = spsh__text_of(
            SPSH__JOIN(s->scan, spsh__strings_json_text(s->scan, d->roles[ROLE_DETAIL])));
    if (reject.source.size_bytes == 0)
        reject.source = take_source(s, sample->parts[0].name);
    return spsh__scan_reject(s->scan, &reject, NULL, err);
}

static spsh_status emit_sample(sample_scan *s, const spsh__sample *sample,
                               const spsh__sample_roles *roles, const description *d,
                               spsh_error *err)
{
    /* A separate text file is the text, unless the .json has our format. */
    const bool has_text = d->roles[ROLE_TEXT] != NULL && (d->is_ours || roles->text == NULL);
    const bool has_file = !has_text && roles->text != NULL && !d->is_ours;
    const spsh_bytes id = take_id(s, sample->key, d);
    spsh_ingest_item item = {
        .audio = roles->audio->piece,
        .source = d->is_ours && d->texts[ROLE_SOURCE].size_bytes > 0
                      ? d->texts[ROLE_SOURCE]
                      : take_source(s, roles->audio->name),
        .recording_id = id,
        .id = id,
        .has_text = has_text,
        .text = has_text ? d->texts[ROLE_TEXT] : (spsh_bytes){0},
        .sidecar = has_file ? roles->text->piece : (spsh__piece){0},
        .domain = take_domain(s, d),
        .split =
            d->is_ours || d->texts[ROLE_SPLIT].size_bytes > 0 ? d->texts[ROLE_SPLIT] : s->split,
        .speaker = d->texts[ROLE_SPEAKER],
        .language = d->texts[ROLE_LANGUAGE],
        .document = d->texts[ROLE_DOCUMENT],
        .extras = take_extras(s, d, has_text),
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = roles->audio->piece.size_bytes,
        .nominal_rate_hz = take_rate(d->roles[ROLE_RATE]),
    };
    if (s->extras.failed)
        return SPSH_NO_MEMORY(err);
    if (!spsh__scan_wants_split(s->scan, item.split)) {
        s->scan->excluded_rows++;
        return SPSH_OK;
    }
    return spsh__scan_emit(s->scan, &item, NULL, err);
}

/* Reject a sample without audio. */
static spsh_status reject_silent(sample_scan *s, const spsh__sample_roles *roles, spsh_error *err)
{
    if (roles->json != NULL)
        return reject_member(s, SPSH_REJECT_MISSING_AUDIO, roles->json->name,
                             "no audio file is next to it", err);
    if (roles->text != NULL)
        return reject_member(s, SPSH_REJECT_ORPHAN_TEXT, roles->text->name,
                             "no audio file is next to it", err);
    return SPSH_OK;
}

/* Reject the other audio of a sample. Only the first is used. */
static spsh_status reject_other_audio(sample_scan *s, const spsh__sample *sample,
                                      const spsh__sample_part *audio, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sample->part_count && rc == SPSH_OK; i++) {
        const spsh__sample_part *part = &sample->parts[i];
        if (part != audio && spsh__is_audio_name(part->name))
            rc = reject_member(
                s, SPSH_REJECT_DUP_MEMBER, part->name,
                "its sample already has audio; if names contain dots, use --wds-key last-dot", err);
    }
    return rc;
}

/* Whether the key is new in this archive. Members of one sample are adjacent. */
static spsh_status take_key(sample_scan *s, spsh_bytes key, bool *ret_is_new, spsh_error *err)
{
    spsh__name_slot *slot = spsh__name_index_add(&s->keys, key, 1);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    *ret_is_new = slot->value != s->number + 1;
    slot->value = s->number + 1;
    return SPSH_OK;
}

static spsh_status take_sample(sample_scan *s, const spsh__sample *sample, spsh_error *err)
{
    const spsh__sample_roles roles = spsh__sample_roles_of(sample);
    description d = {0};
    const char *problem = NULL;
    bool is_new = false;
    spsh_status rc = take_key(s, sample->key, &is_new, err);
    if (rc == SPSH_OK)
        rc = spsh__scan_progress(s->scan, 1, err);
    if (rc == SPSH_OK && !is_new)
        return reject_member(s, SPSH_REJECT_DUP_MEMBER,
                             roles.audio == NULL ? sample->parts[0].name : roles.audio->name,
                             "its key appeared earlier in the archive, with other members between",
                             err);
    if (rc == SPSH_OK && roles.audio != NULL)
        rc = reject_other_audio(s, sample, roles.audio, err);
    if (rc == SPSH_OK && roles.json != NULL)
        rc = read_description(s, roles.json, &d, &problem, err);
    if (rc != SPSH_OK)
        return rc;
    if (problem == NULL && roles.json != NULL)
        problem = kind_problem(s, &d, roles.text != NULL);
    if (problem != NULL)
        return reject_member(s, SPSH_REJECT_ROW_SYNTAX, roles.json->name, problem, err);
    if (d.roles[ROLE_REASON] != NULL)
        return reject_described(s, sample, &d, err);
    return roles.audio == NULL ? reject_silent(s, &roles, err)
                               : emit_sample(s, sample, &roles, &d, err);
}

static spsh_status scan_sample(void *user, const spsh__sample *sample, spsh_error *err)
{
    sample_scan *s = user;
    const spsh__strings_mark mark = spsh__strings_here(s->scan);
    const spsh_status rc = take_sample(s, sample, err);
    spsh__strings_release(s->scan, mark);
    return rc;
}

/* ---- archives ---- */

/* Stop the first pass at a key that another archive has. */
static spsh_status compare_key(void *user, const spsh__sample *sample, spsh_error *err)
{
    sample_scan *s = user;
    spsh__name_slot *slot = spsh__name_index_add(&s->keys, sample->key, 1);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    s->several = slot->value != 0 && slot->value != s->number + 1;
    slot->value = s->number + 1;
    return s->several ? SPSH_E_END : SPSH_OK;
}

/* Read all archives once. */
static spsh_status read_archives(sample_scan *s, const spsh__sample_sink *sink, spsh_error *err)
{
    const spsh__view *view = s->scan->options->view;
    const bool to_last_dot = s->scan->options->key_to_last_dot;
    spsh_status rc = SPSH_OK;
    for (s->number = 0; rc == SPSH_OK; s->number++) {
        const spsh__strings_mark mark = spsh__strings_here(s->scan);
        s->split = (spsh_bytes){0};
        s->archive = s->set->archive_fn(s->set->user, s->number, &s->split);
        if (s->archive == NULL)
            break;
        rc = take_name(s) ? spsh__samples_read(view, s->archive, to_last_dot, sink, err)
                          : SPSH_NO_MEMORY(err);
        spsh__strings_release(s->scan, mark);
    }
    return rc;
}

spsh_status spsh__sample_scan(spsh__scan *scan, const spsh__sample_set *set, spsh_error *err)
{
    sample_scan s = {.scan = scan, .set = set, .file = {.fd = -1}};
    const spsh__sample_sink compare = {compare_key, NULL, &s};
    const spsh__sample_sink sink = {scan_sample, reject_spare, &s};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < KEY_COUNT; i++)
        s.names[i] = json_keys[i].name;
    if (set->archive_fn(set->user, 1, &s.split) != NULL)
        rc = read_archives(&s, &compare, err);
    spsh__name_index_free(&s.keys);
    if (rc == SPSH_OK || (rc == SPSH_E_END && s.several))
        rc = read_archives(&s, &sink, err);
    spsh__text_file_close(&s.file);
    SPSH__BUILDERS_FREE(&s.file_path, &s.name, &s.json, &s.extras);
    spsh__name_index_free(&s.keys);
    return rc;
}
