/* overlay.c: edits of a sealed dataset, keyed by utterance id (FORMAT.md 5).
 *
 * An overlay's keys are sorted hashes of ids, so a lookup is a binary search that touches a few
 * pages. Each key is stored with the shorter hash by which the dataset index is sorted, so that the
 * rows of all keys can be found without reading a single id. The file id is a hash of dataset,
 * type, name, and content: the same edit always gives the same bytes.
 *
 * Adding writes the overlay's file first and then a manifest that lists it. A crash between the two
 * leaves an unreferenced file, which the same call finds again. Removing only publishes a manifest.
 * The file stays for older generations. So reusing a name for other content needs another file:
 * NAME..2, and so on. Edits hold the writer lock, so concurrent edits cannot overwrite each other.
 */
#include "overlay.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checksum.h"
#include "dataset_lock.h"
#include "io/io_internal.h"
#include "speechshard/limits.h"

enum {
    NAME_BYTES = 160,     /* "overlays/", a name, ".spsh" */
    NAMES_MAX = 10000,    /* files of one given name */
    CHECK_ENTRIES = 4096, /* keys looked at in one step */
};

/* ---- reading ---- */

spsh_status spsh__overlay_load(spsh__container *container, spsh__overlay *ret_overlay,
                               spsh_error *err)
{
    const spsh__header *header = spsh__container_header(container);
    uint64_t count = spsh__container_count(container, SPSH__OVERLAY_KEY);
    if (header->ordinal != SPSH_OVERLAY_SKIP && header->ordinal != SPSH_OVERLAY_TRANSCRIPT)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 80,
                            "%s: the overlay has type %" PRIu64
                            ", which this version does not know",
                            spsh__container_path(container), header->ordinal);
    spsh_status rc = spsh__container_require(container, SPSH__OVERLAY_KEY, 16, UINT64_MAX, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require_strings(container, SPSH__OVERLAY_VALUE_ENDS, count, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(container, SPSH__OVERLAY_NOTE, 1, UINT64_MAX, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(container, SPSH__OVERLAY_ID_HASH, 8, count, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_overlay = (spsh__overlay){
        .container = container, .type = (spsh_overlay_type)header->ordinal, .entry_count = count};
    return SPSH_OK;
}

spsh_bytes spsh__overlay_given_name(spsh_bytes name)
{
    size_t end = name.size_bytes;
    while (end > 0 && name.data[end - 1] >= '0' && name.data[end - 1] <= '9')
        end--;
    const bool is_numbered = end < name.size_bytes && name.data[end] != '0' && end > 2 &&
                             name.data[end - 1] == '.' && name.data[end - 2] == '.';
    return is_numbered ? (spsh_bytes){name.data, end - 2} : name;
}

static void file_name(spsh_bytes name, char dst[NAME_BYTES])
{
    (void)snprintf(dst, NAME_BYTES, "overlays/%.*s.spsh", (int)name.size_bytes,
                   (const char *)name.data);
}

spsh_status spsh__overlay_open(const spsh_io *io, const spsh_allocator *allocator,
                               const char *dataset_path, const spsh__manifest *manifest,
                               uint64_t number, spsh__overlay *ret_overlay, spsh_error *err)
{
    spsh__container *container = NULL;
    spsh__file_ref expected;
    spsh_bytes name = {NULL, 0};
    char relative[NAME_BYTES];
    char *path = NULL;
    spsh_status rc = spsh__manifest_overlay(manifest, number, &expected, &name, err);
    if (rc != SPSH_OK)
        return rc;
    file_name(name, relative);
    path = spsh__path_join(allocator, dataset_path, relative);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: path", relative);
    rc = spsh__container_open(io, path, SPSH__KIND_OVERLAY, allocator, &container, err);
    spsh__free(allocator, path);
    if (rc == SPSH_OK)
        rc = spsh__manifest_check_file(manifest, container, &expected, err);
    if (rc == SPSH_OK)
        rc = spsh__overlay_load(container, ret_overlay, err);
    if (rc != SPSH_OK) {
        spsh__container_close(container);
        return rc;
    }
    ret_overlay->name = name;
    return SPSH_OK;
}

void spsh__overlay_close(spsh__overlay *overlay)
{
    spsh__container_close(overlay->container);
    overlay->container = NULL;
}

void spsh__overlay_key(spsh_bytes id, uint8_t ret_key[16])
{
    spsh__hash128(id.data, id.size_bytes, ret_key);
}

static spsh_status load_value(const spsh__overlay *overlay, uint64_t at, spsh_bytes *ret_value,
                              spsh_error *err)
{
    const spsh__container *c = overlay->container;
    spsh_bytes value = {NULL, 0};
    spsh_status rc = spsh__container_string(c, SPSH__OVERLAY_VALUE_ENDS, at, &value, err);
    if (rc != SPSH_OK)
        return rc;
    if (value.size_bytes > SPSH_TEXT_BYTES_MAX || !spsh__utf8_valid(value))
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: value %" PRIu64 " of %zu bytes is too long or not UTF-8",
                         spsh__container_path(c), at, value.size_bytes);
    *ret_value = value;
    return SPSH_OK;
}

spsh_status spsh__overlay_find(const spsh__overlay *overlay, const uint8_t key[16], bool *ret_found,
                               spsh_bytes *ret_value, spsh_error *err)
{
    uint64_t low = 0;
    uint64_t high = overlay->entry_count;
    *ret_found = false;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const uint8_t *found = NULL;
        spsh_status rc =
            spsh__container_column(overlay->container, SPSH__OVERLAY_KEY, middle, 1, &found, err);
        if (rc != SPSH_OK)
            return rc;
        int order = memcmp(found, key, 16);
        if (order == 0) {
            rc = load_value(overlay, middle, ret_value, err);
            *ret_found = rc == SPSH_OK;
            return rc;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SPSH_OK;
}

/* ---- the file id ---- */

/* The content, as sections 1 to 5. */
typedef struct content {
    spsh_bytes keys, ends, values, note, id_hashes;
} content;

static spsh_status content_file_id(const uint8_t dataset_id[16], uint64_t type, spsh_bytes name,
                                   const content *from, const spsh_allocator *allocator,
                                   uint8_t ret_file_id[16])
{
    const spsh_bytes parts[] = {name,         from->keys, from->ends,
                                from->values, from->note, from->id_hashes};
    uint8_t head[16];
    spsh__hasher *hasher = spsh__hasher_new(allocator);
    if (hasher == NULL)
        return SPSH_E_NO_MEMORY;
    spsh__store_u64le(head, type);
    spsh__store_u64le(head + 8, name.size_bytes);
    spsh__hasher_reset128(hasher);
    spsh__hasher_update(hasher, dataset_id, 16);
    spsh__hasher_update(hasher, head, sizeof(head));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].size_bytes > 0)
            spsh__hasher_update(hasher, parts[i].data, parts[i].size_bytes);
    spsh__hasher_digest128(hasher, ret_file_id);
    spsh__hasher_free(hasher);
    return SPSH_OK;
}

static spsh_status load_part(const spsh__container *c, uint32_t id, uint32_t element_bytes,
                             spsh_bytes *ret_bytes, spsh_error *err)
{
    uint64_t count = spsh__container_count(c, id);
    const uint8_t *data = NULL;
    spsh_status rc = spsh__container_column(c, id, 0, count, &data, err);
    if (rc == SPSH_OK)
        *ret_bytes = (spsh_bytes){data, (size_t)count * element_bytes};
    return rc;
}

static spsh_status check_file_id(const spsh__overlay *overlay, const spsh_allocator *allocator,
                                 spsh_error *err)
{
    const spsh__container *c = overlay->container;
    const spsh__header *header = spsh__container_header(c);
    content all;
    uint8_t file_id[16];
    spsh_status rc = load_part(c, SPSH__OVERLAY_KEY, 16, &all.keys, err);
    if (rc == SPSH_OK)
        rc = load_part(c, SPSH__OVERLAY_VALUE_ENDS, 8, &all.ends, err);
    if (rc == SPSH_OK)
        rc = load_part(c, SPSH__OVERLAY_VALUES, 1, &all.values, err);
    if (rc == SPSH_OK)
        rc = load_part(c, SPSH__OVERLAY_NOTE, 1, &all.note, err);
    if (rc == SPSH_OK)
        rc = load_part(c, SPSH__OVERLAY_ID_HASH, 8, &all.id_hashes, err);
    if (rc != SPSH_OK)
        return rc;
    rc = content_file_id(header->dataset_id, header->ordinal, overlay->name, &all, allocator,
                         file_id);
    if (rc != SPSH_OK)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: file id", spsh__container_path(c));
    if (memcmp(file_id, header->file_id, 16) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 16,
                            "%s: header: the file_id does not match the content",
                            spsh__container_path(c));
    return SPSH_OK;
}

spsh_status spsh__overlay_check(const spsh__overlay *overlay, const spsh_allocator *allocator,
                                spsh_error *err)
{
    const spsh__container *c = overlay->container;
    uint8_t last[16];
    for (uint64_t first = 0; first < overlay->entry_count; first += CHECK_ENTRIES) {
        uint64_t left = overlay->entry_count - first;
        uint64_t count = left < CHECK_ENTRIES ? left : CHECK_ENTRIES;
        const uint8_t *keys = NULL;
        spsh_status rc = spsh__container_column(c, SPSH__OVERLAY_KEY, first, count, &keys, err);
        for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
            spsh_bytes value = {NULL, 0};
            if (first + i > 0 && memcmp(last, keys + 16 * i, 16) >= 0)
                rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: key %" PRIu64 " does not ascend",
                               spsh__container_path(c), first + i);
            else
                rc = load_value(overlay, first + i, &value, err);
            memcpy(last, keys + 16 * i, 16);
        }
        if (rc != SPSH_OK)
            return rc;
    }
    return check_file_id(overlay, allocator, err);
}

