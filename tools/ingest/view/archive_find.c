/* archive_find.c: the search for archives.
 *
 * The search reads only names. Names can mislead, so the caller sniffs files with an archive
 * extension and files without an extension. Files named like audio or text are trusted, because
 * otherwise every clip would have to be opened.
 */
#include "archive_find.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/file_names.h"
#include "folder_set.h"
#include "speechshard/inside.h"

#define DEPTH_MAX           6U     /* folder levels, with the root as the first */
#define NUMBERED_DEPTH_MAX  4U     /* the limit for numbered folders: readers, chapters, years */
#define FOLDERS_MAX         10000U /* folders listed in all; a mirror of Common Voice has 2,000 */
#define NAMES_MAX           20000U /* names read in a folder without an archive so far */
#define CLIP_NAMES_MAX      64U    /* the limit for a folder of clips */
#define EXTENSION_BYTES_MAX 10U

typedef struct search {
    const char *root;
    bool follow_links;
    spsh__folder_set seen; /* only with follow_links */
    spsh__path_list *names;
    unsigned folders;
} search;

/* Length of the name without a download query: "a.tar" of "a.tar?authorization=...". */
static size_t name_bytes(const char *name)
{
    return strcspn(name, "?");
}

static bool ends_with(const char *name, size_t length, const char *suffix)
{
    size_t suffix_bytes = strlen(suffix);
    return length > suffix_bytes &&
           strncasecmp(name + length - suffix_bytes, suffix, suffix_bytes) == 0;
}

/* Length of the archive extension at the end of a name, or 0. */
static size_t archive_extension(const char *name, size_t length)
{
    static const char *const extensions[] = {".tar",  ".tgz", ".tbz", ".tbz2", ".txz",
                                             ".tzst", ".zip", ".rar", ".7z",   ".gz",
                                             ".bz2",  ".xz",  ".zst", ".lz4"};

    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++)
        if (ends_with(name, length, extensions[i]))
            return strlen(extensions[i]);
    return 0;
}

/* Length of an extension at the end: letters and digits, with at least one letter. */
static size_t any_extension(const char *name, size_t length)
{
    size_t extension_bytes = 0;
    bool letter = false;

    while (extension_bytes < length && isalnum((unsigned char)name[length - 1 - extension_bytes])) {
        letter = letter || isalpha((unsigned char)name[length - 1 - extension_bytes]);
        extension_bytes++;
    }
    const bool is_extension =
        letter && extension_bytes > 0 && extension_bytes <= EXTENSION_BYTES_MAX &&
        extension_bytes + 1 < length && name[length - 1 - extension_bytes] == '.';
    return is_extension ? extension_bytes + 1 : 0;
}

static bool may_be_archive(const char *name)
{
    size_t length = name_bytes(name);
    size_t packed = 0;
    size_t more = 0;

    if (name[0] == '.' || spsh__is_ignored_name(name))
        return false;
    while ((more = archive_extension(name, length)) != 0) {
        /* A tar may hold anything, whatever precedes ".tar". */
        if (more == strlen(".tar") && ends_with(name, length, ".tar"))
            return true;
        packed += more;
        length -= more;
    }
    /* "cuts.jsonl.gz" is a table, "de.gz" may be anything. */
    if (packed > strlen(".lz4"))
        return true;
    if (packed > 0 && !ends_with(name, length + packed, ".gz") &&
        !ends_with(name, length + packed, ".xz") && !ends_with(name, length + packed, ".bz2") &&
        !ends_with(name, length + packed, ".zst") && !ends_with(name, length + packed, ".lz4"))
        return true;
    return any_extension(name, length) == 0;
}

bool spsh__archive_is_called_one(const char *path)
{
    const char *name = spsh__base_name(path);
    return may_be_archive(name) && archive_extension(name, name_bytes(name)) > 0;
}

spsh_bytes spsh__archive_stem(const char *path)
{
    const char *name = spsh__base_name(path);
    size_t length = name_bytes(name);
    size_t more = 0;

    while ((more = archive_extension(name, length)) != 0)
        length -= more;
    return (spsh_bytes){(const uint8_t *)name, length};
}

/* Whether an entry is a folder. A link is a folder only if it leads to one and links are followed.
 * Other links are checked when they are opened. */
static bool is_folder(const search *s, const char *whole, const struct dirent *entry)
{
    struct stat state;
    if (s->follow_links && (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN))
        return stat(whole, &state) == 0 && S_ISDIR(state.st_mode);
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return lstat(whole, &state) == 0 && S_ISDIR(state.st_mode);
}

