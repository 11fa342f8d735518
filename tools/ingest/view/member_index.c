/* member_index.c: see member_index.h.
 *
 * A slot of the name index refers to an entry with the location of the member. The first member
 * with a stem has the key (number, stem). Later ones (a.wav, a.flac) have the key (number, whole
 * name). So a search for a whole name checks both keys, and a search for a missing extension
 * returns the first member of the stem.
 */
#include "member_index.h"

#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "name_index.h"
#include "speechshard/inside.h"

#define OFFSET_BITS    56U
#define SIZE_BITS      40U
#define EXTENSIONS_MAX ((size_t)255)
#define FILES_MAX      ((size_t)1 << 24)

enum { STORED = 1, FOUND = 2 };
enum { KEY_STEM = 's', KEY_NAME = 'n', KEY_ARCHIVE = 'a' };

/** An entry has 16 bytes, because there are many. */
typedef struct member_entry {
    uint64_t offset_and_extension; /* offset in OFFSET_BITS, then the index of the extension */
    uint64_t size_and_file;        /* size in SIZE_BITS, then the index of the file */
} member_entry;

/** A file with pieces of members: normally one per archive. */
typedef struct member_file {
    char *path;
    uint64_t size_bytes;
    size_t archive;
} member_file;

typedef struct numbered_archive {
    char *path; /* in the view */
    uint64_t number;
} numbered_archive;

struct spsh__member_index {
    const spsh__view *view;
    spsh__name_index names;
    member_entry *entries;
    size_t entry_count, entry_capacity;
    member_file *files;
    size_t file_count, file_capacity;
    numbered_archive *archives;
    size_t archive_count, archive_capacity;
    char *extensions[EXTENSIONS_MAX + 1]; /* [0]: no extension, NULL */
    size_t extension_count;
    spsh__builder key;
};

spsh_status spsh__member_index_new(const spsh__view *view, spsh__member_index **ret_index,
                                   spsh_error *err)
{
    spsh__member_index *index = calloc(1, sizeof(*index));
    if (index == NULL)
        return SPSH_NO_MEMORY(err);
    index->view = view;
    index->extension_count = 1;
    *ret_index = index;
    return SPSH_OK;
}

void spsh__member_index_free(spsh__member_index *index)
{
    if (index == NULL)
        return;
    for (size_t i = 0; i < index->file_count; i++)
        free(index->files[i].path);
    for (size_t i = 0; i < index->archive_count; i++)
        free(index->archives[i].path);
    for (size_t i = 1; i < index->extension_count; i++)
        free(index->extensions[i]);
    free(index->entries);
    free(index->files);
    free(index->archives);
    spsh__name_index_free(&index->names);
    spsh__builder_free(&index->key);
    free(index);
}

/* ---- growing ---- */

/* Make capacity for one more entry. Grows by a quarter, because doubling wastes memory in a large
 * array. */
static bool grow_entries(spsh__member_index *index)
{
    const size_t grown = index->entry_count + index->entry_count / 4 + 64;
    if (index->entry_count < index->entry_capacity)
        return true;
    if (grown > SIZE_MAX / sizeof(member_entry))
        return false;
    member_entry *moved = realloc(index->entries, grown * sizeof(*moved));
    if (moved == NULL)
        return false;
    index->entries = moved;
    index->entry_capacity = grown;
    return true;
}

static bool push_archive(spsh__member_index *index, const char *path, uint64_t number)
{
    char *copy = strdup(path);
    if (copy == NULL ||
        !SPSH_GROW(index->archives, index->archive_capacity, index->archive_count + 1)) {
        free(copy);
        return false;
    }
    index->archives[index->archive_count++] = (numbered_archive){copy, number};
    return true;
}

/* Find or add the file of a piece of the last archive. */
static bool take_file(spsh__member_index *index, const spsh__piece *piece)
{
    const size_t archive = index->archive_count - 1;
    const member_file *last = index->file_count == 0 ? NULL : &index->files[index->file_count - 1];
    if (last != NULL && last->archive == archive && strcmp(last->path, piece->path) == 0)
        return true;
    char *copy = strdup(piece->path);
    if (copy == NULL || !SPSH_GROW(index->files, index->file_capacity, index->file_count + 1)) {
        free(copy);
        return false;
    }
    index->files[index->file_count++] = (member_file){copy, piece->file_bytes, archive};
    return true;
}

