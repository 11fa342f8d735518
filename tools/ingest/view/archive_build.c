/* archive_build.c: read the members of all archives in order, one archive after the other.
 *
 * The headers of a plain tar are read directly. A compressed archive is first unpacked to a tar in
 * a spool file. So members are read in one way, and a spool costs one sequential write. Only
 * members without uncompressed bytes in any file, such as a packed member of a zip, get a separate
 * spool file.
 */
#include "archive_build.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive_find.h"
#include "archive_spool.h"
#include "common/file_names.h"
#include "common/grow.h"
#include "common/os_error.h"
#include "speechshard/inside.h"

#define PEEK_MEMBERS   16U
#define PROGRESS_BYTES (UINT64_C(8) << 20)
#define SPOOLS_MAX     10000000U
#define HELD_MAX       10000U /* maximum count of held problems */
#define STDIN_NAME     "standard input"

typedef struct build {
    spsh__archive_index *index;
    const spsh__archive_index_options *options;
    char *scratch; /* absolute, so that an interrupted pack can resume from any directory */
    unsigned spool_count;
    spsh__packed_archive *packed; /* compressed archives, if the observer unpacks them */
    size_t packed_count, packed_taken;
    size_t reading;                     /* index of the archive being read; SIZE_MAX: none yet */
    uint64_t packed_done, packed_total; /* bytes of compressed archives */
    uint64_t reported_at;
    bool is_stdin;
} build;

/* ---- helpers ---- */

void spsh__indexed_archive_clear(spsh__indexed_archive *archive)
{
    free(archive->path);
    free(archive->data);
    free(archive->spool);
    *archive = (spsh__indexed_archive){0};
}

