/* copies.c: the stages of detection. Each stage leaves a file in the work directory.
 *
 *     run            identity of the work: versions, data, and options, one per line
 *     exact          matches of the exact tiers
 *     candidates     pairs to compare
 *     judged-N       matches of block N of the candidates
 *
 * A stage is skipped if its file exists. Blocks of candidates are the units of work, which several
 * machines can share. The order of the candidates is deterministic, so block N is the same on every
 * machine. The last stage reads all files and sorts the matches. The result does not depend on
 * which machine wrote a file.
 */
#include "copies.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "candidate_groups.h"
#include "common/byte_builder.h"
#include "common/file_names.h"
#include "common/hash.h"
#include "copies_internal.h"
#include "fingerprint/real_fft.h"
#include "records/work_file.h"
#include "speechshard/inside.h"

enum {
    CANDIDATE_BYTES = 32,
    RUN_BYTES_MAX = 1 << 16,
    JOIN_FACTS = 5,
    JUDGE_FACTS = 3 + SPSH_COPY_CLASS_COUNT,
    LISTEN_AT_ONCE = 256, /* candidates between two checks of the watch */
};
static const spsh__align_limits *const limits = &spsh__align_limits_default;
#define SORT_MEMORY_MIN (UINT64_C(1) << 20)

typedef struct run {
    const spsh__print_set *set;
    const spsh__copies_options *options;
    const spsh_io *io;
    uint8_t hash[16];
    spsh__stand_ins stand_ins;
    spsh__judge *judge; /* NULL until the first block is judged */
    uint8_t *block;     /* buffer for one block of records */
    spsh__builder path;
    spsh__copies_facts facts;
} run;

/* Return WORK/name. The string is in run.path and is valid until the next call. */
static const char *path_of(run *r, const char *name)
{
    spsh__builder_clear(&r->path);
    spsh__builder_append_text(&r->path, r->options->work_path);
    spsh__builder_append_part(&r->path, name);
    return spsh__builder_text(&r->path);
}

/* ---- identity of the work ---- */

static void append_line(spsh__builder *text, const char *name, const char *value)
{
    spsh__builder_append_text(text, name);
    spsh__builder_append_text(text, " ");
    spsh__builder_append_text(text, value);
    spsh__builder_append_text(text, "\n");
}

static void append_hash(spsh__builder *text, const char *name, const uint8_t hash[16])
{
    char hex[33];
    spsh__hex128(hash, hex);
    append_line(text, name, hex);
}

/* Describe everything that the files depend on. Memory, threads, and parts do not count. */
static void describe_run(const run *r, spsh__builder *text)
{
    static const char *const modes[] = {"mild", "deep", "audit"};
    const spsh__copies_options *o = r->options;
    uint8_t hash[16];
    append_line(text, "work", "speechshard.copies/1");
    append_line(text, "version", spsh_version());
    append_line(text, "transforms", spsh__real_fft_library());
    spsh__print_set_hash(r->set, hash);
    append_hash(text, "datasets", hash);
    append_line(text, "search", o->exact_only ? "exact" : modes[o->mode]);
    append_line(text, "contours", (const char[2]){(char)('0' + o->contour_weak), '\0'});
    append_line(text, "speed-grid", o->speed_grid ? "yes" : "no");
    append_line(text, "confirm", o->confirm ? "yes" : "no");
    spsh__pack_hash128((spsh_bytes){(const uint8_t *)limits, sizeof(*limits)}, hash);
    append_hash(text, "thresholds", hash);
}

/* Fail with the first line in which the two descriptions differ. */
static spsh_status fail_other_run(const run *r, const char *ours, const char *theirs,
                                  spsh_error *err)
{
    size_t line = 0;
    for (size_t i = 0; ours[i] != '\0' && ours[i] == theirs[i]; i++)
        line = ours[i] == '\n' ? i + 1 : line;
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "%s: the folder holds the work of another run: '%.*s' there, '%.*s' now; "
                     "remove it, or set another work_path",
                     r->options->work_path, (int)strcspn(theirs + line, "\n"), theirs + line,
                     (int)strcspn(ours + line, "\n"), ours + line);
}