/* Find or add an extension. Its index is 0 if there are too many extensions. */
static bool take_extension(spsh__member_index *index, spsh_bytes extension, uint64_t *ret_number)
{
    *ret_number = 0;
    for (size_t i = 1; i < index->extension_count; i++) {
        if (spsh__bytes_equal(spsh__bytes_of(index->extensions[i]), extension)) {
            *ret_number = i;
            return true;
        }
    }
    if (extension.size_bytes == 0 || index->extension_count > EXTENSIONS_MAX)
        return true;
    char *copy = strndup((const char *)extension.data, extension.size_bytes);
    if (copy == NULL)
        return false;
    index->extensions[index->extension_count] = copy;
    *ret_number = index->extension_count++;
    return true;
}

/* ---- keys ---- */

static spsh_bytes key_of(spsh__member_index *index, uint64_t number, int kind, spsh_bytes name)
{
    const uint8_t letter = (uint8_t)kind;
    spsh__builder_clear(&index->key);
    spsh__builder_append(&index->key, &number, sizeof(number));
    spsh__builder_append(&index->key, &letter, 1);
    spsh__builder_append_bytes(&index->key, name);
    return spsh__builder_bytes(&index->key);
}

static spsh_bytes stem_of(spsh_bytes name)
{
    return (spsh_bytes){name.data, spsh__audio_stem(name)};
}

static spsh_bytes extension_of(spsh_bytes name)
{
    const size_t stem = spsh__audio_stem(name);
    return (spsh_bytes){name.data + stem, name.size_bytes - stem};
}

static bool has_extension(const spsh__member_index *index, const spsh__name_slot *slot,
                          spsh_bytes extension)
{
    const uint64_t number = index->entries[slot->value].offset_and_extension >> OFFSET_BITS;
    const char *own = index->extensions[number];
    return own != NULL && spsh__bytes_equal(spsh__bytes_of(own), extension);
}

/* The slot of the member of exactly that name, or NULL. */
static spsh__name_slot *find_whole(spsh__member_index *index, uint64_t number, spsh_bytes name)
{
    spsh__name_slot *slot =
        spsh__name_index_find(&index->names, key_of(index, number, KEY_STEM, stem_of(name)));
    if (slot != NULL && has_extension(index, slot, extension_of(name)))
        return slot;
    return spsh__name_index_find(&index->names, key_of(index, number, KEY_NAME, name));
}

/* ---- adding ---- */

/** A pass over the members of an archive. */
typedef struct visiting {
    spsh__member_index *index;
    const spsh__member_visitor *visitor;
    const numbered_archive *archive;
} visiting;

/* Whether a value exceeds the bits of an entry. No archive is that large. */
static bool is_too_large(const spsh__member_index *index, const spsh__piece *piece)
{
    return piece->offset_bytes >> OFFSET_BITS != 0 || piece->size_bytes >> SIZE_BITS != 0 ||
           index->file_count >= FILES_MAX;
}

static spsh_status add_member(void *user, const spsh__view_member *member, spsh_error *err)
{
    const visiting *a = user;
    spsh__member_index *index = a->index;
    const spsh_bytes name = spsh__bytes_of(member->name);
    const uint64_t number = a->archive->number;
    uint64_t extension = 0;
    if (member->type != SPSH__VIEW_FILE || !spsh__is_audio_name(name))
        return SPSH_OK;
    if (find_whole(index, number, name) != NULL)
        return a->visitor->member_fn(a->visitor->user, a->archive->path, member, err);
    if (is_too_large(index, &member->piece))
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: %s is too large, or there are too many",
                         a->archive->path, member->name);
    const spsh_bytes stem = key_of(index, number, KEY_STEM, stem_of(name));
    const bool stem_is_taken = spsh__name_index_find(&index->names, stem) != NULL;
    const spsh_bytes key = stem_is_taken ? key_of(index, number, KEY_NAME, name) : stem;
    spsh__name_slot *slot =
        index->key.failed ? NULL : spsh__name_index_add(&index->names, key, STORED);
    if (slot == NULL || !grow_entries(index) || !take_file(index, &member->piece) ||
        !take_extension(index, extension_of(name), &extension))
        return SPSH_NO_MEMORY(err);
    slot->value = index->entry_count;
    index->entries[index->entry_count++] = (member_entry){
        member->piece.offset_bytes | extension << OFFSET_BITS,
        member->piece.size_bytes | (uint64_t)(index->file_count - 1) << SIZE_BITS,
    };
    return SPSH_OK;
}

