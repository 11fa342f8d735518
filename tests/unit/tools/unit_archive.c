/* unit_archive.c: members of archives, and a view of a corpus in archives. */
#include "spsh_test.h"

#include <fcntl.h>
#include <locale.h>

#include "archive_kit.h"
#include "ingest/view/archive_file.h"
#include "ingest/view/archive_index.h"
#include "ingest/view/text_file.h"
#include "ingest/view/view.h"
#include "test_file.h"
#include "test_tree.h"

#define NFD "e\xcc\x81" /* a letter and a combining accent: two characters */

static void begin(void)
{
    test_temp_dir(base, sizeof(base));
    REQUIRE(mkdir(at("corpus"), 0777) == 0 && mkdir(at("scratch"), 0777) == 0);
}

static void end(void)
{
    test_remove_tree(base);
}

/* ---- one archive ---- */

static const test_member some[] = {
    TEST_FILE("x/a.wav", "first"),           TEST_FILE("x/empty.txt", NULL),
    TEST_FILE("x/" NFD ".wav", "second"),    TEST_MEMBER("x/link.wav", 'h', "x/a.wav"),
    TEST_MEMBER("x/soft.wav", 's', "a.wav"),
};

/* List an archive as one word per member: name, type, size, and whether it is a piece. Then comes
 * the status that ended the list. The bytes of a member are compared with the bytes of its piece.
 */
static spsh_status list(const char *path, char *out, size_t out_bytes)
{
    static const char types[] = {'f', 'd', 'h', 'o'};
    spsh__archive *archive = NULL;
    spsh__archive_member member;
    spsh_bytes data;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;

    out[0] = '\0';
    REQUIRE(fd >= 0);
    spsh_status rc = spsh__archive_open(spsh_io_default(), fd, path, &archive, NULL);
    while (rc == SPSH_OK && (rc = spsh__archive_next(archive, &member, NULL)) == SPSH_OK) {
        const bool is_piece = member.offset_bytes != SPSH_OFFSET_NONE;
        char bytes[64];
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s:%c%" PRIu64 "%s%s",
                                 used == 0 ? "" : " ", member.name, types[member.type],
                                 member.size_bytes, is_piece ? "p" : "",
                                 member.problem != NULL ? "!" : "");
        REQUIRE(used < out_bytes);
        uint64_t offset = member.offset_bytes;
        while (member.type == SPSH__ARCHIVE_FILE && member.problem == NULL &&
               spsh__archive_read(archive, &data, NULL) == SPSH_OK) {
            if (!is_piece || data.size_bytes > sizeof(bytes))
                continue;
            CHECK(pread(fd, bytes, data.size_bytes, (off_t)offset) == (ssize_t)data.size_bytes);
            CHECK(memcmp(bytes, data.data, data.size_bytes) == 0);
            offset += data.size_bytes;
        }
    }
    spsh__archive_close(archive);
    (void)close(fd);
    return rc;
}

static void test_formats(void)
{
    static const char *const formats[] = {"gnutar", "pax", "ustar"};
    char got[512];
    begin();
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        test_archive_write(at("a"), formats[i], NULL, some, 5);
        CHECK_I64(list(at("a"), got, sizeof(got)), SPSH_E_END);
        CHECK_STR(got, "x/a.wav:f5p x/empty.txt:f0p x/" NFD ".wav:f6p x/link.wav:h0 x/soft.wav:o0");
        test_archive_write(at("a"), formats[i], "gzip", some, 5);
        CHECK_I64(list(at("a"), got, sizeof(got)), SPSH_E_END);
        CHECK_STR(got, "x/a.wav:f5 x/empty.txt:f0 x/" NFD ".wav:f6 x/link.wav:h0 x/soft.wav:o0");
    }
    test_archive_write(at("a"), "stored", NULL, some, 3);
    CHECK_I64(list(at("a"), got, sizeof(got)), SPSH_E_END);
    CHECK_STR(got, "x/a.wav:f5p x/empty.txt:f0p x/" NFD ".wav:f6p");
    test_archive_write(at("a"), "zip", NULL, some, 3);
    CHECK_I64(list(at("a"), got, sizeof(got)), SPSH_E_END);
    CHECK_STR(got, "x/a.wav:f5 x/empty.txt:f0 x/" NFD ".wav:f6");
    end();
}

static spsh__archive_kind kind_of(const char *path)
{
    spsh__archive_kind kind = SPSH__ARCHIVE_NONE;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK_I64(spsh__archive_sniff(spsh_io_default(), fd, path, &kind, NULL), SPSH_OK);
    (void)close(fd);
    return kind;
}

