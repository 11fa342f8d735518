/* scan.c: see scan.h. */
#include "scan.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "common/file_names.h"
#include "found_splits.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"

#define EXCERPT_BYTES_MAX  ((size_t)200)
#define PROGRESS_FILES     UINT64_C(1024)
#define DOMAIN_DEFAULT     "default"
#define DIRECTORY_RULE_MAX 1000

static spsh_status parse_domain_rule(spsh__scan *scan, const char *rule, spsh_error *err)
{
    if (rule == NULL)
        return SPSH_OK;
    if (strncmp(rule, "column:", 7) == 0 && rule[7] != '\0') {
        scan->domain_rule = SPSH__DOMAIN_COLUMN;
        scan->domain_name = spsh__bytes_of(rule + 7);
        return SPSH_OK;
    }
    if (strncmp(rule, "dir:", 4) == 0) {
        const char *digits = rule + 4 + (rule[4] == '-');
        uint64_t level = 0;
        if (!spsh__take_digits(&digits, DIRECTORY_RULE_MAX, &level) || *digits != '\0' ||
            level == 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "domain rule '%s': write dir:1 for the first folder below the corpus, "
                             "or dir:-1 for the folder that holds the file",
                             rule);
        scan->domain_rule = SPSH__DOMAIN_DIRECTORY;
        scan->domain_directory = rule[4] == '-' ? -(long)level : (long)level;
        return SPSH_OK;
    }
    scan->domain_rule = SPSH__DOMAIN_NAME;
    scan->domain_name = spsh__bytes_of(rule);
    if (rule[0] == '\0' || scan->domain_name.size_bytes > SPSH_NAME_BYTES_MAX ||
        !spsh__utf8_valid(scan->domain_name) || strcmp(rule, "column:") == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "domain rule '%.60s': write a name, dir:N or column:NAME", rule);
    return SPSH_OK;
}

spsh_status spsh__scan_begin(spsh__scan *scan, const spsh_ingest_options *options,
                             const spsh_ingest_sink *sink, spsh_error *err)
{
    *scan = (spsh__scan){.options = options, .sink = sink};
    return parse_domain_rule(scan, options->domain_rule, err);
}

spsh_status spsh__scan_refuse_split(const spsh__scan *scan, const char *layout, spsh_error *err)
{
    if (scan->options->split_filter == NULL)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "%s: %s has no splits, so none can be selected; set no split_filter, or give "
                     "a table with a split column",
                     spsh__view_root(scan->options->view), layout);
}

spsh_status spsh__scan_refuse_column(const spsh__scan *scan, const char *layout, spsh_error *err)
{
    if (scan->domain_rule != SPSH__DOMAIN_COLUMN)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "%s: %s has no columns; domain rule 'column:' is for tables, write a "
                     "name or dir:N",
                     spsh__view_root(scan->options->view), layout);
}

bool spsh__scan_wants_split(const spsh__scan *scan, spsh_bytes split)
{
    const char *list = scan->options->split_filter;
    spsh_bytes name = {NULL, 0};
    bool wanted = false;
    if (list == NULL)
        return true;
    while (!wanted && spsh__found_splits_next(&list, &name))
        wanted = spsh__bytes_equal(name, split);
    if (scan->options->found_splits != NULL)
        spsh__found_splits_add(scan->options->found_splits, split, wanted);
    return wanted;
}

bool spsh__scan_wants_either(const spsh__scan *scan, spsh_bytes split, spsh_bytes name)
{
    const bool wants_split = spsh__scan_wants_split(scan, split);
    return spsh__scan_wants_split(scan, name) || wants_split;
}

static spsh_bytes nth_directory(spsh_bytes path, long level)
{
    long count = 0;
    for (size_t i = 0; i < path.size_bytes; i++)
        count += path.data[i] == '/';
    const bool absolute = path.size_bytes > 0 && path.data[0] == '/';
    long wanted = level > 0 ? level + absolute : count + level + 1;
    if (wanted <= absolute || wanted > count)
        return (spsh_bytes){0};
    size_t begin = 0;
    for (long i = 1; i < wanted; i++) {
        while (path.data[begin] != '/')
            begin++;
        begin++;
    }
    size_t end = begin;
    while (path.data[end] != '/')
        end++;
    return (spsh_bytes){path.data + begin, end - begin};
}

static void apply_domain_rule(const spsh__scan *scan, spsh_ingest_item *item)
{
    if (scan->domain_rule == SPSH__DOMAIN_NAME)
        item->domain = scan->domain_name;
    else if (scan->domain_rule == SPSH__DOMAIN_DIRECTORY)
        item->domain = nth_directory(item->source, scan->domain_directory);
    if (item->domain.size_bytes == 0)
        item->domain = spsh__bytes_of(DOMAIN_DEFAULT);
}

static bool has_control(spsh_bytes text)
{
    for (size_t i = 0; i < text.size_bytes; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f)
            return true;
    }
    return false;
}

