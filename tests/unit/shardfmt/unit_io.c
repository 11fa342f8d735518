/* unit_io.c: the I/O steps and the publishing of files, with real system calls and with failing
 * ones.
 */
#include <dirent.h>
#include <errno.h>

#include "fault_io.h"
#include "speechshard/io.h"
#include "spsh_test.h"

static char folder[256];

static void in_folder(char *path, size_t size_bytes, const char *name)
{
    int length = snprintf(path, size_bytes, "%s/%s", folder, name);
    REQUIRE(length > 0 && (size_t)length < size_bytes);
}

static spsh_status write_file(const spsh_io *io, const char *name, const char *text,
                              spsh_publish_mode mode, spsh_error *err)
{
    spsh_file_writer *writer = NULL;
    spsh_status rc = spsh_file_writer_open(io, folder, name, 4096, NULL, &writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer, text, strlen(text), err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, mode, err);
    spsh_file_writer_free(writer);
    return rc;
}

static void check_file(const char *name, const char *text)
{
    char path[300];
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    in_folder(path, sizeof(path), name);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, 1 << 20, NULL, &data, &size_bytes, NULL) ==
            SPSH_OK);
    CHECK_U64(size_bytes, strlen(text));
    CHECK(memcmp(data, text, size_bytes) == 0);
    free(data);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    REQUIRE(dir != NULL);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.' ? 1 : 0;
    (void)closedir(dir);
    return count;
}

static void test_publish_new_and_replace(void)
{
    const spsh_io *io = spsh_io_default();
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(write_file(io, "a", "one", SPSH_PUBLISH_NEW, &err), SPSH_OK);
    check_file("a", "one");
    CHECK_I64(write_file(io, "a", "one", SPSH_PUBLISH_NEW, &err), SPSH_OK); /* done already */
    CHECK_I64(write_file(io, "a", "two", SPSH_PUBLISH_NEW, &err), SPSH_E_EXISTS);
    CHECK_I64(err.os_errno, EEXIST);
    CHECK_I64(write_file(io, "a", "three", SPSH_PUBLISH_NEW, &err), SPSH_E_EXISTS);
    check_file("a", "one");
    CHECK_I64(write_file(io, "a", "two", SPSH_PUBLISH_REPLACE, &err), SPSH_OK);
    check_file("a", "two");
    CHECK_I64(write_file(io, "empty", "", SPSH_PUBLISH_NEW, &err), SPSH_OK);
    check_file("empty", "");
    CHECK_U64(count_files(), 2);
    struct stat info;
    char path[300];
    in_folder(path, sizeof(path), "a");
    CHECK(stat(path, &info) == 0 && info.st_blocks <= 16); /* reserved space is released */
}

static void test_write_at(void)
{
    char path[300];
    char back[4] = {0};
    spsh_file_writer *writer = NULL;
    const spsh_io *io = spsh_io_default();
    REQUIRE(spsh_file_writer_open(io, folder, "b", 0, NULL, &writer, NULL) == SPSH_OK);
    CHECK_I64(spsh_file_writer_write_at(writer, "world", 5, 6, NULL), SPSH_OK);
    CHECK_U64(spsh_file_writer_size(writer), 11);
    CHECK_I64(spsh_file_writer_write_at(writer, "hello ", 6, 0, NULL), SPSH_OK);
    CHECK_U64(spsh_file_writer_size(writer), 11);
    CHECK_I64(spsh_file_writer_write(writer, "!", 1, NULL), SPSH_OK);
    CHECK_I64(spsh_file_writer_read_at(writer, back, 3, 5, NULL), SPSH_OK);
    CHECK(memcmp(back, " wo", 3) == 0);
    CHECK_I64(spsh_file_writer_read_at(writer, back, 3, 10, NULL), SPSH_E_TRUNCATED);
    in_folder(path, sizeof(path), "b");
    CHECK(access(path, F_OK) != 0); /* the file is invisible until it is published */
    CHECK_I64(spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, NULL), SPSH_OK);
    CHECK_I64(spsh_file_writer_write(writer, "!", 1, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, NULL), SPSH_E_INVALID_ARG);
    spsh_file_writer_free(writer);
    check_file("b", "hello world!");
    CHECK(unlink(path) == 0);
}

