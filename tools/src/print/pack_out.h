/* pack_out.h: the tables at the end of `speechshard pack`. */
#ifndef SPSH_PACK_OUT_H
#define SPSH_PACK_OUT_H

#include <stdio.h>

#include "speechshard/pack.h"

/** Print the tables. is_pcm: audio is stored as PCM already. */
void spsh__pack_print(FILE *stream, const spsh_pack_report *report, bool is_pcm);

/** Print the outcome of spsh_pack or spsh_pack_merge, as tables or as JSON, and messages about it.
 * Returns the exit status. */
int spsh__pack_print_result(const char *output, const spsh_pack_report *report, bool is_pcm,
                            bool json);

/** Copy reports/pack.json of a dataset to stream. */
void spsh__pack_print_json(FILE *stream, const char *dataset);

#endif