/* Whether a text has a control character other than TAB and line feed, or a byte order mark, which
 * is not readable text. A first pass without branches detects candidates. */
static bool text_has_control(spsh_bytes text)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};
    unsigned control = 0;
    unsigned first = 0;
    for (size_t i = 0; i < text.size_bytes; i++) {
        const uint8_t byte = text.data[i];
        control |= (unsigned)(byte < 0x20) & (unsigned)(byte != '\t') & (unsigned)(byte != '\n');
        control |= (unsigned)(byte == 0x7f);
        first |= (unsigned)(byte == mark[0]);
    }
    return control != 0 ||
           (first != 0 && memmem(text.data, text.size_bytes, mark, sizeof(mark)) != NULL);
}

static const char *name_problem(const spsh_ingest_item *item)
{
    const struct {
        spsh_bytes value;
        const char *problem;
    } names[] = {
        {item->domain,   "domain is not valid UTF-8 or is too long"  },
        {item->split,    "split is not valid UTF-8 or is too long"   },
        {item->speaker,  "speaker is not valid UTF-8 or is too long" },
        {item->language, "language is not valid UTF-8 or is too long"},
        {item->document, "document is not valid UTF-8 or is too long"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].value.size_bytes > SPSH_NAME_BYTES_MAX || !spsh__utf8_valid(names[i].value))
            return names[i].problem;
    }
    return NULL;
}

/* Whether the item must be rejected. ret_reject holds the reason. */
static bool item_refused(const spsh_ingest_item *item, spsh_reject *ret_reject)
{
    *ret_reject = (spsh_reject){.source = item->source, .id = item->id, .rows = 1};
    if (item->id.size_bytes == 0 || item->recording_id.size_bytes == 0 ||
        item->id.size_bytes > SPSH_ID_BYTES_MAX ||
        item->recording_id.size_bytes > SPSH_ID_BYTES_MAX) {
        ret_reject->reason = SPSH_REJECT_BAD_ID;
        ret_reject->detail = "the id is empty or longer than 4096 bytes";
    } else if (!spsh__utf8_valid(item->id) || has_control(item->id)) {
        ret_reject->reason = SPSH_REJECT_BAD_ID;
        ret_reject->detail = "the id is not valid UTF-8, or has control characters";
    } else if (item->text.size_bytes > SPSH_TEXT_BYTES_MAX) {
        ret_reject->reason = SPSH_REJECT_TEXT_TOO_LONG;
        ret_reject->detail = "the text is longer than 1 MiB";
    } else if (item->extras.size_bytes > SPSH_TEXT_BYTES_MAX) {
        ret_reject->reason = SPSH_REJECT_TEXT_TOO_LONG;
        ret_reject->detail = "the other columns together are longer than 1 MiB";
    } else if (!spsh__utf8_valid(item->text)) {
        ret_reject->reason = SPSH_REJECT_TEXT_INVALID_UTF8;
    } else {
        ret_reject->reason = SPSH_REJECT_ROW_SYNTAX;
        ret_reject->detail = name_problem(item);
        return ret_reject->detail != NULL;
    }
    return true;
}

/* Locate the sidecar and the audio. Returns 0 or an errno. The sidecar's path is copied to
 * text_path, because a view keeps only one piece's path. */
static int find_pieces(const spsh__scan *scan, spsh_ingest_item *item, char text_path[PATH_MAX])
{
    const spsh__view *view = scan->options->view;
    int os_errno = 0;
    if (item->text_path != NULL) {
        os_errno = spsh__view_locate_known(view, item->text_path, SPSH__PIECE_BYTES_UNKNOWN,
                                           &item->sidecar);
        const size_t size = os_errno == 0 ? strlen(item->sidecar.path) + 1 : 0;
        if (size > PATH_MAX)
            return ENAMETOOLONG;
        if (size > 0)
            item->sidecar.path = memcpy(text_path, item->sidecar.path, size);
    }
    if (os_errno != 0 || item->audio_path == NULL)
        return os_errno;
    return spsh__view_locate_known(view, item->audio_path, item->source_bytes, &item->audio);
}