static spsh_status publish_run(const run *r, const spsh__builder *text, spsh_error *err)
{
    spsh_file_writer *writer = NULL;
    spsh_status rc =
        spsh_file_writer_open(r->io, r->options->work_path, "run", 0, NULL, &writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer, text->data, text->size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, err);
    spsh_file_writer_free(writer);
    return rc;
}

static spsh_status claim_directory(run *r, spsh_error *err)
{
    spsh__builder text = {0};
    spsh__builder other = {0};
    uint8_t *theirs = NULL;
    size_t theirs_bytes = 0;
    describe_run(r, &text);
    const char *ours = spsh__builder_text(&text);
    const char *path = path_of(r, "run");
    spsh_status rc = ours == NULL || path == NULL
                         ? SPSH_NO_MEMORY(err)
                         : spsh_io_make_directory(r->io, r->options->work_path, err);
    if (rc == SPSH_OK)
        rc = spsh_io_read_file(r->io, path, RUN_BYTES_MAX, NULL, &theirs, &theirs_bytes, err);
    spsh__builder_append(&other, theirs, theirs_bytes);
    free(theirs);
    if (rc == SPSH_E_NOT_FOUND)
        rc = publish_run(r, &text, err);
    else if (rc == SPSH_OK && spsh__builder_text(&other) == NULL)
        rc = SPSH_NO_MEMORY(err);
    else if (rc == SPSH_OK &&
             !spsh__bytes_equal(spsh__builder_bytes(&other), spsh__builder_bytes(&text)))
        rc = fail_other_run(r, ours, spsh__builder_text(&other), err);
    spsh__pack_hash128(spsh__builder_bytes(&text), r->hash);
    spsh__builder_free(&other);
    spsh__builder_free(&text);
    return rc;
}

/* ---- matches in files ---- */

typedef struct match_file {
    spsh__work_writer *writer;
    const spsh__stand_ins *stand_ins; /* NULL: all utterances of the matches take part */
} match_file;

static spsh_status write_match(void *user, const spsh__match *match, spsh_error *err)
{
    const match_file *f = user;
    uint8_t bytes[SPSH__MATCH_BYTES];
    spsh__match m = *match;
    if (f->stand_ins != NULL && !spsh__stand_ins_apply(f->stand_ins, &m))
        return SPSH_OK;
    spsh__match_encode(&m, bytes);
    return spsh__work_writer_add(f->writer, bytes, err);
}

static spsh_status ignore_match(void *user, const spsh__match *match, spsh_error *err)
{
    (void)user, (void)match, (void)err;
    return SPSH_OK;
}

/* Open the file of a stage. SPSH_E_NOT_FOUND if the stage has not run yet. */
static spsh_status open_work(run *r, const char *name, uint32_t record_bytes,
                             spsh__work_file *ret_file, spsh_error *err)
{
    const char *path = path_of(r, name);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh__work_file_open(r->io, path, r->hash, record_bytes, ret_file, err);
}

static spsh_status find_work(run *r, const char *name, uint32_t record_bytes, bool *ret_is_there,
                             spsh_error *err)
{
    spsh__work_file file;
    const spsh_status rc = open_work(r, name, record_bytes, &file, err);
    *ret_is_there = rc == SPSH_OK;
    if (rc == SPSH_OK)
        spsh__work_file_close(&file);
    return rc == SPSH_E_NOT_FOUND ? SPSH_OK : rc;
}

/* ---- exact tiers ---- */

static spsh_status run_exact(run *r, bool groups_only, spsh__match_sink sink,
                             spsh__exact_groups **ret_groups, spsh_error *err)
{
    const spsh__copies_options *o = r->options;
    const spsh__exact_options options = {
        .io = r->io,
        .temporary_path = o->work_path,
        .memory_bytes = o->memory_bytes,
        .threads = o->threads,
        .min_active_s = limits->active_min_s,
        .coverage_min = limits->coverage_min,
        .confirm = o->confirm,
        .groups_only = groups_only,
        .watch = o->watch,
    };
    return spsh__exact_find(r->set, &options, sink, ret_groups, err);
}

