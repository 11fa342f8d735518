/* lhotse_recordings.h: the recordings of Lhotse manifests, found by their ids.
 *
 * An index of hashes says where each recording's line begins (name_index.h: 32 to 64 bytes a
 * recording); the lines stay in the files. Supervisions stand in the order of their recordings as a
 * rule, so a window of the file serves many of them.
 */
#ifndef SPSH_INGEST_LHOTSE_RECORDINGS_H
#define SPSH_INGEST_LHOTSE_RECORDINGS_H

#include "ingest/view/view.h"
#include "lhotse.h"

#define SPSH__LHOTSE_FILES_MAX ((size_t)64)

typedef struct spsh__lhotse_recordings spsh__lhotse_recordings;

/* names: paths in the scan's view, borrowed until free. Broken lines and ids that stand twice are
 * reported to scan. */
SPSH_NODISCARD spsh_status spsh__lhotse_recordings_new(spsh__scan *scan, const char *const *names,
                                                       size_t count,
                                                       spsh__lhotse_recordings **ret_recordings,
                                                       spsh_error *err);

/* values: those of spsh__lhotse_recording_names, borrowed until the next call. */
SPSH_NODISCARD spsh_status spsh__lhotse_recordings_find(spsh__lhotse_recordings *recordings,
                                                        spsh_bytes id, bool *ret_found,
                                                        spsh__json_value *values, spsh_error *err);

/* Report the recordings that were never asked for: orphan_audio. */
SPSH_NODISCARD spsh_status spsh__lhotse_recordings_end(spsh__lhotse_recordings *recordings,
                                                       spsh_error *err);
void spsh__lhotse_recordings_free(spsh__lhotse_recordings *recordings);

#endif
