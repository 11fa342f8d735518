/* claim.h: claims of work by processes on any number of machines, over one shared folder.
 *
 *     DIRECTORY/NAME.gK/        claim of generation K of NAME; mkdir makes it, so it has one owner
 *     DIRECTORY/NAME.gK/alive   the owner's record: state, beats, lease, and identity
 *
 * The owner raises the number of beats several times per lease. An observer takes an owner for dead
 * if the record did not change during a whole lease of the observer's own clock. It then makes the
 * next generation. A process that was taken for dead and continues must not write anywhere except
 * in its own folder. The owner's folder is the place for its results.
 *
 * Claims need an exclusive mkdir, and that a file which is opened after a sync on another machine
 * has the synced content. They need no locks, listings, times of files, or common clock. On one
 * machine a lock on `alive` also shows at once that an owner has exited.
 */
#ifndef SPSH_PACK_CLAIM_H
#define SPSH_PACK_CLAIM_H

#include "speechshard/io.h"

#define SPSH__CLAIM_NAME_BYTES  64U /* size of NAME.gK, with the NUL */
#define SPSH__CLAIM_OWNER_BYTES 100U
#define SPSH__CLAIM_BEATS       6U /* beats per lease */

/** Clock and locks of the machine, for claims. Tests pass a simulation. */
typedef struct spsh__claim_host {
    void *user;
    uint64_t (*now_ns_fn)(void *user); /* a clock that never goes back */
    void (*sleep_fn)(void *user, uint64_t ns);
    /* Lock an open file exclusively, without waiting, until it is closed. 0 or a negative errno. */
    int (*lock_fn)(void *user, int fd);
} spsh__claim_host;

/** One process and the folder with the claims. All pointers are borrowed. */
typedef struct spsh__claims {
    const spsh_io *io;
    const char *directory;
    const spsh__claim_host *host;
    uint32_t lease_s;
    /* 36 characters: the same only for processes that see each other's locks. "": unknown */
    char boot[40];
    char owner[SPSH__CLAIM_OWNER_BYTES]; /* "process 4711 of node07", for messages */
    uint64_t random;                     /* distinguishes owners */
} spsh__claims;

/** One observer's record of the claims of one name. Zero-initialize. */
typedef struct spsh__claim_watch {
    uint32_t generation;   /* the newest that was seen; 0: none */
    bool is_alive;         /* the record changed since it was first seen */
    uint64_t since_ns;     /* time of the last change that was seen */
    uint64_t content_hash; /* hash of the record */
} spsh__claim_watch;

typedef enum spsh__claim_state {
    SPSH__CLAIM_WON,     /* *ret_claim is set */
    SPSH__CLAIM_UNKNOWN, /* another owner: not yet known whether it is alive */
    SPSH__CLAIM_ALIVE,   /* another owner that is alive */
} spsh__claim_state;

/** A claim of this process. */
typedef struct spsh__own_claim {
    const spsh__claims *claims;
    uint32_t generation;
    char folder[SPSH__CLAIM_NAME_BYTES]; /* NAME.gK */
    /* Owner of the generation before, or "". It stopped, or it gave no sign of life for a lease and
     * may still run. */
    char previous[SPSH__CLAIM_OWNER_BYTES];
    bool previous_has_stopped;
    int fd; /* the open record; -1: closed */
    bool is_locked;
    uint64_t beats;
} spsh__own_claim;

/** Set the members from this process and machine. */
void spsh__claims_begin(spsh__claims *claims, const spsh_io *io, const char *directory,
                        uint32_t lease_s);

/** Make this machine look up the names in a folder again: clients of shared file systems remember
 * for a while that a name is missing, until they open the folder. */
void spsh__claims_refresh(const spsh_io *io, const char *directory);

/** Write the name of the folder of a generation. name: up to 40 bytes. */
void spsh__claim_folder(const char *name, uint32_t generation, char dst[SPSH__CLAIM_NAME_BYTES]);

/**
 * Claim a name, or observe its owner. Does not wait.
 *
 * @param watch       of this name, kept between calls
 * @param ret_claim   set if *ret_state is SPSH__CLAIM_WON; end it with one of the calls below
 * @param ret_owner   may be NULL; set to the owner if it is another process, "" if unknown
 * @return SPSH_OK, SPSH_E_NOT_FOUND if the directory is missing, or a code of spsh_io_status
 */
SPSH_NODISCARD spsh_status spsh__claim_try(const spsh__claims *claims, const char *name,
                                           spsh__claim_watch *watch, spsh__own_claim *ret_claim,
                                           spsh__claim_state *ret_state,
                                           char ret_owner[SPSH__CLAIM_OWNER_BYTES],
                                           spsh_error *err);

/** Show that the owner is alive. Call it SPSH__CLAIM_BEATS times per lease, or start a keeper
 * (claim_keeper.h). A failure only lets another process take over. */
void spsh__claim_beat(spsh__own_claim *claim);

/** Give the claim up, so that any process can take over at once. */
void spsh__claim_release(spsh__own_claim *claim);
/** Close a claim whose work is done. */
void spsh__claim_close(spsh__own_claim *claim);
/** Remove the folder of a claim in which nothing was written. */
void spsh__claim_remove(spsh__own_claim *claim);

#endif
