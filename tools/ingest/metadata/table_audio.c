/* table_audio.c: see table_audio.h. The extensions are tried one by one, each in all folders. */
#include "table_audio.h"

#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "speechshard/inside.h"

static const char *const folders[] = {"", "clips", "wavs", "wav", "audio", "audios"};
static const char *const extensions[] = {"", ".wav", ".flac", ".mp3", ".opus", ".ogg"};

#define FOLDER_COUNT (sizeof(folders) / sizeof(folders[0]))
#define PLACE_COUNT  (FOLDER_COUNT * (sizeof(extensions) / sizeof(extensions[0])))

struct spsh__audio_resolver {
    const spsh__view *view;
    const char *real_root;         /* absolute, without links; NULL when unknown */
    bool has_folder[FOLDER_COUNT]; /* avoids stats in folders that do not exist */
    size_t last_place;
    spsh__builder written, plain, path;
    bool have_last; /* last and written hold the previous row */
    bool failed;    /* out of memory during a lookup */
    spsh__audio_file last;
};

spsh_status spsh__audio_resolver_new(const spsh__view *view, spsh__audio_resolver **ret_resolver,
                                     spsh_error *err)
{
    spsh__audio_resolver *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return SPSH_NO_MEMORY(err);
    r->view = view;
    r->real_root = spsh__view_real_root(view);
    r->has_folder[0] = true;
    for (size_t i = 1; i < FOLDER_COUNT; i++)
        r->has_folder[i] = spsh__view_has_folder(view, folders[i]);
    *ret_resolver = r;
    return SPSH_OK;
}

void spsh__audio_resolver_free(spsh__audio_resolver *resolver)
{
    if (resolver == NULL)
        return;
    SPSH__BUILDERS_FREE(&resolver->written, &resolver->plain, &resolver->path);
    free(resolver);
}

void spsh__audio_plain_path(const spsh__audio_resolver *resolver, spsh_bytes written,
                            spsh__builder *out)
{
    const size_t start = out->size_bytes;
    size_t i = 0;
    while (i < written.size_bytes) {
        const uint8_t *slash = memchr(written.data + i, '/', written.size_bytes - i);
        size_t end = slash == NULL ? written.size_bytes : (size_t)(slash - written.data);
        const bool dot = end - i == 1 && written.data[i] == '.' && slash != NULL;
        const bool empty = end == i && i > 0;
        if (!dot && !empty)
            spsh__builder_append(out, written.data + i, end - i + (slash != NULL));
        i = end + 1;
    }
    if (resolver->real_root == NULL || out->failed || out->size_bytes == start)
        return;
    const size_t root_bytes = strlen(resolver->real_root);
    const size_t size = out->size_bytes - start;
    uint8_t *plain = out->data + start;
    if (size > root_bytes + 1 && memcmp(plain, resolver->real_root, root_bytes) == 0 &&
        plain[root_bytes] == '/') {
        memmove(plain, plain + root_bytes + 1, size - root_bytes - 1);
        out->size_bytes -= root_bytes + 1;
    }
}

static bool is_remote(spsh_bytes path)
{
    size_t i = 0;
    while (i < path.size_bytes && ((path.data[i] >= 'a' && path.data[i] <= 'z') ||
                                   (path.data[i] >= 'A' && path.data[i] <= 'Z') ||
                                   (i > 0 && path.data[i] >= '0' && path.data[i] <= '9')))
        i++;
    return i > 0 && path.size_bytes - i >= 3 && memcmp(path.data + i, "://", 3) == 0;
}

