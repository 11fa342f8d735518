/* pack_view.c: see pack_view.h. */
#include "pack_view.h"

#include <string.h>

static void on_counts(void *user, uint64_t utterances, uint64_t rejected_rows)
{
    spsh__pack_view *view = (spsh__pack_view *)user;
    view->utterances = utterances;
    view->rejected_rows = rejected_rows;
}

/* Begin a new progress line for a phase of spsh_pack. */
static void begin_phase(spsh__pack_view *view, const char *phase, uint64_t total)
{
    static const struct {
        const char *phase, *label, *unit;
    } known[] = {
        {"unpack", "unpack", "B"},
        {"scan", "scan", "files"},
        {"pack", "pack", "B"},
        {"names", "merge: names", "shards"},
        {"records", "merge: records", "shards"},
        {"groups", "merge: groups", "records"},
        {"copies", "merge: copies", "pairs"},
        {"index", "merge: index", "shards"},
        {"ids", "merge: ids", "utterances"},
        {"views", "merge: views", "entries"},
    };
    const char *label = phase, *unit = "";
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].phase, phase) == 0) {
            label = known[i].label;
            unit = known[i].unit;
        }
    }
    if (view->phase != NULL)
        spsh__progress_end(&view->line);
    view->phase = phase;
    spsh__progress_begin(&view->line, label, unit, total);
}

static int on_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    spsh__pack_view *view = (spsh__pack_view *)user;
    char text[96];

    if (strcmp(phase, "wait") == 0)
        return *spsh__cli_interrupted();
    if (view->phase == NULL || strcmp(view->phase, phase) != 0)
        begin_phase(view, phase, total);
    (void)snprintf(text, sizeof(text), "%s utterances, %s rejected",
                   SPSH_SHOW_COUNT(view->utterances), SPSH_SHOW_COUNT(view->rejected_rows));
    spsh__progress_update(&view->line, done, strcmp(phase, "pack") == 0 ? text : NULL);
    return *spsh__cli_interrupted();
}

void spsh__pack_view_begin(spsh__pack_view *view, spsh_pack_options *options)
{
    *view = (spsh__pack_view){.phase = NULL};
    options->log_fn = spsh__cli_log;
    options->progress_fn = on_progress;
    options->counts_fn = on_counts;
    options->user = view;
    spsh__cli_watch_signals();
}

void spsh__pack_view_end(spsh__pack_view *view)
{
    if (view->phase != NULL)
        spsh__progress_end(&view->line);
}
