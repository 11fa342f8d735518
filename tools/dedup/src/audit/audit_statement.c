/* audit_statement.c: write and check statement.json. */
#include "audit_statement.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/io.h"
#include "speechshard/publish.h"

#include "common/file_names.h"
#include "common/hash.h"
#include "set/split_names.h"
#include "speechshard/inside.h"

#define SCHEMA "speechshard-audit-statement-1"
/* JSON strings contain no raw line breaks, so no text from a corpus can look like this mark. */
#define MARK "\n  \"statement_hash\": \""

enum { HASH_DIGITS = 32, STATEMENT_BYTES_MAX = 64 << 20, FILE_PIECE_BYTES = 1 << 20 };

/* ---- inputs ---- */

/* One dataset on one side. */
typedef struct input {
    spsh_dataset *dataset;
    spsh_side side;
    bool has_all; /* true: all splits, even if other sources name some */
    spsh__split_names splits;
} input;

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

/* Open a source, and merge it with an equal dataset on the same side. */
static spsh_status take_source(const spsh_dedup_source *source, const spsh_io *io, input *inputs,
                               size_t *count, spsh_error *err)
{
    spsh_dataset_options options = SPSH_DATASET_OPTIONS_INIT;
    input in = {.side = source->side};
    size_t place = 0;
    options.io = io;
    const spsh_status rc = spsh_dataset_open(source->path, &options, &in.dataset, err);
    if (rc != SPSH_OK)
        return rc;
    while (place < *count && compare_inputs(&inputs[place], &in) != 0)
        place++;
    if (place == *count)
        inputs[(*count)++] = in;
    else
        spsh_dataset_close(in.dataset);
    inputs[place].has_all = inputs[place].has_all || source->splits == NULL;
    if (source->splits != NULL && !spsh__split_names_add(&inputs[place].splits, source->splits))
        return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

static spsh_status put_overlays(const spsh_dataset *dataset, spsh_json *json, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__json_begin_array(json, "overlays");
    for (uint64_t i = 0; i < spsh_dataset_info_get(dataset)->overlay_count && rc == SPSH_OK; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        rc = spsh_dataset_overlay(dataset, i, &overlay, err);
        if (rc != SPSH_OK)
            break;
        spsh__json_begin_object(json, NULL);
        spsh__json_put_text(json, "name", overlay.name);
        spsh__json_put_string(json, "type",
                              overlay.type == SPSH_OVERLAY_SKIP ? "skip" : "transcript");
        spsh__json_put_u64(json, "entries", overlay.entry_count);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    return rc;
}

static void put_splits(input *in, spsh_json *json)
{
    if (in->has_all) {
        spsh__json_put_null(json, "splits");
        return;
    }
    spsh__split_names_sort(&in->splits);
    spsh__json_begin_array(json, "splits");
    for (size_t i = 0; i < in->splits.count; i++)
        spsh__json_put_text(json, NULL, in->splits.items[i]);
    spsh__json_end(json);
}

static spsh_status put_input(input *in, spsh_json *json, spsh_error *err)
{
    const spsh_dataset_info *info = spsh_dataset_info_get(in->dataset);
    char *corpus = NULL;
    spsh_status rc = spsh__audit_corpus_name(spsh_dataset_path(in->dataset), &corpus, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "side", in->side == SPSH_SIDE_TRAIN ? "train" : "test");
    spsh__json_put_string(json, "corpus", corpus);
    spsh__json_put_hex(json, "dataset_id", info->dataset_id, sizeof(info->dataset_id));
    spsh__json_put_hex(json, "index_hash", info->index_hash, sizeof(info->index_hash));
    put_splits(in, json);
    rc = put_overlays(in->dataset, json, err);
    spsh__json_end(json);
    free(corpus);
    return rc;
}

spsh_status spsh__audit_inputs(const spsh_dedup_source *sources, size_t source_count,
                               const spsh_io *io, char **ret_json, spsh_error *err)
{
    size_t count = 0;
    input *inputs = calloc(source_count + 1, sizeof(*inputs));
    spsh_json *json = spsh__json_new();
    spsh_status rc = inputs == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < source_count && rc == SPSH_OK; i++)
        rc = take_source(&sources[i], io, inputs, &count, err);
    if (count > 1)
        qsort(inputs, count, sizeof(*inputs), compare_inputs);
    spsh__json_begin_array(json, "inputs");
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = put_input(&inputs[i], json, err);
    spsh__json_end(json);
    if (rc == SPSH_OK)
        rc = spsh__json_take_text(json, ret_json, err);
    for (size_t i = 0; i < count; i++) {
        spsh_dataset_close(inputs[i].dataset);
        free(inputs[i].splits.items);
    }
    free(inputs);
    spsh__json_free(json);
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
    spsh__json_put_member(json, "inputs", report->inputs);
    spsh__json_put_hex(json, "set_hash", set_hash, sizeof(set_hash));
    spsh__json_put_string(json, "profile", spsh__text_profile_name(report->facts.profile));
    if (report->has_aliases)
        spsh__json_put_hex(json, "aliases_hash", report->alias_hash, sizeof(report->alias_hash));
    else
        spsh__json_put_null(json, "aliases_hash");
    spsh__json_put_u64(json, "fp_version", SPSH__FINGERPRINT_VERSION);
    spsh__json_begin_object(json, "thresholds");
    spsh__limits_put(json, report->facts.common.limits);
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

/* Find the first digit of the hash after the last mark. NULL if there is no mark. */
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
                                  size_t file_count, spsh__builder *out, spsh_error *err)
{
    char *text = NULL;
    uint8_t hash[16];
    char digits[HASH_DIGITS + 1];
    spsh_json *json = spsh__json_new();
    spsh_status rc = put_statement(report, files, file_count, json, err);
    if (rc == SPSH_OK)
        rc = spsh__json_take_indented(json, &text, err);
    spsh__json_free(json);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(out, text);
    spsh__builder_append(out, "\n", 1);
    free(text);
    if (spsh__builder_text(out) == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__pack_hash128(spsh__builder_bytes(out), hash);
    spsh__hex128(hash, digits);
    memcpy(find_hash((char *)out->data, out->size_bytes), digits, HASH_DIGITS);
    return SPSH_OK;
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
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the file has no hash of itself", path);
    memset(at, '0', HASH_DIGITS);
    spsh__pack_hash128((spsh_bytes){(const uint8_t *)text, bytes}, found);
    memcpy(at, digits, HASH_DIGITS);
    if (memcmp(stated, found, sizeof(found)) != 0)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s was changed: its hash is not %s", path, digits);
    return SPSH_OK;
}

/* Describe an input in a message by side, corpus, and dataset id. */
static void name_input(const spsh__json_node *in, char *dst, size_t dst_bytes)
{
    const char *side = spsh__json_node_string(spsh__json_node_member(in, "side"));
    const char *corpus = spsh__json_node_string(spsh__json_node_member(in, "corpus"));
    const char *id = spsh__json_node_string(spsh__json_node_member(in, "dataset_id"));
    const bool is_test = side != NULL && strcmp(side, "test") == 0;
    snprintf(dst, dst_bytes, "%s %.80s (dataset %.32s)",
             is_test ? "SPSH_SIDE_TEST" : "SPSH_SIDE_TRAIN", corpus != NULL ? corpus : "?",
             id != NULL ? id : "?");
}

/* Return the name of the first member in which two inputs differ, or NULL. The corpus name is not
 * compared. */
static const char *find_difference(const spsh__json_node *left, const spsh__json_node *right)
{
    static const char *const members[] = {"side", "dataset_id", "index_hash", "splits", "overlays"};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (!spsh__json_node_equal(spsh__json_node_member(left, members[i]),
                                   spsh__json_node_member(right, members[i])))
            return members[i];
    }
    return NULL;
}

static spsh_status compare_inputs_stated(const char *path, const spsh__json_node *statement,
                                         const char *inputs, spsh_error *err)
{
    const spsh__json_node *stated = spsh__json_node_member(statement, "inputs");
    spsh__json_node *tree = spsh__json_node_read(spsh__bytes_of(inputs));
    const spsh__json_node *given = spsh__json_node_member(tree, "inputs");
    spsh_status rc = SPSH_OK;
    char name[200];
    const size_t count = spsh__json_node_count(stated);
    if (given == NULL)
        return SPSH_NO_MEMORY(err);
    if (spsh__json_node_count(given) != count)
        rc =
            SPSH_FAIL(err, SPSH_E_MISMATCH, "%s: the statement is of %zu inputs, but %zu are given",
                      path, count, spsh__json_node_count(given));
    for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
        const char *what =
            find_difference(spsh__json_node_at(stated, i), spsh__json_node_at(given, i));
        name_input(spsh__json_node_at(stated, i), name, sizeof(name));
        if (what != NULL)
            rc = SPSH_FAIL(err, SPSH_E_MISMATCH,
                           "%s: the statement is of %s, and the given dataset differs in %s", path,
                           name, what);
    }
    spsh__json_node_free(tree);
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

/* Check the hash of a file in the statement's folder. A missing file is skipped. */
static spsh_status check_file(const char *statement_path, const char *name, const char *stated,
                              const spsh_io *io, uint64_t *count, spsh_error *err)
{
    const char *slash = strrchr(statement_path, '/');
    spsh__builder path = {0};
    uint8_t want[16];
    uint8_t found[16];
    spsh_status rc = SPSH_OK;
    if (strchr(name, '/') != NULL || stated == NULL || !spsh__hex128_parse(stated, want))
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the file is damaged", statement_path);
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

static spsh_status check_files(const char *path, spsh__json_node *statement, const spsh_io *io,
                               uint64_t *count, spsh_error *err)
{
    spsh__json_node *files = spsh__json_node_member(statement, "files");
    spsh__json_node *hash = NULL;
    const char *name = NULL;
    void *at = NULL;
    while (spsh__json_node_next(files, &at, &name, &hash)) {
        const spsh_status rc = check_file(path, name, spsh__json_node_string(hash), io, count, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Parse the JSON of a statement, and check its schema. */
static spsh_status parse(const char *path, spsh_bytes text, spsh__json_node **ret_statement,
                         spsh_error *err)
{
    spsh__json_node *statement = spsh__json_node_read(text);
    const char *schema = spsh__json_node_string(spsh__json_node_member(statement, "schema"));
    spsh_status rc = SPSH_OK;
    if (schema == NULL || strncmp(schema, SCHEMA, strlen(SCHEMA) - 1) != 0)
        rc = SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: not a statement of an audit", path);
    else if (strcmp(schema, SCHEMA) != 0)
        rc = SPSH_FAIL(err, SPSH_E_VERSION, "%s: unknown schema: %.80s", path, schema);
    if (rc == SPSH_OK)
        *ret_statement = statement;
    else
        spsh__json_node_free(statement);
    return rc;
}

spsh_status spsh__audit_statement_check(const char *path, const char *inputs, const spsh_io *io,
                                        uint64_t *ret_file_count, spsh_error *err)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    spsh__builder text = {0};
    spsh__json_node *statement = NULL;
    uint64_t file_count = 0;
    spsh_status rc = spsh_io_read_file(io, path, STATEMENT_BYTES_MAX, NULL, &data, &bytes, err);
    spsh__builder_append(&text, data, bytes);
    free(data);
    if (rc == SPSH_OK && spsh__builder_text(&text) == NULL)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = parse(path, spsh__builder_bytes(&text), &statement, err);
    if (rc == SPSH_OK)
        rc = check_hash(path, (char *)text.data, bytes, err);
    if (rc == SPSH_OK && inputs != NULL)
        rc = compare_inputs_stated(path, statement, inputs, err);
    if (rc == SPSH_OK)
        rc = check_files(path, statement, io, &file_count, err);
    if (rc == SPSH_OK && ret_file_count != NULL)
        *ret_file_count = file_count;
    spsh__json_node_free(statement);
    spsh__builder_free(&text);
    return rc;
}
