/* estimate_out.h: the common output of `dedupe --estimate` and `audit --estimate`. */
#ifndef SPSH_ESTIMATE_OUT_H
#define SPSH_ESTIMATE_OUT_H

#include "common/json_out.h"
#include "speechshard/dedup.h"

/* Disk space that a run needs while it lasts. */
typedef struct spsh__disk_space {
    const char *work_path;
    uint64_t temporary_bytes;
    uint64_t memory_bytes;
    const char *per_match; /* additional memory: "200 bytes per match" */
} spsh__disk_space;

/* Print a line for people: label in 20 columns, then the value. */
void spsh__estimate_print_line(const char *label, const char *format, ...) SPSH_PRINTF(2, 3);
void spsh__estimate_print_prints(const spsh_dedup_cost *estimate);
void spsh__estimate_print_space(const spsh__disk_space *space);

/* Add the same values as members. */
void spsh__estimate_put_prints(spsh_json *json, const spsh_dedup_cost *estimate);
void spsh__estimate_put_space(spsh_json *json, const spsh__disk_space *space);

#endif
