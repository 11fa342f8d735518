/* unit_kaldi_table.c: rows of an unsorted file are found by their keys, if the file is kept in
 * memory or read row by row.
 */
#include "spsh_test.h"

#include "common/file_names.h"
#include "ingest/metadata/kaldi_table.h"

#define LONG_BYTES  ((size_t)40000)    /* a row that is read in several pieces */
#define BLANK_BYTES ((size_t)97 << 20) /* blank lines that make a file too large to be kept */

static const char *const keys[] = {"u7", "u1", "twice", "u10", "twice", "long", "u2"};
#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static void value_of(size_t row, char value[LONG_BYTES + 1])
{
    (void)snprintf(value, LONG_BYTES + 1, "value of row %zu", row);
    if (strcmp(keys[row], "long") == 0) {
        memset(value, 'x', LONG_BYTES);
        value[LONG_BYTES] = '\0';
    }
}

/* Long blank lines between some rows. Empty lines of the same total size would take much longer. */
static void make_file(const char *path, size_t blank_bytes)
{
    static char value[LONG_BYTES + 1];
    char lines[4096];
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    memset(lines, ' ', sizeof(lines));
    lines[0] = lines[sizeof(lines) - 1] = '\n';
    for (size_t i = 0; i < KEY_COUNT; i++) {
        value_of(i, value);
        fprintf(file, "%s%s \t %s%s", i % 2 == 0 ? "" : " ", keys[i], value,
                i + 1 == KEY_COUNT ? ""
                : i % 3 == 0       ? "\r\n"
                                   : "\n");
        for (size_t left = i == 2 ? blank_bytes / sizeof(lines) : 0; left > 0; left--)
            REQUIRE(fwrite(lines, 1, sizeof(lines), file) == sizeof(lines));
    }
    REQUIRE(fclose(file) == 0);
}

static spsh_status count_unused(void *user, const spsh__row *row, spsh_error *err)
{
    unsigned *unused = user;
    (void)row, (void)err;
    ++*unused;
    return SPSH_OK;
}

static void check_row(spsh__kaldi_table *table, size_t row)
{
    static char want[LONG_BYTES + 1];
    bool found = false;
    spsh_bytes value = {0};
    value_of(row, want);
    REQUIRE(spsh__kaldi_table_find(table, spsh__bytes_of(keys[row]), &found, &value, NULL) ==
            SPSH_OK);
    CHECK(found && spsh__bytes_equal(value, spsh__bytes_of(want)));
}

static void check_file(size_t blank_bytes, bool is_kept)
{
    char root[512];
    char path[600];
    unsigned unused = 0;
    bool found = true;
    spsh_bytes value;
    spsh__view *view = NULL;
    test_temp_dir(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/text", root);
    make_file(path, blank_bytes);
    const spsh__view_options options = {.root = root};
    REQUIRE(spsh__view_open(&options, &view, NULL) == SPSH_OK);
    spsh__kaldi_table table = {.unused_fn = count_unused, .user = &unused};
    REQUIRE(spsh__kaldi_table_open(view, "text", &table, NULL) == SPSH_OK);
    CHECK(table.exists && !table.sorted);
    REQUIRE(spsh__kaldi_table_begin(&table, true, NULL) == SPSH_OK);
    CHECK((table.whole != NULL) == is_kept);
    for (size_t i = KEY_COUNT; i-- > 0;) {
        if (i != 4 && i != 3) /* the first of two rows counts, and u10 is not looked up */
            check_row(&table, i);
    }
    check_row(&table, 5);
    REQUIRE(spsh__kaldi_table_find(&table, spsh__bytes_of("u"), &found, &value, NULL) == SPSH_OK);
    CHECK(!found);
    REQUIRE(spsh__kaldi_table_end(&table, NULL) == SPSH_OK);
    CHECK_U64(unused, 2);
    spsh__kaldi_table_close(&table);
    spsh__view_close(view);
    test_remove_tree(root);
}

static void test_kept(void)
{
    check_file(0, true);
}

static void test_large(void)
{
    check_file(BLANK_BYTES, false);
}

/* Many keys: each is found in its bucket, and missing keys are not found. */
static void test_many(void)
{
    char root[512];
    char path[600];
    char key[32];
    spsh__view *view = NULL;
    test_temp_dir(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/text", root);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    for (unsigned i = 0; i < 5000; i++)
        fprintf(file, "key%u %u\n", i * 7 % 5000, i * 7 % 5000);
    REQUIRE(fclose(file) == 0);
    const spsh__view_options options = {.root = root};
    REQUIRE(spsh__view_open(&options, &view, NULL) == SPSH_OK);
    spsh__kaldi_table table = {0};
    REQUIRE(spsh__kaldi_table_open(view, "text", &table, NULL) == SPSH_OK);
    REQUIRE(spsh__kaldi_table_begin(&table, true, NULL) == SPSH_OK);
    for (unsigned i = 0; i < 10000; i++) {
        bool found = false;
        spsh_bytes value = {0};
        (void)snprintf(key, sizeof(key), "key%u", i);
        REQUIRE(spsh__kaldi_table_find(&table, spsh__bytes_of(key), &found, &value, NULL) ==
                SPSH_OK);
        CHECK(found == (i < 5000) &&
              (!found || spsh__bytes_equal(value, spsh__bytes_of(key + strlen("key")))));
    }
    spsh__kaldi_table_close(&table);
    spsh__view_close(view);
    test_remove_tree(root);
}

TEST_MAIN(unit_kaldi_table)
{
    RUN(test_kept);
    RUN(test_large);
    RUN(test_many);
    return TEST_RESULT();
}
