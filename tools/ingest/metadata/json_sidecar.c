/* json_sidecar.c: if a file has several keys of one role, the first in the list is used, as for
 * WebDataset. Members without a role are kept unchanged.
 */
#include "json_sidecar.h"

#include "common/file_names.h"
#include "common/json_text.h"
#include "common/jsonl.h"
#include "ingest/view/text_file.h"
#include "speechshard/inside.h"
#include "table.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define ROLES          4U

static const struct {
    unsigned role; /* in the order of the struct */
    const char *name;
} keys[] = {
    {0, "text"           },
    {0, "transcript"     },
    {0, "sentence"       },
    {0, "transcription"  },
    {0, "normalized_text"},
    {1, "speaker"        },
    {1, "speaker_id"     },
    {2, "language"       },
    {2, "lang"           },
    {3, "domain"         },
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static bool plays(unsigned role, const spsh__json_value *value)
{
    return value->kind == SPSH__JSON_STRING || (role > 0 && value->kind == SPSH__JSON_NUMBER);
}

/* NULL, or why the .json must be rejected. A text of another type does not become an extra: the
 * utterance would be packed as unlabelled. */
static const char *kind_problem(spsh__json_sidecar *s, const spsh__json_value *values,
                                const char *const *names, bool has_text)
{
    static const unsigned strings = SPSH__JSON_STRINGS;
    const char *problem = NULL;
    for (size_t i = 0; i < KEY_COUNT && !has_text; i++) {
        has_text = keys[i].role == 0 && values[i].kind == SPSH__JSON_STRING;
        if (keys[i].role == 0 && problem == NULL)
            problem = spsh__json_kind_problem(&values[i], &names[i], &strings, 1, s->kind_problem);
    }
    return has_text ? NULL : problem;
}

static spsh_status take_members(spsh__json_sidecar *s, const spsh__json_value *values,
                                bool has_text, spsh_error *err)
{
    spsh_bytes *const texts[ROLES] = {&s->text, &s->speaker, &s->language, &s->domain};
    bool taken[ROLES] = {has_text};
    bool failed = false;

    if (s->members.size_bytes > 0)
        s->members.size_bytes--; /* the closing brace */
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const unsigned role = keys[i].role;
        const spsh__json_value *value = &values[i];
        if (taken[role] || !plays(role, value)) {
            spsh__json_value_member(&s->members, 0, keys[i].name, value);
            continue;
        }
        taken[role] = true;
        spsh__builder_clear(&s->strings[role]);
        *texts[role] = spsh__json_name(value, &s->strings[role]);
        if (role > 0 && spsh__is_placeholder(*texts[role]))
            *texts[role] = (spsh_bytes){0};
        failed = failed || s->strings[role].failed;
    }
    spsh__json_close(&s->members, 0);
    s->has_text = taken[0] && !has_text;
    s->extras = spsh__builder_bytes(&s->members);
    return failed || s->members.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

spsh_status spsh__json_sidecar_read(spsh__json_sidecar *sidecar, const spsh__view *view,
                                    const char *path, bool has_text, const char **ret_problem,
                                    spsh_error *err)
{
    const char *names[KEY_COUNT];
    spsh__json_value values[KEY_COUNT];
    spsh__whole_file state = SPSH__WHOLE_READ;
    size_t offset = 0;

    *ret_problem = NULL;
    sidecar->has_text = false;
    sidecar->text = sidecar->speaker = sidecar->language = (spsh_bytes){0};
    sidecar->domain = sidecar->extras = (spsh_bytes){0};
    for (size_t i = 0; i < KEY_COUNT; i++)
        names[i] = keys[i].name;
    const spsh_status rc =
        spsh__text_file_whole(view, path, FILE_BYTES_MAX, &sidecar->file, &state, err);
    if (state != SPSH__WHOLE_READ)
        *ret_problem = state == SPSH__WHOLE_UNREADABLE ? "cannot be read" : "is longer than 1 MiB";
    if (rc != SPSH_OK || *ret_problem != NULL)
        return rc;
    const spsh_bytes whole = spsh__without_mark(spsh__builder_bytes(&sidecar->file));
    spsh__builder_clear(&sidecar->members);
    *ret_problem = spsh__json_pick(whole, names, KEY_COUNT, values, &sidecar->members, &offset);
    if (*ret_problem == NULL)
        *ret_problem = kind_problem(sidecar, values, names, has_text);
    return *ret_problem == NULL ? take_members(sidecar, values, has_text, err) : SPSH_OK;
}

void spsh__json_sidecar_free(spsh__json_sidecar *sidecar)
{
    SPSH__BUILDERS_FREE(&sidecar->file, &sidecar->members);
    for (size_t i = 0; i < ROLES; i++)
        spsh__builder_free(&sidecar->strings[i]);
}
