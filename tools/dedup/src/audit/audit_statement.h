/* audit_statement.h: what a dataset card can quote of an audit, and others can check.
 *
 * The statement says which data were compared (ids and index hashes), how, and what came out, with
 * the hashes of the report's other files and of itself: XXH3-128 of the file with 32 zeros in place
 * of that hash. It is no signature: it shows that nothing was changed by accident, and lets anybody
 * repeat the audit on the same data.
 */
#ifndef SPSH_DEDUP_AUDIT_STATEMENT_H
#define SPSH_DEDUP_AUDIT_STATEMENT_H

#include "audit_report.h"

#define SPSH__AUDIT_STATEMENT_FILE "statement.json"

/**
 * What the sources are, as a JSON object (from malloc) with the array "inputs": side, dataset_id, index_hash, splits,
 * overlays. The same for any order of the sources, and for a dataset that was moved or renamed, but
 * for the member "corpus".
 */
spsh_status spsh__audit_inputs(const spsh_dedup_source *sources, size_t source_count,
                               const spsh_io *io, char **ret_json, spsh_error *err);

/* A file of the report. */
typedef struct spsh__audit_file {
    char *name;
    uint8_t hash[16];
} spsh__audit_file;

/* The statement's bytes; out is empty before. */
spsh_status spsh__audit_statement(const spsh__audit_report *report, const spsh__audit_file *files,
                                  size_t file_count, spsh__builder *out, spsh_error *err);

/**
 * Check a statement.
 *
 * @param inputs  of spsh__audit_inputs, or NULL: they are not compared
 * @param ret_file_count  files beside it that were there and hashed; may be NULL
 * @return SPSH_OK; SPSH_E_CORRUPT: statement or file was changed (which one is told);
 * SPSH_E_MISMATCH: other inputs (the first that differs is told); SPSH_E_SYNTAX: no statement;
 * SPSH_E_VERSION: of another schema
 */
spsh_status spsh__audit_statement_check(const char *path, const char *inputs, const spsh_io *io,
                                        uint64_t *ret_file_count, spsh_error *err);

#endif