spsh_status spsh__overlay_check_file(spsh__container *container, spsh_bytes name,
                                     const spsh_allocator *allocator, spsh_error *err)
{
    spsh__overlay overlay;
    spsh_status rc = spsh__container_check_all(container, err);
    if (rc == SPSH_OK)
        rc = spsh__overlay_load(container, &overlay, err);
    if (rc != SPSH_OK)
        return rc;
    overlay.name = name;
    return spsh__overlay_check(&overlay, allocator, err);
}

/* ---- writing ---- */

typedef struct keyed_entry {
    uint8_t key[16];
    uint64_t entry;
} keyed_entry;

static spsh_status check_entry(const spsh__overlay_edit *edit, uint64_t at, spsh_error *err)
{
    const spsh_overlay_entry *entry = &edit->entries[at];
    if (entry->id.size_bytes == 0 || entry->id.size_bytes > SPSH_ID_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "overlay \"%s\": entry %" PRIu64
                         ": the id has %zu bytes, expected 1 to %u",
                         edit->name, at, entry->id.size_bytes, SPSH_ID_BYTES_MAX);
    if (entry->value.size_bytes > SPSH_TEXT_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "overlay \"%s\": \"%.*s\": the value has %zu bytes, expected at most %u",
                         edit->name, entry->id.size_bytes < 200 ? (int)entry->id.size_bytes : 200,
                         (const char *)entry->id.data, entry->value.size_bytes,
                         SPSH_TEXT_BYTES_MAX);
    if (!spsh__utf8_valid(entry->value))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "overlay \"%s\": \"%.*s\": the value is not UTF-8", edit->name,
                         entry->id.size_bytes < 200 ? (int)entry->id.size_bytes : 200,
                         (const char *)entry->id.data);
    return SPSH_OK;
}

