/* lhotse_recordings.h: find the recordings of Lhotse manifests by id.
 *
 * A hash index holds the offset of each recording's line (32 to 64 bytes per recording, see
 * name_index.h). The lines stay in the files. Supervisions are normally in the order of their
 * recordings, so one window of the file serves many lookups.
 */
#ifndef SPSH_INGEST_LHOTSE_RECORDINGS_H
#define SPSH_INGEST_LHOTSE_RECORDINGS_H

#include "ingest/view/view.h"
#include "lhotse.h"

#define SPSH__LHOTSE_FILES_MAX ((size_t)64)

typedef struct spsh__lhotse_recordings spsh__lhotse_recordings;

/* Index the manifests. names: paths in the scan's view, borrowed until free. Reports broken lines
 * and repeated ids to scan. */
SPSH_NODISCARD spsh_status spsh__lhotse_recordings_new(spsh__scan *scan, const char *const *names,
                                                       size_t count,
                                                       spsh__lhotse_recordings **ret_recordings,
                                                       spsh_error *err);

/* Find a recording. values are in the order of spsh__lhotse_recording_names and are borrowed until
 * the next call. */
SPSH_NODISCARD spsh_status spsh__lhotse_recordings_find(spsh__lhotse_recordings *recordings,
                                                        spsh_bytes id, bool *ret_found,
                                                        spsh__json_value *values, spsh_error *err);

/* Report the recordings that were never looked up as orphan_audio. */
SPSH_NODISCARD spsh_status spsh__lhotse_recordings_end(spsh__lhotse_recordings *recordings,
                                                       spsh_error *err);
void spsh__lhotse_recordings_free(spsh__lhotse_recordings *recordings);

#endif
