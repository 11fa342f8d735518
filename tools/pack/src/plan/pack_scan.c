/* pack_scan.c: a sink for the layouts that feeds three external sorts.
 *
 *     items    key:   hash order: u64be hash of the recording id, the id, 0, u64be sequence
 *                     source order: u64be sequence
 *     ids      key:   XXH3-128 of the utterance id
 *              value: sequence
 *     rejects  key:   u32be corpus, source, 0, u64be line
 *              value: the JSON line
 *
 * Adjacent ids with equal keys are duplicates: the first keeps the id. Two different ids collide
 * once in 10^22 datasets of 10^8 utterances.
 */
#include "pack_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "common/file_names.h"
#include "common/grow.h"
#include "ingest/layouts/corpus.h"
#include "ingest/layouts/layouts.h"
#include "ingest/scan/found_splits.h"
#include "origins.h"
#include "plan_item.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"
#include "speechshard/sorter.h"

struct spsh__plan_scan {
    const spsh_pack_options *options;
    const char *work_directory;
    const spsh__plan_unpacker *unpacker;
    spsh_sorter *items;
    spsh_sorter *ids;
    spsh_sorter *rejects;
    spsh__scan_counts counts; /* the last source is the source in progress */
    spsh__origins origins;
    size_t corpus;     /* index of the corpus in progress */
    const char *below; /* path of the source below its corpus; "" for the corpus itself */
    uint64_t sequence;
    uint64_t closed_members; /* archive members that cannot be read or are archives */
    char closed_member[240]; /* name of the first such member, and the reason */
    uint64_t *duplicates;    /* sequences, ascending */
    size_t duplicate_count;
    size_t duplicate_capacity;
    spsh__found_splits found_splits;
    spsh__builder key;
    spsh__builder value;
    spsh__builder path;
};

static void append_u64be(spsh__builder *out, uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
    spsh__builder_append(out, bytes, sizeof(bytes));
}

/* Return the path of a source's file relative to the corpus. The layout names the file relative to
 * the source. Borrowed until the next call. */
static spsh_bytes from_corpus(spsh__plan_scan *scan, spsh_bytes source)
{
    const bool elsewhere =
        source.size_bytes > 0 &&
        (source.data[0] == '/' || memmem(source.data, source.size_bytes, "://", 3) != NULL);
    if (scan->below[0] == '\0' || elsewhere)
        return source;
    spsh__builder_clear(&scan->path);
    spsh__name_append(&scan->path, spsh__bytes_of(scan->below));
    if (spsh__bytes_equal(source, spsh__bytes_of("."))) /* the file is the source itself */
        return spsh__builder_bytes(&scan->path);
    spsh__builder_append(&scan->path, "/", 1);
    spsh__builder_append_bytes(&scan->path, source);
    return spsh__builder_bytes(&scan->path);
}

static void say(const spsh__plan_scan *scan, spsh_log_level level, const char *format, ...)
    SPSH_PRINTF(3, 4);