static void sift(keyed_entry *entries, size_t at, size_t count)
{
    const keyed_entry moving = entries[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && memcmp(entries[child].key, entries[child + 1].key, 16) < 0)
            child++;
        if (memcmp(moving.key, entries[child].key, 16) >= 0)
            break;
        entries[at] = entries[child];
        at = child;
    }
    entries[at] = moving;
}

/* Heapsort: in place. It need not be stable, since equal keys are rejected. */
static void sort_entries(keyed_entry *entries, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        sift(entries, i - 1, count);
    for (size_t i = count; i > 1; i--) {
        const keyed_entry last = entries[i - 1];
        entries[i - 1] = entries[0];
        entries[0] = last;
        sift(entries, 0, i - 1);
    }
}

static spsh_status key_entries(const spsh__overlay_edit *edit, keyed_entry *entries,
                               uint64_t *ret_value_bytes, spsh_error *err)
{
    size_t count = (size_t)edit->entry_count;
    uint64_t value_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        spsh_status rc = check_entry(edit, i, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__overlay_key(edit->entries[i].id, entries[i].key);
        entries[i].entry = i;
        value_bytes += edit->entries[i].value.size_bytes;
    }
    sort_entries(entries, count);
    for (size_t i = 1; i < count; i++) {
        const spsh_bytes id = edit->entries[entries[i].entry].id;
        if (memcmp(entries[i - 1].key, entries[i].key, 16) == 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "overlay \"%s\": the id \"%.*s\" appears twice", edit->name,
                             id.size_bytes < 200 ? (int)id.size_bytes : 200, (const char *)id.data);
    }
    *ret_value_bytes = value_bytes;
    return SPSH_OK;
}

