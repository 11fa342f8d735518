/* corpus.c: decide whether a folder is a corpus or contains several.
 *
 * Every folder of the first levels is probed separately. If a folder matches a layout, either it is
 * that corpus, or a probe that looks deeper saw a corpus below it. The corpora found below decide:
 *
 *     below                          result
 *     -----                          ------
 *     nothing                        the folder is the corpus
 *     only the same layout           the folder is the corpus: its parts are splits or subsets
 *     the same layout and others     the folder holds several corpora: each is a source
 *     only other layouts             the folder is the corpus; the others are reported, not packed
 *     only other layouts that know   they are the corpora, if the folder only matches as archives
 *     their archives better          with members that form pairs
 *
 * If two layouts of the same tier match a folder, corpora of both layouts must exist below it.
 * Otherwise it is an error.
 *
 * Folders of clips and numbered folders (readers, chapters) are not entered, and the count of
 * listed folders is limited, so that the cost of the search does not grow with the corpus.
 */
#include "corpus.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "ingest/view/folder_set.h"
#include "ingest/view/path_list.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define OUTSIDE                                                                                    \
    "holds audio outside the recognized corpora, which is packed only if a corpus names it"

#define DEPTH_MAX    3U
#define FOLDERS_MAX  500U
#define NAMES_MAX    20000U /* names read per folder */
#define CHILDREN_MAX ((size_t)400)

typedef struct finder {
    const spsh__view *view; /* view of the whole corpus; base of the paths */
    spsh__corpus *corpus;
    spsh_layout_tier tier_max;
    unsigned folders;      /* listed so far */
    spsh__folder_set seen; /* visited folders; only if the view follows links */
} finder;

/** Contents of one folder. */
typedef struct listing {
    spsh__path_list children; /* names of folders, sorted */
    spsh__path_list links;    /* names of links to folders, sorted; only if links are followed */
    bool has_audio;
} listing;

/* Whether a folder with that name holds only clips. */
static bool holds_clips(const char *name)
{
    return spsh__is_clip_folder(name) || name[strspn(name, "0123456789")] == '\0';
}

/* List a folder. Beyond NAMES_MAX names, the rest is ignored in file system order: only a folder of
 * clips has that many. */
static spsh_status list(finder *f, const char *path, listing *ret_listing, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__view_folder *folder = spsh__view_folder_open(f->view, path);
    f->folders++;
    if (folder == NULL)
        return SPSH_OK; /* the layout that walks the folder reports the error */
    for (unsigned i = 0; i < NAMES_MAX && rc == SPSH_OK && spsh__view_folder_next(folder, &entry);
         i++) {
        if (entry.name[0] == '.' || spsh__is_ignored_name(entry.name))
            continue;
        if (!entry.enters) {
            ret_listing->has_audio |= spsh__is_audio_name(spsh__bytes_of(entry.name));
            continue;
        }
        spsh__path_list *names =
            entry.type == SPSH__VIEW_LINK ? &ret_listing->links : &ret_listing->children;
        if (names->count == CHILDREN_MAX) {
            f->corpus->cut_short |= !holds_clips(entry.name);
            continue;
        }
        rc = spsh__path_list_add(names, "", entry.name, err);
    }
    spsh__view_folder_close(folder);
    spsh__path_list_sort(&ret_listing->children, 0);
    spsh__path_list_sort(&ret_listing->links, 0);
    return rc;
}

static void free_listing(listing *l)
{
    spsh__path_list_free(&l->children);
    spsh__path_list_free(&l->links);
}

static spsh_status push_leftover(finder *f, const char *path, const char *detail, spsh_error *err)
{
    spsh__corpus *c = f->corpus;
    if (!SPSH_GROW(c->leftovers, c->leftover_capacity, c->leftover_count + 1))
        return SPSH_NO_MEMORY(err);
    char *copy = strdup(path[0] == '\0' ? "." : path);
    if (copy == NULL)
        return SPSH_NO_MEMORY(err);
    c->leftovers[c->leftover_count++] = (spsh__corpus_leftover){copy, detail};
    return SPSH_OK;
}

static spsh_status push_source(finder *f, const char *path, const spsh_layout *layout,
                               const spsh_layout_probe *probe, spsh_error *err)
{
    spsh__corpus *c = f->corpus;
    if (!SPSH_GROW(c->sources, c->source_capacity, c->source_count + 1))
        return SPSH_NO_MEMORY(err);
    char *copy = strdup(path);
    if (copy == NULL)
        return SPSH_NO_MEMORY(err);
    c->sources[c->source_count++] = (spsh__corpus_source){copy, layout, *probe};
    return SPSH_OK;
}

static void drop_leftovers(spsh__corpus *c, size_t count)
{
    while (c->leftover_count > count)
        free(c->leftovers[--c->leftover_count].below);
}

