/* audit_statement.h: a summary of an audit for a dataset card, which other people can check.
 *
 * The statement contains the compared data (ids and index hashes), the method, the results, the
 * hashes of the report's other files, and a hash of the statement. That is the XXH3-128 of the file
 * with 32 zeros instead of the hash. The hash is not a signature. It detects accidental changes,
 * and the statement lets any reader repeat the audit on the same data.
 */
#ifndef SPSH_DEDUP_AUDIT_STATEMENT_H
#define SPSH_DEDUP_AUDIT_STATEMENT_H

#include "audit_report.h"

#define SPSH__AUDIT_STATEMENT_FILE "statement.json"

/**
 * Describe the sources as a JSON object (for free()) with the array "inputs": side, dataset_id,
 * index_hash, splits, overlays. It does not depend on the order of the sources. Except for the
 * member "corpus", it does not change if a dataset is moved or renamed.
 */
spsh_status spsh__audit_inputs(const spsh_dedup_source *sources, size_t source_count,
                               const spsh_io *io, char **ret_json, spsh_error *err);

/* A file of the report, with its hash. */
typedef struct spsh__audit_file {
    char *name;
    uint8_t hash[16];
} spsh__audit_file;

/* Write the statement. out must be empty. */
spsh_status spsh__audit_statement(const spsh__audit_report *report, const spsh__audit_file *files,
                                  size_t file_count, spsh__builder *out, spsh_error *err);

/**
 * Check a statement.
 *
 * @param inputs  from spsh__audit_inputs; NULL: the inputs are not compared
 * @param ret_file_count  number of files found in the statement's folder and hashed; may be NULL
 * @return SPSH_OK; SPSH_E_CORRUPT: the statement or a file was changed (the message names it);
 * SPSH_E_MISMATCH: other inputs (the message names the first difference); SPSH_E_SYNTAX: not a
 * statement; SPSH_E_VERSION: another schema version
 */
spsh_status spsh__audit_statement_check(const char *path, const char *inputs, const spsh_io *io,
                                        uint64_t *ret_file_count, spsh_error *err);

#endif