spsh_status spsh__scan_emit(spsh__scan *scan, spsh_ingest_item *item, const spsh__row_place *place,
                            spsh_error *err)
{
    spsh_reject reject;
    char text_path[PATH_MAX];
    if (scan->strings.failed)
        return SPSH_NO_MEMORY(err);
    item->layout_domain = item->domain;
    apply_domain_rule(scan, item);
    if (item_refused(item, &reject))
        return spsh__scan_reject(scan, &reject, place, err);
    const int os_errno = find_pieces(scan, item, text_path);
    if (os_errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    if (os_errno != 0) {
        reject.reason = SPSH_REJECT_UNREADABLE;
        reject.detail = strerror(os_errno);
        return spsh__scan_reject(scan, &reject, place, err);
    }
    if (text_has_control(item->text)) {
        reject =
            (spsh_reject){.reason = SPSH_REJECT_TEXT_CONTROL_CHARS,
                          .source = item->source,
                          .id = item->id,
                          .detail = "the text has control characters or U+FEFF; kept as it is"};
        const spsh_status rc = spsh__scan_reject(scan, &reject, place, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return scan->sink->emit_fn(scan->sink->user, item, err);
}

spsh_status spsh__scan_note(const spsh__scan *scan, const char *note, spsh_error *err)
{
    return scan->sink->note_fn == NULL ? SPSH_OK : scan->sink->note_fn(scan->sink->user, note, err);
}

void spsh__scan_exclude(spsh__scan *scan, const spsh_ingest_item *item)
{
    scan->excluded_rows++;
    if (scan->sink->found_fn != NULL)
        scan->sink->found_fn(scan->sink->user, item);
}

spsh_status spsh__scan_reject(spsh__scan *scan, const spsh_reject *reject,
                              const spsh__row_place *place, spsh_error *err)
{
    spsh_reject full = *reject;
    if (scan->strings.failed)
        return SPSH_NO_MEMORY(err);
    full.offset_bytes = SPSH_OFFSET_NONE;
    if (place != NULL && place->line != 0) {
        full.line = place->line;
        full.offset_bytes = place->offset_bytes;
        full.excerpt = place->raw;
        if (full.source.size_bytes == 0)
            full.source = place->file;
    }
    if (full.excerpt.size_bytes > EXCERPT_BYTES_MAX)
        full.excerpt.size_bytes = EXCERPT_BYTES_MAX;
    return scan->sink->reject_fn(scan->sink->user, &full, err);
}

spsh_status spsh__scan_reject_commands(spsh__scan *scan, uint64_t count, spsh_bytes source,
                                       spsh_error *err)
{
    char detail[128];
    if (count == 0)
        return SPSH_OK;
    (void)snprintf(
        detail, sizeof(detail),
        "%" PRIu64 " commands were not run; the files that they read are packed unchanged", count);
    const spsh_reject reject = {
        .reason = SPSH_REJECT_COMMAND_SOURCE, .source = source, .detail = detail};
    return spsh__scan_reject(scan, &reject, NULL, err);
}

spsh_status spsh__scan_walk_note(void *user, spsh__walk_note note, const char *path, int os_errno,
                                 spsh_error *err)
{
    spsh__scan *scan = user;
    spsh_reject reject = {.source = spsh__bytes_of(path[0] == '\0' ? "." : path)};
    switch (note) {
    case SPSH__WALK_UNREADABLE:
        reject.reason = SPSH_REJECT_UNREADABLE;
        reject.detail = strerror(os_errno);
        break;
    case SPSH__WALK_LINK_NOT_TAKEN:
        reject.reason = SPSH_REJECT_EXCLUDED_BY_RULE;
        reject.detail = "a symbolic link to a folder, which is not followed; set follows_links "
                        "(--follow-links) to follow it";
        break;
    case SPSH__WALK_ALREADY_VISITED:
        reject.reason = SPSH_REJECT_EXCLUDED_BY_RULE;
        reject.detail = "this folder was already read under another name";
        break;
    }
    return spsh__scan_reject(scan, &reject, NULL, err);
}

spsh_status spsh__scan_progress(spsh__scan *scan, uint64_t files, spsh_error *err)
{
    const uint64_t before = scan->files_seen / PROGRESS_FILES;
    if (scan->strings.failed)
        return SPSH_NO_MEMORY(err);
    scan->files_seen += files;
    if (scan->sink->progress_fn == NULL || scan->files_seen / PROGRESS_FILES == before)
        return SPSH_OK;
    return scan->sink->progress_fn(scan->sink->user, scan->files_seen, err);
}

spsh_status spsh__scan_finish(spsh__scan *scan, spsh_error *err)
{
    if (scan->strings.failed)
        return SPSH_NO_MEMORY(err);
    if (scan->excluded_rows > 0) {
        char detail[96];
        (void)snprintf(detail, sizeof(detail),
                       "%" PRIu64 " utterances of splits that were not selected",
                       scan->excluded_rows);
        const spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                                    .source = spsh__bytes_of("."),
                                    .detail = detail};
        spsh_status rc = spsh__scan_reject(scan, &reject, NULL, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (scan->sink->rows_fn != NULL)
        scan->sink->rows_fn(scan->sink->user, scan->merged_rows,
                            scan->excluded_rows + scan->skipped_rows);
    scan->merged_rows = scan->excluded_rows = scan->skipped_rows = 0;
    if (scan->sink->progress_fn == NULL)
        return SPSH_OK;
    return scan->sink->progress_fn(scan->sink->user, scan->files_seen, err);
}

const char *spsh__reject_reason_text(spsh_reject_reason reason)
{
    switch (reason) {
#define SPSH_X(name_, text_)                                                                       \
    case SPSH_REJECT_##name_: return text_;
        SPSH_REJECT_MAP(SPSH_X)
#undef SPSH_X
    case SPSH_REJECT_COUNT: break;
    }
    return "unknown";
}