/* Keys, ends, hashes and values, in this order, in one allocation. */
static spsh_status encode_content(const spsh__overlay_edit *edit, uint8_t **ret_memory,
                                  content *ret_content, spsh_error *err)
{
    size_t count = (size_t)edit->entry_count;
    uint64_t value_bytes = 0;
    uint8_t *memory = NULL;
    keyed_entry *entries =
        (keyed_entry *)spsh__alloc_array(edit->allocator, count, sizeof(*entries));
    if (entries == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "overlay \"%s\": %zu entries", edit->name, count);
    spsh_status rc = key_entries(edit, entries, &value_bytes, err);
    if (rc != SPSH_OK)
        goto out;
    memory = (uint8_t *)spsh__alloc(edit->allocator, 32 * count + (size_t)value_bytes);
    if (memory == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "overlay \"%s\": %zu entries", edit->name, count);
        goto out;
    }
    uint8_t *ends = memory + 16 * count;
    uint8_t *id_hashes = memory + 24 * count;
    uint8_t *values = memory + 32 * count;
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const spsh_bytes id = edit->entries[entries[i].entry].id;
        const spsh_bytes value = edit->entries[entries[i].entry].value;
        memcpy(memory + 16 * i, entries[i].key, 16);
        spsh__store_u64le(id_hashes + 8 * i, spsh__hash64(id.data, id.size_bytes));
        if (value.size_bytes > 0)
            memcpy(values + end, value.data, value.size_bytes);
        end += value.size_bytes;
        spsh__store_u64le(ends + 8 * i, end);
    }
    *ret_content = (content){
        .keys = {memory,    16 * count},
        .ends = {ends,      8 * count },
        .values = {values,    end       },
        .note = {NULL,      0         },
        .id_hashes = {id_hashes, 8 * count }
    };
    *ret_memory = memory;
out:
    spsh__free(edit->allocator, entries);
    return rc;
}

/* Check that the name is unused, or that its file holds this very edit. A damaged file keeps its
 * name. */
static spsh_status check_name(const spsh__overlay_edit *edit, const char *path,
                              const uint8_t file_id[16], bool *ret_usable, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    spsh__container *container = NULL;
    const spsh_status rc =
        spsh__container_open(edit->io, path, SPSH__KIND_OVERLAY, edit->allocator, &container, &why);
    *ret_usable =
        rc == SPSH_E_NOT_FOUND ||
        (rc == SPSH_OK && memcmp(spsh__container_header(container)->file_id, file_id, 16) == 0);
    spsh__container_close(container);
    if (rc != SPSH_E_NO_MEMORY && rc != SPSH_E_IO && rc != SPSH_E_NO_SPACE)
        return SPSH_OK;
    if (err != NULL)
        *err = why;
    return rc;
}

