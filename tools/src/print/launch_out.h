/* launch_out.h: the launch files for packing (tools/launch/pack-*), filled in for a corpus. */
#ifndef SPSH_LAUNCH_OUT_H
#define SPSH_LAUNCH_OUT_H

#include "cli/cli.h"

/* A file of tools/launch. CMake writes the table into the build folder. */
typedef struct spsh__launch_file {
    const char *launcher;     /* a word of SPSH_LAUNCH_FILES */
    const char *const *lines; /* without line ends; NULL-terminated */
} spsh__launch_file;
extern const spsh__launch_file spsh__launch_files[];

#define SPSH_LAUNCH_FILES "slurm|mpirun|kubernetes|sge" /* in the order of spsh__launch_files */

/* Print a launch file with the corpora, the output, and the other options of this command line.
 * which: index into spsh__launch_files. Returns the exit status. */
int spsh__launch_print(size_t which, const spsh_cli_args *corpora, const char *output);

#endif