static void test_sniff(void)
{
    static const char *const filters[] = {"gzip", "bzip2", "xz", "zstd", "lz4"};
    const test_member text = {.name = "t", .text = "a\tb\n"};
    uint8_t zeros[2048] = {0};
    begin();
    test_archive_write(at("a"), "gnutar", NULL, some, 5);
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_PLAIN);
    test_archive_write(at("a"), "v7tar", NULL, some, 1);
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_PLAIN);
    test_archive_write(at("a"), "zip", NULL, some, 3);
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_PLAIN);
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
        test_archive_write(at("a"), "gnutar", filters[i], some, 5);
        CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_COMPRESSED);
        test_archive_write(at("a"), "raw", filters[i], &text, 1);
        CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_TEXT);
    }
    test_file_write(at("a"), zeros, sizeof(zeros));
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_NONE);
    /* Bytes with sum 0, and 8 blanks at the position of the checksum: a match by chance. */
    memcpy(zeros, "\1\x81\x81\xfd", 4);
    test_file_write(at("a"), zeros, sizeof(zeros));
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_NONE);
    test_file_write(at("a"), "ustar", 5);
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_NONE);
    test_file_write(at("a"), "", 0);
    CHECK_I64(kind_of(at("a")), SPSH__ARCHIVE_NONE);
    end();
}

static void test_names(void)
{
    static const test_member members[] = {
        TEST_FILE("./a//b/./c.wav", "1"),
        TEST_FILE("/abs/d.wav", "2"),
        TEST_FILE("x/../../e.wav", "3"),
        TEST_MEMBER("..", 'd', NULL),
        TEST_MEMBER("./", 'd', NULL),
        TEST_FILE("\xff\xfe.wav", "4"),
        TEST_MEMBER("h.wav", 'h', "./a/b/c.wav"),
        TEST_MEMBER("i.wav", 'h', "../c.wav"),
    };
    char got[512];
    char longer[5000];
    begin();
    test_archive_write(at("a"), "gnutar", NULL, members, 8);
    CHECK_I64(list(at("a"), got, sizeof(got)), SPSH_E_END);
    CHECK_STR(got, "a/b/c.wav:f1p abs/d.wav:f1p x/../../e.wav:f1! ..:d0! :d0 \xff\xfe.wav:f1p "
                   "h.wav:h0 i.wav:h0!");
    memset(longer, 'n', sizeof(longer));
    longer[4096] = '\0';
    const test_member fits = {.name = longer, .text = "1"};
    char names[8192];
    test_archive_write(at("a"), "pax", NULL, &fits, 1);
    CHECK_I64(list(at("a"), names, sizeof(names)), SPSH_E_END);
    CHECK(strstr(names, "n:f1p") != NULL);
    longer[4096] = 'n';
    longer[4097] = '\0';
    test_archive_write(at("a"), "pax", NULL, &fits, 1);
    CHECK_I64(list(at("a"), names, sizeof(names)), SPSH_E_END);
    CHECK(strstr(names, "n:f1!") != NULL);
    end();
}

/* Every truncated file ends in an error, or between two members. It never gives other members. */
static void test_truncated(void)
{
    static const char *const formats[] = {"gnutar", "stored", "zip"};
    char whole[512];
    char got[512];
    begin();
    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++) {
        size_t size_bytes = 0;
        test_archive_write(at("a"), formats[f], NULL, some, 3);
        REQUIRE(list(at("a"), whole, sizeof(whole)) == SPSH_E_END);
        uint8_t *data = test_file_read(at("a"), &size_bytes);
        for (size_t n = 0; n < size_bytes; n += 13) {
            test_file_write(at("b"), data, n);
            spsh_status rc = list(at("b"), got, sizeof(got));
            CHECK(rc == SPSH_E_END || rc == SPSH_E_TRUNCATED || rc == SPSH_E_CORRUPT);
            CHECK(f > 0 || rc != SPSH_E_END);
            /* In a zip without its directory, headers may omit the length of a member. */
            CHECK(f > 0 || strncmp(got, whole, strlen(got)) == 0);
        }
        free(data);
    }
    end();
}

