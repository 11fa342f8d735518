/* archive_find.h: which files of a corpus are archives. */
#ifndef SPSH_INGEST_ARCHIVE_FIND_H
#define SPSH_INGEST_ARCHIVE_FIND_H

#include "archive_file.h"
#include "common/byte_builder.h"
#include "path_list.h"

/* Files that may be archives, by their names; paths relative to the root, sorted.
 *
 * Looks into the folders of the first levels. Folders of clips are entered only when their first
 * names say that they hold archives, and in a folder of very many names archives must be among the
 * first, so that the search costs the same for a corpus of any size. */
SPSH_NODISCARD spsh_status spsh__archive_find(const char *root, bool follow_links,
                                              spsh__path_list *ret_names, spsh_error *err);

/* Whether a file has a name that archives have; "cuts.jsonl.gz" and "de" have not. */
bool spsh__archive_is_called_one(const char *path);

/* What an archive is called without what says how it is packed: "de" for "x/de.tar.gz?token=1". */
spsh_bytes spsh__archive_stem(const char *path);

#endif
