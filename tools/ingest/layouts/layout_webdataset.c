/* layout_webdataset.c: archives whose members form samples by key: audio with a text, a .json, or
 * both. Also the stream that `pack -` reads (docs/reference/STREAM.md).
 *
 * Audio with text files may also be a packed folder, which is another layout. It is WebDataset only
 * if the archives are numbered. A .json for the audio is sufficient evidence without numbers.
 * Archives of folders have any file order, but WebDataset keeps samples together. So at least half
 * of the first samples with audio must be complete.
 */
#include "common/file_names.h"
#include "ingest/metadata/sample_scan.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define PROBE_ARCHIVES    ((size_t)4)
#define PROBE_SAMPLES     4096U
#define PROBE_AUDIO       64U
#define NUMBER_DIGITS_MIN ((size_t)3)
#define SHOWN_BYTES       ((size_t)40)

typedef struct sample_count {
    unsigned samples, audio, with_json, with_other;
    const char *archive;
    spsh_layout_probe *probe;
} sample_count;

static int shown(spsh_bytes name)
{
    return (int)(name.size_bytes < SHOWN_BYTES ? name.size_bytes : SHOWN_BYTES);
}

static spsh_status count_sample(void *user, const spsh__sample *sample, spsh_error *err)
{
    sample_count *c = user;
    const spsh__sample_roles roles = spsh__sample_roles_of(sample);
    const spsh__sample_part *other = roles.json != NULL ? roles.json : roles.text;
    (void)err;
    c->samples++;
    c->audio += roles.audio != NULL;
    if (roles.audio != NULL && other != NULL) {
        c->with_json += roles.json != NULL;
        if (c->with_other++ == 0)
            spsh__probe_evidence(c->probe, "its archive%s%.60s has samples such as %.*s with %.*s",
                                 c->archive[0] == '\0' ? "" : " ", c->archive,
                                 shown(roles.audio->name), (const char *)roles.audio->name.data,
                                 shown(other->name), (const char *)other->name.data);
    }
    return c->samples == PROBE_SAMPLES || c->audio == PROBE_AUDIO ? SPSH_E_END : SPSH_OK;
}

static spsh_status probe_archive(const spsh__view *view, const char *archive, bool has_others,
                                 spsh_layout_probe *ret_probe, spsh_error *err)
{
    sample_count c = {.probe = ret_probe};
    const spsh__sample_sink sink = {count_sample, NULL, &c};
    spsh__builder name = {0};
    spsh_status rc = SPSH_OK;
    c.archive = spsh__sample_archive_name(view, archive, &name);
    if (c.archive == NULL)
        return SPSH_NO_MEMORY(err);
    const size_t digits = spsh__sample_number_digits(c.archive);
    const bool numbered = digits >= NUMBER_DIGITS_MIN || (digits > 0 && has_others);
    rc = spsh__samples_read(view, archive, false, &sink, err);
    const unsigned whole = numbered ? c.with_other : c.with_json;
    ret_probe->matches = c.audio > 0 && 2 * whole >= c.audio;
    spsh__builder_free(&name);
    return rc == SPSH_E_NO_MEMORY ? rc : SPSH_OK; /* the scan reports unreadable archives */
}

static spsh_status webdataset_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                    spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < PROBE_ARCHIVES && rc == SPSH_OK && !ret_probe->matches; i++) {
        const char *archive = spsh__view_archive(view, i);
        if (archive == NULL)
            break;
        rc = probe_archive(view, archive, i > 0 || spsh__view_archive(view, 1) != NULL, ret_probe,
                           err);
    }
    return rc;
}

static const char *nth_archive(const void *user, size_t number, spsh_bytes *ret_split)
{
    (void)ret_split;
    return spsh__view_archive(user, number);
}

static spsh_status webdataset_scan(spsh__scan *scan, spsh_error *err)
{
    const spsh__sample_set set = {.archive_fn = nth_archive, .user = scan->options->view};
    if (spsh__view_archive(scan->options->view, 0) == NULL)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: holds no archive",
                         spsh__view_root(scan->options->view));
    return spsh__sample_scan(scan, &set, err);
}

const spsh_layout spsh__layout_webdataset = {
    .name = "webdataset",
    .summary = "WebDataset: tars with samples of audio, text and JSON; the stream of `pack -`",
    .tier = SPSH_LAYOUT_ARCHIVE,
    .probe_fn = webdataset_probe,
    .scan_fn = webdataset_scan,
};