static spsh_status make_exact(run *r, spsh__exact_groups **ret_groups, spsh_error *err)
{
    match_file file = {NULL, NULL};
    spsh_status rc = spsh__work_writer_open(r->io, r->options->work_path, "exact", r->hash,
                                            SPSH__MATCH_BYTES, &file.writer, err);
    if (rc == SPSH_OK)
        rc = run_exact(r, false, (spsh__match_sink){write_match, &file}, ret_groups, err);
    if (rc == SPSH_OK)
        rc = spsh__work_writer_publish(file.writer, NULL, 0, err);
    spsh__work_writer_free(file.writer);
    return rc;
}

/* ---- candidates ---- */

static spsh_status write_candidates(run *r, spsh__key_join *join, spsh_error *err)
{
    spsh__work_writer *writer = NULL;
    spsh__candidate c;
    spsh__join_facts facts;
    spsh_status rc = spsh__work_writer_open(r->io, r->options->work_path, "candidates", r->hash,
                                            CANDIDATE_BYTES, &writer, err);
    while (rc == SPSH_OK) {
        uint8_t bytes[CANDIDATE_BYTES] = {0};
        rc = spsh__key_join_next(join, &c, err);
        if (rc != SPSH_OK)
            break;
        spsh__store_le(bytes, c.a, 8);
        spsh__store_le(bytes + 8, c.b, 8);
        spsh__store_le(bytes + 16, (uint64_t)c.offset, 8);
        spsh__store_le(bytes + 24, c.votes, 8);
        rc = spsh__work_writer_add(writer, bytes, err);
    }
    if (rc == SPSH_E_END) {
        spsh__key_join_facts(join, &facts);
        const uint64_t numbers[JOIN_FACTS] = {facts.key_count, facts.probe_count, facts.hit_count,
                                              facts.candidate_count, facts.crowded_count};
        rc = spsh__work_writer_publish(writer, numbers, JOIN_FACTS, err);
    }
    spsh__work_writer_free(writer);
    return rc;
}

static spsh_status make_candidates(run *r, const spsh__exact_groups *groups, spsh_error *err)
{
    const spsh__copies_options *o = r->options;
    const spsh__key_feed feed = {r->set, o, groups};
    const spsh__key_join_options options = {
        .mode = o->mode,
        .io = r->io,
        .temporary_path = o->work_path,
        .memory_bytes =
            o->memory_bytes < SPSH__JOIN_MEMORY_MIN ? SPSH__JOIN_MEMORY_MIN : o->memory_bytes,
        .threads = o->threads,
        .watch = o->watch,
    };
    spsh__key_join *join = NULL;
    spsh_status rc = spsh__key_join_open(&options, &join, err);
    if (rc == SPSH_OK)
        rc = spsh__key_feed_run(&feed, join, err);
    if (rc == SPSH_OK)
        rc = spsh__call_watch_check(r->options->watch, err);
    if (rc == SPSH_OK)
        rc = write_candidates(r, join, err);
    spsh__key_join_free(join);
    return rc;
}

/* Run the first two stages unless their files exist. */
static spsh_status make_pairs(run *r, spsh_error *err)
{
    spsh__exact_groups *groups = NULL;
    bool has_exact = false;
    bool has_candidates = r->options->exact_only; /* an exact-only search needs no candidates */
    spsh_status rc = SPSH_OK;
    if (!has_candidates)
        rc = find_work(r, "candidates", CANDIDATE_BYTES, &has_candidates, err);
    if (rc == SPSH_OK)
        rc = find_work(r, "exact", SPSH__MATCH_BYTES, &has_exact, err);
    if (rc == SPSH_OK && !has_exact)
        rc = make_exact(r, &groups, err);
    else if (rc == SPSH_OK && !has_candidates)
        rc = run_exact(r, true, (spsh__match_sink){ignore_match, NULL}, &groups, err);
    if (rc == SPSH_OK)
        rc = spsh__call_watch_check(r->options->watch, err);
    if (rc == SPSH_OK && !has_candidates)
        rc = make_candidates(r, groups, err);
    spsh__exact_groups_free(groups);
    return rc;
}

