/* archive_index.c: from archives to a table of paths.
 *
 *     find by name -> sniff, check for unpacked files -> unpack compressed archives
 *          -> read members in order -> find colliding archives -> sort by (folder, name)
 *          -> folders and entries
 *
 * A member appears in the folder of its archive. Two archives of one folder collide if both contain
 * a top-level file with the same name but different bytes (train.tsv of two languages). Then each
 * is shown in a folder named after the archive. Audio files do not cause collisions. Otherwise
 * metadata that name clips of many archives in one folder would find none of them.
 *
 * If two members have the same path, the later one is shown, as tar would leave it, and the earlier
 * one is reported. Identical files in two archives are not reported.
 */
#include "archive_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "archive_build.h"
#include "archive_find.h"
#include "common/file_names.h"
#include "speechshard/inside.h"

#define SORT_BYTES    (UINT64_C(64) << 20)
#define COMPARE_BYTES ((size_t)64 << 10)
#define LINKS_MAX     8U /* maximum length of a chain of hard links */

/* ---- collisions ---- */

/* Whether two members have the same bytes. */
static spsh_status is_same_file(const spsh__archive_index *index, uint64_t a, uint64_t b,
                                bool *ret_same, spsh_error *err)
{
    const spsh__member_record members[2] = {spsh__archive_table_member(&index->table, a),
                                            spsh__archive_table_member(&index->table, b)};
    int fds[2] = {-1, -1};
    spsh__piece pieces[2];
    spsh_status rc = SPSH_OK;

    *ret_same = members[0].size_bytes == members[1].size_bytes &&
                members[0].kind <= SPSH__MEMBER_SPOOLED && members[1].kind <= SPSH__MEMBER_SPOOLED;
    if (!*ret_same)
        return SPSH_OK;
    uint8_t *buffers = malloc(2 * COMPARE_BYTES);
    if (buffers == NULL)
        return SPSH_NO_MEMORY(err);
    for (int i = 0; i < 2 && rc == SPSH_OK; i++) {
        spsh__archive_piece(index, &members[i], &pieces[i]);
        fds[i] = index->io->open_fn(index->io->user, pieces[i].path, O_RDONLY | O_CLOEXEC, 0);
        if (fds[i] < 0)
            rc = SPSH_FAIL_OS(err, SPSH_E_IO, -fds[i], "%s: %s", pieces[i].path, strerror(-fds[i]));
    }
    for (uint64_t at = 0; rc == SPSH_OK && *ret_same && at < members[0].size_bytes;) {
        uint64_t left = members[0].size_bytes - at;
        size_t bytes = left < COMPARE_BYTES ? (size_t)left : COMPARE_BYTES;
        for (int i = 0; i < 2 && rc == SPSH_OK; i++)
            rc = spsh_io_read_exact(index->io, fds[i], buffers + (size_t)i * COMPARE_BYTES, bytes,
                                    pieces[i].offset_bytes + at, pieces[i].path, err);
        *ret_same = rc == SPSH_OK && memcmp(buffers, buffers + COMPARE_BYTES, bytes) == 0;
        at += bytes;
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)index->io->close_fn(index->io->user, fds[i]);
    free(buffers);
    return rc;
}

/** Archives that contain a top-level file with the same name. */
typedef struct collision {
    spsh__builder key;
    spsh__builder members; /* uint64_t each */
    bool differ;
} collision;

static uint64_t collision_member(const collision *c, size_t number)
{
    uint64_t member = 0;
    memcpy(&member, c->members.data + number * sizeof(member), sizeof(member));
    return member;
}

static void end_collision(spsh__archive_index *index, collision *c)
{
    for (size_t i = 0; c->differ && i < c->members.size_bytes / sizeof(uint64_t); i++) {
        uint64_t member = collision_member(c, i);
        index->archives[spsh__archive_table_member(&index->table, member).archive].own_folder =
            true;
    }
    spsh__builder_clear(&c->members);
    c->differ = false;
}