static void test_unpublished_leaves_nothing(void)
{
    size_t before = count_files();
    spsh_file_writer *first = NULL;
    spsh_file_writer *second = NULL;
    const spsh_io *io = spsh_io_default();
    CHECK_I64(spsh_file_writer_open(io, folder, "c", 0, NULL, &first, NULL), SPSH_OK);
    CHECK_I64(spsh_file_writer_open(io, folder, "c", 0, NULL, &second, NULL), SPSH_OK);
    CHECK_U64(count_files(), before + 2); /* temporary files of one name do not collide */
    spsh_file_writer_free(first);
    spsh_file_writer_free(second);
    spsh_file_writer_free(NULL);
    CHECK_U64(count_files(), before);
}

static void test_refused_names(void)
{
    static const char *const names[] = {"", ".", "..", "a/b", "/a"};
    spsh_file_writer *writer = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        CHECK_I64(
            spsh_file_writer_open(spsh_io_default(), folder, names[i], 0, NULL, &writer, NULL),
            SPSH_E_INVALID_ARG);
    CHECK_I64(
        spsh_file_writer_open(spsh_io_default(), "/nonexistent/x", "a", 0, NULL, &writer, NULL),
        SPSH_E_NOT_FOUND);
    CHECK(writer == NULL);
}

/* A table with only one call replaced. */
static int no_such_call(void *user, int fd, uint64_t size_bytes)
{
    (void)user, (void)fd, (void)size_bytes;
    return -EOPNOTSUPP;
}

static int full(void *user, int fd, uint64_t size_bytes)
{
    (void)user, (void)fd, (void)size_bytes;
    return -ENOSPC;
}

static void test_reserving(void)
{
    spsh_io io = *spsh_io_default();
    io.fallocate_fn = no_such_call;
    CHECK_I64(write_file(&io, "d", "x", SPSH_PUBLISH_NEW, NULL), SPSH_OK);
    io.fallocate_fn = full;
    CHECK_I64(write_file(&io, "e", "x", SPSH_PUBLISH_NEW, NULL), SPSH_E_NO_SPACE);
    char path[300];
    in_folder(path, sizeof(path), "e");
    CHECK(access(path, F_OK) != 0);
}

static int fsync_calls;

static int failing_fsync(void *user, int fd)
{
    (void)user, (void)fd;
    fsync_calls++;
    return -EIO;
}

static void test_fsync_is_never_repeated(void)
{
    spsh_io io = *spsh_io_default();
    spsh_file_writer *writer = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    size_t before = count_files();
    io.fsync_fn = failing_fsync;
    CHECK_I64(spsh_file_writer_open(&io, folder, "f", 0, NULL, &writer, NULL), SPSH_OK);
    CHECK_I64(spsh_file_writer_write(writer, "x", 1, NULL), SPSH_OK);
    CHECK_I64(spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, &err), SPSH_E_IO);
    CHECK_I64(err.os_errno, EIO);
    CHECK_I64(spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(fsync_calls, 1);
    spsh_file_writer_free(writer);
    CHECK_U64(count_files(), before);
}

