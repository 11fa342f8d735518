/* ingest.h: interface between a corpus layout and the packer.
 *
 * A layout is one source file with one `spsh_layout`. `probe` reports whether a root has this
 * layout, and the evidence. `scan` walks the root once and emits one item per utterance, in any
 * order, and one reject for everything that it omits. Layouts read metadata but never open audio.
 * The packer sorts, opens, decodes, and stores.
 */
#ifndef SPSH_INGEST_H
#define SPSH_INGEST_H

#include <stdbool.h>

#include "ingest/view/view.h"
#include "speechshard/base.h"

/* Reason codes of reports/rejects.jsonl. Append only. */
#define SPSH_REJECT_MAP(X)                                                                         \
    X(MISSING_AUDIO, "missing_audio")                                                              \
    X(ORPHAN_AUDIO, "orphan_audio")                                                                \
    X(ORPHAN_TEXT, "orphan_text")                                                                  \
    X(EMPTY_FILE, "empty_file")                                                                    \
    X(TINY_FILE, "tiny_file")                                                                      \
    X(NOT_AUDIO, "not_audio")                                                                      \
    X(BAD_CONTAINER, "bad_container")                                                              \
    X(UNSUPPORTED_CODEC, "unsupported_codec")                                                      \
    X(TRUNCATED, "truncated")                                                                      \
    X(HEADER_MISMATCH, "header_mismatch")                                                          \
    X(ZERO_DURATION, "zero_duration")                                                              \
    X(TOO_LONG, "too_long")                                                                        \
    X(SEGMENT_RANGE, "segment_range")                                                              \
    X(TEXT_INVALID_UTF8, "text_invalid_utf8")                                                      \
    X(TEXT_TOO_LONG, "text_too_long")                                                              \
    X(ROW_FIELD_COUNT, "row_field_count")                                                          \
    X(ROW_SYNTAX, "row_syntax")                                                                    \
    X(BAD_ID, "bad_id")                                                                            \
    X(DUP_ID, "dup_id")                                                                            \
    X(UNREADABLE, "unreadable")                                                                    \
    X(NOT_REGULAR, "not_regular")                                                                  \
    X(CHANGED_WHILE_READ, "changed_while_read")                                                    \
    X(REMOTE_SOURCE, "remote_source")                                                              \
    X(EXCLUDED_BY_RULE, "excluded_by_rule")                                                        \
    /* Not omitted: stored byte-exact, see spsh_decode_verdict. */                                 \
    X(DECODER_LIMIT, "decoder_limit")                                                              \
    X(COMMAND_SOURCE, "command_source")                                                            \
    X(SPLIT_CONFLICT, "split_conflict")                                                            \
    X(DUP_MEMBER, "dup_member")                                                                    \
    X(BAD_MEMBER, "bad_member")                                                                    \
    X(COUNT_MISMATCH, "count_mismatch")                                                            \
    /* Not omitted: utterances that are copies by construction, or whose text or speaker looks
     * wrong. */     \
    X(AUGMENTED_COPY, "augmented_copy")                                                            \
    X(TEXT_CONTROL_CHARS, "text_control_chars")                                                    \
    X(UNKNOWN_SPEAKER, "unknown_speaker")                                                          \
    X(UNSUPPORTED_SOURCE, "unsupported_source")                                                    \
    /* Not omitted: the length of the audio differs from its metadata. */                          \
    X(DURATION_MISMATCH, "duration_mismatch")                                                      \
    /* Not omitted: a complete Ogg recording without an end-of-stream flag. */                     \
    X(NO_END_FLAG, "no_end_flag")

typedef enum spsh_reject_reason {
#define SPSH_X(name_, text_) SPSH_REJECT_##name_,
    SPSH_REJECT_MAP(SPSH_X)
#undef SPSH_X
        SPSH_REJECT_COUNT
} spsh_reject_reason;

const char *spsh__reject_reason_text(spsh_reject_reason reason);

#define SPSH_SEGMENT_END          UINT64_MAX /* end_ns of a segment that ends with its recording */
#define SPSH_SOURCE_BYTES_UNKNOWN UINT64_MAX

/** One utterance as a layout sees it. Everything is borrowed during emit.
 *
 * A layout locates audio by a path in the view or by a piece from an archive member.
 * spsh__scan_emit turns the path into a piece, so the sink always gets pieces.
 */
