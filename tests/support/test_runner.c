/* test_runner.c: main of a program of many tests.
 *
 *     PROGRAM TEST [ARGUMENT...]
 *
 * The test gets its arguments without its name, like a separate program.
 */
#include "test_runner.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const test_entry *entry = test_entries;
    for (; argc > 1 && entry->name != NULL; entry++) {
        if (strcmp(entry->name, argv[1]) == 0) {
            argv[1] = argv[0];
            return entry->function(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "usage: %s TEST [ARGUMENT...]\n", argv[0]);
    if (argc > 1)
        fprintf(stderr, "no test is called \"%s\"\n", argv[1]);
    for (entry = test_entries; entry->name != NULL; entry++)
        fprintf(stderr, "    %s\n", entry->name);
    return 2;
}