/* Any bytes may follow the end of a tar. A second tar is read, too. */
static void test_behind_end(void)
{
    char got[512];
    size_t size_bytes = 0;
    begin();
    test_archive_write(at("a"), "gnutar", NULL, some, 1);
    uint8_t *data = test_file_read(at("a"), &size_bytes);
    uint8_t *twice = malloc(2 * size_bytes + 700);
    REQUIRE(twice != NULL);
    memcpy(twice, data, size_bytes);
    memcpy(twice + size_bytes, data, size_bytes);
    test_file_write(at("b"), twice, 2 * size_bytes);
    CHECK_I64(list(at("b"), got, sizeof(got)), SPSH_E_END);
    CHECK_STR(got, "x/a.wav:f5p x/a.wav:f5p");
    memset(twice + size_bytes, 'j', 700);
    test_file_write(at("b"), twice, size_bytes + 700);
    CHECK_I64(list(at("b"), got, sizeof(got)), SPSH_E_END);
    CHECK_STR(got, "x/a.wav:f5p");
    /* Without an end before these bytes, they are damage, although the member ends with zeros. */
    test_file_write(at("b"), twice, 1024);
    memcpy(twice + 1024, twice + size_bytes, 700);
    test_file_write(at("b"), twice, 1024 + 700);
    CHECK_I64(list(at("b"), got, sizeof(got)), SPSH_E_CORRUPT);
    CHECK_STR(got, "x/a.wav:f5p");
    free(twice);
    free(data);
    end();
}

static uint64_t drained; /* hash of what drain has read */

/* Read a compressed file to its end, as for a spool file. */
static spsh_status drain(const char *path)
{
    drained = UINT64_C(0xcbf29ce484222325);
    spsh__archive *archive = NULL;
    spsh_bytes data;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    const spsh__archive_input input = {spsh_io_default(), fd, path, 0, SPSH_OFFSET_NONE};
    spsh_status rc = spsh__archive_open_stream(&input, &archive, NULL);
    while (rc == SPSH_OK && (rc = spsh__archive_read(archive, &data, NULL)) == SPSH_OK)
        for (size_t i = 0; i < data.size_bytes; i++)
            drained = (drained ^ data.data[i]) * UINT64_C(0x100000001b3);
    spsh__archive_close(archive);
    (void)close(fd);
    return rc;
}

/* A flipped bit after gzip's header of ten bytes is damage, unless the output is the same.
 * libarchive itself does not check the CRC. Further members may follow a member, and zeros may
 * follow the last one. */
static void test_gzip(void)
{
    size_t size_bytes = 0;
    begin();
    test_archive_write(at("a"), "gnutar", "gzip", some, 3);
    CHECK_I64(drain(at("a")), SPSH_E_END);
    const uint64_t whole = drained;
    size_t same = 0; /* an unused code may have another length */
    uint8_t *data = test_file_read(at("a"), &size_bytes);
    uint8_t *more = calloc(2, size_bytes + 1);
    REQUIRE(more != NULL && size_bytes > 18);
    for (size_t n = 10; n < size_bytes; n++) {
        memcpy(more, data, size_bytes);
        more[n] ^= (uint8_t)(1U << (n % 8));
        test_file_write(at("b"), more, size_bytes);
        const spsh_status rc = drain(at("b"));
        same += rc == SPSH_E_END;
        CHECK(rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED ||
              (rc == SPSH_E_END && drained == whole));
    }
    CHECK(same < size_bytes / 10);
    memcpy(more, data, size_bytes);
    memcpy(more + size_bytes, data, size_bytes);
    test_file_write(at("b"), more, 2 * size_bytes);
    CHECK_I64(drain(at("b")), SPSH_E_END);
    memset(more + size_bytes, 0, size_bytes);
    test_file_write(at("b"), more, 2 * size_bytes);
    CHECK_I64(drain(at("b")), SPSH_E_END);
    more[size_bytes + 5] = 'j';
    test_file_write(at("b"), more, 2 * size_bytes);
    CHECK_I64(drain(at("b")), SPSH_E_CORRUPT);
    free(more);
    free(data);
    end();
}