static spsh_status add_collision(spsh__archive_index *index, collision *c, spsh_bytes key,
                                 uint64_t member, spsh_error *err)
{
    size_t count = c->members.size_bytes / sizeof(uint64_t);
    spsh_status rc = SPSH_OK;

    if (count > 0 && !spsh__bytes_equal(key, spsh__builder_bytes(&c->key))) {
        end_collision(index, c);
        count = 0;
    }
    if (count == 0) {
        spsh__builder_clear(&c->key);
        spsh__builder_append_bytes(&c->key, key);
    } else if (!c->differ) {
        uint64_t last = collision_member(c, count - 1);
        bool same = false;
        /* A name that one archive repeats is not a collision between archives. */
        if (spsh__archive_table_member(&index->table, last).archive !=
            spsh__archive_table_member(&index->table, member).archive) {
            rc = is_same_file(index, last, member, &same, err);
            c->differ = !same;
        }
    }
    spsh__builder_append(&c->members, &member, sizeof(member));
    if (rc == SPSH_OK && (c->key.failed || c->members.failed))
        rc = SPSH_NO_MEMORY(err);
    return rc;
}

static bool shares_folder(const spsh__archive_index *index, size_t number)
{
    const spsh__indexed_archive *a = &index->archives[number];
    for (size_t i = 0; i < index->archive_count; i++)
        if (i != number && index->archives[i].folder_bytes == a->folder_bytes &&
            memcmp(index->archives[i].path, a->path, a->folder_bytes) == 0)
            return true;
    return false;
}

/* Sort the top-level files that are not audio by their archive's folder and their name. */
static spsh_status sort_tops(spsh__archive_index *index, spsh_sorter *sorter, spsh_error *err)
{
    spsh__builder key = {0};
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; i < index->archive_count && rc == SPSH_OK; i++) {
        const spsh__indexed_archive *a = &index->archives[i];
        uint64_t count = shares_folder(index, i) ? a->member_count : 0;
        for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
            uint64_t member = a->first_member + n;
            const spsh__member_record record = spsh__archive_table_member(&index->table, member);
            const char *name = spsh__column_text(&index->table.names, record.name);
            if (record.kind > SPSH__MEMBER_SPOOLED || strchr(name, '/') != NULL ||
                spsh__is_audio_name(spsh__bytes_of(name)))
                continue;
            spsh__builder_clear(&key);
            spsh__builder_append(&key, a->path, a->folder_bytes);
            spsh__builder_append(&key, "", 1);
            spsh__builder_append_text(&key, name);
            const spsh_bytes value = {(const uint8_t *)&member, sizeof(member)};
            rc = key.failed ? SPSH_NO_MEMORY(err)
                            : spsh_sorter_add(sorter, spsh__builder_bytes(&key), value, err);
        }
    }
    spsh__builder_free(&key);
    return rc;
}

/* Return the next sorted key and its member. */
static spsh_status next_member(spsh_sorter *sorter, spsh_bytes *ret_key, uint64_t *ret_member,
                               spsh_error *err)
{
    spsh_bytes value = {NULL, 0};
    spsh_status rc = spsh_sorter_next(sorter, ret_key, &value, err);

    if (rc == SPSH_OK)
        memcpy(ret_member, value.data, sizeof(*ret_member));
    return rc;
}

