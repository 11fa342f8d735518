/* pack_view.h: messages and a progress line for spsh_pack and spsh_pack_merge. */
#ifndef SPSH_PACK_VIEW_H
#define SPSH_PACK_VIEW_H

#include "cli/cli.h"
#include "speechshard/pack.h"

typedef struct spsh__pack_view {
    spsh_progress line;
    const char *phase; /* NULL: none has begun */
    uint64_t utterances, rejected_rows;
} spsh__pack_view;

/** Set the functions of the options, and let signals cancel the call. view outlives the call. */
void spsh__pack_view_begin(spsh__pack_view *view, spsh_pack_options *options);
/** Remove the progress line. */
void spsh__pack_view_end(spsh__pack_view *view);

#endif
