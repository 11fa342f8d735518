/* layout_ljspeech.c: a table with pipes and without a header, and the audio that it names, as in LJ
 * Speech and in the file lists of text-to-speech recipes.
 *
 *     metadata.csv          LJ001-0001|in 1455|in fourteen fifty-five   text as printed, as spoken
 *     wavs/LJ001-0001.wav
 *     train.txt             wavs/a.wav|hello                            or path|speaker number|text
 *
 * In a folder, the table is metadata.csv or metadata.txt. Any other table must be named by the
 * user. The extension proves nothing, because .csv suggests commas. The evidence is in the rows:
 * two or three fields each, and existing audio for one of the first rows.
 */
#include "ingest/metadata/table_scan.h"
#include "layouts.h"
#include "speechshard/inside.h"

static const char *const names[] = {"metadata.csv", "metadata.txt"};

/* Find the table of a view. *ret_name is NULL without one. */
static spsh_status find_table(const spsh__view *view, const char **ret_name,
                              spsh_layout_probe *ret_probe, spsh_error *err)
{
    const char *file = spsh__view_file(view);
    const size_t count = file != NULL ? 1 : sizeof(names) / sizeof(names[0]);
    *ret_name = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = file != NULL ? file : names[i];
        if (!spsh__view_has_file(view, name))
            continue;
        spsh_status rc =
            spsh__table_probe(view, name, SPSH__TABLE_NO_HEADER, false, ret_probe, NULL, err);
        if (rc != SPSH_OK || ret_probe->matches) {
            *ret_name = name;
            return rc;
        }
    }
    return SPSH_OK;
}

static spsh_status ljspeech_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                  spsh_error *err)
{
    const char *name = NULL;
    /* An unreadable file does not match. The layout that reads it reports the error. */
    spsh_status rc = find_table(view, &name, ret_probe, err);
    return rc == SPSH_E_NO_MEMORY ? rc : SPSH_OK;
}

static spsh_status ljspeech_scan(spsh__scan *scan, spsh_error *err)
{
    spsh_layout_probe probe = {0};
    const char *name = NULL;
    spsh_status rc = find_table(scan->options->view, &name, &probe, err);
    if (rc != SPSH_OK)
        return rc;
    if (name == NULL)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "%s: holds no metadata.csv with two or three fields between pipes "
                         "and audio for its first rows",
                         spsh__view_root(scan->options->view));
    return spsh__table_scan(scan, name, SPSH__TABLE_NO_HEADER, err);
}

const spsh_layout spsh__layout_ljspeech = {
    .name = "ljspeech",
    .summary = "metadata.csv without a header: audio|text, or audio|text as printed|as spoken",
    .tier = SPSH_LAYOUT_TABLE,
    .reads_file = true,
    .probe_fn = ljspeech_probe,
    .scan_fn = ljspeech_scan,
};
