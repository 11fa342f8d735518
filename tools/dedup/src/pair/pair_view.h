/* pair_view.h: two aligned recordings as a picture (SVG) and as a listening cut (WAV).
 *
 * The picture: both waveforms' envelopes one above the other on one time line, the two prints'
 * agreement (a strip: wrong bits of each frame), the blocks' correlation, and the numbers beneath.
 */
#ifndef SPSH_DEDUP_PAIR_VIEW_H
#define SPSH_DEDUP_PAIR_VIEW_H

#include "common/byte_builder.h"
#include "set/match.h"
#include "set/print_set.h"

/* Appends an <svg> for the page; classes instead of colours (svg.h, spsh__pair_view_style). At most
 * a minute around the match is drawn. Ids are in it, transcripts are not. is_file: it is a file of
 * its own, with its colours. */
spsh_status spsh__pair_view_draw(const spsh__print_set *set, const spsh__match *match, bool is_file,
                                 spsh__builder *out, spsh_error *err);

/* Lines for the page's style sheet, ended by NULL. */
extern const char *const spsh__pair_view_style[];

/* Writes a stereo WAV: a left, b right, aligned, the matched stretch and a second around it, at the
 * higher rate of the two; at most a minute. A speed that b was divided by is undone, too. */
spsh_status spsh__pair_view_listen(const spsh__print_set *set, const spsh__match *match,
                                   const char *path, spsh_error *err);

#endif
