/* copy_plan.c: read a plan from any input, and list the utterances that it drops.
 *
 * The first pass hashes everything except the last line, which has a fixed size. The second pass
 * reads the lines, even if the hash is wrong: the first malformed line is then the best error to
 * report. Ids go into one buffer, and entries refer to it by offset. At the end, entries are sorted
 * by dataset with a counting sort.
 */
#include "copy_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/hash.h"
#include "common/jsonl.h"
#include "speechshard/inside.h"

#define END_HEAD "{\"end\":\""
#define END_LINE_BYTES                                                                             \
    (sizeof(END_HEAD) - 1 + 32 + 3) /* the 3 bytes after the hash are: "}, line
                                                          feed */

enum {
    DATASETS_MAX = 4096,
    READ_BYTES = 1 << 18,
};

typedef struct drop {
    size_t dataset, kept_dataset;
    size_t id, id_bytes, kept_id, kept_id_bytes; /* offsets and sizes in texts */
    spsh_copy_tier tier;
    spsh_copy_class kind;
} drop;

struct spsh__copy_plan {
    uint8_t hash[16];
    spsh__copy_plan_source *datasets;
    size_t dataset_count;
    spsh__builder texts;
    drop *drops;
    size_t drop_count, drop_capacity;
};

/* The members of a line that the parser reads. */
#define WANTED_MAP(X)                                                                              \
    X(SCHEMA, "schema")                                                                            \
    X(TYPE, "type")                                                                                \
    X(DATASETS, "datasets")                                                                        \
    X(DATASET, "dataset")                                                                          \
    X(ID, "id")                                                                                    \
    X(DECISION, "decision")                                                                        \
    X(KEPT_DATASET, "kept.dataset")                                                                \
    X(KEPT_ID, "kept.id")                                                                          \
    X(CLASS, "class")                                                                              \
    X(TIER, "tier")                                                                                \
    X(END, "end")

enum {
#define SPSH_X(name_, text_) WANTED_##name_,
    WANTED_MAP(SPSH_X)
#undef SPSH_X
        WANTED_COUNT
};

static const char *const wanted_names[] = {
#define SPSH_X(name_, text_) text_,
    WANTED_MAP(SPSH_X)
#undef SPSH_X
};

static spsh_status fail_line(const spsh__text_input *input, const spsh__jsonl_line *line,
                             const char *why, spsh_error *err)
{
    spsh_error_set(err, SPSH_E_CORRUPT, 0, line->offset_bytes, "%s: line %" PRIu64 ": %s",
                   input->name, line->line, why);
    return SPSH_E_CORRUPT;
}

/* ---- values ---- */

static bool is_text(const spsh__json_value *value, const char *text)
{
    return value->kind == SPSH__JSON_STRING && value->raw.size_bytes == strlen(text) &&
           memcmp(value->raw.data, text, value->raw.size_bytes) == 0;
}

static bool parse_number(const spsh__json_value *value, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (value->kind != SPSH__JSON_NUMBER || value->raw.size_bytes == 0 ||
        value->raw.size_bytes > 18)
        return false;
    for (size_t i = 0; i < value->raw.size_bytes; i++) {
        const uint8_t digit = value->raw.data[i];
        if (digit < '0' || digit > '9')
            return false;
        number = number * 10 + (uint64_t)(digit - '0');
    }
    *ret_number = number;
    return number <= max;
}

static bool parse_hash(const spsh__json_value *value, uint8_t ret_hash[16])
{
    char text[33];
    if (value->kind != SPSH__JSON_STRING || value->raw.size_bytes != 32)
        return false;
    memcpy(text, value->raw.data, 32);
    text[32] = '\0';
    return spsh__hex128_parse(text, ret_hash);
}

/* Append the content of a string to texts. */
static bool take_text(spsh__copy_plan *plan, const spsh__json_value *value, size_t *ret_at,
                      size_t *ret_bytes)
{
    if (value->kind != SPSH__JSON_STRING)
        return false;
    *ret_at = plan->texts.size_bytes;
    spsh__json_unescape(value, &plan->texts);
    *ret_bytes = plan->texts.size_bytes - *ret_at;
    return *ret_bytes > 0 || plan->texts.failed;
}

static spsh_copy_tier parse_tier(const spsh__json_value *value)
{
    int tier = 0;
    while (tier < SPSH_TIER_COUNT && !is_text(value, spsh_copy_tier_text((spsh_copy_tier)tier)))
        tier++;
    return (spsh_copy_tier)tier;
}

static spsh_copy_class parse_class(const spsh__json_value *value)
{
    int kind = 0;
    while (kind < SPSH_COPY_CLASS_COUNT &&
           !is_text(value, spsh_copy_class_text((spsh_copy_class)kind)))
        kind++;
    return (spsh_copy_class)kind;
}