static void drop_sources(spsh__corpus *c, size_t count)
{
    while (c->source_count > count)
        free(c->sources[--c->source_count].below);
}

static bool found_below(const spsh__corpus *c, size_t first, const spsh_layout *layout)
{
    for (size_t i = first; i < c->source_count; i++) {
        if (c->sources[i].layout == layout)
            return true;
    }
    return false;
}

static bool only_below(const spsh__corpus *c, size_t first, const spsh_layout *layout)
{
    for (size_t i = first; i < c->source_count; i++) {
        if (c->sources[i].layout != layout)
            return false;
    }
    return true;
}

/* Make the folder itself the source. Sources found below are parts of it or are reported. */
static spsh_status take_folder(finder *f, const char *path, const spsh__layout_match *match,
                               size_t first_source, spsh_error *err)
{
    spsh__corpus *c = f->corpus;
    spsh_status rc = SPSH_OK;
    for (size_t i = first_source; i < c->source_count && rc == SPSH_OK; i++) {
        if (c->sources[i].layout != match->layouts[0])
            rc = push_leftover(f, c->sources[i].below,
                               "is another corpus inside this one; to pack it, give it separately",
                               err);
    }
    drop_sources(c, first_source);
    return rc == SPSH_OK ? push_source(f, path, match->layouts[0], &match->probes[0], err) : rc;
}

static spsh_status refuse(const finder *f, const char *path, const spsh__layout_match *match,
                          spsh_error *err)
{
    spsh__view *view = NULL;
    spsh_status rc = spsh__view_below(f->view, path, &view, err);
    if (rc == SPSH_OK)
        rc = spsh__layout_refuse(view, match, err);
    spsh__view_close(view);
    return rc;
}

/* An archive layout matches any archives, even if they belong to a corpus below. Prefer a layout
 * below with a better tier, because it knows their contents. */
static bool better_below(const spsh__corpus *c, size_t first, const spsh__layout_match *match)
{
    if (match->count == 0 || match->layouts[0]->tier != SPSH_LAYOUT_ARCHIVE)
        return false;
    for (size_t i = first; i < c->source_count; i++) {
        if (c->sources[i].layout->tier < SPSH_LAYOUT_ARCHIVE)
            return true;
    }
    return false;
}

/* Decide about a folder after all folders below it. */
static spsh_status decide(finder *f, const char *path, const spsh__layout_match *match,
                          const size_t first[2], spsh_error *err)
{
    spsh__corpus *c = f->corpus;
    bool several = match->count > 0;
    for (size_t i = 0; i < match->count; i++)
        several = several && found_below(c, first[0], match->layouts[i]);
    if (match->count == 1)
        several = several && !only_below(c, first[0], match->layouts[0]);
    if (match->count == 0 || several || better_below(c, first[0], match))
        return SPSH_OK;
    if (match->count > 1)
        return refuse(f, path, match, err);
    drop_leftovers(c, first[1]);
    return take_folder(f, path, match, first[0], err);
}

static spsh_status find_corpora(finder *f, const char *path, unsigned depth, spsh_error *err);

/* Whether a link leads to a folder of the corpus, which the search visits under its real path. */
static spsh_status leads_inside(const finder *f, const char *link, bool *ret_inside,
                                spsh_error *err)
{
    spsh__view *target = NULL;
    const char *root = spsh__view_real_root(f->view);
    spsh_status rc = spsh__view_below(f->view, link, &target, err);
    const char *real = rc == SPSH_OK ? spsh__view_real_root(target) : NULL;
    const size_t root_bytes = root == NULL ? 0 : strlen(root);
    *ret_inside = root != NULL && real != NULL && strncmp(real, root, root_bytes) == 0 &&
                  (real[root_bytes] == '\0' || real[root_bytes] == '/');
    spsh__view_close(target);
    return rc == SPSH_E_NO_MEMORY ? rc : SPSH_OK; /* the layout's walk reports the error */
}

static spsh_status inspect_child(finder *f, const char *child, unsigned depth, spsh_error *err)
{
    listing clips = {0};
    if (!holds_clips(spsh__base_name(child)))
        return find_corpora(f, child, depth, err);
    if (f->folders >= FOLDERS_MAX)
        return SPSH_OK;
    spsh_status rc = list(f, child, &clips, err);
    if (rc == SPSH_OK && clips.has_audio)
        rc = push_leftover(f, child, OUTSIDE, err);
    free_listing(&clips);
    return rc;
}