/* Add an entry to children if it is a folder, or to the result if it may be an archive. */
static spsh_status inspect(search *s, const char *path, const struct dirent *entry,
                           spsh__path_list *children, spsh_error *err)
{
    spsh__builder below = {0};
    spsh__builder whole = {0};
    spsh_status rc = SPSH_OK;

    spsh__builder_append_text(&below, path);
    spsh__builder_append_part(&below, entry->d_name);
    spsh__builder_append_text(&whole, s->root);
    if (spsh__builder_text(&below) != NULL)
        spsh__builder_append_part(&whole, spsh__builder_text(&below));
    if (below.failed || spsh__builder_text(&whole) == NULL)
        rc = SPSH_NO_MEMORY(err);
    else if (is_folder(s, spsh__builder_text(&whole), entry))
        rc = spsh__path_list_add(children, "", spsh__builder_text(&below), err);
    else if (may_be_archive(entry->d_name))
        rc = spsh__path_list_add(s->names, "", spsh__builder_text(&below), err);
    SPSH__BUILDERS_FREE(&below, &whole);
    return rc;
}

static bool may_match(const search *s, const struct dirent *entry)
{
    if (entry->d_name[0] == '.' || spsh__is_ignored_name(entry->d_name))
        return false;
    return entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN ||
           (entry->d_type == DT_LNK && s->follow_links) || may_be_archive(entry->d_name);
}

/* Close a folder that was already listed under another name. */
static spsh_status enter(search *s, DIR **directory, spsh_error *err)
{
    struct stat state;
    bool is_new = true;
    if (fstat(dirfd(*directory), &state) == 0) {
        const spsh__view_info info = {.device = (uint64_t)state.st_dev,
                                      .inode = (uint64_t)state.st_ino};
        if (!spsh__folder_set_add(&s->seen, &info, &is_new))
            return SPSH_NO_MEMORY(err);
    }
    if (!is_new) {
        (void)closedir(*directory);
        *directory = NULL;
    }
    return SPSH_OK;
}

static spsh_status list(search *s, const char *path, unsigned names_max, spsh__path_list *children,
                        spsh_error *err)
{
    spsh__builder whole = {0};
    const struct dirent *entry = NULL;
    DIR *directory = NULL;
    spsh_status rc = SPSH_OK;
    size_t found = s->names->count;
    unsigned seen = 0;

    spsh__builder_append_text(&whole, s->root);
    spsh__builder_append_part(&whole, path);
    if (spsh__builder_text(&whole) != NULL)
        directory = opendir(spsh__builder_text(&whole));
    if (whole.failed)
        rc = SPSH_NO_MEMORY(err);
    spsh__builder_free(&whole);
    if (rc == SPSH_OK && directory != NULL && s->follow_links)
        rc = enter(s, &directory, err);
    /* The layout that walks a folder reports it if it cannot be read. */
    while (rc == SPSH_OK && directory != NULL && (entry = readdir(directory)) != NULL) {
        if (++seen > names_max && s->names->count == found)
            break;
        if (may_match(s, entry))
            rc = inspect(s, path, entry, children, err);
    }
    if (directory != NULL)
        (void)closedir(directory);
    return rc;
}

/* Search level by level, so that archives near the root are found if there are too many folders. */
static spsh_status search_level(search *s, unsigned depth, const spsh__path_list *folders,
                                spsh__path_list *children, spsh_error *err)
{
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; i < folders->count && rc == SPSH_OK && s->folders < FOLDERS_MAX; i++) {
        const char *name = spsh__base_name(folders->paths[i]);
        if (depth >= NUMBERED_DEPTH_MAX && name[strspn(name, "0123456789")] == '\0')
            continue;
        s->folders++;
        rc = list(s, folders->paths[i], spsh__is_clip_folder(name) ? CLIP_NAMES_MAX : NAMES_MAX,
                  children, err);
    }
    spsh__path_list_sort(children, 0);
    return rc;
}

spsh_status spsh__archive_find(const char *root, bool follow_links, spsh__path_list *ret_names,
                               spsh_error *err)
{
    spsh__path_list names = {0};
    spsh__path_list level = {0};
    search s = {.root = root, .follow_links = follow_links, .names = &names};
    spsh_status rc = spsh__path_list_add(&level, "", "", err);

    for (unsigned depth = 0; depth < DEPTH_MAX && level.count > 0 && rc == SPSH_OK; depth++) {
        spsh__path_list children = {0};
        rc = search_level(&s, depth, &level, &children, err);
        spsh__path_list_free(&level);
        level = children;
    }
    spsh__path_list_free(&level);
    spsh__folder_set_free(&s.seen);
    if (rc != SPSH_OK) {
        spsh__path_list_free(&names);
        return rc;
    }
    spsh__path_list_sort(&names, 0);
    *ret_names = names;
    return SPSH_OK;
}
