/* clip_table.h: tables with one row per clip, next to a folder of clips, as in Common Voice.
 *
 * A clip may appear in several tables (validated.tsv contains the rows of train.tsv). The first
 * table that names it emits it once, so the order of the tables decides the split.
 */
#ifndef SPSH_INGEST_CLIP_TABLE_H
#define SPSH_INGEST_CLIP_TABLE_H

#include "common/row_reader.h"
#include "ingest/scan/scan.h"
#include "ingest/scan/trees.h"

typedef enum spsh__clip_role {
    SPSH__CLIP_PATH,
    SPSH__CLIP_TEXT,
    SPSH__CLIP_SPEAKER,
    SPSH__CLIP_LOCALE,
    SPSH__CLIP_ID,
    SPSH__CLIP_SPLIT,
    SPSH__CLIP_DOCUMENT,
    SPSH__CLIP_DURATION, /* also kept as an extra */
    SPSH__CLIP_ROLES
} spsh__clip_role;

/** How a corpus writes its tables. */
typedef struct spsh__clip_form {
    const char *corpus; /* prefix of the locale in domains and of the id in speakers */
    spsh__dialect dialect;
    const char *columns[SPSH__CLIP_ROLES]; /* column names; NULL: no such column. All other columns
                                              are extras. */
    const char *extension;                 /* extension to append to paths that lack one; NULL:
                                              none */
    bool in_year_folders;                  /* "20090112-..." is stored in the folder 2009 */
    const char *left_split;                /* split that is packed only if --split names it; NULL:
                                              none */
    bool document_before_path;             /* the clip of a row is "<document>-<path>" */
    uint64_t duration_unit_ns;             /* unit of SPSH__CLIP_DURATION */
} spsh__clip_form;

typedef struct spsh__clip_table {
    const char *name;     /* path relative to the tree */
    const char *split;    /* split of the rows if no column has it */
    bool is_exclusive;    /* no clip may appear in two exclusive tables */
    bool holds_exclusive; /* normally repeats clips of the exclusive tables */
    bool only_when_asked; /* packed only if --split names it */
} spsh__clip_table;

/** A folder with tables and clips. All fields are borrowed. */
typedef struct spsh__clip_tree {
    const char *path;   /* path relative to the root */
    const char *name;   /* name of the tree's folder */
    const char *clips;  /* folder of the clips, relative to path */
    unsigned depth;     /* levels of folders below clips that contain clips, too */
    const char *locale; /* locale of rows without a locale */
    const char *id_prefix;
    const char *subset;             /* name of the release's subset in published counts; NULL:
                                       unknown */
    const spsh__clip_table *tables; /* missing tables are ignored */
    size_t table_count;             /* at most 16 */
} spsh__clip_tree;

/**
 * Emit the clips of a tree. Reports clips without a row, rows without a clip, and clips that two
 * exclusive tables name. Clip folders are listed once in directory order, and a second time if some
 * clips have no row. If two clips have the same name, the one in the first folder by name is used.
 * Memory: see name_index.h.
 */
SPSH_NODISCARD spsh_status spsh__clip_tree_scan(spsh__scan *scan, const spsh__clip_form *form,
                                                const spsh__clip_tree *tree, spsh_error *err);

/* Whether the first row of a file of the view has these columns (NULL-terminated). */
SPSH_NODISCARD spsh_status spsh__clip_header_has(const spsh__view *view, const char *name,
                                                 const spsh__dialect *dialect,
                                                 const char *const *columns, bool *ret_has,
                                                 spsh_error *err);

/* Whether text has the form of "de", "kmr", or "zh-CN". */
bool spsh__is_locale(spsh_bytes text);

#endif
