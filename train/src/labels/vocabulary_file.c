/* vocabulary_file.c: a vocabulary as YAML.
 *
 *     kind: pieces
 *     profile: lower-1
 *     symbols:           from index 1 on: 0 is the blank
 *       - "\u2581"
 *       - "a"
 *       - "\u2581a"
 *     merges:            only for pieces, in order of priority
 *       - "\u2581 a"
 */
#include <stdlib.h>

#include "base/settings_text.h"
#include "speechshard/inside.h"
#include "speechshard/nearest_word.h"
#include "speechshard/settings.h"
#include "vocabulary_internal.h"

/* ---- reading ---- */

typedef struct texts {
    char *bytes;
    const char **at;
    size_t count;
    bool is_there;
} texts;

typedef struct reading {
    bool has_kind, has_form;
    bool has_pieces;
    spsh__text_form form;
    texts symbols, merges;
} reading;

static const char *const keys[] = {"kind", "profile", "symbols", "merges", NULL};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) - 1 };

static spsh_status keep_texts(const spsh_setting *s, texts *to, spsh_error *err)
{
    size_t size = 0;
    for (size_t i = 0; i < s->count; i++)
        size += strlen(s->texts[i]) + 1;
    to->bytes = malloc(size + 1);
    to->at = malloc((s->count + 1) * sizeof(*to->at));
    if (to->bytes == NULL || to->at == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: out of memory for %s", s->name, s->keys[0]);
    to->is_there = true;
    to->count = s->count;
    size = 0;
    for (size_t i = 0; i < s->count; i++) {
        const size_t text_size = strlen(s->texts[i]) + 1;
        to->at[i] = to->bytes + size;
        memcpy(to->bytes + size, s->texts[i], text_size);
        size += text_size;
    }
    return SPSH_OK;
}

static spsh_status with_place(const spsh_setting *s, spsh_status rc, const spsh_error *inner,
                              spsh_error *err)
{
    return rc == SPSH_OK ? SPSH_OK
                         : SPSH_FAIL(err, rc, "%s: line %llu: %s", s->name,
                                     (unsigned long long)s->line, inner->message);
}

static spsh_status unexpected(const spsh_setting *s, const char *what, const char *nearest,
                              spsh_error *err)
{
    return SPSH_FAIL(err, nearest == NULL ? SPSH_E_SYNTAX : SPSH_E_NOT_FOUND,
                     "%s: line %llu: %s%s%s %s%s%s", s->name, (unsigned long long)s->line,
                     s->keys[0], s->keys[1] == NULL ? "" : ".",
                     s->keys[1] == NULL ? "" : s->keys[1], what, nearest == NULL ? "" : nearest,
                     nearest == NULL ? "" : "'?");
}

static spsh_status take_setting(void *user, const spsh_setting *s, spsh_error *err)
{
    reading *r = (reading *)user;
    spsh_error inner = SPSH_ERROR_INIT;
    const bool seen[KEYS] = {r->has_kind, r->has_form, r->symbols.is_there, r->merges.is_there};
    size_t key = 0;
    while (key < KEYS && (s->keys[1] != NULL || strcmp(keys[key], s->keys[0]) != 0))
        key++;
    if (key == KEYS) {
        const char *nearest = spsh_nearest_word(s->keys[0], strlen(s->keys[0]), keys);
        return unexpected(s, "is not a key of a vocabulary; did you mean '",
                          nearest == NULL ? "symbols" : nearest, err);
    }
    if (seen[key])
        return unexpected(s, "appears twice", NULL, err);
    if (s->is_list != (key >= 2))
        return unexpected(s, key >= 2 ? "must be a list" : "must be a single value", NULL, err);
    switch (key) {
    case 0:
        r->has_kind = true;
        return with_place(s, spsh__vocabulary_kind(s->texts[0], &r->has_pieces, &inner), &inner,
                          err);
    case 1:
        r->has_form = true;
        return with_place(s, spsh__text_form_find(s->texts[0], &r->form, &inner), &inner, err);
    default: return keep_texts(s, key == 2 ? &r->symbols : &r->merges, err);
    }
}

spsh_status spsh__vocabulary_kind(const char *name, bool *ret_has_pieces, spsh_error *err)
{
    *ret_has_pieces = strcmp(name, "pieces") == 0;
    return *ret_has_pieces || strcmp(name, "characters") == 0
               ? SPSH_OK
               : SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                           "unknown kind of vocabulary '%.100s'; expected characters or pieces",
                           name);
}

