/* claim.c: see claim.h.
 *
 * The record is one line of fixed size, rewritten in place:
 *
 *     held     00000000000000000012 00060 locked   BOOT(36) RANDOM(16) process 4711 of node07
 *
 * The owner writes and locks it under another name in its new folder, then renames it. So no
 * observer sees a record before it is locked.
 */
#include "claim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/byte_builder.h"
#include "common/hash.h"
#include "speechshard/inside.h"

#define RECORD_NAME  "alive"
#define RECORD_BYTES 256U
#define LEASE_MAX_S  99999U

/* Offsets in the record. */
enum { STATE_AT = 0, LEASE_AT = 30, LOCK_AT = 36, BOOT_AT = 45, OWNER_AT = 99 };

void spsh__claim_folder(const char *name, uint32_t generation, char dst[SPSH__CLAIM_NAME_BYTES])
{
    (void)snprintf(dst, SPSH__CLAIM_NAME_BYTES, "%.40s.g%" PRIu32, name, generation);
}

static bool make_path(const spsh__claims *claims, const char *folder, const char *file,
                      spsh__builder *path)
{
    spsh__builder_clear(path);
    if (spsh__builder_path(path, claims->directory, folder) == NULL)
        return false;
    if (file != NULL)
        spsh__builder_append_part(path, file);
    return spsh__builder_text(path) != NULL;
}

static const char *text_of(const spsh__builder *path)
{
    return (const char *)path->data;
}

/* ---- the record ---- */

static int write_record(const spsh__own_claim *claim, const char *state)
{
    const spsh__claims *claims = claim->claims;
    const spsh_io *io = claims->io;
    char record[RECORD_BYTES + 1];
    size_t done = 0;
    int length =
        snprintf(record, sizeof(record),
                 "%-8s %020" PRIu64 " %05" PRIu32 " %-8s %-36.36s %016" PRIx64 " %s\n", state,
                 claim->beats, claims->lease_s, claim->is_locked ? "locked" : "unlocked",
                 claims->boot, claims->random, claims->owner);

    while (done < (size_t)length) {
        int64_t put =
            io->pwrite_fn(io->user, claim->fd, record + done, (size_t)length - done, done);
        if (put == -EINTR)
            continue;
        if (put <= 0)
            return put == 0 ? -EIO : (int)put;
        done += (size_t)put;
    }
    return io->fsync_fn(io->user, claim->fd);
}