/* Two gigabytes of zeros in some kilobytes. */
static void test_bomb(void)
{
    const size_t size_bytes = (size_t)1400 << 20;
    char *zeros = calloc(1, size_bytes);
    const test_member bomb = {.name = "a.wav", .text = zeros, .size_bytes = size_bytes};
    spsh__archive *archive = NULL;
    spsh__archive_member member;
    spsh_bytes data;
    begin();
    REQUIRE(zeros != NULL);
    test_archive_write(at("a"), "gnutar", "zstd", &bomb, 1);
    free(zeros);
    int fd = open(at("a"), O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(spsh__archive_open(spsh_io_default(), fd, "a", &archive, NULL) == SPSH_OK);
    CHECK_I64(spsh__archive_next(archive, &member, NULL), SPSH_OK);
    /* Skipping it costs as much as reading it. */
    CHECK_I64(spsh__archive_next(archive, &member, NULL), SPSH_E_LIMIT);
    spsh__archive_close(archive);
    const spsh__archive_input input = {spsh_io_default(), fd, "a", 0, SPSH_OFFSET_NONE};
    REQUIRE(spsh__archive_open_stream(&input, &archive, NULL) == SPSH_OK);
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK)
        rc = spsh__archive_read(archive, &data, NULL);
    CHECK_I64(rc, SPSH_E_LIMIT);
    spsh__archive_close(archive);
    (void)close(fd);
    end();
}

/* ---- a corpus ---- */

static char problems[2048]; /* problems of the view that was opened last: "kind path;" */

static spsh_status take_problem(void *user, const spsh__view_problem *problem, spsh_error *err)
{
    size_t used = strlen(problems);
    (void)user, (void)err;
    (void)snprintf(problems + used, sizeof(problems) - used, "%d %s;", (int)problem->kind,
                   problem->path);
    return SPSH_OK;
}

static const spsh__view_observer observer = {.problem_fn = take_problem};

