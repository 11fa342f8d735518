/* damage_out.h: print damaged or lost data for verify and repair, as a line or a JSON object. */
#ifndef SPSH_DAMAGE_OUT_H
#define SPSH_DAMAGE_OUT_H

#include "common/json_out.h"
#include "speechshard/verify.h"

/* "FILE: PART at OFFSET, ID, N utterances: message" to standard output. */
void spsh__damage_print(const spsh_damage *damage);

/* Print {"type": type, "dataset": dataset, "file": ..., ...}. false: the write failed. */
bool spsh__damage_print_json(spsh_json *json, const char *type, const char *dataset,
                             const spsh_damage *damage);

#endif