/* ---- comparison of candidates ---- */

static spsh_status open_judge(run *r, spsh_error *err)
{
    const spsh__judge_options options = {
        .limits = limits,
        .threads = r->options->threads,
        .memory_bytes = r->options->memory_bytes,
        .speed_grid = r->options->speed_grid,
    };
    return r->judge != NULL ? SPSH_OK : spsh__judge_open(r->set, &options, &r->judge, err);
}

static spsh_status read_candidates(run *r, const spsh__work_file *file, uint64_t number,
                                   spsh__candidate *candidates, size_t *ret_count, spsh_error *err)
{
    spsh_status rc = spsh__work_file_read(file, number, r->block, ret_count, err);
    for (size_t i = 0; rc == SPSH_OK && i < *ret_count; i++) {
        const uint8_t *at = r->block + i * CANDIDATE_BYTES;
        candidates[i] = (spsh__candidate){spsh__load_le(at, 8), spsh__load_le(at + 8, 8),
                                          (int64_t)spsh__load_le(at + 16, 8),
                                          (uint32_t)spsh__load_le(at + 24, 8)};
    }
    return rc;
}

/* Counts of the judge since `before`. */
static void judge_numbers(const run *r, const spsh__judge_facts *before,
                          uint64_t numbers[JUDGE_FACTS])
{
    spsh__judge_facts after;
    spsh__judge_facts_get(r->judge, &after);
    numbers[0] = after.judged_count - before->judged_count;
    numbers[1] = after.decoded_count - before->decoded_count;
    numbers[2] = after.frame_pairs - before->frame_pairs;
    for (size_t i = 0; i < SPSH_COPY_CLASS_COUNT; i++)
        numbers[3 + i] = after.by_class[i] - before->by_class[i];
}

/* Judge the candidates in small batches, so that the run can stop soon. */
static spsh_status listen(run *r, const spsh__work_file *file, uint64_t number,
                          const spsh__candidate *candidates, match_file *out, spsh_error *err)
{
    const spsh__copies_options *o = r->options;
    const uint64_t first = number * SPSH__WORK_BLOCK_RECORDS;
    const uint64_t remaining = file->record_count - first;
    const size_t count =
        remaining < SPSH__WORK_BLOCK_RECORDS ? (size_t)remaining : SPSH__WORK_BLOCK_RECORDS;
    spsh_status rc = SPSH_OK;
    for (size_t at = 0; at < count && rc == SPSH_OK; at += LISTEN_AT_ONCE) {
        const size_t left = count - at;
        spsh__call_watch_report(o->watch, "listen", first + at, file->record_count);
        rc = spsh__judge_run(r->judge, candidates + at,
                             left < LISTEN_AT_ONCE ? left : LISTEN_AT_ONCE,
                             (spsh__match_sink){write_match, out}, err);
        if (rc == SPSH_OK)
            rc = spsh__call_watch_check(r->options->watch, err);
    }
    return rc;
}

