/* ingest.h: how a corpus layout tells the packer what it found.
 *
 * A layout is one file in this folder with one `spsh_layout`. `probe` looks at a root and says
 * whether it is this layout and why; `scan` walks it once and emits one item an utterance, in any
 * order, and one reject for everything it leaves out. Layouts read metadata; they never open audio.
 * The packer sorts, opens, decodes and stores.
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
    /* Not left out: kept byte-exact, see spsh_decode_verdict. */                                  \
    X(DECODER_LIMIT, "decoder_limit")                                                              \
    X(COMMAND_SOURCE, "command_source")                                                            \
    X(SPLIT_CONFLICT, "split_conflict")                                                            \
    X(DUP_MEMBER, "dup_member")                                                                    \
    X(BAD_MEMBER, "bad_member")                                                                    \
    X(COUNT_MISMATCH, "count_mismatch")                                                            \
    /* Not left out either: copies by construction; a text, a speaker that look wrong. */          \
    X(AUGMENTED_COPY, "augmented_copy")                                                            \
    X(TEXT_CONTROL_CHARS, "text_control_chars")                                                    \
    X(UNKNOWN_SPEAKER, "unknown_speaker")                                                          \
    X(UNSUPPORTED_SOURCE, "unsupported_source")                                                    \
    /* Not left out: the audio is not as long as its metadata say. */                              \
    X(DURATION_MISMATCH, "duration_mismatch")                                                      \
    /* Not left out either: a whole Ogg recording without an end-of-stream flag. */                \
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

/** One utterance as a layout sees it. Everything is borrowed for the duration of emit.
 *
 * A layout says where the audio is by its path in the view, or by a piece that a member gave it;
 * spsh__scan_emit turns the path into a piece. The sink gets pieces.
 */
typedef struct spsh_ingest_item {
    const char *audio_path;  /* in the view, or absolute; NULL: audio is set */
    spsh__piece audio;       /* to read; source_bytes is its size */
    spsh_bytes source;       /* stored and reported: path relative to the root, UTF-8 as found */
    spsh_bytes recording_id; /* equal for all segments of one audio file */
    spsh_bytes id;           /* of the utterance; unique within the dataset */
    bool has_text;           /* false and text_path NULL: unlabelled */
    spsh_bytes text;
    const char *text_path; /* a sidecar in the view that the packer reads (has_text is false) */
    spsh__piece sidecar;   /* the same to read; path NULL: none */
    spsh_bytes domain, split, speaker, language, document; /* empty: absent */
    spsh_bytes subset;        /* of a release, as published counts name it; not kept */
    spsh_bytes layout_domain; /* the domain before --domain; spsh__scan_emit sets it; not kept */
    spsh_bytes extras;        /* a JSON object of columns we do not know, or empty */
    uint64_t start_ns;        /* segment start in nanoseconds */
    uint64_t end_ns;          /* exclusive; SPSH_SEGMENT_END */
    uint64_t source_bytes;    /* size of the audio file, or SPSH_SOURCE_BYTES_UNKNOWN */
    uint64_t expected_ns; /* length of the audio file that the metadata state; 0: not told. Compared
                           * for whole files alone, and not kept. */
    uint32_t nominal_rate_hz; /* a rule of the layout (MLS Opus: 16000), else 0 */
} spsh_ingest_item;

/** One thing that was left out. Borrowed for the duration of reject. */
typedef struct spsh_reject {
    spsh_reject_reason reason;
    spsh_bytes source;     /* file it concerns, relative to the root where possible; any bytes */
    spsh_bytes id;         /* may be empty */
    uint64_t line;         /* 1-based line of the metadata file, 0 if none */
    uint64_t offset_bytes; /* in that file, SPSH_OFFSET_NONE if none */
    spsh_bytes excerpt;    /* first bytes of the offending row, at most 200; may be empty */
    const char *detail;    /* one line of English; may be NULL */
    uint64_t rows;         /* utterances lost by it: 1 for a row; 0 for a file that was no row */
} spsh_reject;

typedef struct spsh_ingest_sink {
    spsh_status (*emit_fn)(void *user, const spsh_ingest_item *item, spsh_error *err);
    spsh_status (*reject_fn)(void *user, const spsh_reject *reject, spsh_error *err);
    spsh_status (*progress_fn)(void *user, uint64_t files_seen, spsh_error *err); /* may cancel */
    /* Rows that are neither emitted nor rejected, once behind all others; may be NULL. merged: they
     * name what another row gave already; excluded: they were not asked for. */
    void (*rows_fn)(void *user, uint64_t merged, uint64_t excluded);
    /* One line for "worth a look" in the report; may be NULL. */
    spsh_status (*note_fn)(void *user, const char *note, spsh_error *err);
    /* An excluded row whose audio is there, with what published counts go by; may be NULL. */
    void (*found_fn)(void *user, const spsh_ingest_item *item);
    void *user;
} spsh_ingest_sink;

typedef struct spsh_ingest_options {
    const spsh__view *view;
    const char *domain_rule;  /* --domain: NULL, "NAME" (constant) or "dir:N"/"column:NAME" */
    const char *split_filter; /* --split: comma list or NULL: all */
    bool key_to_last_dot;     /* --wds-key last-dot: what of a member's name is its sample's key */
    bool no_split_names;      /* --split-from none: file names do not give splits */
    bool split_by_name;       /* the table is one of several whose file names are splits */
    const char *const *columns; /* --column: "FIELD=NAME" each; for tables */
    size_t column_count;
    unsigned variant; /* of the layout */
} spsh_ingest_options;

/** What probe found out. */
typedef struct spsh_layout_probe {
    bool matches;
    char evidence[200]; /* "recognised because ..." */
} spsh_layout_probe;

/** How much a match says. A better one beats a lesser one at the same root; two corpora, or two
 * formats, that both fit are refused. */
typedef enum spsh_layout_tier {
    SPSH_LAYOUT_CORPUS,  /* a published corpus: names and contents that nothing else has */
    SPSH_LAYOUT_FORMAT,  /* files of a format that describes any corpus */
    SPSH_LAYOUT_ARCHIVE, /* members that pair up: tried when nothing describes them */
    SPSH_LAYOUT_TABLE,   /* a table that names audio */
    SPSH_LAYOUT_FOLDER,  /* files that are audio */
    SPSH_LAYOUT_FORCED,  /* by --layout only */
} spsh_layout_tier;

struct spsh__scan; /* scan.h */

typedef struct spsh_layout {
    const char *name; /* --layout NAME */
    const char *summary;
    spsh_layout_tier tier;
    bool takes_columns; /* --column assigns columns to fields */
    bool reads_file;  /* a file that is named is a corpus; probe and scan take other files around it
                       * only if the file or the layout names them */
    unsigned variant; /* of layouts that share scan_fn */
    /* The layout's name in the messages that refuse --split and --domain column:. NULL: it takes
     * them, or refuses them itself. */
    const char *without_splits, *without_columns;
    /* A layout that only describes its files has trees or json, and lacks functions. */
    const struct spsh__tree_layout *trees; /* trees.h */
    const struct spsh__json_format *json;  /* json_manifest.h */
    spsh_status (*probe_fn)(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err);
    spsh_status (*scan_fn)(struct spsh__scan *scan, spsh_error *err);
} spsh_layout;

#endif