static spsh_status find_collisions(spsh__archive_index *index, const spsh_sorter_options *sorting,
                                   spsh_error *err)
{
    spsh_sorter *sorter = NULL;
    collision c = {.differ = false};
    spsh_bytes key = {NULL, 0};
    uint64_t member = 0;
    spsh_status rc = SPSH_OK;

    if (index->archive_count < 2)
        return SPSH_OK;
    rc = spsh_sorter_open(sorting, &sorter, err);
    if (rc == SPSH_OK)
        rc = sort_tops(index, sorter, err);
    while (rc == SPSH_OK && (rc = next_member(sorter, &key, &member, err)) == SPSH_OK)
        rc = add_collision(index, &c, key, member, err);
    end_collision(index, &c);
    SPSH__BUILDERS_FREE(&c.key, &c.members);
    spsh_sorter_free(sorter);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* ---- the table of paths ---- */

/** Input state of the sort. last_folder: folder of the previous path, already added with its
 * parents. */
typedef struct feeder {
    spsh_sorter *sorter;
    spsh__builder path, last_folder, key;
} feeder;

static spsh_status add_path(feeder *f, size_t path_bytes, uint64_t member, spsh_error *err)
{
    const uint8_t *path = f->path.data;
    size_t folder_bytes = path_bytes;

    while (folder_bytes > 0 && path[folder_bytes - 1] != '/')
        folder_bytes--;
    spsh__builder_clear(&f->key);
    spsh__builder_append(&f->key, path, folder_bytes > 0 ? folder_bytes - 1 : 0);
    spsh__builder_append(&f->key, "", 1);
    spsh__builder_append(&f->key, path + folder_bytes, path_bytes - folder_bytes);
    spsh__builder_append(&f->key, "", 1);
    if (f->key.failed)
        return SPSH_NO_MEMORY(err);
    return spsh_sorter_add(f->sorter, spsh__builder_bytes(&f->key),
                           (spsh_bytes){(const uint8_t *)&member, sizeof(member)}, err);
}

/* Add the parent folders of the path, except those that the previous path shares. */
static spsh_status add_folders(feeder *f, size_t path_bytes, spsh_error *err)
{
    const spsh__builder *last = &f->last_folder;
    spsh_status rc = SPSH_OK;
    size_t folder_bytes = 0;

    for (size_t at = 0; at < path_bytes && rc == SPSH_OK; at++) {
        if (f->path.data[at] != '/')
            continue;
        folder_bytes = at + 1;
        bool known =
            last->size_bytes >= folder_bytes && memcmp(last->data, f->path.data, folder_bytes) == 0;
        if (!known)
            rc = add_path(f, at, SPSH__NO_MEMBER, err);
    }
    spsh__builder_clear(&f->last_folder);
    spsh__builder_append(&f->last_folder, f->path.data, folder_bytes);
    if (rc == SPSH_OK && f->last_folder.failed)
        rc = SPSH_NO_MEMORY(err);
    return rc;
}

static spsh_status feed(const spsh__archive_index *index, spsh_sorter *sorter, spsh_error *err)
{
    feeder f = {.sorter = sorter};
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; i < index->archive_count && rc == SPSH_OK; i++) {
        const spsh__indexed_archive *a = &index->archives[i];
        for (uint64_t n = 0; n < a->member_count && rc == SPSH_OK; n++) {
            const spsh__member_record record =
                spsh__archive_table_member(&index->table, a->first_member + n);
            spsh__builder_clear(&f.path);
            spsh__archive_path(index, &record, &f.path);
            if (spsh__builder_text(&f.path) == NULL) {
                rc = SPSH_NO_MEMORY(err);
                break;
            }
            rc = add_folders(&f, f.path.size_bytes, err);
            if (rc == SPSH_OK)
                rc = add_path(&f, f.path.size_bytes,
                              record.kind == SPSH__MEMBER_FOLDER ? SPSH__NO_MEMBER
                                                                 : a->first_member + n,
                              err);
        }
    }
    SPSH__BUILDERS_FREE(&f.path, &f.last_folder, &f.key);
    return rc;
}

/** All sorted records of one path. */
typedef struct group {
    spsh__builder key; /* folder, NUL, name, NUL */
    spsh__builder folder;
    bool any, is_folder, any_folder;
    uint64_t member;
} group;

/* Build a problem for a member. It borrows the path, which is appended to `path`. */
static spsh__view_problem problem_of(const spsh__archive_index *index, uint64_t member,
                                     spsh__view_problem_kind kind, const char *detail,
                                     spsh__builder *path)
{
    const spsh__member_record record = spsh__archive_table_member(&index->table, member);
    spsh__archive_path(index, &record, path);
    return (spsh__view_problem){kind, spsh__builder_text(path), detail};
}

/* Report a bad member while the index is built. */
static spsh_status report_bad_member(spsh__archive_index *index, uint64_t member,
                                     const char *detail, spsh_error *err)
{
    spsh__builder path = {0};
    const spsh__view_problem problem =
        problem_of(index, member, SPSH__VIEW_BAD_MEMBER, detail, &path);
    const size_t archive = spsh__archive_table_member(&index->table, member).archive;
    spsh_status rc = problem.path == NULL ? SPSH_NO_MEMORY(err)
                                          : spsh__archive_report(index, archive, &problem, err);
    spsh__builder_free(&path);
    return rc;
}