static void test_directories(void)
{
    const spsh_io *io = spsh_io_default();
    char path[300];
    in_folder(path, sizeof(path), "dir");
    CHECK_I64(spsh_io_make_directory(io, path, NULL), SPSH_OK);
    CHECK_I64(spsh_io_make_directory(io, path, NULL), SPSH_OK);
    CHECK_I64(spsh_io_sync_directory(io, path, NULL), SPSH_OK);
    in_folder(path, sizeof(path), "dir/sub///");
    CHECK_I64(spsh_io_make_directory(io, path, NULL), SPSH_OK);
    in_folder(path, sizeof(path), "a");
    CHECK_I64(spsh_io_make_directory(io, path, NULL), SPSH_E_EXISTS);
    in_folder(path, sizeof(path), "none/sub");
    CHECK_I64(spsh_io_make_directory(io, path, NULL), SPSH_E_NOT_FOUND);
    char link_path[300];
    in_folder(path, sizeof(path), "dir");
    in_folder(link_path, sizeof(link_path), "link");
    CHECK(symlink(path, link_path) == 0);
    CHECK_I64(spsh_io_make_directory(io, link_path, NULL), SPSH_OK);
    CHECK(unlink(link_path) == 0);
}

static void test_read_file(void)
{
    const spsh_io *io = spsh_io_default();
    char path[300];
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    spsh_error err = SPSH_ERROR_INIT;
    in_folder(path, sizeof(path), "a");
    CHECK_I64(spsh_io_read_file(io, path, 2, NULL, &data, &size_bytes, &err), SPSH_E_LIMIT);
    CHECK_I64(spsh_io_read_file(io, folder, 1 << 20, NULL, &data, &size_bytes, &err), SPSH_E_IO);
    in_folder(path, sizeof(path), "none");
    CHECK_I64(spsh_io_read_file(io, path, 2, NULL, &data, &size_bytes, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, path) != NULL);
    in_folder(path, sizeof(path), "fifo"); /* must not hang */
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_I64(spsh_io_read_file(io, path, 2, NULL, &data, &size_bytes, &err), SPSH_E_IO);
    CHECK(unlink(path) == 0);
    CHECK(data == NULL);
}

static void test_status_of_errno(void)
{
    CHECK_I64(spsh_io_status(ENOSPC), SPSH_E_NO_SPACE);
    CHECK_I64(spsh_io_status(EDQUOT), SPSH_E_NO_SPACE);
    CHECK_I64(spsh_io_status(ENOENT), SPSH_E_NOT_FOUND);
    CHECK_I64(spsh_io_status(EEXIST), SPSH_E_EXISTS);
    CHECK_I64(spsh_io_status(EACCES), SPSH_E_IO);
}

/* Every call of a replacement fails once. The file then holds either the old text or the new text.
 */
static void test_replace_under_failures(void)
{
    char path[300];
    in_folder(path, sizeof(path), "r");
    for (uint64_t fail_at = 0;; fail_at++) {
        fault_io fault = {.fail_at = fail_at, .fail_count = 1, .fail_errno = EIO};
        spsh_io io = fault_io_table(&fault);
        REQUIRE(write_file(spsh_io_default(), "r", "old", SPSH_PUBLISH_REPLACE, NULL) == SPSH_OK);
        size_t before = count_files();
        spsh_status rc = write_file(&io, "r", "new text", SPSH_PUBLISH_REPLACE, NULL);
        uint8_t *data = NULL;
        size_t size_bytes = 0;
        REQUIRE(spsh_io_read_file(spsh_io_default(), path, 100, NULL, &data, &size_bytes, NULL) ==
                SPSH_OK);
        bool is_new = size_bytes == 8 && memcmp(data, "new text", 8) == 0;
        bool is_old = size_bytes == 3 && memcmp(data, "old", 3) == 0;
        CHECK(is_new || (is_old && rc != SPSH_OK));
        CHECK_U64(count_files(), before);
        CHECK_I64(fault.open_count, 0);
        free(data);
        if (fault.call_count <= fail_at)
            break;
    }
}

TEST_MAIN(unit_io)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_publish_new_and_replace);
    RUN(test_write_at);
    RUN(test_unpublished_leaves_nothing);
    RUN(test_refused_names);
    RUN(test_reserving);
    RUN(test_fsync_is_never_repeated);
    RUN(test_directories);
    RUN(test_read_file);
    RUN(test_status_of_errno);
    RUN(test_replace_under_failures);
    test_remove_tree(folder);
    return TEST_RESULT();
}
