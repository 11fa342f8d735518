/* found_splits.c: a short list that is searched from the front. Most rows have the name of the row
 * before, so this name is compared first.
 */
#include "found_splits.h"

#include <string.h>

#include "common/file_names.h"
#include "speechshard/inside.h"

enum { OTHERS_MAX = 32 };

bool spsh__found_splits_next(const char **list, spsh_bytes *ret_name)
{
    const char *at = *list + strspn(*list, ",");
    const size_t length = strcspn(at, ",");
    *list = at + length;
    *ret_name = (spsh_bytes){(const uint8_t *)at, length};
    return length > 0;
}

/* at: offset of a name of the list. */
static spsh_bytes name_at(const spsh__found_splits *names, size_t at)
{
    const uint8_t *data = names->names.data + at;
    return (spsh_bytes){data, strlen((const char *)data)};
}

static bool find(const spsh__found_splits *names, spsh_bytes name, size_t *ret_at)
{
    for (size_t at = 0; at < names->names.size_bytes;) {
        const spsh_bytes known = name_at(names, at);
        *ret_at = at;
        if (spsh__bytes_equal(known, name))
            return true;
        at += known.size_bytes + 1;
    }
    return false;
}

void spsh__found_splits_add(spsh__found_splits *names, spsh_bytes name, bool is_wanted)
{
    size_t at = names->names.size_bytes;
    if (name.size_bytes == 0 || names->names.failed ||
        (at > 0 && spsh__bytes_equal(name_at(names, names->last), name)))
        return;
    if (!find(names, name, &at)) {
        if (!is_wanted && names->other_count == OTHERS_MAX)
            return;
        names->other_count += !is_wanted;
        at = names->names.size_bytes;
        spsh__builder_append_bytes(&names->names, name);
        spsh__builder_append(&names->names, "", 1);
    }
    if (!names->names.failed)
        names->last = at;
}

/* The list as text: "train, dev". */
static const char *list_names(const spsh__found_splits *names, spsh__builder *text)
{
    for (size_t at = 0; at < names->names.size_bytes;) {
        const spsh_bytes known = name_at(names, at);
        if (at > 0)
            spsh__builder_append_text(text, ", ");
        spsh__builder_append_bytes(text, known);
        at += known.size_bytes + 1;
    }
    return spsh__builder_text(text);
}

static spsh_status fail_unknown(const spsh__found_splits *names, spsh_bytes name, spsh_error *err)
{
    spsh__builder names_text = {0};
    const char *known = list_names(names, &names_text);
    spsh_status rc = SPSH_E_UNKNOWN_NAME;
    if (known == NULL)
        rc = SPSH_NO_MEMORY(err);
    else if (known[0] == '\0')
        rc = SPSH_FAIL(err, rc,
                       "split_filter %.*s: no row of the corpus is of this split: the corpus names "
                       "no splits",
                       (int)name.size_bytes, (const char *)name.data);
    else
        rc =
            SPSH_FAIL(err, rc,
                      "split_filter %.*s: no row of the corpus is of this split; its splits are "
                      "%.300s%s",
                      (int)name.size_bytes, (const char *)name.data, known,
                      names->other_count == OTHERS_MAX || strlen(known) > 300 ? " and others" : "");
    spsh__builder_free(&names_text);
    return rc;
}

spsh_status spsh__found_splits_check(const spsh__found_splits *names, const char *filter,
                                     spsh_error *err)
{
    const char *list = filter;
    spsh_bytes name = {NULL, 0};
    size_t count = 0;
    size_t at = 0;
    if (names->names.failed)
        return SPSH_NO_MEMORY(err);
    for (; spsh__found_splits_next(&list, &name); count++)
        if (!find(names, name, &at))
            return fail_unknown(names, name, err);
    return count > 0 ? SPSH_OK
                     : SPSH_FAIL(err, SPSH_E_UNKNOWN_NAME,
                                 "split_filter '%s' names no split; write it as train,dev", filter);
}

void spsh__found_splits_free(spsh__found_splits *names)
{
    spsh__builder_free(&names->names);
}