/* header has the dataset's id and receives the file's id. name: file name without its folder. */
static spsh_status write_file(const spsh__overlay_edit *edit, const content *all,
                              spsh__header *header, const char *name, spsh__file_ref *ret_file,
                              spsh_error *err)
{
    spsh__footer footer;
    char *directory = spsh__path_join(edit->allocator, edit->dataset_path, "overlays");
    if (directory == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: path", edit->name);
    const spsh__column columns[] = {
        {SPSH__OVERLAY_KEY,        16, edit->entry_count,      all->keys.data     },
        {SPSH__OVERLAY_VALUE_ENDS, 8,  edit->entry_count,      all->ends.data     },
        {SPSH__OVERLAY_VALUES,     1,  all->values.size_bytes, all->values.data   },
        {SPSH__OVERLAY_NOTE,       1,  all->note.size_bytes,   all->note.data     },
        {SPSH__OVERLAY_ID_HASH,    8,  edit->entry_count,      all->id_hashes.data},
    };
    const spsh__columns_file file = {.directory = directory,
                                     .name = name,
                                     .header = *header,
                                     .columns = columns,
                                     .column_count = sizeof(columns) / sizeof(columns[0]),
                                     .mode = SPSH_PUBLISH_NEW};
    spsh_status rc = spsh_io_make_directory(edit->io, directory, err);
    if (rc == SPSH_OK)
        rc = spsh__columns_publish(edit->io, edit->allocator, &file, &footer, err);
    if (rc != SPSH_OK)
        goto out;
    memcpy(ret_file->file_id, footer.file_id, 16);
    memcpy(ret_file->root_hash, footer.root_hash, 16);
    ret_file->file_bytes = footer.file_bytes;
out:
    spsh__free(edit->allocator, directory);
    return rc;
}

/* Try one name. *ret_used: the name was unused, or its file already holds this edit. */
static spsh_status publish_as(const spsh__overlay_edit *edit, const spsh__manifest *manifest,
                              const content *all, spsh__overlay_entry_ref *entry, bool *ret_used,
                              spsh_error *err)
{
    char relative[NAME_BYTES];
    spsh__header header = {.kind = SPSH__KIND_OVERLAY, .ordinal = (uint64_t)edit->type};
    memcpy(header.dataset_id, manifest->info.dataset_id, 16);
    file_name(entry->name, relative);
    char *path = spsh__path_join(edit->allocator, edit->dataset_path, relative);
    spsh_status rc = path == NULL ? SPSH_E_NO_MEMORY
                                  : content_file_id(header.dataset_id, header.ordinal, entry->name,
                                                    all, edit->allocator, header.file_id);
    if (rc != SPSH_OK)
        rc = SPSH_FAIL(err, rc, "%s: file id", edit->name);
    else
        rc = check_name(edit, path, header.file_id, ret_used, err);
    if (rc == SPSH_OK && *ret_used)
        rc = write_file(edit, all, &header, strrchr(relative, '/') + 1, &entry->file, err);
    *ret_used = *ret_used && rc != SPSH_E_EXISTS; /* damaged after its header */
    spsh__free(edit->allocator, path);
    return rc == SPSH_E_EXISTS ? SPSH_OK : rc;
}

/* Writes the file under the first name that no other content has. name: memory for it. */
static spsh_status publish_file(const spsh__overlay_edit *edit, const spsh__manifest *manifest,
                                const content *all, char name[NAME_BYTES],
                                spsh__overlay_entry_ref *entry, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    for (unsigned n = 1; n <= NAMES_MAX; n++) {
        bool is_used = false;
        const int length = n == 1 ? snprintf(name, NAME_BYTES, "%s", edit->name)
                                  : snprintf(name, NAME_BYTES, "%s..%u", edit->name, n);
        entry->name = (spsh_bytes){(const uint8_t *)name, (size_t)length};
        if (!spsh__overlay_name_ok(entry->name))
            break;
        const spsh_status rc = publish_as(edit, manifest, all, entry, &is_used, &why);
        if (rc != SPSH_OK && err != NULL)
            *err = why;
        if (rc != SPSH_OK || is_used)
            return rc;
    }
    return SPSH_FAIL(err, SPSH_E_EXISTS,
                     "%s: an older generation has an overlay \"%s\" with different content, and no "
                     "number fits after the name; choose a shorter name",
                     edit->dataset_path, edit->name);
}

static spsh_status check_edit_name(const spsh__overlay_edit *edit, spsh_error *err)
{
    const spsh_bytes name = {(const uint8_t *)edit->name, strlen(edit->name)};
    if (spsh__overlay_name_ok(name))
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "overlay \"%.200s\": a name is 1 to 128 letters, digits, '.', '_' or '-', and "
                     "does not begin with '.'",
                     edit->name);
}

