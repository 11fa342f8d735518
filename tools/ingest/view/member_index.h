/* member_index.h: audio members of numbered archives, found by the number and the name.
 *
 * A member is found by its whole name, else by its name without extension: producers convert audio
 * and leave the manifest as it was. Names are not kept: 50 to 85 bytes a member.
 */
#ifndef SPSH_INGEST_MEMBER_INDEX_H
#define SPSH_INGEST_MEMBER_INDEX_H

#include "common/byte_builder.h"
#include "view.h"

typedef struct spsh__member_index spsh__member_index;

/** Borrowed until the index is freed. */
typedef struct spsh__found_member {
    spsh__piece piece;
    const char *archive;  /* its path in the view */
    spsh_bytes extension; /* as the member has it, with its dot; empty for none */
} spsh__found_member;

/** Told about a member; its archive is a path in the view. */
typedef struct spsh__member_visitor {
    spsh_status (*member_fn)(void *user, const char *archive, const spsh__view_member *member,
                             spsh_error *err);
    void *user;
} spsh__member_visitor;

/* view is borrowed until free. */
SPSH_NODISCARD spsh_status spsh__member_index_new(const spsh__view *view,
                                                  spsh__member_index **ret_index, spsh_error *err);
void spsh__member_index_free(spsh__member_index *index);

/* Add the audio of an archive; several may have one number. A member whose name is there already is
 * not added: twice is told. */
SPSH_NODISCARD spsh_status spsh__member_index_add(spsh__member_index *index, const char *archive,
                                                  uint64_t number,
                                                  const spsh__member_visitor *twice,
                                                  spsh_error *err);

/* The member counts as used. */
SPSH_NODISCARD spsh_status spsh__member_index_find(spsh__member_index *index, uint64_t number,
                                                   spsh_bytes name, bool *ret_found,
                                                   spsh__found_member *ret_member, spsh_error *err);

/* Whether an archive has that number. */
bool spsh__member_index_has(spsh__member_index *index, uint64_t number);

/* Tell visitor of the members that were never found, in the order in which they were added. */
SPSH_NODISCARD spsh_status spsh__member_index_rest(spsh__member_index *index,
                                                   const spsh__member_visitor *visitor,
                                                   spsh_error *err);

#endif