static spsh_status hold_problem(spsh__archive_index *index, size_t archive,
                                const spsh__view_problem *problem, spsh_error *err)
{
    spsh__held_problems *held = &index->held;
    if (archive == SIZE_MAX)
        return SPSH_OK;
    if (held->count == HELD_MAX) {
        index->archives[archive].has_unlisted_problems = true;
        return SPSH_OK;
    }
    if (!SPSH_GROW(held->items, held->capacity, held->count + 1))
        return SPSH_NO_MEMORY(err);
    spsh__held_problem *item = &held->items[held->count++];
    *item = (spsh__held_problem){archive, problem->kind, strdup(problem->path),
                                 strdup(problem->detail)};
    return item->path == NULL || item->detail == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

spsh_status spsh__archive_report(spsh__archive_index *index, size_t archive,
                                 const spsh__view_problem *problem, spsh_error *err)
{
    const spsh__view_observer *observer = index->observer;
    if (observer == NULL || observer->problem_fn == NULL)
        return SPSH_OK;
    if (index->used_only)
        return hold_problem(index, archive, problem, err);
    return observer->problem_fn(observer->user, problem, err);
}

void spsh__archive_piece(const spsh__archive_index *index, const spsh__member_record *member,
                         spsh__piece *ret_piece)
{
    const spsh__indexed_archive *a = &index->archives[member->archive];
    const bool spooled = member->kind == SPSH__MEMBER_SPOOLED;
    *ret_piece = (spsh__piece){spooled ? a->spool : a->data, member->offset_bytes,
                               member->size_bytes, spooled ? a->spool_bytes : a->data_bytes};
}

void spsh__archive_path(const spsh__archive_index *index, const spsh__member_record *member,
                        spsh__builder *out)
{
    const spsh__indexed_archive *a = &index->archives[member->archive];
    spsh__builder_append(out, a->path, a->folder_bytes);
    if (a->own_folder) {
        if (a->folder_bytes > 0)
            spsh__builder_append(out, "/", 1);
        spsh__builder_append_bytes(out, spsh__archive_stem(a->path));
    }
    spsh__builder_append_part(out, spsh__column_text(&index->table.names, member->name));
}

/* Name of an archive in reports. The path of the root is "", so use its file name. */
static const char *report_name(const build *b, const char *path)
{
    return path[0] != '\0' ? path : spsh__base_name(b->options->root);
}

static spsh_status report_problem(const build *b, spsh__view_problem_kind kind, const char *path,
                                  const char *detail, spsh_error *err)
{
    const spsh__view_problem problem = {kind, report_name(b, path), detail};
    return spsh__archive_report(b->index, b->reading, &problem, err);
}

static spsh_status report_detail(const build *b, const char *path, spsh_status damage,
                                 const char *detail, spsh_error *err)
{
    return report_problem(
        b, damage == SPSH_E_TRUNCATED ? SPSH__VIEW_ARCHIVE_TRUNCATED : SPSH__VIEW_ARCHIVE_BAD, path,
        detail, err);
}

/* Report damage and keep the members before it. Other failures are returned. Damage of standard
 * input is a failure, too, because the producer can run again. */
static spsh_status report_damage(const build *b, const char *path, spsh_status damage,
                                 const spsh_error *cause, spsh_error *err)
{
    if ((damage == SPSH_E_TRUNCATED || damage == SPSH_E_CORRUPT) && !b->is_stdin)
        return report_detail(b, path, damage, spsh__without_path(cause->message, path), err);
    if (damage != SPSH_OK && damage != SPSH_E_END && err != NULL)
        *err = *cause;
    return damage == SPSH_E_END ? SPSH_OK : damage;
}

static char *join(const char *folder, const char *name)
{
    spsh__builder path = {0};
    spsh__builder_append_text(&path, folder);
    spsh__builder_append_part(&path, name);
    char *text = spsh__builder_text(&path) == NULL ? NULL : strdup((const char *)path.data);
    spsh__builder_free(&path);
    return text;
}

static int open_regular(const spsh_io *io, const char *path, uint64_t *ret_size_bytes)
{
    struct stat state;
    int fd = io->open_fn(io->user, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);

    if (fd < 0)
        return fd;
    int error = io->fstat_fn(io->user, fd, &state);
    if (error == 0 && !S_ISREG(state.st_mode))
        error = -EINVAL;
    if (error != 0) {
        (void)io->close_fn(io->user, fd);
        return error;
    }
    *ret_size_bytes = (uint64_t)state.st_size;
    return fd;
}

static spsh_status fail_open(const char *path, int error, spsh_error *err)
{
    return SPSH_FAIL_OS(err, error == ENOENT ? SPSH_E_NOT_FOUND : SPSH_E_IO, error, "%s: %s", path,
                        strerror(error));
}

/* Reject a file that the user named as input and that has only the name of an archive. The message
 * names the content. */
static spsh_status refuse_foreign(const spsh_io *io, int fd, const char *path, spsh_error *err)
{
    spsh__archive_foreign foreign;
    spsh_status rc = spsh__archive_report_foreign(io, fd, path, &foreign, err);
    if (rc == SPSH_OK && foreign.what != NULL)
        rc = SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the name is that of an archive, but it %s", path,
                       foreign.what);
    return rc;
}

spsh_status spsh__archive_is_one(const spsh_io *io, const char *path, bool *ret_is, spsh_error *err)
{
    spsh__archive_kind kind = SPSH__ARCHIVE_NONE;
    uint64_t size_bytes = 0;
    spsh_error cause = SPSH_ERROR_INIT;
    int fd = open_regular(io, path, &size_bytes);

    if (fd < 0)
        return fail_open(path, -fd, err);
    spsh_status rc = spsh__archive_sniff(io, fd, path, &kind, &cause);
    if (rc == SPSH_OK && kind == SPSH__ARCHIVE_NONE && spsh__archive_is_called_one(path))
        rc = refuse_foreign(io, fd, path, &cause);
    (void)io->close_fn(io->user, fd);
    *ret_is = kind == SPSH__ARCHIVE_PLAIN || kind == SPSH__ARCHIVE_COMPRESSED;
    if (rc != SPSH_OK && err != NULL)
        *err = cause;
    return rc;
}

/* ---- finding archives ---- */

/* *ret_errno: set if a disk or a file server has failed. */
static bool lies_on_disk(const char *root, spsh_bytes folder, spsh_bytes own, const char *name,
                         int *ret_errno)
{
    spsh__builder path = {0};
    struct stat state;

    spsh__builder_append_text(&path, root);
    spsh__builder_append(&path, "/", 1);
    spsh__builder_append_bytes(&path, folder);
    spsh__builder_append(&path, "/", 1);
    spsh__builder_append_bytes(&path, own);
    spsh__builder_append(&path, "/", 1);
    spsh__builder_append_text(&path, name);
    const int failed = spsh__builder_text(&path) == NULL              ? ENOMEM
                       : stat(spsh__builder_text(&path), &state) == 0 ? 0
                                                                      : errno;
    const bool lies = failed == 0 && S_ISREG(state.st_mode);
    if (spsh__os_error_is_transient(failed))
        *ret_errno = failed;
    spsh__builder_free(&path);
    return lies;
}