/* The newest manifest, if this library may write to its dataset. */
static spsh_status open_for_edit(const spsh__overlay_edit *edit, spsh__manifest *ret_manifest,
                                 spsh_error *err)
{
    spsh_status rc =
        spsh__manifest_open(edit->io, edit->allocator, edit->dataset_path, 0, ret_manifest, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t features = spsh__container_header(ret_manifest->container)->features_readonly;
    if (features != 0) {
        rc = SPSH_FAIL_AT(
            err, SPSH_E_VERSION, 48,
            "%s: the dataset uses features 0x%" PRIx64
            ", which this version does not know, so it can only be read; use a newer version",
            edit->dataset_path, features);
        spsh__manifest_close(ret_manifest);
    }
    return rc;
}

static bool is_text(spsh_bytes bytes, const char *string)
{
    return bytes.size_bytes == strlen(string) && memcmp(bytes.data, string, bytes.size_bytes) == 0;
}

/* List the overlays in force, with capacity for one more. *ret_at: index of the overlay whose given
 * name or file name is the edit's name, or the count. */
static spsh_status list_overlays(const spsh__overlay_edit *edit, const spsh__manifest *manifest,
                                 spsh__overlay_entry_ref **ret_list, uint64_t *ret_at,
                                 spsh_error *err)
{
    uint64_t count = manifest->info.overlay_count;
    spsh__overlay_entry_ref *list = (spsh__overlay_entry_ref *)spsh__alloc_array(
        edit->allocator, (size_t)count + 1, sizeof(*list));
    if (list == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %" PRIu64 " overlays", edit->dataset_path,
                         count);
    *ret_at = count;
    for (uint64_t i = 0; i < count; i++) {
        spsh_status rc = spsh__manifest_overlay(manifest, i, &list[i].file, &list[i].name, err);
        if (rc != SPSH_OK) {
            spsh__free(edit->allocator, list);
            return rc;
        }
        if (is_text(list[i].name, edit->name) ||
            is_text(spsh__overlay_given_name(list[i].name), edit->name))
            *ret_at = i;
    }
    *ret_list = list;
    return SPSH_OK;
}

static spsh_status add_to_manifest(const spsh__overlay_edit *edit, const spsh__manifest *manifest,
                                   spsh__overlay_entry_ref *list, spsh_error *err)
{
    uint64_t count = manifest->info.overlay_count;
    uint8_t *memory = NULL;
    char name[NAME_BYTES];
    content all;
    spsh_status rc = encode_content(edit, &memory, &all, err);
    if (rc == SPSH_OK)
        rc = publish_file(edit, manifest, &all, name, &list[count], err);
    if (rc == SPSH_OK)
        rc = spsh__manifest_publish_overlays(edit->io, edit->allocator, edit->dataset_path,
                                             manifest, list, count + 1, err);
    spsh__free(edit->allocator, memory);
    return rc;
}

/* Apply an edit to the list of overlays in force from list_overlays. */
typedef spsh_status (*overlay_edit_fn)(const spsh__overlay_edit *edit,
                                       const spsh__manifest *manifest,
                                       spsh__overlay_entry_ref *list, uint64_t at, spsh_error *err);

static spsh_status add_locked(const spsh__overlay_edit *edit, const spsh__manifest *manifest,
                              spsh__overlay_entry_ref *list, uint64_t at, spsh_error *err)
{
    if (at < manifest->info.overlay_count)
        return SPSH_FAIL(err, SPSH_E_EXISTS, "%s: overlay \"%s\" is already in force",
                         edit->dataset_path, edit->name);
    if (manifest->info.overlay_count >= SPSH_OVERLAYS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%s: %u overlays are in force, which is the limit; remove one first",
                         edit->dataset_path, SPSH_OVERLAYS_MAX);
    return add_to_manifest(edit, manifest, list, err);
}

static spsh_status remove_locked(const spsh__overlay_edit *edit, const spsh__manifest *manifest,
                                 spsh__overlay_entry_ref *list, uint64_t at, spsh_error *err)
{
    const uint64_t count = manifest->info.overlay_count;
    if (at == count)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: no overlay \"%s\" is in force",
                         edit->dataset_path, edit->name);
    for (uint64_t i = at; i + 1 < count; i++)
        list[i] = list[i + 1];
    return spsh__manifest_publish_overlays(edit->io, edit->allocator, edit->dataset_path, manifest,
                                           list, count - 1, err);
}

