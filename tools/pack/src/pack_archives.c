/* pack_archives.c: see pack_archives.h. */
#include "pack_archives.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claim/claim_keeper.h"
#include "common/file_names.h"
#include "common/hash.h"
#include "common/human.h"
#include "ingest/view/archive_spool.h"
#include "plan/pack_journal.h"
#include "speechshard/inside.h"

#define LIST_HEAD      "speechshard-archives"
#define DONE_HEAD      "speechshard-tar"
#define VERSION        1U
#define TAR_NAME       "tar"
#define PROGRESS_BYTES (UINT64_C(8) << 20)
/* Archives in a row that others have taken, after which a part stops to help. Otherwise each part
 * looks at each archive. */
#define MISSES_MAX 1000U

/* Damage in the record of an unpacked archive. */
enum { WHOLE, TRUNCATED, CORRUPT, DAMAGES };

typedef struct shared_archive {
    spsh__packed_archive *archive;
    char name[SPSH__CLAIM_NAME_BYTES]; /* name of the claim */
    uint8_t id[16];
    spsh__claim_watch watch;
} shared_archive;

typedef struct unpack_pass {
    const spsh__pack_state *state;
    shared_archive *items;
    size_t count;
    uint64_t done_bytes; /* size of the archives that are unpacked */
    uint64_t total_bytes;
    uint64_t shown_bytes; /* at the last report of progress */
    uint64_t unpacked;    /* number of archives that this process has unpacked */
} unpack_pass;

static const char *work_of(const spsh__pack_state *state)
{
    return spsh__pack_path(&state->paths, SPSH__PACK_WORK);
}

static bool is_done(const shared_archive *item)
{
    return item->archive->tar != NULL;
}

static void set_id(shared_archive *item, const uint8_t id[16])
{
    char text[33];

    memcpy(item->id, id, sizeof(item->id));
    spsh__hex128(id, text);
    (void)snprintf(item->name, sizeof(item->name), "tar-%s", text);
}

static spsh_status fail_open(const char *path, int error, spsh_error *err)
{
    return SPSH_FAIL_OS(err, spsh_io_status(error), error,
                        "%s: %s; each part needs the corpus under this path", path,
                        strerror(error));
}

/* ---- the record of an unpacked archive ---- */

static bool read_done(spsh__journal *journal, const shared_archive *item, char **ret_detail,
                      uint64_t words[4])
{
    uint8_t id[16];
    const char *detail = NULL;

    if (!spsh__journal_take_numbers(journal, DONE_HEAD, words, 4) || words[0] != VERSION ||
        words[1] == 0 || words[1] > UINT32_MAX || words[3] >= DAMAGES ||
        !spsh__journal_take_hash(journal, "id", id) || memcmp(id, item->id, sizeof(id)) != 0 ||
        (words[3] != WHOLE && !spsh__journal_take(journal, "detail", &detail)))
        return false;
    *ret_detail = detail == NULL ? NULL : strdup(detail);
    journal->no_memory = detail != NULL && *ret_detail == NULL;
    return !journal->no_memory;
}

/* Return the path of the tar of a generation, or NULL. The caller frees it. */
static char *tar_path(const spsh__pack_state *state, const shared_archive *item,
                      uint32_t generation)
{
    char folder[SPSH__CLAIM_NAME_BYTES];
    spsh__builder path = {0};

    spsh__claim_folder(item->name, generation, folder);
    if (spsh__builder_path(&path, work_of(state), folder) != NULL)
        spsh__builder_append_part(&path, TAR_NAME);
    char *text = spsh__builder_text(&path) == NULL ? NULL : strdup((const char *)path.data);
    spsh__builder_free(&path);
    return text;
}