/* Whether the first files of an archive are on the disk, in its folder or in a folder named after
 * it. */
static spsh_status is_unpacked(const build *b, const char *path, int fd, bool *ret_is,
                               spsh_error *err)
{
    const char *slash = strrchr(path, '/');
    const spsh_bytes folder = {(const uint8_t *)path, slash == NULL ? 0 : (size_t)(slash - path)};
    const spsh_bytes stem = spsh__archive_stem(path);
    spsh__archive *archive = NULL;
    spsh__archive_member member;
    unsigned files = 0;
    bool in_place = true;
    bool in_own = true;
    int failed = 0;

    spsh_status rc = spsh__archive_open(b->options->io, fd, path, &archive, err);
    while (rc == SPSH_OK && files < PEEK_MEMBERS && (in_place || in_own)) {
        rc = spsh__archive_next(archive, &member, err);
        if (rc != SPSH_OK)
            break;
        if (member.type != SPSH__ARCHIVE_FILE || member.problem != NULL)
            continue;
        files++;
        in_place = in_place && lies_on_disk(b->options->root, folder, (spsh_bytes){NULL, 0},
                                            member.name, &failed);
        in_own = in_own && lies_on_disk(b->options->root, folder, stem, member.name, &failed);
        if (failed != 0)
            rc = fail_open(path, failed, err);
    }
    spsh__archive_close(archive);
    *ret_is = files > 0 && (in_place || in_own);
    /* Damage is reported when the archive is read. */
    return rc == SPSH_E_END || rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED ? SPSH_OK : rc;
}

/* Append an archive. Takes ownership of path and data, also on failure. */
static spsh_status push_archive(spsh__archive_index *index, const spsh__indexed_archive *archive,
                                spsh_error *err)
{
    spsh__indexed_archive copy = *archive;

    if (copy.path == NULL || copy.data == NULL ||
        !SPSH_GROW(index->archives, index->archive_capacity, index->archive_count + 1)) {
        spsh__indexed_archive_clear(&copy);
        return SPSH_NO_MEMORY(err);
    }
    const char *slash = strrchr(copy.path, '/');
    copy.folder_bytes = slash == NULL ? 0 : (size_t)(slash - copy.path);
    index->archives[index->archive_count++] = copy;
    return SPSH_OK;
}

/* Report a file that has only the name of an archive. A failed download must not look like a
 * smaller corpus. */
static spsh_status report_foreign(const build *b, const char *path, int fd, spsh_error *err)
{
    char detail[100];
    spsh__archive_foreign foreign;
    spsh_status rc = spsh__archive_report_foreign(b->options->io, fd, path, &foreign, err);

    if (rc != SPSH_OK || foreign.what == NULL)
        return rc;
    (void)snprintf(detail, sizeof(detail), "has the name of an archive, but %s", foreign.what);
    return report_problem(
        b, foreign.is_failure ? SPSH__VIEW_ARCHIVE_BAD : SPSH__VIEW_ARCHIVE_UNREADABLE, path,
        detail, err);
}

/* Sniff an open file that may be an archive, and add it if it is one. */
static spsh_status judge(build *b, const char *path, int fd, uint64_t size_bytes, spsh_error *err)
{
    spsh__indexed_archive a = {.data_bytes = size_bytes, .packed_bytes = size_bytes};
    spsh_error cause = SPSH_ERROR_INIT;
    spsh_status rc = spsh__archive_sniff(b->options->io, fd, path, &a.kind, &cause);

    if (rc != SPSH_OK)
        return report_damage(b, path, rc, &cause, err);
    if (a.kind == SPSH__ARCHIVE_NONE && spsh__archive_is_called_one(path))
        return report_foreign(b, path, fd, err);
    if (a.kind == SPSH__ARCHIVE_COMPRESSED && b->options->plain_only)
        return SPSH_OK;
    if (a.kind != SPSH__ARCHIVE_PLAIN && a.kind != SPSH__ARCHIVE_COMPRESSED)
        return SPSH_OK;
    bool unpacked = false;
    if (path[0] != '\0')
        rc = is_unpacked(b, path, fd, &unpacked, err);
    if (rc != SPSH_OK)
        return rc;
    if (unpacked)
        return report_problem(b, SPSH__VIEW_ARCHIVE_UNPACKED, path, "was also unpacked next to it",
                              err);
    b->packed_total += a.kind == SPSH__ARCHIVE_COMPRESSED ? size_bytes : 0;
    a.path = strdup(path);
    a.data = path[0] == '\0' ? strdup(b->options->root) : join(b->options->root, path);
    return push_archive(b->index, &a, err);
}