static void say(const spsh__plan_scan *scan, spsh_log_level level, const char *format, ...)
{
    char line[512];
    va_list args;

    if (scan->options->log_fn == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    scan->options->log_fn(scan->options->user, level, line);
}

/* Return the source in progress. */
static spsh__source *last_source(spsh__plan_scan *scan)
{
    return &scan->counts.sources.items[scan->counts.sources.count - 1];
}

static spsh_status add_reject(spsh__plan_scan *scan, const spsh_reject *reject, spsh_error *err)
{
    spsh__builder_clear(&scan->key);
    spsh__builder_clear(&scan->value);
    append_u64be(&scan->key, scan->corpus);
    spsh__builder_append_bytes(&scan->key, reject->source);
    spsh__builder_append(&scan->key, "", 1);
    append_u64be(&scan->key, reject->line);
    spsh__reject_append(&scan->value, &scan->counts.rejects, reject);
    if (scan->key.failed || scan->value.failed)
        return SPSH_NO_MEMORY(err);
    return spsh_sorter_add(scan->rejects, spsh__builder_bytes(&scan->key),
                           spsh__builder_bytes(&scan->value), err);
}

static spsh_status on_reject(void *user, const spsh_reject *reject, spsh_error *err)
{
    spsh__plan_scan *scan = user;
    spsh_reject full = *reject;

    full.source = from_corpus(scan, reject->source);
    if (reject->reason == SPSH_REJECT_TRUNCATED && reject->rows == 0) /* a damaged manifest */
        say(scan, SPSH_LOG_WARNING, "%.*s: %s", (int)full.source.size_bytes,
            (const char *)full.source.data, reject->detail == NULL ? "" : reject->detail);
    if (scan->counts.sources.count > 0)
        last_source(scan)->rows.rejected += reject->rows;
    return scan->path.failed ? SPSH_NO_MEMORY(err) : add_reject(scan, &full, err);
}

static void on_rows(void *user, uint64_t merged, uint64_t excluded)
{
    spsh__plan_scan *scan = user;
    spsh__source_rows *rows = &last_source(scan)->rows;
    rows->merged += merged;
    rows->excluded += excluded;
}

static spsh_status on_note(void *user, const char *note, spsh_error *err)
{
    spsh__plan_scan *scan = user;
    return spsh__sources_note(&scan->counts.sources, note) ? SPSH_OK : SPSH_NO_MEMORY(err);
}

static void on_found(void *user, const spsh_ingest_item *item)
{
    spsh__plan_scan *scan = user;
    spsh__published_add(&scan->counts.published, item);
}

/* Return the reason why no dataset can hold the item, or NULL. All layouts need this check. */
static const char *flaw_of(const spsh_ingest_item *item, spsh_reject_reason *ret_reason)
{
    const spsh_bytes names[] = {item->domain, item->split, item->speaker, item->language,
                                item->document};

    *ret_reason = SPSH_REJECT_BAD_ID;
    if (item->id.size_bytes == 0 || item->recording_id.size_bytes == 0)
        return "the id is empty";
    if (item->id.size_bytes > SPSH_ID_BYTES_MAX ||
        item->recording_id.size_bytes > SPSH_ID_BYTES_MAX)
        return "the id is longer than 4096 bytes";
    if (!spsh__utf8_valid(item->id) || !spsh__utf8_valid(item->recording_id))
        return "the id is not UTF-8";
    *ret_reason = SPSH_REJECT_TEXT_TOO_LONG;
    if (item->text.size_bytes > SPSH_TEXT_BYTES_MAX ||
        item->extras.size_bytes > SPSH_TEXT_BYTES_MAX)
        return "the text is longer than 1 MiB";
    *ret_reason = SPSH_REJECT_TEXT_INVALID_UTF8;
    if (!spsh__utf8_valid(item->text) || !spsh__utf8_valid(item->extras))
        return "the text is not UTF-8";
    *ret_reason = SPSH_REJECT_ROW_SYNTAX;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].size_bytes > SPSH_NAME_BYTES_MAX || !spsh__utf8_valid(names[i]))
            return "a domain, split, speaker, language or document is not UTF-8 or longer than "
                   "1024 bytes";
    return NULL;
}

static spsh_status add_item(spsh__plan_scan *scan, const spsh_ingest_item *item, spsh_error *err)
{
    spsh__builder_clear(&scan->key);
    spsh__builder_clear(&scan->value);
    if (!scan->options->keeps_source_order) {
        append_u64be(&scan->key, spsh__pack_hash64(item->recording_id));
        spsh__builder_append_bytes(&scan->key, item->recording_id);
        spsh__builder_append(&scan->key, "", 1);
    }
    append_u64be(&scan->key, scan->sequence);
    spsh__item_append(&scan->value, item, scan->sequence);
    if (scan->key.failed || scan->value.failed)
        return SPSH_NO_MEMORY(err);
    return spsh_sorter_add(scan->items, spsh__builder_bytes(&scan->key),
                           spsh__builder_bytes(&scan->value), err);
}