/* Without this check, a tar that lost bytes would look like a truncated archive. */
static spsh_status check_tar(const spsh__pack_state *state, const char *tar, uint64_t size_bytes,
                             spsh_error *err)
{
    const spsh_io *io = state->options->io;
    struct stat found = {0};
    const int error = -io->stat_fn(io->user, tar, &found);

    if (error == 0 && (uint64_t)found.st_size == size_bytes)
        return SPSH_OK;
    return SPSH_FAIL_OS(err, SPSH_E_IO, error,
                        "%s: %" PRIu64 " bytes were unpacked, but %s; remove %s to start again",
                        tar, size_bytes, error != 0 ? strerror(error) : "the file has another size",
                        work_of(state));
}

/* Set the members of the archive from its record. */
static spsh_status take_done(unpack_pass *pass, shared_archive *item, spsh__journal *journal,
                             spsh_error *err)
{
    static const spsh_status damages[DAMAGES] = {SPSH_OK, SPSH_E_TRUNCATED, SPSH_E_CORRUPT};
    spsh__packed_archive *archive = item->archive;
    char *detail = NULL;
    uint64_t words[4];

    if (!read_done(journal, item, &detail, words))
        return spsh__journal_malformed(journal, err);
    char *tar = tar_path(pass->state, item, (uint32_t)words[1]);
    const spsh_status rc =
        tar == NULL ? SPSH_NO_MEMORY(err) : check_tar(pass->state, tar, words[2], err);
    if (rc != SPSH_OK) {
        free(tar);
        free(detail);
        return rc;
    }
    archive->tar = tar;
    archive->detail = detail;
    archive->damage = damages[words[3]];
    pass->done_bytes += archive->size_bytes;
    return SPSH_OK;
}

/* Look whether the archive is unpacked, and set its members. */
static spsh_status look_for_done(unpack_pass *pass, shared_archive *item, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    spsh__journal journal = {0};
    spsh__builder path = {0};
    spsh_error cause = SPSH_ERROR_INIT;
    char name[SPSH__CLAIM_NAME_BYTES + 8];

    (void)snprintf(name, sizeof(name), "%s.done", item->name);
    spsh_status rc =
        spsh__builder_path(&path, work_of(state), name) == NULL
            ? SPSH_NO_MEMORY(&cause)
            : spsh__journal_read(state->options->io, (const char *)path.data, &journal, &cause);
    if (rc == SPSH_OK)
        rc = take_done(pass, item, &journal, err);
    else if (rc == SPSH_E_NOT_FOUND)
        rc = SPSH_OK;
    else
        rc = spsh__fail_again(rc, &cause, err);
    spsh__journal_free(&journal);
    spsh__builder_free(&path);
    return rc;
}

static spsh_status publish_done(const spsh__pack_state *state, const shared_archive *item,
                                const uint64_t words[4], const char *detail, spsh_error *err)
{
    spsh__builder out = {0};
    spsh_error cause = SPSH_ERROR_INIT;
    char name[SPSH__CLAIM_NAME_BYTES + 8];

    (void)snprintf(name, sizeof(name), "%s.done", item->name);
    spsh__journal_numbers(&out, DONE_HEAD, words, 4);
    spsh__journal_hash(&out, "id", item->id);
    if (words[3] != WHOLE)
        spsh__journal_text(&out, "detail", spsh__bytes_of(detail));
    spsh_status rc = spsh__journal_publish(state->options->io, work_of(state), name,
                                           SPSH_PUBLISH_NEW, &out, &cause);
    spsh__builder_free(&out);
    return rc == SPSH_E_EXISTS ? SPSH_OK : spsh__fail_again(rc, &cause, err);
}

/* ---- unpacking ---- */

static spsh_status on_position(void *user, uint64_t position_bytes, spsh_error *err)
{
    unpack_pass *pass = user;
    const uint64_t done = pass->done_bytes + position_bytes;

    if (done < pass->shown_bytes + PROGRESS_BYTES)
        return SPSH_OK;
    pass->shown_bytes = done;
    return spsh__pack_progress(pass->state->options, "unpack", done,
                               done > pass->total_bytes ? done : pass->total_bytes, err);
}