/* Whether an open error concerns the path itself. Other errors are temporary conditions of the
 * machine. */
static bool is_permanent(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM ||
           error == ELOOP || error == ENAMETOOLONG || error == ENXIO || error == EISDIR ||
           error == EINVAL;
}

static spsh_status judge_path(build *b, const char *path, spsh_error *err)
{
    uint64_t size_bytes = 0;
    char *whole = path[0] == '\0' ? strdup(b->options->root) : join(b->options->root, path);

    if (whole == NULL)
        return SPSH_NO_MEMORY(err);
    int fd = open_regular(b->options->io, whole, &size_bytes);
    free(whole);
    if (fd < 0 && !is_permanent(-fd))
        return fail_open(path, -fd, err);
    if (fd < 0)
        return spsh__archive_is_called_one(path) && fd != -EINVAL
                   ? report_problem(b, SPSH__VIEW_ARCHIVE_UNREADABLE, path, strerror(-fd), err)
                   : SPSH_OK;
    spsh_status rc = judge(b, path, fd, size_bytes, err);
    (void)b->options->io->close_fn(b->options->io->user, fd);
    return rc;
}

static spsh_status find_archives(build *b, spsh_error *err)
{
    spsh__path_list names = {0};
    spsh_status rc = spsh__archive_find(b->options->root, b->options->follow_links, &names, err);

    for (size_t i = 0; i < names.count && rc == SPSH_OK; i++)
        rc = judge_path(b, names.paths[i], err);
    spsh__path_list_free(&names);
    return rc;
}

/* ---- spool files ---- */

