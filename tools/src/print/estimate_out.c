/* estimate_out.c: lines and members of estimates. */
#include "estimate_out.h"

#include <stdarg.h>

#include "cli/cli.h"

void spsh__estimate_print_line(const char *label, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)printf("%-20s", label);
    (void)vprintf(format, args);
    (void)putchar('\n');
    va_end(args);
}

void spsh__estimate_print_prints(const spsh_dedup_cost *estimate)
{
    spsh__estimate_print_line("fingerprints",
                              "missing for %s of audio: about %s of one core, %s on disk",
                              SPSH_SHOW_DURATION(estimate->fingerprint_seconds),
                              SPSH_SHOW_DURATION(estimate->fingerprint_core_seconds),
                              SPSH_SHOW_BYTES(estimate->fingerprint_bytes));
}

void spsh__estimate_print_space(const spsh__disk_space *space)
{
    spsh__estimate_print_line("temporary space", "at most %s in %s",
                              SPSH_SHOW_BYTES(space->temporary_bytes), space->work_path);
    spsh__estimate_print_line("memory", "at most %s, and %s", SPSH_SHOW_BYTES(space->memory_bytes),
                              space->per_match);
}

void spsh__estimate_put_prints(spsh_json *json, const spsh_dedup_cost *estimate)
{
    spsh__json_put_real(json, "fingerprint_hours", estimate->fingerprint_seconds / 3600);
    spsh__json_put_real(json, "fingerprint_core_hours", estimate->fingerprint_core_seconds / 3600);
    spsh__json_put_u64(json, "fingerprint_bytes", estimate->fingerprint_bytes);
}

void spsh__estimate_put_space(spsh_json *json, const spsh__disk_space *space)
{
    spsh__json_put_u64(json, "temporary_bytes", space->temporary_bytes);
    spsh__json_put_u64(json, "memory_bytes", space->memory_bytes);
}
