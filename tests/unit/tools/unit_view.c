/* unit_view.c: a view of a corpus on disk, and pieces of files read as text. */
#include "spsh_test.h"

#include <fcntl.h>

#include "ingest/view/text_file.h"
#include "ingest/view/view.h"
#include "test_tree.h"

static void make(const char *relative, const char *text)
{
    FILE *file = fopen(at(relative), "wb");
    REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void begin(void)
{
    test_temp_dir(base, sizeof(base));
    REQUIRE(mkdir(at("sub"), 0777) == 0 && mkdir(at("sub/deep"), 0777) == 0);
    make("a.wav", "12345");
    make("sub/b.txt", "x\ny\n");
    REQUIRE(mkfifo(at("pipe"), 0777) == 0 && symlink("sub", at("to_sub")) == 0 &&
            symlink("nowhere", at("broken")) == 0);
}

static spsh__view *view_of(const char *root)
{
    spsh__view *view = NULL;
    const spsh__view_options options = {.root = root};
    REQUIRE(spsh__view_open(&options, &view, NULL) == SPSH_OK);
    return view;
}

static spsh__view *view_below(const spsh__view *view, const char *path)
{
    spsh__view *below = NULL;
    REQUIRE(spsh__view_below(view, path, &below, NULL) == SPSH_OK);
    return below;
}

static void test_stat(void)
{
    spsh__view_info info;
    spsh__view_info link;
    begin();
    spsh__view *view = view_of(base);
    CHECK_STR(spsh__view_root(view), base);
    CHECK(spsh__view_file(view) == NULL);
    CHECK(spsh__view_stat(view, "", &info) == 0 && info.type == SPSH__VIEW_FOLDER);
    CHECK(spsh__view_stat(view, "a.wav", &info) == 0 && info.type == SPSH__VIEW_FILE);
    CHECK_U64(info.size_bytes, 5);
    CHECK(spsh__view_stat(view, at("a.wav"), &info) == 0 && info.size_bytes == 5);
    CHECK(spsh__view_stat(view, "pipe", &info) == 0 && info.type == SPSH__VIEW_SPECIAL);
    CHECK(spsh__view_stat(view, "sub", &info) == 0 && info.type == SPSH__VIEW_FOLDER);
    CHECK(spsh__view_stat(view, "to_sub", &link) == 0 && link.type == SPSH__VIEW_FOLDER);
    CHECK(info.inode == link.inode && info.device == link.device);
    CHECK_I64(spsh__view_stat(view, "broken", &info), ENOENT);
    CHECK_I64(spsh__view_stat(view, "a.wav/x", &info), ENOTDIR);
    CHECK(spsh__view_has_file(view, "a.wav") && !spsh__view_has_file(view, "sub"));
    CHECK(!spsh__view_has_file(view, "pipe") && spsh__view_has_folder(view, "to_sub"));
    spsh__view_close(view);
    test_remove_tree(base);
}

static void test_folders(void)
{
    static const struct {
        const char *name;
        spsh__view_type type;
    } want[] = {
        {"a.wav",  SPSH__VIEW_FILE   },
        {"sub",    SPSH__VIEW_FOLDER },
        {"pipe",   SPSH__VIEW_SPECIAL},
        {"to_sub", SPSH__VIEW_LINK   },
        {"broken", SPSH__VIEW_LINK   },
    };
    unsigned seen = 0;
    unsigned count = 0;
    spsh__view_entry entry;
    begin();
    spsh__view *view = view_of(base);
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    REQUIRE(folder != NULL);
    for (; spsh__view_folder_next(folder, &entry); count++) {
        for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
            if (strcmp(entry.name, want[i].name) == 0 && entry.type == want[i].type)
                seen |= 1U << i;
        }
    }
    CHECK_I64(errno, 0);
    CHECK(count == 5 && seen == 31);
    spsh__view_folder_close(folder);
    errno = 0;
    CHECK(spsh__view_folder_open(view, "a.wav") == NULL && errno == ENOTDIR);
    CHECK(spsh__view_folder_open(view, "none") == NULL && errno == ENOENT);
    spsh__view_close(view);
    test_remove_tree(base);
}

static void test_locate(void)
{
    spsh__piece piece;
    char want[1024];
    begin();
    spsh__view *view = view_of(base);
    (void)snprintf(want, sizeof(want), "%s/sub/b.txt", base);
    CHECK_I64(spsh__view_locate(view, "sub/b.txt", &piece), 0);
    CHECK_STR(piece.path, want);
    CHECK(piece.offset_bytes == 0 && piece.size_bytes == 4 && piece.file_bytes == 4);
    CHECK_I64(spsh__view_locate(view, want, &piece), 0);
    CHECK_STR(piece.path, want);
    CHECK_I64(spsh__view_locate(view, "sub", &piece), EISDIR);
    CHECK_I64(spsh__view_locate(view, "pipe", &piece), EINVAL);
    CHECK_I64(spsh__view_locate(view, "none", &piece), ENOENT);
    CHECK_I64(spsh__view_locate_known(view, "none", SPSH__PIECE_BYTES_UNKNOWN, &piece), 0);
    CHECK(piece.size_bytes == SPSH__PIECE_BYTES_UNKNOWN && piece.file_bytes == piece.size_bytes);
    spsh__view_close(view);
    test_remove_tree(base);
}