/* ---- lines ---- */

static const char *parse_dataset(spsh__copy_plan *plan, const spsh__json_value *element,
                                 spsh__copy_plan_source *dataset)
{
    static const char *const names[] = {"path", "id", "index_hash", "generation"};
    spsh__json_value values[4];
    spsh__builder path = {0};
    size_t offset = 0;
    if (element->kind != SPSH__JSON_OBJECT ||
        spsh__json_pick(element->raw, names, 4, values, NULL, &offset) != NULL)
        return "a dataset is not an object";
    if (values[0].kind != SPSH__JSON_STRING || !parse_hash(&values[1], dataset->id) ||
        !parse_hash(&values[2], dataset->index_hash) ||
        !parse_number(&values[3], UINT64_MAX, &dataset->generation))
        return "a dataset has no path, id, index_hash, or generation";
    spsh__json_unescape(&values[0], &path);
    const char *text = spsh__builder_text(&path);
    if (text == NULL) {
        plan->texts.failed = true;
        return NULL;
    }
    dataset->path = text; /* the dataset now owns the builder's memory */
    if (path.size_bytes == 0 || strlen(text) != path.size_bytes)
        return "a dataset has no valid path";
    return NULL;
}

static const char *parse_head(spsh__copy_plan *plan, const spsh__json_value *values)
{
    spsh_bytes rest = values[WANTED_DATASETS].raw;
    spsh__json_value element;
    const char *problem = NULL;
    if (values[WANTED_DATASETS].kind != SPSH__JSON_ARRAY)
        return "the plan has no datasets";
    plan->datasets = calloc(DATASETS_MAX, sizeof(*plan->datasets));
    if (plan->datasets == NULL) {
        plan->texts.failed = true;
        return NULL;
    }
    while (problem == NULL && spsh__json_array_next(&rest, &element)) {
        if (plan->dataset_count == DATASETS_MAX)
            return "there are more than 4096 datasets";
        problem = parse_dataset(plan, &element, &plan->datasets[plan->dataset_count++]);
    }
    return problem == NULL && plan->dataset_count == 0 ? "the plan has no datasets" : problem;
}

static const char *add_drop(spsh__copy_plan *plan, const spsh__json_value *values)
{
    uint64_t dataset = 0;
    uint64_t kept = 0;
    drop d = {.tier = parse_tier(&values[WANTED_TIER]), .kind = parse_class(&values[WANTED_CLASS])};
    if (!parse_number(&values[WANTED_DATASET], plan->dataset_count - 1, &dataset) ||
        !parse_number(&values[WANTED_KEPT_DATASET], plan->dataset_count - 1, &kept))
        return "a line names a dataset that the plan does not have";
    if (!take_text(plan, &values[WANTED_ID], &d.id, &d.id_bytes) ||
        !take_text(plan, &values[WANTED_KEPT_ID], &d.kept_id, &d.kept_id_bytes))
        return "an utterance has no id";
    if (d.tier >= SPSH_TIER_COUNT || !spsh__tier_may_drop(d.tier) ||
        (d.kind != SPSH_COPY_SAME_RECORDING && d.kind != SPSH_COPY_CONTAINED))
        return "an utterance is dropped for a reason that must not drop utterances";
    if (plan->texts.failed)
        return NULL;
    if (dataset == kept && d.id_bytes == d.kept_id_bytes &&
        memcmp(plan->texts.data + d.id, plan->texts.data + d.kept_id, d.id_bytes) == 0)
        return "an utterance is dropped as a copy of itself";
    d.dataset = (size_t)dataset;
    d.kept_dataset = (size_t)kept;
    if (!SPSH_GROW(plan->drops, plan->drop_capacity, plan->drop_count + 1)) {
        plan->texts.failed = true;
        return NULL;
    }
    plan->drops[plan->drop_count++] = d;
    return NULL;
}

static const char *parse_member(spsh__copy_plan *plan, const spsh__json_value *values)
{
    for (int i = 0; i < SPSH_DECISION_COUNT; i++) {
        if (is_text(&values[WANTED_DECISION], spsh_copy_decision_text((spsh_copy_decision)i)))
            return i == SPSH_DECISION_DROP ? add_drop(plan, values) : NULL;
    }
    return "a member has no decision";
}

/* Parse a line. Returns NULL, or the problem in words. */
static const char *parse_line(spsh__copy_plan *plan, const spsh__jsonl_line *line)
{
    static const char *const others[] = {"pair", "cluster", "boilerplate", "short"};
    const spsh__json_value *values = line->values;
    if (plan->datasets == NULL)
        return is_text(&values[WANTED_TYPE], "plan") ? parse_head(plan, values)
                                                     : "the line is not the first line of a plan";
    if (is_text(&values[WANTED_TYPE], "member"))
        return parse_member(plan, values);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (is_text(&values[WANTED_TYPE], others[i]))
            return NULL;
    }
    return "the line is not one of a plan";
}