spsh_status spsh__member_index_add(spsh__member_index *index, const char *archive, uint64_t number,
                                   const spsh__member_visitor *twice, spsh_error *err)
{
    const spsh_bytes key = key_of(index, number, KEY_ARCHIVE, (spsh_bytes){0});
    if (index->key.failed || spsh__name_index_add(&index->names, key, STORED) == NULL ||
        !push_archive(index, archive, number))
        return SPSH_NO_MEMORY(err);
    visiting a = {index, twice, &index->archives[index->archive_count - 1]};
    return spsh__view_members(index->view, archive, add_member, &a, err);
}

/* ---- finding ---- */

spsh_status spsh__member_index_find(spsh__member_index *index, uint64_t number, spsh_bytes name,
                                    bool *ret_found, spsh__found_member *ret_member,
                                    spsh_error *err)
{
    spsh__name_slot *slot = find_whole(index, number, name);
    if (slot == NULL)
        slot = spsh__name_index_find(&index->names, key_of(index, number, KEY_STEM, stem_of(name)));
    *ret_found = slot != NULL;
    if (index->key.failed)
        return SPSH_NO_MEMORY(err);
    if (slot == NULL)
        return SPSH_OK;
    const member_entry *entry = &index->entries[slot->value];
    const member_file *file = &index->files[entry->size_and_file >> SIZE_BITS];
    const char *extension = index->extensions[entry->offset_and_extension >> OFFSET_BITS];
    slot->state |= FOUND;
    *ret_member = (spsh__found_member){
        .piece = {.path = file->path,
                  .offset_bytes = entry->offset_and_extension & ((UINT64_C(1) << OFFSET_BITS) - 1),
                  .size_bytes = entry->size_and_file & ((UINT64_C(1) << SIZE_BITS) - 1),
                  .file_bytes = file->size_bytes},
        .archive = index->archives[file->archive].path,
        .extension = extension == NULL ? (spsh_bytes){0}
          : spsh__bytes_of(extension),
    };
    return SPSH_OK;
}

bool spsh__member_index_has(spsh__member_index *index, uint64_t number)
{
    const spsh_bytes key = key_of(index, number, KEY_ARCHIVE, (spsh_bytes){0});
    return spsh__name_index_find(&index->names, key) != NULL;
}

static spsh_status visit_member(void *user, const spsh__view_member *member, spsh_error *err)
{
    const visiting *v = user;
    const spsh_bytes name = spsh__bytes_of(member->name);
    if (member->type != SPSH__VIEW_FILE || !spsh__is_audio_name(name))
        return SPSH_OK;
    const spsh__name_slot *slot = find_whole(v->index, v->archive->number, name);
    if (v->index->key.failed)
        return SPSH_NO_MEMORY(err);
    if (slot == NULL || (slot->state & FOUND) != 0)
        return SPSH_OK;
    return v->visitor->member_fn(v->visitor->user, v->archive->path, member, err);
}

spsh_status spsh__member_index_rest(spsh__member_index *index, const spsh__member_visitor *visitor,
                                    spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < index->archive_count && rc == SPSH_OK; i++) {
        visiting v = {index, visitor, &index->archives[i]};
        rc = spsh__view_members(index->view, index->archives[i].path, visit_member, &v, err);
    }
    return rc;
}