void spsh__claims_refresh(const spsh_io *io, const char *directory)
{
    const int fd = io->open_fn(io->user, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
}

/* For writing, too: some file systems lock only such files. */
static int open_record(const spsh__claims *claims, const char *folder)
{
    const spsh_io *io = claims->io;
    spsh__builder path = {0};
    int fd = -ENOMEM;

    if (make_path(claims, folder, RECORD_NAME, &path))
        fd = io->open_fn(io->user, text_of(&path), O_RDWR | O_CLOEXEC, 0);
    if (fd == -ENOENT && make_path(claims, folder, NULL, &path)) {
        spsh__claims_refresh(io, text_of(&path));
        if (make_path(claims, folder, RECORD_NAME, &path))
            fd = io->open_fn(io->user, text_of(&path), O_RDWR | O_CLOEXEC, 0);
    }
    spsh__builder_free(&path);
    return fd;
}

/* Read the record of another owner. An unreadable record is empty: it cannot show a sign of life.
 * *ret_fd: open, or -1. */
static size_t read_record(const spsh__claims *claims, const char *folder, char record[RECORD_BYTES],
                          int *ret_fd)
{
    const spsh_io *io = claims->io;
    size_t size_bytes = 0;
    int64_t got = -EINTR;

    *ret_fd = open_record(claims, folder);
    while (*ret_fd >= 0 && size_bytes < RECORD_BYTES - 1 && (got > 0 || got == -EINTR)) {
        got = io->pread_fn(io->user, *ret_fd, record + size_bytes, RECORD_BYTES - 1 - size_bytes,
                           size_bytes);
        size_bytes += got > 0 ? (size_t)got : 0;
    }
    record[size_bytes] = '\0';
    return size_bytes;
}

/* ---- another owner ---- */

typedef struct observation {
    bool is_free;     /* the next generation may be made */
    bool has_stopped; /* the owner released the claim, or its process has exited */
    char owner[SPSH__CLAIM_OWNER_BYTES];
} observation;

/* Whether the owner has exited. Known only for processes of the same running kernel, which releases
 * their locks. */
static bool has_exited(const spsh__claims *claims, const char *record, int fd)
{
    const size_t boot_bytes = strlen(claims->boot);

    return claims->host->lock_fn != NULL && boot_bytes > 0 &&
           strncmp(record + LOCK_AT, "locked ", 7) == 0 &&
           strncmp(record + BOOT_AT, claims->boot, boot_bytes) == 0 &&
           record[BOOT_AT + boot_bytes] == ' ' &&
           claims->host->lock_fn(claims->host->user, fd) == 0;
}

/* The lease of the owner, because its beats depend on it. */
static uint64_t lease_ns(const spsh__claims *claims, const char *record, size_t size_bytes)
{
    const char *at = record + LEASE_AT;
    uint64_t lease_s = 0;

    if (size_bytes <= OWNER_AT || !spsh__take_digits(&at, LEASE_MAX_S, &lease_s) || *at != ' ' ||
        lease_s == 0)
        lease_s = claims->lease_s;
    return lease_s * UINT64_C(1000000000);
}

static void take_owner(const char *record, size_t size_bytes, char owner[SPSH__CLAIM_OWNER_BYTES])
{
    size_t length = 0;

    if (size_bytes > OWNER_AT)
        length = strcspn(record + OWNER_AT, "\n");
    if (length >= SPSH__CLAIM_OWNER_BYTES)
        length = SPSH__CLAIM_OWNER_BYTES - 1;
    memcpy(owner, record + OWNER_AT, length);
    owner[length] = '\0';
}

static spsh_status observe(const spsh__claims *claims, const char *name, spsh__claim_watch *watch,
                           observation *ret_seen, spsh_error *err)
{
    char folder[SPSH__CLAIM_NAME_BYTES];
    char record[RECORD_BYTES];
    int fd = -1;

    spsh__claim_folder(name, watch->generation, folder);
    const size_t size_bytes = read_record(claims, folder, record, &fd);
    if (fd == -ENOMEM)
        return SPSH_NO_MEMORY(err);
    const uint64_t now_ns = claims->host->now_ns_fn(claims->host->user);
    const uint64_t hash = spsh__pack_hash64((spsh_bytes){(const uint8_t *)record, size_bytes});
    *ret_seen = (observation){
        .has_stopped = size_bytes > OWNER_AT &&
                       (strncmp(record, "released", 8) == 0 || has_exited(claims, record, fd))};
    take_owner(record, size_bytes, ret_seen->owner);
    if (fd >= 0)
        (void)claims->io->close_fn(claims->io->user, fd); /* and unlock it */
    if (watch->since_ns == 0 || watch->content_hash != hash) {
        watch->is_alive = watch->since_ns != 0;
        watch->since_ns = now_ns == 0 ? 1 : now_ns;
        watch->content_hash = hash;
    }
    ret_seen->is_free =
        ret_seen->has_stopped || now_ns - watch->since_ns >= lease_ns(claims, record, size_bytes);
    return SPSH_OK;
}

/* ---- the own claim ---- */

static spsh_status fail_folder(const spsh__claims *claims, const char *folder, int error,
                               spsh_error *err)
{
    return SPSH_FAIL_OS(err, spsh_io_status(error), error, "%s/%s: %s", claims->directory, folder,
                        strerror(error));
}

static spsh_status make_folder(const spsh__claims *claims, const char *folder, bool *ret_made,
                               spsh_error *err)
{
    spsh__builder path = {0};
    int rc = -EINTR;

    if (!make_path(claims, folder, NULL, &path)) {
        spsh__builder_free(&path);
        return SPSH_NO_MEMORY(err);
    }
    while (rc == -EINTR)
        rc = claims->io->mkdir_fn(claims->io->user, text_of(&path), 0777);
    spsh__builder_free(&path);
    *ret_made = rc == 0;
    return rc == 0 || rc == -EEXIST ? SPSH_OK : fail_folder(claims, folder, -rc, err);
}

static bool folder_exists(const spsh__claims *claims, const char *name, uint32_t generation)
{
    char folder[SPSH__CLAIM_NAME_BYTES];
    spsh__builder path = {0};
    struct stat state;

    spsh__claim_folder(name, generation, folder);
    const bool found = make_path(claims, folder, NULL, &path) &&
                       claims->io->stat_fn(claims->io->user, text_of(&path), &state) == 0;
    spsh__builder_free(&path);
    return found;
}

static int publish_record(spsh__own_claim *claim, const char *temporary, const char *path)
{
    const spsh__claims *claims = claim->claims;
    const spsh_io *io = claims->io;
    int rc = -EINTR;

    while (rc == -EINTR)
        rc = io->open_fn(io->user, temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (rc < 0)
        return rc;
    claim->fd = rc;
    claim->is_locked =
        claims->host->lock_fn != NULL && claims->host->lock_fn(claims->host->user, claim->fd) == 0;
    rc = write_record(claim, "held");
    return rc < 0 ? rc : io->rename_fn(io->user, temporary, path);
}

/* Write the first record. After a failure the folder is removed if possible. Otherwise others wait
 * for a lease. */
static spsh_status begin_claim(spsh__own_claim *claim, spsh_error *err)
{
    const spsh__claims *claims = claim->claims;
    spsh__builder temporary = {0};
    spsh__builder path = {0};
    spsh_status rc = SPSH_OK;

    if (!make_path(claims, claim->folder, RECORD_NAME ".new", &temporary) ||
        !make_path(claims, claim->folder, RECORD_NAME, &path)) {
        rc = SPSH_NO_MEMORY(err);
    } else {
        const int error = -publish_record(claim, text_of(&temporary), text_of(&path));
        if (error != 0)
            rc = fail_folder(claims, claim->folder, error, err);
        if (error != 0)
            (void)claims->io->unlink_fn(claims->io->user, text_of(&temporary));
    }
    spsh__builder_free(&temporary);
    spsh__builder_free(&path);
    if (rc != SPSH_OK)
        spsh__claim_remove(claim);
    return rc;
}

/* NOLINTNEXTLINE(readability-function-size): what to claim, and three results */
spsh_status spsh__claim_try(const spsh__claims *claims, const char *name, spsh__claim_watch *watch,
                            spsh__own_claim *ret_claim, spsh__claim_state *ret_state,
                            char ret_owner[SPSH__CLAIM_OWNER_BYTES], spsh_error *err)
{
    spsh__own_claim claim = {.claims = claims, .fd = -1};
    observation seen = {.is_free = true};
    spsh_status rc = SPSH_OK;

    if (watch->generation > 0) {
        rc = observe(claims, name, watch, &seen, err);
        if (rc == SPSH_OK && !seen.is_free && folder_exists(claims, name, watch->generation + 1))
            seen.is_free = true; /* the next generation has an owner already */
    }
    while (rc == SPSH_OK && seen.is_free) {
        bool made = false;
        claim.generation = watch->generation + 1;
        spsh__claim_folder(name, claim.generation, claim.folder);
        rc = make_folder(claims, claim.folder, &made, err);
        if (rc == SPSH_OK && made) {
            memcpy(claim.previous, seen.owner, sizeof(claim.previous));
            claim.previous_has_stopped = seen.has_stopped;
            rc = begin_claim(&claim, err);
            if (rc != SPSH_OK)
                return rc;
            *watch = (spsh__claim_watch){0};
            *ret_claim = claim;
            *ret_state = SPSH__CLAIM_WON;
            return SPSH_OK;
        }
        if (rc != SPSH_OK)
            return rc;
        *watch = (spsh__claim_watch){.generation = claim.generation};
        if (folder_exists(claims, name, claim.generation + 1))
            continue;
        rc = observe(claims, name, watch, &seen, err);
    }
    if (rc != SPSH_OK)
        return rc;
    if (ret_owner != NULL)
        memcpy(ret_owner, seen.owner, sizeof(seen.owner));
    *ret_state = watch->is_alive ? SPSH__CLAIM_ALIVE : SPSH__CLAIM_UNKNOWN;
    return SPSH_OK;
}

void spsh__claim_beat(spsh__own_claim *claim)
{
    claim->beats++;
    if (claim->fd >= 0)
        (void)write_record(claim, "held");
}

void spsh__claim_close(spsh__own_claim *claim)
{
    if (claim->fd >= 0)
        (void)claim->claims->io->close_fn(claim->claims->io->user, claim->fd);
    claim->fd = -1;
}

void spsh__claim_release(spsh__own_claim *claim)
{
    if (claim->fd >= 0)
        (void)write_record(claim, "released");
    spsh__claim_close(claim);
}

void spsh__claim_remove(spsh__own_claim *claim)
{
    const spsh__claims *claims = claim->claims;
    spsh__builder path = {0};

    spsh__claim_close(claim);
    if (make_path(claims, claim->folder, RECORD_NAME, &path))
        (void)claims->io->unlink_fn(claims->io->user, text_of(&path));
    if (make_path(claims, claim->folder, NULL, &path))
        (void)claims->io->rmdir_fn(claims->io->user, text_of(&path));
    spsh__builder_free(&path);
}