static spsh_status on_emit(void *user, const spsh_ingest_item *item_in, spsh_error *err)
{
    spsh__plan_scan *scan = user;
    spsh_ingest_item full = *item_in;
    const spsh_ingest_item *item = &full;
    spsh_reject_reason reason = SPSH_REJECT_BAD_ID;
    uint8_t id_hash[16];

    const char *flaw = flaw_of(item, &reason);
    if (flaw != NULL) {
        const spsh_reject reject = {.reason = reason,
                                    .source = item->source,
                                    .id = item->id,
                                    .offset_bytes = SPSH_OFFSET_NONE,
                                    .detail = flaw,
                                    .rows = 1};
        return on_reject(scan, &reject, err);
    }
    full.source = from_corpus(scan, full.source);
    if (scan->path.failed)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = add_item(scan, item, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__pack_hash128(item->id, id_hash);
    rc = spsh_sorter_add(scan->ids, (spsh_bytes){id_hash, sizeof(id_hash)},
                         (spsh_bytes){(const uint8_t *)&scan->sequence, sizeof(scan->sequence)},
                         err);
    if (rc == SPSH_OK && !spsh__origins_see(&scan->origins, full.source, scan->sequence))
        return SPSH_NO_MEMORY(err);
    scan->sequence++;
    last_source(scan)->rows.offered++;
    spsh__published_add(&scan->counts.published, item);
    return rc;
}

static spsh_status on_progress(void *user, uint64_t files_seen, spsh_error *err)
{
    const spsh__plan_scan *scan = user;

    return spsh__pack_progress(scan->options, "scan", files_seen, 0, err);
}

/* True if several operands are files named like splits. Such files are tables of one corpus. */
static bool has_split_tables(const spsh_pack_options *options)
{
    size_t count = 0;
    for (size_t i = 0; i < options->corpus_count; i++) {
        const char *name = spsh__base_name(options->corpora[i]);
        const size_t stem = strcspn(name, ".");
        count +=
            name[stem] != '\0' && spsh__is_split_name((spsh_bytes){(const uint8_t *)name, stem});
    }
    return count > 1 && !options->ignores_split_names;
}

static spsh_status scan_source(spsh__plan_scan *scan, const spsh__view *view,
                               const spsh_layout *layout, const char *evidence, spsh_error *err)
{
    const spsh_pack_options *options = scan->options;
    const spsh_ingest_options ingest = {.view = view,
                                        .domain_rule = options->domain_rule,
                                        .split_filter = options->split_filter,
                                        .found_splits = &scan->found_splits,
                                        .key_to_last_dot = options->has_keys_to_last_dot,
                                        .no_split_names = options->ignores_split_names,
                                        .split_by_name = has_split_tables(options),
                                        .columns = options->column_rules,
                                        .column_count = options->column_rule_count};
    const spsh_ingest_sink sink = {on_emit, on_reject, on_progress, on_rows,
                                   on_note, on_found,  scan};

    if (options->column_rule_count > 0 && !layout->takes_columns)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: column_rules is only for tables, but this is read as %s; choose "
                         "layout_name table to read it as a table",
                         spsh__view_root(view), layout->name);
    if (!spsh__sources_add(&scan->counts.sources, scan->corpus, scan->below, layout->name,
                           evidence))
        return SPSH_NO_MEMORY(err);
    last_source(scan)->first_sequence = scan->sequence;
    spsh__published_begin(&scan->counts.published, layout->name);
    spsh__origins_begin(&scan->origins, scan->options->corpora[scan->corpus]);
    spsh_status rc = spsh__view_index_archives(view, err);
    return rc == SPSH_OK ? spsh__layout_scan(layout, &ingest, &sink, err) : rc;
}

/* Report every folder or file that was found but is not packed. No rows are lost. */
static spsh_status report_leftovers(spsh__plan_scan *scan, const spsh__view *view,
                                    const spsh__corpus *corpus, spsh_error *err)
{
    const char *root = spsh__view_root(view);
    spsh_status rc = SPSH_OK;

    scan->below = "";
    for (size_t i = 0; i < corpus->leftover_count && rc == SPSH_OK; i++) {
        const spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                                    .source = spsh__bytes_of(corpus->leftovers[i].below),
                                    .offset_bytes = SPSH_OFFSET_NONE,
                                    .detail = corpus->leftovers[i].detail};
        say(scan, SPSH_LOG_WARNING, "%s: %s %s", root, corpus->leftovers[i].below,
            corpus->leftovers[i].detail);
        rc = on_reject(scan, &reject, err);
    }
    if (corpus->cut_short)
        say(scan, SPSH_LOG_WARNING,
            "%s: the folder has more subfolders than are searched for corpora; check the list "
            "above, and give missing corpora separately",
            root);
    return rc;
}