static spsh_status find_in_subfolders(finder *f, const char *path, const listing *l, unsigned depth,
                                      spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < l->children.count + l->links.count && rc == SPSH_OK; i++) {
        const bool is_link = i >= l->children.count;
        bool is_inside = false;
        char *child = NULL;
        if (asprintf(&child, "%s%s%s", path, path[0] == '\0' ? "" : "/",
                     is_link ? l->links.paths[i - l->children.count] : l->children.paths[i]) < 0)
            return SPSH_NO_MEMORY(err);
        if (is_link)
            rc = leads_inside(f, child, &is_inside, err);
        if (rc == SPSH_OK && !is_inside)
            rc = inspect_child(f, child, depth + 1, err);
        free(child);
    }
    return rc;
}

/* Whether a folder was not visited under another path because of a link. */
static spsh_status check_new(finder *f, const char *path, bool *ret_new, spsh_error *err)
{
    spsh__view_info info;
    *ret_new = true;
    if (!spsh__view_follows_links(f->view) || spsh__view_stat(f->view, path, &info) != 0)
        return SPSH_OK;
    return spsh__folder_set_add(&f->seen, &info, ret_new) ? SPSH_OK : SPSH_NO_MEMORY(err);
}

static spsh_status match_folder(finder *f, const char *path, spsh__layout_match *ret_match,
                                spsh_error *err)
{
    spsh__view *view = NULL;
    spsh_error open_error = SPSH_ERROR_INIT;
    spsh_status rc = spsh__view_below(f->view, path, &view, &open_error);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK)
        return SPSH_OK; /* the layout that walks the folder reports the error */
    rc = spsh__layout_match_view(view, f->tier_max, ret_match, err);
    spsh__view_close(view);
    return rc;
}

static spsh_status find_corpora(finder *f, const char *path, unsigned depth, spsh_error *err)
{
    spsh__corpus *c = f->corpus;
    const size_t first[2] = {c->source_count, c->leftover_count};
    spsh__layout_match match = {0};
    listing l = {0};
    bool is_new = true;
    if (f->folders >= FOLDERS_MAX) {
        c->cut_short = true;
        return SPSH_OK;
    }
    spsh_status rc = check_new(f, path, &is_new, err);
    if (rc != SPSH_OK || !is_new)
        return rc;
    rc = match_folder(f, path, &match, err);
    if (rc == SPSH_E_INVALID_ARG && depth > 0)
        rc = push_leftover(f, path, "holds several tables of audio; give each by itself to pack it",
                           err);
    if (rc == SPSH_OK)
        rc = list(f, path, &l, err);
    if (rc == SPSH_OK && l.has_audio)
        rc = push_leftover(f, path, OUTSIDE, err);
    if (rc == SPSH_OK && depth < DEPTH_MAX)
        rc = find_in_subfolders(f, path, &l, depth, err);
    if (rc == SPSH_OK)
        rc = decide(f, path, &match, first, err);
    free_listing(&l);
    return rc;
}

/* Look for corpora first, then for a table in the root, then for tables below it. */
static spsh_status find_below(finder *f, spsh_error *err)
{
    spsh__layout_match match = {0};
    f->tier_max = SPSH_LAYOUT_ARCHIVE;
    spsh_status rc = find_corpora(f, "", 0, err);
    if (rc != SPSH_OK || f->corpus->source_count > 0)
        return rc;
    drop_leftovers(f->corpus, 0);
    rc = spsh__layout_match_view(f->view, SPSH_LAYOUT_TABLE, &match, err);
    if (rc != SPSH_OK || match.count > 0)
        return rc;
    f->tier_max = SPSH_LAYOUT_TABLE;
    f->folders = 0;
    spsh__folder_set_free(&f->seen);
    rc = find_corpora(f, "", 0, err);
    if (rc == SPSH_OK && f->corpus->source_count == 0)
        drop_leftovers(f->corpus, 0);
    return rc;
}

spsh_status spsh__corpus_find(const spsh__view *view, spsh__corpus *ret_corpus, spsh_error *err)
{
    spsh__corpus corpus = {0};
    const spsh_layout *layout = NULL;
    spsh_layout_probe probe = {0};
    finder f = {.view = view, .corpus = &corpus};
    spsh_status rc = SPSH_OK;
    if (spsh__view_file(view) == NULL)
        rc = find_below(&f, err);
    if (rc == SPSH_OK && corpus.source_count == 0) {
        corpus.cut_short = false;
        rc = spsh__layout_detect(view, &layout, &probe, err);
        if (rc == SPSH_OK)
            rc = push_source(&f, "", layout, &probe, err);
    }
    if (rc == SPSH_OK) {
        *ret_corpus = corpus;
        corpus = (spsh__corpus){0};
    }
    spsh__folder_set_free(&f.seen);
    spsh__corpus_free(&corpus);
    return rc;
}

void spsh__corpus_free(spsh__corpus *corpus)
{
    drop_sources(corpus, 0);
    drop_leftovers(corpus, 0);
    free(corpus->sources);
    free(corpus->leftovers);
    *corpus = (spsh__corpus){0};
}