/* Try one location. Returns false if nothing is there and the next may be tried. */
static bool inspect(spsh__audio_resolver *r, size_t place, spsh__audio_file *file)
{
    spsh__view_info info;
    const char *folder = folders[place % FOLDER_COUNT];
    const char *extension = extensions[place / FOLDER_COUNT];
    const bool absolute = r->plain.data[0] == '/';
    if (!r->has_folder[place % FOLDER_COUNT] || (absolute && folder[0] != '\0'))
        return false;
    spsh__builder_clear(&r->path);
    spsh__builder_append_text(&r->path, folder);
    if (folder[0] != '\0')
        spsh__builder_append(&r->path, "/", 1);
    spsh__builder_append_bytes(&r->path, spsh__builder_bytes(&r->plain));
    spsh__builder_append_text(&r->path, extension);
    const char *path = spsh__builder_text(&r->path);
    if (path == NULL) {
        r->failed = true;
        return false;
    }
    const int os_errno = spsh__view_stat(r->view, path, &info);
    if (os_errno != 0) {
        if (os_errno != ENOENT && os_errno != ENOTDIR) {
            file->found = SPSH__AUDIO_UNREADABLE;
            file->os_errno = os_errno;
        }
        return false;
    }
    if (info.type == SPSH__VIEW_FOLDER)
        return false;
    file->found = info.type == SPSH__VIEW_FILE ? SPSH__AUDIO_FOUND : SPSH__AUDIO_NOT_REGULAR;
    file->size_bytes = info.size_bytes;
    file->extension_was_added = extension[0] != '\0';
    r->last_place = place;
    return true;
}

static void search_everywhere(spsh__audio_resolver *r, spsh__audio_file *file)
{
    if (inspect(r, r->last_place, file))
        return;
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        if (inspect(r, place, file))
            return;
    }
}

spsh_status spsh__audio_resolve(spsh__audio_resolver *resolver, spsh_bytes written,
                                spsh__audio_file *ret_file, spsh_error *err)
{
    spsh__audio_resolver *r = resolver;
    spsh__audio_file file = {.found = SPSH__AUDIO_MISSING};
    /* Segments of one recording are adjacent, so one lookup serves them all. */
    if (r->have_last && spsh__bytes_equal(written, spsh__builder_bytes(&r->written))) {
        *ret_file = r->last;
        return SPSH_OK;
    }
    r->have_last = false;
    spsh__builder_clear(&r->written);
    spsh__builder_append_bytes(&r->written, written);
    spsh__builder_clear(&r->plain);
    spsh__audio_plain_path(r, written, &r->plain);
    if (is_remote(written))
        file.found = SPSH__AUDIO_REMOTE;
    else if (r->plain.size_bytes > 0 && memchr(written.data, '\0', written.size_bytes) == NULL)
        search_everywhere(r, &file);
    file.path = spsh__builder_text(&r->path);
    if (file.path == NULL || r->failed || r->written.failed || r->plain.failed)
        return SPSH_NO_MEMORY(err);
    r->last = file;
    r->have_last = true;
    *ret_file = file;
    return SPSH_OK;
}

bool spsh__audio_refused(const spsh__audio_file *audio, spsh_reject *ret_reject)
{
    static const spsh_reject_reason reasons[] = {
        [SPSH__AUDIO_MISSING] = SPSH_REJECT_MISSING_AUDIO,
        [SPSH__AUDIO_NOT_REGULAR] = SPSH_REJECT_NOT_REGULAR,
        [SPSH__AUDIO_UNREADABLE] = SPSH_REJECT_UNREADABLE,
        [SPSH__AUDIO_REMOTE] = SPSH_REJECT_REMOTE_SOURCE,
    };
    if (audio->found == SPSH__AUDIO_FOUND)
        return false;
    ret_reject->reason = reasons[audio->found];
    ret_reject->detail = NULL;
    if (audio->found == SPSH__AUDIO_REMOTE)
        ret_reject->detail = "only audio in files can be read; download it first";
    else if (audio->found == SPSH__AUDIO_UNREADABLE)
        ret_reject->detail = strerror(audio->os_errno);
    return true;
}

bool spsh__audio_stat_refused(int os_errno, const spsh__view_info *info, spsh_reject *ret_reject)
{
    spsh__audio_file audio = {.found = SPSH__AUDIO_FOUND, .os_errno = os_errno};
    if (os_errno != 0)
        audio.found = os_errno == ENOENT || os_errno == ENOTDIR ? SPSH__AUDIO_MISSING
                                                                : SPSH__AUDIO_UNREADABLE;
    else if (info->type != SPSH__VIEW_FILE)
        audio.found =
            info->type == SPSH__VIEW_FOLDER ? SPSH__AUDIO_MISSING : SPSH__AUDIO_NOT_REGULAR;
    return spsh__audio_refused(&audio, ret_reject);
}