static spsh_status scan_found(spsh__plan_scan *scan, const spsh__view *view,
                              const spsh__corpus_source *source, spsh_error *err)
{
    spsh__view *below = NULL;
    spsh_status rc = SPSH_OK;

    if (source->below[0] != '\0')
        rc = spsh__view_below(view, source->below, &below, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__view *root = below == NULL ? view : below;
    scan->below = source->below;
    say(scan, SPSH_LOG_INFO, "%s: recognized as %s because %s", spsh__view_root(root),
        source->layout->name, source->probe.evidence);
    rc = scan_source(scan, root, source->layout, source->probe.evidence, err);
    scan->below = "";
    spsh__view_close(below);
    return rc;
}

static spsh_status scan_view(spsh__plan_scan *scan, const spsh__view *view, spsh_error *err)
{
    spsh__corpus corpus = {0};

    if (scan->options->layout_name != NULL) {
        const spsh_layout *layout = spsh__layout_find(scan->options->layout_name);
        if (layout == NULL)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "no layout is named %s",
                             scan->options->layout_name);
        if (spsh__view_file(view) != NULL && !layout->reads_file)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "%s: layout_name %s reads a folder or an archive, but this is a file; "
                             "give its folder",
                             spsh__view_root(view), layout->name);
        say(scan, SPSH_LOG_INFO, "%s: read as %s, as requested", spsh__view_root(view),
            layout->name);
        return scan_source(scan, view, layout, "--layout says so", err);
    }
    spsh_status rc = spsh__corpus_find(view, &corpus, err);
    spsh__view_scan_begins(view); /* reads by the layout detection do not count */
    for (size_t i = 0; i < corpus.source_count && rc == SPSH_OK; i++)
        rc = scan_found(scan, view, &corpus.sources[i], err);
    if (rc == SPSH_OK)
        rc = report_leftovers(scan, view, &corpus, err);
    spsh__corpus_free(&corpus);
    return rc;
}

/* Report an archive problem as a reject. It does not count as a lost row: the layout counts each
 * row whose metadata name a missing file. */
static spsh_status on_problem(void *user, const spsh__view_problem *problem, spsh_error *err)
{
    static const spsh_reject_reason reasons[] = {
        [SPSH__VIEW_DUP_MEMBER] = SPSH_REJECT_DUP_MEMBER,
        [SPSH__VIEW_BAD_MEMBER] = SPSH_REJECT_BAD_MEMBER,
        [SPSH__VIEW_ARCHIVE_TRUNCATED] = SPSH_REJECT_TRUNCATED,
        [SPSH__VIEW_ARCHIVE_BAD] = SPSH_REJECT_BAD_CONTAINER,
        [SPSH__VIEW_ARCHIVE_UNREADABLE] = SPSH_REJECT_UNREADABLE,
        [SPSH__VIEW_ARCHIVE_UNPACKED] = SPSH_REJECT_EXCLUDED_BY_RULE,
        [SPSH__VIEW_ARCHIVE_NESTED] = SPSH_REJECT_EXCLUDED_BY_RULE,
    };
    spsh__plan_scan *scan = user;
    const bool is_loss = problem->kind != SPSH__VIEW_DUP_MEMBER &&
                         problem->kind != SPSH__VIEW_ARCHIVE_UNPACKED &&
                         problem->kind != SPSH__VIEW_ARCHIVE_NESTED;
    const spsh_reject reject = {.reason = reasons[problem->kind],
                                .source = spsh__bytes_of(problem->path),
                                .offset_bytes = SPSH_OFFSET_NONE,
                                .detail = problem->detail};

    if (is_loss && scan->options->is_strict)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: %s; is_strict allows no loss", problem->path,
                         problem->detail);
    const bool is_closed =
        problem->kind == SPSH__VIEW_BAD_MEMBER || problem->kind == SPSH__VIEW_ARCHIVE_NESTED;
    if (is_closed && scan->closed_members++ == 0)
        (void)snprintf(scan->closed_member, sizeof(scan->closed_member), "%s: %s", problem->path,
                       problem->detail);
    if (is_loss && !is_closed)
        say(scan, SPSH_LOG_WARNING, "%s: %s", problem->path, problem->detail);
    return add_reject(scan, &reject, err);
}

static spsh_status on_unpack(void *user, uint64_t done_bytes, uint64_t total_bytes, spsh_error *err)
{
    const spsh__plan_scan *scan = user;
    return spsh__pack_progress(scan->options, "unpack", done_bytes, total_bytes, err);
}

static spsh_status on_unpack_all(void *user, spsh__packed_archive *archives, size_t count,
                                 spsh_error *err)
{
    const spsh__plan_unpacker *unpacker = ((const spsh__plan_scan *)user)->unpacker;
    return unpacker->unpack_all_fn(unpacker->user, archives, count, err);
}