static spsh__view *view_of(const char *root)
{
    spsh__view *view = NULL;
    const spsh__view_options options = {
        .root = root, .scratch_directory = at("scratch"), .observer = &observer};
    spsh_error err = SPSH_ERROR_INIT;
    problems[0] = '\0';
    if (spsh__view_open(&options, &view, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(view != NULL);
    return view;
}

/* Return the first bytes of a file, or "-" if it does not exist. */
static const char *text_of(const spsh__view *view, const char *path)
{
    static char text[64];
    spsh__piece piece;
    (void)snprintf(text, sizeof(text), "-");
    if (spsh__view_locate(view, path, &piece) != 0)
        return text;
    int fd = open(piece.path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && piece.size_bytes < sizeof(text));
    CHECK(pread(fd, text, piece.size_bytes, (off_t)piece.offset_bytes) ==
          (ssize_t)piece.size_bytes);
    text[piece.size_bytes] = '\0';
    (void)close(fd);
    return text;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Names of a folder, sorted: "a b/ c". */
static const char *names_of(const spsh__view *view, const char *path)
{
    static char all[512];
    char names[16][64];
    size_t count = 0;
    size_t used = 0;
    spsh__view_entry entry;
    spsh__view_folder *folder = spsh__view_folder_open(view, path);
    (void)snprintf(all, sizeof(all), "-");
    if (folder == NULL)
        return all;
    while (spsh__view_folder_next(folder, &entry)) {
        REQUIRE(count < 16);
        (void)snprintf(names[count++], sizeof(names[0]), "%.60s%s", entry.name,
                       entry.type == SPSH__VIEW_FOLDER    ? "/"
                       : entry.type == SPSH__VIEW_SPECIAL ? "?"
                                                          : "");
    }
    spsh__view_folder_close(folder);
    qsort(names, count, sizeof(names[0]), compare_texts);
    all[0] = '\0';
    for (size_t i = 0; i < count; i++)
        used +=
            (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i == 0 ? "" : " ", names[i]);
    return all;
}

static void test_view_in_place(void)
{
    static const test_member members[] = {
        TEST_FILE("t.tsv", "table"),
        TEST_FILE("clips/1.wav", "one"),
        TEST_FILE("clips/2.wav", "two"),
        TEST_MEMBER("clips/h.wav", 'h', "clips/1.wav"),
        TEST_MEMBER("clips/dead.wav", 'h', "none"),
        TEST_MEMBER("clips/s.wav", 's', "1.wav"),
        TEST_MEMBER("empty", 'd', NULL),
        TEST_FILE("clips/1.wav", "ONE"),
    };
    spsh__view *below = NULL;
    begin();
    REQUIRE(mkdir(at("corpus/de"), 0777) == 0 && mkdir(at("corpus/de/clips"), 0777) == 0);
    test_file_write(at("corpus/de/clips/2.wav"), "disk", 4);
    test_archive_write(at("corpus/de/x.tar.tar"), "pax", "gzip", members, 8);
    spsh__view *view = view_of(at("corpus"));
    CHECK_STR(problems, "1 de/clips/dead.wav;");
    CHECK(spsh__view_scan_ends(view, &observer, NULL) == SPSH_OK);
    CHECK_STR(problems, "1 de/clips/dead.wav;0 de/clips/1.wav;");
    CHECK_STR(names_of(view, ""), "de/");
    CHECK_STR(names_of(view, "de"), "clips/ empty/ t.tsv x.tar.tar");
    CHECK_STR(names_of(view, "de/clips"), "1.wav 2.wav dead.wav? h.wav s.wav?");
    CHECK_STR(names_of(view, "de/empty"), "");
    CHECK_STR(names_of(view, "de/none"), "-");
    CHECK_STR(text_of(view, "de/t.tsv"), "table");
    CHECK_STR(text_of(view, "de/clips/1.wav"), "ONE");
    CHECK_STR(text_of(view, "de/clips/2.wav"), "disk");
    CHECK_STR(text_of(view, "de/clips/h.wav"), "ONE");
    CHECK_STR(text_of(view, "de/clips/dead.wav"), "-");
    CHECK_STR(text_of(view, "de/./none/..//clips/1.wav"), "ONE");
    CHECK_STR(text_of(view, "../corpus/de/t.tsv"), "-");
    CHECK_STR(text_of(view, at("corpus/de/t.tsv")), "table");
    REQUIRE(spsh__view_below(view, "de/clips", &below, NULL) == SPSH_OK);
    CHECK_STR(text_of(below, "1.wav"), "ONE");
    CHECK_STR(text_of(below, "../t.tsv"), "table");
    spsh__view_close(below);
    REQUIRE(spsh__view_below(view, "de", &below, NULL) == SPSH_OK);
    CHECK_STR(spsh__view_archive(below, 0), "x.tar.tar");
    CHECK(spsh__view_archive(below, 1) == NULL);
    spsh__view_close(below);
    spsh__view_close(view);
    end();
}

/* Two languages in one folder: the view shows each in a separate subfolder. Files that they share
 * remain one file. */
static void test_view_collisions(void)
{
    static const test_member de[] = {
        TEST_FILE("train.tsv", "de"),
        TEST_FILE("README", "same"),
        TEST_FILE("clips/1.wav", "eins"),
    };
    static const test_member fr[] = {
        TEST_FILE("train.tsv", "fr"),
        TEST_FILE("README", "same"),
        TEST_FILE("clips/1.wav", "un"),
    };
    static const test_member clips[] = {
        TEST_FILE("a.flac", "a"),
        TEST_FILE("s.txt", "same"),
    };
    static const test_member more[] = {
        TEST_FILE("b.flac", "b"),
        TEST_FILE("s.txt", "same"),
    };
    begin();
    test_archive_write(at("corpus/de.tar.gz"), "gnutar", "gzip", de, 3);
    test_archive_write(at("corpus/fr.tgz?key=1"), "gnutar", NULL, fr, 3);
    REQUIRE(mkdir(at("corpus/t"), 0777) == 0);
    test_archive_write(at("corpus/t/c_0.tar"), "gnutar", NULL, clips, 2);
    test_archive_write(at("corpus/t/c_1.tar"), "gnutar", NULL, more, 2);
    spsh__view *view = view_of(at("corpus"));
    CHECK(spsh__view_scan_ends(view, &observer, NULL) == SPSH_OK);
    CHECK_STR(problems, "");
    CHECK_STR(names_of(view, ""), "de.tar.gz de/ fr.tgz?key=1 fr/ t/");
    CHECK_STR(names_of(view, "fr"), "README clips/ train.tsv");
    CHECK_STR(text_of(view, "de/clips/1.wav"), "eins");
    CHECK_STR(text_of(view, "fr/train.tsv"), "fr");
    CHECK_STR(names_of(view, "t"), "a.flac b.flac c_0.tar c_1.tar s.txt");
    CHECK_STR(spsh__view_archive(view, 2), "t/c_0.tar");
    spsh__view_close(view);
    end();
}

static spsh_status add_name(void *user, const spsh__view_member *member, spsh_error *err)
{
    char *all = user;
    (void)err;
    (void)snprintf(all + strlen(all), 256 - strlen(all), "%" PRIu64 "%s ", member->position,
                   member->name);
    return SPSH_OK;
}

/* A layout that lists members itself handles repeated members. */
static void test_view_members(void)
{
    static const test_member members[] = {
        TEST_FILE("b.txt", "1"),
        TEST_MEMBER("d", 'd', NULL),
        TEST_FILE("a.wav", "2"),
        TEST_FILE("b.txt", "3"),
    };
    char all[256] = "";
    begin();
    test_archive_write(at("corpus/s.tar"), "ustar", NULL, members, 4);
    spsh__view *view = view_of(at("corpus/s.tar"));
    CHECK(spsh__view_file(view) == NULL);
    CHECK_STR(spsh__view_archive(view, 0), "");
    CHECK_I64(spsh__view_members(view, "", add_name, all, NULL), SPSH_OK);
    CHECK_STR(all, "0b.txt 2a.wav 3b.txt ");
    CHECK_I64(spsh__view_members(view, "x", add_name, all, NULL), SPSH_E_NOT_FOUND);
    CHECK(spsh__view_scan_ends(view, &observer, NULL) == SPSH_OK);
    CHECK_STR(problems, "");
    spsh__view_scan_begins(view);
    CHECK(spsh__view_scan_ends(view, &observer, NULL) == SPSH_OK);
    CHECK_STR(problems, "0 b.txt;");
    CHECK_STR(names_of(view, ""), "a.wav b.txt d/");
    CHECK_STR(text_of(view, "b.txt"), "3");
    spsh__view_close(view);
    end();
}

static void test_view_unpacked(void)
{
    static const test_member members[] = {TEST_FILE("a.wav", "1"), TEST_FILE("b.wav", "2")};
    begin();
    test_archive_write(at("corpus/x.tar.gz"), "gnutar", "gzip", members, 2);
    test_file_write(at("corpus/a.wav"), "A", 1);
    spsh__view *view = view_of(at("corpus")); /* one file is not unpacked: the archive is needed */
    CHECK_STR(problems, "");
    CHECK_STR(text_of(view, "a.wav"), "A");
    CHECK_STR(text_of(view, "b.wav"), "2");
    spsh__view_close(view);
    test_file_write(at("corpus/b.wav"), "B", 1);
    view = view_of(at("corpus"));
    CHECK_STR(problems, "5 x.tar.gz;");
    CHECK(spsh__view_archive(view, 0) == NULL);
    spsh__view_close(view);
    end();
}

/* Files that can be read before the damage are part of the view. */
static void test_view_damage(void)
{
    static const test_member members[] = {TEST_FILE("a.wav", "1"), TEST_FILE("../b.wav", "2")};
    size_t size_bytes = 0;
    begin();
    test_archive_write(at("corpus/x.tar"), "gnutar", NULL, members, 2);
    uint8_t *data = test_file_read(at("corpus/x.tar"), &size_bytes);
    spsh__view *view = view_of(at("corpus"));
    CHECK_STR(problems, "1 x.tar/../b.wav;");
    spsh__view_close(view);
    test_file_write(at("corpus/x.tar"), data, 1024 + 100);
    view = view_of(at("corpus"));
    CHECK_STR(problems, "2 x.tar;");
    CHECK_STR(text_of(view, "a.wav"), "1");
    spsh__view_close(view);
    memset(data + 1024, 'j', 512);
    test_file_write(at("corpus/x.tar"), data, size_bytes);
    view = view_of(at("corpus"));
    CHECK_STR(problems, "3 x.tar;");
    CHECK_STR(text_of(view, "a.wav"), "1");
    spsh__view_close(view);
    free(data);
    end();
}

/* The root is a single file that is named like an archive but is not one. The view ignores the
 * files next to it. */
static void test_view_foreign(void)
{
    static const test_member members[] = {TEST_FILE("a.wav", "1")};
    spsh_error err = SPSH_ERROR_INIT;
    spsh__view *view = NULL;
    bool is = true;
    begin();
    test_archive_write(at("corpus/x.tar"), "gnutar", NULL, members, 1);
    test_file_write(at("corpus/e.tar.gz"), "<html>not found</html>", 22);
    CHECK(spsh__archive_is_one(spsh_io_default(), at("corpus/e.tar.gz"), &is, &err) ==
          SPSH_E_SYNTAX);
    CHECK(strstr(err.message,
                 "e.tar.gz: the name is that of an archive, but it looks like an HTML page") !=
          NULL);
    const spsh__view_options options = {.root = at("corpus/e.tar.gz"),
                                        .scratch_directory = at("scratch")};
    CHECK(spsh__view_open(&options, &view, NULL) == SPSH_E_SYNTAX && view == NULL);
    test_file_write(at("corpus/e.tar.gz"), "", 0);
    CHECK(spsh__archive_is_one(spsh_io_default(), at("corpus/e.tar.gz"), &is, NULL) ==
          SPSH_E_SYNTAX);
    end();
}

/* Compressed tables are read directly, also from an archive. */
static void test_compressed_text(void)
{
    const test_member table = {.name = "t", .text = "a\tb\n1\t2\n"};
    size_t size_bytes = 0;
    char got[64] = "";
    size_t got_bytes = 0;
    spsh__text_file file;
    begin();
    test_archive_write(at("t.gz"), "raw", "gzip", &table, 1);
    char *data = (char *)test_file_read(at("t.gz"), &size_bytes);
    const test_member member = {.name = "t.tsv.gz", .text = data, .size_bytes = size_bytes};
    test_archive_write(at("corpus/x.tar"), "gnutar", NULL, &member, 1);
    spsh__view *view = view_of(at("corpus"));
    REQUIRE(spsh__text_file_open(view, "t.tsv.gz", &file, NULL) == SPSH_OK);
    spsh__text_input input = spsh__text_input_file(&file);
    CHECK_I64(input.read_at_fn(input.user, 4, got, sizeof(got), &got_bytes, NULL), SPSH_OK);
    CHECK_U64(got_bytes, 4);
    CHECK_STR(got, "1\t2\n");
    spsh__text_file_close(&file);
    spsh__view_close(view);
    free(data);
    end();
}

/* ---- cuts ---- */

static uint64_t state; /* seed of test_random */
static bool every_byte;
static const unsigned random_cuts = 20;
static bool lost; /* an archive of the view that was opened last is reported as damaged */

static spsh_status take_damage(void *user, const spsh__view_problem *problem, spsh_error *err)
{
    (void)user, (void)err;
    lost = lost || problem->kind == SPSH__VIEW_ARCHIVE_TRUNCATED ||
           problem->kind == SPSH__VIEW_ARCHIVE_BAD;
    return SPSH_OK;
}

/* Thousands of spool files need not survive a power failure. */
static int no_fsync(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

/* name: a path in the temporary folder, or "-". */
static spsh_status open_cut(const char *name)
{
    char root[1024];
    static const spsh__view_observer damage = {.problem_fn = take_damage};
    spsh__view *view = NULL;
    spsh_io io = *spsh_io_default();
    io.fsync_fn = no_fsync;
    const spsh__view_options options = {
        .root = root, .scratch_directory = at("scratch"), .io = &io, .observer = &damage};
    (void)snprintf(root, sizeof(root), "%s", strcmp(name, "-") == 0 ? name : at(name));
    lost = false;
    spsh_status rc = spsh__view_open(&options, &view, NULL);
    if (rc == SPSH_OK)
        spsh__view_close(view);
    (void)unlink(at("scratch/unpacked-000000"));
    (void)unlink(at("scratch/unpacked-000001"));
    return rc;
}

/* Whether the first n bytes of an archive are accepted as a whole archive: in a folder, by name,
 * and on standard input. The three results must agree. */
static bool is_taken(const char *name, const uint8_t *data, size_t n)
{
    bool taken[3];
    test_file_write(at(name), data, n);
    taken[0] = open_cut("corpus") == SPSH_OK && !lost;
    taken[1] = open_cut(name) == SPSH_OK && !lost;
    REQUIRE(freopen(at(name), "rb", stdin) != NULL);
    taken[2] = open_cut("-") == SPSH_OK;
    if (taken[0] != taken[1] || taken[1] != taken[2])
        fprintf(stderr, "%s, %zu bytes: in a folder %d, by name %d, on standard input %d\n", name,
                n, taken[0], taken[1], taken[2]);
    CHECK(taken[0] == taken[1] && taken[1] == taken[2]);
    return taken[0];
}

static void check_cut(const char *what, const char *name, const uint8_t *data, size_t n)
{
    const bool taken = is_taken(name, data, n);
    if (taken)
        fprintf(stderr, "%s: the first %zu bytes pass for all\n", what, n);
    CHECK(!taken);
}

/* Cut at each block of a tar, each record of a zip, in the last bytes, and at random. Or cut at
 * every byte. */
static void check_cuts(const char *what, const char *name, const uint8_t *data, size_t size_bytes)
{
    REQUIRE(size_bytes > 0);
    CHECK(is_taken(name, data, size_bytes));
    for (size_t n = 0; n < size_bytes; n++) {
        const bool is_record = size_bytes - n > 4 && memcmp(data + n, "PK", 2) == 0;
        if (every_byte || is_record || n % 512 == 0 || n + 12 > size_bytes)
            check_cut(what, name, data, n);
    }
    for (unsigned i = 0; i < random_cuts; i++)
        check_cut(what, name, data, (size_t)(test_random(&state) % size_bytes));
}

/* Data that end in zeros, a name that begins like a zip's magic number, and headers of all kinds.
 * None of these may be taken for the end. */
static void test_cuts(void)
{
    static const struct {
        const char *format, *filter, *name;
    } forms[] = {
        {"gnutar", NULL,    "corpus/x.tar"    },
        {"pax",    NULL,    "corpus/x.tar"    },
        {"ustar",  NULL,    "corpus/x.tar"    },
        {"v7tar",  NULL,    "corpus/x.tar"    },
        {"zip",    NULL,    "corpus/x.zip"    },
        {"stored", NULL,    "corpus/x.zip"    },
        {"pax",    "gzip",  "corpus/x.tar.gz" },
        {"gnutar", "bzip2", "corpus/x.tar.bz2"},
        {"gnutar", "xz",    "corpus/x.tar.xz" },
        {"gnutar", "lzma",  "corpus/x.tar.xz" },
        {"gnutar", "zstd",  "corpus/x.tar.zst"},
        {"gnutar", "lz4",   "corpus/x.tar.lz4"},
    };
    char clip[3000] = "RIFF";
    char noise[1100];
    char name[160];
    begin();
    state = test_seed(7);
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)test_random(&state);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memcpy(name + sizeof(name) - 5, ".wav", 4);
    name[80] = '/';
    const test_member members[] = {
        {"PK000.json", "{}",  0,             0  },
        {"a.wav",      clip,  sizeof(clip),  0  },
        {"b.wav",      noise, sizeof(noise), 0  },
        {"empty.txt",  NULL,  0,             0  },
        {"d",          NULL,  0,             'd'},
        {name,         clip,  sizeof(clip),  0  },
        {"c.wav",      clip,  1024,          0  },
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t size_bytes = 0;
        const bool is_old = strcmp(forms[i].format, "v7tar") == 0;
        const size_t count = sizeof(members) / sizeof(members[0]) - (is_old ? 2 : 0);
        char what[32];
        (void)snprintf(what, sizeof(what), "%s %s", forms[i].format,
                       forms[i].filter == NULL ? "" : forms[i].filter);
        test_archive_write(at(forms[i].name), forms[i].format, forms[i].filter, members, count);
        uint8_t *data = test_file_read(at(forms[i].name), &size_bytes);
        check_cuts(what, forms[i].name, data, size_bytes);
        free(data);
        REQUIRE(unlink(at(forms[i].name)) == 0);
    }
    end();
}

/* Two tars in one file, each with an end; a tar that is padded as tar pads it. */
static void test_whole(void)
{
    size_t size_bytes = 0;
    begin();
    test_archive_write(at("a"), "gnutar", NULL, some, 3);
    uint8_t *data = test_file_read(at("a"), &size_bytes);
    uint8_t *more = calloc(1, size_bytes + 10240);
    REQUIRE(more != NULL);
    memcpy(more, data, size_bytes);
    for (size_t n = size_bytes; n <= size_bytes + 10240; n += 300)
        CHECK(is_taken("corpus/x.tar", more, n));
    /* One block of zeros is not an end, whatever follows. */
    memset(more + size_bytes - 512, 'j', 512);
    CHECK(!is_taken("corpus/x.tar", more, size_bytes - 512));
    CHECK(!is_taken("corpus/x.tar", more, size_bytes));
    memcpy(more + size_bytes - 512, data, size_bytes);
    CHECK(is_taken("corpus/x.tar", more, 2 * size_bytes - 512));
    CHECK(!is_taken("corpus/x.tar", more, 2 * size_bytes - 1024));
    free(more);
    free(data);
    end();
}

TEST_MAIN(unit_archive)
{
    every_byte = argc > 1 && strcmp(argv[1], "all") == 0;
    /* In a UTF-8 locale, libarchive would compose letters and accents. */
    (void)setlocale(LC_ALL, "C.UTF-8");
    RUN(test_formats);
    RUN(test_sniff);
    RUN(test_names);
    RUN(test_truncated);
    RUN(test_gzip);
    RUN(test_behind_end);
    RUN(test_bomb);
    RUN(test_view_in_place);
    RUN(test_view_collisions);
    RUN(test_view_members);
    RUN(test_view_unpacked);
    RUN(test_view_damage);
    RUN(test_view_foreign);
    RUN(test_compressed_text);
    RUN(test_cuts);
    RUN(test_whole);
    return TEST_RESULT();
}