static spsh_status judge_block(run *r, const spsh__work_file *file, uint64_t number,
                               const char *name, spsh_error *err)
{
    match_file out = {NULL, &r->stand_ins};
    spsh__judge_facts before;
    uint64_t numbers[JUDGE_FACTS];
    size_t count = 0;
    spsh__candidate *candidates = malloc(SPSH__WORK_BLOCK_RECORDS * sizeof(*candidates));
    spsh_status rc = candidates == NULL ? SPSH_NO_MEMORY(err) : open_judge(r, err);
    if (rc == SPSH_OK)
        rc = read_candidates(r, file, number, candidates, &count, err);
    if (rc == SPSH_OK)
        rc = spsh__candidate_groups_sort(candidates, count, err);
    if (rc == SPSH_OK)
        rc = spsh__work_writer_open(r->io, r->options->work_path, name, r->hash, SPSH__MATCH_BYTES,
                                    &out.writer, err);
    if (rc == SPSH_OK) {
        spsh__judge_facts_get(r->judge, &before);
        rc = listen(r, file, number, candidates, &out, err);
    }
    if (rc == SPSH_OK) {
        judge_numbers(r, &before, numbers);
        rc = spsh__work_writer_publish(out.writer, numbers, JUDGE_FACTS, err);
    }
    spsh__work_writer_free(out.writer);
    free(candidates);
    return rc;
}

static void name_judged(uint64_t number, char ret_name[40])
{
    (void)snprintf(ret_name, 40, "judged-%08" PRIu64, number);
}

static spsh_status judge_part(run *r, const spsh__work_file *candidates, spsh_error *err)
{
    const spsh__copies_options *o = r->options;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = o->part; i < candidates->block_count && rc == SPSH_OK; i += o->part_count) {
        bool is_done = false;
        char name[40];
        name_judged(i, name);
        rc = find_work(r, name, SPSH__MATCH_BYTES, &is_done, err);
        if (rc == SPSH_OK && !is_done)
            rc = spsh__call_watch_check(o->watch, err);
        if (rc == SPSH_OK && !is_done)
            rc = judge_block(r, candidates, i, name, err);
    }
    return rc;
}

/* ---- result ---- */

/* Add the matches of a file to the sorter. On return *file is closed, but its counts stay valid. */
static spsh_status collect_file(run *r, const char *name, spsh_sorter *sorter,
                                spsh__work_file *file, spsh_error *err)
{
    spsh_status rc = open_work(r, name, SPSH__MATCH_BYTES, file, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t block = 0; block < file->block_count && rc == SPSH_OK; block++) {
        size_t count = 0;
        rc = spsh__work_file_read(file, block, r->block, &count, err);
        for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
            spsh__match match;
            rc = spsh__match_decode(r->block + i * SPSH__MATCH_BYTES, &match, err);
            if (rc == SPSH_OK)
                rc = spsh__collect_add(sorter, &match, err);
        }
    }
    spsh__work_file_close(file);
    return rc;
}

static spsh_status collect(run *r, const spsh__work_file *candidates, spsh__match_sink sink,
                           spsh_error *err)
{
    spsh_sorter_options options = SPSH_SORTER_OPTIONS_INIT;
    spsh_sorter *sorter = NULL;
    spsh__work_file file;
    uint64_t judged[JUDGE_FACTS] = {0};
    options.io = r->io;
    options.directory = r->options->work_path;
    options.memory_bytes = r->options->memory_bytes / 4;
    if (options.memory_bytes < SORT_MEMORY_MIN)
        options.memory_bytes = SORT_MEMORY_MIN;
    spsh_status rc = spsh_sorter_open(&options, &sorter, err);
    if (rc == SPSH_OK)
        rc = collect_file(r, "exact", sorter, &file, err);
    if (rc == SPSH_OK)
        r->facts.exact_count = file.record_count;
    for (uint64_t i = 0; i < candidates->block_count && rc == SPSH_OK; i++) {
        char name[40];
        name_judged(i, name);
        rc = collect_file(r, name, sorter, &file, err);
        for (size_t k = 0; k < JUDGE_FACTS && rc == SPSH_OK; k++)
            judged[k] += file.facts[k];
        if (rc == SPSH_E_NOT_FOUND)
            rc = SPSH_FAIL(err, SPSH_E_END, "%s: other parts are not finished",
                           r->options->work_path);
    }
    if (rc == SPSH_OK) {
        r->facts.join.key_count = candidates->facts[0];
        r->facts.join.candidate_count = candidates->facts[3];
        r->facts.judge.judged_count = judged[0];
        r->facts.judge.decoded_count = judged[1];
        r->facts.judge.frame_pairs = judged[2];
        rc = spsh__collect_send(sorter, sink, err);
    }
    spsh_sorter_free(sorter);
    return rc;
}