static spsh_status scan_corpus(spsh__plan_scan *scan, const char *root, spsh_error *err)
{
    const spsh__view_observer observer = {on_problem, on_unpack, on_unpack_all, scan};
    const spsh__view_options options = {.root = root,
                                        .scratch_directory = scan->work_directory,
                                        .follow_links = scan->options->follows_links,
                                        .io = scan->options->io,
                                        .observer = &observer};
    spsh__view *view = NULL;
    spsh_status rc = spsh__view_open(&options, &view, err);

    scan->below = "";
    if (scan->closed_members > 0)
        say(scan, SPSH_LOG_WARNING, "%s: %llu archive member%s not opened, the first: %s", root,
            (unsigned long long)scan->closed_members, scan->closed_members == 1 ? " was" : "s were",
            scan->closed_member);
    scan->closed_members = 0;
    if (rc == SPSH_OK)
        rc = scan_view(scan, view, err);
    if (rc == SPSH_OK)
        rc = spsh__view_scan_ends(view, &observer, err);
    /* A failure of a file server may be the cause of another error, such as an unknown layout. */
    if (view != NULL && rc != SPSH_E_CANCELED && rc != SPSH_E_NO_MEMORY) {
        const spsh_status failed = spsh__view_check(view, err);
        rc = failed != SPSH_OK ? failed : rc;
    }
    spsh__view_close(view);
    return rc;
}

/* Report parts of known releases that are incomplete. No row is lost. */
static spsh_status report_published(spsh__plan_scan *scan, spsh_error *err)
{
    char line[SPSH__PUBLISHED_LINE_BYTES];
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; i < spsh__published_count() && rc == SPSH_OK; i++) {
        const uint64_t found = scan->counts.published.utterances[i];
        if (found == 0 || !spsh__published_differs(i, found))
            continue;
        const spsh_reject reject = {.reason = SPSH_REJECT_COUNT_MISMATCH,
                                    .source = spsh__bytes_of("."),
                                    .offset_bytes = SPSH_OFFSET_NONE,
                                    .detail = spsh__published_line(i, found, line)};
        say(scan, SPSH_LOG_WARNING, "%s", line);
        rc = add_reject(scan, &reject, err);
    }
    return rc;
}

static spsh_status push_duplicate(spsh__plan_scan *scan, uint64_t sequence, spsh_error *err)
{
    if (!SPSH_GROW(scan->duplicates, scan->duplicate_capacity, scan->duplicate_count + 1))
        return SPSH_NO_MEMORY(err);
    scan->duplicates[scan->duplicate_count++] = sequence;
    return SPSH_OK;
}

/* Find the sequences of all items whose id an earlier item has. */
static spsh_status find_duplicates(spsh__plan_scan *scan, spsh_error *err)
{
    uint8_t previous[16];
    uint64_t holder = UINT64_MAX; /* the first item with that id; UINT64_MAX: no item yet */
    spsh_bytes key = {NULL, 0};
    spsh_bytes value = {NULL, 0};
    spsh_status rc = SPSH_OK;

    while ((rc = spsh_sorter_next(scan->ids, &key, &value, err)) == SPSH_OK) {
        uint64_t sequence = 0;
        memcpy(&sequence, value.data, sizeof(sequence));
        if (holder != UINT64_MAX && memcmp(previous, key.data, sizeof(previous)) == 0) {
            spsh__origins_share(&scan->origins, holder, sequence);
            rc = push_duplicate(scan, sequence, err);
            if (rc != SPSH_OK)
                return rc;
        } else {
            holder = sequence;
            memcpy(previous, key.data, sizeof(previous));
        }
    }
    spsh_sorter_free(scan->ids);
    scan->ids = NULL;
    if (rc != SPSH_E_END)
        return rc;
    if (scan->duplicate_count > 0)
        qsort(scan->duplicates, scan->duplicate_count, sizeof(uint64_t), spsh__compare_u64);
    return SPSH_OK;
}

static void report_shared_ids(const spsh__plan_scan *scan)
{
    for (size_t i = 0; i < scan->origins.pair_count; i++) {
        const spsh__origin_pair *pair = &scan->origins.pairs[i];
        say(scan, SPSH_LOG_WARNING, "%llu %s of %.*s %s in %.*s too: two releases of one corpus?",
            (unsigned long long)pair->ids, pair->ids == 1 ? "id" : "ids",
            (int)pair->later.size_bytes, (const char *)pair->later.data,
            pair->ids == 1 ? "is" : "are", (int)pair->earlier.size_bytes,
            (const char *)pair->earlier.data);
    }
}

