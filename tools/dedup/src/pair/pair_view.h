/* pair_view.h: two aligned recordings as a picture (SVG) and as a stereo file to listen to (WAV).
 *
 * The picture shows both envelopes on one time line, a strip with the wrong bits of the prints, the
 * correlation of blocks, and the numbers below.
 */
#ifndef SPSH_DEDUP_PAIR_VIEW_H
#define SPSH_DEDUP_PAIR_VIEW_H

#include "common/byte_builder.h"
#include "set/match.h"
#include "set/print_set.h"

/* Append an <svg> of at most one minute around the match. It contains the ids, but no transcripts.
 * For a page, colors are CSS classes (svg.h, spsh__pair_view_style). If is_file, it is a complete
 * SVG file with its own style. */
spsh_status spsh__pair_view_draw(const spsh__print_set *set, const spsh__match *match, bool is_file,
                                 spsh__builder *out, spsh_error *err);

/* Lines of the page's style sheet, NULL-terminated. */
extern const char *const spsh__pair_view_style[];

/* Write a stereo WAV with a on the left and b on the right, aligned. It covers the match and one
 * second on each side, at most one minute, at the higher of the two rates. If b was sped up or
 * slowed down, this is undone. */
spsh_status spsh__pair_view_listen(const spsh__print_set *set, const spsh__match *match,
                                   const char *path, spsh_error *err);

#endif