static spsh_status make_spool(build *b, char **ret_path, int *ret_fd, spsh_error *err)
{
    const spsh_io *io = b->options->io;
    char name[64];
    int fd = -EEXIST;
    char *path = NULL;

    while (fd == -EEXIST && b->spool_count < SPOOLS_MAX) {
        (void)snprintf(name, sizeof(name), SPSH__ARCHIVE_SPOOL_PREFIX "%06u", b->spool_count++);
        free(path);
        path = join(b->scratch, name);
        if (path == NULL)
            return SPSH_NO_MEMORY(err);
        fd = io->open_fn(io->user, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0) {
        spsh_error_set(err, spsh_io_status(-fd), -fd, SPSH_OFFSET_NONE, "%s: %s", path,
                       strerror(-fd));
        free(path);
        return spsh_io_status(-fd);
    }
    *ret_path = path;
    *ret_fd = fd;
    return SPSH_OK;
}

static spsh_status show_progress(build *b, uint64_t position, spsh_error *err)
{
    const spsh__view_observer *observer = b->index->observer;
    uint64_t done = b->packed_done + position;

    if (observer == NULL || observer->unpack_fn == NULL || done < b->reported_at + PROGRESS_BYTES)
        return SPSH_OK;
    b->reported_at = done;
    return observer->unpack_fn(observer->user, done,
                               done > b->packed_total ? done : b->packed_total, err);
}

static spsh_status on_position(void *user, uint64_t position_bytes, spsh_error *err)
{
    return show_progress(user, position_bytes, err);
}

/* Unpack an archive into a spool. Damage is not an error here: see *ret_damage. */
static spsh_status unpack_stream(build *b, int from, const char *name, spsh__indexed_archive *a,
                                 spsh_status *ret_damage, spsh_error *err)
{
    spsh_error cause = SPSH_ERROR_INIT;
    char *spool = NULL;
    int fd = -1;
    uint64_t size_bytes = 0;
    spsh_status rc = make_spool(b, &spool, &fd, err);

    if (rc != SPSH_OK)
        return rc;
    const spsh__spooling spooling = {b->options->io, from, name, fd, spool, on_position, b};
    rc = spsh__spool_archive(&spooling, &size_bytes, ret_damage, &cause, err);
    spsh_status closed = spsh__spool_close(b->options->io, fd, spool, rc == SPSH_OK ? err : NULL);
    rc = rc == SPSH_OK ? closed : rc;
    if (rc == SPSH_OK)
        rc = report_damage(b, a->path, *ret_damage, &cause, err);
    free(a->data);
    a->data = spool;
    a->data_bytes = size_bytes;
    return rc;
}

/* ---- members ---- */

/** One archive while its members are read. */
typedef struct reader {
    build *b;
    spsh__indexed_archive *a;
    uint32_t number;
    spsh__archive *archive;
    int spool; /* -1: none yet */
} reader;

/* Copy a member that exists nowhere uncompressed to the spool. *ret_damage: SPSH_OK, or the member
 * is damaged. */
static spsh_status spool_member(reader *r, spsh__member_record *record, spsh_status *ret_damage,
                                spsh_error *err)
{
    spsh__indexed_archive *a = r->a;
    uint64_t begin = a->spool_bytes;
    spsh_error cause = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh_status got = SPSH_OK;

    if (r->spool < 0)
        rc = make_spool(r->b, &a->spool, &r->spool, err);
    while (rc == SPSH_OK && got == SPSH_OK) {
        spsh_bytes data = {NULL, 0};
        got = spsh__archive_read(r->archive, &data, &cause);
        if (got != SPSH_OK)
            break;
        rc = spsh__spool_write(r->b->options->io, r->spool, a->spool, data, a->spool_bytes, err);
        a->spool_bytes += data.size_bytes;
        if (rc == SPSH_OK)
            rc = show_progress(r->b, 0, err);
    }
    *ret_damage = got == SPSH_E_END ? SPSH_OK : got;
    record->kind = SPSH__MEMBER_SPOOLED;
    record->offset_bytes = begin;
    record->size_bytes = a->spool_bytes - begin;
    if (rc == SPSH_OK && got != SPSH_E_END && got != SPSH_E_CORRUPT && got != SPSH_E_TRUNCATED) {
        if (err != NULL)
            *err = cause;
        return got;
    }
    return rc;
}

static spsh_status report_member(const reader *r, spsh__view_problem_kind kind, const char *name,
                                 const char *detail, spsh_error *err)
{
    char *path = join(report_name(r->b, r->a->path), name);
    spsh_status rc =
        path == NULL ? SPSH_NO_MEMORY(err) : report_problem(r->b, kind, path, detail, err);
    free(path);
    return rc;
}

static spsh_status add_text(spsh__archive_column *names, const char *text, uint64_t *ret_at,
                            spsh_error *err)
{
    *ret_at = names->size_bytes;
    return spsh__column_append(names, text, strlen(text) + 1, err);
}

static spsh_status add_member(reader *r, const spsh__archive_member *member, spsh_error *err)
{
    spsh__archive_table *table = &r->b->index->table;
    spsh__member_record record = {.archive = r->number,
                                  .offset_bytes = member->offset_bytes,
                                  .size_bytes = member->size_bytes,
                                  .kind = SPSH__MEMBER_PIECE};
    spsh_status damage = SPSH_OK;
    spsh_status rc = SPSH_OK;

    if (member->name[0] == '\0' && member->type == SPSH__ARCHIVE_FOLDER)
        return SPSH_OK; /* the entry "./" of the archive itself */
    if (member->problem != NULL)
        return member->type == SPSH__ARCHIVE_FOLDER
                   ? SPSH_OK
                   : report_member(r, SPSH__VIEW_BAD_MEMBER, member->name, member->problem, err);
    if (member->type == SPSH__ARCHIVE_FILE && spsh__archive_is_called_one(member->name))
        rc = report_member(r, SPSH__VIEW_ARCHIVE_NESTED, member->name,
                           "is an archive in an archive, which is not opened; unpack the outer one",
                           err);
    if (rc == SPSH_OK)
        rc = add_text(&table->names, member->name, &record.name, err);
    if (rc == SPSH_OK && member->type == SPSH__ARCHIVE_HARD_LINK) {
        record.kind = SPSH__MEMBER_LINK;
        rc = add_text(&table->names, member->target, &record.offset_bytes, err);
        r->b->index->link_count++;
    } else if (member->type == SPSH__ARCHIVE_FOLDER) {
        record.kind = SPSH__MEMBER_FOLDER;
    } else if (member->type == SPSH__ARCHIVE_OTHER) {
        record.kind = SPSH__MEMBER_SPECIAL;
    } else if (rc == SPSH_OK && member->offset_bytes == SPSH_OFFSET_NONE) {
        rc = spool_member(r, &record, &damage, err);
        if (rc == SPSH_OK && damage != SPSH_OK)
            return report_member(r, SPSH__VIEW_BAD_MEMBER, member->name,
                                 "its bytes cannot be unpacked", err);
    }
    if (rc == SPSH_OK)
        rc = spsh__column_append(&table->members, &record, sizeof(record), err);
    r->a->member_count++;
    return rc;
}

static spsh_status read_members(reader *r, spsh_status damage, spsh_error *err)
{
    spsh__archive_member member;
    spsh_error cause = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh_status got = SPSH_OK;

    r->a->first_member = r->b->index->table.members.size_bytes / sizeof(spsh__member_record);
    while (rc == SPSH_OK) {
        got = spsh__archive_next(r->archive, &member, &cause);
        if (got != SPSH_OK)
            break;
        rc = add_member(r, &member, err);
        if (rc == SPSH_OK && (r->a->member_count & 0xfff) == 0)
            rc = show_progress(r->b, 0, err);
    }
    /* A damaged stream unpacks to a truncated tar. The damage was reported already. */
    if (rc == SPSH_OK && damage != SPSH_OK && (got == SPSH_E_TRUNCATED || got == SPSH_E_CORRUPT))
        return SPSH_OK;
    return rc == SPSH_OK ? report_damage(r->b, r->a->path, got, &cause, err) : rc;
}

static spsh_status read_archive(build *b, size_t number, spsh_status damage, spsh_error *err)
{
    const spsh_io *io = b->options->io;
    spsh__indexed_archive *a = &b->index->archives[number];
    reader r = {.b = b, .a = a, .number = (uint32_t)number, .spool = -1};
    spsh_error cause = SPSH_ERROR_INIT;
    uint64_t size_bytes = 0;
    int fd = open_regular(io, a->data, &size_bytes);

    if (fd < 0)
        return fail_open(a->data, -fd, err);
    a->data_bytes = size_bytes;
    spsh_status rc =
        spsh__archive_open(io, fd, b->is_stdin ? STDIN_NAME : a->data, &r.archive, &cause);
    if (rc == SPSH_OK)
        rc = read_members(&r, damage, err);
    else if (damage == SPSH_OK)
        rc = report_damage(b, a->path, rc, &cause, err);
    else
        rc = SPSH_OK;
    spsh__archive_close(r.archive);
    (void)io->close_fn(io->user, fd);
    if (r.spool >= 0) {
        spsh_status closed = spsh__spool_close(io, r.spool, a->spool, rc == SPSH_OK ? err : NULL);
        rc = rc == SPSH_OK ? closed : rc;
    }
    return rc;
}

/* Replace the path of an archive by the path of the tar that the observer has unpacked. */
static spsh_status take_unpacked(build *b, spsh__indexed_archive *a, spsh_status *ret_damage,
                                 spsh_error *err)
{
    spsh__packed_archive *packed = &b->packed[b->packed_taken++];

    free(a->data);
    a->data = packed->tar;
    packed->tar = NULL;
    *ret_damage = packed->damage;
    return packed->damage == SPSH_OK
               ? SPSH_OK
               : report_detail(b, a->path, packed->damage, packed->detail, err);
}

static spsh_status unpack_archive(build *b, spsh__indexed_archive *a, spsh_status *ret_damage,
                                  spsh_error *err)
{
    uint64_t size_bytes = 0;
    int fd = open_regular(b->options->io, a->data, &size_bytes);

    if (fd < 0)
        return fail_open(a->data, -fd, err);
    spsh_status rc = unpack_stream(b, fd, report_name(b, a->path), a, ret_damage, err);
    (void)b->options->io->close_fn(b->options->io->user, fd);
    b->packed_done += a->packed_bytes;
    return rc;
}

static spsh_status unpack_and_read(build *b, size_t number, spsh_error *err)
{
    spsh__indexed_archive *a = &b->index->archives[number];
    spsh_status damage = SPSH_OK;
    spsh_status rc = SPSH_OK;

    if (a->kind == SPSH__ARCHIVE_COMPRESSED)
        rc = b->packed != NULL ? take_unpacked(b, a, &damage, err)
                               : unpack_archive(b, a, &damage, err);
    return rc == SPSH_OK ? read_archive(b, number, damage, err) : rc;
}

/* ---- the whole build ---- */

/* Let the observer unpack the compressed archives. */
static spsh_status unpack_all(build *b, spsh_error *err)
{
    const spsh__archive_index *index = b->index;
    const spsh__view_observer *observer = index->observer;

    if (b->packed_total == 0 || observer == NULL || observer->unpack_all_fn == NULL)
        return SPSH_OK;
    b->packed = calloc(index->archive_count, sizeof(*b->packed));
    if (b->packed == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < index->archive_count; i++) {
        const spsh__indexed_archive *a = &index->archives[i];
        if (a->kind == SPSH__ARCHIVE_COMPRESSED)
            b->packed[b->packed_count++] = (spsh__packed_archive){
                .path = a->data, .name = report_name(b, a->path), .size_bytes = a->packed_bytes};
    }
    b->packed_done = b->packed_total;
    return observer->unpack_all_fn(observer->user, b->packed, b->packed_count, err);
}

static void free_packed(build *b)
{
    for (size_t i = 0; i < b->packed_count; i++) {
        free(b->packed[i].tar);
        free(b->packed[i].detail);
    }
    free(b->packed);
}

static spsh_status read_stdin(build *b, spsh_error *err)
{
    spsh__indexed_archive a = {.kind = SPSH__ARCHIVE_PLAIN};
    spsh_status damage = SPSH_OK;
    spsh__archive_kind kind = SPSH__ARCHIVE_NONE;
    uint64_t size_bytes = 0;

    a.path = strdup("");
    a.data = strdup("");
    if (a.path == NULL || a.data == NULL) {
        spsh__indexed_archive_clear(&a);
        return SPSH_NO_MEMORY(err);
    }
    spsh_status rc = unpack_stream(b, STDIN_FILENO, STDIN_NAME, &a, &damage, err);
    int fd = rc == SPSH_OK ? open_regular(b->options->io, a.data, &size_bytes) : -1;
    if (rc == SPSH_OK && fd < 0)
        rc = fail_open(a.data, -fd, err);
    if (rc == SPSH_OK)
        rc = spsh__archive_sniff(b->options->io, fd, a.data, &kind, err);
    if (rc == SPSH_OK && kind != SPSH__ARCHIVE_PLAIN)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                       "standard input is not a tar; the source \"-\" must be a tar");
    if (fd >= 0)
        (void)b->options->io->close_fn(b->options->io->user, fd);
    if (rc != SPSH_OK) {
        spsh__indexed_archive_clear(&a);
        return rc;
    }
    return push_archive(b->index, &a, err);
}

spsh_status spsh__archive_read_all(spsh__archive_index *index,
                                   const spsh__archive_index_options *options, spsh_error *err)
{
    build b = {.index = index, .options = options, .reading = SIZE_MAX};
    struct stat state;
    spsh_status rc = SPSH_OK;

    b.scratch = realpath(options->scratch_directory, NULL);
    if (b.scratch == NULL)
        return fail_open(options->scratch_directory, errno, err);
    if (strcmp(options->root, SPSH__ARCHIVE_STDIN) == 0) {
        index->is_root = true;
        b.is_stdin = true;
        rc = read_stdin(&b, err);
    } else if (stat(options->root, &state) != 0) {
        rc = fail_open(options->root, errno, err);
    } else if (S_ISDIR(state.st_mode)) {
        rc = find_archives(&b, err);
    } else {
        index->is_root = true;
        rc = judge_path(&b, "", err);
    }
    if (rc == SPSH_OK)
        rc = unpack_all(&b, err);
    for (size_t i = 0; i < index->archive_count && rc == SPSH_OK; i++) {
        b.reading = i;
        rc = unpack_and_read(&b, i, err);
    }
    free_packed(&b);
    free(b.scratch);
    return rc;
}