static spsh_status open_sorters(spsh__plan_scan *scan, const char *work_directory, spsh_error *err)
{
    spsh_sorter_options options = SPSH_SORTER_OPTIONS_INIT;
    spsh_status rc = SPSH_OK;

    options.io = scan->options->io;
    options.directory = work_directory;
    options.memory_bytes = scan->options->memory_bytes / 2;
    rc = spsh_sorter_open(&options, &scan->items, err);
    options.memory_bytes = scan->options->memory_bytes / 4;
    if (rc == SPSH_OK)
        rc = spsh_sorter_open(&options, &scan->ids, err);
    options.memory_bytes = scan->options->memory_bytes / 8;
    if (rc == SPSH_OK)
        rc = spsh_sorter_open(&options, &scan->rejects, err);
    return rc;
}

spsh_status spsh__plan_scan_run(const spsh_pack_options *options, const char *work_directory,
                                const spsh__plan_unpacker *unpacker, spsh__plan_scan **ret_scan,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__plan_scan *scan = calloc(1, sizeof(*scan));

    if (scan == NULL)
        return SPSH_NO_MEMORY(err);
    scan->options = options;
    scan->work_directory = work_directory;
    scan->unpacker = unpacker;
    scan->below = "";
    rc = open_sorters(scan, work_directory, err);
    for (scan->corpus = 0; rc == SPSH_OK && scan->corpus < options->corpus_count; scan->corpus++)
        rc = scan_corpus(scan, options->corpora[scan->corpus], err);
    if (rc == SPSH_OK && options->split_filter != NULL)
        rc = spsh__found_splits_check(&scan->found_splits, options->split_filter, err);
    if (rc == SPSH_OK)
        rc = report_published(scan, err);
    if (rc == SPSH_OK)
        rc = find_duplicates(scan, err);
    if (rc == SPSH_OK) {
        report_shared_ids(scan);
        *ret_scan = scan;
        scan = NULL;
    }
    spsh__plan_scan_free(scan);
    return rc;
}

spsh__scan_counts *spsh__plan_scan_counts(spsh__plan_scan *scan)
{
    return &scan->counts;
}

static spsh_status reject_duplicate(spsh__plan_scan *scan, const spsh_ingest_item *item,
                                    uint64_t sequence, spsh_error *err)
{
    spsh__sources *sources = &scan->counts.sources;
    spsh__source_rows *rows = &sources->items[spsh__sources_of(sources, sequence)].rows;
    const spsh_reject reject = {.reason = SPSH_REJECT_DUP_ID,
                                .source = item->source,
                                .id = item->id,
                                .offset_bytes = SPSH_OFFSET_NONE,
                                .detail = "another utterance has this id",
                                .rows = 1};
    rows->rejected++;
    rows->repeated++;
    return add_reject(scan, &reject, err);
}

spsh_status spsh__plan_scan_next(spsh__plan_scan *scan, spsh_bytes *ret_bytes,
                                 spsh_ingest_item *ret_item, spsh_error *err)
{
    for (;;) {
        spsh_bytes key = {NULL, 0};
        uint64_t sequence = 0;
        spsh_status rc = spsh_sorter_next(scan->items, &key, ret_bytes, err);
        if (rc != SPSH_OK)
            return rc;
        if (!spsh__item_read(*ret_bytes, ret_item, &sequence))
            return SPSH_FAIL(err, SPSH_E_CORRUPT, "a temporary file of the sort is damaged");
        if (scan->duplicate_count == 0 ||
            bsearch(&sequence, scan->duplicates, scan->duplicate_count, sizeof(uint64_t),
                    spsh__compare_u64) == NULL)
            return SPSH_OK;
        rc = reject_duplicate(scan, ret_item, sequence, err);
        if (rc != SPSH_OK)
            return rc;
    }
}

spsh_status spsh__plan_scan_next_reject(spsh__plan_scan *scan, spsh_bytes *ret_line,
                                        spsh_error *err)
{
    spsh_bytes key = {NULL, 0};
    return spsh_sorter_next(scan->rejects, &key, ret_line, err);
}

void spsh__plan_scan_free(spsh__plan_scan *scan)
{
    if (scan == NULL)
        return;
    spsh_sorter_free(scan->items);
    spsh_sorter_free(scan->ids);
    spsh_sorter_free(scan->rejects);
    spsh__sources_free(&scan->counts.sources);
    spsh__origins_free(&scan->origins);
    spsh__found_splits_free(&scan->found_splits);
    free(scan->duplicates);
    spsh__builder_free(&scan->key);
    spsh__builder_free(&scan->value);
    spsh__builder_free(&scan->path);
    free(scan);
}
