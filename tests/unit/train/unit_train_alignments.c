/* unit_train_alignments.c: Kaldi alignments, plain and compressed. A malformed line is rejected
 * with its number. If the frame count or the speed differs, each frame gets the state at its time.
 */
#include "labels/alignments.h"

#include <archive.h>
#include <archive_entry.h>

#include "spsh_test.h"

static char folder[512];

static const char *path_of(const char *name)
{
    static char paths[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
    return paths[turn];
}

static void write_bytes(const char *name, const char *bytes, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    REQUIRE(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* filter: name of a libarchive filter. Returns the size. */
static long write_compressed(const char *name, const char *filter, const char *text)
{
    struct archive *out = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    REQUIRE(archive_write_add_filter_by_name(out, filter) == ARCHIVE_OK);
    REQUIRE(archive_write_set_format_raw(out) == ARCHIVE_OK);
    REQUIRE(archive_write_open_filename(out, path_of(name)) == ARCHIVE_OK);
    archive_entry_set_filetype(entry, AE_IFREG);
    REQUIRE(archive_write_header(out, entry) == ARCHIVE_OK);
    REQUIRE(archive_write_data(out, text, strlen(text)) == (la_ssize_t)strlen(text));
    archive_entry_free(entry);
    REQUIRE(archive_write_free(out) == ARCHIVE_OK);
    FILE *file = fopen(path_of(name), "rb");
    REQUIRE(file != NULL && fseek(file, 0, SEEK_END) == 0);
    const long size = ftell(file);
    (void)fclose(file);
    return size;
}

static spsh_bytes id_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static spsh__alignments *read_files(const char *first, const char *second)
{
    const char *const paths[] = {path_of(first), second == NULL ? NULL : path_of(second), NULL};
    spsh__alignments *a = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__alignments_read(paths, &a, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(a != NULL);
    return a;
}

static void check_states(const spsh__alignments *a, const char *id, uint32_t plain, uint32_t frames,
                         const char *want)
{
    uint32_t states[64], number = 0;
    char text[256] = "";
    REQUIRE(spsh__alignments_find(a, id_of(id), &number));
    REQUIRE(frames <= 64 && spsh__alignments_states(a, number, plain, frames, states));
    for (uint32_t t = 0; t < frames; t++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", t > 0 ? " " : "",
                       states[t]);
    CHECK_STR(text, want);
}

static void test_read(void)
{
    static const char text[] = "utt-1 12 12 12 5 5 0\n"
                               "\n"
                               "utt-2 \t7  7 \r\n"
                               "none \n"
                               "utt-3 4194303";
    uint32_t number = 0;
    write_bytes("plain", text, strlen(text));
    spsh__alignments *a = read_files("plain", NULL);
    CHECK_U64(spsh__alignments_count(a), 4);
    CHECK_U64(spsh__alignments_frame_count(a), 9);
    CHECK_U64(spsh__alignments_greatest(a), 4194303);
    CHECK(spsh__alignments_bytes(a) > 100);
    check_states(a, "utt-1", 6, 6, "12 12 12 5 5 0");
    check_states(a, "utt-2", 2, 2, "7 7");
    check_states(a, "utt-3", 1, 1, "4194303");
    CHECK(!spsh__alignments_find(a, id_of("utt-4"), &number));
    CHECK(!spsh__alignments_find(a, id_of(""), &number));
    CHECK(spsh__alignments_find(a, id_of("none"), &number));
    CHECK(!spsh__alignments_states(a, number, 2, 2, NULL)); /* no frame, nothing to repeat */
    spsh__alignments_free(a);
    spsh__alignments_free(NULL);
}

/* Runs longer than one entry holds, more utterances than the first table holds, and files split at
 * any point into several reads. */
static void test_large(void)
{
    enum { UTTERANCES = 5000 };
    FILE *file = fopen(path_of("large"), "wb");
    REQUIRE(file != NULL);
    fputs("long", file);
    for (int t = 0; t < 3000; t++)
        fputs(t < 2500 ? " 3" : " 4", file);
    fputs("\n", file);
    for (int u = 0; u < UTTERANCES; u++) {
        fprintf(file, "speaker%d-utterance%d", u % 7, u);
        for (int t = 0; t < 20; t++)
            fprintf(file, " %d", u / 3 * 100 + t / 2);
        fputs("\n", file);
    }
    REQUIRE(fclose(file) == 0);
    spsh__alignments *a = read_files("large", NULL);
    static uint32_t states[3000];
    uint32_t number = 0;
    CHECK_U64(spsh__alignments_count(a), UTTERANCES + 1);
    REQUIRE(spsh__alignments_find(a, id_of("long"), &number));
    REQUIRE(spsh__alignments_states(a, number, 3000, 3000, states));
    for (uint32_t t = 0; t < 3000; t++)
        REQUIRE(states[t] == (t < 2500 ? 3 : 4));
    for (uint32_t u = 0; u < UTTERANCES; u++) {
        char id[64];
        (void)snprintf(id, sizeof(id), "speaker%u-utterance%u", u % 7, u);
        REQUIRE(spsh__alignments_find(a, id_of(id), &number));
        REQUIRE(number == u + 1 && spsh__alignments_states(a, number, 20, 20, states));
        REQUIRE(states[0] == u / 3 * 100 && states[19] == u / 3 * 100 + 9);
    }
    spsh__alignments_free(a);
}

static void test_compressed(void)
{
    static const char *const filters[] = {"gzip", "bzip2", "xz", "lz4", "zstd"};
    write_bytes("more", "c 1\n", 4);
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
        (void)write_compressed("packed", filters[i], "a 1 1 2\nb 3\n");
        spsh__alignments *a = read_files("packed", "more");
        CHECK_U64(spsh__alignments_count(a), 3);
        check_states(a, "a", 3, 3, "1 1 2");
        check_states(a, "c", 1, 1, "1");
        spsh__alignments_free(a);
    }
}

static void check_refused(const char *const *paths, spsh_status want, const char *message)
{
    spsh__alignments *a = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh__alignments_read(paths, &a, &err), want);
    CHECK(a == NULL);
    if (strstr(err.message, message) == NULL)
        fprintf(stderr, "'%s' is not in '%s'\n", message, err.message);
    CHECK(strstr(err.message, message) != NULL);
}

static void test_refused(void)
{
    static const struct {
        const char *text;
        size_t size;
        const char *message;
    } cases[] = {
        {"a 1 2\nb 1 x\n",         0,  "bad: line 2: a state is not a whole number"    },
        {"a 1 -2\n",               0,  "line 1: a state is not a whole number"         },
        {"a 1 2.5\n",              0,  "line 1: a state is not a whole number"         },
        {"a 1 2]\n",               0,  "line 1: a state is not a whole number"         },
        {"\n\na 4194304\n",        0,  "line 3: a state is greater than 4194303"       },
        {"a 99999999999999999999", 0,  "line 1: a state is greater than 4194303"       },
        {"a 1\nb 2\na 1\n",        0,  "line 3: utterance 'a' already has an alignment"},
        {"utt \0B\4\3\0\0\0",      11, "line 1: not a text file; write it in Kaldi"    },
        {"utt\0B\4\3\0\0\0",       10, "line 1: not a text file; write it in Kaldi"    },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const paths[] = {path_of("bad"), NULL};
        write_bytes("bad", cases[i].text,
                    cases[i].size > 0 ? cases[i].size : strlen(cases[i].text));
        check_refused(paths, SPSH_E_SYNTAX, cases[i].message);
    }
    write_bytes("one", "a 1\n", 4);
    write_bytes("two", "b 1\na 1\n", 8);
    const char *const twice[] = {path_of("one"), path_of("two"), NULL};
    check_refused(twice, SPSH_E_SYNTAX, "two: line 2: utterance 'a' already has an alignment");
    const char *const missing[] = {path_of("missing"), NULL};
    check_refused(missing, SPSH_E_NOT_FOUND, "missing: cannot read alignments");
    char id[5001];
    memset(id, 'i', sizeof(id));
    write_bytes("bad", id, sizeof(id));
    const char *const paths[] = {path_of("bad"), NULL};
    check_refused(paths, SPSH_E_SYNTAX, "line 1: the id is longer than 4096 bytes");
}

/* A download that was cut off. */
static void test_truncated(void)
{
    static char text[20000];
    uint64_t random = 7;
    for (size_t at = 0; at + 40 < sizeof(text);)
        at += (size_t)snprintf(text + at, 40, "u%zu %u %u\n", at,
                               (unsigned)(test_random(&random) % 9999),
                               (unsigned)(test_random(&random) % 9999));
    const long size = write_compressed("cut", "gzip", text);
    REQUIRE(truncate(path_of("cut"), size / 2) == 0);
    const char *const paths[] = {path_of("cut"), NULL};
    check_refused(paths, SPSH_E_CORRUPT, "cut: cannot read alignments");
}

static void test_other_lengths(void)
{
    uint32_t states[64], number = 0;
    write_bytes("plain", "u 1 2 3 4 5 6 7 8\n", 18);
    spsh__alignments *a = read_files("plain", NULL);
    check_states(a, "u", 8, 8, "1 2 3 4 5 6 7 8");
    check_states(a, "u", 10, 10, "1 1 2 3 4 5 6 7 8 8"); /* snip-edges=false, features of true */
    check_states(a, "u", 6, 6, "2 3 4 5 6 7");
    check_states(a, "u", 9, 9, "1 2 3 4 5 6 7 8 8");
    check_states(a, "u", 11, 11, "1 1 2 3 4 5 6 7 8 8 8");
    REQUIRE(spsh__alignments_find(a, id_of("u"), &number));
    CHECK(spsh__alignments_states(a, number, 5, 5, states));
    CHECK(!spsh__alignments_states(a, number, 4, 4, states));
    CHECK(!spsh__alignments_states(a, number, 12, 12, states));
    /* speeds: slower by half, twice as fast, and both with an alignment that is two too short */
    check_states(a, "u", 8, 16, "1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8");
    check_states(a, "u", 8, 4, "2 4 6 8");
    check_states(a, "u", 10, 5, "1 3 5 7 8");
    spsh__alignments_free(a);
}

TEST_MAIN(unit_train_alignments)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_read);
    RUN(test_large);
    RUN(test_compressed);
    RUN(test_refused);
    RUN(test_truncated);
    RUN(test_other_lengths);
    test_remove_tree(folder);
    return TEST_RESULT();
}
