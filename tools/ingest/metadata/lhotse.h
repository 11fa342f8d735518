/* lhotse.h: the objects of Lhotse manifests, one per line, and the utterances that they describe.
 *
 *     {"id": "rec", "sources": [{"type": "file", "source": "a.wav", ...}], "sampling_rate": ...}
 *     {"id": "sup", "recording_id": "rec", "start": 1.5, "duration": 2.5, "text": "...", ...}
 *     {"id": "cut", "type": "MonoCut", "start": 10.0, "duration": 5.0, "recording": {...},
 *      "supervisions": [{"id": "sup", "start": 0.5, ...}, ...]}
 *
 * The start of a supervision in a cut is relative to the cut.
 */
#ifndef SPSH_INGEST_LHOTSE_H
#define SPSH_INGEST_LHOTSE_H

#include "common/jsonl.h"
#include "ingest/scan/scan.h"
#include "kaldi_command.h"
#include "table_audio.h"

typedef enum spsh__lhotse_kind {
    SPSH__LHOTSE_OTHER,
    SPSH__LHOTSE_RECORDINGS,
    SPSH__LHOTSE_SUPERVISIONS,
    SPSH__LHOTSE_CUTS,
} spsh__lhotse_kind;

/* JSON keys of each kind of line, for a reader of the lines. */
#define SPSH__LHOTSE_NAMES_MAX 8
extern const char *const spsh__lhotse_recording_names[SPSH__LHOTSE_NAMES_MAX];
extern const char *const spsh__lhotse_supervision_names[SPSH__LHOTSE_NAMES_MAX];
extern const char *const spsh__lhotse_cut_names[SPSH__LHOTSE_NAMES_MAX];

/* Return NULL, or write to buffer and return a message about the first value whose type Lhotse does
 * not allow. values: in the order of the names for that kind of line. */
const char *spsh__lhotse_kind_problem(spsh__lhotse_kind kind, const spsh__json_value *values,
                                      char buffer[SPSH__JSON_KIND_PROBLEM_BYTES]);

/* Detect the kind of a line from its members. */
spsh__lhotse_kind spsh__lhotse_kind_of(spsh_bytes line);

/** The parts of "librispeech_cuts_train-clean-100.jsonl.gz". Borrowed from the name. */
typedef struct spsh__lhotse_name {
    spsh_bytes prefix;    /* "librispeech"; may be empty, like the next two */
    spsh_bytes partition; /* "train-clean-100" */
    spsh_bytes split;     /* "train" */
} spsh__lhotse_name;

void spsh__lhotse_name_parse(const char *name, spsh__lhotse_name *ret_name);

/** Location of the audio of a recording. */
typedef struct spsh__lhotse_audio {
    bool found;
    spsh_reject reject; /* if it was not found: reason, source, detail */
    const char *path;   /* NULL: use piece */
    spsh__piece piece;
    spsh_bytes source; /* source of the utterance as stored */
    uint64_t size_bytes;
    uint64_t expected_ns; /* length according to the manifest; 0: unknown */
    spsh_bytes recording_id;
} spsh__lhotse_audio;

/** Buffers of one scan. Initialize all fields except scan and resolver with zero. Free with
 * spsh__lhotse_free. */
typedef struct spsh__lhotse {
    spsh__scan *scan;
    spsh__audio_resolver *resolver; /* NULL for a Shar, whose recordings name no files */
    spsh__lhotse_name name;         /* name of the current manifest */
    size_t last_try;
    uint64_t commands; /* count of commands that were replaced by their input file */
    char *cwd;
    spsh__kaldi_source command;
    spsh__builder written, source, recording_id, detail; /* fields of the last recording */
    spsh__builder picked;                                /* members of a supervision */
    char kind_problem[SPSH__JSON_KIND_PROBLEM_BYTES];
} spsh__lhotse;

void spsh__lhotse_free(spsh__lhotse *l);

/** A cut, or a recording without supervisions. */
typedef struct spsh__lhotse_cut {
    spsh_bytes id;
    uint64_t start_ns, end_ns; /* end_ns: SPSH_SEGMENT_END for a whole recording */
    spsh_bytes line;           /* raw line of the manifest */
    spsh__json_value supervisions, recording, custom, channel;
    spsh_reject_reason reason;
    const char *problem; /* NULL, or why it cannot be packed */
} spsh__lhotse_cut;

/* Return the count of utterances of a cut: one per supervision, but at least one. */
uint64_t spsh__lhotse_cut_rows(const spsh__lhotse_cut *cut);

/* Parse a cut. The line's values are in the order of spsh__lhotse_cut_names. */
void spsh__lhotse_cut_take(spsh__lhotse *l, const spsh__jsonl_line *line,
                           spsh__lhotse_cut *ret_cut);

/* Emit one item per supervision, or one for the whole cut if it has no supervisions. */
SPSH_NODISCARD spsh_status spsh__lhotse_cut_emit(spsh__lhotse *l, const spsh__lhotse_cut *cut,
                                                 const spsh__lhotse_audio *audio,
                                                 const spsh__row_place *place, spsh_error *err);

/* Find the audio of a recording. values are in the order of spsh__lhotse_recording_names. */
SPSH_NODISCARD spsh_status spsh__lhotse_find_audio(spsh__lhotse *l, const spsh__json_value *values,
                                                   spsh__lhotse_audio *ret_audio, spsh_error *err);

/** A supervision, from a line or from a cut. */
typedef struct spsh__lhotse_supervision {
    const spsh__json_value *values; /* in the order of spsh__lhotse_supervision_names */
    spsh_bytes extras, raw;
} spsh__lhotse_supervision;

/* Emit a supervision. cut: the cut that contains it, or NULL if its start is relative to the
 * recording. */
SPSH_NODISCARD spsh_status spsh__lhotse_supervision_emit(
    spsh__lhotse *l, const spsh__lhotse_supervision *supervision, const spsh__lhotse_cut *cut,
    const spsh__lhotse_audio *audio, const spsh__row_place *place, spsh_error *err);

#endif