static spsh_status read_line(spsh__copy_plan *plan, const spsh__text_input *input,
                             const spsh__jsonl_line *line, spsh_error *err)
{
    if (line->problem != NULL)
        return fail_line(input, line, line->problem, err);
    if (plan->datasets == NULL && line->values[WANTED_SCHEMA].kind == SPSH__JSON_STRING &&
        !is_text(&line->values[WANTED_SCHEMA], SPSH__COPY_PLAN_SCHEMA)) {
        const spsh_bytes schema = line->values[WANTED_SCHEMA].raw;
        return SPSH_FAIL(err, SPSH_E_VERSION, "%s: schema %.*s, but this version reads %s",
                         input->name, schema.size_bytes < 64 ? (int)schema.size_bytes : 64,
                         (const char *)schema.data, SPSH__COPY_PLAN_SCHEMA);
    }
    if (plan->datasets == NULL && line->values[WANTED_SCHEMA].kind != SPSH__JSON_STRING)
        return fail_line(input, line, "the line is not the first line of a plan", err);
    const char *problem = parse_line(plan, line);
    if (problem != NULL)
        return fail_line(input, line, problem, err);
    return plan->texts.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* ---- passes ---- */

/* Whether the last line is the end line of a plan, with the correct hash of the preceding bytes. */
static spsh_status check_hash(const spsh__text_input *input, uint64_t size_bytes,
                              uint8_t ret_hash[16], bool *ret_right, spsh_error *err)
{
    char end[END_LINE_BYTES + 1] = {0};
    uint8_t stated[16];
    size_t got = 0;
    spsh_status rc = SPSH_OK;
    *ret_right = false;
    if (size_bytes < END_LINE_BYTES)
        return SPSH_OK;
    const uint64_t hashed_bytes = size_bytes - END_LINE_BYTES;
    spsh__pack_hasher *hasher = spsh__pack_hasher_new();
    uint8_t *buffer = malloc(READ_BYTES);
    if (hasher == NULL || buffer == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (uint64_t at = 0; rc == SPSH_OK && at < hashed_bytes; at += got) {
        const uint64_t left = hashed_bytes - at;
        rc = input->read_at_fn(input->user, at, buffer,
                               left < READ_BYTES ? (size_t)left : READ_BYTES, &got, err);
        if (rc == SPSH_OK && got == 0)
            break; /* the file shrank, so the end line is missing */
        spsh__pack_hasher_add(hasher, (spsh_bytes){buffer, rc == SPSH_OK ? got : 0});
    }
    if (rc == SPSH_OK)
        rc = input->read_at_fn(input->user, hashed_bytes, end, END_LINE_BYTES, &got, err);
    if (rc == SPSH_OK) {
        spsh__pack_hasher_digest(hasher, ret_hash);
        const bool has_form = got == END_LINE_BYTES &&
                              memcmp(end, END_HEAD, sizeof(END_HEAD) - 1) == 0 &&
                              memcmp(end + END_LINE_BYTES - 3, "\"}\n", 3) == 0;
        end[END_LINE_BYTES - 3] = '\0';
        *ret_right = has_form && spsh__hex128_parse(end + sizeof(END_HEAD) - 1, stated) &&
                     memcmp(stated, ret_hash, 16) == 0;
    }
    spsh__pack_hasher_free(hasher);
    free(buffer);
    return rc;
}

static spsh_status read_lines(spsh__copy_plan *plan, const spsh__text_input *input, bool hash_right,
                              spsh_error *err)
{
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line = {0};
    bool has_ended = false;
    uint64_t last = 0;
    spsh_status rc = spsh__jsonl_reader_new(input, wanted_names, WANTED_COUNT, &reader, err);
    while (rc == SPSH_OK) {
        rc = spsh__jsonl_reader_next(reader, &line, err);
        if (rc != SPSH_OK)
            break;
        last = line.line;
        if (has_ended)
            rc = fail_line(input, &line, "continues after its end", err);
        else if (line.problem == NULL && line.values[WANTED_END].kind == SPSH__JSON_STRING)
            has_ended = true;
        else
            rc = read_line(plan, input, &line, err);
    }
    spsh__jsonl_reader_free(reader);
    if (rc != SPSH_E_END)
        return rc;
    if (!has_ended)
        return SPSH_FAIL(err, SPSH_E_TRUNCATED,
                         "%s: the file was cut off: it ends with line %" PRIu64
                         ", without the last line of a plan",
                         input->name, last);
    if (!hash_right)
        return SPSH_FAIL(
            err, SPSH_E_CORRUPT,
            "%s: line %" PRIu64
            ": the hash does not match the lines before it: the plan was changed or damaged",
            input->name, last);
    if (plan->datasets == NULL)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: not a plan: the first line is missing",
                         input->name);
    return SPSH_OK;
}

/* Sort the drops by dataset. Drops of one dataset keep the order of the plan. */
static spsh_status sort_drops(spsh__copy_plan *plan, spsh_error *err)
{
    uint64_t at = 0;
    drop *sorted = calloc(plan->drop_count + 1, sizeof(*sorted));
    if (sorted == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < plan->drop_count; i++)
        plan->datasets[plan->drops[i].dataset].drop_count++;
    for (size_t i = 0; i < plan->dataset_count; i++) {
        plan->datasets[i].first_drop = at;
        at += plan->datasets[i].drop_count;
        plan->datasets[i].drop_count = 0;
    }
    for (size_t i = 0; i < plan->drop_count; i++) {
        spsh__copy_plan_source *d = &plan->datasets[plan->drops[i].dataset];
        sorted[d->first_drop + d->drop_count++] = plan->drops[i];
    }
    free(plan->drops);
    plan->drops = sorted;
    return SPSH_OK;
}

spsh_status spsh__copy_plan_parse(const spsh__text_input *input, uint64_t size_bytes,
                                  spsh__copy_plan **ret_plan, spsh_error *err)
{
    bool hash_right = false;
    spsh__copy_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = check_hash(input, size_bytes, plan->hash, &hash_right, err);
    if (rc == SPSH_OK)
        rc = read_lines(plan, input, hash_right, err);
    if (rc == SPSH_OK)
        rc = sort_drops(plan, err);
    if (rc == SPSH_OK) {
        *ret_plan = plan;
        plan = NULL;
    }
    spsh__copy_plan_free(plan);
    return rc;
}

/* ---- files ---- */

typedef struct plan_file {
    const spsh_io *io;
    const char *path;
    int fd;
} plan_file;

static spsh_status read_file_at(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                                size_t *ret_size_bytes, spsh_error *err)
{
    const plan_file *f = user;
    size_t done = 0;
    while (done < size_bytes) {
        const int64_t got = f->io->pread_fn(f->io->user, f->fd, (uint8_t *)buffer + done,
                                            size_bytes - done, offset_bytes + done);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return SPSH_FAIL_OS(err, SPSH_E_IO, (int)-got, "%s: cannot read: %s", f->path,
                                strerror((int)-got));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    *ret_size_bytes = done;
    return SPSH_OK;
}

spsh_status spsh__copy_plan_open(const spsh_io *io, const char *path, spsh__copy_plan **ret_plan,
                                 spsh_error *err)
{
    plan_file file = {io, path, -1};
    const spsh__text_input input = {read_file_at, &file, path, 0};
    struct stat info;
    file.fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (file.fd < 0) {
        const spsh_status status = spsh_io_status(-file.fd);
        return SPSH_FAIL_OS(err, status, -file.fd, "%s: cannot open: %s", path, strerror(-file.fd));
    }
    spsh_status rc = SPSH_OK;
    const int failed = io->fstat_fn(io->user, file.fd, &info);
    if (failed < 0 || !S_ISREG(info.st_mode))
        rc = SPSH_FAIL(err, SPSH_E_IO, "%s: not a regular file", path);
    else
        rc = spsh__copy_plan_parse(&input, (uint64_t)info.st_size, ret_plan, err);
    (void)io->close_fn(io->user, file.fd);
    return rc;
}

void spsh__copy_plan_free(spsh__copy_plan *plan)
{
    if (plan == NULL)
        return;
    for (size_t i = 0; i < plan->dataset_count; i++) {
        char *path = NULL;
        memcpy(&path, &plan->datasets[i].path, sizeof(path)); /* owned by the plan; the struct
                                                                 declares it const for callers */
        free(path);
    }
    free(plan->datasets);
    spsh__builder_free(&plan->texts);
    free(plan->drops);
    free(plan);
}

const uint8_t *spsh__copy_plan_hash(const spsh__copy_plan *plan)
{
    return plan->hash;
}

size_t spsh__copy_plan_dataset_count(const spsh__copy_plan *plan)
{
    return plan->dataset_count;
}

const spsh__copy_plan_source *spsh__copy_plan_dataset(const spsh__copy_plan *plan, size_t dataset)
{
    return &plan->datasets[dataset];
}

spsh__plan_drop spsh__copy_plan_drop(const spsh__copy_plan *plan, uint64_t number)
{
    const drop *d = &plan->drops[number];
    return (spsh__plan_drop){
        .id = {plan->texts.data + d->id,      d->id_bytes     },
        .kept_dataset = d->kept_dataset,
        .kept_id = {plan->texts.data + d->kept_id, d->kept_id_bytes},
        .tier = d->tier,
        .kind = d->kind,
    };
}
