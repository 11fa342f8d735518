/* test_tree.h: the temporary folder of the running test, and paths in it. For the one source file
 * of a program that builds trees.
 */
#ifndef TEST_TREE_H
#define TEST_TREE_H

#include "spsh_test.h"

static char base[512]; /* test_temp_dir makes it, test_remove_tree removes it */

/* A path in it; good for three more calls. */
static inline const char *at(const char *relative)
{
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    int length = snprintf(path, sizeof(paths[0]), "%s/%s", base, relative);
    REQUIRE(length > 0 && (size_t)length < sizeof(paths[0]));
    return path;
}

#endif
