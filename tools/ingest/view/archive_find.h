/* archive_find.h: find the archives of a corpus. */
#ifndef SPSH_INGEST_ARCHIVE_FIND_H
#define SPSH_INGEST_ARCHIVE_FIND_H

#include "archive_file.h"
#include "common/byte_builder.h"
#include "path_list.h"

/* Find files that may be archives, by name. The paths are sorted and relative to the root.
 *
 * The search covers only the first levels of folders, so that its cost does not grow with the
 * corpus. It enters a folder of clips only if the first names include archives. In a folder with
 * very many names, it finds archives only if one is among the first names.
 */
SPSH_NODISCARD spsh_status spsh__archive_find(const char *root, bool follow_links,
                                              spsh__path_list *ret_names, spsh_error *err);

/* Whether the name is typical of an archive. "cuts.jsonl.gz" and "de" are not. */
bool spsh__archive_is_called_one(const char *path);

/* Return the file name without archive extensions and query: "de" for "x/de.tar.gz?token=1". */
spsh_bytes spsh__archive_stem(const char *path);

#endif
