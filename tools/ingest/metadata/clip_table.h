/* clip_table.h: tables with a row a clip, beside a folder of clips, as Common Voice has them.
 *
 * One clip may stand in several tables (validated.tsv holds train.tsv): it is emitted once, by the
 * first table of the tree that names it, so the tables are given in the order of their claim.
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
    SPSH__CLIP_DURATION, /* stays an extra */
    SPSH__CLIP_ROLES
} spsh__clip_role;

/** How a corpus writes its tables. */
typedef struct spsh__clip_form {
    const char *corpus; /* before the locale in domains, before the id in speakers */
    spsh__dialect dialect;
    const char *columns[SPSH__CLIP_ROLES]; /* names; NULL: it has none. All others are extras. */
    const char *extension;                 /* to add to a path that lacks one; NULL: none does */
    bool in_year_folders;                  /* "20090112-..." lies in the folder 2009 */
    const char *left_split;                /* packed only when --split names it; NULL: none is */
    bool document_before_path;             /* the clip of a row is "<document>-<path>" */
    uint64_t duration_unit_ns;             /* of SPSH__CLIP_DURATION */
} spsh__clip_form;

typedef struct spsh__clip_table {
    const char *name;     /* relative to the tree */
    const char *split;    /* of its rows, where no column says it */
    bool is_exclusive;    /* no clip may stand in two of these */
    bool holds_exclusive; /* clips of the exclusive ones stand here again, as a rule */
    bool only_when_asked; /* packed only when --split names it */
} spsh__clip_table;

/** A folder with tables and clips. All borrowed. */
typedef struct spsh__clip_tree {
    const char *path;   /* relative to the root */
    const char *name;   /* of its folder */
    const char *clips;  /* folder of the clips, relative to path */
    unsigned depth;     /* clips lie in the folders below that one, too, so many levels deep */
    const char *locale; /* for rows that name none */
    const char *id_prefix;
    const char *subset;             /* of a release, as published counts name it; NULL: not told */
    const spsh__clip_table *tables; /* those that are not there are passed over */
    size_t table_count;             /* at most 16 */
} spsh__clip_tree;

/**
 * Emit the tree's clips; report clips without a row, rows without a clip, and clips that two
 * exclusive tables name. Folders of clips are listed once, in directory order, and once more if
 * clips have no row; of two clips of one name the one in the first folder by name is taken. Memory:
 * see name_index.h.
 */
SPSH_NODISCARD spsh_status spsh__clip_tree_scan(spsh__scan *scan, const spsh__clip_form *form,
                                                const spsh__clip_tree *tree, spsh_error *err);

/* Whether the first row of a file of the view names these columns (ended by NULL). */
SPSH_NODISCARD spsh_status spsh__clip_header_has(const spsh__view *view, const char *name,
                                                 const spsh__dialect *dialect,
                                                 const char *const *columns, bool *ret_has,
                                                 spsh_error *err);

/* Whether text looks like "de", "kmr" or "zh-CN". */
bool spsh__is_locale(spsh_bytes text);

#endif
