/* pack_journal.h: the packer's small state files: lines of words, sealed by a last line with their
 * hash. pack_plan.c writes the journal of the plan. unit_journal.c writes one journal after each
 * sealed shard. A pack that was killed resumes from the journals.
 *
 *     speechshard-plan 1
 *     unit 0 81920 312 1073741824
 *     end 0f3c...
 *
 * Words are decimal numbers, hexadecimal hashes, or a last word that continues to the end of the
 * line.
 */
#ifndef SPSH_PACK_JOURNAL_H
#define SPSH_PACK_JOURNAL_H

#include "common/byte_builder.h"
#include "speechshard/io.h"

/* Append "name number number ...\n". */
void spsh__journal_numbers(spsh__builder *out, const char *name, const uint64_t *numbers,
                           size_t count);
/* Append "name text\n". text must not contain a line feed. */
void spsh__journal_text(spsh__builder *out, const char *name, spsh_bytes text);
void spsh__journal_hash(spsh__builder *out, const char *name, const uint8_t hash[16]);

/* Publish directory/name by the write protocol. Replaces an older file. */
spsh_status spsh__pack_publish(const spsh_io *io, const char *directory, const char *name,
                               spsh_bytes content, spsh_error *err);

/* Append the end line and publish the journal. SPSH_E_EXISTS with SPSH_PUBLISH_NEW: another one
 * exists. */
spsh_status spsh__journal_publish(const spsh_io *io, const char *directory, const char *name,
                                  spsh_publish_mode mode, spsh__builder *content, spsh_error *err);

/* A loaded journal. Its lines are taken from front to back. */
typedef struct spsh__journal {
    uint8_t *data;
    size_t size_bytes; /* without the end line */
    size_t at;
    const char *path;
    bool no_memory; /* set by a function that takes lines and fails for lack of memory */
} spsh__journal;

/* Load a journal. path is borrowed. SPSH_E_NOT_FOUND: no such file; SPSH_E_CORRUPT: its end line is
 * missing or wrong. */
spsh_status spsh__journal_read(const spsh_io *io, const char *path, spsh__journal *ret_journal,
                               spsh_error *err);
/* Take the next line if it starts with name. *ret_rest: the rest of the line, NUL-terminated,
 * stored in the journal. */
bool spsh__journal_take(spsh__journal *journal, const char *name, const char **ret_rest);
/* Parse rest as exactly count numbers. */
bool spsh__journal_parse(const char *rest, uint64_t *ret_numbers, size_t count);
/* Take the next line if it has that name and exactly count numbers, or a hash. */
bool spsh__journal_take_numbers(spsh__journal *journal, const char *name, uint64_t *ret_numbers,
                                size_t count);
bool spsh__journal_take_hash(spsh__journal *journal, const char *name, uint8_t ret_hash[16]);
/* Fail after a line could not be taken: SPSH_E_CORRUPT, or SPSH_E_NO_MEMORY. */
spsh_status spsh__journal_malformed(const spsh__journal *journal, spsh_error *err);
void spsh__journal_free(spsh__journal *journal);

#endif