/* Unpack to an open file, and close it. */
static spsh_status unpack_to(unpack_pass *pass, const shared_archive *item, uint32_t generation,
                             const spsh__spooling *spooling, spsh_error *err)
{
    uint64_t words[4] = {VERSION, generation, 0, WHOLE};
    spsh_status damage = SPSH_OK;
    spsh_error cause = SPSH_ERROR_INIT;

    spsh_status rc = spsh__spool_archive(spooling, &words[2], &damage, &cause, err);
    const spsh_status closed = spsh__spool_close(spooling->io, spooling->spool,
                                                 spooling->spool_path, rc == SPSH_OK ? err : NULL);
    rc = rc == SPSH_OK ? closed : rc;
    if (rc != SPSH_OK)
        return rc;
    if (damage == SPSH_E_TRUNCATED || damage == SPSH_E_CORRUPT)
        words[3] = damage == SPSH_E_TRUNCATED ? TRUNCATED : CORRUPT;
    else if (damage != SPSH_OK)
        return spsh__fail_again(damage, &cause, err);
    return publish_done(pass->state, item, words,
                        spsh__without_path(cause.message, item->archive->name), err);
}

/* Unpack an archive into the folder of its claim, and record that. */
static spsh_status unpack_claimed(unpack_pass *pass, const shared_archive *item,
                                  const spsh__own_claim *claim, spsh_error *err)
{
    const spsh_io *io = pass->state->options->io;
    const spsh__packed_archive *archive = item->archive;
    char *tar = tar_path(pass->state, item, claim->generation);
    spsh_status rc = SPSH_OK;

    if (tar == NULL)
        return SPSH_NO_MEMORY(err);
    const int from = io->open_fn(io->user, archive->path, O_RDONLY | O_CLOEXEC, 0);
    const int to = io->open_fn(io->user, tar, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const spsh__spooling spooling = {io, from, archive->name, to, tar, on_position, pass};
    if (from < 0)
        rc = fail_open(archive->path, -from, err);
    else if (to < 0)
        rc = SPSH_FAIL_OS(err, spsh_io_status(-to), -to, "%s: %s", tar, strerror(-to));
    if (rc == SPSH_OK)
        rc = unpack_to(pass, item, claim->generation, &spooling, err);
    else if (to >= 0)
        (void)io->close_fn(io->user, to);
    if (from >= 0)
        (void)io->close_fn(io->user, from);
    free(tar);
    return rc;
}

/* Remove the incomplete tar of the generation before, if its owner cannot write to it anymore. */
static void remove_previous(const spsh__pack_state *state, const shared_archive *item,
                            const spsh__own_claim *claim)
{
    char *tar = tar_path(state, item, claim->generation - 1);

    if (tar != NULL && claim->previous_has_stopped)
        (void)state->options->io->unlink_fn(state->options->io->user, tar);
    free(tar);
}

static spsh_status take_archive(unpack_pass *pass, shared_archive *item, spsh__own_claim *claim,
                                spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    spsh__claim_keeper keeper;
    spsh_status rc = SPSH_OK;

    if (claim->generation > 1) {
        spsh__claims_refresh(state->options->io, work_of(state));
        rc = look_for_done(pass, item, err);
    }
    if (rc != SPSH_OK || is_done(item)) {
        spsh__claim_remove(claim);
        return rc;
    }
    if (claim->generation > 1)
        remove_previous(state, item, claim);
    rc = spsh__claim_keeper_start(&keeper, claim, err);
    if (rc == SPSH_OK) {
        rc = unpack_claimed(pass, item, claim, err);
        spsh__claim_keeper_stop(&keeper);
    }
    if (rc != SPSH_OK) {
        spsh__claim_release(claim);
        return rc;
    }
    spsh__claim_close(claim);
    pass->unpacked++;
    return look_for_done(pass, item, err);
}

/* Unpack an archive if it is free. */
static spsh_status visit_archive(unpack_pass *pass, shared_archive *item, spsh_error *err)
{
    spsh__own_claim claim;
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    spsh_status rc = is_done(item) ? SPSH_OK : look_for_done(pass, item, err);

    if (rc != SPSH_OK || is_done(item))
        return rc;
    rc = spsh__claim_try(&pass->state->claims, item->name, &item->watch, &claim, &claimed, NULL,
                         err);
    return rc == SPSH_OK && claimed == SPSH__CLAIM_WON ? take_archive(pass, item, &claim, err) : rc;
}

/* Visit all archives. Each part begins elsewhere, so that parts seldom meet. */
static spsh_status visit_all(unpack_pass *pass, uint64_t misses_max, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    const spsh_pack_options *options = state->options;
    uint64_t first = 0;
    uint64_t misses = 0;
    spsh_status rc = SPSH_OK;

    if (options->is_part)
        first = options->part_count == 0 ? state->claims.random
                                         : pass->count * options->part / options->part_count;
    for (size_t i = 0; rc == SPSH_OK && i < pass->count && misses < misses_max; i++) {
        const uint64_t before = pass->unpacked;
        rc = visit_archive(pass, &pass->items[(first + i) % pass->count], err);
        misses = pass->unpacked > before ? 0 : misses + 1;
    }
    return rc;
}

/* ---- the process that makes the plan ---- */

/* Derive the id of an archive from what identifies its content: its path, size, and times. */
static spsh_status identify(const spsh__pack_state *state, shared_archive *item, spsh_error *err)
{
    const spsh_io *io = state->options->io;
    const char *path = item->archive->path;
    spsh__builder key = {0};
    struct stat found;
    uint8_t id[16];
    int error = 0;

    const int fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fail_open(path, -fd, err);
    error = -io->fstat_fn(io->user, fd, &found);
    (void)io->close_fn(io->user, fd);
    if (error != 0)
        return fail_open(path, error, err);
    const int64_t words[] = {found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec,
                             found.st_ctim.tv_sec, found.st_ctim.tv_nsec};
    spsh__builder_append(&key, words, sizeof(words));
    spsh__builder_append_text(&key, path);
    if (spsh__builder_text(&key) == NULL) {
        spsh__builder_free(&key);
        return SPSH_NO_MEMORY(err);
    }
    spsh__pack_hash128(spsh__builder_bytes(&key), id);
    spsh__builder_free(&key);
    set_id(item, id);
    return SPSH_OK;
}

/* Publish the list for other parts. Only this process unpacks an archive with a line feed in its
 * path. */
static spsh_status publish_list(const unpack_pass *pass, spsh_error *err)
{
    spsh__builder out = {0};
    uint64_t head[] = {VERSION, 0};

    for (size_t i = 0; i < pass->count; i++)
        head[1] += strchr(pass->items[i].archive->path, '\n') == NULL;
    spsh__journal_numbers(&out, LIST_HEAD, head, 2);
    for (size_t i = 0; i < pass->count; i++) {
        const spsh__packed_archive *a = pass->items[i].archive;
        const uint64_t words[] = {a->size_bytes, strlen(a->path) - strlen(a->name)};
        if (strchr(a->path, '\n') != NULL)
            continue;
        spsh__journal_hash(&out, "archive", pass->items[i].id);
        spsh__journal_numbers(&out, "size_and_name", words, 2);
        spsh__journal_text(&out, "path", spsh__bytes_of(a->path));
    }
    spsh_status rc =
        spsh__journal_publish(pass->state->options->io, work_of(pass->state),
                              SPSH__PLAN_ARCHIVES_NAME, SPSH_PUBLISH_REPLACE, &out, err);
    spsh__builder_free(&out);
    return rc;
}

static spsh_status unpack_until_done(unpack_pass *pass, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    size_t done = 0;
    spsh_status rc = SPSH_OK;

    for (;;) {
        rc = visit_all(pass, UINT64_MAX, err);
        done = 0;
        for (size_t i = 0; i < pass->count; i++)
            done += is_done(&pass->items[i]);
        if (rc != SPSH_OK || done == pass->count)
            return rc;
        rc = spsh__pack_wait(state, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__claims_refresh(state->options->io, work_of(state));
    }
}

spsh_status spsh__archives_unpack(void *user, spsh__packed_archive *archives, size_t count,
                                  spsh_error *err)
{
    const spsh__pack_state *state = user;
    unpack_pass pass = {.state = state, .count = count};
    spsh_status rc = SPSH_OK;

    pass.items = calloc(count, sizeof(*pass.items));
    if (pass.items == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        pass.items[i].archive = &archives[i];
        pass.total_bytes += archives[i].size_bytes;
        rc = identify(state, &pass.items[i], err);
    }
    if (rc == SPSH_OK)
        rc = publish_list(&pass, err);
    if (rc == SPSH_OK) {
        spsh__pack_log(state->options,
                       "%s of compressed archives will be unpacked into %s; the unpacked files "
                       "take more space than that until the dataset is complete",
                       SPSH_SHOW_BYTES(pass.total_bytes), work_of(state));
        rc = unpack_until_done(&pass, err);
    }
    free(pass.items);
    return rc;
}

/* ---- a part that waits for the plan ---- */

/* Read the archives of the list. Paths are stored in the journal. */
static bool read_list(spsh__journal *journal, unpack_pass *pass, spsh__packed_archive *archives)
{
    uint8_t id[16];
    uint64_t words[2];
    const char *path = NULL;

    for (size_t i = 0; i < pass->count; i++) {
        if (!spsh__journal_take_hash(journal, "archive", id) ||
            !spsh__journal_take_numbers(journal, "size_and_name", words, 2) ||
            !spsh__journal_take(journal, "path", &path) || words[1] > strlen(path))
            return false;
        archives[i] =
            (spsh__packed_archive){.path = path, .name = path + words[1], .size_bytes = words[0]};
        pass->items[i].archive = &archives[i];
        pass->total_bytes += words[0];
        set_id(&pass->items[i], id);
    }
    return journal->at == journal->size_bytes;
}

static spsh_status help_with(const spsh__pack_state *state, spsh__journal *journal,
                             bool *ret_helped, spsh_error *err)
{
    unpack_pass pass = {.state = state};
    spsh__packed_archive *archives = NULL;
    uint64_t head[2];
    spsh_status rc = SPSH_OK;

    if (!spsh__journal_take_numbers(journal, LIST_HEAD, head, 2) || head[0] != VERSION ||
        head[1] > journal->size_bytes) /* each archive takes three lines */
        return SPSH_OK;
    pass.count = head[1];
    pass.items = calloc(pass.count + 1, sizeof(*pass.items));
    archives = calloc(pass.count + 1, sizeof(*archives));
    if (pass.items == NULL || archives == NULL)
        rc = SPSH_NO_MEMORY(err);
    else if (read_list(journal, &pass, archives))
        rc = visit_all(&pass, MISSES_MAX, err);
    for (size_t i = 0; archives != NULL && i < pass.count; i++) {
        free(archives[i].tar);
        free(archives[i].detail);
    }
    if (pass.unpacked > 0)
        spsh__pack_log(state->options, "unpacked %" PRIu64 " archive%s for the plan", pass.unpacked,
                       pass.unpacked == 1 ? "" : "s");
    *ret_helped = pass.unpacked > 0;
    free(archives);
    free(pass.items);
    return rc;
}

spsh_status spsh__archives_help(const spsh__pack_state *state, uint64_t *list_hash,
                                bool *ret_helped, spsh_error *err)
{
    spsh__journal journal = {0};
    spsh__builder path = {0};
    spsh_status rc = SPSH_OK;

    *ret_helped = false;
    if (spsh__builder_path(&path, work_of(state), SPSH__PLAN_ARCHIVES_NAME) == NULL) {
        spsh__builder_free(&path);
        return SPSH_NO_MEMORY(err);
    }
    if (spsh__journal_read(state->options->io, (const char *)path.data, &journal, NULL) ==
        SPSH_OK) {
        const uint64_t hash = spsh__pack_hash64((spsh_bytes){journal.data, journal.size_bytes});
        if (hash != *list_hash)
            rc = help_with(state, &journal, ret_helped, err);
        *list_hash = hash;
    }
    spsh__journal_free(&journal);
    spsh__builder_free(&path);
    return rc;
}