spsh_status spsh__vocabulary_parse(const char *yaml, size_t size, const char *name,
                                   spsh__vocabulary **ret, spsh_error *err)
{
    reading r = {0};
    spsh_status rc = spsh_settings_read(yaml, size, name, take_setting, &r, err);
    if (rc == SPSH_OK && !(r.has_kind && r.has_form && r.symbols.is_there))
        rc = SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the key %s is missing", name,
                       !r.has_kind   ? "kind"
                       : !r.has_form ? "profile"
                                     : "symbols");
    if (rc == SPSH_OK) {
        const spsh__vocabulary_parts parts = {
            name, r.has_pieces, r.form, r.symbols.at, r.symbols.count, r.merges.at, r.merges.count};
        rc = spsh__vocabulary_build(&parts, ret, err);
    }
    free(r.symbols.bytes);
    free(r.symbols.at);
    free(r.merges.bytes);
    free(r.merges.at);
    return rc;
}

spsh_status spsh__vocabulary_read(const char *path, const spsh_io *io, spsh__vocabulary **ret,
                                  spsh_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    const spsh_allocator *allocator = spsh_allocator_default();
    spsh_status rc = spsh_io_read_file(io == NULL ? spsh_io_default() : io, path,
                                       SPSH_SETTINGS_BYTES_MAX, allocator, &data, &size, err);
    if (rc == SPSH_E_NOT_FOUND)
        return SPSH_FAIL(err, rc,
                         "%s: file not found; 'speechshard train CONFIG --make-vocab' makes the "
                         "vocabulary that CONFIG names",
                         path);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__vocabulary_parse((const char *)data, size, path, ret, err);
    allocator->free_fn(allocator->user, data);
    return rc;
}

/* ---- writing ---- */

char *spsh__vocabulary_text(const spsh__vocabulary *v)
{
    spsh__settings_text to = {0};
    uint32_t *places = malloc((v->merge_count + 1) * sizeof(*places)); /* positions by rank */
    if (places == NULL)
        return NULL;
    for (uint32_t i = 0; i < v->merge_count; i++)
        places[v->merges[i].rank] = i;
    spsh__settings_append(&to, "# Symbol 0 is the blank; these are 1, 2, ...\nkind: ");
    spsh__settings_append(&to, v->has_pieces ? "pieces" : "characters");
    spsh__settings_append(&to, "\nprofile: ");
    spsh__settings_append(&to, spsh__text_form_name(v->form));
    spsh__settings_append(&to, "\nsymbols:");
    for (uint32_t i = 1; i < v->size; i++) {
        spsh__settings_append(&to, "\n  - ");
        spsh__settings_append_quoted(&to, spsh__symbol_text(v, i));
    }
    spsh__settings_append(&to, v->merge_count == 0 ? "" : "\nmerges:");
    for (uint32_t i = 0; i < v->merge_count; i++) {
        const spsh__merge *merge = &v->merges[places[i]];
        spsh__settings_text pair = {0};
        spsh__settings_append(&pair, spsh__symbol_text(v, merge->left));
        spsh__settings_append(&pair, " ");
        spsh__settings_append(&pair, spsh__symbol_text(v, merge->right));
        char *text = spsh__settings_take(&pair);
        spsh__settings_append(&to, "\n  - ");
        spsh__settings_append_quoted(&to, text == NULL ? "" : text);
        to.has_failed |= text == NULL;
        free(text);
    }
    spsh__settings_append(&to, "\n");
    free(places);
    return spsh__settings_take(&to);
}

spsh_status spsh__vocabulary_write(const spsh__vocabulary *v, const char *path, const spsh_io *io,
                                   spsh_error *err)
{
    spsh_file_writer *writer = NULL;
    io = io == NULL ? spsh_io_default() : io;
    const char *slash = strrchr(path, '/');
    const size_t directory_size = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *directory = strndup(slash == NULL ? "." : path, directory_size);
    char *text = spsh__vocabulary_text(v);
    spsh_status rc = SPSH_OK;
    if (directory == NULL || text == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for its text", path);
        goto out;
    }
    const char *name = slash == NULL ? path : slash + 1;
    spsh_stale_files_remove_of(io, directory, name);
    rc = spsh_file_writer_open(io, directory, name, 0, NULL, &writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer, text, strlen(text), err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_REPLACE, err);
out:
    spsh_file_writer_free(writer);
    free(directory);
    free(text);
    return rc;
}