static spsh_status listen_and_collect(run *r, spsh__match_sink sink, spsh_error *err)
{
    const spsh__work_file none = {.fd = -1};
    spsh__work_file candidates;
    if (r->options->exact_only)
        return collect(r, &none, sink, err);
    const char *path = path_of(r, "candidates");
    char *own = path == NULL ? NULL : strdup(path); /* copy: r->path is reused for other paths while
                                                       the work file is open */
    if (own == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__work_file_open(r->io, own, r->hash, CANDIDATE_BYTES, &candidates, err);
    if (rc == SPSH_OK) {
        rc = judge_part(r, &candidates, err);
        if (rc == SPSH_OK)
            rc = collect(r, &candidates, sink, err);
        spsh__work_file_close(&candidates);
    }
    free(own);
    return rc;
}

spsh_status spsh__copies_find(const spsh__print_set *set, const spsh__copies_options *options,
                              spsh__match_sink sink, spsh__copies_facts *ret_facts, spsh_error *err)
{
    run r = {.set = set, .options = options, .io = options->io};
    r.block = malloc((size_t)SPSH__WORK_BLOCK_RECORDS * SPSH__MATCH_BYTES);
    spsh_status rc = r.block == NULL ? SPSH_NO_MEMORY(err) : claim_directory(&r, err);
    if (rc == SPSH_OK)
        rc = spsh__stand_ins_find(set, &r.stand_ins, &r.facts.undecoded_count, err);
    if (rc == SPSH_OK)
        rc = make_pairs(&r, err);
    if (rc == SPSH_OK)
        rc = listen_and_collect(&r, sink, err);
    if (rc == SPSH_OK)
        *ret_facts = r.facts;
    spsh__judge_close(r.judge);
    spsh__builder_free(&r.path);
    free(r.stand_ins.items);
    free(r.block);
    return rc;
}

/* Whether a run made the file, or a run that was killed left it as a temporary file. */
static bool is_ours(const char *name)
{
    static const char *const words[] = {"run", "exact", "candidates"};
    size_t length = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && length == 0; i++) {
        if (strncmp(name, words[i], strlen(words[i])) == 0)
            length = strlen(words[i]);
    }
    if (strncmp(name, "judged-", 7) == 0)
        length = 7 + strspn(name + 7, "0123456789");
    return length > 0 && (name[length] == '\0' || strncmp(name + length, ".tmp-", 5) == 0);
}

spsh_status spsh__copies_remove(const char *work_path, const spsh_io *io, spsh_error *err)
{
    spsh__builder path = {0};
    spsh_status rc = SPSH_OK;
    DIR *listing = opendir(work_path);
    if (listing == NULL)
        return SPSH_OK;
    const struct dirent *entry = NULL;
    while (rc == SPSH_OK && (entry = readdir(listing)) != NULL) { /* NOLINT: only one thread reads
                                                                     this directory */
        if (!is_ours(entry->d_name))
            continue;
        spsh__builder_clear(&path);
        spsh__builder_append_text(&path, work_path);
        spsh__builder_append_part(&path, entry->d_name);
        const char *text = spsh__builder_text(&path);
        const int failed = text == NULL ? -ENOMEM : io->unlink_fn(io->user, text);
        if (failed < 0 && failed != -ENOENT)
            rc = SPSH_FAIL(err, failed == -ENOMEM ? SPSH_E_NO_MEMORY : spsh_io_status(-failed),
                           "%s/%s: cannot remove: %s", work_path, entry->d_name, strerror(-failed));
    }
    (void)closedir(listing);
    spsh__builder_free(&path);
    if (rc == SPSH_OK)
        (void)io->rmdir_fn(io->user, work_path); /* fails if the directory holds other files, which
                                                    stay */
    return rc;
}