static spsh_status start_folder(spsh__archive_index *index, group *g, const char *folder,
                                spsh_error *err)
{
    spsh__archive_table *table = &index->table;
    const spsh__folder_record record = {table->paths.size_bytes,
                                        table->entries.size_bytes / sizeof(spsh__entry_record)};

    if (g->any_folder && strcmp((const char *)g->folder.data, folder) == 0)
        return SPSH_OK;
    g->any_folder = true;
    spsh__builder_clear(&g->folder);
    spsh__builder_append_text(&g->folder, folder);
    if (spsh__builder_text(&g->folder) == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__column_append(&table->paths, folder, strlen(folder) + 1, err);
    return rc != SPSH_OK ? rc : spsh__column_append(&table->folders, &record, sizeof(record), err);
}

static spsh_status end_group(spsh__archive_index *index, group *g, spsh_error *err)
{
    const char *folder = (const char *)g->key.data;
    spsh__archive_table *table = &index->table;
    spsh__entry_record entry = {g->is_folder ? SPSH__NO_MEMBER : g->member, 0};

    if (!g->any)
        return SPSH_OK;
    const char *name = folder + strlen(folder) + 1;
    spsh_status rc = start_folder(index, g, folder, err);
    if (rc != SPSH_OK)
        return rc;
    if (g->is_folder) {
        entry.name = table->paths.size_bytes;
        rc = spsh__column_append(&table->paths, name, strlen(name) + 1, err);
    } else {
        const spsh__member_record record = spsh__archive_table_member(table, g->member);
        const char *whole = spsh__column_text(&table->names, record.name);
        entry.name = record.name + strlen(whole) - strlen(name);
    }
    if (rc == SPSH_OK)
        rc = spsh__column_append(&table->entries, &entry, sizeof(entry), err);
    if (rc == SPSH_OK && g->is_folder && g->member != SPSH__NO_MEMBER)
        rc = report_bad_member(index, g->member, "a folder has the same path", err);
    return rc;
}

/* Add a member with the same path to the group. The later one stays. */
static spsh_status join_group(spsh__archive_index *index, group *g, uint64_t member,
                              spsh_error *err)
{
    bool same = false;
    spsh_status rc = SPSH_OK;

    if (member == SPSH__NO_MEMBER) {
        g->is_folder = true;
        return SPSH_OK;
    }
    if (g->member != SPSH__NO_MEMBER) {
        const spsh__archive_table *table = &index->table;
        if (spsh__archive_table_member(table, g->member).archive !=
            spsh__archive_table_member(table, member).archive)
            rc = is_same_file(index, g->member, member, &same, err);
        if (rc == SPSH_OK && !same)
            rc = spsh__column_append(&index->repeated, &g->member, sizeof(g->member), err);
    }
    g->member = member;
    return rc;
}

static spsh_status take(spsh__archive_index *index, group *g, spsh_bytes key, uint64_t member,
                        spsh_error *err)
{
    if (!g->any || !spsh__bytes_equal(key, spsh__builder_bytes(&g->key))) {
        spsh_status rc = end_group(index, g, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__builder_clear(&g->key);
        spsh__builder_append_bytes(&g->key, key);
        if (g->key.failed)
            return SPSH_NO_MEMORY(err);
        g->any = true;
        g->is_folder = false;
        g->member = SPSH__NO_MEMBER;
    }
    return join_group(index, g, member, err);
}

static spsh_status sort_paths(spsh__archive_index *index, const spsh_sorter_options *sorting,
                              spsh_error *err)
{
    spsh_sorter *sorter = NULL;
    group g = {.any = false};
    spsh_bytes key = {NULL, 0};
    uint64_t member = 0;
    spsh__folder_record end = {0, 0};
    spsh_status rc = spsh_sorter_open(sorting, &sorter, err);

    if (rc == SPSH_OK)
        rc = feed(index, sorter, err);
    while (rc == SPSH_OK && (rc = next_member(sorter, &key, &member, err)) == SPSH_OK)
        rc = take(index, &g, key, member, err);
    if (rc == SPSH_E_END)
        rc = end_group(index, &g, err);
    end.first_entry = index->table.entries.size_bytes / sizeof(spsh__entry_record);
    if (rc == SPSH_OK)
        rc = spsh__column_append(&index->table.folders, &end, sizeof(end), err);
    spsh_sorter_free(sorter);
    SPSH__BUILDERS_FREE(&g.key, &g.folder);
    return rc;
}

/* ---- looking up ---- */

/* Target of a hard link; SPSH__NO_MEMBER if it does not exist. */
static uint64_t link_target(const spsh__archive_index *index, uint64_t member)
{
    size_t low = 0;
    size_t high = (size_t)index->links.mapped_bytes / sizeof(spsh__link_record);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        spsh__link_record record;
        memcpy(&record, index->links.data + middle * sizeof(record), sizeof(record));
        if (record.member == member)
            return record.target;
        if (record.member < member)
            low = middle + 1;
        else
            high = middle;
    }
    return SPSH__NO_MEMBER;
}

/* Fill in everything except the name. */
static void fill_entry(const spsh__archive_index *index, uint64_t number,
                       spsh__archive_entry *ret_entry)
{
    spsh__member_record record;
    uint64_t member = number;

    ret_entry->type = SPSH__VIEW_SPECIAL;
    record = spsh__archive_table_member(&index->table, member);
    if (record.kind == SPSH__MEMBER_LINK) {
        member = link_target(index, member);
        if (member == SPSH__NO_MEMBER)
            return;
        record = spsh__archive_table_member(&index->table, member);
    }
    if (record.kind > SPSH__MEMBER_SPOOLED)
        return;
    ret_entry->type = SPSH__VIEW_FILE;
    spsh__archive_piece(index, &record, &ret_entry->piece);
}

bool spsh__archive_index_find(const spsh__archive_index *index, const char *path,
                              spsh__archive_entry *ret_entry)
{
    uint64_t first = 0;
    uint64_t end = 0;

    *ret_entry = (spsh__archive_entry){.name = ""};
    if (path[0] == '\0') {
        ret_entry->type = SPSH__VIEW_FOLDER;
        return index->is_root || spsh__archive_index_folder(index, "", &first, &end);
    }
    uint64_t number = 0;
    if (!spsh__archive_table_find(&index->table, path, &number))
        return false;
    spsh__archive_index_entry(index, number, ret_entry);
    const uint64_t member = spsh__archive_table_entry(&index->table, number).member;
    if (member != SPSH__NO_MEMBER)
        index->archives[spsh__archive_table_member(&index->table, member).archive].is_used = true;
    return true;
}

bool spsh__archive_index_folder(const spsh__archive_index *index, const char *path,
                                uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t number = 0;

    *ret_first = 0;
    *ret_end = 0;
    if (spsh__archive_table_folder(&index->table, path, strlen(path), ret_first, ret_end))
        return true;
    if (path[0] == '\0')
        return index->is_root;
    return spsh__archive_table_find(&index->table, path, &number) && /* an empty folder */
           spsh__archive_table_entry(&index->table, number).member == SPSH__NO_MEMBER;
}

void spsh__archive_index_entry(const spsh__archive_index *index, uint64_t number,
                               spsh__archive_entry *ret_entry)
{
    const spsh__entry_record entry = spsh__archive_table_entry(&index->table, number);

    *ret_entry = (spsh__archive_entry){.name = spsh__archive_table_name(&index->table, &entry),
                                       .type = SPSH__VIEW_FOLDER};
    if (entry.member != SPSH__NO_MEMBER)
        fill_entry(index, entry.member, ret_entry);
}

const char *spsh__archive_index_archive(const spsh__archive_index *index, size_t number)
{
    return number < index->archive_count ? index->archives[number].path : NULL;
}

/* First archive whose path is not less than `path` followed by the character `terminator` ('/' or
 * NUL).
 */
static size_t lower_bound(const spsh__archive_index *index, const char *path, char terminator)
{
    size_t path_bytes = strlen(path);
    size_t low = 0;
    size_t high = index->archive_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = index->archives[middle].path;
        int order = strncmp(other, path, path_bytes);
        if (order == 0)
            order = (int)(unsigned char)other[path_bytes] - (int)(unsigned char)terminator;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t spsh__archive_index_first(const spsh__archive_index *index, const char *folder)
{
    return lower_bound(index, folder, '/');
}

spsh_status spsh__archive_index_members(const spsh__archive_index *index, const char *archive,
                                        spsh__view_member_fn member_fn, void *user, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t number = lower_bound(index, archive, '\0');

    if (number == index->archive_count || strcmp(index->archives[number].path, archive) != 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: archive not found", archive);
    const spsh__indexed_archive *a = &index->archives[number];
    for (uint64_t n = 0; n < a->member_count && rc == SPSH_OK; n++) {
        const spsh__member_record record =
            spsh__archive_table_member(&index->table, a->first_member + n);
        spsh__archive_entry entry = {.name = NULL};
        fill_entry(index, a->first_member + n, &entry);
        const spsh__view_member member = {spsh__column_text(&index->table.names, record.name), n,
                                          entry.type, entry.piece};
        if (entry.type == SPSH__VIEW_FILE)
            rc = member_fn(user, &member, err);
    }
    index->archives[number].is_used = true;
    index->archives[number].is_listed |= rc == SPSH_OK;
    return rc;
}

void spsh__archive_index_forget_listed(const spsh__archive_index *index)
{
    for (size_t i = 0; i < index->archive_count; i++)
        index->archives[i].is_listed = false;
}

static spsh_status report_repeated(const spsh__archive_index *index,
                                   const spsh__view_observer *observer, uint64_t member,
                                   spsh_error *err)
{
    const spsh__indexed_archive *archive =
        &index->archives[spsh__archive_table_member(&index->table, member).archive];
    spsh__builder path = {0};
    if (archive->is_listed || (index->used_only && !archive->is_used))
        return SPSH_OK;
    const spsh__view_problem problem =
        problem_of(index, member, SPSH__VIEW_DUP_MEMBER,
                   "a later member has the same path and replaces it", &path);
    spsh_status rc = problem.path == NULL ? SPSH_NO_MEMORY(err)
                                          : observer->problem_fn(observer->user, &problem, err);
    spsh__builder_free(&path);
    return rc;
}

static spsh_status report_held(const spsh__archive_index *index,
                               const spsh__view_observer *observer, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < index->held.count && rc == SPSH_OK; i++) {
        const spsh__held_problem *held = &index->held.items[i];
        const spsh__view_problem problem = {held->kind, held->path, held->detail};
        if (index->archives[held->archive].is_used)
            rc = observer->problem_fn(observer->user, &problem, err);
    }
    for (size_t i = 0; i < index->archive_count && rc == SPSH_OK; i++) {
        const spsh__indexed_archive *a = &index->archives[i];
        const spsh__view_problem problem = {SPSH__VIEW_BAD_MEMBER, a->path,
                                            "has further problems, which are not listed"};
        if (a->is_used && a->has_unlisted_problems)
            rc = observer->problem_fn(observer->user, &problem, err);
    }
    return rc;
}

spsh_status spsh__archive_index_report(const spsh__archive_index *index,
                                       const spsh__view_observer *observer, spsh_error *err)
{
    if (observer == NULL || observer->problem_fn == NULL)
        return SPSH_OK;
    spsh_status rc = report_held(index, observer, err);
    for (uint64_t at = 0; at < index->repeated.size_bytes && rc == SPSH_OK; at += sizeof(at)) {
        uint64_t member = 0;
        memcpy(&member, index->repeated.data + at, sizeof(member));
        rc = report_repeated(index, observer, member, err);
    }
    return rc;
}

/* ---- building ---- */

/* Follow a chain of hard links. *ret_target: SPSH__NO_MEMBER for a dangling link. */
static spsh_status resolve_link(const spsh__archive_index *index, uint64_t link,
                                uint64_t *ret_target, spsh_error *err)
{
    spsh__builder path = {0};
    spsh_status rc = SPSH_OK;
    uint64_t member = link;

    *ret_target = SPSH__NO_MEMBER;
    for (unsigned i = 0; i < LINKS_MAX; i++) {
        spsh__member_record record = spsh__archive_table_member(&index->table, member);
        uint64_t number = 0;
        if (record.kind <= SPSH__MEMBER_SPOOLED)
            *ret_target = member;
        if (record.kind != SPSH__MEMBER_LINK)
            break;
        record.name = record.offset_bytes;
        spsh__builder_clear(&path);
        spsh__archive_path(index, &record, &path);
        if (spsh__builder_text(&path) == NULL) {
            rc = SPSH_NO_MEMORY(err);
            break;
        }
        if (!spsh__archive_table_find(&index->table, spsh__builder_text(&path), &number))
            break;
        member = spsh__archive_table_entry(&index->table, number).member;
        if (member == SPSH__NO_MEMBER)
            break;
    }
    spsh__builder_free(&path);
    return rc;
}

/* Resolve hard links after the sort, because targets are looked up by path. */
static spsh_status resolve_links(spsh__archive_index *index, spsh_error *err)
{
    uint64_t count =
        index->link_count == 0 ? 0 : index->table.members.size_bytes / sizeof(spsh__member_record);
    spsh_status rc = SPSH_OK;

    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
        spsh__link_record link = {n, SPSH__NO_MEMBER};
        if (spsh__archive_table_member(&index->table, n).kind != SPSH__MEMBER_LINK)
            continue;
        rc = resolve_link(index, n, &link.target, err);
        if (rc == SPSH_OK && link.target == SPSH__NO_MEMBER)
            rc = report_bad_member(
                index, n, "the member is a hard link to a member that does not exist", err);
        else if (rc == SPSH_OK)
            rc = spsh__column_append(&index->links, &link, sizeof(link), err);
    }
    return rc == SPSH_OK ? spsh__column_map(&index->links, err) : rc;
}

static spsh_status make_table(spsh__archive_index *index, const char *directory, spsh_error *err)
{
    spsh__archive_table *table = &index->table;
    spsh_sorter_options sorting = SPSH_SORTER_OPTIONS_INIT;
    spsh_status rc = spsh__column_map(&table->members, err);

    sorting.io = index->io;
    sorting.directory = directory;
    sorting.memory_bytes = SORT_BYTES;
    if (rc == SPSH_OK)
        rc = spsh__column_map(&table->names, err);
    if (rc == SPSH_OK)
        rc = find_collisions(index, &sorting, err);
    if (rc == SPSH_OK)
        rc = sort_paths(index, &sorting, err);
    if (rc == SPSH_OK)
        rc = spsh__column_map(&table->folders, err);
    if (rc == SPSH_OK)
        rc = spsh__column_map(&table->entries, err);
    if (rc == SPSH_OK)
        rc = spsh__column_map(&table->paths, err);
    if (rc == SPSH_OK)
        rc = spsh__column_map(&index->repeated, err);
    return rc == SPSH_OK ? resolve_links(index, err) : rc;
}

spsh_status spsh__archive_index_build(const spsh__archive_index_options *options,
                                      spsh__archive_index **ret_index, spsh_error *err)
{
    spsh__archive_index *index = calloc(1, sizeof(*index));
    spsh_status rc = SPSH_OK;

    if (index == NULL)
        return SPSH_NO_MEMORY(err);
    index->io = options->io;
    index->observer = options->observer;
    index->used_only = options->used_only;
    index->repeated.fd = -1;
    index->links.fd = -1;
    rc = spsh__archive_table_open(options->io, options->scratch_directory, &index->table, err);
    if (rc == SPSH_OK)
        rc = spsh__column_open(options->io, options->scratch_directory, &index->repeated, err);
    if (rc == SPSH_OK)
        rc = spsh__column_open(options->io, options->scratch_directory, &index->links, err);
    if (rc == SPSH_OK)
        rc = spsh__archive_read_all(index, options, err);
    if (rc == SPSH_OK)
        rc = make_table(index, options->scratch_directory, err);
    index->observer = NULL;
    if (rc == SPSH_OK) {
        *ret_index = index;
        index = NULL;
    }
    spsh__archive_index_free(index);
    return rc;
}

void spsh__archive_index_free(spsh__archive_index *index)
{
    if (index == NULL)
        return;
    for (size_t i = 0; i < index->archive_count; i++)
        spsh__indexed_archive_clear(&index->archives[i]);
    free(index->archives);
    for (size_t i = 0; i < index->held.count; i++) {
        free(index->held.items[i].path);
        free(index->held.items[i].detail);
    }
    free(index->held.items);
    spsh__archive_table_close(&index->table);
    spsh__column_close(&index->repeated);
    spsh__column_close(&index->links);
    free(index);
}
