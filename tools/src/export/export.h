/* export.h: between cmd_export.c, which walks the utterances, and the forms that they can be
 * written in.
 *
 * A form is three functions. `add` is called once an utterance, in the order of the dataset;
 * `finish` once, when all went well: what makes an export complete (the manifest, the last tar) is
 * published there. `free` always.
 */
#ifndef SPSH_EXPORT_H
#define SPSH_EXPORT_H

#include "common/byte_builder.h"
#include "common/wav_out.h"

/** One utterance to write. */
typedef struct spsh__export_utterance {
    uint64_t position;
    const spsh_row *row;
    spsh_utterance metadata;   /* with transcript overlays; valid during add */
    const spsh_record *record; /* only until reader is used */
    spsh_reader *reader;       /* for audio */
} spsh__export_utterance;

/** What the options say. */
typedef struct spsh__export_options {
    const char *directory; /* exists and is empty */
    uint64_t shard_bytes;  /* of a tar */
    bool stored;           /* tree: recordings as stored, instead of one WAV an utterance */
} spsh__export_options;

/** An export under way. A form's own struct begins with it. */
typedef struct spsh__export {
    spsh__export_options options;
} spsh__export;

typedef struct spsh__export_form {
    spsh_status (*open_fn)(const spsh__export_options *options, spsh__export **ret_export,
                           spsh_error *err);
    /* *ret_bytes: written. A failure that concerns this utterance alone (its audio cannot be read)
     * leaves no trace and others can follow: *ret_can_continue is then true. */
    spsh_status (*add_fn)(spsh__export *form, const spsh__export_utterance *utterance,
                          uint64_t *ret_bytes, bool *ret_can_continue, spsh_error *err);
    spsh_status (*finish_fn)(spsh__export *form, spsh_error *err);
    void (*free_fn)(spsh__export *form);
} spsh__export_form;

extern const spsh__export_form spsh__export_tree;       /* files and a manifest */
extern const spsh__export_form spsh__export_webdataset; /* tars */

/** The utterance is all of its recording. */
static inline bool spsh__export_is_whole(const spsh__export_utterance *u)
{
    return u->row->start_sample == 0 && u->row->samples == u->record->samples;
}

/** The audio of this utterance cannot be read, which says nothing about others. */
static inline bool spsh__export_is_damage(spsh_status status)
{
    return status == SPSH_E_AUDIO || status == SPSH_E_CORRUPT || status == SPSH_E_TRUNCATED ||
           status == SPSH_E_LIMIT;
}

/* ---- export_path.c: ids as file names ---- */

/**
 * Append id as a relative path: slashes separate folders; letters, digits, "._-+=,@#()" and other
 * UTF-8 letters stay; everything else,
 * "." and ".." and empty names, become %XX, so that different ids are different paths and none
 * leaves its folder. A name too long for a file system is cut and ends in "%n" and number, which
 * must be unique in the export.
 *
 * @param dots  false: "." becomes %2E everywhere (WebDataset ends a key at the first dot)
 */
void spsh__export_path(spsh__builder *out, spsh_bytes id, bool dots, uint64_t number);

/** Append "%n" and the number. */
void spsh__export_number(spsh__builder *out, uint64_t number);

#endif
