/* audit_statement.c: statement.json, written and checked. */
#include "audit_statement.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "speechshard/io.h"
#include "speechshard/publish.h"

#include "common/hash.h"
#include "plan/limits_json.h"
#include "speechshard/inside.h"

#define SCHEMA "speechshard-audit-statement-1"
/* A raw line end is in no JSON string, so nothing from a corpus can look like this. */
#define MARK "\n  \"statement_hash\": \""

enum { HASH_DIGITS = 32, STATEMENT_BYTES_MAX = 64 << 20, FILE_PIECE_BYTES = 1 << 20 };

/* ---- inputs ---- */

/* A dataset on one side; splits NULL: all. */
typedef struct input {
    spsh_dataset *dataset;
    spsh_side side;
    json_t *splits;
} input;

/* "a,b" -> true members of an object: a set of names. */
static bool add_splits(input *in, const char *splits)
{
    if (splits == NULL) {
        json_decref(in->splits);
        in->splits = NULL;
        return true;
    }
    if (in->splits == NULL)
        return true; /* all are there already */
    while (splits != NULL) {
        const char *comma = strchr(splits, ',');
        char *name = comma != NULL ? strndup(splits, (size_t)(comma - splits)) : strdup(splits);
        const bool good = name != NULL && json_object_set_new(in->splits, name, json_true()) == 0;
        free(name);
        if (!good)
            return false;
        splits = comma != NULL ? comma + 1 : NULL;
    }
    return true;
}

static int compare_inputs(const void *left, const void *right)
{
    const input *l = left;
    const input *r = right;
    if (l->side != r->side)
        return l->side < r->side ? -1 : 1;
    const spsh_dataset_info *a = spsh_dataset_info_get(l->dataset);
    const spsh_dataset_info *b = spsh_dataset_info_get(r->dataset);
    const int order = memcmp(a->dataset_id, b->dataset_id, sizeof(a->dataset_id));
    return order != 0 ? order : memcmp(a->index_hash, b->index_hash, sizeof(a->index_hash));
}

