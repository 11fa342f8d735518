/* member_index.h: index of audio members of numbered archives by number and name.
 *
 * A lookup uses the whole name first, then the name without extension, because producers often
 * convert audio without updating the manifest. The index does not keep the names and needs 50 to 85
 * bytes per member.
 */
#ifndef SPSH_INGEST_MEMBER_INDEX_H
#define SPSH_INGEST_MEMBER_INDEX_H

#include "common/byte_builder.h"
#include "view.h"

typedef struct spsh__member_index spsh__member_index;

/** A member that was found. Borrowed until the index is freed. */
typedef struct spsh__found_member {
    spsh__piece piece;
    const char *archive;  /* path in the view */
    spsh_bytes extension; /* extension of the member with its dot; may be empty */
} spsh__found_member;

/** Called with a member and the path of its archive in the view. */
typedef struct spsh__member_visitor {
    spsh_status (*member_fn)(void *user, const char *archive, const spsh__view_member *member,
                             spsh_error *err);
    void *user;
} spsh__member_visitor;

/* Create an empty index. view is borrowed until spsh__member_index_free. */
SPSH_NODISCARD spsh_status spsh__member_index_new(const spsh__view *view,
                                                  spsh__member_index **ret_index, spsh_error *err);
void spsh__member_index_free(spsh__member_index *index);

/* Add the audio members of an archive. Several archives may have the same number. A member whose
 * name is already in the index is not added but passed to twice. */
SPSH_NODISCARD spsh_status spsh__member_index_add(spsh__member_index *index, const char *archive,
                                                  uint64_t number,
                                                  const spsh__member_visitor *twice,
                                                  spsh_error *err);

/* Look up a member and mark it as used. */
SPSH_NODISCARD spsh_status spsh__member_index_find(spsh__member_index *index, uint64_t number,
                                                   spsh_bytes name, bool *ret_found,
                                                   spsh__found_member *ret_member, spsh_error *err);

/* Whether an archive with that number was added. */
bool spsh__member_index_has(spsh__member_index *index, uint64_t number);

/* Pass the members that were never found to visitor, in the order in which they were added. */
SPSH_NODISCARD spsh_status spsh__member_index_rest(spsh__member_index *index,
                                                   const spsh__member_visitor *visitor,
                                                   spsh_error *err);

#endif
