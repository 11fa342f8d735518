/* export.h: the interface between cmd_export.c, which iterates over the utterances, and the output
 * forms.
 *
 * A form has three functions. `add` is called once per utterance, in the order of the dataset.
 * `finish` is called once after success and publishes the last file of the export (the manifest,
 * the last tar). `free` is always called.
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
    const spsh_record *record; /* valid only until reader is used */
    spsh_reader *reader;       /* reader for audio */
} spsh__export_utterance;

/** Values of the command's options. */
typedef struct spsh__export_options {
    const char *directory; /* an existing, empty folder */
    uint64_t shard_bytes;  /* size of a tar */
    bool stored;           /* tree: recordings as stored, instead of one WAV per utterance */
} spsh__export_options;

/** An export in progress. The struct of each form begins with it. */
typedef struct spsh__export {
    spsh__export_options options;
} spsh__export;

typedef struct spsh__export_form {
    spsh_status (*open_fn)(const spsh__export_options *options, spsh__export **ret_export,
                           spsh_error *err);
    /* *ret_bytes: bytes written. *ret_can_continue: true if the failure affects only this utterance
     * (its audio cannot be read). Such a failure leaves no partial output. */
    spsh_status (*add_fn)(spsh__export *form, const spsh__export_utterance *utterance,
                          uint64_t *ret_bytes, bool *ret_can_continue, spsh_error *err);
    spsh_status (*finish_fn)(spsh__export *form, spsh_error *err);
    void (*free_fn)(spsh__export *form);
} spsh__export_form;

extern const spsh__export_form spsh__export_tree;       /* files and a manifest */
extern const spsh__export_form spsh__export_webdataset; /* tars */

/** True if the utterance is its whole recording. */
static inline bool spsh__export_is_whole(const spsh__export_utterance *u)
{
    return u->row->start_sample == 0 && u->row->samples == u->record->samples;
}

/** True if the audio of this utterance cannot be read. Other utterances may be intact. */
static inline bool spsh__export_is_damage(spsh_status status)
{
    return status == SPSH_E_AUDIO || status == SPSH_E_CORRUPT || status == SPSH_E_TRUNCATED ||
           status == SPSH_E_LIMIT;
}

/* ---- export_path.c: ids as file names ---- */

/**
 * Append id as a relative path. Slashes separate folders. Letters, digits, "._-+=,@#()", and other
 * UTF-8 letters are unchanged. Everything else, ".", "..", and empty names become %XX. So
 * different ids give different paths, and no path leaves its folder. A name too long for a file
 * system is cut and ends in "%n" and number, which must be unique in the export.
 *
 * @param dots  false: "." becomes %2E everywhere (WebDataset ends a key at the first dot)
 */
void spsh__export_path(spsh__builder *out, spsh_bytes id, bool dots, uint64_t number);

/** Append "%n" and the number. */
void spsh__export_number(spsh__builder *out, uint64_t number);

#endif