/* Opens a source and puts it with what is there of its side. */
static spsh_status take_source(const spsh_dedup_source *source, const spsh_io *io, input *inputs,
                               size_t *count, spsh_error *err)
{
    spsh_dataset_options options = SPSH_DATASET_OPTIONS_INIT;
    input in = {NULL, source->side, json_object()};
    input *place = &inputs[*count];
    options.io = io;
    if (in.splits == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh_dataset_open(source->path, &options, &in.dataset, err);
    for (size_t i = 0; i < *count && rc == SPSH_OK; i++) {
        if (compare_inputs(&inputs[i], &in) == 0) {
            place = &inputs[i];
            break;
        }
    }
    if (rc == SPSH_OK && place == &inputs[*count]) {
        inputs[(*count)++] = in;
        in = (input){NULL, source->side, NULL};
    }
    if (rc == SPSH_OK && !add_splits(place, source->splits))
        rc = SPSH_NO_MEMORY(err);
    json_decref(in.splits);
    spsh_dataset_close(in.dataset);
    return rc;
}

static json_t *text_of(spsh_bytes text)
{
    return json_stringn(text.data == NULL ? "" : (const char *)text.data, text.size_bytes);
}

static json_t *hash_of(const uint8_t hash[16])
{
    char text[HASH_DIGITS + 1];
    spsh__hex128(hash, text);
    return json_string(text);
}

/* The set's names in order; null for all. */
static json_t *list_splits(json_t *set)
{
    if (set == NULL)
        return json_null();
    char *sorted_text = json_dumps(set, JSON_COMPACT | JSON_SORT_KEYS);
    json_t *sorted = sorted_text != NULL ? json_loads(sorted_text, 0, NULL) : NULL;
    json_t *list = sorted != NULL ? json_array() : NULL;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(sorted, key, value)
    {
        if (list != NULL && json_array_append_new(list, json_string(key)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    json_decref(sorted);
    free(sorted_text);
    return list;
}

static spsh_status list_overlays(const spsh_dataset *dataset, json_t **ret_list, spsh_error *err)
{
    json_t *list = json_array();
    spsh_status rc = list == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (uint64_t i = 0; i < spsh_dataset_info_get(dataset)->overlay_count && rc == SPSH_OK; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        rc = spsh_dataset_overlay(dataset, i, &overlay, err);
        if (rc != SPSH_OK)
            break;
        const char *type = overlay.type == SPSH_OVERLAY_SKIP ? "skip" : "transcript";
        json_t *entry = json_pack("{s:o, s:s, s:I}", "name", text_of(overlay.name), "type", type,
                                  "entries", (json_int_t)overlay.entry_count);
        if (json_array_append_new(list, entry) != 0)
            rc = SPSH_NO_MEMORY(err);
    }
    if (rc == SPSH_OK)
        *ret_list = list;
    else
        json_decref(list);
    return rc;
}

static spsh_status list_inputs(const input *inputs, size_t count, json_t *list, spsh_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const spsh_dataset_info *info = spsh_dataset_info_get(inputs[i].dataset);
        json_t *overlays = NULL;
        char *corpus = NULL;
        spsh_status rc =
            spsh__audit_corpus_name(spsh_dataset_path(inputs[i].dataset), &corpus, err);
        if (rc == SPSH_OK)
            rc = list_overlays(inputs[i].dataset, &overlays, err);
        if (rc != SPSH_OK) {
            free(corpus);
            return rc;
        }
        json_t *entry = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "side",
                                  inputs[i].side == SPSH_SIDE_TRAIN ? "train" : "test", "corpus",
                                  corpus, "dataset_id", hash_of(info->dataset_id), "index_hash",
                                  hash_of(info->index_hash), "splits",
                                  list_splits(inputs[i].splits), "overlays", overlays);
        free(corpus);
        if (json_array_append_new(list, entry) != 0)
            return SPSH_NO_MEMORY(err);
    }
    return SPSH_OK;
}

spsh_status spsh__audit_inputs(const spsh_dedup_source *sources, size_t source_count,
                               const spsh_io *io, char **ret_json, spsh_error *err)
{
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    input *inputs = calloc(source_count + 1, sizeof(*inputs));
    json_t *list = json_array();
    if (inputs == NULL || list == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++)
        rc = take_source(&sources[i], io, inputs, &count, err);
    if (rc == SPSH_OK && count > 1)
        qsort(inputs, count, sizeof(*inputs), compare_inputs);
    if (rc == SPSH_OK)
        rc = list_inputs(inputs, count, list, err);
    if (rc == SPSH_OK) {
        *ret_json = json_dumps(list, JSON_COMPACT);
        rc = *ret_json == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    for (size_t i = 0; i < count; i++) {
        spsh_dataset_close(inputs[i].dataset);
        json_decref(inputs[i].splits);
    }
    free(inputs);
    json_decref(list);
    return rc;
}

/* ---- writing ---- */

static spsh_status put_statement(const spsh__audit_report *report, const spsh__audit_file *files,
                                 size_t file_count, spsh_json *json, spsh_error *err)
{
    static const uint8_t zeros[16] = {0};
    uint8_t set_hash[16];
    spsh__print_set_hash(report->sides->set, set_hash);
    spsh__json_put_string(json, "schema", SCHEMA);
    spsh__json_put_string(json, "version", spsh_version());
    spsh__json_put_parsed(json, "inputs",
                          (spsh_bytes){(const uint8_t *)report->inputs, strlen(report->inputs)});
    spsh__json_put_hex(json, "set_hash", set_hash, sizeof(set_hash));
    spsh__json_put_string(json, "profile", spsh__text_profile_name(report->facts->profile));
    if (report->has_aliases)
        spsh__json_put_hex(json, "aliases_hash", report->alias_hash, sizeof(report->alias_hash));
    else
        spsh__json_put_null(json, "aliases_hash");
    spsh__json_put_u64(json, "fp_version", SPSH__FINGERPRINT_VERSION);
    spsh__json_begin_object(json, "thresholds");
    spsh__limits_put(json, report->facts->common.limits);
    spsh__json_put_real(json, "leak_segment_min_s", SPSH__LEAK_SEGMENT_MIN_S);
    spsh__json_end(json);
    spsh_status rc = spsh__audit_put_result(report, json, err);
    spsh__json_begin_object(json, "files");
    for (size_t i = 0; i < file_count; i++)
        spsh__json_put_hex(json, files[i].name, files[i].hash, sizeof(files[i].hash));
    spsh__json_end(json);
    spsh__json_put_hex(json, "statement_hash", zeros, sizeof(zeros));
    return rc;
}

/* Where the digits of the hash begin; NULL: nowhere. */
static char *find_hash(char *text, size_t bytes)
{
    char *at = text;
    char *found = NULL;
    while ((at = strstr(at, MARK)) != NULL) {
        found = at + strlen(MARK);
        at = found;
    }
    return found != NULL && bytes - (size_t)(found - text) > HASH_DIGITS ? found : NULL;
}

spsh_status spsh__audit_statement(const spsh__audit_report *report, const spsh__audit_file *files,
                                  size_t file_count, char **ret_text, spsh_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    uint8_t hash[16];
    char digits[HASH_DIGITS + 1];
    spsh_json *json = spsh__json_new();
    FILE *stream = open_memstream(&text, &bytes);
    spsh_status rc = SPSH_OK;
    if (json == NULL || stream == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = put_statement(report, files, file_count, json, err);
    if (rc == SPSH_OK)
        rc = spsh__json_write_pretty(json, stream, err);
    if (stream != NULL && fclose(stream) != 0 && rc == SPSH_OK)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK) {
        spsh__pack_hash128((spsh_bytes){(const uint8_t *)text, bytes}, hash);
        spsh__hex128(hash, digits);
        memcpy(find_hash(text, bytes), digits, HASH_DIGITS);
        *ret_text = text;
        text = NULL;
    }
    spsh__json_free(json);
    free(text);
    return rc;
}

/* ---- checking ---- */

static spsh_status check_hash(const char *path, char *text, size_t bytes, spsh_error *err)
{
    uint8_t stated[16];
    uint8_t found[16];
    char digits[HASH_DIGITS + 1] = "";
    char *at = find_hash(text, bytes);
    if (at != NULL)
        memcpy(digits, at, HASH_DIGITS);
    if (at == NULL || !spsh__hex128_parse(digits, stated))
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s has no hash of itself", path);
    memset(at, '0', HASH_DIGITS);
    spsh__pack_hash128((spsh_bytes){(const uint8_t *)text, bytes}, found);
    memcpy(at, digits, HASH_DIGITS);
    if (memcmp(stated, found, sizeof(found)) != 0)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s was changed: its hash is not %s", path, digits);
    return SPSH_OK;
}

/* "train 0123...: splits" of an input, for messages. */
static void name_input(const json_t *in, char *dst, size_t dst_bytes)
{
    const char *side = json_string_value(json_object_get(in, "side"));
    const char *corpus = json_string_value(json_object_get(in, "corpus"));
    const char *id = json_string_value(json_object_get(in, "dataset_id"));
    snprintf(dst, dst_bytes, "--%s %.80s (dataset %.32s)", side != NULL ? side : "?",
             corpus != NULL ? corpus : "?", id != NULL ? id : "?");
}

/* Which member of two inputs differs; NULL: none. What it is called does not count. */
static const char *find_difference(const json_t *left, const json_t *right)
{
    static const char *const members[] = {"side", "dataset_id", "index_hash", "splits", "overlays"};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (!json_equal(json_object_get(left, members[i]), json_object_get(right, members[i])))
            return members[i];
    }
    return NULL;
}

static spsh_status compare_inputs_stated(const char *path, const json_t *statement,
                                         const char *inputs, spsh_error *err)
{
    const json_t *stated = json_object_get(statement, "inputs");
    json_t *given = json_loads(inputs, 0, NULL);
    spsh_status rc = SPSH_OK;
    char name[200];
    const size_t count = json_array_size(stated);
    if (given == NULL)
        return SPSH_NO_MEMORY(err);
    if (json_array_size(given) != count)
        rc = SPSH_FAIL(err, SPSH_E_MISMATCH, "%s is of %zu inputs, and %zu are given", path, count,
                       json_array_size(given));
    for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
        const char *what = find_difference(json_array_get(stated, i), json_array_get(given, i));
        name_input(json_array_get(stated, i), name, sizeof(name));
        if (what != NULL)
            rc = SPSH_FAIL(err, SPSH_E_MISMATCH, "%s is of %s, and the given one differs in %s",
                           path, name, what);
    }
    json_decref(given);
    return rc;
}

static spsh_status hash_file(const spsh_io *io, int fd, const char *path, uint8_t ret_hash[16],
                             spsh_error *err)
{
    struct stat status;
    spsh__pack_hasher *hasher = spsh__pack_hasher_new();
    uint8_t *piece = malloc(FILE_PIECE_BYTES);
    spsh_status rc = hasher == NULL || piece == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    const int result = io->fstat_fn(io->user, fd, &status);
    if (rc == SPSH_OK && result < 0)
        rc = SPSH_FAIL(err, SPSH_E_IO, "%s: %s", path, strerror(-result));
    for (uint64_t at = 0; rc == SPSH_OK && at < (uint64_t)status.st_size;) {
        const uint64_t left = (uint64_t)status.st_size - at;
        const size_t bytes = left < FILE_PIECE_BYTES ? (size_t)left : FILE_PIECE_BYTES;
        rc = spsh_io_read_exact(io, fd, piece, bytes, at, path, err);
        if (rc == SPSH_OK)
            spsh__pack_hasher_add(hasher, (spsh_bytes){piece, bytes});
        at += bytes;
    }
    if (rc == SPSH_OK)
        spsh__pack_hasher_digest(hasher, ret_hash);
    spsh__pack_hasher_free(hasher);
    free(piece);
    return rc;
}

/* A file beside the statement, if it is there. */
static spsh_status check_file(const char *statement_path, const char *name, const char *stated,
                              const spsh_io *io, uint64_t *count, spsh_error *err)
{
    const char *slash = strrchr(statement_path, '/');
    spsh__builder path = {0};
    uint8_t want[16];
    uint8_t found[16];
    spsh_status rc = SPSH_OK;
    if (strchr(name, '/') != NULL || stated == NULL || !spsh__hex128_parse(stated, want))
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: a file that cannot be", statement_path);
    if (slash != NULL)
        spsh__builder_append(&path, statement_path, (size_t)(slash - statement_path) + 1);
    spsh__builder_append_text(&path, name);
    if (spsh__builder_text(&path) == NULL)
        rc = SPSH_NO_MEMORY(err);
    const int fd = rc == SPSH_OK
                       ? io->open_fn(io->user, spsh__builder_text(&path), O_RDONLY | O_CLOEXEC, 0)
                       : -1;
    if (fd >= 0) {
        rc = hash_file(io, fd, spsh__builder_text(&path), found, err);
        (void)io->close_fn(io->user, fd);
        if (rc == SPSH_OK && memcmp(want, found, sizeof(found)) != 0)
            rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "%s was changed: its hash is not %s",
                           spsh__builder_text(&path), stated);
        *count += 1;
    }
    spsh__builder_free(&path);
    return rc;
}

