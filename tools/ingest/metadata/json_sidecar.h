/* json_sidecar.h: a .json file next to an audio file, with its metadata. */
#ifndef SPSH_INGEST_JSON_SIDECAR_H
#define SPSH_INGEST_JSON_SIDECAR_H

#include "common/byte_builder.h"
#include "common/jsonl.h"
#include "ingest/view/view.h"

/** Contents of a sidecar. Borrowed until the next one is read. Start with all zero. */
typedef struct spsh__json_sidecar {
    bool has_text;
    spsh_bytes text, speaker, language, domain; /* empty: absent */
    spsh_bytes extras;                          /* all other members as an object, or empty */
    char kind_problem[SPSH__JSON_KIND_PROBLEM_BYTES];
    spsh__builder file, members, strings[4];
} spsh__json_sidecar;

/**
 * Read the sidecar at a path of the view.
 *
 * @param has_text     the text is already known: a text in the file becomes an extra
 * @param ret_problem  NULL, or why the sidecar has no usable contents
 */
SPSH_NODISCARD spsh_status spsh__json_sidecar_read(spsh__json_sidecar *sidecar,
                                                   const spsh__view *view, const char *path,
                                                   bool has_text, const char **ret_problem,
                                                   spsh_error *err);
void spsh__json_sidecar_free(spsh__json_sidecar *sidecar);

#endif
