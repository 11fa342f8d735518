/* ffmpeg.c: open the plug-in, and choose the demuxer. FFmpeg's own probing is not used: it would
 * try some hundred parsers on hostile bytes, and open playlists and images as well.
 */
#include "speechshard/ffmpeg.h"

#include <dlfcn.h>
#include <string.h>
#include <strings.h>

#include "base/base_internal.h"
#include "base/plugin_load.h"
#include "speechshard/ffmpeg_plugin.h"
#include "speechshard/limits.h"
#include "speechshard/options.h"

enum { HEAD_BYTES = 4096 };

struct spsh_ffmpeg {
    void *library;
    const spsh__ffmpeg_plugin *plugin;
};

static const struct {
    size_t offset;
    size_t size;
    const char *magic;
    const char *demuxer;
} kinds[] = {
    {4, 4, "ftyp",             "mov"     },
    {0, 4, "\x1a\x45\xdf\xa3", "matroska"},
    {0, 4, "\x30\x26\xb2\x75", "asf"     },
    {0, 5, "#!AMR",            "amr"     },
    {0, 4, "FORM",             "aiff"    },
    {0, 4, "caff",             "caf"     },
    {0, 2, "\xff\xf1",         "aac"     },
    {0, 2, "\xff\xf9",         "aac"     },
};

static bool ends_with(const char *name, const char *extension)
{
    const size_t size = name == NULL ? 0 : strlen(name);
    return size > strlen(extension) && strcasecmp(name + size - strlen(extension), extension) == 0;
}

/* SPHERE that is not compressed needs no FFmpeg. Its header, which may name shorten, is text. */
static bool is_shortened_sphere(const uint8_t *head, size_t head_bytes)
{
    static const char coding[] = "pcm,embedded-shorten";
    const size_t searched = head_bytes < HEAD_BYTES ? head_bytes : HEAD_BYTES;
    return head_bytes >= 8 && memcmp(head, "NIST_1A\n", 8) == 0 &&
           memmem(head, searched, coding, sizeof(coding) - 1) != NULL;
}

static const char *choose_demuxer(const uint8_t *head, size_t head_bytes, const char *name)
{
    if (is_shortened_sphere(head, head_bytes))
        return "nistsphere";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (head_bytes >= kinds[i].offset + kinds[i].size &&
            memcmp(head + kinds[i].offset, kinds[i].magic, kinds[i].size) == 0)
            return kinds[i].demuxer;
    return ends_with(name, ".g722") && head_bytes > 0 ? "g722" : NULL;
}

bool spsh_ffmpeg_sniff(const void *head, size_t head_bytes, const char *name)
{
    return head != NULL && choose_demuxer((const uint8_t *)head, head_bytes, name) != NULL;
}

static spsh_status greet(spsh_ffmpeg *ffmpeg, spsh_error *err)
{
    spsh__ffmpeg_plugin_fn *plugin_fn = NULL;
    void *symbol = dlsym(ffmpeg->library, SPSH__FFMPEG_PLUGIN_SYMBOL);
    if (symbol == NULL)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the file that was loaded is no FFmpeg plug-in: it has no symbol %s",
                         SPSH__FFMPEG_PLUGIN_SYMBOL);
    memcpy(&plugin_fn, &symbol, sizeof(plugin_fn));
    ffmpeg->plugin = plugin_fn();
    if (ffmpeg->plugin->abi != SPSH__FFMPEG_ABI)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the FFmpeg plug-in speaks version %u of its interface, this library %u: "
                         "install both from one build",
                         ffmpeg->plugin->abi, (unsigned)SPSH__FFMPEG_ABI);
    if (strcmp(ffmpeg->plugin->version, SPSH_VERSION_STRING) != 0)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the FFmpeg plug-in is of version %.40s, this library of %s: install both "
                         "from one build",
                         ffmpeg->plugin->version, SPSH_VERSION_STRING);
    return SPSH_OK;
}

spsh_status spsh_ffmpeg_open(const char *path, spsh_ffmpeg **ret_ffmpeg, spsh_error *err)
{
    if (ret_ffmpeg == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "ret_ffmpeg must be given");
    spsh_ffmpeg *ffmpeg = spsh__new(spsh_allocator_default(), 1, sizeof(*ffmpeg));
    if (ffmpeg == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        spsh__plugin_load(path, SPSH_FFMPEG_PLUGIN_NAME, "FFmpeg", &ffmpeg->library, err);
    if (rc == SPSH_OK)
        rc = greet(ffmpeg, err);
    if (rc == SPSH_OK)
        *ret_ffmpeg = ffmpeg;
    else
        spsh_ffmpeg_close(ffmpeg);
    return rc;
}

void spsh_ffmpeg_close(spsh_ffmpeg *ffmpeg)
{
    if (ffmpeg == NULL)
        return;
    if (ffmpeg->library != NULL)
        (void)dlclose(ffmpeg->library);
    spsh__free(spsh_allocator_default(), ffmpeg);
}

const char *spsh_ffmpeg_versions(const spsh_ffmpeg *ffmpeg)
{
    return ffmpeg->plugin->libraries;
}

spsh_status spsh_ffmpeg_decode(const spsh_ffmpeg *ffmpeg, spsh_bytes file, const char *name,
                               spsh_pcm_sink_fn sink, void *user, spsh_decode_result *ret_result,
                               spsh_error *err)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    const char *demuxer = choose_demuxer(file.data, file.size_bytes, name);
    spsh_status rc = spsh_result_check(ret_result, sizeof(result), err);
    if (rc != SPSH_OK)
        return rc;
    if (demuxer == NULL)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "not of a kind that the FFmpeg plug-in reads");
    const spsh__ffmpeg_job job = {file, demuxer, SPSH_PCM_BYTES_MAX, sink, user};
    rc = ffmpeg->plugin->decode_fn(&job, &result, err);
    if (rc == SPSH_OK)
        spsh_result_give(ret_result, &result, sizeof(result));
    return rc;
}
