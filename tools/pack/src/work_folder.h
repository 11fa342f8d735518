/* work_folder.h: the folder of a dataset while it is packed, and the removal of what a pack leaves
 * there.
 *
 *     DATASET/.pack/     state, in the folders of claims (claim.h); removed after publishing
 *     DATASET/shards/, reports/, manifest.spsh
 */
#ifndef SPSH_WORK_FOLDER_H
#define SPSH_WORK_FOLDER_H

#include "common/byte_builder.h"
#include "speechshard/io.h"

typedef enum spsh__pack_place {
    SPSH__PACK_WORK,
    SPSH__PACK_SHARDS,
    SPSH__PACK_REPORTS,
    SPSH__PACK_MANIFEST,
    SPSH__PACK_LOCK,
    SPSH__PACK_PLAN,
    SPSH__PACK_PLACES
} spsh__pack_place;

typedef struct spsh__pack_paths {
    const char *output;
    spsh__builder all[SPSH__PACK_PLACES]; /* NUL-terminated; WORK is absolute */
} spsh__pack_paths;

/** Set the paths. Free them with spsh__pack_paths_free, also after a failure. */
SPSH_NODISCARD spsh_status spsh__pack_paths_make(const char *output, spsh__pack_paths *ret,
                                                 spsh_error *err);
void spsh__pack_paths_free(spsh__pack_paths *paths);

const char *spsh__pack_path(const spsh__pack_paths *paths, spsh__pack_place place);
bool spsh__pack_exists(const spsh_io *io, const spsh__pack_paths *paths, spsh__pack_place place);
/** Whether the plan is there now. Asks the file server, not a cache. */
bool spsh__pack_has_plan(const spsh_io *io, const spsh__pack_paths *paths);

/** Make the folders. Then the path of WORK is absolute. */
SPSH_NODISCARD spsh_status spsh__pack_make_folders(const spsh_io *io, spsh__pack_paths *paths,
                                                   spsh_error *err);

/** Remove temporary files of merges that were killed. Only for the owner of a merge, or if there is
 * no plan. */
void spsh__pack_remove_temporaries(const spsh_io *io, const spsh__pack_paths *paths);
/** Remove a folder with the files in it. */
void spsh__pack_remove_folder(const spsh_io *io, const char *folder);
/** Remove a plan and the files that it refers to from the folder of its claim. */
void spsh__pack_remove_plan_files(const spsh_io *io, const char *folder);
/** Remove the records of finished shares, so that parts look at each unit again. */
void spsh__pack_remove_shares(const spsh_io *io, const spsh__pack_paths *paths);
/** Remove the whole state, first the plan. Does nothing if the plan cannot be removed. */
void spsh__pack_remove_work(const spsh_io *io, const spsh__pack_paths *paths);
/** Remove everything that a pack without output made. Folders that are not empty stay. */
void spsh__pack_remove_empty(const spsh_io *io, const spsh__pack_paths *paths);

#endif