static void test_roots(void)
{
    spsh__view *none = NULL;
    spsh__piece piece;
    spsh__builder name = {0};
    begin();
    /* For a manifest, the view shows the folder that contains it. */
    spsh__view *view = view_of(at("sub/b.txt"));
    CHECK_STR(spsh__view_root(view), at("sub/b.txt"));
    CHECK_STR(spsh__view_file(view), "b.txt");
    CHECK(spsh__view_has_file(view, "b.txt") && spsh__view_has_folder(view, "deep"));
    spsh__view *same = view_below(view, "");
    CHECK_STR(spsh__view_file(same), "b.txt");
    spsh__view_folder_name(view, "", &name);
    CHECK_STR(spsh__builder_text(&name), "sub");
    spsh__view_close(same);
    spsh__view_close(view);

    /* The root's path may end with slashes. */
    char root[600];
    (void)snprintf(root, sizeof(root), "%s/", base);
    view = view_of(root);
    spsh__view *below = view_below(view, "sub");
    CHECK_STR(spsh__view_root(below), at("sub"));
    CHECK(spsh__view_has_file(below, "b.txt") && spsh__view_file(below) == NULL);
    CHECK(spsh__view_locate(below, "b.txt", &piece) == 0);
    CHECK_STR(piece.path, at("sub/b.txt"));
    spsh__builder_clear(&name);
    spsh__view_folder_name(view, "sub/deep", &name);
    CHECK_STR(spsh__builder_text(&name), "deep");
    /* The real name of the folder, not the name of the link to it. */
    spsh__view_close(below);
    below = view_below(view, "to_sub");
    spsh__builder_clear(&name);
    spsh__view_folder_name(below, "", &name);
    CHECK_STR(spsh__builder_text(&name), "sub");
    spsh__view_close(below);

    CHECK_I64(spsh__view_below(view, "none", &none, NULL), SPSH_E_NOT_FOUND);
    spsh__view_close(view);
    CHECK_I64(spsh__view_open(&(spsh__view_options){.root = at("none")}, &none, NULL),
              SPSH_E_NOT_FOUND);
    CHECK(none == NULL);
    REQUIRE(chdir(at("sub")) == 0);
    view = view_of("b.txt");
    CHECK(spsh__view_locate(view, "b.txt", &piece) == 0);
    CHECK_STR(piece.path, "./b.txt");
    spsh__view_close(view);
    REQUIRE(chdir("/") == 0);
    spsh__builder_free(&name);
    test_remove_tree(base);
}

static void check_text(spsh__text_file *file, uint64_t offset_bytes, size_t size_bytes,
                       const char *want)
{
    char got[32] = "";
    size_t got_bytes = 99;
    const spsh__text_input input = spsh__text_input_file(file);
    REQUIRE(size_bytes < sizeof(got));
    CHECK(input.read_at_fn(input.user, offset_bytes, got, size_bytes, &got_bytes, NULL) == SPSH_OK);
    CHECK_U64(got_bytes, strlen(want));
    CHECK_STR(got, want);
}

static void test_text_files(void)
{
    spsh__text_file file = {.fd = -1};
    begin();
    make("t.txt", "0123456789");
    spsh__view *view = view_of(base);
    REQUIRE(spsh__text_file_open(view, "t.txt", &file, NULL) == SPSH_OK);
    CHECK_U64(file.size_bytes, 10);
    check_text(&file, 8, 5, "89");
    make("t.txt", "0123456789abc"); /* data appended to a whole file is read */
    check_text(&file, 8, 9, "89abc");
    spsh__text_file_close(&file);

    /* A piece keeps its end. A file whose size has changed is rejected. */
    spsh__piece piece = {at("t.txt"), 3, 4, 13};
    REQUIRE(spsh__text_file_open_piece(&piece, "m", &file, NULL) == SPSH_OK);
    CHECK_U64(file.size_bytes, 4);
    check_text(&file, 0, 9, "3456");
    check_text(&file, 2, 1, "5");
    check_text(&file, 4, 4, "");
    check_text(&file, UINT64_MAX, 4, "");
    spsh__text_file_close(&file);
    piece.file_bytes = 14;
    CHECK_I64(spsh__text_file_open_piece(&piece, "m", &file, NULL), SPSH_E_IO);

    CHECK_I64(spsh__text_file_open(view, "none", &file, NULL), SPSH_E_NOT_FOUND);
    CHECK_I64(spsh__text_file_open(view, "sub", &file, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__text_file_open(view, "pipe", &file, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(file.fd, -1);
    spsh__view_close(view);
    test_remove_tree(base);
}

TEST_MAIN(unit_view)
{
    RUN(test_stat);
    RUN(test_folders);
    RUN(test_locate);
    RUN(test_roots);
    RUN(test_text_files);
    return TEST_RESULT();
}
