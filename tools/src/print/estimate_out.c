/* estimate_out.c: lines and members of estimates. */
#include "estimate_out.h"

#include "cli/cli.h"

void spsh__estimate_print_line(const char *label, const char *value)
{
    printf("%-20s%s\n", label, value);
}

void spsh__estimate_print_prints(const spsh__source_estimate *estimate)
{
    char to_do[SPSH_HUMAN_BYTES], core[SPSH_HUMAN_BYTES], size[SPSH_HUMAN_BYTES];
    printf("%-20s%s still to be made: about %s of one core, %s on disk\n", "fingerprints",
           spsh__human_duration(estimate->to_extract_s, to_do),
           spsh__human_duration(estimate->core_s, core),
           spsh__human_bytes(estimate->segment_bytes, size));
}

void spsh__estimate_print_room(const spsh__disk_room *room)
{
    char size[SPSH_HUMAN_BYTES];
    printf("%-20sat most %s in %s\n", "temporary space",
           spsh__human_bytes(room->temporary_bytes, size), room->work_path);
    printf("%-20sat most %s, and %s\n", "memory", spsh__human_bytes(room->memory_bytes, size),
           room->per_match);
}

void spsh__estimate_put_prints(spsh_json *json, const spsh__source_estimate *estimate)
{
    spsh__json_put_real(json, "fingerprint_hours", estimate->to_extract_s / 3600);
    spsh__json_put_real(json, "fingerprint_core_hours", estimate->core_s / 3600);
    spsh__json_put_u64(json, "fingerprint_bytes", estimate->segment_bytes);
}

void spsh__estimate_put_room(spsh_json *json, const spsh__disk_room *room)
{
    spsh__json_put_u64(json, "temporary_bytes", room->temporary_bytes);
    spsh__json_put_u64(json, "memory_bytes", room->memory_bytes);
}