static spsh_status check_files(const char *path, json_t *statement, const spsh_io *io,
                               uint64_t *count, spsh_error *err)
{
    const char *name = NULL;
    json_t *hash = NULL;
    json_object_foreach(json_object_get(statement, "files"), name, hash)
    {
        const spsh_status rc = check_file(path, name, json_string_value(hash), io, count, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Its JSON, if it is a statement of this schema. */
static spsh_status parse(const char *path, const char *text, size_t bytes, json_t **ret_statement,
                         spsh_error *err)
{
    json_t *statement = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *schema = json_string_value(json_object_get(statement, "schema"));
    spsh_status rc = SPSH_OK;
    if (schema == NULL || strncmp(schema, SCHEMA, strlen(SCHEMA) - 1) != 0)
        rc = SPSH_FAIL(err, SPSH_E_SYNTAX, "%s is no statement of an audit", path);
    else if (strcmp(schema, SCHEMA) != 0)
        rc = SPSH_FAIL(err, SPSH_E_VERSION, "%s is of another schema: %.80s", path, schema);
    if (rc == SPSH_OK)
        *ret_statement = statement;
    else
        json_decref(statement);
    return rc;
}

spsh_status spsh__audit_statement_check(const char *path, const char *inputs, const spsh_io *io,
                                        uint64_t *ret_file_count, spsh_error *err)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    char *text = NULL;
    json_t *statement = NULL;
    uint64_t file_count = 0;
    spsh_status rc = spsh_io_read_file(io, path, STATEMENT_BYTES_MAX, NULL, &data, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    text = calloc(bytes + 1, 1);
    if (text == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK) {
        memcpy(text, data, bytes);
        rc = parse(path, text, bytes, &statement, err);
    }
    if (rc == SPSH_OK)
        rc = check_hash(path, text, bytes, err);
    if (rc == SPSH_OK && inputs != NULL)
        rc = compare_inputs_stated(path, statement, inputs, err);
    if (rc == SPSH_OK)
        rc = check_files(path, statement, io, &file_count, err);
    if (rc == SPSH_OK && ret_file_count != NULL)
        *ret_file_count = file_count;
    json_decref(statement);
    free(text);
    free(data);
    return rc;
}
