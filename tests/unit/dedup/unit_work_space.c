/* unit_work_space.c: checks of the free space of a disk. */
#include <sys/statvfs.h>

#include "dedup_options.h"
#include "spsh_test.h"

/* A file system on Linux without free space. */
#define FULL "/proc"

static void test_space(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    char folder[1024];
    char path[2048];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/to-be-made", folder);
    CHECK_I64(spsh__work_space_check(path, 0, &err), SPSH_OK);
    CHECK_I64(spsh__work_space_check(path, UINT64_MAX, &err), SPSH_E_NO_SPACE);
    CHECK(strstr(err.message, path) != NULL);
    CHECK_I64(spsh__work_space_check(folder, UINT64_MAX, &err), SPSH_E_NO_SPACE);
    CHECK_I64(spsh__work_space_check("to-be-made", UINT64_MAX, &err), SPSH_E_NO_SPACE);
    (void)snprintf(path, sizeof(path), "%s/no/such/folder", folder);
    CHECK_I64(spsh__work_space_check(path, UINT64_MAX, &err), SPSH_OK); /* space unknown */
    test_remove_tree(folder);
}

/* A folder that is a mount point: its disk is queried, not its parent's disk. */
static void test_a_disk_of_its_own(void)
{
    struct statvfs info;
    spsh_error err = SPSH_ERROR_INIT;
    if (statvfs(FULL, &info) != 0 || info.f_bavail != 0)
        return;
    CHECK_I64(spsh__work_space_check(FULL, 1, &err), SPSH_E_NO_SPACE);
}

TEST_MAIN(unit_work_space)
{
    RUN(test_space);
    RUN(test_a_disk_of_its_own);
    return TEST_RESULT();
}