typedef struct spsh_ingest_item {
    const char *audio_path;  /* path in the view, or absolute; NULL: audio is set */
    spsh__piece audio;       /* bytes to read; source_bytes is their count */
    spsh_bytes source;       /* stored and reported: path relative to the root, UTF-8 as found */
    spsh_bytes recording_id; /* equal for all segments of one audio file */
    spsh_bytes id;           /* utterance id; unique within the dataset */
    bool has_text;           /* false and text_path NULL: no transcript */
    spsh_bytes text;
    const char *text_path; /* sidecar file in the view that the packer reads (has_text is false) */
    spsh__piece sidecar;   /* location of text_path's bytes; path NULL: none */
    spsh_bytes domain, split, speaker, language, document; /* empty: absent */
    spsh_bytes subset;        /* name of the release's subset in published counts; not stored */
    spsh_bytes layout_domain; /* domain before --domain, set by spsh__scan_emit; not stored */
    spsh_bytes extras;        /* JSON object of unknown columns, or empty */
    uint64_t start_ns;        /* segment start in nanoseconds */
    uint64_t end_ns;          /* segment end in nanoseconds (exclusive), or SPSH_SEGMENT_END */
    uint64_t source_bytes;    /* size of the audio file, or SPSH_SOURCE_BYTES_UNKNOWN */
    uint64_t expected_ns;     /* length of the audio file according to the metadata; 0: unknown.
                             Compared only for whole files, and not stored. */
    uint32_t nominal_rate_hz; /* sampling rate that the layout specifies (MLS Opus: 16000), else
                                 0 */
} spsh_ingest_item;

/** One problem or omission. Borrowed during the reject call. */
typedef struct spsh_reject {
    spsh_reject_reason reason;
    spsh_bytes source;     /* affected file, relative to the root if possible; any bytes */
    spsh_bytes id;         /* may be empty */
    uint64_t line;         /* 1-based line of the metadata file, or 0 */
    uint64_t offset_bytes; /* offset in that file, or SPSH_OFFSET_NONE */
    spsh_bytes excerpt;    /* start of the bad row, at most 200 bytes; may be empty */
    const char *detail;    /* one line of English; may be NULL */
    uint64_t rows;         /* utterances lost: 1 for a row; 0 for a file that is not a row */
} spsh_reject;

typedef struct spsh_ingest_sink {
    spsh_status (*emit_fn)(void *user, const spsh_ingest_item *item, spsh_error *err);
    spsh_status (*reject_fn)(void *user, const spsh_reject *reject, spsh_error *err);
    spsh_status (*progress_fn)(void *user, uint64_t files_seen, spsh_error *err); /* may cancel */
    /* Counts of rows that are neither emitted nor rejected. Called once, after all rows; may be
     * NULL. merged: rows for utterances that another row described already. excluded: rows that
     * were not requested. */
    void (*rows_fn)(void *user, uint64_t merged, uint64_t excluded);
    /* One line for "worth a look" in the report; may be NULL. */
    spsh_status (*note_fn)(void *user, const char *note, spsh_error *err);
    /* Excluded row whose audio exists, with the fields that published counts use; may be NULL. */
    void (*found_fn)(void *user, const spsh_ingest_item *item);
    void *user;
} spsh_ingest_sink;

typedef struct spsh_ingest_options {
    const spsh__view *view;
    const char *domain_rule;  /* --domain: NULL, "NAME" (constant) or "dir:N"/"column:NAME" */
    const char *split_filter; /* --split: comma-separated list, or NULL for all splits */
    struct spsh__found_splits *found_splits; /* receives the splits of the corpus; may be NULL */
    bool key_to_last_dot;       /* --wds-key last-dot: sample keys end at the last dot */
    bool no_split_names;        /* --split-from none: ignore splits in file names */
    bool split_by_name;         /* the table is one of several tables that are named after splits */
    const char *const *columns; /* --column: each "FIELD=NAME"; for tables */
    size_t column_count;
    unsigned variant; /* variant of the selected layout */
} spsh_ingest_options;

/** Result of a probe. */
typedef struct spsh_layout_probe {
    bool matches;
    char evidence[200]; /* "recognised because ..." */
} spsh_layout_probe;

/** Strength of a match. At the same root, a higher tier wins. Two corpora, or two formats, that
 * both match are an error. */
typedef enum spsh_layout_tier {
    SPSH_LAYOUT_CORPUS,  /* a published corpus with unique names and contents */
    SPSH_LAYOUT_FORMAT,  /* files of a format that can describe any corpus */
    SPSH_LAYOUT_ARCHIVE, /* archive members that form pairs: tried if no metadata describe them */
    SPSH_LAYOUT_TABLE,   /* a table that names audio files */
    SPSH_LAYOUT_FOLDER,  /* audio files in folders */
    SPSH_LAYOUT_FORCED,  /* only by --layout */
} spsh_layout_tier;

struct spsh__scan; /* defined in scan.h */

typedef struct spsh_layout {
    const char *name; /* --layout NAME */
    const char *summary;
    spsh_layout_tier tier;
    bool takes_columns; /* --column assigns columns to fields */
    bool reads_file;  /* a single file may be the corpus; probe and scan read other files around it
                         only if the file or the layout names them */
    unsigned variant; /* distinguishes layouts that share scan_fn */
    /* The layout's name in messages that reject --split and --domain column:. NULL: the layout
     * accepts the option or rejects it itself. */
    const char *without_splits, *without_columns;
    /* A layout that only describes its files sets trees or json instead of the functions. */
    const struct spsh__tree_layout *trees; /* see trees.h */
    const struct spsh__json_format *json;  /* see json_manifest.h */
    spsh_status (*probe_fn)(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err);
    spsh_status (*scan_fn)(struct spsh__scan *scan, spsh_error *err);
} spsh_layout;

#endif