static spsh_status edit_newest(const spsh__overlay_edit *edit, overlay_edit_fn edit_fn,
                               spsh_error *err)
{
    spsh__manifest manifest;
    spsh__overlay_entry_ref *list = NULL;
    uint64_t at = 0;
    spsh_status rc = open_for_edit(edit, &manifest, err);
    if (rc != SPSH_OK)
        return rc;
    rc = list_overlays(edit, &manifest, &list, &at, err);
    if (rc == SPSH_OK)
        rc = edit_fn(edit, &manifest, list, at, err);
    spsh__free(edit->allocator, list);
    spsh__manifest_close(&manifest);
    return rc;
}

/* Opens the manifest before the lock: that explains a folder without a dataset, or a read-only one.
 */
static spsh_status edit_locked(const spsh__overlay_edit *edit, overlay_edit_fn edit_fn,
                               spsh_error *err)
{
    spsh_dataset_lock *lock = NULL;
    spsh__manifest manifest;
    spsh_status rc = check_edit_name(edit, err);
    if (rc == SPSH_OK)
        rc = open_for_edit(edit, &manifest, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__manifest_close(&manifest);
    rc = spsh__dataset_lock_open(edit->dataset_path, SPSH__LOCK_EXCLUSIVE, edit->io,
                                 edit->allocator, &lock, err);
    if (rc == SPSH_OK)
        rc = edit_newest(edit, edit_fn, err);
    spsh_dataset_lock_close(lock);
    return rc;
}

spsh_status spsh__overlay_add(const spsh__overlay_edit *edit, spsh_error *err)
{
    const spsh_bytes name = {(const uint8_t *)edit->name, strlen(edit->name)};
    if (edit->type != SPSH_OVERLAY_SKIP && edit->type != SPSH_OVERLAY_TRANSCRIPT)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "unknown overlay type %d", (int)edit->type);
    if (spsh__overlay_given_name(name).size_bytes != name.size_bytes)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "overlay \"%.200s\": a name must not end with \"..\" and a number; such "
                         "names are reserved for names that are used again",
                         edit->name);
    return edit_locked(edit, add_locked, err);
}

spsh_status spsh__overlay_remove(const spsh__overlay_edit *edit, spsh_error *err)
{
    return edit_locked(edit, remove_locked, err);
}

spsh_status spsh_overlay_add(const char *dataset_path, const char *name, spsh_overlay_type type,
                             const spsh_overlay_entry *entries, uint64_t entry_count,
                             const spsh_io *io, spsh_error *err)
{
    const spsh__overlay_edit edit = {.io = io == NULL ? spsh_io_default() : io,
                                     .allocator = spsh_allocator_default(),
                                     .dataset_path = dataset_path,
                                     .name = name,
                                     .type = type,
                                     .entries = entries,
                                     .entry_count = entry_count};
    return spsh__overlay_add(&edit, err);
}

spsh_status spsh_overlay_remove(const char *dataset_path, const char *name, const spsh_io *io,
                                spsh_error *err)
{
    const spsh__overlay_edit edit = {.io = io == NULL ? spsh_io_default() : io,
                                     .allocator = spsh_allocator_default(),
                                     .dataset_path = dataset_path,
                                     .name = name};
    return spsh__overlay_remove(&edit, err);
}
